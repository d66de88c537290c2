"""Double ownership: two members own one partition at the same time.

Two intervals of one partition and different members overlap for longer than `tolerance_ms + clock_skew_ms`. The one
that began earlier (then: ended earlier, member name) is the old owner, which should have released the partition. A
member that hangs in close() owns its partitions to the end of the group's logs. Because it may have been killed, or its
log cut, the finding is for information only, as it is if an interval is `doubtful`.

The order of the input does not matter. Overlaps of several partitions are merged by `intervals.split_runs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fsm.audit.connect import missing_work
from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.intervals import Part, finding_of_run, group_by_pair, group_by_partition, split_runs
from fsm.audit.limits import SETTLED_MS, SKEW_MS, Limits
from fsm.audit.rows import UNOWNED_BEGINS, Begun, Ended, GroupRows, Interval
from fsm.audit.wording import names, seconds


def find_doubly_owned(group: str, rows: GroupRows, limits: Limits) -> Iterator[Finding]:
    end_ms = max((life.end_ms for life in rows.lives), default=0)
    found = [o for each in group_by_partition(rows.intervals) for o in find_overlaps(each, end_ms, limits)]
    for own in group_by_pair(found):
        yield from findings_of_pair(group, own)


def find_overlaps(intervals: Iterable[Interval], logs_end_ms: int, limits: Limits) -> Iterator[Part]:
    """Overlaps of one partition; its intervals are sorted by (start, end, member).

    If two members overlap in both directions, a clock difference cannot be the reason: `apart_ms` is None.
    """
    found = list(_overlaps(intervals, logs_end_ms, limits))
    ways = {(o.old, o.new) for o in found}
    for overlap in found:
        yield overlap._replace(apart_ms=None) if (overlap.new, overlap.old) in ways else overlap


def _overlaps(intervals: Iterable[Interval], logs_end_ms: int, limits: Limits) -> Iterator[Part]:
    longest_ms = limits.tolerance_ms + limits.clock_skew_ms
    active: list[Interval] = []
    for interval in intervals:
        if interval.begun in UNOWNED_BEGINS:
            continue
        new = replace(interval, end_ms=logs_end_ms) if interval.ended is Ended.HANGS else interval
        active = [old for old in active if old.end_ms > new.start_ms]
        for old in active:
            end_ms = min(old.end_ms, new.end_ms)
            if old.member != new.member and end_ms - new.start_ms > longest_ms:
                yield _overlap(old, new, end_ms)
        active.append(new)


def _overlap(old: Interval, new: Interval, end_ms: int) -> Part:
    """The earlier interval is the old owner's, unless the newer one began after its member was out of the group."""
    start_ms = new.start_ms
    if new.void_ms is not None and new.void_ms <= start_ms and old.void_ms is None:
        old, new = new, old
    return Part(
        old.member,
        new.member,
        start_ms,
        end_ms,
        (new.topic, new.partition),
        _cause(old, end_ms),
        (old.start, new.start, old.end),
        not (old.doubtful or new.doubtful),
        old.end_ms - start_ms if _is_ordinary(old, new) else None,
    )


def _is_ordinary(old: Interval, new: Interval) -> bool:
    """Whether a clock difference between two files would explain the overlap."""
    gave_up = old.ended in (Ended.REVOKED, Ended.CLOSED) and old.void_ms is None
    return gave_up and new.begun is Begun.ASSIGNED and old.start.file != new.start.file


def _cause(old: Interval, end_ms: int) -> Cause:
    if old.ended is Ended.HANGS:
        return Cause.CLOSE_HANGS
    if old.void_ms is not None and old.void_ms <= end_ms:
        return Cause(old.void_cause)
    return Cause.UNKNOWN


_WHY_NOT_RELEASED = {
    Cause.NO_POLL: "it did not poll and its partitions were given away",
    Cause.SESSION_EXPIRED: "the coordinator had not heard from it for a session and gave its partitions away",
    Cause.SLOW_CALLBACK: "its revoked callback outlived the rebalance timeout",
    Cause.FENCED: "it had been fenced and did not know yet",
    Cause.FATAL_ERROR: "it had failed for good and its application kept the partitions",
    Cause.CLOSE_HANGS: "its close() did not come back",
    Cause.INTERRUPTED: "it was interrupted in its revoked callback and joined with what it had",
}


def findings_of_pair(group: str, overlaps_: Iterable[Part]) -> Iterator[Finding]:
    """The findings for the overlaps of one pair of members, which are sorted by (start, end, partition)."""
    own = list(overlaps_)
    apart_ms = _clocks_apart_ms(own)
    for merged in split_runs(own):
        yield _finding(group, merged, apart_ms)


def _clocks_apart_ms(parts: Sequence[Part]) -> int | None:
    """The clock difference of two hosts in ms if it explains all overlaps: all are equally long. Else None."""
    apart = [o.apart_ms for o in parts if o.apart_ms is not None]
    same = len(apart) == len(parts) and max(apart) - min(apart) <= SETTLED_MS
    return sum(apart) // len(apart) if same else None


def _finding(group: str, merged: Sequence[Part], apart_ms: int | None) -> Finding:
    """The finding for one run of overlaps; `apart_ms` is the clock difference that explains them, or None."""
    first = merged[0]
    lasted = seconds(max(o.end_ms for o in merged) - min(o.start_ms for o in merged))
    summary = _sentence(first, names(o.partition for o in merged), lasted)
    if apart_ms is not None:
        summary += f", or the clocks of their hosts differ by {seconds(apart_ms)} or more"
    found = finding_of_run(FindingKind.DOUBLE_OWNERSHIP, group, merged, summary)
    clocks = apart_ms is not None and apart_ms < SKEW_MS
    sure = all(o.sure for o in merged) and first.cause is not Cause.CLOSE_HANGS and not clocks
    return found if sure else replace(found, severity=Severity.INFO)


def _sentence(overlap: Part, what: str, lasted: str) -> str:
    if missing_work.is_unit(overlap.partition):
        return missing_work.describe_ran_twice(overlap, what, lasted)
    why = _WHY_NOT_RELEASED.get(overlap.cause)
    both = f"{overlap.old} and {overlap.new} both owned {what} for {lasted}: {overlap.old} had not let go"
    return f"{both}, {why}" if why else both
