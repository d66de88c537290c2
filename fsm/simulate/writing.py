"""Deployments as text that parses to the same: of Kafka's groups, and of your own machines."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

from fsm.simulate.deployment import CHANCE, Deed, Deployment, Rate, Service
from fsm.simulate.machines.deployment import NEVER, Delay, Machines, Part
from fsm.simulate.values import LATENCY, show_ms
from fsm.tables.files import is_file


def write(deployment: Deployment) -> str:
    """The deployment as text that parses to the same; `write_machines` is for your own machines."""
    latency = dict(zip(LATENCY, map(show_ms, deployment.latency), strict=True))
    parts = {
        "topics": dict(deployment.topics),
        "brokers": {b.name: _prune(release=b.release, settings=dict(b.settings)) for b in deployment.brokers.values()},
        "network": {**latency, "loses": show_share(deployment.loses)},
        "skews": {name: show_ms(ms) for name, ms in deployment.skews_ms.items()},
        "services": {service.name: _write_service(service) for service in deployment.services.values()},
    }
    return _write_document(deployment, parts)


def _write_document(deployment: Deployment | Machines, parts: Mapping[str, Any]) -> str:
    """The document with these parts and what all deployments have."""
    document = {
        "deployment": deployment.name,
        "lasts": show_ms(deployment.lasts_ms),
        "seed": deployment.seed,
        "chance": CHANCE,
        **parts,
        "faults": [*map(write_deed, deployment.deeds), *map(write_rate, deployment.rates)],
    }
    kept = {key: value for key, value in document.items() if value not in ({}, [])}
    text: str = yaml.safe_dump(kept, sort_keys=False, default_flow_style=None, width=110)
    return text


def _prune(**given: Any) -> dict[str, Any]:
    return {key.rstrip("_"): value for key, value in given.items() if value not in ("", 0, {}, [], False, None)}


def show_share(share: float) -> str:
    """A share in the form in which it is parsed."""
    return f"{share:.9f}".rstrip("0").rstrip(".") or "0"


def _write_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    found = {"poll" if key == "poll_ms" else key: value for key, value in changes.items() if value != ""}
    if "poll" in found:
        found["poll"] = show_ms(found["poll"])
    for key, kind in (("topics", list), ("settings", dict)):
        if key in found:
            found[key] = kind(found[key])
    return found


def _write_service(one: Service) -> dict[str, Any]:
    own = {name: getattr(one, name) for name in ("topics", "protocol", "release", "assignor", "static", "settings")}
    numbers = _prune(
        group=one.group if one.group != one.name else "", processes=one.processes, members=one.members, hosts=one.hosts
    )
    starts = {"starts": show_ms(one.starts_ms)} if one.starts_ms else {}
    connectors = {"connectors": dict(one.connectors)} if one.connectors else {}
    return {**numbers, **_prune(**_write_changes({**own, "poll_ms": one.poll_ms})), **starts, **connectors}


def write_deed(one: Deed) -> dict[str, Any]:
    """A deed in the form of a document."""
    found: dict[str, Any] = {"at": show_ms(one.at_ms), one.what: one.target}
    found |= _write_amount(one.what, one.target, one.amount)
    if one.for_ms:
        found["for"] = show_ms(one.for_ms)
    if one.what == "upgrade":
        found["release"] = one.changes["release"]
    elif one.changes:
        found["with"] = _write_changes(one.changes)
    return found


def write_rate(one: Rate) -> dict[str, Any]:
    """Deeds at a rate in the form of a document."""
    found = {"every": show_ms(one.every_ms), one.what: one.target, "from": show_ms(one.from_ms)}
    found |= {"until": show_ms(one.until_ms), **_write_amount(one.what, one.target, one.amount)}
    if one.for_ms != (0, 0):
        found["for"] = "..".join(map(show_ms, one.for_ms))
    return found


def _write_amount(what: str, target: str, amount: float) -> dict[str, Any]:
    if what == "lose":
        return {"lose": show_share(amount)}
    if what == "grow":
        return {"grow": target, "partitions": int(amount)}
    return {"by": show_ms(int(amount))} if what == "clock_back" else {}


def write_machines(deployment: Machines, folder: Path) -> str:
    """The deployment as text that parses to the same in that folder; tables are named as files relative to it."""
    network: dict[str, Any] = dict(zip(LATENCY, map(show_ms, deployment.latency), strict=True))
    for key in ("loses", "duplicates"):
        if share := getattr(deployment, key):
            network[key] = show_share(share)
    if deployment.reorders:
        network["reorders"] = True
    parts = {
        "machines": {part.name: _write_part(part, folder) for part in deployment.parts},
        "network": network,
        "never": [places.split(",") for places in deployment.never],
        "goal": deployment.goal.split(",") if deployment.goal else [],
    }
    return _write_document(deployment, parts)


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
