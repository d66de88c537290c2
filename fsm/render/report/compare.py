"""One HTML page about two audits, before and after a change, with the differences by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.render.report import glossary
from fsm.render.report.page import MOST_ROWS, environment, load_assets
from fsm.render.timeline.trend import Trend

HOUR_MS = 3_600_000
_CHART = 360, 60
"""Width and height of a chart in pixels."""


class Counts(NamedTuple):
    """The numbers of findings in a group, or in all groups."""

    errors: int = 0
    warnings: int = 0
    rebalances: int = 0
    moved: int = 0
    """Partitions that moved to another member."""
    members: int = 0

    def worse_than(self, other: Counts) -> tuple[int, ...]:
        """The increase of each number, the most important first."""
        return tuple(one - before for one, before in zip(self[:4], other[:4], strict=True))


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two audits."""

    name: str
    start_ms: int
    end_ms: int
    counts: Counts
    groups: int
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
    """Findings by severity and kind."""
    longest_unowned_ms: int = 0
    median_ms: int = 0
    """The median duration of rebalances."""
    trend: Trend = field(default_factory=Trend)

    @property
    def hours(self) -> float:
        return max(1, self.end_ms - self.start_ms) / HOUR_MS


@dataclass(frozen=True, slots=True)
class Change:
    """A group with differences."""

    group: str
    before: Counts | None
    """None if the group did not exist."""
    after: Counts | None
    came: tuple[tuple[str, str, int], ...] = ()
    """Kind, cause and number of additional incidents."""
    went: tuple[tuple[str, str, int], ...] = ()

    @property
    def worse(self) -> tuple[int, ...]:
        return (self.after or Counts()).worse_than(self.before or Counts())


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two audits. Changes are listed worst first; the numbers count all of them."""

    before: Side
    after: Side
    worse: Sequence[Change]
    better: Sequence[Change]
    worse_count: int
    better_count: int
    same_count: int


def render_comparison(comparison: Comparison) -> str:
    """The page. The same comparison gives the same bytes. Raises `InputError` without jinja2."""
    page = environment().get_template("compare.html")
    return page.render(
        comparison=comparison,
        sides=(comparison.before, comparison.after),
        verdict=_verdict(comparison),
        rows=list(_rows(comparison)),
        kinds=sorted({*comparison.before.kinds, *comparison.after.kinds})[:MOST_ROWS],
        charts=list(_charts(comparison)),
        meanings=glossary.KINDS,
        **load_assets("compare"),
    )


def _verdict(comparison: Comparison) -> tuple[str, str]:
    """(class, headline)."""
    errors, warnings, *_ = comparison.after.counts.worse_than(comparison.before.counts)
    parts = [
        f"{abs(n):,} {'more' if n > 0 else 'fewer'} {what}"
        for n, what in ((errors, "errors"), (warnings, "warnings"))
        if n
    ]
    worse = (errors, warnings) > (0, 0)
    if not parts:
        return ("warning" if comparison.worse_count else "good"), "As many errors and warnings as before"
    return ("error" if errors > 0 else "warning" if worse else "good"), " and ".join(parts).capitalize()


def _rows(comparison: Comparison) -> Any:
    """Rows of the totals: (measure, before, after, the two trends by hour)."""
    before, after = comparison.before, comparison.after
    for what in ("errors", "warnings", "rebalances", "moved"):
        one, other = getattr(before.counts, what), getattr(after.counts, what)
        yield what.replace("moved", "partitions moved"), one, other, one / before.hours, other / after.hours
    yield "members", before.counts.members, after.counts.members, None, None
    yield "groups", before.groups, after.groups, None, None


def _charts(comparison: Comparison) -> Any:
    """Both trends of each measure on one scale: (title, maximum, [path of bars before, and after])."""
    (width, height), sides = _CHART, (comparison.before, comparison.after)
    for title, column in (("rebalances", 0), ("partitions moved", 1), ("longest time without owner, in ms", 2)):
        most = max((step[column] for side in sides for step in side.trend.steps.values()), default=0)
        if not most:
            continue
        paths = []
        for side in sides:
            steps = side.trend.steps
            first, last = min(steps, default=0), max(steps, default=0) + 1
            wide = max(2.0, width / (last - first) - 1)
            bars = []
            for at, step in sorted(steps.items()):
                left, tall = width * (at - first) / (last - first), height * step[column] / most
                bars += [f"M{left:.1f},{height}v-{max(1, tall):.1f}h{wide:.1f}V{height}z"] if tall else []
            paths.append("".join(bars))
        yield title, most, paths
