"""Assignors that a leader runs: `range` and `cooperative-sticky`, as pure functions.

Source: `RangeAssignor`, `AbstractStickyAssignor`, `CooperativeStickyAssignor` without racks. `range` computes the same
assignment as Kafka. `cooperative-sticky` has the properties of Kafka's: it is balanced, members keep as much as
possible, and no member gets a partition that another one still owns; among equally good assignments it may choose
another one than the Java class.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import groupby, islice

from fsm.protocol.assignment import Partitions, TopicPartition, partitions
from fsm.protocol.consumer_protocol import Subscription

PartitionCounts = tuple[tuple[str, int], ...]
"""How many partitions each topic has, sorted by topic."""

Assign = Callable[[Mapping["Candidate", Subscription], PartitionCounts], Mapping[str, Partitions]]


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A member as the assignor sees it; ordered as `MemberInfo`: static members first, by their instance ids."""

    is_dynamic: bool
    name: str
    """The instance id of a static member, the member id of another one."""
    member_id: str

    @classmethod
    def of(cls, member_id: str, group_instance_id: str | None) -> Candidate:
        """The member of that id."""
        return cls(group_instance_id is None, group_instance_id or member_id, member_id)


@dataclass(frozen=True, slots=True)
class ClientAssignor:
    """An assignor by its name, as `partition.assignment.strategy` lists it."""

    name: str
    assign: Assign
    cooperative: bool
    """Whether a member may keep its partitions during a rebalance."""
    user_data: Callable[[int], bytes] | None = None
    """The user data of a subscription, from the last generation that the assignor was notified of."""


def assign_range(members: Mapping[Candidate, Subscription], counts: PartitionCounts) -> dict[str, Partitions]:
    """Each topic by itself: its partitions in order, in ranges that differ by one at most, the first ones larger."""
    given: dict[str, list[TopicPartition]] = {candidate.member_id: [] for candidate in members}
    for topic, count in counts:
        takers = sorted(c for c, wants in members.items() if topic in wants.topics)
        numbers = iter(range(count))
        for position, candidate in enumerate(takers):
            share = count // len(takers) + (position < count % len(takers))
            given[candidate.member_id] += [(topic, n) for n in islice(numbers, share)]
    return {member_id: partitions(found) for member_id, found in given.items()}


def assign_cooperative_sticky(
    members: Mapping[Candidate, Subscription], counts: PartitionCounts
) -> dict[str, Partitions]:
    """A balanced assignment close to the last one, without partitions that another member must revoke first."""
    claims = _claims(members, {(topic, n) for topic, count in counts for n in range(count)})
    held: dict[Candidate, list[TopicPartition]] = {candidate: [] for candidate in sorted(members)}
    for p, claimants in claims.items():
        if len(claimants) == 1:
            held[claimants[0]].append(p)
    wanted = _balance(members, held, claims)
    return {
        candidate.member_id: partitions(p for p in mine if claims[p] in ([], [candidate]))
        for candidate, mine in wanted.items()
    }


def _claims(
    members: Mapping[Candidate, Subscription], existing: set[TopicPartition]
) -> dict[TopicPartition, list[Candidate]]:
    """The members that claim each partition with the latest generation. If there are several, all must revoke it."""
    latest: dict[TopicPartition, int] = {}
    claims: dict[TopicPartition, list[Candidate]] = {p: [] for p in sorted(existing)}
    for candidate in sorted(members):
        generation = _generation(members[candidate])
        for p in members[candidate].owned_partitions:
            if p not in existing or p[0] not in members[candidate].topics:
                continue
            if generation > latest.get(p, -2):
                latest[p], claims[p] = generation, []
            if generation == latest[p]:
                claims[p].append(candidate)
    return claims


def _generation(subscription: Subscription) -> int:
    """From the subscription, or from the assignor's user data where an older member sends no generation."""
    if subscription.generation_id >= 0 or subscription.user_data is None or len(subscription.user_data) < 4:
        return subscription.generation_id
    return int(struct.unpack(">i", subscription.user_data[:4])[0])


def _balance(
    members: Mapping[Candidate, Subscription],
    given: dict[Candidate, list[TopicPartition]],
    existing: Iterable[TopicPartition],
) -> dict[Candidate, list[TopicPartition]]:
    """Gives free partitions to the smallest members, then moves partitions until sizes differ by at most one."""
    taken = {p for mine in given.values() for p in mine}
    free = sorted({*existing} - taken)
    topics = {topic for topic, _ in free}.union(*(subscription.topics for subscription in members.values()))
    takers = {topic: [c for c in given if topic in members[c].topics] for topic in topics}
    for topic, numbers in groupby(free, key=lambda p: p[0]):
        least = [(len(given[c]), c) for c in takers[topic]]
        heapify(least)
        for p in numbers if least else ():
            count, candidate = least[0]
            given[candidate].append(p)
            heapreplace(least, (count + 1, candidate))
    while (move := _move(takers, given)) is not None:
        p, source, target = move
        given[source].remove(p)
        given[target].append(p)
    return given


def _move(
    takers: Mapping[str, list[Candidate]], given: Mapping[Candidate, list[TopicPartition]]
) -> tuple[TopicPartition, Candidate, Candidate] | None:
    """The next partition that makes the assignment more even, from the fullest member that has one."""
    least = {topic: min(own, key=lambda c: (len(given[c]), c)) for topic, own in takers.items() if own}
    for source in sorted(given, key=lambda c: (-len(given[c]), c)):
        for p in sorted(given[source], reverse=True):
            if len(given[least[p[0]]]) + 1 < len(given[source]):
                return p, source, least[p[0]]
    return None


RANGE = ClientAssignor("range", assign_range, cooperative=False)
COOPERATIVE_STICKY = ClientAssignor(
    "cooperative-sticky", assign_cooperative_sticky, cooperative=True, user_data=lambda g: struct.pack(">i", g)
)
BUILT_IN = {assignor.name: assignor for assignor in (RANGE, COOPERATIVE_STICKY)}
