"""The audit's rules over the latest exchanges of a capture, each finding once.

The audit judges all entries of a group's members. Here it gets only the latest ones, as from a log that begins in the
middle. Repeated messages of a member count once in a few seconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import UTC
from typing import Any, NamedTuple

from fsm.audit.findings import Finding, Severity, in_order
from fsm.audit.limits import Limits
from fsm.audit.local import audit_pieces
from fsm.audit.reading.piece import PieceSummary, SourceRecords
from fsm.audit.reading.scanning import Parsed
from fsm.kit.client_history import GROUP_APIS
from fsm.logs.programs.exchanges import FORMATS
from fsm.logs.reading.blocks import words
from fsm.logs.reading.entries import Entry
from fsm.logs.reading.pieces import WHOLE, Piece
from fsm.wire.exchange import Exchange, Note, to_line

AUDITED = GROUP_APIS | {"Metadata"}
MOST_AUDITED, MOST_BYTES = 20_000, 64 << 20
"""The maximal number of audited lines, the latest ones, and their bytes; also the maximal number of members."""
ROUTINE_MS = 3_000.0
"""The interval within which repeated messages of a member are one line; heartbeats are less frequent."""
AUDITING_MS, EACH_MS = 10_000.0, 3.0
"""The time until the next audit, at least, and in addition for each line, which takes some 0.1 ms."""
SETTLED_MS = 10_000
"""A finding is reported once it began this long before the last line: until then it may still be explained."""
MOST_FOUND = 10_000
TRACE = "trace.jsonl"
_JSON = FORMATS[0]
_NO_SIGNS = words()


class _Line(NamedTuple):
    at_ms: float
    parsed: Parsed


class Auditing:
    """Audits the latest exchanges and notes of a capture periodically."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], list[Finding]] = {}
        """The reported findings, by subject."""
        self._lines: deque[_Line] = deque()
        self._bytes = 0
        self._offset = 0
        self._count = 0
        self._latest: dict[tuple[int, str], tuple[float, Any, Any]] = {}
        """The last message of each member that became a line, and its time."""
        self._new = 0
        self._audited_ms = 0.0

    def take(self, seen: Exchange | Note) -> None:
        """Adds an exchange or a note."""
        if isinstance(seen, Note):
            if seen.event != "topics":
                return
        elif seen.api not in AUDITED or self._is_routine(seen):
            return
        text = to_line(seen)
        data, self._count = text.encode(), self._count + 1
        parsed = Parsed(Entry(self._offset, self._count, (_JSON,), data, False), _JSON, _JSON.parse(text, UTC))
        self._offset += len(data) + 1
        self._new += 1
        self._lines.append(_Line(seen.at_ms, parsed))
        self._bytes += len(data)
        while len(self._lines) > MOST_AUDITED or self._bytes > MOST_BYTES:
            self._bytes -= len(self._lines.popleft().parsed.entry.data)

    def _is_routine(self, seen: Exchange) -> bool:
        """Whether the member sent the same a moment ago and got the same response."""
        who = seen.connection, str(getattr(seen.request, "member_id", ""))
        before = self._latest.get(who)
        if before and seen.at_ms - before[0] < ROUTINE_MS and before[1:] == (seen.request, seen.response):
            return True
        if len(self._latest) >= MOST_AUDITED:
            self._latest.clear()
        self._latest[who] = seen.at_ms, seen.request, seen.response
        return False

    def is_due(self, at_ms: float) -> bool:
        """Whether an audit is due: there are enough new entries since the last one."""
        if not self._new or abs(at_ms - self._audited_ms) < max(AUDITING_MS, EACH_MS * len(self._lines)):
            return False
        self._audited_ms = at_ms
        return True

    def news(self, settled_ms: int = SETTLED_MS) -> list[Finding]:
        """Audits, and returns the new findings; findings that have changed are updated."""
        self._new = 0
        lines = [*self._lines]
        if not lines:
            return []
        begin_ms, now_ms = min(line.at_ms for line in lines), max(line.at_ms for line in lines)
        found = [one for one in self._audit(lines) if one.start_ms <= now_ms - settled_ms]
        current = {(_about(one), one.start_ms) for one in found}
        for about, before in self._found.items():  # later lines explain findings that do not hold any more
            before[:] = [one for one in before if one.start_ms <= begin_ms or (about, one.start_ms) in current]
        return [one for one in found if self._is_new(one)]

    def findings(self) -> list[Finding]:
        """The reported findings that still hold, in order."""
        return in_order(one for some in self._found.values() for one in some)

    def _is_new(self, found: Finding) -> bool:
        """Whether a finding is new; one from before the first kept line seems to begin with that line."""
        if len(self._found) >= MOST_FOUND:
            return False
        same = self._found.setdefault(_about(found), [])
        for number, one in enumerate(same):
            if one.start_ms <= found.start_ms <= one.end_ms:
                is_longer = found.end_ms - found.start_ms >= one.end_ms - one.start_ms
                same[number] = found if is_longer else replace(one, end_ms=max(one.end_ms, found.end_ms))
                return False
        same.append(found)
        return True

    def _audit(self, lines: list[_Line]) -> list[Finding]:
        piece = Piece(TRACE, 0, WHOLE)
        summary, records = PieceSummary(TRACE, 0, gzipped=False), SourceRecords(piece)
        for _, parsed in lines:
            summary.take(parsed, _NO_SIGNS)
            if parsed.records:
                records.take(parsed)
        summary.lines = len(lines)
        audit = audit_pieces([records.of_piece(summary)], Limits())
        return [one for one in audit.findings if one.severity is not Severity.INFO]


def _about(found: Finding) -> tuple[Any, ...]:
    return found.kind, found.group, *sorted((found.member, *found.others)), found.partitions[:1]
