"""Bugs of coordinators: reconciliation, the ledger of partitions, the checks of requests, groups that change type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from bugzoo.planting import Patches, cure, plant
from fsm.check.mutation import replace_function
from fsm.coordinator.assignors import PartitionAssignorError, make_assignors, uniform_assignor
from fsm.coordinator.consumer import heartbeat, member_update, membership, reconciliation, subscriptions
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft
from fsm.coordinator.migration import classic_members, conversion
from fsm.coordinator.model import consumer_group
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import FREE, ConsumerGroup, GroupMember
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Refused
from fsm.coordinator.offsets import offsets
from fsm.coordinator.storage.replay import _Replay
from fsm.protocol.consumer_protocol import decode_assignment, encode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.records import RecordType
from fsm.tables.classic_group import Event as ClassicEvent


@plant("KAFKA-16249")
def a_new_target_before_the_report() -> Patches:
    """A newer target is computed while a revocation waits for its report, and the report is not looked at."""

    def unrevoked(original: Any, member: Any, given: Any) -> Any:
        if given.target_epoch > member.epoch + 1:
            return reconciliation._compute(member, given._replace(owned=None), member.epoch)
        return original(member, given)

    return [replace_function(reconciliation._reconcile_unrevoked, unrevoked)]


@plant("KAFKA-16147")
def a_partition_given_back_is_free() -> Patches:
    """Assigned partitions are registered before the pending ones of before are taken out."""

    def register(_original: Any, holders: Any, old: GroupMember | None, new: GroupMember | None) -> Any:
        found = dict(holders)
        for member, side in ((old, "assigned"), (new, "assigned"), (old, "pending"), (new, "pending")):
            for partition, _ in () if member is None else getattr(member.current, side):
                if member is new and new is not None:
                    found[partition] = new.current.epoch
                else:
                    found.pop(partition, None)
        return consumer_group.PersistentMap(found)

    return [replace_function(consumer_group._register, register)]


@plant("KAFKA-19449")
def the_own_pending_ones_block() -> Patches:
    def find(_original: Any, _member: Any, given: Any, wanted: Any) -> Any:
        return [partition for partition in wanted if given.partition_epoch(*partition) == FREE]

    return [replace_function(reconciliation._find_granted, find)]


@plant("KAFKA-16367")
def a_full_request_is_like_any_other() -> Patches:
    def subscribes(original: Any, sent: Any) -> Any:
        return sent.member_epoch <= 0 and original(sent)

    return [replace_function(heartbeat._subscribes, subscribes)]


@plant("kafka-PR-18061")
def a_pattern_makes_no_full_request() -> Patches:
    def subscribes(original: Any, sent: Any) -> bool:
        return bool(original(sent)) if sent.member_epoch == 0 else bool(sent.subscribed_topic_names)

    return [replace_function(heartbeat._subscribes, subscribes)]


@plant("KAFKA-19233")
def epoch_zero_is_fenced() -> Patches:
    def check(original: Any, member: Any, received: int, owned: Any, dialect: Any) -> None:
        original(member, received, owned, dialect.without_choices(Choice.EPOCH_ZERO_ALWAYS_PASSES))

    return [replace_function(membership.check_epoch, check)]


@plant("KAFKA-18095")
def nobody_joins_without_a_topic() -> Patches:
    def check(original: Any, sent: Any, context: Context) -> None:
        original(sent, unlike(context, Choice.CLIENT_MAKES_MEMBER_ID))

    return [replace_function(heartbeat._check_joining, check)]


@plant("KAFKA-20442")
def an_emptied_group_keeps_its_target_epoch() -> Patches:
    return [replace_function(ConsumerGroupDraft.level_target_epoch, lambda _original, _draft: None)]


def unlike(context: Context, choice: Choice) -> Context:
    """The context of a coordinator whose dialect lacks a choice."""
    return replace(context, dialect=context.dialect.without_choices(choice))


@plant("KAFKA-20066")
def only_the_newest_epoch_commits() -> Patches:
    def check(original: Any, *asked: Any, too_old: bool) -> None:
        *commit, context = asked
        original(*commit, unlike(context, Choice.ASSIGNMENT_EPOCHS), too_old=too_old)

    return [replace_function(offsets._check_commit, check)]


@plant("KAFKA-18916")
def resolved_topics_are_not_looked_at() -> Patches:
    def note(original: Any, group: Any, names: Iterable[str], context: Context) -> Any:
        return group if group.members.patterns else original(group, names, context)

    return [replace_function(subscriptions.note_changed_topics, note)]


# Groups that change their type


@plant("KAFKA-17733")
def who_has_not_synced_has_no_assignment_to_read() -> Patches:
    def last(original: Any, member: Any, context: Context) -> Any:
        return original(member, unlike(context, Choice.UPGRADE_ACCEPTS_EMPTY_ASSIGNMENT))

    return [replace_function(conversion._last_assignment, last)]


@plant("KAFKA-20640")
def a_classic_member_may_join_all_the_same() -> Patches:
    def join(original: Any, group: Any, request: Any, context: Context, topics_added_version: int) -> Any:
        return original(group, request, unlike(context, Choice.DISABLED_REFUSES_CLASSIC_JOIN), topics_added_version)

    return [replace_function(classic_members._join, join)]


@plant("KAFKA-17228")
def a_classic_holder_has_to_leave_too() -> Patches:
    def check(original: Any, holder: GroupMember) -> None:
        original(replace(holder, metadata=replace(holder.metadata, classic_member_metadata=None)))

    return [replace_function(membership.check_released, check)]


@plant("KAFKA-17317")
def nobody_looks_whether_classic_members_are_left() -> Patches:
    return [replace_function(classic_members._find_replaced, lambda _original, *_: None)]


@plant("KAFKA-19546")
def what_the_successor_subscribes_to_is_not_compared() -> Patches:
    def downgrade(original: Any, draft: Any, joiner: Any, replaced_id: str, _event: Any) -> Any:
        return original(draft, joiner, replaced_id, ClassicEvent.DOWNGRADED_BY_REPLACEMENT)

    return [replace_function(conversion.downgrade_by_replacement, downgrade)]


@plant("KAFKA-20273")
def a_target_that_is_due_is_not_looked_at() -> Patches:
    def join(original: Any, group: Any, request: Any, context: Context, topics_added_version: int) -> Any:
        older = context.dialect.without_choices(Choice.REPLACEMENT_REBALANCES_IF_STALE)
        context = replace(context, dialect=older.with_choices(Choice.REPLACEMENT_REBALANCES_IF_BUMPED))
        return original(group, request, context, topics_added_version)

    return [replace_function(classic_members._join, join)]


@plant("KAFKA-19720")
def the_pattern_outlives_who_had_it() -> Patches:
    def update(original: Any, before: Any, joiner: Any, subscription: Any, context: Context) -> Any:
        return original(before, joiner, subscription, unlike(context, Choice.CLASSIC_REPLACEMENT_CLEARS_REGEX))

    return [replace_function(classic_members._update, update)]


@plant("KAFKA-20272")
def who_is_behind_the_group_joins_again() -> Patches:
    def behind(original: Any, group: Any, member: Any, dialect: Any) -> Any:
        return original(group, member, dialect.without_choices(Choice.CLASSIC_REJOINS_BEHIND_TARGET))

    return [replace_function(classic_members._is_behind, behind)]


@plant("KAFKA-18134")
def what_an_assignor_keeps_is_thrown_away() -> Patches:
    def last(original: Any, member: Any, context: Context) -> Any:
        if not member.assignment:
            return original(member, context)
        bare = replace(decode_assignment(member.assignment), user_data=None)
        return original(replace(member, assignment=encode_assignment(bare)), context)

    return [replace_function(conversion._last_assignment, last)]


@plant("KAFKA-16832")
def who_is_in_a_consumer_group_leaves_in_vain() -> Patches:
    def leaver(_original: Any, *_: Any) -> Any:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)

    return [replace_function(classic_members._leaver, leaver)]


@plant("KAFKA-16861")
def a_classic_group_may_be_too_large() -> Patches:
    def may(_original: Any, _size: int, context: Context) -> bool:
        return conversion.policy(context) in conversion.DOWNGRADES

    return [replace_function(conversion.may_downgrade, may)]


# Subscriptions, static members, assignors


@plant("KAFKA-18688")
def the_first_members_have_one_more() -> Patches:
    def make(original: Any, dialect: Any, *order: Any) -> Any:
        return original(dialect.without_choices(Choice.EXTRA_SLOT_STAYS), *order)

    return [replace_function(make_assignors, make)]


@plant("KAFKA-16930")
def every_member_subscribes_to_a_topic() -> Patches:
    def assign(original: Any, group: Any, **named: Any) -> Any:
        if not group.homogeneous and any(not one.subscribed for one in group.members.values()):
            raise PartitionAssignorError("a member has no assignment")
        return original(group, **named)

    return [replace_function(uniform_assignor, assign)]


@plant("KAFKA-19431")
def a_topic_that_is_dropped_stays_assigned() -> Patches:
    def update(original: Any, draft: Any, *given: Any, **named: Any) -> Any:
        draft.context = unlike(draft.context, Choice.SUBSCRIPTION_FILTERS_TARGET)
        return original(draft, *given, **named)

    return [replace_function(member_update.update_member, update)]


@plant("KAFKA-20601")
def a_full_group_refuses_its_own() -> Patches:
    def check(original: Any, group: Any, member_id: str, instance_id: Any, context: Context) -> None:
        original(group, member_id, instance_id, unlike(context, Choice.KNOWN_INSTANCE_EXEMPT_FROM_SIZE))

    return [replace_function(membership.check_size, check)]


@cure("kafka-PR-23542")
def a_member_that_joins_again_is_no_other_one() -> Patches:
    def find(original: Any, draft: Any, sent: Any, member_id: str) -> Any:
        holder = draft.stored.members.static.get(sent.instance_id)
        if holder != member_id or sent.member_epoch != 0:
            return original(draft, sent, member_id)
        return draft.stored.members[member_id]

    return [replace_function(heartbeat._find_sender, find)]


# Logs


@plant("kafka-PR-2436")
def offsets_are_not_loaded() -> Patches:
    def take(original: Any, found: Any, at: int, record: Any) -> None:
        if record.key.type is not RecordType.OFFSET_COMMIT:
            original(found, at, record)

    return [replace_function(_Replay.take, take)]


def refuses(taken: Callable[..., Any], is_wrong: Callable[[Any, Any], bool]) -> Patches:
    """A replay fails on a record; `is_wrong` is asked of the group as far as it is known, and of the record's key."""

    def take(original: Any, found: Any, key: Any, value: Any) -> None:
        if is_wrong(found.state.groups.get(key.group_id), (key, value)):
            raise ValueError(f"no place for {key}")
        original(found, key, value)

    return [replace_function(taken, take)]


