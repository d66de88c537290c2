"""What the leader's assignor remembers between rounds, and the orders that nobody's rule decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fsm.connect.units import Unit


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one leader process. A fresh process has none of it; losing the lead keeps it.

    `delay_ms > 0` if and only if `deadline_ms` is set.
    """

    previous: frozenset[Unit] = frozenset()
    """Units believed to be placed, and those still lost."""
    previous_revocation: frozenset[Unit] = frozenset()
    """Units that the last output took away."""
    previous_members: frozenset[str] = frozenset()
    previous_generation: int = -1
    deadline_ms: int | None = None
    """When a delayed rebalance is due, on this leader's clock."""
    delay_ms: int = 0
    candidates: tuple[str, ...] = ()
    """Workers that were seen empty while a delay ran, in the order they were seen: they get the lost work."""
    revoked_last: bool = False
    """Whether the last round took units away for balance, or put that off."""
    successive: int = 0
    """How many rounds in a row wanted to take units away again."""


def as_given(names: Iterable[str]) -> Sequence[str]:
    """Names in the order in which they come."""
    return tuple(names)


class Order(NamedTuple):
    """Tie-breaks: orders that Kafka takes from its hash maps. Sorted unless told otherwise."""

    revocation: Callable[[Iterable[str]], Sequence[str]] = sorted
    """The walk over the workers that decides who keeps one unit more."""
    candidates: Callable[[Iterable[str]], Sequence[str]] = sorted
    """In which order workers that come up empty in one round become candidates."""


AS_GIVEN = Order(as_given, as_given)
"""The workers' own order in the holdings, as a recording has it."""
