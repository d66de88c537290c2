"""One consumer of the classic protocol as a component: `ClassicConsumerMember`, and an application that polls and uses.

As for a consumer of KIP-848 there is no clock: a timer is running or expired, and states that differ only by time are
equal. A member may have had several ids, one after the other; the coordinator numbers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fsm.check.kafka.application import (
    BROKER,
    CLOSE_OVER,
    CLOSES_EMPTY,
    ENDED,
    FAR,
    GOES_ON_AFTER,
    GROUP,
    INTERRUPTED,
    NOW,
    PASSES,
    RAISES,
    SUBSCRIBED,
    App,
    Driven,
    choices_of_application,
)
from fsm.check.kafka.classic.shell import ClassicConsumer, Shell, interrupt, list_pending
from fsm.check.kafka.consumer.member import FIND, MemberModel, Setting, ends_search
from fsm.check.kafka.descriptions import describe_application
from fsm.check.kafka.looks import look_at_classic
from fsm.check.kafka.topics import Topics, mask
from fsm.check.model import Choice, Component, Missed, Received, Step, Undelivered
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.classic.decisions import find_rejoin_cause
from fsm.member.classic.heartbeat import NO_HEARTBEATS, Heartbeats
from fsm.member.classic.state import ClassicConfig, ClassicMember, RemainingSteps, UnsentClassicRequest, new_member
from fsm.member.dialect.choices import Choice as Rule
from fsm.member.dialect.dialect import Dialect
from fsm.member.events import BackgroundEvent
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, among, partitions, without
from fsm.protocol.messages import HeartbeatRequest, JoinGroupRequest
from fsm.tables.classic_member import REBALANCING, TABLE, State

ASSIGNORS: dict[str, tuple[ClientAssignor, ...]] = {
    "eager": (RANGE,),
    "cooperative": (COOPERATIVE_STICKY,),
    "both": (RANGE, COOPERATIVE_STICKY),
    "either": (COOPERATIVE_STICKY, RANGE),
}
"""`partition.assignment.strategy` of the members; a member with both is eager, and `both` is Kafka's default."""
IDS_OF_A_LIFE = 8
"""The maximum number of member ids of a process."""
LONG_MS = 1_000_000_000
"""A poll timer that expires only if the path says so."""
SESSION_MS = 1_800_000
SESSION_OVER = "session timer runs out"
"""The coordinator has said nothing for the session timeout: the client takes it for lost, and searches."""


CALLBACK_INTERRUPTED = "is interrupted in its callback"


@dataclass(frozen=True, slots=True)
class Order:
    """A request to the coordinator with the number of the process that sent it: its response may arrive much later."""

    life: int
    sent: UnsentClassicRequest

    @property
    def body(self) -> Any:
        return self.sent.body


def number_of(member_id: str) -> int:
    """The number of an id among its client's; -1 for another id.

    The ids of `a` are `a0`, `a1`, with an optional prefix, or `a-0`, `a-1`, one per process, which counts as
    `IDS_OF_A_LIFE` ids.
    """
    before, _, last = member_id.rpartition("-")
    digits = last.lstrip("abcdef")
    if not digits:
        return -1
    return IDS_OF_A_LIFE * int(digits) if len(before) == 1 and last == digits else int(digits)


