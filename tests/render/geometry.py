"""What is wrong with a drawing, by its SVG: lines through texts and over arrows, ends in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import hypot
from typing import NamedTuple
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]


class Line(NamedTuple):
    """One edge."""

    name: str
    points: list[Point]
    tip: Point | None
    """Where its arrow ends."""

    @property
    def start(self) -> Point:
        """The end without the arrow."""
        if self.tip is None:
            return self.points[0]
        return max((self.points[0], self.points[-1]), key=lambda p: distance(p, self.tip))


def defects(svg: str) -> Iterator[str]:
    """Each defect of a state diagram, in words."""
    root = ET.fromstring(svg)  # noqa: S314
    boxes = [box(text) for text in root.iter(f"{SVG}text")]
    lines = [line(group) for group in root.iter(f"{SVG}g") if group.get("class") == "edge"]
    for drawn in lines:
        xs, ys = zip(*drawn.points, strict=True)
        west, east, north, south = min(xs), max(xs), min(ys), max(ys)
        for left, top, right, bottom, text in boxes:
            if west > right or east < left or north > bottom or south < top:
                continue
            if any(left + 1 < x < right - 1 and top + 0.5 < y < bottom - 0.5 for x, y in drawn.points):
                yield f"{drawn.name} runs through {text!r}"
    for one in lines:
        for other in lines:
            if one.tip is None or one is other:
                continue
            shared = other.tip is not None and distance(one.tip, other.tip) < 3
            if distance(one.tip, other.start) < 7:
                yield f"the arrow of {one.name} ends where {other.name} begins"
            elif not shared and min(distance(one.tip, point) for point in other.points) < 7:
                yield f"{other.name} runs over the arrow of {one.name}"
    yield from loops_into_one_place(lines)


def loops_into_one_place(lines: list[Line]) -> Iterator[str]:
    """The two lines of an edge meet its label, a node of its own, in two places."""
    at: dict[str, list[Line]] = {}
    for drawn in lines:
        for end in drawn.name.split("->"):
            name = end.partition(":")[0]
            if "." in name:  # of a label
                at.setdefault(name, []).append(drawn)
    for name, legs in at.items():
        ends = [(leg.points[0], leg.points[-1]) for leg in legs]
        if len(ends) == 2 and min(distance(a, b) for a in ends[0] for b in ends[1]) < 4:
            yield f"both lines of {name} meet its label in one place"


def distance(a: Point, b: Point) -> float:
    """Points between two places."""
    return hypot(a[0] - b[0], a[1] - b[1])


def box(text: ET.Element) -> tuple[float, float, float, float, str]:
    """About what a text covers."""
    x, y, size = (float(text.get(name, "12")) for name in ("x", "y", "font-size"))
    shown = (text.text or "").replace("\N{NO-BREAK SPACE}", " ").strip()
    width = 0.56 * size * len(shown)
    left = x - {"middle": width / 2, "end": width}.get(text.get("text-anchor", "start"), 0.0)
    return left, y - 0.72 * size, left + width, y + 0.1 * size, shown


def line(group: ET.Element) -> Line:
    """An edge with its points some two points apart."""
    path = next(group.iter(f"{SVG}path"))
    numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]
    knots = list(zip(numbers[::2], numbers[1::2], strict=True))
    points = [knots[0]]
    for i in range(0, len(knots) - 3, 3):
        a, b, c, d = knots[i : i + 4]
        length = sum(distance(p, q) for p, q in pairwise((a, b, c, d)))
        steps = 4 + int(length / 2)
        points += [bezier(a, b, c, d, step / steps) for step in range(1, steps + 1)]
    arrow = next(group.iter(f"{SVG}polygon"), None)
    corners = [tuple(map(float, xy.split(","))) for xy in arrow.get("points", "").split()] if arrow is not None else []
    return Line(group.findtext(f"{SVG}title") or "", points, (corners[1][0], corners[1][1]) if corners else None)


def bezier(a: Point, b: Point, c: Point, d: Point, t: float) -> Point:
    """A point of a cubic curve."""
    u = 1 - t
    x, y = (u**3 * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t**3 * d[i] for i in (0, 1))
    return x, y
