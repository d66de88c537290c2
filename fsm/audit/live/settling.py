"""Old rows that later judgements need: the last owners of partitions, their lives, and later subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsm.audit.intervals import group_by_partition, merge_spans
from fsm.audit.live.member_state import Item
from fsm.audit.rows import Begun, Ended, GroupRows, Interval, Life, Subscription


def select_needed(old: Iterable[Item], rows: GroupRows) -> list[Item]:
    """The rows of `old` that later judgements may need; `rows` are all rows, including `old`.

    The last owners of each partition, with their lives; of each member the first life, and the first one after which
    its log is uncertain; merged subscriptions since the earliest end of those owners.
    """
    known = list(old)
    owners = list(_last_owners(row for row in known if isinstance(row, Interval)))
    owning = {(one.member, one.life) for one in (*rows.intervals, *owners)}
    since_ms = min((one.end_ms for one in owners), default=0)
    wanted = [row for row in known if isinstance(row, Subscription) and row.end_ms >= since_ms] if owners else []
    lives = _select_lives((row for row in known if isinstance(row, Life)), owning)
    return [*owners, *lives, *_merge(wanted)]


def _last_owners(intervals: Iterable[Interval]) -> Iterator[Interval]:
    in_order = sorted(intervals, key=lambda one: (one.topic, one.partition, one.start_ms, one.end_ms, one.member))
    for own in group_by_partition(in_order):
        end_ms = max((one.end_ms for one in own if one.begun is not Begun.PENDING), default=0)
        yield from (one for one in own if one.end_ms >= end_ms)


def _select_lives(lives: Iterable[Life], owning: set[tuple[str, int]]) -> Iterator[Life]:
    uncertain: set[str] = set()
    for one in sorted(lives, key=lambda life: (life.member, life.number)):
        is_first = one.member not in uncertain and (one.ended is Ended.HOLE or one.doubtful_ms is not None)
        if is_first:
            uncertain.add(one.member)
        if is_first or one.number == 0 or (one.member, one.number) in owning:
            yield one


def _merge(subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
    """One subscription for each stretch of time in which any member was subscribed to a topic or a pattern."""
    by_topic: dict[tuple[str, str], list[Subscription]] = {}
    for one in subscriptions:
        by_topic.setdefault((one.topic, one.pattern), []).append(one)
    for (topic, pattern), own in sorted(by_topic.items()):
        first = own[0]
        for start_ms, end_ms in merge_spans((one.start_ms, one.end_ms) for one in own):
            yield Subscription(first.group, first.member, topic, pattern, start_ms, end_ms, first.place)
