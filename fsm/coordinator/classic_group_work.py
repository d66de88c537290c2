"""A classic group on its way through one step, with everything that the effects of its table need to know.

Whoever decides an event says in a `Work` whom it is about, what the request carries and which error is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fsm.coordinator import classic_group_answers as answers
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.classic_members import ClassicGroupMember
from fsm.coordinator.context import Context
from fsm.coordinator.messages import Answer, Request
from fsm.coordinator.records import Record
from fsm.coordinator.step import Happened, Step
from fsm.kafka.error_codes import ErrorCode

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
        return self.answering_all((Answer(token, body),))

    def answering_all(self, answers: Iterable[Answer]) -> Work:
        """With more answers."""
        return replace(self, answers=(*self.answers, *answers))

    def step(self) -> Step[ClassicGroup]:
        """The outcome."""
        return Step(self.group, self.answers, self.records, self.happened)


def armed(work: Work, timeouts_ms: Mapping[str, int]) -> Work:
    """With the heartbeat timers of these members, or given-out ids, begun anew."""
    deadlines_ms = {member_id: work.context.now_ms + timeout_ms for member_id, timeout_ms in timeouts_ms.items()}
    return work.having(heartbeat_deadlines_ms=work.group.heartbeat_deadlines_ms.armed(deadlines_ms))


def changed(work: Work, **changes: Any) -> Work:
    """Every member with these changes."""
    members = {i: replace(member, **changes) for i, member in work.group.members.items()}
    return work.having(members=work.group.members.merged(members))


def known(value: Given | None) -> Given:
    """What the decision must have named. Raises `ValueError` where it did not."""
    if value is None:
        raise ValueError("the event was decided without saying whom or what it is about")
    return value
