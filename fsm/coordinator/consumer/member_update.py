"""One member's request to its group, from its fields to the resulting member and group.

Consumer heartbeats and classic JoinGroups share it. First all decisions are made - the member's own record, its regular
expression, the epoch, the target, its reconciliation - then they are expressed as events, whose rows are executed.

Source: KIP-848; `GroupMetadataManager.consumerGroupHeartbeat` and `TargetAssignmentBuilder` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from itertools import compress, repeat
from operator import is_not

from fsm.coordinator.assignors import Assignments, GroupSpec, MemberSpec, PartitionAssignorError
from fsm.coordinator.consumer import subscriptions
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft, RegexChange
from fsm.coordinator.consumer.reconciliation import Decision, Reconciliation, reconcile
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, derive_state, elect, find_topics
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.hash_order import copy_order, map_order, state_table, string_hash
from fsm.coordinator.model.step import Refused
from fsm.coordinator.model.subscribed_metadata import subscribed_metadata
from fsm.protocol.assignment import TopicId, TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.table import Symbol
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group import State as GroupState
from fsm.tables.consumer_group_member import Event, State

STABLE, NO_CHANGE, RESOLVED = State.STABLE, RegexChange.NONE, RegexChange.RESOLVED
SAME, FENCED, GROUP_EMPTY = Event.SAME, Event.UNKNOWN_STATE_FENCED, GroupState.EMPTY


def update_member(
    draft: ConsumerGroupDraft,
    before: GroupMember,
    after: GroupMember,
    owned: TopicPartitions | None,
    *,
    topics_added_version: int,
    ends_group: bool = False,
) -> GroupMember:
    """The member after the request; the draft has all its changes.

    `before` is the member as stored, a blank one, or the copy that replaced a static member; `after` has the fields of
    the request. A request that `ends_group` as a consumer group computes no target; if the classic group begins with a
    rebalance, the member gets its assignment there. Raises `Refused` for an invalid regular expression, a failing
    assignor, and a report that the member cannot be trusted with.
    """
    stored = draft.stored
    if after is before and _is_idle(stored, before):
        draft.take_group_row(_EVENTS["HEARTBEAT"][draft.state])
        draft.take_member_row(STABLE, SAME, after)
        return after
    draft.is_new = before.member_id not in draft.members.by_id
    if after is not before:
        draft.names_changed = before.metadata.subscribed_topic_names != after.metadata.subscribed_topic_names
        draft.regex_change = subscriptions.compare_regexes(draft, before, after)
    draft.elects_another = _elects_another(draft, before, after)
    draft.set_member(after)
    starts_resolution = subscriptions.is_resolution_due(draft, topics_added_version)
    bumps = _bumps(draft, after)
    group_epoch = draft.epoch + bumps
    if not ends_group and is_target_due(draft, group_epoch, draft.context):
        _compute_target(draft, before, after)
    decision, member = None, after
    if not (ends_group and will_rebalance(draft, group_epoch)):
        decision = _reconcile(draft, after, owned, group_epoch)
        if decision.member is not member.current:
            member = GroupMember(member.member_id, member.metadata, decision.member)
            draft.set_member(member)
    if starts_resolution:
        draft.new_resolution = subscriptions.resolve(draft, member.member_id)
    # From here on rows of the tables, in the order of their records.
    state = before.current.state
    if draft.is_new:
        draft.take_member_row(State.ABSENT, Event.CREATED, after)
    elif after is not before and after.metadata != before.metadata:
        draft.take_member_row(state, Event.UPDATED, after)
    _take_group_rows(draft, bumps)
    if decision is not None:
        draft.take_member_row(state, decision.event, member)
    if draft.seen_metadata is not None and not bumps:
        draft.take_group_row(GroupEvent.METADATA_UNCHANGED)
    if starts_resolution:
        draft.take_group_row(GroupEvent.REGEX_RESOLUTION_DUE)
    return member


def _is_idle(group: ConsumerGroup, member: GroupMember) -> bool:
    """Whether a request that changes no field of its member has no effect, as nearly all heartbeats."""
    members, current = group.members, member.current
    return (
        current.state is STABLE
        and current.epoch == group.target_epoch == group.epoch
        and not (group.metadata_due or members.patterns)
        and len(members.votes) < 2
        and members.by_id.get(member.member_id) is member
    )


def _elects_another(draft: ConsumerGroupDraft, before: GroupMember, after: GroupMember) -> bool:
    """Whether the stored votes elect another assignor than those with the request's (F13)."""
    old, new, votes = before.metadata.server_assignor, after.metadata.server_assignor, draft.stored.members.votes
    if (old == new and len(votes) < 2) or after.is_classic:
        return False
    if Choice.ELECTED_ASSIGNOR_BUMPS not in draft.context.dialect.choices:
        return False
    default = draft.context.default_assignor
    return _elect(draft, before, after) != draft.stored.preferred_assignor(default)


