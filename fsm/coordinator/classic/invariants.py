"""The invariants of a classic group, between two steps and of one step, each as a sentence.

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


def _instances_are_unique(group: ClassicGroup) -> bool:
    instances = [m.instance_id for m in group.members.values() if m.instance_id is not None]
    return len(instances) == len(set(instances))


def _static_ids_are_stored(group: ClassicGroup) -> bool:
    """Only with F43, without which it keeps no stored generation."""
    stored = group.stored_generation.members if group.stored_generation else ()
    ids = {one.group_instance_id: one.member_id for one in stored}
    return all(ids.get(instance_id, member_id) == member_id for instance_id, member_id in group.members.static.items())


def _late_ones_are_static(group: ClassicGroup) -> bool:
    late = [member for member in group.members.values() if member.is_late]
    return all(m.instance_id is not None and m.member_id not in group.delayed_joins for m in late)


PROMISES: tuple[tuple[str, Callable[[ClassicGroup], bool]], ...] = (
    ("the leader is a member and an empty group has none", _leads),
    ("EMPTY has no members and COMPLETING_REBALANCE and STABLE have some", _is_inhabited),
    ("JoinGroup waits only in PREPARING_REBALANCE", _joins_wait_in_the_join_phase),
    ("SyncGroup waits only in COMPLETING_REBALANCE", _syncs_wait_in_the_sync_phase),
    ("the join timer runs exactly in PREPARING_REBALANCE", _join_phase_is_timed),
    ("the sync timer runs exactly while SyncGroup is awaited", _sync_phase_is_timed),
    ("all members support the chosen protocol", _everybody_agrees_on_a_protocol),
    ("a member that does not wait has a session timer", _sessions_are_timed),
    ("no pending member id is that of a member", lambda group: group.pending_join_members.isdisjoint(group.members)),
    ("no two members share an instance id", _instances_are_unique),
    ("EMPTY has no protocol", lambda group: not group.is_empty or group.protocol_name is None),
    ("the log has the member id of each static member that it has", _static_ids_are_stored),
    ("a member that is late is static and has not joined", _late_ones_are_static),
)
"""The invariants between two steps."""
COUNTS = "generations rise by one"
STORED = "the log has every EMPTY or STABLE group as it is"


def find_broken(group: ClassicGroup) -> Iterator[str]:
    """The invariants between two steps that do not hold."""
    return (promise for promise, holds in PROMISES if not holds(group))


def counts_generations(before: ClassicGroup, after: ClassicGroup) -> bool:
    """Whether a step, a request or one timer, begins a generation exactly with the end of its join phase, or as the
    last member goes."""
    rise = after.generation - before.generation
    if after.state is not before.state:
        return rise == (after.state in (State.EMPTY, State.COMPLETING_REBALANCE))
    return rise == 0 or (rise == 1 and after.state is State.COMPLETING_REBALANCE)


def is_stored(group: ClassicGroup, stored: ClassicGroup | None) -> bool:
    """Whether the log has the generation, protocol, leader and assignments of a group that is EMPTY or STABLE."""
    if group.state not in (State.EMPTY, State.STABLE) or not group.generation:
        return True
    return stored is not None and _summarise(stored) == _summarise(group)


def _summarise(group: ClassicGroup) -> tuple[object, ...]:
    assignments = {member_id: member.assignment for member_id, member in group.members.items()}
    return group.generation, group.protocol_name, group.leader, assignments
