"""Finds the parts of a file whose lines begin in different ways: a program was restarted with another layout.

Lines that begin alike have one shape. Shapes that often follow each other are of one layout, those that hardly ever do
are of two: a layout lasts for many lines, however often it changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_BEGINNING, _SHAPE = 80, 24
"""Characters of a line, and of its shape, that are compared."""
_FEWEST = 5
"""Lines of a part."""
_OFTEN = 3
"""Lines of a shape that is compared with others; the rarer ones are of the part in which they are."""
_APART = 3
"""Shapes are of two parts if fewer than one of so many lines of the rarer one stands beside the other."""
_MOST_PARTS = 4

_OBJECT = 400
_NAMES = re.compile(r"""["']([A-Za-z@_][\w.@-]{0,60})["'] ?(?::|=>)""")
_WORDS = re.compile(r"[^\W\d_]+")
_NUMBERS = re.compile(r"\d+")
_BLANKS = re.compile(r"[ \t]+")


def _find_shape(line: str) -> str:
    """The beginning of a line, with all words alike, all numbers and all blanks; the first names of an object."""
    if names := _NAMES.findall(line, 0, _OBJECT):
        return " ".join(names)
    text = _WORDS.sub("a", line[:_BEGINNING])
    return _BLANKS.sub(" ", _NUMBERS.sub("0", text))[:_SHAPE]


def find_parts(lines: Sequence[str], marked: Sequence[int]) -> list[list[int]]:
    """The indices of the lines of each part, the largest part first; nothing if all lines are of one. Lines without
    marks are of the part of the marked line above them."""
    shapes = [_find_shape(lines[i]) for i in marked]
    counts = Counter(shapes)
    often = [shape for shape in shapes if counts[shape] >= _OFTEN]
    part = {shape: shape for shape in sorted(set(often))}

    def find(shape: str) -> str:
        while part[shape] != shape:
            shape = part[shape]
        return shape

    beside = Counter((min(pair), max(pair)) for pair in pairwise(often) if pair[0] != pair[1])
    for (one, other), count in sorted(beside.items()):
        if count * _APART > min(counts[one], counts[other]):
            part[find(other)] = find(one)
    sizes = Counter(find(shape) for shape in often)
    large = [shape for shape, size in sorted(sizes.items(), key=lambda one: (-one[1], one[0])) if size >= _FEWEST]
    if not 1 < len(large) <= _MOST_PARTS:
        return []
    found: dict[str, list[int]] = {shape: [] for shape in large}
    at = next(name for shape in often if (name := find(shape)) in found)
    starts = dict(zip(marked, shapes, strict=True))
    for i in range(len(lines)):
        if i in starts and starts[i] in part:
            at = name if (name := find(starts[i])) in found else at
        found[at].append(i)
    return list(found.values())
