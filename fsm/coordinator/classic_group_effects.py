"""What the effects of the classic group's table do, each as a function from one state of the work to the next.

`run` takes an event through the table: it is looked up, and the states and effects of its row happen in the order in
which they are written. Whoever decided the event says in a `Work` what the effects need to know: who is meant, what
the request carries, which error is answered. Nothing here decides anything about the protocol.

Source: sections 5.3 to 5.6 of the coordinator reference; `GroupMetadataManager` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator.classic_group import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    NO_IDS,
    ClassicGroup,
    ClassicGroupMember,
    JoinPhase,
    Parked,
    SyncPhase,
    consumer_topics,
)
from fsm.coordinator.context import Context
from fsm.coordinator.messages import Answer, Request, error_name
from fsm.coordinator.records import Record
from fsm.coordinator.step import Happened, Step
from fsm.kafka.error_codes import ErrorCode
from fsm.table import Symbol
from fsm.tables.classic_group import TABLE, Effect, Event, State

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Work:
    """A group on its way through one step, with everything the effects need to know."""

    group: ClassicGroup
    context: Context
    request: Request | None = None
    member_id: str = ""
    """Whom the event is about."""
    offered: ClassicGroupMember | None = None
    """The member as its JoinGroup describes it."""
    replaced: ClassicGroupMember | None = None
    """The static member whose place is taken, as it was."""
    old_leader: str = ""
    """Who led before that."""
    gone: tuple[str, ...] = ()
    """Who leaves: members, or ids that were only given out."""
    entries: tuple[answers.Left, ...] = ()
    """What is answered to each entry of a LeaveGroup."""
    assignments: Mapping[str, bytes] | None = None
    """What the leader gave to each member."""
    code: ErrorCode = ErrorCode.NONE
    answered_id: str | None = None
    """The member id of an error answer, where it is not the request's."""
    refusal: Mapping[str, Any] | None = None
    """The error answer, where the request is not one of the classic protocol's."""
    answers: tuple[Answer, ...] = ()
    records: tuple[Record, ...] = ()
    happened: tuple[Happened, ...] = ()

    @property
    def asked(self) -> Request:
        """The request of this step. Raises `ValueError` where a timer began it."""
        if self.request is None:
            raise ValueError("no request began this step")
        return self.request

    @property
    def member(self) -> ClassicGroupMember:
        """The member the event is about."""
        return self.group.members[self.member_id]

    def having(self, **changes: Any) -> Work:
        """With changes to the group."""
        return replace(self, group=replace(self.group, **changes))

    def answering(self, token: int, body: Mapping[str, Any]) -> Work:
        """With one more answer."""
        return replace(self, answers=(*self.answers, Answer(token, body)))

    def step(self) -> Step[ClassicGroup]:
        """The outcome."""
        return Step(self.group, self.answers, self.records, self.happened)


def run(work: Work, event: Event) -> Work:
    """The event's row, done. Raises `IllegalTransition` for an event that the group's state does not know."""
    cell = TABLE.compiled[work.group.state, event]
    work = replace(work, happened=(*work.happened, Happened("", work.group.state, event, cell.target)))
    for step in cell.steps:
        work = _enter(work, step) if isinstance(step, State) else EFFECTS[step](work)
    return work


def _enter(work: Work, state: State) -> Work:
    return work.having(state=state, previous_state=work.group.state, state_since_ms=work.context.now_ms)


# Members


def _add_member(work: Work) -> Work:
    member, group = _known(work.offered), work.group
    protocol_type = group.protocol_type if group.members else work.asked.body.get("protocol_type", "")
    return work.having(
        members=group.members.set(member.member_id, replace(member, is_new=True)),
        protocol_type=protocol_type,
        leader=group.leader or member.member_id,
        given_ids=group.given_ids - {member.member_id},
    )


def _update_member(work: Work) -> Work:
    offered = _known(work.offered)
    updated = replace(
        work.member,
        protocols=offered.protocols,
        rebalance_timeout_ms=offered.rebalance_timeout_ms,
        session_timeout_ms=offered.session_timeout_ms,
    )
    return replace(work, group=work.group.with_member(updated))


def _replace_member(work: Work) -> Work:
    old = _known(work.replaced)
    work = replace(work, old_leader=work.group.leader or "")
    if old.join:
        refusal = answers.join_refusal(ErrorCode.FENCED_INSTANCE_ID, old.member_id, old.join.version)
        work = work.answering(old.join.token, refusal)
    if old.sync:
        work = work.answering(old.sync.token, answers.sync_refusal(ErrorCode.FENCED_INSTANCE_ID))
    new = replace(old, member_id=work.member_id, is_new=False, join=None, sync=None)
    return _swapped(work, old.member_id, new)


