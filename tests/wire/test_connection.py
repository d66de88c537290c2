"""A connection trusts nobody: peers that close, fall silent or send nonsense end in a `PeerError` that says so."""

from __future__ import annotations

import json
import lzma
import socket
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fsm.conformance.broker_peer import Broker
from fsm.errors import InputError
from fsm.protocol.codec import RequestHeader, decode, decode_request, encode_response
from fsm.protocol.messages import APIS, ApiVersionsRequest, HeartbeatRequest, HeartbeatResponse
from fsm.wire.connection import Connection, receive_any
from fsm.wire.dialogue import LARGEST_FRAME, LARGEST_GREETING, Arrived, PeerError

VECTORS = Path(__file__).parent.parent / "protocol" / "vectors.jsonl.xz"
Serve = Callable[[socket.socket, bytes], None]
LIMIT_S = 120
"""Far above what a slow machine needs for anything that is not stalled."""


class Peer:
    """Somebody on loopback who answers the first frame in one way."""

    def __init__(self, serve: Serve) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.seen = b""
        self.thread = threading.Thread(target=self._run, args=(serve,), daemon=True)
        self.thread.start()

    def _run(self, serve: Serve) -> None:
        with suppress(OSError):  # whoever asks may go away at any time
            client, _ = self.listening.accept()
            with client:
                head = client.recv(4)
                self.seen = client.recv(int.from_bytes(head, "big"))
                serve(client, self.seen)
                client.settimeout(LIMIT_S)
                client.recv(1)

    def close(self) -> None:
        self.listening.close()
        self.thread.join(LIMIT_S)


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    """Whoever was made is ended."""
    made: list[Peer] = []
    yield made
    for peer in made:
        peer.close()


def connected(peers: list[Peer], serve: Serve, timeout_s: float = LIMIT_S) -> Connection:
    peers.append(Peer(serve))
    return Connection("127.0.0.1", peers[-1].port, "c-m1", timeout_s)


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def correlation(request: bytes) -> bytes:
    """The id of a request: behind its API key and version."""
    return request[4:8]


HEARTBEAT = HeartbeatRequest("g", 1, "m")
NO_ERROR = bytes.fromhex("00 00000000 0000 00")
"""Tags of the header, throttle time, error code, tags of the body."""


def test_a_request_has_its_header_and_gets_its_answer(peers: list[Peer]) -> None:
    """API key, version, correlation id, client id, tags; the answer comes with the tag of the request."""
    connection = connected(peers, lambda client, request: client.sendall(frame(correlation(request) + NO_ERROR)))
    connection.send(HEARTBEAT, tag=7)
    assert connection.is_waiting
    assert connection.receive(LIMIT_S) == Arrived(7, HeartbeatResponse(), 4)
    assert not connection.is_waiting
    assert peers[0].seen == bytes.fromhex("000c 0004 00000001 0004") + b"c-m1" + bytes.fromhex(
        "00 0267 00000001 026d 00 00"
    )
    connection.close()


@pytest.mark.parametrize("name", ["OffsetCommit", "OffsetFetch", "JoinGroup", "ConsumerGroupHeartbeat"])
def test_every_version_is_spoken(peers: list[Peer], name: str) -> None:
    """A request goes out in the version that is asked for, and its answer is read in that version."""
    api = APIS[name]
    lines = lzma.decompress(VECTORS.read_bytes()).decode().splitlines()
    vectors = [one for one in map(json.loads, lines) if one["api"] == name]
    asked, answers = (
        {one["version"]: b64decode(one["messages"][0][0]) for one in vectors if one["kind"] == kind}
        for kind in ("request", "response")
    )
    for version in range(api.oldest, api.newest + 1):
        request, answer = decode(api.request, asked[version], version), decode(api.response, answers[version], version)

        def serve(client: socket.socket, frame_: bytes, answer: Any = answer, version: int = version) -> None:
            header, _ = decode_request(frame_)
            client.sendall(frame(encode_response(answer, version, header.correlation_id)))

        connection = connected(peers, serve)
        connection.send(request, 3, version)
        assert connection.receive(LIMIT_S) == Arrived(3, answer, version)
        assert decode_request(peers[-1].seen) == (RequestHeader(api.key, version, 1, "c-m1"), request)
        connection.close()


def test_an_answer_may_come_in_pieces(peers: list[Peer]) -> None:
    """Byte by byte is as good as at once."""

    def serve(client: socket.socket, request: bytes) -> None:
        for byte in frame(correlation(request) + NO_ERROR):
            client.sendall(bytes([byte]))

    connection = connected(peers, serve)
    assert connection.call(HEARTBEAT) == HeartbeatResponse()
    connection.close()


