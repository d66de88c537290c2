"""SyncGroup, Heartbeat and LeaveGroup to a classic group, and what commits of offsets ask of it.

Source: sections 5.3 and 5.5 of the coordinator reference; `classicGroupSync`, `classicGroupHeartbeat`,
`classicGroupLeave` and `ClassicGroup.validateOffsetCommit` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.classic_group_answers import Left
from fsm.coordinator.classic_group_effects import run
from fsm.coordinator.classic_group_join import refuse_blank_group, refuse_stranger
from fsm.coordinator.classic_group_work import Work
from fsm.coordinator.context import Context
from fsm.coordinator.messages import Answer, Refused, Request
from fsm.coordinator.step import Step
from fsm.kafka.error_codes import ErrorCode
from fsm.tables.classic_group import Event, State


def sync(
    group: ClassicGroup | None, request: Request, context: Context, stored: ErrorCode = ErrorCode.NONE
) -> Step[ClassicGroup | None]:
    """The outcome of a SyncGroup; `stored` says how storing a leader's assignment went."""
    try:
        refuse_blank_group(request)
    except Refused as refused:
        return _refused(group, request, refused.code)
    if group is None or group.is_empty:
        return _refused(group, request, ErrorCode.UNKNOWN_MEMBER_ID)
    work = Work(group, context, request, request.body.get("member_id", ""))
    try:
        _check(group, request)
        _refuse_strange_protocol(group, request.body)
    except Refused as refused:
        return _ended(run(replace(work, code=refused.code), Event.SYNC_REFUSED))
    return _ended(_synced(work, stored))


def _synced(work: Work, stored: ErrorCode) -> Work:
    group = work.group
    is_last = not group.awaited_syncs.without(work.member_id)
    if not group.is_leader(work.member_id):
        return run(work, Event.FOLLOWER_SYNCED_LAST if is_last and _syncs(group) else Event.FOLLOWER_SYNCED)
    assigned = run(work, Event.LEADER_SYNCED_LAST if is_last and _syncs(group) else Event.LEADER_SYNCED)
    if group.state is not State.COMPLETING_REBALANCE:
        return assigned
    if stored is ErrorCode.NONE:
        return run(assigned, Event.ASSIGNMENT_STORED)
    return run(replace(assigned, code=stored, records=work.records), Event.ASSIGNMENT_STORE_FAILED)


def _syncs(group: ClassicGroup) -> bool:
    return group.state in {State.COMPLETING_REBALANCE, State.STABLE}


def heartbeat(group: ClassicGroup | None, request: Request, context: Context) -> Step[ClassicGroup | None]:
    """The outcome of a Heartbeat."""
    try:
        refuse_blank_group(request)
    except Refused as refused:
        return _refused(group, request, refused.code)
    if group is None:
        return _refused(group, request, ErrorCode.UNKNOWN_MEMBER_ID)
    work = Work(group, context, request, request.body.get("member_id", ""))
    try:
        _check(group, request)
    except Refused as refused:
        return _ended(run(replace(work, code=refused.code), Event.HEARTBEAT_REFUSED))
    return _ended(run(work, Event.HEARTBEAT))


def leave(group: ClassicGroup | None, request: Request, context: Context) -> Step[ClassicGroup | None]:
    """The outcome of a LeaveGroup: one for the batch, after every entry was looked at."""
    try:
        refuse_blank_group(request)
    except Refused as refused:
        return _refused(group, request, refused.code)
    if group is None:
        unknown = [Left(m, i, ErrorCode.UNKNOWN_MEMBER_ID) for m, i in identities(request)]
        return Step(group, (Answer(request.token, answers.left(unknown, request.version)),))
    work = Work(group, context, request)
    if group.state is State.DEAD:
        return _ended(run(replace(work, code=ErrorCode.COORDINATOR_NOT_AVAILABLE), Event.LEAVE_REFUSED))
    gone, entries = _leaving(group, identities(request))
    work = replace(work, gone=gone, entries=entries)
    return _ended(run(work, removal(group, gone, _LEAVES) if gone else Event.LEAVE_REFUSED))


def identities(request: Request) -> list[tuple[str, str | None]]:
    """Member id and instance id of each who leaves; before version 3 that is one, and it is dynamic."""
    if request.version < answers.LEAVES_IN_BATCHES_SINCE:
        return [(request.body.get("member_id", ""), None)]
    return [(m.get("member_id", ""), m.get("group_instance_id")) for m in request.body.get("members") or ()]


