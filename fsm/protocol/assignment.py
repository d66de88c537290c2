"""Assignments by topic id, for the wire and the coordinator, and by topic name, for applications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

from fsm.protocol.schema import Kind, Named

TopicId = Annotated[str, Kind.UUID]
"""A topic's UUID in Kafka's base64 text of 22 characters."""

NO_TOPIC_ID: TopicId = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero UUID: no topic."""

TopicPartition = tuple[str, int]
"""(topic name, partition)"""

TopicPartitions = tuple[Annotated[tuple[TopicId, tuple[int, ...]], Named("topic_id", "partitions")], ...]
"""Partitions by topic id: ids sorted and unique, partitions of an id sorted and not empty."""

Partitions = tuple[TopicPartition, ...]
"""Partitions by topic name, sorted and unique."""


def topic_partitions(given: Mapping[TopicId, Iterable[int]]) -> TopicPartitions:
    """The canonical form of partitions by topic id; topics without partitions are left out."""
    found = ((topic_id, tuple(sorted(set(numbers)))) for topic_id, numbers in given.items())
    return tuple(sorted((topic_id, numbers) for topic_id, numbers in found if numbers))


def numbers_by_topic(given: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic name or id, topics and numbers in input order."""
    found: dict[str, list[int]] = {}
    for topic, number in given:
        found.setdefault(topic, []).append(number)
    return found


def flatten(given: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[TopicPartition]:
    """(topic name or id, partition) for each partition."""
    return ((topic, number) for topic, numbers in given for number in numbers)


def partitions(given: Iterable[TopicPartition]) -> Partitions:
    """The partitions, sorted and unique."""
    return tuple(sorted(set(given)))


def without(these: Partitions, those: Iterable[TopicPartition]) -> Partitions:
    """Those of `these` that are not in `those`, in order."""
    left_out = set(those)
    return tuple(p for p in these if p not in left_out)


def among(these: Partitions, those: Iterable[TopicPartition]) -> Partitions:
    """Those of `these` that are in `those`, in order."""
    kept = set(those)
    return tuple(p for p in these if p in kept)


class LocalAssignment(NamedTuple):
    """A member's assignment with a local counter: each change of partitions is a new local epoch.

    Two are equal only if epoch and partitions are. Partitions assigned again later are a new assignment, which the
    member acknowledges again.
    """

    local_epoch: int
    partitions: TopicPartitions

    @property
    def is_none(self) -> bool:
        """Whether there was no assignment yet, which differs from an empty one."""
        return self.local_epoch < 0

    def update(self, received: TopicPartitions) -> LocalAssignment:
        """Itself if `received` has the same partitions, else `received` with the next local epoch."""
        if not self.is_none and self.partitions == received:
            return self
        return LocalAssignment(self.local_epoch + 1, received)


NONE = LocalAssignment(-1, ())
"""No assignment yet."""


class TopicNames(Mapping[TopicId, str]):
    """Topic names by id: immutable, compared by content, with a cached hash."""

    __slots__ = ("_hash", "_names")

    def __init__(self, names: Mapping[TopicId, str] | Iterable[tuple[TopicId, str]] = ()) -> None:
        self._names = dict(sorted(dict(names).items()))
        self._hash = hash(tuple(self._names.items()))

    def __getitem__(self, topic_id: TopicId) -> str:
        return self._names[topic_id]

    def __iter__(self) -> Iterator[TopicId]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TopicNames) and self._names == other._names)

    def __repr__(self) -> str:
        return f"TopicNames({self._names!r})"

    def only(self, topic_ids: Iterable[TopicId]) -> TopicNames:
        """Restricted to these ids; itself if none is left out."""
        wanted = set(topic_ids)
        if self._names.keys() <= wanted:
            return self
        left = {i: n for i, n in self._names.items() if i in wanted}
        return TopicNames(left) if left else NO_NAMES

    def name(self, assigned: TopicPartitions) -> Partitions:
        """The partitions by name. Raises `KeyError` for an id without a name."""
        return partitions((self._names[topic_id], p) for topic_id, p in flatten(assigned))


NO_NAMES = TopicNames()
