"""One HTML page about one audit, for an operator at three in the morning.

The page needs nothing beside itself: no network, no script to be readable, no fonts. What it shows may have been
written by anyone who can write a log line, so every text passes one door (`Environment.finalize` below) that bounds
it and makes it visible, and then jinja2's escaping; a content policy forbids the browser everything but this page's
own style and its one script, by hash. The page is bounded whatever is put in; what is left out is counted.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fsm.errors import InputError
from fsm.render import wording
from fsm.render.report import glossary
from fsm.render.tables.svg import draw_counted
from fsm.render.timeline import shades
from fsm.render.timeline.chart import SEVERITIES, Chart, Numbered, draw_chart, draw_close_up, number_members
from fsm.render.timeline.views import EdgeCount, FindingView, GroupView, KindTotal, MachineView, Report

if TYPE_CHECKING:
    from jinja2 import Environment

FINDINGS_BUDGET = 1_200_000
CHARTS_BUDGET = 1_000_000
CLOSE_UPS_BUDGET = 200_000
MACHINES_BUDGET = 300_000
"""Bytes that the parts of a page may take, about; the whole stays below 3 MB."""
MOST_CLOSE_UPS = 60
MOST_GROUPS = 200
MOST_SHARES = 5
"""Into how many parts the room for timelines is divided at most."""
MOST_REBALANCES = 60
MOST_ROWS = 200
"""Longest table of anything else; the rest is counted."""
MOST_EVIDENCE = 8
MOST_STATES = 40
"""Longest legend of states."""
_OPEN_GROUPS = 5
_OPEN_FINDINGS = 3


@dataclass(frozen=True, slots=True)
class _Group:
    """A group as the page shows it."""

    number: int
    view: GroupView
    findings: tuple[Numbered, ...]
    chart: Chart | None
    """None where there is no room left for it."""
    states: tuple[tuple[str, str], ...]
    """(state, class) of the states that appear, for the legend."""

    @property
    def unread(self) -> int:
        """Members that only the coordinator names."""
        return len(self.view.unlogged) + self.view.unlogged_hidden

    def count(self, severity: str) -> int:
        return sum(n.severity == severity for n in self.findings)


def render(report: Report) -> str:
    """The page. The same report gives the same bytes. Raises `InputError` where jinja2 is not installed."""
    page = _environment().get_template("report.html")
    return page.render(_context(report))


def _environment() -> Environment:
    try:
        import jinja2
    except ImportError:
        raise InputError(
            "the report needs the jinja2 package", remedy="in a checkout: pip install '.[spark]'"
        ) from None

    def visible(value: Any) -> Any:
        is_text = isinstance(value, str) and not hasattr(value, "__html__")
        return wording.show(value) if is_text else value

    loader = jinja2.FunctionLoader(_template)
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        finalize=visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {
            f.__name__: f
            for f in (wording.name, wording.utc, wording.clock, wording.lasting, wording.span, wording.size)
        },
        number="{:,}".format,
        many=wording.many,
        words=_words,
    )
    return environment


def _template(name: str) -> str:
    return (files("fsm.render.report") / "templates" / name).read_text(encoding="utf-8")


def _words(kind: str) -> str:
    """`double_ownership` as a reader says it."""
    return wording.name(kind).replace("_", " ")


def _context(report: Report) -> dict[str, Any]:
    from markupsafe import Markup

    numbered = [Numbered(i, found) for i, found in enumerate(report.findings, 1)]
    kept = list(_fit(numbered))
    total = sum(kind.count for kind in report.findings_total) or len(numbered)
    groups = _groups(report, kept)
    charts = [g for g in groups if g.chart]
    machines = list(_machines(report.machines))
    script = _template("report.js")
    return {
        "report": report,
        "inputs": report.inputs,
        "verdict": _verdict(report),
        "counts": [(severity, _total(report, severity)) for severity in SEVERITIES],
        "kinds": _kinds(report),
        "findings": [(s, [n for n in kept if n.severity == s]) for s in SEVERITIES],
        "findings_hidden": max(0, total - len(kept)),
        "groups": groups,
        "groups_hidden": report.groups_hidden + len(report.groups) - len(groups),
        "charts": charts,
        "charts_hidden": report.groups_hidden + len(report.groups) - len(charts),
        "by_group": {g.view.group: g for g in groups},
        "close_ups": _close_ups(kept, groups),
        "machines": machines,
        "machines_hidden": len(report.machines) - len(machines),
        "waits": any(p.waits for g in report.groups for p in g.partitions),
        "assigned": any(m.target or m.current for g in report.groups for m in (*g.members, *g.unlogged)),
        "meanings": glossary.KINDS,
        "causes": glossary.CAUSES,
        "glyphs": [(shades.GLYPHS[g], g, shades.GLYPH_NAMES[g]) for g in shades.GLYPHS],
        "shades": [f"{family}{i}" for family, n in shades.SHADES.items() for i in range(n)],
        "members": sum(len(g.members) + g.members_hidden for g in report.groups),
        "rows": MOST_ROWS,
        "rebalances": MOST_REBALANCES,
        "open_findings": _OPEN_FINDINGS,
        "open_groups": _OPEN_GROUPS,
        "evidence": MOST_EVIDENCE,
        "markup": Markup,
        "style": Markup(_template("report.css")),  # noqa: S704  the package's own file
        "script": Markup(script),  # noqa: S704  the package's own file
        "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
    }


def _fit(found: Iterable[Numbered]) -> Iterator[Numbered]:
    """The first findings that fit on the page."""
    left = FINDINGS_BUDGET
    for n in found:
        left -= 900 + sum(map(_cost, _texts(n.finding)))
        if left < 0:
            return
        yield n


def _texts(found: FindingView) -> Iterator[str]:
    yield from (found.kind, found.group, found.member, found.partitions, found.summary)
    for line in found.evidence[:MOST_EVIDENCE]:
        yield from (line.file, line.text)


def _cost(text: str) -> int:
    return len(escape(wording.show(text)).encode())


def _total(report: Report, severity: str) -> int:
    return sum(kind.count for kind in report.findings_total if kind.severity == severity)


def _kinds(report: Report) -> list[KindTotal]:
    """Kinds with their counts, the worst severity first and then the most frequent."""
    rank = {severity: i for i, severity in enumerate(SEVERITIES)}
    return sorted(report.findings_total, key=lambda k: (rank.get(k.severity, 3), -k.count, k.kind))[:MOST_ROWS]


def _verdict(report: Report) -> tuple[str, str]:
    """(class, headline)."""
    errors, warnings = _total(report, "error"), _total(report, "warning")
    if not report.enough:
        inputs = report.inputs
        count = inputs.too_little_files if inputs.files > 1 else 0
        files = f", too little in {wording.many(count, 'file')}" if count else ""
        return "blind", f"Not enough was understood: {inputs.share} of what clients say{files}"
    if errors:
        more = f" and {wording.many(warnings, 'warning')}" if warnings else ""
        return "error", wording.many(errors, "error") + more
    if warnings:
        return "warning", f"No errors, {wording.many(warnings, 'warning')}"
    if not report.inputs.records:
        return "blind", "Nothing was recognised: this says nothing about the group"
    return "good", "Nothing is wrong in what these logs show"


def _groups(report: Report, findings: Sequence[Numbered]) -> list[_Group]:
    """Groups with their findings, and with their charts while there is room.

    A group gets its share of the room that is left, at least a fifth: one large group does not hide all others, and
    the worst, which come first, do not become too small to be of use.
    """
    states = shades.state_classes(s.state for g in report.groups for m in g.members for s in m.states)
    by_group: dict[str, list[Numbered]] = {}
    for n in findings:
        by_group.setdefault(n.finding.group, []).append(n)
    room, shown = CHARTS_BUDGET, list[_Group]()
    for number, view in enumerate(report.groups[:MOST_GROUPS], 1):
        found = tuple(by_group.get(view.group, ()))
        used = sorted({s.state for m in view.members for s in m.states})[:MOST_STATES]
        beside = 3000 + 250 * min(MOST_REBALANCES, len(view.rebalances))
        share = room // min(len(report.groups) - number + 1, MOST_SHARES) - beside
        drawn = draw_chart(view, found, number_members(view, states), share) if share > 0 else None
        room -= drawn.size + beside if drawn else 0
        shown.append(_Group(number, view, found, drawn, tuple((s, states[s]) for s in used)))
    return shown


def _close_ups(findings: Iterable[Numbered], groups: Iterable[_Group]) -> dict[int, Chart]:
    """Number of a finding -> its surroundings, for the worst findings."""
    by_name = {g.view.group: g for g in groups}
    drawn: dict[int, Chart] = {}
    room = CLOSE_UPS_BUDGET
    for n in findings:
        group = by_name.get(n.finding.group)
        if group is None or group.chart is None or n.severity == "info":
            continue
        picture = draw_close_up(group.view, n, number_members(group.view, dict(group.states)))
        if picture is not None and picture.size <= room:
            drawn[n.number] = picture
            room -= picture.size
        if len(drawn) >= MOST_CLOSE_UPS:
            break
    return drawn


def _machines(machines: Iterable[MachineView]) -> Iterator[dict[str, Any]]:
    """Machines while there is room for their tables, with their drawing while there is room for that."""
    room = MACHINES_BUDGET
    for number, machine in enumerate(machines, 1):
        shown = _machine(machine)
        room -= 300 * (len(shown["edges"]) + len(shown["dwell"]) + 2)
        if room < 0:
            return
        drawing = draw_counted(machine.name, _traffic(shown["edges"]), f"d{number}-")
        size = len(drawing.encode())
        shown["svg"] = drawing if size <= room else ""
        room -= size if size <= room else 0
        yield shown


def _machine(machine: MachineView) -> dict[str, Any]:
    edges = sorted(machine.edges, key=lambda e: (not e.illegal, -e.count, e.state, e.next_state))
    return {
        "name": machine.name,
        "edges": edges[:MOST_ROWS],
        "hidden": max(0, len(edges) - MOST_ROWS),
        "dwell": machine.dwell[:MOST_ROWS],
        "steps": sum(edge.count for edge in edges),
        "illegal": sum(edge.count for edge in edges if edge.illegal),
    }


def _traffic(edges: Iterable[EdgeCount]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for edge in edges:
        pair = wording.name(edge.state), wording.name(edge.next_state)
        counts[pair] = counts.get(pair, 0) + edge.count
    return counts
