"""The replay of the log: the state of a coordinator that has read its partition of `__consumer_offsets`.

    found = replay(records, dialect("4.4"))
    found.state             # every group and offset that is stored
    found.remarks           # records that no coordinator would have written after the previous ones
    load(found.state, context)   # timers armed again, as after a fail-over

Records of a compacted log are no sequence of steps: in between, members may lack a group record, or two members may
hold one partition. So each record is applied unchecked, and checks come at the end. Unrecorded data (timers, delayed
requests, pending ids, running resolutions) are lost; `load` sets the timers of a new coordinator.

Source: the `replay` methods of `GroupMetadataManager` and `OffsetMetadataManager` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fsm.coordinator.classic.responses import keep_static
from fsm.coordinator.consumer.group_records import STATE_CODES
from fsm.coordinator.coordinator import Coordinator, end_transaction
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, ClassicMembers, consumer_topics
from fsm.coordinator.model.consumer_group import (
    FREE,
    ConsumerGroup,
    CurrentAssignment,
    GroupMember,
    Held,
    new_group,
    new_member,
)
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.groups import NO_GROUPS
from fsm.coordinator.model.subscribed_metadata import SubscribedMetadata
from fsm.coordinator.offsets import transactions
from fsm.protocol import records as stored
from fsm.protocol.assignment import topic_partitions
from fsm.protocol.record_batches import Batch, read_batches
from fsm.protocol.records import OtherKey, Record, RecordType
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
    """The result of a replay."""

    state: Coordinator
    remarks: tuple[Remark, ...]


def replay(records: Iterable[Record], dialect: Dialect, state: Coordinator | None = None) -> Replayed:
    """The state after these records, which follow those that led to `state`."""
    found = _Replay(dialect, state or Coordinator())
    for i, record in enumerate(records):
        found.take(i, record)
    return found.outcome()


def replay_segment(data: bytes, dialect: Dialect, state: Coordinator | None = None) -> Replayed:
    """The state after a raw segment, which follows those that led to `state`; it may end inside a transaction.

    Raises `InputError` for a segment that cannot be read.
    """
    found = _Replay(dialect, state or Coordinator())
    for batch in read_batches(data):
        found.take_batch(batch)
    return found.outcome()


@dataclass
class _Replay:
    """The coordinator so far, with a method for each type of record."""

    dialect: Dialect
    state: Coordinator
    remarks: list[Remark] = field(default_factory=list)
    at: int = 0

    def outcome(self) -> Replayed:
        return Replayed(replace(self.state, unstored=NO_GROUPS), tuple(self.remarks))

    def remark(self, text: str) -> None:
        self.remarks.append(Remark(self.at, text))

    def take_batch(self, batch: Batch) -> None:
        """Every record of a batch. Offsets inside a transaction are pending until its control record."""
        if batch.is_control:
            committed = batch.end_of_transaction().committed
            self.state = end_transaction(self.state, batch.producer_id, committed=committed)
            return
        for entry in batch.records:
            record = entry.decode()
            if batch.is_transactional and isinstance(record.key, stored.OffsetKey):
                self._hold_offsets(record.key.group)
                pending = transactions.add_offsets(self.state.transactions, (record,), batch.producer_id)
                self.state = replace(self.state, transactions=pending)
            else:
                self.take(entry.offset, record)

    def take(self, at: int, record: Record) -> None:
        self.at = at
        key, value, _ = record
        if isinstance(key, OtherKey):
            return
        if isinstance(key, stored.OffsetKey):
            if value is not None:
                self._hold_offsets(key.group)
            self.state = self.state.with_offsets((record,))
        elif isinstance(key, stored.ClassicGroupKey):
            self._take_classic(key.group, value)
        else:
            self._take_consumer(key, value)

    def _hold_offsets(self, group_id: str) -> None:
        """Offsets of an unknown group create a classic group without members."""
        if group_id not in self.state.groups:
            self.state = self.state.with_group(ClassicGroup(group_id))

    def _take_classic(self, group_id: str, value: Any) -> None:
        """A classic group's record replaces an empty consumer group, which may have been dropped without a record."""
        if value is not None:
            self.state = self.state.with_group(_classic_group(group_id, value, self.dialect))
        elif isinstance(self.state.groups.get(group_id), ClassicGroup):
            self.state = self.state.without(group_id)

    def _take_consumer(self, key: Any, value: Any) -> None:
        """Any of its records creates a consumer group; it replaces a group that only has offsets."""
        group = self.state.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            if group is not None and not group.is_simple:
                self.remark(f"a record of consumer group {key.group_id}, which is a classic group")
            group = new_group(key.group_id, self.dialect)
        changed = _TAKEN[key.type](self, group, key, value)
        self.state = self.state.without(key.group_id) if changed is None else self.state.with_group(changed)

    # One method per record of a consumer group; a value of None is a tombstone.

    def group_epoch(self, group: ConsumerGroup, _key: stored.GroupKey, value: Any) -> ConsumerGroup | None:
        """Type 3. Its tombstone ends the group."""
        if value is not None:
            return replace(group, epoch=value.epoch, metadata=group.metadata._replace(digest=value.metadata_hash))
        if group.members or group.targets or group.target_epoch != GONE:
            self.remark(f"the end of consumer group {group.group_id}, of which something is left")
        return None

    def subscription_metadata(self, group: ConsumerGroup, _key: stored.GroupKey, value: Any) -> ConsumerGroup:
        """Type 4, of which releases with the hash of type 3 write only tombstones."""
        if value is None:
            return replace(group, has_metadata_record=False)
        topics = tuple(sorted(value.topics, key=lambda topic: str(topic.topic_name)))
        kept = Choice.METADATA_HASH not in self.dialect
        return replace(
            group, metadata=SubscribedMetadata(topics=topics) if kept else group.metadata, has_metadata_record=True
        )

    def member(self, group: ConsumerGroup, key: stored.MemberKey, value: Any) -> ConsumerGroup:
        """Type 5. Its tombstone comes after those of types 8 and 7."""
        known = group.members.by_id.get(key.member_id)
        if value is not None:
            return self._with_member(group, replace(known or new_member(key.member_id), metadata=value))
        if known is None:
            return group
        if known.epoch != GONE or key.member_id in group.targets:
            self.remark(f"the end of member {key.member_id}, of which something is left")
        return replace(
            group, members=group.members.without(key.member_id), targets=group.targets.without(key.member_id)
        )

    def target_epoch(self, group: ConsumerGroup, _key: stored.GroupKey, value: Any) -> ConsumerGroup:
        """Type 6."""
        if value is not None:
            return replace(group, target_epoch=value.assignment_epoch, target_time_ms=value.assignment_timestamp)
        if group.targets:
            self.remark(f"the end of the target of {group.group_id}, of which entries are left")
        return replace(group, target_epoch=GONE, target_time_ms=0)

    def target(self, group: ConsumerGroup, key: stored.MemberKey, value: Any) -> ConsumerGroup:
        """Type 7."""
        if value is None:
            return replace(group, targets=group.targets.without(key.member_id))
        target = topic_partitions({topic.topic_id: topic.partitions for topic in value.topic_partitions})
        return replace(group, targets=group.targets.set(key.member_id, target))

    def current_assignment(self, group: ConsumerGroup, key: stored.MemberKey, value: Any) -> ConsumerGroup:
        """Type 8."""
        known: GroupMember | None = group.members.by_id.get(key.member_id)
        if value is None and known is None:
            return group
        before = known or new_member(key.member_id)
        if value is None:
            after = CurrentAssignment(before.current.state, GONE, GONE)
        else:
            keeps = Choice.ASSIGNMENT_EPOCHS in self.dialect
            after = CurrentAssignment(
                STATES.get(value.state, State.UNKNOWN),
                value.member_epoch,
                value.previous_member_epoch,
                _partitions(value.assigned_partitions, value.member_epoch, keeps),
                _partitions(value.partitions_pending_revocation, value.member_epoch, keeps),
            )
        self._remark_mismatch(group, before, after)
        return self._with_member(group, replace(before, current=after))

    def _with_member(self, group: ConsumerGroup, member: GroupMember) -> ConsumerGroup:
        drops = Choice.INSTANCE_CHANGE_DROPS_MAPPING in self.dialect
        return replace(group, members=group.members.set(member, drops_old_instance=drops))

    def _remark_mismatch(self, group: ConsumerGroup, before: GroupMember, after: CurrentAssignment) -> None:
        """Remarks a partition that is held otherwise: brokers without diagrams/dialects.md#f22 fail to load such a
        record.
        """
        if Choice.MISMATCHED_RELEASE_IGNORED in self.dialect:
            return
        held_at = {p: group.members.partition_epoch(*p) for p in sorted(before.current.held | after.held)}
        released = [p for p in held_at if p in before.current.held and held_at[p] != before.epoch]
        taken = [p for p in held_at if p not in before.current.held and held_at[p] != FREE]
        for topic_id, number in (*released, *taken)[:1]:
            at = held_at[topic_id, number]
            self.remark(
                f"{before.member_id} and {topic_id}-{number}, held at epoch {at}: this release fails to load it"
            )

    def regular_expression(self, group: ConsumerGroup, key: stored.RegularExpressionKey, value: Any) -> ConsumerGroup:
        """Type 16."""
        if value is None:
            return replace(group, regexes=group.regexes.without(key.regular_expression))
        return replace(group, regexes=group.regexes.set(key.regular_expression, value))


