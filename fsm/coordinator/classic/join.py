"""JoinGroup to a classic group: its checks, and the event of the group's table.

The checks run in Kafka's order; the first that fails is the answer. A group that this very request creates is stored
empty first, also where the join is then refused.

Source: `GroupMetadataManager.classicGroupJoin` and what it calls, of apache/kafka, branch 4.4; KIP-345 for static
members, KIP-394 for MEMBER_ID_REQUIRED.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from fsm.coordinator.classic import responses
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, consumer_topics
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Refused, Request, Step
from fsm.errors import RemoteProtocolError
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import JoinGroupRequest
from fsm.protocol.records import ClassicProtocol
from fsm.tables.classic_group import Event, State

MEMBER_ID_REQUIRED_SINCE = 4
"""The version of JoinGroup from which on a dynamic member joins in two steps, with the id that the first one gave."""
REBALANCE_TIMEOUT_SINCE = 1

OPEN = (State.COMPLETING_REBALANCE, State.STABLE)

ALL_JOINED: Mapping[Event, Event] = {
    Event.MEMBER_JOINED: Event.MEMBER_JOINED_ALL_JOINED,
    Event.FOLLOWER_REJOINED: Event.FOLLOWER_REJOINED_ALL_JOINED,
    Event.LEADER_REJOINED: Event.LEADER_REJOINED_ALL_JOINED,
    Event.MEMBER_CHANGED: Event.MEMBER_CHANGED_ALL_JOINED,
    Event.STATIC_REPLACED: Event.STATIC_REPLACED_ALL_JOINED,
}
"""The variants of these events that complete the join phase."""


def join(
    group: ClassicGroup | None, request: Request[JoinGroupRequest], context: Context, stored: ErrorCode = ErrorCode.NONE
) -> Step[ClassicGroup]:
    """The outcome of a JoinGroup; `group` is None if there is none yet.

    `stored` is the result of storing the record if a static member is replaced without a rebalance. Raises `Refused` if
    no group is created.
    """
    if group is None and request.body.member_id:  # only a member without id creates a group
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if group is None:
        draft = ClassicGroupDraft(ClassicGroup(request.body.group_id, state_since_ms=context.now_ms), context, request)
        draft.take_row(Event.GROUP_CREATED)
    else:
        draft = ClassicGroupDraft(group, context, request)
    _join(draft, request, stored)
    return draft.step()


def _join(draft: ClassicGroupDraft, request: Request[JoinGroupRequest], stored: ErrorCode) -> None:
    draft.member_id = request.body.member_id
    if not _is_accepted(draft, draft.member_id, draft.context.config.group_max_size):
        draft.response = responses.refuse_join(ErrorCode.GROUP_MAX_SIZE_REACHED, "", request.version)
        draft.take_row(_refused_full(draft))
        return
    try:
        _refuse_strange_protocols(draft, request.body)
        if draft.member_id:
            _join_with_id(draft, request)
        else:
            _join_without_id(draft, request, stored)
    except Refused as refused:
        draft.response = responses.refuse(request, refused.code)
        draft.take_row(Event.JOIN_REFUSED)


# Checks, in their order


def check_join(request: Request[JoinGroupRequest], context: Context) -> None:
    """The checks before the lookup of the group. Raises `Refused`."""
    config, session_timeout_ms = context.config, request.body.session_timeout_ms
    if not config.group_min_session_timeout_ms <= session_timeout_ms <= config.group_max_session_timeout_ms:
        raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)


def _is_accepted(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group has room for the join: during the join phase only delayed joins count, so late members may be
    excluded.
    """
    if group.state is State.PREPARING_REBALANCE:
        joins = group.delayed_joins
        return len(group.members) < max_size or member_id in joins or len(joins) < max_size
    return group.state not in OPEN or member_id in group.members or len(group.members) < max_size


