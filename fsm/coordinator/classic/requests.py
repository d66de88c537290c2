"""SyncGroup, Heartbeat and LeaveGroup to a classic group, and its checks of offset commits.

Source: `classicGroupSync`, `classicGroupHeartbeat` and `classicGroupLeave` of `GroupMetadataManager`, and
`ClassicGroup.validateOffsetCommit`, of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import replace

from fsm.coordinator.classic import responses
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.classic.join import refuse_stranger
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.step import Answer, Refused, Request, Step
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.tables.classic_group import Event, State


def sync(
    group: ClassicGroup | None,
    request: Request[SyncGroupRequest],
    context: Context,
    stored: ErrorCode = ErrorCode.NONE,
) -> Step[ClassicGroup]:
    """The outcome of a SyncGroup; `stored` is the result of storing a leader's assignment."""
    if group is None or group.is_empty:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    draft, body = ClassicGroupDraft(group, context, request), request.body
    draft.member_id = body.member_id
    try:
        _check_member(group, body)
        _check_sync(group, body)
    except Refused as refused:
        draft.response = SyncGroupResponse(error_code=refused.code)
        draft.take_row(Event.SYNC_REFUSED)
    else:
        _sync(draft, stored)
    return draft.step()


def _sync(draft: ClassicGroupDraft, stored: ErrorCode) -> None:
    awaited = draft.pending_sync_members
    others_synced = len(awaited) == (draft.member_id in awaited)
    is_last = others_synced and draft.state in {State.COMPLETING_REBALANCE, State.STABLE}
    if not draft.is_leader(draft.member_id):
        draft.take_row(Event.FOLLOWER_SYNCED_LAST if is_last else Event.FOLLOWER_SYNCED)
        return
    is_assigning = draft.state is State.COMPLETING_REBALANCE
    draft.take_row(Event.LEADER_SYNCED_LAST if is_last else Event.LEADER_SYNCED)
    if is_assigning and stored is ErrorCode.NONE:
        draft.take_row(Event.ASSIGNMENT_STORED)
    elif is_assigning:
        draft.code = stored
        draft.records.clear()
        draft.take_row(Event.ASSIGNMENT_STORE_FAILED)


def heartbeat(group: ClassicGroup | None, request: Request[HeartbeatRequest], context: Context) -> Step[ClassicGroup]:
    """The outcome of a Heartbeat."""
    if group is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    draft = ClassicGroupDraft(group, context, request)
    draft.member_id = request.body.member_id
    try:
        _check_member(group, request.body)
        draft.take_row(Event.HEARTBEAT)
    except Refused as refused:
        draft.response = HeartbeatResponse(refused.code)
        draft.take_row(Event.HEARTBEAT_REFUSED)
    return draft.step()


def leave(
    group: ClassicGroup | None, request: Request[LeaveGroupRequest], context: Context
) -> Step[ClassicGroup | None]:
    """The outcome of a LeaveGroup: one event for the whole batch, after all entries are checked."""
    if group is None:
        unknown = [MemberResponse(m, i, ErrorCode.UNKNOWN_MEMBER_ID) for m, i, _ in identities(request)]
        return Step(None, (Answer(request.token, responses.leave_response(unknown, request.version)),))
    draft = ClassicGroupDraft(group, context, request)
    if group.state is State.DEAD:
        draft.response = responses.refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        draft.removed, entries = _leaving(group, identities(request))
        draft.response = responses.leave_response(entries, request.version)
    draft.take_row(removal(group, draft.removed, _LEAVES) if draft.removed else Event.LEAVE_REFUSED)
    return draft.step()


def identities(request: Request[LeaveGroupRequest]) -> Sequence[MemberIdentity]:
    """The members that leave; before version 3 exactly one, a dynamic member."""
    body = request.body
    return body.members if request.version >= responses.LEAVES_IN_BATCHES_SINCE else (MemberIdentity(body.member_id),)


def _leaving(
    group: ClassicGroup, entries: Iterable[MemberIdentity]
) -> tuple[Collection[str], Sequence[MemberResponse]]:
    """The ids that leave, and the answer to each entry, which sees the group without the entries before it."""
    gone: dict[str, None] = {}
    found: list[MemberResponse] = []
    for member_id, instance_id, _ in entries:
        try:
            gone[_leaver(group, member_id, instance_id, gone)] = None
            found.append(MemberResponse(member_id, instance_id))
        except Refused as refused:
            found.append(MemberResponse(member_id, instance_id, refused.code))
    return tuple(gone), found


def _leaver(group: ClassicGroup, member_id: str, instance_id: str | None, gone: Container[str]) -> str:
    """The member of an entry; an instance id without a member id is an administrator's removal of a static member."""
    if not member_id:
        holder = None if instance_id is None else group.static_member_id(instance_id)
        if holder is None or holder in gone:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return holder
    if member_id not in group.pending_join_members or member_id in gone:
        refuse_stranger(group, member_id, instance_id, gone)
    return member_id


_LEAVES = (Event.MEMBERS_LEFT, Event.MEMBERS_LEFT_ALL_JOINED, Event.MEMBERS_LEFT_NOBODY_LEFT)


def removal(
    group: ClassicGroup,
    gone: Collection[str],
    events: tuple[Event, Event, Event],
    *,
    ends_initial: bool = False,
) -> Event:
    """The event of the removal of these ids, by three cases: members remain, all remaining ones have joined, none
    remains.

    Only its timer ends an initial rebalance, unless `ends_initial`. In EMPTY only pending ids can be removed.
    """
    plain, all_joined, nobody_left = events
    if group.is_empty or (group.is_initial_rebalance and not ends_initial) or not group.has_all_joined(gone):
        return plain
    return all_joined if len(group.members) > sum(i in group.members for i in gone) else nobody_left


def _check_member(group: ClassicGroup, body: SyncGroupRequest | HeartbeatRequest) -> None:
    if group.state is State.DEAD:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    refuse_stranger(group, body.member_id, body.group_instance_id)
    if body.generation_id != group.generation:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)


def _check_sync(group: ClassicGroup, body: SyncGroupRequest) -> None:
    for requested, real in ((body.protocol_type, group.protocol_type), (body.protocol_name, group.protocol_name)):
        if requested is not None and real is not None and requested != real:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.members[body.member_id].is_late:
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)


# Offsets


def refuse_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, transactional: bool = False
) -> None:
    """Raises `Refused` for a commit that the group does not accept.

    A commit without member and generation comes from an application outside any group, or from an administrator. Only
    an empty group accepts it, as it accepts every generation below zero.
    """
    if group.state is State.DEAD:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation < 0 and group.is_empty:
        return
    if generation >= 0 or member_id or instance_id is not None:
        refuse_stranger(group, member_id, instance_id)
        if generation != group.generation:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and group.state is State.COMPLETING_REBALANCE:
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)


def note_commit(group: ClassicGroup, member_id: str, context: Context) -> ClassicGroup:
    """The group after a member's commit, which restarts the session timer outside the sync phase."""
    member = group.members.get(member_id)
    if member is None or group.state not in {State.STABLE, State.PREPARING_REBALANCE}:
        return group
    deadlines_ms = group.heartbeat_deadlines_ms.set(member_id, context.now_ms + member.session_timeout_ms)
    return replace(group, heartbeat_deadlines_ms=deadlines_ms)


def refuse_deletion(group: ClassicGroup) -> None:
    """Raises `Refused` for a DeleteGroups of a group with members."""
    if group.state is State.DEAD:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise Refused(ErrorCode.NON_EMPTY_GROUP)
