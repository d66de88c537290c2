"""Whether one consumer instance is in its group: fencing, fatal errors, leaves, heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fsm.audit.findings import Cause, Finding, FindingKind
from fsm.audit.limits import LATE_LEAVE_MS, SETTLED_MS, Limits
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.member.ownership import Ownership
from fsm.audit.rows import Ended, Place, Seen
from fsm.audit.wording import seconds
from fsm.trace import Kind, TraceRecord

Findings = Iterator[Finding]

_SHOWN_LOSSES = 10
"""Losses of one loop whose lines are shown."""


@dataclass(slots=True)
class _Loop:
    start_ms: int
    end_ms: int
    count: int = 0
    places: list[Place] = field(default_factory=list)
    causes: set[Cause] = field(default_factory=set)


class MembershipTracker:
    """Follows the membership of one instance; it knows why partitions go before `ownership` sees them go."""

    def __init__(self, consumer: ConsumerInstance, ownership: Ownership, limits: Limits) -> None:
        self.consumer = consumer
        self.ownership = ownership
        self.owned = ownership.owned
        self.limits = limits
        self.loop: _Loop | None = None
        self.is_member = False
        self.fatal: tuple[int, Place, str] | None = None
        self.leave: tuple[int, Place] | None = None
        self.heartbeat: tuple[int, Place] | None = None

    def see(self, seen: Seen) -> Findings:
        if step := _STEPS.get(seen.record.kind):
            yield from step(self, seen) or ()

    def end(self, how: Ended) -> Findings:
        yield from self._end_loop()
        if self.fatal is not None:
            yield from self._out_for_good(how, *self.fatal)

    # -- in and out -------------------------------------------------------------------------------------

    def _enter(self, _seen: Seen) -> None:
        self.is_member = self.consumer.in_group = True
        self.fatal = self.leave = None
        self.owned.cause = Cause.NONE

    def _assigned(self, seen: Seen) -> None:
        if seen.record.partitions:
            self._enter(seen)

    def _answered(self, seen: Seen) -> None:
        """The coordinator knows a member of this epoch. After a fatal error that changes nothing."""
        if (seen.record.epoch or 0) > 0 and self.fatal is None:
            self.is_member = self.consumer.in_group = True

    def _lose(self, seen: Seen) -> Findings:
        """The coordinator does not count the member any more: once for each membership."""
        record, place = seen
        cause = self._cause(record)
        self.owned.mark_void(record.ts_ms, cause)
        self.owned.cause = cause
        self.heartbeat = None
        self.consumer.in_group = False
        was_member, self.is_member = self.is_member, False
        if was_member and self.consumer.facts.tells_loss:
            yield from self._count_loss(record.ts_ms, place, cause)

    def _cause(self, record: TraceRecord) -> Cause:
        if record.kind is Kind.POLL_EXPIRED or record.next_state in ("STALE", "PREPARE_LEAVING"):
            return Cause.NO_POLL
        if self.owned.cause is not Cause.NONE:
            return self.owned.cause
        # The coordinator's timer began before the callback did, by what the answer took.
        if self.ownership.running_ms(record.ts_ms) > self.consumer.rebalance_timeout_ms - SETTLED_MS:
            return Cause.SLOW_CALLBACK
        if record.detail == "COORDINATOR_NOT_AVAILABLE":
            return Cause.COORDINATOR_LOST
        return Cause.SESSION_EXPIRED if record.detail == "UNKNOWN_MEMBER_ID" else Cause.FENCED

    def _count_loss(self, ts_ms: int, place: Place, cause: Cause) -> Findings:
        if self.loop is not None and ts_ms - self.loop.end_ms > self.limits.window_ms:
            yield from self._end_loop()
        loop = self.loop = self.loop or _Loop(ts_ms, ts_ms)
        loop.end_ms = ts_ms
        loop.count += 1
        loop.causes.add(cause)
        if len(loop.places) < _SHOWN_LOSSES:
            loop.places.append(place)

    def _end_loop(self) -> Findings:
        loop, self.loop = self.loop, None
        if loop is not None and loop.count > 1:
            yield self.consumer.finding(
                FindingKind.FENCING_LOOP,
                loop.start_ms,
                loop.end_ms,
                f"{self.consumer.member} was thrown out of the group {loop.count} times "
                f"within {seconds(loop.end_ms - loop.start_ms)}",
                loop.places,
                cause=next(iter(loop.causes)) if len(loop.causes) == 1 else Cause.UNKNOWN,
            )

    def _transition(self, seen: Seen) -> Findings | None:
        state = seen.record.next_state
        if state in ("FENCED", "STALE"):
            return self._lose(seen)
        if state in ("RECONCILING", "STABLE"):
            self._enter(seen)
        elif state == "FATAL":
            self._fail(seen)
        return None

    def _reset(self, seen: Seen) -> Findings | None:
        """A classic member that gives its generation up; when it closes, or leaves, that is no loss."""
        leaving = "leaving" in seen.record.detail or "unsubscribed" in seen.record.detail
        return None if leaving or self.consumer.closing_ms is not None else self._lose(seen)

    # -- fatal errors -----------------------------------------------------------------------------------

    def _fail(self, seen: Seen) -> None:
        record, place = seen
        if self.fatal is None:
            self.fatal = (record.ts_ms, place, record.detail)
        elif not self.fatal[2]:
            self.fatal = (*self.fatal[:2], record.detail)
        self.owned.mark_void(record.ts_ms, Cause.FATAL_ERROR)
        self.owned.cause = Cause.FATAL_ERROR
        self.consumer.in_group = self.is_member = False
        self.heartbeat = None

    def _out_for_good(self, how: Ended, ts_ms: int, place: Place, detail: str) -> Findings:
        lived_ms = self.consumer.last_ms - ts_ms
        certain = lived_ms > SETTLED_MS
        if not certain and how is not Ended.LOG_ENDED:
            return
        found = self.consumer.finding(
            FindingKind.MEMBER_OUT_FOR_GOOD,
            ts_ms,
            self.consumer.last_ms,
            f"{self.consumer.member} got a fatal error"
            + (f" ({detail})" if detail else "")
            + (f" and lived on for {seconds(lived_ms)} outside the group" if certain else " and is silent since")
            + "; it owns nothing until it is restarted",
            [place],
            cause=Cause.FATAL_ERROR,
        )
        yield found if certain else found.lower_severity()

    # -- leaves and heartbeats --------------------------------------------------------------------------

    def _leave_begin(self, seen: Seen) -> None:
        self.leave = self.leave or (seen.record.ts_ms, seen.place)

    def _leave_sent(self, seen: Seen) -> Findings:
        begun, self.leave = self.leave, None
        self.heartbeat = None
        if begun is None or seen.record.ts_ms - begun[0] <= LATE_LEAVE_MS:
            return
        yield self.consumer.finding(
            FindingKind.LATE_LEAVE,
            begun[0],
            seen.record.ts_ms,
            f"{self.consumer.member} announced that it leaves, but told the coordinator only "
            f"{seconds(seen.record.ts_ms - begun[0])} later; until then nobody else could have its partitions",
            [begun[1], seen.place],
            cause=Cause.NO_POLL if self.owned.cause is Cause.NO_POLL else Cause.UNKNOWN,
        )

    def _heartbeat(self, seen: Seen) -> Findings:
        record, place = seen
        before, self.heartbeat = self.heartbeat, (record.ts_ms, place)
        silence_ms = self.consumer.silence_ms
        if before is None or not self.is_member or record.ts_ms - before[0] <= silence_ms:
            return
        yield self.consumer.finding(
            FindingKind.HEARTBEAT_GAP,
            before[0],
            record.ts_ms,
            f"{self.consumer.member} sent no heartbeat for {seconds(record.ts_ms - before[0])}; "
            f"its session lasts {seconds(silence_ms)}",
            [before[1], place],
            cause=Cause.UNKNOWN,
        )

    def _coordinator_changes(self, _seen: Seen) -> None:
        """Without a coordinator there is nobody to send heartbeats to, and no session runs."""
        self.heartbeat = None

    def _leave(self, _seen: Seen) -> None:
        self.is_member = self.consumer.in_group = False
        self.heartbeat = self.leave = None


_STEPS: dict[Kind, Callable[[MembershipTracker, Seen], Findings | None]] = {
    Kind.TRANSITION: MembershipTracker._transition,
    Kind.JOINED: MembershipTracker._enter,
    Kind.SYNCED: MembershipTracker._enter,
    Kind.ASSIGN_BEGIN: MembershipTracker._assigned,
    Kind.POLL_EXPIRED: MembershipTracker._lose,
    Kind.FENCED: MembershipTracker._lose,
    Kind.LOST_BEGIN: MembershipTracker._lose,
    Kind.GENERATION_RESET: MembershipTracker._reset,
    Kind.FATAL: MembershipTracker._fail,
    Kind.LEAVE_BEGIN: MembershipTracker._leave_begin,
    Kind.LEAVE_SENT: MembershipTracker._leave_sent,
    Kind.LEFT: MembershipTracker._leave,
    Kind.COORDINATOR_LOST: MembershipTracker._coordinator_changes,
    Kind.COORDINATOR_FOUND: MembershipTracker._coordinator_changes,
    Kind.HEARTBEAT_SENT: MembershipTracker._heartbeat,
    Kind.HEARTBEAT_OK: MembershipTracker._answered,
}
