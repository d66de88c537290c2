"""From the log to the coordinator: what a broker knows once it has read its partition of `__consumer_offsets`.

    found = replay(records, dialect("4.4"))
    found.state             # every group and offset that is stored
    found.remarks           # records that no coordinator would have written after those before them
    load(found.state, context)   # timers armed again, as after a fail-over

Records of a compacted log are no sequence of steps: between them, members may stand without a group record, or two
members hold one partition. So a record is taken for what it says, and checks belong at the end. What no record keeps -
timers, parked requests, given-out ids, running resolutions - is gone; `load` arms what a new coordinator arms.

Source: section 8.5 of the coordinator reference; the `replay` methods of `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fsm.coordinator import records as stored
from fsm.coordinator import transactions
from fsm.coordinator.classic_group import ClassicGroup, consumer_topics
from fsm.coordinator.classic_members import ClassicGroupMember, ClassicMembers
from fsm.coordinator.consumer_group import ConsumerGroup, fresh
from fsm.coordinator.coordinator import Coordinator, Group
from fsm.coordinator.dialect import Choice, Dialect
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.group_metadata import SubscribedMetadata
from fsm.coordinator.group_records import STATE_CODES
from fsm.coordinator.log import Batch, read_batches
from fsm.coordinator.members import GroupMember, blank
from fsm.coordinator.offsets import NO_OFFSETS, Offsets
from fsm.coordinator.reconciliation import FREE, CurrentAssignment, Held
from fsm.coordinator.records import OtherKey, Record, RecordType
from fsm.coordinator.transactions import NO_TRANSACTIONS, Transactions
from fsm.kafka.assignment import topic_partitions
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group_member import State

T = RecordType
GONE = -1
STATES = {code: state for state, code in STATE_CODES.items()}


class Remark(NamedTuple):
    """A record that does not follow from those before it."""

    at: int
    """Its offset in the log, or its number."""
    text: str


class Replayed(NamedTuple):
    """What a log says."""

    state: Coordinator
    remarks: tuple[Remark, ...]


def replay(records: Iterable[Record], dialect: Dialect, state: Coordinator | None = None) -> Replayed:
    """The state after these records, which follow those that led to `state`."""
    loader = _Loader(dialect, state or Coordinator())
    for i, record in enumerate(records):
        loader.take(i, record)
    return loader.replayed()


def replay_segment(data: bytes, dialect: Dialect, state: Coordinator | None = None) -> Replayed:
    """The state after a raw segment, which follows those that led to `state`; it may end inside a transaction.

    Raises `InputError` for a segment that cannot be read.
    """
    loader = _Loader(dialect, state or Coordinator())
    for batch in read_batches(data):
        if batch.is_control:
            loader.end(batch.producer_id, committed=batch.end_of_transaction().committed)
        else:
            loader.take_batch(batch)
    return loader.replayed()


@dataclass
class _Loader:
    """The groups so far, and how each record changes them."""

    dialect: Dialect
    before: Coordinator
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, dict[tuple[str, int], stored.OffsetCommit]] = field(default_factory=dict)
    transactions: Transactions = NO_TRANSACTIONS
    remarks: list[Remark] = field(default_factory=list)
    at: int = 0

    def __post_init__(self) -> None:
        self.groups = dict(self.before.groups)
        self.offsets = {group_id: dict(found) for group_id, found in self.before.offsets.items()}
        self.transactions = self.before.transactions

    def take_batch(self, batch: Batch) -> None:
        """Every record of a batch; offsets inside a transaction are pending."""
        for entry in batch.records:
            record = entry.decoded()
            if batch.is_transactional and isinstance(record.key, stored.OffsetKey):
                self.groups.setdefault(record.key.group, ClassicGroup(record.key.group))
                self.transactions = transactions.written(self.transactions, (record,), batch.producer_id)
            else:
                self.take(entry.offset, record)

    def end(self, producer_id: int, *, committed: bool) -> None:
        """The end of a producer's transaction."""
        self.transactions, records = transactions.ended(self.transactions, producer_id, committed=committed)
        for key, value, _ in records:
            if isinstance(key, stored.OffsetKey) and isinstance(value, stored.OffsetCommit):
                self.offsets.setdefault(key.group, {})[key.topic, key.partition] = value

    def take(self, at: int, record: Record) -> None:
        """One record."""
        self.at = at
        key, value, _ = record
        if isinstance(key, OtherKey):
            return
        if isinstance(key, stored.OffsetKey):
            self._offset(key, value)
            self.transactions = transactions.passed(self.transactions, (record,))
        elif value is None:
            _TOMBSTONES[key.type](self, key)
        else:
            _VALUES[key.type](self, key, value)

    def replayed(self) -> Replayed:
        """What the records led to."""
        offsets: Offsets = NO_OFFSETS
        for group_id, committed in self.offsets.items():
            offsets = offsets.merged({group_id: FrozenMap(committed)} if committed else {})
        state = replace(self.before, groups=FrozenMap(self.groups), offsets=offsets, unstored=FrozenMap())
        state = replace(state, transactions=self.transactions)
        return Replayed(state, tuple(self.remarks))

    def remark(self, text: str) -> None:
        """Notes that a record does not follow from those before."""
        self.remarks.append(Remark(self.at, text))

    # Offsets.

    def _offset(self, key: stored.OffsetKey, value: Any) -> None:
        place = (key.topic, key.partition)
        if value is None:
            self.offsets.get(key.group, {}).pop(place, None)
            return
        self.groups.setdefault(key.group, ClassicGroup(key.group))
        self.offsets.setdefault(key.group, {})[place] = value

    # Consumer groups.

    def group(self, group_id: str) -> ConsumerGroup:
        """The consumer group, new where there is none; one that only holds offsets makes way for it."""
        found = self.groups.get(group_id)
        if isinstance(found, ConsumerGroup):
            return found
        if found is not None and not found.is_simple:
            self.remark(f"a record of consumer group {group_id}, which is a classic group")
        return fresh(group_id, self.dialect)

    def existing(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group, if there is one."""
        found = self.groups.get(group_id)
        return found if isinstance(found, ConsumerGroup) else None

    def keep(self, group: Group) -> None:
        """The group as it is now."""
        self.groups[group.group_id] = group

    def member(self, group: ConsumerGroup, member_id: str) -> GroupMember:
        """The member, blank where there is none."""
        return group.members.by_id.get(member_id) or blank(member_id)


def _group_epoch(loader: _Loader, key: stored.GroupKey, value: stored.GroupEpoch) -> None:
    group = loader.group(key.group_id)
    metadata = group.metadata._replace(digest=value.metadata_hash)
    loader.keep(replace(group, epoch=value.epoch, metadata=metadata))


def _no_group(loader: _Loader, key: stored.GroupKey) -> None:
    group = loader.existing(key.group_id)
    if group is None:
        return
    if group.members or group.targets or group.target_epoch != GONE:
        loader.remark(f"the end of consumer group {key.group_id}, of which something is left")
    del loader.groups[key.group_id]


def _metadata(loader: _Loader, key: stored.GroupKey, value: stored.SubscriptionMetadata) -> None:
    group = loader.group(key.group_id)
    kept = Choice.METADATA_HASH not in loader.dialect
    metadata = SubscribedMetadata(topics=tuple(sorted(value.topics, key=_topic_name))) if kept else group.metadata
    loader.keep(replace(group, metadata=metadata, has_metadata_record=True))


def _topic_name(topic: stored.TopicMetadata) -> str:
    return topic.topic_name


def _no_metadata(loader: _Loader, key: stored.GroupKey) -> None:
    group = loader.existing(key.group_id)
    if group is not None:
        loader.keep(replace(group, has_metadata_record=False))


def _member(loader: _Loader, key: stored.MemberKey, value: stored.Member) -> None:
    group = loader.group(key.group_id)
    member = replace(loader.member(group, key.member_id), metadata=value)
    loader.keep(group.with_member(member, loader.dialect))


def _no_member(loader: _Loader, key: stored.MemberKey) -> None:
    group = loader.existing(key.group_id)
    if group is None or key.member_id not in group.members:
        return
    if group.members[key.member_id].epoch != GONE or key.member_id in group.targets:
        loader.remark(f"the end of member {key.member_id}, of which something is left")
    loader.keep(group.without_member(key.member_id))


def _target_epoch(loader: _Loader, key: stored.GroupKey, value: stored.TargetEpoch) -> None:
    group = loader.group(key.group_id)
    loader.keep(replace(group, target_epoch=value.assignment_epoch, target_time_ms=value.assignment_timestamp))


def _no_target_epoch(loader: _Loader, key: stored.GroupKey) -> None:
    group = loader.existing(key.group_id)
    if group is None:
        return
    if group.targets:
        loader.remark(f"the end of the target of {key.group_id}, of which entries are left")
    loader.keep(replace(group, target_epoch=GONE, target_time_ms=0))


def _target(loader: _Loader, key: stored.MemberKey, value: stored.Target) -> None:
    group = loader.group(key.group_id)
    target = topic_partitions({topic.topic_id: topic.partitions for topic in value.topic_partitions})
    loader.keep(replace(group, targets=group.targets.set(key.member_id, target)))


def _no_target(loader: _Loader, key: stored.MemberKey) -> None:
    group = loader.existing(key.group_id)
    if group is not None:
        loader.keep(replace(group, targets=group.targets.without(key.member_id)))


def _current(loader: _Loader, key: stored.MemberKey, value: stored.Current) -> None:
    group = loader.group(key.group_id)
    keeps = Choice.ASSIGNMENT_EPOCHS in loader.dialect
    current = CurrentAssignment(
        STATES.get(value.state, State.UNKNOWN),
        value.member_epoch,
        value.previous_member_epoch,
        _held(value.assigned_partitions, value.member_epoch, keeps),
        _held(value.partitions_pending_revocation, value.member_epoch, keeps),
    )
    before = loader.member(group, key.member_id)
    _refuse_mismatch(loader, group, before, current)
    loader.keep(group.with_member(replace(before, current=current), loader.dialect))


def _refuse_mismatch(loader: _Loader, group: ConsumerGroup, before: GroupMember, after: CurrentAssignment) -> None:
    """Remarks where brokers without F22 fail to load: a partition is released, or taken, that is held otherwise."""
    if Choice.MISMATCHED_RELEASE_IGNORED in loader.dialect:
        return
    held_at = {p: group.members.partition_epoch(*p) for p in sorted(before.current.held | after.held)}
    released = [p for p in held_at if p in before.current.held and held_at[p] != before.epoch]
    taken = [p for p in held_at if p not in before.current.held and held_at[p] != FREE]
    for topic_id, number in (*released, *taken)[:1]:
        at = held_at[topic_id, number]
        loader.remark(f"{before.member_id} and {topic_id}-{number}, held at epoch {at}: this release fails to load it")


def _held(topics: tuple[stored.HeldTopic, ...], member_epoch: int, keeps: bool) -> Held:
    """Partitions with their epochs: without any, or with too few, the member's own."""
    found = {}
    for topic_id, numbers, given in topics:
        epochs = given if given is not None and len(given) == len(numbers) else (max(member_epoch, 0),) * len(numbers)
        found.update({(topic_id, number): epoch for number, epoch in zip(numbers, epochs, strict=True)})
    return tuple(sorted((partition, epoch if keeps else 0) for partition, epoch in found.items()))


def _no_current(loader: _Loader, key: stored.MemberKey) -> None:
    group = loader.existing(key.group_id)
    if group is None or key.member_id not in group.members:
        return
    member = group.members[key.member_id]
    gone = CurrentAssignment(member.current.state, GONE, GONE)
    _refuse_mismatch(loader, group, member, gone)
    loader.keep(group.with_member(replace(member, current=gone), loader.dialect))


def _regex(loader: _Loader, key: stored.RegularExpressionKey, value: stored.ResolvedRegularExpression) -> None:
    group = loader.group(key.group_id)
    loader.keep(replace(group, regexes=group.regexes.set(key.regular_expression, value)))


def _no_regex(loader: _Loader, key: stored.RegularExpressionKey) -> None:
    group = loader.existing(key.group_id)
    if group is not None:
        loader.keep(replace(group, regexes=group.regexes.without(key.regular_expression)))


# Classic groups.


def _classic(loader: _Loader, key: stored.ClassicGroupKey, value: stored.ClassicGroup) -> None:
    """An empty consumer group may have been dropped before without a record: it makes way."""
    group = ClassicGroup(
        key.group,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader=value.leader,
        members=ClassicMembers.of(_classic_member(member, value.protocol) for member in value.members),
    )
    loader.keep(replace(group, subscribed_topics=consumer_topics(group)))


def _classic_member(member: stored.ClassicGroupMember, protocol: str | None) -> ClassicGroupMember:
    return ClassicGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout,
        member.session_timeout,
        (stored.ClassicProtocol(protocol or "", member.subscription),),
        member.assignment,
    )


def _no_classic(loader: _Loader, key: stored.ClassicGroupKey) -> None:
    if isinstance(loader.groups.get(key.group), ClassicGroup):
        del loader.groups[key.group]


_VALUES: Mapping[RecordType, Callable[[_Loader, Any, Any], None]] = {
    T.GROUP_METADATA: _classic,
    T.CONSUMER_GROUP_METADATA: _group_epoch,
    T.CONSUMER_GROUP_PARTITION_METADATA: _metadata,
    T.CONSUMER_GROUP_MEMBER_METADATA: _member,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target,
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _current,
    T.CONSUMER_GROUP_REGULAR_EXPRESSION: _regex,
}
_TOMBSTONES: Mapping[RecordType, Callable[[_Loader, Any], None]] = {
    T.GROUP_METADATA: _no_classic,
    T.CONSUMER_GROUP_METADATA: _no_group,
    T.CONSUMER_GROUP_PARTITION_METADATA: _no_metadata,
    T.CONSUMER_GROUP_MEMBER_METADATA: _no_member,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _no_target_epoch,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _no_target,
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _no_current,
    T.CONSUMER_GROUP_REGULAR_EXPRESSION: _no_regex,
}
