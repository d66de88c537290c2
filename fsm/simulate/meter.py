"""Measures of a group over time: partitions without an owner or with two, moves, rebalances, heartbeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fsm.protocol.assignment import TopicPartition

BINS = 120
"""The number of parts of equal length into which a run is divided."""
SERIES = ("unowned_ms", "shared_ms", "moves", "rebalances", "heartbeats", "requests")


def add_time(series: list[int], width_ms: int, at_ms: int, until_ms: int, times: int) -> None:
    """Adds the time between two instants, so many times, to the parts of a series that it belongs to."""
    while times and at_ms < until_ms:
        i = at_ms // width_ms
        end_ms = min(until_ms, (i + 1) * width_ms)
        series[i] += times * (end_ms - at_ms)
        at_ms = end_ms


class Meter:
    """The measures of one group. Time does not go back here: late events count for the last instant."""

    def __init__(self, lasts_ms: int, partitions: int) -> None:
        """`partitions` are those that the group subscribes to."""
        self.lasts_ms = lasts_ms
        self.width_ms = max(1, -(-lasts_ms // BINS))
        self.series = {name: [0] * BINS for name in SERIES}
        self.longest_unowned_ms = 0
        self.gaps: list[tuple[TopicPartition, int, int]] = []
        """Partitions without an owner after they had one: begin and end."""
        self.held: list[tuple[str, TopicPartition, int, int]] = []
        """The uses of partitions: client, begin and end."""
        self.keeps = False
        """Whether gaps and uses are kept."""
        self._unowned, self._shared = partitions, 0
        self._now_ms = 0
        self._users: dict[TopicPartition, dict[str, int]] = {}
        self._last: dict[TopicPartition, str] = {}
        self._free_since: dict[TopicPartition, int] = {}

    def grow(self, made: Iterable[TopicPartition], now_ms: int) -> None:
        self._pass(now_ms)
        for one in made:
            self._unowned += 1
            self._free_since[one] = self._now_ms

    def note_use(
        self, name: str, gained: Iterable[TopicPartition], lost: Iterable[TopicPartition], now_ms: int
    ) -> None:
        """Notes a change of the partitions that a client uses."""
        self._pass(now_ms)
        for one in lost:
            self._lose(name, one)
        for one in gained:
            self._gain(name, one)

    def _gain(self, name: str, one: TopicPartition) -> None:
        users = self._users.setdefault(one, {})
        if name in users:
            return
        users[name] = self._now_ms
        if len(users) == 1:
            self._unowned -= 1
            since_ms = self._free_since.pop(one, 0)
            self.longest_unowned_ms = max(self.longest_unowned_ms, self._now_ms - since_ms)
            if self.keeps and one in self._last:
                self.gaps.append((one, since_ms, self._now_ms))
        elif len(users) == 2:
            self._shared += 1
        if self._last.get(one, name) != name:
            self.count("moves", self._now_ms)
        self._last[one] = name

    def _lose(self, name: str, one: TopicPartition) -> None:
        users = self._users.get(one, {})
        since_ms = users.pop(name, None)
        if since_ms is None:
            return
        if self.keeps:
            self.held.append((name, one, since_ms, self._now_ms))
        if not users:
            self._unowned += 1
            self._free_since[one] = self._now_ms
        elif len(users) == 1:
            self._shared -= 1

    def _pass(self, now_ms: int) -> None:
        """Advances the time."""
        at_ms = self._now_ms
        until_ms = min(now_ms, self.lasts_ms)
        if until_ms <= at_ms:
            return
        self._now_ms = until_ms
        add_time(self.series["unowned_ms"], self.width_ms, at_ms, until_ms, self._unowned)
        add_time(self.series["shared_ms"], self.width_ms, at_ms, until_ms, self._shared)

    def count(self, what: str, at_ms: int, times: int = 1) -> None:
        if at_ms < self.lasts_ms:
            self.series[what][at_ms // self.width_ms] += times

    def count_every(self, what: str, first_ms: int, every_ms: int, times: int) -> None:
        """Counts events at regular intervals."""
        series, width_ms, done = self.series[what], self.width_ms, 0
        last_ms = min(first_ms + (times - 1) * every_ms, self.lasts_ms - 1)
        for i in range(first_ms // width_ms, last_ms // width_ms + 1):
            upto = (min((i + 1) * width_ms - 1, last_ms) - first_ms) // every_ms + 1
            series[i] += upto - done
            done = upto

    def end(self) -> None:
        """Ends the run, and everything that lasts."""
        self._pass(self.lasts_ms)
        for since_ms in self._free_since.values():
            self.longest_unowned_ms = max(self.longest_unowned_ms, self._now_ms - since_ms)
        if self.keeps:
            self.gaps += [(one, since_ms, self._now_ms) for one, since_ms in sorted(self._free_since.items())]
            uses = ((n, one, at) for one, users in sorted(self._users.items()) for n, at in sorted(users.items()))
            self.held += [(name, one, since_ms, self._now_ms) for name, one, since_ms in uses]

    def totals(self) -> dict[str, Any]:
        """The whole run in numbers."""
        return {
            **{name: sum(values) for name, values in self.series.items()},
            "longest_unowned_ms": self.longest_unowned_ms,
        }
