"""Weak spots with a number in `diagrams/hazards.md`: findings get the cause, what to do, and the lines that show it.

* W9, a report during a slow assigned callback: two members owned a partition, nothing else explains it, and the first
  one gave a heartbeat up while its assigned callback ran for that partition, which ended later. Its next report says
  everything, but for what is being assigned. Clients' logs are enough.
* W11, an acknowledgement under way: the coordinator's records show that a second assignment added the partition and
  the third one took it away unasked, and the member's log has no request that was given up.
* W8, a late request: the partition had no owner, the coordinator's records assign it to a member that stayed, and
  that member's log begins no rebalance then, and one that was open brings nothing: so it was not told, and no
  callback is slow. It had given up a heartbeat before, which can be the one that was handled, and none afterwards for
  longer than requests take: so it was no answer that got lost. Where the log does not show that much, the partition
  is `UNTOLD`. One that no log ever had an owner of is found here alone.
* W5, a refused downgrade: the last member of the consumer protocol went, the group's epoch moved on, and the target
  did not for longer than classic members take to hear of it. Only the coordinator's records show that. It is for
  information where they do not tell assignments: a member whose log is missing may have had the partition. What the
  one that went had never used, and no log has an owner of, is found here alone.
* W13 to W15, static members that restart: `restarted_members`.
* W12, an early join: UNKNOWN_SERVER_ERROR ended a member of the consumer protocol while a classic one waited for
  generation 1, by its own log or by the coordinator's.

Where clocks are apart, nothing is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
from fsm.audit.group.clocks import APART
from fsm.audit.group.unowned_partitions import ELSEWHERE, matches
from fsm.audit.limits import CONSUMER_HEARTBEAT_INTERVAL_MS, DEFAULT_SESSION_TIMEOUT_MS, SETTLED_MS, SKEW_MS
from fsm.audit.rows import Ended, GivenUp, GroupRows, Life, MemberRebalance, Place
from fsm.audit.weak_spots.restarted_members import Unclaimed, find_unclaimed, summarize
from fsm.audit.wording import names, seconds
from fsm.logs import facts_of
from fsm.logs.programs.broker import CLASSIC, MEMBER
from fsm.trace import Kind, Partition, by_partition

LATE_MS = 120_000
"""A request that was given up may be handled this much later: its connection sends it again and again."""
NOTIFIED_MS = 5000
"""A member that is assigned a partition hears of it in the same answer, or something is wrong."""
REFUSED = "UNKNOWN_SERVER_ERROR"
BY_DESIGN = (Cause.STATIC_MEMBER_AWAY, Cause.SCHEDULED_DELAY, Cause.HEARTBEAT_INTERVAL)


@dataclass(frozen=True)
class _Group:
    """What is known of one group."""

    rows: GroupRows
    records: Sequence[CoordinatorRecord]
    given: Sequence[Assignment]
    skew_ms: int

    @cached_property
    def stalls(self) -> list[_Stall]:
        return list(_stalls(self.records))

    @cached_property
    def used(self) -> set[Partition]:
        """What some log has an owner of."""
        return {(one.topic, one.partition) for one in self.rows.intervals}

    @cached_property
    def unclaimed(self) -> list[Unclaimed]:
        """What restarts of static members, and a refused downgrade, left to nobody for so long that it is no hand-over.

        Of a downgrade it is what no log has an owner of; else a gap begins with the end of one.
        """
        last_ms = (
            max([self.records[-1].record.ts_ms, *(life.end_ms for life in self.rows.lives)]) if self.records else 0
        )
        found = (*find_unclaimed(self.records), *_find_left_behind(self))
        ended = (one if one.end_ms else one._replace(end_ms=last_ms) for one in found)
        return [one for one in ended if (one.end_ms or 0) - one.start_ms > self.hears_ms + NOTIFIED_MS]

    @property
    def hears_ms(self) -> int:
        """So long after it classic members hear of a rebalance: with their next heartbeats."""
        return max((life.heartbeat_interval_ms or 0 for life in self.rows.lives), default=0) + 2 * self.slack_ms

    @property
    def slack_ms(self) -> int:
        """How far two clocks may be apart, though somebody keeps them in step."""
        return SKEW_MS + self.skew_ms

    @cached_property
    def turns(self) -> dict[str, list[MemberRebalance]]:
        """The rebalances of each member, in order."""
        found: dict[str, list[MemberRebalance]] = {}
        for one in self.rows.rebalances:
            found.setdefault(one.member, []).append(one)
        return found

    def given_up(self, member: str) -> list[GivenUp]:
        return sorted((one for one in self.rows.given_up if one.member == member), key=lambda one: one.ts_ms)

    def lives(self, member: str) -> list[Life]:
        """Those that are certain of a client that prints each rebalance and each heartbeat that it gives up."""
        own = (one for one in self.rows.lives if one.member == member and one.doubtful_ms is None)
        return [one for one in own if facts_of(one.client_id).tells_each_heartbeat]

    @cached_property
    def current(self) -> list[Assignment]:
        """What the coordinator of a consumer group counted as its members', those whose logs were read, in order."""
        own = (a for a in self.given if a.which is AssignmentKind.CURRENT and a.machine == MEMBER and a.member)
        return sorted(own, key=lambda a: (a.start_ms, a.member_id))


