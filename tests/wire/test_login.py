"""TLS and a login before anything else: who is let in goes on as ever, who is not is told why."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from patience import PATIENCE_S, wait_until

from fsm.cli import main
from fsm.cli.broker_lag import read_broker_lag
from fsm.errors import InputError
from fsm.join import MessageConsumer
from fsm.join.network import Link
from fsm.member import ConsumerConfig
from fsm.protocol.codec import decode_request, encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    APIS,
    ApiVersion,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fsm.wire import Connection, PeerError
from fsm.wire.dialogue import suggest_remedy
from fsm.wire.login import Security

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

import kafka_broker

CERTIFICATE = Path(__file__).parents[1] / "capture" / "loopback.pem"
TRUSTING = ssl.create_default_context(cafile=CERTIFICATE)
ANN = Security(TRUSTING, "ann", "open sesame")
TAKEN, UNKNOWN = b"\0\0\0\0\0\0\0\1\0\5PLAIN", b"\0\0\0\0\0\x21\0\0\0\0"
WELCOME, REFUSED = b"\0\0\0\0\0\0\xff\xff\0\0\0\0", b"\0\0\0\0\0\x3a\0\3who\0\0\0\0"
Serve = Callable[[socket.socket], None]


def read_frame(client: socket.socket) -> bytes:
    """The next request."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = client.recv(1 << 16)
        if not more:
            raise OSError("gone")
        data += more
    return data[4:]


def say(client: socket.socket, answer: bytes) -> None:
    client.sendall(struct.pack(">i", len(answer)) + answer)


@contextmanager
def peer(serve: Serve, *, tls: bool = True) -> Iterator[int]:
    """Somebody on loopback; gives the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    def run() -> None:
        with suppress(OSError):  # whoever asks may go away at any time
            client, _ = listening.accept()
            client.settimeout(PATIENCE_S)
            with context.wrap_socket(client, server_side=True) if tls else client as dialect:
                serve(dialect)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
    thread.join(PATIENCE_S)


@pytest.mark.parametrize("tls", [True, False])
def test_who_is_let_in_goes_on_as_ever(tls: bool) -> None:
    """The user and the password stand in the second request; answers of many TLS records come whole."""
    seen: list[bytes] = []
    many = MetadataResponse(topics=tuple(MetadataResponseTopic(ErrorCode.NONE, f"topic-{i:05}") for i in range(20_000)))

    def serve(client: socket.socket) -> None:
        for answer in (TAKEN, WELCOME):
            seen.append(read_frame(client))
            say(client, answer)
        for message in (HeartbeatResponse(throttle_time_ms=7), many, HeartbeatResponse(throttle_time_ms=8)):
            header, _ = decode_request(read_frame(client))
            say(client, encode_response(message, header.api_version, header.correlation_id))

    with peer(serve, tls=tls) as port:
        security = ANN._replace(tls=TRUSTING if tls else None)
        connection = Connection("127.0.0.1", port, "c", PATIENCE_S, security)
        assert connection.call(HeartbeatRequest("g", 1, "m")).throttle_time_ms == 7
        assert len(connection.call(MetadataRequest()).topics) == 20_000
        assert connection.call(HeartbeatRequest("g", 1, "m")).throttle_time_ms == 8
        connection.close()
    assert seen == [
        b"\0\x11\0\1\0\0\0\0\0\1c\0\5PLAIN",
        b"\0\x24\0\0\0\0\0\0\0\1c\0\0\0\x10\0ann\0open sesame",
    ]


def once(*answers: bytes) -> Serve:
    """Gives these answers, and hangs up."""

    def serve(client: socket.socket) -> None:
        for answer in answers:
            read_frame(client)
            say(client, answer)

    return serve


def too_much(client: socket.socket) -> None:
    """Tells of an answer of two gigabytes."""
    read_frame(client)
    client.sendall(b"\x7f\xff\xff\xff")


@pytest.mark.parametrize(
    ("serve", "message"),
    [
        (once(TAKEN, REFUSED), "the login of ann is refused: who"),
        (once(UNKNOWN), "it takes no login with PLAIN"),
        (once(TAKEN, b"\0"), "its answer to the login cannot be read"),
        (once(b"no"), "its answer to the login cannot be read"),
        (once(TAKEN), "the peer closed the connection at the login"),
        (too_much, "its answer to the login cannot be read"),
    ],
)
def test_who_is_not_let_in_is_told_why(serve: Serve, message: str) -> None:
    """The connection is closed, on a socket as on an event loop."""
    with peer(serve) as port, pytest.raises(PeerError) as refused:
        Connection("127.0.0.1", port, "c", PATIENCE_S, ANN)
    assert str(refused.value) == f"127.0.0.1:{port}: {message}"
    with peer(serve) as port, pytest.raises(PeerError) as refused:
        asyncio.run(Link.open("127.0.0.1", port, "c", PATIENCE_S, ANN))
    assert str(refused.value) == f"127.0.0.1:{port}: {message}"


@pytest.mark.parametrize("security", [ANN, ANN._replace(tls=None), Security(TRUSTING)])
def test_an_event_loop_goes_on_behind_a_login(security: Security) -> None:
    """With TLS, a login, or both."""

    def serve(client: socket.socket) -> None:
        if security.user:
            once(TAKEN, WELCOME)(client)
        keys = tuple(ApiVersion(api.key, api.oldest, api.newest) for api in APIS.values())
        for message in (ApiVersionsResponse(api_keys=keys), HeartbeatResponse(throttle_time_ms=7)):
            header, _ = decode_request(read_frame(client))
            say(client, encode_response(message, header.api_version, header.correlation_id))

    async def work(port: int) -> int:
        link = await Link.open("127.0.0.1", port, "c", PATIENCE_S, security)
        answer = await link.call(HeartbeatRequest("g", 1, "m"), PATIENCE_S)
        link.close()
        return int(answer.throttle_time_ms)

    with peer(serve, tls=security.tls is not None) as port:
        assert asyncio.run(work(port)) == 7


def test_a_certificate_of_somebody_else_is_not_trusted() -> None:
    """One that signed itself, for example."""
    stranger = Security(ssl.create_default_context())
    with peer(once()) as port, pytest.raises(PeerError, match=r"TLS fails: self.signed certificate"):
        Connection("127.0.0.1", port, "c", PATIENCE_S, stranger)


@pytest.mark.parametrize(
    ("answer", "reason"), [(b"HTTP/1.1 400\r\n\r\n", "wrong version number"), (b"", "it closed|.* eof .*")]
)
def test_a_peer_without_tls_is_told(answer: bytes, reason: str) -> None:
    """By its first bytes, or because it hangs up; the remedy is to leave TLS out, not to start a broker."""

    def serve(client: socket.socket) -> None:
        client.recv(1)
        client.sendall(answer)

    def link(port: int) -> None:
        asyncio.run(Link.open("127.0.0.1", port, "c", PATIENCE_S, ANN))

    for connect in (lambda port: Connection("127.0.0.1", port, "c", PATIENCE_S, ANN), link):
        with peer(serve, tls=False) as port, pytest.raises(PeerError, match=f": TLS fails: ({reason})") as refused:
            connect(port)
        assert suggest_remedy(refused.value).startswith("leave --tls out if it speaks plain text")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--user", "ann"), "--user: --user and --password-file go together"),
        (("--password-file", "secret"), "--password-file: --user and --password-file go together"),
        (("--user", "ann", "--password-file", "gone"), "gone: cannot be read: No such file"),
        (("--cafile", "secret"), "--cafile: needs --tls"),
        (("--tls", "--cafile", "secret"), "secret: holds no certificates"),
        (("--tls", "--cafile", "gone"), "gone: cannot be read: No such file"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    """Before anybody is asked."""
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text("open sesame\n")
    for command in ("audit secret -o out --lag-from 127.0.0.1:1", "conform --broker 127.0.0.1:1"):
        assert main([*command.split(), *options]) == 2
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        assert printed.startswith(f"fsm: {message}")


def test_an_audit_that_asks_nobody_takes_no_login(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be of no use."""
    assert main(["audit", str(tmp_path), "-o", str(tmp_path / "out"), "--tls"]) == 2
    assert capsys.readouterr().err == "fsm: --tls: is for --lag-from, and for topics that are followed\n"


