"""A connection on an event loop: calls wait for their own answers, and end with it when it breaks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from join_scene import LIMIT_S, Stranger, read_bytes, read_request

from fsm.errors import InputError
from fsm.join.network import Address, Link, Network
from fsm.join.transport import WireTransport, read_counts
from fsm.protocol.codec import decode_request, encode_response
from fsm.protocol.messages import (
    APIS,
    ApiVersion,
    ApiVersionsResponse,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
)
from fsm.testing import LiveBroker
from fsm.wire.dialogue import PeerError

BEAT = HeartbeatRequest("g", 1, "m")


def answer(client: socket.socket, frame: bytes, message: Any) -> None:
    """Answers a request in its version."""
    header, _ = decode_request(frame)
    response = encode_response(message, header.api_version, header.correlation_id)
    client.sendall(len(response).to_bytes(4, "big") + response)


def greeting(then: Callable[[socket.socket], Any], **newest: int) -> Stranger:
    """Somebody who greets as a broker, and then does something else."""

    def serve(client: socket.socket) -> None:
        keys = (ApiVersion(api.key, api.oldest, newest.get(name, api.newest)) for name, api in APIS.items())
        answer(client, read_request(client), ApiVersionsResponse(api_keys=tuple(keys)))
        then(client)

    return Stranger(serve)


def run(peer: Stranger, work: Callable[[Link], Any]) -> Any:
    async def live() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await work(await Link.open("127.0.0.1", peer.port, "c", LIMIT_S))

    return asyncio.run(live())


def test_calls_are_answered_in_order() -> None:
    """Several may be under way; each gets its own answer, however the bytes come."""

    def serve(client: socket.socket) -> None:
        frames = [read_request(client), read_request(client)]
        data = b""
        for frame, message in zip(frames, (HeartbeatResponse(throttle_time_ms=7), MetadataResponse()), strict=True):
            header, _ = decode_request(frame)
            one = encode_response(message, header.api_version, header.correlation_id)
            data += len(one).to_bytes(4, "big") + one
        for byte in data:
            client.sendall(bytes([byte]))
        read_request(client)

    async def work(link: Link) -> Any:
        return await asyncio.gather(link.call(BEAT, LIMIT_S), link.call(MetadataRequest(), LIMIT_S))

    with greeting(serve) as peer:
        assert run(peer, work) == [HeartbeatResponse(throttle_time_ms=7), MetadataResponse()]


def test_a_call_that_was_given_up_leaves_the_others_alone() -> None:
    """Its answer comes, and goes to nobody."""

    def serve(client: socket.socket) -> None:
        for throttle_ms in (1, 2):
            answer(client, read_request(client), HeartbeatResponse(throttle_time_ms=throttle_ms))
        read_request(client)

    async def work(link: Link) -> Any:
        given_up = asyncio.ensure_future(link.call(BEAT, LIMIT_S))
        await asyncio.sleep(0)
        given_up.cancel()
        return await link.call(BEAT, LIMIT_S)

    with greeting(serve) as peer:
        assert run(peer, work).throttle_time_ms == 2


def test_a_silent_broker_ends_the_connection_and_every_call() -> None:
    """Whoever waits behind the call that ran out of time is told at once."""

    async def work(link: Link) -> list[Any]:
        calls = link.call(BEAT, 0.1), link.call(MetadataRequest(), 10 * LIMIT_S)
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert link.is_closed
        with pytest.raises(PeerError, match="the connection is closed"):
            await link.call(BEAT, LIMIT_S)
        return found

    with greeting(lambda client: read_bytes(client, 1 << 16)) as peer:
        first, second = run(peer, work)
    assert isinstance(first, PeerError)
    assert str(first) == f"127.0.0.1:{peer.port}: no answer to Heartbeat within 0.1 s"
    assert isinstance(second, PeerError)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the peer closed the connection"),
        (b"\0\0\0\4\0\0\0\x63", "it answers request 99, not 2"),
        (b"\xff\xff\xff\xff", "a frame of 4294967295 bytes"),
        (b"\0\0\0\6\0\0\0\2\0\0", "no answer to Heartbeat"),
    ],
)
def test_what_is_no_answer_ends_the_connection(data: bytes, why: str) -> None:
    """The error names the peer and what it did."""

    def serve(client: socket.socket) -> None:
        read_request(client)
        client.sendall(data)

    async def work(link: Link) -> str:
        with pytest.raises(PeerError) as problem:
            await link.call(BEAT, LIMIT_S)
        assert link.is_closed
        return str(problem.value)

    with greeting(serve) as peer:
        assert why in run(peer, work)


def test_versions_are_the_newest_that_both_speak() -> None:
    """What the other side lacks is refused before it is sent."""

    async def work(link: Link) -> list[int]:
        with pytest.raises(InputError, match="it does not support the versions of Metadata that we do"):
            link.version(MetadataRequest)
        return [link.version(message) for message in (HeartbeatRequest, OffsetCommitRequest, FetchRequest)]

    with greeting(read_request, Heartbeat=2, Metadata=-1, Fetch=18) as peer:
        assert run(peer, work) == [2, 10, 18]


def test_any_broker_will_do(broker: LiveBroker) -> None:
    """One that cannot be reached is passed over; where none can be, the first problem is told."""

    async def work() -> None:
        async with asyncio.timeout(LIMIT_S):
            network = Network([Address("127.0.0.1", 1), Address("127.0.0.1", broker.port)], "c")
            metadata = await network.learn(["foo"])
            assert len(metadata.topics[0].partitions) == 4
            assert network.leaders["foo", 0] == ("127.0.0.1", broker.port)
            await network.close()
            nowhere = Network([Address("127.0.0.1", 1), Address("127.0.0.1", 2)], "c")
            with pytest.raises(PeerError, match=r"^127\.0\.0\.1:1: cannot connect"):
                await nowhere.learn(None)

    asyncio.run(work())


def test_whoever_needs_a_connection_waits_for_the_same_one() -> None:
    """A peer that says nothing is given up once, for all; one who stops waiting leaves it to the others."""

    async def work(port: int) -> None:
        network = Network([Address("127.0.0.1", port)], "c", request_timeout_s=0.2)
        calls = [asyncio.create_task(network.learn(None)) for _ in range(4)]
        await asyncio.sleep(0)
        calls.pop().cancel()
        for problem in await asyncio.gather(*calls, return_exceptions=True):
            assert str(problem) == f"127.0.0.1:{port}: no answer within 0.2 s"
        await network.close()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(work(silent.getsockname()[1]))
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_metadata_that_come_while_a_transport_closes_begin_nothing(broker: LiveBroker) -> None:
    """The answer is waited for, but nobody asks again."""

    async def close() -> list[str]:
        network = Network([Address("127.0.0.1", broker.port)], "c")
        transport = WireTransport(network, "g", asyncio.get_running_loop(), read_counts)
        answers: list[Any] = []
        transport.update_metadata(answers.append)
        await asyncio.sleep(0)  # it is asked for
        await transport.close()
        assert answers
        return [task.get_coro().__name__ for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert [name for name in asyncio.run(close()) if name == "_refresh"] == []
