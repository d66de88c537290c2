"""The records that a consumer group writes, one function for each.

Source: `GroupCoordinatorRecordHelpers` of apache/kafka 4.4.
"""

from __future__ import annotations

from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, Held
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.protocol.assignment import TopicId, TopicPartitions
from fsm.protocol.records import (
    Current,
    GroupEpoch,
    GroupKey,
    HeldTopic,
    MemberKey,
    Record,
    RecordType,
    RegularExpressionKey,
    ResolvedRegularExpression,
    SubscriptionMetadata,
    Target,
    TargetEpoch,
    Topic,
)
from fsm.tables.consumer_group_member import State

T = RecordType
CURRENT_ASSIGNMENT, KEEPS_EPOCHS = T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, Choice.ASSIGNMENT_EPOCHS

STATE_CODES = {State.STABLE: 0, State.UNREVOKED_PARTITIONS: 1, State.UNRELEASED_PARTITIONS: 2, State.UNKNOWN: 127}
"""The codes of member states in records."""


def member_record(group_id: str, member: GroupMember) -> Record:
    """Type 5."""
    return Record(MemberKey(T.CONSUMER_GROUP_MEMBER_METADATA, group_id, member.member_id), member.metadata)


def current_record(group_id: str, member: GroupMember, dialect: Dialect) -> Record:
    """Type 8."""
    now, keeps = member.current, KEEPS_EPOCHS in dialect.choices
    assigned, pending = held_topics(now.assigned, keeps), held_topics(now.pending, keeps)
    value = Current(now.epoch, now.previous_epoch, STATE_CODES[now.state], assigned, pending)
    return Record(MemberKey(CURRENT_ASSIGNMENT, group_id, member.member_id), value)


def held_topics(held: Held, with_epochs: bool) -> tuple[HeldTopic, ...]:
    """Held partitions topic by topic."""
    if not held:
        return ()
    topics: dict[TopicId, tuple[list[int], list[int]]] = {}
    for (topic_id, number), epoch in held:
        numbers, epochs = topics.setdefault(topic_id, ([], []))
        numbers.append(number)
        epochs.append(epoch)
    return tuple(
        [HeldTopic(t, tuple(found), tuple(epochs) if with_epochs else None) for t, (found, epochs) in topics.items()]
    )


def target_record(group_id: str, member_id: str, target: TopicPartitions) -> Record:
    """Type 7."""
    value = Target(tuple(Topic(topic_id, numbers) for topic_id, numbers in target))
    return Record(MemberKey(T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, group_id, member_id), value)


def target_epoch_record(group: ConsumerGroup) -> Record:
    """Type 6."""
    key = GroupKey(T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group.group_id)
    return Record(key, TargetEpoch(group.target_epoch, group.target_time_ms))


def epoch_record(group: ConsumerGroup) -> Record:
    """Type 3."""
    key = GroupKey(T.CONSUMER_GROUP_METADATA, group.group_id)
    return Record(key, GroupEpoch(group.epoch, group.metadata.digest))


def metadata_record(group: ConsumerGroup) -> Record:
    """Type 4, before 4.1."""
    key = GroupKey(T.CONSUMER_GROUP_PARTITION_METADATA, group.group_id)
    return Record(key, SubscriptionMetadata(group.metadata.topics))


def regex_record(group_id: str, pattern: str, resolved: ResolvedRegularExpression) -> Record:
    """Type 16."""
    return Record(RegularExpressionKey(T.CONSUMER_GROUP_REGULAR_EXPRESSION, group_id, pattern), resolved)


def regex_tombstone(group_id: str, pattern: str) -> Record:
    """The end of a type 16."""
    return Record(RegularExpressionKey(T.CONSUMER_GROUP_REGULAR_EXPRESSION, group_id, pattern), None)


def member_tombstone(kind: RecordType, group_id: str, member_id: str) -> Record:
    """The end of a type 5, 7 or 8."""
    return Record(MemberKey(kind, group_id, member_id), None)


def group_tombstone(kind: RecordType, group_id: str) -> Record:
    """The end of a type 3, 4 or 6."""
    return Record(GroupKey(kind, group_id), None)
