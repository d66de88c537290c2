"""A coordinator takes over: rebuilds its memory from the stored records.

Every member gets a session timer - the broker's consumer session timeout, also where it speaks the classic protocol -
and every member that must give partitions up a rebalance timer. Join and sync timers, delayed requests, pending member
ids, and running resolutions of regular expressions are lost. A classic group with more members than allowed rebalances
at once.

Source: `GroupMetadataManager.onLoaded` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fsm.coordinator.classic import timers as classic_group_timers
from fsm.coordinator.consumer.group_step import open_group
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicMembers
from fsm.coordinator.model.consumer_group import NO_TIMERS, ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.groups import NO_GROUPS, Group
from fsm.coordinator.model.step import Step
from fsm.table import Symbol
from fsm.tables.classic_group import State
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group import State as GroupState
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
    """The coordinator after a fail-over, and the records that it writes on loading."""
    step = Step(replace(keep_stored(state), groups=NO_GROUPS))
    for group in state.groups.values():
        loaded = _load_consumer(group, context) if isinstance(group, ConsumerGroup) else _load_classic(group, context)
        step = step.state.take(loaded).after(step)
    return step


def keep_stored(state: Coordinator) -> Coordinator:
    """The part of the state that the log stores."""
    groups = NO_GROUPS
    for group in state.groups.values():
        groups = groups.set(_keep_stored(group))
    return replace(state, groups=groups, unstored=NO_GROUPS, topics_added_version=-1)


def _keep_stored(group: Group) -> Group:
    """The content of a classic group's record while the group is STABLE or EMPTY; another group unchanged.

    A rebalance is stored with its leader's assignment, not before. The result lacks the instant - a record is written
    just before the group enters the state - and data derived from the members' metadata at the begin of the generation:
    a member that returns under an instance id may have other metadata.
    """
    if isinstance(group, ConsumerGroup):
        return replace(group, timers=NO_TIMERS, metadata_due=True, resolution=None)
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
        stored_generation=group.stored_generation,
    )


def _load_consumer(group: ConsumerGroup, context: Context) -> Step[ConsumerGroup]:
    """Takes the rows of the tables out of EMPTY and ABSENT: no records; timers are set, the metadata check is due."""
    draft = open_group(replace(group, timers=NO_TIMERS, resolution=None), context, GroupState.EMPTY)
    draft.is_loading = True
    draft.take_group_row(GROUP_LOADED[group.state])
    for member_id in group.members.in_order():
        member = group.members[member_id]
        draft.take_member_row(MemberState.ABSENT, MEMBER_LOADED[member.current.state], member)
    return draft.finish()


def _load_classic(group: ClassicGroup, context: Context) -> Step[ClassicGroup]:
    """Takes the row of the table into STABLE: heartbeat timers, and a rebalance if the group is too large."""
    step = classic_group_timers.load(replace(group, state=State.EMPTY), context)
    since_ms = group.state_since_ms if step.state.state is State.STABLE else step.state.state_since_ms
    return step.with_state(replace(step.state, state_since_ms=since_ms))
