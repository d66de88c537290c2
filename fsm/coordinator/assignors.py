"""The server-side assignors: target assignments as functions of the group.

An assignor is one function, `GroupSpec -> {member id: partitions}`. A coordinator uses your own for groups whose
members vote for its name, or for all groups if the broker lists it first:

    config = BrokerConfig(group_consumer_assignors=("mine", "uniform", "range"))
    context = Context(now_ms, config=config, custom_assignors=PersistentMap({"mine": my_function}))

`range_assignor` and `uniform_assignor` compute the same assignments as Kafka's, partition by partition. Where Kafka's
result depends on the order of its hash maps, it depends on an `Order` here: the default sorts,
`fsm.coordinator.model.hash_order` has that of a broker.

Source: `RangeAssignor`, `UniformHomogeneousAssignmentBuilder` and `UniformHeterogeneousAssignmentBuilder` of
apache/kafka 4.4. They ignore racks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.errors import FsmError
from fsm.protocol.assignment import TopicId, TopicPartitions

Partition = tuple[TopicId, int]
Assignments = Mapping[str, TopicPartitions]
"""Partitions by member id. A member left out has none."""


class PartitionAssignorError(FsmError):
    """The assignor cannot assign: a topic or partition does not exist. The target stays as it was."""


class MemberSpec(NamedTuple):
    """One member as an assignor sees it."""

    subscribed: Collection[TopicId]
    """Existing topics, by name or by regular expression."""
    previous: TopicPartitions = ()
    """Its part of the last target, not its current partitions."""
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    """In the order in which the assignor walks them."""
    topics: Mapping[TopicId, int]
    """Partition counts of the topics that exist."""
    homogeneous: bool
    """Whether all members subscribe to the same topics."""

    def partitions(self, topic_id: TopicId) -> int:
        """The number of partitions of a topic. Raises `PartitionAssignorError` for an unknown topic."""
        try:
            return self.topics[topic_id]
        except KeyError:
            raise PartitionAssignorError(f"a member subscribes to topic {topic_id}, which does not exist") from None


@dataclass(frozen=True, slots=True)
class Order:
    """The orders that Kafka leaves to its hash maps."""

    topics: Callable[[Iterable[TopicId]], Iterable[TopicId]] = sorted
    """Orders the topics of a subscription."""
    previous: Callable[[Iterable[TopicId]], Iterable[TopicId]] = tuple
    """Orders the topics of a member's last target, if it cannot keep all of it."""
    rank: Callable[[TopicId], Any] = str
    """The sort key of topic ids."""


SORTED = Order()
"""The order of texts."""

Assignor = Callable[[GroupSpec], Assignments]
"""Any assignor, built in or your own. It may raise `PartitionAssignorError`."""


def make_assignors(dialect: Dialect, order: Order = SORTED) -> dict[str, Assignor]:
    """Kafka's assignors by name, the default one first."""
    stays = Choice.EXTRA_SLOT_STAYS in dialect
    return {"uniform": partial(uniform_assignor, order=order, extra_slot_stays=stays), "range": range_assignor}


def range_assignor(group: GroupSpec) -> dict[str, TopicPartitions]:
    """Consecutive partitions of each topic for each of its subscribers, the first ones one more.

    Static members come first, by instance id; then the others, by member id. Topics of equal size with the same
    subscribers are assigned alike. The last target is ignored. Every member has an entry.
    """
    found: dict[str, list[tuple[TopicId, tuple[int, ...]]]] = {member_id: [] for member_id in group.members}
    spans = cache(_spans)  # topics of equal size share them
    for topic_id, subscribers in sorted(_subscribers(group, _in_range_order(group)).items()):
        for member_id, span in zip(subscribers, spans(group.partitions(topic_id), len(subscribers)), strict=False):
            found[member_id].append((topic_id, span))
    return {member_id: tuple(topics) for member_id, topics in found.items()}


