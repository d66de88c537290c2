"""One HTML page about one audit, for an operator at three in the morning.

The page needs no network, and no other file for a small result; the groups of a large one are files beside it
(`folder.py`). Its texts may come from anyone who can write a log line, so every text passes one function
(`Environment.finalize` below, `details.py` for data) that bounds its length and escapes invisible characters, and then
jinja2's escaping, or the script that makes text nodes. A content security policy allows only this page's own style, its
one script, by hash, and the files beside it. The size of the page is bounded for any input.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import nsmallest
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fsm.errors import InputError
from fsm.render import wording
from fsm.render.report import glossary
from fsm.render.report.details import SEVERITIES, badness, dump
from fsm.render.tables.svg import draw_counted
from fsm.render.timeline import shades
from fsm.render.timeline.trend import Trend
from fsm.render.timeline.views import EdgeCount, MachineView, Report

if TYPE_CHECKING:
    from jinja2 import Environment

ENTRIES_BUDGET = 1_600_000
ROWS_BUDGET = 400_000
DETAILS_BUDGET = 1_000_000
MACHINES_BUDGET = 300_000
"""The approximate sizes of the parts of a page; the total stays below 3 MB."""
MOST_ENTRIES = 8_000
MOST_ROWS = 400
"""The maximum number of incidents in a list, of which other lists have half; the rest is counted, or loaded
from files.
"""
_SCRIPTS = ("words", "load", "timeline", "axis", "lanes", "incident", "group", "filters", "report")
_LISTED = 100
"""The number of incidents listed without a script."""


@dataclass(slots=True)
class Index:
    """The groups in the page itself: the worst ones, up to a limit."""

    groups: int = 0
    members: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    severities: Counter[str] = field(default_factory=Counter)
    """The number of incidents by severity, in the index or not."""
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The same by kind and severity; an incident has several kinds."""
    names: dict[str, Any] = field(default_factory=dict)
    """By key; empty if they are in files beside the page."""
    all_entries: int = 0
    all_rows: int = 0
    """The number of added rows, in the page or not."""
    trend: Trend = field(default_factory=Trend)
    """The trend of all groups, if the report has none."""
    shards: int = 0
    """The number of files of the rest of the index."""

    def add(self, index: Mapping[str, Any]) -> None:
        """Adds a group."""
        entry = index["entry"]
        if index.get("trend"):
            self.trend.merge(Trend.from_json(index["trend"]))
        self.groups += bool(entry.get("group"))
        self.members += entry.get("members", 0)
        self.entries.append(entry)
        self.severities.update(entry.get("incidents", {}))
        for severity, kinds in entry.get("kinds", {}).items():
            self.kinds.update({(kind, severity): count for kind, count in kinds.items()})
        rows = [{"key": entry["key"], "group": entry.get("group", ""), **row} for row in index["rows"]]
        self.all_entries += 1
        self.all_rows += len(rows)
        self.rows += rows
        if len(self.entries) > 2 * MOST_ENTRIES or len(self.rows) > 20 * MOST_ROWS:
            self._prune()

    def finish(self) -> None:
        """Drops rows that do not fit on the page."""
        self._prune()
        self.entries = list(_fit(self.entries, ENTRIES_BUDGET))
        self.rows = list(_fit(self.rows, ROWS_BUDGET))

    def _prune(self) -> None:
        self.entries = nsmallest(MOST_ENTRIES, self.entries, key=_rank)
        self.rows = nsmallest(MOST_ROWS, self.rows, key=_badness)

    @property
    def whole(self) -> bool:
        """Whether all added rows are on the page."""
        return len(self.entries) == self.all_entries and len(self.rows) == self.all_rows


def _fit(items: Iterable[dict[str, Any]], room: int) -> Iterator[dict[str, Any]]:
    for item in items:
        room -= len(dump(item)) + 1
        if room < 0:
            return
        yield item


