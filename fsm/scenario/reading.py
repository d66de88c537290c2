"""How scenario files are read: the head of a scenario, and whole documents of somebody else's schema.

A head names a release, settings of brokers and clients, and the topics that there are.

A document of another schema is read by the shape that it must have, before anything runs on it. A shape is a mapping
from key to shape (`"key?"` may be absent, `EACH` stands for every key there is), a list with the shape of its items,
`str` or `int` for a text or a whole number, `Checked` for a text with a rule of its own, `Maybe` for what may be null.
Keys that a shape does not name are left out: such documents say more than is run. Where nothing may be passed over, as
in what a document expects, `Only` refuses them.
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
"""More of them in all topics are no scenario."""

# The head of a scenario


def has_key(key: str) -> Callable[[Node], bool]:
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
def name_setting(setting: str) -> Iterator[None]:
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


# Documents of another schema

EACH = "*"


class Checked(NamedTuple):
    """A text that must please a function, which raises `InputError` if it does not."""

    by: Callable[[str], object]


class Maybe(NamedTuple):
    """A value of this shape, or nothing."""

    shape: Any


class Only(NamedTuple):
    """A mapping of this shape without any other key."""

    shape: Mapping[str, Any]
    unread: tuple[str, ...] = ()
    """Keys that may stand there and are not looked at."""


def read(node: Node, shape: Any) -> Any:
    """The document in plain values. Raises `InputError` with the line of the first value that has another shape."""
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
