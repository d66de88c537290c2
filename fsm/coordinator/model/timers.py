"""Timers as values: deadlines by kind and owner. Nothing waits; the caller asks for due timers.

Source: `CoordinatorTimer` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from operator import itemgetter
from typing import Any, TypeVar

from fsm.coordinator.model.persistent import PersistentMap

Key = TypeVar("Key")

Entry = tuple[int, int, Any, int]
"""A deadline, its sequence number, its key, and its epoch. Entries are sorted by expiry: those of one instant in the
order in which they were set.
"""

Chunks = tuple[tuple[Any, ...], ...]
"""Sorted entries in chunks of at most twice `CHUNK`, so that a change copies some hundred of them."""

CHUNK = 64
FEW = 8
"""Up to this many changes are made one by one; more of them sort all entries again."""


class Deadlines(Mapping[Key, int]):
    """Deadlines by owner: an immutable mapping with fast access to the earliest one.

    Two are equal if they expire alike: the same deadlines, and those of one instant in the same order.
    """

    __slots__ = ("_at", "_by_key", "_chunks", "_hash", "_number", "_size", "_tail", "next_deadline_ms")
    next_deadline_ms: int | None
    """The earliest deadline; None without one."""

    def __init__(self, deadlines_ms: Mapping[Key, int] | Iterable[tuple[Key, int, int]] = ()) -> None:
        """From deadlines by key, or from keys with deadlines and epochs; of one instant, the first comes first."""
        given = [(*one, 0) for one in deadlines_ms.items()] if isinstance(deadlines_ms, Mapping) else deadlines_ms
        entries = {key: (deadline_ms, i, key, epoch) for i, (key, deadline_ms, epoch) in enumerate(given)}
        self._by_key: PersistentMap[Key, Entry] = PersistentMap(entries)
        self._chunks: Chunks = _chunk(entries.values())
        """Sorted entries, including outdated ones: changing a deadline adds another entry."""
        self._tail: tuple[Entry, ...] = ()
        """Entries after those of the chunks; nearly all new ones belong here."""
        self._at = 0
        """The index of the first current entry in the first chunk, or in the tail if there is no chunk."""
        self._size = self._number = len(entries)
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
        """Keys in order of expiry, with their deadlines and epochs."""
        return [(key, deadline_ms, epoch) for deadline_ms, _, key, epoch in sorted(self._by_key.values())]

    def epoch(self, key: Key) -> int:
        """The epoch stored with the deadline: for a rebalance timer, the member epoch at which it was set."""
        return self._by_key[key][3]

    def earliest(self) -> Key:
        """The key with the earliest deadline. Raises `IndexError` if there is none."""
        key: Key = (self._chunks[0] if self._chunks else self._tail)[self._at][2]
        return key

    def set_all(self, deadlines_ms: Mapping[Key, int]) -> Deadlines[Key]:
        """The deadlines with these added or replaced."""
        if len(deadlines_ms) < FEW:
            made = self
            for key, deadline_ms in deadlines_ms.items():
                made = made.set(key, deadline_ms)
            return made
        number = self._number
        found = {key: (deadline_ms, number + i, key, 0) for i, (key, deadline_ms) in enumerate(deadlines_ms.items())}
        by_key = self._by_key.merge(found)
        return _deadlines(by_key, _chunk(by_key.values()), (), 0, len(by_key), number + len(found))

    def set(self, key: Key, deadline_ms: int, epoch: int = 0) -> Deadlines[Key]:
        """The deadlines with this one added or replaced."""
        chunks, tail, at, number = self._chunks, self._tail, self._at, self._number
        entry = (deadline_ms, number, key, epoch)
        by_key = self._by_key.set(key, entry)
        before = tail or (chunks[-1] if chunks else None)
        if before is not None and entry < before[-1]:
            found = (*chunks, tail) if tail else chunks
            *rest, tail = insert((found[0][at:], *found[1:]), entry)
            chunks, at = tuple(rest), 0
        elif len(tail) < CHUNK:
            tail = (*tail, entry)
        else:
            chunks, tail = (*chunks, tail), (entry,)
        return _deadlines(by_key, chunks, tail, at, self._size + 1, number + 1)

    def without(self, *keys: Key) -> Deadlines[Key]:
        """The deadlines without these keys; itself if it has none of them."""
        left = self._by_key.without(*keys)
        if left is self._by_key:
            return self
        return _deadlines(left, self._chunks, self._tail, self._at, self._size, self._number)


def _deadlines(  # noqa: PLR0917  # the fields
    by_key: PersistentMap[Key, Entry], chunks: Chunks, tail: tuple[Entry, ...], at: int, size: int, number: int
) -> Deadlines[Key]:
    """Deadlines whose first entry is current, with at most about half of the entries outdated."""
    if size > 2 * len(by_key) + CHUNK:
        chunks, tail, at, size = _chunk(by_key.values()), (), 0, len(by_key)
    first = None
    while chunks or tail:
        head = chunks[0] if chunks else tail
        while at < len(head) and by_key.get(head[at][2]) is not head[at]:
            at += 1
        if at < len(head):
            first = head[at][0]
            break
        chunks, tail, at, size = chunks[1:], tail if chunks else (), 0, size - len(head)
    made: Deadlines[Key] = Deadlines.__new__(Deadlines)
    made._by_key, made._chunks, made._tail, made._at, made._size = by_key, chunks, tail, at, size
    made._number, made._hash, made.next_deadline_ms = number, None, first
    return made


def _chunk(entries: Iterable[Entry]) -> Chunks:
    in_order = sorted(entries)
    return tuple(tuple(in_order[i : i + CHUNK]) for i in range(0, len(in_order), CHUNK))


_last: Callable[[tuple[Any, ...]], Any] = itemgetter(-1)


def insert(chunks: Chunks, new: Any) -> Chunks:
    """Sorted chunks with another entry."""
    if not chunks or (new > chunks[-1][-1] and len(chunks[-1]) >= CHUNK):
        return (*chunks, (new,))
    at = len(chunks) - 1 if new > chunks[-1][0] else bisect_left(chunks, new, key=_last)
    chunk = chunks[at]
    i = len(chunk) if new > chunk[-1] else bisect_left(chunk, new)
    grown = chunk[:i] + (new,) + chunk[i:]  # noqa: RUF005  # in less time than by unpacking
    made = (grown,) if len(grown) <= 2 * CHUNK else (grown[:CHUNK], grown[CHUNK:])
    return chunks[:at] + made + chunks[at + 1 :]


def remove(chunks: Chunks, old: Any) -> Chunks:
    """Sorted chunks without one of their entries."""
    at = bisect_left(chunks, old, key=_last)
    chunk = chunks[at]
    i = bisect_left(chunk, old)
    left = chunk[:i] + chunk[i + 1 :]
    return (*chunks[:at], *((left,) if left else ()), *chunks[at + 1 :])


class TimerKind(Enum):
    """The kind of a timer of a consumer group; the value is the prefix of its name in Kafka."""

    SESSION = "session-timeout"
    REBALANCE = "rebalance-timeout"
    JOIN = "join"
    SYNC = "sync"

    __hash__ = object.__hash__


Timers = Deadlines[tuple[TimerKind, str]]
"""The timers of a consumer group, at most one by kind and member id."""