def _spans(partitions: int, subscribers: int) -> list[tuple[int, ...]]:
    """The ranges of one topic's partitions, for as many of its subscribers as get any."""
    share, more = divmod(partitions, subscribers)
    ends = [(i + 1) * share + min(i + 1, more) for i in range(subscribers if share else more)]
    return [tuple(range(start, end)) for start, end in pairwise((0, *ends))]


def _in_range_order(group: GroupSpec) -> list[str]:
    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(group.members, key=rank)


def _subscribers(group: GroupSpec, member_ids: Sequence[str]) -> dict[TopicId, Sequence[str]]:
    """Member ids by topic, in the order given."""
    if group.homogeneous and member_ids:
        return dict.fromkeys(group.members[member_ids[0]].subscribed, member_ids)
    found: dict[TopicId, list[str]] = {}
    for member_id in member_ids:
        for topic_id in group.members[member_id].subscribed:
            found.setdefault(topic_id, []).append(member_id)
    return dict(found)


def uniform_assignor(
    group: GroupSpec, *, order: Order = SORTED, extra_slot_stays: bool = True
) -> dict[str, TopicPartitions]:
    """Members differ by one partition at most if they subscribe to the same topics, and keep their partitions.

    If subscriptions differ, the subscribers of each topic are balanced as far as that topic allows. Without any
    subscription the result is empty. A member whose partitions did not change gets its `previous` itself.
    """
    if group.homogeneous:
        return _Homogeneous(group, order).assign(extra_slot_stays)
    return _Heterogeneous(group, order).assign()


class _Homogeneous:
    """A computation of uniform with equal subscriptions: a quota for each member, and a pool of partitions that no
    member keeps.
    """

    def __init__(self, group: GroupSpec, order: Order) -> None:
        first = next(iter(group.members.values()), MemberSpec(()))
        self.group = group
        self.order = order
        self.counts = {topic_id: group.partitions(topic_id) for topic_id in order.topics(first.subscribed)}
        self.pool = self._not_assigned()

    def _not_assigned(self) -> list[Partition]:
        """Partitions that no member had in the last target, topic by topic."""
        taken: dict[TopicId, set[int]] = {topic_id: set() for topic_id in self.counts}
        for member in self.group.members.values():
            for topic_id, numbers in member.previous:
                if topic_id in taken:
                    taken[topic_id].update(numbers)
        return [(t, p) for t, count in self.counts.items() if len(taken[t]) < count for p in _free(count, taken[t])]

    def assign(self, extra_slot_stays: bool) -> dict[str, TopicPartitions]:
        if not self.counts:
            return {}
        members = self.group.members
        base, extra = divmod(sum(self.counts.values()), len(members))
        assigned: dict[str, TopicPartitions] = {}
        unfilled: list[tuple[str, int]] = []
        for left, (member_id, member) in zip(range(len(members), 0, -1), members.items(), strict=True):
            quota = base + (extra > 0)
            assigned[member_id], room = self._keep(member.previous, quota)
            if room and extra and extra_slot_stays and left > extra:
                room -= 1  # later members may use the extra slot
            elif extra:
                extra -= 1
            if room:
                unfilled.append((member_id, room))
        self._fill(assigned, unfilled)
        return assigned

    def _keep(self, previous: TopicPartitions, quota: int) -> tuple[TopicPartitions, int]:
        """The partitions that a member keeps of its last target, and its remaining capacity. The surplus goes to the
        pool.
        """
        kept = [entry for entry in previous if entry[0] in self.counts]
        surplus = sum(len(numbers) for _, numbers in kept) - quota
        if surplus > 0:
            return self._cut(dict(kept), quota), 0
        return previous if len(kept) == len(previous) else tuple(kept), -surplus

    def _cut(self, previous: Mapping[TopicId, tuple[int, ...]], quota: int) -> TopicPartitions:
        kept: list[tuple[TopicId, tuple[int, ...]]] = []
        for topic_id in self.order.previous(previous):
            numbers = previous[topic_id]
            self.pool += [(topic_id, p) for p in numbers[quota:]]
            kept += [(topic_id, numbers[:quota])] if quota else []
            quota -= min(quota, len(numbers))
        return tuple(sorted(kept))

    def _fill(self, assigned: dict[str, TopicPartitions], unfilled: Iterable[tuple[str, int]]) -> None:
        """Gives partitions from the front of the pool to members below their quota, in order."""
        start = 0
        for member_id, room in unfilled:
            taken = self.pool[start : start + room]
            start += room
            if taken:
                assigned[member_id] = _with(assigned[member_id], taken)


