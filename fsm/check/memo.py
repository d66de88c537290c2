"""Tables of integers that are filled on demand: a function of one number or two runs once per distinct argument.

Frontiers of a search are columns of such numbers; `Rows.join` and `Pairs.join` look up a whole column at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


_ABSENT = object()
NOTHING: Longs = np.zeros(0, np.int64)


class Numbers:
    """Values by number and numbers by key, from 0 in the order of addition; 1 and True are different keys.

    `recall` makes the value of a number that has none: from its key, or from an earlier run.
    """

    __slots__ = ("_values", "ids", "keys", "origins", "recall")

    def __init__(self, *first: Hashable, recall: Callable[[int], Any] | None = None) -> None:
        self.ids: dict[Hashable, int] = {}
        self.keys: list[Any] = []
        self.origins: list[Any] = []
        """The origin of each value."""
        self.recall = recall
        self._values: list[Any] = []
        for one in first:
            self.number(one)

    def number(self, key: Hashable, value: Any = _ABSENT, origin: Any = None) -> int:
        """The number of a key, which is added together with its value if it is new."""
        typed = type(key), key
        found = self.ids.get(typed)
        if found is None:
            found = self.ids[typed] = len(self._values)
            self._values.append(value)
            self.keys.append(key)
            self.origins.append(origin)
        return found

    def value(self, number: int) -> Any:
        """The value of a number: the key itself, unless it has another value or is recalled."""
        value = self._values[number]
        if value is not _ABSENT:
            return value
        if self.recall is None:
            return self.keys[number]
        value = self._values[number] = self.recall(number)
        return value

    def restore(self, keys: Sequence[Any] | None, origins: Sequence[Any]) -> None:
        """Restores the contents of an earlier run: with keys, or without them if values are recalled first."""
        self.origins, self._values = list(origins), [_ABSENT] * len(origins)
        self.keys = list(origins if keys is None else keys)
        self.ids = {} if keys is None else {(type(key), key): number for number, key in enumerate(keys)}

    def complete(self, key: Callable[[Any, Any], Hashable]) -> None:
        """Recalls every value whose key is unknown; `key` returns the key of a value and its origin."""
        for number in range(len(self.ids), len(self._values)):
            known = self.keys[number] = key(self.value(number), self.origins[number])
            self.ids[type(known), known] = number

    def __contains__(self, key: Hashable) -> bool:
        return (type(key), key) in self.ids

    def __len__(self) -> int:
        return len(self._values)


class Growing:
    """An array that grows at its end."""

    __slots__ = ("array", "size")

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.array = np.empty(1024, dtype)
        self.size = 0

    def extend(self, values: npt.ArrayLike, count: int) -> None:
        """Adds so many values, or one value so many times."""
        need = self.size + count
        if need > len(self.array):
            shape = max(need, len(self.array) * 3 // 2), *self.array.shape[1:]
            grown = np.empty(shape, self.array.dtype, order="F")
            grown[: self.size] = self.array[: self.size]
            self.array = grown
        self.array[self.size : need] = values
        self.size = need

    @property
    def view(self) -> npt.NDArray[Any]:
        """The used part of the array, without a copy."""
        return self.array[: self.size]


class Table(Growing):
    """Rows of integers, stored column by column."""

    __slots__ = ("used",)

    def __init__(self, width: int) -> None:
        super().__init__(np.int32)
        self.array = np.empty((1024, width), np.int32, order="F")
        self.used = np.zeros(width, np.bool_)
        """The columns with any value other than 0."""

    def extend(self, values: npt.ArrayLike, count: int) -> None:
        """Adds so many rows."""
        super().extend(values, count)
        self.used |= self.array[self.size - count : self.size].any(axis=0)

    def column(self, number: int, at: Longs) -> Ids:
        """The values of one column in these rows."""
        found: Ids = self.array[:, number].take(at) if self.used[number] else np.zeros(len(at), np.int32)
        return found


def every(_there: int) -> None:
    """Chooses all rows."""


class Rows:
    """For each number some rows of integers, made once by a function.

    `sign` returns the bits of a row by which it can be selected.
    """

    def __init__(
        self,
        width: int,
        make: Callable[[int], Sequence[tuple[int, ...]]],
        sign: Callable[[tuple[int, ...]], int] = lambda _row: 0,
    ) -> None:
        self._start, self._count = np.zeros(1024, np.int64), np.full(1024, -1, np.int32)
        self._signs, self.sign = np.zeros(1024, np.int64), sign
        self.rows, self.make, self.width = Table(width), make, width

    def join(self, ids: Ids, signs: Callable[[int], Longs | None] = every) -> tuple[int, Longs, Longs]:
        """The count of rows of each number; then for each row the index of its number and its place, first rows first.

        `signs` gets the existing bits and chooses some for each number: rows with other bits are left out.
        """
        count, start = self._counts(ids), self._start.take(ids)
        chosen = signs(int(np.bitwise_or.reduce(self._signs)))
        some = count if chosen is None else np.where(self._signs.take(ids) & chosen, count, 0)
        index = [np.flatnonzero(some > which) for which in range(int(some.max(initial=0)))] or [np.zeros(0, np.int64)]
        places = [start.take(those) + which for which, those in enumerate(index)]
        return int(count.sum()), np.concatenate(index), np.concatenate(places)

    def list_missing(self, ids: Ids) -> Longs:
        """The numbers whose rows do not exist yet, each once, sorted."""
        top = int(ids.max(initial=-1)) + 1
        if top > len(self._count):
            more = max(top, 2 * len(self._count)) - len(self._count)
            self._start = np.concatenate([self._start, np.zeros(more, np.int64)])
            self._signs = np.concatenate([self._signs, np.zeros(more, np.int64)])
            self._count = np.concatenate([self._count, np.full(more, -1, np.int32)])
        count = self._count.take(ids)
        new: Longs = np.unique(ids[count < 0]) if count.min(initial=0) < 0 else NOTHING
        return new

    def _counts(self, ids: Ids) -> Ids:
        """The count of rows of each number; rows that do not exist are made."""
        if len(new := self.list_missing(ids)):
            made = [self.make(one) for one in new.tolist()]
            self._count[new] = counts = np.array(list(map(len, made)), np.int32)
            self._start[new] = self.rows.size + np.cumsum(counts) - counts
            self._signs[new] = [reduce(or_, map(self.sign, some), 0) for some in made]
            if rows := [row for some in made for row in some]:
                self.rows.extend(rows, len(rows))
        return self._count.take(ids)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self._start, self._count, self._signs, self.rows.view

    @arrays.setter
    def arrays(self, held: tuple[npt.NDArray[Any], ...]) -> None:
        self._start, self._count, self._signs, rows = held
        self.rows.extend(rows, len(rows))

    @property
    def nbytes(self) -> int:
        return self._start.nbytes + self._count.nbytes + self._signs.nbytes + self.rows.array.nbytes


class Pairs:
    """For each pair of numbers one row of integers, made once by a function: a hash table with open addressing."""

    def __init__(self, width: int, make: Callable[[int, int], tuple[int, ...]]) -> None:
        self._keys, self._at = np.full(1024, -1, np.int64), np.full(1024, -1, np.int32)
        self.rows, self.make, self.width = Table(width), make, width

    def join(self, first: Ids, second: Ids) -> Longs:
        """The place of the row of each pair; rows that do not exist are made."""
        return self.find(first, second).complete()

    def find(self, first: Ids, second: Ids) -> Lookup:
        """A look-up in two parts: rows that do not exist are made later."""
        codes = (first.astype(np.int64) << 32) | second
        return Lookup(self, codes, self._look_up(codes))

    def make_all(self, codes: Longs) -> Ids:
        """The place of the row of each of these pairs; rows that do not exist are made."""
        at = self._look_up(codes)
        if at.min(initial=0) < 0:
            new = np.unique(codes[at < 0])
            begin = self.rows.size
            self.rows.extend([self.make(*pair) for pair in _pairs(new)], len(new))
            self._insert(new, np.arange(begin, self.rows.size, dtype=np.int32))
            at = self._look_up(codes)
        return at

    def _look_up(self, codes: Longs) -> Ids:
        found: Ids = self._at.take(self._find(codes))
        return found

    def _find(self, codes: Longs) -> Longs:
        """The slot that holds each code, or the empty one where it belongs."""
        last = len(self._keys) - 1
        slots = _spread(codes) & last
        there = self._keys[slots]
        astray = np.flatnonzero((there != codes) & (there >= 0))
        while len(astray):
            slots[astray] = (slots[astray] + 1) & last
            there = self._keys[slots[astray]]
            astray = astray[(there != codes[astray]) & (there >= 0)]
        return slots

    def _insert(self, codes: Longs, at: Ids) -> None:
        if 3 * self.rows.size > len(self._keys):
            held = self._keys >= 0
            codes, at = np.concatenate([self._keys[held], codes]), np.concatenate([self._at[held], at])
            size = 1 << int(6 * self.rows.size).bit_length()
            self._keys, self._at = np.full(size, -1, np.int64), np.full(size, -1, np.int32)
        while len(codes):
            slots = self._find(codes)
            _, first = np.unique(slots, return_index=True)  # one of the candidates for a slot gets it
            self._keys[slots[first]], self._at[slots[first]] = codes[first], at[first]
            left = np.ones(len(codes), np.bool_)
            left[first] = False
            codes, at = codes[left], at[left]

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self._keys, self._at, self.rows.view

    @arrays.setter
    def arrays(self, held: tuple[npt.NDArray[Any], ...]) -> None:
        self._keys, self._at, rows = held
        self.rows.extend(rows, len(rows))

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._at.nbytes + self.rows.array.nbytes

    def __len__(self) -> int:
        return self.rows.size


class Lookup:
    """The result of a look-up of pairs, some of which may not have a row yet."""

    def __init__(self, pairs: Pairs, codes: Longs, at: Ids) -> None:
        self._in, self._at = pairs, at
        self._missing = np.flatnonzero(at < 0)
        self._codes = codes[self._missing]

    def list_missing(self) -> Iterator[tuple[int, int]]:
        """The pairs without a row, each once."""
        return _pairs(np.unique(self._codes))

    def complete(self) -> Longs:
        """The place of the row of each pair; rows that do not exist are made."""
        if len(self._missing):
            self._at[self._missing] = self._in.make_all(self._codes)
        return self._at.astype(np.int64)


def _pairs(codes: Longs) -> Iterator[tuple[int, int]]:
    return ((code >> 32, code & 0xFFFFFFFF) for code in codes.tolist())


def _spread(codes: Longs) -> Longs:
    """Numbers spread over 63 bits, so that their low bits make good slots."""
    mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(24)).astype(np.int64)
