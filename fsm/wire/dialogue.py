"""One connection to a broker without the socket: requests as frames, answers from bytes.

Answers come in the order of their requests. The peer is not trusted: a frame is bounded, and an answer has to carry the
id of the oldest request that waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
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
    "ListGroups": 4,
    "ApiVersions": 0,
    "Metadata": 12,
    "FindCoordinator": 4,
    "Fetch": 4,
    "ListOffsets": 7,
    "CreateTopics": 4,
    "DeleteTopics": 3,
    "CreatePartitions": 1,
    "DescribeConfigs": 1,
}
"""The default version of each request, which every broker since 4.0 knows."""

LARGEST_FRAME, LARGEST_GREETING = 8 << 20, 1 << 16
"""Before the first valid answer the limit is lower, because a decoded frame takes many times its bytes."""

LENGTH = 4
STRANGERS = {b"HTTP": "HTTP", b"\x15\x03": "TLS"}
"""The first bytes of answers of other protocols, and their names."""


def find_protocol(data: bytes | bytearray, signs: Mapping[bytes, str] = STRANGERS) -> str:
    """The protocol of a peer that begins with these bytes, if it is another one that is known."""
    return next((language for sign, language in signs.items() if data.startswith(sign)), "")


class PeerError(FsmError):
    """Nobody listens, or the peer closed the connection, did not answer in time, or sent an invalid answer."""


START_BROKER = "start the broker, or give the address of one that is running"
"""The remedy where nobody listens."""


def show_address(host: str, port: int) -> str:
    """HOST:PORT; an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_address(text: str, option: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises `InputError`, with the option that gave it, for any other text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"must be HOST:PORT, not {text!r}", option)
    return host.strip("[]"), int(port)


def explain_failure(problem: OSError, *, tls: bool = False) -> str:
    """Why a connection could not be opened; an `ssl.SSLError` has a reason."""
    if isinstance(problem, ConnectionRefusedError):
        return "cannot connect: nothing listens there"
    reason = getattr(problem, "verify_message", "") or getattr(problem, "reason", "")
    if tls and (reason or isinstance(problem, ConnectionError)):
        return f"TLS fails: {reason.replace('_', ' ').lower() or 'it closed the connection'}"
    return f"cannot connect: {problem.strerror or problem}"


def suggest_remedy(problem: PeerError) -> str:
    """What the user of a command with the options of a login can do about it."""
    text = str(problem)
    if "cannot connect" in text:
        return START_BROKER
    if "TLS fails" in text:
        return "leave --tls out if it speaks plain text; --cafile names the authority that signed its certificate"
    if "it speaks TLS" in text or "closed the connection" in text:
        return "choose a listener without TLS, or add --tls"
    return "give the address of a Kafka broker"


class Arrived(NamedTuple):
    """A response that has arrived."""

    tag: int
    """The tag of the request."""
    response: Any
    version: int


class _Waiting(NamedTuple):
    tag: int
    correlation: int
    api: Api
    version: int


class Dialogue:
    """Requests to one broker, and its answers."""

    def __init__(self, peer: str, client_id: str) -> None:
        """`peer` is its name in errors."""
        self.peer = peer
        self.client_id = client_id
        self._waiting: deque[_Waiting] = deque()
        self._bytes = bytearray()
        self._correlation = 0

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is due."""
        return bool(self._waiting)

    def ask(self, request: Any, tag: int = 0, version: int | None = None) -> bytes:
        """The bytes to send; the answer comes with the tag. Raises `InputError` for an invalid request."""
        api = API_OF[type(request)]
        version = VERSIONS[api.name] if version is None else version
        frame = encode_request(request, version, self._correlation + 1, self.client_id)
        self._correlation += 1
        self._waiting.append(_Waiting(tag, self._correlation, api, version))
        return len(frame).to_bytes(LENGTH, "big") + frame

    def take(self, data: bytes) -> None:
        """Takes bytes of the peer."""
        self._bytes += data

    def next_answer(self) -> Arrived | None:
        """The next complete answer. Raises `PeerError` for invalid bytes: the dialogue is over then."""
        frame = self._frame()
        return None if frame is None else self._answer(frame)

    def _frame(self) -> bytes | None:
        if len(self._bytes) < LENGTH:
            return None
        size = int.from_bytes(self._bytes[:LENGTH], "big")
        greets = self._waiting and self._waiting[0].api.request is ApiVersionsRequest
        allowed = LARGEST_GREETING if greets else LARGEST_FRAME
        if size > allowed:
            language = find_protocol(self._bytes)
            large = f"a frame of {size} bytes; {allowed} are allowed"
            raise self.fail(f"it speaks {language}, not Kafka's protocol" if language else large)
        if len(self._bytes) < LENGTH + size:
            return None
        frame = bytes(self._bytes[LENGTH : LENGTH + size])
        del self._bytes[: LENGTH + size]
        return frame

    def _answer(self, frame: bytes) -> Arrived:
        if not self._waiting:
            raise self.fail("a response without a request")
        tag, correlation, api, version = self._waiting.popleft()
        answered = int.from_bytes(frame[:4], "big", signed=True)
        if len(frame) >= LENGTH and answered != correlation:
            raise self.fail(f"no answer to {api.name}: it answers request {answered}, not {correlation}")
        try:
            return Arrived(tag, decode_response(api.response, frame, version)[1], version)
        except InputError as problem:
            raise self.fail(f"no answer to {api.name}: {problem}") from None

    def fail(self, why: str) -> PeerError:
        """The error of a faulty peer."""
        return PeerError(f"{self.peer}: {why}")