def _free(count: int, taken: set[int]) -> Iterable[int]:
    return (p for p in range(count) if p not in taken) if taken else range(count)


def _with(kept: TopicPartitions, taken: Iterable[Partition]) -> TopicPartitions:
    found: dict[TopicId, list[int]] = {topic_id: [*numbers] for topic_id, numbers in kept}
    for topic_id, partition in taken:
        found.setdefault(topic_id, []).append(partition)
    return tuple(sorted((topic_id, tuple(sorted(numbers))) for topic_id, numbers in found.items()))


CYCLES = 16
"""The maximum number of balancing passes of uniform over all topics."""


class _Heterogeneous:
    """A computation of uniform with different subscriptions. Members are numbers, in the order of the group."""

    def __init__(self, group: GroupSpec, order: Order) -> None:
        self.group = group
        self.member_ids = list(group.members)
        self.sizes = [0] * len(self.member_ids)
        self.subscribers = self._by_topic()
        self.owners = {topic_id: [NOBODY] * group.partitions(topic_id) for topic_id in self.subscribers}
        self.topics = sorted(self.subscribers, key=lambda topic_id: self._rank(topic_id, order))

    def _by_topic(self) -> dict[TopicId, list[int]]:
        number = {member_id: i for i, member_id in enumerate(self.member_ids)}
        by_topic = _subscribers(self.group, self.member_ids)
        return {topic_id: [number[member_id] for member_id in ids] for topic_id, ids in by_topic.items()}

    def _rank(self, topic_id: TopicId, order: Order) -> tuple[float, int, Any]:
        """Most partitions per subscriber first, then fewest subscribers, then the id."""
        subscribers = len(self.subscribers[topic_id])
        return -(self.group.partitions(topic_id) / subscribers), subscribers, order.rank(topic_id)

    def assign(self) -> dict[str, TopicPartitions]:
        if not self.topics:
            return {}
        self._keep()
        for topic_id in self.topics:
            self._fill(topic_id)
        self._level()
        return self._assignments()

    def _keep(self) -> None:
        """Members keep partitions of topics that they still subscribe to. Kafka fails if one does not exist."""
        for i, member in enumerate(self.group.members.values()):
            for topic_id, numbers in member.previous:
                if topic_id in member.subscribed:
                    owners = self.owners[topic_id]
                    if numbers[-1] >= len(owners):
                        raise PartitionAssignorError(f"{topic_id} has no partition {numbers[-1]}")
                    self.sizes[i] += len(numbers)
                    for p in numbers:
                        owners[p] = i

    def _fill(self, topic_id: TopicId) -> None:
        """Gives unassigned partitions to the subscribers with the fewest."""
        owners = self.owners[topic_id]
        receivers = _Ranks(self.subscribers[topic_id], self.sizes)
        for p in [p for p, owner in enumerate(owners) if owner == NOBODY]:
            self._give(topic_id, p, receivers.next_receiver())

    def _give(self, topic_id: TopicId, partition: int, receiver: int) -> None:
        owner = self.owners[topic_id][partition]
        if owner != NOBODY:
            self.sizes[owner] -= 1
        self.owners[topic_id][partition] = receiver
        self.sizes[receiver] += 1

    def _level(self) -> None:
        """Balances all topics until a whole cycle moves nothing, or for `CYCLES` cycles."""
        topics = [topic_id for topic_id in self.topics if len(self.subscribers[topic_id]) > 1]
        quiet = 0
        for topic_id in topics * CYCLES:
            if quiet == len(topics):
                return
            quiet = 1 if self._level_topic(topic_id) else quiet + 1

    def _level_topic(self, topic_id: TopicId) -> bool:
        """Moves partitions of one topic from the members with the most to those with the fewest; returns whether any
        moved.
        """
        ranks = _Ranks(self.subscribers[topic_id], self.sizes)
        if ranks.spread <= 1:
            return False
        given_up: dict[int, list[int]] = {}
        for p, owner in enumerate(self.owners[topic_id]):
            given_up.setdefault(owner, []).append(p)
        moved = False
        for donor in ranks.donors(given_up):
            receiver = ranks.next_receiver()
            if ranks.level:
                break
            self._give(topic_id, given_up[donor].pop(), receiver)
            moved = True
        return moved

    def _assignments(self) -> dict[str, TopicPartitions]:
        found: list[list[tuple[TopicId, tuple[int, ...]]]] = [[] for _ in self.member_ids]
        for topic_id, owners in sorted(self.owners.items()):
            numbers: dict[int, list[int]] = {}
            for p, owner in enumerate(owners):
                numbers.setdefault(owner, []).append(p)
            for owner, mine in numbers.items():
                found[owner].append((topic_id, tuple(mine)))
        members = zip(self.group.members.items(), found, strict=True)
        return {member_id: _same_or(member.previous, tuple(topics)) for (member_id, member), topics in members}


