"""Shrinks a failing run: fewer faults, processes, members and partitions, and less time, but still a failure.

Delta debugging (Zeller and Hildebrandt, 2002) of events, halving of the rest. The fate of a message and the target of a
fault depend only on the seed and on names, so removing parts mostly changes nothing for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fsm.simulate.deployment import Deed, Deployment
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.machines.shrink import fewer_machines, is_of_the_end, plainer_machines, script
from fsm.simulate.run import simulate
from fsm.simulate.schedule import expand

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
        if isinstance(self.found, Machines) and (at_once := {one for one in self.what if not is_of_the_end(one)}):
            self.what = frozenset(at_once)
            self._cut_time()
            self._fails(script(self.found))
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
            count = getattr(service, key)
            for fewer in dict.fromkeys((count // 2, count - 1)):
                if fewer >= 1:
                    changed = replace(service, **{key: fewer}, hosts=0)
                    gone = {service.process(i) for i in range(changed.processes, service.processes)}
                    deeds = tuple(deed for deed in found.deeds if deed.target not in gone)
                    services = {**found.services, name: changed}
                    yield replace(found, services=services, deeds=deeds, skews_ms={})


def _fewer_partitions(found: Deployment) -> Iterator[Deployment]:
    for name, count in found.topics.items():
        for fewer in dict.fromkeys((count // 2, count - 1)):
            if fewer >= 1:
                yield replace(found, topics={**found.topics, name: fewer})


def _plainer_network(found: Deployment) -> Iterator[Deployment]:
    if found.loses:
        yield replace(found, loses=0.0)
    shorter = tuple(_shorter(deed) for deed in found.deeds)
    if shorter != found.deeds:
        yield replace(found, deeds=shorter)


def _shorter(deed: Deed) -> Deed:
    """A round number of seconds."""
    return replace(deed, for_ms=deed.for_ms // 1_000 * 1_000) if deed.for_ms > 1_000 else deed


def _without(deeds: tuple[Deed, ...], size: int) -> Iterator[tuple[Deed, ...]]:
    """The deeds without this many of them, from each position on."""
    for at in range(0, len(deeds), size):
        yield deeds[:at] + deeds[at + size :]


GROUPS: tuple[Callable[[Any], Iterator[Any]], ...] = (
    _fewer_services,
    _fewer_processes,
    _fewer_partitions,
    _plainer_network,
)
MACHINES: tuple[Callable[[Any], Iterator[Any]], ...] = (fewer_machines, plainer_machines)
