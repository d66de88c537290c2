"""One connection of a client: its bytes cut into frames, which are handed over as long as none has to wait.

It is read no further while a frame waits, and while the client does not read what it was sent. What it may make the
broker hold is bounded, with what all others hold.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from fsm.protocol.messages import APIS

if TYPE_CHECKING:
    from fsm.serve.edge import Edge

LARGEST_PRODUCE = 8 << 20
"""Bytes of a frame with records; whoever announces more is disconnected."""
LARGEST_FRAME = 4 << 20
"""Bytes of any other frame, of which objects are made that take many times their bytes."""
PRODUCE = APIS["Produce"].key.to_bytes(2, "big")
ENOUGH_UNSENT = 64 << 10
"""Bytes that a client may leave unread before its requests are read no further."""
MOST_BUFFERED = 256 << 20
"""Bytes that all connections have sent of frames which are not whole, or not handled yet."""
BUFFERED_BY_ONE = 16 << 10
"""Bytes of these that a connection may have whatever others have."""
MOST_AT_ONCE = 100
"""Frames of one connection that are handled before others have their turn."""


class Client(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, edge: Edge, broker: int) -> None:
        self.edge, self.broker = edge, broker
        self.peer = ""
        self.number = 0
        self.file = -1
        """The descriptor of its socket."""
        self.heard = 0.0
        """When something arrived last, by the event loop's clock."""
        self._bytes = bytearray()
        """What has arrived and was not handed over."""
        self._waiting = 0
        """Bytes of the frame that was handed over and waits for the one before it."""
        self._buffered = 0
        """Bytes of both, as they were counted last."""
        self._wanted = 0
        """Bytes without which there is nothing to be done."""
        self._is_full = False
        """The client does not read what it was sent."""
        self._is_held = False
        """A frame waits, or it is the turn of others."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(ENOUGH_UNSENT)
        self.file = transport.get_extra_info("socket").fileno()
        self.peer = transport.get_extra_info("peername")[0]
        self.heard = self.edge.loop.time()
        self.number = self.edge.connected(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._waiting = 0
        self._keep(b"")
        self.edge.disconnected(self.number)

    def pause_writing(self) -> None:
        self._is_full = True
        self._pause()
        self.edge.filled(self)

    def resume_writing(self) -> None:
        self._is_full = False
        self.edge.emptied(self)
        self._go_on()

    def read_on(self) -> None:
        """The frame that waited is being handled."""
        self._is_held, self._waiting = False, 0
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self.heard = self.edge.loop.time()
        if self._bytes or self._is_held or self._is_full:
            self._bytes += data
            self._count()
            if len(self._bytes) < self._wanted or self._is_held or self._is_full:
                return
            data = bytes(self._bytes)
        self._cut(data)

    def _go_on(self) -> None:
        if not (self._is_full or self._is_held or self.transport.is_closing()):
            self._cut(bytes(self._bytes))
            if not (self._is_full or self._is_held or self.transport.is_closing()):
                self.edge.reads(self)
                self.transport.resume_reading()

    def _pause(self) -> None:
        self.transport.pause_reading()
        self.edge.pauses(self)

    def _cut(self, data: bytes) -> None:
        """Hands over the frames that are whole, up to one that has to wait; keeps the rest."""
        edge, at, left = self.edge, 0, MOST_AT_ONCE
        now_ms = edge.clock()
        self._wanted = 0
        while not (self._is_full or self._is_held or self.transport.is_closing()):
            begin = at + 4
            if len(data) < begin:
                break
            size = int.from_bytes(data[at:begin], "big")
            if size > LARGEST_FRAME and (size > LARGEST_PRODUCE or not PRODUCE.startswith(data[begin : begin + 2])):
                if not at and (language := stranger(data)):
                    edge.on_trouble(f"{self.peer} speaks {language}, not Kafka's protocol")
                self.transport.abort()
                return
            if len(data) < begin + size:
                self._wanted = 4 + size if size <= LARGEST_FRAME or len(data) >= begin + 2 else 6
                break
            at = begin + size
            edge.receive(self, data[begin:at], now_ms)
            left -= 1
            if edge.brokers.waiting(self.number):
                self._is_held, self._waiting = True, size
                self.transport.pause_reading()
                edge.pauses(self)
            elif not left:
                self._is_held = True
                edge.loop.call_soon(self.read_on)
        self._keep(data[at:])

    def _keep(self, rest: bytes) -> None:
        """So much has arrived and is not handed over."""
        if rest or self._bytes:
            self._bytes = bytearray(rest)
        self._count()

    def _count(self) -> None:
        """Who has more than before goes, where all together have too much."""
        buffered = len(self._bytes) + self._waiting
        if buffered == self._buffered:
            return
        more, self._buffered = buffered - self._buffered, buffered
        self.edge.buffered += more
        if more > 0 and self.edge.buffered > MOST_BUFFERED and buffered > BUFFERED_BY_ONE:
            self.transport.abort()


STRANGERS = {b"\x16\x03": "TLS", b"GET ": "HTTP", b"POST": "HTTP", b"HEAD": "HTTP"}
"""What others begin with, and what they speak."""


def stranger(data: bytes) -> str:
    """What somebody speaks who begins so, if that is known."""
    return next((language for sign, language in STRANGERS.items() if data.startswith(sign)), "")
