"""Messages of members and of admin clients about groups.

* the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Metadata and assignments are opaque bytes;
  `consumer_protocol` decodes those of consumers
* the consumer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe
* DescribeGroups, ListGroups, DeleteGroups

Source: `JoinGroupRequest.json` and the others of these names in apache/kafka, and KIP-848, section
"ConsumerGroupHeartbeat API".
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import TopicId, TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int8, Wire, Wrapped
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


@value
class ConsumerGroupHeartbeatRequest:
    """A member's heartbeat: joins (epoch 0), keeps the session, acknowledges owned partitions, or leaves (-1 or -2)."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1 if unchanged since the last heartbeat."""
    subscribed_topic_names: tuple[str, ...] | None = None
    """None if unchanged."""
    subscribed_topic_regex: Annotated[str | None, Wire(since=1)] = None
    """None if unchanged, empty to remove it."""
    server_assignor: str | None = None
    topic_partitions: TopicPartitions | None = None
    """Owned partitions; None if unchanged."""


@value
class ConsumerGroupHeartbeatResponse:
    """The coordinator's answer; `assignment` is None if unchanged."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.NONE, kw_only=True)
    error_message: str | None = field(default=None, kw_only=True)
    member_id: str | None = field(default=None, kw_only=True)
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Annotated[TopicPartitions | None, Wrapped("topic_partitions")] = None


@value
class ConsumerGroupDescribeRequest:
    """Asks for the state of consumer groups."""

    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedTopicPartitions(NamedTuple):
    """Partitions of one topic, with its name."""

    topic_id: TopicId
    topic_name: str
    partitions: tuple[int, ...]


class DescribedConsumerGroupMember(NamedTuple):
    """`Member` of the response."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: Annotated[tuple[DescribedTopicPartitions, ...], Wrapped("topic_partitions")]
    target_assignment: Annotated[tuple[DescribedTopicPartitions, ...], Wrapped("topic_partitions")]
    member_type: Annotated[Int8, Wire(since=1)] = -1
    """-1 unknown, 0 classic, 1 consumer."""


class DescribedConsumerGroup(NamedTuple):
    """`DescribedGroup` of the response."""

    error_code: ErrorCode
    error_message: str | None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumerGroupMember, ...] = ()
    authorized_operations: int = -(1 << 31)


@value
class ConsumerGroupDescribeResponse:
    """The state of each group."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    groups: tuple[DescribedConsumerGroup, ...] = ()


@value
class DescribeGroupsRequest:
    """Asks for the state of classic groups."""

    groups: tuple[str, ...]
    include_authorized_operations: Annotated[bool, Wire(since=3)] = False


class DescribedGroupMember(NamedTuple):
    """A member of a classic group."""

    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=4)]
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(NamedTuple):
    """One classic group; in state `Dead` if it does not exist."""

    error_code: ErrorCode
    error_message: Annotated[str | None, Wire(since=6)]
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    """The name of the assignor."""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[int, Wire(since=3)] = -(1 << 31)


@value
class DescribeGroupsResponse:
    """The state of each group."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    groups: tuple[DescribedGroup, ...] = ()


@value
class ListGroupsRequest:
    """Asks for the groups of a broker."""

    states_filter: Annotated[tuple[str, ...], Wire(since=4)] = ()
    types_filter: Annotated[tuple[str, ...], Wire(since=5)] = ()


class ListedGroup(NamedTuple):
    """One group of the list."""

    group_id: str
    protocol_type: str
    group_state: Annotated[str, Wire(since=4)] = ""
    group_type: Annotated[str, Wire(since=5)] = ""


@value
class ListGroupsResponse:
    """The groups whose coordinator the broker is."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@value
class DeleteGroupsRequest:
    """Deletes empty groups."""

    groups_names: tuple[str, ...]


class DeletableGroupResult(NamedTuple):
    """Result for one group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: Annotated[str | None, Wire(since=3)] = None


@value
class DeleteGroupsResponse:
    """Result for each group."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    results: tuple[DeletableGroupResult, ...] = ()
