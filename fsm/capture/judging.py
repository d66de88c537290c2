"""The kit's checks and the audit's rules over a capture, each finding reported as soon as it is detected.

Until the capture ends, omissions do not count. Findings depend only on what was captured: clients that joined before
the capture began, and what was not captured, may be judged wrongly. Memory is bounded for captures of any length.
"""

from __future__ import annotations

from collections import Counter, deque

from fsm.audit import findings as audit
from fsm.capture.auditing import Auditing
from fsm.capture.following import Following
from fsm.kit.check import Finding
from fsm.kit.judge import Judge, Report
from fsm.kit.report import report_lines
from fsm.render.wording import clock, name, show
from fsm.wire.exchange import Exchange, Note

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
