"""A consumer group of KIP-848: production members and the production coordinator, their queues and their connections.

What is asked is safety (no partition is used by two members that the coordinator counts, every holder is unique, no
application is ended by an error) and liveness (undisturbed, every subscribed partition gets its user at last).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fsm.check.kafka.consumer import BROKER, FAR, GROUP, NOW, ConsumerModel, describe_message, omitted, topic_numbers
from fsm.check.kafka.replay import Replay
from fsm.check.model import (
    Choice,
    Component,
    Condition,
    Disturbance,
    Fault,
    Goal,
    Model,
    Property,
    Received,
    Step,
    Told,
    View,
    Wire,
)
from fsm.coordinator import coordinator as broker
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup, CurrentAssignment
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.coordinator.model.groups import NO_GROUPS
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Request
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.coordinator.storage.load import load
from fsm.errors import InputError
from fsm.member.dialect.dialect import dialect as member_dialect
from fsm.protocol.assignment import TopicNames
from fsm.protocol.codec import API_OF
from fsm.protocol.releases import LATEST
from fsm.tables.consumer_group import State

if TYPE_CHECKING:
    from fsm.check.model import Mask

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
TIMERS = {
    TimerKind.SESSION: ("expire", "session of {} expires"),
    TimerKind.REBALANCE: ("rebalance_timeout", "rebalance timeout of {} is over"),
}
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
    client: str = LATEST,
    coordinator: str = LATEST,
) -> Model:
    """Members of one dialect and their coordinator. Raises `InputError` for more members or partitions than it can."""
    if not 1 <= members <= len(NAMES):
        raise InputError(f"{members} members", "--members", f"give 1 to {len(NAMES)}")
    known = FrozenMap({name: Topic(f"{i:020d}AA", count) for i, (name, count) in enumerate(sorted(topics.items()))})
    bits = topic_numbers(dict(sorted(topics.items())))
    ids = {(known[name].topic_id, number): bit for (name, number), bit in bits.items()}
    names = TopicNames({topic.topic_id: name for name, topic in known.items()})
    spoken = member_dialect(client)
    consumers = [ConsumerModel(name, tuple(sorted(topics)), spoken, names) for name in NAMES[:members]]
    hub = _Coordinator(
        [one.name for one in consumers], ids, Context(NOW, coordinator_dialect(coordinator), SETTINGS, Image(known, 1))
    )
    tell = partial(describe_message, image_names=names)
    features = {
        "line": lambda queue: len(queue.line),
        "omitted": lambda queue: omitted((*queue.line, *queue.late), ids),
    }
    wires = []
    for one in consumers:
        wires.append(Wire(one.name, BROKER, REQUESTS, features=features, describe=tell))
        wires.append(Wire(BROKER, one.name, ANSWERS, features=features, describe=tell))
    group = _Group([one.name for one in consumers], (1 << len(bits)) - 1)
    return Model(
        f"consumer-group, {members} members of {client}, coordinator of {coordinator}, {_list(topics)}",
        [*(one.component(bits) for one in consumers), hub.component()],
        wires,
        group.properties(),
        group.goal(),
        {f"{one.name} is silent": group.silent(one.name) for one in consumers},
        {"W1": group.w1},
        ("crash", "expire", "failover", "leave", "poll_timeout", "rebalance_timeout", "rejoin"),
        lambda path: Replay(NAMES[:members], tuple(sorted(topics)), spoken, names, hub.context).along(path),
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
                return Step(_timeless(done.state), answers)
            case (TimerKind() as kind, str(who)) if (group := _group(state)) is not None:
                due = replace(group, timers=group.timers.set((kind, who), NOW, group.timers.epoch((kind, who))))
                return Step(_timeless(broker.handle_timer(state.with_group(due), self.context).state))
        return Step(_timeless(load(state, self.context).state))

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


class _Group:
    """What is asked of a whole group, over columns."""

    def __init__(self, names: Sequence[str], everything: int) -> None:
        self.names, self.everything = names, everything

    def properties(self) -> list[Property]:
        """What holds in every state."""
        return [
            Property(
                "held by the coordinator's book",
                self._client_safety,
                "what a member in good standing uses, the coordinator counts as held by it",
            ),
            Property(
                "one user",
                self._one_user,
                "no partition is used by two applications whose members are in good standing",
            ),
            Property("one holder", self._one_holder, "the coordinator counts no partition as held by two members"),
            Property("no application is ended", self._nobody_crashes, "no application is ended by an error"),
        ]

    def goal(self) -> Goal:
        """What can always be reached."""
        meaning = "undisturbed, everybody at last uses what it is assigned, and every partition is used"
        return Goal("the group settles", self._settled, ("rebalance_timeout",), meaning)

    def silent(self, name: str) -> Condition:
        """Whether nothing more is to be heard of a member."""

        def condition(view: View) -> Mask:
            quiet = (view.of(name, "silent") == 1) & (view.on(name, BROKER, "line") == 0)
            silent: Mask = (view.of(name, "ended") == 1) | quiet
            return silent

        return condition

    def _stands_well(self, view: View, name: str) -> Mask:
        """The coordinator knows the member, under the epoch that the client has, or had before."""
        epoch = view.of(name, "epoch")
        is_known = (epoch == view.of(BROKER, f"epoch {name}")) | (epoch == view.of(BROKER, f"previous {name}"))
        stands: Mask = (view.of(BROKER, f"member {name}") == 1) & (epoch > 0) & is_known
        return stands

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return ((one, other) for i, one in enumerate(self.names) for other in self.names[:i])

    def _client_safety(self, view: View) -> Mask:
        holds = np.ones(len(view), np.bool_)
        for name in self.names:
            stray = view.of(name, "using") & ~view.of(BROKER, f"held {name}")
            holds &= (stray == 0) | ~self._stands_well(view, name)
        return holds

    def _one_user(self, view: View) -> Mask:
        holds = np.ones(len(view), np.bool_)
        for one, other in self._pairs():
            both = (view.of(one, "using") & view.of(other, "using")) != 0
            holds &= ~(both & self._stands_well(view, one) & self._stands_well(view, other))
        return holds

    def _one_holder(self, view: View) -> Mask:
        holds = np.ones(len(view), np.bool_)
        for one, other in self._pairs():
            holds &= (view.of(BROKER, f"held {one}") & view.of(BROKER, f"held {other}")) == 0
        return holds

    def _nobody_crashes(self, view: View) -> Mask:
        holds = np.ones(len(view), np.bool_)
        for name in self.names:
            holds &= view.of(name, "crashed") == 0
        return holds

    def _settled(self, view: View) -> Mask:
        good = view.of(BROKER, "rests") == 1
        used, anybody = np.zeros(len(view), np.int64), np.zeros(len(view), np.bool_)
        for name in self.names:
            using, wants = view.of(name, "using"), view.of(name, "wants") == 1
            member = view.of(BROKER, f"member {name}") == 1
            has_it = using == view.of(BROKER, f"assigned {name}")
            has_it &= view.of(name, "epoch") == view.of(BROKER, f"epoch {name}")
            good &= (view.of(name, "rests") == 1) & np.where(wants, member & has_it, ~member)
            used |= np.where(wants, using, 0)
            anybody |= wants
        settled: Mask = good & (~anybody | (used == self.everything))
        return settled

    def w1(self, view: View) -> Mask:
        """What a report left out, because it was not used yet, is taken back and used, or is going to be."""
        stray_known, stray_other, begins = (np.zeros(len(view), np.bool_) for _ in range(3))
        for name in self.names:
            good, free = self._stands_well(view, name), ~view.of(BROKER, f"held {name}")
            omits = view.of(name, "omitted") | view.on(name, BROKER, "omitted") | view.on(BROKER, name, "omitted")
            stray = view.of(name, "using") & free
            stray_known |= good & (stray != 0)
            stray_other |= good & ((stray & ~omits) != 0)
            begins |= good & ((view.of(name, "begins") & free) != 0)
        return (stray_known & ~stray_other) | begins
