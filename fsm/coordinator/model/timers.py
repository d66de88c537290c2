"""Timers as values: deadlines by what they are for and whose they are. Nobody waits; the caller asks what is due.

Source: `CoordinatorTimer` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from operator import itemgetter
from typing import Any, TypeVar

from fsm.coordinator.model.persistent import FrozenMap

Key = TypeVar("Key")

Entry = tuple[int, int, Any, int]
"""A deadline, how many were set before it, its key, and the epoch that it remembers.

Entries are sorted as they expire: those of one instant in the order in which they were set.
"""

Chunks = tuple[tuple[Any, ...], ...]
"""Sorted entries in chunks of at most twice `CHUNK`, so that a change copies some hundred of them."""

CHUNK = 64
FEW = 8
"""So many changes are made one by one; more of them sort all entries anew."""


class Deadlines(Mapping[Key, int]):
    """Deadlines by whose they are: an immutable mapping that knows its earliest one.

    Two are equal if they expire alike: the same deadlines, and those of one instant in the same order.
    """

    __slots__ = ("_by_key", "_chunks", "_hash", "_number", "next_deadline_ms")
    next_deadline_ms: int | None
    """The earliest deadline; None where there is none."""

    def __init__(self, deadlines_ms: Mapping[Key, int] | Iterable[tuple[Key, int, int]] = ()) -> None:
        """From deadlines by key, or from keys with deadlines and epochs; of one instant, the first comes first."""
        given = [(*one, 0) for one in deadlines_ms.items()] if isinstance(deadlines_ms, Mapping) else deadlines_ms
        entries = {key: (deadline_ms, i, key, epoch) for i, (key, deadline_ms, epoch) in enumerate(given)}
        self._by_key: FrozenMap[Key, Entry] = FrozenMap(entries)
        self._chunks: Chunks = _chunk(entries.values())
        self._number = len(entries)
        self.next_deadline_ms = self._chunks[0][0][0] if entries else None
        self._hash: int | None = None

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
        return f"Deadlines({self.in_order()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Deadlines, (self.in_order(),)

    def in_order(self) -> list[tuple[Key, int, int]]:
        """Keys as they expire, with their deadlines and epochs."""
        return [(key, deadline_ms, epoch) for chunk in self._chunks for deadline_ms, _, key, epoch in chunk]

    def epoch(self, key: Key) -> int:
        """What the deadline remembers: of a rebalance timer, the member epoch at which it was set."""
        return self._by_key[key][3]

    def earliest(self) -> Key:
        """The key whose deadline comes first. Raises `IndexError` where there is none."""
        key: Key = self._chunks[0][0][2]
        return key

    def set_all(self, deadlines_ms: Mapping[Key, int]) -> Deadlines[Key]:
        """With these deadlines, in place of those that their keys had."""
        if len(deadlines_ms) < FEW:
            made = self
            for key, deadline_ms in deadlines_ms.items():
                made = made.set(key, deadline_ms)
            return made
        number = self._number
        found = {key: (deadline_ms, number + i, key, 0) for i, (key, deadline_ms) in enumerate(deadlines_ms.items())}
        by_key = self._by_key.merge(found)
        return _deadlines(by_key, _chunk(by_key.values()), number + len(found))

    def set(self, key: Key, deadline_ms: int, epoch: int = 0) -> Deadlines[Key]:
        """With this deadline, in place of the one that its key had."""
        entry = (deadline_ms, self._number, key, epoch)
        chunks = move(self._chunks, self._by_key.get(key), entry)
        return _deadlines(self._by_key.set(key, entry), chunks, self._number + 1)

    def without(self, *keys: Key) -> Deadlines[Key]:
        """Without these keys; itself where it has none of them."""
        by_key, chunks = self._by_key, self._chunks
        left = by_key.without(*keys)
        if left is by_key:
            return self
        if len(by_key) - len(left) > FEW:
            return _deadlines(left, _chunk(left.values()), self._number)
        for key in dict.fromkeys(keys):
            if key in by_key:
                chunks = move(chunks, by_key[key])
        return _deadlines(left, chunks, self._number)


def _deadlines(by_key: FrozenMap[Key, Entry], chunks: Chunks, number: int) -> Deadlines[Key]:
    made: Deadlines[Key] = Deadlines.__new__(Deadlines)
    made._by_key, made._chunks, made._number, made._hash = by_key, chunks, number, None
    made.next_deadline_ms = chunks[0][0][0] if chunks else None
    return made


def _chunk(entries: Iterable[Entry]) -> Chunks:
    in_order = sorted(entries)
    return tuple(tuple(in_order[i : i + CHUNK]) for i in range(0, len(in_order), CHUNK))


_last: Callable[[tuple[Any, ...]], Any] = itemgetter(-1)


def move(chunks: Chunks, old: Any = None, new: Any = None) -> Chunks:
    """Sorted chunks without one of their entries, if that is given, and with another one, if that is."""
    found = list(chunks)
    if old is not None:
        at = 0 if old <= found[0][-1] else bisect_left(found, old, key=_last)
        chunk = found[at]
        i = bisect_left(chunk, old)
        left = chunk[:i] + chunk[i + 1 :]
        if len(left) < CHUNK // 4 and at + 1 < len(found):  # else many small ones would be left in time
            found[at : at + 2] = [left + found[at + 1]]
        else:
            found[at : at + 1] = [left] if left else []
    if new is not None and not found:
        return ((new,),)
    if new is not None:
        at = len(found) - 1 if new >= found[-1][0] else bisect_left(found, new, key=_last)
        chunk = found[at]
        i = bisect_left(chunk, new)
        grown = (*chunk[:i], new, *chunk[i:])
        found[at : at + 1] = [grown] if len(grown) <= 2 * CHUNK else [grown[:CHUNK], grown[CHUNK:]]
    return tuple(found)


class TimerKind(Enum):
    """What a timer of a consumer group is for; the value is the prefix of its name in Kafka."""

    SESSION = "session-timeout"
    REBALANCE = "rebalance-timeout"
    JOIN = "join"
    SYNC = "sync"

    __hash__ = object.__hash__


Timers = Deadlines[tuple[TimerKind, str]]
"""The timers of a consumer group, at most one by kind and member id."""
