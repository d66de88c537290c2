"""A network in which the fate of a message depends only on its client and its number, not on other messages.

So the fate of a message is known before it is sent, and taking a client or a fault out of a run changes nothing for the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import xxhash

from fsm.cluster.channel import Channel


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
