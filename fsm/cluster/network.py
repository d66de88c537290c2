"""The messages in flight: a lossy in-memory channel, and a network for long runs.

In the channel messages arrive later, twice, or never, as a seeded random generator decides. In the network the fate of
a message depends only on its client and its number, not on other messages: so it is known before the message is sent,
and taking a client or a fault out of a run changes nothing for the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, Protocol

import xxhash


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


class Latency(NamedTuple):
    """How long a message takes: the ends of its distribution and two points between, joined by lines."""

    least_ms: int = 1
    median_ms: int = 1
    p99_ms: int = 2
    most_ms: int = 5

    def at(self, share: float) -> int:
        """The quantile: this share of all messages, from 0 to 1, is faster."""
        if share < 0.5:
            return self.least_ms + int((self.median_ms - self.least_ms) * share * 2)
        if share < 0.99:
            return self.median_ms + int((self.p99_ms - self.median_ms) * (share - 0.5) / 0.49)
        return self.p99_ms + int((self.most_ms - self.p99_ms) * (share - 0.99) * 100)


SHORT = Latency()


@dataclass
class Network(Channel):
    """The messages in flight between clients and their coordinator."""

    seed: int = 0
    latency: Latency = SHORT
    loses: float = 0.0
    """The share of messages that are lost."""
    cut: set[str] = field(default_factory=set)
    """Clients whose messages do not pass, in either direction."""
    _sent: dict[tuple[str, bool], int] = field(default_factory=dict)
    _arriving: dict[tuple[str, bool], tuple[float, int]] = field(default_factory=dict)
    """The number up to which messages are known to arrive, for each loss rate."""

    def send(self, now_ms: int, arrive: Callable[[int], None], name: str = "", *, is_answer: bool = False) -> bool:
        number, takes_ms = self.draw(name, is_answer=is_answer)
        if takes_ms is None or name in self.cut:
            return False
        self.put((now_ms + takes_ms, (now_ms, name, is_answer, number), arrive))
        return True

    def draw(self, name: str, *, is_answer: bool = False) -> tuple[int, int | None]:
        """The number of a client's next message, and its latency; None if it is lost."""
        number = self._sent[name, is_answer] = self._sent.get((name, is_answer), -1) + 1
        return number, self._fate(name, number, is_answer=is_answer)

    def at(self, at_ms: int, arrive: Callable[[int], None], name: str = "") -> None:
        """Schedules an event before the messages of the same time; a client that is cut off gets none."""
        if name not in self.cut:
            self.put((at_ms, (-1, name, False, next(self._numbers)), arrive))

    def foresee(self, name: str, ahead: int, sent_ms: int) -> tuple[int, int] | None:
        """The arrival times of a future request and of its response; None if either is lost.

        Each request before it has been answered.
        """
        fates = [self._fate(name, self._sent.get((name, way), -1) + 1 + ahead, is_answer=way) for way in (False, True)]
        there_ms, back_ms = fates
        if there_ms is None or back_ms is None:
            return None
        return sent_ms + there_ms, sent_ms + there_ms + back_ms

    def foresee_loss(self, name: str, within: int) -> int | None:
        """The index of a client's next request that is lost, or whose response is, counted from 0."""
        lost = [self._first_lost(name, way, within) for way in (False, True)]
        return min((one for one in lost if one is not None), default=None)

    def _first_lost(self, name: str, way: bool, within: int) -> int | None:
        first = self._sent.get((name, way), -1) + 1
        loses, number = self._arriving.get((name, way), (self.loses, 0))
        number = max(first, number if loses == self.loses else 0)
        last, share, seed = first + within, self.loses * 0x1_0000_0000, self.seed
        while number < last and (_draw(name, number, way, seed) & 0xFFFFFFFF) >= share:
            number += 1
        self._arriving[name, way] = self.loses, number
        return number - first if number < last else None

    def pass_over(self, name: str, count: int) -> None:
        """Counts skipped requests as sent and answered."""
        for way in (False, True):
            self._sent[name, way] = self._sent.get((name, way), -1) + count

    def _fate(self, name: str, number: int, *, is_answer: bool) -> int | None:
        """The latency of a message; None if it is lost."""
        drawn = _draw(name, number, is_answer, self.seed)
        if (drawn & 0xFFFFFFFF) < self.loses * 0x1_0000_0000:
            return None
        return self.latency.at((drawn >> 32) / 0x1_0000_0000)


def _draw(name: str, number: int, is_answer: bool, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{name} {number} {is_answer}".encode(), seed)
