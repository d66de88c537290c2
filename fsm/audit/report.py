"""What the HTML report shows of an audit: groups one by one, and sums, as values of `fsm.render.timeline.views`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from fsm.audit.certainty import TooLittle, Understood
from fsm.audit.coordinator.assignments import Assignment, AssignmentKind, CoordinatorRecord
from fsm.audit.coordinator.evidence import STATEMENTS
from fsm.audit.findings import UNIT_KINDS, Cause, Finding, FindingKind, Severity
from fsm.audit.group import Rebalance
from fsm.audit.group.coverage import Coverage
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import Incident
from fsm.audit.intervals import union
from fsm.audit.rows import NOBODY, Begun, Ended, Interval, Life, ObservedTransition, Seen
from fsm.audit.wording import UNIT, names, unit, units
from fsm.logs.broker import CLASSIC
from fsm.logs.connect_worker import MACHINE
from fsm.render.report.details import Packed, pack
from fsm.render.timeline import views
from fsm.render.timeline.trend import Trend
from fsm.render.wording import many
from fsm.tables import ALL
from fsm.tables.connect_worker import State
from fsm.trace import Kind, Partition, TraceRecord

MEMBERS, PARTITIONS, UNLOGGED = 50_000, 50_000, 10_000
"""How many lanes of each the timeline of one group has; a reader sees a hundred at once."""
REBALANCES, ROUNDS = 2_000, 500
"""How many of each the report shows of one group. Rounds with a delay, revocations or an error go before others."""
SPANS = 250
"""States and assignments of one member, and owners of one partition, that a timeline shows."""
STRETCHES = 100_000
"""Times without owner, or with two, that are drawn in one group."""
NOT_UNDERSTOOD = "not understood"
NAMES = 20
"""Protocols and versions of a group that its overview names."""
_LATE = 50
"""A transition is told this many transitions later than it happened, at most."""
MARKED = frozenset(
    {
        Kind.STARTED,
        Kind.POLL_EXPIRED,
        Kind.FENCED,
        Kind.FATAL,
        Kind.LOST_BEGIN,
        Kind.CALLBACK_FAILED,
        Kind.COORDINATOR_LOST,
        Kind.CLOSE_BEGIN,
    }
)
"""Records that a member's lane marks."""

