"""What a log can tell of a coordinator, and logs as a cleaner may leave them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from random import Random

from consumer_scene import START_MS

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.host import Appended
from fsm.coordinator.model.consumer_group import ConsumerGroup, Members
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.storage.load import keep_stored
from fsm.protocol.record_batches import CONTROL, TRANSACTIONAL, Batch, LogRecord, batch_of
from fsm.protocol.records import Record
from fsm.tables.classic_group import State

SETTLED = (State.STABLE, State.EMPTY)


def settled(state: Coordinator) -> dict[str, object]:
    """The stored part of every group that a log can tell: a classic group's rebalance is in no record."""
    groups = content(state).groups
    return {i: g for i, g in groups.items() if isinstance(g, ConsumerGroup) or g.state in SETTLED}


def content(state: Coordinator) -> Coordinator:
    """The stored part without what a log does not tell: in which order members came, and how many there were once."""
    groups = keep_stored(state).groups
    for group in groups.values():
        if isinstance(group, ConsumerGroup):
            members = Members.of(member for _, member in sorted(group.members.items()))
            regexes = PersistentMap(sorted(group.regexes.items(), key=itemgetter(0)))
            groups = groups.set(replace(group, members=replace(members, static=group.members.static), regexes=regexes))
    return replace(keep_stored(state), groups=groups)


def at(state: Coordinator, names: Sequence[str]) -> dict[str, object]:
    """The same of what was replayed, for those groups."""
    return {name: content(state).groups[name] for name in names}


def compacted(log: Sequence[Record], chance: Random) -> list[Record]:
    """The last record of each key in the part that the cleaner has seen; tombstones of a first part are gone, too."""
    clean = chance.randrange(len(log) + 1)
    gone = chance.randrange(clean + 1)
    last = {record.key: i for i, record in enumerate(log[:clean])}
    kept = [(i, record) for i, record in enumerate(log) if i >= clean or last[record.key] == i]
    return [record for i, record in kept if i >= gone or record.value is not None]


def batch_of_step(base: int, written: Appended) -> Batch:
    """What one step appended, as a broker stores it."""
    if written.producer_id is None:
        return batch_of(base, written.records, START_MS)
    if written.commits is None:
        return batch_of(base, written.records, START_MS, producer_id=written.producer_id, attributes=TRANSACTIONAL)
    marker = LogRecord(base, START_MS, b"\0\0" + int(written.commits).to_bytes(2, "big"), b"\0\0\0\0\0\0")
    return Batch(base, (marker,), attributes=TRANSACTIONAL | CONTROL, producer_id=written.producer_id)


def compacted_batches(batches: Sequence[Batch], chance: Random) -> list[Batch]:
    """As `compacted`; a cleaner stops before the first open transaction, and what was aborted is gone for good."""
    clean = chance.randrange(first_open(batches) + 1)
    gone = chance.randrange(clean + 1)
    fates = list(_aborted(batches[:clean]))
    lasts: dict[bytes | None, int] = {}
    for i, batch in enumerate(batches[:clean]):
        lasts |= {} if batch.is_control or fates[i] else {record.key: record.offset for record in batch.records}
    found = []
    for i, batch in enumerate(batches):
        if i < clean and not batch.is_control:
            last = (record for record in batch.records if lasts.get(record.key) == record.offset and not fates[i])
            left = tuple(record for record in last if i >= gone or record.value is not None)
            batch = replace(batch, records=left)  # noqa: PLW2901  # the batch as it is left
        found += [batch] if batch.records else []
    return found


def first_open(batches: Sequence[Batch]) -> int:
    """Where the first transaction begins that has not ended."""
    open_ones: dict[int, int] = {}
    for i, batch in enumerate(batches):
        if batch.is_control:
            open_ones.pop(batch.producer_id, None)
        elif batch.is_transactional:
            open_ones.setdefault(batch.producer_id, i)
    return min(open_ones.values(), default=len(batches))


def _aborted(batches: Sequence[Batch]) -> Iterator[bool]:
    """Whether each batch belongs to a transaction that was aborted; all of them have ended."""
    for i, batch in enumerate(batches):
        mine = (other for other in batches[i:] if other.is_control and other.producer_id == batch.producer_id)
        end = next(mine, None) if batch.is_transactional and not batch.is_control else None
        yield end is not None and not end.end_of_transaction().committed
