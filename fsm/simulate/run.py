"""A run: every group of a deployment under one seed, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsm.simulate.connect import ConnectRun
from fsm.simulate.deployment import CONNECT, Deed, Deployment, Service, expand
from fsm.simulate.group import GroupRun, first_broker
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.machines.run import run_machines
from fsm.simulate.meter import Meter
from fsm.simulate.outcome import PATIENCE, QUIET_MS, SLICES, GroupOutcome, Outcome, Progress, Truth


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
    groups = []
    for group_id, services in sorted(deployment.groups.items()):
        if services[0].protocol == CONNECT:
            groups.append(_run_connect(deployment, services[0], seed, deeds, truth, progress))
            continue
        groups.append(_run_group(deployment, group_id, seed, deeds, skips, truth, progress))
    width_ms = max(1, -(-deployment.lasts_ms // len(groups[0].series["moves"]))) if groups else 1
    return Outcome(deployment.name, seed, deployment.lasts_ms, width_ms, groups, deeds)


def _run_group(  # noqa: PLR0917
    deployment: Deployment,
    group_id: str,
    seed: int,
    deeds: Iterable[Deed],
    skips: bool,
    truth: Truth | None,
    progress: Progress | None,
) -> GroupOutcome:
    run = GroupRun(deployment, group_id, seed, skips=skips, trace=None if truth is None else truth.records.append)
    run.meter.keeps = truth is not None
    run.stored = None if truth is None else truth.stored
    run.changes = None if truth is None else truth.changes
    run.begin(deeds)
    for part in range(1, SLICES + 1):
        run.run(deployment.lasts_ms * part // SLICES)
        if progress is not None:
            progress(group_id, part / SLICES)
    run.wake()
    run.run(deployment.lasts_ms)
    run.meter.end()
    hazards = dict(run.watcher.hazards)
    if truth is not None:
        _add_truth(run, truth)
        run.changes = None
    found = GroupOutcome(group_id, run.meter.totals(), run.meter.series, hazards, run.watcher.violations)
    for what in _settle(run):
        run.watcher.add("the group does not settle", what)
    return found


def _run_connect(  # noqa: PLR0917
    deployment: Deployment,
    service: Service,
    seed: int,
    deeds: Iterable[Deed],
    truth: Truth | None,
    progress: Progress | None,
) -> GroupOutcome:
    trace = None if truth is None else truth.records.append
    run = ConnectRun(deployment, service, first_broker(deployment, service.group), seed, trace=trace)
    run.begin(deeds)
    for part in range(1, SLICES + 1):
        run.run(deployment.lasts_ms * part // SLICES)
        if progress is not None:
            progress(service.group, part / SLICES)
    run.meter.keeps = truth is not None
    meter = run.measure()
    if truth is not None:
        _add_uses(service.group, meter, truth)
    return GroupOutcome(service.group, meter.totals(), meter.series, violations=run.judge())


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