EPOCHS = (Kind.GROUP_EPOCH, Kind.GROUP_STATE)
_MEMBER_ID_END = re.compile(r"(?:-[0-9a-f]+){5}$")
"""What the member id of a Connect worker has beyond the client id."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One group in one line: of what it is made, what was found in it, and what its logs cover."""

    group: str
    start_ms: int
    end_ms: int
    members: int
    lives: int
    begin_unknown: int
    """Lives whose logs begin later than they."""
    end_unknown: int
    """Lives whose end no log shows."""
    protocols: tuple[str, ...]
    versions: tuple[str, ...]
    partitions: int
    rebalances: int
    partitions_moved: int
    errors: int
    warnings: int
    coverage: str
    """`whole`, `unknown`, or `not understood` where too little of what its members say was."""
    members_without_logs: int
    """Members that only a coordinator names."""

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Orders groups by what is wrong in them, the worst first."""
        return -self.errors, -self.warnings, -self.rebalances, self.group


def overview(audit: GroupAudit) -> Overview | None:
    """The overview of a group; None where nothing dates it."""
    lives, covered = audit.rows.lives, audit.coverage
    dated = [one.record.ts_ms for one in audit.coordinator if one.record.ts_ms > 0]
    starts, ends = [life.start_ms for life in lives], [life.end_ms for life in lives]
    if not starts and not dated:
        return None
    begin_unknown = sum(not one.begin_known for one in covered)
    end_unknown = sum(one.end == Cause.UNKNOWN for one in covered)
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
        coverage=_covered(audit, bool(lives) and not begin_unknown + end_unknown),
        members_without_logs=len({one.record.member_id for one in audit.coordinator if not one.member} - {""}),
    )


def _covered(audit: GroupAudit, whole: bool) -> str:
    doubted = (audit.files[file].doubts(client) for _, client, file in audit.members if file in audit.files)
    return NOT_UNDERSTOOD if any(doubted) else "whole" if whole else "unknown"


# -- what is noted while records pass by --------------------------------------------------------------------


@dataclass(slots=True)
class _Round:
    start_ms: int
    workers: set[str] = field(default_factory=set)
    version: str = ""
    delay_ms: int = 0
    held: set[Partition] = field(default_factory=set)
    revoked: set[Partition] = field(default_factory=set)
    failed: bool = False


def is_drawn(record: TraceRecord) -> bool:
    """Whether `Highlights` takes anything from a record."""
    return record.kind in MARKED or (record.machine == MACHINE and bool(_worker_state(record)))


class Highlights:
    """Marks and states of members, and rounds of Connect workers; an `Observer` of one group's audit."""

    def __init__(self) -> None:
        self.marks: dict[str, list[views.Mark]] = {}
        self.states: dict[str, dict[str, list[tuple[int, str, int, str]]]] = {}
        """(time, file, offset, state) by member and machine."""
        self.workers: dict[str, list[tuple[int, str]]] = {}
        """When a Connect worker went into which state."""
        self.rounds: dict[tuple[int, str], _Round] = {}
        """By generation and leader's id."""

    def see(self, member: str, seen: Seen) -> None:
        record = seen.record
        if record.kind in MARKED:
            marks = self.marks.setdefault(member, [])
            if len(marks) < SPANS:
                marks.append(views.Mark(record.ts_ms, record.kind.value, record.detail))
        if record.machine == MACHINE:
            self._see_worker(member, record)

    def see_transition(self, transition: ObservedTransition) -> None:
        own = self.states.setdefault(transition.member, {}).setdefault(transition.machine, [])
        if len(own) <= SPANS + _LATE:
            own.append((transition.ts_ms, *transition.place, transition.next_state))

    def _see_worker(self, member: str, record: TraceRecord) -> None:
        state, steps = _worker_state(record), self.workers.setdefault(member, [])
        if state and len(steps) <= SPANS and (not steps or steps[-1][1] != state):
            steps.append((record.ts_ms, state))
        if record.kind is Kind.TARGET and record.epoch is not None:
            settings = record.settings
            round_ = self.rounds.setdefault((record.epoch, settings.get("leader", "")), _Round(record.ts_ms))
            round_.start_ms = min(round_.start_ms, record.ts_ms)
            round_.workers.add(member)
            round_.version = max(round_.version, settings.get("version", ""))
            round_.delay_ms = max(round_.delay_ms, int(settings.get("delay_ms", "0")))
            round_.held.update(record.full or ())
            round_.revoked.update(record.revoked)
            round_.failed |= settings.get("error", "0") != "0"

    def spans(self, member: str, end_ms: int) -> tuple[views.StateSpan, ...]:
        """The states of a member; one with two machines shows the first. Those of a worker as far as INFO tells."""
        machines = self.states.get(member, {})
        steps = [(ts_ms, state) for ts_ms, _, _, state in sorted(machines[min(machines)])] if machines else []
        steps = self.workers.get(member) or steps
        untils = [ts_ms for ts_ms, _ in steps[1:]] + [end_ms]
        return tuple(
            views.StateSpan(state, ts_ms, until_ms)
            for (ts_ms, state), until_ms in zip(steps[:SPANS], untils, strict=False)
        )

    def more_states(self, member: str) -> bool:
        """Whether a member went on to states that `spans` leaves out."""
        machines = self.states.get(member, {})
        first = machines[min(machines)] if machines else []
        return len(self.workers.get(member) or first) > SPANS

    def round_views(self) -> tuple[views.RoundView, ...]:
        """Rounds by time."""

        def view(key: tuple[int, str], one: _Round) -> views.RoundView:
            leader = _MEMBER_ID_END.sub("", key[1])
            held, revoked = len(one.held), len(one.revoked)
            return views.RoundView(
                one.start_ms, key[0], leader, len(one.workers), one.version, one.delay_ms, held, revoked, one.failed
            )

        shown = [(key, view(key, one)) for key, one in sorted(self.rounds.items())]
        notable = sorted(shown, key=lambda s: (not _is_notable(s[1]), s[1].start_ms, s[1].generation))[:ROUNDS]
        return tuple(one for _, one in sorted(notable, key=lambda s: (s[1].start_ms, s[0])))


