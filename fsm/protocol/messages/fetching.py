"""Messages that read a partition's log: Fetch, ListOffsets, OffsetForLeaderEpoch.

Source: `FetchRequest.json`, `ListOffsetsRequest.json`, `OffsetForLeaderEpochRequest.json` and their responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int8, Int64, Wire
from fsm.step import value


class ReplicaState(NamedTuple):
    """The replica that fetches; -1 for a consumer."""

    replica_id: int = -1
    replica_epoch: Int64 = -1


NO_REPLICA = ReplicaState()


class FetchPartition(NamedTuple):
    """A partition and its fetch offset."""

    partition: int
    current_leader_epoch: Annotated[int, Wire(since=9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[int, Wire(since=12)] = -1
    log_start_offset: Annotated[Int64, Wire(since=5)] = -1
    partition_max_bytes: int = 0
    replica_directory_id: Annotated[TopicId, Wire(since=17, tag=0)] = NO_TOPIC_ID
    high_watermark: Annotated[Int64, Wire(since=18, tag=1)] = (1 << 63) - 1


class FetchTopic(NamedTuple):
    """Partitions of one topic."""

    topic: Annotated[str, Wire(until=12)] = ""
    topic_id: Annotated[TopicId, Wire(since=13)] = NO_TOPIC_ID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(NamedTuple):
    """Partitions to remove from the fetch session."""

    topic: Annotated[str, Wire(until=12)] = ""
    topic_id: Annotated[TopicId, Wire(since=13)] = NO_TOPIC_ID
    partitions: tuple[int, ...] = ()


@value
class FetchRequest:
    """Asks for records."""

    cluster_id: Annotated[str | None, Wire(since=12, tag=0)] = None
    replica_id: Annotated[int, Wire(until=14)] = -1
    replica_state: Annotated[ReplicaState, Wire(since=15, tag=1)] = NO_REPLICA
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = (1 << 31) - 1
    isolation_level: Int8 = 0
    session_id: Annotated[int, Wire(since=7)] = 0
    session_epoch: Annotated[int, Wire(since=7)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Wire(since=7)] = ()
    rack_id: Annotated[str, Wire(since=11)] = ""


class EpochEndOffset(NamedTuple):
    """End offset of a leader epoch."""

    epoch: int = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(NamedTuple):
    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(NamedTuple):
    """End of the snapshot to be fetched."""

    end_offset: Int64 = -1
    epoch: int = -1


class AbortedTransaction(NamedTuple):
    producer_id: Int64
    first_offset: Int64


class PartitionData(NamedTuple):
    """Records of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Wire(since=5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Wire(since=12, tag=0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, Wire(since=12, tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Wire(since=12, tag=2)] = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: Annotated[int, Wire(since=11)] = -1
    records: bytes | None = None


class FetchableTopicResponse(NamedTuple):
    """Records of one topic."""

    topic: Annotated[str, Wire(until=12)] = ""
    topic_id: Annotated[TopicId, Wire(since=13)] = NO_TOPIC_ID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(NamedTuple):
    """A leader's endpoint."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@value
class FetchResponse:
    """The records, as batches."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: Annotated[ErrorCode, Wire(since=7)] = field(default=ErrorCode.NONE, kw_only=True)
    session_id: Annotated[int, Wire(since=7)] = field(default=0, kw_only=True)
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Wire(since=16, tag=0)] = ()


class ListOffsetsPartition(NamedTuple):
    """A partition, and the timestamp whose first offset is requested.

    -1 is the end of the log, -2 the beginning, -3 the record with the largest timestamp; -4 and -5 are the ends of
    tiered storage, -6 is the first offset not in it.
    """

    partition_index: int
    current_leader_epoch: Annotated[int, Wire(since=4)] = -1
    timestamp: Int64 = -1


class ListOffsetsTopic(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...] = ()


@value
class ListOffsetsRequest:
    """Asks for offsets by timestamp."""

    replica_id: int = field(default=-1, kw_only=True)
    isolation_level: Annotated[Int8, Wire(since=2)] = field(default=0, kw_only=True)
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[int, Wire(since=10)] = 0


class ListOffsetsPartitionResponse(NamedTuple):
    """The offset that was found, -1 for none."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[int, Wire(since=4)] = -1


class ListOffsetsTopicResponse(NamedTuple):
    """Offsets of one topic's partitions."""

    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


@value
class ListOffsetsResponse:
    """The offset of each partition."""

    throttle_time_ms: Annotated[int, Wire(since=2)] = field(default=0, kw_only=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


class OffsetForLeaderPartition(NamedTuple):
    """A partition, and the leader epoch whose end is requested."""

    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int = 0


class OffsetForLeaderTopic(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


@value
class OffsetForLeaderEpochRequest:
    """Asks for the ends of leader epochs; consumers detect log truncation with it."""

    replica_id: Annotated[int, Wire(since=3)] = field(default=-2, kw_only=True)
    """-1 for a consumer."""
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EndOfLeaderEpoch(NamedTuple):
    """End of a leader epoch of one partition; `EpochEndOffset` in Kafka's schema of this response."""

    error_code: ErrorCode
    partition: int
    leader_epoch: int = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(NamedTuple):
    """Leader epochs of one topic's partitions."""

    topic: str
    partitions: tuple[EndOfLeaderEpoch, ...] = ()


@value
class OffsetForLeaderEpochResponse:
    """The end of each leader epoch."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
