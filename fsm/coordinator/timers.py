"""Timers as values: deadlines by what they are for and whose they are. Nobody waits; the caller asks what is due.

Source: section 4 of the coordinator reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from fsm.coordinator.frozen import FrozenMap

Key = TypeVar("Key")


class Armed(NamedTuple):
    """A deadline, and how many were armed before it: of equal ones the first armed comes first."""

    deadline_ms: int
    number: int


class Node(NamedTuple):
    """A heap: its earliest entry, and the rest in two heaps of which the left one is no shallower."""

    armed: Armed
    key: Any
    depth: int
    left: Node | None
    right: Node | None


def _merged(one: Node | None, other: Node | None) -> Node | None:
    """Both heaps as one. It goes down on the right, which is no deeper than the logarithm of what it holds."""
    if one is None or other is None:
        return one or other
    first, second = (one, other) if one.armed < other.armed else (other, one)
    left, right = first.left, _merged(first.right, second)
    if _depth(left) < _depth(right):
        left, right = right, left
    return Node(first.armed, first.key, _depth(right) + 1, left, right)


def _depth(heap: Node | None) -> int:
    return 0 if heap is None else heap.depth


STALE_AT_MOST = 4
"""So many entries of a heap may be stale for each that counts, before it is built anew."""


class Deadlines(Mapping[Key, int]):
    """Deadlines by whose they are: an immutable mapping that knows its earliest one.

    What was armed anew or cancelled stays in the heap until its time has come, and is passed over then.
    """

    __slots__ = ("_armed", "_heap", "_heaped", "_number")

    def __init__(self, deadlines_ms: Mapping[Key, int] | None = None) -> None:
        self._armed: FrozenMap[Key, Armed] = FrozenMap()
        self._heap: Node | None = None
        self._heaped = self._number = 0
        if deadlines_ms:
            made = self.armed(deadlines_ms)
            self._armed, self._heap = made._armed, made._heap
            self._heaped, self._number = made._heaped, made._number

    def __getitem__(self, key: Key) -> int:
        return self._armed[key].deadline_ms

    def __iter__(self) -> Iterator[Key]:
        return iter(self._armed)

    def __len__(self) -> int:
        return len(self._armed)

    def __contains__(self, key: object) -> bool:
        return key in self._armed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deadlines) and (self._armed is other._armed or dict(self) == dict(other))

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"Deadlines({dict(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        in_order = sorted(self._armed.items(), key=lambda entry: entry[1].number)
        return Deadlines, ({key: one.deadline_ms for key, one in in_order},)

    def armed(self, deadlines_ms: Mapping[Key, int]) -> Deadlines[Key]:
        """With these deadlines, in place of those that their keys had."""
        heap, number, found = self._heap, self._number, dict[Key, Armed]()
        for key, deadline_ms in deadlines_ms.items():
            found[key] = armed = Armed(deadline_ms, number)
            heap = _merged(Node(armed, key, 1, None, None), heap)
            number += 1
        return _deadlines(self._armed.merged(found), heap, self._heaped + len(found), number)

    def without(self, *keys: Key) -> Deadlines[Key]:
        """Without these keys; itself where it has none of them."""
        left = self._armed.without(*keys)
        return self if left is self._armed else _deadlines(left, self._heap, self._heaped, self._number)

    def earliest(self) -> tuple[Key, int] | None:
        """Whose deadline comes first, and when; None where there is none."""
        heap = self._heap
        while heap is not None and self._armed.get(heap.key) != heap.armed:
            heap = _merged(heap.left, heap.right)
        self._heap = heap  # the same value, with less to pass over
        return None if heap is None else (heap.key, heap.armed.deadline_ms)


def _deadlines(armed: FrozenMap[Key, Armed], heap: Node | None, heaped: int, number: int) -> Deadlines[Key]:
    made: Deadlines[Key] = Deadlines.__new__(Deadlines)
    if heaped > STALE_AT_MOST * (len(armed) + STALE_AT_MOST):
        heap, heaped = None, len(armed)
        for key, one in armed.items():
            heap = _merged(Node(one, key, 1, None, None), heap)
    made._armed, made._heap, made._heaped, made._number = armed, heap, heaped, number
    return made


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


_NO_TIMER: FrozenMap[TimerKey, Timer] = FrozenMap()
_NO_DEADLINE: Deadlines[TimerKey] = Deadlines()


@dataclass(frozen=True)
class Timers:
    """Timers of one group, at most one by kind and member. They come about by arming and cancelling only."""

    running: FrozenMap[TimerKey, Timer] = _NO_TIMER
    deadlines: Deadlines[TimerKey] = field(default=_NO_DEADLINE, compare=False, repr=False)
    """The same, for who asks what comes first."""

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline."""
        found = self.deadlines.earliest()
        return None if found is None else found[1]

    def first_due(self, now_ms: int) -> tuple[TimerKey, Timer] | None:
        """What ran out first by now; of equal deadlines, what was armed first. None where nothing did."""
        found = self.deadlines.earliest()
        return None if found is None or found[1] > now_ms else (found[0], self.running[found[0]])

    def is_running(self, kind: TimerKind, member_id: str) -> bool:
        """Whether there is such a timer."""
        return (kind, member_id) in self.running

    def armed(self, kind: TimerKind, member_id: str, timer: Timer) -> Timers:
        """With this timer, in place of a running one."""
        key = (kind, member_id)
        return Timers(self.running.set(key, timer), self.deadlines.armed({key: timer.deadline_ms}))

    def cancelled(self, member_id: str, *kinds: TimerKind) -> Timers:
        """Without the member's timers of these kinds; itself where none of them runs."""
        keys = [(kind, member_id) for kind in kinds]
        running = self.running.without(*keys)
        return self if running is self.running else Timers(running, self.deadlines.without(*keys))


NO_TIMERS = Timers()
