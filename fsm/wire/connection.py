"""One connection to a broker: requests go out, answers come back in order. The peer is not trusted.

A frame is bounded, an answer has to carry the id of the oldest request that waits, and nothing waits for ever. After a
`PeerError` the connection is closed.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fsm.errors import FsmError, InputError
from fsm.protocol.codec import API_OF, decode_response, encode_request
from fsm.protocol.messages import Api
from fsm.protocol.messages.cluster import ApiVersionsRequest

VERSIONS: Mapping[str, int] = {
    "ConsumerGroupHeartbeat": 1,
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "ConsumerGroupDescribe": 1,
    "DescribeGroups": 5,
    "ApiVersions": 0,
    "Metadata": 12,
    "FindCoordinator": 4,
    "Fetch": 4,
    "CreateTopics": 4,
    "DeleteTopics": 3,
    "CreatePartitions": 1,
    "DescribeConfigs": 1,
}
"""The version of each request where the caller names none: what every broker since 4.0 knows."""

LARGEST_FRAME, LARGEST_GREETING = 8 << 20, 1 << 16
"""Whoever has not said yet that it speaks the protocol may send less: what is in a frame takes many times its bytes."""

LENGTH = 4
STRANGERS = {b"HTTP": "HTTP", b"\x15\x03": "TLS"}
"""What others begin an answer with, and what they speak."""


class PeerError(FsmError):
    """The peer closed the connection, was silent for too long, or sent what is no answer."""


class Arrived(NamedTuple):
    """A response that has arrived."""

    tag: int
    """What the request was sent with."""
    response: Any
    version: int


class _Waiting(NamedTuple):
    tag: int
    correlation: int
    api: Api
    version: int


class Connection:
    """A socket to one broker, as one client."""

    def __init__(self, host: str, port: int, client_id: str, timeout_s: float = 30.0) -> None:
        """Connects. Raises `PeerError` where nobody listens."""
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.host, self.port = host, port
        self.client_id = client_id
        self.timeout_s = timeout_s
        self._waiting: deque[_Waiting] = deque()
        self._bytes = bytearray()
        self._correlation = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as problem:
            raise PeerError(f"{self.peer}: cannot connect: {problem}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: Any, tag: int = 0, version: int | None = None) -> None:
        """Sends a request; its answer comes with the tag. Raises `InputError` for one that cannot be written."""
        api = API_OF[type(request)]
        version = VERSIONS[api.name] if version is None else version
        self._correlation += 1
        frame = encode_request(request, version, self._correlation, self.client_id)
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(len(frame).to_bytes(LENGTH, "big") + frame)
        except OSError as problem:
            raise self._fail(f"cannot send {api.name}: {problem}") from None
        self._waiting.append(_Waiting(tag, self._correlation, api, version))

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is due."""
        return bool(self._waiting)

    def receive(self, timeout_s: float) -> Arrived | None:
        """The next answer, None if none came in time."""
        until = time.monotonic() + timeout_s
        while (frame := self._frame()) is None:
            left = until - time.monotonic()
            if not self._read(max(left, 0.0)):
                return None
        return self._answer(frame)

    def call(self, request: Any) -> Any:
        """Sends a request and waits for its response; no other may be due. Raises `PeerError` where none comes."""
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
        except OSError as problem:
            raise self._fail(f"cannot read: {problem}") from None
        if not data:
            raise self._fail("the peer closed the connection")
        self._bytes += data
        return True

    def _frame(self) -> bytes | None:
        if len(self._bytes) < LENGTH:
            return None
        size = int.from_bytes(self._bytes[:LENGTH], "big")
        allowed = self._largest_size()
        if size > allowed:
            raise self._fail(_too_large(bytes(self._bytes[:LENGTH]), size, allowed))
        if len(self._bytes) < LENGTH + size:
            return None
        frame = bytes(self._bytes[LENGTH : LENGTH + size])
        del self._bytes[: LENGTH + size]
        return frame

    def _largest_size(self) -> int:
        greets = self._waiting and self._waiting[0].api.request is ApiVersionsRequest
        return LARGEST_GREETING if greets else LARGEST_FRAME

    def _answer(self, frame: bytes) -> Arrived:
        if not self._waiting:
            raise self._fail("an answer to no request")
        tag, correlation, api, version = self._waiting.popleft()
        answered = int.from_bytes(frame[:4], "big", signed=True)
        if len(frame) >= LENGTH and answered != correlation:
            raise self._fail(f"no answer to {api.name}: it answers request {answered}, not {correlation}")
        try:
            return Arrived(tag, decode_response(api.response, frame, version)[1], version)
        except InputError as problem:
            raise self._fail(f"no answer to {api.name}: {problem}") from None

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


def _too_large(begins: bytes, size: int, allowed: int) -> str:
    """What is wrong with a length that is none."""
    for sign, language in STRANGERS.items():
        if begins.startswith(sign):
            return f"it speaks {language}, not Kafka's protocol"
    return f"a frame of {size} bytes; {allowed} are allowed"
