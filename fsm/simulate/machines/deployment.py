"""A deployment of your own machines as data: tables, machine counts, a network, external events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fsm.cluster.network import Latency
from fsm.document import from_json, to_json
from fsm.exchange import Exchange, Role, exchange_of
from fsm.simulate.deployment import NETWORK, Deed, Rate
from fsm.table import Table

DEEDS = {
    "crash": "a machine ends without a word; when it is there again, it begins in its initial state",
    "restart": "a machine ends and comes back in the state in which it was",
    "pause": "a machine stands still; what reaches it waits",
    "cut": "no message of a machine passes, in either direction",
    "lose": "a share of all messages is lost",
    "event": "an event from outside happens, where the machine has a row for it",
}


@dataclass(frozen=True)
class Delay:
    """The delay of an external event after its machine has entered a state in which it is possible."""

    least_ms: int
    most_ms: int
    is_mean: bool = False
    """Both are then the mean of an exponential distribution."""


NEVER = Delay(0, 0)
"""The delay of an event that does not happen externally."""


@dataclass(frozen=True)
class Part:
    """A role: a table and its number of machines."""

    name: str
    table: Table
    source: str
    """The table's name, or its file from where the process runs."""
    count: int = 1
    happens: Mapping[str, Delay] = field(default_factory=dict)
    """The external events by name, with their delays."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as a document: enums of a table from a file have no importable module."""
        return _rebuild_part, (self.name, to_json(self.table), self.source, self.count, dict(self.happens))

    def __eq__(self, other: object) -> bool:
        """Equal if the content is equal, whatever the file."""
        return isinstance(other, Part) and self.__reduce__()[1] == other.__reduce__()[1]

    def __hash__(self) -> int:
        return hash((self.name, self.source, self.count))


def _rebuild_part(name: str, table: str, source: str, count: int, happens: Mapping[str, Delay]) -> Part:
    return Part(name, from_json(table), source, count, happens)


@dataclass(frozen=True)
class Machines:
    name: str
    lasts_ms: int
    parts: tuple[Part, ...]
    latency: Latency = NETWORK
    loses: float = 0.0
    duplicates: float = 0.0
    """How often a message arrives twice."""
    reorders: bool = False
    """Whether a message may overtake another one between the same two machines."""
    never: tuple[str, ...] = ()
    """Places that must not be taken at once, in the form of `fsm.exchange`."""
    goal: str = ""
    """Places that must be reached after the last fault."""
    deeds: tuple[Deed, ...] = ()
    rates: tuple[Rate, ...] = ()
    seed: int = 0

    @cached_property
    def exchange(self) -> Exchange:
        """The messages between machines."""
        return exchange_of(Role(part.name, part.table, part.count) for part in self.parts)

    @property
    def is_scripted(self) -> bool:
        """Whether all external events have named times."""
        return all(delay == NEVER for part in self.parts for delay in part.happens.values())

    def machines_of(self, target: str) -> tuple[str, ...]:
        """The machines that a name means: one, those of a role, or `any`."""
        return tuple(
            name for name, role in self.exchange.role_of.items() if target in ("any", role.name, name)
        )  # fmt: skip

    def list_targets(self, rate: Rate) -> list[str]:
        """The machines from which a random fault draws one; for an event, those that have it."""
        if rate.what != "event":
            return list(self.machines_of(rate.target)) or [rate.target]
        owner, _, event = rate.target.rpartition(".")
        return [f"{name}.{event}" for name in self.machines_of(owner)]

    def __getstate__(self) -> dict[str, Any]:
        """Pickles without computed fields."""
        return {name: value for name, value in vars(self).items() if name != "exchange"}
