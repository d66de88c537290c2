"""Weak spots with a number in `diagrams/hazards.md`: findings get the cause, what to do, and the lines that show it.

* W9, a report during a slow assigned callback: two members owned a partition, there is no other cause, and the first
  one abandoned a heartbeat while its assigned callback ran for that partition, which ended later. Its next full report
  omits the partitions that are being assigned. Clients' logs are enough.
* W11, an acknowledgement in flight: the coordinator's records show that a second assignment added the partition and
  the third one removed it without a revocation, and the member's log has no abandoned request.
* W8, a late request: the partition had no owner, the coordinator's records assign it to a member that stayed, and that
  member's log begins no rebalance then, and an open one adds no partitions: so it was not notified, and no callback is
  slow. It had abandoned a heartbeat before, which may be the one that was handled, and none afterwards for longer than
  requests take: so no answer was lost. If the log does not show all of this, the cause is `UNTOLD`. A partition that
  has no owner in any log is found only here.
* W5, a refused downgrade: the last member of the consumer protocol left, the group's epoch rose, and the target epoch
  did not for longer than classic members take to learn of it. Only the coordinator's records show that. It is for
  information if they have no assignments: a member whose log is missing may have had the partition. Partitions that the
  leaving member had never used, and that have no owner in any log, are found only here.
* W13 to W15, static members that restart, and W28, a downgrade whose rebalance is lost: `restarted_members`.
* W27, an eager member that was interrupted in its revoked callback: `member.ownership` finds it by its own log.
* W12, an early join: UNKNOWN_SERVER_ERROR ended a member of the consumer protocol while a classic one waited for
  generation 1, by its own log or by the coordinator's.

If the clocks of members differ, no weak spot is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from fsm.audit.coordinator.assignments import (
    AWAY,
    REPEATED_MS,
    Assignment,
    AssignmentKind,
    CoordinatorRecord,
    EndReason,
)
from fsm.audit.coordinator.evidence import ACKNOWLEDGED
from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding
from fsm.audit.group.clocks import CLOCKS_DIFFER
from fsm.audit.group.unowned_partitions import UNLESS_LOG_MISSING, matches
from fsm.audit.limits import CONSUMER_HEARTBEAT_INTERVAL_MS, DEFAULT_SESSION_TIMEOUT_MS, SETTLED_MS, SKEW_MS
from fsm.audit.rows import Ended, GivenUp, GroupRows, Life, MemberRebalance, Place, group_by
from fsm.audit.weak_spots.restarted_members import Unclaimed, find_unclaimed
from fsm.audit.wording import names, seconds
from fsm.logs import facts_of
from fsm.logs.programs.broker import CLASSIC, MEMBER
from fsm.reference.reports import summarize
from fsm.trace import Kind, Partition, by_partition

LATE_MS = 120_000
"""An abandoned request may be handled up to this much later, because its connection retries."""
NOTIFIED_MS = 5000
"""A member learns of an assigned partition within this time, normally from the same response."""
REFUSED = "UNKNOWN_SERVER_ERROR"
BY_DESIGN = (Cause.STATIC_MEMBER_AWAY, Cause.SCHEDULED_DELAY, Cause.HEARTBEAT_INTERVAL)


@dataclass(frozen=True)
class _Group:
    """The rows and coordinator's records of one group."""

    rows: GroupRows
    records: Sequence[CoordinatorRecord]
    given: Sequence[Assignment]
    skew_ms: int

    @cached_property
    def stalls(self) -> list[_Stall]:
        return list(_stalls(self.records))

    @cached_property
    def used(self) -> set[Partition]:
        """Partitions that have an owner in some log."""
        return {(one.topic, one.partition) for one in self.rows.intervals}

    @cached_property
    def unclaimed(self) -> list[Unclaimed]:
        """Partitions that restarts of static members, or a refused downgrade, left without owner for longer than a
        hand-over takes.

        Of a downgrade only those without an owner in any log, because others have a gap.
        """
        last_ms = (
            max([self.records[-1].record.ts_ms, *(life.end_ms for life in self.rows.lives)]) if self.records else 0
        )
        found = (*find_unclaimed(self.records), *_find_left_behind(self))
        ended = (self._until_told(one if one.end_ms else one._replace(end_ms=last_ms)) for one in found)
        return [one for one in ended if (one.end_ms or 0) - one.start_ms > self.learns_ms + NOTIFIED_MS]

    def _until_told(self, one: Unclaimed) -> Unclaimed:
        """The rebalance of a downgrade is not lost if one of its members begins another one after that generation."""
        turns = (turn for member in one.others for turn in self.turns.get(member, []) if turn.epoch != one.epoch)
        does_more = (turn for turn in turns if turn.cause or turn.removed or turn.epoch is not None)
        after = (turn for turn in does_more if turn.end_ms > one.start_ms - self.slack_ms)
        return one._replace(end_ms=min([one.end_ms or 0, *(max(turn.start_ms, one.start_ms) for turn in after)]))

    @property
    def learns_ms(self) -> int:
        """Longest time until classic members learn of a rebalance, from their next heartbeats."""
        return max((life.heartbeat_interval_ms or 0 for life in self.rows.lives), default=0) + 2 * self.slack_ms

    @property
    def slack_ms(self) -> int:
        """Largest difference of two synchronised clocks."""
        return SKEW_MS + self.skew_ms

    @cached_property
    def turns(self) -> dict[str, list[MemberRebalance]]:
        return group_by(self.rows.rebalances, attrgetter("member"))

    def given_up(self, member: str) -> list[GivenUp]:
        return sorted((one for one in self.rows.given_up if one.member == member), key=lambda one: one.ts_ms)

    def lives(self, member: str) -> list[Life]:
        """The lives without doubts, of a client that prints each rebalance and each abandoned heartbeat."""
        own = (one for one in self.rows.lives if one.member == member and one.doubtful_ms is None)
        return [one for one in own if facts_of(one.client_id).logs_each_heartbeat]

    @cached_property
    def current(self) -> list[Assignment]:
        """Current assignments of the members of a consumer group whose logs were read, in order."""
        own = (a for a in self.given if a.which is AssignmentKind.CURRENT and a.machine == MEMBER and a.member)
        return sorted(own, key=lambda a: (a.start_ms, a.member_id))


