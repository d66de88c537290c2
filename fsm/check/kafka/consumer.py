"""One consumer of KIP-848 as a component: `ConsumerMember` with its queues, and an application that polls and uses.

The state has no clock. A timer is over or runs; that it runs out is a choice. Everything else is the member's own code,
and a callback takes as long as it pleases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, ENDED, FAR, GOES_ON_AFTER, GROUP, NOW, PASSES, App, Driven
from fsm.check.model import Choice, Component, Missed, Received, Step, Undelivered
from fsm.errors import InputError
from fsm.member.consumer.invariants import INVARIANTS, Invariant, Status, broken
from fsm.member.consumer.predicates import ObservedStep
from fsm.member.consumer.state import Member, new_member
from fsm.member.consumer.step import Step as Done
from fsm.member.dialect.dialect import Dialect
from fsm.member.effects import MemberEffect
from fsm.member.events import (
    AsyncPollEvent,
    BackgroundEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import MemberInput
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicNames, TopicPartition, TopicPartitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import TIMED_OUT, ConsumerGroupHeartbeatRequest
from fsm.tables.consumer_member import State


class Consumer(NamedTuple):
    """A consumer between two steps."""

    member: Member
    app: App = App.IDLE
    using: Partitions = ()
    """What the application takes records from: from the end of its assigned callback to the end of the removing one."""
    events: tuple[BackgroundEvent, ...] = ()
    """The background queue."""
    calling: BackgroundEvent | None = None
    """The event whose callback is under way."""
    assignment: Partitions = ()
    generation: int = -1


class _Shell(ConsumerMember, Driven):
    """The production shell around a consumer that is a value."""

    def __init__(self, consumer: Consumer) -> None:
        member = consumer.member
        super().__init__(
            member.settings.config, member_id=member.member_id, now_ms=NOW, dialect=member.settings.dialect
        )
        self.member, self.assignment, self.generation = member, consumer.assignment, consumer.generation
        self._background.extend(consumer.events)
        if member.leaving.calls:
            self._calls, self._waiting[1] = 1, (UnsubscribeEvent.__name__, NEVER)
        self.observe = self._ask
        self._before, self._asked = self.member, asked_of(member.settings.dialect)

    def _ask(self, given: MemberInput, effects: tuple[MemberEffect, ...]) -> None:
        """Asks a step of the member for its invariants."""
        before, self._before = self._before, self.member
        if effects or self.member is not before:
            at = ObservedStep(before, given, Done(self.member, effects), outstanding=0)
            self.broken += [f"{one.name} {one.statement}" for one in broken(at) if one in self._asked]


def seen(app: App, member: Member, using: Partitions) -> tuple[Any, ...]:
    """What a consumer of the model and a live one have in common."""
    if app is App.DEAD:
        return (App.DEAD,)
    assigned = member.target.partitions, member.current.partitions
    return (app, member.state, member.epoch, *assigned, member.ownership, using)


@cache
def asked_of(spoken: Dialect) -> tuple[Invariant, ...]:
    """The invariants that every member of a dialect holds, whatever its callbacks do."""
    return tuple(one for one in INVARIANTS if one.status_in(spoken) is Status.HOLDS)


class ConsumerModel:
    """Makes the component of one consumer."""

    def __init__(self, name: str, topics: tuple[str, ...], dialect: Dialect, names: TopicNames) -> None:
        config = ConsumerConfig(GROUP, enable_auto_commit=False, request_timeout_ms=1_000, max_poll_interval_ms=4_000)
        self.name, self.topics = name, topics
        member = new_member(config, f"{name}-0", dialect, NOW)
        self.new = Consumer(
            _timeless(replace(member, client=replace(member.client, coordinator_known=True, metadata=names)))
        )

    def component(self, bits: Mapping[TopicPartition, int]) -> Component:
        """`bits` numbers the partitions of masks."""

        def mask(found: Iterable[TopicPartition]) -> int:
            return sum(1 << bits[one] for one in found)

        features = {
            "epoch": lambda c: c.member.epoch,
            "using": lambda c: mask(c.using),
            "begins": lambda c: 0 if c.member.run is None else mask(c.member.run.full) & ~mask(c.using),
            "omitted": lambda c: (1 << len(bits)) - 1 if c.member.sent is None else 0,
            "ended": lambda c: int(c.app in ENDED),
            "crashed": lambda c: int(c.app is App.CRASHED),
            "silent": lambda c: int(c.member.state in (State.STALE, State.UNSUBSCRIBED, State.FATAL)),
            "wants": lambda c: int(c.app is App.RUNNING),
            "rests": lambda c: int(self._rests(c)),
        }
        return Component(self.name, self.new, self.choices, self.step, features, describe=describe)

    def _rests(self, consumer: Consumer) -> bool:
        """Whether it has nothing to do, as far as it knows."""
        if consumer.app in (*ENDED, App.LEFT, App.IDLE):
            return True
        member = consumer.member
        is_busy = consumer.events or consumer.calling or member.run or member.awaited
        is_stable = consumer.app is App.RUNNING and member.state is State.STABLE
        return is_stable and not is_busy and consumer.using == member.ownership.owned

    def choices(self, consumer: Consumer) -> Iterable[Choice]:
        """What its application, its timers and the machine below it may do."""
        member, app = consumer.member, consumer.app
        if app in ENDED:
            return
        if app is App.IDLE:
            yield Choice("subscribes")
        if app is App.LEFT:
            yield Choice("subscribes", disturbance="rejoin")
        if app is App.RUNNING and consumer.calling is None:
            yield Choice("polls")
            yield Choice("unsubscribes", disturbance="leave")
        if app is App.LEAVING and consumer.calling is None and consumer.events:
            yield Choice("goes on")
        if consumer.calling is not None:
            yield Choice("returns from its callback")
        if member.heartbeat_due_ms > NOW or member.heartbeat_ready_ms > NOW:
            yield Choice("heartbeat interval is over")
        if app is App.RUNNING:
            if member.poll_due_ms > NOW and member.state is not State.UNSUBSCRIBED:
                yield Choice("poll timer runs out", disturbance="poll_timeout")
            yield Choice("is killed", disturbance="crash")

    def step(self, consumer: Consumer, given: Any) -> Step:
        """What an input does: a choice's label, an answer, or that there is none."""
        member, app = consumer.member, consumer.app
        if app in ENDED:
            return Step(consumer)
        if given == "is killed":
            return Step(self.new._replace(app=App.DEAD), hangs_up=True)
        if given == "heartbeat interval is over":
            member = replace(member, heartbeat_due_ms=NOW, heartbeat_ready_ms=NOW)
        if given == "poll timer runs out":
            member = replace(member, poll_due_ms=NOW)
        shell = _Shell(consumer._replace(member=member))
        app, using, calling = self._hand_in(shell, consumer, given)
        shell.turn()
        if given in PASSES:
            calling, error = shell.take_events(app)
            shell.turn()
            if error and error not in GOES_ON_AFTER:
                app, using, calling = App.CRASHED, (), None
        if app is App.LEAVING and shell.member.leaving.calls is None and calling is None:
            app = App.LEFT
        if given == "heartbeat interval is over" and not shell.sent:  # it is noted when it makes a heartbeat due
            return Step(consumer)
        kept = shell.assignment, shell.generation
        after = Consumer(_timeless(shell.member), app, using, shell.waiting_events, calling, *kept)
        if app is App.CRASHED:
            return Step(after, broken=shell.broken, hangs_up=True)
        return Step(after, [(BROKER, order) for order in shell.sent], shell.broken)

    def _hand_in(self, shell: _Shell, consumer: Consumer, given: Any) -> tuple[App, Partitions, BackgroundEvent | None]:
        """Tells the shell what happens; what the application does and uses, and the callback it is in."""
        app, using, calling = consumer.app, consumer.using, consumer.calling
        match given:
            case "subscribes":
                app = App.RUNNING
                shell.submit(TopicSubscriptionChangeEvent(self.topics, listener=True))
            case "polls":
                shell.submit(AsyncPollEvent())
            case "unsubscribes":
                app = App.LEAVING
                shell.submit(UnsubscribeEvent())
            case "returns from its callback" if calling is not None:
                using, calling = shell.end_callback(app, using, calling), None
            case Received(message=(order, answer)):
                shell.receive_answer(order, answer, 0.0, NOW)
            case Missed(message=(order, _)) | Undelivered(message=order):
                shell.receive_answer(order, TIMED_OUT, 0.0, NOW)
        return app, using, calling


