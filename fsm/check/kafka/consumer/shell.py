"""A consumer of KIP-848 as a value, and the production shell that each step restores from it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from fsm.check.kafka.application import FAR, NOW, App, Driven
from fsm.check.kafka.descriptions import Seen
from fsm.coordinator.model.consumer_group import LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH
from fsm.member.consumer.decisions import SILENT, list_recreated, remains
from fsm.member.consumer.invariants import INVARIANTS, Invariant, Status, find_broken
from fsm.member.consumer.predicates import ObservedStep
from fsm.member.consumer.state import Member, Origin
from fsm.member.consumer.step import Step as Done
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect
from fsm.member.effects import MemberEffect, UnsentRequest
from fsm.member.events import (
    AsyncPollEvent,
    BackgroundEvent,
    GroupMembershipOperation,
    LeaveGroupOnCloseEvent,
    SyncCommitEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, MemberInput, Tick
from fsm.member.runtime.consumer_shell import CALLBACK, ConsumerMember
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, OffsetCommitRequest
from fsm.tables.consumer_member import State

LEAVES = "a closing member sends a leave"
LEAVES_AT_ONCE = "a leave waits for no other answer"
LEAVES_FOR_A_WHILE = "a static member leaves for a while unless it is asked to leave its group"
LEFT_FOR_GOOD = "who has unsubscribed subscribes to nothing"
KEEPS_EPOCH = "a member adopts the epoch of each response"
JOINS_EMPTY = "a joining member uses no partition"
ONE_HEARTBEAT = "a step sends at most one heartbeat"
ONE_AWAITED = "no heartbeat but a leave is sent while another one is awaited"
COMMITS_AS_ITSELF = "a commit names its member"
COMMITS_FIRST = "an automatic commit comes before partitions are given up"
STARTS_TIMER = "a poll or a heartbeat starts its timer"
COMMIT, CALL_BACK, LEAVE = "commit", "callback", "leave"
"""The phases of close(): what it waits for."""


class Consumer(NamedTuple):
    """A consumer between two steps."""

    member: Member
    app: App = App.IDLE
    using: Partitions = ()
    """The partitions in use: from the end of the assigned callback until the end of the revoked or lost callback."""
    events: tuple[BackgroundEvent, ...] = ()
    """The background queue."""
    calling: BackgroundEvent | None = None
    """The event of the running callback."""
    assignment: Partitions = ()
    generation: int = -1
    life: int = 0
    """The number of the process; each has its own member id."""
    raised: bool = False
    """Whether a callback of the present poll raised: the error of the poll is known."""
    searching: bool = False
    """Whether a FindCoordinator request is in flight."""
    closing: str = ""
    """What close() waits for; empty before it begins."""
    overdue: bool = False
    """Whether the timeout of close() has expired."""


@cache
def select_invariants(dialect: Dialect) -> tuple[Invariant, ...]:
    """The invariants that every member of a dialect holds, whatever its callbacks do."""
    return tuple(one for one in INVARIANTS if one.status_in(dialect) is Status.HOLDS)


class Shell(ConsumerMember, Driven):
    """The production shell, restored from a consumer that is a value."""

    def __init__(self, consumer: Consumer, *, searches: bool = False) -> None:
        member = consumer.member
        super().__init__(
            member.settings.config, member_id=member.member_id, now_ms=NOW, dialect=member.settings.dialect
        )
        self.restore(consumer, searches=searches)
        self.assignment, self.generation = consumer.assignment, consumer.generation
        if consumer.closing:
            self._close_deadline_ms = NOW if consumer.overdue else FAR
            self._closing = self._rest(consumer.closing)
            self._awaiting = CALLBACK if consumer.closing == CALL_BACK else 1
        if member.leaving.calls or consumer.closing in (COMMIT, LEAVE):
            asked = {"": UnsubscribeEvent, COMMIT: SyncCommitEvent}.get(consumer.closing, LeaveGroupOnCloseEvent)
            self._calls, self._waiting[1] = 1, (asked.__name__, NEVER)
        self.observe, self._asked = self._ask, select_invariants(member.settings.dialect)

    def _rest(self, closing: str) -> Iterator[int]:
        """Continues close() from the phase that has ended."""
        operation = GroupMembershipOperation.DEFAULT
        if closing == COMMIT:
            return self._end_membership(operation)
        return self._leave(operation) if closing == CALL_BACK else iter(())

    @property
    def has_left(self) -> bool:
        """Whether the leave was sent, now or before, or need not be sent."""
        bodies = (one.body for one in self.sent if isinstance(one.body, ConsumerGroupHeartbeatRequest))
        return self.member.state in SILENT or any(body.member_epoch < 0 for body in bodies)

    @property
    def has_committed(self) -> bool:
        """Whether a commit was sent in this step."""
        return any(isinstance(one.body, OffsetCommitRequest) for one in self.sent)

    @property
    def closing(self) -> str:
        """What close() waits for; empty before it begins."""
        if self._closing is None:
            return ""
        if self._awaiting == CALLBACK:
            return CALL_BACK
        commits = self._waiting.get(self._awaiting, ("", 0))[0] == SyncCommitEvent.__name__
        return COMMIT if commits else LEAVE

    def _ask(self, given: MemberInput, effects: tuple[MemberEffect, ...]) -> None:
        """Checks the invariants of a step of the member."""
        at = ObservedStep(self.stepped_from, given, Done(self.member, effects), outstanding=0)
        self.broken += _ask_leave(at)
        if effects or self.member is not at.before:
            self.broken += [f"{one.name} {one.statement}" for one in find_broken(at) if one in self._asked]
            self.broken += [] if _keeps_epoch(at) else [KEEPS_EPOCH]
            self.broken += [ONE_HEARTBEAT] if len(_list_epochs(at)) > 1 else []
            self.broken += [] if _awaits_one(at) else [ONE_AWAITED]
            self.broken += [] if _commits_as_itself(at) else [COMMITS_AS_ITSELF]
            self.broken += [] if _leaves_for_a_while(at) else [LEAVES_FOR_A_WHILE]
            self.broken += [] if _commits_first(at) else [COMMITS_FIRST]
        self.broken += [] if _starts_its_timer(at) else [STARTS_TIMER]


def _ask_leave(at: ObservedStep) -> list[str]:
    """The invariants that a member on its way out breaks: a tick in LEAVING sends the leave, and nobody is out without
    one, unless the member waits for its coordinator, is told that it is out, or is to remain in its group.
    """
    was, now = at.before.state, at.after.state
    if not at.before.client.coordinator_known or remains(at.after) or isinstance(at.given, Answered):
        return []
    is_due = was is State.LEAVING and isinstance(at.given, Tick)
    if is_due and now is State.LEAVING:
        return [LEAVES_AT_ONCE]
    goes = is_due or (was not in SILENT and now is State.UNSUBSCRIBED)
    return [LEAVES] if goes and not any(epoch < 0 for epoch in _list_epochs(at)) else []


def _list_epochs(at: ObservedStep) -> list[int]:
    """The epochs of the heartbeats that a step sends."""
    sent = (one.body for one in at.done.effects if isinstance(one, UnsentRequest))
    return [body.member_epoch for body in sent if isinstance(body, ConsumerGroupHeartbeatRequest)]


def _awaits_one(at: ObservedStep) -> bool:
    """Whether a tick sends no heartbeat of a member in its group while an earlier one may still be answered."""
    if not isinstance(at.given, Tick) or not at.before.heartbeat_in_flight:
        return True
    return all(epoch < 0 for epoch in _list_epochs(at))


def _commits_as_itself(at: ObservedStep) -> bool:
    """Whether each commit that is sent has the member's id."""
    sent = (one.body for one in at.done.effects if isinstance(one, UnsentRequest))
    return all(body.member_id == at.after.member_id for body in sent if isinstance(body, OffsetCommitRequest))


