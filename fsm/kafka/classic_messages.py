"""Requests and responses of the classic protocol, field by field as Kafka's schemas have them.

Source: `JoinGroupRequest.json`, `SyncGroupRequest.json`, `HeartbeatRequest.json`, `LeaveGroupRequest.json`
and their responses. Names are the schemas' own in snake case, with `_ms` where a field
is a duration. Metadata and assignments are bytes here; `consumer_protocol` reads those of consumers.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsm.kafka.error_codes import ErrorCode

UNKNOWN_MEMBER_ID = ""
"""What a member calls itself before the coordinator named it."""
UNKNOWN_GENERATION_ID = -1


@dataclass(frozen=True, slots=True)
class JoinGroupRequestProtocol:
    """An assignor that the member supports, with what the leader needs to know of the member."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupRequest:
    """A member asks to be in the next generation. The answer waits until the others have joined as well."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    protocol_type: str = "consumer"
    group_instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JoinGroupResponseMember:
    """A member of the generation, as its leader is told."""

    member_id: str
    metadata: bytes
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    """The new generation; `members` are told to its leader only."""

    generation_id: int = UNKNOWN_GENERATION_ID
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinGroupResponseMember, ...] = ()
    skip_assignment: bool = False
    """The leader is a static member that came back: the assignment stays what it was."""
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class SyncGroupRequestAssignment:
    """What a member is to get."""

    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class SyncGroupRequest:
    """A member asks for its assignment; the leader's request carries everyone's."""

    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()
    protocol_type: str | None = "consumer"
    protocol_name: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class SyncGroupResponse:
    """The member's assignment."""

    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A member of a generation is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """Whether the generation still stands."""

    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Who leaves, and why."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest:
    """Members leave the group."""

    group_id: str
    members: tuple[MemberIdentity, ...]


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse:
    """The leave was noted."""

    error_code: ErrorCode = ErrorCode.NONE


ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
ClassicResponse = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse
