"""What the rows of one group's members mean together. The reference for the same rules in SQL.

Everything is intervals [start_ms, end_ms) of one group; nothing depends on the order of the input.

**Double ownership.** Two intervals of one partition that belong to different members overlap for longer than
`tolerance_ms + clock_skew_ms`. The one that began earlier (then: ended earlier, member name) is the old owner,
which should have let go. A member that hangs in close() owns on to the end of the group's logs; as it may have been
killed instead, or its log cut, the finding is for information only, as it is where an interval is `doubtful`.

**Unowned partition.** The intervals of a partition, sorted by (start, end, member), leave gaps: from the
largest end so far (its interval is the last owner) to the next start, or to the end of all wants after the last
interval. What precedes the first interval is not a gap: nobody knows since when the partition exists. The gap
counts when the union of the wants of its topic inside it is longer than `unowned_ms`, and is reported from the
first to the last wanted moment. Where the last owner's end is not exact (its log ends without a word), the gap
begins at the earliest with its last line, and one session timeout (Kafka's default where the log does not tell) before
the next start where that is later; after the last interval such a gap is not reported, for a silent owner may live; nor
is the one after an interval that ended because its topic was deleted. A next interval that was `found` (owned before
its log tells) ends no gap: nothing is reported.

Units of Connect follow rules of their own, and have words of their own: `connect_work`.

**Merging.** Overlaps with the same two members, and gaps with the same last and next owner, are sorted by
(start, end, partition); one that begins within `MERGE_MS` of the one before it, and ends within `MERGE_MS` of
it, belongs to the same finding. A finding spans all it merges.

A gap by design is for information only: a static member is away; or the partition was given up in time, and the next
owner had it within one heartbeat interval of its own, by which members learn of a rebalance, and `SETTLED_MS`.

**Coverage** is ruled by the module of that name. Severity is one step lower for a gap whose last owner was killed, for
one after which the partition was given to nobody whose log was read by the rebalance that took it (it went to a member
whose log is missing), and for every gap that reaches into the dark, where some member's log is missing.

Where the clocks of some members are wrong (`clocks`), nobody knows who owned what at one time: both kinds are for
information only in that group.

**Rebalances.** Turns of all members, sorted by start, belong to one rebalance while the next starts within
`SETTLED_MS` of the latest end so far. Moved is the number of partitions assigned in them. The cause is the first
one in the order lost, left, joined that any turn names; else `told` (by the coordinator).

**Rebalance storm.** A member takes more than `storm_turns` turns in which partitions come or go, each starting
within `window_ms` of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from fsm.audit import connect_work
from fsm.audit.clocks import clocks_apart
from fsm.audit.coverage import FOREVER_MS, UNTOLD, by_owned, coverage, dark_ms
from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding, in_order
from fsm.audit.limits import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    MERGE_MS,
    SETTLED_MS,
    SKEW_MS,
    Limits,
)
from fsm.audit.parts import Gap, Overlap, union
from fsm.audit.rows import NOBODY, Begun, Ended, Interval, Life, Turn, Want
from fsm.audit.wording import names, seconds
from fsm.trace import by_partition

_DEFAULTS = Limits()


_Part = TypeVar("_Part", Overlap, Gap)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance of a group."""

    group: str
    start_ms: int
    end_ms: int
    cause: str
    members: int
    moved: int
    removed: int
    unowned_ms: int
    """Longest time for which one of its partitions had no owner."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one group."""

    intervals: Sequence[Interval] = ()
    wants: Sequence[Want] = ()
    lives: Sequence[Life] = ()
    turns: Sequence[Turn] = ()


def judge(group: str, rows: Rows, limits: Limits = _DEFAULTS) -> list[Finding]:
    """What is wrong between the members of one group."""
    apart = list(clocks_apart(group, sorted(rows.turns, key=_by_epoch)))
    owned = [*double_ownership(group, rows, limits), *unowned_partitions(group, rows, limits)]
    if apart:
        owned = [replace(found, severity=Severity.INFO) for found in owned]
    return in_order([*apart, *owned, *rebalance_storms(group, rows.turns, limits)])


def _by_epoch(turn: Turn) -> tuple[int, str, int]:
    return turn.epoch or 0, turn.member, turn.start_ms


# -- double ownership ---------------------------------------------------------------------------------------


def double_ownership(group: str, rows: Rows, limits: Limits) -> Iterator[Finding]:
    """One finding for each pair of members and stretch of time."""
    end_ms = _end_of_logs(rows)
    found = [o for each in by_owned(rows.intervals).values() for o in overlaps(each, end_ms, limits)]
    for own in _by_pair(found):
        yield from doubles(group, own)