def _rank(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """The sort key of groups, worst first."""
    counts = [entry.get("incidents", {}).get(severity, 0) for severity in SEVERITIES]
    return *(-count for count in counts), -entry.get("rebalances", 0), entry.get("group", ""), entry["key"]


def _badness(row: Mapping[str, Any]) -> tuple[Any, ...]:
    kind, still = next(iter(row.get("kinds", ())), ""), row.get("still", False)
    return *badness(row["severity"], kind, row["start"], row["end"], still=still), row["group"], row["start"], row["id"]


def compose(report: Report, index: Index, inline: Mapping[str, str], refresh_s: int = 0) -> str:
    """The page from its parts: `inline` are details by file name; other ones are loaded.

    The same parts give the same bytes. Raises `InputError` without jinja2.
    """
    page = environment().get_template("report.html")
    return page.render(_context(report, index, inline, refresh_s))


def summary(report: Report, index: Index) -> dict[str, Any]:
    """The initial data of the script, which a page that refreshes itself reloads."""
    kinds = sorted(index.kinds.items(), key=lambda one: (SEVERITIES.index(one[0][1]), -one[1], one[0][0]))
    return {
        "verdict": _verdict(report, index),
        "read": _read(report, index),
        "end": report.end_ms,
        "severities": index.severities,
        "totals": [[*names, count] for names, count in kinds[:MOST_ROWS]],
        "groups": index.groups,
        "incidents": index.severities.total(),
        "entries": index.entries,
        "rows": index.rows,
        "names": index.names,
        "shards": index.shards,
        "trend": trend.to_json() if (trend := _trend(report, index)) else None,
    }


def _trend(report: Report, index: Index) -> Trend | None:
    """The trend of the report, else the sum over groups."""
    return report.trend or (index.trend if index.trend.steps else None)


def environment() -> Environment:
    """jinja2 with the package's templates, escaping and filters. Raises `InputError` if it is missing."""
    try:
        import jinja2
    except ImportError:
        raise InputError(
            "the report needs the jinja2 package", remedy="in a checkout: pip install '.[spark]'"
        ) from None

    def visible(value: Any) -> Any:
        is_text = isinstance(value, str) and not hasattr(value, "__html__")
        return wording.show(value) if is_text else value

    loader = jinja2.FunctionLoader(template)
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        finalize=visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {f.__name__: f for f in (wording.name, wording.utc, wording.lasting, wording.size)},
        number="{:,}".format,
        many=wording.many,
        words=_words,
    )
    return environment


def template(name: str) -> str:
    """The text of a template, a style sheet or a script of this package."""
    return (files("fsm.render.report") / "templates" / name).read_text(encoding="utf-8")


def load_assets(*scripts: str) -> dict[str, Any]:
    """The style and the one script of a page, with the script's hash for the content security policy."""
    from markupsafe import Markup

    script = "".join(template(f"{name}.js") for name in scripts)
    return {
        "style": Markup(template("report.css")),  # noqa: S704  the package's own file
        "script": Markup(script),  # noqa: S704  the package's own files
        "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
    }


def _words(kind: str) -> str:
    """The readable form of `double_ownership`."""
    return wording.name(kind).replace("_", " ")


def _context(report: Report, index: Index, inline: Mapping[str, str], refresh_s: int) -> dict[str, Any]:
    from markupsafe import Markup

    machines = list(_machines(report.machines))
    document = summary(report, index) | {
        "kinds": glossary.KINDS,
        "causes": glossary.CAUSES,
        "glyphs": shades.GLYPHS,
        "refresh": refresh_s,
    }
    beside = refresh_s > 0 or index.shards > 0
    return {
        "report": report,
        "inputs": report.inputs,
        "verdict": _verdict(report, index),
        "read": _read(report, index),
        "listed": [row | {"facts": list(_facts(row))} for row in index.rows[:_LISTED]],
        "beyond": index.severities.total() - len(index.rows[:_LISTED]),
        "machines": machines,
        "machines_hidden": len(report.machines) - len(machines),
        "glyphs": [(shades.GLYPHS[g], g, shades.GLYPH_NAMES[g]) for g in shades.GLYPHS],
        "shades": [f"{family}{i}" for family, n in shades.SHADES.items() for i in range(n)],
        "rows": MOST_ROWS // 2,
        "refresh": refresh_s,
        "over_time": _trend(report, index) is not None,
        "markup": Markup,
        **load_assets(*_SCRIPTS),
        "scripts_beside": Markup(" 'self' file:") if beside else "",
        "data": Markup(dump(document)),  # noqa: S704  no < is left in it
        "inline": [(name, Markup(text)) for name, text in inline.items()],  # noqa: S704  likewise
    }


