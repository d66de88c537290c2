"""The documents for a page, in JSON, the drawings of its tables, and the page itself.

A *position* is the whole state at one moment: components, wires, violations. A *delta* is a position with only the
changed components and wires. A *step* is an event with its delta.

The page queries its server, or is a self-contained file. Its content may come from anyone who can send a packet or
write a log line. So documents are embedded as JSON in which no element can begin, scripts make text nodes of texts,
never markup, and a content security policy allows the page only its own style and script, by their hashes, and requests
to its server, if there is one.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Protocol
from xml.etree import ElementTree as ET

from fsm.check.model import Look
from fsm.errors import InputError
from fsm.render import read_drawing
from fsm.render.tables.dot import RESERVED, dot, edge_ids
from fsm.render.tables.graph import Picture, identifiers, picture
from fsm.render.tables.svg import SVG, XLINK, dot_hash, inline, read_dot_hash, svg
from fsm.render.wording import name
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


# The page


_SCRIPTS = ("words", "source", "walk", "list", "diagram", "stage", "sequence", "options", "trouble", "main")
"""In their order in the one script element of the page."""
TITLE = "fsm explore"


def page(opening: Mapping[str, Any] | None = None, steps: Iterable[Mapping[str, Any]] = (), *, key: str = "") -> str:
    """The page as HTML; the same arguments give the same text.

    Args:
        opening: the document about the explored object; without it the page queries its server for everything.
        steps: all steps of the path, with their deltas, for a self-contained page.
        key: the secret that a served page sends with a request that makes the server work.
    """
    held = None if opening is None else _collect(opening, steps)
    style, script = _asset("page.css"), "".join(_asset(f"{part}.js") for part in _SCRIPTS)
    values = {
        "policy": _policy(style, script, served=held is None),
        "title": escape(name(str(opening["title"]))) if opening else TITLE,
        "key": escape(key),
        "style": style,
        "script": script,
        "data": json.dumps(held, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _asset("page.html"))


def _collect(opening: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of a self-contained page; it adds up deltas, so it needs no intermediate positions."""
    some = [{name: value for name, value in step.items() if name != "position"} for step in steps]
    return {"opening": {**opening, "can_branch": False, "length": len(some)}, "steps": some}


def _policy(style: str, script: str, *, served: bool) -> str:
    asked = "connect-src 'self'; " if served else ""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; {asked}img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _asset(file: str) -> str:
    return (files("fsm.explore") / "page" / file).read_text(encoding="utf-8")
