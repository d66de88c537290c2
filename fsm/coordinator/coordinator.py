"""The group coordinator as one value: groups and offsets, and their changes by requests, timers and metadata updates.

A request is one atomic step. `handle` returns the new state, the answers that are due and the records to store; with an
error answer the state is unchanged and there are no records. Timers do not run by themselves: `next_deadline_ms`
returns the next deadline, `handle_timer` executes due timers.

    coordinator = Coordinator()
    step = handle(coordinator, request, context)
    step.state, step.answers, step.records

Source: `GroupCoordinatorShard` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from fsm.coordinator.classic import join as classic_join
from fsm.coordinator.classic import requests as classic_requests
from fsm.coordinator.classic import responses as classic_group_responses
from fsm.coordinator.classic import timers as classic_group_timers
from fsm.coordinator.consumer import heartbeat as consumer
from fsm.coordinator.consumer import subscriptions
from fsm.coordinator.consumer.membership import find_sender
from fsm.coordinator.describe import describe_consumer_group
from fsm.coordinator.migration import classic_members
from fsm.coordinator.migration import conversion as migration
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroup,
    Resolution,
    new_group,
)
from fsm.coordinator.model.context import Context, Image
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import NO_GROUPS, Group, Groups
from fsm.coordinator.model.step import Answer, Refused, Request, ResponseBody, Step
from fsm.coordinator.model.timers import TimerKind
from fsm.coordinator.offsets import deletion, transactions
from fsm.coordinator.offsets import offsets as committed
from fsm.coordinator.offsets.offsets import NO_OFFSETS, Offsets, apply_offsets
from fsm.coordinator.offsets.transactions import NO_TRANSACTIONS, Transactions
from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from fsm.protocol.records import Record
from fsm.step import value
from fsm.tables.consumer_group_member import Event

LONG_AGO_MS = 0
"""Before every other deadline."""
NAMES_PROTOCOL_SINCE = 5
"""A SyncGroup of this version or later names its protocol."""


@value
class Coordinator:
    """The state of one coordinator."""

    groups: Groups = NO_GROUPS
    offsets: Offsets = NO_OFFSETS
    transactions: Transactions = NO_TRANSACTIONS
    """Offsets that wait for the end of a transaction."""
    topics_added_version: int = -1
    """Version of the last metadata image that brought new topics; -1 before the first update."""
    unstored: Groups = NO_GROUPS
    """Groups deleted without a record: descriptions show the stored groups, and so these until a record is written."""

    def with_group(self, group: Group) -> Coordinator:
        """The coordinator with this group added or replaced."""
        groups = self.groups.set(group)
        return Coordinator(groups, self.offsets, self.transactions, self.topics_added_version, self.unstored)

    def take(self, step: Step[Group]) -> Step[Coordinator]:
        """The coordinator's step from one group's."""
        groups = self.groups.set(step.state)
        after = Coordinator(groups, self.offsets, self.transactions, self.topics_added_version, self.unstored)
        return Step(after, step.answers, step.records, step.happened)

    def with_offsets(self, records: tuple[Record, ...]) -> Coordinator:
        """The coordinator with the offsets of these records, which are outside transactions."""
        offsets = apply_offsets(self.offsets, records)
        pending = transactions.pass_offsets(self.transactions, records)
        return Coordinator(self.groups, offsets, pending, self.topics_added_version, self.unstored)

    def without(self, group_id: str) -> Coordinator:
        """The coordinator without the group of this id, if there is one."""
        if group_id not in self.groups:
            return self
        unstored = self.unstored.set(self.groups[group_id])
        return replace(self, groups=self.groups.without(group_id), unstored=unstored)


def handle(state: Coordinator, request: Request, context: Context) -> Step[Coordinator]:
    """Handles one request. Raises `InputError` for a message that is no request of a group coordinator."""
    act = HANDLERS.get(type(request.body))
    if act is None:
        known = ", ".join(message.__name__ for message in HANDLERS)
        name = type(request.body).__name__
        raise InputError(f"not a request of the group coordinator: {name}", remedy=f"one of {known}")
    try:
        step = act(state, request, context)
    except Refused as refused:
        return Step(state, (Answer(request.token, refuse(request, refused.code, context, refused.message)),))
    return _show_unstored(step) if step.records else step


def refuse(request: Request, code: ErrorCode, context: Context, message: str = "") -> ResponseBody:
    """The error answer of the request's API."""
    body = request.body
    if isinstance(body, ConsumerGroupHeartbeatRequest):
        return consumer.refuse_heartbeat(code, message)
    if isinstance(body, OffsetCommitRequest | TxnOffsetCommitRequest):
        return committed.refuse_commit(request, code, context)
    if isinstance(body, OffsetFetchRequest):
        return OffsetFetchResponse(error_code=code)
    if isinstance(body, OffsetDeleteRequest):
        return OffsetDeleteResponse(code)
    return classic_group_responses.refuse(request, code)


