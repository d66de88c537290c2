"""The results of the checks as text and as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fsm.kit.check import Check, Finding, Grade
from fsm.kit.checks import CHECKS
from fsm.kit.judge import FAILED, NOT_SEEN, PASSED, Report

MARKS = {PASSED: "ok", FAILED: "FAILED", NOT_SEEN: "-"}
SHOWN = 3
"""How many findings of one check are shown."""


def check_lines(checks: Sequence[Check] = tuple(CHECKS.values())) -> Iterator[str]:
    """Every check with its grade, rule and clause."""
    for check in checks:
        yield f"{check.id:4} {check.protocol:8} {check.grade.value:6} {check.rule}"
        yield f"{'':21}{check.clause}"


def report_lines(report: Report) -> Iterator[str]:
    """The failed checks with their first findings; then those that passed and those that were not seen."""
    for check in CHECKS.values():
        found = [finding for finding in report.findings if finding.check is check]
        if not found:
            continue
        more = f" ({len(found)} times)" if len(found) > 1 else ""
        yield f"{check.grade.value} {check.id}{more}: {check.rule} [{check.clause}]"
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
