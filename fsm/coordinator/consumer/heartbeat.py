"""ConsumerGroupHeartbeat to a consumer group: join, stay, leave; and the removal of expired members.

Source: KIP-848; `GroupCoordinatorService.consumerGroupHeartbeat` and `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter

from fsm.coordinator.consumer import membership
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft, open_group
from fsm.coordinator.consumer.member_update import update_member
from fsm.coordinator.model.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroup,
    CurrentAssignment,
    GroupMember,
    new_member,
)
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Answer, Refused, Request, Step
from fsm.coordinator.model.subscribed_metadata import subscribed_metadata
from fsm.coordinator.model.timers import TimerKind
from fsm.protocol.assignment import TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest as Heartbeat
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse
from fsm.protocol.records import Member
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group_member import Event

ACCEPTED, CLIENT_MAKES_MEMBER_ID = Event.HEARTBEAT_ACCEPTED, Choice.CLIENT_MAKES_MEMBER_ID

# The request itself: the checks before the lookup of the group


def check_heartbeat(request: Request[Heartbeat], context: Context) -> None:
    """All checks without a group, in Kafka's order. Raises `Refused` for the first that fails."""
    sent, config, choices = request.body, context.config, context.dialect.choices
    epoch = sent.member_epoch
    if "consumer" not in config.group_coordinator_rebalance_protocols:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    # Before 4.0 the coordinator creates member ids; later it still does for version 0 of the request.
    client_makes_it = request.version >= 1 and CLIENT_MAKES_MEMBER_ID in choices
    needs_id = client_makes_it or epoch > 0 or epoch == LEAVE_GROUP_MEMBER_EPOCH
    ids = (sent.member_id if needs_id else None, sent.group_id, sent.instance_id, sent.rack_id)
    for name, text in zip(("MemberId", "GroupId", "InstanceId", "RackId"), ids, strict=True):
        if text is not None and not text.strip():
            raise _invalid(f"{name} must not be empty")
    if sent.subscribed_topic_regex is not None and Choice.REGEX_SUBSCRIPTIONS not in choices:
        raise _invalid("this release takes no subscription by regular expression")
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_joining(sent, context)
    if epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and sent.instance_id is None:
        raise _invalid("only a static member leaves for a while")
    if epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise _invalid("no such member epoch")
    if sent.server_assignor is not None and sent.server_assignor not in config.group_consumer_assignors:
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"no assignor {sent.server_assignor!r}")


def _check_joining(sent: Heartbeat, context: Context) -> None:
    """Raises `Refused` unless a joining member sends every field that a join needs."""
    if sent.rebalance_timeout_ms == -1:
        raise _invalid("a joining member must give its rebalance timeout")
    owned = sent.topic_partitions
    if owned is None or any(numbers for _, numbers in owned):
        raise _invalid("a joining member must own nothing")
    if CLIENT_MAKES_MEMBER_ID not in context.dialect.choices and not sent.subscribed_topic_names:
        raise _invalid("a joining member must subscribe to topics")
    if not _subscribes(sent):
        raise _invalid("a joining member must give its subscription")