def refuse_while_loading(request: Request, context: Context) -> ResponseBody:
    """The answer of a coordinator that still loads its log. A heartbeat of the classic protocol gets no error
    (`GroupCoordinatorService.heartbeat` of apache/kafka 4.4)."""
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if isinstance(request.body, HeartbeatRequest):
        code = ErrorCode.NONE
    elif isinstance(request.body, SyncGroupRequest) and Choice.LOADING_SYNC_JOINS_AGAIN in context.dialect:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return refuse(request, code, context, "the coordinator is loading")


def _show_unstored(step: Step[Coordinator]) -> Step[Coordinator]:
    """After a step with records, earlier changes without records are visible, too."""
    if step.state.unstored is NO_GROUPS:
        return step
    return step.with_state(replace(step.state, unstored=NO_GROUPS))


def _consumer_group_heartbeat(
    state: Coordinator, request: Request[ConsumerGroupHeartbeatRequest], context: Context
) -> Step[Coordinator]:
    sent, version = request.body, state.topics_added_version
    consumer.check_heartbeat(request, context)
    group: Group | None = state.groups.by_id.get(sent.group_id)
    joins = sent.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    step: Step[Group]
    if isinstance(group, ClassicGroup) and joins:
        step = migration.join_consumer(group, request, context, topics_added_version=version)
    elif isinstance(group, ConsumerGroup) and sent.member_epoch < JOIN_GROUP_MEMBER_EPOCH:
        step = _leave(group, request, context)
    elif isinstance(group, ConsumerGroup) or (group is None and joins):
        group = group or new_group(sent.group_id, context.dialect)
        step = consumer.heartbeat(group, request, context, topics_added_version=version)
    else:
        goes_on = sent.member_epoch > JOIN_GROUP_MEMBER_EPOCH
        is_unknown = goes_on and Choice.MEMBER_OF_NO_GROUP_IS_UNKNOWN in context.dialect
        code = ErrorCode.UNKNOWN_MEMBER_ID if is_unknown else ErrorCode.GROUP_ID_NOT_FOUND
        raise Refused(code, f"no consumer group {sent.group_id}")
    return state.take(step)


def _leave(group: ConsumerGroup, request: Request[ConsumerGroupHeartbeatRequest], context: Context) -> Step[Group]:
    sent = request.body
    member = find_sender(group, sent.member_id, sent.instance_id)  # epochs are not checked
    if sent.instance_id is not None and sent.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return consumer.leave_for_a_while(group, member, request, context)
    step = migration.remove(group, (member.member_id,), Event.LEFT, context)
    return step._replace(answers=(*step.answers, consumer.answer_leave(request, member.member_id)))


def _join_group(state: Coordinator, request: Request[JoinGroupRequest], context: Context) -> Step[Coordinator]:
    body = request.body
    if not body.group_id:
        raise Refused(ErrorCode.INVALID_GROUP_ID)
    classic_join.check_join(request, context)
    group: Group | None = state.groups.by_id.get(body.group_id)
    if not isinstance(group, ConsumerGroup):
        step: Step[Group] = classic_join.join(group, request, context)
    elif group.members:
        version = state.topics_added_version
        step = classic_members.join(group, request, context, topics_added_version=version)
    elif body.member_id and Choice.REFUSED_JOIN_KEEPS_GROUP in context.dialect:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    elif body.member_id:  # refused, but the group is gone from memory, not from the log
        refusal = classic_group_responses.refuse(request, ErrorCode.UNKNOWN_MEMBER_ID)
        return Step(state.without(body.group_id), (Answer(request.token, refusal),))
    else:
        step = classic_join.join(None, request, context).after(migration.end_empty_group(group, context))
    return state.take(step)


def _sync_group(state: Coordinator, request: Request[SyncGroupRequest], context: Context) -> Step[Coordinator]:
    """`KafkaApis.handleSyncGroupRequest` checks that the protocol is named, before it looks for the group."""
    unnamed = None in (request.body.protocol_type, request.body.protocol_name)
    if unnamed and request.version >= NAMES_PROTOCOL_SINCE:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a SyncGroup must name protocol type and protocol")
    return _of_classic_member(state, request, context, classic_requests.sync, classic_members.sync)


def _heartbeat(state: Coordinator, request: Request[HeartbeatRequest], context: Context) -> Step[Coordinator]:
    return _of_classic_member(state, request, context, classic_requests.heartbeat, classic_members.heartbeat)


def _leave_group(state: Coordinator, request: Request[LeaveGroupRequest], context: Context) -> Step[Coordinator]:
    return _of_classic_member(state, request, context, classic_requests.leave, classic_members.leave)


