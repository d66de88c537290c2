"""The membership of one consumer instance: fencing, fatal errors, leaves, heartbeats, and those that it abandoned."""

from __future__ import annotations

from dataclasses import dataclass, field

from fsm.audit.findings import Cause, Finding, FindingKind
from fsm.audit.follower import Rows, on
from fsm.audit.limits import DEFAULT_REQUEST_TIMEOUT_MS, LATE_LEAVE_MS, SETTLED_MS
from fsm.audit.member.consumer_instance import BECAUSE, InstanceFollower
from fsm.audit.rows import At, CoordinatorAway, Ended, GivenUp, Known
from fsm.audit.wording import seconds
from fsm.trace import Kind, Partition, TraceRecord

_REFUSALS = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "CommitFailed")
"""Errors of commits by a consumer that is no member, or one of an earlier generation. After others it tries again."""
_MOST_UNTOLD = 100
_SHOWN_LOSSES = 10
"""Most lines of losses in the finding of one loop."""


@dataclass(slots=True)
class _Loop:
    end_ms: int
    count: int = 0
    shown: list[At] = field(default_factory=list)
    causes: set[Cause] = field(default_factory=set)
    names_partitions: bool = False
    """A line names the partitions that were lost: a finding is about them."""


@dataclass
class Membership(InstanceFollower):
    """Follows the membership of one instance, and sets the cause for which partitions are lost afterwards."""

    loop: _Loop | None = None
    is_member: bool = False
    was_member: bool = False
    """A line has told that it is a member."""
    untold: list[Finding] = field(default_factory=list)
    """Findings about memberships of which no line tells, until one does: the first `_MOST_UNTOLD`."""
    refused_ms: int | None = None
    """When a commit was refused last, since it joined."""
    fatal: tuple[At, str] | None = None
    leave: At | None = None
    heartbeat: At | None = None
    without_ms: int | None = None
    """Since when it knows no coordinator."""

    def finish(self) -> Rows:
        yield from self._end_loop()
        yield from self._end_coordinator_away(self.consumer.last.ts_ms)
        yield from self.untold
        if self.fatal is not None:
            yield from self._out_for_good(*self.fatal)

    @property
    def _tells_membership(self) -> bool:
        """Whether the log has a line by which the consumer became a member, or would have it."""
        return self.was_member or self.consumer.whole_start

    def _be_member(self) -> None:
        if not self.was_member:  # the log begins in the middle of an earlier membership
            self.loop = None
            self.untold.clear()
        self.is_member = self.was_member = self.consumer.in_group = True

    # -- in and out -------------------------------------------------------------------------------------

    @on(Kind.JOINED, Kind.SYNCED)
    def _enter(self, _known: Known) -> None:
        self._be_member()
        self.refused_ms = None
        self.fatal = self.leave = None
        self.owned.cause = Cause.NONE

    @on(Kind.ASSIGN_BEGIN)
    def _on_assignment(self, known: Known) -> None:
        if known.record.partitions:
            self._enter(known)

    @on(Kind.HEARTBEAT_OK)
    def _on_answer(self, known: Known) -> None:
        """The coordinator accepted the member's epoch. Ignored after a fatal error."""
        if (known.record.epoch or 0) > 0 and self.fatal is None:
            self._be_member()

    @on(Kind.POLL_EXPIRED, Kind.FENCED, Kind.LOST_BEGIN)
    def _lose(self, known: Known) -> Rows:
        """The coordinator removed the member. Counted once per membership."""
        cause = self.owned.cause = self._cause(known.record)
        self.owned.mark_void(known.at.ts_ms, cause)
        # Without lines of joins, several lines may be about one loss; but a poll timeout is one of a membership each.
        unseen = not self._tells_membership and (
            known.record.kind is Kind.POLL_EXPIRED or self.loop is None or self._is_past(self.loop.end_ms, known.at)
        )
        counts = self.consumer.facts.has_lost_callback if self.is_member else unseen
        self._leave_group()
        if counts:
            yield from self._count_loss(known.at, cause)
        if self.loop is not None and known.record.kind is Kind.LOST_BEGIN and known.record.partitions:
            self.loop.names_partitions = True

    @on(Kind.COMMIT_FAILED)
    def _refuse_commit(self, known: Known) -> Rows:
        """Tells the first one, and the first after a rejoin or a while, if no lost callback tells of the loss."""
        detail, at = known.record.detail, known.at
        silent = not (self._tells_membership and self.consumer.facts.has_lost_callback)
        if not silent or not any(error in detail for error in _REFUSALS):
            return
        last_ms, self.refused_ms = self.refused_ms, at.ts_ms
        if last_ms is None or self._is_past(last_ms, at):
            error = detail.partition(":")[0]
            summary = (
                f"a commit of {self.consumer.member} was refused{BECAUSE[self.owned.cause]} ({error}); "
                "records that it had processed since its last commit are processed again"
            )
            kind, cause = FindingKind.COMMIT_REFUSED, self.owned.cause
            yield from self._tell(self.consumer.finding(kind, summary, [at], cause=cause))

    def _leave_group(self) -> None:
        self.is_member = self.consumer.in_group = False
        self.heartbeat = None

    def _cause(self, record: TraceRecord) -> Cause:
        if record.kind is Kind.POLL_EXPIRED or record.next_state in ("STALE", "PREPARE_LEAVING"):
            return Cause.NO_POLL
        if self.owned.cause is not Cause.NONE:
            return self.owned.cause
        # The coordinator's timer began before the callback, by the latency of the response.
        callback = self.consumer.callback
        running_ms = 0 if callback is None else record.ts_ms - callback.at.ts_ms
        if running_ms > self.consumer.rebalance_timeout_ms - SETTLED_MS:
            return Cause.SLOW_CALLBACK
        if record.detail == "COORDINATOR_NOT_AVAILABLE":
            return Cause.COORDINATOR_LOST
        if record.kind is Kind.LOST_BEGIN and not self._tells_membership:
            return Cause.UNKNOWN  # the log may begin behind the line that tells it
        return Cause.SESSION_EXPIRED if record.detail == "UNKNOWN_MEMBER_ID" else Cause.FENCED

    def _count_loss(self, at: At, cause: Cause) -> Rows:
        if self.loop is not None and self._is_past(self.loop.end_ms, at):
            yield from self._end_loop()
        loop = self.loop = self.loop or _Loop(at.ts_ms)
        loop.end_ms = at.ts_ms
        loop.count += 1
        loop.causes.add(cause)
        if len(loop.shown) < _SHOWN_LOSSES:
            loop.shown.append(at)

    def _is_past(self, last_ms: int, at: At) -> bool:
        """Whether this is another event than one whose last line is from `last_ms`."""
        return at.ts_ms - last_ms > self.consumer.limits.window_ms

    def _end_loop(self) -> Rows:
        loop, self.loop = self.loop, None
        if loop is None:
            return
        member, cause = self.consumer.member, next(iter(loop.causes)) if len(loop.causes) == 1 else Cause.UNKNOWN
        if loop.count > 1:
            kind = FindingKind.FENCING_LOOP
            lasted = seconds(loop.end_ms - loop.shown[0].ts_ms)
            summary = f"{member} was thrown out of the group {loop.count} times within {lasted}"
        elif not self._tells_membership and not loop.names_partitions:
            kind = FindingKind.MEMBERSHIP_LOST
            summary = f"{member} lost its place in the group{BECAUSE[cause]}; no line says what it owned"
        else:
            return
        yield from self._tell(self.consumer.finding(kind, summary, loop.shown, end_ms=loop.end_ms, cause=cause))

    def _tell(self, found: Finding) -> Rows:
        if self._tells_membership:
            yield found
        elif len(self.untold) < _MOST_UNTOLD:
            self.untold.append(found)

    @on(Kind.TRANSITION)
    def _transition(self, known: Known) -> Rows | None:
        state = known.record.next_state
        if state in ("FENCED", "STALE"):
            return self._lose(known)
        if state in ("RECONCILING", "STABLE"):
            self._enter(known)
        elif state == "FATAL":
            self._fail(known)
        return None

    @on(Kind.GENERATION_RESET)
    def _reset(self, known: Known) -> Rows | None:
        """A classic member resets its generation: a loss, unless it closes or leaves."""
        leaving = "leaving" in known.record.detail or "unsubscribed" in known.record.detail
        return None if leaving or self.consumer.closing_ms is not None else self._lose(known)

    # -- fatal errors -----------------------------------------------------------------------------------

    @on(Kind.FATAL)
    def _fail(self, known: Known) -> None:
        if self.fatal is None:
            self.fatal = known.at, known.record.detail
        elif not self.fatal[1]:
            self.fatal = self.fatal[0], known.record.detail
        self.owned.mark_void(known.at.ts_ms, Cause.FATAL_ERROR)
        self.owned.cause = Cause.FATAL_ERROR
        self._leave_group()

    def _out_for_good(self, at: At, detail: str) -> Rows:
        last_ms = self.consumer.last.ts_ms
        lived_ms = last_ms - at.ts_ms
        certain = lived_ms > SETTLED_MS
        if not certain and self.consumer.ended is not Ended.LOG_ENDED:
            return
        error = f" ({detail})" if detail else ""
        then = f"and lived on for {seconds(lived_ms)} outside the group" if certain else "and is silent since"
        summary = f"{self.consumer.member} got a fatal error{error} {then}; it owns nothing until it is restarted"
        kind, cause = FindingKind.MEMBER_OUT_FOR_GOOD, Cause.FATAL_ERROR
        found = self.consumer.finding(kind, summary, [at], end_ms=last_ms, cause=cause)
        yield found if certain else found.lower_severity()

    # -- leaves and heartbeats --------------------------------------------------------------------------

    @on(Kind.LEAVE_BEGIN)
    def _leave_begin(self, known: Known) -> None:
        self.leave = self.leave or known.at

    @on(Kind.LEAVE_SENT)
    def _leave_sent(self, known: Known) -> Rows:
        begun, self.leave, at = self.leave, None, known.at
        self.heartbeat = None
        if begun is not None and at.ts_ms - begun.ts_ms > LATE_LEAVE_MS:
            summary = (
                f"{self.consumer.member} announced that it leaves, but told the coordinator only "
                f"{seconds(at.ts_ms - begun.ts_ms)} later; until then nobody else could have its partitions"
            )
            cause = Cause.NO_POLL if self.owned.cause is Cause.NO_POLL else Cause.UNKNOWN
            yield self.consumer.finding(FindingKind.LATE_LEAVE, summary, [begun, at], cause=cause)

    @on(Kind.HEARTBEAT_SENT)
    def _heartbeat(self, known: Known) -> Rows:
        at = known.at
        before, self.heartbeat = self.heartbeat, at
        silence_ms = self.consumer.silence_ms
        if before is not None and self.is_member and at.ts_ms - before.ts_ms > silence_ms:
            silent, session = seconds(at.ts_ms - before.ts_ms), seconds(silence_ms)
            summary = f"{self.consumer.member} sent no heartbeat for {silent}; its session lasts {session}"
            yield self.consumer.finding(FindingKind.HEARTBEAT_GAP, summary, [before, at], cause=Cause.UNKNOWN)

    @on(Kind.JOINING)
    def _join(self, _known: Known) -> None:
        """A member of the classic protocol sends no heartbeats while it waits for the others, and no session runs."""
        self.heartbeat = None

    @on(Kind.COORDINATOR_LOST)
    def _lose_coordinator(self, known: Known) -> None:
        """Without coordinator no heartbeats are sent, and no session runs."""
        self.heartbeat = None
        self.without_ms = known.at.ts_ms if self.without_ms is None else self.without_ms

    @on(Kind.COORDINATOR_FOUND)
    def _find_coordinator(self, known: Known) -> Rows:
        self.heartbeat = None
        return self._end_coordinator_away(known.at.ts_ms)

    def _end_coordinator_away(self, end_ms: int) -> Rows:
        since_ms, self.without_ms = self.without_ms, None
        if since_ms is not None and end_ms - since_ms > SETTLED_MS:
            yield CoordinatorAway(self.consumer.member, since_ms, end_ms)

    @on(Kind.LEFT)
    def _leave(self, _known: Known) -> None:
        self._leave_group()
        self.leave = None


