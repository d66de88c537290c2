"""Conversion of a group while its members run: upgrade of a classic group, downgrade of a consumer group.

The policy of the broker allows one, both or neither; a group without members changes its type under any policy. An
upgrade is part of the heartbeat of the first consumer-protocol member; a downgrade is part of the step in which the
last one leaves, or is replaced by a static classic member.

Source: KIP-848; `convertToConsumerGroup` and `convertToClassicGroup` of
`GroupMetadataManager`, `ConsumerGroup.fromClassicGroup`, `ClassicGroup.fromConsumerGroup` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from struct import pack, unpack_from

from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.classic.join import owes_join
from fsm.coordinator.consumer import heartbeat as consumer
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft, open_group
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, ClassicMembers, consumer_topics
from fsm.coordinator.model.consumer_group import (
    ConsumerGroup,
    CurrentAssignment,
    GroupMember,
    Members,
    by_topic,
    new_group,
)
from fsm.coordinator.model.context import Context, Image
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.hash_order import topic_order
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Refused, Request, Step
from fsm.coordinator.model.subscribed_metadata import NOTHING, subscribed_metadata
from fsm.errors import RemoteProtocolError
from fsm.protocol.assignment import TopicPartition, TopicPartitions, flatten, numbers_by_topic, topic_partitions
from fsm.protocol.consumer_protocol import HIGHEST_VERSION, PROTOCOL_TYPE, decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest as Heartbeat
from fsm.protocol.records import ClassicMember, Member, Record, RecordType
from fsm.tables.classic_group import Event as ClassicEvent
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group import State as GroupState
from fsm.tables.consumer_group_member import Event, State

UPGRADES = frozenset({"upgrade", "bidirectional"})
DOWNGRADES = frozenset({"downgrade", "bidirectional"})
POLICIES = UPGRADES | DOWNGRADES

T = RecordType
UPGRADE_ORDER = (
    T.CONSUMER_GROUP_MEMBER_METADATA,
    T.CONSUMER_GROUP_PARTITION_METADATA,
    T.CONSUMER_GROUP_METADATA,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)
DOWNGRADE_ORDER = (
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    T.CONSUMER_GROUP_MEMBER_METADATA,
    T.CONSUMER_GROUP_REGULAR_EXPRESSION,
    T.CONSUMER_GROUP_PARTITION_METADATA,
    T.CONSUMER_GROUP_METADATA,
)
"""A conversion writes its records by type, not by member."""


def policy(context: Context) -> str:
    """The broker's policy; an unknown one counts as disabled."""
    name = context.config.group_consumer_migration_policy.lower()
    return name if name in POLICIES else "disabled"


def by_type(records: Collection[Record], order: Sequence[RecordType]) -> tuple[Record, ...]:
    """The records of a conversion sorted by type, in their original order within a type."""
    return tuple(sorted(records, key=lambda record: order.index(RecordType(record.key.type))))


# Upgrade


def join_consumer(
    group: ClassicGroup, request: Request[Heartbeat], context: Context, *, topics_added_version: int
) -> Step[Group]:
    """The heartbeat of a member that joins a classic group with the consumer protocol.

    Raises `Refused` if the joining member fails a check and nothing else has changed.
    """
    draft = ClassicGroupDraft(group, context, request)

    def join_as_consumer(begun: ConsumerGroup) -> Step[ConsumerGroup]:
        return consumer.heartbeat(begun, request, context, topics_added_version=topics_added_version)

    if group.is_empty:
        draft.take_row(ClassicEvent.CONSUMER_JOIN_TO_EMPTY)
        return join_as_consumer(new_group(group.group_id, context.dialect)).after(draft.step())
    if not _may_upgrade(group, context):
        return _refuse(draft, ErrorCode.GROUP_ID_NOT_FOUND, ClassicEvent.UPGRADE_REFUSED)
    try:
        converted = convert_to_consumer_group(group, context)
        upgraded = ClassicGroupDraft(group, context, request)
        upgraded.take_row(ClassicEvent.UPGRADED)
        begun = _with_conversion(upgraded.step(), converted, context)
        step = join_as_consumer(begun.state).after(begun)
        return step.with_state(_order_as_written(step.state, begun.state))
    except Refused as refused:
        return _refuse(draft, refused.code, ClassicEvent.UPGRADE_REFUSED_LATE, refused.message)


