"""One group in the HTML report: an overview line and a timeline, as `fsm.render.timeline.views`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from fsm.audit.coordinator.assignments import Assignment, AssignmentKind, CoordinatorRecord
from fsm.audit.coordinator.evidence import STATEMENTS
from fsm.audit.findings import UNIT_KINDS, Cause, Finding, FindingKind, Severity
from fsm.audit.group import Rebalance
from fsm.audit.group_audit import GroupAudit
from fsm.audit.intervals import merge_spans
from fsm.audit.report.highlights import SPANS, Highlights, state_spans
from fsm.audit.rows import UNOWNED_BEGINS, Begun, Ended, group_by
from fsm.audit.wording import unit, unit_partition
from fsm.logs.programs.broker import CLASSIC
from fsm.render.timeline import views
from fsm.render.timeline.trend import Trend
from fsm.render.wording import many
from fsm.trace import Kind, Partition

MEMBERS, PARTITIONS, UNLOGGED = 50_000, 50_000, 10_000
"""Most lanes of each in the timeline of one group; a reader sees a hundred at once."""
REBALANCES = 2_000
"""Most rebalances shown of one group: the longest."""
STRETCHES = 100_000
"""Most times without owner, or with two, drawn in one group."""
NOT_UNDERSTOOD = "not understood"
NAMES = 20
"""Most protocols and versions in an overview."""
EPOCHS = (Kind.GROUP_EPOCH, Kind.GROUP_STATE)


@dataclass(frozen=True, slots=True)
class Overview:
    """One group in one line: its size, its findings, and the coverage of its logs."""

    group: str
    start_ms: int
    end_ms: int
    members: int
    lives: int
    begin_unknown: int
    """Lives whose log begins after their start."""
    end_unknown: int
    """Lives without a logged end."""
    protocols: tuple[str, ...]
    versions: tuple[str, ...]
    partitions: int
    rebalances: int
    partitions_moved: int
    errors: int
    warnings: int
    coverage: str
    """`whole`, `unknown`, or `not understood` if too little of its members' lines was understood."""
    members_without_logs: int
    """Members that are only in a coordinator's records."""

    @property
    def is_ownerless(self) -> bool:
        """Whether no line tells an owner of a partition, and some members may have owned one all the same: their log
        begins later, or has warnings only, or there is none but the coordinator's."""
        return not self.partitions and (self.begin_unknown > 0 or not self.lives)

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """The sort key of groups, the worst first."""
        return -self.errors, -self.warnings, -self.rebalances, self.group


def overview(audit: GroupAudit) -> Overview | None:
    """The overview of a group; None if it has no timestamps."""
    lives = [covered.life for covered in audit.coverage]
    dated = [one.record.ts_ms for one in audit.coordinator if one.record.ts_ms > 0]
    starts, ends = [life.start_ms for life in lives], [life.end_ms for life in lives]
    if not starts and not dated:
        return None
    begin_unknown = sum(not life.whole_start for life in lives)
    end_unknown = sum(one.end == Cause.UNKNOWN for one in audit.coverage)
    severities = Counter(found.severity for found in audit.findings)
    return Overview(
        group=audit.group,
        start_ms=min(starts or dated),
        end_ms=max(ends or dated),
        members=sum(life.number == 0 for life in lives),
        lives=len(lives),
        begin_unknown=begin_unknown,
        end_unknown=end_unknown,
        protocols=tuple(sorted({life.protocol for life in lives})[:NAMES]),
        versions=tuple(sorted({life.version for life in lives})[:NAMES]),
        partitions=len({(interval.topic, interval.partition) for interval in audit.rows.intervals}),
        rebalances=len(audit.rebalances),
        partitions_moved=sum(one.moved for one in audit.rebalances),
        errors=severities[Severity.ERROR],
        warnings=severities[Severity.WARNING],
        coverage=_describe_coverage(audit, bool(lives) and not begin_unknown + end_unknown),
        members_without_logs=len({one.record.member_id for one in audit.coordinator if not one.member} - {""}),
    )


def _describe_coverage(audit: GroupAudit, whole: bool) -> str:
    doubted = (audit.files[file].is_doubtful(client) for _, client, file, _ in audit.members if file in audit.files)
    return NOT_UNDERSTOOD if any(doubted) else "whole" if whole else "unknown"


# -- its timeline -------------------------------------------------------------------------------------------


