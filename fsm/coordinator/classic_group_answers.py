"""What a classic group answers, writes and shows of itself.

Source: the response schemas of JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups; record type 2 in
section 8.3 of the coordinator reference.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fsm.coordinator import records
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.classic_members import ClassicGroupMember
from fsm.coordinator.messages import Request, error_name
from fsm.kafka.consumer_protocol import PROTOCOL_TYPE
from fsm.kafka.error_codes import ErrorCode
from fsm.tables.classic_group import State

WRITTEN_VERSION = 3
"""Of the group's record, in every release with consumer groups."""
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


class Left(NamedTuple):
    """What became of one entry of a LeaveGroup."""

    member_id: str
    instance_id: str | None
    code: ErrorCode = ErrorCode.NONE


def text(data: bytes) -> str:
    """Bytes as they stand in a body."""
    return b64encode(data).decode()


def data_of(body: Any) -> bytes:
    """Bytes of a body."""
    return body if isinstance(body, bytes) else b64decode(body or "")


def join_refusal(code: ErrorCode, member_id: str, version: int) -> Mapping[str, Any]:
    """A JoinGroup that brought no membership."""
    return {
        "error_code": error_name(code),
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None if version >= NULLABLE_PROTOCOL_SINCE else "",
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def joined(group: ClassicGroup, member_id: str, leader: str, *, skip: bool = False) -> Mapping[str, Any]:
    """The present generation, as its member is told; the members only for its leader."""
    leads = leader == member_id
    return {
        "error_code": None,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": leader,
        "skip_assignment": skip,
        "member_id": member_id,
        "members": [_for_leader(group, member) for member in group.in_order()] if leads else [],
    }


def joined_mixed(member_id: str, generation: int, protocol: str) -> Mapping[str, Any]:
    """A classic member of a consumer group joined: nobody leads, and nobody assigns."""
    return {
        "error_code": None,
        "generation_id": generation,
        "protocol_type": PROTOCOL_TYPE,
        "protocol_name": protocol,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def _for_leader(group: ClassicGroup, member: ClassicGroupMember) -> Mapping[str, Any]:
    metadata = text(member.metadata(group.protocol_name))
    return {"member_id": member.member_id, "group_instance_id": member.instance_id, "metadata": metadata}


def sync_refusal(code: ErrorCode) -> Mapping[str, Any]:
    """A SyncGroup without an assignment."""
    return {"error_code": error_name(code), "protocol_type": None, "protocol_name": None, "assignment": ""}


def synced(group: ClassicGroup, member: ClassicGroupMember) -> Mapping[str, Any]:
    """The member's assignment."""
    return {
        "error_code": None,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "assignment": text(member.assignment),
    }


def left(entries: Sequence[Left], version: int) -> Mapping[str, Any]:
    """The answer to a LeaveGroup; before version 3 it has one member, whose error is the answer's."""
    if version < LEAVES_IN_BATCHES_SINCE:
        return {"error_code": error_name(entries[0].code), "members": []}
    return {
        "error_code": None,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": error_name(code)}
            for member_id, instance_id, code in entries
        ],
    }


def refusal(request: Request, code: ErrorCode, member_id: str | None = None) -> Mapping[str, Any]:
    """The answer to a request of a classic member that failed a check."""
    if request.api == "JoinGroup":
        return join_refusal(
            code, request.body.get("member_id", "") if member_id is None else member_id, request.version
        )
    if request.api == "SyncGroup":
        return sync_refusal(code)
    if request.api == "LeaveGroup":
        return {"error_code": error_name(code), "members": []}
    return {"error_code": error_name(code)}


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> records.Record:
    """The group as it is stored, with assignments that its members may not have been given yet."""
    members = tuple(_stored(group, member, assignments) for member in group.in_order())
    value = records.ClassicGroup(
        group.protocol_type or "", group.generation, group.protocol_name, group.leader, group.state_since_ms, members
    )
    return records.Record(_key(group), value, WRITTEN_VERSION)


def _stored(
    group: ClassicGroup, member: ClassicGroupMember, assignments: Mapping[str, bytes] | None
) -> records.ClassicGroupMember:
    return records.ClassicGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(group.protocol_name),
        member.assignment if assignments is None else assignments[member.member_id],
    )


def tombstone(group: ClassicGroup) -> records.Record:
    """The end of the group in the log."""
    return records.Record(_key(group), None)


def _key(group: ClassicGroup) -> records.ClassicGroupKey:
    return records.ClassicGroupKey(records.RecordType.GROUP_METADATA, group.group_id)


def describe(group: ClassicGroup) -> Mapping[str, Any]:
    """What DescribeGroups says; protocol and subscriptions only while the group is STABLE."""
    stable = group.state is State.STABLE
    return {
        "type": "classic",
        "state": PRINTED[group.state],
        "protocol_type": group.protocol_type or "",
        "protocol": (group.protocol_name or "") if stable else "",
        "members": {
            member.member_id: {
                "instance": member.instance_id,
                "metadata": text(member.metadata(group.protocol_name)) if stable else "",
                "assignment": text(member.assignment),
            }
            for member in group.in_order()
        },
    }
