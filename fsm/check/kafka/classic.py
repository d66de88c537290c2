"""One consumer of the classic protocol as a component: `ClassicConsumerMember`, and an application that polls and uses.

As with a consumer of KIP-848 there is no clock: a timer is over or runs. What differs by time alone is equal. A member
may have had several ids, one after the other; the coordinator numbers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fsm.check.kafka.application import (
    BROKER,
    ENDED,
    FAR,
    GOES_ON_AFTER,
    GROUP,
    NOW,
    PASSES,
    App,
    Driven,
)
from fsm.check.model import Choice, Component, Missed, Received, Step, Undelivered
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.classic.heartbeat import NO_HEARTBEATS, Heartbeats
from fsm.member.classic.state import ClassicConfig, ClassicMember, Rest, UnsentClassicRequest, new_member
from fsm.member.events import (
    ApplicationEvent,
    AsyncPollEvent,
    BackgroundEvent,
    KafkaError,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicPartition
from fsm.protocol.messages import TIMED_OUT, HeartbeatRequest, JoinGroupRequest
from fsm.tables.classic_member import State

ASSIGNORS: dict[str, tuple[ClientAssignor, ...]] = {
    "eager": (RANGE,),
    "cooperative": (COOPERATIVE_STICKY,),
    "both": (RANGE, COOPERATIVE_STICKY),
}
"""`partition.assignment.strategy` of the members; the last one, Kafka's default, is eager."""
LONG_MS = 1_000_000_000
"""A poll timer that runs out only where the path says so."""
SESSION_MS = 1_800_000


class ClassicConsumer(NamedTuple):
    """A consumer of the classic protocol between two steps."""

    member: ClassicMember
    app: App = App.IDLE
    using: Partitions = ()
    """What the application takes records from: from the end of its assigned callback to the end of the removing one."""
    events: tuple[BackgroundEvent, ...] = ()
    """The background queue."""
    calling: BackgroundEvent | None = None
    """The event whose callback is under way."""
    beats: bool = False
    """A heartbeat is out."""


class _Shell(ClassicConsumerMember, Driven):
    """The production shell around a consumer that is a value."""

    def __init__(self, consumer: ClassicConsumer) -> None:
        super().__init__(consumer.member.config)
        self.member = consumer.member
        self._background.extend(consumer.events)
        if consumer.member.unsubscribing is not None:
            self._calls, self._waiting[1] = 1, (UnsubscribeEvent.__name__, NEVER)

    def _do(self, event: ApplicationEvent, now_ms: int) -> KafkaError | None:
        """Adds an event of a pass; the application's thread is the one that goes on with it."""
        self.report(event, now_ms)
        self._drain(now_ms)
        return None


def seen(app: App, member: ClassicMember, using: Partitions) -> tuple[Any, ...]:
    """What a consumer of the model and a live one have in common."""
    if app is App.DEAD:
        return (App.DEAD,)
    wants = member.rejoin_needed, member.join_out, member.awaited is None
    return (app, member.state, member.generation, member.owned, member.assigned, *wants, using)


def number_of(member_id: str) -> int:
    """Which of its client's ids an id is; -1 where it is none. The ids of `a` are `a0`, `a1`, before which a name may
    stand, or `a-0`, which is one for life.
    """
    digits = member_id.rpartition("-")[2].lstrip("abcdef")
    return int(digits) if digits else -1


