"""What a scenario keeps going until it rests, and for how long: what asks for more is no scenario, or spins."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fsm.errors import FsmError

TURNS_AT_ONCE = 1_000
"""Turns of a member's loop at one instant."""
TURNS_IN_ALL = 10_000
"""Turns of it in one wait."""


class Restless(FsmError):  # noqa: N818  # what the member is
    """The member does not come to rest in as many turns."""


class Turned(ABC):
    """A side of a conversation that moves by itself, on the scenario's clock."""

    now_ms = 0

    @abstractmethod
    def _turn(self) -> bool:
        """Does one thing that is due now; False where nothing is."""

    @abstractmethod
    def _next_ms(self) -> int:
        """When the next thing is due; it may lie in the past."""

    def settle(self) -> None:
        """What happens by itself at this instant; at first the search for the coordinator and the topics."""
        for _ in range(TURNS_AT_ONCE):
            if not self._turn():
                return
        raise Restless(f"{TURNS_AT_ONCE} turns of the loop at {self.now_ms} ms, and no rest")

    def wait(self, ms: int) -> None:
        """Time passes. Raises `Restless` where too much happens in it."""
        end_ms = self.now_ms + ms
        for _ in range(TURNS_IN_ALL):
            self.settle()
            next_ms = max(self.now_ms + 1, self._next_ms())
            self.now_ms = min(next_ms, end_ms)
            if next_ms > end_ms:
                self.settle()
                return
        raise Restless(f"{TURNS_IN_ALL} turns by {self.now_ms} ms; wait for less")
