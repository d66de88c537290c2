"""How much of each member's life its logs cover.

A life that ends without a close is `killed` if its member has a later life or another member took over one of its
partitions afterwards, else `unknown`: `END_KNOWN`. The logs of a group are incomplete (`find_unlogged_ms`):

* before the start of a first life whose start was not logged; if it did not close, before its end, because it may have
  owned partitions that no line names
* after a life whose end is `unknown`, and after a life became doubtful
* always, if the log of a life has no timestamps
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fsm.audit.findings import Cause
from fsm.audit.intervals import FOREVER_MS, group_by_partition
from fsm.audit.limits import UNDATED_MS
from fsm.audit.rows import UNLOGGED_ENDS, Begun, Ended, Interval, Life

END_KNOWN: Mapping[Ended, tuple[str, str]] = {
    Ended.CLOSED: (Ended.CLOSED.value, Ended.CLOSED.value),
    Ended.RESTARTED: (Cause.UNKNOWN.value, Cause.KILLED.value),
    Ended.LOG_ENDED: (Cause.UNKNOWN.value, Cause.KILLED.value),
    Ended.HOLE: (Cause.UNKNOWN.value, Cause.UNKNOWN.value),
}
"""The `Coverage.end` of a life by how it ended: without a successor, and with one."""


class Coverage(NamedTuple):
    life: Life
    end: str
    """`closed`, `killed` (others took over), or `unknown`."""


def find_coverage(lives: Iterable[Life], intervals: Iterable[Interval]) -> list[Coverage]:
    """The coverage of each life, by member and number."""
    own = sorted(lives, key=lambda life: (life.member, life.number))
    last_number = {life.member: life.number for life in own}
    taken = _find_taken_over(intervals)
    found = []
    for life in own:
        succeeded = last_number[life.member] > life.number or (life.member, life.number) in taken
        found.append(Coverage(life, END_KNOWN[life.ended][succeeded]))
    return found


def _find_taken_over(intervals: Iterable[Interval]) -> set[tuple[str, int]]:
    """(member, number) of lives without a logged end, one of whose partitions another member got afterwards."""
    taken: set[tuple[str, int]] = set()
    for each in group_by_partition(intervals):
        last_ms = {new.member: new.start_ms for new in each if new.begun is Begun.ASSIGNED}
        for old in each:
            if old.ended in UNLOGGED_ENDS and any(m != old.member and ms >= old.end_ms for m, ms in last_ms.items()):
                taken.add((old.member, old.life))
    return taken


def find_unlogged_ms(covered: Iterable[Coverage]) -> tuple[int, int]:
    """(until, from) in epoch ms: before the first, and after the second, the log of some member is missing."""
    until_ms, from_ms = -FOREVER_MS, FOREVER_MS
    for life, end in covered:
        if not life.whole_start and life.number == 0:
            until_ms = max(until_ms, life.start_ms if end == Ended.CLOSED else life.end_ms)
        if end == Cause.UNKNOWN:
            from_ms = min(from_ms, life.end_ms)
        if life.end_ms == UNDATED_MS:
            until_ms = FOREVER_MS
        if life.doubtful_ms is not None:
            from_ms = min(from_ms, life.doubtful_ms)
    return until_ms, from_ms
