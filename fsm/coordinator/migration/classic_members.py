"""Classic members of a consumer group: their four requests, answered from the group's epochs and assignments.

They have no classic state. The generation of a classic member is its member epoch; it gets REBALANCE_IN_PROGRESS when
its epoch is old, when it must revoke partitions, or when partitions that it waits for are free. The coordinator
assigns: there is no leader, the answer to a join lists no members, and assignments that a client sends are ignored. If
a joining member replaces the last static member of the consumer protocol, the group is converted in the same step.

Source: KIP-848; `classicGroupJoinToConsumerGroup` and its siblings in `GroupMetadataManager` of apache/kafka, branch
4.4, with its order of checks.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from fsm.coordinator.classic import responses
from fsm.coordinator.classic.join import MEMBER_ID_REQUIRED_SINCE, member_of
from fsm.coordinator.classic.requests import identities
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft, open_group
from fsm.coordinator.consumer.member_update import update_member, will_rebalance
from fsm.coordinator.consumer.membership import (
    check_size,
    find_holder,
    find_member,
    find_or_create_member,
    find_sender,
    find_static_member,
    replace_static,
)
from fsm.coordinator.migration import conversion
from fsm.coordinator.migration.conversion import by_id, encode
from fsm.coordinator.model.classic_group import ClassicGroupMember
from fsm.coordinator.model.consumer_group import FREE, ConsumerGroup, GroupMember
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.step import Answer, Refused, Request, Step
from fsm.coordinator.model.timers import TimerKind
from fsm.errors import RemoteProtocolError
from fsm.protocol.assignment import flatten
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.protocol.records import ClassicMember
from fsm.tables.classic_group import Event as ClassicEvent
from fsm.tables.consumer_group_member import Event, State

COMPUTE_NOTHING = {Choice.REPLACEMENT_REBALANCES_IF_BUMPED, Choice.REPLACEMENT_REBALANCES_IF_STALE}
"""Without both of these choices a replacement executes the whole join before it ends the group."""


class Phase(Enum):
    """The phase of a classic group that a classic member of a consumer group is in; derived, never stored."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


def phase(group: ConsumerGroup, member: GroupMember, dialect: Dialect) -> Phase:
    """Whether the member must send SyncGroup, must rejoin after its next Heartbeat, or neither."""
    if (TimerKind.SYNC, member.member_id) in group.timers:
        return Phase.COMPLETING_REBALANCE
    return Phase.PREPARING_REBALANCE if must_rejoin(group, member, dialect) else Phase.STABLE


def must_rejoin(group: ConsumerGroup, member: GroupMember, dialect: Dialect) -> bool:
    """Whether a classic member needs an update that only a JoinGroup delivers."""
    state = member.current.state
    if _is_behind(group, member, dialect) or state is State.UNREVOKED_PARTITIONS:
        return True
    return state is State.UNRELEASED_PARTITIONS and _is_target_free(group, member)


def _is_behind(group: ConsumerGroup, member: GroupMember, dialect: Dialect) -> bool:
    among_themselves = group.members.classic == len(group.members)
    computes = among_themselves and Choice.CLASSIC_COMPUTES_TARGET in dialect
    by_target = Choice.CLASSIC_REJOINS_BEHIND_TARGET in dialect and not computes
    return member.epoch < (group.target_epoch if by_target else group.epoch)


def _is_target_free(group: ConsumerGroup, member: GroupMember) -> bool:
    assigned = dict(member.current.assigned)
    lacking = (partition for partition in flatten(group.targets.get(member.member_id, ())) if partition not in assigned)
    return all(group.members.partition_epoch(*partition) == FREE for partition in lacking)


# SyncGroup, Heartbeat, LeaveGroup


