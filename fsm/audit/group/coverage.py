"""How much of each member's life its logs cover: one statement of the rule, for one process and for Spark.

A life that ends without a close is `killed` when a later life of its member exists or another member took one of its
partitions over afterwards, else `unknown`: `END_KNOWN`. A group is in the dark where some member's log is missing:
before a first life whose start was not logged (before its end, if it did not close: it may have owned what no line
tells), after a life whose end is `unknown`, after a life became doubtful, and always where the log of a life has no
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fsm.audit.findings import Cause
from fsm.audit.intervals import FOREVER_MS, of_partitions
from fsm.audit.limits import UNDATED_MS
from fsm.audit.rows import UNTOLD, Begun, Ended, Interval, Life

END_KNOWN: Mapping[Ended, tuple[str, str]] = {
    Ended.CLOSED: (Ended.CLOSED.value, Ended.CLOSED.value),
    Ended.RESTARTED: (Cause.UNKNOWN.value, Cause.KILLED.value),
    Ended.LOG_ENDED: (Cause.UNKNOWN.value, Cause.KILLED.value),
    Ended.HOLE: (Cause.UNKNOWN.value, Cause.UNKNOWN.value),
}
"""What is known of the end of a life that ended so: where nobody came after it, and where somebody did."""


@dataclass(frozen=True, slots=True)
class Coverage:
    group: str
    member: str
    life: int
    start_ms: int
    end_ms: int
    begin_known: bool
    end: str
    """`closed`, `killed` (others took over), or `unknown`."""
    doubtful_ms: int | None
    """Since when its lines may be another process's."""


def find_coverage(lives: Iterable[Life], intervals: Iterable[Interval]) -> list[Coverage]:
    own = sorted(lives, key=lambda life: (life.member, life.number))
    last_number = {life.member: life.number for life in own}
    taken = _find_taken_over(intervals)
    return [
        cover_life(life, succeeded=last_number[life.member] > life.number or (life.member, life.number) in taken)
        for life in own
    ]


def cover_life(life: Life, *, succeeded: bool) -> Coverage:
    """The coverage of one life; `succeeded` where somebody came after it."""
    return Coverage(
        life.group,
        life.member,
        life.number,
        life.start_ms,
        life.end_ms,
        life.whole_start,
        END_KNOWN[life.ended][succeeded],
        life.doubtful_ms,
    )


def _find_taken_over(intervals: Iterable[Interval]) -> set[tuple[str, int]]:
    """Lives that ended without a word and one of whose partitions another member got afterwards."""
    taken: set[tuple[str, int]] = set()
    for each in of_partitions(intervals):
        last_ms = {new.member: new.start_ms for new in each if new.begun is Begun.ASSIGNED}
        for old in each:
            if old.ended in UNTOLD and any(m != old.member and ms >= old.end_ms for m, ms in last_ms.items()):
                taken.add((old.member, old.life))
    return taken


def dark_ms(covered: Iterable[Coverage]) -> tuple[int, int]:
    """Before the first time, and after the second, some member of the group has no log."""
    until_ms, from_ms = -FOREVER_MS, FOREVER_MS
    for life in covered:
        if not life.begin_known and life.life == 0:
            until_ms = max(until_ms, life.start_ms if life.end == Ended.CLOSED else life.end_ms)
        if life.end == Cause.UNKNOWN:
            from_ms = min(from_ms, life.end_ms)
        if life.end_ms == UNDATED_MS:
            until_ms = FOREVER_MS
        if life.doubtful_ms is not None:
            from_ms = min(from_ms, life.doubtful_ms)
    return until_ms, from_ms