def name_weak_spots(
    findings: Iterable[Finding],
    rows: GroupRows,
    records: Sequence[CoordinatorRecord],
    given: Sequence[Assignment],
    skew_ms: int,
) -> list[Finding]:
    """The findings of one group, plus those of partitions without an owner in any log. `records` are sorted by time."""
    known = list(findings)
    if any(found.summary.startswith(CLOCKS_DIFFER) for found in known):
        return known
    group = _Group(rows, records, given, skew_ms)
    named_now = [_name(found, group) or found for found in known]
    return [*named_now, *_find_never_used(group), *_find_never_claimed(named_now, group)]


def _name(found: Finding, group: _Group) -> Finding | None:
    if found.cause is Cause.INTERRUPTED:
        return found.add(f"what it was assigned again was not new to it: {summarize('W27')}", ())
    if found.kind is FindingKind.DOUBLE_OWNERSHIP and found.cause in (Cause.UNKNOWN, Cause.LEFT_OUT):
        return _find_left_out(found, group)
    if found.kind is FindingKind.UNOWNED_PARTITION:
        by_design = found.cause in BY_DESIGN
        return _find_claimed(found, group) or (
            None if by_design else _find_stranded(found, group) or _find_never_notified(found, group)
        )
    if found.kind is FindingKind.MEMBER_OUT_FOR_GOOD and REFUSED in found.summary:
        return _find_early_join(found, group)
    return None


def _as(found: Finding, cause: Cause, why: str, places: Iterable[Place]) -> Finding:
    return replace(found.add(why, places), cause=cause)


def _make_certain(found: Finding) -> Finding:
    """A warning: by the coordinator's records no member without a log had the partition."""
    return replace(found, summary=found.summary.replace(UNLESS_LOG_MISSING, ""), severity=Severity.WARNING)


# -- two owners ---------------------------------------------------------------------------------------------