def _order_as_written(group: ConsumerGroup, converted: ConsumerGroup) -> ConsumerGroup:
    """The broker rebuilds the group from the records of the conversion: its map gets the members in their order."""
    known = [member_id for member_id in converted.members.in_order() if member_id in group.members]
    by_id = PersistentMap(
        {member_id: group.members[member_id] for member_id in dict.fromkeys((*known, *group.members))}
    )
    return replace(group, members=replace(group.members, by_id=by_id))


def _refuse(
    draft: ClassicGroupDraft, code: ErrorCode, event: ClassicEvent, message: str = "no consumer group"
) -> Step[Group]:
    """The classic group stays; members with delayed requests may have been told to rejoin all the same."""
    draft.response = consumer.refuse_heartbeat(code, message)
    draft.take_row(event)
    return draft.step()


def _may_upgrade(group: ClassicGroup, context: Context) -> bool:
    is_small = len(group.members) <= context.config.group_consumer_max_size
    return policy(context) in UPGRADES and group.protocol_type == PROTOCOL_TYPE and is_small


def convert_to_consumer_group(group: ClassicGroup, context: Context) -> ConsumerGroup:
    """The classic group as a consumer group: each member holds its assignment, at the generation's epoch.

    In some dialects a cooperative member also holds partitions that it still has to revoke, which are not in its target
    (F36). A group that waits for its first generation has no protocol yet: some dialects use the one that it would
    elect, the others fail (F41). Raises `Refused` if the members' metadata cannot be decoded, or if an assignor keeps
    state in assignments.
    """
    if group.protocol_name is None and group.members and Choice.FIRST_CONVERSION_ELECTS_PROTOCOL in context.dialect:
        group = replace(group, protocol_name=group.members.elected_protocol())
    if not all(member.supports(group.protocol_name) for member in group.members.values()):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "a member does not have the protocol of the last generation")
    try:
        members = [_convert_member(group, member, context) for member in group.members.in_order()]
    except RemoteProtocolError as problem:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, str(problem)) from None
    targets = PersistentMap({member.member_id: member.assigned for member in members})
    if Choice.CONVERSION_KEEPS_HELD in context.dialect:
        members = _with_owned(group, members, context)
    rebalances = Choice.CONVERSION_IN_REBALANCE_BUMPS in context.dialect and (
        group.state is not ClassicState.STABLE or any(owes_join(group, member) for member in group.members.values())
    )
    found = ConsumerGroup(
        group.group_id,
        group.generation + rebalances,
        group.generation,
        members=Members.of(members),
        targets=targets,
    )
    if Choice.UPGRADE_FILLS_METADATA not in context.dialect:
        return found
    metadata = subscribed_metadata(found.subscribed_names(), context)
    stands_alone = metadata != NOTHING and Choice.METADATA_HASH not in context.dialect
    return replace(found, metadata=metadata, has_metadata_record=stands_alone)


def _convert_member(group: ClassicGroup, member: ClassicGroupMember, context: Context) -> GroupMember:
    subscription = decode_subscription(member.metadata(group.protocol_name))
    metadata = Member(
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, member.protocols),
    )
    epoch, assigned = _assignment_epoch(group, context), _last_assignment(member, context)
    held = tuple((partition, epoch) for partition in flatten(assigned))
    return GroupMember(
        member.member_id, metadata, CurrentAssignment(State.STABLE, group.generation, group.generation, held)
    )


def _assignment_epoch(group: ClassicGroup, context: Context) -> int:
    return group.generation if Choice.ASSIGNMENT_EPOCHS in context.dialect else 0


