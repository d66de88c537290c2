"""The error answer of a broker that refuses a request as a whole, for any request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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

Refuse = Callable[[Any, ErrorCode], Any]
Form = tuple[str, str, Refuse]
"""The field of the request that lists what it is about, that of the answer, and the answer about one of them."""


def refusal(request: Any, version: int, code: ErrorCode, context: Context) -> Any:
    """The answer that refuses this request with this error."""
    kind = type(request)
    if version < WHOLE_SINCE.get(kind, 0):
        return _refuse_each(request, code, _OLD_FORMS[kind])
    if kind in _FORMS and version >= GROUPS_SINCE.get(kind, 0):
        answer = _refuse_each(request, code, _FORMS[kind])
        return replace(answer, error_code=code) if kind is m.MetadataRequest else answer
    if kind in HANDLERS:
        return refuse(Request(0, "", "", version, request), code, context)
    return API_OF[kind].response(error_code=code)


def _refuse_each(request: Any, code: ErrorCode, form: Form) -> Any:
    listed, answered, refuse_one = form
    answers = tuple(refuse_one(one, code) for one in getattr(request, listed) or ())
    return API_OF[type(request)].response(**{answered: answers})


def _of_topic(answer: type[Any], refuse_partition: Refuse) -> Refuse:
    """The answer about a topic: its partitions are the last field here and there, what names it comes before."""
    return lambda topic, code: answer(*topic[:-1], tuple(refuse_partition(one, code) for one in topic[-1]))


# fmt: off
_FORMS: Mapping[type[Any], Form] = {
    m.ConsumerGroupDescribeRequest: ("group_ids", "groups", lambda it, code: m.DescribedConsumerGroup(code, None, it)),
    m.CreatePartitionsRequest: ("topics", "results", lambda it, code: m.CreatePartitionsTopicResult(it.name, code)),
    m.CreateTopicsRequest: ("topics", "topics", lambda it, code: m.CreatableTopicResult(it.name, error_code=code)),
    m.DeleteGroupsRequest: ("groups_names", "results", m.DeletableGroupResult),
    m.DeleteTopicsRequest: ("wanted", "responses", lambda it, code: m.DeletableTopicResult(it.name, error_code=code)),
    m.DescribeConfigsRequest: ("resources", "results", lambda it, code: m.DescribeConfigsResult(code, None, *it[:2])),
    m.DescribeGroupsRequest: ("groups", "groups", lambda it, code: m.DescribedGroup(code, None, it)),
    m.DescribeTopicPartitionsRequest: ("topics", "topics",
        lambda it, code: m.DescribeTopicPartitionsResponseTopic(code, it.name)),
    m.FindCoordinatorRequest: ("coordinator_keys", "coordinators",
        lambda it, code: m.Coordinator(it, -1, "", -1, code)),
    m.IncrementalAlterConfigsRequest: ("resources", "responses",
        lambda it, code: m.AlterConfigsResourceResponse(code, None, *it[:2])),
    m.ListOffsetsRequest: ("topics", "topics", _of_topic(m.ListOffsetsTopicResponse,
        lambda it, code: m.ListOffsetsPartitionResponse(it.partition_index, code))),
    m.MetadataRequest: ("topics", "topics",
        lambda it, code: m.MetadataResponseTopic(code, it.name or "", it.topic_id)),
    m.OffsetCommitRequest: ("topics", "topics", _of_topic(m.OffsetCommitResponseTopic,
        lambda it, code: m.OffsetCommitResponsePartition(it.partition_index, code))),
    m.OffsetFetchRequest: ("groups", "groups", lambda it, code: m.OffsetFetchResponseGroup(it.group_id, (), code)),
    m.OffsetForLeaderEpochRequest: ("topics", "topics", _of_topic(m.OffsetForLeaderTopicResult,
        lambda it, code: m.EndOfLeaderEpoch(code, it.partition))),
    m.ProduceRequest: ("topic_data", "responses", _of_topic(m.TopicProduceResponse,
        lambda it, code: m.PartitionProduceResponse(it.index, code))),
}
"""Answers with an error per topic, group or resource; all others have it at the top."""
_OLD_FORMS: Mapping[type[Any], Form] = {
    m.FetchRequest: ("topics", "responses", _of_topic(m.FetchableTopicResponse,
        lambda it, code: m.PartitionData(it.partition, code, -1, records=b""))),
    m.OffsetFetchRequest: ("topics", "topics", _of_topic(m.OffsetFetchResponseTopics,
        lambda it, code: m.OffsetFetchResponsePartitions(it, error_code=code))),
}
"""Those of versions without a top-level error."""
# fmt: on
