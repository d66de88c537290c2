"""Shrinks a failing run: fewer faults, processes, members and partitions, and less time, but still a failure.

Delta debugging (Zeller and Hildebrandt, 2002) of events, halving of the rest. The fate of a message and the target of a
fault depend only on the seed and on names, so removing parts mostly changes nothing for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fsm.cluster.network import Latency
from fsm.errors import InputError
from fsm.simulate.deployment import Deed, Deployment, expand
from fsm.simulate.machines.deployment import NEVER, Machines
from fsm.simulate.machines.run import NOT_REACHED, STUCK, MachinesRun
from fsm.simulate.run import simulate

MOST_RUNS = 400
"""The number of runs after which the search ends."""
SOON_MS = 1_000


class Shrink:
    """The search for a smaller deployment whose run violates the same."""

    def __init__(
        self, deployment: Deployment | Machines, seed: int, report: Callable[[str], None] | None = None
    ) -> None:
        """`report` is called with the remaining deployment, now and then."""
        self.found: Deployment | Machines = replace(deployment, deeds=expand(deployment, seed), rates=(), seed=seed)
        self.seed = seed
        self.runs = 0
        self._report = report or (lambda _: None)
        first = simulate(self.found, seed).violations
        self.what = frozenset(violation.what for _, violation in first)
        """The violations of the run; a smaller one has some of them."""

    def run(self) -> Deployment | Machines:
        """Searches for the smallest deployment; returns it unchanged if nothing is violated."""
        if not self.what:
            return self.found
        if isinstance(self.found, Machines) and (at_once := {one for one in self.what if not _is_of_the_end(one)}):
            self.what = frozenset(at_once)
            self._cut_time()
            self._fails(_script(self.found))
        before = None
        while before != self.found and self.runs < MOST_RUNS:
            before = self.found
            self._cut_time()
            self._drop_deeds()
            for smaller in MACHINES if isinstance(self.found, Machines) else GROUPS:
                self._take_first(smaller)
        return self.found

    def _fails(self, candidate: Deployment | Machines) -> bool:
        """Whether a candidate has some of the same violations; then it is adopted."""
        if self.runs >= MOST_RUNS or candidate == self.found:
            return False
        self.runs += 1
        violated = {violation.what for _, violation in simulate(candidate, self.seed).violations}
        if self.what.isdisjoint(violated):
            return False
        self.found = candidate
        self._report(f"{self.runs} runs; left are {len(candidate.deeds)} faults, {candidate.lasts_ms // 1_000} s")
        return True

    def _cut_time(self) -> None:
        """Ends the run at its failure, or at least after the last fault."""
        violations = simulate(self.found, self.seed).violations
        self.runs += 1
        at_ms = min(violation.at_ms for _, violation in violations)
        last_ms = max([deed.at_ms for deed in self.found.deeds], default=0)
        for ends_ms in (at_ms + SOON_MS, last_ms + SOON_MS):
            if ends_ms < self.found.lasts_ms:
                kept = tuple(deed for deed in self.found.deeds if deed.at_ms <= ends_ms)
                self._fails(replace(self.found, lasts_ms=ends_ms, deeds=kept))

    def _drop_deeds(self) -> None:
        parts = 2
        while self.found.deeds and parts <= 2 * len(self.found.deeds):
            size = max(1, len(self.found.deeds) // parts)
            for without in _without(self.found.deeds, size):
                if self._fails(replace(self.found, deeds=without)):
                    break
            else:
                if size == 1:
                    return
                parts *= 2

    def _take_first(self, smaller: Callable[[Any], Iterator[Any]]) -> None:
        """Continues from the first smaller candidate that fails, until none does."""
        while any(self._fails(candidate) for candidate in smaller(self.found)):
            pass


# Smaller ones of Kafka's groups


def _fewer_services(found: Deployment) -> Iterator[Deployment]:
    for name in found.services:
        if len(found.services) > 1:
            left = {key: one for key, one in found.services.items() if key != name}
            deeds = tuple(deed for deed in found.deeds if deed.target.rpartition("-")[0] != name)
            yield replace(found, services=left, deeds=deeds, skews_ms={})


def _fewer_processes(found: Deployment) -> Iterator[Deployment]:
    """Deployments with less of a service; those with the highest numbers are removed, together with their faults."""
    for name, service in found.services.items():
        for key in ("processes", "members"):
            for fewer in _list_fewer(getattr(service, key)):
                changes: dict[str, Any] = {key: fewer, "hosts": 0}
                changed = replace(service, **changes)
                gone = {service.process(i) for i in range(changed.processes, service.processes)}
                deeds = tuple(deed for deed in found.deeds if deed.target not in gone)
                services = {**found.services, name: changed}
                yield replace(found, services=services, deeds=deeds, skews_ms={})


def _list_fewer(count: int) -> list[int]:
    """Half of them, and one less, but not none."""
    return [fewer for fewer in dict.fromkeys((count // 2, count - 1)) if fewer >= 1]


def _fewer_partitions(found: Deployment) -> Iterator[Deployment]:
    for name, count in found.topics.items():
        for fewer in _list_fewer(count):
            yield replace(found, topics={**found.topics, name: fewer})


def _list_plainer(found: Any, *changes: dict[str, Any]) -> Iterator[Any]:
    """Deployments that differ by one of these changes, or by faults of whole seconds."""
    for change in (*changes, {"deeds": tuple(map(_shorter, found.deeds))}):
        plainer = replace(found, **change)
        if plainer != found:
            yield plainer


def _shorter(deed: Deed) -> Deed:
    """A round number of seconds."""
    return replace(deed, for_ms=deed.for_ms // 1_000 * 1_000) if deed.for_ms > 1_000 else deed


def _without(deeds: tuple[Deed, ...], size: int) -> Iterator[tuple[Deed, ...]]:
    """The deeds without this many of them, from each position on."""
    for at in range(0, len(deeds), size):
        yield deeds[:at] + deeds[at + size :]


# Smaller ones of your own machines


SAME = Latency(10, 10, 10, 10)
"""A constant latency."""


def _script(found: Machines) -> Machines:
    """The same run with each external event at its fixed time, without random ones.

    It has no goal, because external events end.
    """
    run = MachinesRun(found, found.seed)
    run.begin(found.deeds)
    run.run(found.lasts_ms)
    events = tuple(Deed(at_ms, "event", target) for at_ms, target in run.happened)
    parts = tuple(replace(part, happens=dict.fromkeys(part.happens, NEVER)) for part in found.parts)
    others = tuple(deed for deed in found.deeds if deed.what != "event")
    return replace(found, parts=parts, goal="", deeds=tuple(sorted((*others, *events), key=lambda deed: deed.at_ms)))


def _is_of_the_end(violation: str) -> bool:
    """Whether it is a violation at the end of a run: a deadlock, or a goal that is not reached."""
    return violation == STUCK or violation.endswith(NOT_REACHED)


def _fewer_machines(found: Machines) -> Iterator[Machines]:
    """Deployments with fewer machines of a role; those without events are removed first."""
    for number, part in enumerate(found.parts):
        for count in _list_fewer(part.count):
            parts = (*found.parts[:number], replace(part, count=count), *found.parts[number + 1 :])
            smaller = replace(found, parts=parts)
            if all(_is_there(smaller, places) for places in (*found.never, *([found.goal] if found.goal else []))):
                yield replace(smaller, deeds=tuple(_keep_deeds(found, smaller, part.name)))


def _keep_deeds(found: Machines, smaller: Machines, role: str) -> Iterator[Deed]:
    """The deeds that remain, with the new names of machines."""
    names = smaller.exchange.named[role].machines
    met = {part for deed in found.deeds for part in (deed.target, deed.target.rpartition(".")[0])}
    stay = sorted(found.exchange.named[role].machines, key=lambda name: name not in met)[: len(names)]
    gone = set(found.exchange.named[role].machines) - set(stay)
    renamed = dict(zip(stay, names, strict=True))
    known = {"any", "all", *smaller.exchange.named, *smaller.exchange.role_of}
    for deed in found.deeds:
        owner, dot, event = deed.target.rpartition(".") if deed.what == "event" else (deed.target, "", "")
        if owner not in gone and renamed.get(owner, owner) in known:
            owner = renamed.get(owner, owner)
            yield replace(deed, target=owner + dot + event)


def _is_there(found: Machines, places: str) -> bool:
    """Whether there are enough machines to take all of these places."""
    try:
        return bool(found.exchange.places(places))
    except InputError:
        return False


GROUPS: tuple[Callable[[Any], Iterator[Any]], ...] = (
    _fewer_services,
    _fewer_processes,
    _fewer_partitions,
    lambda found: _list_plainer(found, {"loses": 0.0}),
)
MACHINES: tuple[Callable[[Any], Iterator[Any]], ...] = (
    _fewer_machines,
    lambda found: _list_plainer(found, {"loses": 0.0}, {"duplicates": 0.0}, {"reorders": False}, {"latency": SAME}),
)