def _find_left_out(found: Finding, group: _Group) -> Finding | None:
    partition = found.partitions[0]
    given_up = group.given_up(found.member)
    after_ms = CONSUMER_HEARTBEAT_INTERVAL_MS + group.slack_ms
    for one in given_up:
        ran = one.ts_ms - group.slack_ms <= found.start_ms <= one.callback_end_ms + after_ms
        if partition in one.assigning and ran and _was_revoked(found, group):
            why = f"{found.member} gave a heartbeat up while its assigned callback ran, and its next report left out"
            acknowledged = f"{found.member} {ACKNOWLEDGED}"
            found = replace(found, summary=found.summary.replace(acknowledged, f"{found.member} had left it out"))
            return _as(found, Cause.LEFT_OUT, f"{why} what was being assigned: {summarize('W9')}", [one.place])
    late = any(0 <= found.start_ms - one.ts_ms <= LATE_MS for one in given_up)
    lives = group.lives(found.member)
    if found.cause is Cause.UNKNOWN or late or not lives or not all(one.version and one.whole_start for one in lives):
        return None
    own = [a for a in group.current if a.member == found.member and a.start_ms <= found.start_ms + group.slack_ms]
    for first, second, third in zip(own, own[1:], own[2:], strict=False):
        added = bool(first.partitions) and set(first.partitions) < set(second.partitions)
        near = abs(found.start_ms - third.start_ms) <= after_ms
        if added and near and partition in set(second.partitions).difference(first.partitions, third.partitions):
            why = f"{found.member} gave no request up: its acknowledgement was under way when more was assigned"
            return _as(found, Cause.LEFT_OUT, f"{why}: {summarize('W11')}", [second.start])
    return None


def _was_revoked(found: Finding, group: _Group) -> bool:
    """Whether the first owner was still a member: its ownership ended with a revocation."""
    return any(
        (one.topic, one.partition) == found.partitions[0]
        and one.member == found.member
        and one.start_ms <= found.start_ms < one.end_ms
        and one.ended is Ended.REVOKED
        for one in group.rows.intervals
    )


# -- no owner -----------------------------------------------------------------------------------------------


def _find_never_notified(found: Finding, group: _Group) -> Finding | None:
    """The finding, if the partition is assigned to a member that was not notified."""
    partition, slack_ms = found.partitions[0], group.slack_ms
    for one in group.current:
        if partition in one.partitions and found.start_ms - slack_ms <= one.start_ms <= found.end_ms:
            until_ms = _find_end_of_waiting(one, found, group)
            if until_ms - one.start_ms > NOTIFIED_MS + slack_ms:
                return _with_reason(found, one, until_ms, group)
    return None


def _find_never_used(group: _Group) -> Iterator[Finding]:
    """Findings for assigned partitions without an owner in any log, which have no gap."""
    last_ms = group.records[-1].record.ts_ms if group.records else 0
    for one in group.current:
        partitions = [partition for partition in one.partitions if partition not in group.used]
        end_ms = last_ms if one.end_ms is None else one.end_ms
        if partitions and end_ms - one.start_ms > NOTIFIED_MS:
            summary = f"nobody owned {names(partitions)} for {seconds(end_ms - one.start_ms)}, nor before"
            about = one.group, one.member, one.start_ms, end_ms, summary
            unused = finding(FindingKind.UNOWNED_PARTITION, *about, partitions=partitions)
            yield from filter(None, [_find_never_notified(unused, group)])


def _find_end_of_waiting(one: Assignment, found: Finding, group: _Group) -> int:
    """When the member learned of its assignment, lost it, or another member had the partition."""
    slack_ms = group.slack_ms
    end_ms = found.end_ms if one.end_ms is None else min(one.end_ms, found.end_ms)
    turns = group.turns.get(one.member, [])
    after = [turn for turn in turns if turn.end_ms >= one.start_ms - slack_ms]
    during = [turn for turn in after if turn.start_ms <= one.start_ms + slack_ms]
    after = after[len(during) :]
    until_ms = min([end_ms, *(turn.start_ms for turn in after)])
    brought_nothing = all(not turn.added and until_ms - turn.end_ms > NOTIFIED_MS + slack_ms for turn in during)
    if not turns or not brought_nothing:
        return one.start_ms
    removed = next((t for t in group.records if t.place == one.end), None)
    if removed is not None and removed.record.kind is Kind.FENCED:
        return one.start_ms  # it may have been dead
    last_ms = group.records[-1].record.ts_ms if one.end_ms is None else one.end_ms
    lives = [life for life in group.lives(one.member) if life.protocol == "consumer" and life.start_ms <= one.start_ms]
    covered = any(life.end_ms >= end_ms - slack_ms for life in lives)
    if not covered and (not lives or last_ms - one.start_ms <= DEFAULT_SESSION_TIMEOUT_MS + slack_ms):
        return one.start_ms
    return until_ms


