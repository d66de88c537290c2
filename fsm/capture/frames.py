"""Splits a stream of bytes into frames. A frame is preceded by its length, a big-endian int32.

A frame up to a bound is held until it is complete; of a larger one only the beginning is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fsm.errors import RemoteProtocolError

LENGTH = 4
HEAD = 1 << 16
"""The bytes that are kept of a frame beyond the bound: any header is shorter."""
HELD = 8 << 20
"""The usual bound, in bytes."""


class Frame(NamedTuple):
    """A frame, or the beginning of a large one."""

    size: int
    """The bytes of the whole frame without its length prefix."""
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Frame:
        """The whole frame with these bytes."""
        return cls(len(data), data)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is here."""
        return len(self.data) == self.size

    @property
    def raw(self) -> bytes:
        """The bytes on the connection."""
        return self.size.to_bytes(LENGTH, "big") + self.data


class Frames:
    """One direction of a connection. Holds the bytes of one frame at most, and no more than the bound."""

    def __init__(self, least: int, bound: int = HELD) -> None:
        """`least` is the size of the smallest valid frame."""
        self._least = least
        self._bound = max(bound, HEAD)
        self._held = bytearray()
        self._passing = 0

    @property
    def held_bytes(self) -> int:
        """The number of held bytes."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[Frame | bytes]:
        """The frames that are complete now, and the later bytes of large ones as they arrive.

        Raises `RemoteProtocolError` for an invalid length; later bytes cannot be read.
        """
        if self._passing:
            passed, data = data[: self._passing], data[self._passing :]
            self._passing -= len(passed)
            yield passed
        if not self._held:
            begin, size = 0, 0
            while len(data) >= begin + LENGTH:  # nearly all arrive complete
                size = int.from_bytes(data[begin : begin + LENGTH], "big", signed=True)
                end = begin + LENGTH + size
                if not self._least <= size <= self._bound or len(data) < end:
                    break
                yield Frame(size, data[begin + LENGTH : end])
                begin = end
            data = data[begin:]
        self._held += data
        while len(self._held) >= LENGTH:
            size = int.from_bytes(self._held[:LENGTH], "big", signed=True)
            if size < self._least:
                raise RemoteProtocolError(f"a frame of {size} bytes; the minimum is {self._least}")
            kept = size if size <= self._bound else HEAD
            if len(self._held) < LENGTH + kept:
                return
            yield Frame(size, bytes(self._held[LENGTH : LENGTH + kept]))
            del self._held[: LENGTH + kept]
            if more := size - kept:
                passed = bytes(self._held[:more])
                del self._held[:more]
                self._passing = more - len(passed)
                yield passed

    def rest(self) -> bytes:
        """Releases the held bytes of an incomplete frame."""
        held = bytes(self._held)
        self._held.clear()
        return held

    def skip(self, lost: int) -> Frame | None:
        """Skips lost bytes; returns the received part of the frame that contained them.

        Raises `RemoteProtocolError` where they reach beyond that frame: the next one cannot be found.
        """
        if self._passing < lost and len(self._held) >= LENGTH:
            size = int.from_bytes(self._held[:LENGTH], "big", signed=True)
            begun = Frame(size, bytes(self._held[LENGTH:]))
            self._passing = size - len(begun.data)
            self._held.clear()
        else:
            begun = None
        if self._passing < lost:
            raise RemoteProtocolError(f"{lost} bytes are missing, and the start of the next frame is unknown")
        self._passing -= lost
        return begun
