"""The members of a consumer group: their records and current assignments, and aggregates over all of them.

`Members` is a value. Aggregates that a heartbeat needs - votes, subscriptions, holders of partitions, whether all
members are reconciled - are updated with each change of a member, so that no answer iterates over the group.

Source: KIP-848; `ConsumerGroup` and `ConsumerGroupMember` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields
from functools import lru_cache
from typing import NamedTuple

from fsm.coordinator.model.context import Topic
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.hash_order import state_order, state_table, string_hash
from fsm.coordinator.model.persistent import ById, Counts, PersistentMap, count
from fsm.coordinator.model.subscribed_metadata import NOTHING, SubscribedMetadata
from fsm.coordinator.model.timers import Deadlines, Timers
from fsm.protocol import records
from fsm.protocol.assignment import TopicId, TopicPartitions, numbers_by_topic, topic_partitions
from fsm.protocol.records import ResolvedRegularExpression
from fsm.step import frozen, value
from fsm.tables.consumer_group import State
from fsm.tables.consumer_group_member import State as MemberState

JOIN_GROUP_MEMBER_EPOCH = 0
"""The epoch of a member that joins, or joins again."""
LEAVE_GROUP_MEMBER_EPOCH = -1
"""The epoch of a member that leaves."""
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2
"""The epoch of a static member that leaves temporarily, and while it is away."""

Partition = tuple[TopicId, int]

Held = tuple[tuple[Partition, int], ...]
"""Partitions with their assignment epochs, sorted: the frozen form of a mapping."""

FREE = -1
HOLDS_NOTHING: frozenset[Partition] = frozenset()


@value
class CurrentAssignment:
    """A member's assigned and pending partitions: the content of its current-assignment record (type 8)."""

    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Held = ()
    """Assigned partitions with their assignment epochs, 0 in dialects without them."""
    pending: Held = ()
    """Partitions pending revocation: the member must still report that it has revoked them."""

    @property
    def held(self) -> frozenset[Partition]:
        """Assigned and pending partitions, which no other member may have."""
        held = (*self.assigned, *self.pending)
        return frozenset([partition for partition, _ in held]) if held else HOLDS_NOTHING


NOTHING_YET = CurrentAssignment()


