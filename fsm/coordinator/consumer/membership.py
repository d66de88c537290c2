"""Membership checks: size limit, member ids, static members and member epochs.

Source: KIP-848; `throwIfConsumerGroupIsFull`, `throwIfConsumerGroupMemberEpochIsInvalid` and their neighbours in
`GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from fsm.coordinator.consumer.group_step import ConsumerGroupDraft
from fsm.coordinator.model.consumer_group import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroup,
    CurrentAssignment,
    GroupMember,
    new_member,
)
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.step import Refused
from fsm.protocol.assignment import TopicPartitions, flatten
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
    """Raises `Refused` if the group is full and does not have the member."""
    known = group.members.by_id
    if len(known) < context.config.group_consumer_max_size or member_id in known:
        return
    exempt = Choice.KNOWN_INSTANCE_EXEMPT_FROM_SIZE in context.dialect
    if not (exempt and instance_id is not None and instance_id in group.members.static):
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group is full")


def find_member(group: ConsumerGroup, member_id: str) -> GroupMember:
    """The member of this id. Raises `Refused` if there is none."""
    found: GroupMember | None = group.members.by_id.get(member_id)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of {group.group_id}")
    return found


def find_static_member(group: ConsumerGroup, instance_id: str) -> GroupMember | None:
    """The member with this instance id. Raises `Refused` if it refers to a removed member (before 4.4)."""
    member_id = group.members.static.get(instance_id)
    return None if member_id is None else find_member(group, member_id)


def find_holder(group: ConsumerGroup, member_id: str, instance_id: str) -> GroupMember:
    """The member of this instance id and member id. Raises `Refused` if they do not belong together."""
    holder = find_static_member(group, instance_id)
    if holder is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if holder.member_id != member_id:
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"{holder.member_id} has the instance id {instance_id}")
    return holder


def find_sender(group: ConsumerGroup, member_id: str, instance_id: str | None) -> GroupMember:
    """The member that names itself by this member id and, if it is static, instance id. Raises `Refused`."""
    return find_member(group, member_id) if instance_id is None else find_holder(group, member_id, instance_id)


def check_epoch(member: GroupMember, received: int, owned: TopicPartitions | None, dialect: Dialect) -> None:
    """Raises `Refused` for an epoch that is neither the member's own nor the one before a lost answer."""
    epoch = member.current.epoch
    if received == epoch or (received == 0 and Choice.EPOCH_ZERO_ALWAYS_PASSES in dialect):
        return
    is_previous = received < epoch and received == member.current.previous_epoch
    if not (is_previous and owned is not None and _owns_only(member, owned)):
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"epoch {received}, but {member.member_id} is at {epoch}")


def _owns_only(member: GroupMember, owned: TopicPartitions) -> bool:
    assigned = {partition for partition, _ in member.current.assigned}
    return all(partition in assigned for partition in flatten(owned))


def replace_static(draft: ConsumerGroupDraft, holder: GroupMember, member_id: str) -> GroupMember:
    """The copy that takes the holder's place under another id, at epoch 0."""
    current, target = holder.current, draft.targets.get(holder.member_id, ())
    restarted = CurrentAssignment(current.state, 0, 0, current.assigned, current.pending)
    copy = GroupMember(member_id, holder.metadata, restarted)
    draft.drop_member(holder.member_id)
    draft.targets = draft.targets.set(member_id, target)
    draft.set_member(copy)
    draft.take_group_row(GroupEvent.MEMBER_REPLACED)
    draft.take_member_row(current.state, Event.REPLACED, holder)
    draft.take_member_row(State.ABSENT, COPIED[current.state], copy)
    return copy


def find_or_create_member(draft: ConsumerGroupDraft, member_id: str) -> GroupMember:
    """The member of this id, or a blank one."""
    return draft.stored.members.by_id.get(member_id) or new_member(member_id)


def is_itself(holder: GroupMember, member_id: str, dialect: Dialect) -> bool:
    """Whether a member that joins under an instance id is its holder, which has not left (F37)."""
    is_here = not holder.is_classic and holder.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH
    return is_here and holder.member_id == member_id and Choice.STATIC_MEMBER_JOINS_AGAIN in dialect


def check_released(holder: GroupMember) -> None:
    """Raises `Refused` if the holder of an instance id has not left."""
    if not holder.is_classic and holder.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, f"{holder.member_id} has not left yet")
