"""SVG and PNG drawings by the `dot` program, and counts added to an existing SVG.

A drawing depends on the release of `dot`, so it is not compared by its bytes: it contains the SHA-256 of its DOT, and
the pairs (state, next_state) of each edge. `annotate` needs only these and the standard library, so a report can show
traffic on the shipped drawings without `dot`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from itertools import chain
from math import hypot, inf
from typing import NamedTuple
from xml.etree import ElementTree as ET  # the drawings are ours, and expat's limits refuse the expansion of entities

from fsm.errors import InputError
from fsm.render import read_drawing
from fsm.render.tables.dot import INK, MARK, dot, edge_ids, thickness
from fsm.render.tables.graph import Pair, Picture

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "http://www.w3.org/1999/xlink"
LINE_PT = 14
"""Height of a line of text written below a drawing, in points."""
_DRAWING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
"""A name that may be a table's."""


def svg(picture: Picture) -> str:
    """The picture as SVG, with its DOT's hash. Raises `InputError` without the `dot` program."""
    text = dot(picture)
    metadata = {"dot_sha256": dot_hash(text), "edges": edge_ids(picture)}
    data = escape(json.dumps(metadata, separators=(",", ":")), quote=False)
    drawn = draw(text, "svg").decode()
    return re.sub(r"<svg [^>]*>\n", lambda m: f"{m[0]}<metadata>{data}</metadata>\n", drawn, count=1)


def draw(text: str, form: str) -> bytes:
    """The output of `dot` for a DOT text. Raises `InputError` if the program is missing or fails."""
    others = "or ask for --format dot,mermaid,plantuml,markdown, which need nothing"
    try:
        import graphviz
    except ImportError:
        remedy = f"in a checkout: pip install '.[diagrams]', {others}"
        raise InputError(f"{form} needs the graphviz package and its program dot", remedy=remedy) from None
    try:
        return bytes(graphviz.Source(text).pipe(format=form))
    except graphviz.ExecutableNotFound:
        remedy = f"install Graphviz, {others}"
        raise InputError(f"the dot program is not on PATH, and {form} needs it", remedy=remedy) from None
    except graphviz.CalledProcessError as problem:
        first = (problem.stderr or b"").decode(errors="replace").split("\n")[0]
        raise InputError(f"dot refused the diagram: {first}") from None


def dot_hash(text: str) -> str:
    """The SHA-256 of a DOT text, as in its SVG."""
    return sha256(text.encode()).hexdigest()


def read_dot_hash(svg_text: str) -> str:
    """The hash of the DOT of an SVG; empty if it has none."""
    found = re.search(r'<metadata>[^<]*"dot_sha256":"([0-9a-f]{64})"', svg_text)
    return found[1] if found else ""


# Counts in a drawing


_Point = tuple[float, float]


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def measure_overlap(self, other: _Box) -> float:
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, across) * max(0.0, down)


def annotate(svg_text: str, counts: Mapping[Pair, int]) -> str:
    """The drawing with a count on every edge and lines of corresponding thickness, for embedding in HTML.

    An edge of several pairs shows their sum, and each of them in its tool tip. Edges never taken are dashed. Pairs
    without an edge are listed below the drawing. Raises `InputError` for a foreign SVG.
    """
    ET.register_namespace("", SVG[1:-1])
    ET.register_namespace("xlink", XLINK)
    root, edges = _parse(svg_text)
    groups = {group.get("id"): group for group in root.iter(f"{SVG}g") if group.get("class") == "edge"}
    taken = [_text_box(text) for text in root.iter(f"{SVG}text")]
    for name, pairs in edges.items():
        drawn = [groups[part] for part in (name, f"{name}.from") if part in groups]
        if drawn:
            _mark(drawn, {pair: counts.get(pair, 0) for pair in pairs}, taken)
    known = {pair for pairs in edges.values() for pair in pairs}
    _list_below(root, [(pair, counts[pair]) for pair in sorted(counts) if pair not in known and counts[pair]])
    return ET.tostring(root, encoding="unicode")


