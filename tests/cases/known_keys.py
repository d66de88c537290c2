"""What a case expects, held against what can be expected: a misspelt key would never be compared.

A shape is a mapping from key to shape (`EACH` stands for every key there is), a list with the shape of its items, or
`ANY`. `Of` is a mapping that may have other keys, which speak of something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml
from case_file import CaseFile

from fsm.errors import InputError
from fsm.nodes import nearest, short

ANY = None
EACH = "*"
Path = tuple[Any, ...]


class Of(NamedTuple):
    """The keys that are looked at in a mapping that says more."""

    shape: dict[str, Any]


def refuse_unknown(file: CaseFile, at: Path, value: Any, shape: Any) -> None:
    """Raises `InputError` with the line of the first key below this place that nobody would compare."""
    for where, key, known in unknown(at, value, shape):
        raise InputError(f"unknown key {short(str(key))}", place(file, (*where, key)), nearest(str(key), known))


def unknown(at: Path, value: Any, shape: Any) -> Iterator[tuple[Path, Any, tuple[str, ...]]]:
    """Keys that the shape does not have, with where they stand and what may stand there."""
    known = shape.shape if isinstance(shape, Of) else shape
    if isinstance(value, list) and isinstance(known, list):
        for number, item in enumerate(value):
            yield from unknown((*at, number), item, known[0])
    elif isinstance(value, dict) and isinstance(known, dict):
        for key, inner in value.items():
            if key in known or EACH in known:
                yield from unknown((*at, key), inner, known.get(key, known.get(EACH)))
            elif not isinstance(shape, Of):
                yield at, key, tuple(known)


def place(file: CaseFile, at: Path) -> str:
    """`file:line` of the key at the end of this path."""
    node = yaml.compose(file.content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    mark = node.start_mark
    for step in at:
        if isinstance(node, yaml.SequenceNode):
            node = node.value[step]
            mark = node.start_mark
        else:
            found = next((pair for pair in pairs(node) if pair[0].value == str(step)), None)
            if found is None:  # merged from another mapping: where that is asked for is near enough
                break
            mark, node = found[0].start_mark, found[1]
    return f"{file.name}:{mark.line + 1}"


def pairs(node: Any) -> Iterable[tuple[Any, Any]]:
    """The last one of equal keys wins, as it does where values are read."""
    return reversed(node.value)
