"""Whether one member is in its group: fencing, fatal errors, leaves, heartbeats, callbacks that never come.

The state is a handful of moments; nothing grows with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.life import Living
from fsm.audit.limits import LATE_LEAVE_MS, SETTLED_MS, Limits
from fsm.audit.ownership import Ownership
from fsm.audit.rows import Ended, Place, Seen
from fsm.audit.wording import seconds
from fsm.trace import Kind, TraceRecord


@dataclass(slots=True)
class _Loop:
    """Losses of membership that followed each other closely."""

    start_ms: int
    end_ms: int
    count: int = 1
    places: list[Place] = field(default_factory=list)
    causes: set[Cause] = field(default_factory=set)


_SHOWN_LOSSES = 10
"""Losses of one loop whose lines are shown."""


class Membership:
    """Follows the membership of one life."""

    def __init__(self, living: Living, ownership: Ownership, limits: Limits) -> None:
        self.living = living
        self.ownership = ownership
        self.limits = limits
        self.loop: _Loop | None = None
        self.is_member = False
        self.fatal: tuple[int, Place, str] | None = None
        self.leave: tuple[int, Place] | None = None
        self.heartbeat: tuple[int, Place] | None = None
        self.last_ms = living.start_ms

    def see(self, seen: Seen) -> Iterator[Finding]:
        """The findings this record completes."""
        step = _STEPS.get(seen.record.kind)
        if step is not None:
            yield from step(self, seen)
        self.last_ms = max(self.last_ms, seen.record.ts_ms)

    def end(self, how: Ended) -> Iterator[Finding]:
        """What the end of the life completes."""
        yield from self._end_of_loop()
        if self.fatal is not None:
            yield from self._out_for_good(how, *self.fatal)

    # -- in and out -------------------------------------------------------------------------------------

    def _in(self, _seen: Seen) -> Iterator[Finding]:
        self.is_member = self.living.in_group = True
        self.fatal = None
        self.leave = None
        self.ownership.holdings.cause = Cause.NONE
        return iter(())

    def _assigned(self, seen: Seen) -> Iterator[Finding]:
        return self._in(seen) if seen.record.partitions else iter(())

    def _answered(self, seen: Seen) -> Iterator[Finding]:
        """The coordinator knows a member of this epoch. After a fatal error that changes nothing."""
        if (seen.record.epoch or 0) > 0 and self.fatal is None:
            self.is_member = self.living.in_group = True
        return iter(())

    def _lost(self, seen: Seen) -> Iterator[Finding]:
        """The coordinator does not count the member any more: once for each membership."""
        record, place = seen
        cause = self._cause(record)
        self.ownership.holdings.voided(record.ts_ms, cause)
        self.ownership.holdings.cause = cause
        self.heartbeat = None
        self.living.in_group = False
        if self.is_member:
            self.is_member = False
            yield from self._count(record.ts_ms, place, cause)

    def _cause(self, record: TraceRecord) -> Cause:
        if record.kind is Kind.POLL_EXPIRED or record.next_state in ("STALE", "PREPARE_LEAVING"):
            return Cause.NO_POLL
        if self.ownership.holdings.cause is not Cause.NONE:
            return self.ownership.holdings.cause
        # The coordinator's timer began before the callback did, by what the answer took.
        if self.ownership.running_ms(record.ts_ms) > self.living.rebalance_timeout_ms - SETTLED_MS:
            return Cause.SLOW_CALLBACK
        return Cause.SESSION_EXPIRED if record.detail == "UNKNOWN_MEMBER_ID" else Cause.FENCED

    def _count(self, ts_ms: int, place: Place, cause: Cause) -> Iterator[Finding]:
        loop = self.loop
        if loop is not None and ts_ms - loop.end_ms > self.limits.window_ms:
            yield from self._end_of_loop()
            loop = None
        if loop is None:
            loop = self.loop = _Loop(ts_ms, ts_ms, 0)
        loop.end_ms = ts_ms
        loop.count += 1
        loop.causes.add(cause)
        if len(loop.places) < _SHOWN_LOSSES:
            loop.places.append(place)

    def _transition(self, seen: Seen) -> Iterator[Finding]:
        state = seen.record.next_state
        if state in ("FENCED", "STALE"):
            yield from self._lost(seen)
        elif state in ("RECONCILING", "STABLE"):
            yield from self._in(seen)
        elif state == "FATAL":
            yield from self._fatal(seen)

    def _reset(self, seen: Seen) -> Iterator[Finding]:
        """A classic member that gives its generation up; when it closes, or leaves, that is no loss."""
        if self.living.closing_ms is None and not _is_leaving(seen.record.detail):
            yield from self._lost(seen)

    # -- fatal errors -----------------------------------------------------------------------------------

    def _fatal(self, seen: Seen) -> Iterator[Finding]:
        record, place = seen
        if self.fatal is None:
            self.fatal = (record.ts_ms, place, record.detail)
        elif not self.fatal[2]:
            self.fatal = (self.fatal[0], self.fatal[1], record.detail)
        self.ownership.holdings.voided(record.ts_ms, Cause.FATAL_ERROR)
        self.ownership.holdings.cause = Cause.FATAL_ERROR
        self.living.in_group = self.is_member = False
        self.heartbeat = None
        return iter(())

    def _out_for_good(self, how: Ended, ts_ms: int, place: Place, detail: str) -> Iterator[Finding]:
        lived_ms = self.living.last_ms - ts_ms
        certain = lived_ms > SETTLED_MS
        if not certain and how is not Ended.LOG_ENDED:
            return
        found = self._finding(
            FindingKind.MEMBER_OUT_FOR_GOOD,
            ts_ms,
            self.living.last_ms,
            summary=f"{self.living.member} got a fatal error"
            + (f" ({detail})" if detail else "")
            + (f" and lived on for {seconds(lived_ms)} outside the group" if certain else " and is silent since")
            + "; it owns nothing until it is restarted",
            cause=Cause.FATAL_ERROR,
            places=[place],
        )
        yield found if certain else found.lowered()

    # -- leaves and heartbeats --------------------------------------------------------------------------

    def _leave_begin(self, seen: Seen) -> Iterator[Finding]:
        if self.leave is None:
            self.leave = (seen.record.ts_ms, seen.place)
        return iter(())

    def _leave_sent(self, seen: Seen) -> Iterator[Finding]:
        begun, self.leave = self.leave, None
        self.heartbeat = None
        if begun is None or seen.record.ts_ms - begun[0] <= LATE_LEAVE_MS:
            return
        late_ms = seen.record.ts_ms - begun[0]
        yield self._finding(
            FindingKind.LATE_LEAVE,
            begun[0],
            seen.record.ts_ms,
            summary=f"{self.living.member} announced that it leaves, but told the coordinator only "
            f"{seconds(late_ms)} later; until then nobody else could have its partitions",
            cause=Cause.NO_POLL if self.ownership.holdings.cause is Cause.NO_POLL else Cause.UNKNOWN,
            places=[begun[1], seen.place],
        )

    def _heartbeat(self, seen: Seen) -> Iterator[Finding]:
        record, place = seen
        before, self.heartbeat = self.heartbeat, (record.ts_ms, place)
        if before is None or not self.is_member or record.ts_ms - before[0] <= self.living.silence_ms:
            return
        gap_ms = record.ts_ms - before[0]
        yield self._finding(
            FindingKind.HEARTBEAT_GAP,
            before[0],
            record.ts_ms,
            summary=f"{self.living.member} sent no heartbeat for {seconds(gap_ms)}; "
            f"its session lasts {seconds(self.living.silence_ms)}",
            cause=Cause.UNKNOWN,
            places=[before[1], place],
        )

    def _out_of_reach(self, _seen: Seen) -> Iterator[Finding]:
        """Without a coordinator there is nobody to send heartbeats to, and no session runs."""
        self.heartbeat = None
        return iter(())

    def _left(self, _seen: Seen) -> Iterator[Finding]:
        self.is_member = self.living.in_group = False
        self.heartbeat = None
        self.leave = None
        return iter(())

    # -- findings ---------------------------------------------------------------------------------------

    def _end_of_loop(self) -> Iterator[Finding]:
        loop, self.loop = self.loop, None
        if loop is None or loop.count < 2:
            return
        yield self._finding(
            FindingKind.FENCING_LOOP,
            loop.start_ms,
            loop.end_ms,
            summary=f"{self.living.member} was thrown out of the group {loop.count} times "
            f"within {seconds(loop.end_ms - loop.start_ms)}",
            cause=next(iter(loop.causes)) if len(loop.causes) == 1 else Cause.UNKNOWN,
            places=loop.places,
        )

    def _finding(
        self, kind: FindingKind, start_ms: int, end_ms: int, *, summary: str, cause: Cause, places: Iterable[Place]
    ) -> Finding:
        return finding(
            kind,
            self.living.group,
            self.living.member,
            start_ms,
            end_ms,
            summary=summary,
            cause=cause,
            places=places,
        )


def _is_leaving(detail: str) -> bool:
    return "leaving" in detail or "unsubscribed" in detail


_STEPS: dict[Kind, Callable[[Membership, Seen], Iterator[Finding]]] = {
    Kind.TRANSITION: Membership._transition,
    Kind.JOINED: Membership._in,
    Kind.SYNCED: Membership._in,
    Kind.ASSIGN_BEGIN: Membership._assigned,
    Kind.POLL_EXPIRED: Membership._lost,
    Kind.FENCED: Membership._lost,
    Kind.LOST_BEGIN: Membership._lost,
    Kind.GENERATION_RESET: Membership._reset,
    Kind.FATAL: Membership._fatal,
    Kind.LEAVE_BEGIN: Membership._leave_begin,
    Kind.LEAVE_SENT: Membership._leave_sent,
    Kind.LEFT: Membership._left,
    Kind.COORDINATOR_LOST: Membership._out_of_reach,
    Kind.COORDINATOR_FOUND: Membership._out_of_reach,
    Kind.HEARTBEAT_SENT: Membership._heartbeat,
    Kind.HEARTBEAT_OK: Membership._answered,
}
