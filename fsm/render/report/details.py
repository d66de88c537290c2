"""One group as data for the page's script: its index entry, and the details loaded when a reader opens it.

Every text passes `wording.show` on its way here, which bounds its length and escapes invisible characters; the script
makes text nodes of texts. Large data are cut into several pieces, so that nothing is omitted for its length.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from fsm.render import wording
from fsm.render.report import glossary
from fsm.render.timeline import shades
from fsm.render.timeline.views import (
    AssignedSpan,
    EvidenceLine,
    FindingView,
    GroupView,
    IncidentView,
    MemberView,
    PartitionView,
    Stretch,
)

SEVERITIES = ("error", "warning", "info")
PIECE = 400_000
"""The approximate size of a piece of findings or lanes."""
FINDINGS = 20_000
"""The maximum number of findings of one group on the page; the rest is counted, and is in the tables."""
ROWS = 500
"""The maximum number of incidents of one group in the index, the worst ones; the group itself has all."""
NAMED, MENTIONED = 12, 20_000
"""The maximum number of members and topics of one incident in the index, and in its group, which has its findings."""
NAMES = 2_000
"""The maximum number of searchable members and topics of one group."""
EVIDENCE = 8
_KINDS = list(glossary.KINDS)
_SHADES = {"UNREVOKED_PARTITIONS": "unrevoked", "UNRELEASED_PARTITIONS": "unreleased"}


class Packed(NamedTuple):
    """A group, ready to be written."""

    key: str
    """Its key in addresses and file names."""
    index_entry: Mapping[str, Any]
    """For the index: `entry` is the group in one line, `rows` its worst incidents, `names` members and topics."""
    details: str
    """The details loaded first, as JSON."""
    further: Mapping[str, Sequence[str]]
    """Further `rows` (incidents), `findings` and `lanes`, in pieces."""

    def pieces(self) -> Iterator[tuple[str, str]]:
        """All pieces except the index entry, each with its file name."""
        yield self.key, self.details
        for what, pieces in self.further.items():
            yield from ((f"{self.key}-{what}{i}", text) for i, text in enumerate(pieces, 1))


def key_of(group: str, file: str = "") -> str:
    """The key of a group, or of a file, in addresses and file names."""
    return sha256((group or f"file {file}").encode("utf-8", "surrogatepass")).hexdigest()[:16]


def dump(value: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def severity_of(severity: str) -> str:
    """The severity as a class of the style sheet."""
    return severity if severity in SEVERITIES else "info"


def pack(view: GroupView, findings: Sequence[FindingView], incidents: Sequence[IncidentView] | None = None) -> Packed:
    """The group with its findings; without incidents each finding is one."""
    key = key_of(view.group, view.file)
    named = [found if found.id else replace(found, id=str(i)) for i, found in enumerate(findings, 1)]
    known = list(map(_make_incident, named)) if incidents is None else incidents
    worst_first = sorted(known, key=_rank_incident)
    blamed = {name for found in findings if found.severity != "info" for name in (found.member, *found.others)}
    ranked = sorted(named, key=_rank_finding)
    pieces = {
        "rows": _pieces(map(_row, worst_first)),
        "findings": _pieces(map(_show_finding, ranked[:FINDINGS])),
        "lanes": _pieces(sorted(_lanes(view, blamed), key=lambda lane: not lane["hurt"])),
    }
    states = shades.state_classes(s.state for m in (*view.members, *view.unlogged) for s in m.states)
    details = {
        "start": view.start_ms,
        "end": view.end_ms,
        "names": [wording.name(name) for name in _numbers(view)],
        "states": {wording.name(state): cls for state, cls in states.items()},
        "hidden": {
            "findings": max(0, len(findings) - FINDINGS),
            "members": view.members_hidden,
            "unlogged": view.unlogged_hidden,
            "partitions": view.partitions_hidden,
            "rebalances": view.rebalances_hidden,
            "rounds": view.rounds_hidden,
        },
        "rebalances": [[*r[:2], wording.name(r.cause), *r[3:]] for r in view.rebalances],
        "rounds": [[*r[:2], wording.name(r.leader), r.workers, wording.name(r.version), *r[5:]] for r in view.rounds],
        "trend": view.trend.to_json() if view.trend else None,
        "pieces": {what: len(texts) - 1 for what, texts in pieces.items()},
    }
    text = "".join([dump(details)[:-1], *(f',"{what}":{texts[0]}' for what, texts in pieces.items()), "}"])
    beyond = {"rows_hidden": len(known) - ROWS} if len(known) > ROWS else {}
    entry = _entry(view, known) | beyond | {"key": key, "stamp": sha256(text.encode()).hexdigest()[:8]}
    seen = {found.id: (rank, found.evidence[0]) for rank, found in enumerate(ranked) if found.evidence}
    rows = [_summarize(one, NAMED) | _place(one, seen) for one in worst_first[:ROWS]]
    values = {"entry": entry, "rows": rows, "names": _names(view)}
    return Packed(key, values, text, {what: texts[1:] for what, texts in pieces.items()})


def badness(severity: str, kind: str, start_ms: int, end_ms: int, *, still: bool) -> tuple[int, ...]:
    """The sort key of findings, worst first, as an audit sorts: severity, whether it lasts, kind, duration if known."""
    rank = _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
    return SEVERITIES.index(severity_of(severity)), not still, rank, 0 if still else start_ms - end_ms


def _rank_incident(one: IncidentView) -> tuple[Any, ...]:
    worst = badness(one.severity, next(iter(one.kinds), ""), one.start_ms, one.end_ms, still=one.still)
    return *worst, one.start_ms, one.id


def _rank_finding(one: FindingView) -> tuple[Any, ...]:
    return *badness(one.severity, one.kind, one.start_ms, one.end_ms, still=False), one.start_ms, one.id


def _make_incident(found: FindingView) -> IncidentView:
    return IncidentView(
        id=found.id,
        severity=found.severity,
        kinds=(found.kind,),
        members=tuple(name for name in (found.member, *found.others) if name),
        topics=found.topics,
        start_ms=found.start_ms,
        end_ms=found.end_ms,
        cause=found.cause,
        sentence=found.summary,
        findings=(found.id,),
    )


def _pieces(items: Iterable[Any]) -> list[str]:
    pieces: list[list[str]] = [[]]
    room = PIECE
    for item in items:
        text = dump(item)
        if len(text) > room and pieces[-1]:
            pieces.append([])
            room = PIECE
        pieces[-1].append(text)
        room -= len(text)
    return [f"[{','.join(piece)}]" for piece in pieces]


# -- the index ----------------------------------------------------------------------------------------------


def _entry(view: GroupView, incidents: Iterable[IncidentView]) -> dict[str, Any]:
    """The group in one line, with its incidents by severity, and each under all of its kinds."""
    total, kinds = Counter[str](), dict[str, Counter[str]]()
    for one in incidents:
        severity = severity_of(one.severity)
        total[severity] += 1
        kinds.setdefault(severity, Counter()).update({wording.name(kind) for kind in one.kinds})
    values = {
        "group": wording.name(view.group),
        "start": view.start_ms,
        "end": view.end_ms,
        "members": len(view.members) + view.members_hidden,
        "unlogged": len(view.unlogged) + view.unlogged_hidden,
        "partitions": len(view.partitions) + view.partitions_hidden,
        "rebalances": len(view.rebalances) + view.rebalances_hidden,
        "doubted": not view.understood,
        "incidents": total,
        "kinds": {severity: dict(sorted(kinds[severity].items())) for severity in SEVERITIES if severity in kinds},
    }
    return _without_nothing(values)


def _without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drops empty fields, whose defaults the script knows."""
    return {name: value for name, value in values.items() if value or name in ("start", "end")}


