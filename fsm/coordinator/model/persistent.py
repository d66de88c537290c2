"""Immutable mappings and sets for the coordinator's states.

A `PersistentMap` is a value. It compares and hashes by content, keeps the insertion order, and a change returns another
map. A small map is copied. A large one is shared: the new map stores only the differences, until it is iterated or has
many of them, when they are merged. So a change costs about the square root of the map's size times a copy's few
nanoseconds per entry, and a look-up costs one or two.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from math import isqrt
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
Element = TypeVar("Element", bound=Hashable)

SMALL = 64
"""Maps of up to this size are copied, not shared."""
MOST_NOTES = 2
"""The maximum number of differences, in square roots of the map's size."""

_GONE: Any = object()
"""Marks a key of the shared entries that the map does not have."""
_ABSENT: Any = object()
_NONE_MOVED: frozenset[Any] = frozenset()
_new = object.__new__


class PersistentMap(Mapping[K, V]):
    """An immutable dict.

    >>> one = PersistentMap({"a": 1})
    >>> one.set("b", 2).without("a"), one == PersistentMap(a=1)
    (PersistentMap({'b': 2}), True)
    """

    __slots__ = ("_entries", "_hash", "_moved", "_noted", "_size")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = (), /, **named: V) -> None:
        self._entries: dict[K, V] = dict(entries, **named)
        self._noted: dict[K, V] | None = None
        """Differences from the entries, which other maps may share; None without any."""
        self._moved: frozenset[K] = _NONE_MOVED
        """Keys that were removed from the entries and added again: their position is among the differences."""
        self._size = len(self._entries)
        self._hash: int | None = None

    def __getitem__(self, key: K) -> V:
        if self._noted is None:
            return self._entries[key]
        found = self.get(key, _ABSENT)
        if found is _ABSENT:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[K]:
        return iter(self.entries())

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        noted = self._noted
        if noted:
            found = noted.get(key, _ABSENT)  # type: ignore[arg-type]
            if found is not _ABSENT:
                return found is not _GONE
        return key in self._entries

    def get(self, key: K, default: Any = None, /) -> Any:
        """The value, or the default."""
        noted = self._noted  # first the differences, then the entries: `entries` replaces them in the other order
        if noted:
            found = noted.get(key, _ABSENT)
            if found is not _ABSENT:
                return default if found is _GONE else found
        return self._entries.get(key, default)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, PersistentMap) and self._size == other._size and self.entries() == other.entries()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.entries().items()))
        return self._hash

    def __repr__(self) -> str:
        return f"PersistentMap({self.entries()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PersistentMap, (self.entries(),)

    def items(self) -> ItemsView[K, V]:
        """Keys with their values."""
        return self.entries().items()

    def values(self) -> ValuesView[V]:
        return self.entries().values()

    def keys(self) -> KeysView[K]:
        return self.entries().keys()

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """The map with this value for the key, which keeps its position; itself if nothing changes.

        Values are compared by identity, because they are large.
        """
        entries, noted, size = self._entries, self._noted, self._size
        found = entries.get(key, _ABSENT) if noted is None else self.get(key, _ABSENT)
        if found is value:
            return self
        if size < SMALL or (noted is not None and len(noted) >= MOST_NOTES * isqrt(size)):
            entries = entries.copy() if noted is None else self._merge_notes()
            entries[key] = value
            return _share(entries, None, _NONE_MOVED, len(entries))
        size += found is _ABSENT
        if noted is None:
            return _share(entries, {key: value}, _NONE_MOVED, size)
        if found is _ABSENT and key in noted:
            noted = {k: v for k, v in noted.items() if k != key}
            return _share(entries, {**noted, key: value}, self._moved | {key}, size)
        return _share(entries, {**noted, key: value}, self._moved, size)

    def merge(self, entries: Mapping[K, V]) -> PersistentMap[K, V]:
        """The map with all these entries; itself if there are none."""
        if len(entries) < 2:
            return self.set(*next(iter(entries.items()))) if entries else self
        if not self._may_note(len(entries)):
            return adopt_dict({**self.entries(), **entries})
        noted, size = self._noted, self._size + sum(key not in self for key in entries)
        if noted is None:
            return _share(self._entries, dict(entries), _NONE_MOVED, size)
        back = [key for key in entries if noted.get(key) is _GONE]
        noted = {key: value for key, value in noted.items() if key not in back} if back else noted
        return _share(self._entries, {**noted, **entries}, self._moved.union(back), size)

    def without(self, *keys: K) -> PersistentMap[K, V]:
        """The map without these keys; itself if it has none of them."""
        present = [key for key in keys if key in self] if self._size else None
        if not present:
            return self
        if not self._may_note(len(present)):
            left = self.entries().copy()
            for key in present:
                left.pop(key, None)
            return adopt_dict(left)
        noted = {} if self._noted is None else self._noted.copy()
        moved = _NONE_MOVED if self._noted is None else self._moved
        for key in present:
            noted.pop(key, None)
            if key in self._entries:
                noted[key] = _GONE
        return _share(self._entries, noted, moved, self._size - len(set(present)))

    def differing(self, other: PersistentMap[K, Any]) -> frozenset[K]:
        """Keys that only one of the two maps has, or whose values differ by identity.

        If one map comes from the other by few changes, only their differences are compared.
        """
        if self is other:
            return _NONE_MOVED
        if self._entries is other._entries:
            mine, theirs = self._noted or {}, other._noted or {}
        else:
            mine, theirs = self.entries(), other.entries()
        keys = [key for key, value in mine.items() if theirs.get(key, _ABSENT) is not value]
        keys += [key for key in theirs if key not in mine]
        return frozenset(key for key in keys if self.get(key, _ABSENT) is not other.get(key, _ABSENT))

    def _may_note(self, more: int) -> bool:
        """Whether the map is large enough to be shared, with this many more differences."""
        size, noted = self._size, self._noted
        return size >= SMALL and more + (len(noted) if noted else 0) <= MOST_NOTES * isqrt(size)

    def entries(self) -> dict[K, V]:
        """The content as a plain dict, which must not be changed.

        It replaces the entries of this map only. Two threads may do this at once while a third one reads: the
        differences are valid for both dicts.
        """
        if self._noted is None:
            return self._entries
        self._entries = whole = self._merge_notes()
        self._noted = None
        return whole

    def _merge_notes(self) -> dict[K, V]:
        whole, noted = self._entries, self._noted or {}
        if self._moved:
            whole = {key: value for key, value in whole.items() if key not in self._moved}
        whole = {**whole, **noted}
        for key in [key for key, value in noted.items() if value is _GONE]:
            del whole[key]
        return whole


