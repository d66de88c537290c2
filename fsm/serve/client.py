"""The connections of clients: splits their bytes into frames, and passes these on as long as none has to wait.

Reading pauses while a frame waits, and while the client does not read its answers. The memory for a client is bounded,
and so is the total for all.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterable
from typing import cast

from fsm.protocol.messages import APIS
from fsm.serve.brokers import Brokers
from fsm.serve.effects import Effect
from fsm.wire.dialogue import find_protocol

LARGEST_PRODUCE = 8 << 20
"""The bytes of a frame with records; a client that announces more is disconnected."""
LARGEST_FRAME = 4 << 20
"""The bytes of any other frame; its objects take many times as much."""
PRODUCE = APIS["Produce"].key.to_bytes(2, "big")
ENOUGH_UNSENT = 64 << 10
"""The unread bytes of a client above which its requests are not read."""
MOST_BUFFERED = 256 << 20
"""The bytes of incomplete or unhandled frames, over all connections."""
BUFFERED_BY_ONE = 16 << 10
"""The bytes of these that a connection may always have."""
MOST_AT_ONCE = 100
"""How many frames of one connection are handled before those of other connections."""
MOST_FULL = 512
"""The maximum number of clients with that many unread bytes; above it the one that has had them for the longest is
disconnected. Each holds that much and two answers, of about a megabyte each.
"""
FIND_GONE_S, GONE = 1.0, getattr(select, "POLLRDHUP", 0)
"""How often unread clients are checked for their end, and the event that reports it in addition to POLLHUP."""


class Client(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, others: Clients, broker: int) -> None:
        self.others, self.broker = others, broker
        self.peer = ""
        self.number = 0
        self.file = -1
        """The descriptor of its socket."""
        self.received_s = 0.0
        """When bytes last arrived, by the event loop's clock."""
        self._bytes = bytearray()
        """The received bytes that were not passed on."""
        self._waiting = 0
        """The bytes of the frame that was passed on and waits for the one before it."""
        self._buffered = 0
        """The last count of the bytes of both."""
        self._wanted = 0
        """The number of bytes needed for the next action."""
        self._is_full = False
        """Whether the client leaves its responses unread."""
        self._is_held = False
        """Whether a frame has to wait, or other connections are served first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(ENOUGH_UNSENT)
        self.file = transport.get_extra_info("socket").fileno()
        self.peer = transport.get_extra_info("peername")[0]
        self.received_s = self.others.loop.time()
        self.number = self.others.connect(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._waiting = 0
        self._keep(b"")
        self.others.disconnect(self.number)

    def pause_writing(self) -> None:
        self._is_full = True
        self._pause()
        self.others.note_full(self)

    def resume_writing(self) -> None:
        self._is_full = False
        self.others.note_empty(self)
        self._resume()

    def read_on(self) -> None:
        """Resumes reading: the waiting frame is being handled."""
        self._is_held, self._waiting = False, 0
        self._resume()

    def data_received(self, data: bytes) -> None:
        self.received_s = self.others.loop.time()
        if self._bytes or self._is_held or self._is_full:
            self._bytes += data
            self._count()
            if len(self._bytes) < self._wanted or self._is_held or self._is_full:
                return
            data = bytes(self._bytes)
        self._cut(data)

    def _resume(self) -> None:
        if not (self._is_full or self._is_held or self.transport.is_closing()):
            self._cut(bytes(self._bytes))
            if not (self._is_full or self._is_held or self.transport.is_closing()):
                self.others.resume(self)
                self.transport.resume_reading()

    def _pause(self) -> None:
        self.transport.pause_reading()
        self.others.pause(self)

    def _cut(self, data: bytes) -> None:
        """Passes on complete frames, up to one that has to wait; keeps the rest."""
        others, at, left = self.others, 0, MOST_AT_ONCE
        now_ms = others.clock()
        self._wanted = 0
        while not (self._is_full or self._is_held or self.transport.is_closing()):
            begin = at + 4
            if len(data) < begin:
                break
            size = int.from_bytes(data[at:begin], "big")
            if size > LARGEST_FRAME and (size > LARGEST_PRODUCE or not PRODUCE.startswith(data[begin : begin + 2])):
                if not at and (language := find_protocol(data, OTHER_PROTOCOLS)):
                    others.on_trouble(f"{self.peer} speaks {language}, not Kafka's protocol")
                self.transport.abort()
                return
            if len(data) < begin + size:
                self._wanted = 4 + size if size <= LARGEST_FRAME or len(data) >= begin + 2 else 6
                break
            at = begin + size
            others.on_frame(self, data[begin:at], now_ms)
            left -= 1
            if others.brokers.count_waiting(self.number):
                self._is_held, self._waiting = True, size
                self._pause()
            elif not left:
                self._is_held = True
                others.loop.call_soon(self.read_on)
        self._keep(data[at:])

    def _keep(self, rest: bytes) -> None:
        """Keeps the received bytes that were not passed on."""
        if rest or self._bytes:
            self._bytes = bytearray(rest)
        self._count()

    def _count(self) -> None:
        """Disconnects the client if its count has grown and the total is too large."""
        buffered = len(self._bytes) + self._waiting
        if buffered == self._buffered:
            return
        more, self._buffered = buffered - self._buffered, buffered
        self.others.buffered += more
        if more > 0 and self.others.buffered > MOST_BUFFERED and buffered > BUFFERED_BY_ONE:
            self.transport.abort()


OTHER_PROTOCOLS = {b"\x16\x03": "TLS", b"GET ": "HTTP", b"POST": "HTTP", b"HEAD": "HTTP"}
"""The first bytes of other protocols, with their names."""


class Clients:
    """All connections, by their numbers."""

    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        brokers: Brokers,
        clock: Callable[[], float],
        *,
        on_frame: Callable[[Client, bytes, float], object],
        on_trouble: Callable[[str], object],
        carry_out: Callable[[Iterable[Effect]], object],
        most_idle_s: float,
    ) -> None:
        """`on_frame` is called with each frame, `carry_out` with the effects of a connection's end.

        A connection without input for `most_idle_s` is closed.
        """
        self.brokers, self.clock, self.on_frame, self.on_trouble = brokers, clock, on_frame, on_trouble
        self.carry_out, self.most_idle_s = carry_out, most_idle_s
        self.open: dict[int, Client] = {}
        self.full: dict[int, Client] = {}
        """The clients with many unread bytes, longest first."""
        self.paused: dict[int, Client] = {}
        """The paused clients, by the descriptor of their socket."""
        self.buffered = 0
        """The bytes of incomplete or unhandled frames."""
        self._gone = select.poll()
        """Detects the end of paused connections."""
        self._numbers = 0
        self._sweeping: asyncio.TimerHandle | None = None
        self._finding: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins to close idle connections."""
        since = self.loop.time() - self.most_idle_s
        for client in [*self.open.values()]:
            if client.received_s < since:
                client.transport.abort()
        self._sweeping = self.loop.call_later(self.most_idle_s / 10, self.start)

    def stop(self) -> None:
        """Stops that, and closes all connections."""
        self.abort()
        for timer in (self._sweeping, self._finding):
            if timer is not None:
                timer.cancel()

    def abort(self) -> None:
        """Aborts all connections; unsent bytes are dropped."""
        for client in [*self.open.values()]:
            client.transport.abort()

    def connect(self, client: Client) -> int:
        """Adds a client; returns its number."""
        self._numbers += 1
        self.open[self._numbers] = client
        self.brokers.connect(self._numbers, client.broker, client.peer, self.clock())
        return self._numbers

    def disconnect(self, number: int) -> None:
        """Notes that the client's socket is closed."""
        client = self.open.pop(number)
        self.resume(client)
        self.full.pop(number, None)
        self.carry_out(self.brokers.disconnect(number, self.clock()))

    def pause(self, client: Client) -> None:
        """Notes that the client is not read for now, so that its end is checked separately."""
        self.paused[client.file] = client
        self._gone.register(client.file, GONE)
        if self._finding is None:
            self._finding = self.loop.call_later(FIND_GONE_S, self._find_gone)

    def resume(self, client: Client) -> None:
        """Notes that the client is read again, or has gone."""
        if self.paused.pop(client.file, None):
            self._gone.unregister(client.file)

    def _find_gone(self) -> None:
        """Closes paused connections whose clients have closed them."""
        for file, _ in self._gone.poll(0):
            self.paused[file].transport.abort()
        self._finding = self.loop.call_later(FIND_GONE_S, self._find_gone) if self.paused else None

    def note_full(self, client: Client) -> None:
        """Notes that the client has many unread bytes."""
        self.full[client.number] = client
        if len(self.full) > MOST_FULL:
            self.full.pop(next(iter(self.full))).transport.abort()

    def note_empty(self, client: Client) -> None:
        """Notes that the client reads again."""
        self.full.pop(client.number, None)
