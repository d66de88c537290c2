"""Committed offsets: who may commit and fetch them at which member epoch, and the records they become.

Offsets are stored beside the groups, by group id; a commit without a membership creates a simple classic group for
them. This module checks all commits; `transactions.py` keeps those inside a transaction.

Source: `OffsetMetadataManager` of apache/kafka 4.4, and `KafkaApis` for the topics that do not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from fsm.coordinator.classic import requests as classic_group_requests
from fsm.coordinator.consumer.membership import find_member
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, Partition
from fsm.coordinator.model.context import Context, Image
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Refused, Request
from fsm.coordinator.offsets.transactions import NONE_OPEN, Transactions, find_pending
from fsm.protocol.assignment import NO_TOPIC_ID, TopicPartition, numbers_by_topic
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from fsm.protocol.records import OffsetCommit, OffsetKey, Record, RecordType

OfGroup = PersistentMap[TopicPartition, OffsetCommit]
Offsets = PersistentMap[str, OfGroup]
"""Committed offsets by group id, then by topic name and partition."""

NONE_COMMITTED: OfGroup = PersistentMap()
NO_OFFSETS: Offsets = PersistentMap()

GROUP_ID_NOT_FOUND_SINCE = 9
"""The version of OffsetCommit from which on this error is returned unchanged."""
MEMBER_EPOCHS_SINCE = 9
"""The first version of OffsetCommit for members of the consumer protocol."""
TXN_TOPIC_IDS_SINCE = 6
"""The version of TxnOffsetCommit with topic ids and errors of the consumer protocol (F27)."""
GROUPS_SINCE = 8
"""The version of OffsetFetch from which on it may name several groups."""
TOPIC_IDS_SINCE = 10
"""The version of OffsetCommit and OffsetFetch from which on they have topic ids."""


CommitResponse = OffsetCommitResponse | TxnOffsetCommitResponse
Codes = Mapping[TopicPartition, ErrorCode]
"""The error code of each partition, by topic name."""


class Sent(NamedTuple):
    """One partition of a commit, of a topic that exists."""

    topic: str
    partition: int
    value: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


def commit(
    group: Group | None, request: Request, context: Context
) -> tuple[Group | None, tuple[Record, ...], CommitResponse]:
    """The new group, the records and the answer.

    Unknown partitions have their own errors in the answer. Raises `Refused` if the group does not accept the commit;
    then no partition is committed.
    """
    sent, codes = _read(request, context)
    if codes:
        accept = _accept if isinstance(request.body, OffsetCommitRequest) else _accept_transaction
        group = accept(group, request, sent, context)
    by_id = _has_ids(request)
    records = tuple(_record(request.body.group_id, one, by_id, context) for one in sent)
    return group, records, _answer(request, codes, context.image)


def _read(request: Request, context: Context) -> tuple[list[Sent], dict[TopicPartition, ErrorCode]]:
    """The offsets that can be stored, and the error codes of all existing partitions."""
    sent = []
    codes: dict[TopicPartition, ErrorCode] = {}
    for topic in request.body.topics:
        name = _name(topic, request, context.image)
        known = None if name is None else context.image.topics.get(name)
        for value in topic.partitions if known else ():
            number = value.partition_index
            if name is not None and known is not None and 0 <= number < known.partitions:
                is_small = len(value.committed_metadata or "") <= context.config.offset_metadata_max_bytes
                codes[name, number] = ErrorCode.NONE if is_small else ErrorCode.OFFSET_METADATA_TOO_LARGE
                sent += [Sent(name, number, value)] if is_small else []
    return sent, codes


def _has_ids(request: Request) -> bool:
    since = TOPIC_IDS_SINCE if isinstance(request.body, OffsetCommitRequest) else TXN_TOPIC_IDS_SINCE
    return request.version >= since


def _name(topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic, request: Request, image: Image) -> str | None:
    return image.names.get(topic.topic_id) if _has_ids(request) else topic.name


def _accept_transaction(
    group: Group | None, request: Request[TxnOffsetCommitRequest], sent: Iterable[Sent], context: Context
) -> Group:
    """The group that accepts the commit, as `_accept`, with the errors for a producer.

    Unlike other commits it is accepted while a classic group rebalances, and does not restart the member's session
    timer.
    """
    try:
        return _check_transaction(group, request.body, sent, context)
    except Refused as refused:
        raise Refused(_translate_error(refused.code, request, context), refused.message) from None


def _check_transaction(
    group: Group | None, body: TxnOffsetCommitRequest, sent: Iterable[Sent], context: Context
) -> Group:
    """The group; a commit without member and generation, as from old producers, is accepted."""
    if group is None:
        if body.generation_id >= 0:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"no group {body.group_id}")
        return ClassicGroup(body.group_id)
    if isinstance(group, ClassicGroup):
        classic_group_requests.refuse_commit(
            group, body.member_id, body.group_instance_id, body.generation_id, transactional=True
        )
    elif body.generation_id >= 0 or body.member_id or body.group_instance_id:
        _check_commit(group, body.member_id, body.generation_id, sent, context)
    return group


def _translate_error(code: ErrorCode, request: Request[TxnOffsetCommitRequest], context: Context) -> ErrorCode:
    """The error for a producer; one that does not know the consumer protocol gets that of a generation."""
    knows = Choice.TXN_COMMIT_ERRORS in context.dialect and request.version >= TXN_TOPIC_IDS_SINCE
    foreign = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH}
    return ErrorCode.ILLEGAL_GENERATION if code in foreign and not knows else code


def _record(group_id: str, sent: Sent, by_id: bool, context: Context) -> Record:
    has_id = Choice.OFFSET_COMMIT_HAS_TOPIC_ID in context.dialect
    # In 4.1 and 4.2 only requests with topic ids have them in records; assignment epochs (F8) require a look-up.
    knows_id = has_id and (by_id or Choice.ASSIGNMENT_EPOCHS in context.dialect)
    value = OffsetCommit(
        sent.value.committed_offset,
        sent.value.committed_leader_epoch,
        sent.value.committed_metadata or "",
        context.now_ms,
        topic_id=context.image.topics[sent.topic].topic_id if knows_id else NO_TOPIC_ID,
    )
    key = OffsetKey(RecordType.OFFSET_COMMIT, group_id, sent.topic, sent.partition)
    return Record(key, value, 4 if has_id else 3)


def _accept(
    group: Group | None, request: Request[OffsetCommitRequest], sent: Iterable[Sent], context: Context
) -> Group:
    """The group that accepts the commit, a new simple one if there is none. Raises `Refused` if it does not
    accept it.
    """
    body = request.body
    epoch = body.generation_id_or_member_epoch
    if group is None:
        if epoch >= 0:
            is_known = request.version >= GROUP_ID_NOT_FOUND_SINCE
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
        group = ClassicGroup(body.group_id)
    if isinstance(group, ClassicGroup):
        classic_group_requests.refuse_commit(group, body.member_id, body.group_instance_id, epoch)
        return classic_group_requests.note_commit(group, body.member_id, context)
    _check_commit(group, body.member_id, epoch, sent, context, too_old=request.version < MEMBER_EPOCHS_SINCE)
    return group


def _check_commit(
    group: ConsumerGroup, member_id: str, epoch: int, sent: Iterable[Sent], context: Context, *, too_old: bool = False
) -> None:
    """Raises `Refused` for a stranger, or for an epoch before the assignment of one of the partitions."""
    if epoch < 0 and group.is_empty:
        return
    member = find_member(group, member_id)
    if too_old and not member.is_classic:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, "members of the consumer protocol need version 9")
    if epoch == member.epoch:
        return
    if epoch > member.epoch or Choice.ASSIGNMENT_EPOCHS not in context.dialect:
        raise _stale(member, epoch)
    held: dict[Partition, int] = {**dict(member.current.pending), **dict(member.current.assigned)}
    for one in sent:
        assigned_at = held.get((context.image.topics[one.topic].topic_id, one.partition))
        if assigned_at is None or epoch < assigned_at:
            raise _stale(member, epoch)


def _stale(member: GroupMember, epoch: int) -> Refused:
    code = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return Refused(code, f"epoch {epoch}, but {member.member_id} is at {member.epoch}")


def _answer(request: Request, codes: Codes, image: Image) -> CommitResponse:
    """The answer with the error codes of all partitions, by topic: first unknown ones, then the others."""
    by_topic: dict[tuple[str, str], list[OffsetCommitResponsePartition]] = {}
    for exists in (False, True):
        for topic in request.body.topics:
            name = _name(topic, request, image)
            otherwise = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for number in (one.partition_index for one in topic.partitions):
                place = (name or "", number)
                if (place in codes) is exists:
                    result = OffsetCommitResponsePartition(number, codes.get(place, otherwise))
                    by_topic.setdefault((topic.name, topic.topic_id), []).append(result)
    found = ((named, tuple(results)) for named, results in by_topic.items())
    if isinstance(request.body, OffsetCommitRequest):
        return OffsetCommitResponse(topics=tuple(OffsetCommitResponseTopic(*named, some) for named, some in found))
    return TxnOffsetCommitResponse(topics=tuple(TxnOffsetCommitResponseTopic(*named, some) for named, some in found))


def refuse_commit(request: Request, code: ErrorCode, context: Context) -> CommitResponse:
    """The answer to a refused commit; unknown partitions still have their own error."""
    _, codes = _read(request, context)
    return _answer(request, dict.fromkeys(codes, code), context.image)


def apply_offsets(offsets: Offsets, records: Iterable[Record]) -> Offsets:
    """The offsets after these records; other records are ignored."""
    for key, value, _ in records:
        if not isinstance(key, OffsetKey):
            continue
        found: OfGroup = offsets.get(key.group, NONE_COMMITTED)
        place = (key.topic, key.partition)
        found = found.set(place, value) if isinstance(value, OffsetCommit) else found.without(place)
        offsets = offsets.set(key.group, found) if found else offsets.without(key.group)
    return offsets


def fetch(
    groups: Mapping[str, Group],
    offsets: Offsets,
    request: Request[OffsetFetchRequest],
    context: Context,
    open_ones: Transactions,
) -> OffsetFetchResponse:
    """The answer to an OffsetFetch: by group, each with its own error.

    Up to version 7 it has one group, whose topics are in the message itself, and no member, so that none is refused.
    """
    body, found = request.body, []
    is_single = request.version < GROUPS_SINCE
    for one in (OffsetFetchRequestGroup(body.group_id, topics=body.topics),) if is_single else body.groups:
        group = groups.get(one.group_id)
        waits = body.require_stable
        unstable = find_pending(open_ones.get(one.group_id, NONE_OPEN)) if waits else ()
        committed = NONE_COMMITTED if group is None else offsets.get(one.group_id, NONE_COMMITTED)
        try:
            _check_fetch(group, one)
        except Refused as refused:
            found.append(OffsetFetchResponseGroup(one.group_id, error_code=refused.code))
            continue
        topics = _all_topics(committed, context.image) if one.topics is None else one.topics
        by_id = request.version >= TOPIC_IDS_SINCE and one.topics is not None
        read = tuple(_fetch_topic(topic, committed, context.image, by_id, unstable) for topic in topics)
        found.append(OffsetFetchResponseGroup(one.group_id, read))
    return OffsetFetchResponse(found[0].topics) if is_single else OffsetFetchResponse(groups=tuple(found))


def _check_fetch(group: Group | None, asked: OffsetFetchRequestGroup) -> None:
    """Raises `Refused` for an unknown member of a consumer group, or another member epoch."""
    if not isinstance(group, ConsumerGroup) or (asked.member_id is None and asked.member_epoch < 0):
        return
    member = find_member(group, asked.member_id or "")
    if asked.member_epoch != member.epoch:
        raise _stale(member, asked.member_epoch)


def _all_topics(committed: OfGroup, image: Image) -> list[OffsetFetchRequestTopics]:
    found = numbers_by_topic(sorted(committed))
    ids = {name: image.topics[name].topic_id if name in image.topics else NO_TOPIC_ID for name in found}
    return [OffsetFetchRequestTopics(name, ids[name], tuple(numbers)) for name, numbers in found.items()]


def _fetch_topic(
    topic: OffsetFetchRequestTopics, committed: OfGroup, image: Image, by_id: bool, unstable: Collection[TopicPartition]
) -> OffsetFetchResponseTopics:
    name = image.names.get(topic.topic_id) if by_id else topic.name
    partitions = []
    for number in topic.partition_indexes:
        one = OffsetFetchResponsePartitions(number)
        found = None if name is None else committed.get((name, number))
        if name is None:
            one = one._replace(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        elif (name, number) in unstable:
            one = one._replace(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        elif found is not None and not (by_id and found.topic_id not in {NO_TOPIC_ID, topic.topic_id}):
            # with ids an offset of an earlier topic of the same name is ignored
            one = OffsetFetchResponsePartitions(number, found.offset, found.leader_epoch, found.metadata)
        partitions.append(one)
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, tuple(partitions))


def tombstones(group_id: str, places: Iterable[TopicPartition]) -> tuple[Record, ...]:
    """The tombstones of these offsets."""
    return tuple(Record(OffsetKey(RecordType.OFFSET_COMMIT, group_id, *place), None) for place in places)


def end_offsets_of_topics(offsets: Offsets, names: Iterable[str]) -> tuple[Record, ...]:
    """The tombstones of all offsets of deleted topics."""
    gone = set(names)
    return tuple(
        record
        for group_id, committed in offsets.items()
        for record in tombstones(group_id, (place for place in committed if place[0] in gone))
    )