def _subscribes(sent: Heartbeat) -> bool:
    return sent.subscribed_topic_names is not None or sent.subscribed_topic_regex is not None


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def refuse_heartbeat(code: ErrorCode, message: str) -> ConsumerGroupHeartbeatResponse:
    """The body of an error answer."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


# Joining and staying


def heartbeat(
    group: ConsumerGroup, request: Request[Heartbeat], context: Context, *, topics_added_version: int = 0
) -> Step[ConsumerGroup]:
    """A heartbeat of a member that joins or stays; the group is the stored one or, for a join, a new one.

    Raises `Refused` if a check fails; the group is then unchanged.
    """
    sent = request.body
    if group.members.by_id.get(sent.member_id) is None:
        membership.check_size(group, sent.member_id, sent.instance_id, context)
    joins = sent.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    draft = open_group(group, context)
    before = _find_sender(draft, sent, sent.member_id or request.fresh_id)
    after, owned = _update(before, request), sent.topic_partitions
    member = update_member(draft, before, after, owned, topics_added_version=topics_added_version)
    draft.take_member_row(member.current.state, ACCEPTED, member)
    # The full assignment after a join, after an answer that may have been lost, and after a change.
    is_full = sent.topic_partitions is not None and sent.rebalance_timeout_ms != -1 and _subscribes(sent)
    with_assignment = joins or is_full or before.current.assigned != member.current.assigned
    interval_ms = context.config.heartbeat_interval_ms(sent.group_id)
    assigned: TopicPartitions | None = member.assigned if with_assignment else None
    body = ConsumerGroupHeartbeatResponse(member.current.epoch, interval_ms, assigned, member_id=member.member_id)
    return draft.finish(Answer(request.token, body))


def _find_sender(draft: ConsumerGroupDraft, sent: Heartbeat, member_id: str) -> GroupMember:
    """The sender before the request: stored, blank, or the copy of the static member that it replaces."""
    group, dialect = draft.stored, draft.context.dialect
    joins = sent.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    if sent.instance_id is not None and joins:
        holder = membership.find_static_member(group, sent.instance_id)
        if holder is None:
            return membership.find_or_create_member(draft, member_id)
        if membership.is_itself(holder, member_id, dialect):
            return holder
        membership.check_released(holder)
        return membership.replace_static(draft, holder, member_id)
    member: GroupMember | None = group.members.by_id.get(member_id)
    if sent.instance_id is not None:
        member = membership.find_holder(group, member_id, sent.instance_id)
    elif member is None:
        return new_member(member_id) if joins else membership.find_member(group, member_id)
    if sent.member_epoch != member.current.epoch:
        membership.check_epoch(member, sent.member_epoch, sent.topic_partitions, dialect)
    return member


def _update(member: GroupMember, request: Request[Heartbeat]) -> GroupMember:
    """The member with the fields of the request; itself if nothing changes.

    A sender of consumer heartbeats becomes a member of the consumer protocol.
    """
    sent, old = request.body, member.metadata
    names, timeout_ms = sent.subscribed_topic_names, sent.rebalance_timeout_ms
    new = (
        old.instance_id if sent.instance_id is None else sent.instance_id,
        old.rack_id if sent.rack_id is None else sent.rack_id,
        request.client_id,
        request.client_host,
        old.subscribed_topic_names if names in (None, old.subscribed_topic_names) else tuple(sorted(set(names))),
        old.subscribed_topic_regex if sent.subscribed_topic_regex is None else sent.subscribed_topic_regex,
        old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        old.server_assignor if sent.server_assignor is None else sent.server_assignor,
        None,
    )
    if new == _get_fields(old):
        return member
    return GroupMember(member.member_id, Member(*new), member.current)


_get_fields = attrgetter(*(field.name for field in fields(Member)))


# Leaving


def answer_leave(request: Request[Heartbeat], member_id: str) -> Answer:
    """The answer to a heartbeat that leaves: with the epoch of the request."""
    return Answer(request.token, ConsumerGroupHeartbeatResponse(request.body.member_epoch, member_id=member_id))


def leave_for_a_while(
    group: ConsumerGroup, member: GroupMember, request: Request[Heartbeat], context: Context
) -> Step[ConsumerGroup]:
    """A static member leaves with epoch -2; its session timer continues.

    It has nothing pending any more, and the assignment epochs of its partitions become 0.
    """
    draft, now = open_group(group, context), member.current
    keeps_epochs = Choice.ASSIGNMENT_EPOCHS in context.dialect
    assigned = tuple((partition, 0) for partition, _ in now.assigned) if keeps_epochs else now.assigned
    away = CurrentAssignment(now.state, LEAVE_GROUP_STATIC_MEMBER_EPOCH, now.previous_epoch, assigned, ())
    gone = GroupMember(member.member_id, member.metadata, away)
    draft.set_member(gone)
    draft.take_member_row(now.state, Event.STATIC_LEFT, gone)
    draft.take_group_row(GroupEvent.STATIC_MEMBER_LEFT)
    return draft.finish(answer_leave(request, member.member_id))


def remove(group: ConsumerGroup, member_ids: Sequence[str], event: Event, context: Context) -> Step[ConsumerGroup]:
    """Removes these members by one event for all: the group epoch increases once. An empty set is no step."""
    if not member_ids:
        return Step(group)
    draft = open_group(group, context)
    gone = [group.members[member_id] for member_id in member_ids]
    for member in gone:
        draft.drop_member(member.member_id)
        draft.take_member_row(member.current.state, event, member)
    remaining = draft.members.patterns
    draft.unused_patterns = tuple(dict.fromkeys(m.pattern for m in gone if m.pattern and m.pattern not in remaining))
    draft.regexes = draft.regexes.without(*draft.unused_patterns)
    draft.seen_metadata = subscribed_metadata(draft.subscribed_names(), context)
    draft.take_group_row(GroupEvent.MEMBERS_REMOVED if draft.members else GroupEvent.LAST_MEMBERS_REMOVED)
    return draft.finish()


EXPIRED: Mapping[TimerKind, Event] = {
    TimerKind.SESSION: Event.SESSION_EXPIRED,
    TimerKind.REBALANCE: Event.REBALANCE_TIMEOUT_EXPIRED,
    TimerKind.JOIN: Event.JOIN_TIMEOUT_EXPIRED,
    TimerKind.SYNC: Event.SYNC_TIMEOUT_EXPIRED,
}


def is_removed_by(group: ConsumerGroup, kind: TimerKind, member_id: str, epoch: int) -> bool:
    """Whether an expired timer removes its member: not if the member is gone, or its epoch has changed since."""
    member = group.members.by_id.get(member_id)
    return member is not None and not (kind is TimerKind.REBALANCE and member.epoch != epoch)
