"""Immutable mappings: what the coordinator's states are made of.

A `FrozenMap` is a value. It compares and hashes by content, keeps the order of insertion, and a change gives another
map: the copy costs a few nanoseconds per entry, which is less than a tree of the same size costs to walk.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V]):
    """An immutable dict.

    >>> one = FrozenMap({"a": 1})
    >>> one.set("b", 2).without("a"), one == FrozenMap(a=1)
    (FrozenMap({'b': 2}), True)
    """

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = (), /, **named: V) -> None:
        self._entries: dict[K, V] = dict(entries, **named)
        self._hash: int | None = None

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: K, default: Any = None, /) -> Any:
        """The value, or the default where there is none."""
        return self._entries.get(key, default)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FrozenMap) and self._entries == other._entries)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._entries.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"FrozenMap({self._entries!r})"

    def copied(self) -> dict[K, V]:
        """A dict of one's own; faster than `dict` of any other mapping."""
        return self._entries.copy()

    def items(self) -> ItemsView[K, V]:
        """Keys with their values."""
        return self._entries.items()

    def values(self) -> ValuesView[V]:
        """The values."""
        return self._entries.values()

    def keys(self) -> KeysView[K]:
        """The keys."""
        return self._entries.keys()

    def set(self, key: K, value: V) -> FrozenMap[K, V]:
        """With this value for the key, which keeps its place if it has one; itself where that is so already."""
        if key in self._entries and self._entries[key] == value:
            return self
        return self.merged({key: value})

    def merged(self, entries: Mapping[K, V]) -> FrozenMap[K, V]:
        """With all these entries; itself where there are none."""
        return _of({**self._entries, **entries}) if entries else self

    def without(self, *keys: K) -> FrozenMap[K, V]:
        """Without these keys; itself where it has none of them."""
        present = [key for key in keys if key in self._entries]
        if not present:
            return self
        left = self._entries.copy()
        for key in present:
            left.pop(key, None)
        return _of(left)


def taken(entries: dict[K, V]) -> FrozenMap[K, V]:
    """A map of this dict itself, which nobody may change from now on; saves the copy."""
    return _of(entries)


def _of(entries: dict[K, V]) -> FrozenMap[K, V]:
    """A map that takes the dict over instead of copying it once more."""
    made: FrozenMap[K, V] = FrozenMap.__new__(FrozenMap)
    made._entries = entries  # a constructor
    made._hash = None
    return made


def freeze(value: Any) -> Any:
    """The immutable form of nested dicts and lists, as JSON gives them: frozen maps and tuples."""
    if isinstance(value, Mapping):
        return FrozenMap({key: freeze(part) for key, part in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(part) for part in value)
    return value


def thaw(value: Any) -> Any:
    """The inverse of `freeze`: dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thaw(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(part) for part in value]
    return value
