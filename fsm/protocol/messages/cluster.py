"""Messages about brokers and the cluster: ApiVersions, FindCoordinator, Metadata, DescribeCluster; and why a request
got no response.

Source: `ApiVersionsRequest.json`, `FindCoordinatorRequest.json`, `MetadataRequest.json`, `DescribeClusterRequest.json`
and their responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int8, Int16, Int64, Wire
from fsm.step import value

NOT_ASKED = -(1 << 31)
"""Authorized operations in a response to a request that did not include them."""


@value
class ApiVersionsRequest:
    """Asks for the APIs that the broker supports."""

    client_software_name: Annotated[str, Wire(since=3)] = ""
    client_software_version: Annotated[str, Wire(since=3)] = ""
    cluster_id: Annotated[str | None, Wire(since=5)] = None
    """Cluster id, and below node id, that the client expects."""
    node_id: Annotated[int, Wire(since=5)] = -1


class ApiVersion(NamedTuple):
    """The versions of one API."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(NamedTuple):
    """A feature and the levels that the broker supports."""

    name: str
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(NamedTuple):
    """A feature and its finalized levels in the cluster."""

    name: str
    max_version_level: Int16
    min_version_level: Int16


@value
class ApiVersionsResponse:
    """The APIs and features that the broker supports."""

    error_code: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], Wire(since=3, tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, Wire(since=3, tag=1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], Wire(since=3, tag=2)] = ()
    zk_migration_ready: Annotated[bool, Wire(since=3, tag=3)] = False


@value
class FindCoordinatorRequest:
    """Asks for the coordinators of groups (key type 0) or transactions (1); up to version 3 for a single one."""

    key: Annotated[str, Wire(until=3)] = field(default="", kw_only=True)
    key_type: Annotated[Int8, Wire(since=1)] = 0
    coordinator_keys: Annotated[tuple[str, ...], Wire(since=4)] = ()


class Coordinator(NamedTuple):
    """The coordinator of one key."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@value
class FindCoordinatorResponse:
    """The coordinator of each key; up to version 3 the fields of a single one are at top level."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: Annotated[ErrorCode, Wire(until=3)] = field(default=ErrorCode.NONE, kw_only=True)
    error_message: Annotated[str | None, Wire(since=1, until=3)] = field(default=None, kw_only=True)
    node_id: Annotated[int, Wire(until=3)] = field(default=0, kw_only=True)
    host: Annotated[str, Wire(until=3)] = field(default="", kw_only=True)
    port: Annotated[int, Wire(until=3)] = field(default=0, kw_only=True)
    coordinators: Annotated[tuple[Coordinator, ...], Wire(since=4)] = ()


class MetadataRequestTopic(NamedTuple):
    """A topic by name or, since version 12, by id."""

    topic_id: Annotated[TopicId, Wire(since=10)] = NO_TOPIC_ID
    name: Annotated[str | None, Wire(null_since=10)] = None


@value
class MetadataRequest:
    """Asks for brokers and topics; with `topics` None for all topics."""

    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, Wire(null_since=1)] = None
    allow_auto_topic_creation: Annotated[bool, Wire(since=4)] = True
    include_cluster_authorized_operations: Annotated[bool, Wire(since=8, until=10)] = field(default=False, kw_only=True)
    include_topic_authorized_operations: Annotated[bool, Wire(since=8)] = False


class MetadataResponseBroker(NamedTuple):
    """A broker and its endpoint."""

    node_id: int
    host: str
    port: int
    rack: Annotated[str | None, Wire(since=1)] = None


class MetadataResponsePartition(NamedTuple):
    """A partition and its replicas."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: Annotated[int, Wire(since=7)] = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: Annotated[tuple[int, ...], Wire(since=5)] = ()


class MetadataResponseTopic(NamedTuple):
    """A topic and its partitions."""

    error_code: ErrorCode
    name: Annotated[str | None, Wire(null_since=12)]
    topic_id: Annotated[TopicId, Wire(since=10)] = NO_TOPIC_ID
    is_internal: Annotated[bool, Wire(since=1)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[int, Wire(since=8)] = NOT_ASKED


@value
class MetadataResponse:
    """Brokers and topics in the broker's metadata."""

    throttle_time_ms: Annotated[int, Wire(since=3)] = field(default=0, kw_only=True)
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, Wire(since=2)] = None
    controller_id: Annotated[int, Wire(since=1)] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[int, Wire(since=8, until=10)] = field(default=NOT_ASKED, kw_only=True)
    error_code: Annotated[ErrorCode, Wire(since=13)] = ErrorCode.NONE


@value
class DescribeClusterRequest:
    """Asks for the brokers (endpoint type 1) or controllers (2)."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, Wire(since=1)] = 1
    include_fenced_brokers: Annotated[bool, Wire(since=2)] = False


class DescribeClusterBroker(NamedTuple):
    """A broker and its endpoint."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: Annotated[bool, Wire(since=2)] = False


@value
class DescribeClusterResponse:
    """The cluster's brokers or controllers."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.NONE, kw_only=True)
    error_message: str | None = field(default=None, kw_only=True)
    endpoint_type: Annotated[Int8, Wire(since=1)] = field(default=1, kw_only=True)
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = NOT_ASKED


@value
class TransportFailure:
    """Why a request got no response."""

    name: str
    """Kafka's exception: `DisconnectException`."""
    retriable: bool = True
    disconnected: bool = False
    """Whether the connection was closed, so that the coordinator must be found again."""


DISCONNECTED = TransportFailure("DisconnectException", disconnected=True)
TIMED_OUT = TransportFailure("TimeoutException")
UNSUPPORTED_VERSION = TransportFailure("UnsupportedVersionException", retriable=False)
