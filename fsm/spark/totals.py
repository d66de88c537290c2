"""Totals over all files and groups, of bounded size: large parts are rounded or dropped."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, NamedTuple

from fsm.audit.conformance import has_table
from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.group_audit import GroupAudit
from fsm.audit.hygiene.identity import Facts
from fsm.audit.incidents import Incident, badness
from fsm.audit.reading import unparsed
from fsm.audit.reading.certainty import TooLittle, Understood
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.report.group_views import Overview, trend
from fsm.audit.rows import ObservedTransition
from fsm.render.timeline.trend import Trend
from fsm.render.timeline.views import LearnedLayout

FINDINGS = 400
"""Most incidents returned to the driver: the worst."""
BELOW = 10
"""Most findings kept of an incident, to be printed."""
MOST = 40
"""Most damaged files, layouts, levels and shapes listed in the document; the rest is counted."""
NAMES = 1000
"""Most kinds, transitions and states in the document. Logs may contain arbitrary names, so counts are pruned."""
DURATIONS = 10_000
"""Most different durations; above that they are rounded to three digits."""
_SUMMED = ("lines", "entries", "records", "not_understood", "orphans", "suspects", "cut_lines")
_FIRST = ("damaged", "silent", "groupless", "timeless", "ownerless", "shared", "too_little", "not_learned", "others")
"""Lists of the first `MOST` of something, in order."""
_SEVERITIES, _KINDS = list(Severity), list(FindingKind)


class ReportedIncident(NamedTuple):
    incident: Incident
    findings: tuple[Finding, ...]
    """The worst of its findings."""


class Dwell(NamedTuple):
    machine: str
    state: str
    visits: int
    total_ms: int
    median_ms: int
    p99_ms: int
    longest_ms: int


class Durations:
    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total_ms = 0
        self.longest_ms = 0

    def add(self, lasted_ms: int, count: int = 1) -> None:
        self.counts[lasted_ms] += count
        self.total_ms += lasted_ms * count
        self.longest_ms = max(self.longest_ms, lasted_ms)
        if len(self.counts) > DURATIONS:
            rounded: Counter[int] = Counter()
            for value, number in self.counts.items():
                rounded[int(float(f"{value:.3g}"))] += number
            self.counts = rounded

    def merge(self, other: Durations) -> None:
        longest_ms, total_ms = max(self.longest_ms, other.longest_ms), self.total_ms + other.total_ms
        for value, number in sorted(other.counts.items()):
            self.add(value, number)
        self.longest_ms, self.total_ms = longest_ms, total_ms

    def at(self, share: float) -> int:
        """The quantile at this share, in ms; 0 if there are no durations."""
        left = math.ceil(share * self.counts.total())
        for value, number in sorted(self.counts.items()):
            left -= number
            if left <= 0:
                return value
        return 0


@dataclass(slots=True)
class Totals:
    min_understood: float
    """As in `Options`."""
    sums: Counter[str] = field(default_factory=Counter)
    """Sums of `_SUMMED` and other counts, by name."""
    start_ms: int | None = None
    end_ms: int | None = None
    damaged: list[tuple[str, str]] = field(default_factory=list)
    """The first files that could not be read to their end, and why."""
    silent: list[str] = field(default_factory=list)
    """The first files in which no client was understood."""
    groupless: list[str] = field(default_factory=list)
    """The first files with records about membership that belong to no group, and are not judged."""
    timeless: list[str] = field(default_factory=list)
    """The first files without any timestamp."""
    ownerless: list[str] = field(default_factory=list)
    """The first groups of whose partitions no line tells the owner."""
    shared: list[tuple[str, str]] = field(default_factory=list)
    """The first groups and members that are several consumers with one client id, whom nothing names in the lines."""
    too_little: list[TooLittle] = field(default_factory=list)
    """The first files, or clients in them, of which too little was understood."""
    learned: dict[str, LearnedLayout] = field(default_factory=dict)
    """Learned layouts, by pattern."""
    not_learned: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """The first files whose layout could not be learned, and the layouts that were tried."""
    others: list[str] = field(default_factory=list)
    """The first groups that were not selected."""
    seen: dict[str, Counter[str]] = field(
        default_factory=lambda: {n: Counter() for n in ("layouts", "levels", "shapes")}
    )
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Findings by kind and severity."""
    edges: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Transitions by machine, state and next state."""
    dwell: dict[tuple[str, str], Durations] = field(default_factory=dict)
    """By machine and state."""
    rebalances: Durations = field(default_factory=Durations)
    longest_unowned_ms: int = 0
    incidents: list[ReportedIncident] = field(default_factory=list)
    """The worst ones, in order."""
    trend: Trend = field(default_factory=Trend)

    def add_file(self, pieces: Sequence[PieceSummary], homeless: Sequence[Facts] = ()) -> None:
        """Counts a file from all its pieces, and its facts of no group."""
        file, error = pieces[0].file, max(one.error for one in pieces)
        for one in pieces:
            self._add_piece(one)
        if not any(one.understood for one in pieces):
            self.sums["silent_files"] += 1
            self._list("silent", file)
        if homeless:
            self.sums["groupless_files"] += 1
            self._list("groupless", file)
        if unparsed.has_no_time(pieces):
            self.sums["timeless_files"] += 1
            self._list("timeless", file)
        too_little = unparsed.find_too_little(pieces, self.min_understood)
        self.sums["too_little_files"] += bool(too_little)
        self._list("too_little", *too_little)
        for layout in pieces[0].learned:
            self._add_layout(layout.partition(" (")[0], LearnedLayout(1, layout, pieces[0].guessed, pieces[0].lost))
        if pieces[0].not_learned:
            self._list("not_learned", (file, pieces[0].not_learned))
        if error:
            self.sums["damaged_files"] += 1
            self._list("damaged", (file, error))

    def add_unread(self, archives: Iterable[str]) -> None:
        """Counts the content of each archive as an entry that was not understood."""
        unread = [TooLittle(file, "", 0, 1) for file in archives]
        self.sums["suspects"] += len(unread)
        if self.min_understood:
            self.sums["too_little_files"] += len(unread)
            self._list("too_little", *unread)

    def _list(self, name: str, *more: Any) -> None:
        """Adds to one of the lists `_FIRST`."""
        setattr(self, name, sorted([*getattr(self, name), *more])[:MOST])

    def _add_layout(self, pattern: str, one: LearnedLayout) -> None:
        known = self.learned.get(pattern)
        if known is not None:
            guessed, lost = {*known.guessed, *one.guessed}, {*known.lost, *one.lost}
            text = min(known.told, one.told)
            one = LearnedLayout(known.files + one.files, text, tuple(sorted(guessed)), tuple(sorted(lost)))
        if known is not None or len(self.learned) < NAMES:
            self.learned[pattern] = one

    def _add_piece(self, piece: PieceSummary) -> None:
        self.sums.update({name: getattr(piece, name) for name in _SUMMED})
        self.sums["gzipped_files"] += piece.gzipped
        self.sums["understood"] += piece.understood
        for name, counts in self.seen.items():
            counts.update(getattr(piece, name))
            _prune(counts)
        self._reach(piece.first_ms, piece.last_ms)

    def add_transition(self, one: ObservedTransition) -> None:
        if one.state:
            self.edges[one.machine, one.state, one.next_state] += 1
            _prune(self.edges)
        if one.dwell_ms is not None:
            key = one.machine, one.state
            if key not in self.dwell and len(self.dwell) >= NAMES and not has_table(one.machine):
                return
            self.dwell.setdefault(key, Durations()).add(one.dwell_ms)

    def add_findings(self, findings: Iterable[Finding], incidents: Sequence[Incident]) -> None:
        """Counts the findings and incidents of a group, and keeps the worst incidents with their worst findings."""
        by_id = {one.id: one for one in findings}
        self.kinds.update((one.kind.value, one.severity.value) for one in by_id.values())
        self.sums.update(f"{one.severity} incidents" for one in incidents)
        worst = nsmallest(FINDINGS, incidents, key=badness)
        self._keep(ReportedIncident(one, _choose_shown([by_id[found] for found in one.findings])) for one in worst)

    def _keep(self, more: Iterable[ReportedIncident]) -> None:
        for one in more:
            insort(self.incidents, one, key=lambda reported: badness(reported.incident))
        del self.incidents[FINDINGS:]

    def add_group(self, audit: GroupAudit, known: Overview) -> None:
        """Adds an audited group, without its findings."""
        self.sums["groups"] += 1
        self.sums["end_unknown"] += known.end_unknown
        if known.is_ownerless:
            self.sums["ownerless_groups"] += 1
            self._list("ownerless", known.group)
        shared = {(key.group, key.member) for key in audit.members.values() if key.shared}
        self.sums["shared_client_ids"] += len(shared)
        self._list("shared", *shared)
        for one in audit.rebalances:
            self.sums["moved"] += one.moved
            self.rebalances.add(one.end_ms - one.start_ms)
            self.longest_unowned_ms = max(self.longest_unowned_ms, one.unowned_ms)
        self.trend.merge(trend(audit.rebalances, audit.findings))

    def _reach(self, first_ms: int | None, last_ms: int | None) -> None:
        if first_ms is not None and last_ms is not None:
            self.start_ms = first_ms if self.start_ms is None else min(self.start_ms, first_ms)
            self.end_ms = last_ms if self.end_ms is None else max(self.end_ms, last_ms)

    def merge(self, other: Totals) -> None:
        """Adds the totals of another task."""
        self.sums.update(other.sums)
        self._reach(other.start_ms, other.end_ms)
        for name in _FIRST:
            self._list(name, *getattr(other, name))
        for pattern, one in sorted(other.learned.items()):
            self._add_layout(pattern, one)
        for name, counts in self.seen.items():
            counts.update(other.seen[name])
            _prune(counts)
        self.kinds.update(other.kinds)
        self.edges.update(other.edges)
        _prune(self.edges)
        for key, durations in sorted(other.dwell.items()):
            self.dwell.setdefault(key, Durations()).merge(durations)
        self.rebalances.merge(other.rebalances)
        self.longest_unowned_ms = max(self.longest_unowned_ms, other.longest_unowned_ms)
        self._keep(other.incidents)
        self.trend.merge(other.trend)

    def add_other_group(self, group: str) -> None:
        """Adds a group that was not selected."""
        self._list("others", group)

    # -- for the document -----------------------------------------------------------------------------------

    @property
    def understood(self) -> Understood:
        """How many of the clients' entries were understood."""
        return Understood(self.sums["understood"], self.sums["not_understood"] + self.sums["suspects"])

    @property
    def enough(self) -> bool:
        """Whether enough was understood, of all files and of each, for a verdict."""
        return self.understood.is_enough(self.min_understood) and not self.too_little

    def inputs(self) -> dict[str, Any]:
        """Sums, times and the most frequent layouts, levels and shapes."""
        counted = ("gzipped", "silent", "groupless", "timeless", "too_little")
        sizes = (*(f"{name}_files" for name in counted), "ownerless_groups", "shared_client_ids")
        names = (*_SUMMED, "understood", *sizes)
        common = {name: dict(_commonest(counts, MOST)) for name, counts in self.seen.items()}
        sums = {n: self.sums[n] for n in names} | {"start_ms": self.start_ms, "end_ms": self.end_ms} | common
        learned = sorted(self.learned.values(), key=lambda one: (-one.files, one.told))[:MOST]
        return sums | {
            "understood_share": self.understood.share,
            "enough": self.enough,
            "silent": self.silent,
            "groupless": self.groupless,
            "timeless": self.timeless,
            "ownerless": self.ownerless,
            "shared": list(map(list, self.shared)),
            "too_little": [one._asdict() for one in self.too_little],
            "learned": [one._asdict() for one in learned],
            "not_learned": [[file, *tried] for file, tried in self.not_learned],
        }

    def metrics(self) -> dict[str, Any]:
        """Counts of findings by kind, counts of transitions, dwell times and rebalances."""
        return {
            "incidents": {one.value: self.sums[f"{one} incidents"] for one in Severity},
            "findings": list(_few(self.kinds, ("kind", "severity"))),
            "transitions": list(_few(self.edges, ("machine", "state", "next_state"))),
            "dwell": [one._asdict() for one in self.dwell_times()],
            "rebalances": {
                "count": self.rebalances.counts.total(),
                "moved": self.sums["moved"],
                "median_ms": self.rebalances.at(0.5),
                "longest_ms": self.rebalances.longest_ms,
                "longest_unowned_ms": self.longest_unowned_ms,
            },
        }

    def dwell_times(self) -> list[Dwell]:
        """Visits and dwell times of each state of each machine."""
        return [
            Dwell(*key, own.counts.total(), own.total_ms, own.at(0.5), own.at(0.99), own.longest_ms)
            for key, own in sorted(self.dwell.items())
        ]


