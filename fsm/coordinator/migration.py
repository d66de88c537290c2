"""A group changes its type without its members stopping: upgrade of a classic group, downgrade of a consumer group.

The policy of the broker says which of the two it does; a group without members changes its type whatever the policy.
An upgrade is part of the heartbeat of the first consumer-protocol member; a downgrade is part of the step in which the
last one goes, or is replaced by a static classic member.

Source: sections 6.1 and 6.3 to 6.7 of the coordinator reference; `GroupMetadataManager`, `ConsumerGroup`,
`ClassicGroup` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fsm.coordinator import consumer_group_heartbeat as consumer
from fsm.coordinator.classic_group import ClassicGroup, consumer_topics
from fsm.coordinator.classic_group_effects import run
from fsm.coordinator.classic_group_work import Work
from fsm.coordinator.classic_members import ClassicGroupMember, ClassicMembers
from fsm.coordinator.consumer_group import ConsumerGroup, fresh
from fsm.coordinator.context import Context, Image
from fsm.coordinator.dialect import Choice
from fsm.coordinator.draft import Draft, draft_of
from fsm.coordinator.embedded import assignment_of, encoded, subscription_of
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.group_metadata import NOTHING, subscribed_metadata
from fsm.coordinator.heartbeat import Heartbeat, refusal
from fsm.coordinator.members import GroupMember, Members
from fsm.coordinator.messages import Refused, Request
from fsm.coordinator.reconciliation import CurrentAssignment
from fsm.coordinator.records import ClassicMember, Member, Record, RecordType
from fsm.coordinator.step import Step
from fsm.errors import RemoteProtocolError
from fsm.kafka.assignment import TopicPartitions
from fsm.kafka.consumer_protocol import PROTOCOL_TYPE
from fsm.kafka.error_codes import ErrorCode
from fsm.tables.classic_group import Event as ClassicEvent
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group_member import Event, State

Group = ConsumerGroup | ClassicGroup

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
    """The broker's policy; one that nobody knows is none."""
    name = context.config.group_consumer_migration_policy.lower()
    return name if name in POLICIES else "disabled"


def by_type(records: Collection[Record], order: Sequence[RecordType]) -> tuple[Record, ...]:
    """The records of a conversion in the order of their types, those of one type as they came."""
    return tuple(sorted(records, key=lambda record: order.index(RecordType(record.key.type))))


# Upgrade


def consumer_join(
    group: ClassicGroup, request: Request, sent: Heartbeat, context: Context, *, topics_added_version: int
) -> Step[Group]:
    """The heartbeat of a member that joins a classic group with the consumer protocol.

    Raises `Refused` where the joiner fails a check and nothing else happened.
    """
    work = Work(group, context, request)

    def joined(begun: ConsumerGroup) -> Step[ConsumerGroup]:
        return consumer.heartbeat(begun, request, sent, context, topics_added_version=topics_added_version)

    if group.is_empty:
        ended = run(work, ClassicEvent.CONSUMER_JOIN_TO_EMPTY).step()
        return _of_either(joined(fresh(group.group_id, context.dialect)).after(ended))
    if not _may_upgrade(group, context):
        return _refused(work, ErrorCode.GROUP_ID_NOT_FOUND, ClassicEvent.UPGRADE_REFUSED)
    try:
        converted = converted_group(group, context)
        begun = _with_conversion(run(work, ClassicEvent.UPGRADED).step(), converted, context)
        step = joined(begun.state).after(begun)
        return _of_either(step.leading_to(_as_written(step.state, begun.state)))
    except Refused as refused:
        return _refused(work, refused.code, ClassicEvent.UPGRADE_REFUSED_LATE, refused.message)


def _as_written(group: ConsumerGroup, converted: ConsumerGroup) -> ConsumerGroup:
    """The broker makes the group anew from the records of the conversion: its map meets the members in their order."""
    known = [member_id for member_id in converted.members.in_order() if member_id in group.members]
    by_id = FrozenMap({member_id: group.members[member_id] for member_id in dict.fromkeys((*known, *group.members))})
    return replace(group, members=replace(group.members, by_id=by_id))