def _parse(svg_text: str) -> tuple[ET.Element, dict[str, list[Pair]]]:
    try:
        root = ET.fromstring(svg_text)  # noqa: S314
        data = json.loads(root.findtext(f"{SVG}metadata") or "")
        return root, {name: [(a, b) for a, b in pairs] for name, pairs in data["edges"].items()}
    except (ET.ParseError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError("not a diagram drawn by `fsm draw`", remedy="redraw it with: fsm draw -o DIR") from None


def _mark(lines: Sequence[ET.Element], counts: Mapping[Pair, int], taken: list[_Box]) -> None:
    """Writes the sum on the line with the arrow, or on the other one if there is no room."""
    total = sum(counts.values())
    paths = [next(line.iter(f"{SVG}path")) for line in lines]
    for line, path in zip(lines, paths, strict=True):
        path.set("stroke-width", f"{thickness(total):.2f}")
        if not total:
            path.set("stroke-dasharray", "4,3")
            line.set("opacity", "0.45")
    text = f"{total:,}"
    box = _place(chain.from_iterable(_along(path.get("d", "")) for path in paths), 6.5 * len(text) + 6, taken)
    taken.append(box)
    badge = ET.SubElement(lines[0], f"{SVG}g", {"class": "count"})
    if len(counts) > 1:
        title = ET.SubElement(badge, f"{SVG}title")
        title.text = "\n".join(f"{state} to {entered}: {n:,}" for (state, entered), n in counts.items())
    shape = {"x": f"{box.left:.1f}", "y": f"{box.top:.1f}", "rx": "4", "fill": "white", "stroke": INK}
    size = {"width": f"{box.right - box.left:.1f}", "height": f"{box.bottom - box.top:.1f}"}
    ET.SubElement(badge, f"{SVG}rect", {**shape, **size, "stroke-width": "0.6"})
    _text(badge, text, (box.left + box.right) / 2, box.bottom - 3.5, {"text-anchor": "middle", "font-weight": "bold"})


def _text(parent: ET.Element, text: str, x: float, y: float, more: Mapping[str, str]) -> None:
    at = {"x": f"{x:.1f}", "y": f"{y:.1f}", "font-family": "Helvetica,sans-Serif", "font-size": "10.00", "fill": INK}
    ET.SubElement(parent, f"{SVG}text", {**at, **more}).text = text


def _place(points: Iterable[_Point], width: float, taken: list[_Box]) -> _Box:
    """A box around one of the points that covers no text, or as little as possible."""
    least, best = inf, _Box(0, 0, 0, 0)
    for x, y in points:
        box = _Box(x - width / 2, y - 7, x + width / 2, y + 7)
        covered = sum(box.measure_overlap(other) for other in taken)
        if covered < least:
            least, best = covered, box
        if not covered:
            break
    return best


def _along(path: str) -> Iterator[tuple[float, float]]:
    """Points on a path of cubic curves by `dot`, some 4 points apart, from its middle to its ends."""
    numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path)]
    knots = list(zip(numbers[::2], numbers[1::2], strict=True))
    spots = [(0, 0.0)]
    for i in range(0, len(knots) - 3, 3):
        a, _, _, d = knots[i : i + 4]
        steps = max(2, int(hypot(d[0] - a[0], d[1] - a[1]) / 4))
        spots.extend((i, step / steps) for step in range(1, steps + 1))
    middle = len(spots) // 2
    for place in sorted(range(len(spots)), key=lambda place: abs(place - middle)):
        i, t = spots[place]
        a, b, c, d = knots[i : i + 4]
        yield _curve(a, b, c, d, t)


def _curve(a: _Point, b: _Point, c: _Point, d: _Point, t: float) -> _Point:
    u = 1 - t
    weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
    x, y = (sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1))
    return x, y


def _text_box(text: ET.Element) -> _Box:
    x, y, size = (float(text.get(name, default)) for name, default in (("x", "0"), ("y", "0"), ("font-size", "12")))
    width = 0.62 * size * len(text.text or "")
    left = x - {"middle": width / 2, "end": width}.get(text.get("text-anchor", "start"), 0.0)
    return _Box(left, y - size, left + width, y + size / 4)


def _list_below(root: ET.Element, unknown: list[tuple[Pair, int]]) -> None:
    """Lists hops that the table does not have below the drawing."""
    if not unknown:
        return
    _, _, width, height = (float(n) for n in root.get("viewBox", "0 0 0 0").split())
    lines = ["Not in this table:", *(f"{state} to {entered}: {count:,}" for (state, entered), count in unknown)]
    for number, line in enumerate(lines, 1):
        _text(root, line, 20, height + number * LINE_PT - 4, {"fill": MARK})
    grown = height + len(lines) * LINE_PT + 8
    root.set("viewBox", f"0 0 {width:.2f} {grown:.2f}")
    root.set("height", f"{grown:.0f}pt")


# A drawing inside a page


def draw_counted(table: str, counts: Mapping[tuple[str, str], int], prefix: str) -> str:
    """The drawing of a table with these counts, its ids prefixed with `prefix`; empty if none is shipped."""
    if not _DRAWING.fullmatch(table):
        return ""
    try:
        return inline(annotate(read_drawing(table, "svg"), counts), prefix)
    except InputError:
        return ""


def inline(svg: str, prefix: str) -> str:
    """The SVG without declarations, scripts, metadata and outside links, every id and reference to it prefixed."""
    ET.register_namespace("", SVG[1:-1])
    root = ET.fromstring(svg)  # noqa: S314
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}script", f"{SVG}foreignObject"):
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
    elif name in ("href", f"{{{XLINK}}}href"):
        if value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")
        else:
            del element.attrib[name]
    elif name.startswith("on"):
        del element.attrib[name]
    elif "url(#" in value:
        element.set(name, value.replace("url(#", f"url(#{prefix}"))
