"""Timers as a heap of deadlines. Cancelled timers take no more room than pending ones."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

FEW = 64
"""The number of cancelled timers that are not worth removing."""


class Timers:
    """Callbacks by deadline; each is called with the time at which it was found due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        """(deadline, number); a number without a callback was cancelled."""
        self._acts: dict[int, Callable[[float], None]] = {}
        self._numbers = count()

    def __len__(self) -> int:
        """The size of the heap, some cancelled timers included."""
        return len(self._heap)

    def set(self, due_ms: float, act: Callable[[float], None]) -> int:
        """Sets a timer; returns its number."""
        number = next(self._numbers)
        self._acts[number] = act
        heappush(self._heap, (due_ms, number))
        return number

    def call_off(self, number: int) -> None:
        """Cancels a timer."""
        self._acts.pop(number, None)
        if len(self._heap) > 2 * len(self._acts) + FEW:
            self._heap = [timer for timer in self._heap if timer[1] in self._acts]
            heapify(self._heap)

    def next_deadline_ms(self) -> float | None:
        """The instant at which the first may be due; None without timers."""
        return self._heap[0][0] if self._heap else None

    def advance(self, now_ms: float) -> None:
        """Calls everything that is due; timers that become due by that wait for the next call."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap)[1])
        for number in due:
            act = self._acts.pop(number, None)
            if act is not None:
                act(now_ms)
