"""The brokers on sockets: the one place of this package with a clock, sockets and files.

What the brokers want done is gathered while the event loop hands out what has arrived, and then done at once: first
what is to be kept, which is on the disk before anything is sent; then each connection is sent all that it gets.

Clients are not trusted. What one of them may make the broker hold is bounded, and so is what all of them may.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, cast

from fsm.errors import InputError
from fsm.protocol.messages import APIS
from fsm.serve.brokers import Brokers
from fsm.serve.effects import Append, Effect, HangUp, ReadOn, Replace, Send
from fsm.serve.store import Store

LARGEST_PRODUCE = 8 << 20
"""Bytes of a frame with records; whoever announces more is disconnected."""
LARGEST_FRAME = 4 << 20
"""Bytes of any other frame, of which objects are made that take many times their bytes."""
PRODUCE = APIS["Produce"].key.to_bytes(2, "big")
ENOUGH_UNSENT = 64 << 10
"""Bytes that a client may leave unread before its requests are read no further."""
MOST_FULL = 512
"""Clients that may leave so much unread at once; after that the one that has done so for the longest has to go. Each
holds that much and two answers, a megabyte or so each."""
MOST_BUFFERED = 256 << 20
"""Bytes that all connections have sent of frames which are not whole, or not handled yet."""
BUFFERED_BY_ONE = 16 << 10
"""Bytes of these that a connection may have whatever others have."""
SENT_AT_ONCE = 256 << 10
"""Bytes of answers that are gathered before they are sent."""
MOST_IDLE_S = 600.0
"""A connection on which nothing arrives for so long is closed: `connections.max.idle.ms` of Kafka."""
OTHER_FILES = 100
"""File descriptors that are not for connections: logs, and what Python needs."""
BACKLOG = 4_096
"""Connections that may wait to be accepted."""
MOST_ACCEPTED = 128
"""Connections that are accepted before others are served."""
ACCEPT_AGAIN_S = 1.0
"""How long none is accepted after that failed."""
LATEST_MS = 3_600_000.0
"""The event loop is never asked to wait longer."""


class Edge:
    """Listens for each broker, and carries frames and effects between sockets and brokers."""

    def __init__(
        self,
        brokers: Brokers,
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
        *,
        on_trouble: Callable[[str], object] = lambda _: None,
        most_idle_s: float = MOST_IDLE_S,
    ) -> None:
        """`clock` gives epoch milliseconds; the time of day by default. `on_trouble` is told, in a line, of what an
        operator should know.
        """
        self.brokers = brokers
        self.clock = clock or now_ms
        self.store = store
        self.on_trouble = on_trouble
        self.most_idle_s = most_idle_s
        self.most_connections = most_connections()
        self.buffered = 0
        """Bytes of frames that are not whole, or not handled yet."""
        self.failed: asyncio.Future[None]
        """Ends with an `InputError` where the brokers cannot go on."""
        self._listening: list[socket.socket] = []
        self._opening: set[asyncio.Future[Any]] = set()
        self._clients: dict[int, _Client] = {}
        self._full: dict[int, _Client] = {}
        """Clients that leave much unread; the one that has done so for the longest comes first."""
        self._numbers = 0
        self._effects: list[Effect] = []
        self._unsent = 0
        self._is_flush_due = False
        self._is_crowded = False
        self._timer: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._armed_ms = 0.0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listens: the first broker at this port, the others at free ones; gives the first one's.

        Raises `InputError` where the port is taken, the address is none of this machine's, or nothing can be kept.
        """
        self._loop = asyncio.get_running_loop()
        self.failed = self._loop.create_future()
        for broker in range(1, self.brokers.cluster.served.brokers + 1):
            wanted = port if broker == 1 else 0
            try:
                self.brokers.cluster.endpoints[broker] = (host, self.listen(broker, host, wanted))
            except InputError:
                await self.stop()
                raise
        self.carry_out(self.brokers.start(self.clock()))
        self._flush()
        if self.failed.done():
            await self.stop()
            self.failed.result()
        self._sweep()
        return self.brokers.cluster.endpoints[1][1]

    def listen(self, broker: int, host: str, port: int = 0) -> int:
        """Listens at one more address for a broker, as long as the edge runs; gives the port. Raises `InputError`."""
        try:
            listening = _listen(host, port)
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise InputError(f"cannot listen: {why}", f"{host}:{port}", "choose another --port") from None
        self._listening.append(listening)
        self._loop.add_reader(listening, self._accept, listening, broker)
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """Closes every socket."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        for client in [*self._clients.values()]:
            client.transport.abort()
        for timer in (self._timer, self._sweeping):
            if timer is not None:
                timer.cancel()
        await asyncio.sleep(0)  # connections hear of their end

    # Effects

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Does what the brokers want done, soon; then waits for what is due next."""
        for effect in effects:
            self._effects.append(effect)
            if isinstance(effect, Send):
                self._unsent += len(effect.data)
        if self._unsent > SENT_AT_ONCE:
            self._flush()
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        effects, self._effects = self._effects, []
        self._is_flush_due, self._unsent = False, 0
        if self.failed.done():
            return
        if self.store is not None:
            try:
                for effect in effects:
                    if isinstance(effect, Append | Replace):
                        self.store.write(effect)
                self.store.sync()
            except InputError as problem:
                self._fail(problem)
                return
        self._send([effect for effect in effects if not isinstance(effect, Append | Replace)])
        self._arm()

    def _send(self, effects: list[Send | HangUp | ReadOn]) -> None:
        sent: dict[int, list[bytes]] = {}
        ended: list[_Client] = []
        for effect in effects:
            client = self._clients.get(effect.connection)
            if client is None:
                continue
            if isinstance(effect, Send):
                sent.setdefault(effect.connection, []).append(effect.data)
            elif isinstance(effect, HangUp):
                ended.append(client)
            else:
                self._loop.call_soon(client.read_on)
        for number, parts in sent.items():
            self._clients[number].transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        for client in ended:
            client.transport.close()

    def _fail(self, problem: InputError) -> None:
        """Nothing more can be kept, so that nothing more is answered."""
        self.failed.set_exception(problem)
        for client in [*self._clients.values()]:
            client.transport.abort()

    # Time

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
        self._ask(lambda: self.brokers.advance(self.clock()))

    def receive(self, client: _Client, frame: bytes) -> None:
        """A frame of a client has arrived."""
        if not self._ask(lambda: self.brokers.receive(client.number, frame, self.clock())):
            client.transport.abort()

    def _ask(self, act: Callable[[], Iterable[Effect]]) -> bool:
        """Does what the brokers want done; where they cannot, says so. Whether they could."""
        try:
            self.carry_out(act())
        except InputError as problem:  # what is watched cannot be written down
            if not self.failed.done():
                self._fail(problem)
            return False
        except Exception as problem:  # a fault of ours is not to end the other connections
            self.on_trouble(f"a request could not be handled: {problem!r}")
            self.carry_out(())
            return False
        return True

    def _sweep(self) -> None:
        """Ends connections on which nothing has arrived for long."""
        since = self._loop.time() - self.most_idle_s
        for client in [*self._clients.values()]:
            if client.heard < since:
                client.transport.abort()
        self._sweeping = self._loop.call_later(self.most_idle_s / 10, self._sweep)

    # Connections

    def _accept(self, listening: socket.socket, broker: int) -> None:
        """Takes the connections that wait; those for which there is no room are closed at once."""
        for _ in range(MOST_ACCEPTED):
            try:
                one, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                self._tell_crowded(f"no connection can be accepted: {problem.strerror}")
                self._loop.remove_reader(listening)
                self._loop.call_later(ACCEPT_AGAIN_S, self._accept_again, listening, broker)
                return
            if len(self._clients) + len(self._opening) >= self.most_connections:
                one.close()
                self._tell_crowded(f"{self.most_connections} connections are open, which is the most here")
                continue
            self._is_crowded = False
            one.setblocking(False)
            opening = self._loop.create_task(self._loop.connect_accepted_socket(partial(_Client, self, broker), one))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _accept_again(self, listening: socket.socket, broker: int) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening, broker)

    def connected(self, client: _Client) -> int:
        """A client's number."""
        self._numbers += 1
        self._clients[self._numbers] = client
        self.brokers.connect(self._numbers, client.broker, client.peer, self.clock())
        return self._numbers

    def disconnected(self, number: int) -> None:
        """The client's socket is closed."""
        self._clients.pop(number, None)
        self._full.pop(number, None)
        self.carry_out(self.brokers.disconnect(number, self.clock()))

    def filled(self, client: _Client) -> None:
        """The client leaves much unread."""
        self._full[client.number] = client
        if len(self._full) > MOST_FULL:
            self._full.pop(next(iter(self._full))).transport.abort()

    def emptied(self, client: _Client) -> None:
        """The client has read on."""
        self._full.pop(client.number, None)

    def _tell_crowded(self, what: str) -> None:
        """Once, until there is room again."""
        if not self._is_crowded:
            self._is_crowded = True
            self.on_trouble(f"{what}; others are turned away: raise the limit of open files (ulimit -n)")


