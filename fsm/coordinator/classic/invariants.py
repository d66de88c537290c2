"""The invariants of a classic group between two steps, each as a sentence.

Source: `ClassicGroup` and `GroupMetadataManager` of apache/kafka, branch 4.4, by reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.tables.classic_group import State

SYNCING = (State.COMPLETING_REBALANCE, State.STABLE)


def _leads(group: ClassicGroup) -> bool:
    return (group.leader in group.members) if group.members else group.leader is None


def _is_inhabited(group: ClassicGroup) -> bool:
    return not (group.members if group.is_empty else group.state in SYNCING and not group.members)


def _joins_wait_in_the_join_phase(group: ClassicGroup) -> bool:
    return group.state is State.PREPARING_REBALANCE or not group.delayed_joins


def _syncs_wait_in_the_sync_phase(group: ClassicGroup) -> bool:
    return group.state is State.COMPLETING_REBALANCE or not group.delayed_syncs


def _join_phase_is_timed(group: ClassicGroup) -> bool:
    return (group.join_phase is not None) == (group.state is State.PREPARING_REBALANCE)


def _sync_phase_is_timed(group: ClassicGroup) -> bool:
    is_awaiting = group.state in SYNCING and bool(group.pending_sync_members)
    return (group.sync_phase is not None) == is_awaiting


def _everybody_agrees_on_a_protocol(group: ClassicGroup) -> bool:
    if group.state not in SYNCING:
        return True
    return all(member.supports(group.protocol_name) for member in group.members.values())


def _sessions_are_timed(group: ClassicGroup) -> bool:
    """Except in the join phase: an upgrade that is refused late answers delayed joins, whose timers may have
    expired.
    """
    if group.state is State.PREPARING_REBALANCE:
        return True
    ids = {*group.pending_join_members, *(i for i in group.members if not group.is_waiting(i))}
    return ids <= set(group.heartbeat_deadlines_ms)


def _ids_are_either(group: ClassicGroup) -> bool:
    return group.pending_join_members.isdisjoint(group.members)


def _instances_are_unique(group: ClassicGroup) -> bool:
    instances = [m.instance_id for m in group.members.values() if m.instance_id is not None]
    return len(instances) == len(set(instances))


PROMISES: tuple[tuple[str, Callable[[ClassicGroup], bool]], ...] = (
    ("the leader is a member; without members nobody leads", _leads),
    ("EMPTY has no members, the sync phase and STABLE have some", _is_inhabited),
    ("joins are delayed in the join phase only", _joins_wait_in_the_join_phase),
    ("syncs are delayed in the sync phase only", _syncs_wait_in_the_sync_phase),
    ("the join phase, and nothing else, has the join timer", _join_phase_is_timed),
    ("the sync timer runs exactly while syncs are awaited", _sync_phase_is_timed),
    ("all members support the chosen protocol", _everybody_agrees_on_a_protocol),
    ("after the join phase, whoever does not wait has a session that may expire", _sessions_are_timed),
    ("an id is a member's or only given out, not both", _ids_are_either),
    ("an instance id has one member", _instances_are_unique),
)


def find_broken(group: ClassicGroup) -> Iterator[str]:
    """The invariants that do not hold."""
    return (promise for promise, holds in PROMISES if not holds(group))
