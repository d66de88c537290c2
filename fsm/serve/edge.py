"""The brokers on sockets: the one place of this package with a clock, sockets and files.

Effects of the brokers are collected while the event loop delivers input, and then executed together: first log writes,
which are on disk before any answer is sent; then all answers, connection by connection.

Clients are not trusted: the memory for each of them, and for all together, is bounded.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from fsm.errors import InputError, refuse_os_errors
from fsm.serve.brokers import Brokers
from fsm.serve.client import Client, Clients
from fsm.serve.effects import Append, Effect, HangUp, ReadOn, Replace, Send
from fsm.serve.store import Store

SENT_AT_ONCE = 256 << 10
"""The bytes of answers collected before they are sent."""
MOST_IDLE_S = 600.0
"""The time without input after which a connection is closed: `connections.max.idle.ms` of Kafka."""
OTHER_FILES = 100
"""File descriptors that are not for connections: logs, and those of Python."""
BACKLOG = 4_096
"""Connections that may wait to be accepted."""
MOST_ACCEPTED = 128
"""Connections that are accepted before others are served."""
ACCEPT_AGAIN_S = 1.0
"""The pause after a failed accept."""
CROWDED_AGAIN_S = 60.0
"""The least interval between reports of rejected clients."""
LATEST_MS = 3_600_000.0
"""The longest wait of the event loop."""


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
        """`clock` returns epoch milliseconds; the time of day by default. `on_trouble` is called with a line for each
        problem that an operator should know."""
        self.brokers = brokers
        self.clock = clock or now_ms
        self.store = store
        self.on_trouble = on_trouble
        self.most_connections = most_connections()
        self.failed: asyncio.Future[None]
        """Ends with an `InputError` if the brokers cannot continue."""
        self.clients = Clients(
            brokers,
            self.clock,
            on_frame=self.receive,
            on_trouble=on_trouble,
            carry_out=self.carry_out,
            most_idle_s=most_idle_s,
        )
        self._loop: asyncio.AbstractEventLoop
        """The event loop in which it was started."""
        self._listening: list[socket.socket] = []
        self._opening: set[asyncio.Future[Any]] = set()
        self._unkept: list[Append | Replace] = []
        self._unsent: dict[int, list[bytes]] = {}
        self._unsent_bytes = 0
        self._ended: list[int] = []
        self._read_on: list[int] = []
        self._is_flush_due = False
        self._quiet_until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0.0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listens: the first broker at this port, the others at free ones; returns the first one's port.

        Raises `InputError` if the port is taken, the address is not local, or the logs cannot be written.
        """
        self._loop = self.clients.loop = asyncio.get_running_loop()
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
        self.clients.start()
        return self.brokers.cluster.endpoints[1][1]

    def listen(self, broker: int, host: str, port: int = 0) -> int:
        """Listens at one more address for a broker, as long as the edge runs; returns the port. Raises `InputError`."""
        with refuse_os_errors("cannot listen", f"{host}:{port}", "choose another --host or --port"):
            listening = open_listener(host, port)
        self._listening.append(listening)
        self._loop.add_reader(listening, self._accept, listening, broker)
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """Closes every socket."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        self.clients.stop()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.sleep(0)  # let connections handle their end

    # Effects

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carries out the effects of the brokers soon, then sets the timer for the next deadline."""
        for effect in effects:
            if isinstance(effect, Send):
                number, data = effect
                parts = self._unsent.get(number)
                if parts is None:
                    self._unsent[number] = [data]
                else:
                    parts.append(data)
                self._unsent_bytes += len(data)
            elif isinstance(effect, HangUp):
                self._ended.append(effect.connection)
            elif isinstance(effect, ReadOn):
                self._read_on.append(effect.connection)
            else:
                self._unkept.append(effect)
        if self._unsent_bytes > SENT_AT_ONCE:
            self._flush()
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Writes the logs, then sends the responses."""
        unkept, self._unkept = self._unkept, []
        unsent, self._unsent, self._unsent_bytes = self._unsent, {}, 0
        ended, self._ended = self._ended, []
        read_on, self._read_on = self._read_on, []
        self._is_flush_due = False
        if self.failed.done():
            return
        if self.store is not None:
            try:
                for effect in unkept:
                    self.store.write(effect)
                self.store.sync()
            except InputError as problem:
                self._fail(problem)
                return
        self._send(unsent)
        for number in ended:
            if client := self.clients.open.get(number):
                client.transport.close()
        for number in read_on:
            if client := self.clients.open.get(number):
                self._loop.call_soon(client.read_on)
        self._arm()

    def _send(self, unsent: Mapping[int, Sequence[bytes]]) -> None:
        for number, parts in unsent.items():
            if client := self.clients.open.get(number):
                client.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def _fail(self, problem: InputError) -> None:
        """Ends the service, because logs cannot be written any more."""
        self.failed.set_exception(problem)
        self.clients.abort()

    # Time

    def _arm(self) -> None:
        due_ms = self.brokers.next_deadline_ms()
        if due_ms is None:
            return
        if self._timer is not None:
            if self._armed_ms <= due_ms:
                return  # it fires early, finds nothing due, and is set again
            self._timer.cancel()
        self._armed_ms = due_ms
        wait_s = min(max(due_ms - self.clock(), 0.0), LATEST_MS) / 1000
        self._timer = self._loop.call_later(wait_s, self.advance)

    def advance(self) -> None:
        """Runs everything that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._call(self.brokers.advance, self.clock())

    def receive(self, client: Client, frame: bytes, now_ms: float) -> None:
        """Handles a frame of a client."""
        if not self._call(self.brokers.receive, client.number, frame, now_ms):
            client.transport.abort()

    def _call(self, act: Callable[..., Iterable[Effect]], *given: Any) -> bool:
        """Calls the brokers and executes the effects; reports a failure. Returns whether it succeeded."""
        try:
            self.carry_out(act(*given))
        except InputError as problem:  # the trace cannot be written
            if not self.failed.done():
                self._fail(problem)
            return False
        except Exception as problem:  # an error of ours must not end the other connections
            self.on_trouble(f"a request could not be handled: {problem!r}")
            self.carry_out(())
            return False
        return True

    # Connections

    def _accept(self, listening: socket.socket, broker: int) -> None:
        """Accepts waiting connections; closes those above the limit at once."""
        for _ in range(MOST_ACCEPTED):
            try:
                one, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                self._report_crowded(f"no connection can be accepted: {problem.strerror}")
                self._loop.remove_reader(listening)
                self._loop.call_later(ACCEPT_AGAIN_S, self._resume_accepting, listening, broker)
                return
            if len(self.clients.open) + len(self._opening) >= self.most_connections:
                one.close()
                self._report_crowded(f"{self.most_connections} connections are open, which is the most here")
                continue
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opening = self._loop.create_task(
                self._loop.connect_accepted_socket(partial(Client, self.clients, broker), one)
            )
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _resume_accepting(self, listening: socket.socket, broker: int) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening, broker)

    def _report_crowded(self, what: str) -> None:
        """Reports refused connections, at most once in `CROWDED_AGAIN_S`."""
        if self._loop.time() >= self._quiet_until_s:
            self._quiet_until_s = self._loop.time() + CROWDED_AGAIN_S
            self.on_trouble(f"{what}; others are turned away: raise the limit of open files (ulimit -n)")


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens there, with `BACKLOG`. Raises `OSError`."""
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
    """Raises the limit of file descriptors; returns how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, soft - OTHER_FILES)


def event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's if it is installed, which is faster."""
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    found: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return found


_EPOCH_NS = time.time_ns() - time.monotonic_ns()


def now_ms() -> float:
    """The time of day in milliseconds, by a monotonic clock since the start of this program."""
    return (_EPOCH_NS + time.monotonic_ns()) // 1000 / 1000
