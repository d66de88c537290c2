"""Messages of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Metadata and assignments are bytes here; `consumer_protocol` reads those of consumers.

Source: `JoinGroupRequest.json`, `SyncGroupRequest.json`, `HeartbeatRequest.json`, `LeaveGroupRequest.json` and their
responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Wire
from fsm.step import value

UNKNOWN_MEMBER_ID = ""
"""The member id of a JoinGroup before the coordinator gave one."""
UNKNOWN_GENERATION_ID = -1


class JoinGroupRequestProtocol(NamedTuple):
    """An assignor that the member supports, with what the leader needs to know of the member."""

    name: str
    metadata: bytes


@value
class JoinGroupRequest:
    """A member asks to be in the next generation. The answer waits until the others have joined as well."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: Annotated[int, Wire(since=1)] = -1
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: Annotated[str | None, Wire(since=5)] = None
    protocol_type: str = "consumer"
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, Wire(since=8)] = None


class JoinGroupResponseMember(NamedTuple):
    """A member of the generation, as its leader is told."""

    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=5)] = None
    metadata: bytes = b""


@value
class JoinGroupResponse:
    """The new generation; `members` are told to its leader only."""

    throttle_time_ms: Annotated[int, Wire(since=2)] = field(default=0, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.NONE, kw_only=True)
    generation_id: int = UNKNOWN_GENERATION_ID
    protocol_type: Annotated[str | None, Wire(since=7)] = None
    protocol_name: Annotated[str | None, Wire(null_since=7)] = None
    leader: str = ""
    skip_assignment: Annotated[bool, Wire(since=9)] = field(default=False, kw_only=True)
    """The leader is a static member that came back: the assignment stays what it was."""
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinGroupResponseMember, ...] = ()


class SyncGroupRequestAssignment(NamedTuple):
    """What a member is to get."""

    member_id: str
    assignment: bytes


@value
class SyncGroupRequest:
    """A member asks for its assignment; the leader's request carries everyone's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=3)] = None
    protocol_type: Annotated[str | None, Wire(since=5)] = None
    protocol_name: Annotated[str | None, Wire(since=5)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


@value
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.NONE, kw_only=True)
    protocol_type: Annotated[str | None, Wire(since=5)] = field(default=None, kw_only=True)
    protocol_name: Annotated[str | None, Wire(since=5)] = field(default=None, kw_only=True)
    assignment: bytes = b""


@value
class HeartbeatRequest:
    """A member of a generation is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=3)] = None


@value
class HeartbeatResponse:
    """Whether the generation still stands."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE


class MemberIdentity(NamedTuple):
    """A member that leaves, and why."""

    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, Wire(since=5)] = None


@value
class LeaveGroupRequest:
    """Members leave the group."""

    group_id: str
    member_id: Annotated[str, Wire(until=2)] = field(default="", kw_only=True)
    """Up to version 2 a member leaves by itself, without `members`."""
    members: Annotated[tuple[MemberIdentity, ...], Wire(since=3)] = ()


class MemberResponse(NamedTuple):
    """What became of one member's leave."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


@value
class LeaveGroupResponse:
    """What became of each member that was to leave, or why the whole request was refused."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    members: Annotated[tuple[MemberResponse, ...], Wire(since=3)] = ()
