"""Committed offsets: who may commit and fetch them at which member epoch, and the records they become.

Groups keep no offsets. They stand beside the groups, by group id; a commit by nobody's member makes a simple classic
group to hang them on. What a commit inside a transaction becomes is told in `transactions.py`; who may is told here.

Source: section 3.11 of the coordinator reference; `OffsetMetadataManager` of apache/kafka 4.4, and `KafkaApis` for the
topics that do not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fsm.coordinator import classic_group_requests
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import Context, Image
from fsm.coordinator.dialect import Choice
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.members import GroupMember
from fsm.coordinator.membership import known_member
from fsm.coordinator.messages import Refused, Request, error_name
from fsm.coordinator.reconciliation import Partition
from fsm.coordinator.records import NO_TOPIC_ID, OffsetCommit, OffsetKey, Record, RecordType
from fsm.coordinator.transactions import NO_TRANSACTIONS, NONE_OPEN, Transactions, pending_places
from fsm.kafka.assignment import TopicPartition
from fsm.kafka.error_codes import ErrorCode

Group = ConsumerGroup | ClassicGroup
OfGroup = FrozenMap[TopicPartition, OffsetCommit]
Offsets = FrozenMap[str, OfGroup]
"""Committed offsets by group id, then by topic name and partition."""

NONE_COMMITTED: OfGroup = FrozenMap()
NO_OFFSETS: Offsets = FrozenMap()

GROUP_ID_NOT_FOUND_SINCE = 9
"""From this version of OffsetCommit on the error is told as it is."""
MEMBER_EPOCHS_SINCE = 9
"""Members of the consumer protocol must not use older versions of OffsetCommit."""
TXN_ERRORS_AS_THEY_ARE_SINCE = 6
"""The version of TxnOffsetCommit that has errors of the consumer protocol, in releases that have it (F27)."""
TOPIC_IDS_SINCE = 10
"""From this version of OffsetCommit and OffsetFetch on topics come by id."""


class Sent(NamedTuple):
    """One partition of a commit."""

    topic: str
    partition: int
    body: Mapping[str, Any]


def commit(
    group: Group | None, request: Request, context: Context
) -> tuple[Group | None, tuple[Record, ...], Mapping[str, Any]]:
    """The group afterwards, the records and the answer. Partitions that do not exist are answered one by one.

    Raises `Refused` where the group does not accept the commit: no partition of it is committed then.
    """
    body = request.body
    existing = list(_existing(request, context.image))
    if not existing:
        return group, (), _commit_answer(request, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    errors = {(sent.topic, sent.partition): _size_error(sent, context) for sent in existing}
    kept = [sent for sent in existing if errors[sent.topic, sent.partition] is ErrorCode.NONE]
    group = _accepting(group, request, kept, context)
    records = tuple(_record(body["group_id"], sent, request.version >= TOPIC_IDS_SINCE, context) for sent in kept)
    return group, records, _commit_answer(request, errors, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context.image)


def commit_in_transaction(
    group: Group | None, request: Request, context: Context
) -> tuple[Group | None, tuple[Record, ...], Mapping[str, Any]]:
    """The group afterwards, the records of the transaction, and the answer to a TxnOffsetCommit.

    Raises `Refused` as `commit` does. It says less than a commit of one's own: a member of a classic group that
    rebalances may, and its session is not kept alive by it.
    """
    if not request.body.get("group_id"):
        raise Refused(ErrorCode.INVALID_GROUP_ID)
    existing = list(_existing(request, context.image))
    if not existing:
        return group, (), _commit_answer(request, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    errors = {(sent.topic, sent.partition): _size_error(sent, context) for sent in existing}
    kept = [sent for sent in existing if errors[sent.topic, sent.partition] is ErrorCode.NONE]
    try:
        group = _accepting_transaction(group, request, kept, context)
    except Refused as refused:
        raise Refused(_told_in_transaction(refused.code, request, context), refused.message) from None
    records = tuple(_record(request.body["group_id"], sent, False, context) for sent in kept)
    return group, records, _commit_answer(request, errors, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context.image)


def _accepting_transaction(group: Group | None, request: Request, sent: Iterable[Sent], context: Context) -> Group:
    """As `_accepting`; whoever says neither member nor generation, as old producers do, is let in anywhere."""
    said = {**request.body, "generation_id_or_member_epoch": request.body.get("generation_id", -1)}
    if group is None:
        if said["generation_id_or_member_epoch"] >= 0:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"no group {said['group_id']}")
        return ClassicGroup(said["group_id"])
    if isinstance(group, ClassicGroup):
        classic_group_requests.refuse_commit(group, said, transactional=True)
    elif said["generation_id_or_member_epoch"] >= 0 or said.get("member_id") or said.get("group_instance_id"):
        _check_commit(group, request._replace(body=said), sent, context, transactional=True)
    return group


def _told_in_transaction(code: ErrorCode, request: Request, context: Context) -> ErrorCode:
    """Producers that do not know the consumer protocol are told of a generation."""
    knows = Choice.TXN_COMMIT_ERRORS in context.dialect and request.version >= TXN_ERRORS_AS_THEY_ARE_SINCE
    foreign = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH}
    return ErrorCode.ILLEGAL_GENERATION if code in foreign and not knows else code


def _existing(request: Request, image: Image) -> Iterator[Sent]:
    for topic in request.body["topics"]:
        name = _name(topic, request.version, image)
        known = None if name is None else image.topics.get(name)
        for partition in topic["partitions"]:
            if name is not None and known is not None and 0 <= partition["partition_index"] < known.partitions:
                yield Sent(name, partition["partition_index"], partition)


def _name(topic: Mapping[str, Any], version: int, image: Image) -> str | None:
    if version >= TOPIC_IDS_SINCE:
        return image.names.get(topic["topic_id"])
    return str(topic["name"])


def _size_error(sent: Sent, context: Context) -> ErrorCode:
    metadata = sent.body.get("committed_metadata") or ""
    too_large = len(metadata) > context.config.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE


def _record(group_id: str, sent: Sent, by_id: bool, context: Context) -> Record:
    has_id = Choice.OFFSET_COMMIT_HAS_TOPIC_ID in context.dialect
    # In 4.1 and 4.2 only a request that came with ids has them; assignment epochs (F8) made the broker look them up.
    knows_id = has_id and (by_id or Choice.ASSIGNMENT_EPOCHS in context.dialect)
    value = OffsetCommit(
        sent.body["committed_offset"],
        sent.body.get("committed_leader_epoch", -1),
        sent.body.get("committed_metadata") or "",
        context.now_ms,
        topic_id=context.image.topics[sent.topic].topic_id if knows_id else NO_TOPIC_ID,
    )
    key = OffsetKey(RecordType.OFFSET_COMMIT, group_id, sent.topic, sent.partition)
    return Record(key, value, 4 if has_id else 3)


def _accepting(group: Group | None, request: Request, sent: Iterable[Sent], context: Context) -> Group:
    """The group that takes the commit: a simple one where there is none. Raises `Refused` where it does not."""
    body = request.body
    if group is None:
        if body.get("generation_id_or_member_epoch", -1) >= 0:
            told = request.version >= GROUP_ID_NOT_FOUND_SINCE
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND if told else ErrorCode.ILLEGAL_GENERATION)
        group = ClassicGroup(body["group_id"])
    if isinstance(group, ClassicGroup):
        classic_group_requests.refuse_commit(group, body)
        return classic_group_requests.committed(group, body.get("member_id", ""), context)
    _check_commit(group, request, sent, context)
    return group


def _check_commit(
    group: ConsumerGroup, request: Request, sent: Iterable[Sent], context: Context, *, transactional: bool = False
) -> None:
    """Raises `Refused` for a stranger, or for an epoch that one of the partitions was not assigned at."""
    epoch = request.body.get("generation_id_or_member_epoch", -1)
    if epoch < 0 and group.is_empty:
        return
    member = known_member(group, request.body.get("member_id", ""))
    if not (transactional or member.is_classic) and request.version < MEMBER_EPOCHS_SINCE:
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


def _commit_answer(
    request: Request,
    errors: Mapping[TopicPartition, ErrorCode],
    otherwise: ErrorCode,
    image: Image | None = None,
) -> Mapping[str, Any]:
    """Every partition of the request with what became of it."""
    by_id = request.version >= TOPIC_IDS_SINCE
    topics = []
    for topic in request.body["topics"]:
        name = _name(topic, request.version, image) if image else topic.get("name")
        otherwise_here = ErrorCode.UNKNOWN_TOPIC_ID if by_id and name is None else otherwise
        partitions = [
            {
                "partition_index": partition["partition_index"],
                "error_code": error_name(errors.get((name or "", partition["partition_index"]), otherwise_here)),
            }
            for partition in topic["partitions"]
        ]
        field = "topic_id" if by_id else "name"
        topics.append({field: topic[field], "partitions": partitions})
    return {"topics": topics}


def commit_refusal(request: Request, code: ErrorCode) -> Mapping[str, Any]:
    """The answer to a commit of which nothing was accepted."""
    return _commit_answer(request, {}, code)


def applied(offsets: Offsets, records: Iterable[Record]) -> Offsets:
    """The offsets after these records; those that are none are passed over."""
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
    request: Request,
    context: Context,
    open_ones: Transactions = NO_TRANSACTIONS,
) -> Mapping[str, Any]:
    """The answer to an OffsetFetch: group by group, each with an error of its own."""
    found = []
    for one in request.body["groups"]:
        committed = offsets.get(one["group_id"], NONE_COMMITTED)
        waits = request.body.get("require_stable", False)
        unstable = pending_places(open_ones.get(one["group_id"], NONE_OPEN)) if waits else ()
        found.append(_fetched(groups.get(one["group_id"]), committed, one, request, context, unstable=unstable))
    return {"groups": found}


def _fetched(
    group: Group | None,
    committed: OfGroup,
    asked: Mapping[str, Any],
    request: Request,
    context: Context,
    *,
    unstable: Collection[TopicPartition],
) -> Mapping[str, Any]:
    try:
        _check_fetch(group, asked)
    except Refused as refused:
        return {"group_id": asked["group_id"], "topics": [], "error_code": error_name(refused.code)}
    seen = NONE_COMMITTED if group is None else committed
    topics = _all_topics(seen) if asked.get("topics") is None else asked["topics"]
    answered = [_fetched_topic(topic, seen, request, context.image, unstable) for topic in topics]
    return {"group_id": asked["group_id"], "topics": answered, "error_code": None}


def _check_fetch(group: Group | None, asked: Mapping[str, Any]) -> None:
    """Raises `Refused` for a member of a consumer group that is a stranger or at another epoch."""
    member_id, epoch = asked.get("member_id"), asked.get("member_epoch", -1)
    if not isinstance(group, ConsumerGroup) or (member_id is None and epoch < 0):
        return
    member = known_member(group, member_id or "")
    if epoch != member.epoch:
        raise _stale(member, epoch)


def _all_topics(committed: OfGroup) -> list[Mapping[str, Any]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(committed):
        found.setdefault(topic, []).append(partition)
    return [{"name": topic, "partition_indexes": partitions} for topic, partitions in found.items()]


def _fetched_topic(
    topic: Mapping[str, Any],
    committed: OfGroup,
    request: Request,
    image: Image,
    unstable: Collection[TopicPartition],
) -> Mapping[str, Any]:
    by_id = request.version >= TOPIC_IDS_SINCE and "topic_id" in topic
    name = image.names.get(topic["topic_id"]) if by_id else topic["name"]
    if name is None:
        error = error_name(ErrorCode.UNKNOWN_TOPIC_ID)
        unknown = [_fetched_partition(number, None, error) for number in topic["partition_indexes"]]
        return {"topic_id": topic["topic_id"], "partitions": unknown}
    partitions = [
        _fetched_partition(number, None, error_name(ErrorCode.UNSTABLE_OFFSET_COMMIT))
        if (name, number) in unstable
        else _fetched_partition(number, _of_this_topic(committed.get((name, number)), topic, by_id))
        for number in topic["partition_indexes"]
    ]
    return {**({"topic_id": topic["topic_id"]} if by_id else {"name": name}), "partitions": partitions}


def _of_this_topic(committed: OffsetCommit | None, topic: Mapping[str, Any], by_id: bool) -> OffsetCommit | None:
    """An offset of an earlier topic of the same name does not count."""
    if committed is None or not by_id or committed.topic_id in {NO_TOPIC_ID, topic["topic_id"]}:
        return committed
    return None


def _fetched_partition(number: int, committed: OffsetCommit | None, error: str | None = None) -> Mapping[str, Any]:
    return {
        "partition_index": number,
        "committed_offset": -1 if committed is None else committed.offset,
        "committed_leader_epoch": -1 if committed is None else committed.leader_epoch,
        "metadata": "" if committed is None else committed.metadata,
        "error_code": error,
    }


def tombstones(group_id: str, places: Iterable[TopicPartition]) -> tuple[Record, ...]:
    """The end of these offsets."""
    return tuple(Record(OffsetKey(RecordType.OFFSET_COMMIT, group_id, *place), None) for place in places)


def of_topics(offsets: Offsets, names: Iterable[str]) -> tuple[Record, ...]:
    """The end of every offset of topics that were deleted."""
    gone = set(names)
    return tuple(
        record
        for group_id, committed in offsets.items()
        for record in tombstones(group_id, (place for place in committed if place[0] in gone))
    )
