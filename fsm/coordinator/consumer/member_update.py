"""One member's request carried through its group: from what the member says to where that leaves member and group.

Consumer heartbeats and classic JoinGroups share it. First everything is decided - the member's own record, its regular
expression, the epoch, the target, its reconciliation - then the decisions are named as events and the tables obeyed.

Source: sections 3.4 (R5 to R10), 3.8 and 8.4 of the coordinator reference; `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fsm.coordinator.consumer import subscriptions, targets
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft
from fsm.coordinator.consumer.reconciliation import Decision, reconcile
from fsm.coordinator.consumer.subscriptions import RegexChange
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, elected, state_of
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Refused
from fsm.coordinator.model.subscribed_metadata import subscribed_metadata
from fsm.protocol.assignment import TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.table import Symbol
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group import State as GroupState
from fsm.tables.consumer_group_member import Event, State


@dataclass(frozen=True, slots=True)
class Change:
    """What a request changes about its member."""

    before: GroupMember
    """As stored, blank for a new one, or the copy that replaced a static member."""
    after: GroupMember
    """With the fields of the request."""
    is_new: bool
    """Whether it joins the group and replaces nobody."""
    regex: RegexChange
    assignor: str
    """Elected with the request's vote."""
    elects_another: bool
    """Whether the stored votes elect another one, in dialects where that counts."""

    @property
    def names(self) -> bool:
        """Whether the subscribed names differ."""
        return self.before.metadata.subscribed_topic_names != self.after.metadata.subscribed_topic_names

    @property
    def subscription(self) -> bool:
        """Whether names or regular expression differ."""
        return self.names or self.regex is not RegexChange.NONE


def change_of(draft: ConsumerGroupDraft, before: GroupMember, after: GroupMember, *, is_new: bool) -> Change:
    """What is changed. Raises `Refused` for a regular expression that does not compile."""
    default = draft.context.default_assignor
    votes = draft.stored.stored_votes()
    after_vote = after.metadata.server_assignor
    assignor = elected(votes, before.metadata.server_assignor, after_vote) or default
    counts = Choice.ELECTED_ASSIGNOR_BUMPS in draft.context.dialect
    another = counts and not after.is_classic and assignor != draft.stored.preferred_assignor(default)
    regex = subscriptions.regex_change(draft, before, after)
    return Change(before, after, is_new, regex, assignor, another)


def progress(
    draft: ConsumerGroupDraft,
    change: Change,
    owned: TopicPartitions | None,
    *,
    topics_added_version: int,
    ends_group: bool = False,
) -> GroupMember:
    """The member afterwards, with the draft worked through up to it.

    A request that `ends_group` as a consumer group computes no target, and leaves its member to the rebalance that
    the classic group begins with, if it does.

    Raises `Refused` where the assignor fails, or the member cannot be trusted with what it reports.
    """
    draft.keep(change.after)
    starts_resolution = subscriptions.wants_resolution(draft, topics_added_version)
    bumps = _bumps(draft, change)
    group_epoch = draft.epoch + bumps
    if not ends_group:
        _compute_target(draft, change, group_epoch)
    skips = ends_group and will_rebalance(draft, change, group_epoch)
    decision = None if skips else _reconciled(draft, change, owned, group_epoch)
    member = change.after
    if decision is not None and decision.member is not member.current:
        member = replace(member, current=decision.member)
    draft.keep(member)
    if starts_resolution:
        draft.new_resolution = subscriptions.resolution(draft, member.member_id)
    _obey(draft, change, decision, member, bumps=bumps, starts_resolution=starts_resolution)
    return member


def will_rebalance(draft: ConsumerGroupDraft, change: Change, group_epoch: int) -> bool:
    """Whether the classic group that a replacement makes of this group begins with a rebalance (F20)."""
    dialect = draft.context.dialect
    if Choice.REPLACEMENT_REBALANCES_IF_STALE in dialect:
        return draft.stored.target_epoch < group_epoch
    return Choice.REPLACEMENT_REBALANCES_IF_BUMPED in dialect and change.subscription


def _bumps(draft: ConsumerGroupDraft, change: Change) -> bool:
    """Whether the group epoch moves; looks at the metadata where that is due."""
    bumps = bumps_by_itself(draft, change, draft)
    if bumps or draft.stored.metadata_due:
        draft.seen_metadata = subscribed_metadata(draft.subscribed_names(), draft.context)
        bumps = bumps or draft.seen_metadata != draft.stored.metadata
    return bumps


def bumps_by_itself(group: ConsumerGroup, change: Change, draft: ConsumerGroupDraft) -> bool:
    """Whether the change moves the group epoch, whatever the metadata looks like."""
    if change.names or change.regex is RegexChange.RESOLVED or change.elects_another:
        return True
    is_fresh = group.epoch == 0 and Choice.EMPTY_SUBSCRIPTION_NOT_BUMPED not in draft.context.dialect
    return is_fresh or (change.after.is_classic and change.regex is not RegexChange.NONE)


