"""What holds of a consumer member between steps and across one step, as predicates with their status in Kafka 4.4.

A status is part of the statement: some hold always; some only while no callback fails; some are violated, by a hazard
that Kafka has and the member reproduces. `violations` checks a step and names what does not hold; a caller decides
by `status` which of that is a bug.

Source: invariants I01 to I34 of the client's analysis, checked there over 18 million events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from fsm.kafka.events import (
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    ListenerMethod,
    PartitionsRemovedEvent,
)
from fsm.kafka.messages import ConsumerGroupHeartbeatRequest
from fsm.member.consumer import Step
from fsm.member.decisions import IN_GROUP, SILENT
from fsm.member.dialect import Choice
from fsm.member.effects import Enqueued, EpochUpdated, Purpose, Transition, UnsentRequest
from fsm.member.inputs import Answered, MemberInput
from fsm.member.state import Member, Origin
from fsm.tables.consumer_member import Event, State


class Status(Enum):
    """How far an invariant holds."""

    HOLDS = "always"
    WITHOUT_FAILING_CALLBACKS = "while no callback fails"
    HAZARD = "violated through the hazards named"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement about a member, or about one step of it."""

    name: str
    statement: str
    holds: Callable[[Member, MemberInput, Step], bool]
    """Of the member before, what happened, and the step."""
    status: Status = Status.HOLDS
    hazards: str = ""


ACTIVE = frozenset({State.RECONCILING, State.ACKNOWLEDGING, State.STABLE})
LEGAL: dict[State, frozenset[State]] = {
    State.UNSUBSCRIBED: frozenset({State.PREPARE_LEAVING, State.LEAVING, State.FENCED}),
    State.JOINING: frozenset({State.FENCED, State.UNSUBSCRIBED, State.STALE}),
    State.RECONCILING: frozenset({State.STABLE, State.JOINING, State.ACKNOWLEDGING, State.RECONCILING}),
    State.ACKNOWLEDGING: frozenset({State.RECONCILING}),
    State.STABLE: frozenset({State.JOINING, State.ACKNOWLEDGING, State.RECONCILING}),
    State.FENCED: frozenset({*ACTIVE, State.JOINING, State.PREPARE_LEAVING, State.LEAVING}),
    State.PREPARE_LEAVING: frozenset({*ACTIVE, State.JOINING, State.UNSUBSCRIBED}),
    State.LEAVING: frozenset({State.PREPARE_LEAVING}),
    State.FATAL: frozenset({*ACTIVE, State.JOINING, State.PREPARE_LEAVING, State.LEAVING, State.UNSUBSCRIBED}),
    State.STALE: frozenset({State.LEAVING}),
}
"""States that a state may be entered from, as `MemberState` has them; from itself every state may."""


def _changes(done: Step) -> Iterable[Transition]:
    return (e for e in done.effects if isinstance(e, Transition))


def _heartbeats(done: Step) -> Iterable[tuple[State | None, ConsumerGroupHeartbeatRequest]]:
    """Heartbeats of a step, each with the state it was generated in, as the transitions before it tell."""
    state = None
    for effect in done.effects:
        if isinstance(effect, Transition):
            state = effect.target
        elif isinstance(effect, UnsentRequest) and isinstance(effect.body, ConsumerGroupHeartbeatRequest):
            yield state, effect.body


def _generated(before: Member, done: Step) -> Iterable[tuple[State, ConsumerGroupHeartbeatRequest]]:
    return ((state or before.state, body) for state, body in _heartbeats(done))


def _open_steps(member: Member) -> int:
    """Commits and callbacks of runs that have not ended."""
    callbacks = sum(a.origin in (Origin.RUN_REVOKED, Origin.RUN_ASSIGNED) for a in member.awaited)
    return callbacks + (member.commit is not None)


def _told_epoch(_before: Member, _given: MemberInput, done: Step) -> bool:
    """The last notice of a step agrees with the member it leaves behind."""
    notices = [e.epoch for e in done.effects if isinstance(e, EpochUpdated)]
    member = done.member
    if not notices or member.state is State.FATAL:
        return True
    return notices[-1] == (member.epoch if member.epoch > 0 else None)


def _same_inside(before: Member, given: MemberInput, done: Step) -> bool:
    """A response to one who is out, or leaving, changes neither assignment nor what is owned."""
    good = isinstance(given, Answered) and given.request.purpose is Purpose.HEARTBEAT
    if not good or before.state not in (*SILENT, State.LEAVING) or any(_changes(done)):
        return True
    after = done.member
    return (before.target, before.current, before.subscription.owned) == (
        after.target,
        after.current,
        after.subscription.owned,
    )