def _of_classic_member(
    state: Coordinator,
    request: Request[Any],
    context: Context,
    to_classic: Callable[[ClassicGroup | None, Request[Any], Context], Step[ClassicGroup | None]],
    to_consumer: Callable[[ConsumerGroup, Request[Any], Context], Step[Group]],
) -> Step[Coordinator]:
    group_id = request.body.group_id
    if not group_id:
        raise Refused(ErrorCode.INVALID_GROUP_ID)
    group: Group | None = state.groups.by_id.get(group_id)
    step: Step[Group | None]
    if isinstance(group, ConsumerGroup):
        step = to_consumer(group, request, context)
    else:
        step = to_classic(group, request, context)
    return step.with_state(state if step.state is None else state.with_group(step.state))


def _offset_commit(state: Coordinator, request: Request[OffsetCommitRequest], context: Context) -> Step[Coordinator]:
    group, records, body = committed.commit(state.groups.get(request.body.group_id), request, context)
    after = state if group is None else state.with_group(group)
    return Step(after.with_offsets(records), (Answer(request.token, body),), records)


def _txn_offset_commit(
    state: Coordinator, request: Request[TxnOffsetCommitRequest], context: Context
) -> Step[Coordinator]:
    group_id, producer_id = request.body.group_id, request.body.producer_id
    if not group_id:
        raise Refused(ErrorCode.INVALID_GROUP_ID)
    group, records, body = committed.commit(state.groups.get(group_id), request, context)
    after = state if group is None else state.with_group(group)
    pending = transactions.add_offsets(state.transactions, records, producer_id)
    answers = (Answer(request.token, body),)
    return Step(replace(after, transactions=pending), answers, records, producer_id=producer_id if records else None)


def end_transaction(state: Coordinator, producer_id: int, *, committed: bool) -> Coordinator:
    """Ends the producer's transaction after its control record: pending offsets are committed or dropped."""
    left, records = transactions.end(state.transactions, producer_id, committed=committed)
    return replace(state, transactions=left, offsets=apply_offsets(state.offsets, records))


def _offset_fetch(state: Coordinator, request: Request[OffsetFetchRequest], context: Context) -> Step[Coordinator]:
    body = committed.fetch(state.groups, state.offsets, request, context, state.transactions)
    return Step(state, (Answer(request.token, body),))


def _delete_groups(state: Coordinator, request: Request[DeleteGroupsRequest], context: Context) -> Step[Coordinator]:
    ids, records, body = deletion.delete_groups(state.groups, state.offsets, request, context, state.transactions)
    after = replace(state, groups=state.groups.without(*ids)).with_offsets(records)
    return Step(after, (Answer(request.token, body),), records)


def _offset_delete(state: Coordinator, request: Request[OffsetDeleteRequest], context: Context) -> Step[Coordinator]:
    group_id = request.body.group_id
    pending = transactions.find_pending(state.transactions.get(group_id, transactions.NONE_OPEN))
    known = {*state.offsets.get(group_id, committed.NONE_COMMITTED), *pending}
    records, body = deletion.delete_offsets(state.groups.get(group_id), known, request, context)
    return Step(state.with_offsets(records), (Answer(request.token, body),), records)


HANDLERS: Mapping[type[Any], Callable[[Coordinator, Request, Context], Step[Coordinator]]] = {
    ConsumerGroupHeartbeatRequest: _consumer_group_heartbeat,
    JoinGroupRequest: _join_group,
    SyncGroupRequest: _sync_group,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave_group,
    OffsetCommitRequest: _offset_commit,
    TxnOffsetCommitRequest: _txn_offset_commit,
    OffsetFetchRequest: _offset_fetch,
    OffsetDeleteRequest: _offset_delete,
    DeleteGroupsRequest: _delete_groups,
}


def next_deadline_ms(state: Coordinator) -> int | None:
    """The next deadline; None without a timer."""
    return state.groups.next_deadline_ms()


def handle_timer(state: Coordinator, context: Context) -> Step[Coordinator]:
    """Executes all timers due at `now_ms`, the earliest first; the steps of all of them as one."""
    done = Step(state)
    while (due := done.state.groups.next_due(context.now_ms)) is not None:
        step = _expire(due, context)
        done = done.state.take(step).after(done)
    return _show_unstored(done) if done.records else done


def expire_member(state: Coordinator, group_id: str, member_id: str, context: Context) -> Step[Coordinator]:
    """Ends the session of this member now, and no other timer; does nothing without a session."""
    group: Group | None = state.groups.get(group_id)
    if isinstance(group, ClassicGroup) and member_id in group.heartbeat_deadlines_ms:
        group = replace(group, heartbeat_deadlines_ms=group.heartbeat_deadlines_ms.set(member_id, LONG_AGO_MS))
    elif isinstance(group, ConsumerGroup) and (TimerKind.SESSION, member_id) in group.timers:
        group = replace(group, timers=group.timers.set((TimerKind.SESSION, member_id), LONG_AGO_MS))
    else:
        return Step(state)
    return state.take(_expire(group, context))