def _swapped(work: Work, gone: str, member: ClassicGroupMember) -> Work:
    group = work.group
    members = group.members.without(gone).set(member.member_id, member)
    return work.having(members=members, leader=member.member_id if group.is_leader(gone) else group.leader)


def _revert_replacement(work: Work) -> Work:
    body = {**answers.joined(work.group, "", work.old_leader), "members": [], "error_code": error_name(work.code)}
    work = work.answering(work.asked.token, body)
    old = replace(_known(work.replaced), join=None, sync=None)
    return replace(_swapped(work, work.member_id, old), member_id=old.member_id)


def _remember_id(work: Work) -> Work:
    return work.having(given_ids=work.group.given_ids | {work.member_id})


def _remove_id(work: Work) -> Work:
    return _without(work, (work.member_id,))


def _remove_members(work: Work) -> Work:
    for member in (work.group.members[i] for i in work.gone if i in work.group.members):
        if member.join:
            refusal = answers.join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, "", member.join.version)
            work = work.answering(member.join.token, refusal)
    return _without(work, work.gone)


def _remove_unjoined(work: Work) -> Work:
    unjoined = tuple(m.member_id for m in work.group.members.values() if not m.join and m.instance_id is None)
    return _cancel_heartbeats(_without(work, unjoined), unjoined)


def _remove_unsynced(work: Work) -> Work:
    gone = tuple(sorted(work.group.awaited_syncs))
    return replace(_without(work, gone), gone=gone)


def _without(work: Work, ids: Iterable[str]) -> Work:
    """Members and given-out ids are forgotten; if the leader is among them, the first who remains leads."""
    ids = tuple(ids)
    work = work.having(
        members=work.group.members.without(*ids),
        given_ids=work.group.given_ids.difference(ids),
        awaited_syncs=work.group.awaited_syncs.difference(ids),
    )
    if work.group.leader in ids:
        work = work.having(leader=next((m.member_id for m in work.group.in_order()), None))
    return work


def _elect_leader(work: Work) -> Work:
    group = work.group
    if group.leader is None or group.members[group.leader].join:
        return work
    return work.having(leader=next((m.member_id for m in group.in_order() if m.join), group.leader))


# Parked requests and answers


def _park_join(work: Work) -> Work:
    parked = Parked(work.asked.token, work.asked.version)
    return replace(work, group=work.group.with_member(replace(work.member, join=parked)))


def _park_sync(work: Work) -> Work:
    parked = Parked(work.asked.token, work.asked.version)
    return replace(work, group=work.group.with_member(replace(work.member, sync=parked)))


def _take_assignment(work: Work) -> Work:
    given = {a["member_id"]: answers.data_of(a["assignment"]) for a in work.asked.body.get("assignments") or ()}
    return replace(work, assignments={member_id: given.get(member_id, b"") for member_id in work.group.members})


def _answer_member_id_required(work: Work) -> Work:
    body = answers.join_refusal(ErrorCode.MEMBER_ID_REQUIRED, work.member_id, work.asked.version)
    return work.answering(work.asked.token, body)


def _answer_join(work: Work) -> Work:
    group = work.group
    work = work.answering(work.asked.token, _present_generation(work))
    return replace(work, group=group.with_member(replace(work.member, join=None)))


def _present_generation(work: Work) -> Mapping[str, Any]:
    """A static member that came back is told to leave its assignment alone, if its version lets one say so."""
    group, leader = work.group, work.group.leader or ""
    if work.replaced is None:
        return answers.joined(group, work.member_id, leader)
    if work.asked.version < answers.SKIPS_ASSIGNMENT_SINCE:
        return answers.joined(group, work.member_id, work.old_leader)
    return answers.joined(group, work.member_id, leader, skip=group.is_leader(work.member_id))


def _answer_joins(work: Work) -> Work:
    for member in work.group.in_order():
        if member.join:
            body = answers.joined(work.group, member.member_id, work.group.leader or "")
            work = work.answering(member.join.token, body)
    return _changed(work, join=None)


def _answer_joins_with(code: ErrorCode) -> Callable[[Work], Work]:
    def answer(work: Work) -> Work:
        for member in work.group.in_order():
            if member.join:
                body = answers.join_refusal(code, member.member_id, member.join.version)
                work = work.answering(member.join.token, body)
        return _changed(work, join=None)

    return answer