def _summarize(one: IncidentView, most: int) -> dict[str, Any]:
    """What a list has of an incident, with at most so many members, topics and kinds."""
    values = {
        "id": wording.name(one.id),
        "severity": severity_of(one.severity),
        "kinds": [wording.name(kind) for kind in one.kinds[:most]],
        "members": [wording.name(member) for member in one.members[:most]],
        "topics": [wording.name(topic) for topic in one.topics[:most]],
        "start": one.start_ms,
        "end": one.end_ms,
        "cause": wording.name(one.cause),
        "text": wording.show(one.sentence),
        "next": wording.show(one.next_step),
        "still": one.still,
        "members_hidden": max(0, len(one.members) - most),
    }
    return _without_nothing(values)


def _row(one: IncidentView) -> dict[str, Any]:
    """The incident with what is shown once it is opened."""
    values = {
        "setting": wording.name(one.setting),
        "hazard": wording.show(one.hazard),
        "findings": [wording.name(found) for found in one.findings[:MENTIONED]],
        "findings_hidden": max(0, len(one.findings) - MENTIONED),
    }
    return _summarize(one, MENTIONED) | _without_nothing(values)


def _place(one: IncidentView, seen: Mapping[str, tuple[int, EvidenceLine]]) -> dict[str, str]:
    """Where the worst finding of an incident that has a line is seen, as `file:line`."""
    found = min((seen[own] for own in one.findings if own in seen), default=None)
    if found is None:
        return {}
    _, line = found
    return {"place": wording.name(line.file) + (f":{_number(line)}" if line.line else "")}


def _number(line: EvidenceLine) -> int | str:
    """The number of a line, with that of a record on it."""
    return f"{line.line}:{line.record}" if line.record else line.line


def _names(view: GroupView) -> list[list[str]]:
    members = dict.fromkeys(wording.name(m.member) for m in (*view.members, *view.unlogged))
    topics = dict.fromkeys(wording.name(p.topic) for p in view.partitions)
    return [list(members)[:NAMES], list(topics)[:NAMES]]


