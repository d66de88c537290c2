"""Deployments of your own machines as YAML; errors have `file:line`.

deployment: lift and doors       # marks the document
lasts: 1h
machines:
  door: {table: door.yaml, count: 3, happens: {PUSHED: 20s}}       # on average; 2s..5s: between these; or never
  lift: {table: lift.py:TABLE, happens: {ARRIVED: 2s..8s}}         # files are looked for beside this one
network: {least: 1ms, median: 2ms, p99: 20ms, most: 100ms, loses: 1%, duplicates: 0.1%, reorders: yes}
never: [door.OPEN, lift.MOVING]  # must not hold at once; several: [[...], [...]]
goal: [door.OPEN]                # must be reached after the last fault
plans:
- {at: 10m, event: door-0.PUSHED}
faults:
- {every: 10m, crash: any, for: 1s..20s}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os.path import normpath
from pathlib import Path
from typing import Any

from fsm.errors import InputError
from fsm.nodes import Node, nearest, short
from fsm.simulate import values
from fsm.simulate.deployment import Deed, Rate
from fsm.simulate.machines.deployment import DEEDS, NEVER, Delay, Machines, Part
from fsm.tables.files import find_table, is_file

KEYS = ("deployment", "lasts", "seed", "chance", "machines", "network", "never", "goal", "plans", "faults")
PART = ("table", "count", "happens")
DEED = ("at", "every", "from", "until", "for")
MOST_MACHINES, MOST_EVENTS = 100_000, 1_000_000_000
USUAL = Delay(10_000, 10_000, is_mean=True)
"""The default delay of external events."""


def read_machines(document: Node, folder: Path) -> Machines:
    """The deployment in a document. Raises `InputError` with the line for an invalid one."""
    given = document.fields(KEYS, ("deployment", "lasts", "machines"))
    frame, network = values.read_frame(given, ("duplicates", "reorders"))
    parts = tuple(_part(name, node, folder) for name, node in values.read_names(given["machines"]))
    if not parts:
        raise InputError("has no machine", given["machines"].where)
    if sum(part.count for part in parts) > MOST_MACHINES:
        raise InputError("too many machines", given["machines"].where, f"at most {MOST_MACHINES}")
    found = Machines(
        **frame,
        parts=parts,
        duplicates=values.share_of(network.get("duplicates")),
        reorders="reorders" in network and network["reorders"].flag(),
    )
    found = replace(found, **_read_questions(given, found))
    deeds, rates = values.list_deeds(given, lambda node: [_read_deed(node, found)])
    found = replace(found, deeds=deeds, rates=rates)
    _check_events(found, given["machines"])
    return found


def of_tables(names: list[str], lasts: str, never: tuple[str, ...], goal: str) -> Machines:
    """A machine of each of these tables, by name or file; external events come every ten seconds on average.

    Raises `InputError` for an unknown table, place, or an invalid duration.
    """
    lasts_ms = values.duration_of(Node(lasts, "--lasts", "--lasts"), least=1)
    tables = [(find_table(name), name) for name in names]
    title = " with ".join(table.name for table, _ in tables)
    plain = Machines(title, lasts_ms, tuple(Part(table.name, table, name) for table, name in tables))
    roles = plain.exchange.named
    parts = tuple(
        replace(part, happens={event.name: USUAL for event in plain.exchange.outside(roles[part.name])})
        for part in plain.parts
    )
    for places in (*never, *([goal] if goal else [])):
        plain.exchange.places(places)
    return replace(plain, parts=parts, never=never, goal=goal)


def _part(name: str, node: Node, folder: Path) -> Part:
    given = node.fields(PART, ("table",))
    source = given["table"].text()
    try:
        table = find_table(source, folder)
    except InputError as problem:
        raise InputError(problem.what, problem.where or given["table"].where, problem.remedy) from None
    if is_file(source, folder):
        source = normpath(folder / source)
    events = [event.name for event in table.alphabet]
    happens = {}
    for event, (key, value) in given["happens"].mapping().items() if "happens" in given else ():
        if event not in events:
            raise InputError(f"{name} has no event {short(event)}", key.where, nearest(event, events))
        happens[event] = _delay(value)
    return Part(name, table, source, values.count_of(given["count"], MOST_MACHINES) if "count" in given else 1, happens)


def _delay(node: Node) -> Delay:
    """A mean, two ends, or `never`."""
    if node.text() == "never":
        return NEVER
    if ".." in node.text():
        least, most = values.range_of(node)
        if not most:
            raise InputError(f"{short(node.text())} must not be 0", node.where, "1ms..5ms")
        return Delay(least, most)
    mean_ms = values.duration_of(node, least=1)
    return Delay(mean_ms, mean_ms, is_mean=True)


def _read_questions(given: Mapping[str, Node], found: Machines) -> dict[str, Any]:
    """Reads the exclusions and the goal."""
    asked: dict[str, Any] = {}
    if "never" in given:
        items = given["never"].items()
        alone = [] if any(isinstance(one.value, list) for one in items) else [items]
        several = alone or [one.items() for one in items]
        asked["never"] = tuple(_places(given["never"], places, found) for places in several)
    if "goal" in given:
        asked["goal"] = _places(given["goal"], given["goal"].items(), found, every=True)
    return asked


def _places(whole: Node, nodes: list[Node], found: Machines, *, every: bool = False) -> str:
    """Checks places in the form of `fsm.exchange`: each by itself, and then all together."""
    text = ",".join(node.text() for node in nodes)
    if not text:
        raise InputError("names no state", whole.where, "for example [door.OPEN, lift.MOVING]")
    for places, node in (*((node.text(), node) for node in nodes), (text, whole)):
        try:
            found.exchange.places(places, every=every)
        except InputError as problem:
            raise InputError(problem.what, node.where, problem.remedy) from None
    return text


def _read_deed(node: Node, found: Machines) -> Deed | Rate:
    what, given = values.choose_deed(node, DEEDS, DEED)
    target = "all" if what == "lose" else given[what].text()
    amount = values.share_of(given["lose"]) if what == "lose" else 0
    if what != "lose":
        _check_target(what, target, given[what], found)
    return values.time_deed(node, Deed(0, what, target, amount=amount), given, found.lasts_ms)


def _check_target(what: str, target: str, node: Node, found: Machines) -> None:
    """Raises `InputError` with the nearest name for an unknown machine, or one that lacks this external event."""
    roles = found.exchange.roles
    known = ("any", *(role.name for role in roles), *(name for role in roles for name in role.machines))
    owner, _, event = target.rpartition(".") if what == "event" else (target, "", "")
    if owner not in known:
        raise InputError(f"no machine {short(owner)}", node.where, nearest(owner, known))
    if what == "event":
        for machine in found.machines_of(owner):
            role = found.exchange.role_of[machine]
            outside = [one.name for one in found.exchange.outside(role)]
            if event not in outside:
                what = f"{short(event)} does not come to {role.name} from outside"
                raise InputError(what, node.where, nearest(event, outside))


def _check_events(found: Machines, machines: Node) -> None:
    """Raises `InputError` for an event with no source, for one that is also a message, and for too many of them."""
    named = [one.target for one in found.deeds if one.what == "event"]
    named += [one.target for one in found.rates if one.what == "event"]
    scripted = {
        (found.exchange.role_of[machine].name, target.rpartition(".")[2])
        for target in named
        for machine in found.machines_of(target.rpartition(".")[0])
    }
    for part in found.parts:
        outside = {event.name for event in found.exchange.outside(found.exchange.named[part.name])}
        node = machines.mapping()[part.name][1]
        for event, delay in part.happens.items():
            where = node.mapping()["happens"][1].mapping()[event][1].where
            if event not in outside:
                raise InputError(f"{part.name}.{event} is sent by another machine", where, "leave it out of `happens`")
            if part.count * found.lasts_ms > MOST_EVENTS * max(delay.most_ms, 1) and delay != NEVER:
                raise InputError(f"more than {MOST_EVENTS:,} events", where, "make it rarer, or the run shorter")
        missing = [event for event in sorted(outside - part.happens.keys()) if (part.name, event) not in scripted]
        if missing:
            raise InputError(
                f"nothing sends {part.name}.{missing[0]}: it is not an effect of a machine, and not in happens",
                node.where,
                f"happens: {{{missing[0]}: 10s}}, or never",
            )
