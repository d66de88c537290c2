"""The clients of a service: their settings and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from fsm.cluster.client import CLASSIC as STRATEGIES
from fsm.connect.worker.config import ConnectConfig
from fsm.coordinator.model.context import BrokerConfig
from fsm.errors import InputError
from fsm.member.classic.state import ClassicConfig
from fsm.nodes import nearest
from fsm.protocol.config import ConsumerConfig
from fsm.simulate.deployment import CLASSIC, CONNECT, CONSUMER, Service

CONSUMER_ASSIGNORS = ("uniform", "range")


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


def consumer_config(service: Service, name: str = "") -> ConsumerConfig:
    """The settings of one of its members."""
    _check_assignor(service, CONSUMER_ASSIGNORS)
    settings = {"enable.auto.commit": "false", **_settings_for(ConsumerConfig, service), "group.id": service.group}
    config = ConsumerConfig.of({**settings, "client.id": name})
    return replace(
        config,
        group_instance_id=name if service.static and name else None,
        group_remote_assignor=service.assignor or None,
    )


def classic_config(service: Service, name: str = "") -> ClassicConfig:
    """The settings of one of its members, if they use the classic protocol."""
    _check_assignor(service, tuple(STRATEGIES))
    settings = {"enable.auto.commit": "false", **_settings_for(ClassicConfig, service), "group.id": service.group}
    config = ClassicConfig.of({**settings, "client.id": name})
    assert isinstance(config, ClassicConfig)  # noqa: S101  # `of` makes its own class
    assignors = STRATEGIES[service.assignor] if service.assignor else config.assignors
    return replace(config, group_instance_id=name if service.static and name else None, assignors=assignors)


def connect_config(service: Service) -> ConnectConfig:
    """The settings of its workers."""
    values: dict[str, Any] = {}
    for key, text in _settings_for(ConnectConfig, service).items():
        values[key.replace(".", "_")] = int(text) if text.isdigit() else text
    return ConnectConfig(service.group, **values)


def _check_assignor(service: Service, known: tuple[str, ...]) -> None:
    if service.assignor and service.assignor not in known:
        raise InputError(
            f"no assignor {service.assignor!r} of this protocol", "assignor", nearest(service.assignor, known)
        )


CONFIGS: Mapping[str, Callable[[Service], object]] = {
    CONSUMER: consumer_config,
    CLASSIC: classic_config,
    CONNECT: connect_config,
}