def _grows_by_application(before: Member, given: MemberInput, done: Step) -> bool:
    if Choice.APPLY_IN_APPLICATION not in before.settings.dialect:
        return True
    grown = set(done.member.subscription.owned) - set(before.subscription.owned)
    return not grown or isinstance(given, ApplyAssignmentEvent | AssignmentChangeEvent)


def _starts_in_poll(before: Member, given: MemberInput, done: Step) -> bool:
    run = done.member.run
    if run is None or before.run is not None or Choice.REVOKE_IN_POLL not in before.settings.dialect:
        return True
    needs_poll = before.settings.config.enable_auto_commit or bool(run.revoked)
    return not needs_poll or isinstance(given, AsyncPollEvent)


def _removed(done: Step) -> Iterable[PartitionsRemovedEvent]:
    enqueued = (e.event for e in done.effects if isinstance(e, Enqueued))
    return (event for event in enqueued if isinstance(event, PartitionsRemovedEvent))


def _releases_what_is_owned(before: Member, _given: MemberInput, done: Step) -> bool:
    """A lost callback is over everything owned at that moment, a revoked one over nothing else."""
    owned = before.subscription.owned
    return all(
        event.partitions == owned if event.method is ListenerMethod.LOST else set(event.partitions) <= set(owned)
        for event in _removed(done)
    )


def _added_is_held_back(_before: Member, given: MemberInput, done: Step) -> bool:
    if not isinstance(given, ApplyAssignmentEvent):
        return True
    return not set(given.added) & set(done.member.subscription.fetchable)


def _acknowledged_once(before: Member, _given: MemberInput, done: Step) -> bool:
    if Choice.ONE_PARTIAL_ACK not in before.settings.dialect:
        return True
    partial = any(c.event is Event.REC_PARTIAL_ACK for c in _changes(done))
    return not partial or done.member.current.local_epoch != before.current.local_epoch


def _of(holds: Callable[[Member], bool]) -> Callable[[Member, MemberInput, Step], bool]:
    """A predicate on what a step leaves behind."""

    def after(_before: Member, _given: MemberInput, done: Step) -> bool:
        return holds(done.member)

    return after


def _flagged(m: Member) -> bool:
    return bool(m.subscription.pending_revocation or m.subscription.pending_on_assigned)


