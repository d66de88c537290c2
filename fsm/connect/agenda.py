"""A virtual clock: what is to happen and when, done in the order of its instants, ties in the order of their entry."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Agenda:
    """The present instant, and everything that is still to come."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._entered = 0
        self._coming: list[tuple[int, int, Callable[[], None]]] = []

    def later(self, ms: int, act: Callable[[], None]) -> None:
        """Enter what is to happen in so many milliseconds."""
        self._entered += 1
        heappush(self._coming, (self.now_ms + ms, self._entered, act))

    def run_for(self, ms: int, after_each: Callable[[], None]) -> None:
        """Everything that comes within so many milliseconds; `after_each` follows every single act."""
        until_ms = self.now_ms + ms
        while self._coming and self._coming[0][0] <= until_ms:
            self.now_ms, _, act = heappop(self._coming)
            act()
            after_each()
        self.now_ms = until_ms
