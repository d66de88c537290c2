"""Effects of the classic group's table on requests: parked, or answered now.

Source: sections 5.3 to 5.6 of the coordinator reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator.classic_group_work import Work, armed, changed
from fsm.coordinator.classic_members import ClassicGroupMember, Parked
from fsm.coordinator.messages import Answer
from fsm.kafka.error_codes import ErrorCode


def park_join(work: Work) -> Work:
    """The join is answered when the join phase is complete."""
    parked = Parked(work.asked.token, work.asked.version)
    return replace(work, group=work.group.with_member(replace(work.member, join=parked)))


def park_sync(work: Work) -> Work:
    """The sync is answered when the assignment is stored."""
    parked = Parked(work.asked.token, work.asked.version)
    return replace(work, group=work.group.with_member(replace(work.member, sync=parked)))


def take_assignment(work: Work) -> Work:
    """What the leader gave to each member; nothing to those it left out."""
    given = {a["member_id"]: answers.data_of(a["assignment"]) for a in work.asked.body.get("assignments") or ()}
    return replace(work, assignments={member_id: given.get(member_id, b"") for member_id in work.group.members})


def answer_member_id_required(work: Work) -> Work:
    """The id that was made, to join with."""
    body = answers.join_refusal(ErrorCode.MEMBER_ID_REQUIRED, work.member_id, work.asked.version)
    return work.answering(work.asked.token, body)


def answer_join(work: Work) -> Work:
    """The present generation."""
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


def answer_joins(work: Work) -> Work:
    """The new generation, to everybody who waits."""
    group = work.group
    found = [
        Answer(member.join.token, answers.joined(group, member.member_id, group.leader or ""))
        for member in group.in_order()
        if member.join
    ]
    return changed(work.answering_all(found), join=None)


def answer_joins_with(code: ErrorCode) -> Callable[[Work], Work]:
    """An effect that answers every parked join with this error."""

    def answer(work: Work) -> Work:
        found = [
            Answer(member.join.token, answers.join_refusal(code, member.member_id, member.join.version))
            for member in work.group.in_order()
            if member.join
        ]
        return changed(work.answering_all(found), join=None)

    return answer


def answer_sync(work: Work) -> Work:
    """The member's present assignment."""
    return work.answering(work.asked.token, answers.synced(work.group, work.member))


def answer_syncs(work: Work) -> Work:
    """The assignment that was stored, to everybody who waits."""
    given = work.assignments or {}
    members = {i: replace(m, assignment=given.get(i, b"")) for i, m in work.group.members.items()}
    work = work.having(members=work.group.members.merged(members))
    return _answer_each_sync(work, lambda member: answers.synced(work.group, member))


def answer_syncs_with(code: ErrorCode) -> Callable[[Work], Work]:
    """An effect that answers every parked sync with this error."""
    return lambda work: _answer_each_sync(work, lambda _: answers.sync_refusal(code))


def answer_syncs_error(work: Work) -> Work:
    """What storing the assignment brought, which is nobody's now."""
    return _answer_each_sync(changed(work, assignment=b""), lambda _: answers.sync_refusal(work.code))


def _answer_each_sync(work: Work, body: Callable[[ClassicGroupMember], Mapping[str, Any]]) -> Work:
    """The sessions of those who waited begin anew: what ran out meanwhile was excused."""
    waiting = [(member, member.sync) for member in work.group.in_order() if member.sync]
    work = work.answering_all(Answer(sync.token, body(member)) for member, sync in waiting)
    return changed(armed(work, {member.member_id: member.session_timeout_ms for member, _ in waiting}), sync=None)


def answer_ok(work: Work) -> Work:
    """No error; to a LeaveGroup, what became of each entry."""
    request = work.asked
    body = answers.left(work.entries, request.version) if request.api == "LeaveGroup" else {"error_code": None}
    return work.answering(request.token, body)


def answer_rebalance(work: Work) -> Work:
    """REBALANCE_IN_PROGRESS."""
    return work.answering(work.asked.token, answers.refusal(work.asked, ErrorCode.REBALANCE_IN_PROGRESS))


def answer_error(work: Work) -> Work:
    """The error of the check that failed."""
    request = work.asked
    if work.entries:
        return work.answering(request.token, answers.left(work.entries, request.version))
    body = answers.refusal(request, work.code, work.answered_id) if work.refusal is None else work.refusal
    return work.answering(request.token, body)
