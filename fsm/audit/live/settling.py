"""Rows that are over for long and count still: who owned a partition last, in which life, what was wanted since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsm.audit.intervals import of_partitions, union
from fsm.audit.live.member_state import Item
from fsm.audit.rows import Ended, GroupRows, Interval, Life, Subscription


def that_count(old: Iterable[Item], rows: GroupRows) -> list[Item]:
    """Those of `old` on which a judgement of what comes may rest; `rows` are all that there are, with those.

    Of each partition the last that owned it, with their lives; of each member the first life, and the first one after
    which nobody knows what it did; wishes for topics since the earliest of those owners, merged.
    """
    known = list(old)
    owners = list(_last_owners(row for row in known if isinstance(row, Interval)))
    owning = {(one.member, one.life) for one in (*rows.intervals, *owners)}
    since_ms = min((one.end_ms for one in owners), default=0)
    wishes = [row for row in known if isinstance(row, Subscription) and row.end_ms >= since_ms] if owners else []
    lives = _lives((row for row in known if isinstance(row, Life)), owning)
    return [*owners, *lives, *_merge(wishes)]


def _last_owners(intervals: Iterable[Interval]) -> Iterator[Interval]:
    in_order = sorted(intervals, key=lambda one: (one.topic, one.partition, one.start_ms, one.end_ms, one.member))
    for own in of_partitions(in_order):
        end_ms = max(one.end_ms for one in own)
        yield from (one for one in own if one.end_ms == end_ms)


def _lives(lives: Iterable[Life], owning: set[tuple[str, int]]) -> Iterator[Life]:
    dark: set[str] = set()
    for one in sorted(lives, key=lambda life: (life.member, life.number)):
        darkens = one.member not in dark and (one.ended is Ended.HOLE or one.doubtful_ms is not None)
        if darkens:
            dark.add(one.member)
        if darkens or one.number == 0 or (one.member, one.number) in owning:
            yield one


def _merge(wishes: Iterable[Subscription]) -> Iterator[Subscription]:
    """One for each stretch in which somebody wanted a topic, or a pattern."""
    by_topic: dict[tuple[str, str], list[Subscription]] = {}
    for one in wishes:
        by_topic.setdefault((one.topic, one.pattern), []).append(one)
    for (topic, pattern), own in sorted(by_topic.items()):
        first = own[0]
        for start_ms, end_ms in union((one.start_ms, one.end_ms) for one in own):
            yield Subscription(first.group, first.member, topic, pattern, start_ms, end_ms, first.place)