def sync(group: ConsumerGroup, request: Request[SyncGroupRequest], context: Context) -> Step[Group]:
    """The outcome of a SyncGroup. Raises `Refused` if a check fails."""
    if group.is_empty:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    body = request.body
    member, classic = _sender(group, body)
    protocol = classic.supported_protocols[0]
    for requested, real in ((body.protocol_type, PROTOCOL_TYPE), (body.protocol_name, protocol.name)):
        if requested is not None and requested != real:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    must_revoke = member.current.state is State.UNREVOKED_PARTITIONS
    if _is_behind(group, member, context.dialect) and not must_revoke:
        refusal = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return _answer(group, member, Event.CLASSIC_SYNC_REFUSED, Answer(request.token, refusal), context)
    assignment = encode(member.assigned, protocol.metadata, context.image)
    response = SyncGroupResponse(assignment, protocol_type=body.protocol_type, protocol_name=body.protocol_name)
    return _answer(group, member, Event.CLASSIC_SYNCED, Answer(request.token, response), context)


def heartbeat(group: ConsumerGroup, request: Request[HeartbeatRequest], context: Context) -> Step[Group]:
    """The outcome of a Heartbeat, which computes and writes nothing. Raises `Refused` if a check fails."""
    member, _ = _sender(group, request.body)
    if must_rejoin(group, member, context.dialect):
        response = HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS)
        return _answer(group, member, Event.CLASSIC_HEARTBEAT_REJOIN, Answer(request.token, response), context)
    return _answer(group, member, Event.CLASSIC_HEARTBEAT_OK, Answer(request.token, HeartbeatResponse()), context)


def _sender(group: ConsumerGroup, body: SyncGroupRequest | HeartbeatRequest) -> tuple[GroupMember, ClassicMember]:
    member = find_sender(group, body.member_id, body.group_instance_id)
    classic = _classic(member)
    if body.generation_id != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    return member, classic


def _classic(member: GroupMember) -> ClassicMember:
    """The member's classic metadata. Raises `Refused` for a member of the consumer protocol."""
    classic = member.metadata.classic_member_metadata
    if classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member.member_id} does not speak the classic protocol")
    return classic


def _answer(group: ConsumerGroup, member: GroupMember, event: Event, answer: Answer, context: Context) -> Step[Group]:
    draft = open_group(group, context)
    draft.take_member_row(member.current.state, event, member)
    return draft.finish(answer)


def leave(group: ConsumerGroup, request: Request[LeaveGroupRequest], context: Context) -> Step[Group]:
    """The outcome of a LeaveGroup: all valid members of the batch leave in one step, of either protocol."""
    gone: list[str] = []
    entries: list[MemberResponse] = []
    for member_id, instance_id, _ in identities(request):
        try:
            gone.append(_leaver(group, member_id, instance_id, context.dialect))
            entries.append(MemberResponse(member_id, instance_id))
        except Refused as refused:
            entries.append(MemberResponse(member_id, instance_id, refused.code))
    step = conversion.remove(group, gone, Event.LEFT, context)
    return step._replace(
        answers=(*step.answers, Answer(request.token, responses.leave_response(entries, request.version)))
    )


def _leaver(group: ConsumerGroup, member_id: str, instance_id: str | None, dialect: Dialect) -> str:
    """The member of an entry; an instance id without a member id is an administrator's removal of a static member."""
    if instance_id is None or member_id:
        member = find_sender(group, member_id, instance_id)
    else:
        member = find_static_member(group, instance_id) or find_member(group, "")
    if Choice.LEAVE_GROUP_REMOVES_ANY not in dialect:
        _classic(member)
    return member.member_id


# JoinGroup


def join(
    group: ConsumerGroup, request: Request[JoinGroupRequest], context: Context, *, topics_added_version: int
) -> Step[Group]:
    """The outcome of a JoinGroup to a group with members; an error answer has no member id."""
    try:
        return _join(group, request, context, topics_added_version)
    except Refused as refused:
        return Step(group, (Answer(request.token, responses.refuse_join(refused.code, "", request.version)),))