def _with_reason(found: Finding, one: Assignment, until_ms: int, group: _Group) -> Finding:
    """The finding with the abandoned requests of the member's log."""
    given_up = group.given_up(one.member)
    before = [g for g in given_up if 0 <= one.start_ms + group.skew_ms - g.ts_ms <= LATE_MS]
    later = [g for g in given_up if one.start_ms + group.skew_ms < g.ts_ms <= until_ms]
    held = f"the coordinator has assigned {names([found.partitions[0]])} to {one.member}, which does not know for "
    held += seconds(until_ms - one.start_ms)
    real = _make_certain(found)
    if before and not later and until_ms - one.start_ms > before[-1].timeout_ms:
        ago = seconds(max(0, one.start_ms - before[-1].ts_ms))
        why = f"{held}: a request that it had given up {ago} before was handled then, and its answer went nowhere"
        return _as(real, Cause.LATE_REQUEST, f"{why}: {summarize('W8')}", [one.start, before[-1].place])
    lost = "the answer was lost, and it gave its request up"
    why = lost if later else "the answer was lost or late, or was that to a request that it had given up (W8)"
    return _as(real, Cause.UNTOLD, f"{held}: {why}", [one.start, *(g.place for g in later[:1])])


@dataclass(frozen=True)
class _Stall:
    """The target epoch is behind the group epoch, and the group has no member of the consumer protocol."""

    start_ms: int
    end_ms: int | None
    epoch: int
    place: Place

    @property
    def why(self) -> str:
        what = f"the last member of the consumer protocol had gone, and for epoch {self.epoch} no target was computed"
        return f"{what}: {summarize('W5')}"


def _stalls(records: Iterable[CoordinatorRecord]) -> Iterator[_Stall]:
    consumers: set[str] = set()
    gone_ms: int | None = None
    stall: _Stall | None = None
    for record, _, place, _ in records:
        if record.kind is Kind.JOINED and record.detail == "consumer":
            consumers.add(record.member_id)
        elif record.kind is Kind.FENCED or (record.kind is Kind.LEFT and record.detail != AWAY):
            if record.member_id in consumers and len(consumers) == 1:
                gone_ms = record.ts_ms
            consumers.discard(record.member_id)
        elif record.kind is Kind.GROUP_EPOCH and stall is None and not consumers and _is_near(record.ts_ms, gone_ms):
            stall = _Stall(record.ts_ms, None, record.epoch or 0, place)
        continues = record.kind is Kind.JOINED or (record.kind is Kind.GROUP_STATE and record.machine == CLASSIC)
        computed = record.kind is Kind.TARGET_COMPUTED and stall is not None and (record.epoch or 0) >= stall.epoch
        if stall is not None and (continues or computed):
            yield replace(stall, end_ms=record.ts_ms)
            stall = gone_ms = None
    if stall is not None:
        yield stall


def _is_near(ts_ms: int, gone_ms: int | None) -> bool:
    return gone_ms is not None and ts_ms - gone_ms <= REPEATED_MS


def _find_stranded(found: Finding, group: _Group) -> Finding | None:
    """The finding, if a stall covers most of it and lasts longer than classic members take to learn of a rebalance."""
    for stall in group.stalls:
        end_ms = found.end_ms if stall.end_ms is None else min(stall.end_ms, found.end_ms)
        start_ms = max(stall.start_ms, found.start_ms)
        long = end_ms - start_ms > group.learns_ms and 2 * (end_ms - start_ms) > found.end_ms - found.start_ms
        if long and not _is_assigned(found, start_ms, end_ms, group):
            real = _make_certain(found) if group.current else found
            refused = [t.place for t in group.records if t.record.kind is Kind.ERROR and _near(t, stall)]
            return _as(real, Cause.STRANDED, stall.why, [*refused, stall.place])
    return None