# -- Apache Kafka --------------------------------------------------------------------------------------------


SECURED = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    'required username="ann" password="open sesame" user_ann="open sesame";',
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": str(CERTIFICATE),
    "ssl.truststore.type": "PEM",
}


@pytest.mark.kafka
def test_a_real_broker_lets_in_who_knows_the_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind SASL_SSL the lag is told and a walk is walked; whoever is not let in is told so."""
    authority = tmp_path / "authority.pem"
    _, end, certificate = CERTIFICATE.read_text().partition("-----END PRIVATE KEY-----\n")
    assert end
    authority.write_text(certificate)
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    settings = {**kafka_broker.TIME, **SECURED, "ssl.truststore.location": str(authority)}
    with kafka_broker.broker(tmp_path, settings) as (host, port):
        let_in = ("--tls", "--cafile", str(authority), "--user", "ann", "--password-file", str(secret))
        place = f"{host}:{port}"
        assert main(["conform", "--broker", place, "--steps", "20", "--family", "classic", *let_in]) == 0
        assert "20 steps" in capsys.readouterr().out
        client = Connection(host, port, "c", PATIENCE_S, ANN)
        while client.call(FindCoordinatorRequest(key="g", coordinator_keys=("g",))).coordinators[0].error_code:
            pass
        offsets = (OffsetCommitRequestPartition(0, 0),)
        response = client.call(OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("foo", partitions=offsets),)))
        assert not response.errors
        client.close()
        lag = read_broker_lag(host, port, ["g"], security=ANN)
        assert list(lag["g"]) == [("foo", 0)]
        with pytest.raises(InputError, match=r"the login of ann is refused: .*; say --tls where it speaks TLS"):
            read_broker_lag(host, port, ["g"], security=Security(TRUSTING, "ann", "sesame"))
        with MessageConsumer(place, ConsumerConfig("members"), security=ANN) as consumer:
            consumer.subscribe(["foo"])
            wait_until(consumer.assignment, each=lambda: consumer.poll(50))
        with pytest.raises(InputError, match="TLS fails"):
            read_broker_lag(host, port, ["g"], security=Security(ssl.create_default_context()))
        with pytest.raises(InputError, match="TLS"):
            read_broker_lag(host, port, ["g"])
