"""Sorted rows of a group, in memory or spilled to the file of the group's records."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Generic, TypeVar

RUN = 100_000
"""Rows that are sorted and spilled together; fewer rows stay in memory, which is faster."""
_CHUNK = 500
"""Rows of a run that are in memory while the run is read."""
T = TypeVar("T")


class SortedRows(Generic[T]):
    """Rows that are added in any order and iterated by key, any number of times. Without a file all stay in memory."""

    def __init__(self, key: Callable[[T], Any], rows: Iterable[T] = (), spool: IO[bytes] | None = None) -> None:
        self._key = key
        self._spool = spool
        self._held: list[T] = []
        self._runs: list[list[int]] = []
        """File offsets of the chunks of each run."""
        self._count = 0
        for row in rows:
            self.append(row)

    def append(self, row: T) -> None:
        self._held.append(row)
        self._count += 1
        if len(self._held) >= RUN and self._spool is not None:
            self._spill(self._spool)

    def by(self, key: Callable[[T], Any]) -> SortedRows[T]:
        """The same rows in another order."""
        return SortedRows(key, self, self._spool)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        self._held.sort(key=self._key)
        if not self._runs:
            return iter(self._held)
        return heapq.merge(*map(self._read, self._runs), self._held, key=self._key)

    def _spill(self, spool: IO[bytes]) -> None:
        rows, self._held = sorted(self._held, key=self._key), []
        run = []
        for start in range(0, len(rows), _CHUNK):
            run.append(spool.seek(0, 2))
            pickle.dump(rows[start : start + _CHUNK], spool)
        self._runs.append(run)

    def _read(self, run: Iterable[int]) -> Iterator[T]:
        for start in run:
            if self._spool is not None:
                self._spool.seek(start)
                yield from pickle.load(self._spool)  # noqa: S301  written by `_spill`