class ClassicModel(MemberModel):
    """Makes the component of one consumer of the classic protocol."""

    def __init__(
        self, name: str, setting: Setting, dialect: Dialect, assignors: tuple[ClientAssignor, ...], known: Topics
    ) -> None:
        super().__init__(name, setting, known)
        self.interrupted_is_called = Rule.INTERRUPTED_IS_CALLED in dialect
        self.config = config(name, setting, assignors)
        self.new = ClassicConsumer(replace(new_member(self.config), coordinator_known=True, metadata=self.metadata(())))

    def start(self, life: int) -> ClassicConsumer:
        return self.new._replace(life=life)

    def metadata(self, changes: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """The partition counts that its client knows after these changes."""
        return tuple(sorted(self.known.counts(changes).items()))

    def component(self) -> Component:
        """The component; its features are those of a KIP-848 consumer, and the member ids of its requests."""
        bits = self.known.bits
        features = {
            "life": lambda c: c.life,
            "epoch": lambda c: c.member.generation.generation_id,
            "id": lambda c: number_of(c.member.generation.member_id),
            "name": lambda c: 0 if c.app in ENDED else _name(c.member.generation.member_id),
            "speaks": lambda c: 0 if _is_silent(c) else _speaks(c.member),
            "using": lambda c: mask(c.using, bits),
            "subscribed": lambda c: self.known.mask_topics(c.member.topics or ()),
            "uses": lambda c: mask(c.using, bits),
            "begins": lambda _: 0,
            "omitted": lambda _: 0,
            "keeps": lambda c: _keeps_too_long(c.member),
            "ended": lambda c: c.app in ENDED,
            "crashed": lambda c: c.app is App.CRASHED,
            "wants": lambda c: c.app in SUBSCRIBED,
            "left": lambda c: c.app is App.LEFT,
            "rests": self._rests,
        }
        return Component(
            self.name,
            self.new,
            self.choices,
            self.step,
            features,
            describe=describe,
            look=look_at_classic,
            role="member",
            tables=(TABLE,),
        )

    def _rests(self, consumer: ClassicConsumer) -> bool:
        """Whether the consumer is idle as far as it knows."""
        if consumer.app in (*ENDED, App.LEFT, App.IDLE):
            return True
        member = consumer.member
        if consumer.app is App.HUNG:
            return _is_silent(consumer)
        joins = member.rejoin_needed or find_rejoin_cause(member) is not None
        is_busy = consumer.events or consumer.calling or joins or member.completion
        is_stable = consumer.app is App.RUNNING and member.state is State.STABLE and member.coordinator_known
        return is_stable and not is_busy and consumer.using == member.owned

    def choices_alive(self, consumer: ClassicConsumer) -> Iterable[Choice]:
        member, app = consumer.member, consumer.app
        changes, waits = self.setting.fewer not in ((), member.topics), bool(consumer.events)
        of_app = choices_of_application(app, consumer.calling, consumer.using, waits=waits, otherwise=changes)
        yield from (one for one in of_app if one.label != INTERRUPTED)  # it waits for no answer
        if app is App.RUNNING and consumer.calling is not None:
            yield Choice(CALLBACK_INTERRUPTED, disturbance="interrupted")
        if app is App.CLOSING and consumer.calling is None and member.closing and member.closing.due_ms > NOW:
            yield Choice(CLOSE_OVER, disturbance="close_timeout")
        if not member.heartbeats.enabled or not member.coordinator_known:
            return
        if not consumer.beats and member.heartbeats.heartbeat_due_ms != NEVER:
            yield Choice("heartbeat interval is over")
        if member.in_flight == 0:
            yield Choice(SESSION_OVER, disturbance="session_timeout")
        if app in (*SUBSCRIBED, App.LEAVING, App.HUNG):
            yield Choice("poll timer runs out", disturbance="" if app is App.HUNG else "poll_timeout")

    def find_end(self, given: Any) -> Any:
        """The input; for an interrupt within a callback that counts as called, that the callback raises."""
        return RAISES if given == CALLBACK_INTERRUPTED and self.interrupted_is_called else given

    def take(self, consumer: ClassicConsumer, given: Any) -> Step:
        given = self.find_end(given)
        member = _let_pass(consumer.member, given)
        shell = Shell(consumer._replace(member=member), searches=self.setting.searches)
        app, using, calling = self.hand_in(shell, consumer, given)
        shell.turn()
        if given in PASSES and not shell.closed:
            calling, error = shell.take_events(app)
            shell.turn()
            if error and error not in GOES_ON_AFTER:
                app, using, calling = App.CRASHED, (), None
            elif calling is None and app is App.RUNNING:
                using = partitions((*using, *shell.fetchable(checked=True)))
        pending = among(shell.member.owned, consumer.pending)
        if given == CALLBACK_INTERRUPTED:
            pending = list_pending(shell.member)
        if app is App.RUNNING:  # no callback says what an interrupted member does not get back
            using = without(among(shell.member.owned, using), pending)
        app = shell.after_commit(app, is_member=False)
        if app is App.LEAVING and shell.member.unsubscribing is None and calling is None:
            app = App.LEFT
        sent: list[tuple[str, Any]] = [(BROKER, Order(consumer.life, _without_reason(order))) for order in shell.sent]
        if shell.closed:
            shell.broken += [CLOSES_EMPTY] if using and calling is None else []
            return Step(self.start(consumer.life)._replace(app=App.CLOSED), sent, shell.broken)
        beats = consumer.beats and not _ends_heartbeat(consumer, given)
        beats = beats or any(isinstance(order.body, HeartbeatRequest) for order in shell.sent)
        asked = consumer.searching and not ends_search(given)
        seeks = shell.searches and shell.seeks_coordinator
        sent += [(BROKER, FIND)] if seeks and not asked else []
        after = ClassicConsumer(
            timeless(shell.member),
            app,
            using,
            shell.waiting_events,
            calling,
            beats,
            consumer.life,
            asked or seeks,
            pending,
        )
        if app is App.CRASHED:
            return Step(after._replace(beats=False, searching=False), broken=shell.broken, hangs_up=True)
        return Step(after, sent, shell.broken)

    def hand_in(self, shell: Any, consumer: Any, given: Any) -> tuple[App, Partitions, BackgroundEvent | None]:
        if given != CALLBACK_INTERRUPTED:
            return super().hand_in(shell, consumer, given)
        shell.member = interrupt(shell.member)
        return consumer.app, consumer.using, None

    def end_request(self, shell: Driven, consumer: ClassicConsumer, order: Order, answer: Any) -> None:
        if order.life == consumer.life:
            shell.receive_answer(order.sent, answer, 0.0, NOW)


def _keeps_too_long(member: ClassicMember) -> bool:
    """Whether an eager member takes part in a rebalance with partitions: it was interrupted as it gave them up."""
    return member.state in REBALANCING and bool(member.owned) and not member.config.is_cooperative


def _is_silent(consumer: ClassicConsumer) -> bool:
    """Whether its member sends nothing more; one that has left does when it subscribes again, at any later time."""
    hangs = consumer.app is App.HUNG and not consumer.member.heartbeats.enabled
    return hangs or consumer.app in (*ENDED, App.LEFT)


def _let_pass(member: ClassicMember, given: Any) -> ClassicMember:
    """The member after a timer has expired, if the input is a timer."""
    if given == "heartbeat interval is over":
        return replace(member, heartbeats=replace(member.heartbeats, heartbeat_due_ms=NOW))
    if given == SESSION_OVER:
        return replace(member, heartbeats=replace(member.heartbeats, session_due_ms=NOW))
    if given == CLOSE_OVER and member.closing is not None:
        return replace(member, closing=replace(member.closing, due_ms=NOW))
    if given == "poll timer runs out":
        return replace(member, heartbeats=replace(member.heartbeats, poll_due_ms=NOW))
    return member


def config(name: str, setting: Setting, assignors: tuple[ClientAssignor, ...]) -> ClassicConfig:
    """The settings of members in models, with timeouts that are long enough for replays."""
    return ClassicConfig(
        GROUP,
        group_instance_id=f"{name}-instance" if setting.static else None,
        enable_auto_commit=setting.commits,
        max_poll_interval_ms=LONG_MS,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        assignors=assignors,
    )


def _name(member_id: str) -> int:
    """The unique number of an id; 0 for the empty id."""
    given = member_id.rpartition("-")[2]
    return int.from_bytes(given.encode()) if given else 0


def _speaks(member: ClassicMember) -> int:
    """The member ids, as bits, that it has or that are in an unprocessed response."""
    ids = {member.generation.member_id, "" if member.unread is None else member.unread[1].member_id}
    return sum(1 << number_of(one) for one in ids if one)


def _ends_heartbeat(consumer: ClassicConsumer, given: Any) -> bool:
    match given:
        case (
            Received(message=(Order() as order, _))
            | Missed(message=(Order() as order, _))
            | Undelivered(message=Order() as order)
        ):
            return order.life == consumer.life and isinstance(order.body, HeartbeatRequest)
    return False


def _without_reason(order: UnsentClassicRequest) -> UnsentClassicRequest:
    """The request without the reason that is only logged."""
    body = order.body
    return replace(order, body=replace(body, reason="")) if isinstance(body, JoinGroupRequest) else order


def timeless_heartbeats(beats: Heartbeats) -> Heartbeats:
    """The heartbeat timers reduced to whether they are due, or never will be, of a member or a worker."""
    if not beats.enabled:
        return NO_HEARTBEATS
    due_ms = beats.heartbeat_due_ms
    due_ms = NOW if due_ms <= NOW else due_ms if due_ms == NEVER else FAR
    return replace(beats, heartbeat_due_ms=due_ms, session_due_ms=FAR, poll_due_ms=FAR, attempts=0)


def timeless(member: ClassicMember) -> ClassicMember:
    """The member with timers reduced to running or expired, and without reasons that are only logged."""
    awaited, commit, closing = member.awaited, member.commit, member.closing
    if awaited is not None:
        awaited = replace(awaited, remaining=_drop_reason(awaited.remaining))
    return replace(
        member,
        heartbeats=timeless_heartbeats(member.heartbeats),
        commit=commit and replace(commit, due_ms=FAR, retry_due_ms=None if commit.retry_due_ms is None else 0),
        commit_due_ms=NEVER,
        closing=closing and replace(closing, call=1, due_ms=NOW if closing.due_ms <= NOW else FAR, retry_due_ms=0),
        rejoin_reason=None if member.rejoin_reason is None else "",
        retry_due_ms=0,
        completion=_drop_reason(member.completion),
        awaited=awaited,
        unsubscribing=None if member.unsubscribing is None else 1,
    )


def _drop_reason(remaining: RemainingSteps | None) -> RemainingSteps | None:
    return None if remaining is None else RemainingSteps(remaining.steps)


def describe(consumer: ClassicConsumer) -> str:
    """A consumer on one line."""
    member = consumer.member
    generation = "no generation" if member.generation.is_reset else f"generation {member.generation.generation_id}"
    return describe_application(f"{member.state.name}, {generation}", consumer.app, consumer.using, consumer.calling)
