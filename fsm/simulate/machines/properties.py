"""The properties of a deployment: exclusions and the goal, evaluated when a machine changes its state."""

from __future__ import annotations

from collections.abc import Iterator

from fsm.exchange import Place
from fsm.simulate.machines.deployment import Machines
from fsm.table import Symbol


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
