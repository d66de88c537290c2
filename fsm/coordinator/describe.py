"""The description of a group in ConsumerGroupDescribe.

Source: `ConsumerGroup.asDescribedGroup` and `ConsumerGroupMember.asConsumerGroupDescribeMember` of apache/kafka 4.4.
"""

from __future__ import annotations

from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, by_topic
from fsm.coordinator.model.context import Context, Image
from fsm.coordinator.model.dialect import Choice
from fsm.protocol.assignment import TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    DescribedTopicPartitions,
)

CLASSIC, CONSUMER = 0, 1
"""Types of a member in its description."""


def describe_consumer_group(group: ConsumerGroup, context: Context) -> DescribedConsumerGroup:
    """Epochs, state, assignor, members by id."""
    return DescribedConsumerGroup(
        ErrorCode.NONE,
        None,
        group.group_id,
        group.state.name.capitalize(),
        group.epoch,
        group.target_epoch,
        group.preferred_assignor(context.default_assignor),
        tuple(
            _describe_member(member, group.targets.get(member_id, ()), context)
            for member_id, member in sorted(group.members.items())
        ),
    )


def _describe_member(member: GroupMember, target: TopicPartitions, context: Context) -> DescribedConsumerGroupMember:
    metadata = member.metadata
    # F24: from 4.3 on partitions that the member must still revoke also count as assigned.
    shows_pending = Choice.DESCRIBE_SHOWS_PENDING in context.dialect
    return DescribedConsumerGroupMember(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        member.epoch,
        metadata.client_id,
        metadata.client_host,
        metadata.subscribed_topic_names,
        metadata.subscribed_topic_regex,
        name_topics(by_topic(member.current.held) if shows_pending else member.assigned, context.image),
        name_topics(target, context.image),
        CLASSIC if member.is_classic else CONSUMER,
    )


def name_topics(partitions: TopicPartitions, image: Image) -> tuple[DescribedTopicPartitions, ...]:
    """Partitions with topic names; topics that are deleted are left out."""
    known = (DescribedTopicPartitions(t, image.names[t], numbers) for t, numbers in partitions if t in image.names)
    return tuple(sorted(known, key=lambda topic: topic.topic_name))