# -- findings and lanes -------------------------------------------------------------------------------------


def _show_finding(found: FindingView) -> dict[str, Any]:
    return {
        "id": wording.name(found.id),
        "kind": wording.name(found.kind),
        "severity": severity_of(found.severity),
        "member": wording.name(found.member),
        "others": [wording.name(name) for name in found.others[:NAMED]],
        "start": found.start_ms,
        "end": found.end_ms,
        "partitions": wording.show(found.partitions),
        "cause": wording.name(found.cause),
        "text": wording.show(found.summary),
        "lines": [[wording.name(e.file), _number(e), wording.show(e.text)] for e in found.evidence[:EVIDENCE]],
        "lines_hidden": max(0, len(found.evidence) - EVIDENCE),
    }


def _numbers(view: GroupView) -> dict[str, int]:
    """Numbers of members, in the order of their lanes, then of those that only own partitions."""
    owners = (span.member for p in view.partitions for span in p.spans)
    names = dict.fromkeys([*(m.member for m in view.members), *owners])
    return {name: number for number, name in enumerate(names, 1)}


def _lanes(view: GroupView, blamed: Container[str]) -> Iterator[dict[str, Any]]:
    """The lanes of the coordinator, of members, of partitions; those in `hurt` come first."""
    numbers = _numbers(view)
    if view.coordinator:
        yield _member_lane("coordinator", view.coordinator, 0) | {"hurt": True}
    for member in view.members:
        lane = _member_lane("member", member, numbers[member.member])
        yield lane | {"hurt": lane["hurt"] or member.member in blamed}
    for member in view.unlogged:
        yield _member_lane("unlogged", member, 0)
    for same in group_alike(view.partitions):
        yield _partition_lane(same, numbers)


def _member_lane(what: str, member: MemberView, number: int) -> dict[str, Any]:
    cut = f"only its first {len(member.states)} states are drawn" if member.states_hidden else ""
    known = (cut, member.coverage, member.client, f"{member.protocol} {member.version}".strip())
    return {
        "what": what,
        "label": wording.name(member.member),
        "note": " · ".join(wording.name(part) for part in known if part),
        "number": number,
        "hurt": any(shades.family(span.state) == "bad" for span in member.states),
        "states": [[wording.name(s.state), s.start_ms, s.end_ms] for s in member.states],
        "marks": [
            [m.ts_ms, wording.name(m.kind), shades.glyph(m.kind), wording.show(m.text, 200)] for m in member.marks
        ],
        "target": list(map(_show_span, member.target)),
        "current": list(map(_show_span, member.current)),
    }


def _show_span(span: AssignedSpan) -> list[Any]:
    shade = _SHADES.get(span.state, "")
    texts = (wording.name(text) for text in (span.state, span.epoch, span.partitions, span.giving_up))
    return [span.start_ms, span.end_ms, shade, span.size, *texts]


def group_alike(partitions: Iterable[PartitionView]) -> list[list[PartitionView]]:
    """Groups of partitions of one topic with the same history: those with findings first, by topic and number."""
    found: dict[tuple[object, ...], list[PartitionView]] = {}
    for p in sorted(partitions, key=lambda p: (not (p.gaps or p.overlaps), p.topic, p.partition)):
        history = (p.spans, p.spans_hidden, p.gaps, p.overlaps, p.waits)
        found.setdefault((p.topic, p.partition < 0, *history), []).append(p)
    return list(found.values())


def _partition_lane(same: Sequence[PartitionView], numbers: Mapping[str, int]) -> dict[str, Any]:
    first = same[0]
    label = f"{wording.name(first.topic)}-[{wording.numbers([p.partition for p in same])}]"
    if len(same) == 1:
        label = f"{wording.name(first.topic)}-{first.partition}"
    if first.partition < 0:
        label = f"connector {wording.name(first.topic)}"
    return {
        "what": "partition",
        "label": label,
        "note": f"only its first {len(first.spans)} owners are drawn" if first.spans_hidden else "",
        "count": len(same),
        "hurt": bool(first.gaps or first.overlaps),
        "owners": [[numbers[s.member], s.start_ms, s.end_ms, wording.name(s.ended)] for s in first.spans],
        "gaps": first.gaps,
        "overlaps": first.overlaps,
        "waits": list(_cut_to(first.waits, first.gaps)),
    }


def _cut_to(stretches: Iterable[Stretch], gaps: Iterable[Stretch]) -> Iterator[Stretch]:
    given = list(gaps)
    for stretch in stretches:
        for gap in given:
            start_ms, end_ms = max(stretch.start_ms, gap.start_ms), min(stretch.end_ms, gap.end_ms)
            if start_ms < end_ms:
                yield Stretch(start_ms, end_ms)
