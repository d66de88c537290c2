"""`fsm serve` as a process of its own, and raw sockets to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patience import PATIENCE_S

from fsm.protocol.codec import API_OF, decode_response, encode_request

SHORT = (
    "--set",
    "group.consumer.min.heartbeat.interval.ms=100",
    "--set",
    "group.consumer.heartbeat.interval.ms=300",
    "--set",
    "group.initial.rebalance.delay.ms=0",
)


class Served:
    """One run of the command."""

    def __init__(
        self,
        *arguments: str,
        topics: str = "foo=4",
        settings: Sequence[str] = SHORT,
        prepare: str = "",
        without: Sequence[str] = (),
    ) -> None:
        """`prepare` is run in the new process before all else; modules of `without` are not installed there."""
        hidden = "".join(f"sys.modules[{name!r}] = None; " for name in without)
        program = f"import sys; {prepare or None}; {hidden}from fsm.__main__ import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "serve", "--topics", topics, *settings, *arguments]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command,
            env=environment,
            **options,  # type: ignore[call-overload]
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2]) if line.startswith("listening on ") else 0

    def connect(self, client_id: str = "A") -> Wire:
        """A connection."""
        return Wire(self.port, client_id)

    def kill(self) -> None:
        """The process ends at once."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str]:
        """Waits until it has ended by itself: exit status, and what it said on stderr."""
        _, output = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, output


@contextmanager
def served(*arguments: str, **fields: Any) -> Iterator[Served]:
    """The command while the block runs."""
    one = Served(*arguments, **fields)
    try:
        assert one.port, one.end()
        yield one
    finally:
        one.kill()


class Wire:
    """One raw connection."""

    def __init__(self, port: int, client_id: str = "A") -> None:
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.client_id = client_id
        self._sent = 0

    def reconnect(self) -> None:
        """Another connection in place of this one."""
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def ask(self, request: Any, version: int | None = None) -> Any:
        """A request and its answer. Raises `OSError` where the broker has gone."""
        version = API_OF[type(request)].newest if version is None else version
        self.send(request, version)
        return self.take(request, version)

    def take(self, request: Any, version: int) -> Any:
        """The next answer, which is to this request."""
        return decode_response(API_OF[type(request)].response, self.read(), version)[1]

    def send(self, request: Any, version: int) -> None:
        """A request."""
        self._sent += 1
        self.send_frame(encode_request(request, version, self._sent, self.client_id))

    def send_frame(self, frame: bytes) -> None:
        """Any bytes as a frame."""
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def read(self) -> bytes:
        """The next frame. Raises `OSError` where the broker has gone."""
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            if not more:
                raise ConnectionResetError("the broker has closed the connection")
            found += more
        return found

    @property
    def is_closed(self) -> bool:
        """Waits until the broker ends the connection; False where it sends something instead."""
        try:
            return not self.socket.recv(1)
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Closes the socket."""
        self.socket.close()
