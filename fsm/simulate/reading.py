"""Deployments as YAML; errors have `file:line`.

deployment: shop                 # marks the document
lasts: 1h
topics: {orders: 12}
brokers: {b1: {release: 4.4, settings: {group.consumer.session.timeout.ms: 45000}}}
network: {least: 1ms, median: 2ms, p99: 20ms, most: 100ms, loses: 0.01%}
skews: {checkout-host-0: 200ms}
services:
  checkout: {topics: [orders], processes: 4, members: 2, release: 4.4, settings: {max.poll.interval.ms: 300000}}
plans:
- {at: 10m, restart: checkout, each: 20s, at_once: 1, away: 5s, with: {release: 4.4}}
faults:
- {at: 12m, crash: checkout-2, away: 30s}
- {every: 10m, pause: any, for: 1s..20s}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fsm.cluster.client import CLASSIC as STRATEGIES
from fsm.connect.worker.config import ConnectConfig
from fsm.coordinator.model.context import BrokerConfig
from fsm.coordinator.model.dialect import dialect as broker_dialect
from fsm.errors import InputError
from fsm.member.classic.state import ClassicConfig
from fsm.member.dialect.dialect import dialect as client_dialect
from fsm.nodes import Node, nearest, read_text, short, yaml_node
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.releases import LATEST
from fsm.simulate import values
from fsm.simulate.clients import CONSUMER_ASSIGNORS, check_service, keys_of
from fsm.simulate.deployment import CONNECT, DEEDS, PROTOCOLS, Broker, Deed, Deployment, Rate, Service
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.machines.reading import read_machines

KEYS = ("deployment", "lasts", "seed", "chance", "topics", "brokers", "network", "skews", "services", "plans", "faults")
MOST_MEMBERS, MOST_PARTITIONS = 100_000, 1_000_000


def read_file(path: Path) -> Deployment | Machines:
    """The deployment in a file; tables are looked up relative to it. Raises `InputError` for an invalid one."""
    return read(read_text(path, "the deployment", "a deployment file"), str(path), path.parent)


def read(text: str, where: str, folder: Path | None = None) -> Deployment | Machines:
    """The deployment in a text. Raises `InputError` with the line."""
    return read_node(yaml_node(text, where, "deployment"), folder)


def read_node(document: Node, folder: Path | None = None) -> Deployment | Machines:
    """The deployment in a parsed document: of your own machines if it has any, else of Kafka's groups."""
    if "machines" in document.mapping():
        return read_machines(document, folder or Path())
    return read_groups(document)


def read_groups(document: Node) -> Deployment:
    """A deployment of Kafka's groups. Raises `InputError` with the line for an invalid one."""
    given = document.fields(KEYS, ("deployment", "lasts", "services"))
    topics = {name: values.count_of(node, MOST_PARTITIONS) for name, node in values.read_names(given.get("topics"))}
    brokers = {name: _broker(name, node) for name, node in values.read_names(given.get("brokers"))}
    services = {name: _service(name, node, topics) for name, node in values.read_names(given["services"])}
    if not services:
        raise InputError("has no service", given["services"].where)
    for service in services.values():
        same = [one.name for one in services.values() if one.group == service.group]
        if service.protocol == CONNECT and len(same) > 1:
            raise InputError(f"{' and '.join(same)} share a group", given["services"].where, "Connect has its own")
    members = sum(service.processes * service.members for service in services.values())
    if members > MOST_MEMBERS:
        raise InputError(f"{members} members", given["services"].where, f"at most {MOST_MEMBERS}")
    skews = {name: values.duration_of(node, signed=True) for name, node in values.read_names(given.get("skews"))}
    frame, _ = values.read_frame(given)
    found = Deployment(
        **frame, services=services, topics=topics, brokers=brokers or {"b1": Broker("b1")}, skews_ms=skews
    )
    _check_skews(found, given.get("skews"))
    deeds, rates = values.list_deeds(given, lambda node: _read_deed(node, found))
    return replace(found, deeds=deeds, rates=rates)


# Parts