def group_view(audit: GroupAudit, known: Overview | None, highlights: Highlights) -> views.GroupView:
    """The timeline of one group; empty if the group has no timestamps."""
    if known is None:
        return views.GroupView(audit.group, 0, 0)
    rounds, unlogged = highlights.round_views(), _view_unlogged(audit, known.end_ms)
    members, partitions, rebalances = _members(audit, known, highlights), _partitions(audit), _rebalances(audit)
    return views.GroupView(
        group=audit.group,
        start_ms=known.start_ms,
        end_ms=known.end_ms,
        understood=known.coverage != NOT_UNDERSTOOD,
        members=members,
        members_hidden=known.members - len(members),
        coordinator=_coordinator_lane(audit.coordinator, known.end_ms),
        unlogged=unlogged,
        unlogged_hidden=known.members_without_logs - len(unlogged),
        partitions=partitions,
        partitions_hidden=known.partitions - len(partitions),
        rebalances=rebalances,
        rebalances_hidden=known.rebalances - len(rebalances),
        rounds=rounds,
        rounds_hidden=len(highlights.rounds) - len(rounds),
        trend=trend(audit.rebalances, audit.findings),
    )


def trend(rebalances: Iterable[Rebalance], findings: Iterable[Finding]) -> Trend:
    """Rebalances, moved partitions, and times without owner, by begin; without those that have no time."""
    counts = Trend()
    for one in rebalances:
        if one.start_ms:
            counts.add(one.start_ms, 1, one.moved, one.unowned_ms)
    for found in findings:
        if found.start_ms and found.kind in (FindingKind.UNOWNED_PARTITION, FindingKind.UNASSIGNED_WORK):
            counts.add(found.start_ms, unowned_ms=found.end_ms - found.start_ms)
    return counts


def _members(audit: GroupAudit, known: Overview, highlights: Highlights) -> tuple[views.MemberView, ...]:
    """The members with the most findings, by start."""
    blamed = Counter((found.member, found.severity) for found in audit.findings)
    lives = group_by(audit.coverage, attrgetter("life.member"))
    read = {(key.member, file) for (_, _, file, _), key in audit.members.items() if file in audit.files}
    missed = Counter[str]()
    for name, file in sorted(read):
        missed[name] += audit.files[file].missed
    assigned = group_by(audit.assignments, attrgetter("member"))
    starts = {member: min(life.start_ms for life, _ in mine) for member, mine in lives.items()}

    def rank(member: str) -> tuple[int, int, int, str]:
        return -blamed[member, Severity.ERROR], -blamed[member, Severity.WARNING], starts[member], member

    def view(member: str) -> views.MemberView:
        mine = lives[member]
        given = assigned.get(member, ())
        states, states_hidden = highlights.spans(member, max(life.end_ms for life, _ in mine))
        return views.MemberView(
            member=member,
            client=max(life.client_id for life, _ in mine),
            protocol=max(life.protocol for life, _ in mine),
            version=max(life.version for life, _ in mine),
            coverage=_coverage(all(life.whole_start for life, _ in mine), mine[-1].end, missed[member]),
            states=states,
            marks=tuple(highlights.marks.get(member, ())),
            target=_list_spans(given, AssignmentKind.TARGET, known.end_ms),
            current=_list_spans(given, AssignmentKind.CURRENT, known.end_ms),
            states_hidden=states_hidden,
        )

    shown = sorted(lives, key=rank)[:MEMBERS]
    return tuple(view(member) for member in sorted(shown, key=lambda member: (starts[member], member)))


def _coverage(whole: bool, end: str, missed: int) -> str:
    begin = "from its start" if whole else "begins in mid-life"
    ends = {Ended.CLOSED.value: "to its close", Cause.KILLED.value: "ends without a close, others took over"}
    lines = f"; not understood in its logs: {many(missed, 'line')}" if missed else ""
    return f"{begin}, {ends.get(end, 'ends without a close')}{lines}"


def _list_spans(given: Iterable[Assignment], which: AssignmentKind, end_ms: int) -> tuple[views.AssignedSpan, ...]:
    own = sorted((one for one in given if one.which is which), key=lambda one: (one.start_ms, one.start))
    return tuple(
        views.AssignedSpan(
            one.state,
            _epoch(one),
            one.label,
            len(one.partitions),
            one.giving_up,
            one.start_ms,
            max(one.start_ms, end_ms) if one.end_ms is None else one.end_ms,
        )
        for one in own[:SPANS]
    )


def _epoch(one: Assignment) -> str:
    if one.epoch is None:
        return ""
    name = "generation" if one.machine == CLASSIC else "epoch"
    return f"{name} {one.epoch}" + (f", {one.role}" if one.role else "")


