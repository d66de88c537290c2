"""What the effects of the classic group's table do, each as a function from one state of the work to the next.

`run` takes an event through the table: it is looked up, and the states and effects of its row happen in the order in
which they are written. Nothing here decides anything about the protocol.

Source: sections 5.3 to 5.6 of the coordinator reference; `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator import classic_group_parked as parked
from fsm.coordinator.classic_group import NEW_MEMBER_JOIN_TIMEOUT_MS, NO_IDS, JoinPhase, SyncPhase, consumer_topics
from fsm.coordinator.classic_group_work import Work, armed, changed, known
from fsm.coordinator.classic_members import ClassicGroupMember
from fsm.coordinator.frozen import FrozenSet
from fsm.coordinator.messages import error_name
from fsm.coordinator.step import Happened
from fsm.kafka.error_codes import ErrorCode
from fsm.table import Symbol
from fsm.tables.classic_group import TABLE, Effect, Event, State


def run(work: Work, event: Event) -> Work:
    """The event's row, done. Raises `IllegalTransition` for an event that the group's state does not know."""
    cell = TABLE.compiled[work.group.state, event]
    work = replace(work, happened=(*work.happened, Happened("", work.group.state, event, cell.target)))
    for step in cell.steps:
        work = _enter(work, step) if isinstance(step, State) else EFFECTS[step](work)
    return work


def _enter(work: Work, state: State) -> Work:
    return work.having(state=state, previous_state=work.group.state, state_since_ms=work.context.now_ms)


# Members


def _add_member(work: Work) -> Work:
    member, group = known(work.offered), work.group
    protocol_type = group.protocol_type if group.members else work.asked.body.get("protocol_type", "")
    return work.having(
        members=group.members.set(replace(member, is_new=True)),
        protocol_type=protocol_type,
        leader=group.leader or member.member_id,
        given_ids=group.given_ids.without(member.member_id),
    )


def _update_member(work: Work) -> Work:
    offered = known(work.offered)
    updated = replace(
        work.member,
        protocols=offered.protocols,
        rebalance_timeout_ms=offered.rebalance_timeout_ms,
        session_timeout_ms=offered.session_timeout_ms,
    )
    return replace(work, group=work.group.with_member(updated))


def _replace_member(work: Work) -> Work:
    old = known(work.replaced)
    work = replace(work, old_leader=work.group.leader or "")
    if old.join:
        refusal = answers.join_refusal(ErrorCode.FENCED_INSTANCE_ID, old.member_id, old.join.version)
        work = work.answering(old.join.token, refusal)
    if old.sync:
        work = work.answering(old.sync.token, answers.sync_refusal(ErrorCode.FENCED_INSTANCE_ID))
    new = replace(old, member_id=work.member_id, is_new=False, join=None, sync=None)
    return _swapped(work, old.member_id, new)


def _swapped(work: Work, gone: str, member: ClassicGroupMember) -> Work:
    group = work.group
    members = group.members.without(gone).set(member)
    return work.having(members=members, leader=member.member_id if group.is_leader(gone) else group.leader)


def _revert_replacement(work: Work) -> Work:
    body = {**answers.joined(work.group, "", work.old_leader), "members": [], "error_code": error_name(work.code)}
    work = work.answering(work.asked.token, body)
    old = replace(known(work.replaced), join=None, sync=None)
    return replace(_swapped(work, work.member_id, old), member_id=old.member_id)


def _remember_id(work: Work) -> Work:
    return work.having(given_ids=work.group.given_ids.having(work.member_id))


def _remove_id(work: Work) -> Work:
    return _without(work, (work.member_id,))


def _remove_members(work: Work) -> Work:
    for member in (work.group.members[i] for i in work.gone if i in work.group.members):
        if member.join:
            refusal = answers.join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, "", member.join.version)
            work = work.answering(member.join.token, refusal)
    return _without(work, work.gone)


def _remove_unjoined(work: Work) -> Work:
    unjoined = tuple(m.member_id for m in work.group.members.values() if not m.join and m.instance_id is None)
    return _cancel_heartbeats(_without(work, unjoined), unjoined)


def _remove_unsynced(work: Work) -> Work:
    gone = tuple(sorted(work.group.awaited_syncs))
    return replace(_without(work, gone), gone=gone)


def _without(work: Work, ids: Iterable[str]) -> Work:
    """Members and given-out ids are forgotten; if the leader is among them, the first who remains leads."""
    ids = tuple(ids)
    work = work.having(
        members=work.group.members.without(*ids),
        given_ids=work.group.given_ids.without(*ids),
        awaited_syncs=work.group.awaited_syncs.without(*ids),
    )
    if work.group.leader in ids:
        work = work.having(leader=next((m.member_id for m in work.group.in_order()), None))
    return work


def _elect_leader(work: Work) -> Work:
    group = work.group
    if group.leader is None or group.members[group.leader].join:
        return work
    return work.having(leader=next((m.member_id for m in group.in_order() if m.join), group.leader))


# Generation


def _select_protocol(work: Work) -> Work:
    work = work.having(protocol_name=work.group.elected_protocol())
    return work.having(subscribed_topics=consumer_topics(work.group))


def _clear_protocol(work: Work) -> Work:
    work = work.having(protocol_name=None)
    return work.having(subscribed_topics=consumer_topics(work.group))


def _await_syncs(work: Work) -> Work:
    return changed(work, is_new=False).having(awaited_syncs=FrozenSet(work.group.members))


def _write_group(work: Work) -> Work:
    return replace(work, records=(*work.records, answers.group_record(work.group, work.assignments)))


# Timers


def _reset_heartbeat(work: Work) -> Work:
    member = work.group.members.get(work.member_id) or work.offered
    return armed(work, {work.member_id: known(member).session_timeout_ms})


def _reset_heartbeats(work: Work) -> Work:
    return armed(work, {member.member_id: member.session_timeout_ms for member in work.group.in_order()})


def _cancel_heartbeats(work: Work, ids: Iterable[str]) -> Work:
    return work.having(heartbeat_deadlines_ms=work.group.heartbeat_deadlines_ms.without(*ids))


def _arm_initial_delay(work: Work) -> Work:
    delay_ms = work.context.config.group_initial_rebalance_delay_ms
    remaining_ms = max(work.group.rebalance_timeout_ms - delay_ms, 0)
    return work.having(join_phase=JoinPhase(work.context.now_ms + delay_ms, True, delay_ms, remaining_ms))


def _extend_initial_delay(work: Work) -> Work:
    last = known(work.group.join_phase)
    delay_ms = min(work.context.config.group_initial_rebalance_delay_ms, last.remaining_ms)
    remaining_ms = max(last.remaining_ms - last.delay_ms, 0)
    return work.having(join_phase=JoinPhase(work.context.now_ms + delay_ms, True, delay_ms, remaining_ms))


def _arm_join_timer(work: Work) -> Work:
    return work.having(join_phase=JoinPhase(work.context.now_ms + work.group.rebalance_timeout_ms))


def _arm_sync_timer(work: Work) -> Work:
    deadline_ms = work.context.now_ms + work.group.rebalance_timeout_ms
    return work.having(sync_phase=SyncPhase(deadline_ms, work.group.generation))


EFFECTS: Mapping[Symbol, Callable[[Work], Work]] = {
    Effect.ADD_MEMBER: _add_member,
    Effect.UPDATE_MEMBER: _update_member,
    Effect.REPLACE_MEMBER: _replace_member,
    Effect.REVERT_REPLACEMENT: _revert_replacement,
    Effect.REMEMBER_ID: _remember_id,
    Effect.REMOVE_ID: _remove_id,
    Effect.REMOVE_MEMBERS: _remove_members,
    Effect.REMOVE_UNJOINED_MEMBERS: _remove_unjoined,
    Effect.REMOVE_UNSYNCED_MEMBERS: _remove_unsynced,
    Effect.NOTE_NEW_MEMBER: lambda work: work.having(new_member_added=True),
    Effect.CLEAR_NEW_MEMBER_NOTE: lambda work: work.having(new_member_added=False),
    Effect.ELECT_LEADER: _elect_leader,
    Effect.PARK_JOIN: parked.park_join,
    Effect.PARK_SYNC: parked.park_sync,
    Effect.TAKE_ASSIGNMENT: parked.take_assignment,
    Effect.ANSWER_MEMBER_ID_REQUIRED: parked.answer_member_id_required,
    Effect.ANSWER_JOIN: parked.answer_join,
    Effect.ANSWER_JOINS: parked.answer_joins,
    Effect.ANSWER_JOINS_REBALANCE: parked.answer_joins_with(ErrorCode.REBALANCE_IN_PROGRESS),
    Effect.ANSWER_JOINS_NOT_COORDINATOR: parked.answer_joins_with(ErrorCode.NOT_COORDINATOR),
    Effect.ANSWER_SYNC: parked.answer_sync,
    Effect.ANSWER_SYNCS: parked.answer_syncs,
    Effect.ANSWER_SYNCS_ERROR: parked.answer_syncs_error,
    Effect.ANSWER_SYNCS_REBALANCE: parked.answer_syncs_with(ErrorCode.REBALANCE_IN_PROGRESS),
    Effect.ANSWER_SYNCS_NOT_COORDINATOR: parked.answer_syncs_with(ErrorCode.NOT_COORDINATOR),
    Effect.ANSWER_OK: parked.answer_ok,
    Effect.ANSWER_REBALANCE_IN_PROGRESS: parked.answer_rebalance,
    Effect.ANSWER_ERROR: parked.answer_error,
    Effect.CLEAR_ASSIGNMENTS: lambda work: changed(work, assignment=b""),
    Effect.BUMP_GENERATION: lambda work: work.having(generation=work.group.generation + 1),
    Effect.SELECT_PROTOCOL: _select_protocol,
    Effect.CLEAR_PROTOCOL: _clear_protocol,
    Effect.AWAIT_SYNCS: _await_syncs,
    Effect.FORGET_SYNC: lambda work: work.having(awaited_syncs=work.group.awaited_syncs.without(work.member_id)),
    Effect.FORGET_SYNCS: lambda work: work.having(awaited_syncs=NO_IDS),
    Effect.WRITE_GROUP: _write_group,
    Effect.REMOVE_GROUP: lambda work: replace(work, records=(*work.records, answers.tombstone(work.group))),
    Effect.ARM_NEW_MEMBER_TIMER: lambda work: armed(work, {work.member_id: NEW_MEMBER_JOIN_TIMEOUT_MS}),
    Effect.RESET_HEARTBEAT_TIMER: _reset_heartbeat,
    Effect.RESET_HEARTBEAT_TIMERS: _reset_heartbeats,
    Effect.CANCEL_HEARTBEAT_TIMERS: lambda work: _cancel_heartbeats(work, work.gone),
    Effect.ARM_INITIAL_DELAY: _arm_initial_delay,
    Effect.EXTEND_INITIAL_DELAY: _extend_initial_delay,
    Effect.ARM_JOIN_TIMER: _arm_join_timer,
    Effect.CANCEL_JOIN_TIMER: lambda work: work.having(join_phase=None),
    Effect.ARM_SYNC_TIMER: _arm_sync_timer,
    Effect.CANCEL_SYNC_TIMER: lambda work: work.having(sync_phase=None),
}
"""One function for each effect of the table."""
