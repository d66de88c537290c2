"""Consumer heartbeats to a consumer group: join, stay, leave; and members whose time is over.

Source: sections 3.4 to 3.10 and 4 of the coordinator reference; `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fsm.coordinator.consumer.group_step import ConsumerGroupDraft, away
from fsm.coordinator.consumer.heartbeat_request import JOINING, Heartbeat, answer, is_full
from fsm.coordinator.consumer.member_update import change_of, progress
from fsm.coordinator.consumer.membership import (
    check_epoch,
    check_released,
    check_size,
    holder_of,
    joining_member,
    known_member,
    replace_static,
    static_member,
)
from fsm.coordinator.model.consumer_group import AWAY, ConsumerGroup, GroupMember
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Answer, Request, Step
from fsm.coordinator.model.subscribed_metadata import subscribed_metadata
from fsm.coordinator.model.timers import Timer, TimerKind
from fsm.protocol.assignment import TopicPartitions
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group_member import Event


def heartbeat(
    group: ConsumerGroup,
    request: Request,
    sent: Heartbeat,
    context: Context,
    *,
    topics_added_version: int = 0,
) -> Step[ConsumerGroup]:
    """A heartbeat that does not leave; the group is the stored one or, for a join, a fresh one.

    Raises `Refused` where a check fails; the group is then as it was.
    """
    check_size(group, sent.member_id, sent.instance_id, context)
    draft = ConsumerGroupDraft(group, context)
    before = _member(draft, sent, sent.member_id or request.fresh_id)
    is_new = before.member_id not in draft.members
    change = change_of(draft, before, _updated(before, request, sent), is_new=is_new)
    member = progress(draft, change, sent.topic_partitions, topics_added_version=topics_added_version)
    draft.on_member(member.current.state, Event.HEARTBEAT_ACCEPTED, member)
    return draft.done((_answer(request, sent, before, member, context),))


def _member(draft: ConsumerGroupDraft, sent: Heartbeat, member_id: str) -> GroupMember:
    """The member that speaks, as it was before: R4, R4' and R4'' of the reference."""
    group, dialect = draft.stored, draft.context.dialect
    joins = sent.member_epoch == JOINING
    if sent.instance_id is None:
        member = joining_member(draft, member_id) if joins else known_member(group, member_id)
        if member_id in group.members:
            check_epoch(member, sent.member_epoch, sent.topic_partitions, dialect)
        return member
    if not joins:
        member = holder_of(group, member_id, sent.instance_id)
        check_epoch(member, sent.member_epoch, sent.topic_partitions, dialect)
        return member
    holder = static_member(group, sent.instance_id)
    if holder is None:
        return joining_member(draft, member_id)
    check_released(holder)
    return replace_static(draft, holder, member_id)


def _updated(member: GroupMember, request: Request, sent: Heartbeat) -> GroupMember:
    """With what the request says; whoever sends consumer heartbeats speaks the consumer protocol."""
    old = member.metadata
    new = replace(
        old,
        instance_id=_said(sent.instance_id, old.instance_id),
        rack_id=_said(sent.rack_id, old.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=_names(sent.subscribed_topic_names, old.subscribed_topic_names),
        subscribed_topic_regex=_said(sent.subscribed_topic_regex, old.subscribed_topic_regex),
        rebalance_timeout_ms=old.rebalance_timeout_ms if sent.rebalance_timeout_ms == -1 else sent.rebalance_timeout_ms,
        server_assignor=_said(sent.server_assignor, old.server_assignor),
        classic_member_metadata=None,
    )
    return member if new == old else replace(member, metadata=new)


def _names(new: tuple[str, ...] | None, old: tuple[str, ...]) -> tuple[str, ...]:
    return old if new is None or new == old else tuple(sorted(set(new)))


def _said(new: str | None, old: str | None) -> str | None:
    return old if new is None else new


def _answer(request: Request, sent: Heartbeat, before: GroupMember, member: GroupMember, context: Context) -> Answer:
    """With the whole assignment for a join, a full request, or where it changed."""
    tells = sent.member_epoch == JOINING or is_full(sent) or before.current.assigned != member.current.assigned
    interval_ms = context.config.heartbeat_interval_ms(sent.group_id)
    assigned: TopicPartitions | None = member.assigned if tells else None
    return answer(request, member.member_id, member.epoch, interval_ms, assigned)


def leaving_member(group: ConsumerGroup, sent: Heartbeat) -> GroupMember:
    """Who leaves. Raises `Refused` where there is no such member; epochs are not looked at."""
    if sent.instance_id is None:
        return known_member(group, sent.member_id)
    return holder_of(group, sent.member_id, sent.instance_id)


def leave_for_a_while(
    group: ConsumerGroup, member: GroupMember, request: Request, context: Context
) -> Step[ConsumerGroup]:
    """A static member goes with epoch -2; its session goes on."""
    draft = ConsumerGroupDraft(group, context)
    gone = away(member, Choice.ASSIGNMENT_EPOCHS in context.dialect)
    draft.keep(gone)
    draft.on_member(member.current.state, Event.STATIC_LEFT, gone)
    draft.on_group(GroupEvent.STATIC_MEMBER_LEFT)
    return draft.done((answer(request, member.member_id, AWAY),))


def remove(group: ConsumerGroup, member_ids: Sequence[str], event: Event, context: Context) -> Step[ConsumerGroup]:
    """These members are out, by one event for all: the group epoch moves once. Nobody at all is no step."""
    if not member_ids:
        return Step(group)
    draft = ConsumerGroupDraft(group, context)
    gone = [group.members[member_id] for member_id in member_ids]
    for member in gone:
        draft.remove_member_of(member.member_id)
        draft.on_member(member.current.state, event, member)
    remaining = draft.members.patterns
    draft.unused_patterns = tuple(dict.fromkeys(m.pattern for m in gone if m.pattern and m.pattern not in remaining))
    draft.regexes = draft.regexes.without(*draft.unused_patterns)
    draft.seen_metadata = subscribed_metadata(draft.subscribed_names(), context)
    draft.on_group(GroupEvent.MEMBERS_REMOVED if draft.members else GroupEvent.LAST_MEMBERS_REMOVED)
    return draft.done()


EXPIRED: Mapping[TimerKind, Event] = {
    TimerKind.SESSION: Event.SESSION_EXPIRED,
    TimerKind.REBALANCE: Event.REBALANCE_TIMEOUT_EXPIRED,
    TimerKind.JOIN: Event.JOIN_TIMEOUT_EXPIRED,
    TimerKind.SYNC: Event.SYNC_TIMEOUT_EXPIRED,
}


def expires(group: ConsumerGroup, kind: TimerKind, member_id: str, timer: Timer) -> bool:
    """Whether a timer that ran out removes its member: not one that is gone, or that went on from its epoch."""
    member = group.members.by_id.get(member_id)
    return member is not None and not (kind is TimerKind.REBALANCE and member.epoch != timer.epoch)