def _coordinator_lane(records: Iterable[CoordinatorRecord], end_ms: int) -> views.MemberView | None:
    """The group's epochs, or the states of a classic group, as spans; members that left as marks."""
    dated = [one for one in records if one.record.ts_ms > 0]
    epochs = [one.record for one in dated if one.record.kind in EPOCHS][:SPANS]
    lost = [one for one in dated if one.record.kind in STATEMENTS][:SPANS]
    if not epochs and not lost:
        return None
    steps = [record for record in epochs if record.next_state or record.epoch is not None]
    spans = tuple(state_spans([(r.ts_ms, r.next_state or f"epoch {r.epoch}") for r in steps], end_ms))
    marks = tuple(
        views.Mark(one.record.ts_ms, one.record.kind.value, f"{_name(one)} {one.record.detail}".strip()) for one in lost
    )
    return views.MemberView("coordinator", coverage="epochs, states, and members that left", states=spans, marks=marks)


def _name(one: CoordinatorRecord) -> str:
    return one.member or one.record.member_id


def _view_unlogged(audit: GroupAudit, end_ms: int) -> tuple[views.MemberView, ...]:
    """The first members that are only in the coordinator's records, by member id."""
    assigned = group_by(audit.assignments, attrgetter("member_id"))
    records = (one.record for one in audit.coordinator if not one.member and one.record.member_id)
    by_member = group_by(records, attrgetter("member_id"))

    def first(member_id: str) -> tuple[bool, int, str]:
        dated = [record.ts_ms for record in by_member[member_id] if record.ts_ms > 0]
        return not dated, min(dated, default=0), member_id

    def view(member_id: str) -> views.MemberView:
        given = assigned.get(member_id, ())
        ended = [r for r in by_member[member_id] if r.ts_ms > 0 and r.kind in STATEMENTS]
        return views.MemberView(
            member=member_id,
            client=max(record.settings.get("client.id", "") for record in by_member[member_id]),
            coverage="no log of it was read",
            marks=tuple(views.Mark(r.ts_ms, r.kind.value, r.detail) for r in ended[:SPANS]),
            target=_list_spans(given, AssignmentKind.TARGET, end_ms),
            current=_list_spans(given, AssignmentKind.CURRENT, end_ms),
        )

    return tuple(map(view, sorted(by_member, key=first)[:UNLOGGED]))


def _partitions(audit: GroupAudit) -> tuple[views.PartitionView, ...]:
    """The partitions with the most findings, by name."""
    wrong = sorted(_stretches(audit.findings))
    blamed = Counter(partition for partition, *_ in wrong)
    in_time = sorted(audit.rows.intervals, key=attrgetter("start_ms", "end_ms", "member"))
    partition_of = attrgetter("topic", "partition")
    owned = group_by((one for one in in_time if one.begun not in UNOWNED_BEGINS), partition_of)
    waits = group_by((one for one in in_time if one.begun is Begun.WAITS), partition_of)
    shown = sorted(sorted(owned, key=lambda partition: (-blamed[partition], partition))[:PARTITIONS])
    times: dict[tuple[Partition, FindingKind], list[views.Stretch]] = {}
    drawn = set(shown)
    for partition, start_ms, end_ms, kind in [one for one in wrong if one[0] in drawn][:STRETCHES]:
        times.setdefault((partition, kind), []).append(views.Stretch(start_ms, end_ms))
    return tuple(
        views.PartitionView(
            *unit(partition),
            tuple(views.OwnedSpan(o.member, o.start_ms, o.end_ms, o.ended.value) for o in owned[partition][:SPANS]),
            tuple(times.get((partition, FindingKind.UNOWNED_PARTITION), ())),
            tuple(times.get((partition, FindingKind.DOUBLE_OWNERSHIP), ())),
            tuple(views.Stretch(*s) for s in merge_spans((w.start_ms, w.end_ms) for w in waits.get(partition, ()))),
            max(0, len(owned[partition]) - SPANS),
        )
        for partition in shown
    )


def _stretches(findings: Iterable[Finding]) -> Iterator[tuple[Partition, int, int, FindingKind]]:
    """(partition, start, end, kind) of the findings about owners; a unit of Connect is written as in intervals."""
    meant = {of_unit: kind for kind, of_unit in UNIT_KINDS.items()}
    for found in findings:
        if found.kind in UNIT_KINDS:
            for partition in found.partitions:
                yield partition, found.start_ms, found.end_ms, found.kind
        elif found.kind in meant:
            for partition in found.partitions:
                yield unit_partition(partition), found.start_ms, found.end_ms, meant[found.kind]


def _rebalances(audit: GroupAudit) -> tuple[views.RebalanceView, ...]:
    """The longest rebalances, by time."""
    longest = sorted(audit.rebalances, key=lambda one: (one.start_ms - one.end_ms, one.start_ms))[:REBALANCES]
    return tuple(
        views.RebalanceView(one.start_ms, one.end_ms, one.cause, one.members, one.moved, one.unowned_ms)
        for one in sorted(longest, key=attrgetter("start_ms"))
    )
