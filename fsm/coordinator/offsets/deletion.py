"""Deletions by administrators: whole groups, and committed offsets of topics without subscribers in the group; and the
expiry of unused offsets, and of a group without members with the last of them.

A group is deleted with its offsets, and only without members. Each group of a DeleteGroups, and each partition of an
OffsetDelete, has its own error.

Source: `GroupCoordinatorShard.deleteGroups`, `OffsetMetadataManager.deleteOffsets` and `cleanupExpiredOffsets`, and the
expiration conditions of `ConsumerGroup` and `ClassicGroup` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from fsm.coordinator.classic import timers as classic_group_timers
from fsm.coordinator.classic.requests import refuse_deletion
from fsm.coordinator.migration.conversion import end_empty_group
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.step import Refused, Request
from fsm.coordinator.offsets.offsets import NONE_COMMITTED, Offsets, OfGroup, tombstones
from fsm.coordinator.offsets.transactions import NONE_OPEN, Transactions, find_pending
from fsm.coordinator.offsets.transactions import OfGroup as OpenOnes
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from fsm.protocol.records import OffsetCommit, Record
from fsm.tables.classic_group import State
from fsm.tables.consumer_group import Event


def delete_groups(
    groups: Mapping[str, Group],
    offsets: Offsets,
    request: Request[DeleteGroupsRequest],
    context: Context,
    open_ones: Transactions,
) -> tuple[list[str], tuple[Record, ...], DeleteGroupsResponse]:
    """The deleted groups, the records and the answer.

    Every named group without members is deleted with its offsets, also pending ones; the others get an error.
    """
    gone: list[str] = []
    records: list[Record] = []
    results = []
    for group_id in dict.fromkeys(request.body.groups_names):
        code = ErrorCode.NONE
        try:
            ended = _end(groups.get(group_id), context)
            places = offsets.get(group_id, NONE_COMMITTED)
            pending = [place for place in find_pending(open_ones.get(group_id, NONE_OPEN)) if place not in places]
            records += (*tombstones(group_id, (*sorted(places), *pending)), *ended)
            gone.append(group_id)
        except Refused as refused:
            code = refused.code
        results.append(DeletableGroupResult(group_id, code))
    return gone, tuple(records), DeleteGroupsResponse(results=tuple(results))


def _end(group: Group | None, context: Context) -> tuple[Record, ...]:
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup):
        refuse_deletion(group)
    elif not group.is_empty:
        raise Refused(ErrorCode.NON_EMPTY_GROUP)
    return end_of_group(group, context)


def end_of_group(group: Group, context: Context) -> tuple[Record, ...]:
    """The tombstones of a group without members."""
    if isinstance(group, ClassicGroup):
        return classic_group_timers.delete(group, context).records
    return end_empty_group(group, context, Event.GROUP_DELETED).records


def delete_offsets(
    group: Group | None, known: Container[TopicPartition], request: Request[OffsetDeleteRequest], context: Context
) -> tuple[tuple[Record, ...], OffsetDeleteResponse]:
    """The tombstones and the answer;

    `known` are the partitions with an offset, committed or pending. Raises `Refused` for an unknown group, or if none
    of its offsets may be deleted.
    """
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and group.protocol_type != PROTOCOL_TYPE:
        refuse_deletion(group)
    records: list[Record] = []
    topics = []
    for topic in request.body.topics:
        code = _topic_error(group, topic.name, context)
        numbers = [partition.partition_index for partition in topic.partitions]
        places = [(topic.name, number) for number in numbers if code is ErrorCode.NONE]
        records += tombstones(group.group_id, (place for place in places if place in known))
        partitions = tuple(OffsetCommitResponsePartition(number, code) for number in numbers)
        topics.append(OffsetCommitResponseTopic(topic.name, partitions=partitions))
    return tuple(records), OffsetDeleteResponse(topics=tuple(topics))


def _topic_error(group: Group, topic: str, context: Context) -> ErrorCode:
    """The error of a topic: offsets of a subscribed topic are kept."""
    if topic not in context.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(group, topic) else ErrorCode.NONE


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether the group subscribes to the topic; a classic group with undecodable subscriptions counts as subscribed to
    all.
    """
    if isinstance(group, ConsumerGroup):
        return topic in group.subscribed_names()
    if group.subscribed_topics is None:
        return group.protocol_type == PROTOCOL_TYPE
    return topic in group.subscribed_topics


MINUTE_MS = 60_000


def expire_offsets(
    group: Group, committed: OfGroup, context: Context, open_ones: OpenOnes
) -> tuple[tuple[Record, ...], bool]:
    """The records that end old offsets, and whether the group ends, too: with the last of them, without members.

    An offset is kept while a transaction has another one pending for its partition, and a group while a transaction is
    open; before 4.0.1 not a group with only pending offsets (F26).
    """
    pending = find_pending(open_ones)
    old = [place for place, commit in committed.items() if _is_expired(group, place[0], commit, context)]
    gone = [place for place in old if place not in pending]
    keeps = open_ones and (committed or Choice.PENDING_OFFSETS_KEEP_GROUP in context.dialect)
    ends = len(gone) == len(committed) and group.is_empty and not keeps
    end = end_of_group(group, context) if ends else ()
    return (*tombstones(group.group_id, gone), *end), ends


def _is_expired(group: Group, topic: str, commit: OffsetCommit, context: Context) -> bool:
    since_ms = None if is_subscribed(group, topic) else _unused_since_ms(group, commit)
    retention_ms = context.config.offsets_retention_minutes * MINUTE_MS
    return since_ms is not None and context.now_ms - since_ms >= retention_ms


def _unused_since_ms(group: Group, commit: OffsetCommit) -> int | None:
    """The start of the retention time; None if the offset may be in use."""
    if isinstance(group, ConsumerGroup) or group.is_simple:
        return commit.commit_timestamp
    if group.is_empty:
        return group.state_since_ms if group.state_since_ms >= 0 else commit.commit_timestamp
    is_readable = group.protocol_type == PROTOCOL_TYPE and group.subscribed_topics is not None
    return commit.commit_timestamp if is_readable and group.state is State.STABLE else None
