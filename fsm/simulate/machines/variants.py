"""Variants of a deployment of your own machines: another table of a role, another network."""

from __future__ import annotations

from dataclasses import replace

from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.values import share_of
from fsm.tables.files import find_table

SHARES = ("loses", "duplicates")


def vary_machines(deployment: Machines, variant: str) -> Machines:
    """The deployment changed by a variant, a comma-separated list such as `loses=5%,door=mended.yaml`.

    Raises `InputError` for an unknown word, and for a table with other external events.
    """
    where = f"--compare {variant}"
    for word in variant.split(","):
        key, _, value = word.strip().partition("=")
        if key in SHARES:
            share = share_of(Node(value, where, where))
            deployment = replace(deployment, loses=share) if key == "loses" else replace(deployment, duplicates=share)
        elif key in deployment.exchange.named:
            deployment = _with_table(deployment, key, value, where)
        else:
            known = (*SHARES, *deployment.exchange.named)
            raise InputError(f"unknown variant {key!r}", where, nearest(key, known))
    return deployment


def _with_table(deployment: Machines, role: str, source: str, where: str) -> Machines:
    table = find_table(source)
    parts = tuple(replace(part, table=table, source=source) if part.name == role else part for part in deployment.parts)
    found = replace(deployment, parts=parts)
    for part in found.parts:
        outside = {event.name for event in found.exchange.outside(found.exchange.named[part.name])}
        for event in sorted(outside - part.happens.keys()):
            raise InputError(f"nothing sends {part.name}.{event}", where, "add it to happens in the deployment")
    happens = {part.name: {event.name for event in part.table.alphabet} for part in found.parts}
    kept = (
        replace(part, happens={name: delay for name, delay in part.happens.items() if name in happens[part.name]})
        for part in found.parts
    )
    return replace(found, parts=tuple(kept))
