"""The error answer of a broker that refuses a request as a whole, for any request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        return m.FetchResponse(
            responses=tuple(
                m.FetchableTopicResponse(
                    topic.topic,
                    partitions=tuple(m.PartitionData(one.partition, code, -1, records=b"") for one in topic.partitions),
                )
                for topic in request.topics
            )
        )
    return m.OffsetFetchResponse(
        topics=tuple(
            m.OffsetFetchResponseTopics(
                topic.name,
                partitions=tuple(
                    m.OffsetFetchResponsePartitions(one, error_code=code) for one in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
    )


def _metadata(request: m.MetadataRequest, code: ErrorCode) -> m.MetadataResponse:
    topics = tuple(m.MetadataResponseTopic(code, topic.name or "", topic.topic_id) for topic in request.topics or ())
    return m.MetadataResponse(topics=topics, error_code=code)


def _fetch_offsets(request: m.OffsetFetchRequest, code: ErrorCode) -> m.OffsetFetchResponse:
    return m.OffsetFetchResponse(groups=tuple(m.OffsetFetchResponseGroup(g.group_id, (), code) for g in request.groups))


def _commit(request: m.OffsetCommitRequest, code: ErrorCode) -> m.OffsetCommitResponse:
    return m.OffsetCommitResponse(
        topics=tuple(
            m.OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                tuple(m.OffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _find_coordinator(request: m.FindCoordinatorRequest, code: ErrorCode) -> m.FindCoordinatorResponse:
    found = tuple(m.Coordinator(key, -1, "", -1, code) for key in request.coordinator_keys)
    return m.FindCoordinatorResponse(coordinators=found)


def _list_offsets(request: m.ListOffsetsRequest, code: ErrorCode) -> m.ListOffsetsResponse:
    return m.ListOffsetsResponse(
        topics=tuple(
            m.ListOffsetsTopicResponse(
                topic.name, tuple(m.ListOffsetsPartitionResponse(one.partition_index, code) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _leader_epoch(request: m.OffsetForLeaderEpochRequest, code: ErrorCode) -> m.OffsetForLeaderEpochResponse:
    return m.OffsetForLeaderEpochResponse(
        topics=tuple(
            m.OffsetForLeaderTopicResult(
                topic.topic, tuple(m.EndOfLeaderEpoch(code, one.partition) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _produce(request: m.ProduceRequest, code: ErrorCode) -> m.ProduceResponse:
    return m.ProduceResponse(
        tuple(
            m.TopicProduceResponse(
                topic.name,
                topic.topic_id,
                tuple(m.PartitionProduceResponse(one.index, code) for one in topic.partition_data),
            )
            for topic in request.topic_data
        )
    )


def _describe_groups(request: m.DescribeGroupsRequest, code: ErrorCode) -> m.DescribeGroupsResponse:
    return m.DescribeGroupsResponse(groups=tuple(m.DescribedGroup(code, None, group) for group in request.groups))


def _describe_consumer_groups(
    request: m.ConsumerGroupDescribeRequest, code: ErrorCode
) -> m.ConsumerGroupDescribeResponse:
    found = tuple(m.DescribedConsumerGroup(code, None, group) for group in request.group_ids)
    return m.ConsumerGroupDescribeResponse(groups=found)


def _delete_groups(request: m.DeleteGroupsRequest, code: ErrorCode) -> m.DeleteGroupsResponse:
    return m.DeleteGroupsResponse(results=tuple(m.DeletableGroupResult(g, code) for g in request.groups_names))


def _describe_configs(request: m.DescribeConfigsRequest, code: ErrorCode) -> m.DescribeConfigsResponse:
    found = (m.DescribeConfigsResult(code, None, one.resource_type, one.resource_name) for one in request.resources)
    return m.DescribeConfigsResponse(results=tuple(found))


def _alter_configs(request: m.IncrementalAlterConfigsRequest, code: ErrorCode) -> m.IncrementalAlterConfigsResponse:
    found = (
        m.AlterConfigsResourceResponse(code, None, one.resource_type, one.resource_name) for one in request.resources
    )
    return m.IncrementalAlterConfigsResponse(responses=tuple(found))


def _create_topics(request: m.CreateTopicsRequest, code: ErrorCode) -> m.CreateTopicsResponse:
    found = (m.CreatableTopicResult(topic.name, error_code=code) for topic in request.topics)
    return m.CreateTopicsResponse(topics=tuple(found))


def _delete_topics(request: m.DeleteTopicsRequest, code: ErrorCode) -> m.DeleteTopicsResponse:
    names = (*request.topic_names, *(topic.name for topic in request.topics))
    return m.DeleteTopicsResponse(responses=tuple(m.DeletableTopicResult(name, error_code=code) for name in names))


def _create_partitions(request: m.CreatePartitionsRequest, code: ErrorCode) -> m.CreatePartitionsResponse:
    found = (m.CreatePartitionsTopicResult(topic.name, code) for topic in request.topics)
    return m.CreatePartitionsResponse(results=tuple(found))


def _describe_topics(request: m.DescribeTopicPartitionsRequest, code: ErrorCode) -> m.DescribeTopicPartitionsResponse:
    found = (m.DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in request.topics)
    return m.DescribeTopicPartitionsResponse(topics=tuple(found))


_REFUSALS: Mapping[type[Any], Callable[[Any, ErrorCode], Any]] = {
    m.ConsumerGroupDescribeRequest: _describe_consumer_groups,
    m.CreatePartitionsRequest: _create_partitions,
    m.CreateTopicsRequest: _create_topics,
    m.DeleteGroupsRequest: _delete_groups,
    m.DeleteTopicsRequest: _delete_topics,
    m.DescribeConfigsRequest: _describe_configs,
    m.DescribeGroupsRequest: _describe_groups,
    m.DescribeTopicPartitionsRequest: _describe_topics,
    m.FindCoordinatorRequest: _find_coordinator,
    m.IncrementalAlterConfigsRequest: _alter_configs,
    m.ListOffsetsRequest: _list_offsets,
    m.MetadataRequest: _metadata,
    m.OffsetCommitRequest: _commit,
    m.OffsetFetchRequest: _fetch_offsets,
    m.OffsetForLeaderEpochRequest: _leader_epoch,
    m.ProduceRequest: _produce,
}
"""Answers with an error per topic, group or resource; all others have it at the top."""
