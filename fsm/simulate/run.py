"""A run: every group of a deployment under one seed, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fsm.simulate.connect import ConnectRun
from fsm.simulate.deployment import CONNECT, Deed, Deployment, Service
from fsm.simulate.group import GroupRun, Stored, first_broker
from fsm.simulate.meter import Meter
from fsm.simulate.schedule import expand
from fsm.simulate.watch import Violation
from fsm.trace import TraceRecord

SLICES = 100
"""So often progress is told."""
QUIET_MS = 60_000
"""After the run nothing goes wrong any more; first it is seen after this time whether a group has settled."""
PATIENCE = 6
"""So often that time doubles until a group that has not settled is told of."""

Progress = Callable[[str, float], None]


@dataclass
class GroupOutcome:
    """What came of one group."""

    group: str
    totals: dict[str, Any]
    series: dict[str, list[int]]
    hazards: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


@dataclass
class Outcome:
    """What came of one run."""

    deployment: str
    seed: int
    lasts_ms: int
    width_ms: int
    """The length of a part of a series."""
    groups: list[GroupOutcome]
    deeds: tuple[Deed, ...] = ()

    @property
    def violations(self) -> list[tuple[str, Violation]]:
        """Those of all groups, with the group."""
        return [(one.group, violation) for one in self.groups for violation in one.violations]

    def totals(self) -> dict[str, Any]:
        """The measures of all groups together."""
        found: dict[str, Any] = {}
        for one in self.groups:
            for name, value in one.totals.items():
                found[name] = max(found.get(name, 0), value) if name in LONGEST else found.get(name, 0) + value
        return found

    def hazards(self) -> dict[str, int]:
        """What happened of what is known to go wrong, and how often."""
        found: dict[str, int] = {}
        for one in self.groups:
            for name, count in one.hazards.items():
                found[name] = found.get(name, 0) + count
        return dict(sorted(found.items()))

    def as_document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "deployment": self.deployment,
            "seed": self.seed,
            "lasts_ms": self.lasts_ms,
            "width_ms": self.width_ms,
            "totals": self.totals(),
            "hazards": self.hazards(),
            "violations": [{"group": group, **violation._asdict()} for group, violation in self.violations],
            "groups": [
                {"group": one.group, "totals": one.totals, "hazards": one.hazards, "series": one.series}
                for one in self.groups
            ],
        }


LONGEST = frozenset({"longest_unowned_ms"})
"""Measures of which the largest counts."""


@dataclass
class Truth:
    """What really happened, for whoever judges an audit of the trace."""

    records: list[TraceRecord] = field(default_factory=list)
    held: list[dict[str, Any]] = field(default_factory=list)
    doubles: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    """By topic."""
    stored: list[Stored] = field(default_factory=list)
    """What coordinators wrote."""


def simulate(
    deployment: Deployment,
    seed: int,
    *,
    rests: bool = True,
    truth: Truth | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Runs all groups. With `truth`, every heartbeat is stepped, and traces are kept."""
    deeds = expand(deployment, seed)
    groups = []
    for group_id, services in sorted(deployment.groups.items()):
        if services[0].protocol == CONNECT:
            groups.append(_run_connect(deployment, services[0], deeds, progress))
            continue
        groups.append(_run_group(deployment, group_id, seed, deeds, rests, truth, progress))
    width_ms = max(1, -(-deployment.lasts_ms // len(groups[0].series["moves"]))) if groups else 1
    return Outcome(deployment.name, seed, deployment.lasts_ms, width_ms, groups, deeds)


def _run_group(  # noqa: PLR0917
    deployment: Deployment,
    group_id: str,
    seed: int,
    deeds: Iterable[Deed],
    rests: bool,
    truth: Truth | None,
    progress: Progress | None,
) -> GroupOutcome:
    run = GroupRun(deployment, group_id, seed, rests=rests, trace=None if truth is None else truth.records.append)
    run.meter.keeps = truth is not None
    run.stored = None if truth is None else truth.stored
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
        _tell(run, truth)
    found = GroupOutcome(group_id, run.meter.totals(), run.meter.series, hazards, run.watcher.violations)
    for what in _settle(run):
        run.watcher.add("the group does not settle", what)
    return found


def _run_connect(
    deployment: Deployment, service: Service, deeds: Iterable[Deed], progress: Progress | None
) -> GroupOutcome:
    run = ConnectRun(deployment, service, first_broker(deployment, service.group))
    run.begin(deeds)
    for part in range(1, SLICES + 1):
        run.run(deployment.lasts_ms * part // SLICES)
        if progress is not None:
            progress(service.group, part / SLICES)
    meter = Meter(deployment.lasts_ms, sum(1 + tasks for tasks in service.connectors.values()))
    run.measure(meter)
    meter.end()
    totals = {name: value for name, value in meter.totals().items() if name not in ("heartbeats", "requests")}
    return GroupOutcome(service.group, totals, meter.series, violations=run.judge())


def _settle(run: GroupRun) -> Iterator[str]:
    """What is not as it should be, long after everything went well again; nothing for what is known to stay so."""
    run.calm()
    quiet_ms, problems = QUIET_MS, ["not looked at"]
    for _ in range(PATIENCE):
        run.run(run.now_ms + quiet_ms)
        problems = run.unsettled()
        if not problems:
            return
        quiet_ms *= 2
    if run.stranded is not None:
        run.watcher.hazards[f"stranded: {run.stranded}"] += 1
        return
    yield from problems[:3]


def _tell(run: GroupRun, truth: Truth) -> None:
    group = run.group_id
    truth.topic_ids |= {name: topic.topic_id for name, topic in run.context.image.topics.items()}
    truth.held += [
        {"group": group, "client": name, "partition": one, "start_ms": start, "end_ms": end}
        for name, one, start, end in run.meter.held
    ]
    truth.gaps += [
        {"group": group, "partition": one, "start_ms": start, "end_ms": end} for one, start, end in run.meter.gaps
    ]
    truth.doubles += [
        {"group": group, "at_ms": d.at_ms, "partition": d.partition, "users": d.users, "cause": d.cause}
        for d in run.doubles
    ]
