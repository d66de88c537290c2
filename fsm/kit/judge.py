"""The judge: all checks over all moments of a trace; and its report, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
        protocol = "consumer" if moment.what is What.HEARTBEAT else moment.client.protocol
        for check in self._by_moment.get((protocol, moment.what), ()):
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


def merge(reports: Iterable[Report]) -> Report:
    """Adds up the reports of several traces."""
    found = list(reports)
    kept: Counter[str] = Counter()
    for report in found:
        kept.update(report.kept)
    return Report(tuple(finding for report in found for finding in report.findings), dict(kept))


MARKS = {PASSED: "ok", FAILED: "FAILED", NOT_SEEN: "-"}
SHOWN = 3
"""How many findings of one check are shown."""


def check_lines() -> Iterator[str]:
    """Every check with its grade, rule and clause."""
    for check in CHECKS.values():
        yield f"{check.id:4} {check.protocol:8} {check.grade.value:6} {check.rule}"
        yield f"{'':21}{check.clause}"


def report_lines(report: Report) -> Iterator[str]:
    """The failed checks with their first findings; then those that passed and those that were not seen."""
    for check in CHECKS.values():
        found = [finding for finding in report.findings if finding.check is check]
        if not found:
            continue
        more = f" ({len(found)} times)" if len(found) > 1 else ""
        yield f"{check.title}{more}: {check.rule} [{check.clause}]"
        yield from (f"    {line}" for finding in found[:SHOWN] for line in finding_lines(finding, report.start_ms))
    for verdict in (PASSED, NOT_SEEN):
        ids = [check.id for check in CHECKS.values() if report.verdict(check) == verdict]
        yield f"{verdict}: {' '.join(ids) or 'none'}"


def finding_lines(finding: Finding, start_ms: float) -> Iterator[str]:
    """The time, the client, what was expected and what was observed."""
    yield f"{(finding.at_ms - start_ms) / 1000:8.3f} s  {finding.client}: expected {finding.expected}"
    yield f"{'':12}{'':{len(finding.client)}}got {finding.got}"


def finding_document(finding: Finding, start_ms: float) -> dict[str, Any]:
    """One finding as the JSON document has it."""
    return {
        "check": finding.check.id,
        "grade": finding.check.grade.value,
        "clause": finding.check.clause,
        "t_ms": round(finding.at_ms - start_ms),
        "client": finding.client,
        "detail": finding.detail,
    }


def verdicts(report: Report) -> dict[str, str]:
    """The verdict of every check by its id."""
    return {check.id: report.verdict(check) for check in CHECKS.values()}


def status(reports: Sequence[Report]) -> int:
    """The exit status: 1 where a MUST failed."""
    return int(any(report.list_failed(Grade.MUST) for report in reports))