def _leaving(
    group: ClassicGroup, entries: Iterable[tuple[str, str | None]]
) -> tuple[tuple[str, ...], tuple[Left, ...]]:
    """Who goes, and what each entry is answered: it sees the group without those before it."""
    gone: list[str] = []
    found: list[Left] = []
    for member_id, instance_id in entries:
        try:
            leaver = _leaver(group, member_id, instance_id)
        except Refused as refused:
            found.append(Left(member_id, instance_id, refused.code))
            continue
        found.append(Left(member_id, instance_id))
        gone.append(leaver)
        group = replace(group, members=group.members.without(leaver), given_ids=group.given_ids.without(leaver))
    return tuple(gone), tuple(found)


def _leaver(group: ClassicGroup, member_id: str, instance_id: str | None) -> str:
    """An instance id without a member id is an administrator's removal of a static member."""
    if not member_id:
        holder = None if instance_id is None else group.static_member_id(instance_id)
        if holder is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return holder
    if member_id not in group.given_ids:
        refuse_stranger(group, member_id, instance_id)
    return member_id


_LEAVES = (Event.MEMBERS_LEFT, Event.MEMBERS_LEFT_ALL_JOINED, Event.MEMBERS_LEFT_NOBODY_LEFT)


def removal(
    group: ClassicGroup,
    gone: Iterable[str],
    events: tuple[Event, Event, Event],
    *,
    ends_initial: bool = False,
) -> Event:
    """Which of three events it is that these go: plain, all who remain have joined, nobody remains.

    An initial rebalance goes on until its timer ends it, unless `ends_initial`. In EMPTY only given-out ids go.
    """
    plain, all_joined, nobody_left = events
    gone = tuple(gone)
    remaining = replace(group, members=group.members.without(*gone), given_ids=group.given_ids.without(*gone))
    if group.is_empty or (group.is_initial_rebalance and not ends_initial) or not remaining.has_all_joined:
        return plain
    return all_joined if remaining.members else nobody_left


# Checks


def _check(group: ClassicGroup, request: Request) -> None:
    if group.state is State.DEAD:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    refuse_stranger(group, request.body.get("member_id", ""), request.body.get("group_instance_id"))
    if request.body["generation_id"] != group.generation:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)


def _refuse_strange_protocol(group: ClassicGroup, body: Mapping[str, Any]) -> None:
    for said, real in (
        (body.get("protocol_type"), group.protocol_type),
        (body.get("protocol_name"), group.protocol_name),
    ):
        if said is not None and real is not None and said != real:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _refused(group: ClassicGroup | None, request: Request, code: ErrorCode) -> Step[ClassicGroup | None]:
    return Step(group, (Answer(request.token, answers.refusal(request, code)),))


def _ended(work: Work) -> Step[ClassicGroup | None]:
    step = work.step()
    return step.leading_to(step.state)


# Offsets


def refuse_commit(group: ClassicGroup, body: Mapping[str, Any], *, transactional: bool = False) -> None:
    """Raises `Refused` for a commit that the group does not accept.

    Without member and generation it is an application that is no member of any group, or an administrator: that is
    for empty groups, as is every generation below zero.
    """
    member_id, instance_id = body.get("member_id", ""), body.get("group_instance_id")
    generation = body.get("generation_id_or_member_epoch", -1)
    if group.state is State.DEAD:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation < 0 and group.is_empty:
        return
    if generation >= 0 or member_id or instance_id is not None:
        refuse_stranger(group, member_id, instance_id)
        if generation != group.generation:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and group.state is State.COMPLETING_REBALANCE:
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)


def committed(group: ClassicGroup, member_id: str, context: Context) -> ClassicGroup:
    """The group after a member's commit: outside the sync phase a commit is a sign of life."""
    member = group.members.get(member_id)
    if member is None or group.state not in {State.STABLE, State.PREPARING_REBALANCE}:
        return group
    deadlines_ms = {member_id: context.now_ms + member.session_timeout_ms}
    return replace(group, heartbeat_deadlines_ms=group.heartbeat_deadlines_ms.armed(deadlines_ms))


def refuse_deletion(group: ClassicGroup) -> None:
    """Raises `Refused` for a DeleteGroups of a group with members."""
    if group.state is State.DEAD:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise Refused(ErrorCode.NON_EMPTY_GROUP)