def _is_notable(round_: views.RoundView) -> bool:
    return round_.delay_ms > 0 or round_.revoked > 0 or round_.failed


def _worker_state(record: TraceRecord) -> str:
    """The state of a Connect worker that a record shows; empty where it shows none."""
    match record.kind:
        case Kind.JOINING if record.event == "JOIN_DUE":
            return State.JOINING.name
        case Kind.TARGET:
            return State.ASSIGNED.name if record.settings.get("delay_ms", "0") == "0" else State.DELAYED.name
        case Kind.STARTED | Kind.COORDINATOR_LOST:
            return State.DISCONNECTED.name
        case Kind.CLOSE_BEGIN | Kind.FATAL:
            return State.DOWN.name
        case _:
            return ""


# -- one group ----------------------------------------------------------------------------------------------


def group_view(audit: GroupAudit, known: Overview | None, noted: Highlights) -> views.GroupView:
    """The timeline of one group; that of a group that nothing dates is empty."""
    if known is None:
        return views.GroupView(audit.group, 0, 0)
    rounds, unlogged = noted.round_views(), _unlogged(audit, known.end_ms)
    members, partitions, rebalances = _members(audit, known, noted), _partitions(audit), _rebalances(audit)
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
        rounds_hidden=len(noted.rounds) - len(rounds),
        trend=trend(audit.rebalances, audit.findings),
    )


def trend(rebalances: Iterable[Rebalance], findings: Iterable[Finding]) -> Trend:
    """Rebalances, what they moved, and times without owner, by when they began."""
    told = Trend()
    for one in rebalances:
        told.add(one.start_ms, 1, one.moved, one.unowned_ms)
    for found in findings:
        if found.kind in (FindingKind.UNOWNED_PARTITION, FindingKind.UNASSIGNED_WORK):
            told.add(found.start_ms, unowned_ms=found.end_ms - found.start_ms)
    return told


def _members(audit: GroupAudit, known: Overview, noted: Highlights) -> tuple[views.MemberView, ...]:
    """The members that are blamed most, by the time of their start."""
    blamed = Counter((found.member, found.severity) for found in audit.findings)
    lives: dict[str, list[tuple[Life, Coverage]]] = {}
    by_number = sorted(audit.rows.lives, key=attrgetter("member", "number"))
    for life, covered in zip(by_number, audit.coverage, strict=True):
        lives.setdefault(life.member, []).append((life, covered))
    read = {(key.member, file) for (_, _, file), key in audit.members.items() if file in audit.files}
    missed = Counter[str]()
    for name, file in sorted(read):
        missed[name] += audit.files[file].missed
    assigned = _grouped(audit.assignments, attrgetter("member"))
    starts = {member: min(life.start_ms for life, _ in mine) for member, mine in lives.items()}

    def rank(member: str) -> tuple[int, int, int, str]:
        return -blamed[member, Severity.ERROR], -blamed[member, Severity.WARNING], starts[member], member

    def view(member: str) -> views.MemberView:
        mine = lives[member]
        given = assigned.get(member, ())
        return views.MemberView(
            member=member,
            client=max(life.client_id for life, _ in mine),
            protocol=max(life.protocol for life, _ in mine),
            version=max(life.version for life, _ in mine),
            coverage=_coverage(all(life.whole_start for life, _ in mine), mine[-1][1].end, missed[member]),
            states=noted.spans(member, max(life.end_ms for life, _ in mine)),
            marks=tuple(noted.marks.get(member, ())),
            target=_assigned(given, AssignmentKind.TARGET, known.end_ms),
            current=_assigned(given, AssignmentKind.CURRENT, known.end_ms),
            states_hidden=noted.more_states(member),
        )

    shown = sorted(lives, key=rank)[:MEMBERS]
    return tuple(view(member) for member in sorted(shown, key=lambda member: (starts[member], member)))