def _choose_shown(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """At most `BELOW` findings: the worst of each kind, then the next of each."""
    times = Counter[FindingKind]()
    turns: list[tuple[int, int, Finding]] = []
    for rank, found in enumerate(sorted(findings, key=_badness)):
        turns.append((times[found.kind], rank, found))
        times[found.kind] += 1
    return tuple(found for _, _, found in nsmallest(BELOW, turns, key=lambda turn: turn[:2]))


def _badness(found: Finding) -> tuple[Any, ...]:
    """The sort key with the worst first: severity, kind, duration, then a fixed order."""
    rank = _SEVERITIES.index(found.severity), _KINDS.index(found.kind), found.start_ms - found.end_ms
    rest = found.group, found.start_ms, found.member, found.partitions, found.end_ms, found.summary
    return *rank, *rest, found.cause, [(e.file, e.offset, e.line, e.text) for e in found.evidence]


def _prune(counts: Counter[Any]) -> None:
    """Drops the rarest names if there are very many."""
    if len(counts) > 20 * NAMES:
        for key, _ in sorted(counts.items(), key=lambda one: (one[1], one[0]))[: 10 * NAMES]:
            del counts[key]


def _commonest(counts: Counter[Any], most: int) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most]


def _few(counts: Counter[Any], names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The largest `NAMES` counts, by name."""
    for key, count in sorted(_commonest(counts, NAMES)):
        yield dict(zip(names, key, strict=True)) | {"count": count}
