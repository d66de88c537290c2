"""The proxy on real sockets: clients stay behind it, nobody stalls another, whoever goes takes only its peer along."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S

from fsm.capture import run as running
from fsm.capture.proxy import Proxy, Streams
from fsm.capture.run import probe
from fsm.errors import InputError
from fsm.protocol.codec import API_BY_KEY, decode_request, decode_response, encode_request, encode_response
from fsm.protocol.messages import (
    APIS,
    ApiVersion,
    ApiVersionsResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    PartitionData,
)
from fsm.wire.exchange import Exchange, Note

CERTIFICATE = Path(__file__).parent / "loopback.pem"
"""Of 127.0.0.1, signed by itself, with its key."""
BEAT = HeartbeatRequest("g", 1, "m")
Answer = Callable[[Any], Any]


class Broker:
    """A broker on loopback that answers by a function; None is no answer, and the connection stays."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer, self.tls = answer, tls
        self.asked: list[Any] = []
        self.sent = self.open = 0

    async def start(self) -> int:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.tls)
        self.port: int = server.sockets[0].getsockname()[1]
        return self.port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while True:
                header, request = decode_request(await read_frame(reader))
                self.asked.append(request)
                if (answer := self.answer(request)) is not None:
                    frame = encode_response(answer, header.api_version, header.correlation_id)
                    writer.write(framed(frame))
                    await writer.drain()
                    self.sent += len(frame)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


class Client:
    """Somebody who asks, one request at a time."""

    def __init__(self, streams: Streams) -> None:
        self.reader, self.writer = streams
        self.asked = 0

    async def send(self, request: Any, version: int) -> None:
        self.asked += 1
        self.writer.write(framed(encode_request(request, version, self.asked, "A")))
        await self.writer.drain()

    async def ask(self, request: Any, version: int) -> Any:
        await self.send(request, version)
        response = API_BY_KEY[_key(request)].response
        return decode_response(response, await asyncio.wait_for(read_frame(self.reader), PATIENCE_S), version)[1]


def _key(request: Any) -> int:
    return APIS[type(request).__name__.removesuffix("Request")].key


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for what has to come."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.01)


def beats(request: Any) -> Any:
    return HeartbeatResponse() if isinstance(request, HeartbeatRequest) else None


def carried(story: Callable[[Proxy, list[Exchange | Note]], Awaitable[None]], **fields: Any) -> list[Exchange | Note]:
    """What a proxy saw of a story."""
    seen: list[Exchange | Note] = []

    async def send() -> None:
        proxy = Proxy(seen.append, **fields)
        try:
            await asyncio.wait_for(story(proxy, seen), 4 * PATIENCE_S)
        finally:
            await proxy.close()

    asyncio.run(send())
    return seen


async def client_at(port: int) -> Client:
    return Client(await asyncio.open_connection("127.0.0.1", port))


def events(seen: list[Exchange | Note]) -> list[str]:
    return [one.event if isinstance(one, Note) else one.api for one in seen]


def test_clients_find_every_broker_behind_the_proxy() -> None:
    """A broker that metadata names has a listener of its own, whoever asks and how often; exchanges say which it is."""

    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        second = Broker(beats)
        there = await second.start()
        brokers = (MetadataResponseBroker(5, "127.0.0.1", there),)
        first = Broker(lambda _: MetadataResponse(brokers=brokers))
        port = proxy.listen("127.0.0.1", await first.start())
        asking = await client_at(port)
        places = {(await asking.ask(MetadataRequest(), 12)).brokers[0] for _ in range(3)}
        (place,) = places
        assert (place.host, place.port in (port, there)) == ("127.0.0.1", False)
        assert await (await client_at(place.port)).ask(BEAT, 4) == HeartbeatResponse()
        assert (len(first.asked), second.asked) == (3, [BEAT])

    seen = carried(story)
    assert [(one.api, one.broker) for one in seen if isinstance(one, Exchange)] == [
        ("Metadata", 0),
        ("Metadata", 0),
        ("Metadata", 0),
        ("Heartbeat", 5),
    ]


