"""What tests of joined members share: listeners that write down their calls, producers, peers that are no brokers."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

import pyarrow
from patience import PATIENCE_S

from fsm.join import Address, Network
from fsm.join.network import Purpose
from fsm.member import ConsumerRebalanceListener
from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import PartitionProduceData, ProduceRequest, TopicProduceData
from fsm.protocol.record_batches import (
    AFTER_CRC,
    BEFORE_CRC,
    BEFORE_LENGTH,
    CODECS,
    HEAD,
    OPAQUE,
    Batch,
    LogRecord,
    crc32c,
    write_batch,
)
from fsm.testing import LiveBroker

LIMIT_S = PATIENCE_S


class Noted(ConsumerRebalanceListener):
    """Writes down its calls."""

    def __init__(self) -> None:
        self.called: list[tuple[str, Partitions]] = []

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.called.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.called.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self.called.append(("lost", partitions))


def batch_of_values(values: Iterable[bytes], codec: int = 0) -> bytes:
    """A batch as a producer sends it; of a codec beyond those that Kafka has only the head is right."""
    records = tuple(LogRecord(i, 1_000 + i, None, value) for i, value in enumerate(values))
    plain = write_batch(
        Batch(0, records, base_timestamp_ms=1_000, max_timestamp_ms=1_000, last_offset_delta=len(records) - 1)
    )
    if not codec:
        return plain
    return repack(plain, codec, compress(plain[HEAD.size :], codec))


def compress(data: bytes, codec: int) -> bytes:
    """What a producer makes of its records."""
    if codec == 1:
        return gzip.compress(data)
    packed: bytes = pyarrow.compress(data, CODECS[codec], asbytes=True) if codec in OPAQUE else b"whatever it is"
    return packed


def repack(plain: bytes, codec: int, body: bytes) -> bytes:
    """The batch with other records, compressed or not."""
    raw = bytearray(plain[: HEAD.size] + body)
    raw[8:BEFORE_LENGTH] = (len(raw) - BEFORE_LENGTH).to_bytes(4, "big")
    raw[AFTER_CRC : AFTER_CRC + 2] = codec.to_bytes(2, "big")
    raw[BEFORE_CRC:AFTER_CRC] = crc32c(bytes(raw[AFTER_CRC:])).to_bytes(4, "big")
    return bytes(raw)


def produce(broker: LiveBroker, partition: int, *values: bytes, codec: int = 0, topic: str = "foo") -> None:
    """Appends these values to the topic."""

    async def send() -> None:
        network = Network([Address("127.0.0.1", broker.port)], "producer")
        await network.learn([topic])
        data = PartitionProduceData(partition, batch_of_values(values, codec))
        request = ProduceRequest(topic_data=(TopicProduceData(topic, network.ids[topic], (data,)),))
        answer = await network.call(Purpose.FETCHES, network.leaders[topic, partition], request)
        assert not answer.responses[0].partition_responses[0].error_code
        await network.close()

    asyncio.run(send())


class Stranger:
    """Somebody on loopback who deals with each connection in one way, until it is closed."""

    def __init__(self, serve: Callable[[socket.socket], Any]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._serve = serve
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Who still waits for a client when its socket is closed may come to wait at that of the next stranger.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(LIMIT_S)
        self._listening.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._deal, args=(client,), daemon=True).start()

    def _deal(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(LIMIT_S)
            self._serve(client)


def read_request(client: socket.socket) -> bytes:
    """The next frame of a client, without its length."""
    return read_bytes(client, int.from_bytes(read_bytes(client, 4), "big"))


def read_bytes(client: socket.socket, count: int) -> bytes:
    """So many bytes; fewer where the client hangs up."""
    found = b""
    while len(found) < count and (more := client.recv(count - len(found))):
        found += more
    return found