def adopt_dict(entries: dict[K, V]) -> PersistentMap[K, V]:
    """A map with this dict itself instead of a copy; it must not be changed any more."""
    return _share(entries, None, _NONE_MOVED, len(entries))


def _share(entries: dict[K, V], noted: dict[K, V] | None, moved: frozenset[K], size: int) -> PersistentMap[K, V]:
    """A map of these entries, which other maps may share, and differences from them."""
    made: PersistentMap[K, V] = _new(PersistentMap)
    made._entries, made._noted, made._moved, made._size, made._hash = entries, noted, moved, size, None
    return made


class PersistentSet(AbstractSet[Element]):
    """An immutable set in insertion order; a change costs as much as a `PersistentMap`'s.

    >>> PersistentSet("ab").add("c").without("a") == {"b", "c"}
    True
    """

    __slots__ = ("_elements",)

    def __init__(self, elements: Iterable[Element] = ()) -> None:
        self._elements: PersistentMap[Element, None] = adopt_dict(dict.fromkeys(elements))

    def __contains__(self, element: object) -> bool:
        return element in self._elements

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __hash__(self) -> int:
        return hash(frozenset(self._elements))

    def __repr__(self) -> str:
        return f"PersistentSet({list(self._elements)!r})"

    def add(self, element: Element) -> PersistentSet[Element]:
        """The set with this element; itself if it already has it."""
        return self if element in self else self._of(self._elements.set(element, None))

    def without(self, *elements: Element) -> PersistentSet[Element]:
        """The set without these elements; itself if it has none of them."""
        left = self._elements.without(*elements)
        return self if left is self._elements else self._of(left)

    @classmethod
    def _of(cls, elements: PersistentMap[Element, None]) -> PersistentSet[Element]:
        made: PersistentSet[Element] = cls.__new__(cls)
        made._elements = elements
        return made


Counts = PersistentMap[Element, int]
"""Counts by element; never 0."""


def count(counts: Counts[Element], lost: tuple[Element, ...], gained: tuple[Element, ...]) -> Counts[Element]:
    """The counts after removing and adding elements; a count of 0 is dropped, and added again at the end."""
    if lost == gained:
        return counts
    found = counts.entries().copy()
    for name in lost:
        found[name] -= 1
        if not found[name]:
            del found[name]
    for name in gained:
        found[name] = found.get(name, 0) + 1
    return adopt_dict(found)


M = TypeVar("M")


class ById(Mapping[str, M]):
    """A mapping that delegates to its map directly, as `Mapping`'s own views are slow."""

    __slots__ = ()
    by_id: PersistentMap[str, M]

    def __getitem__(self, member_id: str) -> M:
        return self.by_id[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def items(self) -> ItemsView[str, M]:
        """Ids with their members."""
        return self.by_id.items()

    def values(self) -> ValuesView[M]:
        """The members."""
        return self.by_id.values()

    def keys(self) -> KeysView[str]:
        """Their ids."""
        return self.by_id.keys()

    def get(self, member_id: str, default: Any = None, /) -> Any:
        """The member, or the default."""
        return self.by_id.get(member_id, default)