class ClassicModel:
    """Makes the component of one consumer of the classic protocol."""

    def __init__(
        self, name: str, topics: tuple[str, ...], assignors: tuple[ClientAssignor, ...], counts: Mapping[str, int]
    ) -> None:
        self.name, self.topics = name, topics
        metadata = tuple(sorted(counts.items()))
        self.new = ClassicConsumer(replace(new_member(config(assignors)), coordinator_known=True, metadata=metadata))

    def component(self, bits: Mapping[TopicPartition, int]) -> Component:
        """`bits` numbers the partitions of masks."""

        def mask(found: Iterable[TopicPartition]) -> int:
            return sum(1 << bits[one] for one in found)

        features = {
            "epoch": lambda c: c.member.generation.generation_id,
            "id": lambda c: number_of(c.member.generation.member_id),
            "speaks": lambda c: 0 if c.app in ENDED else _speaks(c.member),
            "using": lambda c: mask(c.using),
            "uses": lambda c: mask(c.using),
            "begins": lambda _: 0,
            "omitted": lambda _: 0,
            "ended": lambda c: int(c.app in ENDED),
            "crashed": lambda c: int(c.app is App.CRASHED),
            "wants": lambda c: int(c.app is App.RUNNING),
            "left": lambda c: int(c.app is App.LEFT),
            "rests": lambda c: int(self._rests(c)),
        }
        return Component(self.name, self.new, self.choices, self.step, features, describe=describe)

    def _rests(self, consumer: ClassicConsumer) -> bool:
        """Whether it has nothing to do, as far as it knows."""
        if consumer.app in (*ENDED, App.LEFT, App.IDLE):
            return True
        member = consumer.member
        is_busy = consumer.events or consumer.calling or member.rejoin_needed or member.completion
        is_stable = consumer.app is App.RUNNING and member.state is State.STABLE
        return is_stable and not is_busy and consumer.using == member.owned

    def choices(self, consumer: ClassicConsumer) -> Iterable[Choice]:
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
        if member.heartbeats.enabled and not consumer.beats:
            yield Choice("heartbeat interval is over")
        if app is App.RUNNING:
            if member.heartbeats.enabled:
                yield Choice("poll timer runs out", disturbance="poll_timeout")
            yield Choice("is killed", disturbance="crash")

    def step(self, consumer: ClassicConsumer, given: Any) -> Step:
        """What an input does: a choice's label, an answer, or that there is none."""
        member, app = consumer.member, consumer.app
        if app in ENDED:
            return Step(consumer)
        if given == "is killed":
            return Step(self.new._replace(app=App.DEAD), hangs_up=True)
        if given == "heartbeat interval is over":
            member = replace(member, heartbeats=replace(member.heartbeats, heartbeat_due_ms=NOW))
        if given == "poll timer runs out":
            member = replace(member, heartbeats=replace(member.heartbeats, poll_due_ms=NOW))
        shell = _Shell(consumer._replace(member=member))
        app, using, calling = self._hand_in(shell, consumer, given)
        shell.turn()
        if given in PASSES:
            calling, error = shell.take_events(app)
            shell.turn()
            if error and error not in GOES_ON_AFTER:
                app, using, calling = App.CRASHED, (), None
        if app is App.LEAVING and shell.member.unsubscribing is None and calling is None:
            app = App.LEFT
        sent = [_unexplained(order) for order in shell.sent]
        beats = consumer.beats and not _ends_heartbeat(given)
        beats = beats or any(isinstance(order.body, HeartbeatRequest) for order in sent)
        after = ClassicConsumer(timeless(shell.member), app, using, shell.waiting_events, calling, beats)
        if app is App.CRASHED:
            return Step(after._replace(beats=False), broken=shell.broken, hangs_up=True)
        return Step(after, [(BROKER, order) for order in sent], shell.broken)

    def _hand_in(
        self, shell: _Shell, consumer: ClassicConsumer, given: Any
    ) -> tuple[App, Partitions, BackgroundEvent | None]:
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


def config(assignors: tuple[ClientAssignor, ...]) -> ClassicConfig:
    """The settings of members in models: no automatic commits, and time enough for live ones."""
    return ClassicConfig(
        GROUP,
        enable_auto_commit=False,
        max_poll_interval_ms=LONG_MS,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        assignors=assignors,
    )


def _speaks(member: ClassicMember) -> int:
    """The ids, as bits, that it has or was given in an answer that it has not read."""
    ids = {member.generation.member_id, "" if member.unread is None else member.unread[1].member_id}
    return sum(1 << number_of(one) for one in ids if one)


def _ends_heartbeat(given: Any) -> bool:
    match given:
        case Received(message=(order, _)) | Missed(message=(order, _)) | Undelivered(message=order):
            return isinstance(order.body, HeartbeatRequest)
    return False


def _unexplained(order: UnsentClassicRequest) -> UnsentClassicRequest:
    """The request without the words for a log that say why it is sent."""
    body = order.body
    return replace(order, body=replace(body, reason="")) if isinstance(body, JoinGroupRequest) else order


def timeless_heartbeats(beats: Heartbeats) -> Heartbeats:
    """Heartbeats that are due or not, of a member or a worker."""
    if not beats.enabled:
        return NO_HEARTBEATS
    due_ms = NOW if beats.heartbeat_due_ms <= NOW else FAR
    return replace(beats, heartbeat_due_ms=due_ms, session_due_ms=FAR, poll_due_ms=FAR, attempts=0)


def timeless(member: ClassicMember) -> ClassicMember:
    """The member with timers that run or are over, and without words for a log."""
    awaited = member.awaited
    if awaited is not None:
        awaited = replace(awaited, rest=_wordless(awaited.rest))
    return replace(
        member,
        heartbeats=timeless_heartbeats(member.heartbeats),
        in_flight=0,
        rejoin_reason=None if member.rejoin_reason is None else "",
        retry_due_ms=0,
        completion=_wordless(member.completion),
        awaited=awaited,
        unsubscribing=None if member.unsubscribing is None else 1,
    )


def _wordless(rest: Rest | None) -> Rest | None:
    return None if rest is None else Rest(rest.steps)


def describe(consumer: ClassicConsumer) -> str:
    """A consumer on one line."""
    member = consumer.member
    using = ", ".join(f"{topic}-{number}" for topic, number in consumer.using)
    generation = "no generation" if member.generation.is_reset else f"generation {member.generation.generation_id}"
    text = f"{member.state.name}, {generation}, uses {using or 'nothing'}"
    match consumer.calling:
        case PartitionsAssignedEvent():
            text += ", in its assigned callback"
        case PartitionsRemovedEvent(method=method):
            text += f", in its {method.name.lower()} callback"
    return text if consumer.app is App.RUNNING else f"{consumer.app.value}; {text}"