@plant("KAFKA-17306")
def a_tombstone_needs_what_it_ends() -> Patches:
    def is_wrong(group: Any, record: Any) -> bool:
        key, value = record
        members = group.members.by_id if isinstance(group, ConsumerGroup) else {}
        return value is None and getattr(key, "member_id", "") not in {"", *members}

    return refuses(_Replay._take_consumer, is_wrong)


@plant("KAFKA-19862")
def a_partition_has_one_epoch_all_the_time() -> Patches:
    """A record that takes or releases a partition fails where another member has it."""

    def remark(_original: Any, _found: Any, group: Any, before: Any, after: Any) -> None:
        for place in sorted(before.current.held ^ after.held):
            known = before.epoch if place in before.current.held else FREE
            if group.members.partition_epoch(*place) != known:
                raise ValueError(f"{place} is not at epoch {known}")

    return [replace_function(_Replay._remark_mismatch, remark)]


@plant("KAFKA-21117")
def a_classic_group_makes_way_for_no_consumer_group() -> Patches:
    def is_other(group: Any, _record: Any) -> bool:
        return isinstance(group, ClassicGroup) and not group.is_simple

    return refuses(_Replay._take_consumer, is_other)


@plant("KAFKA-20254")
def a_group_of_offsets_makes_way_for_none() -> Patches:
    return refuses(_Replay._take_consumer, lambda group, _: isinstance(group, ClassicGroup))