def _elect(draft: ConsumerGroupDraft, before: GroupMember, after: GroupMember) -> str:
    votes = draft.stored.members.votes_in_order()
    found = elect(votes, before.metadata.server_assignor, after.metadata.server_assignor)
    return found or draft.context.default_assignor


def will_rebalance(draft: ConsumerGroupDraft, group_epoch: int) -> bool:
    """Whether the group begins with a rebalance after a replacement converts it to a classic one (F20, F35)."""
    dialect, members = draft.context.dialect, draft.stored.members
    if Choice.REPLACEMENT_REBALANCES_IF_WAITING in dialect and any(map(_is_waiting, members.values())):
        return True
    if Choice.REPLACEMENT_REBALANCES_IF_STALE in dialect:
        return draft.stored.target_epoch < group_epoch
    return Choice.REPLACEMENT_REBALANCES_IF_BUMPED in dialect and draft.subscription_changed


def _is_waiting(member: GroupMember) -> bool:
    return member.current.state is State.UNRELEASED_PARTITIONS


def _bumps(draft: ConsumerGroupDraft, after: GroupMember) -> bool:
    """Whether the request increases the group epoch; checks the metadata if that is due."""
    bumps = draft.names_changed or draft.regex_change is RESOLVED or draft.elects_another
    if draft.epoch == 0 and Choice.EMPTY_SUBSCRIPTION_NOT_BUMPED not in draft.context.dialect.choices:
        bumps = True
    if draft.regex_change is not NO_CHANGE and after.is_classic:
        bumps = True
    if bumps or draft.stored.metadata_due:
        draft.seen_metadata = subscribed_metadata(draft.subscribed_names(), draft.context)
        bumps = bumps or draft.seen_metadata != draft.stored.metadata
    return bumps


# Targets


def is_target_due(group: ConsumerGroup, group_epoch: int, context: Context) -> bool:
    """Whether the target for this group epoch is computed now."""
    if group_epoch <= group.target_epoch:
        return False
    interval_ms = context.config.assignment_interval_ms(group.group_id)
    if Choice.ASSIGNMENT_INTERVAL not in context.dialect or not group.target_time_ms or not interval_ms:
        return True
    return context.now_ms >= group.target_time_ms + interval_ms


def _compute_target(draft: ConsumerGroupDraft, before: GroupMember, after: GroupMember) -> None:
    """Stores the changed entries; a member without an entry of the assignor has an empty one."""
    stored = draft.stored
    typed = draft if draft.seen_metadata is not None else stored
    known, members = stored.members.by_id.entries(), draft.members.by_id.entries()
    joined = () if after.member_id in known else (after.member_id,)  # a request adds at most one member
    kept = list(known) if len(known) + len(joined) == len(members) else [i for i in known if i in members]
    order = copy_order(kept, state_table(known, stored.members.most), joined)
    target = _assign(draft, _elect(draft, before, after), typed.is_homogeneous, order, draft.context)
    had = _known_targets(draft, after).targets.entries()
    moved = compress(order, map(is_not, map(target.get, order, repeat(())), map(had.get, order)))
    parts = ((member_id, target.get(member_id, ())) for member_id in moved)
    draft.new_targets = {member_id: part for member_id, part in parts if part != had.get(member_id)}


def _assign(
    group: ConsumerGroup, assignor: str, homogeneous: bool, order: Sequence[str], context: Context
) -> Assignments:
    """The whole target, for members in this order. Raises `Refused` if the assignor fails."""
    topics = {topic.topic_id: topic.partitions for topic in context.image.topics.values()}
    spec = GroupSpec(_specify_members(group, order, context), topics, homogeneous)
    try:
        found = context.assignors[assignor](spec)
    except PartitionAssignorError as problem:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from None
    return context.adopt(assignor, spec, found) if context.adopt else found


def _specify_members(group: ConsumerGroup, order: Sequence[str], context: Context) -> Mapping[str, MemberSpec]:
    """The input of the assignor; without a Python call per member in a homogeneous group, which may have ten
    thousand.
    """
    members = group.members.by_id.entries()
    racks = {i: member.metadata.rack_id for i, member in members.items() if member.metadata.rack_id is not None}
    instances = {i: member.metadata.instance_id for i, member in members.items()} if group.members.static else {}
    specs = zip(
        _subscriptions(group, order, context),
        map(group.targets.entries().get, order, repeat(())),
        map(instances.get, order) if instances else repeat(None),
        map(racks.get, order) if racks else repeat(None),
        strict=False,
    )
    return dict(zip(order, map(partial(tuple.__new__, MemberSpec), specs), strict=True))