def _find_left_behind(group: _Group) -> Iterator[Unclaimed]:
    """Partitions that were assigned to the last members of the consumer protocol and have no owner in any log."""
    for stall in group.stalls:
        gone = [
            one
            for one in group.given
            if one.which is AssignmentKind.CURRENT
            and one.until is EndReason.REMOVED
            and _is_near(stall.start_ms, one.end_ms)
        ]
        left = by_partition(p for one in gone for p in one.partitions if p not in group.used)
        if left:
            member, place = gone[0].member, stall.place
            yield Unclaimed(Cause.STRANDED, member, stall.start_ms, stall.end_ms, left, frozenset(), stall.why, place)


def _is_assigned(found: Finding, start_ms: int, end_ms: int, group: _Group) -> bool:
    """Whether the partition was assigned to any member meanwhile."""
    return any(
        found.partitions[0] in one.partitions
        and min(end_ms, one.end_ms or end_ms) - max(start_ms, one.start_ms) > group.slack_ms
        for one in group.given
        if one.which is AssignmentKind.CURRENT
    )


def _near(one: CoordinatorRecord, stall: _Stall) -> bool:
    return abs(one.record.ts_ms - stall.start_ms) <= SETTLED_MS


def _find_claimed(found: Finding, group: _Group) -> Finding | None:
    """The finding, if the partition was unclaimed for most of its time."""
    partition = found.partitions[0]
    for one in group.unclaimed:
        shared_ms = min(one.end_ms or 0, found.end_ms) - max(one.start_ms, found.start_ms)
        is_about = partition in one.partitions or partition[0] in one.topics
        if is_about and 2 * shared_ms > found.end_ms - found.start_ms:
            return _as(_make_certain(found), one.cause, one.why, [one.place])
    return None


def _find_never_claimed(known: Iterable[Finding], group: _Group) -> Iterator[Finding]:
    """Findings for unclaimed partitions that have no finding yet, because no log has an owner or its end."""
    known_causes = {(found.cause, partition) for found in known for partition in found.partitions}
    for one in group.unclaimed:
        of_topics = {(i.topic, i.partition) for i in group.rows.intervals if i.topic in one.topics}
        partitions = [p for p in one.partitions or by_partition(of_topics) if (one.cause, p) not in known_causes]
        wanted = any(matches(sub, topic) for sub in group.rows.subscriptions for topic in _topics(one))
        if not wanted or (not partitions and of_topics) or any(_is_used(p, one, group) for p in partitions):
            continue
        what = names(partitions) or f"any partition of {', '.join(sorted(one.topics))}"
        summary = f"nobody owned {what} for {seconds((one.end_ms or 0) - one.start_ms)}; {one.why}"
        about = group.records[0].record.group, one.member, one.start_ms, one.end_ms or 0, summary, [one.place]
        yield finding(FindingKind.UNOWNED_PARTITION, *about, partitions=partitions, cause=one.cause)


def _topics(one: Unclaimed) -> set[str]:
    return {topic for topic, _ in one.partitions} | one.topics


def _is_used(partition: Partition, one: Unclaimed, group: _Group) -> bool:
    """Whether the partition had an owner meanwhile, by a client's log."""
    return any(
        (i.topic, i.partition) == partition
        and i.start_ms < (one.end_ms or 0)
        and i.end_ms > one.start_ms + group.slack_ms + NOTIFIED_MS
        for i in group.rows.intervals
    )


# -- fatal errors -------------------------------------------------------------------------------------------


def _find_early_join(found: Finding, group: _Group) -> Finding | None:
    at_ms, slack_ms = found.start_ms, group.skew_ms
    states = [t for t in group.records if t.record.kind is Kind.GROUP_STATE and t.record.ts_ms <= at_ms + slack_ms]
    waits = [t for t in states[-1:] if t.record.machine == CLASSIC and t.record.epoch == 0]
    classic = {life.member for life in group.rows.lives if life.protocol == "classic"}
    first = [
        r.place
        for r in group.rows.rebalances
        if r.member in classic and r.epoch == 1 and r.start_ms - slack_ms <= at_ms <= r.end_ms + slack_ms
    ]
    if not waits and not first:
        return None
    why = f"classic members waited for the group's first generation: {summarize('W12')}"
    return _as(found, Cause.EARLY_JOIN, why, [*(t.place for t in waits), *first[:1]])