@plant("kafka-PR-16145")
def a_classic_member_has_an_epoch() -> Patches:
    """A classic member of a consumer group that commits in an old generation is told of a stale epoch."""

    def stale(_original: Any, member: GroupMember, epoch: int) -> Refused:
        return Refused(ErrorCode.STALE_MEMBER_EPOCH, f"epoch {epoch}, but {member.member_id} is at {member.epoch}")

    return [replace_function(offsets._stale, stale)]


@plant("KAFKA-20268")
def a_group_begins_with_epoch_zero() -> Patches:
    """Who joins before the first target is computed gets epoch 0, that of members that join."""

    def begin(original: Any, group_id: str, dialect: Any) -> ConsumerGroup:
        group: ConsumerGroup = original(group_id, dialect)
        return replace(group, epoch=0, target_epoch=0)

    def is_due(original: Any, group: Any, group_epoch: int, context: Context) -> bool:
        return group_epoch > 1 and bool(original(group, group_epoch, context))

    return [
        replace_function(consumer_group.new_group, begin),
        replace_function(member_update.is_target_due, is_due),
    ]


@plant("KAFKA-4704")
def a_group_with_offsets_has_no_end() -> Patches:
    """A replay fails on the tombstone of a classic group whose offsets it has read."""

    def take(original: Any, found: Any, group_id: str, value: Any) -> None:
        if value is None and found.state.offsets.get(group_id):
            raise ValueError("unexpected unload of a group")
        original(found, group_id, value)

    return [replace_function(_Replay._take_classic, take)]