def _broker(name: str, node: Node) -> Broker:
    given = node.fields(("release", "settings"))
    release = _release(given["release"], broker_dialect) if "release" in given else LATEST
    settings = _settings(given["settings"], BrokerConfig.keys(), BrokerConfig.of) if "settings" in given else {}
    return Broker(name, release, settings)


def _read_topics(node: Node, topics: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted({values.one_of(topic, tuple(topics)) for topic in node.items()}))


def _read_settings(node: Node, _topics: Mapping[str, int]) -> dict[str, str]:
    keys = {name for one in (ConsumerConfig, ClassicConfig, ConnectConfig) for name in keys_of(one)}
    return _settings(node, sorted(keys), lambda _: None)


CHANGES: Mapping[str, tuple[str, Callable[[Node, Mapping[str, int]], object]]] = {
    "topics": ("topics", _read_topics),
    "protocol": ("protocol", lambda node, _: values.one_of(node, PROTOCOLS)),
    "release": ("release", lambda node, _: _release(node, client_dialect)),
    "assignor": ("assignor", lambda node, _: values.one_of(node, (*STRATEGIES, *CONSUMER_ASSIGNORS))),
    "static": ("static", lambda node, _: node.flag()),
    "settings": ("settings", _read_settings),
    "poll": ("poll_ms", lambda node, _: values.duration_of(node, least=1)),
}
"""The keys of a service that a plan may change, too: the field of each, and its parser with the topics of all."""
SERVICE: Mapping[str, tuple[str, Callable[[Node, Mapping[str, int]], object]]] = {
    "processes": ("processes", lambda node, _: values.count_of(node, MOST_MEMBERS)),
    "members": ("members", lambda node, _: values.count_of(node, MOST_MEMBERS)),
    "starts": ("starts_ms", lambda node, _: values.duration_of(node)),
    "connectors": ("connectors", lambda node, _: {n: values.count_of(v, 10_000) for n, v in values.read_names(node)}),
    **CHANGES,
}
KEYS_OF_SERVICE = (
    "group", "topics", "protocol", "processes", "members", "hosts", "release", "assignor", "static", "settings",
    "poll", "starts", "connectors",
)  # fmt: skip


def _service(name: str, node: Node, topics: Mapping[str, int]) -> Service:
    given = node.fields(KEYS_OF_SERVICE)
    group = given["group"].text() if "group" in given else name
    service = Service(name, group, **_read_fields(SERVICE, given, topics))
    if "hosts" in given:
        service = replace(service, hosts=values.count_of(given["hosts"], service.processes))
    if service.protocol == CONNECT:
        if service.topics or not service.connectors:
            raise InputError("a Connect service has connectors, not topics", node.where)
    elif not service.topics or service.connectors:
        raise InputError("a consumer service has topics, not connectors", node.where)
    check_service(service, node.where)
    return service


def _read_fields(table: Mapping[str, Any], given: Mapping[str, Node], topics: Mapping[str, int]) -> dict[str, Any]:
    return {field: read(given[key], topics) for key, (field, read) in table.items() if key in given}


# Deeds

DEED = ("at", "every", "from", "until", "for", "away", "each", "at_once", "with", "partitions", "by", "release")
ON_PROCESSES = ("crash", "restart", "stop", "pause", "slow", "cut")
ON_BROKERS = ("fail_over", "upgrade", "clock_back")


def _read_deed(node: Node, deployment: Deployment) -> Sequence[Deed | Rate]:
    what, given = values.choose_deed(node, DEEDS, DEED)
    amount = _amount(what, given, deployment)
    target = "all" if what == "lose" else given[what].text()
    _check_target(what, target, given[what], deployment)
    once = ("grow", "upgrade", "begin", "stop")
    done = values.time_deed(node, Deed(0, what, target, amount=amount), given, deployment.lasts_ms, once=once)
    if isinstance(done, Rate):
        return [done]
    return _spread(replace(done, changes=_read_changes(what, given, deployment)), given, deployment)