def _timeless(member: Member) -> Member:
    """The member with timers that run or are over, and nothing more; its callers are numbered from 1."""
    calls = member.leaving.calls
    return replace(
        member,
        poll_due_ms=_over_or_far(member.poll_due_ms),
        heartbeat_due_ms=_over_or_far(member.heartbeat_due_ms),
        heartbeat_ready_ms=_over_or_far(member.heartbeat_ready_ms),
        heartbeat_attempts=min(member.heartbeat_attempts, 1),
        client=replace(member.client, metadata_moved=False),
        leaving=replace(member.leaving, calls=calls and tuple(range(1, len(calls) + 1))),
    )


def _over_or_far(at_ms: int) -> int:
    return NOW if at_ms <= NOW else FAR


def omitted(found: Iterable[Any], ids: dict[tuple[str, int], int]) -> int:
    """Partitions that reports under way leave out: of orders, or of (order, answer)."""
    left_out, everything = 0, (1 << len(ids)) - 1
    for one in found:
        order = one[0] if isinstance(one, tuple) and len(one) == 2 else one
        body = order.body
        if (
            isinstance(body, ConsumerGroupHeartbeatRequest)
            and body.topic_partitions is not None
            and body.member_epoch > 0
        ):
            left_out |= everything & ~sum(1 << ids[t, p] for t, numbers in body.topic_partitions for p in numbers)
    return left_out


