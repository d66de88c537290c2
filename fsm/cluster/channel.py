"""A lossy in-memory channel: what is sent arrives later, twice, or never, as a seeded chance has it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol


class Chance(Protocol):
    """What a seeded `random.Random` gives."""

    def random(self) -> float:
        """From 0 to below 1."""

    def choice(self, given: Any, /) -> Any:
        """One of them."""

    def randint(self, low: int, high: int, /) -> int:
        """One of these, both ends included."""

    def sample(self, given: Any, count: int, /) -> Any:
        """So many of them."""


class Steady:
    """A chance that decides nothing: nothing is lost or doubled, every message takes as long as it must."""

    def random(self) -> float:
        return 1.0

    def choice(self, given: Any, /) -> Any:
        return given[0]

    def randint(self, low: int, _high: int, /) -> int:
        return low

    def sample(self, given: Any, count: int, /) -> Any:
        return list(given)[:count]


STEADY = Steady()


@dataclass(frozen=True)
class Faults:
    """How a channel fails."""

    loses: float = 0.0
    """How often a message never arrives."""
    doubles: float = 0.0
    """How often one arrives a second time, later."""
    latest_ms: int = 2
    """How long one takes at the most."""


NONE = Faults()
LOSSY = Faults(loses=0.08, doubles=0.03, latest_ms=400)


Entry = tuple[int, tuple[Any, ...], Callable[[int], None]]
"""When a message arrives, its place among those of the same instant, and what it does."""


@dataclass
class Channel:
    """Messages under way, by when they arrive."""

    chance: Chance
    faults: Faults = NONE
    taken: Entry | None = None
    """The one that arrived last."""
    _under_way: list[Entry] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def send(
        self,
        now_ms: int,
        arrive: Callable[[int], None],
        name: str = "",  # noqa: ARG002  # each message of this channel fares alike, whosesoever it is
        *,
        is_answer: bool = False,  # noqa: ARG002
    ) -> bool:
        """Sends a message of this client, or an answer to it: `arrive(now_ms)` is called when it arrives.

        Gives whether it will.
        """
        arrives = self.chance.random() >= self.faults.loses
        if arrives:
            self.at(now_ms + self.chance.randint(1, self.faults.latest_ms), arrive)
        again = self.chance.random() < self.faults.doubles
        if again:
            self.at(now_ms + 5 * self.chance.randint(1, self.faults.latest_ms), arrive)
        return arrives or again

    def at(self, at_ms: int, arrive: Callable[[int], None], name: str = "") -> None:  # noqa: ARG002
        """Has something happen at that time to this client, or to all, whatever the faults."""
        self.put((at_ms, (next(self._numbers),), arrive))

    def put(self, entry: Entry) -> None:
        """Has a message arrive."""
        heapq.heappush(self._under_way, entry)

    def deliver(self) -> None:
        """Has the next message arrive."""
        self.taken = at_ms, _, arrive = heapq.heappop(self._under_way)
        arrive(at_ms)

    @property
    def next_ms(self) -> int | None:
        """When the next message arrives."""
        return self._under_way[0][0] if self._under_way else None
