"""JoinGroup to a consumer group that has members: the joiner becomes a member that speaks the classic protocol.

The checks run in Kafka's order (J0 to J10 of the reference). Where the joiner replaces the last static member of the
consumer protocol, the group ends as a consumer group in the same step.

Source: section 6.2 of the coordinator reference; `classicGroupJoinToConsumerGroup` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator import migration
from fsm.coordinator.classic_group_join import MEMBER_ID_REQUIRED_SINCE, offered
from fsm.coordinator.classic_members import ClassicGroupMember
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import Context
from fsm.coordinator.dialect import Choice
from fsm.coordinator.draft import Draft, draft_of
from fsm.coordinator.embedded import by_id, subscription_of
from fsm.coordinator.members import GroupMember
from fsm.coordinator.membership import check_size, holder_of, joining_member, replace_static, static_member
from fsm.coordinator.messages import Answer, Refused, Request
from fsm.coordinator.migration import Group
from fsm.coordinator.progress import change_of, progress, will_rebalance
from fsm.coordinator.records import ClassicMember
from fsm.coordinator.step import Step
from fsm.errors import RemoteProtocolError
from fsm.kafka.consumer_protocol import PROTOCOL_TYPE, Subscription
from fsm.kafka.error_codes import ErrorCode
from fsm.tables.classic_group import Event as ClassicEvent
from fsm.tables.consumer_group_member import Event

DOWNGRADE = {True: ClassicEvent.DOWNGRADED_BY_REPLACEMENT_STALE, False: ClassicEvent.DOWNGRADED_BY_REPLACEMENT}
"""By whether the classic group begins with a rebalance."""

COMPUTE_NOTHING = {Choice.REPLACEMENT_REBALANCES_IF_BUMPED, Choice.REPLACEMENT_REBALANCES_IF_STALE}
"""Where neither is in the dialect, a replacement goes all the way of a join before it ends the group."""


def join(group: ConsumerGroup, request: Request, context: Context, *, topics_added_version: int) -> Step[Group]:
    """The outcome; an error answer names no member."""
    try:
        return _join(group, request, context, topics_added_version)
    except Refused as refused:
        return Step(group, (Answer(request.token, answers.join_refusal(refused.code, "", request.version)),))


def _join(group: ConsumerGroup, request: Request, context: Context, topics_added_version: int) -> Step[Group]:
    _refuse_by_policy(context)
    body = request.body
    member_id, instance_id = body.get("member_id") or request.fresh_id, body.get("group_instance_id")
    check_size(group, member_id, instance_id, context)
    _refuse_strange_protocols(group, body)
    if not body.get("member_id") and instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
        refusal = answers.join_refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id, request.version)
        return Step(group, (Answer(request.token, refusal),))
    return _joined(group, request, offered(request, member_id), context, topics_added_version)


def _joined(
    group: ConsumerGroup, request: Request, joiner: ClassicGroupMember, context: Context, topics_added_version: int
) -> Step[Group]:
    subscription = _subscription(joiner, context)
    replaced = _replaced(group, joiner, context)
    draft = draft_of(group, context)
    before = _member(draft, request, joiner)
    after = _updated(before, joiner, subscription, context)
    is_new = before.member_id not in draft.group.members
    change = change_of(draft, before, after, is_new=is_new)
    ends = replaced is not None and not COMPUTE_NOTHING.isdisjoint(context.dialect.choices)
    owned = by_id(subscription.owned_partitions, context.image)
    member = progress(draft, change, owned, topics_added_version=topics_added_version, ends_group=ends)
    body = answers.joined_mixed(member.member_id, member.epoch, joiner.protocols[0].name)
    answer = Answer(request.token, body)
    if replaced is not None:
        rebalances = will_rebalance(draft, change, draft.group.epoch)
        step = migration.downgraded_by_replacement(draft, member, replaced, DOWNGRADE[rebalances])
        return step._replace(answers=(*step.answers, answer))
    draft.on_member(member.current.state, Event.CLASSIC_JOIN_STORED, member)
    done = draft.done((answer,))
    return done.leading_to(done.state)


# Checks


def _refuse_by_policy(context: Context) -> None:
    refuses = Choice.DISABLED_REFUSES_CLASSIC_JOIN in context.dialect
    if refuses and migration.policy(context) not in migration.POLICIES:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the migration of groups is disabled")


def _refuse_strange_protocols(group: ConsumerGroup, body: Mapping[str, Any]) -> None:
    """One listed protocol must be every classic member's; without classic members any will do."""
    supported, classic = group.members.protocols, group.members.classic
    names = [protocol["name"] for protocol in body.get("protocols") or ()]
    if body.get("protocol_type") != PROTOCOL_TYPE or all(supported.get(name, 0) != classic for name in names):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(joiner: ClassicGroupMember, context: Context) -> Subscription:
    """What the first listed protocol says. Raises `Refused` where it cannot be read."""
    try:
        return subscription_of(joiner.protocols[0].metadata)
    except RemoteProtocolError as problem:
        told = Choice.MALFORMED_SUBSCRIPTION_IS_INCONSISTENT in context.dialect
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if told else ErrorCode.UNKNOWN_SERVER_ERROR
        raise Refused(code, str(problem)) from None


# The joiner


def _member(draft: Draft, request: Request, joiner: ClassicGroupMember) -> GroupMember:
    """As it was before: stored, blank, or the copy of the static member whose place it takes."""
    if joiner.instance_id is None:
        return joining_member(draft, joiner.member_id)
    if request.body.get("member_id"):
        return holder_of(draft.stored, joiner.member_id, joiner.instance_id)
    holder = static_member(draft.stored, joiner.instance_id)
    return (
        joining_member(draft, joiner.member_id) if holder is None else replace_static(draft, holder, joiner.member_id)
    )


def _updated(
    before: GroupMember, joiner: ClassicGroupMember, subscription: Subscription, context: Context
) -> GroupMember:
    old = before.metadata
    clears = Choice.CLASSIC_REPLACEMENT_CLEARS_REGEX in context.dialect
    new = replace(
        old,
        instance_id=joiner.instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="" if clears else old.subscribed_topic_regex,
        rebalance_timeout_ms=old.rebalance_timeout_ms
        if joiner.rebalance_timeout_ms == -1
        else joiner.rebalance_timeout_ms,
        classic_member_metadata=ClassicMember(joiner.session_timeout_ms, joiner.protocols),
    )
    return replace(before, metadata=new)


# Downgrade by replacement


def _replaced(group: ConsumerGroup, joiner: ClassicGroupMember, context: Context) -> str | None:
    """The static member whose going leaves the classic ones among themselves, if the group may become classic."""
    holder_id = None if joiner.instance_id is None else group.members.static.get(joiner.instance_id)
    holder = None if holder_id is None else group.members.by_id.get(holder_id)
    if holder is None or holder.is_classic or group.members.classic != len(group.members) - 1:
        return None
    return holder.member_id if migration.may_downgrade(len(group.members), context) else None
