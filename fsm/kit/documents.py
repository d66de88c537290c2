"""The results of a run as text, JSON, JUnit XML or a self-contained HTML page, with the stories of its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import quoteattr

from fsm.kit.application import partitions_of
from fsm.kit.check import Check, Finding, Grade, heartbeat
from fsm.kit.check import partitions as show_partitions
from fsm.kit.checks import CHECKS
from fsm.kit.judge import FAILED, Report, finding_document, finding_lines, judge, merge, verdicts
from fsm.protocol.error_codes import ErrorCode
from fsm.render import sequence
from fsm.render.sequence import Arrow, Diagram, Look, Part
from fsm.wire.exchange import Exchange, Note, read_lines

if TYPE_CHECKING:
    from fsm.kit.processes import Result

BEFORE_MS, AFTER_MS = 3_500.0, 1_000.0
MOST = 24
"""Lines of a story; of more, those closest before the finding."""
QUIET = ("Fetch", "Metadata", "ApiVersions", "ListOffsets", "OffsetForLeaderEpoch")
APPLICATION, CLIENT, BROKER = "application", "client", "broker"


class Line(NamedTuple):
    """One thing that was seen."""

    at_ms: float
    source: str
    target: str
    text: str
    look: Look = Look.CALL


def story(finding: Finding, trace: Sequence[Exchange | Note]) -> list[Line]:
    """The requests and events of a finding's client around it, in order of time, with the finding itself."""
    name = finding.client.partition("/")[0]
    is_read = finding.exchange is not None and finding.exchange.api in QUIET
    begin_ms = _begin(finding, name, trace)
    seen = [
        line
        for one in trace
        if begin_ms <= one.at_ms <= finding.at_ms + AFTER_MS
        for line in _lines(one, name, with_reads=is_read)
    ]
    seen.append(Line(finding.at_ms, CLIENT, CLIENT, f"{finding.check.id}: {finding.detail}", Look.RAISE))
    seen.sort(key=lambda line: line.at_ms)
    at = next(number for number, line in enumerate(seen) if line.look is Look.RAISE and line.at_ms == finding.at_ms)
    begin = max(0, at - MOST + 6)
    return seen[begin : begin + MOST]


def _begin(finding: Finding, client: str, trace: Sequence[Exchange | Note]) -> float:
    """The beginning of the story: before the last such request, if that had no answer, however long ago."""
    begin_ms, judged = finding.at_ms - BEFORE_MS, finding.exchange
    before = [
        one
        for one in trace
        if isinstance(one, Exchange)
        and judged is not None
        and (one.client_id, one.api) == (client, judged.api)
        and one.at_ms < judged.at_ms
    ]
    last = max(before, key=lambda one: one.at_ms, default=None)
    return begin_ms if last is None or last.answered_ms is not None else min(begin_ms, last.at_ms)


def _lines(one: Exchange | Note, client: str, *, with_reads: bool) -> Iterator[Line]:
    if isinstance(one, Note):
        if one.about.get("client") == client:
            yield from _draw_note(one)
        return
    if one.client_id != client or (one.api in QUIET and not with_reads):
        return
    yield Line(one.at_ms, CLIENT, BROKER, _describe_request(one))
    if one.answered_ms is not None:
        yield Line(one.answered_ms, BROKER, CLIENT, _describe_response(one), Look.TAKE)
    elif one.request is not None:
        yield Line(one.at_ms, BROKER, BROKER, f"no answer{f' ({one.fault})' if one.fault else ''}", Look.RAISE)


def _draw_note(note: Note) -> Iterator[Line]:
    match note.event:
        case "application":
            partitions = partitions_of(note.about)
            what = str(note.about.get("error") or (show_partitions(partitions) if partitions else ""))
            yield Line(note.at_ms, CLIENT, APPLICATION, f"{note.about.get('ev')} {what}".strip())
        case "command":
            yield Line(note.at_ms, APPLICATION, CLIENT, str(note.about.get("line")))
        case "exited" | "killed":
            yield Line(note.at_ms, CLIENT, CLIENT, note.event, Look.STATE)


