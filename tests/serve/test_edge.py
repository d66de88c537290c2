"""Brokers on sockets, in this process: what connections may hold together, and for how long."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from live_broker import Wire, served
from patience import PATIENCE_S

from fsm.protocol import messages as m
from fsm.protocol.codec import encode_request
from fsm.protocol.record_batches import Batch, LogRecord, write_batch
from fsm.serve import client
from fsm.serve import edge as edges
from fsm.serve.brokers import Brokers
from fsm.serve.cluster import Served
from fsm.serve.edge import Edge, now_ms
from fsm.serve.effects import Append, Replace
from fsm.serve.store import Store

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MANY = 10_000


@asynccontextmanager
async def an_edge(store: Store | None = None, **fields: Any) -> AsyncIterator[Edge]:
    """Brokers that listen while the block runs."""
    kept = store.read() if store else None
    one = Edge(Brokers(Served({"foo": 4}), now_ms(), Random(1), kept=kept), store, **fields)  # noqa: S311
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


async def connect(edge: Edge) -> Streams:
    return await asyncio.open_connection(*edge.brokers.cluster.endpoints[1])


async def ask(streams: Streams, request: Any, version: int) -> bytes:
    frame = encode_request(request, version, 1, "A")
    streams[1].write(len(frame).to_bytes(4, "big") + frame)
    size = int.from_bytes(await asyncio.wait_for(streams[0].readexactly(4), PATIENCE_S), "big")
    return await streams[0].readexactly(size)


async def is_ended(streams: Streams) -> bool:
    try:
        return not await asyncio.wait_for(streams[0].read(), PATIENCE_S)
    except ConnectionError:
        return True


def in_a_loop(test: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=edges.event_loop) as runner:
        runner.run(test())


def test_connections_on_which_nothing_arrives_are_closed() -> None:
    """Those on which something does are not; where the machine stood still for so long, it is tried again."""
    idle_s = 1.0

    async def attempt() -> bool:
        async with an_edge(most_idle_s=idle_s) as edge:
            silent, half, busy = [await connect(edge) for _ in range(3)]
            half[1].write(b"\0\0\1\0half")
            ended = asyncio.gather(is_ended(silent), is_ended(half))
            asked = time.monotonic()
            while not ended.done():
                try:
                    assert await ask(busy, m.MetadataRequest(), 12)
                except (ConnectionError, asyncio.IncompleteReadError):
                    assert time.monotonic() - asked > idle_s / 2
                    return False
                asked = time.monotonic()
                await asyncio.sleep(idle_s / 10)
            assert ended.result() == [True, True]
            return True

    async def test() -> None:
        while not await attempt():
            pass

    in_a_loop(test)


def test_unfinished_frames_of_all_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_BUFFERED", 1 << 20)

    async def test() -> None:
        async with an_edge() as edge:
            small = await connect(edge)
            small[1].write(b"\0\0\x10\0" + bytes(4_000))
            large = [await connect(edge) for _ in range(6)]
            for one in large:
                one[1].write(b"\0\x20\0\0" + bytes(400_000))
                await one[1].drain()
            ended = [asyncio.ensure_future(is_ended(one)) for one in large]
            await become(lambda: sum(one.done() for one in ended) >= 4)
            assert edge.clients.buffered <= (1 << 20) + 400_000
            small[1].write(bytes(96))
            assert await is_ended(small)  # it was no request, and read to its end
            for waiting, one in zip(ended, large, strict=True):
                waiting.cancel()
                one[1].close()
            await become(lambda: edge.clients.buffered == 0)

    in_a_loop(test)


WAITS = m.FetchRequest(
    max_wait_ms=600_000, min_bytes=1, topics=(m.FetchTopic("foo", partitions=(m.FetchPartition(0),)),)
)


async def become(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0.02)


def test_a_frame_that_waits_for_another_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_BUFFERED", 1 << 20)
    first = encode_request(WAITS, 12, 1, "A")
    second = encode_request(
        m.MetadataRequest(tuple(m.MetadataRequestTopic(name="x" * 200) for _ in range(2_000))), 9, 2, "A"
    )

    async def test() -> None:
        async with an_edge() as edge:
            clients = []
            for _ in range(2):
                clients.append(await connect(edge))
                clients[-1][1].write(b"".join(len(one).to_bytes(4, "big") + one for one in (first, second)))
                await become(lambda: edge.clients.buffered == len(clients) * len(second))
            assert len(edge.clients.open) == 2
            clients.append(await connect(edge))
            clients[-1][1].write(b"".join(len(one).to_bytes(4, "big") + one for one in (first, second)))
            assert await is_ended(clients.pop())
            assert edge.clients.buffered == 2 * len(second)
            for one in clients:
                one[1].close()
            await become(lambda: not edge.clients.buffered)

    in_a_loop(test)


def test_a_client_that_goes_while_a_request_of_its_waits_is_noticed() -> None:
    async def test() -> None:
        async with an_edge() as edge:
            gone, stays = await connect(edge), await connect(edge)
            frame = encode_request(WAITS, 12, 1, "A")
            for one in (gone, stays):
                one[1].write((len(frame).to_bytes(4, "big") + frame) * 1_000)
            await become(lambda: len(edge.clients.paused) == 2)
            gone[1].close()
            await become(lambda: len(edge.clients.open) == 1)
            assert [*edge.clients.open] == [2]
            assert edge.clients.buffered == 999 * len(frame) + 998 * 4
            stays[1].close()
            await become(lambda: not edge.clients.open)
            assert not edge.clients.paused

    in_a_loop(test)


def test_who_sends_much_at_once_lets_others_have_their_turn() -> None:
    order: list[int] = []

    class Noted(Edge):
        def receive(self, client: client.Client, frame: bytes, now_ms: float) -> None:
            order.append(client.number)
            super().receive(client, frame, now_ms)

    async def test() -> None:
        edge = Noted(Brokers(Served({"foo": 4}), now_ms(), Random(1)))  # noqa: S311
        await edge.start()
        many, few = await connect(edge), await connect(edge)
        frame = encode_request(m.ApiVersionsRequest("x", "1"), 3, 1, "A")
        many[1].write((len(frame).to_bytes(4, "big") + frame) * 5_000)
        few[1].write(len(frame).to_bytes(4, "big") + frame)
        await become(lambda: len(order) == 5_001)
        assert order.index(2) < 4_000
        many[1].close()
        await edge.stop()

    in_a_loop(test)


def test_of_clients_that_do_not_read_the_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_FULL", 3)

    async def test() -> None:
        async with an_edge() as edge:
            records = write_batch(Batch.of((LogRecord(0, 1, None, bytes(1_000_000)),)))
            sent = m.TopicProduceData("foo", partition_data=(m.PartitionProduceData(0, records),))
            await ask(await connect(edge), m.ProduceRequest(topic_data=(sent,)), 9)
            wanted = m.FetchPartition(0, partition_max_bytes=1 << 20)
            asked = m.FetchRequest(max_wait_ms=0, topics=(m.FetchTopic("foo", partitions=(wanted,)),))
            frame = encode_request(asked, 12, 1, "full")
            data = (len(frame).to_bytes(4, "big") + frame) * 100
            clients = []
            for _ in range(5):
                loop = asyncio.get_running_loop()
                reader = asyncio.StreamReader(limit=1)
                transport, _ = await loop.create_connection(
                    lambda reader=reader: asyncio.StreamReaderProtocol(reader),  # type: ignore[misc]
                    *edge.brokers.cluster.endpoints[1],
                )
                transport.pause_reading()
                transport.write(data)
                clients.append(transport)
                newest = [*range(2, 2 + len(clients))][-3:]  # the first one has produced
                await become(lambda newest=newest: sorted(edge.clients.full) == newest)  # type: ignore[misc]
            await become(lambda: [one for one in edge.clients.open if one > 1] == newest)
            assert await ask(await connect(edge), m.MetadataRequest(), 12)
            for transport in clients:
                transport.abort()

    in_a_loop(test)


class Watched(Store):
    """Notes in which order things happen."""

    def __init__(self, folder: Path, seen: list[str]) -> None:
        super().__init__(folder)
        self.seen = seen

    def write(self, effect: Append | Replace) -> None:
        super().write(effect)
        self.seen.append("written")

    def sync(self) -> None:
        super().sync()
        self.seen.append("kept")


def test_nothing_is_sent_before_what_was_written_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    send = Edge._send

    def sends(self: Edge, unsent: Mapping[int, Sequence[bytes]]) -> None:
        seen.extend("sent" for parts in unsent.values() for _ in parts)
        send(self, unsent)

    monkeypatch.setattr(Edge, "_send", sends)

    async def test() -> None:
        store = Watched(tmp_path, seen)
        async with an_edge(store) as edge:
            clients = [await connect(edge) for _ in range(8)]
            place = m.OffsetCommitRequestPartition(0, 1)
            topics = (m.OffsetCommitRequestTopic("foo", partitions=(place,)),)
            for _ in range(20):
                await asyncio.gather(*(ask(one, m.OffsetCommitRequest("g", topics=topics), 9) for one in clients))
            for one in clients:
                one[1].close()
        store.close()

    in_a_loop(test)
    assert seen.count("sent") == 160
    is_kept = True
    for one in seen:
        assert one != "sent" or is_kept
        is_kept = one != "written" and (is_kept or one == "kept")


def more_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.mark.slow
def test_ten_thousand_connections_are_held_and_served() -> None:
    more_files()
    with served("--records", "0") as broker:
        wires = [broker.connect(f"client-{number}") for number in range(MANY)]
        for turn in range(3):
            for number, wire in enumerate(wires):
                wire.send(beat(number, 0 if turn == 0 else 1), 1)
            for number, wire in enumerate(wires):
                answer = wire.take(beat(number, 0), 1)
                assert answer.error_code in (0, 110), answer
        assert Wire(broker.port).ask(m.MetadataRequest()).topics
        status = Path(f"/proc/{broker.process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        assert resident < 300_000
        for wire in wires:
            wire.close()
        assert Wire(broker.port).ask(m.MetadataRequest()).topics


def beat(number: int, epoch: int) -> m.ConsumerGroupHeartbeatRequest:
    group, member = f"group-{number % 300}", f"member-{number}"
    if epoch:
        return m.ConsumerGroupHeartbeatRequest(group, member, epoch)
    return m.ConsumerGroupHeartbeatRequest(group, member, 0, None, None, 60_000, ("foo",), topic_partitions=())
