"""Compares two results of `fsm audit`, streamed from their tables group by group."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from fsm.audit.findings import Severity
from fsm.audit.group import Rebalance
from fsm.audit.incidents import Incident
from fsm.audit.report.group_views import Overview, trend
from fsm.errors import InputError
from fsm.render.report.compare import Change, Comparison, Counts, Side
from fsm.spark import pipeline
from fsm.spark.result import MARK
from fsm.spark.tables import rows_of

CHANGES = 500
"""Most worse groups, and most better ones, on the page; the rest is counted."""
SHOWN = 6
"""Most kinds of incidents shown per group."""
_NEEDED = ("groups", "incidents", "rebalances")


@dataclass(frozen=True, slots=True)
class _Group:
    group: str
    counts: Counts
    incidents: Counter[tuple[str, str]]
    """Those above info, by kind and cause."""


def compare(before: Path, after: Path) -> Comparison:
    """The comparison of two folders with results. Raises `InputError` for no result, or one of an older version."""
    for folder in (before, after):
        _check(folder)
    worse, better = list[Change](), list[Change]()
    counts = Counter[str]()
    for change in _changes(_groups(before), _groups(after)):
        moved = _direction(change)
        counts[moved] += 1
        if moved == "same":
            continue
        kept = worse if moved == "worse" else better
        kept.append(change)
        if len(kept) > 2 * CHANGES:
            kept[:] = _most(kept, moved)
    return Comparison(
        _side(before),
        _side(after),
        _most(worse, "worse"),
        _most(better, "better"),
        counts["worse"],
        counts["better"],
        counts["same"],
    )


def _check(folder: Path) -> None:
    if not (folder / MARK).is_file():
        raise InputError("holds no result of an audit", str(folder), "give the folder of `fsm audit -o`")
    missing = [name for name in _NEEDED if not (folder / f"{name}.parquet").is_dir()]
    if missing:
        raise InputError(f"has no table {missing[0]}", str(folder), "audit the logs again with this version")


def _most(changes: list[Change], moved: str) -> list[Change]:
    if moved == "worse":
        return nlargest(CHANGES, changes, key=lambda one: (one.worse, one.group))
    return nlargest(CHANGES, changes, key=lambda one: (tuple(-n for n in one.worse), one.group))


def _direction(change: Change) -> str:
    """`worse`, `better` or `same`: by errors, then warnings, then new and gone incidents."""
    severe = change.worse[:2]
    if severe == (0, 0):
        return "worse" if change.came else "better" if change.went else "same"
    return "worse" if severe > (0, 0) else "better"


def _groups(folder: Path) -> Iterator[_Group]:
    """The groups of a result by name, with their incidents; some rows of each table are in memory."""
    by_group = groupby(pipeline.incidents(folder), key=attrgetter("group"))
    kinds_of_groups = ((group, _kinds(own)) for group, own in by_group)
    held = next(kinds_of_groups, None)
    for one in pipeline.overviews(folder):
        while held and held[0] < one.group:  # findings about files, and of groups without timestamps
            held = next(kinds_of_groups, None)
        yield _Group(one.group, _counts(one), held[1] if held and held[0] == one.group else Counter())


def _kinds(incidents: Iterable[Incident]) -> Counter[tuple[str, str]]:
    return Counter((one.kind.value, one.cause.value) for one in incidents if one.severity is not Severity.INFO)


def _counts(one: Overview) -> Counts:
    return Counts(one.errors, one.warnings, one.rebalances, one.partitions_moved, one.members)


def _changes(before: Iterator[_Group], after: Iterator[_Group]) -> Iterator[Change]:
    """A change for every group of either result, by name."""
    one, other = next(before, None), next(after, None)
    while one or other:
        first = min(group.group for group in (one, other) if group)
        old = one if one and one.group == first else None
        new = other if other and other.group == first else None
        had, has = (group.incidents if group else Counter[tuple[str, str]]() for group in (old, new))
        was, now = (group.counts if group else None for group in (old, new))
        yield Change(first, was, now, _count_by_kind(has - had), _count_by_kind(had - has))
        one, other = (next(before, None) if old else one), (next(after, None) if new else other)


def _count_by_kind(kinds: Counter[tuple[str, str]]) -> tuple[tuple[str, str, int], ...]:
    most = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    return tuple((kind, cause, count) for (kind, cause), count in most)


def _side(folder: Path) -> Side:
    document = _head(folder / MARK)
    inputs, metrics = document["inputs"], document["metrics"]
    kinds = {(one["severity"], one["kind"]): one["count"] for one in metrics["findings"]}
    errors, warnings = (sum(n for (severity, _), n in kinds.items() if severity == s) for s in ("error", "warning"))
    groups = members = 0
    for one in pipeline.overviews(folder):
        groups += 1
        members += one.members
    rebalances = metrics["rebalances"]
    return Side(
        str(folder),
        inputs["start_ms"] or 0,
        inputs["end_ms"] or 0,
        Counts(errors, warnings, rebalances["count"], rebalances["moved"], members),
        groups,
        kinds,
        rebalances["longest_unowned_ms"],
        rebalances["median_ms"],
        trend(chain.from_iterable(rows_of(folder, "rebalances", Rebalance)), ()),
    )


def _head(path: Path) -> dict[str, Any]:
    """The bounded parts of a document, each of which is on a line of its own."""
    head: dict[str, Any] = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith('{"inputs": '):
                    head |= json.loads(line.rstrip().rstrip(",") + "}")
                elif line.startswith('"metrics": '):
                    head |= json.loads("{" + line)
        return {name: head[name] for name in ("inputs", "metrics")}
    except (KeyError, ValueError):
        raise InputError(
            "is not the document of an audit", str(path), "audit the logs again with this version"
        ) from None
