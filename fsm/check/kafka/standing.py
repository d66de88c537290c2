"""The standing of members of a group of either type: a step removes and refuses them only for a reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    ConsumerGroup,
    GroupMember,
)
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.timers import TimerKind
from fsm.member.classic.invariants import OUTCAST
from fsm.protocol.assignment import flatten
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
)
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group_member import State

GOES = "a member goes for a reason"
LEAVES = "who leaves is gone"
STAYS = "a member in good standing is not refused"
FITS = "a group grows up to the limit of its type"
FENCED = "who has lost its instance id is told so"
UNDERSTOOD = "an error is one that its client knows"
OUTDATED = "a request of an earlier generation or epoch is refused"
OF_STANDING = (GOES, LEAVES, STAYS, FITS, FENCED, UNDERSTOOD, OUTDATED)
"""The invariants of a step."""
OF_CLASSIC_CLIENTS = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
OF_CONSUMERS = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
    }
)
"""The errors that only clients of KIP-848 know; those before, only clients of the classic protocol."""
OUTCAST_OF_EITHER = OUTCAST | {ErrorCode.FENCED_MEMBER_EPOCH}
"""The errors after which a client of either protocol is no member any more."""


def find_broken(
    before: Group | None, after: Group | None, given: Any, answers: Sequence[Any], context: Context
) -> Iterator[str]:
    """The invariants that a step breaks; `given` is the body of a request, or a timer: its kind, and whose it is."""
    members = _list_members(before)
    if not members.difference(_excuse(before, given)) <= _list_members(after):
        yield GOES
    here = {*_list_members(after), *getattr(after, "pending_join_members", ())}
    if not here.isdisjoint(_list_leaving(before, given)):
        yield LEAVES
    codes = {_error_of(one) for one in answers}
    if _stands_well(before, given, context) and not codes.isdisjoint(OUTCAST_OF_EITHER):
        yield STAYS
    if _is_outdated(before, given) and codes <= {ErrorCode.NONE}:
        yield OUTDATED
    if _has_lost_its_instance(before, given) and ErrorCode.FENCED_INSTANCE_ID not in codes:
        yield FENCED
    if not all(_is_known(before, given, one) for one in answers):
        yield UNDERSTOOD
    is_same = type(before) is type(after)
    if _count_places(after, is_same) > max(len(members) if is_same else 0, _limit_of(after, context)):
        yield FITS


def _list_members(group: Group | None) -> frozenset[str]:
    return frozenset(() if group is None else group.members)


def _limit_of(group: Group | None, context: Context) -> int:
    config = context.config
    return config.group_max_size if isinstance(group, ClassicGroup) else config.group_consumer_max_size


def _count_places(group: Group | None, is_same: bool) -> int:
    """The members that count: in a join phase those that have joined, unless the group has just changed its type."""
    if is_same and isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING_REBALANCE:
        return len(group.delayed_joins)
    return len(_list_members(group))


def _find_holder(group: Group | None, instance_id: str | None) -> str | None:
    """The member that has an instance id."""
    return None if group is None or instance_id is None else group.members.static.get(instance_id)


def _excuse(group: Group | None, given: Any) -> Collection[str]:
    """The members that a request or a timer may remove."""
    match given:
        case ConsumerGroupHeartbeatRequest(member_epoch=0) | JoinGroupRequest():
            holder = given.instance_id if isinstance(given, ConsumerGroupHeartbeatRequest) else given.group_instance_id
            return {given.member_id, _find_holder(group, holder) or ""}
        case ConsumerGroupHeartbeatRequest() | LeaveGroupRequest():
            return _list_leaving(group, given)
        case (TimerKind.JOIN, "") if isinstance(group, ClassicGroup):
            return {i for i, one in group.members.items() if one.instance_id is None and i not in group.delayed_joins}
        case (TimerKind.SYNC, "") if isinstance(group, ClassicGroup):
            return group.pending_sync_members
        case (TimerKind.SESSION, str(who)) if isinstance(group, ClassicGroup) and group.is_waiting(who):
            return ()  # it sends no heartbeat meanwhile
        case (TimerKind(), str(who)):
            return {who}
    return ()


def _list_leaving(group: Group | None, given: Any) -> Collection[str]:
    """The members that a request takes out of the group, each under the instance id that it has, or under none."""
    match given:
        case ConsumerGroupHeartbeatRequest(member_id=who, member_epoch=epoch) if epoch == LEAVE_GROUP_MEMBER_EPOCH:
            leaving = [(who, given.instance_id)]
        case LeaveGroupRequest():
            leaving = [(one.member_id, one.group_instance_id) for one in given.members]
        case _:
            return ()
    named = (_find_holder(group, instance_id) if instance_id else who for who, instance_id in leaving)
    return {one for one, (who, _) in zip(named, leaving, strict=True) if one is not None and who in ("", one)}


def _stands_well(group: Group | None, given: Any, context: Context) -> bool:
    """Whether a request names a member, its instance id if it has one, and its generation or epoch."""
    who = getattr(given, "member_id", "")
    if group is None or who not in group.members:
        return False
    member: Any = group.members[who]
    match given:
        case ConsumerGroupHeartbeatRequest() if isinstance(group, ConsumerGroup):
            return given.instance_id == member.instance_id and _has_its_epoch(member, given, context)
        case HeartbeatRequest() | SyncGroupRequest() if given.group_instance_id == member.instance_id:
            if isinstance(group, ClassicGroup):
                return given.generation_id == group.generation
            return bool(member.is_classic and given.generation_id == member.epoch)
    return False


def _has_its_epoch(member: GroupMember, sent: ConsumerGroupHeartbeatRequest, context: Context) -> bool:
    """Whether a heartbeat has the member's epoch, or the one before an answer that was lost; or joins once more."""
    epoch, now = sent.member_epoch, member.current
    if now.epoch <= 0 or now.state is State.UNKNOWN:
        return False
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        return Choice.EPOCH_ZERO_ALWAYS_PASSES in context.dialect
    return epoch == now.epoch or _has_lost_an_answer(member, sent)


