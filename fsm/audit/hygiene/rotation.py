"""The names that log rotation gives to files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath

_ROTATION = re.compile(
    r"(?:\.(?:gz|bz2|xz|zst|lz4|old|log|txt|out|json)|[.\-_]\d{4}-?\d\d-?\d\d(?:[T_\-.]?\d{1,6})?|[.\-_]\d{1,5})\Z"
)


def stem(file: str) -> str:
    """The file's path without suffixes of log rotation.

    >>> stem("/logs/a.log.2.gz"), stem("/logs/a-2026-11-21.log"), stem("/logs/a.log")
    ('/logs/a', '/logs/a', '/logs/a')
    """
    path = PurePosixPath(file)
    name = path.name
    while (shorter := _ROTATION.sub("", name)) and shorter != name:
        name = shorter
    return str(path.with_name(name))


_DATE = re.compile(r"[.\-_]\d{4}-?\d\d-?\d\d")
_NUMBER = re.compile(r"[.\-_](\d{1,3})(?=[.\-_a-z]*\Z)")


@lru_cache(maxsize=1024)
def are_adjacent(file: str, other: str) -> bool:
    """Whether the two are consecutive rotations of one name.

    >>> are_adjacent("/logs/a.log.2", "/logs/a.log.1"), are_adjacent("/logs/a.log.1", "/logs/a.log")
    (True, True)
    >>> are_adjacent("/logs/a.log.2", "/logs/a.log"), are_adjacent("/logs/a.log.1", "/logs/b.log")
    (False, False)
    """
    numbers = _number(file), _number(other)
    return stem(file) == stem(other) and None not in numbers and abs((numbers[0] or 0) - (numbers[1] or 0)) == 1


def are_rotations(files: Iterable[str]) -> bool:
    """Whether the files are one log and its numbered rotations, none missing.

    >>> are_rotations(["a.log", "a.log.1", "a.log.2"]), are_rotations(["part-0.log", "part-1.log"])
    (True, False)
    """
    names = list(files)
    numbers = [_number(name) for name in names]
    return len({stem(name) for name in names}) == 1 and {*numbers} == {*range(len(names))}


Missing = Mapping[str, frozenset[int]]
"""Missing numbers between the given rotations, by `stem`."""


def find_missing(files: Iterable[str]) -> Missing:
    """The rotations that are missing between given ones, by `stem`.

    >>> find_missing(["a.log", "a.log.1", "a.log.4", "b.log"])
    {'a': frozenset({2, 3})}
    """
    numbers: dict[str, set[int]] = {}
    for file in files:
        number = _number(file)
        if number is not None:
            numbers.setdefault(stem(file), set()).add(number)
    gaps = {name: frozenset(range(min(own), max(own))) - own for name, own in sorted(numbers.items())}
    return {name: gap for name, gap in gaps.items() if gap}


def is_hole(gone: Missing, file: str, other: str) -> bool:
    """Whether a missing file belongs between the two.

    >>> is_hole({"a": frozenset({2, 3})}, "a.log.4", "a.log.1"), is_hole({"a": frozenset({2, 3})}, "a.log.1", "a.log")
    (True, False)
    """
    gap = gone.get(stem(file)) if gone and file != other and stem(file) == stem(other) else None
    if gap is None:
        return False
    ends = sorted(number for number in (_number(file), _number(other)) if number is not None)
    return len(ends) == 2 and any(ends[0] < number < ends[1] for number in gap)


def _number(file: str) -> int | None:
    """The number of a rotation, 0 for the log itself, None for others (named by date, or numbered from 0)."""
    end = file[len(stem(file)) :]
    if _DATE.search(end):
        return None
    found = _NUMBER.search(end)
    return (int(found[1]) or None) if found else 0


def count_rotations(file: str) -> int:
    """How often the log was rotated since it was this file; 0 if its name has no number.

    >>> count_rotations("a.log.2"), count_rotations("a.log"), count_rotations("a-2026-11-22.log")
    (2, 0, 0)
    """
    return _number(file) or 0
