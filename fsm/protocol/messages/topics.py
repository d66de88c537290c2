"""Messages of admin clients about topics and settings.

* CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions
* DescribeConfigs, IncrementalAlterConfigs, ListConfigResources (KIP-1142): a resource is a topic (type 2), a broker
  (4), a client's metrics (16) or a group (32)

Source: `CreateTopicsRequest.json` and the others of these names in apache/kafka.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages.cluster import NOT_ASKED
from fsm.protocol.schema import Int8, Int16, Wire
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
    name: str
    num_partitions: int
    replication_factor: Int16
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@value
class CreateTopicsRequest:
    """Creates topics."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatableTopicConfigs(NamedTuple):
    """A setting of a created topic."""

    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(NamedTuple):
    """Result for one topic."""

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
    """Result for each topic."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    topics: tuple[CreatableTopicResult, ...] = ()


class DeleteTopicState(NamedTuple):
    """A topic by name or by id."""

    name: str | None = None
    topic_id: TopicId = NO_TOPIC_ID


@value
class DeleteTopicsRequest:
    """Deletes topics: up to version 5 by name, later by name or id."""

    topics: Annotated[tuple[DeleteTopicState, ...], Wire(since=6)] = ()
    topic_names: Annotated[tuple[str, ...], Wire(until=5)] = ()
    timeout_ms: int = 0

    @property
    def wanted(self) -> tuple[DeleteTopicState, ...]:
        """The topics in the form of the newest version."""
        return (*self.topics, *map(DeleteTopicState, self.topic_names))


class DeletableTopicResult(NamedTuple):
    """Result for one topic."""

    name: Annotated[str | None, Wire(null_since=6)]
    topic_id: Annotated[TopicId, Wire(since=6)] = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: Annotated[str | None, Wire(since=5)] = None


@value
class DeleteTopicsResponse:
    """Result for each topic."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    responses: tuple[DeletableTopicResult, ...] = ()


class CreatePartitionsAssignment(NamedTuple):
    """The brokers of one new partition."""

    broker_ids: tuple[int, ...]


@value
class CreatePartitionsTopic:
    """A topic and its new number of partitions."""

    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


@value
class CreatePartitionsRequest:
    """Adds partitions to topics."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(NamedTuple):
    """Result for one topic."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@value
class CreatePartitionsResponse:
    """Result for each topic."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    results: tuple[CreatePartitionsTopicResult, ...] = ()


class TopicRequest(NamedTuple):
    name: str


class Cursor(NamedTuple):
    """The first partition of the next page."""

    topic_name: str
    partition_index: int


@value
class DescribeTopicPartitionsRequest:
    """Asks for partitions, in pages; no topics means all."""

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(NamedTuple):
    """A partition and its replicas."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


class DescribeTopicPartitionsResponseTopic(NamedTuple):
    """A topic and its partitions."""

    error_code: ErrorCode
    name: str | None
    topic_id: TopicId = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = NOT_ASKED


@value
class DescribeTopicPartitionsResponse:
    """A page of partitions, and the cursor of the next one; None after the last."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None


class DescribeConfigsResource(NamedTuple):
    """A resource, and the requested settings; None: all."""

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
    """The setting's value in another source."""

    name: str
    value: str | None
    source: Int8


class DescribeConfigsResourceResult(NamedTuple):
    """One setting and the source of its value."""

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


class AlterableConfig(NamedTuple):
    """A change of one setting: set (operation 0), delete (1), append (2) or subtract (3)."""

    name: str
    config_operation: Int8
    value: str | None


class AlterConfigsResource(NamedTuple):
    """Changes of one resource's settings."""

    resource_type: Int8
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@value
class IncrementalAlterConfigsRequest:
    """Changes the named settings."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(NamedTuple):
    """Result for one resource."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str


@value
class IncrementalAlterConfigsResponse:
    """Result for each resource."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


@value
class ListConfigResourcesRequest:
    """Asks for resources that have settings, of the given types; no type means all.

    Version 0, formerly ListClientMetricsResources, asks for client metrics only.
    """

    resource_types: Annotated[tuple[Int8, ...], Wire(since=1)] = ()


class ConfigResource(NamedTuple):
    """One resource; `ClientMetricsResource` in version 0."""

    resource_name: str
    resource_type: Annotated[Int8, Wire(since=1)] = 16


@value
class ListConfigResourcesResponse:
    """The resources that have settings."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    config_resources: tuple[ConfigResource, ...] = ()