def _refused_full(draft: ClassicGroupDraft) -> Event:
    """The event of a join to a full group: in some dialects the join phase does not wait for that member (F47)."""
    ends = Choice.FULL_REFUSAL_ENDS_PHASE in draft.context.dialect and draft.state is State.PREPARING_REBALANCE
    if ends and not draft.is_initial_rebalance and draft.has_all_joined({draft.member_id}):
        return Event.JOIN_REFUSED_FULL_ALL_JOINED
    return Event.JOIN_REFUSED_FULL


def _refuse_strange_protocols(group: ClassicGroup, body: JoinGroupRequest) -> None:
    if group.state is State.DEAD:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(body.protocol_type, [protocol.name for protocol in body.protocols]):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def refuse_stranger(group: ClassicGroup, member_id: str, instance_id: str | None, gone: Container[str] = ()) -> None:
    """Raises `Refused` for a stranger, a member that is `gone`, or an instance id of another member."""
    if instance_id is not None:
        holder = group.static_member_id(instance_id)
        if holder is None or holder in gone:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members or member_id in gone:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)


# Members without an id


def _join_without_id(draft: ClassicGroupDraft, request: Request[JoinGroupRequest], stored: ErrorCode) -> None:
    instance_id = request.body.group_instance_id
    draft.joining = member = member_of(request, f"{instance_id or request.client_id}-{request.fresh_id}")
    draft.member_id = member.member_id
    holder = None if instance_id is None else draft.static_member_id(instance_id)
    if holder is not None:
        _replace_static(draft, member, draft.members[holder], stored)
    elif instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
        draft.take_row(Event.MEMBER_ID_GIVEN)
    else:
        _store_new_id(draft, member, stored)
        _add(draft)


def member_of(request: Request[JoinGroupRequest], member_id: str) -> ClassicGroupMember:
    """The member that the request describes; of two protocols of one name, the first counts."""
    body = request.body
    protocols = {protocol.name: ClassicProtocol(*protocol) for protocol in reversed(body.protocols)}
    has_timeout = request.version >= REBALANCE_TIMEOUT_SINCE
    return ClassicGroupMember(
        member_id,
        body.group_instance_id,
        request.client_id,
        request.client_host,
        body.rebalance_timeout_ms if has_timeout else body.session_timeout_ms,
        body.session_timeout_ms,
        tuple(reversed(protocols.values())),
    )


def _add(draft: ClassicGroupDraft) -> None:
    initial = draft.is_initial_rebalance
    draft.take_row(Event.MEMBER_JOINED_INITIALLY if initial else _ending(draft, Event.MEMBER_JOINED, prepares=False))


def _ending(draft: ClassicGroupDraft, event: Event, *, prepares: bool) -> Event:
    """The event itself, or its variant that completes the join phase."""
    waits = draft.state is State.PREPARING_REBALANCE and not draft.is_initial_rebalance
    if not (waits or (prepares and draft.state in OPEN)):
        return event
    replaced = draft.replaced.member_id if draft.replaced else draft.member_id
    return ALL_JOINED[event] if draft.has_all_joined({draft.member_id, replaced}) else event


def _replace_static(
    draft: ClassicGroupDraft, member: ClassicGroupMember, holder: ClassicGroupMember, stored: ErrorCode
) -> None:
    """A static member returns under a new id; without a rebalance if nothing changes for the others."""
    draft.replaced = holder
    afterwards = draft.members.without(holder.member_id).set(member)
    is_same = draft.state is State.STABLE and afterwards.elected_protocol() == draft.protocol_name
    if not is_same or _needs_rebalance(draft, holder, member):
        _store_new_id(draft, member, stored)
        draft.take_row(_ending(draft, Event.STATIC_REPLACED, prepares=True))
        return
    before = len(draft.records)
    draft.take_row(Event.STATIC_REPLACED_SAME_PROTOCOL)
    if stored is ErrorCode.NONE:
        draft.take_row(Event.STATIC_SWAP_STORED)
        return
    draft.code = stored
    del draft.records[before:]
    draft.take_row(Event.STATIC_SWAP_FAILED)