def _with_owned(group: ClassicGroup, members: Sequence[GroupMember], context: Context) -> list[GroupMember]:
    """The members, each also with the unassigned partitions that it owned as it joined; of two owners the later one has
    them.
    """
    joined = {i: decode_subscription(member.metadata(group.protocol_name)) for i, member in group.members.items()}
    taken = {partition for member in members for partition in member.current.held}
    epoch, found = _assignment_epoch(group, context), {}
    for member in sorted(members, key=lambda member: -joined[member.member_id].generation_id):
        current, owned = member.current, by_id(joined[member.member_id].owned_partitions, context.image)
        kept = [partition for partition in flatten(owned) if partition not in taken]
        taken.update(kept)
        held = tuple(sorted((*current.assigned, *((partition, epoch) for partition in kept))))
        found[member.member_id] = replace(member, current=replace(current, assigned=held)) if kept else member
    return [found[member.member_id] for member in members]


def _last_assignment(member: ClassicGroupMember, context: Context) -> TopicPartitions:
    """The last assignment; releases before 4.0 require it and accept an assignor's own data."""
    lenient = Choice.UPGRADE_ACCEPTS_EMPTY_ASSIGNMENT in context.dialect
    if not member.assignment and lenient:
        return ()
    found = decode_assignment(member.assignment)
    if found.user_data and lenient:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"the assignment of {member.member_id} carries an assignor's data")
    return by_id(found.partitions, context.image)


def _with_conversion(before: Step[ClassicGroup], group: ConsumerGroup, context: Context) -> Step[ConsumerGroup]:
    draft = open_group(group, context, GroupState.EMPTY)
    draft.take_group_row(GroupEvent.CLASSIC_GROUP_CONVERTED)
    for member_id in group.members.in_order():
        draft.take_member_row(State.ABSENT, Event.CONVERTED, group.members[member_id])
    # No `done`: if all members left during the first join phase, the state STABLE of the table has no members.
    return Step(draft.close(), (), by_type(draft.records, UPGRADE_ORDER), tuple(draft.happened)).after(before)


# Downgrade


def remove(group: ConsumerGroup, member_ids: Sequence[str], event: Event, context: Context) -> Step[Group]:
    """Removes these members; if only classic ones remain, the group becomes a classic one."""
    gone = dict.fromkeys(member_ids)
    if not _may_downgrade_without(group, gone, context):
        return consumer.remove(group, tuple(gone), event, context)
    ended = end_group(open_group(group, context), GroupEvent.DOWNGRADED_BY_REMOVAL, group.members.in_order())
    staying = [m for m in group.members.in_order() if m not in gone]
    classic = convert_to_classic_group(group, staying, group.epoch, context, rebalances=True)
    return _begin(ended, classic, ClassicEvent.DOWNGRADED_BY_REMOVAL, context)


def _may_downgrade_without(group: ConsumerGroup, gone: Collection[str], context: Context) -> bool:
    classic = sum(group.members[member_id].is_classic for member_id in gone)
    remaining = len(group.members) - len(gone)
    if not gone or not remaining or group.members.classic - classic != remaining:
        return False
    if Choice.LEAVE_GROUP_REMOVES_ANY not in context.dialect and classic:
        return False
    return may_downgrade(remaining, context)


def may_downgrade(size: int, context: Context) -> bool:
    """Whether policy and size allow the downgrade of a group."""
    return policy(context) in DOWNGRADES and size <= context.config.group_max_size


def end_group(draft: ConsumerGroupDraft, event: GroupEvent, member_ids: Sequence[str]) -> Step[ConsumerGroup]:
    """Ends the consumer group: its tombstones, and those of these members."""
    written = len(draft.records)
    for member_id in member_ids:
        member = draft.stored.members.by_id.get(member_id) or draft.members[member_id]
        draft.take_member_row(member.current.state, Event.GROUP_DOWNGRADED, member)
    draft.take_group_row(event)
    tombstones = by_type(draft.records[written:], DOWNGRADE_ORDER)
    return Step(draft.close(), (), (*draft.records[:written], *tombstones), tuple(draft.happened))


