"""A coordinator takes over: what is in memory only is made anew from what is stored.

Every member gets a session timer - the broker's consumer session timeout, also where it speaks the classic protocol -
and every member that must give partitions up a rebalance timer. Join and sync timers, delayed requests, ids that were
given out, and running resolutions of regular expressions are lost. A classic group with more members than allowed
rebalances at once.

Source: `GroupMetadataManager.onLoaded` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from fsm.coordinator.classic import timers as classic_group_timers
from fsm.coordinator.consumer.group_step import GROUP_CELLS, MEMBER_CELLS
from fsm.coordinator.coordinator import Coordinator, Group
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicMembers
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Happened, Step
from fsm.coordinator.model.timers import NO_TIMERS, Timer, TimerKind, Timers
from fsm.table import Symbol
from fsm.tables.classic_group import State
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group import State as GroupState
from fsm.tables.consumer_group_member import Effect
from fsm.tables.consumer_group_member import Event as MemberEvent
from fsm.tables.consumer_group_member import State as MemberState

GROUP_LOADED: Mapping[Symbol, GroupEvent] = {
    GroupState.EMPTY: GroupEvent.LOADED_EMPTY,
    GroupState.ASSIGNING: GroupEvent.LOADED_ASSIGNING,
    GroupState.RECONCILING: GroupEvent.LOADED_RECONCILING,
    GroupState.STABLE: GroupEvent.LOADED_STABLE,
}
MEMBER_LOADED: Mapping[Symbol, MemberEvent] = {
    MemberState.STABLE: MemberEvent.LOADED_STABLE,
    MemberState.UNREVOKED_PARTITIONS: MemberEvent.LOADED_UNREVOKED,
    MemberState.UNRELEASED_PARTITIONS: MemberEvent.LOADED_UNRELEASED,
    MemberState.UNKNOWN: MemberEvent.LOADED_UNKNOWN,
}


def load(state: Coordinator, context: Context) -> Step[Coordinator]:
    """The coordinator after a fail-over, and what it writes as it loads."""
    step = Step(replace(stored(state), groups=FrozenMap()))
    for group in state.groups.values():
        loaded = _loaded(group, context)
        step = loaded.leading_to(step.state.having(loaded.state)).after(step)
    return step


def stored(state: Coordinator) -> Coordinator:
    """The part of the state that a log keeps."""
    groups = {group_id: _stored(group) for group_id, group in state.groups.items()}
    return replace(state, groups=FrozenMap(groups), unstored=FrozenMap(), topics_added_version=-1)


def _stored(group: Group) -> Group:
    if isinstance(group, ConsumerGroup):
        return replace(group, timers=NO_TIMERS, metadata_due=True, resolution=None)
    return _stored_classic(group)


def _stored_classic(group: ClassicGroup) -> ClassicGroup:
    """What its record says while it is STABLE or EMPTY; a rebalance is stored with its leader's assignment, not before.

    Left out are the instant - a record is written just before the group enters the state - and what follows from what
    the members said when the generation began: who comes back under an instance id may say other things.
    """
    members = [
        replace(member, protocols=tuple(one for one in member.protocols if one.name == group.protocol_name))
        for member in group.members.values()
    ]
    return ClassicGroup(
        group.group_id,
        state=group.state,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader,
        members=ClassicMembers.of(members),
    )


def _loaded(group: Group, context: Context) -> Step[Group]:
    if isinstance(group, ConsumerGroup):
        return _loaded_consumer(group, context)
    return _loaded_classic(group, context)


def _loaded_consumer(group: ConsumerGroup, context: Context) -> Step[Group]:
    """The tables' ways out of EMPTY and ABSENT: nothing is written, timers are armed, the metadata is to be checked."""
    event = GROUP_LOADED[group.state]
    happened = [Happened("", GroupState.EMPTY, event, GROUP_CELLS[GroupState.EMPTY, event].target)]
    timers = NO_TIMERS
    for member_id in group.members.in_order():
        member = group.members[member_id]
        member_event = MEMBER_LOADED[member.current.state]
        cell = MEMBER_CELLS[MemberState.ABSENT, member_event]
        happened.append(Happened(member_id, MemberState.ABSENT, member_event, cell.target))
        timers = _arm(timers, member, cell.effects, context.config.session_timeout_ms(group.group_id), context.now_ms)
    return Step(replace(group, timers=timers, metadata_due=True, resolution=None), happened=tuple(happened))


def _arm(timers: Timers, member: GroupMember, effects: Container[Symbol], session_ms: int, now_ms: int) -> Timers:
    """Here a classic member gets the same timers as the others; in a request it gets its own session, no rebalance."""
    if Effect.ARM_SESSION_TIMER in effects:
        timers = timers.armed(TimerKind.SESSION, member.member_id, Timer(now_ms + session_ms))
    if Effect.ARM_REBALANCE_TIMER in effects:
        deadline_ms = now_ms + member.metadata.rebalance_timeout_ms
        timers = timers.armed(TimerKind.REBALANCE, member.member_id, Timer(deadline_ms, member.epoch))
    return timers


def _loaded_classic(group: ClassicGroup, context: Context) -> Step[Group]:
    """The table's way into STABLE: heartbeat timers, and a rebalance where the group is too large."""
    step = classic_group_timers.load(replace(group, state=State.EMPTY), context)
    since_ms = group.state_since_ms if step.state.state is State.STABLE else step.state.state_since_ms
    return step.leading_to(replace(step.state, state_since_ms=since_ms))