_TAKEN: Mapping[RecordType, Callable[[_Replay, ConsumerGroup, Any, Any], ConsumerGroup | None]] = {
    T.CONSUMER_GROUP_METADATA: _Replay.group_epoch,
    T.CONSUMER_GROUP_PARTITION_METADATA: _Replay.subscription_metadata,
    T.CONSUMER_GROUP_MEMBER_METADATA: _Replay.member,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _Replay.target_epoch,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _Replay.target,
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _Replay.current_assignment,
    T.CONSUMER_GROUP_REGULAR_EXPRESSION: _Replay.regular_expression,
}


def _partitions(topics: tuple[stored.HeldTopic, ...], member_epoch: int, keeps: bool) -> Held:
    """Partitions with their epochs; the member's own epoch for missing ones."""
    found = {}
    for topic_id, numbers, given in topics:
        epochs = given if given is not None and len(given) == len(numbers) else (max(member_epoch, 0),) * len(numbers)
        found.update({(topic_id, number): epoch for number, epoch in zip(numbers, epochs, strict=True)})
    return tuple(sorted((partition, epoch if keeps else 0) for partition, epoch in found.items()))


def _classic_group(group_id: str, value: stored.ClassicGroup, dialect: Dialect) -> ClassicGroup:
    """The group of a record: STABLE, or EMPTY without members."""
    members = (
        ClassicGroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout,
            member.session_timeout,
            (stored.ClassicProtocol(value.protocol or "", member.subscription),),
            member.assignment,
        )
        for member in value.members
    )
    group = ClassicGroup(
        group_id,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader=value.leader,
        members=ClassicMembers.of(members),
        stored_generation=keep_static(value, dialect),
    )
    return replace(group, subscribed_topics=consumer_topics(group))
