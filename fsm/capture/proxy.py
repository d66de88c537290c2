"""The proxy's sockets: a listener for each broker, two sockets for each connection, and a `Link` between them.

A slow side blocks only its own connection: nothing more is read for a side that does not take its bytes. When one side
closes, the other is closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from fsm.capture.frames import HELD
from fsm.capture.link import TLS, Link
from fsm.errors import InputError, RemoteProtocolError, refuse_os_errors
from fsm.serve.edge import now_ms, open_listener
from fsm.wire.dialogue import show_address
from fsm.wire.exchange import Exchange, Note

HERE = "127.0.0.1"
CHUNK = 1 << 16
CONNECTING_S, LINGERING_S = 10.0, 1.0
"""The timeout of connecting to a broker, and how long it may still respond after its client has disconnected."""
MOST_BROKERS = 1_000
"""The maximal number of listeners; clients connect to further brokers directly."""
Record = Callable[[Exchange | Note], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class _Broker:
    """A broker, and the socket at which clients find it."""

    host: str
    port: int
    listener: socket.socket
    node_id: int = 0

    @property
    def address(self) -> str:
        return show_address(self.host, self.port)


class Proxy:
    """A proxy on loopback in front of the brokers of one cluster, while its event loop runs."""

    def __init__(
        self, record: Record, tls: ssl.SSLContext | None = None, *, passes_tls: bool = False, held: int = HELD
    ) -> None:
        """`record` is called with exchanges and notes as they end. `tls` configures TLS to brokers; with `passes_tls`
        clients may use TLS of their own. `held` is the maximum number of bytes of a frame that are held to be read."""
        self._record, self._tls, self._passes_tls, self._held = record, tls, passes_tls, held
        self._brokers: dict[tuple[str, int], _Broker] = {}
        self._servers: list[asyncio.Task[asyncio.Server]] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._numbers: Iterator[int] = count(1)

    def listen(self, host: str, port: int, at: int = 0) -> int:
        """Listens at this port for the broker. Raises `InputError` if it is taken."""
        with refuse_os_errors("cannot listen", f"{HERE}:{at}", "choose another --port"):
            listener = open_listener(HERE, at)
        broker = self._brokers[host, port] = _Broker(host, port, listener)
        self._servers.append(asyncio.ensure_future(asyncio.start_server(self._serving(broker), sock=listener)))
        here: int = listener.getsockname()[1]
        return here

    async def close(self) -> None:
        """Ends every connection and waits until all have recorded their exchanges."""
        for task in self._servers:
            (await task).close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _place(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        if (host, port) not in self._brokers:
            if len(self._brokers) >= MOST_BROKERS:
                return host, port
            self.listen(host, port)
        broker = self._brokers[host, port]
        broker.node_id = node_id
        return HERE, broker.listener.getsockname()[1]

    # One connection.

    def _serving(self, broker: _Broker) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(broker, next(self._numbers), (reader, writer)))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        return accept

    def _link(self, connection: int, broker: int) -> Link:
        return Link(connection, self._place, broker, self._held)

    async def _serve(self, broker: _Broker, connection: int, client: Streams) -> None:
        """Serves a connection until it ends."""
        writers = [client[1]]
        peer = client[1].get_extra_info("peername") or ("", 0)
        self._note("connected", connection, broker=broker.node_id, peer=f"{peer[0]}:{peer[1]}", to=broker.address)
        link = self._link(connection, broker.node_id)
        try:
            opening = asyncio.open_connection(broker.host, broker.port, ssl=self._tls)
            upstream = await asyncio.wait_for(opening, CONNECTING_S)
            writers.append(upstream[1])
            for writer in writers:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await self._carry(link, client, upstream)
        except (RemoteProtocolError, InputError) as problem:
            self._note("broken", connection, why=str(problem))
        except (OSError, TimeoutError) as problem:
            self._note("unreachable", connection, why=f"{broker.address}: {problem or 'no answer'}")
        finally:
            link.end()
            self._record_exchanges(link)
            self._note("disconnected", connection)
            await _close(writers)

    async def _carry(self, link: Link, client: Streams, upstream: Streams) -> None:
        """Passes bytes until either side is closed and the other has received everything."""
        there = asyncio.ensure_future(self._carry_requests(link, client, upstream[1]))
        back = asyncio.ensure_future(self._carry_answers(link, upstream[0], client[1]))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            if link.is_waiting and not back.done():
                if upstream[1].can_write_eof():
                    upstream[1].write_eof()
                await asyncio.wait((back,), timeout=LINGERING_S)
        finally:
            there.cancel()
            back.cancel()
            ended = await asyncio.gather(there, back, return_exceptions=True)
        for problem in ended:
            if isinstance(problem, Exception) and not isinstance(problem, OSError):
                raise problem

    async def _carry_requests(self, link: Link, client: Streams, broker: asyncio.StreamWriter) -> None:
        while data := await client[0].read(CHUNK):
            await _wait((link.paused_until_ms - now_ms()) / 1000)
            was_opaque = link.opaque
            passed = link.from_client(data, now_ms())
            if link.opaque and not was_opaque:
                self._check_opaque(link)
            if passed.to_client:
                client[1].write(passed.to_client)
            self._record_exchanges(link)
            await _wait(link.wait_s)
            broker.write(passed.to_broker)
            await broker.drain()

    async def _carry_answers(self, link: Link, broker: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await broker.read(CHUNK):
            passed = link.from_broker(data, now_ms())
            self._record_exchanges(link)
            await _wait(link.wait_s)
            if not client.is_closing():
                client.write(passed.to_client)
                await client.drain()

    def _check_opaque(self, link: Link) -> None:
        self._note("opaque", link.connection, why=f"{link.opaque}: nothing can be read")
        if link.opaque == TLS and not self._passes_tls:
            raise RemoteProtocolError(
                "a client uses TLS; configure it without TLS, or start fsm capture with --pass-tls"
            )

    def _record_exchanges(self, link: Link) -> None:
        for exchange in link.take_exchanges():
            self._record(exchange)
        while link.unread:
            self._note("unread", link.connection, why=f"{link.unread.pop(0)}: clients may go past")

    def _note(self, event: str, connection: int, **about: object) -> None:
        self._record(Note(now_ms(), event, {"connection": connection, **about}))


async def _wait(for_s: float) -> None:
    """Waits; returns at once, without yielding, if there is nothing to wait for."""
    if for_s > 0:
        await asyncio.sleep(for_s)


async def _close(writers: Sequence[asyncio.StreamWriter]) -> None:
    """Closes connections; sends the rest if the peer takes it soon."""
    for writer in writers:
        writer.close()
    closed = [asyncio.ensure_future(writer.wait_closed()) for writer in writers]
    try:
        await asyncio.wait(closed, timeout=LINGERING_S)
    finally:
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*closed, return_exceptions=True)