def _describe_request(one: Exchange) -> str:
    request: Any = one.request
    match one.api if request is not None else "":
        case "ConsumerGroupHeartbeat":
            return f"Heartbeat {heartbeat(request)}"
        case "OffsetCommit":
            return f"{one.api} at {request.generation_id_or_member_epoch}"
        case "Heartbeat" | "SyncGroup":
            return f"{one.api} at {request.generation_id}"
        case "JoinGroup":
            return f"JoinGroup as {request.member_id or 'nobody'}"
    return one.api


def _describe_response(one: Exchange) -> str:
    response: Any = one.response
    code = getattr(response, "error_code", ErrorCode.NONE)
    if code is not ErrorCode.NONE:
        return str(getattr(code, "name", code))
    match one.api if response is not None else "":
        case "ConsumerGroupHeartbeat":
            given = response.assignment
            count = "" if given is None else f", {sum(len(numbers) for _, numbers in given)} partitions assigned"
            return f"epoch {response.member_epoch}{count}"
        case "JoinGroup":
            return f"generation {response.generation_id}" + (", leads" if response.members else "")
        case "OffsetCommit" if response.errors:
            return str(response.errors[0][1].name)
    return "answered"


def picture(finding: Finding, trace: Sequence[Exchange | Note], start_ms: float) -> str:
    """The story as SVG."""
    return sequence.svg(diagram(finding, trace, start_ms))


def diagram(finding: Finding, trace: Sequence[Exchange | Note], start_ms: float) -> Diagram:
    """The story as a sequence diagram."""
    lines = story(finding, trace)
    lanes = tuple(lane for lane in (APPLICATION, CLIENT, BROKER) if any(lane in line[1:3] for line in lines))
    arrows = tuple(
        Arrow(line.source, line.target, f"{(line.at_ms - start_ms) / 1000:.2f} {line.text}", line.look)
        for line in lines
    )
    title = f"{finding.check.id} {finding.client} at {(finding.at_ms - start_ms) / 1000:.2f} s"
    return Diagram(title, lanes, (Part("", arrows),))


PICTURES = ("muted-heartbeat",)
"""Pictures that are shipped with the package: `muted-heartbeat.jsonl` is of a client whose heartbeat timed out."""


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each."""
    lines = files("fsm.kit").joinpath(f"{PICTURES[0]}.jsonl").read_text(encoding="utf-8").splitlines()
    trace = list(read_lines(lines, PICTURES[0]))
    report = judge(trace)
    found = next(one for one in report.findings if one.check.grade is Grade.MUST)
    drawing = diagram(found, trace, report.start_ms)
    for suffix, draw in ((".svg", sequence.svg), (".mmd", sequence.mermaid), (".puml", sequence.plantuml)):
        yield f"{PICTURES[0]}{suffix}", draw(drawing).encode()


def format_story(finding: Finding, trace: Sequence[Exchange | Note], start_ms: float) -> Iterator[str]:
    """Lines of the story."""
    signs = {(CLIENT, BROKER): "->", (BROKER, CLIENT): "<-", (CLIENT, APPLICATION): "=>", (APPLICATION, CLIENT): "<="}
    for line in story(finding, trace):
        sign = "!!" if line.look is Look.RAISE else signs.get((line.source, line.target), "  ")
        yield f"{(line.at_ms - start_ms) / 1000:8.3f} {sign} {line.text}"


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
    yield f"{check.title}: {check.rule} [{check.clause}]"
    yield f"  in {', '.join(names)}"
    result, finding = found[0]
    start_ms = result.report.start_ms
    yield from (f"  {line}" for line in finding_lines(finding, start_ms))
    if check.grade is Grade.MUST:
        yield from (f"    {line}" for line in format_story(finding, result.trace, start_ms))
    yield ""


def _ids(report: Report) -> str:
    return ", ".join(sorted({finding.check.title for finding in report.findings}))


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
        what = f"{finding.check.title} {at_s:.3f} s {finding.client}: {finding.detail}"
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
        f"<h3>{check.title}: {escape(check.rule)}</h3>\n<p><small>{escape(check.clause)}</small> "
        f"in {escape(names)}</p>\n<pre>{lines}</pre>\n{drawn}\n"
    )
