"""The output of a running capture: its trace, lines or a table on the terminal, and what is wrong in it.

The kit's checks and the audit's rules report each finding as soon as it is detected. Until the capture ends, omissions
do not count. Findings depend only on what was captured: clients that joined before the capture began, and what was not
captured, may be judged wrongly. Memory is bounded for captures of any length.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TextIO

from fsm.audit import findings as audit
from fsm.capture.auditing import Auditing
from fsm.capture.following import Following
from fsm.capture.watch import Watch
from fsm.kit.check import Finding
from fsm.kit.judge import Judge, Report, report_lines
from fsm.render.wording import clock, name, show
from fsm.wire.exchange import Exchange, Note, to_line

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


def _line(found: Finding) -> str:
    rule = f"{found.check.grade.value} {found.check.id}"
    return f"{clock(round(found.at_ms))} {name(found.client)} violates {rule}: {name(found.detail)}"


def _audit_line(found: audit.Finding) -> str:
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
