"""The documents for a page, in JSON, and the drawings of its tables.

A *position* is the whole state at one moment: components, wires, violations. A *delta* is a position with only the
changed components and wires. A *step* is an event with its delta.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from xml.etree import ElementTree as ET

from fsm.check.model import Look
from fsm.errors import InputError
from fsm.render import read_drawing
from fsm.render.tables.dot import RESERVED, dot, edge_ids
from fsm.render.tables.graph import Picture, identifiers, picture
from fsm.render.tables.svg import SVG, XLINK, dot_hash, inline, read_dot_hash, svg
from fsm.table import Table

Document = dict[str, Any]
"""A JSON object."""
WHOLE_EVERY = 200
"""The interval at which a step has the whole position after it, so that a jump needs no earlier steps."""
MOST_STEPS = 2_000
"""The maximum number of steps in one answer."""
LONGEST_PATH = 50_000
"""The maximum length of a path walked by hand."""


class Session(Protocol):
    """The interface of anything opened in a page."""

    def opening(self) -> Document:
        """The components, diagrams and first position."""

    def steps(self, start: int, count: int) -> Document:
        """Steps of the loaded path, and the position before the first of them."""


class Shown(Protocol):
    """A component of the display."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def tables(self) -> Sequence[Table]: ...


def show_who(parts: Sequence[Shown], wires: Iterable[tuple[str, str]]) -> Document:
    """The components, the wires by sender and receiver, and the diagrams of the tables."""
    tables = {table.name: table for part in parts for table in part.tables}
    return {
        "components": [
            {"name": part.name, "role": part.role, "tables": [table.name for table in part.tables]} for part in parts
        ],
        "wires": [{"sender": sender, "receiver": receiver} for sender, receiver in wires],
        "tables": {name: drawn for name, table in tables.items() if (drawn := diagram(table))},
        "states": {name: [state.name for state in table.leaves()] for name, table in tables.items()},
    }


def show_component(text: str, look: Look | None) -> Document:
    """A component at one moment."""
    look = look or Look()
    return {
        "said": text,
        "cells": [one._asdict() for one in look.states],
        "fields": [list(one) for one in look.fields],
        "queues": [{"name": name, "items": list(items)} for name, items in look.queues],
    }


def all_steps(session: Session) -> Iterator[Document]:
    """All steps of the loaded path."""
    start = 0
    while found := session.steps(start, MOST_STEPS)["steps"]:
        yield from found
        start += len(found)


def read_path(text: Any) -> tuple[int, ...]:
    """Parses a path like `0.3.1`. Raises `InputError` for an invalid one."""
    if not isinstance(text, str):
        raise InputError(f"not a path: {text!r}"[:80], "path", "write it as 0.3.1")
    numbers = text.split(".") if text else []
    if len(numbers) > LONGEST_PATH:
        raise InputError(f"a path of {len(numbers)} steps", "path", f"give at most {LONGEST_PATH:,}")
    for number in numbers:
        if not (number.isascii() and number.isdigit() and len(number) < 6):
            raise InputError(f"not a path: {number[:20]!r} is not the number of a step", "path", "write it as 0.3.1")
    return tuple(map(int, numbers))


def read_number(asked: Mapping[str, Any], name: str, otherwise: int) -> int:
    """Parses a number of a request. Raises `InputError` for an invalid one."""
    value = asked.get(name, otherwise)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15:
        return value
    raise InputError(f"not a number: {value!r}"[:80], name, "give a whole number of at least 0")


def diagram(table: Table) -> str:
    """The drawing of a table as SVG; empty if the package has none and `dot` is not installed.

    A state's shape has its name as `data-state`; the lines of a hop, and its label, have `data-hops`: JSON pairs
    (state, next_state). It has no ids, links and style, so a page may contain it several times.
    """
    drawn = picture(table)
    try:
        root = ET.fromstring(inline(_draw(drawn), ""))  # noqa: S314
    except InputError:
        return ""
    named = "".join(c if c.isascii() and c.isalnum() else "-" for c in drawn.name)
    states = {f"{named}.{word}": name for name, word in identifiers(drawn, RESERVED).items()}
    hops = edge_ids(drawn)
    for element in root.iter():
        found = element.attrib.pop("id", "")
        if element.get("class") == "node" and found in states:
            element.set("data-state", states[found])
        if pairs := hops.get(found.removesuffix(".from").removesuffix(".label")):
            element.set("data-hops", json.dumps(pairs))
        _explain(element)
    root.attrib.pop("style", None)
    ET.register_namespace("", SVG[1:-1])
    return ET.tostring(root, encoding="unicode")


def _explain(element: ET.Element) -> None:
    """Uses the title of a link as the shape's tool tip, instead of the names by `dot`."""
    for title in element.findall(f"{SVG}title"):
        element.remove(title)
    if element.tag == f"{SVG}a":
        element.tag = f"{SVG}g"
        title = ET.Element(f"{SVG}title")
        title.text = element.attrib.pop(f"{{{XLINK}}}title", "")
        element.insert(0, title)


def _draw(drawn: Picture) -> str:
    """The shipped drawing, if it is of this very table. Raises `InputError` as `svg` does."""
    try:
        there = read_drawing(drawn.name, "svg")
    except InputError:
        return svg(drawn)
    return there if read_dot_hash(there) == dot_hash(dot(drawn)) else svg(drawn)
