"""Logs of a fleet of any size, made of the recorded ones.

Each line was printed by a real client. A scenario is placed as often as needed, and every placing gives its
group and its clients fresh names, so that groups stay strangers to each other; topics, times and the rest stay. The
same arguments give the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recordings import Scenario

_ENTRY = re.compile(rb"^(?=\[?20\d\d[-/]\d\d|%\d\||\d{10}\.\d{3}\||time=|\{\")", re.MULTILINE)
"""Where an entry of a client begins, in any layout."""
CHATTER = {
    "kafka": "[2026-11-21 08:00:00,{ms:03}] INFO Order {n} was stored in {ms} ms (com.example.orders.OrderStore)",
    "spring": "2026-11-21T08:00:00.{ms:03}Z  INFO 4711 --- [orders] [nio-8080-exec-{ms}] c.example.orders.OrderStore"
    "              : Order {n} was stored in {ms} ms",
    "logback": "2026-11-21 08:00:00.{ms:03} [nio-8080-exec-{ms}] INFO  com.example.orders.OrderStore -- Order {n} was "
    "stored in {ms} ms",
    "json": '{{"@timestamp":"2026-11-21T08:00:00.{ms:03}Z","@version":"1","message":"Order {n} was stored in {ms} ms",'
    '"logger_name":"com.example.orders.OrderStore","thread_name":"nio-8080-exec-{ms}","level":"INFO"}}',
}
"""What an application itself says, by layout."""
_CLIENT = re.compile(rb"(?<=[|\[])(\w+)(?=#consumer-\d)")
"""librdkafka's `client.id` where a line's header has it; the Java clients' ids contain the group."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was written."""

    folder: Path
    files: int
    lines: int
    size: int
    """Bytes."""
    groups: int


def mix(scenarios: Iterable[Scenario], lines: int) -> list[Scenario]:
    """Scenarios of all kinds, in a fixed disorder and over again, until they have at least that many lines."""
    disorder = sorted(scenarios, key=lambda s: hashlib.sha256(s.name.encode()).digest())
    chosen: list[Scenario] = []
    for scenario in cycle(disorder):
        if lines <= 0:
            break
        chosen.append(scenario)
        lines -= sum(log.read_bytes().count(b"\n") for log in scenario.logs)
    return chosen


def write(chosen: Sequence[Scenario], copies: int, folder: Path, chatter: int = 0, layout: str = "kafka") -> Fleet:
    """The logs of each scenario, `copies` times, each in a folder of its own.

    With `chatter` so many lines of the application itself stand before each entry of its client, as in most services.
    """
    files = lines = size = 0
    for number, scenario in enumerate(list(chosen) * copies):
        place = folder / f"{number:06}.{scenario.name}"
        place.mkdir(parents=True)
        for log in scenario.logs:
            data = among(renamed(log.read_bytes(), scenario.folder.name, f"r{number}."), chatter, layout)
            (place / log.name).write_bytes(data)
            files, lines, size = files + 1, lines + data.count(b"\n"), size + len(data)
    return Fleet(folder, files, lines, size, len(chosen) * copies)


def renamed(log: bytes, scenario: str, prefix: str) -> bytes:
    """The log with the prefix before the group of the scenario and before the names of its clients.

    A prefix, because Spring keeps only the end of a thread's name, which ends with the group.
    """
    group = re.compile(rb"\b(g1|g-" + scenario.replace("_", "-").encode() + rb")\b")
    fresh = prefix.encode() + rb"\1"
    return _CLIENT.sub(fresh, group.sub(fresh, log))


def among(log: bytes, chatter: int, layout: str = "kafka") -> bytes:
    """The log with so many lines of an application before each of its entries."""
    lines = [CHATTER[layout].format(n=n * 7919, ms=n) + "\n" for n in range(1, chatter + 1)]
    data = "".join(lines).encode()
    return _ENTRY.sub(lambda _: data, log) if chatter else log
