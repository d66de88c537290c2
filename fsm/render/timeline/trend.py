"""Counts over time, in a bounded number of steps for any length of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

STEPS = 240
"""The maximum number of steps of a trend."""


class Step(NamedTuple):
    """The counts of one step, by beginning."""

    rebalances: int
    moved: int
    """Partitions that moved to another member."""
    unowned_ms: int
    """The longest time that a partition had no owner."""


class Trend:
    """Steps of equal length, a second at first and twice as long whenever there would be too many.

    Any order of adding and merging gives the same steps.
    """

    def __init__(self) -> None:
        self.step_ms = 1000
        self.steps: dict[int, Step] = {}
        """By their number since the epoch."""

    def add(self, ts_ms: int, rebalances: int = 0, moved: int = 0, unowned_ms: int = 0) -> None:
        """Adds counts at an instant."""
        self._put(ts_ms, Step(rebalances, moved, unowned_ms))

    def merge(self, other: Trend) -> None:
        """Adds the counts of another trend."""
        while self.step_ms < other.step_ms:
            self._double()
        for number, step in sorted(other.steps.items()):
            self._put(number * other.step_ms, step)

    def _put(self, ts_ms: int, step: Step) -> None:
        known = self.steps.get(ts_ms // self.step_ms)
        self.steps[ts_ms // self.step_ms] = _sum(known, step)
        while known is None and max(self.steps) - min(self.steps) >= STEPS:
            self._double()

    def _double(self) -> None:
        self.step_ms *= 2
        before, self.steps = self.steps, {}
        for number, step in before.items():
            self.steps[number // 2] = _sum(self.steps.get(number // 2), step)

    def to_json(self) -> dict[str, Any]:
        """The steps in order, each with its begin."""
        steps = [[number * self.step_ms, *step] for number, step in sorted(self.steps.items())]
        return {"step": self.step_ms, "steps": steps}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Trend:
        """The trend from the output of `to_json`."""
        trend = cls()
        trend.step_ms = document["step"]
        trend.steps = {start_ms // trend.step_ms: Step(*step) for start_ms, *step in document["steps"]}
        return trend


def _sum(one: Step | None, other: Step) -> Step:
    if one is None:
        return other
    return Step(one[0] + other[0], one[1] + other[1], max(one[2], other[2]))
