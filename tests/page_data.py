"""What a report holds for its script, in the page and in the files beside it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fsm.render.report.details import pack
from fsm.render.report.folder import write_group, write_page
from fsm.render.timeline.views import FindingView, GroupView, Report

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Whole(Report):
    """A report with its groups and findings."""

    findings: tuple[FindingView, ...] = ()
    groups: tuple[GroupView, ...] = ()


def render(report: Whole) -> str:
    """The page of a report that is small enough to be one."""
    by_group: dict[str, list[FindingView]] = {view.group: [] for view in report.groups}
    for found in report.findings:
        by_group.setdefault(found.group, []).append(found)
    views = {view.group: view for view in report.groups}
    with TemporaryDirectory() as folder:
        for group, own in by_group.items():
            view = views.get(group) or GroupView(group, report.start_ms, report.end_ms)
            write_group(Path(folder), pack(view, own))
        write_page(Path(folder), report, top=12)
        return (Path(folder) / "report.html").read_text(encoding="utf-8")


def data(html: str) -> tuple[Document, Document]:
    """What the page's script starts from, and the pieces of groups that the page holds, by their names."""
    found = re.findall(r'<script type="application/json" ([^>]*)>(.*?)</script>', html, re.DOTALL)
    (summary,) = (json.loads(text) for named, text in found if named == 'id="summary-data"')
    pieces = {named.split('"')[1]: json.loads(text) for named, text in found if named.startswith("data-piece")}
    return summary, pieces


def beside(out: Path, name: str) -> Any:
    """What a file beside the page hands to it."""
    call, _, text, end = (out / "report" / f"{name}.js").read_text(encoding="utf-8").split("\n")
    assert (call, end) == (f'rebalanceReport.take("{name}",', "")
    return json.loads(text.removesuffix(");"))


def groups_of(out: Path) -> dict[str, Document]:
    """Everything that a report says of its groups: entries with their findings and lanes, all pieces together."""
    summary, pieces = data((out / "report.html").read_text(encoding="utf-8"))
    for path in sorted(out.glob("report/*.js")):
        pieces.setdefault(path.stem, beside(out, path.stem))
    groups = {}
    for entry in summary["entries"]:
        details = pieces[entry["key"]]
        for what, count in details["pieces"].items():
            for i in range(count):
                details[what] += pieces[f"{entry['key']}-{what}{i + 1}"]
        groups[entry.get("group", "")] = details | {"rebalances": 0} | entry
    return groups
