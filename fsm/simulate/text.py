"""Outcomes of runs as text: of one run, of two side by side, of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fsm.simulate.machines.watch import name_measure
from fsm.simulate.outcome import Outcome
from fsm.simulate.values import show_ms

NAMES = {
    "unowned_ms": "partitions without an owner, partition-seconds",
    "longest_unowned_ms": "longest time of one without an owner, seconds",
    "shared_ms": "partitions with two users, partition-seconds",
    "moves": "partitions that moved to another member",
    "rebalances": "rebalances (group epochs, generations)",
    "heartbeats": "heartbeats",
    "requests": "requests to coordinators",
}


def name_all(measures: Iterable[str]) -> dict[str, str]:
    """Measures in words, in display order; without hidden ones."""
    given = list(measures)
    if any(name in NAMES for name in given):
        return {name: words for name, words in NAMES.items() if name in given}
    roles = list(dict.fromkeys(name.rpartition(".")[0] for name in given))
    return {name: name_measure(name) for role in roles for name in given if name.rpartition(".")[0] == role}


def show(name: str, value: float) -> str:
    """The text of a measure; milliseconds are shown as seconds."""
    return f"{value / 1_000:,.1f}" if name.endswith("_ms") else f"{value:,.0f}"


def report(outcome: Outcome) -> str:
    """One run."""
    return "\n".join(_report(outcome)) + "\n"


def _report(outcome: Outcome) -> Iterator[str]:
    groups = ", ".join(one.group for one in outcome.groups)
    head = f"{outcome.deployment}: {show_ms(outcome.lasts_ms)} of virtual time, seed {outcome.seed}"
    yield f"{head}; {outcome.made_of}: {groups}"
    faults: dict[str, int] = {}
    for deed in outcome.deeds:
        faults[deed.what] = faults.get(deed.what, 0) + 1
    if faults:
        yield "what happened: " + ", ".join(f"{count} {what}" for what, count in sorted(faults.items()))
    totals = outcome.totals()
    for name, words in name_all(totals).items():
        yield f"  {show(name, totals[name]):>14}  {words}"
    yield from format_judgement(outcome.hazards(), outcome.violations)


def format_judgement(hazards: Mapping[str, int], violations: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """The hazards and the violations."""
    for name, count in hazards.items():
        yield f"known hazard: {name} ({count} times)"
    for group, violation in violations:
        detail = f": {violation.detail}" if violation.detail else ""
        yield f"VIOLATED at {show_ms(violation.at_ms)} in {group}: {violation.what}{detail}"
    if not violations:
        yield "every invariant held"


def side_by_side(names: tuple[str, str], sides: tuple[Mapping[str, float], Mapping[str, float]], runs: int) -> str:
    """Two variants of a deployment: sums over their runs, and the ratio of the second to the first."""
    width = max(12, *map(len, names))
    lines = [f"over {runs} run{'s' if runs > 1 else ''}", f"  {names[0]:>{width}}  {names[1]:>{width}}   ratio"]
    measures = name_all(dict.fromkeys([*sides[0], *sides[1]]))
    for name, words in (measures if measures.keys().isdisjoint(NAMES) else NAMES).items():
        first, second = (side.get(name, 0) for side in sides)
        ratio = f"{second / first:7.2f}" if first else "      -" if second else "   1.00"
        lines.append(f"  {show(name, first):>{width}}  {show(name, second):>{width}}  {ratio}  {words}")
    return "\n".join(lines) + "\n"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows as columns of text, the last one a column of words."""
    given = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in given) for i in range(len(given[0]) - 1)]
    return "".join("  ".join([*map(str.rjust, row, widths), row[-1]]).rstrip() + "\n" for row in given)
