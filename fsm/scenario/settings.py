"""How a scenario begins: its release, the settings of its brokers and clients, the topics that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar

from fsm.coordinator.model.context import BrokerConfig
from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.texts import read_texts

PARTITIONS_LIMIT = 100_000
"""More of them in all topics are no scenario."""


class Named(Protocol):
    """A dialect of whatever part."""

    @property
    def name(self) -> str:
        """Its full name."""


D = TypeVar("D", bound=Named)


def with_key(key: str) -> Callable[[Node], bool]:
    """Whether a document has this key: how most kinds of scenario are told apart."""
    return lambda document: isinstance(document.value, dict) and key in document.value


def read_dialect(given: Mapping[str, Node], dialect: str | None, find: Callable[..., D]) -> D:
    """The dialect of that name, or the one that the file names, or what `find()` gives.

    Raises `InputError` with the line of the file for one that `find` does not know.
    """
    if dialect is not None:
        return find(dialect)
    if "dialect" not in given:
        return find()
    try:
        return find(given["dialect"].text())
    except InputError as problem:
        raise place(problem, given["dialect"].where) from None


def place(problem: InputError, where: str) -> InputError:
    """The error with a line of the file: its own, or this one, what it named instead of a line going into its words."""
    if problem.where.rpartition(":")[2].isdigit():
        return problem
    what = f"{problem.where}: {problem.what}" if problem.where else problem.what
    return InputError(what, where, problem.remedy)


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Lets an `InputError` about a value also say which setting has that value."""
    try:
        yield
    except InputError as problem:
        raise InputError(f"{setting}: {problem.what}", problem.where, problem.remedy) from None


def read_broker_config(node: Node | None, default: BrokerConfig | None = None) -> BrokerConfig:
    """The broker's settings: those that the file names, the others as they are by default."""
    default = default or BrokerConfig()
    if node is None:
        return default
    kinds = {field.name: str(field.type) for field in fields(BrokerConfig) if field.name != "groups"}
    given = node.fields(tuple(kinds))
    values: dict[str, Any] = {name: _read_value(kinds[name], value) for name, value in given.items()}
    return replace(default, **values)


def _read_value(kind: str, node: Node) -> Any:
    if kind.startswith("tuple"):
        return read_texts(node)
    return node.number() if kind == "int" else node.text()


def read_topics(node: Node) -> dict[str, int]:
    """Topics with the number of their partitions."""
    found = {name: value.number() for name, (_, value) in node.mapping().items()}
    if min(found.values(), default=1) < 1 or sum(found.values()) > PARTITIONS_LIMIT:
        raise InputError(f"a topic has at least one partition, all together {PARTITIONS_LIMIT}", node.where)
    return found
