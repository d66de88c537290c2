"""The timers of a classic group, and its birth and end without a request.

A member's or a given-out id's heartbeat timer, the timer of the join phase (in an initial rebalance the delay, which
new members extend), and that of the sync phase.

Source: sections 5.3 and 5.4 of the coordinator reference.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.classic_group_effects import run
from fsm.coordinator.classic_group_requests import removal
from fsm.coordinator.classic_group_work import Work
from fsm.coordinator.context import Context
from fsm.coordinator.step import Step
from fsm.tables.classic_group import Event, State

_SESSION = (Event.SESSION_EXPIRED, Event.SESSION_EXPIRED_ALL_JOINED, Event.SESSION_EXPIRED_NOBODY_LEFT)
_GIVEN_ID = (Event.PENDING_EXPIRED, Event.PENDING_EXPIRED_ALL_JOINED, Event.PENDING_EXPIRED_NOBODY_LEFT)


def next_deadline_ms(group: ClassicGroup) -> int | None:
    """When the next timer of the group runs out."""
    phases = [phase.deadline_ms for phase in (group.join_phase, group.sync_phase) if phase]
    first = group.heartbeat_deadlines_ms.earliest()
    return min([*phases, first[1]] if first else phases, default=None)


def expired(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """The group's earliest timer ran out; of equal deadlines, a member's before the group's own."""
    deadline_ms = next_deadline_ms(group)
    if deadline_ms is None or deadline_ms > context.now_ms:
        return Step(group)
    return _fired(Work(group, context), deadline_ms).step()


def _fired(work: Work, deadline_ms: int) -> Work:
    group, first = work.group, work.group.heartbeat_deadlines_ms.earliest()
    if first is not None and first[1] == deadline_ms:
        others = group.heartbeat_deadlines_ms.without(first[0])
        return _heartbeat_missing(replace(work.having(heartbeat_deadlines_ms=others), member_id=first[0]))
    if group.join_phase and group.join_phase.deadline_ms == deadline_ms:
        return _join_phase_over(work)
    return _sync_phase_over(work)


def _heartbeat_missing(work: Work) -> Work:
    group, member_id = work.group, work.member_id
    work = replace(work, gone=(member_id,))
    if member_id in group.given_ids:
        return run(work, _given_id_expired(group, member_id))
    member = group.members.get(member_id)
    if member is None or member.is_excused:
        return run(work, Event.SESSION_EXCUSED)
    return run(work, removal(group, work.gone, _SESSION, ends_initial=True))


def _given_id_expired(group: ClassicGroup, member_id: str) -> Event:
    """Nobody rebalances for it; it may have been what the join phase waited for."""
    if group.state is not State.PREPARING_REBALANCE:
        return Event.PENDING_EXPIRED
    return removal(group, (member_id,), _GIVEN_ID, ends_initial=True)


def _join_phase_over(work: Work) -> Work:
    phase = work.group.join_phase
    if phase and phase.is_initial and work.group.new_member_added and phase.remaining_ms:
        return run(work, Event.INITIAL_DELAY_EXTENDED)
    return run(work.having(join_phase=None), _join_phase_end(work.group))


def _join_phase_end(group: ClassicGroup) -> Event:
    """Dynamic members that have not joined are out; static ones may be late once more."""
    if group.parked_joins:
        return Event.JOIN_PHASE_EXPIRED
    if group.members.static:
        return Event.JOIN_PHASE_EXPIRED_NOBODY_JOINED
    return Event.JOIN_PHASE_EXPIRED_NOBODY_LEFT


def _sync_phase_over(work: Work) -> Work:
    group, phase = work.group, work.group.sync_phase
    work = work.having(sync_phase=None)
    if phase is None or phase.generation != group.generation:
        return run(work, Event.SYNC_PHASE_EXPIRED_STALE)
    if group.state in {State.COMPLETING_REBALANCE, State.STABLE} and not group.awaited_syncs:
        return run(work, Event.SYNC_PHASE_EXPIRED_STALE)
    left = group.members.without(*group.awaited_syncs)
    return run(work, Event.SYNC_PHASE_EXPIRED if left or group.given_ids else Event.SYNC_PHASE_EXPIRED_NOBODY_LEFT)


def unload(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """Another coordinator has the group's partition now: whoever waits is told so."""
    return run(Work(group, context), Event.UNLOADED).step()


def loaded(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """A group rebuilt from its record, with its members' sessions beginning now.

    One that has more members than it may have begins with a rebalance, in which the last to join are left out.
    """
    if not group.members:
        return Step(group)
    is_over = len(group.members) > context.config.group_max_size
    event = Event.LOADED_OVER_CAPACITY if is_over else Event.LOADED_WITH_MEMBERS
    return run(Work(group, context), event).step()


def deleted(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """The end of an empty group, with its tombstone."""
    return run(Work(group, context), Event.DELETED).step()