def _expire(group: Group, context: Context) -> Step[Group]:
    if isinstance(group, ClassicGroup):
        return classic_group_timers.expire(group, context)
    key = kind, member_id = group.timers.earliest()
    epoch = group.timers.epoch(key)
    group = replace(group, timers=group.timers.without(key))
    if not consumer.is_removed_by(group, kind, member_id, epoch):
        return Step(group)
    return migration.remove(group, (member_id,), consumer.EXPIRED[kind], context)


def resolutions(state: Coordinator) -> dict[str, Resolution]:
    """The running resolutions of background tasks, by group."""
    groups = ((group_id, state.groups[group_id]) for group_id in sorted(state.groups.resolving))
    return {i: group.resolution for i, group in groups if isinstance(group, ConsumerGroup) and group.resolution}


def find_deadlines_ms(state: Coordinator, context: Context) -> tuple[int, ...]:
    """The instants at which decisions on requests change although no timer expires.

    They are the end of a group's assignment interval, and the instants from which its regular expressions may be
    resolved again.
    """
    groups = [group for group in state.groups.values() if isinstance(group, ConsumerGroup)]
    due = [group.target_time_ms + context.config.assignment_interval_ms(group.group_id) for group in groups]
    return (*due, *(turn for group in groups for turn in subscriptions.find_deadlines_ms(group, context)))


def handle_resolution(state: Coordinator, group_id: str, context: Context) -> Step[Coordinator]:
    """The background task of this group has ended. Does nothing without a running one."""
    return _end_resolution(state, group_id, context, subscriptions.finish_resolution)


def handle_failed_resolution(state: Coordinator, group_id: str, context: Context) -> Step[Coordinator]:
    """The background task of this group has failed: no record is written, old results stay, and a request may start it
    again. Does nothing without a running one.
    """
    return _end_resolution(state, group_id, context, subscriptions.fail_resolution)


def _end_resolution(
    state: Coordinator, group_id: str, context: Context, end: Callable[[ConsumerGroup, Context], Step[ConsumerGroup]]
) -> Step[Coordinator]:
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or group.resolution is None:
        return Step(state)
    step = end(group, context)
    return state.take(step)


def change_image(state: Coordinator, before: Image, context: Context) -> Coordinator:
    """Updates the broker's metadata: affected consumer groups check it at their next heartbeat; classic ones in `fixed`
    rebalance at once (F45).
    """
    old, new = before.topics, context.image.topics
    names = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    added = any(_id(new.get(name)) not in {None, _id(old.get(name))} for name in names)
    if added or state.topics_added_version < 0:
        state = replace(state, topics_added_version=context.image.version)
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            state = state.with_group(subscriptions.note_changed_topics(group, names, context))
        else:
            state = state.with_group(classic_group_timers.note_changed_topics(group, names, context))
    return state


def delete_topics(state: Coordinator, names: Iterable[str]) -> Step[Coordinator]:
    """Deletes the offsets of deleted topics, in every group."""
    gone = tuple(names)
    pending = transactions.find_pending_of_topics(state.transactions, gone)
    ends = (record for group_id, place in pending for record in committed.tombstones(group_id, (place,)))
    records = (*committed.end_offsets_of_topics(state.offsets, gone), *ends)
    return Step(state.with_offsets(records), (), records)


def clean_up(state: Coordinator, context: Context) -> Step[Coordinator]:
    """The cleanup that a broker runs every ten minutes: unused offsets expire, groups without members and offsets are
    deleted.
    """
    done = Step(state)
    for group_id, group in state.groups.items():
        pending = state.transactions.get(group_id, transactions.NONE_OPEN)
        of_group = state.offsets.get(group_id, committed.NONE_COMMITTED)
        records, ends = deletion.expire_offsets(group, of_group, context, pending)
        after = done.state.with_offsets(records)
        after = replace(after, groups=after.groups.without(group_id)) if ends else after
        done = Step(after, (), records).after(done)
    return done


def _id(topic: Any) -> str | None:
    return None if topic is None else topic.topic_id


def describe(state: Coordinator, group_id: str, context: Context) -> DescribedConsumerGroup | DescribedGroup | None:
    """The group's description as in the describe APIs; None for an unknown group."""
    group = state.groups.get(group_id, state.unstored.get(group_id))
    if isinstance(group, ClassicGroup):
        return classic_group_responses.describe(group)
    return None if group is None else describe_consumer_group(group, context)
