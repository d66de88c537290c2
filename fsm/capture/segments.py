"""One direction of a TCP connection, reassembled from its captured segments.

Segments may be late, repeated, overlapping, truncated or missing. Bytes that the receiver has acknowledged but that
were not captured are lost: their number is reported, and the stream continues after them. The held segments are
bounded.

Source: RFC 9293.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MOST_HELD, MOST_SEGMENTS = 1 << 20, 256
"""The maximum bytes and segments that wait for earlier ones, which then count as lost."""
WINDOW = 1 << 26
"""Bytes that a segment may be ahead or behind; beyond that, the stream restarts at the segment."""
_ALL = 0xFFFFFFFF
Endpoint = tuple[str, int]


class Segment(NamedTuple):
    """A TCP segment."""

    at_ms: float
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int | None = None
    data: bytes = b""
    missing: int = 0
    """Bytes at its end that were not captured."""
    opens: bool = False
    """SYN."""
    closes: bool = False
    """FIN."""
    resets: bool = False
    """RST."""

    @property
    def size(self) -> int:
        """Bytes that it carried."""
        return len(self.data) + self.missing


class Piece(NamedTuple):
    """The next piece of a stream: bytes, or the number of lost bytes, which is None if unknown."""

    at_ms: float
    data: bytes = b""
    lost: int | None = 0


class Direction:
    """The byte stream of one side, in order."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.began: int | None = None
        """The first sequence number, if the opening was captured."""
        self._next: int | None = None
        self._held: dict[int, Segment] = {}

    def take(self, segment: Segment) -> Iterator[Piece]:
        """Takes a segment; returns the pieces that are complete."""
        if segment.opens and self._next is None:
            self.began = segment.seq
            self._next = segment.seq + 1 & _ALL
        if not segment.size or segment.opens:
            return
        if self._next is None:
            self._next = segment.seq
        ahead = _distance(segment.seq, self._next)
        if abs(ahead) > WINDOW:
            yield from self.flush()
            yield Piece(segment.at_ms, lost=None)
            self._next = segment.seq
        elif ahead > 0:
            self._hold(segment)
            if self.held_bytes > MOST_HELD or len(self._held) > MOST_SEGMENTS:
                yield from self._jump()
            return
        yield from self._deliver(segment)
        yield from self._drain()

    def acknowledge(self, ack: int) -> Iterator[Piece]:
        """Notes an acknowledgement: bytes before it that were not captured are lost."""
        while self._held and self._next is not None and _distance(ack, self._next) > 0:
            yield from self._jump()

    def flush(self) -> Iterator[Piece]:
        """Releases the held bytes, and the losses before them."""
        while self._held:
            yield from self._jump()

    def _hold(self, segment: Segment) -> None:
        known = self._held.get(segment.seq)
        if known is None or known.size < segment.size:
            self._held[segment.seq] = segment
            self.held_bytes += len(segment.data) - (len(known.data) if known else 0)

    def _deliver(self, segment: Segment) -> Iterator[Piece]:
        """Delivers the new part of a segment that does not begin after the next byte."""
        assert self._next is not None  # noqa: S101  # for mypy: callers have received a segment
        known = -_distance(segment.seq, self._next)
        if known >= segment.size:
            return
        if data := segment.data[known:]:
            yield Piece(segment.at_ms, data)
        if segment.missing:
            yield Piece(segment.at_ms, lost=min(segment.missing, segment.size - known))
        self._next = segment.seq + segment.size & _ALL

    def _first(self) -> Segment:
        start = self._next or 0
        return min(self._held.values(), key=lambda one: _distance(one.seq, start))

    def _drain(self) -> Iterator[Piece]:
        """Releases held segments that are next now."""
        while self._held and self._next is not None and _distance((first := self._first()).seq, self._next) <= 0:
            del self._held[first.seq]
            self.held_bytes -= len(first.data)
            yield from self._deliver(first)

    def _jump(self) -> Iterator[Piece]:
        """Skips lost bytes."""
        first = self._first()
        yield Piece(first.at_ms, lost=_distance(first.seq, self._next or 0))
        self._next = first.seq
        yield from self._drain()


def _distance(one: int, other: int) -> int:
    """How far one sequence number is ahead of another; both wrap around."""
    return (one - other + (1 << 31) & _ALL) - (1 << 31)
