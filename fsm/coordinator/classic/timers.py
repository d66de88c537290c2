"""The timers of a classic group, and its birth and end without a request.

A member's or a given-out id's heartbeat timer, the timer of the join phase (in an initial rebalance the delay, which
new members extend), and that of the sync phase.

Source: `expireClassicGroupMemberHeartbeat`, `completeClassicGroupJoin`, `expirePendingSync`, `onLoaded`
and `onUnloaded` of `GroupMetadataManager` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.classic.requests import removal
from fsm.coordinator.model.classic_group import ClassicGroup, JoinPhase
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.step import Step
from fsm.tables.classic_group import Event, State

_SESSION = (Event.SESSION_EXPIRED, Event.SESSION_EXPIRED_ALL_JOINED, Event.SESSION_EXPIRED_NOBODY_LEFT)
_PENDING = (Event.PENDING_EXPIRED, Event.PENDING_EXPIRED_ALL_JOINED, Event.PENDING_EXPIRED_NOBODY_LEFT)


def expire(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """The group's earliest timer ran out; of equal deadlines, a member's before the group's own."""
    deadline_ms, sessions = group.next_deadline_ms, group.heartbeat_deadlines_ms
    if deadline_ms is None or deadline_ms > context.now_ms:
        return Step(group)
    draft = ClassicGroupDraft(group, context)
    if sessions.next_deadline_ms == deadline_ms:
        draft.member_id = sessions.earliest()
        draft.removed = (draft.member_id,)
        draft.cancel_heartbeat_timers()
        draft.take_row(_heartbeat_missing(group, draft.member_id))
    elif group.join_phase and group.join_phase.deadline_ms == deadline_ms:
        draft.take_row(_join_phase_over(group, group.join_phase))
    else:
        draft.sync_phase = None
        draft.take_row(_sync_phase_over(group))
    return draft.step()


def _heartbeat_missing(group: ClassicGroup, member_id: str) -> Event:
    if member_id in group.pending_join_members:
        if group.state is not State.PREPARING_REBALANCE:
            return Event.PENDING_EXPIRED  # nobody rebalances for it; it may be what the join phase waits for
        return removal(group, (member_id,), _PENDING, ends_initial=True)
    if member_id not in group.members or group.is_waiting(member_id):
        return Event.SESSION_EXCUSED
    return removal(group, (member_id,), _SESSION, ends_initial=True)


def _join_phase_over(group: ClassicGroup, phase: JoinPhase) -> Event:
    """Dynamic members that have not joined are out; static ones may be late once more."""
    if phase.is_initial and group.new_member_added and phase.remaining_ms:
        return Event.INITIAL_DELAY_EXTENDED
    if group.delayed_joins:
        return Event.JOIN_PHASE_EXPIRED
    if group.members.static:
        return Event.JOIN_PHASE_EXPIRED_NOBODY_JOINED
    return Event.JOIN_PHASE_EXPIRED_NOBODY_LEFT


def _sync_phase_over(group: ClassicGroup) -> Event:
    missing = group.pending_sync_members
    if group.sync_phase is None or group.sync_phase.generation != group.generation:
        return Event.SYNC_PHASE_EXPIRED_STALE
    if group.state in {State.COMPLETING_REBALANCE, State.STABLE} and not missing:
        return Event.SYNC_PHASE_EXPIRED_STALE
    is_anybody_left = group.pending_join_members or any(member_id not in missing for member_id in group.members)
    return Event.SYNC_PHASE_EXPIRED if is_anybody_left else Event.SYNC_PHASE_EXPIRED_NOBODY_LEFT


def unload(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """Another coordinator has the group's partition now: whoever waits is told so."""
    return _take(group, context, Event.UNLOADED)


def load(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """A group rebuilt from its record, with its members' sessions beginning now.

    One that has more members than it may have begins with a rebalance, in which the last to join are left out.
    """
    if not group.members:
        return Step(group)
    is_over = len(group.members) > context.config.group_max_size
    event = Event.LOADED_OVER_CAPACITY if is_over else Event.LOADED_WITH_MEMBERS
    return _take(group, context, event)


def delete(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """The end of an empty group, with its tombstone."""
    return _take(group, context, Event.DELETED)


def _take(group: ClassicGroup, context: Context, event: Event) -> Step[ClassicGroup]:
    draft = ClassicGroupDraft(group, context)
    draft.take_row(event)
    return draft.step()