def _subscriptions(group: ConsumerGroup, order: Sequence[str], context: Context) -> Iterable[AbstractSet[TopicId]]:
    """The ids of the existing topics of each member, in the order of Kafka's set of names."""
    topics = context.image.topics

    @cache
    def find(names: tuple[str, ...]) -> AbstractSet[TopicId]:
        return dict.fromkeys(topics[n].topic_id for n in map_order(names, string_hash) if n in topics).keys()

    if group.is_homogeneous:
        return repeat(find(group.names_of(group.members[order[0]])))
    return (find(group.names_of(group.members[member_id])) for member_id in order)


def _known_targets(draft: ConsumerGroupDraft, member: GroupMember) -> ConsumerGroup:
    """The group whose target entries count as stored; a replaced holder of the instance id without an entry leaves none
    (F28).
    """
    holder_id = draft.stored.members.static.get(member.instance_id) if member.instance_id else None
    left_none = holder_id not in {None, member.member_id} and holder_id not in draft.stored.targets
    counts_moved = Choice.MOVED_TARGET_COUNTS_AS_STORED in draft.context.dialect
    return draft if counts_moved and not left_none else draft.stored


def _reconcile(
    draft: ConsumerGroupDraft, after: GroupMember, owned: TopicPartitions | None, group_epoch: int
) -> Decision:
    """Reconciles the member with the new target, or with the stored one if none was computed."""
    stored, current = draft.stored, after.current
    epoch = stored.target_epoch if draft.new_targets is None else group_epoch
    changed = draft.subscription_changed
    if not changed and current.epoch == epoch and current.state is STABLE:
        return Decision(SAME, current)
    if draft.new_targets is None:
        target = stored.target_of(after.member_id, after.instance_id)
    else:
        target = draft.new_targets.get(after.member_id, draft.targets.get(after.member_id, ()))
    names = stored.names_of(after)
    decision = reconcile(
        current,
        Reconciliation(
            epoch,
            target,
            owned,
            stored.members.partition_epoch,
            find_topics(names, draft.context.image.topics),
            bool(names),
            changed,
            draft.context.dialect,
        ),
    )
    if decision.event is FENCED:
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"{after.member_id} is UNKNOWN and has to join again")
    return decision


# The group's row


_EVENTS: Mapping[str, Mapping[Symbol, GroupEvent]] = {
    reason: {
        GroupState.ASSIGNING: GroupEvent[f"{reason}_TARGET_STALE"],
        GroupState.RECONCILING: GroupEvent[f"{reason}_RECONCILING"],
        GroupState.STABLE: GroupEvent[f"{reason}_ALL_STABLE"],
    }
    for reason in (
        "MEMBER_JOINED",
        "SUBSCRIPTION_CHANGED",
        "ASSIGNOR_CHANGED",
        "METADATA_CHANGED",
        "UNSUBSCRIBED_JOINED",
        "REGEX_UNRESOLVED",
        "HEARTBEAT",
    )
}
"""Events of the group's table, by cause and by the resulting state."""


def _take_group_rows(draft: ConsumerGroupDraft, bumps: bool) -> None:
    epoch = draft.epoch + bumps
    leads_to = derive_state(draft.members, epoch, draft.target_epoch if draft.new_targets is None else epoch)
    reason = _reason(draft, bumps)
    if draft.state is GROUP_EMPTY and not bumps and draft.new_targets is not None:
        # A group emptied before 4.4 has an old target epoch (F4): the row of a join without a bump computes no target.
        draft.take_group_row(GroupEvent.UNSUBSCRIBED_JOINED_TARGET_STALE)
        reason = "HEARTBEAT"
    draft.take_group_row(_EVENTS[reason][leads_to])


def _reason(draft: ConsumerGroupDraft, bumps: bool) -> str:
    """The reason of a change of the group; the first one in the order of the table, if there are several."""
    if draft.is_new:
        return "MEMBER_JOINED" if bumps else "UNSUBSCRIBED_JOINED"
    if not bumps:
        return "HEARTBEAT" if draft.regex_change is NO_CHANGE else "REGEX_UNRESOLVED"
    if draft.subscription_changed:
        return "SUBSCRIPTION_CHANGED"
    return "ASSIGNOR_CHANGED" if draft.elects_another else "METADATA_CHANGED"
