"""The rebalances of a group, and rebalance storms.

Members' rebalances, sorted by start, form one rebalance of the group while the next starts within `SETTLED_MS` of the
latest end so far. `moved` is the number of partitions assigned in them. The cause is the first of lost, left, joined
that any member has, else `told`: the coordinator started it.

A rebalance storm is a member with more than `storm_turns` rebalances that add or remove partitions, all starting within
`window_ms` of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.group.unowned_partitions import find_holes
from fsm.audit.intervals import group_by_partition
from fsm.audit.limits import SETTLED_MS, Limits
from fsm.audit.rows import GroupRows, MemberRebalance, SortedRows
from fsm.audit.wording import seconds

Hole = tuple[int, int]
"""(start, end) in epoch ms of a time in which some partition had no owner."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    group: str
    start_ms: int
    end_ms: int
    cause: str
    members: int
    moved: int
    removed: int
    unowned_ms: int
    """Longest time without owner of one of its partitions."""


def rebalances(group: str, rows: GroupRows) -> list[Rebalance]:
    unowned = (
        (start_ms, end_ms)
        for intervals in group_by_partition(rows.intervals)
        for _, start_ms, end_ms, new in find_holes(intervals, {})
        if new is not None
    )
    in_time = SortedRows[MemberRebalance | Hole](_start_and_end, chain(rows.rebalances, unowned), rows.spool)
    return list(merge_rebalances(group, in_time))


def _start_and_end(item: MemberRebalance | Hole) -> tuple[int, int, str]:
    return (item.start_ms, item.end_ms, item.member) if isinstance(item, MemberRebalance) else (*item, "")


def merge_rebalances(group: str, items: Iterable[MemberRebalance | Hole]) -> Iterator[Rebalance]:
    """The rebalances of one group. Members' rebalances and holes are sorted by start, end, member.

    Memory: the members' rebalances of one rebalance, and the holes that may overlap it.
    """
    burst: list[MemberRebalance] = []
    unowned: list[Hole] = []
    end_ms = 0
    for item in items:
        if isinstance(item, tuple):
            unowned.append(item)
            continue
        if burst and item.start_ms - end_ms > SETTLED_MS:
            yield _rebalance(group, burst, end_ms, unowned)
            burst = []
            unowned = [hole for hole in unowned if hole[1] > item.start_ms]
        end_ms = max(end_ms, item.end_ms) if burst else item.end_ms
        burst.append(item)
    if burst:
        yield _rebalance(group, burst, end_ms, unowned)


def _rebalance(group: str, own: Sequence[MemberRebalance], end_ms: int, unowned: Iterable[Hole]) -> Rebalance:
    start_ms, causes = own[0].start_ms, {one.cause for one in own}
    return Rebalance(
        group=group,
        start_ms=start_ms,
        end_ms=end_ms,
        cause=next((c for c in ("lost", "left", "joined") if c in causes), "told"),
        members=len({one.member for one in own}),
        moved=sum(one.added for one in own),
        removed=sum(one.removed for one in own),
        unowned_ms=max(0, *(min(b, end_ms) - max(a, start_ms) for a, b in unowned), 0),
    )


def find_rebalance_storms(group: str, rebalances_: Iterable[MemberRebalance], limits: Limits) -> Iterator[Finding]:
    """A finding for each rebalance storm; the rebalances are sorted by member and start."""
    busy = (one for one in rebalances_ if one.added or one.removed)
    for member, turns in groupby(busy, key=attrgetter("member")):
        own = list(turns)
        first = 0
        for last, one in enumerate(own):
            while one.start_ms - own[first].start_ms > limits.window_ms:
                first += 1
            ends = last + 1 == len(own) or own[last + 1].start_ms - own[first].start_ms > limits.window_ms
            if ends and last - first >= limits.storm_turns:
                yield _storm(group, member, own[first : last + 1])
                first = last + 1 if last + 1 < len(own) else first


def _storm(group: str, member: str, window: Sequence[MemberRebalance]) -> Finding:
    start_ms, end_ms = window[0].start_ms, window[-1].end_ms
    about, shown = (group, member, start_ms, end_ms), [one.place for one in window[:5]]
    summary = f"{member} rebalanced {len(window)} times within {seconds(end_ms - start_ms)}"
    return finding(FindingKind.REBALANCE_STORM, *about, summary, shown, cause=Cause.UNKNOWN)
