"""The output of a running capture: its trace, lines or a table on the terminal, and what is wrong in it.

The kit's checks and the audit's rules report each finding as soon as it is detected. Until the capture ends, omissions
do not count. Findings depend only on what was captured: clients that joined before the capture began, and what was not
captured, may be judged wrongly. Memory is bounded for captures of any length.

The audit judges all entries of a group's members. Here it gets only the latest ones, as from a log that begins in the
middle. Repeated messages of a member count once in a few seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, NamedTuple, TextIO

from fsm.audit.findings import Finding, Severity, in_order
from fsm.audit.limits import Limits
from fsm.audit.local import audit_pieces
from fsm.audit.reading.piece import PieceSummary, SourceRecords
from fsm.audit.reading.scanning import Parsed
from fsm.capture.following import Following
from fsm.capture.watch import Watch
from fsm.kit import check
from fsm.kit.client_history import GROUP_APIS
from fsm.kit.judge import Judge, Report, report_lines
from fsm.logs.programs.exchanges import FORMATS
from fsm.logs.reading.blocks import words
from fsm.logs.reading.entries import Entry
from fsm.logs.reading.pieces import WHOLE, Piece
from fsm.render.wording import clock, name, show
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


SHOWN = 3
"""How many findings of one check and client are reported at once; the final report counts all."""
MOST_WAITING = 50_000
"""The maximal number of exchanges that wait to be checked, some 0.06 ms each; further ones are not checked."""
MOST_FINDINGS = 10_000
"""The maximal number of kept findings of checks, the first ones."""


class Judging:
    """Runs the checks and the audit over the exchanges and notes of a capture."""

    def __init__(self) -> None:
        self.auditing = Auditing()
        self._following = Following()
        self._judge = Judge()
        self._new: deque[Exchange | Note] = deque()
        self._reported = 0
        """The number of reported findings of checks."""
        self._shown: Counter[tuple[str, str]] = Counter()
        self._left_out = 0
        self._not_judged = 0

    def take(self, seen: Exchange | Note) -> None:
        """Adds an exchange or a note."""
        if len(self._new) < MOST_WAITING or isinstance(seen, Note):
            self._new.append(seen)
        else:
            self._not_judged += 1

    def news(self, now_ms: float) -> list[str]:
        """The new findings, one line each. Another thread may call `take` meanwhile."""
        self._follow()
        for moment in self._following.moments(now_ms):
            self._judge.take(moment)
        lines = [*self._news_of_checks()]
        if self.auditing.is_due(now_ms):
            lines += [f"{clock(found.start_ms)} {_audit_line(found)}" for found in self.auditing.news()]
        return lines

    def _follow(self) -> None:
        while self._new:
            seen = self._new.popleft()
            self._following.take(seen)
            self.auditing.take(seen)

    def _news_of_checks(self) -> list[str]:
        lines = []
        for found in self._judge.findings[self._reported :]:
            which = found.check.id, found.client
            self._shown[which] += 1
            if self._shown[which] <= SHOWN:
                lines.append(_line(found))
        self._left_out += max(0, len(self._judge.findings) - MOST_FINDINGS)
        del self._judge.findings[MOST_FINDINGS:]
        self._reported = len(self._judge.findings)
        return lines

    def end(self) -> None:
        """Ends the capture: from now on omissions count as well."""
        self._follow()
        for moment in self._following.end():
            self._judge.take(moment)
        self._news_of_checks()
        self.auditing.news(settled_ms=0)

    def report(self) -> Report:
        """The report of the checks."""
        findings = sorted(self._judge.findings, key=lambda found: found.at_ms)
        return Report(tuple(findings), dict(self._judge.kept), self._following.start_ms or 0.0)

    def audit(self) -> list[str]:
        """The findings of the audit, one line each."""
        return [_audit_line(one) for one in self.auditing.findings()]

    def summary(self) -> str:
        """The summary of findings that the command prints."""
        lines = [*self.audit(), *report_lines(self.report())]
        if self._not_judged:
            lines.append(
                f"{self._not_judged:,} exchanges were not judged: they came too fast, and findings may rest on that"
            )
        if self._left_out:
            lines.append(f"{self._left_out:,} further findings were left out")
        return "".join(f"{line}\n" for line in lines)


def _line(found: check.Finding) -> str:
    return f"{clock(round(found.at_ms))} {name(found.client)} violates {found.check.title}: {name(found.detail)}"


def _audit_line(found: Finding) -> str:
    return f"{found.severity.value} {found.kind.value}: {name(found.group)}: {show(found.summary)}"


MOST_NEWS = 20
"""How many lines of news are shown below the table."""
REDRAWING_MS = 200
CLEAR = "\x1b[H\x1b[J"


class Log:
    """Writes exchanges and notes to a trace, and shows news."""

    def __init__(self, trace: TextIO | None, show: Callable[[str], None], columns: int | None = None) -> None:
        """`columns` is the width of the terminal; None without one: then news is printed immediately."""
        self.watch, self.judging = Watch(), Judging()
        self._trace, self._show, self._columns = trace, show, columns
        self._new: list[Exchange | Note] = []
        self._drawn_ms = 0.0
        self._news: deque[str] = deque(maxlen=MOST_NEWS)

    def take(self, seen: Exchange | Note) -> None:
        """Adds an exchange or a note; the next tick writes it."""
        self._new.append(seen)

    def tick(self, at_ms: float) -> None:
        """Writes what is new; redraws the table periodically."""
        new, self._new = self._new, []
        for seen in new:
            if self._trace:
                self._trace.write(f"{to_line(seen)}\n")
            self.judging.take(seen)
            self.show_news(self.watch.take(seen))
        if self._trace and new:
            self._trace.flush()
        if self._columns and abs(at_ms - self._drawn_ms) >= REDRAWING_MS:
            self._drawn_ms = at_ms
            text = "".join(f"{line[: self._columns]}\n" for line in self._news)
            self._show(f"{CLEAR}{self.watch.table(at_ms, self._columns)}\n{text}")

    def show_news(self, news: Sequence[str]) -> None:
        """Shows lines, at once or with the table."""
        self._news += news
        if news and self._columns is None:
            self._show("".join(f"{line}\n" for line in news))

    def end(self, at_ms: float) -> None:
        """Writes what is new for the last time."""
        self._drawn_ms = 0.0
        self.tick(at_ms)
        self.judging.end()

    def summary(self) -> str:
        """The totals and findings at the end."""
        return f"{self.watch.summary()}{self.judging.summary()}"
