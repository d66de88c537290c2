"""The leader's assignor under the eager protocol: everything anew in each round.

Source: `EagerAssignor` of apache/kafka at 1eb7644; 2.9 of the reference on Connect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import cycle

from fsm.connect.units import Unit, Units, kinds


def assign_eagerly(configured: Collection[Unit], members: Iterable[str]) -> dict[str, Units]:
    """Connectors, then tasks, dealt in one go to the members in the order of their ids."""
    given: dict[str, list[Unit]] = {member: [] for member in sorted(members)}
    connectors, tasks = kinds(sorted(configured))
    for member, unit in zip(cycle(given), (*connectors, *tasks)):  # endless on one side
        given[member].append(unit)
    return {member: tuple(units) for member, units in given.items()}
