"""Deployments of your own machines as text that parses to the same."""

from __future__ import annotations

from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

from fsm.simulate.deployment import CHANCE
from fsm.simulate.machines.deployment import NEVER, Delay, Machines, Part
from fsm.simulate.values import LATENCY
from fsm.simulate.writing import show_ms, show_share, write_deed, write_rate
from fsm.tables.files import is_file


def write_machines(deployment: Machines, folder: Path) -> str:
    """The deployment as text that parses to the same in that folder; tables are named as files relative to it."""
    network: dict[str, Any] = dict(zip(LATENCY, map(show_ms, deployment.latency), strict=True))
    for key in ("loses", "duplicates"):
        if share := getattr(deployment, key):
            network[key] = show_share(share)
    if deployment.reorders:
        network["reorders"] = True
    document = {
        "deployment": deployment.name,
        "lasts": show_ms(deployment.lasts_ms),
        "seed": deployment.seed,
        "chance": CHANCE,
        "machines": {part.name: _write_part(part, folder) for part in deployment.parts},
        "network": network,
        "never": [places.split(",") for places in deployment.never],
        "goal": deployment.goal.split(",") if deployment.goal else [],
        "faults": [*map(write_deed, deployment.deeds), *map(write_rate, deployment.rates)],
    }
    kept = {key: value for key, value in document.items() if value != []}
    text: str = yaml.safe_dump(kept, sort_keys=False, default_flow_style=None, width=110)
    return text


def _write_part(part: Part, folder: Path) -> dict[str, Any]:
    source = relpath(part.source, folder) if is_file(part.source) else part.source
    found: dict[str, Any] = {"table": source, "happens": {n: _show(delay) for n, delay in part.happens.items()}}
    if part.count > 1:
        found["count"] = part.count
    return {key: value for key, value in found.items() if value != {}}


def _show(delay: Delay) -> str:
    if delay == NEVER:
        return "never"
    return show_ms(delay.least_ms) if delay.is_mean else f"{show_ms(delay.least_ms)}..{show_ms(delay.most_ms)}"
