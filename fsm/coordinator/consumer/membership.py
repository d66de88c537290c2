"""Who may speak: size limit, member ids, static members and the epoch check.

Source: sections 3.4 (R2 to R4) and 3.5 of the coordinator reference; `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.coordinator.consumer.group_step import ConsumerGroupDraft
from fsm.coordinator.consumer.reconciliation import flat
from fsm.coordinator.model.consumer_group import AWAY, ConsumerGroup, GroupMember, blank
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.step import Refused
from fsm.protocol.assignment import TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group_member import Event, State

COPIED = {
    State.STABLE: Event.COPIED_STABLE,
    State.UNREVOKED_PARTITIONS: Event.COPIED_UNREVOKED,
    State.UNRELEASED_PARTITIONS: Event.COPIED_UNRELEASED,
    State.UNKNOWN: Event.COPIED_UNKNOWN,
}


def check_size(group: ConsumerGroup, member_id: str, instance_id: str | None, context: Context) -> None:
    """Raises `Refused` where the group is full and the member is not in it."""
    exempt = Choice.KNOWN_INSTANCE_EXEMPT_FROM_SIZE in context.dialect
    if exempt and instance_id is not None and instance_id in group.members.static:
        return
    if len(group.members) >= context.config.group_consumer_max_size and member_id not in group.members:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group is full")


def known_member(group: ConsumerGroup, member_id: str) -> GroupMember:
    """The member of this id. Raises `Refused` where there is none."""
    if member_id not in group.members:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of {group.group_id}")
    return group.members[member_id]


def static_member(group: ConsumerGroup, instance_id: str) -> GroupMember | None:
    """Who has this instance id. Raises `Refused` where it leads to a member that is gone (before 4.4)."""
    member_id = group.members.static.get(instance_id)
    return None if member_id is None else known_member(group, member_id)


def holder_of(group: ConsumerGroup, member_id: str, instance_id: str) -> GroupMember:
    """The member of this instance id and member id. Raises `Refused` where they do not belong together."""
    holder = static_member(group, instance_id)
    if holder is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if holder.member_id != member_id:
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"{holder.member_id} has the instance id {instance_id}")
    return holder


def check_epoch(member: GroupMember, received: int, owned: TopicPartitions | None, dialect: Dialect) -> None:
    """Raises `Refused` for an epoch that is neither the member's own nor the one before a lost answer."""
    if received == member.epoch or (received == 0 and Choice.EPOCH_ZERO_ALWAYS_PASSES in dialect):
        return
    is_previous = received < member.epoch and received == member.current.previous_epoch
    if not (is_previous and owned is not None and _owns_only(member, owned)):
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"epoch {received}, but {member.member_id} is at {member.epoch}")


def _owns_only(member: GroupMember, owned: TopicPartitions) -> bool:
    assigned = {partition for partition, _ in member.current.assigned}
    return all(partition in assigned for partition in flat(owned))


def replace_static(draft: ConsumerGroupDraft, holder: GroupMember, member_id: str) -> GroupMember:
    """The copy that takes the holder's place under another id, at epoch 0."""
    current = replace(holder.current, epoch=0, previous_epoch=0)
    copy = replace(holder, member_id=member_id, current=current)
    target = draft.targets.get(holder.member_id, ())
    draft.remove_member_of(holder.member_id)
    draft.targets = draft.targets.set(member_id, target)
    draft.keep(copy)
    draft.on_group(GroupEvent.MEMBER_REPLACED)
    draft.on_member(holder.current.state, Event.REPLACED, holder)
    draft.on_member(State.ABSENT, COPIED[holder.current.state], copy)
    return copy


def joining_member(draft: ConsumerGroupDraft, member_id: str) -> GroupMember:
    """The member of this id, or a blank one."""
    return draft.stored.members.by_id.get(member_id) or blank(member_id)


def check_released(holder: GroupMember) -> None:
    """Raises `Refused` where the holder of an instance id has not left."""
    if not holder.is_classic and holder.epoch != AWAY:
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, f"{holder.member_id} has not left yet")
