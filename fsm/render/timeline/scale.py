"""The time axis of a timeline: positions of instants, quiet stretches, ticks.

Long stretches without a begin or end are breaks of a fixed width, and everything else has one scale: lengths between
breaks are comparable, and two seconds out of three hours are still visible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

WIDTH = 1080
"""The width in pixels of an axis with few instants."""
BREAK = 64
"""The width in pixels of a quiet stretch."""
_MOST_BREAKS = 10
_TICK_PX = 92
_HALF_PX = 36
_LEAST_PX = 84
"""The minimum width in pixels of a stretch that is not quiet."""

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
_QUIET = (*(s * SECOND for s in (10, 30)), *(m * MINUTE for m in (1, 2, 5, 10, 30)), HOUR, 6 * HOUR, DAY)
_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(s * SECOND for s in (1, 2, 5, 10, 15, 30)),
    *(m * MINUTE for m in (1, 2, 5, 10, 15, 30)),
    *(h * HOUR for h in (1, 2, 3, 6, 12)),
    *(d * DAY for d in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


class Piece(NamedTuple):
    """A part of the axis, in time and in pixels."""

    start_ms: int
    end_ms: int
    left: float
    right: float
    quiet: bool


class Tick(NamedTuple):
    """A labelled position on the axis."""

    ts_ms: int
    x: float
    step_ms: int
    """To the next tick."""

    @property
    def exact(self) -> bool:
        """Whether milliseconds matter between ticks."""
        return self.step_ms < SECOND


class Scale:
    """The mapping of time to pixels. An instant outside is mapped to the nearer end."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces
        self._starts = [piece.start_ms for piece in pieces]
        self.start_ms, self.end_ms = pieces[0].start_ms, pieces[-1].end_ms
        self.width = pieces[-1].right

    def x(self, ts_ms: int) -> float:
        """Pixels from the left end."""
        if ts_ms >= self.end_ms:
            return self.width
        piece = self.pieces[max(0, bisect_right(self._starts, ts_ms) - 1)]
        done = max(0, ts_ms - piece.start_ms) / max(1, piece.end_ms - piece.start_ms)
        return piece.left + done * (piece.right - piece.left)

    def ticks(self) -> Iterator[Tick]:
        """Ticks at round times, whose labels do not overlap each other, breaks or the ends."""
        last = -float(_TICK_PX)
        for piece in self.pieces:
            if piece.quiet:
                continue
            step = _step(piece)
            first = -(-piece.start_ms // step) * step
            for ts_ms in range(first, piece.end_ms + 1, step):
                x = self.x(ts_ms)
                if x - last >= _TICK_PX * 0.8 and piece.left + _HALF_PX <= x <= piece.right - _HALF_PX:
                    yield Tick(ts_ms, x, step)
                    last = x


def _step(piece: Piece) -> int:
    least = _TICK_PX * max(1, piece.end_ms - piece.start_ms) / (piece.right - piece.left)
    fitting = next((step for step in _STEPS if step >= least), None)
    return fitting or (int(least) // DAY + 1) * DAY


def scale(instants: Iterable[int], start_ms: int, end_ms: int, width: int = 0) -> Scale:
    """The axis from begin to end with events at `instants`.

    It is `width` pixels wide or a little more; for 0 the number of instants decides.
    """
    end_ms = max(end_ms, start_ms + 1)
    busy = sorted({start_ms, end_ms, *(ts for ts in instants if start_ms < ts < end_ms)})
    pieces = _cut(start_ms, end_ms, _find_quiet(busy))
    return Scale(tuple(_lay_out(pieces, width or _width(len(busy)))))


def _width(instants: int) -> int:
    return WIDTH * (1 if instants <= 500 else 2 if instants <= 2500 else 4)


def _find_quiet(busy: list[int]) -> list[tuple[int, int]]:
    """Quiet stretches worth a break: a limited number, and only if they are most of the time."""
    gaps = list(pairwise(busy))
    for limit in _QUIET:
        found = [(a + limit // 5, b - limit // 5) for a, b in gaps if b - a > limit]
        if len(found) <= _MOST_BREAKS:
            saved = sum(b - a for a, b in found)
            return found if saved * 2 >= busy[-1] - busy[0] else []
    return []


def _cut(start_ms: int, end_ms: int, quiet: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    pieces: list[tuple[int, int, bool]] = []
    at = start_ms
    for begin, end in quiet:
        pieces += [(at, begin, False), (begin, end, True)]
        at = end
    return [*pieces, (at, end_ms, False)]


def _lay_out(pieces: list[tuple[int, int, bool]], width: int) -> Iterator[Piece]:
    lively = sum(end - start for start, end, quiet in pieces if not quiet)
    room = width - BREAK * sum(quiet for _, _, quiet in pieces)
    left = 0.0
    for start, end, quiet in pieces:
        right = left + (BREAK if quiet else max(_LEAST_PX, room * (end - start) / lively))
        yield Piece(start, end, left, right, quiet)
        left = right
