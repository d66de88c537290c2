"""The timers of a classic group, and its load, unload and deletion.

The timers are the heartbeat timer of a member or pending id, the timer of the join phase (in an initial rebalance the
delay, which new members extend), and that of the sync phase.

Source: `expireClassicGroupMemberHeartbeat`, `completeClassicGroupJoin`, `expirePendingSync`, `onLoaded`
and `onUnloaded` of `GroupMetadataManager` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.classic.join import is_outdated
from fsm.coordinator.classic.requests import removal
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, JoinPhase
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Step
from fsm.errors import RemoteProtocolError
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, add_owned
from fsm.protocol.records import ClassicProtocol
from fsm.tables.classic_group import Event, State

_SESSION = (Event.SESSION_EXPIRED, Event.SESSION_EXPIRED_ALL_JOINED, Event.SESSION_EXPIRED_NOBODY_LEFT)
_PENDING = (Event.PENDING_EXPIRED, Event.PENDING_EXPIRED_ALL_JOINED, Event.PENDING_EXPIRED_NOBODY_LEFT)


def expire(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """The group's earliest timer expires; of equal deadlines, a member's comes before the group's own."""
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
        event = _join_phase_over(group, group.join_phase)
        if event is Event.JOIN_PHASE_EXPIRED and Choice.LATE_MEMBER_KEEPS_OWNED in context.dialect:
            _keep_owned(draft)
        draft.take_row(event)
    else:
        draft.sync_phase = None
        draft.take_row(_sync_phase_over(group))
    return draft.step()


def _heartbeat_missing(group: ClassicGroup, member_id: str) -> Event:
    if member_id in group.pending_join_members:
        if group.state is not State.PREPARING_REBALANCE:
            return Event.PENDING_EXPIRED  # no rebalance, but the join phase may be waiting for it
        return removal(group, (member_id,), _PENDING, ends_initial=True)
    if member_id not in group.members or group.is_waiting(member_id):
        return Event.SESSION_EXCUSED
    return removal(group, (member_id,), _SESSION, ends_initial=True)


def _join_phase_over(group: ClassicGroup, phase: JoinPhase) -> Event:
    """The join phase ends: dynamic members that have not joined are removed; static ones may miss it once."""
    if phase.is_initial and group.new_member_added and phase.remaining_ms:
        return Event.INITIAL_DELAY_EXTENDED
    if group.delayed_joins:
        return Event.JOIN_PHASE_EXPIRED
    if group.members.static:
        return Event.JOIN_PHASE_EXPIRED_NOBODY_JOINED
    return Event.JOIN_PHASE_EXPIRED_NOBODY_LEFT


def _keep_owned(draft: ClassicGroupDraft) -> None:
    """Static consumers that miss the join phase go on with what they were assigned since they named what they own."""
    if draft.protocol_type != PROTOCOL_TYPE:
        return
    late = (draft.members[i] for i in draft.members.static.values() if i not in draft.delayed_joins)
    owners = (_owner(member, draft.generation) for member in late if member.assignment)
    draft.late = {member.member_id: member for member in owners if member.is_late}
    if draft.late:
        draft.take_row(Event.STATIC_MEMBERS_LATE)


def _owner(member: ClassicGroupMember, generation: int) -> ClassicGroupMember:
    """The member with its assignment among what it owns; itself, if that cannot be read."""
    try:
        protocols = tuple(
            ClassicProtocol(name, add_owned(metadata, member.assignment, generation))
            for name, metadata in member.protocols
        )
    except RemoteProtocolError:
        return member
    return replace(member, protocols=protocols, is_late=True)


def _sync_phase_over(group: ClassicGroup) -> Event:
    missing = group.pending_sync_members
    if group.sync_phase is None or group.sync_phase.generation != group.generation:
        return Event.SYNC_PHASE_EXPIRED_STALE
    if group.state in {State.COMPLETING_REBALANCE, State.STABLE} and not missing:
        return Event.SYNC_PHASE_EXPIRED_STALE
    is_anybody_left = group.pending_join_members or any(member_id not in missing for member_id in group.members)
    return Event.SYNC_PHASE_EXPIRED if is_anybody_left else Event.SYNC_PHASE_EXPIRED_NOBODY_LEFT


def unload(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """Another coordinator has the group's partition: delayed requests are answered accordingly."""
    return _take(group, context, Event.UNLOADED)


def load(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """A group loaded from its record; its members' sessions start now.

    If it has more members than allowed it rebalances at once, and the last to join are excluded; in some dialects it
    also does so if its assignments are outdated (F42).
    """
    if not group.members:
        return Step(group)
    is_over = len(group.members) > context.config.group_max_size
    rebalances = is_over or (Choice.OUTDATED_REBALANCES_ON_LOAD in context.dialect and is_outdated(group, context))
    return _take(group, context, Event.LOADED_OVER_CAPACITY if rebalances else Event.LOADED_WITH_MEMBERS)


def note_changed_topics(group: ClassicGroup, names: AbstractSet[str], context: Context) -> ClassicGroup:
    """The group after these topics have changed: in some dialects it rebalances if its assignments are outdated (F45).

    Nothing is answered, stored or reported: members learn of it from their heartbeats.
    """
    notices = Choice.OUTDATED_REBALANCES in context.dialect and group.state is State.STABLE
    if not notices or names.isdisjoint(group.subscribed_topics or ()) or not is_outdated(group, context):
        return group
    return _take(group, context, Event.ASSIGNMENTS_OUTDATED).state


def delete(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """The end of an empty group, with its tombstone."""
    return _take(group, context, Event.DELETED)


def _take(group: ClassicGroup, context: Context, event: Event) -> Step[ClassicGroup]:
    draft = ClassicGroupDraft(group, context)
    draft.take_row(event)
    return draft.step()