@value
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
        """Its regular expression; empty if it has none."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    @property
    def assigned(self) -> TopicPartitions:
        """Its assigned partitions, without epochs."""
        found = numbers_by_topic([partition for partition, _ in self.current.assigned])
        return tuple([(topic_id, tuple(numbers)) for topic_id, numbers in found.items()])


BLANK_METADATA = records.Member(None, None, "", "", (), "")


def new_member(member_id: str) -> GroupMember:
    return GroupMember(member_id, BLANK_METADATA)


def by_topic(partitions: Iterable[Partition]) -> TopicPartitions:
    """Partitions one by one, grouped."""
    return topic_partitions(numbers_by_topic(partitions))


NO_MEMBERS: PersistentMap[str, GroupMember] = PersistentMap()
MEMBER_STABLE = MemberState.STABLE
EMPTY, ASSIGNING, RECONCILING, STABLE = State.EMPTY, State.ASSIGNING, State.RECONCILING, State.STABLE
"""Module constants, because access to an enum member through its class costs as much as three calls in Python 3.11."""

NO_STATIC: PersistentMap[str, str] = PersistentMap()
NO_COUNTS: PersistentMap[str, int] = PersistentMap()
NO_EPOCHS: PersistentMap[int, int] = PersistentMap()
NO_HOLDERS: PersistentMap[Partition, int] = PersistentMap()


@value
class Members(ById[GroupMember]):
    """Members by id.

    Counts are derived from the present and earlier members. Two values are equal if they behave alike: the same
    members, iterated in the same order.
    """

    by_id: PersistentMap[str, GroupMember] = NO_MEMBERS
    static: PersistentMap[str, str] = NO_STATIC
    """Member ids by instance id. Before 4.4 an instance id that its member has dropped still refers to it (F15)."""
    votes: Counts[str] = NO_COUNTS
    """Votes by assignor."""
    names: Counts[str] = NO_COUNTS
    """Subscribers by topic name, without regular expressions."""
    patterns: Counts[str] = NO_COUNTS
    """Subscribers by regular expression."""
    protocols: Counts[str] = NO_COUNTS
    """Classic members by the protocols that they support."""
    classic: int = 0
    """The number of classic members."""
    settled: Counts[int] = NO_EPOCHS
    """Members in STABLE by their epoch."""
    holders: PersistentMap[Partition, int] = NO_HOLDERS
    """The member epoch of each partition's holder."""
    most: int = 0
    """The maximum number of members so far: the order of the coordinator's map depends on it."""
    most_patterns: int = 0
    """The maximum number of regular expressions so far, for the same reason."""

    @classmethod
    def of(cls, members: Iterable[GroupMember]) -> Members:
        """These members, in this order."""
        found = cls()
        for member in members:
            found = found.set(member)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Members)
            and self.by_id == other.by_id
            and self.static == other.static
            and self._walks() == other._walks()
        )

    def __hash__(self) -> int:
        return hash((self.by_id, self.static))

    def _walks(self) -> tuple[object, ...]:
        """The iteration order of maps, now and after they have grown."""
        sizes = state_table(self.by_id, self.most), state_table(self.patterns, self.most_patterns)
        return (*sizes, self.in_order(), self.patterns_in_order(), list(self.votes_in_order()))

    def in_order(self) -> list[str]:
        """Member ids in the order of the coordinator's map."""
        return state_order(self.by_id, string_hash, self.most)

    def patterns_in_order(self) -> list[str]:
        """Regular expressions in the order of the coordinator's map."""
        return state_order(self.patterns, string_hash, self.most_patterns)

    def votes_in_order(self) -> dict[str, int]:
        """Votes by assignor, in the order of the coordinator's map."""
        return {assignor: self.votes[assignor] for assignor in state_order(self.votes, string_hash)}

    def partition_epoch(self, topic_id: TopicId, partition: int) -> int:
        """The member epoch of the partition's holder, -1 if it has none."""
        epoch: int = self.holders.get((topic_id, partition), FREE)
        return epoch

    def set(self, member: GroupMember, *, drops_old_instance: bool = True) -> Members:
        """The members with this one added or replaced."""
        old = self.by_id.get(member.member_id)
        static, instance_id = self.static, member.metadata.instance_id
        if drops_old_instance and old is not None and old.metadata.instance_id not in (None, instance_id):
            static = static.without(old.metadata.instance_id)
        if instance_id is not None:
            static = static.set(instance_id, member.member_id)
        return self._recount(old, member, self.by_id.set(member.member_id, member), static)

    def without(self, member_id: str) -> Members:
        """The members without the one of this id, if there is one."""
        old = self.by_id.get(member_id)
        if old is None:
            return self
        static = self.static
        if old.instance_id is not None and static.get(old.instance_id) == member_id:
            static = static.without(old.instance_id)
        return self._recount(old, None, self.by_id.without(member_id), static)

    def _recount(
        self,
        old: GroupMember | None,
        new: GroupMember | None,
        by_id: PersistentMap[str, GroupMember],
        static: PersistentMap[str, str],
    ) -> Members:
        votes, names, patterns, protocols = self.votes, self.names, self.patterns, self.protocols
        classic, settled, holders, most_patterns = self.classic, self.settled, self.holders, self.most_patterns
        if old is None or new is None or old.metadata is not new.metadata:
            was, now = old or NOBODY_ELSE, new or NOBODY_ELSE
            names = count(names, was.metadata.subscribed_topic_names, now.metadata.subscribed_topic_names)
            votes = count(votes, _optional(was.metadata.server_assignor), _optional(now.metadata.server_assignor))
            patterns = count(patterns, _optional(was.pattern or None), _optional(now.pattern or None))
            if was.is_classic or now.is_classic:
                protocols = count(protocols, _protocols(was), _protocols(now))
                classic += now.is_classic - was.is_classic
            most_patterns = max(most_patterns, len(patterns))
        if old is None or new is None or old.current is not new.current:
            settled = count(settled, _stable_epoch(old), _stable_epoch(new))
            holders = _register(holders, old, new)
        most = self.most if old is not None else max(self.most, len(by_id))
        return Members(by_id, static, votes, names, patterns, protocols, classic, settled, holders, most, most_patterns)


