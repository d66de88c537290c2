"""A run: every group of a deployment under one seed, and its outcome.

A Connect cluster is `fsm.connect.simulation` under the deployment's schedule. Its workers have one host each and send
their own messages; slow callbacks and clock changes of brokers do not apply to them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count

from fsm.cluster.cluster import STARTED_MS
from fsm.cluster.network import STEADY, Network
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.process import Latencies
from fsm.protocol.messages import ClassicRequest, HeartbeatRequest
from fsm.simulate.clients import connect_config
from fsm.simulate.deployment import CONNECT, Deed, Deployment, Service, expand
from fsm.simulate.group import GroupRun, first_broker
from fsm.simulate.invariants import MOST
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.machines.run import run_machines
from fsm.simulate.meter import Meter
from fsm.simulate.outcome import PATIENCE, QUIET_MS, GroupOutcome, Outcome, Progress, Truth, Violation, run_to_end
from fsm.trace import TraceRecord


def simulate(
    deployment: Deployment | Machines,
    seed: int,
    *,
    skips: bool = True,
    truth: Truth | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Runs all groups, or all machines. With `truth`, every heartbeat is executed, and traces are kept."""
    deeds = expand(deployment, seed)
    if isinstance(deployment, Machines):
        return run_machines(deployment, seed, deeds, truth, progress)
    trace = None if truth is None else truth.records.append
    groups = []
    for group_id, services in sorted(deployment.groups.items()):
        if services[0].protocol == CONNECT:
            broker = first_broker(deployment, group_id)
            connect = ConnectRun(deployment, services[0], broker, seed, trace=trace)
            groups.append(_run_connect(connect, deeds, truth, progress))
        else:
            run = GroupRun(deployment, group_id, seed, skips=skips, trace=trace)
            groups.append(_run_group(run, deeds, truth, progress))
    width_ms = max(1, -(-deployment.lasts_ms // len(groups[0].series["moves"]))) if groups else 1
    return Outcome(deployment.name, seed, deployment.lasts_ms, width_ms, groups, deeds)


def _run_group(run: GroupRun, deeds: Iterable[Deed], truth: Truth | None, progress: Progress | None) -> GroupOutcome:
    if truth is not None:
        run.meter.keeps, run.stored, run.changes = True, truth.stored, truth.changes
    run.begin(deeds)
    run_to_end(run.run, run.deployment.lasts_ms, run.group_id, progress)
    run.wake()
    run.run(run.deployment.lasts_ms)
    run.meter.end()
    hazards = dict(run.watcher.hazards)
    if truth is not None:
        _add_truth(run, truth)
        run.changes = None
    found = GroupOutcome(run.group_id, run.meter.totals(), run.meter.series, hazards, run.watcher.violations)
    for what in _settle(run):
        run.watcher.add("the group does not settle", what)
    return found


def _run_connect(
    run: ConnectRun, deeds: Iterable[Deed], truth: Truth | None, progress: Progress | None
) -> GroupOutcome:
    run.begin(deeds)
    run_to_end(run.run, run.lasts_ms, run.service.group, progress)
    run.meter.keeps = truth is not None
    meter = run.measure()
    if truth is not None:
        _add_uses(run.service.group, meter, truth)
    return GroupOutcome(run.service.group, meter.totals(), meter.series, violations=run.judge())


def _settle(run: GroupRun) -> Iterator[str]:
    """The deviations that remain long after the faults have stopped, without those of known hazards."""
    run.calm()
    quiet_ms, problems = QUIET_MS, ["not looked at"]
    for _ in range(PATIENCE):
        run.run(run.now_ms + quiet_ms)
        problems = run.find_unsettled()
        if not problems:
            return
        quiet_ms *= 2
    if run.stranded is not None:
        run.watcher.hazards[f"stranded: {run.stranded}"] += 1
        return
    yield from problems[:3]


def _add_truth(run: GroupRun, truth: Truth) -> None:
    group = run.group_id
    truth.topic_ids |= {name: topic.topic_id for name, topic in run.context.image.topics.items()}
    _add_uses(group, run.meter, truth)
    truth.doubles += [
        {"group": group, "at_ms": d.at_ms, "partition": d.partition, "users": d.users, "cause": d.cause}
        for d in run.doubles
    ]


def _add_uses(group: str, meter: Meter, truth: Truth) -> None:
    truth.held += [
        {"group": group, "client": name, "partition": one, "start_ms": start, "end_ms": end}
        for name, one, start, end in meter.held
    ]
    truth.gaps += [
        {"group": group, "partition": one, "start_ms": start, "end_ms": end} for one, start, end in meter.gaps
    ]


# One Connect cluster of a deployment


class ConnectRun:
    """A Connect cluster and its scheduled events."""

    def __init__(
        self,
        deployment: Deployment,
        service: Service,
        broker: str,
        seed: int = 0,
        *,
        trace: Callable[[TraceRecord], None] | None = None,
    ) -> None:
        """`broker` is the first coordinator; `trace` is called with the records of the workers' logs."""
        self.service, self._brokers, self.broker = service, [*deployment.brokers], broker
        median_ms = deployment.latency.median_ms
        self.cluster = Cluster(connect_config(service), Latencies(network_ms=median_ms))
        self.lasts_ms = deployment.lasts_ms
        self.meter = Meter(deployment.lasts_ms, sum(1 + tasks for tasks in service.connectors.values()))
        self._loses = deployment.loses
        self.network = Network(STEADY, seed=seed, latency=deployment.latency, loses=deployment.loses)
        self.cluster.watch_network(self._arrives, self._count)
        if trace is not None:
            hosts = {f"connect-{service.process(i)}": service.host(i) for i in range(service.processes)}
            skews = {name: deployment.skews_ms.get(host, 0) for name, host in hosts.items()}
            self.cluster.write_trace(lambda record: trace(_ahead(record, skews[record.client_id])), STARTED_MS)
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._until_ms: dict[tuple[str, str], int] = {}
        """When a pause or cut of a worker ends."""

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    def begin(self, deeds: Iterable[Deed]) -> None:
        """Schedules the starts of workers and connectors, and the events of the deployment."""
        for i in range(self.service.processes):
            at_ms = self.service.starts_ms * i // self.service.processes
            self._at(at_ms, partial(self._start, self.service.process(i)))
        for connector, tasks in self.service.connectors.items():
            self._at(0, partial(self.cluster.create, connector, tasks))
        for deed in deeds:
            if deed.what in DO and (deed.what in ON_ALL or deed.target.rpartition("-")[0] == self.service.name):
                self._at(deed.at_ms, partial(DO[deed.what], self, deed))

    def run(self, until_ms: int) -> None:
        while self._coming and self._coming[0][0] <= until_ms:
            at_ms, _, act = heapq.heappop(self._coming)
            self.cluster.run_for(max(0, at_ms - self.now_ms))
            act()
        self.cluster.run_for(until_ms - self.now_ms)

    def _at(self, at_ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (at_ms, next(self._numbers), act))

    def _arrives(self, name: str, is_answer: bool) -> bool:
        _, takes_ms = self.network.draw(name, is_answer=is_answer)
        return takes_ms is not None

    def _count(self, request: ClassicRequest) -> None:
        self.meter.count("requests", self.now_ms)
        if isinstance(request, HeartbeatRequest):
            self.meter.count("heartbeats", self.now_ms)

    # Deeds

    def _is_alive(self, name: str) -> bool:
        process = self.cluster.processes.get(name)
        return process is not None and process.alive

    def _start(self, name: str) -> None:
        if not self._is_alive(name):
            self.cluster.start(name)

    def _crash(self, deed: Deed) -> None:
        if self._is_alive(deed.target):
            self.cluster.crash(deed.target)
        self._at(self.now_ms + deed.for_ms, partial(self._start, deed.target))

    def _restart(self, deed: Deed) -> None:
        self._stop(deed)
        self._at(self.now_ms + deed.for_ms, partial(self._start, deed.target))

    def _stop(self, deed: Deed) -> None:
        """Stops a worker; a paused one cannot stop, and is killed."""
        if self._is_alive(deed.target):
            is_frozen = self.cluster.processes[deed.target].frozen
            (self.cluster.crash if is_frozen else self.cluster.stop)(deed.target)

    def _begin(self, deed: Deed) -> None:
        self._start(deed.target)

    def _last(self, deed: Deed) -> None:
        """Pauses a worker, or cuts it off, for some time."""
        what, name, until_ms = deed.what, deed.target, self.now_ms + deed.for_ms
        flag, begin, _ = LASTING[what]
        if self._is_alive(name):
            self._until_ms[what, name] = max(self._until_ms.get((what, name), 0), until_ms)
            if not getattr(self.cluster.processes[name], flag):
                begin(self.cluster, name)
            self._at(until_ms, partial(self._end, what, name))

    def _end(self, what: str, name: str) -> None:
        flag, _, end = LASTING[what]
        is_over = self._until_ms.get((what, name), 0) <= self.now_ms
        if is_over and self._is_alive(name) and getattr(self.cluster.processes[name], flag):
            end(self.cluster, name)

    def _fail_over(self, deed: Deed) -> None:
        if deed.target == self.broker and self.cluster.broker_up:
            self.cluster.broker_down()
            self._at(self.now_ms + deed.for_ms, self._take_over)

    def _lose(self, deed: Deed) -> None:
        self.network.loses = deed.amount
        self._at(self.now_ms + deed.for_ms, self._lose_no_more)

    def _lose_no_more(self) -> None:
        self.network.loses = self._loses

    def _take_over(self) -> None:
        self.broker = self._brokers[(self._brokers.index(self.broker) + 1) % len(self._brokers)]
        self.cluster.broker_back()

    # Results

    def judge(self) -> list[Violation]:
        """The violations of the run, and the deviations that remain after a quiet time."""
        for name in sorted(self.cluster.processes):
            for what in LASTING:
                self._until_ms[what, name] = 0
                self._end(what, name)
        self.network.loses = 0.0
        if not self.cluster.broker_up:
            self._take_over()
        found = [Violation(at_ms, f"invariant of Connect: {what}") for at_ms, what in self.cluster.broken]
        found += [
            Violation(one.now_ms, "a worker is ended by an error", f"{one.worker}: {one.reason}")
            for one in self.cluster.ends
        ]
        problems = self.cluster.find_problems() if self.cluster.settle() else ["workers are not assigned"]
        found += [Violation(self.now_ms, "the cluster does not settle", problem) for problem in problems]
        return found[:MOST]

    def measure(self) -> Meter:
        """Units and the workers that ran them, rounds, and requests; connectors and tasks count as partitions."""
        changes, meter = [], self.meter
        for ran in self.cluster.ran:
            changes.append((ran.start_ms, 1, ran.worker, ran.unit))
            if ran.end_ms is not None:
                changes.append((ran.end_ms, 0, ran.worker, ran.unit))
        for at_ms, starts, worker, unit in sorted(changes):
            if at_ms <= self.lasts_ms:
                meter.note_use(worker, (unit,) if starts else (), () if starts else (unit,), at_ms)
        for one in self.cluster.rounds:
            meter.count("rebalances", one.now_ms)
        meter.end()
        return meter


def _ahead(record: TraceRecord, skew_ms: int) -> TraceRecord:
    return replace(record, ts_ms=record.ts_ms + skew_ms)


LASTING = {"pause": ("frozen", Cluster.freeze, Cluster.thaw), "cut": ("cut", Cluster.cut, Cluster.heal)}
"""The flag of a process meanwhile, how it begins and ends."""
ON_ALL = frozenset({"fail_over", "upgrade", "lose"})
DO: dict[str, Callable[[ConnectRun, Deed], None]] = {
    "crash": ConnectRun._crash,
    "restart": ConnectRun._restart,
    "stop": ConnectRun._stop,
    "begin": ConnectRun._begin,
    "pause": ConnectRun._last,
    "cut": ConnectRun._last,
    "lose": ConnectRun._lose,
    "fail_over": ConnectRun._fail_over,
    "upgrade": ConnectRun._fail_over,
}
