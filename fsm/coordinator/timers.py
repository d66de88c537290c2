"""Timers as values: deadlines by what they are for and whose they are. Nobody waits; the caller asks what is due.

Source: section 4 of the coordinator reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from fsm.coordinator.frozen import FrozenMap


class TimerKind(Enum):
    """What a timer of a consumer group is for; the value is the prefix of its name in Kafka."""

    SESSION = "session-timeout"
    REBALANCE = "rebalance-timeout"
    JOIN = "join"
    SYNC = "sync"


TimerKey = tuple[TimerKind, str]
"""A timer's kind and its member's id."""


class Timer(NamedTuple):
    """When it runs out, and what it remembers."""

    deadline_ms: int
    epoch: int = 0
    """The member epoch at which a rebalance timer was armed."""


@dataclass(frozen=True)
class Timers:
    """Timers of one group, at most one by kind and member."""

    running: FrozenMap[TimerKey, Timer]

    @cached_property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline."""
        return min((timer.deadline_ms for timer in self.running.values()), default=None)

    def due(self, now_ms: int) -> list[tuple[TimerKey, Timer]]:
        """What has run out, the earliest first; of equal deadlines, in the order in which they were armed."""
        found = [(key, timer) for key, timer in self.running.items() if timer.deadline_ms <= now_ms]
        return sorted(found, key=lambda entry: entry[1].deadline_ms)

    def is_running(self, kind: TimerKind, member_id: str) -> bool:
        """Whether there is such a timer."""
        return (kind, member_id) in self.running

    def armed(self, kind: TimerKind, member_id: str, timer: Timer) -> Timers:
        """With this timer, in place of a running one."""
        return Timers(self.running.set((kind, member_id), timer))

    def cancelled(self, member_id: str, *kinds: TimerKind) -> Timers:
        """Without the member's timers of these kinds; itself where none of them runs."""
        running = self.running.without(*((kind, member_id) for kind in kinds))
        return self if running is self.running else Timers(running)


_NONE: FrozenMap[TimerKey, Timer] = FrozenMap()

NO_TIMERS = Timers(_NONE)