@dataclass
class GivenUpHeartbeats(InstanceFollower):
    """Yields a `GivenUp` when the callback that ran at the time has ended."""

    assigning: tuple[Partition, ...] = ()
    waiting: list[At] = field(default_factory=list)

    def finish(self) -> Rows:
        return self._end(self.consumer.last.ts_ms)

    @on(Kind.HEARTBEAT_GIVEN_UP)
    def _give_up(self, known: Known) -> Rows:
        self.waiting.append(known.at)
        return () if self.assigning else self._end(known.at.ts_ms)

    @on(Kind.ASSIGN_BEGIN)
    def _begin(self, known: Known) -> None:
        self.assigning = known.record.partitions

    @on(Kind.ASSIGN_END, Kind.CALLBACK_FAILED)
    def _return(self, known: Known) -> Rows:
        return self._end(known.at.ts_ms)

    @on(Kind.TRANSITION)
    def _step(self, known: Known) -> Rows:
        """At INFO only a transition shows that the callback has returned; a new target does not."""
        return () if known.record.next_state == "RECONCILING" else self._end(known.at.ts_ms)

    def _end(self, end_ms: int) -> Rows:
        own = self.consumer
        assigning, waiting, self.assigning, self.waiting = self.assigning, self.waiting, (), []
        timeout_ms = own.setting_ms("request.timeout.ms") or DEFAULT_REQUEST_TIMEOUT_MS
        for at in waiting:
            yield GivenUp(own.group, own.member, at.ts_ms, assigning, end_ms, timeout_ms, at.place)
