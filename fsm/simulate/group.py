"""One group of a deployment in virtual time: its processes, its coordinator, which moves among brokers, and its faults.

Groups of a deployment are independent, so each is run separately, under the same seed and schedule.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import xxhash

from fsm.cluster.client import RETRIABLE, Client
from fsm.cluster.cluster import STARTED_MS, Answers
from fsm.cluster.network import STEADY, Network
from fsm.cluster.skipping import SkippingCluster
from fsm.cluster.stale_uses import Change
from fsm.coordinator.coordinator import Coordinator, refuse
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import BrokerConfig, Topic
from fsm.coordinator.model.dialect import dialect as broker_dialect
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Request, Step
from fsm.coordinator.storage.replay import replay_segment
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.protocol import messages as m
from fsm.protocol.assignment import Partitions, without
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import batch_of, write_batch
from fsm.protocol.records import Record
from fsm.simulate.clients import classic_config, consumer_config
from fsm.simulate.deployment import CLASSIC, Deed, Deployment, Service
from fsm.simulate.invariants import Watcher
from fsm.simulate.meter import Meter
from fsm.simulate.outcome import Changed, Stored
from fsm.trace import TraceRecord

NO_COORDINATOR = m.TransportFailure("CoordinatorNotAvailableException")
PROCESS_DEEDS = frozenset({"crash", "restart", "stop", "pause", "slow", "cut", "begin"})
HEARTBEATS = (m.ConsumerGroupHeartbeatRequest, m.HeartbeatRequest)
RESTART_MS = 10_000
"""How long after an error an application is restarted."""
BATCH = 1_000
"""How many records of the log are read together."""


class GroupRun(SkippingCluster):
    """The run of one group."""

    def __init__(
        self,
        deployment: Deployment,
        group_id: str,
        seed: int,
        *,
        skips: bool = True,
        trace: Callable[[TraceRecord], None] | None = None,
    ) -> None:
        """`trace` is called with the records of the clients' logs; it makes every heartbeat be executed."""
        self.deployment, self._seed, self._trace = deployment, seed, trace
        self._brokers = [*deployment.brokers]
        self.broker = first_broker(deployment, group_id)
        self._releases = {name: broker.release for name, broker in deployment.brokers.items()}
        topics = {name: Topic(_id(name), count) for name, count in deployment.topics.items()}
        super().__init__(
            STEADY,
            self._releases[self.broker],
            config=self._config(),
            topics=PersistentMap(topics),
            group_id=group_id,
            network=Network(STEADY, seed=seed, latency=deployment.latency, loses=deployment.loses),
            skips=skips and trace is None,
        )
        self.services = deployment.groups[group_id]
        self._as: dict[str, Service] = {}
        """The service of each process, with the settings of that process."""
        self.wanted = tuple(sorted({topic for service in self.services for topic in service.topics}))
        self.meter = Meter(deployment.lasts_ms, sum(deployment.topics[topic] for topic in self.wanted))
        self.watcher = Watcher(self)
        self.on_step, self.on_use, self.on_passed = self._note_change, self._meter_use, self._meter_passed
        self._down: Group | None = None
        self.is_down = False
        """Whether no broker coordinates the group now."""
        self._term = 0
        """Counts the coordinators."""
        self._found: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        """How often each member was started."""
        self._cut_until_ms: dict[str, int] = {}
        self._log: dict[Any, Record] = {}
        """The coordinator's log, compacted: the last record of each key."""
        self._fresh: list[Record] = []
        self.stored: list[Stored] | None = None
        """The whole log, if it is kept."""
        self.changes: list[Changed] | None = None
        """The steps of the coordinators that changed the group, if they are kept."""
        self.host.keeps_log, self.host.on_step = False, self._keep

    def _config(self) -> BrokerConfig:
        return BrokerConfig.of(self.deployment.brokers[self.broker].settings)

    # The schedule

    def begin(self, deeds: Iterable[Deed]) -> None:
        """Schedules the starts of processes and the events of the deployment."""
        for service in self.services:
            for number in range(service.processes):
                at_ms = service.starts_ms * number // service.processes
                self.schedule(at_ms, partial(self._begin, service, number), tuple)
        for deed in deeds:
            if self._is_concerned(deed):
                self.schedule(deed.at_ms, partial(self._do, deed), partial(self._list_members_of, deed))

    def _is_concerned(self, deed: Deed) -> bool:
        if deed.what in PROCESS_DEEDS:
            return any(deed.target.rpartition("-")[0] == service.name for service in self.services)
        return deed.what != "grow" or deed.target in self.wanted

    def _list_members_of(self, deed: Deed) -> Collection[str]:
        if deed.what in PROCESS_DEEDS:
            return self._members(deed.target)
        is_elsewhere = deed.what in ("fail_over", "upgrade", "clock_back") and deed.target != self.broker
        return () if is_elsewhere else tuple(self.skipped)

    def _members(self, process: str) -> list[str]:
        """The names of its members, running or not."""
        service, number = self._service(process)
        return [service.member(number, i) for i in range(service.members)]

    def _service(self, process: str) -> tuple[Service, int]:
        name, _, number = process.rpartition("-")
        service = self._as.get(process) or next(one for one in self.services if one.name == name)
        return service, int(number)

    def _do(self, deed: Deed) -> None:
        DO[deed.what](self, deed)

    # Processes

    def _begin(self, service: Service, number: int) -> None:
        """Starts a process; kills what is left of the previous one."""
        process = service.process(number)
        self._as[process] = service
        for i in range(service.members):
            name = service.member(number, i)
            if name in self.clients:
                self.kill(name)
            self._start(service, name, self.deployment.skews_ms.get(service.host(number), 0))

    def _start(self, service: Service, name: str, skew_ms: int) -> None:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        traced: dict[str, Any] = {"trace": self._trace, "trace_offset_ms": STARTED_MS + skew_ms}
        member: ConsumerMember | ClassicConsumerMember
        if service.protocol == CLASSIC:
            config = classic_config(service, name)
            dialect = ",".join(assignor.name for assignor in config.assignors)
            member = ClassicConsumerMember(config, now_ms=self.now_ms, **traced)
        else:
            dialect = service.release
            made = consumer_config(service, name)
            member_id = _id(f"{name} {life} {self._seed}")
            member = ConsumerMember(made, member_id=member_id, now_ms=self.now_ms, dialect=dialect, **traced)
        client = self.start(name, dialect, member, service.topics, service.poll_ms)
        self.watcher.watch_member(client)

    def _restart_process(self, deed: Deed) -> None:
        """Restarts a process, with its settings or those of the deed."""
        service, number = self._service(deed.target)
        changes: dict[str, Any] = dict(deed.changes)
        self._begin(replace(service, **changes), number)

    def _schedule_restart(self, deed: Deed) -> None:
        """Restarts a process after a time."""
        act = partial(self._restart_process, deed)
        self.schedule(self.now_ms + deed.for_ms, act, lambda: self._members(deed.target))

    def _crash(self, deed: Deed) -> None:
        for client in self._find_running(deed):
            self.kill(client.name)
        self._schedule_restart(deed)

    def _restart(self, deed: Deed) -> None:
        self._stop(deed)
        self._schedule_restart(deed)

    def _stop(self, deed: Deed) -> None:
        for client in self._find_running(deed):
            client.catch_up(self.now_ms)
            before, client.is_idle = client.using, False
            client.close(self.now_ms)
            self._note_use(client, before)
            self.enter(client)

    def _pause(self, deed: Deed) -> None:
        for client in self._find_running(deed):
            client.catch_up(self.now_ms)
            client.is_idle = False
            client.freeze(max(client.frozen_until_ms, self.now_ms + deed.for_ms))
            self.enter(client)

    def _slow(self, deed: Deed) -> None:
        for client in self._find_running(deed):
            client.slow_ms = max(client.slow_ms, deed.for_ms)

    def _cut(self, deed: Deed) -> None:
        until_ms = self.now_ms + deed.for_ms
        for name in self._members(deed.target):
            self.channel.cut.add(name)
            self._cut_until_ms[name] = max(self._cut_until_ms.get(name, 0), until_ms)
        self.schedule(until_ms, partial(self._heal, deed.target), tuple)

    def _heal(self, process: str) -> None:
        self.channel.cut -= {n for n in self._members(process) if self._cut_until_ms.get(n, 0) <= self.now_ms}

    def _find_running(self, deed: Deed) -> list[Client]:
        return [self.clients[name] for name in self._members(deed.target) if name in self.clients]

    # Brokers, topics and the network

    def _lose(self, deed: Deed) -> None:
        self.channel.loses = deed.amount
        self.schedule(self.now_ms + deed.for_ms, self._lose_no_more, lambda: tuple(self.skipped))

    def _lose_no_more(self) -> None:
        self.channel.loses = self.deployment.loses

    def _grow(self, deed: Deed) -> None:
        topic, count = deed.target, int(deed.amount)
        self.meter.grow(((topic, i) for i in range(self.context.image.topics[topic].partitions, count)), self.now_ms)
        self._rouse()
        self.resize(topic, count)

    def _clock_back(self, deed: Deed) -> None:
        if deed.target == self.broker:
            self._started_ms -= int(deed.amount)
            self.watcher.clock_went_back = True

    def _fail_over(self, deed: Deed) -> None:
        """Moves the coordinator: another broker reads the log after a time; delayed requests get no response."""
        if deed.target != self.broker or self.is_down:
            return
        self._down, self.is_down = self.group, True
        for name, on_response in self._waiting.values():
            self.channel.send(self.now_ms, partial(_give, on_response, m.DISCONNECTED), name, is_answer=True)
        self._waiting.clear()
        self.host.state = Coordinator()
        self.schedule(self.now_ms + deed.for_ms, self._take_over, tuple)

    def _upgrade(self, deed: Deed) -> None:
        self._fail_over(deed)
        self._releases[deed.target] = str(deed.changes["release"])

    def _take_over(self) -> None:
        self.broker = self._brokers[(self._brokers.index(self.broker) + 1) % len(self._brokers)]
        dialect = broker_dialect(self._releases[self.broker])
        self.host.context = replace(self.host.context, dialect=dialect, config=self._config()).at(
            self._started_ms + self.now_ms
        )
        records = [*self._log.values()]
        segment = b"".join(
            write_batch(batch_of(at, tuple(records[at : at + BATCH]), self.host.now_ms))
            for at in range(0, len(records), BATCH)
        )
        self.is_down, self._term = False, self._term + 1
        self.host.take_over(replay_segment(segment, dialect))

    @property
    def group(self) -> Group | None:
        """The group in its coordinator; while there is none, in the last one."""
        return self._down if self.is_down else super().group

    def calm(self) -> None:
        """Stops all faults."""
        self.wake()
        self.channel.loses = 0.0
        self.channel.cut.clear()
        self._rouse()
        self.stop_faults()

    def _rouse(self) -> None:
        """Makes the next poll of every client take effect."""
        for client in self.clients.values():
            client.catch_up(self.now_ms)
            client.is_idle = False

    # Between clients and coordinator

    def find_coordinator(self, name: str, on_coordinator_found: Callable[[Any], None]) -> None:
        def answer(_at_ms: int) -> None:
            self._found[name] = self._term
            on_coordinator_found(NO_COORDINATOR if self.is_down else None)

        self.channel.at(self.now_ms + 1, answer, name)

    def carry(self, name: str, request: Any, on_response: Callable[[Any], None]) -> None:
        self.meter.count("requests", self.now_ms)
        if isinstance(request, HEARTBEATS):
            self.meter.count("heartbeats", self.now_ms)
        super().carry(name, request, on_response)

    def _receive(self, name: str, request: Any, on_response: Callable[[Any], None], *, is_duplicate: bool) -> bool:
        if not self.is_down and self._found.get(name) == self._term:
            return super()._receive(name, request, on_response, is_duplicate=is_duplicate)
        asked = Request(0, name, "", 1, request)
        body = m.DISCONNECTED if self.is_down else refuse(asked, ErrorCode.NOT_COORDINATOR, self.context)
        self.channel.send(self.now_ms, partial(_give, on_response, body), name, is_answer=True)
        return True

    def make_id(self, name: str) -> str | None:
        return _id(f"{name} {self.now_ms}")

    def _keep(self, step: Step[Coordinator]) -> None:
        self._fresh += step.records

    def _accept(self, before: Group | None) -> bool:
        accepted, fresh = super()._accept(before), self._fresh
        self._fresh = []
        if self.stored is not None and accepted and fresh:
            self.stored.append(Stored(self.now_ms, self.host.now_ms, tuple(fresh)))
        for record in fresh if accepted else ():
            self._log.pop(record.key, None)
            if record.value is not None:
                self._log[record.key] = record
        return accepted

    # Results

    def _note_change(self, change: Change, answers: Answers) -> None:
        if change.before is not change.after:
            self.meter.count("rebalances", self.now_ms, max(0, _epoch(change.after) - _epoch(change.before)))
            if self.changes is not None:
                self.changes.append(Changed(self.group_id, self.now_ms, change))
        self.watcher.look(change, answers)

    def _meter_use(self, client: Client, before: Partitions) -> None:
        gained, lost = without(client.using, before), without(before, client.using)
        self.meter.note_use(client.name, gained, lost, self.now_ms)

    def _note_use(self, client: Client, before: Partitions) -> None:
        super()._note_use(client, before)
        self.watcher.note_doubles()

    def _meter_passed(self, first_ms: int, every_ms: int, count: int) -> None:
        for what in ("heartbeats", "requests"):
            self.meter.count_every(what, first_ms, every_ms, count)

    def kill(self, name: str) -> None:
        client = self.clients[name]
        fatal = [error for error in client.errors if error.name not in RETRIABLE]
        super().kill(name)
        if fatal and not client.member.closed:
            self.watcher.note_end(client, fatal)
            self.schedule(self.now_ms + RESTART_MS, partial(self._revive, name), tuple)

    def _revive(self, name: str) -> None:
        """Restarts processes that an error has ended."""
        if name in self.clients:
            return
        for process, service in sorted(self._as.items()):
            number = int(process.rpartition("-")[2])
            if name in (service.member(number, i) for i in range(service.members)):
                self._start(service, name, self.deployment.skews_ms.get(service.host(number), 0))


DO: Mapping[str, Callable[[GroupRun, Deed], None]] = {
    "crash": GroupRun._crash,
    "restart": GroupRun._restart,
    "stop": GroupRun._stop,
    "begin": GroupRun._restart_process,
    "pause": GroupRun._pause,
    "slow": GroupRun._slow,
    "cut": GroupRun._cut,
    "lose": GroupRun._lose,
    "fail_over": GroupRun._fail_over,
    "upgrade": GroupRun._upgrade,
    "clock_back": GroupRun._clock_back,
    "grow": GroupRun._grow,
}


def first_broker(deployment: Deployment, group_id: str) -> str:
    """The broker that coordinates a group at first."""
    brokers = [*deployment.brokers]
    return brokers[xxhash.xxh3_64_intdigest(group_id.encode()) % len(brokers)]


def _give(on_response: Callable[[Any], None], body: Any, _at_ms: int) -> None:
    on_response(body)


def _epoch(group: Group | None) -> int:
    if group is None:
        return 0
    return group.generation if isinstance(group, ClassicGroup) else group.epoch


def _id(name: str) -> str:
    """22 characters of base64, as Kafka's ids have."""
    return urlsafe_b64encode(xxhash.xxh3_128_digest(name.encode())).decode().rstrip("=")
