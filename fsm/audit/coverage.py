"""How much of each member's life its logs tell: one statement of the rule, for one process and for Spark.

The rule is tables: values of `Life.ended` and `Coverage.end`, and names of columns that a life has in both worlds.

A life that ends without a close is `killed` when a later life of its member exists or another member took one of its
partitions over afterwards, else `unknown`: `END_KNOWN`. A group is in the dark where some member's log is missing:
before a first life that was found in mid-life (before its end, if it did not close: it may have owned what no line
tells), after a life whose end is `unknown`, and after a life became doubtful: `KNOWN_FROM`, `DARK_FROM`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fsm.audit.findings import Cause
from fsm.audit.rows import Begun, Ended, Interval, Life
from fsm.trace import Partition

UNTOLD = (Ended.LOG_ENDED, Ended.RESTARTED, Ended.HOLE)
"""Ends without a word."""
TAKES = Begun.ASSIGNED
"""How an interval begins that takes a partition over from a life that ended so before."""
END_KNOWN: Mapping[Ended, tuple[str, str]] = {
    Ended.CLOSED: (Ended.CLOSED.value, Ended.CLOSED.value),
    Ended.RESTARTED: (Cause.UNKNOWN.value, Cause.KILLED.value),
    Ended.LOG_ENDED: (Cause.UNKNOWN.value, Cause.KILLED.value),
    Ended.HOLE: (Cause.UNKNOWN.value, Cause.UNKNOWN.value),
}
"""What is known of the end of a life that ended so: where nobody came after it, and where somebody did."""
KNOWN_FROM: Mapping[str, str] = {
    Ended.CLOSED.value: "start_ms",
    Cause.KILLED.value: "end_ms",
    Cause.UNKNOWN.value: "end_ms",
}
"""The time from which on a first life that was found in mid-life tells all, by its end."""
DARK_FROM: Mapping[str, str] = {Cause.UNKNOWN.value: "end_ms"}
"""The time from which on a life tells nothing any more, by its end."""
DOUBTFUL = "doubtful_ms"
"""The time from which on a life tells nothing for certain, whatever its end; None where there is none."""
FOREVER_MS = 1 << 60
"""Later than every time stamp."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of one life its logs tell."""

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


def coverage(lives: Iterable[Life], intervals: Iterable[Interval]) -> list[Coverage]:
    """One row for each life, by member and number."""
    own = sorted(lives, key=lambda life: (life.member, life.number))
    last_number = {life.member: life.number for life in own}
    taken = _taken_over(intervals)
    return [
        covered(life, succeeded=last_number[life.member] > life.number or (life.member, life.number) in taken)
        for life in own
    ]


def covered(life: Life, *, succeeded: bool) -> Coverage:
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


def _taken_over(intervals: Iterable[Interval]) -> set[tuple[str, int]]:
    """Lives that ended without a word and one of whose partitions another member got afterwards."""
    taken: set[tuple[str, int]] = set()
    for each in by_owned(intervals).values():
        for old in each:
            if old.ended in UNTOLD and any(_takes_over(new, old) for new in each):
                taken.add((old.member, old.life))
    return taken


def _takes_over(new: Interval, old: Interval) -> bool:
    return new.member != old.member and new.begun is TAKES and new.start_ms >= old.end_ms


def dark_ms(covered: Iterable[Coverage]) -> tuple[int, int]:
    """Before the first time, and after the second, some member of the group has no log."""
    until_ms, from_ms = -FOREVER_MS, FOREVER_MS
    for life in covered:
        if not life.begin_known and life.life == 0:
            until_ms = max(until_ms, getattr(life, KNOWN_FROM[life.end]))
        for column in (DARK_FROM.get(life.end), DOUBTFUL):
            dark = getattr(life, column) if column else None
            from_ms = from_ms if dark is None else min(from_ms, dark)
    return until_ms, from_ms


def by_owned(intervals: Iterable[Interval]) -> dict[Partition, list[Interval]]:
    """The intervals of each partition, in the order of (start, end, member)."""
    out: dict[Partition, list[Interval]] = {}
    for interval in sorted(intervals, key=lambda i: (i.topic, i.partition, i.start_ms, i.end_ms, i.member)):
        out.setdefault((interval.topic, interval.partition), []).append(interval)
    return out