def _grouped(given: Iterable[Assignment], name_of: Callable[[Assignment], str]) -> dict[str, list[Assignment]]:
    found: dict[str, list[Assignment]] = {}
    for one in given:
        found.setdefault(name_of(one), []).append(one)
    return found


def _coverage(whole: bool, end: str, missed: int) -> str:
    begin = "from its start" if whole else "begins in mid-life"
    ends = {Ended.CLOSED.value: "to its close", Cause.KILLED.value: "ends without a close, others took over"}
    lines = f"; not understood in its logs: {many(missed, 'line')}" if missed else ""
    return f"{begin}, {ends.get(end, 'ends without a close')}{lines}"


def _assigned(given: Iterable[Assignment], which: AssignmentKind, end_ms: int) -> tuple[views.AssignedSpan, ...]:
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


def _coordinator_lane(told: Iterable[CoordinatorRecord], end_ms: int) -> views.MemberView | None:
    """The group's epochs, or the states of a classic group, as spans; members that it lost as marks."""
    dated = [one for one in told if one.record.ts_ms > 0]
    epochs = [one.record for one in dated if one.record.kind in EPOCHS][:SPANS]
    lost = [one for one in dated if one.record.kind in STATEMENTS][:SPANS]
    if not epochs and not lost:
        return None
    steps = [record for record in epochs if record.next_state or record.epoch is not None]
    untils = [record.ts_ms for record in steps[1:]] + [end_ms]
    spans = tuple(
        views.StateSpan(r.next_state or f"epoch {r.epoch}", r.ts_ms, max(r.ts_ms, until_ms))
        for r, until_ms in zip(steps, untils, strict=False)
    )
    marks = tuple(
        views.Mark(one.record.ts_ms, one.record.kind.value, f"{_name(one)} {one.record.detail}".strip()) for one in lost
    )
    return views.MemberView("coordinator", coverage="epochs, states, and members that left", states=spans, marks=marks)


def _name(one: CoordinatorRecord) -> str:
    return one.member or one.record.member_id


def _unlogged(audit: GroupAudit, end_ms: int) -> tuple[views.MemberView, ...]:
    """The first members that only the coordinator names, by their ids."""
    assigned = _grouped(audit.assignments, attrgetter("member_id"))
    told: dict[str, list[TraceRecord]] = {}
    for one in audit.coordinator:
        if not one.member and one.record.member_id:
            told.setdefault(one.record.member_id, []).append(one.record)

    def first(member_id: str) -> tuple[bool, int, str]:
        dated = [record.ts_ms for record in told[member_id] if record.ts_ms > 0]
        return not dated, min(dated, default=0), member_id

    def view(member_id: str) -> views.MemberView:
        given = assigned.get(member_id, ())
        ended = [r for r in told[member_id] if r.ts_ms > 0 and r.kind in STATEMENTS]
        return views.MemberView(
            member=member_id,
            client=max(record.settings.get("client.id", "") for record in told[member_id]),
            coverage="no log of it was read",
            marks=tuple(views.Mark(r.ts_ms, r.kind.value, r.detail) for r in ended[:SPANS]),
            target=_assigned(given, AssignmentKind.TARGET, end_ms),
            current=_assigned(given, AssignmentKind.CURRENT, end_ms),
        )

    return tuple(map(view, sorted(told, key=first)[:UNLOGGED]))


