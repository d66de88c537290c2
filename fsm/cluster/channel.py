"""A lossy in-memory channel: messages arrive later, twice, or never, as a seeded random generator decides."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol


class Chance(Protocol):
    """The methods of a seeded `random.Random` that are used."""

    def random(self) -> float:
        """A random number from 0 to below 1."""

    def choice(self, given: Any, /) -> Any:
        """A random element."""

    def randint(self, low: int, high: int, /) -> int:
        """A random integer, both ends included."""

    def sample(self, given: Any, count: int, /) -> Any:
        """A random sample of this size."""


class Steady:
    """A deterministic generator: no message is lost or duplicated, each takes its least latency."""

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
    """The fault rates of a channel."""

    loses: float = 0.0
    """The share of messages that are lost."""
    doubles: float = 0.0
    """The share of messages that arrive a second time, later."""
    latest_ms: int = 2
    """The maximal latency."""


NONE = Faults()
LOSSY = Faults(loses=0.08, doubles=0.03, latest_ms=400)


Entry = tuple[int, tuple[Any, ...], Callable[[int], None]]
"""The arrival time of a message, its rank among those of the same instant, and its handler."""


@dataclass
class Channel:
    """The messages in flight, by arrival time."""

    chance: Chance
    faults: Faults = NONE
    taken: Entry | None = None
    """The message that arrived last."""
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
        """Sends a message of this client, or an answer to it:

        `arrive(now_ms)` is called on arrival. Returns whether it arrives.
        """
        arrives = self.chance.random() >= self.faults.loses
        if arrives:
            self.at(now_ms + self.chance.randint(1, self.faults.latest_ms), arrive)
        again = self.chance.random() < self.faults.doubles
        if again:
            self.at(now_ms + 5 * self.chance.randint(1, self.faults.latest_ms), arrive)
        return arrives or again

    def at(self, at_ms: int, arrive: Callable[[int], None], name: str = "") -> None:  # noqa: ARG002
        """Schedules an event of this client, or of all clients, which no fault affects."""
        self.put((at_ms, (next(self._numbers),), arrive))

    def put(self, entry: Entry) -> None:
        """Schedules a message."""
        heapq.heappush(self._under_way, entry)

    def deliver(self) -> None:
        """Delivers the next message."""
        self.taken = at_ms, _, arrive = heapq.heappop(self._under_way)
        arrive(at_ms)

    @property
    def next_ms(self) -> int | None:
        """When the next message arrives."""
        return self._under_way[0][0] if self._under_way else None