def overlaps(intervals: Iterable[Interval], logs_end_ms: int, limits: Limits) -> Iterator[Overlap]:
    """Overlaps of one partition; its intervals come in the order of (start, end, member).

    No difference of two clocks makes exchanges overlap both ways.
    """
    found = list(_overlaps(intervals, logs_end_ms, limits))
    ways = {(o.old, o.new) for o in found}
    for overlap in found:
        yield overlap._replace(apart_ms=None) if (overlap.new, overlap.old) in ways else overlap


def _overlaps(intervals: Iterable[Interval], logs_end_ms: int, limits: Limits) -> Iterator[Overlap]:
    longest_ms = limits.tolerance_ms + limits.clock_skew_ms
    active: list[Interval] = []
    for interval in intervals:
        if interval.begun in NOBODY:
            continue
        new = replace(interval, end_ms=logs_end_ms) if interval.ended is Ended.HANGS else interval
        active = [old for old in active if old.end_ms > new.start_ms]
        for old in active:
            end_ms = min(old.end_ms, new.end_ms)
            if old.member != new.member and end_ms - new.start_ms > longest_ms:
                yield _overlap(old, new, end_ms)
        active.append(new)


def _overlap(old: Interval, new: Interval, end_ms: int) -> Overlap:
    """The one that began earlier should have let go, unless the other one was out of the group when it began."""
    start_ms = new.start_ms
    if new.void_ms is not None and new.void_ms <= start_ms and old.void_ms is None:
        old, new = new, old
    return Overlap(
        old.member,
        new.member,
        start_ms,
        end_ms,
        (new.topic, new.partition),
        _why_still_owned(old, end_ms),
        (old.start, new.start, old.end),
        not (old.doubtful or new.doubtful),
        old.end_ms - start_ms if _is_ordinary(old, new) else None,
    )


def _is_ordinary(old: Interval, new: Interval) -> bool:
    """True for an exchange that would be one if the clock of either file were set otherwise."""
    gave_up = old.ended in (Ended.REVOKED, Ended.CLOSED) and old.void_ms is None
    return gave_up and new.begun is Begun.ASSIGNED and old.start.file != new.start.file


def _why_still_owned(old: Interval, end_ms: int) -> Cause:
    if old.ended is Ended.HANGS:
        return Cause.CLOSE_HANGS
    if old.void_ms is not None and old.void_ms <= end_ms:
        return Cause(old.void_cause)
    return Cause.UNKNOWN


_STILL = {
    Cause.NO_POLL: "it did not poll and its partitions were given away",
    Cause.SESSION_EXPIRED: "the coordinator had not heard from it for a session and gave its partitions away",
    Cause.SLOW_CALLBACK: "its revoked callback outlived the rebalance timeout",
    Cause.FENCED: "it had been fenced and did not know yet",
    Cause.FATAL_ERROR: "it had failed for good and its application kept the partitions",
    Cause.CLOSE_HANGS: "its close() did not come back",
}


def doubles(group: str, parts: Iterable[Overlap]) -> Iterator[Finding]:
    """The findings for the overlaps of one pair of members, in the order of (start, end, partition)."""
    own = list(parts)
    apart_ms = _clocks_apart_ms(own)
    for merged in runs(own):
        yield double(group, merged, apart_ms)


def _clocks_apart_ms(parts: Sequence[Overlap]) -> int | None:
    """By how much the clocks of two hosts differ if that is all there is: each exchange is off by the same time."""
    apart = [o.apart_ms for o in parts if o.apart_ms is not None]
    same = len(apart) == len(parts) and max(apart) - min(apart) <= SETTLED_MS
    return sum(apart) // len(apart) if same else None


def double(group: str, merged: Sequence[Overlap], apart_ms: int | None = None) -> Finding:
    """The finding for overlaps that belong together; `apart_ms` if a difference of clocks explains them."""
    first = merged[0]
    partitions = by_partition(o.partition for o in merged)
    start_ms, end_ms = min(o.start_ms for o in merged), max(o.end_ms for o in merged)
    found = finding(
        FindingKind.DOUBLE_OWNERSHIP,
        group,
        first.old,
        start_ms,
        end_ms,
        summary=_both_owned(first, names(partitions), seconds(end_ms - start_ms))
        + (f", or the clocks of their hosts differ by {seconds(apart_ms)} or more" if apart_ms is not None else ""),
        partitions=partitions,
        cause=first.cause,
        places=first.places,
    )
    clocks = apart_ms is not None and apart_ms < SKEW_MS
    sure = all(o.sure for o in merged) and first.cause is not Cause.CLOSE_HANGS and not clocks
    return found if sure else replace(found, severity=Severity.INFO)


