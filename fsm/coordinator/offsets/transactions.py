"""Offsets committed inside transactions: pending until their producer's transaction ends, then committed or forgotten.

They are stored beside the groups, by group id and partition. Those of one partition keep the order in which they were
written, because the latest one counts: when a transaction commits, its offset does not replace one that was written
later. A transaction does not end by a request to the group: a transaction coordinator writes a control record, and
`end` applies it.

Source: `OffsetMetadataManager` of apache/kafka 4.4, by reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fsm.coordinator.model.persistent import PersistentMap
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.records import OffsetCommit, OffsetKey, Record, RecordType


class Pending(NamedTuple):
    """An offset that waits for the end of its transaction."""

    producer_id: int
    commit: OffsetCommit | None
    """None if it was deleted meanwhile: only the transaction is still open."""
    is_passed: bool = False
    """Whether another offset was stored after it, which remains."""


OfGroup = PersistentMap[TopicPartition, tuple[Pending, ...]]
Transactions = PersistentMap[str, OfGroup]
"""Open transactions by group id and partition."""

NONE_OPEN: OfGroup = PersistentMap()
NO_TRANSACTIONS: Transactions = PersistentMap()


def add_offsets(open_ones: Transactions, records: Iterable[Record], producer_id: int) -> Transactions:
    """Adds the offsets of these records as pending in the producer's transaction, after all others."""
    for key, value, _ in records:
        if isinstance(key, OffsetKey) and isinstance(value, OffsetCommit):
            of_group, place = open_ones.get(key.group, NONE_OPEN), (key.topic, key.partition)
            others = (one for one in of_group.get(place, ()) if one.producer_id != producer_id)
            open_ones = open_ones.set(key.group, of_group.set(place, (*others, Pending(producer_id, value))))
    return open_ones


def pass_offsets(open_ones: Transactions, records: Iterable[Record]) -> Transactions:
    """Applies records outside transactions: an offset supersedes those pending for its partition, a tombstone removes
    them.
    """
    for key, value, _ in records if open_ones else ():
        if not isinstance(key, OffsetKey):
            continue
        of_group, place = open_ones.get(key.group, NONE_OPEN), (key.topic, key.partition)
        if place in of_group:
            left = (Pending(p.producer_id, None) if value is None else _mark_passed(p) for p in of_group[place])
            open_ones = open_ones.set(key.group, of_group.set(place, tuple(left)))
    return open_ones


def _mark_passed(pending: Pending) -> Pending:
    return pending._replace(is_passed=True)


def end(open_ones: Transactions, producer_id: int, *, committed: bool) -> tuple[Transactions, tuple[Record, ...]]:
    """Removes the producer's transaction; returns also the offsets that are now committed."""
    counting: list[Record] = []
    for group_id, of_group in open_ones.items():
        left = of_group
        for place, pending in of_group.items():
            at = next((i for i, one in enumerate(pending) if one.producer_id == producer_id), None)
            if at is None:
                continue
            mine, earlier, others = pending[at], pending[:at], pending[at + 1 :]
            if committed and mine.commit is not None and not mine.is_passed:
                counting.append(Record(OffsetKey(RecordType.OFFSET_COMMIT, group_id, *place), mine.commit))
                earlier = tuple(map(_mark_passed, earlier))  # what others wrote before
            others = (*earlier, *others)
            left = left.set(place, others) if others else left.without(place)
        open_ones = open_ones.set(group_id, left) if left else open_ones.without(group_id)
    return open_ones, tuple(counting)


def find_pending(of_group: OfGroup) -> list[TopicPartition]:
    """Partitions with an offset that waits for the end of a transaction, sorted."""
    return sorted(p for p, pending in of_group.items() if any(one.commit is not None for one in pending))


def find_pending_of_topics(open_ones: Transactions, names: Iterable[str]) -> Iterator[tuple[str, TopicPartition]]:
    """Group and partition of every pending offset of these topics, producer by producer."""
    gone = set(names)
    found = (
        (one.producer_id, group_id, place)
        for group_id, of_group in open_ones.items()
        for place, pending in of_group.items()
        for one in pending
        if place[0] in gone and one.commit is not None
    )
    return ((group_id, place) for _, group_id, place in sorted(found))
