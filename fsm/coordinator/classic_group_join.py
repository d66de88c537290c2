"""JoinGroup to a classic group: who may join, and which event of the group's table that is.

The checks run in Kafka's order; the first that fails is the answer. A group that this very request creates is stored
empty first, also where the join is then refused.

Source: sections 5.2, 5.3 and 5.6 of the coordinator reference; `classicGroupJoin` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.classic_group_effects import run
from fsm.coordinator.classic_group_work import Work
from fsm.coordinator.classic_members import ClassicGroupMember
from fsm.coordinator.context import Context
from fsm.coordinator.messages import Answer, Refused, Request
from fsm.coordinator.records import ClassicProtocol
from fsm.coordinator.step import Step
from fsm.kafka.error_codes import ErrorCode
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
"""The same events where the join phase is complete with them."""


def join(
    group: ClassicGroup | None, request: Request, context: Context, stored: ErrorCode = ErrorCode.NONE
) -> Step[ClassicGroup | None]:
    """The outcome of a JoinGroup; `group` None: there is none yet, and the outcome may be that there still is none.

    `stored` says how storing the record went where a static member is replaced without a rebalance.
    """
    try:
        check_join(request, context)
    except Refused as refused:
        return Step(group, (_refusal(request, refused.code),))
    work = Work(group, context, request) if group else _created(request, context)
    if work is None:
        return Step(None, (_refusal(request, ErrorCode.UNKNOWN_MEMBER_ID),))
    step = _joined(work, stored).step()
    return step.leading_to(step.state)


def _refusal(request: Request, code: ErrorCode) -> Answer:
    return Answer(request.token, answers.refusal(request, code))


def _created(request: Request, context: Context) -> Work | None:
    """Only a member without id creates a group."""
    if request.body.get("member_id"):
        return None
    group = ClassicGroup(request.body["group_id"], state_since_ms=context.now_ms)
    return run(Work(group, context, request), Event.GROUP_CREATED)


def _joined(work: Work, stored: ErrorCode) -> Work:
    member_id = work.asked.body.get("member_id", "")
    if not _is_accepted(work.group, member_id, work.context.config.group_max_size):
        full = replace(work, member_id=member_id, answered_id="", code=ErrorCode.GROUP_MAX_SIZE_REACHED)
        return run(full, Event.JOIN_REFUSED_FULL)
    try:
        _refuse_dead(work.group)
        _refuse_strange_protocols(work.group, work.asked)
        return _known(work) if member_id else _unknown(work, stored)
    except Refused as refused:
        return run(replace(work, code=refused.code), Event.JOIN_REFUSED)


# Checks, in their order


def check_join(request: Request, context: Context) -> None:
    """What is checked before any group is looked at. Raises `Refused`."""
    refuse_blank_group(request)
    config, session_timeout_ms = context.config, request.body["session_timeout"]
    if not config.group_min_session_timeout_ms <= session_timeout_ms <= config.group_max_session_timeout_ms:
        raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)


def refuse_blank_group(request: Request) -> None:
    """Raises `Refused` for a request of the classic protocol that names no group."""
    if not request.body.get("group_id"):
        raise Refused(ErrorCode.INVALID_GROUP_ID)


def _is_accepted(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """While the joins of a generation come in, those parked are counted, so that late ones may be left out."""
    known = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return len(group.members) < max_size or bool(known and known.join) or group.parked_joins < max_size
    return group.state not in OPEN or known is not None or len(group.members) < max_size


def _refuse_dead(group: ClassicGroup) -> None:
    if group.state is State.DEAD:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _refuse_strange_protocols(group: ClassicGroup, request: Request) -> None:
    names = [protocol["name"] for protocol in request.body.get("protocols") or ()]
    if not group.supports(request.body.get("protocol_type", ""), names):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def refuse_stranger(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raises `Refused` for who is no member, or has an instance id that is another's."""
    if instance_id is not None:
        holder = group.static_member_id(instance_id)
        if holder is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)


# Members without an id