def _optional(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _protocols(member: GroupMember) -> tuple[str, ...]:
    classic = member.metadata.classic_member_metadata
    return tuple(protocol.name for protocol in classic.supported_protocols) if classic else ()


def _stable_epoch(member: GroupMember | None) -> tuple[int, ...]:
    return (member.current.epoch,) if member is not None and member.current.state is MEMBER_STABLE else ()


def _register(
    holders: PersistentMap[Partition, int], old: GroupMember | None, new: GroupMember | None
) -> PersistentMap[Partition, int]:
    """Frees the partitions of the old member that are registered at its epoch, and registers those of the new one."""
    before, was = (HOLDS_NOTHING, FREE) if old is None else (old.current.held, old.current.epoch)
    after, now = (HOLDS_NOTHING, FREE) if new is None else (new.current.held, new.current.epoch)
    gained = {}
    for partition in after:
        held_at = holders.get(partition)
        if held_at is None or held_at < now or (held_at == was != now and partition in before):
            gained[partition] = now
    lost = [partition for partition in before if partition not in after and holders.get(partition) == was]
    return (holders.without(*lost) if lost else holders).merge(gained)


NOBODY_ELSE = new_member("")
NOBODY = Members()


def prefer(votes: Mapping[str, int]) -> str | None:
    """The assignor with the most votes, the first one in a tie; None without votes."""
    return max(votes, key=lambda assignor: votes[assignor], default=None)


def elect(votes: Mapping[str, int], old_vote: str | None, new_vote: str | None) -> str | None:
    """The assignor elected after a request that changes its member's vote from `old_vote` (None for a new member) to
    `new_vote`.

    >>> elect({"uniform": 1, "range": 1}, "range", "range"), elect({"uniform": 1, "range": 1}, None, None)
    ('range', 'uniform')
    """
    counts = dict(votes)
    if old_vote is not None:
        counts[old_vote] -= 1
        if not counts[old_vote]:
            del counts[old_vote]
    if new_vote is not None and new_vote not in counts:
        return prefer({new_vote: 1, **counts})
    if new_vote is not None:
        counts[new_vote] += 1
    return prefer(counts)


NO_TARGETS: PersistentMap[str, TopicPartitions] = PersistentMap()
NO_REGEXES: PersistentMap[str, ResolvedRegularExpression] = PersistentMap()
NO_TIMERS: Timers = Deadlines()


class Resolution(NamedTuple):
    """The regular expressions that a background task resolves, and its result."""

    requested_by: str
    """The member whose request started it."""
    found: tuple[tuple[str, ResolvedRegularExpression], ...]
    """In the order of their records."""


def derive_state(members: Members, epoch: int, target_epoch: int) -> State:
    """The group's state, which follows from epochs and members."""
    size = len(members.by_id)
    if not size:
        return EMPTY
    if epoch > target_epoch:
        return ASSIGNING
    return STABLE if members.settled.get(target_epoch) == size else RECONCILING


@frozen
class ConsumerGroup:
    """One group of type consumer."""

    group_id: str
    epoch: int
    target_epoch: int
    target_time_ms: int = 0
    """When the target was computed; 0 if unknown, so that the next one is computed at once."""
    metadata: SubscribedMetadata = NOTHING
    has_metadata_record: bool = False
    """Whether the log has a record of type 4."""
    members: Members = NOBODY
    targets: PersistentMap[str, TopicPartitions] = NO_TARGETS
    regexes: PersistentMap[str, ResolvedRegularExpression] = NO_REGEXES
    timers: Timers = NO_TIMERS
    metadata_due: bool = True
    """Whether the next heartbeat or classic JoinGroup checks the metadata."""
    resolution: Resolution | None = None

    def __eq__(self, other: object) -> bool:
        """Whether both behave alike: the same fields, and regular expressions iterated in the same order."""
        if self is other:
            return True
        if not isinstance(other, ConsumerGroup) or self.list_resolved() != other.list_resolved():
            return False
        return all(getattr(self, field.name) == getattr(other, field.name) for field in fields(self))

    def __hash__(self) -> int:
        return hash((self.group_id, self.epoch, self.target_epoch, self.members, self.targets, self.timers))

    @property
    def state(self) -> State:
        """Follows from epochs and members."""
        return derive_state(self.members, self.epoch, self.target_epoch)

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members.by_id

    @property
    def next_deadline_ms(self) -> int | None:
        """Its next deadline; None without a timer."""
        return self.timers.next_deadline_ms

    def target_of(self, member_id: str, instance_id: str | None) -> TopicPartitions:
        """A member's part of the target; that of an instance id belongs to its current holder."""
        owner = member_id if instance_id is None else self.members.static.get(instance_id)
        found: TopicPartitions = self.targets.get(owner, ())
        return found

    def preferred_assignor(self, default: str) -> str:
        """The assignor that the stored votes elect."""
        return prefer(self.members.votes_in_order()) or default

    def subscribed_names(self) -> AbstractSet[str]:
        """Topics subscribed to by name or by a resolved regular expression."""
        found = set(self.members.names)
        for resolved in self.regexes.values():
            found.update(resolved.topics)
        return found

    def names_of(self, member: GroupMember) -> tuple[str, ...]:
        """Topics that one member subscribes to, by name and by a resolved regular expression, possibly with
        duplicates.
        """
        names = member.metadata.subscribed_topic_names
        resolved = self.regexes.get(member.pattern) if member.pattern else None
        return (*names, *resolved.topics) if resolved else names

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics, as far as Kafka checks:
        `ConsumerGroup.subscriptionType`.
        """
        members = self.members
        if not members.patterns:
            return all(count == len(members) for count in members.names.values())
        return len(members.patterns) == 1 and not members.names and sum(members.patterns.values()) == len(members)

    def list_resolved(self) -> Iterable[ResolvedRegularExpression]:
        """Resolved regular expressions in the order of the coordinator's map."""
        return [self.regexes[pattern] for pattern in state_order(self.regexes, string_hash)]


@lru_cache(maxsize=1024)
def find_topics(names: tuple[str, ...], topics: PersistentMap[str, Topic]) -> AbstractSet[TopicId]:
    """The ids of those topics among these names that exist."""
    return frozenset(topics[name].topic_id for name in names if name in topics)


def new_group(group_id: str, dialect: Dialect) -> ConsumerGroup:
    epoch = 1 if Choice.FRESH_EPOCH_IS_ONE in dialect else 0
    return ConsumerGroup(group_id, epoch, epoch)