def _facts(row: Mapping[str, Any]) -> Iterator[str]:
    """Whose incident it is, when, why and where, as the script tells them in a list."""
    members, since_ms = row.get("members", []), row["start"]
    if row["group"]:
        yield f"group {row['group']}"
    if members:
        more = len(members) + row.get("members_hidden", 0) - 3
        yield f"members {', '.join(members[:3])}" + (f" and {more:,} more" if more > 0 else "")
    if row["end"]:
        yield f"since {wording.utc(since_ms)[:19]} UTC"
    if row["end"] > since_ms:
        yield f"for {wording.lasting(row['end'] - since_ms)}" + (" and still so" if row.get("still") else "")
    if row.get("cause"):
        yield f"cause {_words(row['cause'])}"
    if row.get("place"):
        yield row["place"]


def _verdict(report: Report, index: Index) -> tuple[str, str]:
    """(class, headline)."""
    errors, warnings = index.severities["error"], index.severities["warning"]
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
    if report.inputs.shared_client_ids:
        return "blind", "No error is certain: consumers share a client id in one file"
    if count := report.inputs.timeless_files:
        files = wording.many(count, "file tells", "files tell")
        return "blind", f"No verdict on double ownership: {files} no time"
    if count := report.inputs.ownerless_groups:
        which = "its partitions" if index.groups == 1 else f"the partitions of {wording.many(count, 'group')}"
        return "blind", f"No verdict on ownership: no line tells who owned {which}"
    if count := len(report.inputs.unreadable) + report.inputs.unreadable_hidden:
        files = wording.many(count, "file was", "files were")
        return "blind", f"Nothing is wrong in what was read, but {files} not read, or not to the end"
    return "good", "Nothing is wrong in what these logs show"


def _read(report: Report, index: Index) -> str:
    """The input, its clients and its time, in a sentence."""
    inputs, many = report.inputs, wording.many
    whose = f"{many(inputs.records, 'record')} of {many(index.members, 'member')} in {many(index.groups, 'group')}"
    where = f"{many(inputs.lines, 'line')} in {many(inputs.files, 'file')} ({wording.size(inputs.bytes)})"
    if not inputs.records:
        return f"{whose}, from {where}."
    if not (report.start_ms or report.end_ms):
        return f"{whose}, from {where}, none of which has a time."
    lasted = wording.lasting(max(0, report.end_ms - report.start_ms))
    return f"{whose}, from {where}; {wording.utc(report.start_ms)} to {wording.utc(report.end_ms)} UTC, {lasted}."


def _machines(machines: Iterable[MachineView]) -> Iterator[dict[str, Any]]:
    """Machines whose tables fit, with their drawings as far as these fit."""
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
    most = MOST_ROWS // 2
    edges = sorted(machine.edges, key=lambda e: (not e.illegal, -e.count, e.state, e.next_state))
    return {
        "name": machine.name,
        "edges": edges[:most],
        "hidden": max(0, len(edges) - most),
        "dwell": machine.dwell[:most],
        "steps": sum(edge.count for edge in edges),
        "illegal": sum(edge.count for edge in edges if edge.illegal),
    }


def _traffic(edges: Iterable[EdgeCount]) -> dict[tuple[str, str], int]:
    counts: Counter[tuple[str, str]] = Counter()
    for edge in edges:
        counts[wording.name(edge.state), wording.name(edge.next_state)] += edge.count
    return counts
