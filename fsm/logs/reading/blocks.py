"""Searches the lines of a block for many words at once.

An Aho-Corasick automaton that looks for the leftmost match finds possible ones with vector instructions if it has at
most 64 words. Otherwise it looks at every byte by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

import numpy as np
import numpy.typing as npt
from ahocorasick_rs import BytesAhoCorasick, MatchKind

Numbers = npt.NDArray[np.int64]

DIGITS = bytes(48 if 48 <= i < 58 else i for i in range(256))
"""Makes all digits equal."""
_FEED = 10
_FAST = 64
"""Words for which an automaton has its fast search."""


def line_bounds(data: bytes) -> Numbers:
    """The offset of each line, and the offset of the line after the last one."""
    feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == _FEED)
    bounds = np.empty(len(feeds) + 2, np.int64)
    bounds[0], bounds[1:-1], bounds[-1] = 0, feeds + 1, len(data) + 1
    return bounds


def count_feeds(data: bytes) -> int:
    """How many line feeds there are: faster than `bytes.count` in a large block."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _FEED))


def join(texts: Sequence[bytes]) -> tuple[bytes, Numbers]:
    """The texts as the lines of a block, and their bounds. They may contain line feeds."""
    return b"\n".join(texts), np.cumsum([0, *(len(text) + 1 for text in texts)])


class Words:
    """A set of words to search for. No word contains a line feed."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self.words = sorted(set(words))
        parts = -(-len(self.words) // _FAST)
        size = -(-len(self.words) // parts) if parts else 1
        self._words = [self.words[i : i + size] for i in range(0, len(self.words), size)]
        self._automata = [BytesAhoCorasick(part, matchkind=MatchKind.LeftmostFirst) for part in self._words]

    def search(self, data: bytes) -> bool:
        """Whether the data contains any of the words."""
        for one in self._automata:  # noqa: SIM110  a generator takes longer than the search in a short line
            if one.find_matches_as_indexes(data):
                return True
        return False

    def lines(self, data: bytes, bounds: Numbers) -> Numbers:
        """The numbers of the lines between these bounds that contain any of the words."""
        found = list(chain.from_iterable(one.find_matches_as_indexes(data) for one in self._automata))
        lines = np.searchsorted(bounds, _places(found), "right")
        return np.flatnonzero(np.bincount(lines, minlength=len(bounds))[1 : len(bounds)])

    def lines_by_word(self, data: bytes, bounds: Numbers) -> dict[bytes, list[int]]:
        """The numbers of the lines between these bounds that contain each of the words, ascending."""
        out: dict[bytes, list[int]] = {}
        for words, automaton in zip(self._words, self._automata, strict=True):
            found = automaton.find_matches_as_indexes(data)
            lines = np.searchsorted(bounds, _places(found), "right") - 1
            for (which, _, _), line in zip(found, lines.tolist(), strict=True):
                out.setdefault(words[which], []).append(line)
        return out


def _places(found: Sequence[tuple[int, int, int]]) -> Numbers:
    """Where matches begin."""
    return np.fromiter(map(itemgetter(1), found), np.int64, len(found))


@lru_cache(maxsize=256)
def words(*given: bytes) -> Words:
    """A `Words` of these words, cached."""
    return Words(given)
