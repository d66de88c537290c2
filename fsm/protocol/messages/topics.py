"""Messages about topics and their records: CreateTopics, DeleteTopics, CreatePartitions, DescribeConfigs, Fetch.

Source: `CreateTopicsRequest.json`, `DeleteTopicsRequest.json`, `CreatePartitionsRequest.json`,
`DescribeConfigsRequest.json`, `FetchRequest.json` and their responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int8, Int16, Int64, Wire
from fsm.step import value


class CreatableReplicaAssignment(NamedTuple):
    """The brokers of one partition."""

    partition_index: int
    broker_ids: tuple[int, ...]


class CreatableTopicConfig(NamedTuple):
    """A setting of a new topic."""

    name: str
    value: str | None


class CreatableTopic(NamedTuple):
    """A new topic."""

    name: str
    num_partitions: int
    replication_factor: Int16
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@value
class CreateTopicsRequest:
    """Topics are to be created."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatableTopicConfigs(NamedTuple):
    """A setting of the topic that was created."""

    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(NamedTuple):
    """What became of one topic."""

    name: str
    topic_id: Annotated[TopicId, Wire(since=7)] = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_config_error_code: Annotated[Int16, Wire(since=5, tag=0)] = 0
    num_partitions: Annotated[int, Wire(since=5)] = -1
    replication_factor: Annotated[Int16, Wire(since=5)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, Wire(since=5)] = ()


@value
class CreateTopicsResponse:
    """What became of each topic."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    topics: tuple[CreatableTopicResult, ...] = ()


class DeleteTopicState(NamedTuple):
    """A topic by name or by id."""

    name: str | None = None
    topic_id: TopicId = NO_TOPIC_ID


@value
class DeleteTopicsRequest:
    """Topics are to be deleted: up to version 5 by name, later by name or id."""

    topics: Annotated[tuple[DeleteTopicState, ...], Wire(since=6)] = ()
    topic_names: Annotated[tuple[str, ...], Wire(until=5)] = ()
    timeout_ms: int = 0


class DeletableTopicResult(NamedTuple):
    """What became of one topic."""

    name: Annotated[str | None, Wire(null_since=6)]
    topic_id: Annotated[TopicId, Wire(since=6)] = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: Annotated[str | None, Wire(since=5)] = None


@value
class DeleteTopicsResponse:
    """What became of each topic."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    responses: tuple[DeletableTopicResult, ...] = ()


class CreatePartitionsAssignment(NamedTuple):
    """The brokers of one new partition."""

    broker_ids: tuple[int, ...]


@value
class CreatePartitionsTopic:
    """A topic and how many partitions it is to have."""

    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


@value
class CreatePartitionsRequest:
    """Topics are to have more partitions."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(NamedTuple):
    """What became of one topic."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@value
class CreatePartitionsResponse:
    """What became of each topic."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    results: tuple[CreatePartitionsTopicResult, ...] = ()


class DescribeConfigsResource(NamedTuple):
    """A broker (type 4) or topic (2), and the settings that are wanted; None: all."""

    resource_type: Int8
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@value
class DescribeConfigsRequest:
    """Asks for settings."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Wire(since=3)] = False


class DescribeConfigsSynonym(NamedTuple):
    """Where else the setting has a value."""

    name: str
    value: str | None
    source: Int8


class DescribeConfigsResourceResult(NamedTuple):
    """One setting of a group or a topic, and where its value comes from."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, Wire(since=3)] = 0
    documentation: Annotated[str | None, Wire(since=3)] = None


class DescribeConfigsResult(NamedTuple):
    """The settings of one resource."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@value
class DescribeConfigsResponse:
    """The settings of each resource."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    results: tuple[DescribeConfigsResult, ...] = ()


class ReplicaState(NamedTuple):
    """The replica that fetches; -1 for a consumer."""

    replica_id: int = -1
    replica_epoch: Int64 = -1


NO_REPLICA = ReplicaState()


class FetchPartition(NamedTuple):
    """A partition, and from where it is read."""

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
    """Partitions that the session no longer wants."""

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
    """Where the log of a leader epoch ends."""

    epoch: int = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(NamedTuple):
    """The leader of the partition, and its epoch."""

    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(NamedTuple):
    """Where the snapshot to be fetched ends."""

    end_offset: Int64 = -1
    epoch: int = -1


class AbortedTransaction(NamedTuple):
    """A transaction whose records do not count."""

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
    """Where a leader listens."""

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
