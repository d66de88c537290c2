"""What a log can tell of a coordinator, and logs as a cleaner may leave them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.load import stored
from fsm.coordinator.records import Record
from fsm.tables.classic_group import State

SETTLED = (State.STABLE, State.EMPTY)


def settled(state: Coordinator) -> dict[str, object]:
    """The stored part of every group that a log can tell: a classic group's rebalance is in no record."""
    groups = stored(state).groups
    return {i: g for i, g in groups.items() if isinstance(g, ConsumerGroup) or g.state in SETTLED}


def at(state: Coordinator, names: Sequence[str]) -> dict[str, object]:
    """The same of what was replayed, for those groups."""
    return {name: stored(state).groups[name] for name in names}


def compacted(log: Sequence[Record], chance: Random) -> list[Record]:
    """The last record of each key in the part that the cleaner has seen; tombstones of a first part are gone, too."""
    clean = chance.randrange(len(log) + 1)
    gone = chance.randrange(clean + 1)
    last = {record.key: i for i, record in enumerate(log[:clean])}
    kept = [(i, record) for i, record in enumerate(log) if i >= clean or last[record.key] == i]
    return [record for i, record in kept if i >= gone or record.value is not None]