def _answer_sync(work: Work) -> Work:
    return work.answering(work.asked.token, answers.synced(work.group, work.member))


def _answer_syncs(work: Work) -> Work:
    given = work.assignments or {}
    members = {i: replace(m, assignment=given.get(i, b"")) for i, m in work.group.members.items()}
    work = work.having(members=work.group.members.merged(members))
    return _answer_each_sync(work, lambda member: answers.synced(work.group, member))


def _answer_syncs_with(code: ErrorCode) -> Callable[[Work], Work]:
    return lambda work: _answer_each_sync(work, lambda _: answers.sync_refusal(code))


def _answer_syncs_error(work: Work) -> Work:
    return _answer_each_sync(_changed(work, assignment=b""), lambda _: answers.sync_refusal(work.code))


def _answer_each_sync(work: Work, body: Callable[[ClassicGroupMember], Mapping[str, Any]]) -> Work:
    """The sessions of those who waited begin anew: what ran out meanwhile was excused."""
    for member in work.group.in_order():
        if member.sync:
            work = work.answering(member.sync.token, body(member))
            work = _armed(work, member.member_id, member.session_timeout_ms)
    return _changed(work, sync=None)


def _answer_ok(work: Work) -> Work:
    request = work.asked
    body = answers.left(work.entries, request.version) if request.api == "LeaveGroup" else {"error_code": None}
    return work.answering(request.token, body)


def _answer_rebalance(work: Work) -> Work:
    return work.answering(work.asked.token, answers.refusal(work.asked, ErrorCode.REBALANCE_IN_PROGRESS))


def _answer_error(work: Work) -> Work:
    request = work.asked
    if work.entries:
        return work.answering(request.token, answers.left(work.entries, request.version))
    body = answers.refusal(request, work.code, work.answered_id) if work.refusal is None else work.refusal
    return work.answering(request.token, body)


# Generation


def _select_protocol(work: Work) -> Work:
    work = work.having(protocol_name=work.group.elected_protocol())
    return work.having(subscribed_topics=consumer_topics(work.group))


def _clear_protocol(work: Work) -> Work:
    work = work.having(protocol_name=None)
    return work.having(subscribed_topics=consumer_topics(work.group))


def _await_syncs(work: Work) -> Work:
    return _changed(work, is_new=False).having(awaited_syncs=frozenset(work.group.members))


def _write_group(work: Work) -> Work:
    return replace(work, records=(*work.records, answers.group_record(work.group, work.assignments)))


# Timers


def _armed(work: Work, member_id: str, timeout_ms: int) -> Work:
    others = work.group.heartbeat_deadlines_ms.without(member_id)
    return work.having(heartbeat_deadlines_ms=others.set(member_id, work.context.now_ms + timeout_ms))


def _reset_heartbeat(work: Work) -> Work:
    member = work.group.members.get(work.member_id) or work.offered
    return _armed(work, work.member_id, _known(member).session_timeout_ms)


def _reset_heartbeats(work: Work) -> Work:
    for member in work.group.in_order():
        work = _armed(work, member.member_id, member.session_timeout_ms)
    return work


def _cancel_heartbeats(work: Work, ids: Iterable[str]) -> Work:
    return work.having(heartbeat_deadlines_ms=work.group.heartbeat_deadlines_ms.without(*ids))


def _arm_initial_delay(work: Work) -> Work:
    delay_ms = work.context.config.group_initial_rebalance_delay_ms
    remaining_ms = max(work.group.rebalance_timeout_ms - delay_ms, 0)
    return work.having(join_phase=JoinPhase(work.context.now_ms + delay_ms, True, delay_ms, remaining_ms))


def _extend_initial_delay(work: Work) -> Work:
    last = _known(work.group.join_phase)
    delay_ms = min(work.context.config.group_initial_rebalance_delay_ms, last.remaining_ms)
    remaining_ms = max(last.remaining_ms - last.delay_ms, 0)
    return work.having(join_phase=JoinPhase(work.context.now_ms + delay_ms, True, delay_ms, remaining_ms))


def _arm_join_timer(work: Work) -> Work:
    return work.having(join_phase=JoinPhase(work.context.now_ms + work.group.rebalance_timeout_ms))


def _arm_sync_timer(work: Work) -> Work:
    deadline_ms = work.context.now_ms + work.group.rebalance_timeout_ms
    return work.having(sync_phase=SyncPhase(deadline_ms, work.group.generation))


