"""The error answer of a broker that refuses a request as a whole, for any request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fsm.coordinator.coordinator import HANDLERS, refuse
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.step import Request
from fsm.protocol import messages as m
from fsm.protocol.codec import API_OF
from fsm.protocol.error_codes import ErrorCode

GROUPS_SINCE: Mapping[type[Any], int] = {m.OffsetFetchRequest: 8, m.FindCoordinatorRequest: 4}
"""The version from which on a request names several groups or keys."""
WHOLE_SINCE = {m.OffsetFetchRequest: 2, m.FetchRequest: 7}
"""The version from which on an answer has a top-level error."""


def refusal(request: Any, version: int, code: ErrorCode, context: Context) -> Any:
    """The answer that refuses this request with this error."""
    if version < WHOLE_SINCE.get(type(request), 0):
        return _of_partitions(request, code)
    several = version >= GROUPS_SINCE.get(type(request), 0)
    if several and type(request) in _REFUSALS:
        return _REFUSALS[type(request)](request, code)
    if type(request) in HANDLERS:
        return refuse(Request(0, "", "", version, request), code, context)
    return API_OF[type(request)].response(error_code=code)


def _of_partitions(request: m.FetchRequest | m.OffsetFetchRequest, code: ErrorCode) -> Any:
    if isinstance(request, m.FetchRequest):
        topics = _by_partition(
            request.topics,
            "partitions",
            lambda topic, found: m.FetchableTopicResponse(topic.topic, partitions=found),
            lambda one: m.PartitionData(one.partition, code, -1, records=b""),
        )
        return m.FetchResponse(responses=topics)
    topics = _by_partition(
        request.topics or (),
        "partition_indexes",
        lambda topic, found: m.OffsetFetchResponseTopics(topic.name, partitions=found),
        lambda one: m.OffsetFetchResponsePartitions(one, error_code=code),
    )
    return m.OffsetFetchResponse(topics=topics)


def _by_partition(
    topics: Iterable[Any], partitions: str, of_topic: Callable[[Any, Any], Any], of_partition: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """The answers about topics, each with those about its partitions."""
    return tuple(of_topic(topic, tuple(map(of_partition, getattr(topic, partitions)))) for topic in topics)


def _metadata(request: m.MetadataRequest, code: ErrorCode) -> m.MetadataResponse:
    topics = tuple(m.MetadataResponseTopic(code, topic.name or "", topic.topic_id) for topic in request.topics or ())
    return m.MetadataResponse(topics=topics, error_code=code)


def _describe_configs(request: m.DescribeConfigsRequest, code: ErrorCode) -> m.DescribeConfigsResponse:
    found = (m.DescribeConfigsResult(code, None, one.resource_type, one.resource_name) for one in request.resources)
    return m.DescribeConfigsResponse(results=tuple(found))


def _alter_configs(request: m.IncrementalAlterConfigsRequest, code: ErrorCode) -> m.IncrementalAlterConfigsResponse:
    found = (
        m.AlterConfigsResourceResponse(code, None, one.resource_type, one.resource_name) for one in request.resources
    )
    return m.IncrementalAlterConfigsResponse(responses=tuple(found))


def _delete_topics(request: m.DeleteTopicsRequest, code: ErrorCode) -> m.DeleteTopicsResponse:
    names = (*request.topic_names, *(topic.name for topic in request.topics))
    return m.DeleteTopicsResponse(responses=tuple(m.DeletableTopicResult(name, error_code=code) for name in names))


_REFUSALS: Mapping[type[Any], Callable[[Any, ErrorCode], Any]] = {
    m.ConsumerGroupDescribeRequest: lambda asked, code: m.ConsumerGroupDescribeResponse(
        groups=tuple(m.DescribedConsumerGroup(code, None, group) for group in asked.group_ids)
    ),
    m.CreatePartitionsRequest: lambda asked, code: m.CreatePartitionsResponse(
        results=tuple(m.CreatePartitionsTopicResult(topic.name, code) for topic in asked.topics)
    ),
    m.CreateTopicsRequest: lambda asked, code: m.CreateTopicsResponse(
        topics=tuple(m.CreatableTopicResult(topic.name, error_code=code) for topic in asked.topics)
    ),
    m.DeleteGroupsRequest: lambda asked, code: m.DeleteGroupsResponse(
        results=tuple(m.DeletableGroupResult(group, code) for group in asked.groups_names)
    ),
    m.DeleteTopicsRequest: _delete_topics,
    m.DescribeConfigsRequest: _describe_configs,
    m.DescribeGroupsRequest: lambda asked, code: m.DescribeGroupsResponse(
        groups=tuple(m.DescribedGroup(code, None, group) for group in asked.groups)
    ),
    m.DescribeTopicPartitionsRequest: lambda asked, code: m.DescribeTopicPartitionsResponse(
        topics=tuple(m.DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in asked.topics)
    ),
    m.FindCoordinatorRequest: lambda asked, code: m.FindCoordinatorResponse(
        coordinators=tuple(m.Coordinator(key, -1, "", -1, code) for key in asked.coordinator_keys)
    ),
    m.IncrementalAlterConfigsRequest: _alter_configs,
    m.ListOffsetsRequest: lambda asked, code: m.ListOffsetsResponse(
        topics=_by_partition(
            asked.topics,
            "partitions",
            lambda topic, found: m.ListOffsetsTopicResponse(topic.name, found),
            lambda one: m.ListOffsetsPartitionResponse(one.partition_index, code),
        )
    ),
    m.MetadataRequest: _metadata,
    m.OffsetCommitRequest: lambda asked, code: m.OffsetCommitResponse(
        topics=_by_partition(
            asked.topics,
            "partitions",
            lambda topic, found: m.OffsetCommitResponseTopic(topic.name, topic.topic_id, found),
            lambda one: m.OffsetCommitResponsePartition(one.partition_index, code),
        )
    ),
    m.OffsetFetchRequest: lambda asked, code: m.OffsetFetchResponse(
        groups=tuple(m.OffsetFetchResponseGroup(group.group_id, (), code) for group in asked.groups)
    ),
    m.OffsetForLeaderEpochRequest: lambda asked, code: m.OffsetForLeaderEpochResponse(
        topics=_by_partition(
            asked.topics,
            "partitions",
            lambda topic, found: m.OffsetForLeaderTopicResult(topic.topic, found),
            lambda one: m.EndOfLeaderEpoch(code, one.partition),
        )
    ),
    m.ProduceRequest: lambda asked, code: m.ProduceResponse(
        _by_partition(
            asked.topic_data,
            "partition_data",
            lambda topic, found: m.TopicProduceResponse(topic.name, topic.topic_id, found),
            lambda one: m.PartitionProduceResponse(one.index, code),
        )
    ),
}
"""Answers with an error per topic, group or resource; all others have it at the top."""
