"""A packaged state diagram, with counts on its edges, made ready to stand inside a page beside others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET  # only drawings of this package are read

from fsm.errors import InputError
from fsm.render import shipped

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DRAWING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")


def counted_diagram(table: str, counts: Mapping[tuple[str, str], int], prefix: str) -> str:
    """The drawing of a table with these counts, its ids begun with `prefix`; empty where the package has none."""
    if not _DRAWING.fullmatch(table):
        return ""
    try:
        from fsm.render.tables.svg import annotate

        return inlined(annotate(shipped(table, "svg"), counts), prefix)
    except InputError:
        return ""


def inlined(svg: str, prefix: str) -> str:
    """The SVG without declarations, scripts, metadata and outside links, every id and reference to it prefixed."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)  # noqa: S314
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}script", f"{{{_SVG}}}foreignObject"):
                parent.remove(child)
        for name, value in list(parent.attrib.items()):
            _rewrite(parent, name, value, prefix)
    for side in ("width", "height"):
        root.attrib.pop(side, None)  # the page decides, the view box keeps the shape
    _, _, width, _ = (float(n) for n in root.get("viewBox", "0 0 600 400").split())
    root.set("style", f"width:{width * 4 / 3:.0f}px")
    root.set("class", "diagram")
    return ET.tostring(root, encoding="unicode")


def _rewrite(element: ET.Element, name: str, value: str, prefix: str) -> None:
    if name == "id":
        element.set(name, prefix + value)
    elif name in ("href", f"{{{_XLINK}}}href"):
        if value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")
        else:
            del element.attrib[name]
    elif name.startswith("on"):
        del element.attrib[name]
    elif "url(#" in value:
        element.set(name, value.replace("url(#", f"url(#{prefix}"))
