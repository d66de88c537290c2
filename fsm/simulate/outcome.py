"""The outcome of a run: measures over time, hazards, violations, and the ground truth for evaluating an audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.cluster.cluster import STARTED_MS
from fsm.cluster.stale_uses import Change
from fsm.protocol.records import Record
from fsm.simulate.deployment import Deed
from fsm.simulate.writing import write_deed
from fsm.trace import TraceRecord

SLICES = 100
"""How often progress is reported."""
QUIET_MS = 60_000
"""The time without faults after the run until it is first checked whether a group has converged."""
PATIENCE = 6
"""How often that time doubles until a group that has not converged is reported."""

Progress = Callable[[str, float], None]


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
    """A violation."""

    at_ms: int
    what: str
    detail: str = ""


@dataclass
class GroupOutcome:
    """The outcome of one group."""

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
        found: dict[str, int] = {}
        for one in self.groups:
            for name, count in one.hazards.items():
                found[name] = found.get(name, 0) + count
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
