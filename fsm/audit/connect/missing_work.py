"""Units of Connect that ran nowhere, or twice: their rules, causes and sentences.

The intervals of a unit are those in which a worker ran it, and those without owner: the config topic requires it
(`CALLED`), a scheduled delay ran (`WAITS`). A unit is missing from the end of its last run, or from its config, to the
start of the next run, as long as it is wanted. That counts if it is longer than `unowned_ms` plus `EDGES_MS`.

**Cause.** The first of: the unit failed; its worker lost the coordinator or was paused; a delay ran for at least half
of the time; its worker died, or was shut down; it is new; it was revoked, and the next worker started it late. It is by
design if it takes no longer than a heartbeat interval after a revocation or a shutdown, or if new work is started
within a rebalance timeout. If a worker without a log may have had the unit, the finding is for information.

**Coverage.** A last worker without a logged end is gone from its last line on, or from one session before the
coordinator acted (the begin of the delay, or the next start), whichever is later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fsm.audit.findings import Cause
from fsm.audit.intervals import (
    FOREVER_MS,
    Lives,
    Part,
    clip,
    find_gone_ms,
    find_pauses,
    length_ms,
    life_of,
    merge_spans,
)
from fsm.audit.limits import SETTLED_MS, Limits
from fsm.audit.rows import UNLOGGED_ENDS, UNOWNED_BEGINS, Begun, Ended, Interval, Life
from fsm.audit.wording import UNIT, seconds
from fsm.trace import Partition

SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 3_000
REBALANCE_TIMEOUT_MS = 60_000
"""Connect's defaults, for settings that were not logged."""
EDGES_MS = 250
"""Largest difference, of both ends together, between real work and the lines of its stop and start."""
READ_WITHIN_MS = 1000
"""Workers read one record of the config topic within this time."""


class _Unit(NamedTuple):
    intervals: Sequence[Interval]
    waits: Sequence[Interval]
    """Delays, by begin."""
    lives: Lives


class _Hole(NamedTuple):
    """A time in which no worker ran a unit."""

    start_ms: int
    end_ms: int
    begin: Interval
    """The last run, or the `CALLED` interval of new work."""
    new: Interval | None
    read: Sequence[Interval] = ()
    """The `CALLED` intervals of new work, from several workers."""

    @property
    def old(self) -> Interval | None:
        return None if self.begin.begun in UNOWNED_BEGINS else self.begin


def is_unit(partition: Partition) -> bool:
    return partition[0].startswith(UNIT)


def find_gaps(
    intervals: Sequence[Interval],
    wanted: Sequence[tuple[int, int]],
    lives: Lives,
    unlogged: tuple[int, int],
    limits: Limits,
) -> Iterator[Part]:
    """Times in which one unit was wanted and ran nowhere; arguments as in `unowned_partitions.find_gaps`."""
    unit = _Unit(intervals, [i for i in intervals if i.begun is Begun.WAITS], lives)
    for hole in _find_holes(unit):
        missed = clip(wanted, hole.start_ms, hole.end_ms)
        missed_ms = length_ms(missed)
        if missed_ms > limits.unowned_ms + EDGES_MS:
            yield _gap(hole._replace(start_ms=missed[0][0], end_ms=missed[-1][1]), missed_ms, unit, unlogged)


def _find_holes(unit: _Unit) -> Iterator[_Hole]:
    """Every time without a worker; the last one ends at `FOREVER_MS`."""
    for last, new in find_pauses(unit.intervals):
        if new is not None or last is None or last.ended not in UNLOGGED_ENDS:
            yield from _find_hole_before(new, last, unit)


def _find_hole_before(new: Interval | None, last: Interval | None, unit: _Unit) -> Iterator[_Hole]:
    """The hole from the last run, or from the config of new work; none before a first run without a config."""
    end_ms = new.start_ms if new is not None else FOREVER_MS
    if last is not None and last.ended is not Ended.DELETED:
        yield _Hole(_find_end_ms(last, end_ms, unit), end_ms, last, new)
        return
    after_ms = last.end_ms if last is not None else -FOREVER_MS
    called = [i for i in unit.intervals if i.begun is Begun.CALLED and after_ms <= i.start_ms < end_ms]
    if called:
        read = [i for i in called if i.start_ms - called[0].start_ms <= READ_WITHIN_MS]
        failed = next((i for i in called if i.void_cause), called[0])
        yield _Hole(min(end_ms, max(i.end_ms for i in read)), end_ms, failed, new, read)


def _find_end_ms(last: Interval, end_ms: int, unit: _Unit) -> int:
    acted_ms = next((wait.start_ms for wait in unit.waits if last.end_ms <= wait.start_ms < end_ms), end_ms)
    return find_gone_ms(last, acted_ms, unit.lives, SESSION_TIMEOUT_MS)


def _gap(hole: _Hole, wanted_ms: int, unit: _Unit, unlogged: tuple[int, int]) -> Part:
    delays = merge_spans((wait.start_ms, wait.end_ms) for wait in unit.waits)
    waited_ms = length_ms(clip(delays, hole.start_ms, hole.end_ms))
    cause = _cause(hole, wanted_ms, waited_ms, unit)
    waits = [w for w in unit.waits if w.start_ms < hole.end_ms and w.end_ms > hole.start_ms][:1]
    return Part(
        hole.old.member if hole.old else "",
        hole.new.member if hole.new else "",
        hole.start_ms,
        hole.end_ms,
        (hole.begin.topic, hole.begin.partition),
        cause,
        (hole.begin.end, *(wait.start for wait in waits), *([hole.new.start] if hole.new else [])),
        _is_sure(hole, cause, wanted_ms, unit, unlogged),
        wanted_ms=wanted_ms,
        why=_why(hole, cause, waited_ms),
    )


