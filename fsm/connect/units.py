"""The units that Connect distributes: instances of connectors, and their tasks.

On the wire a connector's instance is its task -1, and so it is here: units of one connector sort with the instance
first. Instances and tasks are balanced separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fsm.errors import InputError

INSTANCE = -1
"""The number of a connector's instance."""


class Unit(NamedTuple):
    """One connector instance or one task; ordered by connector name, the instance before its tasks."""

    connector: str
    number: int = INSTANCE

    @property
    def is_connector(self) -> bool:
        """True for the instance of a connector, False for a task."""
        return self.number == INSTANCE

    def __str__(self) -> str:
        return self.connector if self.is_connector else f"{self.connector}-{self.number}"


Units = tuple[Unit, ...]
UnitsByWorker = Mapping[str, Units]
"""The units of each worker, by member id. If order matters it is that of the mapping and of the tuples."""


def task(text: str) -> Unit:
    """The task that Connect prints as `connector-number`.

    Raises:
        InputError: the text does not end in a number after a hyphen.
    """
    connector, hyphen, number = text.rpartition("-")
    if not (hyphen and connector and number.isdecimal()):
        raise InputError(f"{text!r} is not a task", remedy="a task is written as its connector's name, '-', its number")
    return Unit(connector, int(number))


def units_of(connectors: Iterable[str], tasks: Iterable[str]) -> Units:
    """Units from two lists as Connect prints them: the connectors, then the tasks."""
    return (*map(Unit, connectors), *map(task, tasks))


def list_configured(task_counts: Mapping[str, int]) -> frozenset[Unit]:
    """The units configured by a config topic with these task counts."""
    return frozenset(Unit(name, number) for name, count in task_counts.items() for number in range(INSTANCE, count))


def list_all(given: UnitsByWorker) -> frozenset[Unit]:
    """The units of all workers."""
    return frozenset(unit for units in given.values() for unit in units)


def kinds(units: Iterable[Unit]) -> tuple[Units, Units]:
    """The connectors and the tasks among the units, each in the order given."""
    found = tuple(units)
    return tuple(u for u in found if u.is_connector), tuple(u for u in found if not u.is_connector)


def without(units: Iterable[Unit], gone: Iterable[Unit]) -> Units:
    """The units that are not gone, in their order."""
    missing = frozenset(gone)
    return tuple(unit for unit in units if unit not in missing)
