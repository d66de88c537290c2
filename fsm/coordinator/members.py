"""The members of a consumer group: each one's own record and current assignment, and what follows from all of them.

`Members` is a value. What a coordinator asks of the whole group at every heartbeat - votes, subscriptions, who holds
what, whether everybody has arrived - is counted as members come, change and go, so that no answer walks the group.

Source: section 1 of the coordinator reference; `ConsumerGroup` and `ConsumerGroupMember` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fsm.coordinator import records
from fsm.coordinator.by_id import ById
from fsm.coordinator.frozen import Counts, FrozenMap, counted
from fsm.coordinator.hash_order import state_order, string_hash
from fsm.coordinator.reconciliation import FREE, CurrentAssignment, Partition
from fsm.kafka.assignment import TopicId, TopicPartitions, topic_partitions
from fsm.tables.consumer_group_member import State

AWAY = -2
"""The epoch of a static member that left for a while."""
LEFT = -1
"""The epoch that says that a member leaves."""


NOTHING_YET = CurrentAssignment()


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member: the content of its two records, under its id."""

    member_id: str
    metadata: records.Member
    current: CurrentAssignment = NOTHING_YET

    @property
    def epoch(self) -> int:
        """Its member epoch."""
        return self.current.epoch

    @property
    def instance_id(self) -> str | None:
        """Set for a static member."""
        return self.metadata.instance_id

    @property
    def pattern(self) -> str:
        """Its regular expression; empty where it has none."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    @property
    def assigned(self) -> TopicPartitions:
        """What it was handed, without epochs."""
        return by_topic(partition for partition, _ in self.current.assigned)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has arrived there."""
        return self.current.state is State.STABLE and self.current.epoch == target_epoch


def blank(member_id: str) -> GroupMember:
    """A member that is just being created."""
    metadata = records.Member(None, None, "", "", (), "")
    return GroupMember(member_id, metadata)


