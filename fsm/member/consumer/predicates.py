"""The predicates of `invariants` that take more than a line, each about one observed step of a member.

An observed step has the member before it, the input and the result. A predicate about rules of some dialects is true in
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from fsm.member import effects
from fsm.member.consumer.decisions import RELEASES, SILENT, is_awaited
from fsm.member.consumer.state import Member, Origin
from fsm.member.consumer.step import Step
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect
from fsm.member.events import (
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
)
from fsm.member.inputs import Answered, MemberInput
from fsm.protocol.assignment import Partitions, TopicPartitions, flatten, without
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_member import Event, State


class ObservedStep(NamedTuple):
    """One step of a member."""

    before: Member
    given: MemberInput
    done: Step
    outstanding: int
    """Heartbeats with an epoch of 0 or more that are without an answer after the step."""

    @property
    def after(self) -> Member:
        """The member that the step leaves behind."""
        return self.done.member

    def knows(self, choice: Choice) -> bool:
        """Whether the dialect has a choice."""
        return choice in self.before.settings.choices


# States

ACTIVE = frozenset({State.RECONCILING, State.ACKNOWLEDGING, State.STABLE})
SETTLED = frozenset({State.STABLE, State.ACKNOWLEDGING})
OUT_OR_LEAVING = frozenset({State.PREPARE_LEAVING, State.LEAVING, State.UNSUBSCRIBED})
RESTING = frozenset({State.STABLE, State.UNSUBSCRIBED, State.FATAL})
LEGAL: Mapping[State, frozenset[State]] = {
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


def legal(at: ObservedStep) -> Mapping[State, frozenset[State]]:
    """`LEGAL`, with the ways that the dialect adds."""
    return _legal(at.before.settings.dialect)


@cache
def _legal(dialect: Dialect) -> Mapping[State, frozenset[State]]:
    added = {State.STALE} if Choice.LAST_SUBSCRIPTION_COUNTS in dialect else set()
    added |= {State.FATAL} if Choice.SUBSCRIBE_ENDS_FATAL in dialect else set()
    return {**LEGAL, State.UNSUBSCRIBED: LEGAL[State.UNSUBSCRIBED] | added}


def changes(at: ObservedStep) -> Iterable[effects.Transition]:
    """The transitions of a step."""
    return (e for e in at.done.effects if isinstance(e, effects.Transition))


# Heartbeats


def list_heartbeats(at: ObservedStep) -> Iterable[tuple[State, ConsumerGroupHeartbeatRequest]]:
    """Heartbeats of a step, each with the state it was generated in, as the transitions before it tell."""
    state = at.before.state
    for effect in at.done.effects:
        if isinstance(effect, effects.Transition):
            state = effect.target
        elif isinstance(effect, effects.UnsentRequest) and isinstance(effect.body, ConsumerGroupHeartbeatRequest):
            yield state, effect.body


def _flat(*found: TopicPartitions) -> set[tuple[str, int]]:
    return {partition for one in found for partition in flatten(one)}


def reports_held_partitions(at: ObservedStep) -> bool:
    """A heartbeat that joins or leaves reports nothing owned; any other reports what was held before, during or after
    the step. In one tick a run may end before the heartbeat, and the next one may begin and end after it. In some
    dialects the report of a member with an epoch must also have its target and what is being assigned: all of it, and
    nothing else.
    """
    runs = [one.run.resolved for one in (at.before, at.after) if one.run is not None]
    held = {current.partitions for current in (at.before.current, at.after.current, *runs)}
    coming = _flat(at.before.target.partitions, *(run.partitions for run in runs[:1]))

    def is_true(reported: TopicPartitions, epoch: int) -> bool:
        if Choice.REPORTS_WHAT_IS_ASSIGNED in at.before.settings.choices and epoch > 0:
            return coming <= _flat(reported) <= coming | _flat(*held)
        return reported in held

    return all(
        body.topic_partitions is None
        or (
            not body.topic_partitions
            if state in (State.JOINING, State.LEAVING)
            else is_true(body.topic_partitions, body.member_epoch)
        )
        for state, body in list_heartbeats(at)
    )


class Outstanding:
    """The unanswered heartbeats of a member in good standing."""

    def __init__(self) -> None:
        self._requests: list[effects.UnsentRequest] = []

    def after(self, given: MemberInput, done: Step) -> int:
        """How many there are after a step."""
        if isinstance(given, Answered) and given.request in self._requests:
            self._requests.remove(given.request)
        if done.effects:
            self._requests += [e for e in done.effects if isinstance(e, effects.UnsentRequest) and _in_good_standing(e)]
        return len(self._requests)


def _in_good_standing(sent: effects.UnsentRequest) -> bool:
    if sent.purpose is not effects.Purpose.HEARTBEAT or not isinstance(sent.body, ConsumerGroupHeartbeatRequest):
        return False
    return sent.body.member_epoch >= 0


def epoch_was_notified(at: ObservedStep) -> bool:
    """The last notice of a step agrees with the member it leaves behind."""
    notices = [e.epoch for e in at.done.effects if isinstance(e, effects.EpochUpdated)]
    if not notices or at.after.state is State.FATAL:
        return True
    return notices[-1] == (at.after.epoch if at.after.epoch > 0 else None)


def same_inside(at: ObservedStep) -> bool:
    """A response to a member that is out of the group, or leaving, changes neither assignment nor ownership."""
    if not isinstance(at.given, Answered) or at.given.request.purpose is not effects.Purpose.HEARTBEAT:
        return True
    if at.before.state not in (*SILENT, State.LEAVING) or any(changes(at)):
        return True
    before, after = at.before, at.after
    return (before.target, before.current, before.ownership.owned) == (
        after.target,
        after.current,
        after.ownership.owned,
    )


FENCES = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


def gives_up_its_epoch(at: ObservedStep) -> bool:
    """A member that is fenced loses its epoch, except in FATAL."""
    given = at.given
    if not isinstance(given, Answered) or not isinstance(given.answer, ConsumerGroupHeartbeatResponse):
        return True
    passed_over = at.knows(Choice.ANSWERS_NUMBERED) and not is_awaited(at.before, given.request.number)
    watched = given.request.purpose is effects.Purpose.HEARTBEAT and given.answer.error_code in FENCES
    return not watched or passed_over or at.after.epoch <= 0 or at.after.state is State.FATAL


def joins_in_poll(at: ObservedStep) -> bool:
    """Outside the group only a poll starts a join."""
    joins = any(c.source is State.UNSUBSCRIBED and c.target is State.JOINING for c in changes(at))
    return not joins or isinstance(at.given, AsyncPollEvent)


def released_is_held_back(at: ObservedStep) -> bool:
    """From the release of an ended membership on, none of its partitions is fetchable (since 4.3)."""
    if not at.knows(Choice.MARK_LOST) or not at.after.subscription.kind.is_auto:
        return True
    begins = any(awaited.origin in RELEASES and awaited not in at.before.awaited for awaited in at.after.awaited)
    return not begins or not at.after.ownership.fetchable(at.after.subscription)


# Runs

STEPS = (Origin.RUN_REVOKED, Origin.RUN_ASSIGNED)


def open_steps(member: Member) -> int:
    """Commits and callbacks of runs that have not ended."""
    return sum(a.origin in STEPS for a in member.awaited) + (member.commit is not None)


def _find_completed(at: ObservedStep) -> Origin | None:
    """The origin of a callback whose end is reported without an error, or with one that counts as none."""
    if not isinstance(at.given, ConsumerRebalanceListenerCallbackCompletedEvent):
        return None
    if at.given.error is not None and not at.knows(Choice.RAISED_IS_CALLED):
        return None
    return next((a.origin for a in at.before.awaited if a.ticket == at.given.ticket), None)


def run_asks_in_order(at: ObservedStep) -> bool:
    """A run calls revoked at most once, after the commit, and assigned once, after revoked has succeeded or if it is
    not called.
    """
    committed = any(isinstance(e, effects.CommitEnded) for e in at.done.effects)
    revoked, assigned = _count_asked(at)
    if revoked + assigned > 1:
        return False
    if revoked:
        return committed and not any(a.origin in STEPS for a in at.before.awaited)
    if assigned:
        return committed or _find_completed(at) is Origin.RUN_REVOKED
    return True


def _count_asked(at: ObservedStep) -> tuple[int, int]:
    """The numbers of revoked and assigned callbacks of runs that a step requests."""
    tickets = {a.ticket for a in at.after.awaited if a.origin in STEPS}
    events = [e.event for e in at.done.effects if isinstance(e, effects.Enqueued)]
    mine = [e for e in events if getattr(e, "ticket", None) in tickets]
    revoked = sum(isinstance(e, PartitionsRemovedEvent) for e in mine)
    return revoked, sum(isinstance(e, PartitionsAssignedEvent) for e in mine)


def acknowledged_after_callback(at: ObservedStep) -> bool:
    """A run is acknowledged after its callback. Before 4.3 the background applies it itself if there is no listener."""
    if not any(c.event is Event.ASSIGNED_OK and c.target is State.ACKNOWLEDGING for c in changes(at)):
        return True
    unheard = not at.knows(Choice.APPLY_IN_APPLICATION) and not at.before.subscription.listener
    return unheard or _find_completed(at) is Origin.RUN_ASSIGNED


def added_is_held_back(at: ObservedStep) -> bool:
    """As long as the assigned step of a run is open, and in the very step that applies it."""
    member = at.after
    if member.run is None and type(at.given) is not ApplyAssignmentEvent:
        return True
    added: set[tuple[str, int]] = set()
    if isinstance(at.given, ApplyAssignmentEvent):
        added |= {*at.given.added}
    if member.run is not None and any(a.origin is Origin.RUN_ASSIGNED for a in member.awaited):
        added |= {*member.run.added}
    return not added or added.isdisjoint(member.ownership.fetchable(member.subscription))


def starts_in_poll(at: ObservedStep) -> bool:
    """A run begins within a poll."""
    run = at.after.run
    if run is None or at.before.run is not None or not at.knows(Choice.REVOKE_IN_POLL):
        return True
    needs_poll = at.before.settings.config.enable_auto_commit or bool(run.revoked)
    return not needs_poll or isinstance(at.given, AsyncPollEvent)


def acknowledged_once(at: ObservedStep) -> bool:
    """A partial acknowledgement is of another local epoch than the one before."""
    if not at.knows(Choice.ONE_PARTIAL_ACK):
        return True
    partial = any(c.event is Event.REC_PARTIAL_ACK for c in changes(at))
    return not partial or at.after.current.local_epoch != at.before.current.local_epoch


# What is owned


def grows_by_application(at: ObservedStep) -> bool:
    """Only the application adds owned partitions (since 4.3; before, the background did)."""
    before, after = at.before.ownership.owned, at.after.ownership.owned
    if before is after or not at.knows(Choice.APPLY_IN_APPLICATION):
        return True
    return {*after} <= {*before} or isinstance(at.given, ApplyAssignmentEvent | AssignmentChangeEvent)


def releases_what_is_owned(at: ObservedStep) -> bool:
    """A lost callback has everything owned except partitions of open callbacks; a revoked one has only owned
    partitions.
    """
    owned = at.before.ownership.owned
    for effect in at.done.effects:
        if isinstance(effect, effects.AssignmentUpdated):
            owned = effect.partitions
        elif isinstance(effect, effects.Enqueued) and isinstance(effect.event, PartitionsRemovedEvent):
            removed, lost = effect.event.partitions, effect.event.method is ListenerMethod.LOST
            if removed != without(owned, _being_revoked(at)) if lost else not {*removed} <= {*owned}:
                return False
    return True


def loses_without_a_membership(at: ObservedStep) -> bool:
    """A member that is fenced, stale or ended, or leaves before it has an epoch, gets a lost callback, and no other
    one does. A run may have asked for its revoked callback earlier in the step.
    """
    is_lost = at.after.state in (State.FENCED, State.STALE, State.FATAL) or at.before.epoch <= 0
    methods = {ListenerMethod.LOST} if is_lost else {ListenerMethod.REVOKED}
    methods |= {ListenerMethod.REVOKED} if at.before.run is not None else set()
    events = (one.event for one in at.done.effects if isinstance(one, effects.Enqueued))
    return all(one.method in methods for one in events if isinstance(one, PartitionsRemovedEvent))


def _being_revoked(at: ObservedStep) -> Partitions:
    """The partitions of a run's revoked callback that was open before, or was requested earlier in the step."""
    run = at.before.run or at.after.run
    open_ones = {a.origin for a in (*at.before.awaited, *at.after.awaited)}
    counts = at.knows(Choice.REMOVED_ONCE) and Origin.RUN_REVOKED in open_ones
    return run.revoked if counts and run is not None else ()


def _rejoins(at: ObservedStep) -> bool:
    return at.before.state in (State.FENCED, State.STALE) and at.after.state is State.JOINING


def rejoins_without_a_claim(at: ObservedStep) -> bool:
    """From FENCED or STALE into JOINING: no target, nothing held."""
    return not _rejoins(at) or (at.after.current.is_none and at.after.target.is_none)


def rejoins_empty(at: ObservedStep) -> bool:
    """From FENCED or STALE into JOINING: nothing owned that the group assigns."""
    return not _rejoins(at) or not at.after.ownership.owned or not at.after.subscription.kind.is_auto


def is_flagged(member: Member) -> bool:
    """Whether something owned cannot be fetched."""
    return bool(member.ownership.pending_revocation or member.ownership.pending_on_assigned)


def name_held(member: Member) -> Partitions | None:
    """The current assignment by name; None where a name is not known any more."""
    names = {**member.client.metadata, **member.names}
    if any(topic_id not in names for topic_id, _ in member.current.partitions):
        return None
    return tuple(sorted((names[i], p) for i, p in flatten(member.current.partitions)))