def _both_owned(overlap: Overlap, what: str, lasted: str) -> str:
    if connect_work.is_unit(overlap.partition):
        return connect_work.ran_twice(overlap, what, lasted)
    why = _STILL.get(overlap.cause)
    both = f"{overlap.old} and {overlap.new} both owned {what} for {lasted}: {overlap.old} had not let go"
    return f"{both}, {why}" if why else both


# -- unowned partitions -------------------------------------------------------------------------------------


def unowned_partitions(group: str, rows: Rows, limits: Limits) -> Iterator[Finding]:
    """One finding for each last owner, next owner and stretch of time."""
    dark = dark_ms(coverage(rows.lives, rows.intervals))
    lives = {(life.member, life.number): life for life in rows.lives}
    found = [gap for own in by_owned(rows.intervals).values() for gap in gaps(own, rows.wants, lives, dark, limits)]
    for merged in _merge(found):
        yield unowned(group, merged)


def gaps(
    intervals: Iterable[Interval],
    wants: Sequence[Want],
    lives: Mapping[tuple[str, int], Life],
    dark: tuple[int, int],
    limits: Limits,
) -> Iterator[Gap]:
    """Wanted gaps of one partition; its intervals come in the order of (start, end, member).

    `lives` holds, by member and number, at least the lives of these intervals; `dark` is what `dark_ms` gives.
    """
    own = list(intervals)
    if own and connect_work.is_unit((own[0].topic, own[0].partition)):
        yield from connect_work.gaps(own, wants, lives, dark, limits)
        return
    dark_until_ms, dark_from_ms = dark
    for old, start_ms, end_ms, new in holes(own, lives):
        wanted = union(_wanted(wants, old.topic, start_ms, end_ms))
        wanted_ms = sum(end - start for start, end in wanted)
        if wanted_ms > limits.unowned_ms:
            yield Gap(
                old.member,
                new.member if new else "",
                wanted[0][0],
                wanted[-1][1],
                (old.topic, old.partition),
                _why_unowned(old, new, wanted[-1][1] - wanted[0][0], lives),
                (old.end, new.start) if new else (old.end,),
                wanted_ms,
                old.ended not in UNTOLD
                and start_ms >= dark_until_ms
                and end_ms <= dark_from_ms
                and not _went_elsewhere(old, new, lives),
            )


def _went_elsewhere(old: Interval, new: Interval | None, lives: Mapping[tuple[str, int], Life]) -> bool:
    """True where the partition was given up in time, and the rebalance that took it gave it to nobody who was read.

    A coordinator takes a partition in favour of somebody, who learns of that with the next heartbeat. Where the next
    owner's own rebalance began later than that, or nobody was the next owner, a member whose log is missing most likely
    had it in between. A member that gets back what it had at its end was restarted: nobody need have been there.
    """
    if old.ended not in (Ended.REVOKED, Ended.REASSIGNED, Ended.CLOSED):
        return False
    if new is None:
        return True
    if new.member == old.member:
        life = lives.get((old.member, old.life))
        return life is not None and life.end_ms - old.end_ms > SETTLED_MS
    return new.turn_ms is not None and new.turn_ms - old.end_ms > _learns_ms(new, lives) + SETTLED_MS


def _learns_ms(receiver: Interval, lives: Mapping[tuple[str, int], Life]) -> int:
    life = lives.get((receiver.member, receiver.life))
    told = life.heartbeat_interval_ms if life is not None else None
    return CONSUMER_HEARTBEAT_INTERVAL_MS if told is None else told


def holes(
    intervals: Iterable[Interval], lives: Mapping[tuple[str, int], Life]
) -> Iterator[tuple[Interval, int, int, Interval | None]]:
    """(last owner, start, end, next owner) of each time without owner, the last one without end."""
    last: Interval | None = None
    for new in intervals:
        if new.begun in NOBODY:
            continue
        if last is not None and new.start_ms > last.end_ms and new.begun is not Begun.FOUND:
            yield last, _gone_ms(last, new.start_ms, lives), new.start_ms, new
        if last is None or new.end_ms > last.end_ms:
            last = new
    if last is not None and last.ended not in (*UNTOLD, Ended.HANGS, Ended.DELETED):
        yield last, last.end_ms, FOREVER_MS, None


