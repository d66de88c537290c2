"""Requests and responses, one type each, with Kafka's names in snake case (`_ms` for durations).

A message has the fields of all versions; annotations give the versions of each field (`fsm.protocol.schema`). None is
Kafka's null. Structs inside a message are NamedTuples. Beside messages and their structs there are

* `APIS`, `Api`: every known request with its response and versions
* `ConsumerRequest`, `ConsumerResponse`, `ClassicRequest`, `ClassicResponse`: the messages of a member of each protocol
* `TransportFailure`, `DISCONNECTED`, `TIMED_OUT`, `UNSUPPORTED_VERSION`: why a request got no response
* `Offsets`, `commit_topics`, `commit_results`: offsets by partition, and their form in a commit and its response
* `UNKNOWN_MEMBER_ID`, `UNKNOWN_GENERATION_ID`, `NOT_ASKED`, `NO_REPLICA`: values for an absent id, set or replica
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fsm.protocol.messages.cluster import *
from fsm.protocol.messages.fetching import *
from fsm.protocol.messages.groups import *
from fsm.protocol.messages.offsets import *
from fsm.protocol.messages.producing import *
from fsm.protocol.messages.topics import *
from fsm.protocol.schema import LATEST

NEVER = LATEST


class Api(NamedTuple):
    """One API: its key, request and response, and the versions of clients and brokers of Kafka 4."""

    key: int
    request: type[Any]
    response: type[Any]
    oldest: int
    newest: int
    flexible_since: int
    """The first version with compact lengths and tagged fields."""

    @property
    def name(self) -> str:
        """Kafka's name: `JoinGroup`."""
        return self.request.__name__.removesuffix("Request")


APIS: Mapping[str, Api] = {
    api.name: api
    for api in (
        Api(68, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, 0, 1, 0),
        Api(69, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, 0, 1, 0),
        Api(11, JoinGroupRequest, JoinGroupResponse, 0, 9, 6),
        Api(14, SyncGroupRequest, SyncGroupResponse, 0, 5, 4),
        Api(12, HeartbeatRequest, HeartbeatResponse, 0, 4, 4),
        Api(13, LeaveGroupRequest, LeaveGroupResponse, 0, 5, 4),
        Api(15, DescribeGroupsRequest, DescribeGroupsResponse, 0, 6, 5),
        Api(16, ListGroupsRequest, ListGroupsResponse, 0, 5, 3),
        Api(42, DeleteGroupsRequest, DeleteGroupsResponse, 0, 3, 2),
        Api(8, OffsetCommitRequest, OffsetCommitResponse, 2, 10, 8),
        Api(9, OffsetFetchRequest, OffsetFetchResponse, 1, 10, 6),
        Api(47, OffsetDeleteRequest, OffsetDeleteResponse, 0, 0, NEVER),
        Api(28, TxnOffsetCommitRequest, TxnOffsetCommitResponse, 0, 6, 3),
        Api(10, FindCoordinatorRequest, FindCoordinatorResponse, 0, 6, 3),
        Api(18, ApiVersionsRequest, ApiVersionsResponse, 0, 5, 3),
        Api(3, MetadataRequest, MetadataResponse, 0, 13, 9),
        Api(22, InitProducerIdRequest, InitProducerIdResponse, 0, 6, 2),
        Api(25, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, 0, 4, 3),
        Api(26, EndTxnRequest, EndTxnResponse, 0, 5, 3),
        Api(32, DescribeConfigsRequest, DescribeConfigsResponse, 1, 4, 4),
        Api(19, CreateTopicsRequest, CreateTopicsResponse, 2, 7, 5),
        Api(20, DeleteTopicsRequest, DeleteTopicsResponse, 1, 6, 4),
        Api(37, CreatePartitionsRequest, CreatePartitionsResponse, 0, 3, 2),
        Api(1, FetchRequest, FetchResponse, 4, 18, 12),
        Api(0, ProduceRequest, ProduceResponse, 3, 13, 9),
        Api(2, ListOffsetsRequest, ListOffsetsResponse, 1, 11, 6),
        Api(23, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, 2, 4, 4),
        Api(44, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, 0, 1, 1),
        Api(60, DescribeClusterRequest, DescribeClusterResponse, 0, 2, 0),
        Api(74, ListConfigResourcesRequest, ListConfigResourcesResponse, 0, 1, 0),
        Api(75, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, 0, 0, 0),
    )
}
"""API by name."""

ConsumerRequest = ConsumerGroupHeartbeatRequest | OffsetCommitRequest
ConsumerResponse = ConsumerGroupHeartbeatResponse | OffsetCommitResponse
ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
ClassicResponse = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse

__all__ = [  # noqa: PLE0604  # names of all that is defined in these modules
    "APIS",
    "NOT_ASKED",
    "UNKNOWN_GENERATION_ID",
    "UNKNOWN_MEMBER_ID",
    "ClassicRequest",
    "ClassicResponse",
    "ConsumerRequest",
    "ConsumerResponse",
    "Offsets",
    *sorted(name for name, found in globals().items() if getattr(found, "__module__", "").startswith(__name__)),
]
