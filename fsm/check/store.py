"""The storage of a search: packed states, growing columns and the keys of known states, in memory or in files.

The numbers of a state's cells are packed side by side into one 64-bit word, or into several. A state in one word is its
own key, so keys are exact. A state in several words has a hash for a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fsm.check.memo import Ids, Longs

OF_SEARCH = re.compile(r"\d+\.(states|parents|keys|words|sources|npz)")
"""The names of a search's files."""
BLOCK = 1 << 20
"""How many keys are merged at once on disk."""


class Column:
    """An array that grows at its end: in memory, or in a file."""

    def __init__(self, dtype: npt.DTypeLike, width: int) -> None:
        self.dtype, self.width, self.size = np.dtype(dtype), width, 0
        self._array = np.empty((1024, width), self.dtype)
        self._file: IO[bytes] | None = None
        self._path: Path | None = None

    def extend(self, values: npt.NDArray[Any]) -> None:
        need = self.size + len(values)
        if self._file is not None:
            self._file.write(np.ascontiguousarray(values, self.dtype).data)
        else:
            if need > len(self._array):
                grown = np.empty((max(need, len(self._array) * 3 // 2), self.width), self.dtype)
                grown[: self.size] = self._array[: self.size]
                self._array = grown
            self._array[self.size : need] = values
        self.size = need

    @property
    def view(self) -> npt.NDArray[Any]:
        """The used part of the array, without a copy."""
        if self._path is not None and len(self._array) < self.size:
            self.flush()
            self._array = np.memmap(self._path, self.dtype, "r", shape=(self.size, self.width))
        return self._array[: self.size]

    def keep_in(self, path: Path, size: int | None = None) -> None:
        """Moves the rows to a file, or takes over the first `size` rows of an existing file."""
        if size is None:
            self.view.tofile(path)
        else:
            self.size = size
            with path.open("r+b") as there:
                there.truncate(size * self.width * self.dtype.itemsize)
        self._file, self._path = path.open("ab"), path
        self._array = np.empty((0, self.width), self.dtype)

    def renew(self, width: int) -> Column:
        """An empty column of another width in the same place."""
        column = Column(self.dtype, width)
        if self._path is not None:
            path = self._path.with_stem(str(int(self._path.stem) + 1))
            path.write_bytes(b"")
            column.keep_in(path, 0)
        return column

    @property
    def name(self) -> str:
        return "" if self._path is None else self._path.name

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    @property
    def nbytes(self) -> int:
        return 0 if self._file is not None else self.size * self.width * self.dtype.itemsize


class Visited:
    """Keys that were met, in sorted runs whose sizes fall geometrically."""

    def __init__(self) -> None:
        self.runs: list[Keys] = []
        self.folder: Path | None = None
        self.number = 0
        self._settled = 0
        """How many runs are not merged again."""

    def find_new(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of these sorted distinct keys are new."""
        fresh = np.ones(len(keys), np.bool_)
        for run in self.runs:
            at = np.searchsorted(run, keys)
            at[at == len(run)] = 0
            fresh &= run[at] != keys
        return fresh

    def add(self, keys: Keys) -> None:
        """Adds sorted new keys."""
        if not len(keys):
            return
        self.runs.append(keys)
        runs = self.runs
        while len(runs) > 1 + self._settled and len(runs[-2]) < 2 * len(runs[-1]):
            self._merge()
        if self.folder is not None and not isinstance(runs[-1], np.memmap):
            runs[-1] = self._write(iter((runs[-1],)))

    def renew(self) -> Visited:
        """An empty set of keys in the same place."""
        visited = Visited()
        visited.folder, visited.number = self.folder, self.number
        return visited

    def settle(self) -> None:
        """Merges all runs that are not settled into one settled run."""
        while len(self.runs) > 1 + self._settled:
            self._merge()
        self._settled = len(self.runs)

    def places(self, keys: Keys) -> Longs:
        """The place of each key in the concatenated runs; -1 for an unknown key."""
        order = np.argsort(keys)
        ordered, begin = keys[order], 0
        found = np.full(len(keys), -1, np.int64)
        for run in self.runs:
            at = np.searchsorted(run, ordered)
            at[at == len(run)] = 0
            here = run[at] == ordered
            found[order[here]] = at[here] + begin
            begin += len(run)
        return found

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    @property
    def nbytes(self) -> int:
        return 0 if self.folder is not None else sum(run.nbytes for run in self.runs)

    def _merge(self) -> None:
        one, other = self.runs.pop(), self.runs.pop()
        if self.folder is None:
            merged = np.concatenate([other, one])
            del one, other
            merged.sort(kind="stable")  # which merges sorted runs
        else:
            merged = self._write(_merge(one, other))
        self.runs.append(merged)

    # In files

    def keep_in(self, folder: Path, names: list[str] | None = None) -> None:
        """Moves the runs to files of a folder, or takes over the existing files of these names."""
        self.folder = folder
        if names is None:
            self.runs = [self._write(iter((run,))) for run in self.runs]
        else:
            self.runs = [np.memmap(folder / name, np.uint64, "r") for name in names]
            self.number = max((int(name.partition(".")[0]) for name in names), default=-1) + 1

    def names(self) -> list[str]:
        return list(map(name_of, self.runs))

    def _write(self, parts: Iterator[Keys]) -> Keys:
        path = (self.folder or Path()) / f"{self.number}.keys"
        self.number += 1
        with path.open("wb") as file:
            for part in parts:
                file.write(np.ascontiguousarray(part).data)
        return np.memmap(path, np.uint64, "r")


def name_of(array: npt.NDArray[Any]) -> str:
    """The name of the file behind an array."""
    return Path(str(array.filename)).name if isinstance(array, np.memmap) else ""


def _merge(one: Keys, other: Keys) -> Iterator[Keys]:
    """Merges two sorted runs, block by block."""
    at = 0
    for low in range(0, len(other), BLOCK):
        block = other[low : low + BLOCK]
        high = len(one) if low + BLOCK >= len(other) else int(np.searchsorted(one, block[-1]))
        while high - at > BLOCK:  # most of them before this block
            part = one[at : at + BLOCK]
            split = int(np.searchsorted(block, part[-1]))
            yield np.sort(np.concatenate([part, block[:split]]))
            block, at = block[split:], at + BLOCK
        yield np.sort(np.concatenate([one[at:high], block]))
        at = high


# Packed states

Keys = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint64]
"""Packed rows: (row, word)."""

WORD = 64
ROOM = 2
"""The spare bits of each cell in rows of several words."""


class Packing:
    """The layout of packed rows; it grows with the numbers of cells."""

    def __init__(self, bits: Sequence[int], *, exact: bool = True) -> None:
        self.bits, self.exact = list(bits), exact
        self._places: list[tuple[int, int]] = []
        """(word, shift) of each cell."""
        word, used = 0, 0
        for each in reversed(self.bits):
            if used + each > WORD:
                word, used = word + 1, 0
            self._places.append((word, used))
            used += each
        self._places.reverse()
        self.words = word + 1

    @staticmethod
    def of(many: int) -> Packing:
        """The packing of rows with this many cells, all of them empty."""
        return Packing([WORD // many] * many)

    def fits(self, counts: Sequence[int]) -> bool:
        """Whether every cell has room for so many numbers."""
        return all(count <= 1 << bits for count, bits in zip(counts, self.bits, strict=True))

    def grow(self, counts: Sequence[int]) -> Packing:
        """A packing with room for at least this many numbers of each cell."""
        needed = [count.bit_length() for count in counts]
        spare = WORD - sum(needed)
        if spare < 0 or not self.exact:
            return Packing([bits + ROOM for bits in needed], exact=False)
        each, more = divmod(spare, len(needed))
        return Packing([bits + each + (i < more) for i, bits in enumerate(needed)])

    def pack(self, rows: Ids) -> Words:
        words = np.zeros((len(rows), self.words), np.uint64)
        for column, (word, shift) in zip(rows.T, self._places, strict=True):
            words[:, word] |= column.astype(np.uint64) << np.uint64(shift)
        return words

    def unpack(self, words: Words) -> Ids:
        """The rows again, each cell's numbers side by side."""
        rows = np.empty((len(words), len(self.bits)), np.int32, order="F")
        for i, (word, shift) in enumerate(self._places):
            rows[:, i] = (words[:, word] >> np.uint64(shift)) & np.uint64((1 << self.bits[i]) - 1)
        return rows

    def keys(self, rows: Ids) -> Keys:
        keys = np.zeros(len(rows), np.uint64)
        for i, column in enumerate(rows.T):
            keys += self.weigh(i, column)
        return keys

    def weigh(self, place: int, numbers: npt.NDArray[Any]) -> Keys:
        """The contribution of a cell to the key of a row."""
        wide: Keys = numbers.astype(np.uint64)
        if self.exact:
            return wide << np.uint64(self._places[place][1])
        wide = (wide + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64((place * 0xD1B54A32D192ED03) % 2**64)
        wide = (wide ^ (wide >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        wide = (wide ^ (wide >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return wide ^ (wide >> np.uint64(31))
