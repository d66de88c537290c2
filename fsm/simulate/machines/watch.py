"""What is watched while machines run: the time in each state, transitions and messages; and the properties of their
deployment, exclusions and the goal, when a machine changes its state.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsm.exchange import Place
from fsm.simulate.machines.deployment import Machines, Part
from fsm.simulate.meter import BINS, add_time
from fsm.table import Symbol

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
        if at_ms < self.lasts_ms:
            self._counted[what][at_ms // self.width_ms] += 1

    def enter(self, state: str, at_ms: int, change: int = 1) -> None:
        """Adds a machine to a state, or removes one."""
        gauge = self._now[state]
        self._pass(state, gauge, at_ms)
        gauge[0] += change

    def _pass(self, state: str, gauge: list[int], at_ms: int) -> None:
        add_time(self._spent[state], self.width_ms, gauge[1], min(at_ms, self.lasts_ms), gauge[0])
        gauge[1] = at_ms

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


class Together:
    """Places that count as taken when all of them are."""

    def __init__(self, text: str, places: tuple[Place, ...]) -> None:
        self.text = text
        self.places = places
        self.missing = len(places)
        """How many of them are not taken."""
        self.taken = [0] * len(places)
        """Machines in each."""

    def change(self, number: int, by: int) -> None:
        least, before = self.places[number].least, self.taken[number]
        self.taken[number] = before + by
        self.missing += (before >= least) - (before + by >= least)


class Watched:
    """The places of a deployment while it runs."""

    def __init__(self, deployment: Machines) -> None:
        exchange = deployment.exchange
        self._never = [Together(f"never {text}", exchange.places(text)) for text in deployment.never]
        self._goal = Together("", exchange.places(deployment.goal, every=True)) if deployment.goal else None
        self.goal_is_reached = False
        self._broken: set[str] = set()
        """The exclusions that are violated now: each is reported when it begins."""
        self._about: dict[tuple[str, Symbol], list[tuple[Together, int]]] = {}
        for one in (*self._never, *([self._goal] if self._goal else [])):
            for number, place in enumerate(one.places):
                for machine in place.machines:
                    for leaf in place.leaves:
                        self._about.setdefault((machine, leaf), []).append((one, number))

    def leave(self, machine: str, state: Symbol) -> None:
        """Notes that a machine has left a place."""
        for one, number in self._about.get((machine, state), ()):
            one.change(number, -1)

    def enter(self, machine: str, state: Symbol) -> Iterator[Together]:
        """Notes that a machine has entered a place; returns the exclusions that are violated from here on."""
        for one, number in self._about.get((machine, state), ()):
            one.change(number, 1)
        for one in self._never:
            if one.missing:
                self._broken.discard(one.text)
            elif one.text not in self._broken:
                self._broken.add(one.text)
                yield one
        self.goal_is_reached = self.goal_is_reached or self.is_at_goal()

    def is_at_goal(self) -> bool:
        """Whether the places of the goal are taken now."""
        return self._goal is not None and not self._goal.missing

    def seek_goal(self) -> None:
        """Waits for the goal from here on."""
        self.goal_is_reached = self.is_at_goal()