def test_a_reader_that_is_slow_stalls_nobody_else_and_holds_its_broker_back() -> None:
    """Nothing is read from a broker for a client that does not take it."""
    data = PartitionData(0, records=bytes(1 << 20))
    much = FetchResponse(responses=(FetchableTopicResponse("foo", partitions=(data,)),))

    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        broker = Broker(lambda request: beats(request) or much)
        port = proxy.listen("127.0.0.1", await broker.start())
        slow, quick = await client_at(port), await client_at(port)
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket
        for _ in range(200):
            await slow.send(FetchRequest(), 12)
        for _ in range(50):
            assert await quick.ask(BEAT, 4) == HeartbeatResponse()
            await asyncio.sleep(0.01)
        assert 1 << 20 < broker.sent < 100 << 20
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(200):
            assert len(await asyncio.wait_for(read_frame(slow.reader), PATIENCE_S)) > 1 << 20

    seen = carried(story)
    assert events(seen).count("Fetch") == 200


def test_a_broker_that_is_slow_holds_its_client_back_and_nobody_else() -> None:
    """Nothing is read from a client for a broker that does not take it."""

    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        async def sleep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket
            await until(lambda: woken)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            while data := await reader.read(1 << 16):
                taken.append(len(data))
            writer.close()

        woken: list[bool] = []
        taken: list[int] = []
        asleep = await asyncio.start_server(sleep, "127.0.0.1", 0)
        slow = await client_at(proxy.listen("127.0.0.1", asleep.sockets[0].getsockname()[1]))
        quick = await client_at(proxy.listen("127.0.0.1", await Broker(beats).start()))
        frame = framed(encode_request(BEAT, 4, 1, "A" * 30_000))
        sending = asyncio.ensure_future(_send(slow, [frame] * 4_000))
        for _ in range(50):
            assert await quick.ask(BEAT, 4) == HeartbeatResponse()
            await asyncio.sleep(0.01)
        assert not sending.done()
        woken.append(True)
        await asyncio.wait_for(sending, PATIENCE_S)
        await until(lambda: sum(taken) == len(frame) * 4_000)

    async def _send(client: Client, frames: list[bytes]) -> None:
        for frame in frames:
            client.writer.write(frame)
            await client.writer.drain()

    carried(story)


def test_when_a_broker_goes_its_client_is_told_and_when_a_client_goes_its_broker_is() -> None:
    async def story(proxy: Proxy, seen: list[Exchange | Note]) -> None:
        broker = Broker(beats)
        port = proxy.listen("127.0.0.1", await broker.start())
        one, other = await client_at(port), await client_at(port)
        await one.ask(BEAT, 4)
        await other.ask(BEAT, 4)
        one.writer.close()
        await until(lambda: broker.open == 1)
        await other.send(MetadataRequest(), 12)
        broker.answer = _go
        await other.send(MetadataRequest(), 12)
        assert await asyncio.wait_for(other.reader.read(), PATIENCE_S) == b""
        await until(lambda: events(seen).count("disconnected") == 2)

    def _go(_: Any) -> Any:
        raise OSError

    seen = carried(story)
    assert [one.is_answered for one in seen if isinstance(one, Exchange)] == [True, True, False, False]


def test_the_last_answer_is_known_though_the_client_did_not_wait_for_it() -> None:
    """As of a member that leaves and goes at once."""

    async def story(proxy: Proxy, seen: list[Exchange | Note]) -> None:
        port = proxy.listen("127.0.0.1", await Broker(beats).start())
        client = await client_at(port)
        await client.send(BEAT, 4)
        client.writer.write_eof()
        await until(lambda: "disconnected" in events(seen))

    seen = carried(story)
    assert [one.is_answered for one in seen if isinstance(one, Exchange)] == [True]


@pytest.mark.parametrize("nonsense", [b"\xff\xff\xff\xff", b"\0\0\0\1A", b"\0\0\0\x0b\0\x0c\0\4\0\0\0\1\0\x40A"])
def test_a_broken_frame_ends_its_own_connection_only(nonsense: bytes) -> None:
    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        broker = Broker(beats)
        port = proxy.listen("127.0.0.1", await broker.start())
        good, bad = await client_at(port), await client_at(port)
        await good.ask(BEAT, 4)
        bad.writer.write(nonsense)
        assert await asyncio.wait_for(bad.reader.read(), PATIENCE_S) == b""
        await until(lambda: broker.open == 1)
        await good.ask(BEAT, 4)

    assert Counter(events(carried(story))) == {"Heartbeat": 2, "broken": 1, "connected": 2, "disconnected": 2}


