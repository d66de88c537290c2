"""Smaller deployments of your own machines, candidates for shrinking a failing run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fsm.cluster.network import Latency
from fsm.errors import InputError
from fsm.simulate.deployment import Deed
from fsm.simulate.machines.deployment import NEVER, Machines
from fsm.simulate.machines.run import NOT_REACHED, STUCK, MachinesRun

SAME = Latency(10, 10, 10, 10)
"""A constant latency."""


def script(found: Machines) -> Machines:
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


def is_of_the_end(violation: str) -> bool:
    """Whether it is a violation at the end of a run: a deadlock, or a goal that is not reached."""
    return violation == STUCK or violation.endswith(NOT_REACHED)


def fewer_machines(found: Machines) -> Iterator[Machines]:
    """Deployments with fewer machines of a role; those without events are removed first."""
    for number, part in enumerate(found.parts):
        for count in dict.fromkeys((part.count // 2, part.count - 1)):
            if count >= 1:
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


def plainer_machines(found: Machines) -> Iterator[Machines]:
    """Deployments with a less random network, or with faults of whole seconds."""
    for plainer in (
        replace(found, loses=0.0),
        replace(found, duplicates=0.0),
        replace(found, reorders=False),
        replace(found, latency=SAME),
    ):
        if plainer != found:
            yield plainer
    shorter = tuple(
        replace(deed, for_ms=deed.for_ms // 1_000 * 1_000) if deed.for_ms > 1_000 else deed for deed in found.deeds
    )
    if shorter != found.deeds:
        yield replace(found, deeds=shorter)
