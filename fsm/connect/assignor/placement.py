"""Units that get a worker: new ones, and lost ones that nobody waits for any more.

Source: `assignConnectors` and `assignTasks` of `IncrementalCooperativeAssignor`, apache/kafka 1eb7644.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from fsm.connect.dialect import Profile, Rule
from fsm.connect.units import Holdings, Unit, Units, kinds

Loads = dict[str, list[Unit]]


def place(loads: Holdings, units: Iterable[Unit], profile: Profile) -> dict[str, Units]:
    """The loads with every unit placed, each kind in the order given."""
    placed = {worker: list(load) for worker, load in loads.items()}
    connectors, tasks = kinds(units)
    if Rule.TASKS_PLACED_FIRST in profile:
        _one_by_one(placed, (*tasks, *connectors))
    else:
        _dealt(placed, connectors)
        _dealt(placed, tasks)
    return {worker: tuple(load) for worker, load in placed.items()}


def _one_by_one(loads: Loads, units: Units) -> None:
    """Each unit to the worker that has the fewest units, of workers with as few to the first by id."""
    for unit in units:
        loads[min(loads, key=lambda worker: (len(loads[worker]), worker))].append(unit)


def _dealt(loads: Loads, units: Units) -> None:
    """Units of one kind, dealt to the workers with the fewest of that kind.

    The workers are ordered once, by their count of it and their id, and never again: a tie goes to who had fewer at
    the start.
    """
    if not units:
        return
    counts = {worker: sum(u.is_connector == units[0].is_connector for u in load) for worker, load in loads.items()}
    ranked = sorted(counts, key=lambda worker: (counts[worker], worker))
    for unit, worker in zip(units, _turns(counts, ranked), strict=False):  # endless on one side
        loads[worker].append(unit)


def _turns(counts: dict[str, int], ranked: list[str]) -> Iterator[str]:
    """Whose turn it is, for ever: the leading workers that have as few as the first one, again and again."""
    while True:
        lowest = counts[ranked[0]]
        for worker in list(takewhile(lambda worker: counts[worker] == lowest, ranked)):  # noqa: B023  # used at once
            counts[worker] += 1
            yield worker
