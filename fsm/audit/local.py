"""The audit in one process: files in, findings out.

This is the baseline the pipeline is held against, and what small inputs need. Records are held in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from itertools import groupby
from pathlib import Path

from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.findings import Finding
from fsm.audit.group import Rebalance
from fsm.audit.group.coverage import Coverage
from fsm.audit.group_audit import audit_group
from fsm.audit.hygiene.identity import Facts, Key, facts_of, homes
from fsm.audit.hygiene.rotation import missing
from fsm.audit.limits import Limits
from fsm.audit.records import GroupRecords, Line, Row, Source, pack, spool, to_row
from fsm.audit.rows import GroupRows, ObservedTransition, Place, Seen
from fsm.logs import Format, formats
from fsm.logs.broker import THREAD
from fsm.logs.entries import first_line, records_of
from fsm.logs.pieces import WHOLE, Piece, is_gzip, reader_of
from fsm.trace import Kind


@dataclass(frozen=True, slots=True)
class Options:
    zone: tzinfo = UTC
    """The time zone of time stamps that carry none."""
    limits: Limits = field(default_factory=Limits)
    formats: tuple[Format, ...] = ()
    """Formats to expect; none means all."""


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
    """The audit of what was read: of each group by itself."""
    rows: dict[tuple[str, bool], dict[tuple[str, str], list[Row]]] = {}
    names: dict[str, str] = {}
    for place, entry in groupby(read.seen, key=lambda seen: seen.place):
        line = read.lines.get(place, Line(0, ""))
        for seq, (record, _) in enumerate(entry):
            if record.thread == THREAD and record.kind is Kind.TOPIC_NAMES:
                add_topic_names(names, record.settings)
            row = to_row(record, record.group, (place.offset, seq), line)
            source = record.group, record.client_id
            rows.setdefault((place.file, record.thread == THREAD), {}).setdefault(source, []).append(row)
    groups: dict[str, tuple[list[Facts], GroupRecords]] = {}
    held = spool()
    for (file, coordinator), sources in sorted(rows.items()):
        facts = [] if coordinator else facts_of(sources, file)
        where = homes(facts)
        for (group, client_id), own in sorted(sources.items()):
            home = group if coordinator else where.get((group, client_id, file), ("", ""))[0]
            if home:
                known, records = groups.setdefault(home, ([], GroupRecords(held)))
                known += [one for one in facts if (one.group, one.client_id) == (group, client_id)]
                for chunk in pack(group, client_id, file, 0, own):
                    records.add(chunk, coordinator=coordinator)
    gone = missing(read.files)
    transitions = _Transitions()
    audits = []
    for group, (known, records) in sorted(groups.items()):
        audits.append(
            audit_group(group, known, records, limits, gone=gone, names=names, files={}, observer=transitions)
        )
    held.close()
    audits = [one for one in audits if one.members]
    return Audit(
        findings=[found for one in audits for found in one.findings],
        rows={one.group: one.rows for one in audits},
        transitions=transitions.seen,
        coverage=[life for one in audits for life in one.coverage],
        rebalances=[rebalance for one in audits for rebalance in one.rebalances],
        members={source: key for one in audits for source, key in one.members.items()},
        read=read,
    )


class _Transitions:
    """Keeps every transition."""

    def __init__(self) -> None:
        self.seen: list[ObservedTransition] = []

    def see(self, member: str, seen: Seen) -> None:
        pass

    def see_transition(self, transition: ObservedTransition) -> None:
        self.seen.append(transition)


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
