"""Messages of the consumer protocol: ConsumerGroupHeartbeat and ConsumerGroupDescribe.

Source: KIP-848, section "ConsumerGroupHeartbeat API"; `ConsumerGroupHeartbeatRequest.json` and its neighbours.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import TopicId, TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int8, Wire, Wrapped
from fsm.step import value


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