def test_a_broker_that_cannot_be_reached_ends_the_connection() -> None:
    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        nobody = server.sockets[0].getsockname()[1]
        server.close()
        client = await client_at(proxy.listen("127.0.0.1", nobody))
        assert await asyncio.wait_for(client.reader.read(), PATIENCE_S) == b""

    assert events(carried(story)) == ["connected", "unreachable", "disconnected"]


def _tls(purpose: ssl.Purpose) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=str(CERTIFICATE))
    if purpose is ssl.Purpose.CLIENT_AUTH:
        context.load_cert_chain(CERTIFICATE)
    return context


def test_tls_to_the_broker_and_plain_text_to_the_client() -> None:
    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        broker = Broker(beats, _tls(ssl.Purpose.CLIENT_AUTH))
        port = proxy.listen("127.0.0.1", await broker.start())
        assert await (await client_at(port)).ask(BEAT, 4) == HeartbeatResponse()
        stranger = await client_at(port)
        stranger.writer.write(b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3")
        assert await asyncio.wait_for(stranger.reader.read(), PATIENCE_S) == b""

    seen = carried(story, tls=_tls(ssl.Purpose.SERVER_AUTH))
    assert [events(seen).count(one) for one in ("Heartbeat", "opaque", "broken")] == [1, 1, 1]


def test_tls_passes_untouched_where_it_is_asked_for() -> None:
    """The client checks the broker's own certificate; of what they say nothing is seen."""

    async def story(proxy: Proxy, _: list[Exchange | Note]) -> None:
        port = proxy.listen("127.0.0.1", await Broker(beats, _tls(ssl.Purpose.CLIENT_AUTH)).start())
        streams = await asyncio.open_connection("127.0.0.1", port, ssl=_tls(ssl.Purpose.SERVER_AUTH))
        assert await Client(streams).ask(BEAT, 4) == HeartbeatResponse()

    assert events(carried(story, passes_tls=True)) == ["connected", "opaque", "disconnected"]


async def _speak(words: bytes, tls: ssl.SSLContext | None = None) -> int:
    """Somebody who says this to whoever comes, and no more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(words)
        if words != SILENT:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port: int = server.sockets[0].getsockname()[1]
    return port


SILENT = b"\0\0\0"
OWN = ApiVersionsResponse(api_keys=(ApiVersion(18, 0, 3),))


@pytest.mark.parametrize(
    ("data", "speaks_tls", "wants_tls", "refusal"),
    [
        (framed(encode_response(OWN, 0, 1)), False, False, ""),
        (framed(encode_response(OWN, 0, 1)), True, True, ""),
        (framed(encode_response(OWN, 0, 1)), True, False, "say --tls"),
        (b"", False, False, "closed the connection"),
        (b"", False, True, "leave --tls out"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, False, "speaks HTTP"),
        (b"\x15\x03\x01\0\2\2\x46", False, False, "speaks TLS"),
        (b"\0\0\0\6\0\0\0\1\0\x23", False, False, "is not a Kafka broker"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False, False, "is not a Kafka broker: a frame of"),
        (SILENT, False, False, "no answer within"),
    ],
)
def test_who_is_no_broker_is_told_from_one(
    data: bytes, speaks_tls: bool, wants_tls: bool, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ANSWERING_S", 0.5 if data == SILENT else PATIENCE_S)

    async def story() -> None:
        port = await _speak(data, _tls(ssl.Purpose.CLIENT_AUTH) if speaks_tls else None)
        await probe("127.0.0.1", port, _tls(ssl.Purpose.SERVER_AUTH) if wants_tls else None)

    if refusal:
        with pytest.raises(InputError, match=refusal):
            asyncio.run(story())
    else:
        asyncio.run(story())


def test_a_certificate_of_somebody_unknown_is_refused() -> None:
    async def story() -> None:
        await probe("127.0.0.1", await _speak(b"", _tls(ssl.Purpose.CLIENT_AUTH)), ssl.create_default_context())

    with pytest.raises(InputError, match="certificate is refused: self-signed certificate"):
        asyncio.run(story())
