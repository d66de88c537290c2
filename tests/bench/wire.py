"""Heartbeats a second of `fsm serve`, of a real Apache Kafka and of librdkafka's mock cluster, under the same load.

    python tests/bench/wire.py [--only PEER...] [--shapes MEMBERS/GROUPS...] [--seconds S]

The load comes from this process: raw sockets, each with some heartbeats under way, each for another member; a single
member has as many under way, on its one socket, whoever answers: it is peers that are measured, not this process.
Members join and settle first; what is measured are heartbeats with no news. Half of what a peer can do is then sent at
even distances, and each answer's time is taken from when its heartbeat should have been sent. Kafka needs java and mvn.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from measure import family, memory_mb

from fsm.protocol.codec import decode_response, encode_request
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    CreatableTopic,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from fsm.wire.connection import Connection

TOPIC, PARTITIONS = "foo", 100
CONNECTIONS, DEPTH = 16, 4
"""Sockets, and heartbeats under way on each."""
SHAPES = ("1/1", "1000/1", "1000/300", "10000/1", "10000/300")
SETTLING_S = 90.0
BETWEEN_ROUNDS_S = 1.1
"""A new target comes a second after the last one at the earliest."""
VERSION = 1
NO_NEWS = slice(9, 11)
"""Where the error stands in an answer: behind correlation id, tags and throttle time."""
NOT_READY = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


@dataclass(slots=True)
class Peer:
    """A broker under load."""

    host: str
    port: int
    pid: int


@contextmanager
def serve() -> Iterator[Peer]:
    """Ours."""
    command = [sys.executable, "-m", "fsm", "serve", "--topics", f"{TOPIC}={PARTITIONS}", "--records", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        try:
            yield Peer("127.0.0.1", port, process.pid)
        finally:
            process.terminate()


@contextmanager
def kafka() -> Iterator[Peer]:
    """A real one."""
    sys.path.append(str(Path(__file__).parents[1] / "conformance"))
    broker = import_module("kafka_broker").broker
    before = {one.pid for one in family(_own_pid())}
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder), {}) as (host, port):
        pid = next(one.pid for one in family(_own_pid()) if one.pid not in before and one.program == "java")
        connection = Connection(host, port, "bench", timeout_s=60)
        connection.call(CreateTopicsRequest((CreatableTopic(TOPIC, PARTITIONS, 1),)))
        connection.close()
        yield Peer(host, port, pid)


@contextmanager
def mock() -> Iterator[Peer]:
    """librdkafka's."""
    command = [sys.executable, str(Path(__file__).with_name("mock_cluster.py")), TOPIC, str(PARTITIONS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().rpartition(":")
        try:
            yield Peer(host, int(port), process.pid)
        finally:
            process.kill()


PEERS = {"serve": serve, "kafka": kafka, "mock": mock}


def _own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


class Load:
    """Members of groups, their heartbeats over a few sockets."""

    def __init__(self, peer: Peer, members: int, groups: int) -> None:
        self.members, self.groups = members, groups
        self.epochs = [0] * members
        self.frames = [self._frame(number, 0, joins=True) for number in range(members)]
        self.changed = 0
        self.wires = [_Wire(peer) for _ in range(min(CONNECTIONS, members))]
        self.selector = selectors.DefaultSelector()
        for wire in self.wires:
            self.selector.register(wire.socket, selectors.EVENT_READ, wire)
        self._next = 0

    def _frame(self, number: int, epoch: int, owned: object = None, *, joins: bool = False) -> bytes:
        fields = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": (TOPIC,), "subscribed_topic_regex": ""}
        request = ConsumerGroupHeartbeatRequest(
            f"bench-{self.members}-{self.groups}-{number % self.groups}",
            f"member-{self.members}-{self.groups}-{number}",
            epoch,
            topic_partitions=() if joins else owned,  # type: ignore[arg-type]
            **(fields if joins else {}),  # type: ignore[arg-type]
        )
        frame = encode_request(request, VERSION, number, "bench")
        return len(frame).to_bytes(4, "big") + frame

    def settle(self) -> None:
        """Everybody joins and comes to rest. Raises `TimeoutError`."""
        until = time.monotonic() + SETTLING_S
        quiet = 0
        while quiet < 2:
            self.changed = 0
            begun = time.monotonic()
            self._round()
            quiet = 0 if self.changed else quiet + 1
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(max(0.0, begun + BETWEEN_ROUNDS_S - time.monotonic()))

    def _round(self) -> None:
        """A heartbeat of each member."""
        self._next = left = 0
        for wire in self.wires:
            for _ in range(DEPTH):
                left += self._send_next(wire)
        while left:
            for key, _ in self.selector.select(10):
                for number, frame in key.data.receive():
                    self._learn(number, frame)
                    left += self._send_next(key.data) - 1

    def _send_next(self, wire: _Wire) -> int:
        if self._next >= self.members:
            return 0
        wire.send([self._next], self.frames)
        self._next += 1
        return 1

    def _learn(self, number: int, frame: bytes) -> None:
        """What a member is told, and its next heartbeat."""
        answer = decode_response(ConsumerGroupHeartbeatResponse, frame, VERSION)[1]
        if answer.error_code in NOT_READY:
            self.changed += 1
            return
        assert answer.error_code is ErrorCode.NONE, answer
        if answer.member_epoch != self.epochs[number] or answer.assignment is not None or not answer.member_epoch:
            self.changed += 1
            self.epochs[number] = answer.member_epoch
            # The mock leaves who joins at epoch 0 until it can have all of its partitions.
            self.frames[number] = self._frame(
                number, answer.member_epoch, answer.assignment, joins=not answer.member_epoch
            )
        else:
            self.frames[number] = self._frame(number, answer.member_epoch)

    def most(self, seconds: float) -> float:
        """Answers a second, with as many heartbeats under way as there may be."""
        turn = self._turns()
        for wire in self.wires:
            wire.send([next(turn) for _ in range(DEPTH)], self.frames)
        self._count(seconds / 4, turn)
        begun = time.monotonic()
        found = self._count(seconds, turn)
        rate = found / (time.monotonic() - begun)
        self._drain()
        return rate

    def _count(self, seconds: float, turn: Iterator[int]) -> int:
        found = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for key, _ in self.selector.select(1):
                frames = key.data.receive()
                found += len(frames)
                key.data.send([next(turn) for _ in frames], self.frames)
                _assert_no_error(frames)
        return found

    def delays_ms(self, rate: float, seconds: float) -> list[float]:
        """Milliseconds from when each heartbeat should have been sent to its answer, at so many a second; sorted."""
        turn = self._turns()
        found: list[float] = []
        begun = time.perf_counter()
        sent = 0
        total = int(rate * seconds)
        due: dict[_Wire, deque[float]] = {wire: deque() for wire in self.wires}
        while len(found) < total:
            now = time.perf_counter()
            while sent < total and begun + sent / rate <= now:
                wire = self.wires[sent % len(self.wires)]
                wire.send([next(turn)], self.frames)
                due[wire].append(begun + sent / rate)
                sent += 1
            wait_s = begun + sent / rate - time.perf_counter() if sent < total else 1.0
            for key, _ in self.selector.select(max(wait_s, 0)):
                frames = key.data.receive()
                now = time.perf_counter()
                found += [(now - due[key.data].popleft()) * 1000 for _ in frames]
                _assert_no_error(frames)
        return sorted(found)

    def _turns(self) -> Iterator[int]:
        while True:
            yield from range(self.members)

    def _drain(self) -> None:
        while any(wire.waiting for wire in self.wires):
            for key, _ in self.selector.select(1):
                key.data.receive()

    def close(self) -> None:
        """Ends the connections; the members stay behind."""
        for wire in self.wires:
            wire.socket.close()


def _assert_no_error(frames: list[tuple[int, bytes]]) -> None:
    assert all(frame[NO_NEWS] == b"\0\0" for _, frame in frames), frames


class _Wire:
    """A socket, and whose heartbeats are under way on it."""

    def __init__(self, peer: Peer) -> None:
        self.socket = socket.create_connection((peer.host, peer.port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting: deque[int] = deque()
        self._bytes = b""

    def send(self, numbers: list[int], frames: list[bytes]) -> None:
        self.waiting += numbers
        self.socket.sendall(b"".join(frames[number] for number in numbers))

    def receive(self) -> list[tuple[int, bytes]]:
        """Answers that are there, each with its member."""
        more = self.socket.recv(65_536)
        assert more, "the peer has closed a connection"
        data, at, found = self._bytes + more, 0, []
        while len(data) - at >= 4 and len(data) >= (end := at + 4 + int.from_bytes(data[at : at + 4], "big")):
            found.append((self.waiting.popleft(), data[at + 4 : end]))
            at = end
        self._bytes = data[at:]
        return found


def wait_for_groups(peer: Peer) -> None:
    """Returns when the peer coordinates groups: a real broker makes a topic for that first."""
    connection = Connection(peer.host, peer.port, "bench", timeout_s=60)
    for _ in range(100):
        connection.send(FindCoordinatorRequest(key="bench"), version=2)
        arrived = connection.receive(60)
        assert arrived is not None
        found = arrived.response
        assert isinstance(found, FindCoordinatorResponse)
        if found.error_code is ErrorCode.NONE:
            connection.close()
            return
        time.sleep(0.2)
    raise AssertionError(found)


def cpu_s(pid: int) -> float:
    """CPU seconds of the peer and what it started."""
    return sum(one.cpu_seconds for one in family(pid))


def measure(peer: Peer, shape: str, seconds: float) -> str:
    """One line of the table."""
    members, groups = map(int, shape.split("/"))
    load = Load(peer, members, groups)
    try:
        load.settle()
        before, begun = cpu_s(peer.pid), time.monotonic()
        rate = load.most(seconds)
        used = (cpu_s(peer.pid) - before) / (time.monotonic() - begun)
        delays = load.delays_ms(rate / 2, seconds)
        p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
        each_us = used / rate * 1e6
        return f"{rate:>12,.0f} {used:>9.2f} {each_us:>8.0f} {p50:>8.2f} {p99:>8.2f} {memory_mb(peer.pid):>6.0f}"
    except (TimeoutError, AssertionError, OSError) as problem:
        return f" does not come to rest: {problem!r:.80}"
    finally:
        load.close()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=[*PEERS])
    parser.add_argument("--shapes", nargs="+", metavar="MEMBERS/GROUPS", default=SHAPES)
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    print(f"{'peer':<8}{'members/groups':>15} {'heartbeats/s':>12} {'CPU used':>9} {'us each':>8}", end=" ")
    print(f"{'p50 ms':>8} {'p99 ms':>8} {'MB':>6}")
    for name in chosen.only:
        for shape in chosen.shapes:
            with PEERS[name]() as peer:
                wait_for_groups(peer)
                print(f"{name:<8}{shape:>15} {measure(peer, shape, chosen.seconds)}", flush=True)


if __name__ == "__main__":
    main()
