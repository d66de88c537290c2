"""A deployment as data: services and their processes, topics, brokers, a network, plans and faults.

A *service* is one application in a number of processes, each with a number of members of one group; several services
may share a group. Each process has its own host unless fewer hosts are given. Times are milliseconds from the start of
the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING

import xxhash

from fsm.cluster.network import Latency
from fsm.errors import InputError
from fsm.protocol.releases import LATEST

if TYPE_CHECKING:
    from fsm.simulate.machines.deployment import Machines

CONSUMER, CLASSIC, CONNECT = "consumer", "classic", "connect"
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""The units of durations, in milliseconds."""
CHANCE = 1
"""The version of the random draws; increased when the same seed gives another run."""
NETWORK = Latency(1, 2, 20, 100)
"""The default latency of messages."""
MOST_DEEDS = 1_000_000
"""The maximal number of deeds in one run."""
LEAST_EVERY_MS = 100
"""The minimum average interval of faults: below it a group cannot make progress between two of them."""
PROTOCOLS = (CONSUMER, CLASSIC, CONNECT)


@dataclass(frozen=True)
class Service:
    """One application."""

    name: str
    group: str
    topics: tuple[str, ...] = ()
    protocol: str = CONSUMER
    processes: int = 1
    members: int = 1
    """The number of members of each process."""
    hosts: int = 0
    """How many hosts the processes share; 0 for a host per process."""
    release: str = LATEST
    """The release of its client."""
    assignor: str = ""
    """`partition.assignment.strategy` of classic members, `group.remote.assignor` of others; empty for the default."""
    static: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the client, by Kafka's keys."""
    poll_ms: int = 500
    """The interval of polls."""
    starts_ms: int = 0
    """Its processes start one after the other within this time."""
    connectors: Mapping[str, int] = field(default_factory=dict)
    """The task counts of connectors, for Connect."""

    def process(self, number: int) -> str:
        """The name of a process, counted from 0."""
        return f"{self.name}-{number}"

    def host(self, number: int) -> str:
        """The name of the host that a process runs on."""
        return f"{self.name}-host-{number % (self.hosts or self.processes)}"

    def member(self, number: int, member: int) -> str:
        """The name of a member; that of its process if that has a single one."""
        return self.process(number) if self.members == 1 else f"{self.process(number)}-{member}"


@dataclass(frozen=True)
class Broker:
    name: str
    release: str = LATEST
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Deed:
    """An event of a deployment at an instant."""

    at_ms: int
    what: str
    """A key of `DEEDS`."""
    target: str
    for_ms: int = 0
    """How long it lasts, or how long a process is away."""
    amount: float = 0
    """The share of messages that are lost; partitions of a topic; milliseconds of a clock."""
    changes: Mapping[str, object] = field(default_factory=dict)
    """The settings of a service, or of a broker, that change with it."""


DEEDS = {
    "crash": "a process ends without a word, and is there again after a time",
    "restart": "a process closes its members and ends; one like it starts after a time",
    "stop": "a process closes its members and ends",
    "begin": "a process starts",
    "pause": "a process stands still, as for a collection of garbage",
    "slow": "the next callback of a process that takes partitions away lasts so long",
    "cut": "no message of a process passes, in either direction",
    "lose": "a share of all messages is lost",
    "fail_over": "a broker goes down; its groups have another coordinator after a time",
    "upgrade": "the same, and the broker comes back with another release",
    "clock_back": "the clock of a broker says what it said so long ago",
    "grow": "a topic gets more partitions",
}


@dataclass(frozen=True)
class Rate:
    """Random deeds at a rate."""

    what: str
    target: str
    every_ms: int
    """On average."""
    from_ms: int
    until_ms: int
    for_ms: tuple[int, int] = (0, 0)
    """Drawn uniformly from this range."""
    amount: float = 0


@dataclass(frozen=True)
class Deployment:
    name: str
    lasts_ms: int
    services: Mapping[str, Service]
    topics: Mapping[str, int]
    brokers: Mapping[str, Broker]
    latency: Latency = NETWORK
    loses: float = 0.0
    skews_ms: Mapping[str, int] = field(default_factory=dict)
    """By host, how far its clock is ahead."""
    deeds: tuple[Deed, ...] = ()
    """Plans and faults at their times."""
    rates: tuple[Rate, ...] = ()
    seed: int = 0

    @property
    def groups(self) -> dict[str, list[Service]]:
        """Services by their group."""
        found: dict[str, list[Service]] = {}
        for service in self.services.values():
            found.setdefault(service.group, []).append(service)
        return found

    def list_targets(self, rate: Rate) -> list[str]:
        """The targets from which a random fault draws one: brokers, processes, or another target by its name."""
        if rate.target == "brokers":
            return list(self.brokers)
        return [service.process(i) for service, i in self.processes_of(rate.target)] or [rate.target]

    def processes_of(self, target: str) -> list[tuple[Service, int]]:
        """The processes that a name means: one, those of a host or of a service, or `any`."""
        return [
            (service, number)
            for service in self.services.values()
            for number in range(service.processes)
            if target in ("any", service.name, service.process(number), service.host(number))
        ]


# The schedule: plans, and random faults as a seed draws them. Each draw depends on the seed and its purpose, so that
# removing a fault changes no other.


def draw(seed: int, *what: object) -> float:
    """A uniform random number in [0, 1) for this purpose."""
    return xxhash.xxh3_64_intdigest(" ".join(map(str, what)).encode(), seed) / (1 << 64)


def expand(deployment: Deployment | Machines, seed: int) -> tuple[Deed, ...]:
    """All deeds by time. Raises `InputError` if there are too many."""
    deeds = list(deployment.deeds)
    for i, rate in enumerate(deployment.rates):
        for deed in _draw(rate, i, deployment, seed):
            deeds.append(deed)
            if len(deeds) > MOST_DEEDS:
                raise InputError(f"more than {MOST_DEEDS} faults", "every", "make them rarer")
    return tuple(sorted(deeds, key=lambda deed: (deed.at_ms, deed.what, deed.target)))


def _draw(rate: Rate, number: int, deployment: Deployment | Machines, seed: int) -> Iterator[Deed]:
    targets = deployment.list_targets(rate)
    at_ms, n = float(rate.from_ms), 0
    while True:
        at_ms += -rate.every_ms * log(1 - draw(seed, number, n, "when"))
        if at_ms >= min(rate.until_ms, deployment.lasts_ms):
            return
        target = targets[int(draw(seed, number, n, "whom") * len(targets))]
        shortest, longest = rate.for_ms
        length = shortest + int((longest - shortest + 1) * draw(seed, number, n, "how long"))
        yield Deed(int(at_ms), rate.what, target, length, rate.amount)
        n += 1