def describe(consumer: Consumer) -> str:
    """A consumer on one line."""
    member = consumer.member
    using = ", ".join(f"{topic}-{number}" for topic, number in consumer.using)
    text = f"{member.state.name} at epoch {member.epoch}, uses {using or 'nothing'}"
    match consumer.calling:
        case PartitionsAssignedEvent():
            text += ", in its assigned callback"
        case PartitionsRemovedEvent(method=method):
            text += f", in its {method.name.lower()} callback"
    return text if consumer.app is App.RUNNING else f"{consumer.app.value}; {text}"


def describe_message(message: Any, image_names: Mapping[str, str]) -> str:
    """A request that is under way, or the answer to one, on one line."""
    if isinstance(message, tuple):
        _, answer = message
        if answer.error_code is not ErrorCode.NONE:
            return str(answer.error_code.name)
        given = answer.assignment
        told = "" if given is None else f", is assigned {show_partitions(given, image_names)}"
        return f"epoch {answer.member_epoch}{told}"
    body = message.body
    owned = "" if body.topic_partitions is None else f", owns {show_partitions(body.topic_partitions, image_names)}"
    what = {0: "joins", -1: "leaves"}.get(body.member_epoch, f"heartbeat at epoch {body.member_epoch}")
    return what + owned


def show_partitions(found: TopicPartitions, names: Mapping[str, str]) -> str:
    """Partitions of topic ids by the names of their topics."""
    return ", ".join(f"{names[topic_id]}-{n}" for topic_id, numbers in found for n in numbers) or "nothing"


def topic_numbers(topics: dict[str, int]) -> dict[TopicPartition, int]:
    """A number for each partition. Raises `InputError` where there are more than masks have bits."""
    if sum(topics.values()) > 62:
        raise InputError(f"{sum(topics.values())} partitions", "--topics", "give at most 62")
    found = [(name, number) for name, count in topics.items() for number in range(count)]
    return {one: i for i, one in enumerate(found)}