def _cause(hole: _Hole, wanted_ms: int, waited_ms: int, unit: _Unit) -> Cause:
    old = hole.old
    if old is None:
        return Cause(hole.begin.void_cause) if hole.begin.void_cause else Cause.NEW_WORK
    if old.ended is Ended.DROPPED:
        return Cause.FATAL_ERROR
    if old.ended is Ended.LOST:
        return Cause(old.void_cause) if old.void_cause else Cause.UNKNOWN
    if waited_ms * 2 >= wanted_ms:
        return Cause.SCHEDULED_DELAY
    if old.ended in UNLOGGED_ENDS:
        return Cause.KILLED
    receiver = life_of(hole.new, unit.lives)
    learns_ms = receiver.heartbeat_interval_ms if receiver is not None else None
    if learns_ms is not None and wanted_ms <= learns_ms + SETTLED_MS:
        return Cause.HEARTBEAT_INTERVAL
    return Cause.WORKER_STOPPED if old.ended is Ended.CLOSED else Cause.REVOKED


def _is_sure(hole: _Hole, cause: Cause, wanted_ms: int, unit: _Unit, unlogged: tuple[int, int]) -> bool:
    until_ms, from_ms = unlogged
    if hole.start_ms < until_ms or hole.end_ms > from_ms:
        return False
    if hole.begin.doubtful or hole.begin.ended in UNLOGGED_ENDS or (hole.new is not None and hole.new.doubtful):
        return False
    if cause is Cause.FATAL_ERROR:
        return True
    life = life_of(hole.new, unit.lives)
    if hole.new is None or life is None:
        return False  # a worker without a log may have it
    if cause is Cause.NEW_WORK:
        known = [i.turn_ms for i in hole.read if i.turn_ms is not None]
        prompt = _is_prompt(hole.new, max(known, default=hole.start_ms), life)
        return prompt and wanted_ms > (life.max_poll_interval_ms or REBALANCE_TIMEOUT_MS)
    if cause is Cause.REVOKED and hole.new.member == hole.begin.member:
        return False  # a leader revokes a unit for another worker
    gone = life_of(hole.old, unit.lives)
    left_ms = gone.end_ms if gone is not None and cause is Cause.WORKER_STOPPED else hole.begin.end_ms
    return cause not in (Cause.REVOKED, Cause.WORKER_STOPPED) or _is_prompt(hole.new, left_ms, life)


def _is_prompt(new: Interval, free_ms: int, receiver: Life) -> bool:
    """Whether the next round assigned the unit to this worker; else one without a log may have had it in between."""
    learns_ms = receiver.heartbeat_interval_ms or HEARTBEAT_INTERVAL_MS
    return new.turn_ms is None or new.turn_ms - free_ms <= learns_ms + SETTLED_MS


# -- words --------------------------------------------------------------------------------------------------


_HAPPENED = {
    Cause.KILLED: "the log of {old} ends there without a close (killed, or its log is missing)",
    Cause.FATAL_ERROR: "failed on {old}",
    Cause.COORDINATOR_LOST: "{old} could not reach the group's coordinator and stopped its work",
    Cause.WORKER_FROZEN: "{old} stood still",
    Cause.WORKER_STOPPED: "{old} was stopped, and no delay was set that would await its return",
    Cause.NEW_WORK: "new work, called for by the config topic and not started yet",
    Cause.HEARTBEAT_INTERVAL: "{old} let go, and workers learn of the next round with their heartbeats",
    Cause.REVOKED: "{old} had to let go, and the next worker took long",
}
_LEFT = {
    Ended.CLOSED: "{old} was stopped",
    Ended.RESTARTED: "{old} died without a word",
    Ended.LOG_ENDED: "{old} died without a word",
    Ended.REVOKED: "{old} had to let go",
}
"""Why a worker is away for which a delay runs."""


def _why(hole: _Hole, cause: Cause, waited_ms: int) -> str:
    old = hole.old.member if hole.old else ""
    if hole.old is None and cause is Cause.FATAL_ERROR:
        return "the connector failed to start"
    if cause is Cause.SCHEDULED_DELAY and hole.old is not None:
        left = _LEFT.get(hole.old.ended, "{old} let go").format(old=old)
        return f"{left}, and its work waited {seconds(waited_ms)} for a scheduled delay"
    why = _HAPPENED.get(cause, "{old} let go").format(old=old)
    return f"{why}; a scheduled delay ran for {seconds(waited_ms)} of it" if waited_ms else why


def describe_ran_nowhere(gap: Part, what: str, lasted: str) -> str:
    about = "about " if gap.cause is Cause.KILLED else ""
    then = f"then {gap.new} took over" if gap.new else "no worker has taken over"
    if gap.new and gap.new == gap.old:
        then = f"then {gap.new} went on"
    return f"{what} ran nowhere for {about}{lasted}: {gap.why}; {then}"


_STILL_RAN = {
    Cause.SLOW_CALLBACK: "{old} was told to stop and could not within task.shutdown.graceful.timeout.ms",
    Cause.WORKER_FROZEN: "{old} had stood still until its session was over, and then went on",
    Cause.DOWNGRADED: "the group went back to the eager protocol, which does not tell {old} to stop",
}


def describe_ran_twice(overlap: Part, what: str, lasted: str) -> str:
    why = _STILL_RAN.get(overlap.cause, "{old} had not stopped").format(old=overlap.old)
    return f"{what} ran on {overlap.old} and {overlap.new} at once for {lasted}: {why}"
