"""The audit in one process: files in, findings out.

This is the baseline the pipeline is held against, and what small inputs need. Records are held in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from fsm.audit.attribution.identity import Key, Source, facts_of, identify
from fsm.audit.attribution.rotation import missing
from fsm.audit.attribution.shared_client_id import separate
from fsm.audit.conformance import illegal_transitions
from fsm.audit.coordinator import evidence
from fsm.audit.coordinator.assignments import Assignment, CoordinatorRecord, assignments, topic_names, with_names
from fsm.audit.findings import Evidence, Finding, in_order
from fsm.audit.group import Rebalance, judge, rebalances
from fsm.audit.group.coverage import Coverage, find_coverage
from fsm.audit.limits import Limits
from fsm.audit.member.fold import Row, fold
from fsm.audit.rows import GroupRows, Interval, Life, MemberRebalance, ObservedTransition, Place, Seen, Subscription
from fsm.logs import Format, formats
from fsm.logs.broker import THREAD
from fsm.logs.entries import first_line, records_of
from fsm.logs.pieces import WHOLE, Piece, is_gzip, reader_of


@dataclass(frozen=True, slots=True)
class Options:
    zone: tzinfo = UTC
    """The time zone of time stamps that carry none."""
    limits: Limits = field(default_factory=Limits)
    formats: tuple[Format, ...] = ()
    """Formats to expect; none means all."""


class Line(NamedTuple):
    number: int
    text: str


@dataclass(slots=True)
class Read:
    files: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    lines: dict[Place, Line] = field(default_factory=dict)
    entries: int = 0
    not_understood: Counter[str] = field(default_factory=Counter)
    """Entries that should have been understood and were not, and lines of no format, by file."""


@dataclass(frozen=True, slots=True)
class Audit:
    findings: list[Finding]
    rows: dict[str, GroupRows]
    transitions: list[ObservedTransition]
    coverage: list[Coverage]
    rebalances: list[Rebalance]
    members: dict[Source, Key]
    read: Read


def audit_files(paths: Iterable[Path], options: Options | None = None) -> Audit:
    """The audit of some log files. Raises OSError for a file that cannot be read."""
    options = options or Options()
    read = read_files(paths, options)
    return audit_records(read, options.limits)


def audit_records(read: Read, limits: Limits) -> Audit:
    keys = identify(facts_of((s.record, s.place.file) for s in read.seen))
    findings: list[Finding] = []
    rows: dict[str, list[Row]] = {}
    gone = missing(read.files)
    for key, own in _by_member(read.seen, keys):
        for row in fold(key.group, key.member, own, limits, gone):
            rows.setdefault(key.group, []).append(row)
    grouped = {group: _group_rows(own) for group, own in sorted(rows.items())}
    transitions = [row for own in rows.values() for row in own if isinstance(row, ObservedTransition)]
    for group, its in grouped.items():
        findings += [row for row in rows[group] if isinstance(row, Finding)]
        findings += judge(group, its, limits)
    findings += illegal_transitions(transitions)
    findings = _add_coordinator(findings, read.seen, keys, limits)
    return Audit(
        # Two machines of one member may be stuck at once in states of one name: that is said once.
        findings=list(dict.fromkeys(_add_text(f, read.lines) for f in in_order(findings))),
        rows=grouped,
        transitions=transitions,
        coverage=[c for own in grouped.values() for c in find_coverage(own.lives, own.intervals)],
        rebalances=[r for group, own in grouped.items() for r in rebalances(group, own)],
        members=keys,
        read=read,
    )


def _add_coordinator(
    findings: list[Finding], seen: Sequence[Seen], keys: Mapping[Source, Key], limits: Limits
) -> list[Finding]:
    """The findings with what the coordinator's records add to them."""
    coordinators = [s for s in seen if s.record.thread == THREAD]
    if not coordinators:
        return findings
    skew_ms = limits.clock_skew_ms
    members = _member_ids(seen, keys)
    statements = evidence.statements(coordinators, members)
    findings = [evidence.add_statements(f, statements.get((f.group, f.member), ()), skew_ms) for f in findings]
    given = {group: list(own) for group, own in _assignments(coordinators, members)}
    return [
        evidence.add_handover(f, evidence.assigned_spans(given.get(f.group, ()), f, skew_ms), skew_ms) for f in findings
    ]


def _assignments(
    coordinators: Sequence[Seen], members: Mapping[evidence.Member, str]
) -> Iterator[tuple[str, Iterator[Assignment]]]:
    """Each group with its assignments; records without a time are left out."""
    names = topic_names(coordinators)
    records = [
        CoordinatorRecord(with_names(record, names), members.get((record.group, record.member_id), ""), place)
        for record, place in coordinators
        if record.ts_ms > 0
    ]
    records.sort(key=lambda s: (s.record.group, s.record.ts_ms, s.place))
    for group, own in groupby(records, key=lambda s: s.record.group):
        yield group, assignments(group, own)


def _member_ids(seen: Iterable[Seen], keys: Mapping[Source, Key]) -> dict[evidence.Member, str]:
    """The member of each (group, member id) that some client's log names."""
    named: dict[evidence.Member, str] = {}
    for record, place in seen:
        key = keys.get((record.group, record.client_id, place.file))
        if key is not None and record.member_id:
            whose = (key.group, record.member_id)
            named[whose] = min(key.member, named.get(whose, key.member))
    return named


def read_files(paths: Iterable[Path], options: Options) -> Read:
    """The records of some files. Raises OSError for a file that cannot be read."""
    read = Read()
    expected = options.formats or formats()
    for path in sorted(paths):
        read.files.append(str(path))
        reader = reader_of(Piece(str(path), 0, WHOLE, is_gzip(path)), expected)
        for entry in reader.entries():
            read.entries += 1
            place = Place(str(path), entry.offset)
            found = records_of(entry, options.zone)
            if found is None:
                read.not_understood[str(path)] += 1
            elif found:
                read.seen.extend(Seen(record, place) for record in found)
                read.lines[place] = Line(entry.number, first_line(entry.data))
    return read


def _by_member(seen: Iterable[Seen], keys: dict[Source, Key]) -> Iterator[tuple[Key, Iterable[Seen]]]:
    owned: dict[Key, list[tuple[int, Seen]]] = {}
    for one in seen:
        key = keys.get((one.record.group, one.record.client_id, one.place.file))
        if key is not None:
            owned.setdefault(key._replace(rank=0), []).append((key.rank, one))
    for key, ranked in sorted(owned.items()):
        ranked.sort(key=lambda r: (r[1].record.ts_ms, r[0], r[1].place.offset))
        own = [one for _, one in ranked]
        if not key.shared:
            yield key, own
            continue
        told_apart: dict[str, list[Seen]] = {}
        for member, one in separate(key.member, own):
            told_apart.setdefault(member, []).append(one)
        for member, its in sorted(told_apart.items()):
            yield Key(key.group, member), its


def _group_rows(rows: Sequence[Row]) -> GroupRows:
    return GroupRows(
        intervals=[r for r in rows if isinstance(r, Interval)],
        subscriptions=[r for r in rows if isinstance(r, Subscription)],
        lives=[r for r in rows if isinstance(r, Life)],
        rebalances=[r for r in rows if isinstance(r, MemberRebalance)],
    )


def _add_text(found: Finding, lines: dict[Place, Line]) -> Finding:
    shown = []
    for one in found.evidence:
        line = lines.get(Place(one.file, one.offset), Line(0, ""))
        shown.append(Evidence(one.file, one.offset, line.number, line.text))
    return replace(found, evidence=tuple(shown))