def _partitions(audit: GroupAudit) -> tuple[views.PartitionView, ...]:
    """The partitions that are blamed most, by their names."""
    wrong = sorted(_stretches(audit.findings))
    blamed = Counter(partition for partition, *_ in wrong)
    owned: dict[Partition, list[Interval]] = {}
    waits: dict[Partition, list[tuple[int, int]]] = {}
    for one in sorted(audit.rows.intervals, key=attrgetter("start_ms", "end_ms", "member")):
        partition = (one.topic, one.partition)
        if one.begun is Begun.WAITS:
            waits.setdefault(partition, []).append((one.start_ms, one.end_ms))
        elif one.begun not in NOBODY:
            owned.setdefault(partition, []).append(one)
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
            tuple(views.Stretch(*span) for span in union(waits.get(partition, ()))),
            max(0, len(owned[partition]) - SPANS),
        )
        for partition in shown
    )


def _stretches(findings: Iterable[Finding]) -> Iterator[tuple[Partition, int, int, FindingKind]]:
    """Times of each partition that a finding is about; a unit of Connect is named as intervals name it."""
    meant = {of_unit: kind for kind, of_unit in UNIT_KINDS.items()}
    for found in findings:
        if found.kind in UNIT_KINDS:
            for partition in found.partitions:
                yield partition, found.start_ms, found.end_ms, found.kind
        elif found.kind in meant:
            for topic, number in found.partitions:
                task = f":{number}" if number >= 0 else ""
                yield (f"{UNIT}{topic}{task}", number), found.start_ms, found.end_ms, meant[found.kind]


def _rebalances(audit: GroupAudit) -> tuple[views.RebalanceView, ...]:
    """The longest rebalances, by time."""
    longest = sorted(audit.rebalances, key=lambda one: (one.start_ms - one.end_ms, one.start_ms))[:REBALANCES]
    return tuple(
        views.RebalanceView(one.start_ms, one.end_ms, one.cause, one.members, one.moved, one.unowned_ms)
        for one in sorted(longest, key=attrgetter("start_ms"))
    )


# -- the whole ----------------------------------------------------------------------------------------------


def finding_view(found: Finding) -> views.FindingView:
    return views.FindingView(
        kind=found.kind.value,
        severity=found.severity.value,
        group=found.group,
        member=found.member,
        start_ms=found.start_ms,
        end_ms=found.end_ms,
        partitions=_shown(found.kind, found.partitions),
        cause=found.cause.value,
        summary=found.summary,
        evidence=tuple(views.EvidenceLine(e.file, e.line, e.text) for e in found.evidence),
        id=found.id,
        others=found.others,
        topics=_topics([found]),
    )


def pack_group(view: views.GroupView, findings: Iterable[Finding], incidents: Iterable[Incident]) -> Packed:
    """A group ready to be written for the page, by whoever judged it: nothing of it has to go to the driver."""
    by_id = {one.id: one for one in findings}
    told = [incident_view(one, by_id, view.end_ms) for one in incidents]
    return pack(view, list(map(finding_view, by_id.values())), told)


def incident_view(incident: Incident, findings: Mapping[str, Finding], end_ms: int = 0) -> views.IncidentView:
    """An incident with its findings by their ids; `end_ms` is when the logs of its group end."""
    own = [findings[one] for one in incident.findings if one in findings]
    value = "" if incident.value is None else f" = {incident.value}"
    return views.IncidentView(
        id=incident.id,
        severity=incident.severity.value,
        kinds=tuple(dict.fromkeys([incident.kind.value, *(one.kind.value for one in own)])),
        members=incident.who,
        topics=_topics(own),
        start_ms=incident.since_ms,
        end_ms=max([end_ms, *(one.end_ms for one in own)]) if incident.until_ms is None else incident.until_ms,
        cause=incident.cause.value,
        sentence=incident.sentence,
        next_step=incident.next_step,
        setting=incident.setting and incident.setting + value,
        hazard=incident.hazard,
        findings=incident.findings,
        still=incident.until_ms is None,
    )


def _topics(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(topic for found in findings for topic, _ in found.partitions))


def _shown(kind: FindingKind, partitions: Sequence[Partition]) -> str:
    """Partitions as short text; some findings are about connectors and tasks."""
    about_units = kind in (*UNIT_KINDS.values(), FindingKind.TASK_ZOMBIE) or any(n < 0 for _, n in partitions)
    return units(partitions) if about_units else names(partitions)