class _Client(asyncio.Protocol):
    """One connection: cuts bytes into frames, reads no further while one waits or the client does not read."""

    transport: asyncio.Transport

    def __init__(self, edge: Edge, broker: int) -> None:
        self.edge, self.broker = edge, broker
        self.peer = ""
        self.number = 0
        self.heard = 0.0
        """When something arrived last, by the event loop's clock."""
        self._bytes = bytearray()
        self._wanted = 0
        """Bytes without which there is nothing to be done."""
        self._is_full = False
        """The client does not read what it was sent."""
        self._is_held = False
        """A request waits for the one before it to be answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        transport = self.transport
        transport.set_write_buffer_limits(ENOUGH_UNSENT)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = transport.get_extra_info("peername")[0]
        self.heard = self.edge._loop.time()
        self.number = self.edge.connected(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._keep(b"")
        self.edge.disconnected(self.number)

    def pause_writing(self) -> None:
        self._is_full = True
        self.transport.pause_reading()
        self.edge.filled(self)

    def resume_writing(self) -> None:
        self._is_full = False
        self.edge.emptied(self)
        self._go_on()

    def read_on(self) -> None:
        """The request that waited is being handled."""
        self._is_held = False
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self.heard = self.edge._loop.time()
        if self._bytes or self._is_held or self._is_full:
            self._bytes += data
            self.edge.buffered += len(data)
            if self.edge.buffered > MOST_BUFFERED and len(self._bytes) > BUFFERED_BY_ONE:
                self.transport.abort()
                return
            if len(self._bytes) < self._wanted or self._is_held or self._is_full:
                return
            data = bytes(self._bytes)
        self._cut(data)

    def _go_on(self) -> None:
        if not (self._is_full or self._is_held or self.transport.is_closing()):
            self._cut(bytes(self._bytes))
            if not (self._is_full or self._is_held or self.transport.is_closing()):
                self.transport.resume_reading()

    def _cut(self, data: bytes) -> None:
        """Hands over the frames that are whole, up to one that has to wait; keeps the rest."""
        edge, number, at = self.edge, self.number, 0
        self._wanted = 0
        while not (self._is_full or self.transport.is_closing()):
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
            if edge.brokers.waiting(number):
                self._is_held = True
                self.transport.pause_reading()
                break
            at = begin + size
            edge.receive(self, data[begin:at])
        self._keep(data[at:])

    def _keep(self, rest: bytes) -> None:
        """So much has arrived and is not handled."""
        if rest or self._bytes:
            self.edge.buffered += len(rest) - len(self._bytes)
            self._bytes = bytearray(rest)


STRANGERS = {b"\x16\x03": "TLS", b"GET ": "HTTP", b"POST": "HTTP", b"HEAD": "HTTP"}
"""What others begin with, and what they speak."""


def stranger(data: bytes) -> str:
    """What somebody speaks who begins so, if that is known."""
    return next((language for sign, language in STRANGERS.items() if data.startswith(sign)), "")


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


def most_connections() -> int:
    """Connections for which this process has file descriptors, once it may have as many as it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, soft - OTHER_FILES)


def event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's where that is installed, which is faster."""
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    found: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return found


_EPOCH_NS = time.time_ns() - time.monotonic_ns()


def now_ms() -> float:
    """The time of day in milliseconds, as it was when this program began and as it went on: no clock is set back."""
    return (_EPOCH_NS + time.monotonic_ns()) // 1000 / 1000
