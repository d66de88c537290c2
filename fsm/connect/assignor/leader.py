"""An elected leader's work between its join and its sync: agree on the configs, assign, answer every member.

Source: `performAssignment` of `IncrementalCooperativeAssignor` and `EagerAssignor`, apache/kafka 1eb7644.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

from fsm.connect.assignor.incremental import SORTED, Memory, Order, Outcome, Round, assign
from fsm.connect.protocol import CONFIG_MISMATCH, Assignment, WorkerMetadata
from fsm.connect.units import Unit, Units, kinds, list_configured
from fsm.connect.worker.config import ConnectConfig, version_of

NOTHING: Mapping[str, Units] = {}


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """The config topic up to an offset: connectors with the number of their tasks."""

    offset: int
    task_counts: tuple[tuple[str, int], ...] = ()
    """A connector whose task configs are incomplete has 0."""

    @property
    def units(self) -> frozenset[Unit]:
        """What the topic calls for."""
        return list_configured(dict(self.task_counts))


class Election(NamedTuple):
    """The answer to a leader's join."""

    leader: str
    protocol: str
    generation: int
    members: Mapping[str, WorkerMetadata]
    """In the order of the answer."""


class Performed(NamedTuple):
    """The assignments in the leader's sync, and its new memory."""

    assignments: Mapping[str, Assignment]
    memory: Memory
    round_: Round | None = None
    """A cooperative round that was computed."""
    outcome: Outcome | None = None
    """The units that the round assigns and revokes."""


def perform(
    election: Election,
    memory: Memory,
    snapshots: tuple[ConfigSnapshot, ConfigSnapshot],
    config: ConnectConfig,
    *,
    now_ms: int,
    last_completed_generation: int,
    order: Order = SORTED,
) -> Performed:
    """The assignments of all members.

    Args:
        snapshots: the worker's current one, and a fresh one, which is used if a member has read further. If it still
            lacks configs, all members get `CONFIG_MISMATCH` and the memory stays unchanged.
    """
    highest = max(member.offset for member in election.members.values())
    snapshot = snapshots[0] if snapshots[0].offset >= highest else snapshots[1]
    if snapshot.offset < highest:
        return Performed(_assignments(election, highest, error=CONFIG_MISMATCH), memory)
    offset = highest if snapshot is snapshots[0] else snapshot.offset
    if version_of(election.protocol) == 0:
        dealt = assign_eagerly(snapshot.units, election.members)
        return Performed(_assignments(election, offset, dealt), memory)
    known = _round(election, snapshot, now_ms, last_completed_generation)
    outcome = assign(memory, known, config.scheduled_rebalance_max_delay_ms, config.profile, order)
    assignments = _assignments(election, offset, outcome.assigned, outcome.revoked, outcome.delay_ms)
    return Performed(assignments, outcome.memory, known, outcome)


def _round(election: Election, snapshot: ConfigSnapshot, now_ms: int, last_completed_generation: int) -> Round:
    held = {member: metadata.held for member, metadata in election.members.items()}
    owned = {member: () if one is None else one.assigned for member, one in held.items()}
    delay_ms = max((one.delay_ms for one in held.values() if one is not None), default=0)
    return Round(now_ms, election.generation, snapshot.units, owned, last_completed_generation, delay_ms)


def _assignments(
    election: Election,
    offset: int,
    assigned: Mapping[str, Units] = NOTHING,
    revoked: Mapping[str, Units] = NOTHING,
    delay_ms: int = 0,
    *,
    error: int = 0,
) -> dict[str, Assignment]:
    head = version_of(election.protocol), election.leader, election.members[election.leader].url, offset
    return {
        member: Assignment(*head, assigned.get(member, ()), revoked.get(member, ()), delay_ms, error)
        for member in election.members
    }


def assign_eagerly(configured: Collection[Unit], members: Iterable[str]) -> dict[str, Units]:
    """Connectors, then tasks, dealt in one go to the members in the order of their ids."""
    given: dict[str, list[Unit]] = {member: [] for member in sorted(members)}
    connectors, tasks = kinds(sorted(configured))
    for member, unit in zip(cycle(given), (*connectors, *tasks)):  # endless on one side
        given[member].append(unit)
    return {member: tuple(units) for member, units in given.items()}