def report(read: Mapping[str, Any], metrics: Mapping[str, Any], trend: Trend, unknown_ends: int) -> views.Report:
    """The report without its groups; `read` and `metrics` are those of the JSON document."""
    return views.Report(
        title="Rebalance audit",
        inputs=_inputs(read, unknown_ends),
        start_ms=read["start_ms"] or 0,
        end_ms=read["end_ms"] or 0,
        findings_total=tuple(views.KindTotal(*t.values()) for t in metrics["findings"]),
        machines=_machines(metrics),
        trend=trend,
        enough=read["enough"],
    )


def _inputs(read: Mapping[str, Any], unknown_ends: int) -> views.Inputs:
    understood = Understood(read["understood"], read["not_understood"] + read["suspects"])
    too_little = (TooLittle(**one) for one in read["too_little"])
    return views.Inputs(
        files=read["files"],
        bytes=read["bytes"],
        lines=read["lines"],
        records=read["records"],
        orphans=read["orphans"],
        not_understood=read["not_understood"],
        clients_said=understood.all,
        share=understood.percent,
        too_little_files=read["too_little_files"],
        too_little=tuple((one.where, str(one.understood)) for one in too_little),
        suspects=read["suspects"],
        silent_files=read["silent_files"],
        silent=tuple(read["silent"]),
        learned=tuple(views.LearnedLayout(**one) for one in read["learned"]),
        not_learned=tuple((file, " | ".join(tried)) for file, *tried in read["not_learned"]),
        layouts=tuple(views.Count(*c) for c in read["layouts"].items()),
        levels=tuple(views.Count(*c) for c in read["levels"].items()),
        gzipped_files=read["gzipped_files"],
        unreadable=tuple(views.Unreadable(*u) for u in read["unreadable"]),
        unreadable_hidden=read["unreadable_files"] - len(read["unreadable"]),
        shapes=tuple(views.Count(*c) for c in read["shapes"].items()),
        notes=tuple(_notes(read, unknown_ends)),
    )


def _notes(read: Mapping[str, Any], unknown_ends: int) -> list[str]:
    notes = []
    java = any(layout.startswith("java/") for layout in read["layouts"])
    if java and "DEBUG" not in read["levels"]:
        notes.append(
            "The Java logs hold no DEBUG lines: new targets, the end of callbacks, commits and heartbeats cannot be "
            "seen, so the end of a revocation is the next step that needs it."
        )
    if read["gzipped_files"]:
        notes.append(
            f"One task each read {many(read['gzipped_files'], 'compressed file')}: a large one is as slow as one core."
        )
    if unknown_ends:
        notes.append(
            f"The logs of {many(unknown_ends, 'life', 'lives')} end without a close and nobody took their partitions "
            "over: whether they lived on is unknown, and what depends on it is reported one step less severe."
        )
    if read["older_results"]:
        notes.append(f"Left out, since an audit wrote it: {', '.join(read['older_results'])}.")
    if read["known_findings"]:
        notes.append(f"Left out, since the baseline has them: {many(read['known_findings'], 'finding')}.")
    if read["cut_lines"]:
        notes.append(f"Cut at a mebibyte: {many(read['cut_lines'], 'line')}.")
    return notes


def _machines(metrics: Mapping[str, Any]) -> tuple[views.MachineView, ...]:
    legal = {(t.name, t.columns.states[a], t.columns.states[b]) for t in ALL for a, b, _ in t.columns.edges}
    found = []
    for name in [t.name for t in ALL]:
        edges = [(e["state"], e["next_state"], e["count"]) for e in metrics["transitions"] if e["machine"] == name]
        if edges:
            counts = tuple(views.EdgeCount(a, b, count, (name, a, b) not in legal) for a, b, count in edges)
            dwell = [d for d in metrics["dwell"] if d["machine"] == name]
            columns = ("state", "visits", "median_ms", "p99_ms", "longest_ms")
            found.append(views.MachineView(name, counts, tuple(views.Dwell(*(d[c] for c in columns)) for d in dwell)))
    return tuple(found)
