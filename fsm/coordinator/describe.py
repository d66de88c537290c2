"""What the describe APIs say about a group.

Source: `ConsumerGroup.asDescribedGroup` and `ConsumerGroupMember.asConsumerGroupDescribeMember` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import Context, Image
from fsm.coordinator.dialect import Choice
from fsm.coordinator.members import GroupMember, by_topic
from fsm.kafka.assignment import TopicPartitions


def described(group: ConsumerGroup, context: Context) -> Mapping[str, Any]:
    """As ConsumerGroupDescribe has it: epochs, state, assignor, members."""
    members = {
        member_id: _member(member, group.targets.get(member_id, ()), context)
        for member_id, member in sorted(group.members.items())
    }
    return {
        "type": "consumer",
        "state": group.state.name.capitalize(),
        "epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor": group.preferred_assignor(context.default_assignor),
        "members": members,
    }


def _member(member: GroupMember, target: TopicPartitions, context: Context) -> Mapping[str, Any]:
    metadata = member.metadata
    return {
        "epoch": member.epoch,
        "instance": metadata.instance_id,
        "rack": metadata.rack_id,
        "names": list(metadata.subscribed_topic_names),
        "regex": member.pattern or None,
        "classic": member.is_classic,
        "assigned": by_name(_shown(member, context), context.image),
        "target": by_name(target, context.image),
    }


def _shown(member: GroupMember, context: Context) -> TopicPartitions:
    """What counts as assigned: from 4.3 on also what the member must still give up."""
    if Choice.DESCRIBE_SHOWS_PENDING in context.dialect:
        return by_topic(member.current.held)
    return member.assigned


def by_name(partitions: TopicPartitions, image: Image) -> dict[str, list[int]]:
    """Partitions by topic name; topics that are deleted are left out."""
    named = ((image.names.get(topic_id), numbers) for topic_id, numbers in partitions)
    return {name: list(numbers) for name, numbers in sorted((n, p) for n, p in named if n is not None)}
