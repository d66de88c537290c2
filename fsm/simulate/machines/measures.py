"""Measures of machines over time: the time in each state, transitions, messages."""

from __future__ import annotations

from fsm.simulate.machines.deployment import Part
from fsm.simulate.meter import BINS

AWAY = "AWAY"
"""A pseudo-state for a machine that has crashed or restarts."""
COUNTED = ("transitions", "messages", "lost")


class Measures:
    """The measures of the machines of one role, in intervals of equal length."""

    def __init__(self, part: Part, lasts_ms: int) -> None:
        self.lasts_ms = lasts_ms
        self.width_ms = max(1, -(-lasts_ms // BINS))
        states = (*(state.name for state in part.table.leaves()), AWAY)
        self._now: dict[str, list[int]] = {name: [0, 0] for name in states}
        """The number of machines in a state, and since when."""
        self._counted = {name: [0] * BINS for name in COUNTED}
        self._spent = {name: [0] * BINS for name in states}
        self._prefix = part.name

    def count(self, what: str, at_ms: int) -> None:
        """Counts an event."""
        if at_ms < self.lasts_ms:
            self._counted[what][at_ms // self.width_ms] += 1

    def enter(self, state: str, at_ms: int, change: int = 1) -> None:
        """Adds a machine to a state, or removes one."""
        gauge = self._now[state]
        self._pass(state, gauge, at_ms)
        gauge[0] += change

    def _pass(self, state: str, gauge: list[int], at_ms: int) -> None:
        count, since_ms = gauge
        until_ms = min(at_ms, self.lasts_ms)
        gauge[1] = at_ms
        if not count:
            return
        spent = self._spent[state]
        while since_ms < until_ms:
            i = since_ms // self.width_ms
            end_ms = min(until_ms, (i + 1) * self.width_ms)
            spent[i] += count * (end_ms - since_ms)
            since_ms = end_ms

    def series(self) -> dict[str, list[int]]:
        """Each measure by its name, `door.transitions`, `door.OPEN_ms`; the time away, if any."""
        for state, gauge in self._now.items():
            self._pass(state, gauge, self.lasts_ms)
        found = {f"{self._prefix}.{name}": values for name, values in self._counted.items()}
        spent = {f"{self._prefix}.{name}_ms": values for name, values in self._spent.items()}
        if not any(self._spent[AWAY]):
            del spent[f"{self._prefix}.{AWAY}_ms"]
        return found | spent


def name_measure(name: str) -> str:
    """A measure in words."""
    role, _, what = name.rpartition(".")
    if what.endswith("_ms"):
        return f"{role}: time in {what.removesuffix('_ms')}, machine-seconds"
    return {
        "transitions": f"{role}: transitions",
        "messages": f"{role}: messages sent",
        "lost": f"{role}: messages lost",
    }[what]