def by_topic(partitions: Iterable[Partition]) -> TopicPartitions:
    """Partitions one by one, grouped."""
    found: dict[TopicId, list[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, []).append(number)
    return topic_partitions(found)


def _vote(member: GroupMember | None) -> tuple[str, ...]:
    return (member.metadata.server_assignor,) if member and member.metadata.server_assignor is not None else ()


def _names(member: GroupMember | None) -> tuple[str, ...]:
    return member.metadata.subscribed_topic_names if member else ()


def _pattern(member: GroupMember | None) -> tuple[str, ...]:
    return (member.pattern,) if member and member.pattern else ()


def _protocols(member: GroupMember | None) -> tuple[str, ...]:
    classic = member.metadata.classic_member_metadata if member else None
    return tuple(protocol.name for protocol in classic.supported_protocols) if classic else ()


def _settled(member: GroupMember | None) -> tuple[int, ...]:
    return (member.epoch,) if member and member.current.state is State.STABLE else ()


NO_MEMBERS: FrozenMap[str, GroupMember] = FrozenMap()
NO_STATIC: FrozenMap[str, str] = FrozenMap()
NO_COUNTS: FrozenMap[str, int] = FrozenMap()
NO_EPOCHS: FrozenMap[int, int] = FrozenMap()
NO_HOLDERS: FrozenMap[Partition, int] = FrozenMap()


@dataclass(frozen=True, eq=False)
class Members(ById[GroupMember]):
    """Members by id. What is counted follows from the members and is no part of the value."""

    by_id: FrozenMap[str, GroupMember] = NO_MEMBERS
    static: FrozenMap[str, str] = NO_STATIC
    """Member ids by instance id. Before 4.4 an instance id that its member gave up still leads to it (F15)."""
    votes: Counts[str] = NO_COUNTS
    """Votes by assignor."""
    names: Counts[str] = NO_COUNTS
    """Subscribers by topic name, without regular expressions."""
    patterns: Counts[str] = NO_COUNTS
    """Subscribers by regular expression."""
    protocols: Counts[str] = NO_COUNTS
    """Classic members by the protocols that they support."""
    classic: int = 0
    """How many speak the classic protocol."""
    settled: Counts[int] = NO_EPOCHS
    """Members in STABLE by their epoch."""
    holders: FrozenMap[Partition, int] = NO_HOLDERS
    """The member epoch of each partition's holder."""
    most: int = 0
    """How many members there were at most: the order of the coordinator's map hangs on it."""
    most_patterns: int = 0
    """How many regular expressions there were at most, for the same reason."""

    @classmethod
    def of(cls, members: Iterable[GroupMember]) -> Members:
        """These members, in this order."""
        found = cls()
        for member in members:
            found = found.having(member)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Members):
            return False
        return self is other or (self.by_id == other.by_id and self.static == other.static)

    def __hash__(self) -> int:
        return hash((self.by_id, self.static))

    def in_order(self) -> list[str]:
        """Member ids as the coordinator walks its map of them."""
        return state_order(self.by_id, string_hash, self.most)

    def partition_epoch(self, topic_id: TopicId, partition: int) -> int:
        """The member epoch of the partition's holder, -1 where nobody holds it."""
        epoch: int = self.holders.get((topic_id, partition), FREE)
        return epoch

    def all_settled_at(self, epoch: int) -> bool:
        """Whether every member is STABLE at this epoch."""
        return bool(self.settled.get(epoch, 0) == len(self.by_id))

    def having(self, member: GroupMember, *, drops_old_instance: bool = True) -> Members:
        """With this member, new or in place of the one with its id."""
        old = self.by_id.get(member.member_id)
        static = self.static
        if drops_old_instance and old is not None and old.instance_id not in (None, member.instance_id):
            static = static.without(old.instance_id)
        if member.instance_id is not None:
            static = static.set(member.instance_id, member.member_id)
        return self._recounted(old, member, self.by_id.set(member.member_id, member), static)

    def without(self, member_id: str) -> Members:
        """Without the member of this id, if there is one."""
        old = self.by_id.get(member_id)
        if old is None:
            return self
        static = self.static
        if old.instance_id is not None and static.get(old.instance_id) == member_id:
            static = static.without(old.instance_id)
        return self._recounted(old, None, self.by_id.without(member_id), static)

    def _recounted(
        self,
        old: GroupMember | None,
        new: GroupMember | None,
        by_id: FrozenMap[str, GroupMember],
        static: FrozenMap[str, str],
    ) -> Members:
        patterns = counted(self.patterns, _pattern(old), _pattern(new))
        return Members(
            by_id,
            static,
            votes=counted(self.votes, _vote(old), _vote(new)),
            names=counted(self.names, _names(old), _names(new)),
            patterns=patterns,
            protocols=counted(self.protocols, _protocols(old), _protocols(new)),
            classic=self.classic + bool(new and new.is_classic) - bool(old and old.is_classic),
            settled=counted(self.settled, _settled(old), _settled(new)),
            holders=_registered(self.holders, old, new),
            most=max(self.most, len(by_id)),
            most_patterns=max(self.most_patterns, len(patterns)),
        )


def _registered(
    holders: FrozenMap[Partition, int], old: GroupMember | None, new: GroupMember | None
) -> FrozenMap[Partition, int]:
    """What the old member held is free, if it was registered at its epoch; what the new one holds is its own."""
    if old and new and old.current == new.current:
        return holders
    before = dict.fromkeys(old.current.held, old.epoch) if old else {}
    after = dict.fromkeys(new.current.held, new.epoch) if new else {}
    if before == after:
        return holders
    freed = {partition for partition, epoch in before.items() if holders.get(partition) == epoch}
    gained = {p: epoch for p, epoch in after.items() if p in freed or holders.get(p, FREE) < epoch or p not in holders}
    return holders.without(*(partition for partition in before if partition in freed - gained.keys())).merged(gained)


NOBODY = Members()
