"""A consumer group of KIP-848: production members and the production coordinator, their queues and their connections.

What is asked is safety (no partition is used by two members that the coordinator counts, every holder is unique, no
application is ended by an error) and liveness (undisturbed, every subscribed partition gets its user at last).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fsm.check.kafka.application import BROKER, FAR, GROUP, NOW, TIMERS
from fsm.check.kafka.consumer import ConsumerModel, asked_of, describe_message, omitted, topic_numbers
from fsm.check.kafka.questions import Questions
from fsm.check.kafka.replay import Cast, replay
from fsm.check.model import (
    Choice,
    Component,
    Disturbance,
    Fault,
    Model,
    Received,
    Step,
    Told,
    Wire,
)
from fsm.coordinator import coordinator as broker
from fsm.coordinator.consumer.invariants import INVARIANTS, Moment, broken
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup, CurrentAssignment
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import Dialect as CoordinatorDialect
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.coordinator.model.groups import NO_GROUPS
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Answer, Request
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.coordinator.storage.load import load
from fsm.errors import InputError
from fsm.member.consumer.invariants import INVARIANTS as MEMBER_INVARIANTS
from fsm.member.dialect.dialect import Dialect as MemberDialect
from fsm.member.dialect.dialect import dialect as member_dialect
from fsm.protocol.assignment import TopicNames
from fsm.protocol.codec import API_OF
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest
from fsm.protocol.releases import LATEST
from fsm.tables.consumer_group import State

NAMES = "abcdef"
"""Of the members."""
OLD = NOW - 10_000_000_000
SETTINGS = BrokerConfig(
    group_consumer_session_timeout_ms=3_000,
    group_consumer_min_session_timeout_ms=3_000,
    group_consumer_heartbeat_interval_ms=500,
    group_consumer_min_heartbeat_interval_ms=500,
    group_consumer_assignment_interval_ms=0,
)
REQUESTS = (Disturbance("lose", Fault.LOSE, Told.SENDER), Disturbance("late", Fault.LATE, Told.SENDER))
ANSWERS = (Disturbance("unanswered", Fault.LOSE, Told.RECEIVER),)
NOT_MODELLED = (
    "commits and auto-commit",
    "callbacks that raise",
    "static members",
    "pattern subscriptions",
    "topics that are created or deleted",
    "close()",
    "the assignment interval",
    "the search for the coordinator",
)


def consumer_group(
    members: int = 2,
    topics: Mapping[str, int] = FrozenMap({"foo": 2}),
    client: str | MemberDialect = LATEST,
    coordinator: str | CoordinatorDialect = LATEST,
) -> Model:
    """Members of one dialect and their coordinator. Raises `InputError` for more members or partitions than it can."""
    if not 1 <= members <= len(NAMES):
        raise InputError(f"{members} members", "--members", f"give 1 to {len(NAMES)}")
    known = FrozenMap({name: Topic(f"{i:020d}AA", count) for i, (name, count) in enumerate(sorted(topics.items()))})
    bits = topic_numbers(dict(sorted(topics.items())))
    ids = {(known[name].topic_id, number): bit for (name, number), bit in bits.items()}
    names = TopicNames({topic.topic_id: name for name, topic in known.items()})
    spoken = member_dialect(client) if isinstance(client, str) else client
    rules = coordinator_dialect(coordinator) if isinstance(coordinator, str) else coordinator
    consumers = [ConsumerModel(name, tuple(sorted(topics)), spoken, names) for name in NAMES[:members]]
    hub = _Coordinator([one.name for one in consumers], ids, Context(NOW, rules, SETTINGS, Image(known, 1)))
    tell = partial(describe_message, image_names=names)
    features = {
        "line": lambda queue: len(queue.line),
        "omitted": lambda queue: omitted((*queue.line, *queue.late), ids),
    }
    wires = []
    for one in consumers:
        wires.append(Wire(one.name, BROKER, REQUESTS, features=features, describe=tell))
        wires.append(Wire(BROKER, one.name, ANSWERS, features=features, describe=tell))
    group = Questions([one.name for one in consumers], (1 << len(bits)) - 1)
    return Model(
        f"consumer-group, {members} members of {spoken.name}, coordinator of {rules.name}, {_list(topics)}",
        [*(one.component(bits) for one in consumers), hub.component()],
        wires,
        group.properties(),
        group.goal(),
        {f"{one.name} is silent": group.silent(one.name) for one in consumers},
        {"W1": group.w1},
        ("crash", "expire", "failover", "leave", "poll_timeout", "rebalance_timeout", "rejoin"),
        partial(replay, Cast(NAMES[:members], tuple(sorted(topics)), spoken, names, hub.context)),
        [*(f"{one.name} {one.statement}" for one in asked_of(spoken)), *(name for name, _ in INVARIANTS)],
        [f"{one.name} {one.statement}" for one in MEMBER_INVARIANTS if one not in asked_of(spoken)],
        NOT_MODELLED,
    )


def _list(topics: Mapping[str, int]) -> str:
    return ", ".join(f"{name} with {count} partitions" for name, count in sorted(topics.items()))


class _Coordinator:
    """The coordinator as a component; it has no clock, as the members have none."""

    def __init__(self, names: Sequence[str], ids: Mapping[tuple[str, int], int], context: Context) -> None:
        self.names, self.ids, self.context = names, ids, context

    def component(self) -> Component:
        """Its features tell of each member: whether it is one, its epochs, what it holds and was assigned."""
        features: dict[str, Any] = {"rests": _rests}
        for name in self.names:
            for feature in ("member", "epoch", "previous", "held", "assigned"):
                features[f"{feature} {name}"] = partial(self._feature, name, feature)
        return Component(BROKER, Coordinator(), self.choices, self.step, features, describe=self.describe)

    def _feature(self, name: str, feature: str, state: Coordinator) -> int:
        group = _group(state)
        member = None if group is None else group.members.get(_id(name))
        if member is None:
            return {"epoch": -9, "previous": -9}.get(feature, 0)
        current: CurrentAssignment = member.current
        match feature:
            case "member":
                return 1
            case "epoch":
                return current.epoch
            case "previous":
                return current.previous_epoch
        found = current.held if feature == "held" else (one for one, _ in current.assigned)
        return sum(1 << self.ids[one] for one in found)

    def choices(self, state: Coordinator) -> Iterable[Choice]:
        """Its timers may run out, and another broker may take over."""
        group = _group(state)
        if group is None:
            return
        for (kind, who), _, epoch in group.timers.in_order():
            if kind in TIMERS and not (kind is TimerKind.REBALANCE and group.members[who].epoch != epoch):
                disturbance, told = TIMERS[kind]
                name = who.partition("-")[0]
                excuse = f"{name} is silent" if kind is TimerKind.SESSION else ""
                yield Choice(told.format(name), (kind, who), disturbance, excuse)
        yield Choice("fails over", disturbance="failover")

    def step(self, state: Coordinator, given: Any) -> Step:
        """A request, a timer that runs out, a fail-over."""
        match given:
            case Received(sender, order, late):
                request = Request(0, sender, "/127.0.0.1", API_OF[type(order.body)].newest, order.body, "")
                done = broker.handle(state, request, self.context)
                answers = [] if late else [(sender, (order, answer.body)) for answer in done.answers]
                sent = order.body if isinstance(order.body, ConsumerGroupHeartbeatRequest) else None
                asked = self._ask(state, done.state, sent, done.answers[0] if done.answers else None)
                return Step(_timeless(done.state), answers, asked)
            case (TimerKind() as kind, str(who)) if (group := _group(state)) is not None:
                due = replace(group, timers=group.timers.set((kind, who), NOW, group.timers.epoch((kind, who))))
                after = broker.handle_timer(state.with_group(due), self.context).state
                return Step(_timeless(after), (), self._ask(state, after))
        after = load(state, self.context).state
        return Step(_timeless(after), (), self._ask(state, after))

    def _ask(
        self,
        before: Coordinator,
        after: Coordinator,
        sent: ConsumerGroupHeartbeatRequest | None = None,
        answer: Answer | None = None,
    ) -> list[str]:
        """Which of the coordinator's invariants a step breaks."""
        group = _group(after)
        return (
            [] if group is None else broken(Moment(_group(before), group, self.context, sent, answer), held_before=True)
        )

    def describe(self, state: Coordinator) -> str:
        """The group on one line."""
        group = _group(state)
        if group is None:
            return "no group"
        told = []
        for who, member in group.members.items():
            current = member.current
            held = _partitions(self.context.image, (one for one, _ in current.assigned))
            pending = _partitions(self.context.image, (one for one, _ in current.pending))
            told.append(
                f"{who.partition('-')[0]} {current.state.name} at {current.epoch}: {held}"
                + (f", to give up {pending}" if current.pending else "")
            )
        return f"{group.state.name}, epoch {group.epoch}, target {group.target_epoch}; " + "; ".join(told)


def _partitions(image: Image, found: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{image.names[topic_id]}-{number}" for topic_id, number in sorted(found)) or "nothing"


def _id(name: str) -> str:
    return f"{name}-0"


def _group(state: Coordinator) -> ConsumerGroup | None:
    group = state.groups.get(GROUP)
    return group if isinstance(group, ConsumerGroup) else None


def _rests(state: Coordinator) -> int:
    group = _group(state)
    return int(group is None or group.state in (State.STABLE, State.EMPTY))


def _timeless(state: Coordinator) -> Coordinator:
    """The coordinator with timers that run, in a fixed order."""
    group = _group(state)
    if group is None:
        return Coordinator()
    running = sorted((kind.value, who, kind, epoch) for (kind, who), _, epoch in group.timers.in_order())
    timers = Deadlines(((kind, who), FAR, epoch) for _, who, kind, epoch in running)
    target_ms = group.target_time_ms and OLD
    return Coordinator(NO_GROUPS.set(replace(group, timers=timers, target_time_ms=target_ms)))
