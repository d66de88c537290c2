"""Timers as values: deadlines by what they are for and whose they are. Nobody waits; the caller asks what is due.

Source: `CoordinatorTimer` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from fsm.coordinator.model.persistent import FrozenMap

Key = TypeVar("Key")


Entry = tuple[int, int, Any]
"""A deadline, how many were armed before it, and its key: entries are sorted as they expire, ties as they were armed.
"""

Chunks = tuple[tuple[Entry, ...], ...]

CHUNK = 64
"""Entries are kept in sorted chunks of at most twice this size, so that a change copies some hundred of them."""


FEW = 8
"""So many changes are made one by one; more of them sort all entries anew."""


class Deadlines(Mapping[Key, int]):
    """Deadlines by whose they are: an immutable mapping that knows its earliest one.

    Two are equal if they expire alike: the same deadlines, and those of one instant in the same order.
    """

    __slots__ = ("_by_key", "_chunks", "_hash", "_number")

    def __init__(self, deadlines_ms: Mapping[Key, int] | None = None) -> None:
        self._by_key: FrozenMap[Key, Entry] = FrozenMap()
        self._chunks: Chunks = ()
        self._number = 0
        self._hash: int | None = None
        if deadlines_ms:
            made = self.armed(deadlines_ms)
            self._by_key, self._chunks, self._number = made._by_key, made._chunks, made._number

    def __getitem__(self, key: Key) -> int:
        return self._by_key[key][0]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Deadlines) and len(self) == len(other) and self.in_order() == other.in_order()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self.in_order()))
        return self._hash

    def __repr__(self) -> str:
        return f"Deadlines({dict(self.in_order())!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Deadlines, (dict(self.in_order()),)

    def in_order(self) -> list[tuple[Key, int]]:
        """Keys with their deadlines as they expire."""
        return [(key, deadline_ms) for chunk in self._chunks for deadline_ms, _, key in chunk]

    def earliest(self) -> tuple[Key, int] | None:
        """Whose deadline comes first, and when; None where there is none."""
        return (self._chunks[0][0][2], self._chunks[0][0][0]) if self._chunks else None

    def armed(self, deadlines_ms: Mapping[Key, int]) -> Deadlines[Key]:
        """With these deadlines, in place of those that their keys had."""
        if len(deadlines_ms) < FEW:
            made = self
            for key, deadline_ms in deadlines_ms.items():
                made = made.set(key, deadline_ms)
            return made
        number = self._number
        found = {key: (deadline, number + i, key) for i, (key, deadline) in enumerate(deadlines_ms.items())}
        by_key = self._by_key.merged(found)
        return _deadlines(by_key, _chunked(by_key.values()), number + len(found))

    def set(self, key: Key, deadline_ms: int) -> Deadlines[Key]:
        """With this deadline, in place of the one that its key had."""
        entry = (deadline_ms, self._number, key)
        old = self._by_key.get(key)
        chunks = self._chunks if old is None else _removed(self._chunks, old)
        return _deadlines(self._by_key.set(key, entry), _inserted(chunks, entry), self._number + 1)

    def without(self, *keys: Key) -> Deadlines[Key]:
        """Without these keys; itself where it has none of them."""
        by_key, chunks = self._by_key, self._chunks
        left = by_key.without(*keys)
        if left is by_key:
            return self
        if len(by_key) - len(left) > 1:
            return _deadlines(left, _chunked(left.values()), self._number)
        gone = next(by_key[key] for key in keys if key in by_key)
        return _deadlines(left, _removed(chunks, gone), self._number)


def _deadlines(by_key: FrozenMap[Key, Entry], chunks: Chunks, number: int) -> Deadlines[Key]:
    made: Deadlines[Key] = Deadlines.__new__(Deadlines)
    made._by_key, made._chunks, made._number, made._hash = by_key, chunks, number, None
    return made


def _chunked(entries: Iterable[Entry]) -> Chunks:
    in_order = sorted(entries)
    return tuple(tuple(in_order[i : i + CHUNK]) for i in range(0, len(in_order), CHUNK))


_last: Callable[[tuple[Entry, ...]], Entry] = itemgetter(-1)


def _inserted(chunks: Chunks, entry: Entry) -> Chunks:
    if not chunks:
        return ((entry,),)
    at = min(bisect_left(chunks, entry, key=_last), len(chunks) - 1)
    chunk = chunks[at]
    i = bisect_left(chunk, entry)
    grown = (*chunk[:i], entry, *chunk[i:])
    halves = (grown,) if len(grown) <= 2 * CHUNK else (grown[:CHUNK], grown[CHUNK:])
    return chunks[:at] + halves + chunks[at + 1 :]


def _removed(chunks: Chunks, entry: Entry) -> Chunks:
    at = bisect_left(chunks, entry, key=_last)
    chunk = chunks[at]
    i = bisect_left(chunk, entry)
    left = chunk[:i] + chunk[i + 1 :]
    if len(left) < CHUNK // 4 and at + 1 < len(chunks):  # else many small ones would be left in time
        return (*chunks[:at], left + chunks[at + 1], *chunks[at + 2 :])
    return (*chunks[:at], left, *chunks[at + 1 :]) if left else chunks[:at]


class TimerKind(Enum):
    """What a timer of a consumer group is for; the value is the prefix of its name in Kafka."""

    SESSION = "session-timeout"
    REBALANCE = "rebalance-timeout"
    JOIN = "join"
    SYNC = "sync"

    __hash__ = object.__hash__


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
        return Timers(self.running.set(key, timer), self.deadlines.set(key, timer.deadline_ms))

    def cancelled(self, member_id: str, *kinds: TimerKind) -> Timers:
        """Without the member's timers of these kinds; itself where none of them runs."""
        keys = [(kind, member_id) for kind in kinds]
        running = self.running.without(*keys)
        return self if running is self.running else Timers(running, self.deadlines.without(*keys))


NO_TIMERS = Timers()
