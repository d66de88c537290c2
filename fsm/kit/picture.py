"""The story of a finding: the client's requests and responses around that time, as lines and as a sequence diagram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from fsm.kit import check
from fsm.kit.application import partitions_of
from fsm.kit.check import Finding, Grade
from fsm.kit.judge import judge
from fsm.protocol.error_codes import ErrorCode
from fsm.render import sequence
from fsm.render.sequence import Arrow, Diagram, Look, Part
from fsm.wire.exchange import Exchange, Note, read_lines

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
            what = str(note.about.get("error") or (check.partitions(partitions) if partitions else ""))
            yield Line(note.at_ms, CLIENT, APPLICATION, f"{note.about.get('ev')} {what}".strip())
        case "command":
            yield Line(note.at_ms, APPLICATION, CLIENT, str(note.about.get("line")))
        case "exited" | "killed":
            yield Line(note.at_ms, CLIENT, CLIENT, note.event, Look.STATE)


def _describe_request(one: Exchange) -> str:
    request: Any = one.request
    match one.api:
        case "ConsumerGroupHeartbeat" if request is not None:
            return f"Heartbeat {check.heartbeat(request)}"
        case "OffsetCommit" | "Heartbeat" | "SyncGroup" if request is not None:
            number = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", ""))
            return f"{one.api} at {number}"
        case "JoinGroup" if request is not None:
            return f"JoinGroup as {request.member_id or 'nobody'}"
    return one.api


def _describe_response(one: Exchange) -> str:
    response: Any = one.response
    code = getattr(response, "error_code", ErrorCode.NONE)
    if code is not ErrorCode.NONE:
        return str(getattr(code, "name", code))
    match one.api:
        case "ConsumerGroupHeartbeat" if response is not None:
            given = response.assignment
            count = "" if given is None else f", {sum(len(numbers) for _, numbers in given)} partitions assigned"
            return f"epoch {response.member_epoch}{count}"
        case "JoinGroup" if response is not None:
            return f"generation {response.generation_id}" + (", leads" if response.members else "")
        case "OffsetCommit" if response is not None and response.errors:
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