def _join(
    group: ConsumerGroup, request: Request[JoinGroupRequest], context: Context, topics_added_version: int
) -> Step[Group]:
    body = request.body
    policy_refuses = Choice.DISABLED_REFUSES_CLASSIC_JOIN in context.dialect
    if policy_refuses and conversion.policy(context) not in conversion.POLICIES:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the migration of groups is disabled")
    member_id = body.member_id or request.fresh_id
    check_size(group, member_id, body.group_instance_id, context)
    _refuse_strange_protocols(group, body)
    if not body.member_id and body.group_instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
        refusal = responses.refuse_join(ErrorCode.MEMBER_ID_REQUIRED, member_id, request.version)
        return Step(group, (Answer(request.token, refusal),))
    joiner = member_of(request, member_id)
    subscription = _subscription(joiner, context)
    replaced = _find_replaced(group, joiner, context)
    draft = open_group(group, context)
    before = _before(draft, body, joiner)
    after = _update(before, joiner, subscription, context)
    ends = replaced is not None and not COMPUTE_NOTHING.isdisjoint(context.dialect.choices)
    owned, generation = by_id(subscription.owned_partitions, context.image), subscription.generation_id
    was_removed = generation > 0 and body.member_id and joiner.instance_id is None
    if was_removed and member_id not in group.members.by_id and Choice.REMOVED_MEMBER_IS_UNKNOWN in context.dialect:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} was removed")
    version = topics_added_version
    member = update_member(draft, before, after, owned, topics_added_version=version, ends_group=ends)
    response = JoinGroupResponse(member.epoch, PROTOCOL_TYPE, joiner.protocols[0].name, member_id=member.member_id)
    answers = (Answer(request.token, response),)
    if replaced is None:
        draft.take_member_row(member.current.state, Event.CLASSIC_JOIN_STORED, member)
        return draft.finish(*answers)
    stale = will_rebalance(draft, draft.epoch)
    event = ClassicEvent.DOWNGRADED_BY_REPLACEMENT_STALE if stale else ClassicEvent.DOWNGRADED_BY_REPLACEMENT
    step = conversion.downgrade_by_replacement(draft, member, replaced, event)
    return step._replace(answers=(*step.answers, *answers))


def _refuse_strange_protocols(group: ConsumerGroup, body: JoinGroupRequest) -> None:
    """All classic members must have one of the listed protocols; without classic members any is accepted."""
    supported, classic = group.members.protocols, group.members.classic
    fits = any(supported.get(protocol.name, 0) == classic for protocol in body.protocols)
    if body.protocol_type != PROTOCOL_TYPE or not fits:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(joiner: ClassicGroupMember, context: Context) -> Subscription:
    """The subscription of the first listed protocol. Raises `Refused` if it cannot be decoded."""
    try:
        return decode_subscription(joiner.protocols[0].metadata)
    except RemoteProtocolError as problem:
        is_inconsistent = Choice.MALFORMED_SUBSCRIPTION_IS_INCONSISTENT in context.dialect
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_inconsistent else ErrorCode.UNKNOWN_SERVER_ERROR
        raise Refused(code, str(problem)) from None


def _find_replaced(group: ConsumerGroup, joiner: ClassicGroupMember, context: Context) -> str | None:
    """The replaced static member, if only classic members remain without it and the group may become classic."""
    holder_id = None if joiner.instance_id is None else group.members.static.get(joiner.instance_id)
    holder = None if holder_id is None else group.members.by_id.get(holder_id)
    if holder is None or holder.is_classic or group.members.classic != len(group.members) - 1:
        return None
    return holder.member_id if conversion.may_downgrade(len(group.members), context) else None


def _before(draft: ConsumerGroupDraft, body: JoinGroupRequest, joiner: ClassicGroupMember) -> GroupMember:
    """The joining member before the request: stored, blank, or the copy of the static member that it replaces."""
    if joiner.instance_id is None:
        return find_or_create_member(draft, joiner.member_id)
    if body.member_id:
        return find_holder(draft.stored, joiner.member_id, joiner.instance_id)
    holder = find_static_member(draft.stored, joiner.instance_id)
    if holder is None:
        return find_or_create_member(draft, joiner.member_id)
    return replace_static(draft, holder, joiner.member_id)


def _update(
    before: GroupMember, joiner: ClassicGroupMember, subscription: Subscription, context: Context
) -> GroupMember:
    old, timeout_ms = before.metadata, joiner.rebalance_timeout_ms
    clears_regex = Choice.CLASSIC_REPLACEMENT_CLEARS_REGEX in context.dialect
    new = replace(
        old,
        instance_id=joiner.instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="" if clears_regex else old.subscribed_topic_regex,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic_member_metadata=ClassicMember(joiner.session_timeout_ms, joiner.protocols),
    )
    return before if new == old else GroupMember(before.member_id, new, before.current)