def name_weak_spots(
    findings: Iterable[Finding],
    rows: GroupRows,
    records: Sequence[CoordinatorRecord],
    given: Sequence[Assignment],
    skew_ms: int,
) -> list[Finding]:
    """The findings of one group, and of partitions that no log had an owner of. `records` are ordered by time."""
    known = list(findings)
    if any(found.summary.startswith(APART) for found in known):
        return known
    group = _Group(rows, records, given, skew_ms)
    named_now = [_name(found, group) or found for found in known]
    return [*named_now, *_never_used(group), *_never_claimed(named_now, group)]


def _name(found: Finding, group: _Group) -> Finding | None:
    if found.kind is FindingKind.DOUBLE_OWNERSHIP and found.cause in (Cause.UNKNOWN, Cause.LEFT_OUT):
        return _find_left_out(found, group)
    if found.kind is FindingKind.UNOWNED_PARTITION:
        by_design = found.cause in BY_DESIGN
        return _find_claimed(found, group) or (
            None if by_design else _find_stranded(found, group) or _find_never_notified(found, group)
        )
    if found.kind is FindingKind.MEMBER_OUT_FOR_GOOD and REFUSED in found.summary:
        return _early(found, group)
    return None


def _as(found: Finding, cause: Cause, why: str, places: Iterable[Place]) -> Finding:
    return replace(found.add(why, places), cause=cause)


def _certain(found: Finding) -> Finding:
    """By the coordinator's word nobody had the partition whose log is missing."""
    return replace(found, summary=found.summary.replace(ELSEWHERE, ""), severity=Severity.WARNING)


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
    """Whether the first owner was a member still: it was told to give the partition up in the end."""
    return any(
        (one.topic, one.partition) == found.partitions[0]
        and one.member == found.member
        and one.start_ms <= found.start_ms < one.end_ms
        and one.ended is Ended.REVOKED
        for one in group.rows.intervals
    )


# -- no owner -----------------------------------------------------------------------------------------------


def _find_never_notified(found: Finding, group: _Group) -> Finding | None:
    """The partition is assigned to somebody who does not know."""
    partition, slack_ms = found.partitions[0], group.slack_ms
    for one in group.current:
        if partition in one.partitions and found.start_ms - slack_ms <= one.start_ms <= found.end_ms:
            until_ms = _find_end_of_waiting(one, found, group)
            if until_ms - one.start_ms > NOTIFIED_MS + slack_ms:
                return _with_reason(found, one, until_ms, group)
    return None


def _never_used(group: _Group) -> Iterator[Finding]:
    """Findings for partitions of which no log has an owner: a gap begins with the end of one."""
    last_ms = group.records[-1].record.ts_ms if group.records else 0
    for one in group.current:
        partitions = [partition for partition in one.partitions if partition not in group.used]
        end_ms = last_ms if one.end_ms is None else one.end_ms
        if partitions and end_ms - one.start_ms > NOTIFIED_MS:
            summary = f"nobody owned {names(partitions)} for {seconds(end_ms - one.start_ms)}, nor before"
            unused = finding(
                FindingKind.UNOWNED_PARTITION,
                one.group,
                one.member,
                one.start_ms,
                end_ms,
                summary=summary,
                partitions=partitions,
            )
            yield from filter(None, [_find_never_notified(unused, group)])


def _find_end_of_waiting(one: Assignment, found: Finding, group: _Group) -> int:
    """When the member heard of its assignment, lost it, or somebody else had the partition."""
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
        return one.start_ms  # it may have been gone
    last_ms = group.records[-1].record.ts_ms if one.end_ms is None else one.end_ms
    lives = [life for life in group.lives(one.member) if life.protocol == "consumer" and life.start_ms <= one.start_ms]
    covered = any(life.end_ms >= end_ms - slack_ms for life in lives)
    if not covered and (not lives or last_ms - one.start_ms <= DEFAULT_SESSION_TIMEOUT_MS + slack_ms):
        return one.start_ms
    return until_ms


def _with_reason(found: Finding, one: Assignment, until_ms: int, group: _Group) -> Finding:
    """The finding with what the member's log says of lost requests."""
    given_up = group.given_up(one.member)
    before = [g for g in given_up if 0 <= one.start_ms + group.skew_ms - g.ts_ms <= LATE_MS]
    later = [g for g in given_up if one.start_ms + group.skew_ms < g.ts_ms <= until_ms]
    held = f"the coordinator has assigned {names([found.partitions[0]])} to {one.member}, which does not know for "
    held += seconds(until_ms - one.start_ms)
    real = _certain(found)
    if before and not later and until_ms - one.start_ms > before[-1].timeout_ms:
        ago = seconds(max(0, one.start_ms - before[-1].ts_ms))
        why = f"{held}: a request that it had given up {ago} before was handled then, and its answer went nowhere"
        return _as(real, Cause.LATE_REQUEST, f"{why}: {summarize('W8')}", [one.start, before[-1].place])
    lost = "the answer was lost, and it gave its request up"
    why = lost if later else "the answer was lost or late, or was that to a request that it had given up (W8)"
    return _as(real, Cause.UNTOLD, f"{held}: {why}", [one.start, *(g.place for g in later[:1])])