def _has_lost_an_answer(member: GroupMember, sent: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat has the epoch before the member's, and lists nothing but what it is assigned."""
    now, owned = member.current, sent.topic_partitions
    is_previous = 0 < sent.member_epoch == now.previous_epoch
    return is_previous and owned is not None and set(flatten(owned)) <= dict(now.assigned).keys()


def _is_outdated(group: Group | None, given: Any) -> bool:
    """Whether a member, under its own instance id, names a generation or epoch that is not its own any more."""
    member: Any = None if group is None else group.members.by_id.get(getattr(given, "member_id", ""))
    match given:
        case ConsumerGroupHeartbeatRequest(member_epoch=epoch) if member is not None and epoch > 0:
            is_own = isinstance(group, ClassicGroup) or epoch == member.epoch or _has_lost_an_answer(member, given)
            return not is_own
        case HeartbeatRequest(generation_id=generation) | SyncGroupRequest(generation_id=generation):
            if isinstance(group, ClassicGroup) or member is None:
                return member is not None and generation != getattr(group, "generation", generation)
            return bool(member.is_classic and generation != member.epoch)
    return False


def _has_lost_its_instance(group: Group | None, given: Any) -> bool:
    """Whether a request of a member names an instance id that another member has."""
    match given:
        case ConsumerGroupHeartbeatRequest(instance_id=instance_id) if isinstance(group, ConsumerGroup):
            joins = given.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        case HeartbeatRequest(group_instance_id=instance_id) | SyncGroupRequest(group_instance_id=instance_id):
            joins = False
        case _:
            return False
    return not joins and _find_holder(group, instance_id) not in {None, given.member_id}


def _is_known(group: Group | None, given: Any, answer: Any) -> bool:
    """Whether the client of an answer knows its errors: those of its own protocol; of a commit, if it is a member."""
    body = answer.body
    if isinstance(body, ConsumerGroupHeartbeatResponse):
        return body.error_code not in OF_CLASSIC_CLIENTS
    if not isinstance(body, OffsetCommitResponse):
        return _error_of(answer) not in OF_CONSUMERS
    is_classic = isinstance(group, ClassicGroup) or _is_classic(group, given.member_id)
    return not is_classic or OF_CONSUMERS.isdisjoint(code for _, code in body.errors)


def _is_classic(group: ConsumerGroup | None, member_id: str) -> bool:
    member = None if group is None else group.members.by_id.get(member_id)
    return member is not None and member.is_classic


def _error_of(answer: Any) -> ErrorCode:
    code: ErrorCode = getattr(answer.body, "error_code", ErrorCode.NONE)
    return code
