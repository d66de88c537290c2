"""Adopts recorded targets that differ from the computed one only by how the assignor breaks ties.

Kafka's assignors iterate over hash maps of members and topics; if that order breaks a tie, every order is correct. A
recorded target is adopted only if the same assignor computes it for some order of members and topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, permutations
from typing import Any

from fsm.coordinator.assignors import Assignments, GroupSpec, Order, uniform_assignor
from fsm.coordinator.model.hash_order import HASHED
from fsm.protocol.assignment import TopicPartitions, topic_partitions
from fsm.protocol.records import RecordType

MOST_ORDERS = 5_040
"""Maximum number of orders tried: all permutations of seven members."""


class Ties:
    """The targets recorded in one step, adopted if the rules allow them."""

    def __init__(self, records: Sequence[Mapping[str, Any]], extra_slot_stays: bool = True) -> None:
        self.recorded = dict(_find_targets(records))
        self.assignor: Callable[..., Assignments] = partial(uniform_assignor, extra_slot_stays=extra_slot_stays)
        self.adopted = 0
        self.tried: list[tuple[GroupSpec, bool]] = []
        """Groups tried before, and whether the recorded target is allowed for them."""

    def begin(self) -> None:
        """Resets the count of adopted targets before another attempt at a request."""
        self.adopted = 0

    def adopt(self, name: str, group: GroupSpec, computed: Assignments) -> Assignments:
        """The recorded target if it differs from the computed one and is allowed, else the computed one."""
        if name != "uniform" or not self.recorded:
            return computed
        wanted = {member_id: spec.previous for member_id, spec in group.members.items()}
        wanted |= {member_id: target for member_id, target in self.recorded.items() if member_id in wanted}
        if _are_same(wanted, computed) or not self._is_allowed(group, wanted):
            return computed
        self.adopted = 1
        return wanted

    def _is_allowed(self, group: GroupSpec, wanted: Assignments) -> bool:
        """Whether the assignor computes this target for another order of the same group."""
        for spec, allowed in self.tried:
            if spec == group:
                return allowed
        self.tried.append((group, any(_are_same(wanted, other) for other in self._reorder(group))))
        return self.tried[-1][1]

    def _reorder(self, group: GroupSpec) -> Iterator[Assignments]:
        for order in islice(permutations(group.members), MOST_ORDERS):
            spec = replace(group, members={member_id: group.members[member_id] for member_id in order})
            yield self.assignor(spec, order=HASHED)
        for topics in islice(permutations(group.topics), MOST_ORDERS):
            ranked = Order(partial(_in_order, topics), partial(_in_order, topics), HASHED.rank)
            yield self.assignor(group, order=ranked)


def _in_order(order: Sequence[str], given: Any) -> list[str]:
    chosen = set(given)
    return [topic_id for topic_id in order if topic_id in chosen]


def _find_targets(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, TopicPartitions]]:
    for record in records:
        if record["key"]["type"] == RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER and record["value"]:
            topics = record["value"]["topicPartitions"]
            yield record["key"]["memberId"], topic_partitions({t["topicId"]: t["partitions"] for t in topics})


def _are_same(one: Assignments, other: Assignments) -> bool:
    return all(_sort(one.get(m, ())) == _sort(other.get(m, ())) for m in {*one, *other})


def _sort(given: TopicPartitions) -> TopicPartitions:
    return topic_partitions(dict(given))
