"""A compacted log: the last record of each key stays at its place; in the end tombstones are removed as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup, Members
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.groups import Group
from fsm.coordinator.storage.load import load
from fsm.coordinator.storage.replay import replay
from fsm.protocol.records import Record

FROM_COMPACTED = "fails over, to one that reads a compacted log"
FROM_CLEANED = "fails over, to one that reads a compacted log without tombstones"
SAYS_THE_SAME = "a compacted log gives the same group"
Log = tuple[Record, ...]


def append(log: Log, records: Iterable[Record]) -> Log:
    """The log after these records."""
    found = {record.key: record for record in log}
    for record in records:
        found.pop(record.key, None)
        found[record.key] = record
    return tuple(found.values())


def say_the_same(one: Group | None, other: Group | None) -> bool:
    """Whether two loaded groups have the same content; the order of members is that of their records."""
    return _sort_members(one) == _sort_members(other)


def _sort_members(group: Group | None) -> Group | None:
    if not isinstance(group, ConsumerGroup):
        return group
    return replace(group, members=Members.of(group.members[who] for who in sorted(group.members)))


def load_from(log: Log, what: str, context: Context) -> Coordinator:
    """The coordinator that loads this log."""
    left = log if what == FROM_COMPACTED else [record for record in log if record.value is not None]
    return load(replay(left, context.dialect).state, context).state
