"""The HTML report of an audit without its groups: findings, incidents and totals, as `fsm.render.timeline.views`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fsm.audit.conformance import list_steps
from fsm.audit.findings import UNIT_KINDS, Finding, FindingKind
from fsm.audit.incidents import Incident
from fsm.audit.reading.certainty import TooLittle, Understood
from fsm.audit.wording import describe_shared, names, units
from fsm.reference.reports import describe
from fsm.render.report.details import Packed, pack
from fsm.render.timeline import views
from fsm.render.timeline.trend import Trend
from fsm.render.wording import many
from fsm.tables import ALL
from fsm.trace import Partition


def finding_view(found: Finding) -> views.FindingView:
    return views.FindingView(
        kind=found.kind.value,
        severity=found.severity.value,
        group=found.group,
        member=found.member,
        start_ms=found.start_ms,
        end_ms=found.end_ms,
        partitions=_show(found.kind, found.partitions),
        cause=found.cause.value,
        summary=found.summary,
        evidence=tuple(views.EvidenceLine(e.file, e.line, e.text, e.record) for e in found.evidence),
        id=found.id,
        others=found.others,
        topics=_topics([found]),
    )


def pack_group(view: views.GroupView, findings: Iterable[Finding], incidents: Iterable[Incident]) -> Packed:
    """A group as packed for the page, in the task that judged it: nothing of it has to go to the driver."""
    by_id = {one.id: one for one in findings}
    shown = [incident_view(one, by_id, view.end_ms) for one in incidents]
    return pack(view, list(map(finding_view, by_id.values())), shown)


def incident_view(incident: Incident, findings: Mapping[str, Finding], end_ms: int = 0) -> views.IncidentView:
    """An incident for the page; `findings` by id, `end_ms` is the end of its group's logs."""
    own = [findings[one] for one in incident.findings if one in findings]
    value = "" if incident.value is None else f" = {incident.value}"
    return views.IncidentView(
        id=incident.id,
        severity=incident.severity.value,
        kinds=tuple(dict.fromkeys([incident.kind.value, *(one.kind.value for one in own)])),
        members=incident.who,
        topics=_topics(own),
        start_ms=incident.since_ms,
        end_ms=max([end_ms, *(one.end_ms for one in own)]) if incident.until_ms is None else incident.until_ms,
        cause=incident.cause.value,
        sentence=incident.sentence,
        next_step=incident.next_step,
        setting=incident.setting and incident.setting + value,
        hazard=describe(incident.hazard) if incident.hazard else "",
        findings=incident.findings,
        still=incident.until_ms is None,
    )


def _topics(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(topic for found in findings for topic, _ in found.partitions))


def _show(kind: FindingKind, partitions: Sequence[Partition]) -> str:
    """Partitions, or connectors and tasks, as short text."""
    about_units = kind in (*UNIT_KINDS.values(), FindingKind.TASK_ZOMBIE) or any(n < 0 for _, n in partitions)
    return units(partitions) if about_units else names(partitions)


def report(read: Mapping[str, Any], metrics: Mapping[str, Any], trend: Trend, unknown_ends: int) -> views.Report:
    """The report without its groups; `read` and `metrics` are from the JSON document."""
    return views.Report(
        title="Rebalance audit",
        inputs=_inputs(read, unknown_ends),
        start_ms=read["start_ms"] or 0,
        end_ms=read["end_ms"] or 0,
        machines=tuple(_machines(metrics)),
        trend=trend,
        enough=read["enough"],
    )


_COUNTS = (
    "files", "bytes", "lines", "records", "orphans", "not_understood", "suspects", "too_little_files", "silent_files",
    "timeless_files", "gzipped_files", "ownerless_groups", "shared_client_ids",
)  # fmt: skip
"""Counts in the document that the report shows under the same names."""


def _inputs(read: Mapping[str, Any], unknown_ends: int) -> views.Inputs:
    understood = Understood(read["understood"], read["not_understood"] + read["suspects"])
    too_little = (TooLittle(**one) for one in read["too_little"])
    return views.Inputs(
        **{name: read[name] for name in _COUNTS},
        clients_said=understood.all,
        share=understood.percent,
        too_little=tuple((one.where, str(one.understood)) for one in too_little),
        silent=tuple(read["silent"]),
        learned=tuple(views.LearnedLayout(**one) for one in read["learned"]),
        not_learned=tuple((file, " | ".join(tried)) for file, *tried in read["not_learned"]),
        layouts=tuple(views.Count(*c) for c in read["layouts"].items()),
        levels=tuple(views.Count(*c) for c in read["levels"].items()),
        unreadable=tuple(views.Unreadable(*u) for u in read["unreadable"]),
        unreadable_hidden=read["unreadable_files"] - len(read["unreadable"]),
        shapes=tuple(views.Count(*c) for c in read["shapes"].items()),
        notes=tuple(_notes(read, unknown_ends)),
    )


def _notes(read: Mapping[str, Any], unknown_ends: int) -> Iterator[str]:
    if read["shared_client_ids"]:
        yield f"{describe_shared(read)}."
    if read["groupless_files"]:
        files = many(read["groupless_files"], "file")
        yield f"Not judged, since no line tells their group: records in {files}."
    java = any(layout.startswith("java/") for layout in read["layouts"])
    if java and "DEBUG" not in read["levels"]:
        yield (
            "The Java logs hold no DEBUG lines: new targets, the end of callbacks, commits and heartbeats cannot be "
            "seen, so the end of a revocation is the next step that needs it."
        )
    if read["gzipped_files"]:
        yield (
            f"One task each read {many(read['gzipped_files'], 'compressed file')}: a large one is as slow as one core."
        )
    if unknown_ends:
        yield (
            f"The logs of {many(unknown_ends, 'life', 'lives')} end without a close and nobody took their partitions "
            "over: whether they lived on is unknown, and what depends on it is reported one step less severe."
        )
    if read["older_results"]:
        yield f"Left out, since an audit wrote it: {', '.join(read['older_results'])}."
    if read["known_findings"]:
        yield f"Left out, since the baseline has them: {many(read['known_findings'], 'finding')}."
    if read["cut_lines"]:
        yield f"Cut at a mebibyte: {many(read['cut_lines'], 'line')}."


def _machines(metrics: Mapping[str, Any]) -> Iterator[views.MachineView]:
    for name in (table.name for table in ALL):
        edges = [(e["state"], e["next_state"], e["count"]) for e in metrics["transitions"] if e["machine"] == name]
        if edges:
            counts = tuple(views.EdgeCount(a, b, count, (a, b) not in list_steps(name)) for a, b, count in edges)
            dwell = [d for d in metrics["dwell"] if d["machine"] == name]
            columns = ("state", "visits", "median_ms", "p99_ms", "longest_ms")
            yield views.MachineView(name, counts, tuple(views.Dwell(*(d[c] for c in columns)) for d in dwell))