def _of_either(step: Step[ConsumerGroup] | Step[ClassicGroup]) -> Step[Group]:
    """The same step, where both types may come out."""
    return Step(step.state, step.answers, step.records, step.happened)


def _refused(work: Work, code: ErrorCode, event: ClassicEvent, message: str = "no consumer group") -> Step[Group]:
    """The classic group stays; who was parked in it may have been told to rejoin all the same."""
    body = refusal(code.name.lower(), message)
    return _of_either(run(replace(work, refusal=body), event).step())


def _may_upgrade(group: ClassicGroup, context: Context) -> bool:
    is_small = len(group.members) <= context.config.group_consumer_max_size
    return policy(context) in UPGRADES and group.protocol_type == PROTOCOL_TYPE and is_small


def converted_group(group: ClassicGroup, context: Context) -> ConsumerGroup:
    """The classic group as a consumer group: everybody holds what it was assigned, at the generation's epoch.

    Raises `Refused` where what the members said cannot be read, or where an assignor keeps state in assignments.
    """
    if not all(member.supports(group.protocol_name) for member in group.members.values()):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "a member does not have the protocol of the last generation")
    try:
        members = [_converted_member(group, member, context) for member in group.in_order()]
    except RemoteProtocolError as problem:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, str(problem)) from None
    found = ConsumerGroup(
        group.group_id,
        group.generation,
        group.generation,
        members=Members.of(members),
        targets=FrozenMap({member.member_id: member.assigned for member in members}),
    )
    if Choice.UPGRADE_FILLS_METADATA not in context.dialect:
        return found
    metadata = subscribed_metadata(found.subscribed_names(), context)
    stands_alone = metadata != NOTHING and Choice.METADATA_HASH not in context.dialect
    return replace(found, metadata=metadata, has_metadata_record=stands_alone)


def _converted_member(group: ClassicGroup, member: ClassicGroupMember, context: Context) -> GroupMember:
    subscription = subscription_of(member.metadata(group.protocol_name))
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
    epoch = group.generation if Choice.ASSIGNMENT_EPOCHS in context.dialect else 0
    assigned = _last_assignment(member, context)
    held = tuple(((topic_id, number), epoch) for topic_id, numbers in assigned for number in numbers)
    return GroupMember(
        member.member_id, metadata, CurrentAssignment(State.STABLE, group.generation, group.generation, held)
    )


def _last_assignment(member: ClassicGroupMember, context: Context) -> TopicPartitions:
    """Releases before 4.0 want it to be there and do not mind an assignor's own data."""
    lenient = Choice.UPGRADE_ACCEPTS_EMPTY_ASSIGNMENT in context.dialect
    if not member.assignment and lenient:
        return ()
    assigned, user_data = assignment_of(member.assignment, context.image)
    if user_data and lenient:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"the assignment of {member.member_id} carries an assignor's data")
    return assigned


def _with_conversion(before: Step[ClassicGroup], group: ConsumerGroup, context: Context) -> Step[ConsumerGroup]:
    draft = Draft(ConsumerGroup(group.group_id, group.epoch, group.target_epoch), group, context)
    draft.on_group(GroupEvent.CLASSIC_GROUP_CONVERTED)
    for member_id in group.members.in_order():
        draft.on_member(State.ABSENT, Event.CONVERTED, group.members[member_id])
    # No `done`: where every member left during the first join phase, what the table calls STABLE has nobody in it.
    return Step(draft.group, (), by_type(draft.records, UPGRADE_ORDER), tuple(draft.happened)).after(before)


# Downgrade


def remove(group: ConsumerGroup, member_ids: Sequence[str], event: Event, context: Context) -> Step[Group]:
    """These members are out; if the classic ones are left among themselves, the group becomes a classic one."""
    gone = dict.fromkeys(member_ids)
    if not _may_downgrade_without(group, gone, context):
        return _of_either(consumer.remove(group, tuple(gone), event, context))
    ended = ended_group(draft_of(group, context), GroupEvent.DOWNGRADED_BY_REMOVAL, group.members.in_order())
    classic = classic_group(group, [m for m in group.members.in_order() if m not in gone], group.epoch, context.image)
    return _begun(ended, classic, ClassicEvent.DOWNGRADED_BY_REMOVAL, context)


