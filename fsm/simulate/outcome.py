"""The outcome of a run: measures over time, hazards, violations, and the ground truth for evaluating an audit.

As text: of one run, of two side by side, of many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.cluster.cluster import STARTED_MS
from fsm.cluster.stale_uses import Change
from fsm.protocol.records import Record
from fsm.simulate.deployment import Deed
from fsm.simulate.machines.watch import name_measure
from fsm.simulate.values import show_ms
from fsm.simulate.writing import write_deed
from fsm.trace import TraceRecord

SLICES = 100
"""How often progress is reported."""
QUIET_MS = 60_000
"""The time without faults after the run until it is first checked whether a group has converged."""
PATIENCE = 6
"""How often that time doubles until a group that has not converged is reported."""

Progress = Callable[[str, float], None]


def run_to_end(run: Callable[[int], object], lasts_ms: int, name: str, progress: Progress | None) -> None:
    """Calls `run` with one instant after the other up to the end, and reports the progress of each."""
    for part in range(1, SLICES + 1):
        run(lasts_ms * part // SLICES)
        if progress is not None:
            progress(name, part / SLICES)


class Stored(NamedTuple):
    """A batch of records that a coordinator appended to its log."""

    at_ms: int
    stamp_ms: int
    """On the broker's clock."""
    records: tuple[Record, ...]


class Changed(NamedTuple):
    """A step of a coordinator that changed its group."""

    group: str
    at_ms: int
    change: Change


class Violation(NamedTuple):
    at_ms: int
    what: str
    detail: str = ""


@dataclass
class GroupOutcome:
    group: str
    totals: dict[str, Any]
    series: dict[str, list[int]]
    hazards: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


@dataclass
class Outcome:
    """The outcome of one run."""

    deployment: str
    seed: int
    lasts_ms: int
    width_ms: int
    """The length of a part of a series."""
    groups: list[GroupOutcome]
    deeds: tuple[Deed, ...] = ()
    made_of: str = "groups"

    @property
    def violations(self) -> list[tuple[str, Violation]]:
        """The violations of all groups, each with its group."""
        return [(one.group, violation) for one in self.groups for violation in one.violations]

    def totals(self) -> dict[str, Any]:
        """The measures of all groups together."""
        found: dict[str, Any] = {}
        for one in self.groups:
            for name, value in one.totals.items():
                found[name] = max(found.get(name, 0), value) if name in LONGEST else found.get(name, 0) + value
        return found

    def hazards(self) -> dict[str, int]:
        """The counts of known hazards."""
        found = sum((Counter(one.hazards) for one in self.groups), Counter[str]())
        return dict(sorted(found.items()))

    def as_document(self) -> dict[str, Any]:
        """The outcome as a JSON document."""
        return {
            "deployment": self.deployment,
            "seed": self.seed,
            "lasts_ms": self.lasts_ms,
            "width_ms": self.width_ms,
            "totals": self.totals(),
            "hazards": self.hazards(),
            "violations": [{"group": group, **violation._asdict()} for group, violation in self.violations],
            "groups": [
                {"group": one.group, "totals": one.totals, "hazards": one.hazards, "series": one.series}
                for one in self.groups
            ],
        }


LONGEST = frozenset({"longest_unowned_ms"})
"""Measures of which the largest counts."""


@dataclass
class Truth:
    """The ground truth, for evaluating an audit of the trace."""

    records: list[TraceRecord] = field(default_factory=list)
    held: list[dict[str, Any]] = field(default_factory=list)
    doubles: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    """By topic."""
    stored: list[Stored] = field(default_factory=list)
    """The records that coordinators wrote."""
    changes: list[Changed] | None = None
    """The steps of coordinators, if a list is given."""


def trace_lines(truth: Truth) -> str:
    """The records of all clients as JSON lines with the times of their clocks, for `fsm audit --format trace`."""
    records = sorted(truth.records, key=lambda one: one.ts_ms)
    return "".join(record.to_json() + "\n" for record in records)


def truth_document(outcome: Outcome, truth: Truth) -> dict[str, Any]:
    """The faults and their results; instants are epoch milliseconds, as in the trace."""
    held, gaps, doubles = ([_on_clocks(one) for one in kind] for kind in (truth.held, truth.gaps, truth.doubles))
    return {
        "deployment": outcome.deployment,
        "seed": outcome.seed,
        "started_ms": STARTED_MS,
        "faults": [{"at_ms": deed.at_ms + STARTED_MS, **write_deed(deed)} for deed in outcome.deeds],
        "held": held,
        "without_owner": gaps,
        "two_users": doubles,
    }


def _on_clocks(one: dict[str, Any]) -> dict[str, Any]:
    """The interval with instants in epoch milliseconds."""
    return {key: value + STARTED_MS if key.endswith("_ms") else value for key, value in one.items()}


# As text


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
    faults = Counter(deed.what for deed in outcome.deeds)
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