def _store_new_id(draft: ClassicGroupDraft, member: ClassicGroupMember, stored: ErrorCode) -> None:
    """Stores the id of a static member of which the log has another one. Raises `Refused` if that fails."""
    last, instance_id = draft.stored_generation, member.instance_id
    if last is None or instance_id is None or all(one.group_instance_id != instance_id for one in last.members):
        return
    if stored is not ErrorCode.NONE:
        raise Refused(stored)
    draft.take_row(Event.STORED_ID_REPLACED)


def _needs_rebalance(draft: ClassicGroupDraft, holder: ClassicGroupMember, member: ClassicGroupMember) -> bool:
    """Whether the dialect begins a rebalance as a process takes this member's place: it owes a join (F33), it leads and
    its assignments are outdated (F45), or it subscribes to other topics (F48).
    """
    rules = draft.context.dialect
    if Choice.OWED_JOIN_REBALANCES in rules and owes_join(draft, holder):
        return True
    if Choice.NEW_SUBSCRIPTION_REBALANCES in rules and _subscribes_otherwise(draft, holder, member):
        return True
    is_watching = Choice.OUTDATED_REBALANCES in rules and draft.is_leader(holder.member_id)
    return is_watching and is_outdated(draft, draft.context)


def _subscribes_otherwise(group: ClassicGroup, holder: ClassicGroupMember, member: ClassicGroupMember) -> bool:
    """Whether a consumer subscribes to other topics than the member whose place it takes."""
    if group.protocol_type != PROTOCOL_TYPE:
        return False
    try:
        before, after = (decode_subscription(one.metadata(group.protocol_name)).topics for one in (holder, member))
    except RemoteProtocolError:
        return False
    return before != after


def owes_join(group: ClassicGroup, member: ClassicGroupMember) -> bool:
    """Whether a consumer was assigned less than it owned as it joined: it revokes the rest, and joins again."""
    if group.protocol_type != PROTOCOL_TYPE or not group.protocol_name:
        return False
    try:
        owned = decode_subscription(member.metadata(group.protocol_name)).owned_partitions
        return bool(owned) and not set(owned) <= set(decode_assignment(member.assignment).partitions)
    except RemoteProtocolError:
        return False


def is_outdated(group: ClassicGroup, context: Context) -> bool:
    """Whether consumers are not assigned just the partitions that their topics have now: some are assigned to nobody,
    or are gone. False for other types of groups, and if an assignment cannot be read.
    """
    names, topics = consumer_topics(group), context.image.topics
    held = [member.assignment for member in group.members.values() if member.assignment]
    if names is None:
        return False
    try:
        assigned = {partition for one in held for partition in decode_assignment(one).partitions}
    except RemoteProtocolError:
        return False
    wanted = {name: topics[name].partitions for name in names if name in topics}
    return assigned != {(name, number) for name, count in wanted.items() for number in range(count)}


# Members with an id


def _join_with_id(draft: ClassicGroupDraft, request: Request[JoinGroupRequest]) -> None:
    member_id, instance_id = draft.member_id, request.body.group_instance_id
    draft.joining = joining = member_of(request, member_id)
    if member_id in draft.pending_join_members:
        if instance_id is not None:  # Kafka's own code here: only dynamic members get ids
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        _add(draft)
        return
    refuse_stranger(draft, member_id, instance_id)
    known = draft.members[member_id]
    if joining.protocols != known.protocols or known.is_late:
        event = _ending(draft, Event.MEMBER_CHANGED, prepares=True)
    elif draft.is_leader(member_id):  # a leader rejoins to assign anew
        event = _ending(draft, Event.LEADER_REJOINED, prepares=draft.state is State.STABLE)
    else:
        event = _ending(draft, Event.FOLLOWER_REJOINED, prepares=False)
    draft.take_row(event)
