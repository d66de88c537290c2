"""`audit.json`: the result as one JSON document, streamed, in a fixed order.

{"inputs": {...}, "groups": [...], "incidents": [...], "findings": [...], "metrics": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from fsm.audit.findings import Finding
from fsm.audit.incidents import Incident
from fsm.audit.report.group_views import Overview


def write(
    path: Path,
    inputs: Mapping[str, Any],
    metrics: Mapping[str, Any],
    groups: Iterable[Overview],
    *,
    incidents: Iterable[Incident],
    findings: Iterable[Finding],
    coordinators: bool,
) -> None:
    """Writes the document. Members without logs are counted only if there are records of coordinators."""
    with path.open("w", encoding="utf-8") as out:
        out.write('{"inputs": ' + json.dumps(inputs))
        _list(out, "groups", (_group(one, coordinators=coordinators) for one in groups))
        _list(out, "incidents", (one.to_json() for one in incidents))
        _list(out, "findings", (one.to_json() for one in findings))
        out.write(',\n"metrics": ' + json.dumps(metrics) + "}\n")


def _list(out: TextIO, name: str, items: Iterable[Mapping[str, Any]]) -> None:
    out.write(f',\n"{name}": [')
    out.writelines((",\n " if number else "\n ") + json.dumps(item) for number, item in enumerate(items))
    out.write("]")


def _group(one: Overview, *, coordinators: bool) -> Mapping[str, Any]:
    document = asdict(one)
    if not coordinators:
        del document["members_without_logs"]
    return document
