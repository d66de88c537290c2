"""Classic members inside a consumer group: their four requests, answered from the group's epochs and assignments.

No classic state is kept for them. The generation of a classic member is its member epoch; it is told to rejoin when
it is behind, must give something up, or can have what it waits for. The coordinator assigns: nobody leads, the answer
to a join lists no members, and what a client sends as an assignment is not looked at.

Source: section 6.2 of the coordinator reference; `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator import migration
from fsm.coordinator.classic_group_answers import Left
from fsm.coordinator.classic_group_join import refuse_blank_group
from fsm.coordinator.classic_group_requests import identities
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import Context
from fsm.coordinator.dialect import Choice, Dialect
from fsm.coordinator.draft import draft_of
from fsm.coordinator.embedded import encoded
from fsm.coordinator.members import GroupMember
from fsm.coordinator.membership import holder_of, known_member, static_member
from fsm.coordinator.messages import Answer, Refused, Request, error_name
from fsm.coordinator.migration import Group
from fsm.coordinator.reconciliation import FREE, flat
from fsm.coordinator.records import ClassicMember
from fsm.coordinator.step import Step
from fsm.coordinator.timers import TimerKind
from fsm.kafka.consumer_protocol import PROTOCOL_TYPE
from fsm.kafka.error_codes import ErrorCode
from fsm.tables.consumer_group_member import Event, State


class Phase(Enum):
    """Where a classic member of a consumer group would be in a classic group; derived, never stored."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


def phase(group: ConsumerGroup, member: GroupMember, dialect: Dialect) -> Phase:
    """Whether its SyncGroup is awaited, its next Heartbeat tells it to rejoin, or neither."""
    if group.timers.is_running(TimerKind.SYNC, member.member_id):
        return Phase.COMPLETING_REBALANCE
    return Phase.PREPARING_REBALANCE if must_rejoin(group, member, dialect) else Phase.STABLE


def must_rejoin(group: ConsumerGroup, member: GroupMember, dialect: Dialect) -> bool:
    """Whether a classic member has something to learn that only a JoinGroup brings."""
    state = member.current.state
    if member.epoch < _ahead(group, dialect) or state is State.UNREVOKED_PARTITIONS:
        return True
    return state is State.UNRELEASED_PARTITIONS and _is_free(group, member)


def _ahead(group: ConsumerGroup, dialect: Dialect) -> int:
    """The epoch that a member may be behind."""
    measured_by_target = Choice.CLASSIC_REJOINS_BEHIND_TARGET in dialect
    return group.target_epoch if measured_by_target else group.epoch


def _is_free(group: ConsumerGroup, member: GroupMember) -> bool:
    """Whether nobody holds anything of what the member still lacks."""
    assigned = dict(member.current.assigned)
    lacking = (partition for partition in flat(group.targets.get(member.member_id, ())) if partition not in assigned)
    return all(group.members.partition_epoch(*partition) == FREE for partition in lacking)


def sync(group: ConsumerGroup, request: Request, context: Context) -> Step[Group]:
    """The outcome of a SyncGroup. Raises `Refused` where a check fails."""
    if group.is_empty:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    member = _speaker(group, request)
    classic = _classic(member)
    name = classic.supported_protocols[0].name
    for said, real in ((request.body.get("protocol_type"), PROTOCOL_TYPE), (request.body.get("protocol_name"), name)):
        if said is not None and said != real:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    must_learn = member.current.state is State.UNREVOKED_PARTITIONS
    if member.epoch < _ahead(group, context.dialect) and not must_learn:
        body = answers.sync_refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        return _told(group, member, Event.CLASSIC_SYNC_REFUSED, Answer(request.token, body), context)
    assignment = encoded(member.assigned, classic.supported_protocols[0].metadata, context.image)
    body = {
        "error_code": None,
        "protocol_type": request.body.get("protocol_type"),
        "protocol_name": request.body.get("protocol_name"),
        "assignment": answers.text(assignment),
    }
    return _told(group, member, Event.CLASSIC_SYNCED, Answer(request.token, body), context)


def heartbeat(group: ConsumerGroup, request: Request, context: Context) -> Step[Group]:
    """The outcome of a Heartbeat: it computes nothing and writes nothing. Raises `Refused` where a check fails."""
    member = _speaker(group, request)
    rejoins = must_rejoin(group, member, context.dialect)
    event = Event.CLASSIC_HEARTBEAT_REJOIN if rejoins else Event.CLASSIC_HEARTBEAT_OK
    code = ErrorCode.REBALANCE_IN_PROGRESS if rejoins else ErrorCode.NONE
    return _told(group, member, event, Answer(request.token, {"error_code": error_name(code)}), context)


def _told(group: ConsumerGroup, member: GroupMember, event: Event, answer: Answer, context: Context) -> Step[Group]:
    """The answer, with the timers that go with it."""
    draft = draft_of(group, context)
    draft.on_member(member.current.state, event, member)
    step = draft.done((answer,))
    return step.leading_to(step.state)


def leave(group: ConsumerGroup, request: Request, context: Context) -> Step[Group]:
    """The outcome of a LeaveGroup: whoever may leave goes in one step, by whatever protocol it came."""
    gone: list[str] = []
    entries: list[Left] = []
    for member_id, instance_id in identities(request):
        try:
            gone.append(_leaver(group, member_id, instance_id, context.dialect))
            entries.append(Left(member_id, instance_id))
        except Refused as refused:
            entries.append(Left(member_id, instance_id, refused.code))
    answer = Answer(request.token, answers.left(entries, request.version))
    step = migration.remove(group, gone, Event.LEFT, context)
    return step._replace(answers=(*step.answers, answer))


def _leaver(group: ConsumerGroup, member_id: str, instance_id: str | None, dialect: Dialect) -> str:
    """An instance id without a member id is an administrator's removal of a static member."""
    if instance_id is None:
        member = known_member(group, member_id)
    elif member_id:
        member = holder_of(group, member_id, instance_id)
    else:
        member = static_member(group, instance_id) or known_member(group, "")
    if Choice.LEAVE_GROUP_REMOVES_ANY not in dialect:
        _classic(member)
    return member.member_id


# Who speaks


def _speaker(group: ConsumerGroup, request: Request) -> GroupMember:
    """The classic member that a SyncGroup or Heartbeat comes from, in its generation."""
    member_id, instance_id = request.body.get("member_id", ""), request.body.get("group_instance_id")
    member = known_member(group, member_id) if instance_id is None else holder_of(group, member_id, instance_id)
    _classic(member)
    if request.body["generation_id"] != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    return member


def _classic(member: GroupMember) -> ClassicMember:
    """What makes the member a classic one. Raises `Refused` where nothing does."""
    classic = member.metadata.classic_member_metadata
    if classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member.member_id} does not speak the classic protocol")
    return classic


HANDLED: Mapping[str, Callable[[ConsumerGroup, Request, Context], Step[Group]]] = {
    "SyncGroup": sync,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave,
}


def handle(group: ConsumerGroup, request: Request, context: Context) -> Step[Group]:
    """SyncGroup, Heartbeat or LeaveGroup to a consumer group. Raises `Refused` where a check fails."""
    refuse_blank_group(request)
    return HANDLED[request.api](group, request, context)
