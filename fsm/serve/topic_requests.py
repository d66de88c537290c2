"""Requests that create, change and describe topics.

Source: `ControllerApis`, `ReplicationControlManager`, `KRaftMetadataCache.describeTopicResponse` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.requests import RequestContext
from fsm.serve.topics import MOST_PARTITIONS, OFFSETS_TOPIC, TooManyError, Topics, check_name

MOST_DESCRIBED = 2_000
"""Partitions in one answer to DescribeTopicPartitions: `max.request.partition.size.limit`."""


def create_topics(topics: Topics, request: m.CreateTopicsRequest, context: RequestContext) -> m.CreateTopicsResponse:
    """Creates topics, each independently of the others."""

    def one(wanted: m.CreatableTopic) -> m.CreatableTopicResult:
        if wanted.name in topics.by_name or wanted.name == OFFSETS_TOPIC:
            code, why = ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists."
            return m.CreatableTopicResult(wanted.name, error_code=code, error_message=why)
        partitions = len(wanted.assignments) or (1 if wanted.num_partitions == -1 else wanted.num_partitions)
        if not 1 <= partitions <= MOST_PARTITIONS:
            return m.CreatableTopicResult(wanted.name, error_code=ErrorCode.INVALID_PARTITIONS)
        if wanted.replication_factor not in (-1, 1) and not wanted.assignments:
            why = f"replication factor {wanted.replication_factor}: nothing is replicated here"
            code = ErrorCode.INVALID_REPLICATION_FACTOR
            return m.CreatableTopicResult(wanted.name, error_code=code, error_message=why)
        if times[wanted.name] > 1:
            return m.CreatableTopicResult(wanted.name, error_code=ErrorCode.INVALID_REQUEST)
        try:
            if request.validate_only:
                check_name(wanted.name)
                return m.CreatableTopicResult(wanted.name, num_partitions=partitions, replication_factor=1)
            topics.change(wanted.name, partitions, int(context.now_ms), context.random)
        except InputError as problem:
            too_many = isinstance(problem, TooManyError)
            code = ErrorCode.POLICY_VIOLATION if too_many else ErrorCode.INVALID_TOPIC_EXCEPTION
            return m.CreatableTopicResult(wanted.name, error_code=code, error_message=str(problem))
        topic_id = topics.by_name[wanted.name].topic_id
        return m.CreatableTopicResult(wanted.name, topic_id, num_partitions=partitions, replication_factor=1)

    times = Counter(topic.name for topic in request.topics)
    return m.CreateTopicsResponse(topics=tuple(map(one, request.topics)))


def delete_topics(topics: Topics, request: m.DeleteTopicsRequest, context: RequestContext) -> m.DeleteTopicsResponse:
    """Deletes topics, by name or id."""

    def one(name: str | None, topic_id: TopicId) -> m.DeletableTopicResult:
        found = topics.names.get(topic_id) if name is None else name
        if found not in topics.by_name:
            by_id = name is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return m.DeletableTopicResult(name, topic_id, code)
        known_id = topics.by_name[found].topic_id
        topics.change(found, 0, int(context.now_ms), context.random)
        return m.DeletableTopicResult(found, known_id)

    by_name = ((name, NO_TOPIC_ID) for name in request.topic_names)
    wanted = [*((topic.name, topic.topic_id) for topic in request.topics), *by_name]
    return m.DeleteTopicsResponse(responses=tuple(one(name, topic_id) for name, topic_id in wanted))


def create_partitions(
    topics: Topics, request: m.CreatePartitionsRequest, context: RequestContext
) -> m.CreatePartitionsResponse:
    """Adds partitions to topics."""

    def one(wanted: m.CreatePartitionsTopic) -> m.CreatePartitionsTopicResult:
        topic = topics.by_name.get(wanted.name)
        if topic is None:
            return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not topic.partitions < wanted.count <= MOST_PARTITIONS:
            why = f"The topic {wanted.name} currently has {topic.partitions} partition(s); "
            why += f"{wanted.count} would not be an increase."
            if wanted.count > MOST_PARTITIONS:
                why = f"a topic has up to {MOST_PARTITIONS} partitions"
            return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.INVALID_PARTITIONS, why)
        if not request.validate_only:
            try:
                topics.change(wanted.name, wanted.count, int(context.now_ms), context.random)
            except TooManyError as problem:
                return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.POLICY_VIOLATION, str(problem))
        return m.CreatePartitionsTopicResult(wanted.name)

    return m.CreatePartitionsResponse(results=tuple(map(one, request.topics)))


CHANGES: Mapping[type[Any], Callable[[Topics, Any, RequestContext], Any]] = {
    m.CreatePartitionsRequest: create_partitions,
    m.CreateTopicsRequest: create_topics,
    m.DeleteTopicsRequest: delete_topics,
}
"""Requests that may change the number of partitions."""


def describe_topics(
    request: m.DescribeTopicPartitionsRequest,
    known: Iterable[str],
    describe: Callable[[str, TopicId, int], m.MetadataResponseTopic],
) -> m.DescribeTopicPartitionsResponse:
    """Partitions, page by page; of all `known` topics if none is named. `describe` answers a version of Metadata."""
    left = max(1, min(request.response_partition_limit, MOST_DESCRIBED))
    begin = request.cursor or m.Cursor("", 0)
    topics: list[m.DescribeTopicPartitionsResponseTopic] = []
    for name in sorted({topic.name for topic in request.topics} or known):
        if name < begin.topic_name:
            continue
        if not left:
            return m.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=m.Cursor(name, 0))
        code, _, topic_id, is_internal, found, _ = describe(name, NO_TOPIC_ID, m.APIS["Metadata"].newest)
        first = begin.partition_index if name == begin.topic_name else 0
        parts = tuple(
            m.DescribeTopicPartitionsResponsePartition(
                one.error_code, one.partition_index, one.leader_id, 0, one.replica_nodes, one.isr_nodes, (), ()
            )
            for one in found[first : first + left]
        )
        topics.append(m.DescribeTopicPartitionsResponseTopic(code, name, topic_id, is_internal, parts))
        left -= len(parts)
        if first + len(parts) < len(found):
            after = m.Cursor(name, first + len(parts))
            return m.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=after)
    return m.DescribeTopicPartitionsResponse(topics=tuple(topics))
