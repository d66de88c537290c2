"""A search for many words in many bytes at once, at the speed of memory: one automaton for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick


class Words:
    """Some words, none of which holds a line feed."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._automaton = BytesAhoCorasick(sorted(set(words)))

    def search(self, data: bytes) -> bool:
        """Whether any of them stands there."""
        return bool(self._automaton.find_matches_as_indexes(data))

    def places(self, data: bytes) -> list[int]:
        """Where they stand, in order; of words that overlap the first to end."""
        return [start for _, start, _ in self._automaton.find_matches_as_indexes(data)]


@lru_cache(maxsize=256)
def words(*given: bytes) -> Words:
    """The same automaton for the same words."""
    return Words(given)


def places(block: bytes, needles: Sequence[bytes]) -> list[int]:
    """Where any of the needles stands."""
    return words(*needles).places(block)
