"""Documents of somebody else's schema: read by the shape they must have, before anything runs on them.

A shape is a mapping from key to shape (`"key?"` may be absent, `EACH` stands for every key there is), a list with the
shape of its items, `str` or `int` for a text or a whole number, `Checked` for a text with a rule of its own, `Maybe`
for what may be null. Keys that a shape does not name are left out: such documents say more than is run. Where nothing
may be passed over, as in what a document expects, `Only` refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.nodes import Node

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
        return _checked(node, shape)
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


def _checked(node: Node, shape: Checked) -> str:
    try:
        shape.by(node.text())
    except InputError as problem:
        raise InputError(problem.what, problem.where or node.where, problem.remedy) from None
    return node.text()
