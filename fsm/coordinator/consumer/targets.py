"""When a new target is due, and what the assignor makes of it.

Source: sections 3.9 and 7.1 of the coordinator reference; `TargetAssignmentBuilder` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from fsm.coordinator.assignors import Assignments, GroupSpec, MemberSpec, PartitionAssignorError
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.hash_order import map_order, string_hash
from fsm.coordinator.model.step import Refused
from fsm.protocol.assignment import TopicId, TopicPartitions
from fsm.protocol.error_codes import ErrorCode


def is_due(group: ConsumerGroup, group_epoch: int, context: Context) -> bool:
    """Whether a target for this group epoch is computed now."""
    if group_epoch <= group.target_epoch:
        return False
    interval_ms = context.config.assignment_interval_ms(group.group_id)
    if Choice.ASSIGNMENT_INTERVAL not in context.dialect or not group.target_time_ms or not interval_ms:
        return True
    return context.now_ms >= group.target_time_ms + interval_ms


def computed(
    group: ConsumerGroup, assignor: str, homogeneous: bool, order: Iterable[str], context: Context
) -> Assignments:
    """The whole target, for members in this order. Raises `Refused` where the assignor fails."""
    spec = GroupSpec(_members(group, order, context), _topics(context), homogeneous)
    try:
        found = context.assignors[assignor](spec)
    except PartitionAssignorError as problem:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from None
    return context.adopt(assignor, spec, found) if context.adopt else found


def walked(stored: ConsumerGroup, group: ConsumerGroup) -> list[str]:
    """The members of the group as an assignor sees them: those that are stored, then who came with this request."""
    known = [member_id for member_id in stored.members.in_order() if member_id in group.members]
    return map_order(
        [*known, *(member_id for member_id in group.members if member_id not in stored.members)], string_hash
    )


def _members(group: ConsumerGroup, order: Iterable[str], context: Context) -> Mapping[str, MemberSpec]:
    found, topics = {}, dict[tuple[tuple[str, ...], str], AbstractSet[TopicId]]()
    for member_id in order:
        member = group.members[member_id]
        said = (member.metadata.subscribed_topic_names, member.pattern)
        if said not in topics:  # whole fleets say the same
            topics[said] = group.topics_of(member, context.image)
        found[member_id] = MemberSpec(
            topics[said], group.targets.get(member_id, ()), member.instance_id, member.metadata.rack_id
        )
    return found


def _topics(context: Context) -> Mapping[str, int]:
    return {topic.topic_id: topic.partitions for topic in context.image.topics.values()}


def changed(group: ConsumerGroup, target: Assignments, order: Iterable[str]) -> dict[str, TopicPartitions]:
    """The entries that differ from the group's, in this order of their records; a member left out has nothing."""
    new = {member_id: target.get(member_id, ()) for member_id in order}
    return {member_id: part for member_id, part in new.items() if group.targets.get(member_id) != part}
