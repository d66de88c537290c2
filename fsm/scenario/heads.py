"""How a scenario begins: its release, the broker's settings, the topics that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Protocol

from fsm.coordinator.model.context import BrokerConfig
from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.members import PARTITIONS_LIMIT
from fsm.scenario.words import texts


class Named(Protocol):
    """A dialect of whatever part."""

    @property
    def name(self) -> str:
        """Its full name."""


def release_of(given: Mapping[str, Node], dialect: str | None, releases: Callable[..., Named]) -> str:
    """The full name of the release: `dialect`, or the one that the file names, or the latest.

    Raises `InputError` with the line of the file for one that `releases` does not know.
    """
    if dialect is not None:
        return releases(dialect).name
    if "dialect" not in given:
        return releases().name
    try:
        return releases(given["dialect"].text()).name
    except InputError as problem:
        raise InputError(problem.what, given["dialect"].where, problem.remedy) from None


def broker_config(node: Node, otherwise: BrokerConfig | None = None) -> BrokerConfig:
    """The broker's settings: those that the file names, the others as they are by default."""
    kinds = {field.name: str(field.type) for field in fields(BrokerConfig) if field.name != "groups"}
    given = node.fields(tuple(kinds))
    values: dict[str, Any] = {name: _setting(kinds[name], value) for name, value in given.items()}
    return replace(otherwise or BrokerConfig(), **values)


def _setting(kind: str, node: Node) -> Any:
    if kind.startswith("tuple"):
        return texts(node)
    return node.number() if kind == "int" else node.text()


def topic_counts(node: Node) -> dict[str, int]:
    """Topics with the number of their partitions."""
    found = {name: value.number() for name, (_, value) in node.mapping().items()}
    if min(found.values(), default=1) < 1 or sum(found.values()) > PARTITIONS_LIMIT:
        raise InputError(f"a topic has at least one partition, all together {PARTITIONS_LIMIT}", node.where)
    return found
