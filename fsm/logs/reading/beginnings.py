"""Classifies lines by their first bytes, ignoring the values of digits: a vectorised lookup for whole blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fsm.logs.reading.blocks import Numbers

Kinds = npt.NDArray[np.uint8]
_Heads = npt.NDArray[np.uint64]

UNKNOWN = 254
"""The kind of lines that are not in the table."""
LONGEST = 2048
"""The cells of a block must extend this many bytes past the start of its last line."""
_SLOT_BITS = 12
_FIRST = 64
"""How many new beginnings are learned before the table is searched again; doubles each time."""
_MOST_KEPT = 20_000
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)
"""An odd factor for multiplicative hashing: 2**64 divided by the golden ratio."""
_ZERO = np.uint8(ord("0"))


class Beginnings:
    """The kinds of lines by their first bytes, at most `LONGEST`.

    Each beginning has one slot in a table, with collisions; a dictionary holds all of them.
    """

    def __init__(self, reach: int) -> None:
        self._width = -(-reach // 8)
        self._heads = np.zeros((self._width, 1 << _SLOT_BITS), np.uint64)
        self._kinds = np.full(1 << _SLOT_BITS, UNKNOWN, np.uint8)
        self._known: dict[bytes, int] = {}

    def classify(self, cells: Kinds, starts: Numbers, classify_line: Callable[[int], tuple[int, bool]]) -> Kinds:
        """The kind of each line of a block. `classify_line` returns the kind of a line by its number, and whether all
        lines with the same beginning have that kind."""
        heads = self._mask(cells, starts)
        slots = self._hash(heads)
        kinds = self._find(heads, slots)
        left, some = np.flatnonzero(kinds == UNKNOWN), _FIRST
        while len(left):
            for i in left[:some].tolist():
                kinds[i] = self._learn(heads[i], slots[i], classify_line, i)
            left, some = left[some:], 2 * some
            kinds[left] = self._find(heads[left], slots[left])  # some may have the same beginning
            left = left[kinds[left] == UNKNOWN]
        return kinds

    def _mask(self, cells: Kinds, starts: Numbers) -> _Heads:
        """The first bytes of each line as 64-bit numbers. All digits become 0, and no other byte does."""
        size = 8 * self._width
        view = np.ndarray((len(cells) - size + 1,), f"V{size}", cells, strides=(1,))
        heads = view[starts].view(np.uint8)
        heads -= _ZERO
        heads *= heads > 9
        return heads.view(np.uint64).reshape(-1, self._width)

    def _hash(self, heads: _Heads) -> _Heads:
        slots: _Heads = np.zeros(len(heads), np.uint64)
        for i in range(self._width):
            slots = (slots + heads[:, i]) * _SPREAD
        return slots >> np.uint64(64 - _SLOT_BITS)

    def _find(self, heads: _Heads, slots: _Heads) -> Kinds:
        """The kinds found in the table, else `UNKNOWN`."""
        same = np.ones(len(slots), bool)
        for i in range(self._width):
            same &= self._heads[i].take(slots) == heads[:, i]
        return np.where(same, self._kinds.take(slots), UNKNOWN)

    def _learn(self, head: _Heads, slot: int, classify_line: Callable[[int], tuple[int, bool]], i: int) -> int:
        key = head.tobytes()
        kind = self._known.get(key)
        if kind is None:
            kind, keep = classify_line(i)
            if not keep:
                return kind
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = kind
        self._kinds[slot], self._heads[:, slot] = kind, head
        return kind