def _spread(one: Deed, given: Mapping[str, Node], deployment: Deployment) -> list[Deed]:
    """The deeds for each process or broker of a target: several at once, at an interval."""
    each_ms = values.duration_of(given["each"]) if "each" in given else 0
    at_once = values.count_of(given["at_once"], MOST_MEMBERS) if "at_once" in given else 1
    targets = [one.target]
    if one.what in ON_PROCESSES:
        targets = [service.process(number) for service, number in deployment.processes_of(one.target)] or targets
    elif one.what in ON_BROKERS and one.target == "brokers":
        targets = list(deployment.brokers)
    return [replace(one, target=t, at_ms=one.at_ms + i // at_once * each_ms) for i, t in enumerate(targets)]


def _amount(what: str, given: Mapping[str, Node], deployment: Deployment) -> float:
    if what == "lose":
        return values.share_of(given["lose"])
    if what == "grow":
        if "partitions" not in given:
            raise InputError("the key 'partitions' is missing", given["grow"].where)
        count, topic = values.count_of(given["partitions"], MOST_PARTITIONS), given["grow"].text()
        if count <= deployment.topics.get(topic, 0):
            raise InputError(
                f"{topic} has {deployment.topics[topic]} partitions", given["partitions"].where, "say more"
            )
        return count
    if what == "clock_back":
        if "by" not in given:
            raise InputError("the key 'by' is missing", given["clock_back"].where)
        return values.duration_of(given["by"], least=1)
    return 0


def _read_changes(what: str, given: Mapping[str, Node], deployment: Deployment) -> dict[str, object]:
    if what == "upgrade":
        if "release" not in given:
            raise InputError("the key 'release' is missing", given["upgrade"].where)
        return {"release": _release(given["release"], broker_dialect)}
    if "with" not in given:
        return {}
    if what != "restart":
        raise InputError("with is only for restart", given["with"].where)
    changes = _read_fields(CHANGES, given["with"].fields(tuple(CHANGES)), deployment.topics)
    for service, _ in deployment.processes_of(given[what].text())[:1]:
        changed = replace(service, **changes)
        if "protocol" in changes and "assignor" not in changes:
            changes["assignor"] = ""
            changed = replace(changed, assignor="")
        check_service(changed, given["with"].where)
    return changes


def _check_target(what: str, target: str, node: Node, deployment: Deployment) -> None:
    """Raises `InputError` with the nearest name for an unknown part of the deployment."""
    services = deployment.services.values()
    processes = [service.process(i) for service in services for i in range(service.processes)]
    if what in ON_PROCESSES:
        hosts = [service.host(i) for service in services for i in range(service.processes)]
        known = ("any", *deployment.services, *processes, *dict.fromkeys(hosts))
    elif what in ON_BROKERS:
        known = (*deployment.brokers, "brokers")
    elif what == "grow":
        known = tuple(deployment.topics)
    elif what == "begin":
        name, _, number = target.rpartition("-")
        if name in deployment.services and number.isascii() and number.isdigit() and int(number) < MOST_MEMBERS:
            return
        known = tuple(processes)
    else:
        return
    if target not in known:
        raise InputError(f"no {short(target)} to {what.replace('_', ' ')}", node.where, nearest(target, known))


def _check_skews(deployment: Deployment, node: Node | None) -> None:
    hosts = [service.host(i) for service in deployment.services.values() for i in range(service.processes)]
    for name, (key, _) in node.mapping().items() if node else ():
        if name not in hosts:
            raise InputError(f"no host {short(name)}", key.where, nearest(name, list(dict.fromkeys(hosts))))


# Values


def _release(node: Node, find: Callable[[str], Any]) -> str:
    try:
        return str(find(node.text()).name)
    except InputError as problem:
        raise InputError(problem.what, node.where, problem.remedy) from None


def _settings(node: Node, known: Any, check: Callable[[dict[str, str]], object]) -> dict[str, str]:
    found = {}
    for name, (key, value) in node.mapping().items():
        if name not in known:
            raise InputError(f"unknown setting {short(name)}", key.where, nearest(name, tuple(known)))
        found[name] = value.text()
        try:
            check({name: found[name]})
        except InputError as problem:
            raise InputError(f"{name} {problem.what}", value.where, problem.remedy) from None
    return found