def _may_downgrade_without(group: ConsumerGroup, gone: Collection[str], context: Context) -> bool:
    classic = sum(group.members[member_id].is_classic for member_id in gone)
    remaining = len(group.members) - len(gone)
    if not gone or not remaining or group.members.classic - classic != remaining:
        return False
    if Choice.LEAVE_GROUP_REMOVES_ANY not in context.dialect and classic:
        return False
    return may_downgrade(remaining, context)


def may_downgrade(size: int, context: Context) -> bool:
    """Whether policy and size let a group become a classic one."""
    return policy(context) in DOWNGRADES and size <= context.config.group_max_size


def ended_group(draft: Draft, event: GroupEvent, member_ids: Sequence[str]) -> Step[ConsumerGroup]:
    """The consumer group's end: its tombstones, and those of these members."""
    written = len(draft.records)
    for member_id in member_ids:
        member = draft.stored.members.by_id.get(member_id) or draft.group.members[member_id]
        draft.on_member(member.current.state, Event.GROUP_DOWNGRADED, member)
    draft.on_group(event)
    tombstones = by_type(draft.records[written:], DOWNGRADE_ORDER)
    return Step(draft.group, (), (*draft.records[:written], *tombstones), tuple(draft.happened))


def classic_group(group: ConsumerGroup, member_ids: Sequence[str], generation: int, image: Image) -> ClassicGroup:
    """These members, all of them classic, as a classic group that holds their targets; the first one leads.

    Raises `Refused` where what they said when they joined cannot be read.
    """
    members = {member_id: _classic_member(group.members[member_id]) for member_id in member_ids}
    found = ClassicGroup(
        group.group_id,
        generation=generation,
        protocol_type=PROTOCOL_TYPE,
        leader=next(iter(members), None),
        members=ClassicMembers.of(members.values()),
    )
    found = replace(found, protocol_name=found.elected_protocol())
    try:
        assigned = {m: _as_assignment(found, m, group.targets.get(m, ()), image) for m in members}
    except RemoteProtocolError as problem:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, str(problem)) from None
    found = replace(found, members=found.members.merged(assigned))
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
    return replace(member, assignment=encoded(target, member.metadata(group.protocol_name), image))


def _begun(ended: Step[ConsumerGroup], group: ClassicGroup, event: ClassicEvent, context: Context) -> Step[Group]:
    return _of_either(run(Work(group, context), event).step().after(ended))


def downgraded_by_replacement(draft: Draft, joiner: GroupMember, replaced_id: str, event: ClassicEvent) -> Step[Group]:
    """The consumer group of this draft ends because a classic member took a static member's place.

    The joiner comes last, with the target of whom it replaced.
    """
    stored = draft.stored
    members = [m for m in stored.members.in_order() if m != replaced_id]
    renamed = [joiner.member_id if m == replaced_id else m for m in stored.members.in_order()]
    ended = ended_group(draft, GroupEvent.DOWNGRADED_BY_REPLACEMENT, renamed)
    target = stored.targets.get(replaced_id, ())
    group = replace(
        draft.group, members=draft.group.members.having(joiner), targets=stored.targets.set(joiner.member_id, target)
    )
    classic = classic_group(group, [*members, joiner.member_id], stored.epoch, draft.context.image)
    return _begun(ended, classic, event, draft.context)


def emptied(
    group: ConsumerGroup, context: Context, event: GroupEvent = GroupEvent.CLASSIC_JOIN_TO_EMPTY
) -> Step[ConsumerGroup]:
    """A consumer group without members ends: because a classic member wants its place, or it is deleted."""
    draft = draft_of(group, context)
    draft.on_group(event)
    return Step(draft.group, (), by_type(draft.records, DOWNGRADE_ORDER), tuple(draft.happened))