def _unknown(work: Work, stored: ErrorCode) -> Work:
    request, instance_id = work.asked, work.asked.body.get("group_instance_id")
    member = offered(request, f"{instance_id or request.client_id}-{request.fresh_id}")
    work = replace(work, member_id=member.member_id, offered=member)
    holder = None if instance_id is None else work.group.static_member_id(instance_id)
    if holder is not None:
        return _replacing(replace(work, replaced=work.group.members[holder]), stored)
    if instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
        return run(work, Event.MEMBER_ID_GIVEN)
    return _new(work)


def offered(request: Request, member_id: str) -> ClassicGroupMember:
    """The member that the request describes; of two protocols of one name, the first counts."""
    body = request.body
    protocols: dict[str, bytes] = {}
    for protocol in body.get("protocols") or ():
        protocols.setdefault(protocol["name"], answers.data_of(protocol["metadata"]))
    has_timeout = request.version >= REBALANCE_TIMEOUT_SINCE
    return ClassicGroupMember(
        member_id,
        body.get("group_instance_id"),
        request.client_id,
        request.client_host,
        body["rebalance_timeout"] if has_timeout else body["session_timeout"],
        body["session_timeout"],
        tuple(ClassicProtocol(name, metadata) for name, metadata in protocols.items()),
    )


def _new(work: Work) -> Work:
    if work.group.is_initial_rebalance:
        return run(work, Event.MEMBER_JOINED_INITIALLY)
    return run(work, _ending(work, Event.MEMBER_JOINED, prepares=False))


def _ending(work: Work, event: Event, *, prepares: bool) -> Event:
    """The event itself, or that everybody has joined with it: where it prepares a rebalance, or one is prepared."""
    group = work.group
    waits = group.state is State.PREPARING_REBALANCE and not group.is_initial_rebalance
    if group.given_ids.without(work.member_id) or not (waits or (prepares and group.state in OPEN)):
        return event
    others = group.members.without(work.member_id, work.replaced.member_id if work.replaced else "")
    return ALL_JOINED[event] if others.joins == len(others) else event


def _replacing(work: Work, stored: ErrorCode) -> Work:
    """A static member comes back under a new id; without a rebalance if that changes nothing for the others."""
    group = work.group
    if group.state is not State.STABLE or _swapped(work).elected_protocol() != group.protocol_name:
        return run(work, _ending(work, Event.STATIC_REPLACED, prepares=True))
    swapped = run(work, Event.STATIC_REPLACED_SAME_PROTOCOL)
    if stored is ErrorCode.NONE:
        return run(swapped, Event.STATIC_SWAP_STORED)
    return run(replace(swapped, code=stored, records=work.records), Event.STATIC_SWAP_FAILED)


def _swapped(work: Work) -> ClassicGroup:
    """The group as it will be, as far as the vote goes."""
    group, member = work.group, work.offered
    if member is None or work.replaced is None:
        return group
    return replace(group, members=group.members.without(work.replaced.member_id).set(member))


# Members with an id


def _known(work: Work) -> Work:
    request, group = work.asked, work.group
    member_id, instance_id = request.body["member_id"], request.body.get("group_instance_id")
    work = replace(work, member_id=member_id, offered=offered(request, member_id))
    if member_id in group.given_ids:
        if instance_id is not None:  # Kafka's own word for it: only dynamic members are given ids
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return _new(work)
    refuse_stranger(group, member_id, instance_id)
    return run(work, _rejoined(work))


def _rejoined(work: Work) -> Event:
    """Whether the member changed, and where it did not, whether it leads: a leader rejoins to assign anew."""
    group, member = work.group, work.member
    if work.offered is None or work.offered.protocols != member.protocols:
        return _ending(work, Event.MEMBER_CHANGED, prepares=True)
    if group.is_leader(member.member_id):
        return _ending(work, Event.LEADER_REJOINED, prepares=group.state is State.STABLE)
    return _ending(work, Event.FOLLOWER_REJOINED, prepares=False)
