"""Offsets committed inside transactions: pending until their producer's transaction ends, then committed or forgotten.

They stand beside the groups, by group id, in the order in which they were written, which decides what counts: an offset
that something written later has taken the place of stays as it is when the transaction commits. The end of a
transaction is no request of a group's: a transaction coordinator writes a control record, `ended` says what follows.

Source: section 8.7 of the coordinator reference; `OffsetMetadataManager` of apache/kafka 4.4, by reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fsm.coordinator.model.persistent import FrozenMap
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.records import OffsetCommit, OffsetKey, Record, RecordType


class Place(NamedTuple):
    """Whose transaction, and which partition."""

    producer_id: int
    topic: str
    partition: int


class Pending(NamedTuple):
    """An offset that waits for the end of its transaction."""

    commit: OffsetCommit | None
    """None where it was deleted meanwhile: only the transaction is still open."""
    is_passed: bool = False
    """Whether another offset was stored behind it, which stays."""


OfGroup = FrozenMap[Place, Pending]
Transactions = FrozenMap[str, OfGroup]
"""Open transactions by group id; the offsets of each in the order in which they were written."""

NONE_OPEN: OfGroup = FrozenMap()
NO_TRANSACTIONS: Transactions = FrozenMap()


def written(open_ones: Transactions, records: Iterable[Record], producer_id: int) -> Transactions:
    """With the offsets of these records pending in the producer's transaction, behind all others."""
    for key, value, _ in records:
        if isinstance(key, OffsetKey) and isinstance(value, OffsetCommit):
            place = Place(producer_id, key.topic, key.partition)
            of_group = open_ones.get(key.group, NONE_OPEN).without(place).merged({place: Pending(value)})
            open_ones = open_ones.merged({key.group: of_group})
    return open_ones


def passed(open_ones: Transactions, records: Iterable[Record]) -> Transactions:
    """After records of no transaction: an offset passes what is pending for its partition, a tombstone ends it."""
    for key, value, _ in records if open_ones else ():
        if not isinstance(key, OffsetKey) or key.group not in open_ones:
            continue
        of_group = open_ones[key.group]
        for place in [place for place in of_group if place[1:] == key[2:]]:
            left = Pending(None) if value is None else of_group[place]._replace(is_passed=True)
            of_group = of_group.set(place, left)
        open_ones = open_ones.set(key.group, of_group)
    return open_ones


def ended(open_ones: Transactions, producer_id: int, *, committed: bool) -> tuple[Transactions, tuple[Record, ...]]:
    """Without the producer's transaction, and the offsets that count from now on."""
    found: list[Record] = []
    for group_id in list(open_ones):
        mine = [place for place in open_ones[group_id] if place.producer_id == producer_id]
        if committed:
            found += _counting(group_id, open_ones[group_id], mine)
            open_ones = open_ones.set(group_id, _behind(open_ones[group_id], mine))
        left = open_ones[group_id].without(*mine)
        open_ones = open_ones.set(group_id, left) if left else open_ones.without(group_id)
    return open_ones, tuple(found)


def _counting(group_id: str, of_group: OfGroup, mine: Iterable[Place]) -> Iterator[Record]:
    for place in mine:
        pending = of_group[place]
        if pending.commit is not None and not pending.is_passed:
            yield Record(OffsetKey(RecordType.OFFSET_COMMIT, group_id, *place[1:]), pending.commit)


def _behind(of_group: OfGroup, mine: Iterable[Place]) -> OfGroup:
    """What other transactions wrote for the same partitions before these is passed by them."""
    order = list(of_group)
    for place in mine:
        if of_group[place].commit is not None and not of_group[place].is_passed:
            earlier = [p for p in order[: order.index(place)] if p[1:] == place[1:]]
            of_group = of_group.merged({p: of_group[p]._replace(is_passed=True) for p in earlier})
    return of_group


def pending_places(of_group: OfGroup) -> list[TopicPartition]:
    """Partitions with an offset that waits for the end of a transaction, each once."""
    return list(dict.fromkeys((p.topic, p.partition) for p, pending in of_group.items() if pending.commit is not None))


def of_topics(open_ones: Transactions, names: Iterable[str]) -> Iterator[tuple[str, TopicPartition]]:
    """Group and partition of every pending offset of these topics, producer by producer."""
    gone = set(names)
    entries = [(p, group_id, one) for group_id, of_group in open_ones.items() for p, one in of_group.items()]
    for producer_id in dict.fromkeys(place.producer_id for place, _, _ in entries):
        for place, group_id, pending in entries:
            if place.producer_id == producer_id and place.topic in gone and pending.commit is not None:
                yield group_id, (place.topic, place.partition)
