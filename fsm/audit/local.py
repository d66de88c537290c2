"""The audit in one process and in memory, with the functions of the pipeline: files in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.findings import Finding
from fsm.audit.group import Rebalance
from fsm.audit.group.coverage import Coverage
from fsm.audit.group_audit import GroupAudit, audit_group
from fsm.audit.hygiene.identity import Key
from fsm.audit.hygiene.rotation import find_missing
from fsm.audit.incidents import Incident, find_incidents
from fsm.audit.limits import MIN_UNDERSTOOD, Limits
from fsm.audit.reading.piece import PieceRecords, read_piece
from fsm.audit.reading.records import Source, spool
from fsm.audit.reading.routing import BY_GROUP, OF_FILE, Sent, in_order_of, receive, route, send
from fsm.audit.rows import GroupRows, ObservedTransition, Seen
from fsm.logs import Format, formats
from fsm.logs.reading.pieces import WHOLE, cut


@dataclass(frozen=True, slots=True)
class Options:
    zone: tzinfo = UTC
    """Of timestamps without a zone."""
    limits: Limits = field(default_factory=Limits)
    formats: tuple[Format, ...] = ()
    """Formats to expect; empty means all."""


@dataclass(frozen=True, slots=True)
class Audit:
    groups: Sequence[GroupAudit]
    seen: Sequence[Seen]
    """The records of all members."""
    transitions: Sequence[ObservedTransition]

    @property
    def findings(self) -> list[Finding]:
        return [found for one in self.groups for found in one.findings]

    @property
    def incidents(self) -> list[Incident]:
        return [incident for one in self.groups for incident in find_incidents(one)]

    @property
    def rows(self) -> Mapping[str, GroupRows]:
        return {one.group: one.rows for one in self.groups}

    @property
    def coverage(self) -> list[Coverage]:
        return [life for one in self.groups for life in one.coverage]

    @property
    def rebalances(self) -> list[Rebalance]:
        return [rebalance for one in self.groups for rebalance in one.rebalances]

    @property
    def members(self) -> Mapping[Source, Key]:
        return {source: key for one in self.groups for source, key in one.members.items()}


def audit_files(paths: Iterable[Path], options: Options | None = None) -> Audit:
    """The audit of some log files. Raises OSError for a file that cannot be read."""
    options = options or Options()
    expected = options.formats or formats()
    pieces = (piece for path in sorted(paths) for piece in cut(path, WHOLE))
    return audit_pieces((read_piece(piece, expected, options.zone) for piece in pieces), options.limits)


def audit_pieces(pieces: Iterable[PieceRecords], limits: Limits) -> Audit:
    """The audit of whole files that were read, group by group."""
    rows: list[Sent] = []
    names: dict[str, str] = {}
    files: list[str] = []
    for found in pieces:
        files.append(found.summary.file)
        add_topic_names(names, found.names)
        rows += route(send(found), MIN_UNDERSTOOD)
    kept = _Kept()
    groups = []
    for group, own in groupby(in_order_of(rows, BY_GROUP), key=attrgetter("key")):
        if group and not group.startswith(OF_FILE):
            read = receive(own, spool())  # rows may be spilled there
            groups.append(audit_group(group, read, limits, find_missing(files), names=names, observer=kept))
    return Audit([one for one in groups if one.members], kept.seen, kept.transitions)


class _Kept:
    """An `Observer` that keeps everything."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.transitions: list[ObservedTransition] = []

    def see(self, _member: str, seen: Seen) -> None:
        self.seen.append(seen)

    def see_transition(self, transition: ObservedTransition) -> None:
        self.transitions.append(transition)
