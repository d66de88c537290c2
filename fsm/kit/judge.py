"""The judge: all checks over all moments of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fsm.kit.check import Broken, Check, Finding, Grade
from fsm.kit.checks import CHECKS
from fsm.kit.client_history import Moment, What, follow
from fsm.wire.exchange import Exchange, Note

PASSED, FAILED, NOT_SEEN = "passed", "failed", "not seen"


@dataclass(frozen=True)
class Report:
    """The results of the checks."""

    findings: tuple[Finding, ...] = ()
    """In order of time."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """How often each rule was kept, by its id."""
    start_ms: float = 0.0
    """The time of the first request."""

    def verdict(self, check: Check) -> str:
        """`passed`, `failed`, or `not seen` where there was nothing to judge."""
        if any(finding.check is check for finding in self.findings):
            return FAILED
        return PASSED if self.kept.get(check.id) else NOT_SEEN

    def list_failed(self, grade: Grade = Grade.MUST) -> list[str]:
        """The ids of the checks of this grade that failed."""
        return sorted({finding.check.id for finding in self.findings if finding.check.grade is grade})


class Judge:
    """Runs checks over moments and collects their results."""

    def __init__(self, checks: Iterable[Check] = CHECKS.values()) -> None:
        self.findings: list[Finding] = []
        self.kept: dict[str, int] = {}
        """How often each rule was kept, by its id."""
        self._by_moment: dict[tuple[str, What], list[Check]] = {}
        for check in checks:
            for what in check.moments:
                self._by_moment.setdefault((check.protocol, what), []).append(check)

    def take(self, moment: Moment) -> None:
        """Runs the checks over a moment."""
        for check in self._by_moment.get((_protocol(moment), moment.what), ()):
            verdict = check.judge(moment)
            if verdict is True:
                self.kept[check.id] = self.kept.get(check.id, 0) + 1
            elif isinstance(verdict, Broken):
                name = moment.client.name
                self.findings.append(Finding(check, moment.at_ms, name, verdict.expected, verdict.got, moment.exchange))


def judge(seen: Iterable[Exchange | Note], checks: Iterable[Check] = CHECKS.values()) -> Report:
    """Runs the checks over the clients of a trace."""
    trace = list(seen)
    start_ms = min((one.at_ms for one in trace if isinstance(one, Exchange)), default=0.0)
    judging = Judge(checks)
    for moment in follow(trace):
        judging.take(moment)
    return Report(tuple(judging.findings), dict(judging.kept), start_ms)


def _protocol(moment: Moment) -> str:
    """The protocol of the client, the present moment included."""
    if moment.what is What.HEARTBEAT:
        return "consumer"
    return moment.client.protocol


def merge(reports: Iterable[Report]) -> Report:
    """Adds up the reports of several traces."""
    found = list(reports)
    kept: Counter[str] = Counter()
    for report in found:
        kept.update(report.kept)
    return Report(tuple(finding for report in found for finding in report.findings), dict(kept))
