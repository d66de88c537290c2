"""W26 on a real Kafka: a Connect worker that stood still for its session runs what another one was given.

Two workers have a connector with one task (`Ticks.java`), which prints as long as it runs. The process that runs it
stands still until the other one runs it, and goes on.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from kafka_broker import free_port, java, tools

LIMIT_S, EVERY_S, FEW = 90.0, 0.2, 3
REST_MS = 5_000
"""Longer than the two rounds after a return take."""
SETTINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
}


def confirm_frozen(address: tuple[str, int], group: str, folder: Path) -> tuple[bool, list[str]]:
    """Whether both run the task after the return, and in the end one does; and the observations."""
    source = str(Path(__file__).with_name("Ticks.java"))
    subprocess.run(["javac", "-cp", f"{tools()}/*", "-d", str(folder / "plugins" / "ticks"), source], check=True)
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(address, group, folder, name)) for name in "AB"]
        for one in workers:
            _wait_until(lambda one=one: one.ask("GET") == 200)
        config = {"name": "ticks", "config": {"connector.class": "Ticks", "tasks.max": "1"}}
        _wait_until(lambda: workers[0].ask("POST", config) == 201)
        _wait_until(lambda: any(one.ticks() for one in workers))
        frozen, other = sorted(workers, key=lambda one: not one.ticks())
        frozen.process.send_signal(signal.SIGSTOP)
        _wait_until(lambda: len(other.ticks()) > FEW)
        back_ms = time.time() * 1000
        frozen.process.send_signal(signal.SIGCONT)
        _wait_until(lambda: _is_at_rest(frozen, other, back_ms))
        since = [[ms for ms in one.ticks() if ms >= back_ms] for one in (frozen, other)]
    until_ms = min(map(max, since))
    both = [sum(ms <= until_ms for ms in ticks) for ticks in since]
    what = f"after its return the worker that stood still runs the task for {(until_ms - back_ms) / 1000:.1f} s"
    lines = [f"{what} beside the other one, which was given it: {both[0]} and {both[1]} steps of it"]
    return min(both) > 1, [*lines, f"then one worker runs it for {REST_MS // 1000} s and more"]


class _Worker:
    """A worker, which listens on a port of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, printed: Path) -> None:
        self.process, self.port, self.printed = process, port, printed

    def ticks(self) -> list[int]:
        """When its task ran, in epoch milliseconds."""
        whole, _, _ = self.printed.read_text().rpartition("\n")
        return [int(line.removeprefix("tick ")) for line in whole.splitlines() if line.startswith("tick ")]

    def ask(self, method: str, body: object = None) -> int:
        """The status of the answer about connectors; 0 if there is none."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request(method, "/connectors", json.dumps(body), {"Content-Type": "application/json"})
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()


def _is_at_rest(frozen: _Worker, other: _Worker, back_ms: float) -> bool:
    """Whether both have run the task since, and only one does for some time."""
    last = sorted(max(one.ticks()) for one in (frozen, other))
    return last[0] >= back_ms and last[1] - last[0] > REST_MS


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < until, f"the workers are not as wanted after {LIMIT_S:.0f} s"
        time.sleep(EVERY_S)


@contextmanager
def _worker(address: tuple[str, int], group: str, folder: Path, name: str) -> Iterator[_Worker]:
    port = free_port()
    settings = {**SETTINGS, "bootstrap.servers": f"{address[0]}:{address[1]}", "group.id": group, "client.id": name}
    settings |= {"plugin.path": str(folder / "plugins"), "listeners": f"http://127.0.0.1:{port}"}
    for kind in ("config", "offset", "status"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
    config, printed = folder / f"{name}.properties", folder / f"{name}.txt"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with printed.open("wb") as output:
        command = java(tools(), "org.apache.kafka.connect.cli.ConnectDistributed", str(config))
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
    try:
        yield _Worker(process, port, printed)
    finally:
        process.kill()
        process.wait()