@dataclass(frozen=True)
class _Stall:
    """The target is behind the group's epoch, and no member of the consumer protocol is there."""

    start_ms: int
    end_ms: int | None
    epoch: int
    place: Place

    @property
    def why(self) -> str:
        """What happened."""
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
        goes_on = record.kind is Kind.JOINED or (record.kind is Kind.GROUP_STATE and record.machine == CLASSIC)
        computed = record.kind is Kind.TARGET_COMPUTED and stall is not None and (record.epoch or 0) >= stall.epoch
        if stall is not None and (goes_on or computed):
            yield replace(stall, end_ms=record.ts_ms)
            stall = gone_ms = None
    if stall is not None:
        yield stall


def _is_near(ts_ms: int, gone_ms: int | None) -> bool:
    return gone_ms is not None and ts_ms - gone_ms <= REPEATED_MS


def _find_stranded(found: Finding, group: _Group) -> Finding | None:
    """Classic members hear of a rebalance with their next heartbeat, where somebody tells them."""
    for stall in group.stalls:
        end_ms = found.end_ms if stall.end_ms is None else min(stall.end_ms, found.end_ms)
        start_ms = max(stall.start_ms, found.start_ms)
        long = end_ms - start_ms > group.hears_ms and 2 * (end_ms - start_ms) > found.end_ms - found.start_ms
        if long and not _is_assigned(found, start_ms, end_ms, group):
            real = _certain(found) if group.current else found
            refused = [t.place for t in group.records if t.record.kind is Kind.ERROR and _near(t, stall)]
            return _as(real, Cause.STRANDED, stall.why, [*refused, stall.place])
    return None


def _find_left_behind(group: _Group) -> Iterator[Unclaimed]:
    """What the last members of the consumer protocol were assigned, and had never used."""
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
    """Whether a member had the partition meanwhile, though its log is missing."""
    return any(
        found.partitions[0] in one.partitions
        and min(end_ms, one.end_ms or end_ms) - max(start_ms, one.start_ms) > group.slack_ms
        for one in group.given
        if one.which is AssignmentKind.CURRENT
    )


def _near(one: CoordinatorRecord, stall: _Stall) -> bool:
    return abs(one.record.ts_ms - stall.start_ms) <= SETTLED_MS


def _find_claimed(found: Finding, group: _Group) -> Finding | None:
    """Most of the time nobody could have had the partition."""
    for one in group.unclaimed:
        shared_ms = min(one.end_ms or 0, found.end_ms) - max(one.start_ms, found.start_ms)
        if _is_about(one, found.partitions[0]) and 2 * shared_ms > found.end_ms - found.start_ms:
            return _as(_certain(found), one.cause, one.why, [one.place])
    return None


def _is_about(one: Unclaimed, partition: Partition) -> bool:
    return partition in one.partitions or partition[0] in one.topics


def _never_claimed(known: Iterable[Finding], group: _Group) -> Iterator[Finding]:
    """Findings for what no log has the end of an owner of, or no owner at all."""
    known_causes = {(found.cause, partition) for found in known for partition in found.partitions}
    for one in group.unclaimed:
        of_topics = {(i.topic, i.partition) for i in group.rows.intervals if i.topic in one.topics}
        partitions = [p for p in one.partitions or by_partition(of_topics) if (one.cause, p) not in known_causes]
        wanted = any(matches(sub, topic) for sub in group.rows.subscriptions for topic in _topics(one))
        if not wanted or (not partitions and of_topics) or any(_is_used(p, one, group) for p in partitions):
            continue
        what = names(partitions) or f"any partition of {', '.join(sorted(one.topics))}"
        summary = f"nobody owned {what} for {seconds((one.end_ms or 0) - one.start_ms)}; {one.why}"
        yield finding(
            FindingKind.UNOWNED_PARTITION,
            group.records[0].record.group,
            one.member,
            one.start_ms,
            one.end_ms or 0,
            summary=summary,
            partitions=partitions,
            cause=one.cause,
            places=[one.place],
        )


def _topics(one: Unclaimed) -> set[str]:
    return {topic for topic, _ in one.partitions} | one.topics


def _is_used(partition: Partition, one: Unclaimed, group: _Group) -> bool:
    """Whether a client's log has an owner of it meanwhile."""
    return any(
        (i.topic, i.partition) == partition
        and i.start_ms < (one.end_ms or 0)
        and i.end_ms > one.start_ms + group.slack_ms + NOTIFIED_MS
        for i in group.rows.intervals
    )


# -- ended --------------------------------------------------------------------------------------------------


def _early(found: Finding, group: _Group) -> Finding | None:
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
