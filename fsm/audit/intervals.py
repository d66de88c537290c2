"""Overlaps and gaps between intervals of one partition, and how those of several partitions are merged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.limits import MERGE_MS, UNDATED_MS
from fsm.audit.rows import UNLOGGED_ENDS, UNOWNED_BEGINS, Begun, Interval, Life, Place, group_by
from fsm.trace import Partition

FOREVER_MS = 1 << 60
"""Later than every timestamp."""


class Part(NamedTuple):
    """One partition with two owners, or one that is subscribed and has none."""

    old: str
    new: str
    start_ms: int
    end_ms: int
    partition: Partition
    cause: Cause
    places: tuple[Place, ...]
    sure: bool
    apart_ms: int | None = None
    """The clock difference of two files that would explain two owners; None if none does."""
    wanted_ms: int = 0
    """For how long it was subscribed."""
    why: str = ""
    """The reason in words, for kinds that have their own."""


Spans = Iterable[tuple[int, int]]
Lives = Mapping[tuple[str, int], Life]
"""By member and number."""


def life_of(interval: Interval | None, lives: Lives) -> Life | None:
    return lives.get((interval.member, interval.life)) if interval is not None else None


def find_gone_ms(last: Interval, acted_ms: int, lives: Lives, session_ms: int) -> int:
    """When the owner of an interval was gone: at its end, or if that was not logged, one session before the coordinator
    acted, if that is later. `session_ms` is the default of the session timeout."""
    life = life_of(last, lives)
    if last.ended not in UNLOGGED_ENDS or life is None or not life.in_group:
        return last.end_ms
    return max(last.end_ms, acted_ms - (life.session_timeout_ms or session_ms))


def merge_spans(spans: Spans) -> list[tuple[int, int]]:
    """The spans merged into disjoint, ordered ones."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def clip(spans: Sequence[tuple[int, int]], start_ms: int, end_ms: int) -> list[tuple[int, int]]:
    """Disjoint, ordered spans, cut to [start_ms, end_ms)."""
    first = bisect_right(spans, start_ms, key=itemgetter(1))
    inside = takewhile(lambda span: span[0] < end_ms, islice(spans, first, None))
    return [(max(start, start_ms), min(end, end_ms)) for start, end in inside]


def length_ms(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


def group_by_partition(intervals: Iterable[Interval]) -> Iterator[list[Interval]]:
    """The intervals of each partition, in the order of `GroupRows`; without those whose log has no timestamps."""
    dated = (one for one in intervals if one.end_ms != UNDATED_MS)
    for _, own in groupby(dated, key=attrgetter("topic", "partition")):
        yield list(own)


def find_pauses(intervals: Iterable[Interval]) -> Iterator[tuple[Interval | None, Interval | None]]:
    """(last owner, next owner) of each time of one partition without owner, also before the first one and after the
    last one. The intervals are sorted; one that was `FOUND` may have begun at any time before."""
    last: Interval | None = None
    for new in intervals:
        if new.begun in UNOWNED_BEGINS:
            continue
        if new.begun is not Begun.FOUND and (last is None or new.start_ms > last.end_ms):
            yield last, new
        if last is None or new.end_ms > last.end_ms:
            last = new
    yield last, None


def group_by_pair(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Parts by pair of members, each list sorted by (start, end, partition)."""
    for _, own in sorted(group_by(parts, lambda part: (part.old, part.new)).items()):
        yield sorted(own, key=lambda p: (p.start_ms, p.end_ms, p.partition))


def finding_of_run(kind: FindingKind, group: str, run: Sequence[Part], summary: str) -> Finding:
    """The finding for a run of one pair of members."""
    first = run[0]
    about = group, first.old, min(part.start_ms for part in run), max(part.end_ms for part in run)
    partitions, others = [part.partition for part in run], filter(None, [first.new])
    return finding(kind, *about, summary, first.places, partitions=partitions, cause=first.cause, others=others)


def split_runs(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """The parts of one pair of members, sorted by (start, end, partition), in runs that form one finding each.

    A part belongs to the run of the previous part if it begins and ends within `MERGE_MS` of it.
    """
    run: list[Part] = []
    for part in parts:
        if run and (part.start_ms - run[-1].start_ms > MERGE_MS or abs(part.end_ms - run[-1].end_ms) > MERGE_MS):
            yield run
            run = []
        run.append(part)
    if run:
        yield run
