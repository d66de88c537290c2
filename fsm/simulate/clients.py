"""The clients of a service: their settings and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from fsm.cluster.client import CLASSIC as STRATEGIES
from fsm.connect.worker.config import ConnectConfig
from fsm.coordinator.model.context import BrokerConfig
from fsm.errors import InputError
from fsm.member.classic.state import ClassicConfig
from fsm.nodes import nearest
from fsm.protocol.config import ConsumerConfig
from fsm.simulate.deployment import CLASSIC, CONNECT, CONSUMER, Service

CONSUMER_ASSIGNORS = ("uniform", "range")
C = TypeVar("C", bound=ConsumerConfig)


def keys_of(config: type) -> list[str]:
    return [one.name.replace("_", ".") for one in fields(config) if one.type in ("int", "bool", "str", int, bool, str)]


def check_service(service: Service, where: str) -> None:
    """Raises `InputError` if the service's client would refuse its settings."""
    try:
        CONFIGS[service.protocol](service)
    except InputError as problem:
        what = f"{problem.where}: {problem.what}" if problem.where else problem.what
        raise InputError(what, where, problem.remedy) from None


def _settings_for(config: type, service: Service) -> dict[str, str]:
    """The service's settings, all of which this kind of client has. Raises `InputError` for another's."""
    known = keys_of(config)
    for key in service.settings:
        if key not in known:
            of_brokers, settings = f"group.consumer.{key}", BrokerConfig.keys()
            is_theirs = service.protocol == CONSUMER and of_brokers in settings
            remedy = f"set the brokers' {of_brokers}" if is_theirs else nearest(key, known)
            raise InputError(f"no setting of a {service.protocol} client", key, remedy)
    return dict(service.settings)


def _make(config: type[C], service: Service, name: str, assignors: Sequence[str]) -> C:
    """The settings of one of its members, which has one of these assignors."""
    if service.assignor and service.assignor not in assignors:
        what = f"no assignor {service.assignor!r} of this protocol"
        raise InputError(what, "assignor", nearest(service.assignor, assignors))
    settings = {"enable.auto.commit": "false", **_settings_for(config, service), "group.id": service.group}
    found: Any = config.of({**settings, "client.id": name})
    made: C = replace(found, group_instance_id=name if service.static and name else None)
    return made


def consumer_config(service: Service, name: str = "") -> ConsumerConfig:
    """The settings of one of its members."""
    config = _make(ConsumerConfig, service, name, CONSUMER_ASSIGNORS)
    return replace(config, group_remote_assignor=service.assignor or None)


def classic_config(service: Service, name: str = "") -> ClassicConfig:
    """The settings of one of its members, if they use the classic protocol."""
    config = _make(ClassicConfig, service, name, tuple(STRATEGIES))
    return replace(config, assignors=STRATEGIES[service.assignor]) if service.assignor else config


def connect_config(service: Service) -> ConnectConfig:
    """The settings of its workers."""
    values: dict[str, Any] = {}
    for key, text in _settings_for(ConnectConfig, service).items():
        values[key.replace(".", "_")] = int(text) if text.isdigit() else text
    return ConnectConfig(service.group, **values)


CONFIGS: Mapping[str, Callable[[Service], object]] = {
    CONSUMER: consumer_config,
    CLASSIC: classic_config,
    CONNECT: connect_config,
}