def test_any_of_several_connections(peers: list[Peer]) -> None:
    """The answers that have arrived are given, those that have not are not waited for."""
    silent = connected(peers, lambda _client, _request: None)
    quick = connected(peers, lambda client, request: client.sendall(frame(correlation(request) + NO_ERROR)))
    silent.send(HEARTBEAT, 1)
    quick.send(HEARTBEAT, 2)
    assert receive_any([silent, quick], LIMIT_S) == [Arrived(2, HeartbeatResponse(), 4)]
    silent.close()
    quick.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: b"", "closed the connection"),
        (lambda _: frame(b"\0\0\0\x09" + NO_ERROR), "it answers request 9, not 1"),
        (lambda _: (LARGEST_FRAME + 1).to_bytes(4, "big"), "a frame of"),
        (lambda _: b"\xff\xff\xff\xff", "a frame of"),
        (lambda request: frame(correlation(request)), "no answer to Heartbeat"),
        (lambda request: frame(correlation(request) + NO_ERROR + b"\0"), "1 bytes too many"),
        (lambda request: frame(correlation(request) + b"\xff" * 10), "no answer to Heartbeat"),
        (lambda _: frame(b""), "no answer to Heartbeat"),
    ],
    ids=["closes", "another id", "too large", "negative", "empty body", "goes on", "garbage", "empty frame"],
)
def test_a_peer_that_breaks_the_protocol(peers: list[Peer], answer: Callable[[bytes], bytes], message: str) -> None:
    """The error names the peer and what it did, and the connection is closed."""

    def serve(client: socket.socket, request: bytes) -> None:
        client.sendall(answer(request))
        client.shutdown(socket.SHUT_WR)

    connection = connected(peers, serve)
    with pytest.raises(PeerError, match=message) as caught:
        connection.call(HEARTBEAT)
    assert str(caught.value).startswith(f"127.0.0.1:{peers[0].port}: ")
    assert connection.is_closed


@pytest.mark.parametrize(
    ("begins", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP, not Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "it speaks TLS, not Kafka's protocol"),
        ((LARGEST_GREETING + 1).to_bytes(4, "big"), "a frame of 65537 bytes; 65536 are allowed"),
    ],
    ids=["HTTP", "TLS", "too large"],
)
def test_a_stranger_is_told_by_its_first_bytes(peers: list[Peer], begins: bytes, message: str) -> None:
    """Who has not even said what it speaks is not read for long."""
    connection = connected(peers, lambda client, _request: client.sendall(begins))
    with pytest.raises(PeerError, match=message):
        connection.call(ApiVersionsRequest())


@pytest.mark.parametrize(
    ("answer", "message"),
    [("0023 00000000", "ApiVersions is refused: unsupported_version"), ("0000 00000000", "Metadata is not spoken")],
)
def test_a_broker_that_cannot_be_walked(peers: list[Peer], answer: str, message: str) -> None:
    """One that refuses to say what it speaks, or does not speak what a walk needs, is an `InputError` that says so."""
    body = bytes.fromhex(answer)
    peers.append(Peer(lambda client, request: client.sendall(frame(correlation(request) + body))))
    with pytest.raises(InputError, match=message):
        Broker("127.0.0.1", peers[-1].port, "4.4.0", {})


def test_an_address_of_six_is_in_brackets() -> None:
    """So that the port can be told from it."""
    with pytest.raises(PeerError, match=r"^\[::1\]:1: cannot connect"):
        Connection("::1", 1, "c")


def test_a_silent_peer_is_given_up(peers: list[Peer]) -> None:
    """No answer within the time-out is an error; `receive` by itself just gives nothing."""
    connection = connected(peers, lambda _client, _request: None, timeout_s=0.05)
    with pytest.raises(PeerError, match=r"no answer to Heartbeat within 0\.05 s"):
        connection.call(HEARTBEAT)


def test_an_answer_to_no_request(peers: list[Peer]) -> None:
    """Who talks without being asked is not listened to."""

    def serve(client: socket.socket, request: bytes) -> None:
        client.sendall(2 * frame(correlation(request) + NO_ERROR))

    connection = connected(peers, serve)
    assert connection.call(HEARTBEAT) == HeartbeatResponse()
    with pytest.raises(PeerError, match="a response without a request"):
        connection.receive(LIMIT_S)


def test_nobody_listens() -> None:
    """A port without a listener is an error, not a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(PeerError, match="cannot connect"):
        Connection("127.0.0.1", port, "c")
