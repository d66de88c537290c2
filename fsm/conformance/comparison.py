"""What a broker's coordinator shows in a step, compared with a recorded one, field by field.

All fields of answers, records and the group's description are compared, except error texts and instants inside records.
Metadata hashes of a broker with another hash function are compared for equality among themselves only. Lists that are
sets (topics of an assignment, members of a description) are compared as sets. So are consecutive records of one type,
one per member, and the topics inside the bytes of a classic member's assignment: their order is that of a hash map.

Kafka's assignors iterate over hash maps of members and topics, too; if that order breaks a tie, every order is correct.
A recorded target is adopted only if the same assignor computes it for some order of members and topics.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice, permutations
from typing import Any, NamedTuple

from fsm.coordinator.assignors import Assignments, GroupSpec, Order, uniform_assignor
from fsm.coordinator.model.hash_order import HASHED
from fsm.errors import RemoteProtocolError
from fsm.protocol.assignment import TopicPartitions, topic_partitions
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.records import RecordType

ABSENT = "(absent)"
NOT_COMPARED = frozenset({"error_message", "commitTimestamp", "expireTimestamp", "currentStateTimestamp"})
INSTANTS = frozenset({"assignmentTimestamp"})
"""Fields that are compared by whether they are known."""

SETS = {"topic_partitions": "topic_id", "topicPartitions": "topicId", "assignedPartitions": "topicId"}
SETS |= {"partitionsPendingRevocation": "topicId"}
"""Lists that are sets, with the key of their elements."""


class FieldDifference(NamedTuple):
    """One field that differs from the recording."""

    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected!r}, got {self.got!r}"


class Shown(NamedTuple):
    """The observable results of a step."""

    answers: Mapping[int, Mapping[str, Any]]
    """By the step that they answer."""
    records: Sequence[Mapping[str, Any]]
    """In the form of Kafka's tools."""
    described: Mapping[str, Any] | None
    """None if there is no such group."""


@dataclass(frozen=True)
class Hashes:
    """The correspondence of recorded metadata hashes and ours; equal content has equal hashes on both sides.

    Once a peer is seen to compute Kafka's hash, as we do, its hashes must equal ours.
    """

    ours: Mapping[int, int] = field(default_factory=dict)
    are_the_same: bool = False

    def matches(self, expected: int, got: int) -> bool:
        """Whether the pair is consistent with earlier ones."""
        if self.are_the_same or expected == 0 or got == 0:
            return expected == got
        return self.ours.get(expected, got) == got and all(e == expected for e, g in self.ours.items() if g == got)

    def learn(self, expected: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]) -> Hashes:
        """Itself extended by the pairs of these records."""
        pairs = {}
        for one, other in zip(expected, got, strict=False):
            if one["key"]["type"] == RecordType.CONSUMER_GROUP_METADATA and one["value"] and other["value"]:
                pairs[_hash(one)] = _hash(other)
        same = any(one == other != 0 for one, other in pairs.items())
        return Hashes({**self.ours, **pairs}, self.are_the_same or same)


def _hash(record: Mapping[str, Any]) -> int:
    return int(record["value"].get("metadataHash", 0))


def find_differences(expected: Shown, got: Shown, hashes: Hashes) -> Iterator[FieldDifference]:
    """The fields that differ: answers by step, then records in order, then the description."""
    for to in sorted(expected.answers.keys() | got.answers.keys()):
        yield from _compare(f"answer to {to}", expected.answers.get(to, ABSENT), got.answers.get(to, ABSENT))
    yield from _compare_records(expected.records, got.records, hashes)
    yield from _compare("group", expected.described, got.described)


def _compare_records(
    expected: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]], hashes: Hashes
) -> Iterator[FieldDifference]:
    expected, got = sort_runs(expected), sort_runs(got)
    wanted, found = labels(expected), labels(got)
    if wanted != found:
        yield FieldDifference("records", ", ".join(wanted) or "none", ", ".join(found) or "none")
        return
    for i, (one, other) in enumerate(zip(expected, got, strict=True)):
        place = f"records[{i}] {label(one)}"
        for difference in _compare(place, one["value"], other["value"]):
            if not (difference.field.endswith(".metadataHash") and hashes.matches(_hash(one), _hash(other))):
                yield difference


def sort_runs(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records, consecutive ones of one type sorted: a broker writes them in the order of its hash maps."""
    runs = groupby(records, lambda record: (record["key"]["type"], record["value"] is None))
    return [record for _, run in runs for record in sorted(run, key=label)]


def labels(records: Sequence[Mapping[str, Any]]) -> list[str]:
    return [label(record) for record in records]


def label(record: Mapping[str, Any]) -> str:
    """A short label of a record: its type, `t` for a tombstone, the parts of its key except the group.

    >>> label({"key": {"type": 8, "groupId": "g", "memberId": "m1"}, "value": None})
    '8t m1'
    """
    key = record["key"]
    named = [str(part) for name, part in key.items() if name not in {"type", "groupId", "group"}]
    return " ".join([f"{key['type']}{'t' if record['value'] is None else ''}", *named])


def _compare(place: str, expected: Any, got: Any) -> Iterator[FieldDifference]:
    if expected == got:
        return
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        yield from _compare_fields(place, expected, got)
    elif _is_list(expected) and _is_list(got) and len(expected) == len(got):
        for i, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from _compare(f"{place}[{i}]", one, other)
    elif not (_is_list(expected) and _is_list(got) and list(expected) == list(got)):
        yield FieldDifference(place, expected, got)


def _compare_fields(place: str, expected: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[FieldDifference]:
    for name in (*expected, *(name for name in got if name not in expected)):
        if name in NOT_COMPARED or ("] 16 " in place and name in {"version", "timestamp"}):
            continue
        one, other = (_normalize(name, side.get(name, ABSENT)) for side in (expected, got))
        yield from _compare(f"{place}.{name}", one, other)


def _normalize(name: str, value: Any) -> Any:
    if name in INSTANTS:
        return "an instant" if value not in {0, ABSENT} else 0
    if name == "metadataHash":
        return 0 if value == ABSENT else value
    if name == "assignment" and isinstance(value, str) and value != ABSENT:
        return _decode(value)
    if name in SETS and _is_list(value):
        # Inside the record of a classic group the key of an entry is the topic's name.
        return sorted(map(_sort_partitions, value), key=lambda topic: str(topic.get(SETS[name], topic.get("topic"))))
    if (
        name == "topics"
        and _is_list(value)
        and all(isinstance(topic, Mapping) and "topicName" in topic for topic in value)
    ):
        return sorted(value, key=lambda topic: str(topic["topicName"]))
    return value


def _decode(assignment: str) -> Any:
    """The decoded assignment of a classic member: version, partitions, user data; other bytes are unchanged."""
    data = b64decode(assignment)
    try:
        found = decode_assignment(data)
    except RemoteProtocolError:
        return assignment
    return [int.from_bytes(data[:2], "big"), found.partitions, found.user_data]


def _sort_partitions(topic: Mapping[str, Any]) -> Mapping[str, Any]:
    """The topic with its partitions and their epochs in ascending order of partitions."""
    epochs = topic.get("assignmentEpochs")
    if epochs is None:
        return {**topic, "partitions": sorted(topic["partitions"])}
    pairs = sorted(zip(topic["partitions"], epochs, strict=True))
    return {**topic, "partitions": [p for p, _ in pairs], "assignmentEpochs": [e for _, e in pairs]}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


# Targets that differ from the computed one only by how the assignor breaks ties


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
