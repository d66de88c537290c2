"""Unowned partitions: a subscribed partition without owner.

The intervals of a partition, sorted by (start, end, member), leave gaps: from the largest end so far (its interval is
the last owner's) to the next start, or to the end of all subscriptions after the last interval. The time before the
first interval is not a gap, because the partition may not have existed. A gap counts if the union of the subscriptions
to its topic inside it is longer than `unowned_ms`, and is reported from the first to the last subscribed moment.

If the end of the last owner was not logged, the gap begins with its last line, or one session timeout (Kafka's default
if the log does not have it) before the next start, whichever is later. Not reported are: such a gap after the last
interval, because a silent owner may be alive; such a gap after an interval that ended because its topic was deleted; a
gap before an interval that was `found` (owned before its first line).

A gap by design is for information only: a static member is away; the topic was deleted and created again; or the
partition was revoked in time, and the next owner had it within its heartbeat interval, by which members learn of a
rebalance, plus `SETTLED_MS`. Severity is one step lower if the last owner was killed, if the partition went most likely
to a member whose log is missing (`_went_to_unlogged_member`), and if some member's log is missing in the gap
(`coverage`). Units of Connect follow `connect.missing_work`.

The order of the input does not matter. Gaps of several partitions are merged by `intervals.split_runs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from fsm.audit.connect import missing_work
from fsm.audit.findings import Cause, Finding, FindingKind
from fsm.audit.group.coverage import find_coverage, find_unlogged_ms
from fsm.audit.intervals import (
    FOREVER_MS,
    Lives,
    Part,
    clip,
    find_gone_ms,
    find_pauses,
    finding_of_run,
    group_by_pair,
    group_by_partition,
    length_ms,
    life_of,
    merge_spans,
    split_runs,
)
from fsm.audit.limits import CONSUMER_HEARTBEAT_INTERVAL_MS, DEFAULT_SESSION_TIMEOUT_MS, SETTLED_MS, Limits
from fsm.audit.rows import UNLOGGED_ENDS, Begun, Ended, GroupRows, Interval, Subscription
from fsm.audit.wording import names, seconds
from fsm.protocol import topic_patterns

UNLESS_LOG_MISSING = ", unless a member had them whose log is missing"
"""Ends the summary of a gap that exists only if no log is missing."""
LEAVING_MS = 15_000
"""Partitions given up this long before the end of a closed life are given up because the member leaves."""


def find_unowned(group: str, rows: GroupRows, limits: Limits) -> Iterator[Finding]:
    unlogged = find_unlogged_ms(find_coverage(rows.lives, rows.intervals))
    lives = {(life.member, life.number): life for life in rows.lives}
    partitions = group_by_partition(rows.intervals)

    @cache
    def list_wanted(topic: str) -> list[tuple[int, int]]:
        return merge_spans((one.start_ms, one.end_ms) for one in rows.subscriptions if matches(one, topic))

    found = [gap for own in partitions for gap in find_gaps(own, list_wanted(own[0].topic), lives, unlogged, limits)]
    for own in group_by_pair(found):
        for merged in split_runs(own):
            yield make_finding(group, merged)


def find_gaps(
    own: Sequence[Interval],
    wanted: Sequence[tuple[int, int]],
    lives: Lives,
    unlogged: tuple[int, int],
    limits: Limits,
) -> Iterator[Part]:
    """Subscribed gaps of one partition; its intervals are sorted by (start, end, member).

    `wanted`: when any member was subscribed to its topic, as disjoint, ordered spans. `lives`: all of the
    group. `unlogged`: from `find_unlogged_ms`.
    """
    if missing_work.is_unit((own[0].topic, own[0].partition)):
        yield from missing_work.find_gaps(own, wanted, lives, unlogged, limits)
        return
    unlogged_until_ms, unlogged_from_ms = unlogged
    pending = [one for one in own if one.begun is Begun.PENDING]
    for old, start_ms, end_ms, new in find_holes(own, lives):
        missed = clip(wanted, start_ms, end_ms)
        wanted_ms = length_ms(missed)
        if wanted_ms > limits.unowned_ms:
            kept = next((i for i in pending if i.member == old.member and start_ms <= i.start_ms < end_ms), None)
            yield Part(
                old.member,
                new.member if new else "",
                missed[0][0],
                missed[-1][1],
                (old.topic, old.partition),
                Cause.INTERRUPTED if kept else _cause(old, new, missed[-1][1] - missed[0][0], lives),
                (old.end, new.start) if new else (old.end,),
                not kept.doubtful
                if kept
                else old.ended not in UNLOGGED_ENDS
                and start_ms >= unlogged_until_ms
                and end_ms <= unlogged_from_ms
                and not _went_to_unlogged_member(old, new, lives),
                wanted_ms=wanted_ms,
            )


def find_holes(intervals: Iterable[Interval], lives: Lives) -> Iterator[tuple[Interval, int, int, Interval | None]]:
    """(last owner, start, end, next owner) of each time without owner; the last one ends at `FOREVER_MS`."""
    for last, new in find_pauses(intervals):
        if last is not None and new is not None:
            yield last, _find_end_ms(last, new.start_ms, lives), new.start_ms, new
        elif last is not None and last.ended not in (*UNLOGGED_ENDS, Ended.HANGS, Ended.DELETED):
            yield last, last.end_ms, FOREVER_MS, None


def _find_end_ms(last: Interval, next_ms: int, lives: Lives) -> int:
    """When the last owner's ownership ended: its last line, or a session before the next start if that is later.

    After a revoked callback without a logged end, the owner may have had the partition until the next start.
    """
    if last.ended is Ended.REVOKED and not last.end_exact:
        return next_ms
    return find_gone_ms(last, next_ms, lives, DEFAULT_SESSION_TIMEOUT_MS)


def _went_to_unlogged_member(old: Interval, new: Interval | None, lives: Lives) -> bool:
    """Whether the partition was most likely assigned to a member whose log is missing.

    A coordinator revokes a partition for another member, which learns of it with its next heartbeat. If the next
    owner's rebalance began later than that, or there is no next owner, an unlogged member had the partition in between.
    A member that gets back what it had at its end was restarted: that needs no other member.

    What a member lost is assigned to the others. If the log of no other one was read, nobody knows whether there are.
    """
    if old.ended is Ended.LOST:
        return all(member == old.member for member, _ in lives)
    if old.ended not in (Ended.REVOKED, Ended.REASSIGNED, Ended.CLOSED):
        return False
    if new is None:
        return True
    if new.member == old.member:
        life = life_of(old, lives)
        return life is not None and life.end_ms - old.end_ms > SETTLED_MS
    interval_ms = _heartbeat_interval_ms(new, lives)
    learns_ms = CONSUMER_HEARTBEAT_INTERVAL_MS if interval_ms is None else interval_ms
    return new.turn_ms is not None and new.turn_ms - old.end_ms > learns_ms + SETTLED_MS


def _heartbeat_interval_ms(owner: Interval | None, lives: Lives) -> int | None:
    life = life_of(owner, lives)
    return life.heartbeat_interval_ms if life is not None else None


def _cause(old: Interval, new: Interval | None, lasted_ms: int, lives: Lives) -> Cause:
    if old.ended in UNLOGGED_ENDS:
        return Cause.KILLED
    if old.ended is Ended.DROPPED:
        return Cause.FATAL_ERROR
    if old.ended is Ended.DELETED:
        return Cause.TOPIC_DELETED
    if old.ended is Ended.LOST:
        return Cause(old.void_cause) if old.void_cause else Cause.FENCED
    life = life_of(old, lives)
    leaves = life is not None and life.ended is Ended.CLOSED and old.end_ms >= life.end_ms - LEAVING_MS
    if life is not None and leaves and life.instance_id:
        return Cause.STATIC_MEMBER_AWAY
    learns_ms = _heartbeat_interval_ms(new, lives)
    if learns_ms is not None and lasted_ms <= learns_ms + SETTLED_MS:
        return Cause.HEARTBEAT_INTERVAL
    return Cause.REVOKED


def matches(subscription: Subscription, topic: str) -> bool:
    pattern = subscription.pattern
    return topic_patterns.matches(pattern, topic) if pattern else subscription.topic == topic


_SINCE = {
    Cause.KILLED: "whose log ends there without a close (killed, or its log is missing)",
    Cause.STATIC_MEMBER_AWAY: "a static member that left; the group keeps them for its return",
    Cause.FATAL_ERROR: "which lost them on a fatal error",
    Cause.NO_POLL: "which did not poll in time",
    Cause.SESSION_EXPIRED: "whose session had expired",
    Cause.SLOW_CALLBACK: "whose revoked callback took too long",
    Cause.FENCED: "which was fenced",
    Cause.TOPIC_DELETED: "until their topic was deleted",
    Cause.REVOKED: "which gave them up when asked",
    Cause.INTERRUPTED: "which was interrupted in its revoked callback and keeps them, pending revocation",
    Cause.HEARTBEAT_INTERVAL: "which gave them up when asked; members learn of a rebalance with their next heartbeat",
}


def make_finding(group: str, merged: Sequence[Part]) -> Finding:
    first = merged[0]
    sentence = missing_work.describe_ran_nowhere if missing_work.is_unit(first.partition) else _sentence
    summary = sentence(first, names(g.partition for g in merged), seconds(max(g.wanted_ms for g in merged)))
    found = finding_of_run(FindingKind.UNOWNED_PARTITION, group, merged, summary)
    return found if all(g.sure for g in merged) and first.cause not in _BY_DESIGN else found.lower_severity()


_BY_DESIGN = (Cause.STATIC_MEMBER_AWAY, Cause.SCHEDULED_DELAY, Cause.HEARTBEAT_INTERVAL, Cause.TOPIC_DELETED)


def _sentence(gap: Part, what: str, lasted: str) -> str:
    at_most = "at most " if gap.cause is Cause.KILLED else ""
    then = f"then {gap.new} got them" if gap.new else "nobody got them while anyone wanted them"
    since = _SINCE.get(gap.cause, "which let go")
    text = f"nobody owned {what} for {at_most}{lasted}; the last owner was {gap.old}, {since}; {then}"
    certain = gap.sure or gap.cause not in _GONE_ELSEWHERE
    return text if certain else text + UNLESS_LOG_MISSING


_GONE_ELSEWHERE = (Cause.REVOKED, Cause.NO_POLL, Cause.SESSION_EXPIRED, Cause.SLOW_CALLBACK, Cause.FENCED)
"""Causes for which a coordinator assigns the partitions to others."""