def _commits_first(at: ObservedStep) -> bool:
    """Whether a member that commits automatically has done so as a run asks for its revoked callback, or does as it
    unsubscribes.
    """
    was, choices = at.before, at.before.settings.choices
    consumed = {p for p, _ in at.after.auto_commit.consumed if p[0] not in list_recreated(was)}
    if not was.settings.config.enable_auto_commit or consumed.isdisjoint(was.ownership.owned):
        return True
    if isinstance(at.given, UnsubscribeEvent) and Choice.COMMIT_ON_UNSUBSCRIBE in choices:
        return not was.client.coordinator_known or _commits(at)
    revokes = {a for a in at.after.awaited if a.origin is Origin.RUN_REVOKED}.difference(was.awaited)
    return not revokes or was.commit is not None


def _commits(at: ObservedStep) -> bool:
    return any(isinstance(one, UnsentRequest) and isinstance(one.body, OffsetCommitRequest) for one in at.done.effects)


def _starts_its_timer(at: ObservedStep) -> bool:
    """Whether a poll starts the poll timer, and a heartbeat that of heartbeats."""
    now = at.after
    if isinstance(at.given, AsyncPollEvent) and at.before.client.metadata_error is None:
        return now.poll_due_ms > NOW
    beats = now.heartbeat_interval_ms > 0 and any(epoch >= 0 for epoch in _list_epochs(at))
    return not beats or now.heartbeat_due_ms > NOW


def _leaves_for_a_while(at: ObservedStep) -> bool:
    """Whether the epoch of a leave says that a static member comes back: -2, otherwise -1."""
    member = at.after
    if member.settings.is_static and member.leaving.operation is GroupMembershipOperation.LEAVE_GROUP:
        return True
    epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH if member.settings.is_static else LEAVE_GROUP_MEMBER_EPOCH
    return all(one == epoch for one in _list_epochs(at) if one < 0)


def _keeps_epoch(at: ObservedStep) -> bool:
    """Whether a member that is in the group, or leaving it, adopts the epoch of a successful response."""
    answer = at.given.answer if isinstance(at.given, Answered) else None
    if not isinstance(answer, ConsumerGroupHeartbeatResponse) or answer.error_code or answer.member_epoch <= 0:
        return True
    return at.before.state in SILENT or at.after.epoch <= 0 or at.after.epoch == answer.member_epoch


def observe(app: App, member: Member, using: Partitions) -> Seen:
    """The parts of a consumer's state that the model and a live consumer share."""
    if app in (App.DEAD, App.CLOSED):
        return {"application": app}
    return {
        "application": app,
        "state": member.state,
        "epoch": member.epoch,
        "target": member.target.partitions,
        "assignment": member.current.partitions,
        "ownership": member.ownership,
        "use": using,
    }
