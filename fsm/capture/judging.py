"""The kit's checks over what a capture has seen so far, each finding as soon as it shows; in the end an audit, too.

Until the capture ends, nobody is judged by what was not done in the end. Findings rest on what was seen alone: clients
that joined before the capture began, and what was not captured, may be judged wrongly.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from fsm.audit.findings import Severity
from fsm.audit.local import audit_files
from fsm.kit.check import Finding, What
from fsm.kit.checks import CHECKS
from fsm.kit.judge import Report, judge
from fsm.kit.moments import GROUP_APIS
from fsm.kit.report import report_lines
from fsm.render.wording import clock, name, show
from fsm.wire.exchange import Exchange, Note, to_line

MOST_JUDGED = 50_000
"""Exchanges and notes that are kept to be judged; later ones are not."""
JUDGING_MS, EACH_MS = 2_000.0, 1.0
"""How long after a judgement the next one may come, at least, and for each exchange that is kept: it looks at all of
them, in some 0.04 ms each.
"""
AUDITED = GROUP_APIS | {"Metadata"}
SHOWN = 3
"""Findings of one check and client that are told as they come; the judgement in the end counts all."""
MEANWHILE = tuple(check for check in CHECKS.values() if What.END not in check.moments)


class Judging:
    """Told of what was seen, judges it now and then."""

    def __init__(self) -> None:
        self._kept: list[Exchange | Note] = []
        self._told: dict[tuple[str, str], float] = {}
        """When the last finding of each check and client was that has been told."""
        self._shown: Counter[tuple[str, str]] = Counter()
        self._judged = 0
        self._judged_ms = 0.0
        self.is_full = False
        """Whether something was not kept."""

    def take(self, seen: Exchange | Note) -> None:
        """Something was seen."""
        if len(self._kept) < MOST_JUDGED:
            self._kept.append(seen)
        else:
            self.is_full = True

    def is_due(self, at_ms: float) -> bool:
        """Whether there is enough that is new."""
        waits_ms = max(JUDGING_MS, EACH_MS * len(self._kept))
        if len(self._kept) == self._judged or abs(at_ms - self._judged_ms) < waits_ms:
            return False
        self._judged_ms = at_ms
        return True

    def news(self) -> list[str]:
        """What is found now and was not before, a line each. What was seen may grow meanwhile."""
        kept = list(self._kept)
        self._judged = len(kept)
        lines = []
        for found in judge(kept, MEANWHILE).findings:
            which = found.check.id, found.client
            if found.at_ms > self._told.get(which, 0.0):
                self._told[which] = found.at_ms
                self._shown[which] += 1
                if self._shown[which] <= SHOWN:
                    lines.append(_line(found))
        return lines

    def report(self) -> Report:
        """The judgement in the end, by all checks."""
        return judge(self._kept)

    def audit(self) -> list[str]:
        """What an audit finds in the end: who owned what another had, who is out for good."""
        told = [one for one in self._kept if isinstance(one, Note) or one.api in AUDITED]
        if not any(isinstance(one, Exchange) for one in told):
            return []
        with TemporaryDirectory() as folder:
            trace = Path(folder, "trace.jsonl")
            trace.write_text("".join(f"{to_line(one)}\n" for one in told), encoding="utf-8")
            findings = audit_files([trace]).findings
        return [
            f"{found.severity.value} {found.kind.value}: {name(found.group)}: {show(found.summary)}"
            for found in findings
            if found.severity is not Severity.INFO
        ]

    def summary(self) -> str:
        """The judgement in the end, as a command prints it."""
        lines = [*self.audit(), *report_lines(self.report())]
        if self.is_full:
            lines.append(f"only the first {MOST_JUDGED:,} exchanges and notes were judged")
        return "".join(f"{line}\n" for line in lines)


def _line(found: Finding) -> str:
    rule = f"{found.check.grade.value} {found.check.id}"
    return f"{clock(round(found.at_ms))} {name(found.client)} breaks {rule}: {name(found.detail)}"
