"""The results of a run as text, as one JSON document, as JUnit XML, and as a self-contained HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any
from xml.sax.saxutils import quoteattr

from fsm.kit.check import Check, Finding, Grade
from fsm.kit.checks import CHECKS
from fsm.kit.judge import FAILED, Report, finding_document, finding_lines, merge, verdicts
from fsm.kit.picture import format_story, picture
from fsm.kit.processes import Result
from fsm.wire.exchange import Exchange


def software(results: Sequence[Result], command: str) -> str:
    """The name and version that the client sent to brokers, else its command."""
    names: Counter[str] = Counter()
    for result in results:
        for one in result.trace:
            if isinstance(one, Exchange) and one.api == "ApiVersions" and one.request is not None:
                name = f"{one.request.client_software_name} {one.request.client_software_version}".strip()
                names.update([name] if name else [])
    return max(sorted(names), key=names.__getitem__) if names else command


def as_document(results: Sequence[Result], client: str) -> dict[str, Any]:
    """The results as the JSON document that the command line promises."""
    return {
        "client": client,
        "scenarios": [
            {
                "name": result.scenario.name,
                "passed": result.passed,
                "findings": [finding_document(one, result.report.start_ms) for one in result.report.findings],
            }
            for result in results
        ],
        "checks": verdicts(merge(result.report for result in results)),
    }


# Text


def as_text(results: Sequence[Result], client: str) -> Iterator[str]:
    """A table of scenarios, the failures with the story of their first occurrence, and the verdict of each rule."""
    yield client
    yield ""
    for result in results:
        yield f"{'ok' if result.passed else 'FAILED':6} {result.scenario.name:28} {_ids(result.report)}".rstrip()
    yield ""
    for check, found in _by_check(results):
        yield from _failure(check, found)
    whole = merge(result.report for result in results)
    for verdict in ("passed", "failed", "not seen"):
        ids = [check.id for check in CHECKS.values() if whole.verdict(check) == verdict]
        yield f"{verdict} ({len(ids)}): {' '.join(ids) or 'none'}"


def _failure(check: Check, found: list[tuple[Result, Finding]]) -> Iterator[str]:
    names = list(dict.fromkeys(result.scenario.name for result, _ in found))
    yield f"{check.grade.value} {check.id}: {check.rule} [{check.clause}]"
    yield f"  in {', '.join(names)}"
    result, finding = found[0]
    start_ms = result.report.start_ms
    yield from (f"  {line}" for line in finding_lines(finding, start_ms))
    if check.grade is Grade.MUST:
        yield from (f"    {line}" for line in format_story(finding, result.trace, start_ms))
    yield ""


def _ids(report: Report) -> str:
    ids = {finding.check.id: finding.check.grade.value for finding in report.findings}
    return ", ".join(f"{grade} {name}" for name, grade in sorted(ids.items(), key=lambda one: (one[1], one[0])))


def _by_check(results: Sequence[Result]) -> Iterator[tuple[Check, list[tuple[Result, Finding]]]]:
    found = [(result, finding) for result in results for finding in result.report.findings]
    for grade in Grade:
        for check in CHECKS.values():
            if check.grade is grade and (of_check := [one for one in found if one[1].check is check]):
                yield check, of_check


# JUnit


def as_junit(results: Sequence[Result], client: str) -> str:
    """One test case for each scenario; a MUST that failed is a failure, other findings are its output."""
    failed = sum(not result.passed for result in results)
    head = f'<testsuite name={quoteattr(client)} tests="{len(results)}" failures="{failed}">'
    cases = "\n".join(_case(result) for result in results)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{cases}\n</testsuite>\n'


def _case(result: Result) -> str:
    lines = {True: "", False: ""}
    for finding in result.report.findings:
        at_s = (finding.at_ms - result.report.start_ms) / 1000
        what = f"{finding.check.grade.value} {finding.check.id} {at_s:.3f} s {finding.client}: {finding.detail}"
        lines[finding.check.grade is Grade.MUST] += f"{_legal(what)}\n"
    message = quoteattr(f"MUST {', '.join(result.report.list_failed())}")
    failure = f"\n<failure message={message}>{escape(lines[True])}</failure>" if lines[True] else ""
    output = f"\n<system-out>{escape(lines[False])}</system-out>" if lines[False] else ""
    return f'<testcase classname="fsm.kit" name={quoteattr(result.scenario.name)}>{failure}{output}</testcase>'


def _legal(text: str) -> str:
    """Without the characters that XML cannot have."""
    return "".join(
        c if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff") else "?"
        for c in text
    )


# HTML

STYLE = (
    "body{font:14px/1.5 Helvetica,Arial,sans-serif;margin:2em;max-width:70em;color:#1f2933}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2em .8em;border-bottom:1px solid #d9e2ec}"
    ".FAILED,.failed{color:#b42318;font-weight:bold}.ok,.passed{color:#2f855a}small{color:#52606d}"
    "svg{max-width:100%;height:auto}"
)


def as_html(results: Sequence[Result], client: str) -> str:
    """A self-contained page; all texts of clients are escaped."""
    whole = merge(result.report for result in results)
    name = escape(_legal(client))
    scenarios = "".join(
        f"<tr><td class={_mark(result)}>{_mark(result)}</td><td>{escape(result.scenario.name)}</td>"
        f"<td>{escape(result.scenario.about)}</td><td>{escape(_ids(result.report))}</td></tr>\n"
        for result in results
    )
    rules = "".join(
        f"<tr><td>{check.id}</td><td>{check.grade.value}</td>"
        f"<td class='{whole.verdict(check)}'>{whole.verdict(check)}</td>"
        f"<td>{escape(check.rule)}<br><small>{escape(check.clause)}</small></td></tr>\n"
        for check in CHECKS.values()
    )
    failures = "".join(_section(check, found) for check, found in _by_check(results))
    head = f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style>'
    return (
        f"{head}\n<h1>{name}</h1>\n<h2>Scenarios</h2>\n<table>{scenarios}</table>\n"
        f"<h2>What failed</h2>\n{failures or '<p>Nothing.</p>'}\n<h2>Rules</h2>\n<table>{rules}</table>\n</html>\n"
    )


def _mark(result: Result) -> str:
    return "ok" if result.passed else FAILED.upper()


def _section(check: Check, found: list[tuple[Result, Finding]]) -> str:
    result, finding = found[0]
    names = ", ".join(dict.fromkeys(one.scenario.name for one, _ in found))
    lines = escape(_legal("\n".join(finding_lines(finding, result.report.start_ms))))
    drawn = picture(finding, result.trace, result.report.start_ms)
    return (
        f"<h3>{check.grade.value} {check.id}: {escape(check.rule)}</h3>\n<p><small>{escape(check.clause)}</small> "
        f"in {escape(names)}</p>\n<pre>{lines}</pre>\n{drawn}\n"
    )
