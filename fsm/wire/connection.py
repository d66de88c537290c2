"""One connection to a broker: requests go out, answers come back in order.

The peer is not trusted; `fsm.wire.dialogue` checks its bytes. Every wait has a timeout, and after a `PeerError` the
connection is closed.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any

from fsm.protocol.codec import API_OF
from fsm.wire.dialogue import Arrived, Dialogue, PeerError, explain_failure, show_address
from fsm.wire.login import LONGEST_ANSWER, PLAINTEXT, Security, log_in


class Connection:
    """A socket to one broker, as one client."""

    def __init__(
        self, host: str, port: int, client_id: str, timeout_s: float = 30.0, security: Security = PLAINTEXT
    ) -> None:
        """Connects, and logs in. Raises `PeerError` for a missing peer or a refused login."""
        self.peer = show_address(host, port)
        self.host, self.port = host, port
        self.timeout_s = timeout_s
        self._dialogue = Dialogue(self.peer, client_id)
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as problem:
            raise PeerError(f"{self.peer}: {explain_failure(problem)}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if security.tls is not None:
                self._socket = security.tls.wrap_socket(self._socket, server_hostname=host)
        except OSError as problem:
            raise self._fail(explain_failure(problem, tls=True)) from None
        try:
            if security.user:
                self._log_in(security, client_id)
        except OSError as problem:
            raise self._fail(f"the login fails: {problem}") from None

    def _log_in(self, security: Security, client_id: str) -> None:
        login = log_in(security, client_id)
        try:
            request = next(login)
            while True:
                self._socket.sendall(request)
                request = login.send(self._take(int.from_bytes(self._take(4), "big")))
        except StopIteration as done:
            if done.value:
                raise self._fail(done.value) from None

    def _take(self, size: int) -> bytes:
        """This many bytes of an answer to a login."""
        taken = b""
        while len(taken) < size <= LONGEST_ANSWER:  # a longer one is invalid
            data = self._socket.recv(size - len(taken))
            if not data:
                raise self._fail("the peer closed the connection at the login")
            taken += data
        return taken

    def send(self, request: Any, tag: int = 0, version: int | None = None) -> None:
        """Sends a request; its answer comes with the tag. Raises `InputError` for an invalid request."""
        data = self._dialogue.ask(request, tag, version)
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(data)
        except OSError as problem:
            raise self._fail(f"cannot send {API_OF[type(request)].name}: {problem}") from None

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is due."""
        return self._dialogue.is_waiting

    def receive(self, timeout_s: float) -> Arrived | None:
        """The next answer, None if none came in time."""
        until = time.monotonic() + timeout_s
        try:
            while (arrived := self._dialogue.next_answer()) is None:
                left = until - time.monotonic()
                if not self._read(max(left, 0.0)):
                    return None
        except PeerError:
            self.close()
            raise
        return arrived

    def call(self, request: Any) -> Any:
        """Sends a request and waits for its response; no other may be due. Raises `PeerError` without a response."""
        self.send(request)
        arrived = self.receive(self.timeout_s)
        if arrived is None:
            raise self._fail(f"no answer to {API_OF[type(request)].name} within {self.timeout_s:g} s")
        return arrived.response

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, by us or because the peer failed."""
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        """The file descriptor of the socket, for a selector."""
        return self._socket.fileno()

    def _read(self, timeout_s: float) -> bool:
        """Takes what has arrived; False if nothing did."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                return False
        try:
            data = self._socket.recv(1 << 16)
            while isinstance(self._socket, ssl.SSLSocket) and (more := self._socket.pending()):
                data += self._socket.recv(more)  # a selector does not see bytes that TLS has already read
        except OSError as problem:
            raise self._fail(f"cannot read: {problem}") from None
        if not data:
            raise self._fail("the peer closed the connection")
        self._dialogue.take(data)
        return True

    def _fail(self, why: str) -> PeerError:
        self._socket.close()
        return PeerError(f"{self.peer}: {why}")


def receive_any(connections: Iterable[Connection], timeout_s: float) -> list[Arrived]:
    """The answers that have arrived on any of the connections; waits for the first one, though not for longer."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, connection)
        ready = [key.data for key, _ in selector.select(timeout_s)]
    found = (connection.receive(0) for connection in ready)
    return [arrived for arrived in found if arrived]
