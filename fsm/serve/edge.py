"""The brokers on sockets: the one place of this package with a clock, sockets and files.

What the brokers want done is done in their order: bytes that are to be kept are on the disk before anything that was
ordered after them is sent.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import cast

from fsm.errors import InputError
from fsm.serve.brokers import Brokers
from fsm.serve.effects import Effect, HangUp, Send
from fsm.serve.store import Store

LARGEST_FRAME = 8 << 20
"""Bytes; whoever announces more is disconnected."""
ENOUGH_WAITING = 32
"""Frames that wait on one connection before its socket is read no further."""
ENOUGH_UNSENT = 1 << 20
"""Bytes that a client may leave unread before its requests are read no further."""
LATEST_MS = 3_600_000.0
"""The event loop is never asked to wait longer."""


class Edge:
    """Listens for each broker, and carries frames and effects between sockets and brokers."""

    def __init__(self, brokers: Brokers, store: Store | None = None, clock: Callable[[], float] | None = None) -> None:
        """`clock` gives epoch milliseconds; the time of day by default."""
        self.brokers = brokers
        self.clock = clock or now_ms
        self.store = store
        self._servers: list[asyncio.Server] = []
        self._clients: dict[int, _Client] = {}
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0.0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listens: the first broker at this port, the others at free ones; gives the first one's.

        Raises `InputError` where the port is taken or the address is none of this machine's.
        """
        self._loop = asyncio.get_running_loop()
        for broker in range(1, self.brokers.cluster.served.brokers + 1):
            wanted = port if broker == 1 else 0
            try:
                server = await self._loop.create_server(partial(_Client, self, broker), host, wanted, backlog=4_096)
            except OSError as problem:
                await self.stop()
                why = problem.strerror or str(problem)
                raise InputError(f"cannot listen: {why}", f"{host}:{wanted}", "choose another --port") from None
            self._servers.append(server)
            self.brokers.cluster.endpoints[broker] = (host, server.sockets[0].getsockname()[1])
        self.carry_out(self.brokers.start(self.clock()))
        return self.brokers.cluster.endpoints[1][1]

    async def stop(self) -> None:
        """Closes every socket."""
        for server in self._servers:
            server.close()
        for client in [*self._clients.values()]:
            client.transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(server.wait_closed(), 1)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Does what the brokers want done, then waits for what is due next."""
        must_sync = False
        for effect in effects:
            if isinstance(effect, Send):
                if must_sync and self.store is not None:
                    self.store.sync()
                    must_sync = False
                client = self._clients.get(effect.connection)
                if client is not None:
                    client.transport.write(effect.data)
            elif isinstance(effect, HangUp):
                client = self._clients.pop(effect.connection, None)
                if client is not None:
                    client.transport.close()
            elif self.store is not None:
                self.store.write(effect)
                must_sync = True
        if must_sync and self.store is not None:
            self.store.sync()
        self._arm()

    def _arm(self) -> None:
        due_ms = self.brokers.next_deadline_ms()
        if due_ms is None:
            return
        if self._timer is not None:
            if self._armed_ms <= due_ms:
                return  # it comes early, finds nothing due, and is set again
            self._timer.cancel()
        self._armed_ms = due_ms
        wait_s = min(max(due_ms - self.clock(), 0.0), LATEST_MS) / 1000
        self._timer = self._loop.call_later(wait_s, self.advance)

    def advance(self) -> None:
        """What is due by now happens."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.carry_out(self.brokers.advance(self.clock()))

    def connected(self, client: _Client) -> int:
        """A client's number."""
        self._numbers += 1
        self._clients[self._numbers] = client
        self.brokers.connect(self._numbers, client.broker, client.peer, self.clock())
        return self._numbers

    def disconnected(self, number: int) -> None:
        """The client's socket is closed."""
        self._clients.pop(number, None)
        self.carry_out(self.brokers.disconnect(number, self.clock()))


class _Client(asyncio.Protocol):
    """One connection: cuts bytes into frames, reads no further while enough is waiting."""

    transport: asyncio.Transport

    def __init__(self, edge: Edge, broker: int) -> None:
        self.edge, self.broker = edge, broker
        self.peer = ""
        self._bytes = bytearray()
        self._is_full = False
        """The client does not read what it was sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        transport = self.transport
        transport.set_write_buffer_limits(ENOUGH_UNSENT)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = transport.get_extra_info("peername")[0]
        self.number = self.edge.connected(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.edge.disconnected(self.number)

    def pause_writing(self) -> None:
        self._is_full = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        self._read_on()

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        self._cut()

    def _cut(self) -> None:
        """Hands over the frames that are whole, as many as may wait."""
        edge, brokers, at = self.edge, self.edge.brokers, 0
        while len(self._bytes) - at >= 4:
            size = int.from_bytes(self._bytes[at : at + 4], "big")
            if size > LARGEST_FRAME:
                self.transport.abort()
                self._bytes.clear()
                return
            if len(self._bytes) - at < 4 + size:
                break
            if brokers.waiting(self.number) >= ENOUGH_WAITING:
                self.transport.pause_reading()
                edge._loop.call_later(WAIT_AGAIN_S, self._read_on)
                break
            frame = bytes(self._bytes[at + 4 : at + 4 + size])
            at += 4 + size
            edge.carry_out(brokers.receive(self.number, frame, edge.clock()))
        del self._bytes[:at]

    def _read_on(self) -> None:
        if self.transport.is_closing():
            return
        self._cut()
        if not self._is_full and self.edge.brokers.waiting(self.number) < ENOUGH_WAITING:
            self.transport.resume_reading()


WAIT_AGAIN_S = 0.05
"""How long a connection with enough frames waiting is not read."""


def now_ms() -> float:
    """The time of day in milliseconds."""
    return time.time_ns() // 1000 / 1000