def _changed(work: Work, **changes: Any) -> Work:
    """Every member with these changes."""
    members = {i: replace(member, **changes) for i, member in work.group.members.items()}
    return work.having(members=work.group.members.merged(members))


def _known(value: Given | None) -> Given:
    if value is None:
        raise ValueError("the event was decided without saying whom or what it is about")
    return value


EFFECTS: Mapping[Symbol, Callable[[Work], Work]] = {
    Effect.ADD_MEMBER: _add_member,
    Effect.UPDATE_MEMBER: _update_member,
    Effect.REPLACE_MEMBER: _replace_member,
    Effect.REVERT_REPLACEMENT: _revert_replacement,
    Effect.REMEMBER_ID: _remember_id,
    Effect.REMOVE_ID: _remove_id,
    Effect.REMOVE_MEMBERS: _remove_members,
    Effect.REMOVE_UNJOINED_MEMBERS: _remove_unjoined,
    Effect.REMOVE_UNSYNCED_MEMBERS: _remove_unsynced,
    Effect.NOTE_NEW_MEMBER: lambda work: work.having(new_member_added=True),
    Effect.CLEAR_NEW_MEMBER_NOTE: lambda work: work.having(new_member_added=False),
    Effect.ELECT_LEADER: _elect_leader,
    Effect.PARK_JOIN: _park_join,
    Effect.PARK_SYNC: _park_sync,
    Effect.TAKE_ASSIGNMENT: _take_assignment,
    Effect.ANSWER_MEMBER_ID_REQUIRED: _answer_member_id_required,
    Effect.ANSWER_JOIN: _answer_join,
    Effect.ANSWER_JOINS: _answer_joins,
    Effect.ANSWER_JOINS_REBALANCE: _answer_joins_with(ErrorCode.REBALANCE_IN_PROGRESS),
    Effect.ANSWER_JOINS_NOT_COORDINATOR: _answer_joins_with(ErrorCode.NOT_COORDINATOR),
    Effect.ANSWER_SYNC: _answer_sync,
    Effect.ANSWER_SYNCS: _answer_syncs,
    Effect.ANSWER_SYNCS_ERROR: _answer_syncs_error,
    Effect.ANSWER_SYNCS_REBALANCE: _answer_syncs_with(ErrorCode.REBALANCE_IN_PROGRESS),
    Effect.ANSWER_SYNCS_NOT_COORDINATOR: _answer_syncs_with(ErrorCode.NOT_COORDINATOR),
    Effect.ANSWER_OK: _answer_ok,
    Effect.ANSWER_REBALANCE_IN_PROGRESS: _answer_rebalance,
    Effect.ANSWER_ERROR: _answer_error,
    Effect.CLEAR_ASSIGNMENTS: lambda work: _changed(work, assignment=b""),
    Effect.BUMP_GENERATION: lambda work: work.having(generation=work.group.generation + 1),
    Effect.SELECT_PROTOCOL: _select_protocol,
    Effect.CLEAR_PROTOCOL: _clear_protocol,
    Effect.AWAIT_SYNCS: _await_syncs,
    Effect.FORGET_SYNC: lambda work: work.having(awaited_syncs=work.group.awaited_syncs - {work.member_id}),
    Effect.FORGET_SYNCS: lambda work: work.having(awaited_syncs=NO_IDS),
    Effect.WRITE_GROUP: _write_group,
    Effect.REMOVE_GROUP: lambda work: replace(work, records=(*work.records, answers.tombstone(work.group))),
    Effect.ARM_NEW_MEMBER_TIMER: lambda work: _armed(work, work.member_id, NEW_MEMBER_JOIN_TIMEOUT_MS),
    Effect.RESET_HEARTBEAT_TIMER: _reset_heartbeat,
    Effect.RESET_HEARTBEAT_TIMERS: _reset_heartbeats,
    Effect.CANCEL_HEARTBEAT_TIMERS: lambda work: _cancel_heartbeats(work, work.gone),
    Effect.ARM_INITIAL_DELAY: _arm_initial_delay,
    Effect.EXTEND_INITIAL_DELAY: _extend_initial_delay,
    Effect.ARM_JOIN_TIMER: _arm_join_timer,
    Effect.CANCEL_JOIN_TIMER: lambda work: work.having(join_phase=None),
    Effect.ARM_SYNC_TIMER: _arm_sync_timer,
    Effect.CANCEL_SYNC_TIMER: lambda work: work.having(sync_phase=None),
}
"""One function for each effect of the table."""