def convert_to_classic_group(
    group: ConsumerGroup, member_ids: Sequence[str], generation: int, context: Context, *, rebalances: bool
) -> ClassicGroup:
    """These members, all of them classic, as a classic group with their targets as assignments; the first one leads.

    If it `rebalances`, in some dialects they keep their partitions until then (F36). Raises `Refused` if the metadata
    of their joins cannot be decoded.
    """
    members = {member_id: _classic_member(group.members[member_id]) for member_id in member_ids}
    found = ClassicGroup(
        group.group_id,
        generation=generation,
        protocol_type=PROTOCOL_TYPE,
        leader=next(iter(members), None),
        members=ClassicMembers.of(members.values()),
    )
    found = replace(found, protocol_name=found.members.elected_protocol())
    keeps = rebalances and Choice.CONVERSION_KEEPS_HELD in context.dialect
    given = {m: by_topic(group.members[m].current.held) if keeps else group.targets.get(m, ()) for m in members}
    try:
        assigned = {m: _as_assignment(found, m, partitions, context.image) for m, partitions in given.items()}
    except RemoteProtocolError as problem:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, str(problem)) from None
    found = replace(found, members=found.members.merge(assigned))
    return replace(found, subscribed_topics=consumer_topics(found))


def _classic_member(member: GroupMember) -> ClassicGroupMember:
    metadata, classic = member.metadata, member.metadata.classic_member_metadata
    if classic is None:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{member.member_id} does not speak the classic protocol")
    return ClassicGroupMember(
        member.member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        classic.session_timeout_ms,
        classic.supported_protocols,
    )


def _as_assignment(group: ClassicGroup, member_id: str, target: TopicPartitions, image: Image) -> ClassicGroupMember:
    member = group.members[member_id]
    return replace(member, assignment=encode(target, member.metadata(group.protocol_name), image))


def _begin(ended: Step[ConsumerGroup], group: ClassicGroup, event: ClassicEvent, context: Context) -> Step[Group]:
    draft = ClassicGroupDraft(group, context)
    draft.take_row(event)
    return draft.step().after(ended)


def downgrade_by_replacement(
    draft: ConsumerGroupDraft, joiner: GroupMember, replaced_id: str, event: ClassicEvent
) -> Step[Group]:
    """Downgrades the group because a classic member replaced a static member.

    The joining member comes last, with the target of the replaced one.
    """
    stored = draft.stored
    members = [m for m in stored.members.in_order() if m != replaced_id]
    renamed = [joiner.member_id if m == replaced_id else m for m in stored.members.in_order()]
    ended = end_group(draft, GroupEvent.DOWNGRADED_BY_REPLACEMENT, renamed)
    target = stored.targets.get(replaced_id, ())
    group = replace(
        ended.state, members=draft.members.set(joiner), targets=stored.targets.set(joiner.member_id, target)
    )
    rebalances = event is ClassicEvent.DOWNGRADED_BY_REPLACEMENT_STALE
    staying = [*members, joiner.member_id]
    classic = convert_to_classic_group(group, staying, stored.epoch, draft.context, rebalances=rebalances)
    return _begin(ended, classic, event, draft.context)


def end_empty_group(
    group: ConsumerGroup, context: Context, event: GroupEvent = GroupEvent.CLASSIC_JOIN_TO_EMPTY
) -> Step[ConsumerGroup]:
    """Ends a consumer group without members, which a classic member joins, or which is deleted."""
    return end_group(open_group(group, context), event, ())


# Bytes of the classic consumer protocol, which has topic names instead of topic ids


def by_id(partitions: Iterable[TopicPartition], image: Image) -> TopicPartitions:
    """Partitions by topic id; without topics that do not exist."""
    known = ((image.topics[name].topic_id, number) for name, number in partitions if name in image.topics)
    return topic_partitions(numbers_by_topic(known))


def version_of(metadata: bytes) -> int:
    """The version that a member writes. Raises `RemoteProtocolError` if there is none."""
    if len(metadata) < 2:
        raise RemoteProtocolError("a subscription without its version")
    return min(int(unpack_from(">h", metadata)[0]), HIGHEST_VERSION)


def encode(assigned: TopicPartitions, metadata: bytes, image: Image) -> bytes:
    """The assignment for a member that joined with this subscription; without topics that do not exist."""
    by_topic = dict(assigned)
    named = [(image.names[i], by_topic[i]) for i in topic_order(by_topic) if i in image.names]
    parts = [pack(">hi", version_of(metadata), len(named))]
    for name, numbers in named:
        data = name.encode()
        parts.append(pack(f">h{len(data)}si{len(numbers)}i", len(data), data, len(numbers), *numbers))
    return b"".join((*parts, pack(">i", -1)))