def _compute_target(draft: ConsumerGroupDraft, change: Change, group_epoch: int) -> None:
    if not targets.is_due(draft, group_epoch, draft.context):
        return
    typed = draft if draft.seen_metadata is not None else draft.stored
    order = targets.walked(draft.stored, draft)
    target = targets.computed(draft, change.assignor, typed.is_homogeneous, order, draft.context)
    draft.new_targets = targets.changed(_known_targets(draft, change.after), target, order)


def _known_targets(draft: ConsumerGroupDraft, member: GroupMember) -> ConsumerGroup:
    """The group whose entries count as stored; a holder of the instance id that had none has left none (F28)."""
    holder_id = draft.stored.members.static.get(member.instance_id) if member.instance_id else None
    left_none = holder_id not in {None, member.member_id} and holder_id not in draft.stored.targets
    counts_moved = Choice.MOVED_TARGET_COUNTS_AS_STORED in draft.context.dialect
    return draft if counts_moved and not left_none else draft.stored


def _reconciled(draft: ConsumerGroupDraft, change: Change, owned: TopicPartitions | None, group_epoch: int) -> Decision:
    """Towards the new target, or the stored one where none was computed."""
    after = change.after
    if draft.new_targets is None:
        epoch, target = draft.stored.target_epoch, draft.stored.target_of(after.member_id, after.instance_id)
    else:
        known = draft.targets.get(after.member_id, ())
        epoch, target = group_epoch, draft.new_targets.get(after.member_id, known)
    if not change.subscription and after.is_reconciled_to(epoch):
        return Decision(Event.SAME, after.current)
    decision = reconcile(
        after.current,
        target_epoch=epoch,
        target=target,
        owned=owned,
        partition_epoch=draft.stored.members.partition_epoch,
        subscribed=_subscribed(draft, after),
        names_topics=bool(draft.stored.names_of(after)),
        subscription_changed=change.subscription,
        dialect=draft.context.dialect,
    )
    if decision.event is Event.UNKNOWN_STATE_FENCED:
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"{after.member_id} is UNKNOWN and has to join again")
    return decision


def _subscribed(draft: ConsumerGroupDraft, member: GroupMember) -> frozenset[str]:
    """What the member subscribes to; regular expressions count as resolved before this request."""
    return frozenset(draft.stored.topics_of(member, draft.context.image))


def _obey(
    draft: ConsumerGroupDraft,
    change: Change,
    decision: Decision | None,
    member: GroupMember,
    *,
    bumps: bool,
    starts_resolution: bool,
) -> None:
    """The rows of the tables, in the order of their records."""
    before = change.before.current.state
    if change.is_new:
        draft.on_member(State.ABSENT, Event.CREATED, change.after)
    elif change.after.metadata != change.before.metadata:
        draft.on_member(before, Event.UPDATED, change.after)
    _tell_group(draft, change, bumps)
    if decision is not None:
        draft.on_member(before, decision.event, member)
    if draft.seen_metadata is not None and not bumps:
        draft.on_group(GroupEvent.METADATA_UNCHANGED)
    if starts_resolution:
        draft.on_group(GroupEvent.REGEX_RESOLUTION_DUE)


_REASONS: Mapping[str, Mapping[Symbol, GroupEvent]] = {
    reason: {
        state: GroupEvent[f"{reason}_{suffix}"]
        for state, suffix in (
            (GroupState.ASSIGNING, "TARGET_STALE"),
            (GroupState.RECONCILING, "RECONCILING"),
            (GroupState.STABLE, "ALL_STABLE"),
        )
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
"""Events of the group's table by what happened and by the state that follows from it."""


def _tell_group(draft: ConsumerGroupDraft, change: Change, bumps: bool) -> None:
    leads_to = _leads_to(draft, bumps)
    reason = _reason(change, bumps)
    if draft.state is GroupState.EMPTY and not bumps and draft.new_targets is not None:
        # Emptied before 4.4, its target epoch is behind (F4): the row of a join that bumps nothing computes no target.
        draft.on_group(GroupEvent.UNSUBSCRIBED_JOINED_TARGET_STALE)
        reason = "HEARTBEAT"
    draft.on_group(_REASONS[reason][leads_to])


def _leads_to(draft: ConsumerGroupDraft, bumps: bool) -> Symbol:
    """The group's state with the new epochs."""
    if not bumps and draft.new_targets is None:
        return state_of(draft.members, draft.epoch, draft.target_epoch)
    epoch = draft.epoch + bumps
    target_epoch = draft.target_epoch if draft.new_targets is None else epoch
    return state_of(draft.members, epoch, target_epoch)


def _reason(change: Change, bumps: bool) -> str:
    """Of several reasons the first one in the order of the table."""
    if change.is_new:
        return "MEMBER_JOINED" if bumps else "UNSUBSCRIBED_JOINED"
    if not bumps:
        return "HEARTBEAT" if change.regex is RegexChange.NONE else "REGEX_UNRESOLVED"
    if change.subscription:
        return "SUBSCRIPTION_CHANGED"
    return "ASSIGNOR_CHANGED" if change.elects_another else "METADATA_CHANGED"
