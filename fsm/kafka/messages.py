"""Requests and responses of the consumer protocol, field by field as Kafka's schemas have them.

Source: `ConsumerGroupHeartbeatRequest.json`, `ConsumerGroupHeartbeatResponse.json`, `OffsetCommitRequest.json`.
Names are the schemas' own in snake case, with `_ms` where a field is a duration. None is Kafka's null.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsm.kafka.assignment import TopicPartition, TopicPartitions
from fsm.kafka.error_codes import ErrorCode

Offsets = tuple[tuple[TopicPartition, int], ...]
"""The offset of each partition, sorted by partition."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatRequest:
    """A member's heartbeat: joins (epoch 0), stays, acknowledges what it owns, or leaves (epoch -1 or -2)."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1 where it has not changed since the last heartbeat."""
    subscribed_topic_names: tuple[str, ...] | None = None
    """Sorted; None where unchanged."""
    subscribed_topic_regex: str | None = None
    """None where unchanged, the empty text where there is none any more."""
    server_assignor: str | None = None
    topic_partitions: TopicPartitions | None = None
    """What the member owns; None where unchanged."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatResponse:
    """The coordinator's answer. An assignment is present only where there is something new to say."""

    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicPartitions | None = None
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest:
    """Offsets to be committed by a member at its epoch; an epoch of -1 is none."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    offsets: Offsets
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse:
    """What became of each partition's offset; partitions that are not named were committed."""

    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """A request that got no response: what went wrong on the way."""

    name: str
    """Kafka's exception, as `DisconnectException`."""
    retriable: bool = True
    disconnected: bool = False
    """The connection is gone: the coordinator must be found again."""


DISCONNECTED = TransportFailure("DisconnectException", disconnected=True)
TIMED_OUT = TransportFailure("TimeoutException")
UNSUPPORTED_VERSION = TransportFailure("UnsupportedVersionException", retriable=False)

ConsumerRequest = ConsumerGroupHeartbeatRequest | OffsetCommitRequest
ConsumerResponse = ConsumerGroupHeartbeatResponse | OffsetCommitResponse
