"""Variants of a deployment: with another release, protocol, assignor or setting.

A variant is a comma-separated list: a release of brokers and clients; `client=4.0`, `broker=4.4`, `protocol=classic`,
`assignor=range`, `static=yes` or Kafka's own keys (`session.timeout.ms=10000`); of machines of your own
`door=mended.yaml` (another table) or `loses=5%` (the network).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fsm.coordinator.model.context import BrokerConfig
from fsm.coordinator.model.dialect import dialect as broker_dialect
from fsm.errors import InputError
from fsm.member.classic.state import ClassicConfig
from fsm.member.dialect.dialect import dialect as client_dialect
from fsm.nodes import FLAGS, Node, nearest
from fsm.protocol.config import ConsumerConfig
from fsm.simulate.clients import check_service, keys_of
from fsm.simulate.deployment import CLASSIC, CONNECT, CONSUMER, Deployment, Service
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.values import share_of
from fsm.tables.files import find_table

Simulated = Deployment | Machines
WORDS = ("client", "broker", "protocol", "assignor", "static")


def vary(deployment: Simulated, variant: str) -> Simulated:
    """The deployment changed by a variant. Raises `InputError` for an unknown word."""
    if isinstance(deployment, Machines):
        return _vary_machines(deployment, variant)
    return _vary_groups(deployment, variant)


def _vary_groups(deployment: Deployment, variant: str) -> Deployment:
    words = [word.strip() for word in variant.split(",")]
    for word in sorted(words, key=_is_setting):  # the protocols decide whose setting it is
        deployment = _vary(deployment, word, variant)
    for service in deployment.services.values():
        check_service(service, f"--compare {variant}")
    for deed in deployment.deeds:
        changes: dict[str, Any] = dict(deed.changes)
        for service, _ in deployment.processes_of(deed.target) if changes else ():
            check_service(replace(service, **changes), f"--compare {variant}")
    return deployment


def _is_setting(word: str) -> bool:
    key, given, _ = word.partition("=")
    return bool(given) and key not in WORDS


def _vary(deployment: Deployment, word: str, variant: str) -> Deployment:
    key, given, value = word.partition("=")
    where = f"--compare {variant}"
    if not given:
        key, value = "both", word
    try:
        if key in ("both", "broker"):
            release = broker_dialect(value).name
            brokers = {name: replace(one, release=release) for name, one in deployment.brokers.items()}
            deployment = replace(deployment, brokers=brokers)
        if key in ("both", "client"):
            deployment = _with(deployment, release=client_dialect(value).name)
    except InputError as problem:
        raise InputError(problem.what, where, problem.remedy) from None
    if key == "protocol":
        if value not in (CONSUMER, CLASSIC):
            raise InputError(f"unknown protocol {value!r}", where, f"{CONSUMER} or {CLASSIC}")
        return _with(deployment, protocol=value, assignor="")
    if key == "assignor":
        return _with(deployment, assignor=value)
    if key == "static":
        if value not in FLAGS:
            raise InputError(f"{value!r} is neither yes nor no", where)
        return _with(deployment, static=FLAGS[value])
    return deployment if key in ("both", "broker", "client") else _set(deployment, key, value, where)


def _with(deployment: Deployment, **changes: Any) -> Deployment:
    """Changes all services except Connect clusters."""
    services = {
        name: service if service.protocol == CONNECT else replace(service, **changes)
        for name, service in deployment.services.items()
    }
    return replace(deployment, services=services)


def _set(deployment: Deployment, key: str, value: str, where: str) -> Deployment:
    """Changes a setting of brokers, or of clients.

    With clients of both protocols it changes the corresponding setting of each: a broker sets the sessions and
    heartbeats of consumers.
    """
    of_brokers, clients = BrokerConfig.keys(), keys_of(ClassicConfig)
    if key in of_brokers:
        return _set_on_brokers(deployment, key, value, where)
    if key not in clients:
        known = (*WORDS, *of_brokers, *clients)
        raise InputError(f"unknown setting {key!r}", where, nearest(key, known))
    there = {one.protocol for one in deployment.services.values()}
    takes: tuple[str, ...] = (CLASSIC, CONSUMER)
    of_consumers = f"group.consumer.{key}"
    if there.issuperset(takes) and key not in keys_of(ConsumerConfig) and of_consumers in of_brokers:
        deployment = _set_on_brokers(deployment, of_consumers, value, where)
        takes = (CLASSIC,)
    services: dict[str, Service] = {
        name: replace(one, settings={**one.settings, key: value}) if one.protocol in takes else one
        for name, one in deployment.services.items()
    }
    return replace(deployment, services=services)


def _set_on_brokers(deployment: Deployment, key: str, value: str, where: str) -> Deployment:
    try:
        BrokerConfig.of({key: value})
    except InputError as problem:
        raise InputError(f"{key} {problem.what}", where, problem.remedy) from None
    brokers = {name: replace(one, settings={**one.settings, key: value}) for name, one in deployment.brokers.items()}
    return replace(deployment, brokers=brokers)


SHARES = ("loses", "duplicates")


def _vary_machines(deployment: Machines, variant: str) -> Machines:
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