def _held(m: Member) -> tuple[tuple[str, int], ...] | None:
    """The current assignment by name; None where a name is not known any more."""
    names = {**m.metadata, **m.names}
    if any(topic_id not in names for topic_id, _ in m.current.partitions):
        return None
    return tuple(sorted((names[i], p) for i, numbers in m.current.partitions for p in numbers))


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I01",
        "every transition is one that MemberState allows",
        lambda _b, _g, done: all(c.source is c.target or c.source in LEGAL[c.target] for c in _changes(done)),
    ),
    Invariant(
        "I02",
        "one who is out of the group generates no heartbeat",
        lambda before, _g, done: all(state not in SILENT for state, _ in _generated(before, done)),
    ),
    Invariant("I03", "STABLE holds its target", _of(lambda m: m.state is not State.STABLE or m.current == m.target)),
    Invariant(
        "I04",
        "RECONCILING has something to reconcile",
        _of(lambda m: m.state is not State.RECONCILING or m.current != m.target),
        Status.HAZARD,
        "H2 H2b",
    ),
    Invariant(
        "I05",
        "ACKNOWLEDGING has something to acknowledge",
        _of(lambda m: m.state is not State.ACKNOWLEDGING or not m.current.is_none),
        Status.HAZARD,
        "H2b",
    ),
    Invariant(
        "I06", "an active member has an epoch", _of(lambda m: m.state not in ACTIVE or m.epoch > 0), Status.HAZARD, "H2"
    ),
    Invariant(
        "I07",
        "one who leaves has a leave epoch and holds nothing",
        _of(lambda m: m.state not in (State.LEAVING, State.STALE) or (m.epoch < 0 and m.current.is_none)),
    ),
    Invariant(
        "I08",
        "one who is out has no epoch; unsubscribed, it holds nothing",
        _of(
            lambda m: (
                (m.state not in (State.UNSUBSCRIBED, State.FENCED) or m.epoch <= 0)
                and (m.state is not State.UNSUBSCRIBED or m.current.is_none)
            )
        ),
    ),
    Invariant(
        "I09a",
        "one who joins has no assignment",
        _of(lambda m: m.state is not State.JOINING or (m.target.is_none and m.current.is_none)),
    ),
    Invariant(
        "I09b",
        "one who joins does so with epoch 0",
        _of(lambda m: m.state is not State.JOINING or m.epoch == 0),
        Status.HAZARD,
        "H2 H12",
    ),
    Invariant(
        "I09c",
        "one who joins owns nothing",
        _of(lambda m: m.state is not State.JOINING or not m.subscription.owned),
        Status.HAZARD,
        "H2 H10 H17",
    ),
    Invariant(
        "I10",
        "a heartbeat has a leave epoch exactly in LEAVING",
        lambda before, _g, done: all(
            (body.member_epoch < 0) == (state is State.LEAVING) for state, body in _generated(before, done)
        ),
        Status.HAZARD,
        "H2",
    ),
    Invariant("I11", "at most one step of a run is open", _of(lambda m: _open_steps(m) <= 1)),
    Invariant(
        "I12", "a run is open exactly while a step of it is", _of(lambda m: (m.run is None) == (_open_steps(m) == 0))
    ),
    Invariant(
        "I13",
        "what is held is no newer than the target",
        _of(lambda m: m.current.is_none or m.target.is_none or m.current.local_epoch <= m.target.local_epoch),
    ),
    Invariant(
        "I14",
        "a settled member owns what it holds",
        _of(lambda m: m.state not in (State.STABLE, State.ACKNOWLEDGING) or _held(m) in (None, m.subscription.owned)),
        Status.WITHOUT_FAILING_CALLBACKS,
        "H4 H10 H2b",
    ),
    Invariant(
        "I15",
        "a stable member can fetch everything it owns",
        _of(lambda m: m.state is not State.STABLE or not _flagged(m)),
        Status.WITHOUT_FAILING_CALLBACKS,
        "H4 H7",
    ),
    Invariant("I16", "listeners know the epoch, and that there is none", _told_epoch),
    Invariant(
        "I17",
        "a leave is open only for one who leaves or has left",
        _of(lambda m: m.leave is None or m.state in (State.PREPARE_LEAVING, State.LEAVING, State.UNSUBSCRIBED)),
        Status.HAZARD,
        "an abandoned unsubscribe()",
    ),
    Invariant(
        "I18",
        "FATAL is for good",
        lambda before, _g, done: before.state is not State.FATAL or done.member.state is State.FATAL,
    ),
    Invariant(
        "I19",
        "the member id is constant",
        lambda before, _g, done: before.settings.member_id == done.member.settings.member_id,
    ),
    Invariant(
        "I20",
        "a member is subscribed",
        _of(lambda m: m.state not in IN_GROUP or m.subscription.kind.is_auto),
        Status.HAZARD,
        "H2 H10",
    ),
    Invariant("I21", "a response changes no assignment of one who is out or leaving", _same_inside),
    Invariant(
        "I24",
        "a heartbeat says what is held, if it says it",
        lambda before, _g, done: all(
            body.topic_partitions in (None, (), done.member.current.partitions, before.current.partitions)
            for _, body in _generated(before, done)
        ),
    ),
    Invariant("I23", "what was added is not fetched before its callback has ended", _added_is_held_back),
    Invariant("I25", "a release is over what is owned at that moment", _releases_what_is_owned),
    Invariant(
        "I27",
        "one who has left owns nothing",
        _of(lambda m: m.state is not State.UNSUBSCRIBED or not m.subscription.kind.is_auto or not m.subscription.owned),
        Status.HAZARD,
        "P2 until U9, H17",
    ),
    Invariant(
        "I28",
        "one who joins anew after a loss holds and owns nothing at that moment",
        lambda before, _g, done: (
            before.state not in (State.FENCED, State.STALE)
            or done.member.state is not State.JOINING
            or (done.member.current.is_none and done.member.target.is_none)
        ),
    ),
    Invariant("I31", "a run that commits or revokes begins in a poll", _starts_in_poll),
    Invariant("I32", "what can be resolved is acknowledged once for a local epoch", _acknowledged_once),
    Invariant("I33", "what is owned grows only by the application's word", _grows_by_application),
    Invariant(
        "I34",
        "one whose membership ended for good owns nothing once every callback is back",
        _of(
            lambda m: (
                m.state is not State.FATAL
                or bool(m.awaited)
                or not m.subscription.kind.is_auto
                or not m.subscription.owned
            )
        ),
        Status.HAZARD,
        "H17, and a fatal error while leaving",
    ),
)


def violations(before: Member, given: MemberInput, done: Step) -> tuple[Invariant, ...]:
    """The invariants that a step breaks, or leaves broken."""
    return tuple(i for i in INVARIANTS if not i.holds(before, given, done))
