"""The audit of one group, from its records to its findings. One process and Spark tasks run the same code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from fsm.audit.conformance import find_illegal_transitions
from fsm.audit.coordinator import evidence
from fsm.audit.coordinator.assignments import (
    Assignment,
    CoordinatorRecord,
    find_assignments,
    with_known_names,
    with_names,
)
from fsm.audit.findings import Evidence, Finding, in_order, with_ids
from fsm.audit.follower import Row
from fsm.audit.group import Rebalance, judge, rebalances
from fsm.audit.group.coverage import Coverage, find_coverage
from fsm.audit.hygiene.identity import Facts, Key, identify, list_sources
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.limits import Limits
from fsm.audit.member.member_follower import MemberFollower, SharedFollower
from fsm.audit.reading.certainty import FileFacts, lower_uncertain
from fsm.audit.reading.records import GroupRecords, Line, Source
from fsm.audit.reading.routing import Received
from fsm.audit.rows import GroupRows, ObservedTransition, Place, Seen
from fsm.audit.weak_spots import name_weak_spots
from fsm.trace import Kind, TraceRecord


class Observer(Protocol):
    """Receives records and transitions while a group is judged; the audit does not keep them."""

    def see(self, member: str, seen: Seen) -> None:
        """Takes a record of a member, in order. Members that share a client id are not separated here."""

    def see_transition(self, transition: ObservedTransition) -> None: ...


@dataclass(frozen=True, slots=True)
class GroupAudit:
    group: str
    members: Mapping[Source, Key]
    files: Mapping[str, FileFacts]
    rows: GroupRows
    findings: Sequence[Finding]
    """In order, with lines and ids."""
    coverage: Sequence[Coverage]
    rebalances: Sequence[Rebalance]
    coordinator: Sequence[CoordinatorRecord]
    """The records of coordinators about the group, by time, with topic names where a coordinator logged them."""
    assignments: Sequence[Assignment]


def audit_group(
    group: str, read: Received, limits: Limits, gone: Missing, *, names: Mapping[str, str], observer: Observer
) -> GroupAudit:
    """Judges one group. `gone`: missing rotated files. `names`: topic names by topic id."""
    keys = identify(read.facts)
    rows = _member_rows((limits, gone), keys, read.records, names, observer)
    return judge_rows(group, rows, read, keys, limits, names=names, observer=observer)


def judge_rows(
    group: str,
    member_rows: Iterable[Row],
    read: Received,
    keys: Mapping[Source, Key],
    limits: Limits,
    *,
    names: Mapping[str, str],
    observer: Observer,
    known_lines: Mapping[tuple[str, int], tuple[int, str]] = MappingProxyType({}),
) -> GroupAudit:
    """Judges a group by the rows of its members' followers. `known_lines`: lines that its records no longer have."""
    records = read.records
    rows = GroupRows(spool=records.spool)
    findings: list[Finding] = []
    for row in member_rows:
        if isinstance(row, ObservedTransition):
            observer.see_transition(row)
            findings += find_illegal_transitions((row,))
        elif isinstance(row, Finding):
            findings.append(row)
        else:
            rows.add(row)
    findings += judge(group, rows, limits)
    from_coordinator = _coordinator_records(records, _member_ids(read.facts, keys), names)
    given = list(find_assignments(group, (one for one in from_coordinator if one.record.ts_ms > 0)))
    if from_coordinator:
        findings = list(_with_coordinator(findings, from_coordinator, given, limits.clock_skew_ms))
    named = name_weak_spots(findings, rows, from_coordinator, given, limits.clock_skew_ms)
    findings = list(lower_uncertain(named, read.files, keys))
    shown = {Place(e.file, e.offset) for found in findings for e in found.evidence}
    lines = {place: Line(*known_lines[place]) for place in shown if place in known_lines}
    lines |= records.lines(shown - lines.keys())
    return GroupAudit(
        group,
        keys,
        read.files,
        rows,
        # Two machines of one member may be stuck in states of the same name: one finding is enough.
        findings=with_ids(dict.fromkeys(_with_text(found, lines) for found in in_order(findings))),
        coverage=find_coverage(rows.lives, rows.intervals),
        rebalances=rebalances(group, rows),
        coordinator=from_coordinator,
        assignments=given,
    )


def _member_rows(
    about: tuple[Limits, Missing],
    keys: Mapping[Source, Key],
    records: GroupRecords,
    names: Mapping[str, str],
    observer: Observer,
) -> Iterator[Row]:
    for key, sources in sorted(list_sources(keys).items()):
        follower = follower_of(key, *about)
        for found in records.in_time(sources.items()):
            seen = found._replace(record=with_known_names(found.record, names)) if names else found
            observer.see(key.member, seen)
            yield from follower.see(seen)
        yield from follower.finish()


def follower_of(key: Key, limits: Limits, gone: Missing) -> MemberFollower | SharedFollower:
    """The follower for a member, or for all members that share a client id."""
    return (SharedFollower if key.shared else MemberFollower)(key.group, key.member, limits, gone)


def _member_ids(facts: Iterable[Facts], keys: Mapping[Source, Key]) -> dict[str, str]:
    """The member of each member id in the clients' logs."""
    named: dict[str, str] = {}
    for fact in facts:
        key = keys.get(fact.source)
        if key is not None and fact.member_id:
            named[fact.member_id] = min(key.member, named.get(fact.member_id, key.member))
    return named


def _coordinator_records(
    records: GroupRecords, members: Mapping[str, str], names: Mapping[str, str]
) -> list[CoordinatorRecord]:
    found = [
        CoordinatorRecord(with_names(seen.record, names), members.get(seen.record.member_id, ""), seen.place, seq)
        for seen, seq in records.coordinators()
    ]
    return list(_each_once(sorted(found, key=lambda one: (one.record.ts_ms, one.place, one.seq))))


def _each_once(records: Iterable[CoordinatorRecord]) -> Iterator[CoordinatorRecord]:
    """Records by time, without the repetitions of a broker whose lines were printed or collected several times."""
    latest: dict[tuple[str, Kind], TraceRecord] = {}
    for one in records:
        record = one.record
        before = latest.get((record.member_id, record.kind))
        if before is None or before.ts_ms != record.ts_ms or replace(before, thread=record.thread) != record:
            latest[record.member_id, record.kind] = record
            yield one


def _with_coordinator(
    findings: Iterable[Finding], records: Sequence[CoordinatorRecord], given: Sequence[Assignment], skew_ms: int
) -> Iterator[Finding]:
    statements = evidence.find_statements(records)
    for found in findings:
        stated = evidence.add_statements(found, statements.get(found.member, ()), skew_ms)
        yield evidence.add_handover(stated, given, skew_ms)


def _with_text(found: Finding, lines: Mapping[Place, Line]) -> Finding:
    places = (Place(one.file, one.offset) for one in found.evidence)
    return replace(found, evidence=tuple(Evidence(*place, *lines.get(place, (0, ""))) for place in places))