NOBODY = -1


def _same_or(previous: TopicPartitions, now: TopicPartitions) -> TopicPartitions:
    return previous if tuple(sorted(previous)) == now else now


class _Ranks:
    """Subscribers of one topic by size: receivers from the lowest level upwards, donors from the highest downwards.

    A level is a run of subscribers that began with the same size. Once each of a level got a partition, the level
    rises by one and takes in those whose size it has reached; downwards likewise. Sizes are read as they are now.
    """

    def __init__(self, subscribers: Iterable[int], sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.ranked = sorted(subscribers, key=lambda i: (sizes[i], i))
        lowest, highest = sizes[self.ranked[0]], sizes[self.ranked[-1]]
        self.spread = highest - lowest
        self._low, self._low_end, self._receiver = lowest - 1, 0, 0
        self._high, self._high_start, self._high_end = highest + 1, len(self.ranked), len(self.ranked)
        self._donor = len(self.ranked) - 1

    @property
    def level(self) -> bool:
        """Whether the two levels that give and receive differ by one at most."""
        return self._high - self._low <= 1

    def next_receiver(self) -> int:
        if self._receiver >= self._low_end:
            self._low += 1
            while self._low_end < len(self.ranked) and self.sizes[self.ranked[self._low_end]] == self._low:
                self._low_end += 1
            self._receiver = 0
        self._receiver += 1
        return self.ranked[self._receiver - 1]

    def donors(self, given_up: Mapping[int, Sequence[int]]) -> Iterator[int]:
        """Subscribers with the most partitions that can still give one; those without any are removed."""
        while not self.level and (donor := self._next_donor()) is not None:
            if given_up.get(donor):
                yield donor
            else:
                self._leave_out()

    def _next_donor(self) -> int | None:
        if self._donor < self._high_start:
            self._lower()
        if self._donor < 0:
            return None
        self._donor -= 1
        return self.ranked[self._donor + 1]

    def _lower(self) -> None:
        emptied = self._high_end <= self._high_start and self._high_start > 0
        self._high = self.sizes[self.ranked[self._high_start - 1]] if emptied else self._high - 1
        while self._high_start > 0 and self.sizes[self.ranked[self._high_start - 1]] == self._high:
            self._high_start -= 1
        self._donor = self._high_end - 1

    def _leave_out(self) -> None:
        """The last donor changes places with the end of its level, and the end moves down."""
        here, end = self._donor + 1, self._high_end - 1
        self.ranked[here], self.ranked[end] = self.ranked[end], self.ranked[here]
        self._high_end -= 1
