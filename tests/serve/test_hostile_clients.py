"""Clients that mean harm, or are broken: none of them keeps others from being served."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from live_broker import Served, Wire, served
from patience import PATIENCE_S, wait_until

from fsm.protocol import messages as m
from fsm.protocol.codec import encode_request
from fsm.protocol.record_batches import Batch, LogRecord, write_batch
from fsm.serve.edge import CROWDED_AGAIN_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Served]:
    with served("--records", "0") as one:
        yield one


def assert_serves(broker: Served) -> None:
    """Another client is answered, though nobody else has gone."""
    other = broker.connect("other")
    assert other.ask(m.MetadataRequest()).topics
    other.close()


def test_a_client_that_opens_and_sends_nothing(broker: Served) -> None:
    silent = [broker.connect() for _ in range(100)]
    assert_serves(broker)
    for one in silent:
        one.close()


@pytest.mark.parametrize("begun", [b"\0", b"\0\0\1\0", b"\0\0\1\0\0\x12", b"\0\x3f\xff\xff" + b"\0" * 1000])
def test_a_client_that_sends_half_a_frame(broker: Served, begun: bytes) -> None:
    halves = [broker.connect() for _ in range(20)]
    for one in halves:
        one.socket.sendall(begun)
    assert_serves(broker)
    for one in halves:
        one.close()


@pytest.mark.parametrize("begun", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\x80\0\1", b"\0\x40\0\1\0\x12"])
def test_a_client_that_announces_too_much_is_disconnected(broker: Served, begun: bytes) -> None:
    client = broker.connect()
    client.socket.sendall(begun)
    assert client.is_closed
    assert_serves(broker)


def test_a_frame_byte_by_byte_is_answered(broker: Served) -> None:
    client = broker.connect()
    frame = encode_request(m.MetadataRequest(), 12, 1, "slow")
    for byte in len(frame).to_bytes(4, "big") + frame:
        client.socket.sendall(bytes([byte]))
    assert client.read()


def test_ten_thousand_requests_at_once_are_all_answered_in_order(broker: Served) -> None:
    client = broker.connect()
    frames = [encode_request(m.ApiVersionsRequest("x", "1"), 3, number, "many") for number in range(10_000)]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    client.socket.setblocking(False)
    found: list[bytes] = []
    received = bytearray()
    at, until = 0, time.monotonic() + PATIENCE_S
    while len(found) < len(frames):
        assert time.monotonic() < until
        try:
            at += client.socket.send(data[at : at + 65_536])
        except BlockingIOError:
            time.sleep(0.001)
        try:
            received += client.socket.recv(1 << 20)
        except BlockingIOError:
            continue
        while len(received) >= 4 and len(received) >= (end := 4 + int.from_bytes(received[:4], "big")):
            found.append(bytes(received[4:8]))
            del received[:end]
    assert found == [number.to_bytes(4, "big") for number in range(10_000)]


@pytest.fixture(scope="module")
def fetched(broker: Served) -> m.FetchRequest:
    """What is answered with a megabyte."""
    data = write_batch(Batch(0, (LogRecord(0, 1, None, bytes(1_000_000)),), 0, 0, -1, -1, -1, 0, 1, 1))
    sent = m.TopicProduceData("foo", partition_data=(m.PartitionProduceData(1, data),))
    produced = broker.connect().ask(m.ProduceRequest(topic_data=(sent,)), 9)
    assert produced.responses[0].partition_responses[0].base_offset == 0
    wanted = m.FetchPartition(1, partition_max_bytes=1 << 20)
    return m.FetchRequest(max_wait_ms=0, topics=(m.FetchTopic("foo", partitions=(wanted,)),))


def fill(client: Wire, request: m.FetchRequest) -> int:
    """Sends requests and reads no answer, until the broker reads no further; requests that were sent whole."""
    frame = encode_request(request, 12, 1, "full")
    data = (len(frame).to_bytes(4, "big") + frame) * 100
    client.socket.settimeout(0.3)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += client.socket.send(data[sent % len(data) :])
    except TimeoutError:
        return sent // (4 + len(frame))
    raise AssertionError("the broker reads on")


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def test_a_client_that_never_reads_is_read_no_further(broker: Served, fetched: m.FetchRequest) -> None:
    before = memory_mb(broker.process.pid)
    clients = [broker.connect() for _ in range(5)]
    for one in clients:
        fill(one, fetched)
    assert_serves(broker)
    assert memory_mb(broker.process.pid) - before < 50
    for one in clients:
        one.close()
    assert_serves(broker)


def test_a_client_that_reads_again_is_served_on(broker: Served, fetched: m.FetchRequest) -> None:
    client = broker.connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sent = fill(client, fetched)
    client.socket.settimeout(PATIENCE_S)
    for _ in range(min(sent, 200)):
        assert len(client.read()) > 1_000_000
    client.close()


def test_requests_behind_one_that_waits_are_read_no_further(broker: Served, fetched: m.FetchRequest) -> None:
    client = broker.connect()
    fill(client, replace(fetched, max_wait_ms=60_000, min_bytes=1 << 30))
    assert_serves(broker)
    client.close()


FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))"


@pytest.mark.deep
@pytest.mark.parametrize("without", [(), ("uvloop",)])
def test_connections_beyond_the_limit_of_open_files(without: tuple[str, ...]) -> None:
    with served(prepare=FEW_FILES, without=without) as broker:
        begun = time.monotonic()
        first = broker.connect()
        assert first.ask(m.MetadataRequest()).topics
        many = []
        for _ in range(300):
            try:
                many.append(socket.create_connection(("127.0.0.1", broker.port), 1))
            except OSError:
                break
        assert first.ask(m.MetadataRequest()).topics
        assert rests(broker.process.pid)
        for one in many:
            one.close()
        wait_until(lambda: serves_again(broker))
        broker.process.terminate()
        code, errors = broker.end()
        assert code == 0
        lines = errors.splitlines()
        assert 1 <= len(lines) <= 1 + (time.monotonic() - begun) / CROWDED_AGAIN_S, errors
        assert all("raise the limit of open files" in line for line in lines)


def serves_again(broker: Served) -> bool:
    try:
        assert_serves(broker)
    except OSError:
        return False
    return True


def rests(pid: int) -> bool:
    """Whether a process comes to rest: it spends nearly no CPU time within a second, at last."""
    for _ in range(20):
        before = cpu_s(pid)
        time.sleep(1.0)
        if cpu_s(pid) - before < 0.3:
            return True
    return False


def cpu_s(pid: int) -> float:
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
