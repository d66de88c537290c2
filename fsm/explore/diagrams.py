"""Diagrams for a page that highlights states: the drawing of a table, its shapes named by states and hops."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET  # the drawings are ours, and expat's limits refuse the expansion of entities

from fsm.errors import InputError
from fsm.render import read_drawing
from fsm.render.tables.dot import RESERVED, dot, edge_ids
from fsm.render.tables.graph import Picture, identifiers, picture
from fsm.render.tables.svg import SVG, XLINK, dot_hash, inline, read_dot_hash, svg
from fsm.table import Table


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
