"""Rows of numbers, packed: each cell has some bits, side by side in one 64-bit word, or in several.

A row in one word is its own key, so keys are exact. A row in several words has a hash for a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fsm.check.memo import Ids

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
        """The rows as words."""
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
        """The key of each row."""
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
