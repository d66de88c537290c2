"""Targets that an assignor might as well have computed: taken over from a recording if another order gives them.

Kafka's assignors walk hash maps of members and topics; where that order breaks a tie, every order is right. A recorded
target is adopted only if the very same assignor gives it for some order of its members and topics.
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
"""How many orders are tried: all of seven members."""


class Ties:
    """The targets recorded in one step, which are adopted if the rules allow them."""

    def __init__(self, records: Sequence[Mapping[str, Any]], extra_slot_stays: bool = True) -> None:
        self.recorded = dict(_find_targets(records))
        self.assignor: Callable[..., Assignments] = partial(uniform_assignor, extra_slot_stays=extra_slot_stays)
        self.adopted = 0
        self.tried: list[tuple[GroupSpec, bool]] = []
        """Groups for which it is known whether the recorded target is one of theirs."""

    def begin(self) -> None:
        """Prepares for another attempt at a request: forgets adopted targets."""
        self.adopted = 0

    def adopt(self, name: str, group: GroupSpec, computed: Assignments) -> Assignments:
        """The recorded target if it is a different one that the rules allow, else the computed one."""
        if name != "uniform" or not self.recorded:
            return computed
        wanted = {member_id: spec.previous for member_id, spec in group.members.items()}
        wanted |= {member_id: target for member_id, target in self.recorded.items() if member_id in wanted}
        if _are_same(wanted, computed) or not self._is_allowed(group, wanted):
            return computed
        self.adopted = 1
        return wanted

    def _is_allowed(self, group: GroupSpec, wanted: Assignments) -> bool:
        """Whether the assignor gives this target for another order of the same group."""
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