def _gone_ms(last: Interval, next_ms: int, lives: Mapping[tuple[str, int], Life]) -> int:
    """When the last owner was gone: its last line, or a session before the next owner if that is later."""
    life = lives.get((last.member, last.life))
    if last.ended not in UNTOLD or life is None or not life.in_group:
        return last.end_ms
    return max(last.end_ms, next_ms - (life.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS))


def _why_unowned(old: Interval, new: Interval | None, lasted_ms: int, lives: Mapping[tuple[str, int], Life]) -> Cause:
    if old.ended in UNTOLD:
        return Cause.KILLED
    if old.ended is Ended.DROPPED:
        return Cause.FATAL_ERROR
    if old.ended is Ended.LOST:
        return Cause(old.void_cause) if old.void_cause else Cause.FENCED
    life = lives.get((old.member, old.life))
    leaves = life is not None and life.ended is Ended.CLOSED and old.end_ms >= life.end_ms - LEAVING_MS
    if life is not None and leaves and life.instance_id:
        return Cause.STATIC_MEMBER_AWAY
    receiver = lives.get((new.member, new.life)) if new is not None else None
    learns_ms = receiver.heartbeat_interval_ms if receiver is not None else None
    if learns_ms is not None and lasted_ms <= learns_ms + SETTLED_MS:
        return Cause.HEARTBEAT_INTERVAL
    return Cause.REVOKED


LEAVING_MS = 15_000
"""What a member gives up within this time before the end of its closed life, it gives up because it leaves."""


