"""The answers, records and descriptions of a classic group.

Source: `GroupMetadataManager`, `GroupCoordinatorRecordHelpers.newGroupMetadataRecord` and `ClassicGroup.describe` of
apache/kafka, branch 4.4; `JoinGroupResponse.json` and its siblings for the fields of a version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.step import Request
from fsm.protocol import records
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ClassicResponse,
    DescribedGroup,
    DescribedGroupMember,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.tables.classic_group import State

WRITTEN_VERSION = 3
"""The version of the group's record, in every release with consumer groups."""
NULLABLE_PROTOCOL_SINCE = 7
"""The version of JoinGroup from which on no protocol is null instead of empty."""
LEAVES_IN_BATCHES_SINCE = 3
SKIPS_ASSIGNMENT_SINCE = 9

PRINTED = {
    State.EMPTY: "Empty",
    State.PREPARING_REBALANCE: "PreparingRebalance",
    State.COMPLETING_REBALANCE: "CompletingRebalance",
    State.STABLE: "Stable",
    State.DEAD: "Dead",
}
"""The names of states in DescribeGroups."""


def refuse_join(code: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    """The answer to a JoinGroup without a membership."""
    protocol_name = None if version >= NULLABLE_PROTOCOL_SINCE else ""
    return JoinGroupResponse(error_code=code, protocol_name=protocol_name, member_id=member_id)


def join_response(group: ClassicGroup, member_id: str, leader: str, *, skip: bool = False) -> JoinGroupResponse:
    """The answer to a JoinGroup with the current generation; it lists members only for the leader."""
    shown = group.members.in_order() if leader == member_id else ()
    members = ((m.member_id, m.instance_id, m.metadata(group.protocol_name)) for m in shown)
    return JoinGroupResponse(
        group.generation,
        group.protocol_type,
        group.protocol_name,
        leader,
        member_id,
        tuple(map(JoinGroupResponseMember._make, members)),
        skip_assignment=skip,
    )


def sync_response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The member's assignment."""
    return SyncGroupResponse(assignment, protocol_type=group.protocol_type, protocol_name=group.protocol_name)


def leave_response(entries: Sequence[MemberResponse], version: int) -> LeaveGroupResponse:
    """The results of the entries of a LeaveGroup; before version 3 there is one, whose error is the answer's."""
    if version < LEAVES_IN_BATCHES_SINCE:
        return LeaveGroupResponse(entries[0].error_code)
    return LeaveGroupResponse(members=tuple(entries))


def refuse(request: Request, code: ErrorCode) -> ClassicResponse:
    """The answer to a request of a classic member that failed a check."""
    body = request.body
    if isinstance(body, JoinGroupRequest):
        return refuse_join(code, body.member_id, request.version)
    if isinstance(body, SyncGroupRequest):
        return SyncGroupResponse(error_code=code)
    return LeaveGroupResponse(code) if isinstance(body, LeaveGroupRequest) else HeartbeatResponse(code)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> records.Record:
    """The record of the group, with assignments that its members may not have received yet."""
    members = (
        records.ClassicGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol_name),
            member.assignment if assignments is None else assignments[member.member_id],
        )
        for member in group.members.in_order()
    )
    value = records.ClassicGroup(
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader,
        group.state_since_ms,
        tuple(members),
    )
    return records.Record(_key(group), value, WRITTEN_VERSION)


def replacement_record(group: ClassicGroup, stored: records.ClassicGroup, member: ClassicGroupMember) -> records.Record:
    """The group's last record again, with the member's id where another one has its instance id."""
    before = {one.member_id for one in stored.members if one.group_instance_id == member.instance_id}
    members = (replace(one, member_id=member.member_id) if one.member_id in before else one for one in stored.members)
    leader = member.member_id if stored.leader in before else stored.leader
    return records.Record(_key(group), replace(stored, leader=leader, members=tuple(members)), WRITTEN_VERSION)


def keep_static(stored: object, dialect: Dialect) -> records.ClassicGroup | None:
    """The value of a group's record, if a static member of it may be replaced before the next one (F43)."""
    if not isinstance(stored, records.ClassicGroup) or Choice.REPLACED_ID_IS_STORED not in dialect:
        return None
    return stored if any(one.group_instance_id is not None for one in stored.members) else None


def tombstone(group: ClassicGroup) -> records.Record:
    """The end of the group in the log."""
    return records.Record(_key(group), None)


def _key(group: ClassicGroup) -> records.ClassicGroupKey:
    return records.ClassicGroupKey(records.RecordType.GROUP_METADATA, group.group_id)


def describe(group: ClassicGroup) -> DescribedGroup:
    """The answer of DescribeGroups; protocol and subscriptions only while the group is STABLE."""
    stable = group.state is State.STABLE
    members = (
        DescribedGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol_name) if stable else b"",
            member.assignment,
        )
        for member in group.members.in_order()
    )
    return DescribedGroup(
        ErrorCode.NONE,
        None,
        group.group_id,
        PRINTED[group.state],
        group.protocol_type or "",
        (group.protocol_name or "") if stable else "",
        tuple(members),
    )
