"""The parsing of scenario files: the head of a scenario, and whole documents of a foreign schema.

A head has a release, settings of brokers and clients, and topics.

A document of a foreign schema is first validated by its shape. A shape is a mapping from key to shape (`"key?"` may be
absent, `EACH` stands for any key), a list with the shape of its items, `str` or `int` for a text or a whole number,
`Checked` for a text with its own rule, `Maybe` for a nullable value. Other keys are ignored, because such documents
have more than is run. `Only` refuses other keys, for example in expectations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

from fsm.coordinator.model.context import BrokerConfig
from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.texts import read_texts

D = TypeVar("D")
PARTITIONS_LIMIT = 100_000
"""The maximum number of partitions of all topics."""

# The head of a scenario


def has_key(key: str) -> Callable[[Node], bool]:
    """Whether a document has this key, by which most kinds of scenario are detected."""
    return lambda document: isinstance(document.value, dict) and key in document.value


def read_dialect(given: Mapping[str, Node], dialect: str | None, find: Callable[..., D]) -> D:
    """The dialect of that name, or that of the file, or the default `find()`.

    Raises `InputError` with the line of the file for an unknown one.
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
    """The error with a line of the file: its own, or this one; the place that it named instead moves into its text."""
    if problem.where.rpartition(":")[2].isdigit():
        return problem
    what = f"{problem.where}: {problem.what}" if problem.where else problem.what
    return InputError(what, where, problem.remedy)


@contextmanager
def name_setting(setting: str) -> Iterator[None]:
    """Adds the name of the setting to an `InputError` about its value."""
    try:
        yield
    except InputError as problem:
        raise InputError(f"{setting}: {problem.what}", problem.where, problem.remedy) from None


def read_broker_config(node: Node | None, default: BrokerConfig | None = None) -> BrokerConfig:
    """The broker's settings: those of the file, and defaults for others."""
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
    """Topics with their partition counts."""
    found = {name: value.number() for name, (_, value) in node.mapping().items()}
    if min(found.values(), default=1) < 1 or sum(found.values()) > PARTITIONS_LIMIT:
        raise InputError(f"a topic has at least one partition, all together {PARTITIONS_LIMIT}", node.where)
    return found


# Documents of a foreign schema

EACH = "*"


class Checked(NamedTuple):
    """A text checked by a function, which raises `InputError`."""

    by: Callable[[str], object]


class Maybe(NamedTuple):
    """A value of this shape, or null."""

    shape: Any


class Only(NamedTuple):
    """A mapping of this shape without any other key."""

    shape: Mapping[str, Any]
    unread: tuple[str, ...] = ()
    """Allowed keys that are ignored."""


def read(node: Node, shape: Any) -> Any:
    """The document in plain values. Raises `InputError` with the line of the first value of another shape."""
    if isinstance(shape, dict):
        return _mapping(node, shape)
    if isinstance(shape, Only):
        node.fields([*(key.removesuffix("?") for key in shape.shape), *shape.unread])
        return _mapping(node, shape.shape)
    if isinstance(shape, list):
        return [read(item, shape[0]) for item in node.items()]
    if isinstance(shape, Checked):
        return _check(node, shape)
    if isinstance(shape, Maybe):
        return None if node.is_null else read(node, shape.shape)
    return node.number() if shape is int else node.text()


def _mapping(node: Node, shape: Mapping[str, Any]) -> dict[str, Any]:
    given = node.mapping()
    if EACH in shape:
        return {name: read(value, shape[EACH]) for name, (_, value) in given.items()}
    found: dict[str, Any] = {}
    for key, inner in shape.items():
        name = key.removesuffix("?")
        if name in given:
            found[name] = read(given[name][1], inner)
        elif not key.endswith("?"):
            raise InputError(f"the key {name!r} is missing", node.where)
    return found


def _check(node: Node, shape: Checked) -> str:
    try:
        shape.by(node.text())
    except InputError as problem:
        raise InputError(problem.what, problem.where or node.where, problem.remedy) from None
    return node.text()