def _wanted(wants: Iterable[Want], topic: str, start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    for want in wants:
        if want.start_ms < end_ms and want.end_ms > start_ms and matches(want, topic):
            yield max(want.start_ms, start_ms), min(want.end_ms, end_ms)


def matches(want: Want, topic: str) -> bool:
    """True where the want is one for this topic."""
    return pattern_matches(want.pattern, topic) if want.pattern else want.topic == topic


def pattern_matches(text: str, topic: str) -> bool:
    """True where the whole topic name matches the pattern."""
    pattern = _pattern(text)
    return pattern is not None and pattern.fullmatch(topic) is not None


@cache
def _pattern(text: str) -> Any:
    """The compiled pattern, None where RE2 does not read it (Java knows syntax that RE2 does not).

    The pattern comes from a log, so it may be hostile: RE2 matches in linear time, `re` does not.
    """
    import re2  # noqa: PLC0415  only patterns need it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


_SINCE = {
    Cause.KILLED: "whose log ends there without a close (killed, or its log is missing)",
    Cause.STATIC_MEMBER_AWAY: "a static member that left; the group keeps them for its return",
    Cause.FATAL_ERROR: "which lost them on a fatal error",
    Cause.NO_POLL: "which did not poll in time",
    Cause.SESSION_EXPIRED: "whose session had expired",
    Cause.SLOW_CALLBACK: "whose revoked callback took too long",
    Cause.FENCED: "which was fenced",
    Cause.REVOKED: "which gave them up when asked",
    Cause.HEARTBEAT_INTERVAL: "which gave them up when asked; members learn of a rebalance with their next heartbeat",
}


def unowned(group: str, merged: Sequence[Gap]) -> Finding:
    """The finding for gaps that belong together."""
    first = merged[0]
    partitions = by_partition(g.partition for g in merged)
    start_ms, end_ms = min(g.start_ms for g in merged), max(g.end_ms for g in merged)
    lasted_ms = max(g.wanted_ms for g in merged)
    found = finding(
        FindingKind.UNOWNED_PARTITION,
        group,
        first.old,
        start_ms,
        end_ms,
        summary=connect_work.ran_nowhere(first, names(partitions), seconds(lasted_ms))
        if connect_work.is_unit(first.partition)
        else _nobody_owned(first, names(partitions), seconds(lasted_ms)),
        partitions=partitions,
        cause=first.cause,
        places=first.places,
    )
    by_design = first.cause in (Cause.STATIC_MEMBER_AWAY, Cause.SCHEDULED_DELAY, Cause.HEARTBEAT_INTERVAL)
    return found if all(g.sure for g in merged) and not by_design else found.lowered()


def _nobody_owned(gap: Gap, what: str, lasted: str) -> str:
    at_most = "at most " if gap.cause is Cause.KILLED else ""
    then = f"then {gap.new} got them" if gap.new else "nobody got them while anyone wanted them"
    since = _SINCE.get(gap.cause, "which let go")
    said = f"nobody owned {what} for {at_most}{lasted}; the last owner was {gap.old}, {since}; {then}"
    return (
        said if gap.sure or gap.cause is not Cause.REVOKED else f"{said}, unless a member had them whose log is missing"
    )


# -- rebalances ---------------------------------------------------------------------------------------------


def rebalances(group: str, rows: Rows) -> list[Rebalance]:
    """Every rebalance of the group, by start."""
    empty = [
        (start_ms, end_ms)
        for intervals in by_owned(rows.intervals).values()
        for _, start_ms, end_ms, new in holes(intervals, {})
        if new is not None
    ]
    both: list[Turn | tuple[int, int]] = [*empty, *rows.turns]
    return list(rebalances_in_order(group, sorted(both, key=_start_and_end)))


def _start_and_end(item: Turn | tuple[int, int]) -> tuple[int, int, str]:
    return (item.start_ms, item.end_ms, item.member) if isinstance(item, Turn) else (*item, "")


def rebalances_in_order(group: str, items: Iterable[Turn | tuple[int, int]]) -> Iterator[Rebalance]:
    """The rebalances of one group from its turns and its times without owner, in the order of start, end, member.

    Holds the turns of one rebalance, and the times without owner that may reach into it.
    """
    burst: list[Turn] = []
    empty: list[tuple[int, int]] = []
    end_ms = 0
    for item in items:
        if isinstance(item, tuple):
            empty.append(item)
            continue
        if burst and item.start_ms - end_ms > SETTLED_MS:
            yield _rebalance(group, burst, end_ms, empty)
            burst = []
            empty = [hole for hole in empty if hole[1] > item.start_ms]
        end_ms = max(end_ms, item.end_ms) if burst else item.end_ms
        burst.append(item)
    if burst:
        yield _rebalance(group, burst, end_ms, empty)


def _rebalance(group: str, turns: Sequence[Turn], end_ms: int, empty: Iterable[tuple[int, int]]) -> Rebalance:
    start_ms, causes = turns[0].start_ms, {t.cause for t in turns}
    return Rebalance(
        group=group,
        start_ms=start_ms,
        end_ms=end_ms,
        cause=next((c for c in ("lost", "left", "joined") if c in causes), "told"),
        members=len({t.member for t in turns}),
        moved=sum(t.added for t in turns),
        removed=sum(t.removed for t in turns),
        unowned_ms=max(0, *(min(b, end_ms) - max(a, start_ms) for a, b in empty), 0),
    )


def rebalance_storms(group: str, turns: Iterable[Turn], limits: Limits) -> Iterator[Finding]:
    """Members that do nothing but rebalance."""
    by_member: dict[str, list[Turn]] = {}
    for turn in turns:
        if turn.added or turn.removed:
            by_member.setdefault(turn.member, []).append(turn)
    for member, own in sorted(by_member.items()):
        own.sort(key=lambda t: t.start_ms)
        first = 0
        for last, turn in enumerate(own):
            while turn.start_ms - own[first].start_ms > limits.window_ms:
                first += 1
            ends = last + 1 == len(own) or own[last + 1].start_ms - own[first].start_ms > limits.window_ms
            if ends and last - first >= limits.storm_turns:
                yield _storm(group, member, own[first : last + 1])
                first = last + 1 if last + 1 < len(own) else first


def _storm(group: str, member: str, window: Sequence[Turn]) -> Finding:
    start_ms, end_ms = window[0].start_ms, window[-1].end_ms
    return finding(
        FindingKind.REBALANCE_STORM,
        group,
        member,
        start_ms,
        end_ms,
        summary=f"{member} rebalanced {len(window)} times within {seconds(end_ms - start_ms)}",
        cause=Cause.UNKNOWN,
        places=[t.place for t in window[:5]],
    )


# -- shared -------------------------------------------------------------------------------------------------


def _end_of_logs(rows: Rows) -> int:
    return max((life.end_ms for life in rows.lives), default=0)


def _merge(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    for own in _by_pair(parts):
        yield from runs(own)


def _by_pair(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Parts with the same two members, in the order of (start, end, partition)."""
    by_pair: dict[tuple[str, str], list[_Part]] = {}
    for part in parts:
        by_pair.setdefault((part.old, part.new), []).append(part)
    for _, own in sorted(by_pair.items()):
        yield sorted(own, key=lambda p: (p.start_ms, p.end_ms, p.partition))


def runs(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Parts of one pair of members, in the order of (start, end, partition), cut into those that belong together."""
    run: list[_Part] = []
    for part in parts:
        if run and (part.start_ms - run[-1].start_ms > MERGE_MS or abs(part.end_ms - run[-1].end_ms) > MERGE_MS):
            yield run
            run = []
        run.append(part)
    if run:
        yield run
