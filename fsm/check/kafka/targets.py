"""A target assignment that does not depend on member ids, so that members are interchangeable.

Kafka's assignors iterate over members in the order of a hash of their ids. This rule keeps the previous target where it
can, gives free partitions to the member with the fewest, and balances. Of two members with equally many partitions the
one with the lower partitions comes first. Members without partitions and with the same subscription differ only by
their ids, which decide then: `Symmetry` refuses such a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from fsm.coordinator.assignors import Assignments, GroupSpec, Partition

IS_EQUIVARIANT = "Kafka's assignors: targets do not depend on member ids"


def equivariant_target(_assignor: str, group: GroupSpec, _found: Assignments) -> Assignments:
    """A balanced and sticky target, for `Context.adopt`."""
    members = group.members.items()
    topics = {topic: {name for name, member in members if topic in member.subscribed} for topic in group.topics}
    everything = [(topic, number) for topic in sorted(topics) for number in range(group.topics[topic])]
    owner = {one: name for name, member in members for one in _each(member.previous) if name in topics.get(one[0], ())}

    def rank(name: str) -> Any:
        has = sorted(one for one in everything if owner.get(one) == name)
        return len(has), has, sorted(group.members[name].subscribed), name

    def count(name: str) -> int:
        return int(rank(name)[0])

    for one in everything:
        if one not in owner and topics[one[0]]:
            owner[one] = min(topics[one[0]], key=rank)
    while gains := [
        (one, least) for one in owner if count(least := min(topics[one[0]], key=rank)) + 1 < count(owner[one])
    ]:
        one, least = min(gains, key=lambda gain: (-count(owner[gain[0]]), gain[0]))
        owner[one] = least
    return {name: _gather(one for one in everything if owner.get(one) == name) for name in group.members}


def _each(previous: Any) -> Iterator[Partition]:
    return ((topic, number) for topic, numbers in previous for number in numbers)


def _gather(some: Iterator[Partition]) -> tuple[tuple[Any, tuple[int, ...]], ...]:
    return tuple((topic, tuple(number for _, number in ones)) for topic, ones in groupby(some, key=itemgetter(0)))
