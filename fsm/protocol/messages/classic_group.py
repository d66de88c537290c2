"""Messages of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Metadata and assignments are opaque bytes; `consumer_protocol` decodes those of consumers.

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
"""Member id of a JoinGroup without an id from the coordinator."""
UNKNOWN_GENERATION_ID = -1


class JoinGroupRequestProtocol(NamedTuple):
    """An assignor that the member supports, with the member's metadata for the leader."""

    name: str
    metadata: bytes


@value
class JoinGroupRequest:
    """Joins the next generation. The response is delayed until the join phase ends."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: Annotated[int, Wire(since=1)] = -1
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: Annotated[str | None, Wire(since=5)] = None
    protocol_type: str = "consumer"
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, Wire(since=8)] = None


class JoinGroupResponseMember(NamedTuple):
    """A member of the generation, in the leader's response."""

    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=5)] = None
    metadata: bytes = b""


@value
class JoinGroupResponse:
    """The new generation; `members` is empty except for the leader."""

    throttle_time_ms: Annotated[int, Wire(since=2)] = field(default=0, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.NONE, kw_only=True)
    generation_id: int = UNKNOWN_GENERATION_ID
    protocol_type: Annotated[str | None, Wire(since=7)] = None
    protocol_name: Annotated[str | None, Wire(null_since=7)] = None
    leader: str = ""
    skip_assignment: Annotated[bool, Wire(since=9)] = field(default=False, kw_only=True)
    """True for a leader that is a restarted static member: the assignment does not change."""
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinGroupResponseMember, ...] = ()


class SyncGroupRequestAssignment(NamedTuple):
    """The leader's assignment for one member."""

    member_id: str
    assignment: bytes


@value
class SyncGroupRequest:
    """Requests a member's assignment; the leader's request contains all members' assignments."""

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
    """Keeps a member's session of a generation alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=3)] = None


@value
class HeartbeatResponse:
    """An error code if the generation is no longer current."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE


class MemberIdentity(NamedTuple):
    """A leaving member, and its reason."""

    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, Wire(since=5)] = None


@value
class LeaveGroupRequest:
    """Removes members from the group."""

    group_id: str
    member_id: Annotated[str, Wire(until=2)] = field(default="", kw_only=True)
    """The only leaving member, up to version 2."""
    members: Annotated[tuple[MemberIdentity, ...], Wire(since=3)] = ()


class MemberResponse(NamedTuple):
    """Result for one member."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


@value
class LeaveGroupResponse:
    """Result for each member, or the error of the whole request."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    members: Annotated[tuple[MemberResponse, ...], Wire(since=3)] = ()
