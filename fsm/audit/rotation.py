"""The names that log rotation gives to files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePosixPath

_ROTATION = re.compile(
    r"(?:\.(?:gz|zst|bz2|old|log|txt|out|json)|[.\-_]\d{4}-?\d\d-?\d\d(?:[T_\-.]?\d{1,6})?|[.\-_]\d{1,5})\Z"
)


def stem(file: str) -> str:
    """The file's path without what log rotation adds to it.

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
def adjoin(file: str, other: str) -> bool:
    """True where the two are rotations of one name with no third one between: nothing can be missing.

    >>> adjoin("/logs/a.log.2", "/logs/a.log.1"), adjoin("/logs/a.log.1", "/logs/a.log")
    (True, True)
    >>> adjoin("/logs/a.log.2", "/logs/a.log"), adjoin("/logs/a.log.1", "/logs/b.log")
    (False, False)
    """
    numbers = _number(file), _number(other)
    return stem(file) == stem(other) and None not in numbers and abs((numbers[0] or 0) - (numbers[1] or 0)) == 1


def rotations(files: Iterable[str]) -> bool:
    """True where the files are one log and its numbered rotations, none missing: not parts dealt out to files.

    >>> rotations(["a.log", "a.log.1", "a.log.2"]), rotations(["part-0.log", "part-1.log"])
    (True, False)
    """
    names = list(files)
    numbers = [_number(name) for name in names]
    return len({stem(name) for name in names}) == 1 and {*numbers} == {*range(len(names))}


def _number(file: str) -> int | None:
    """The number that a rotation has, 0 for the log itself, None for others (named by their day, or counted from 0)."""
    end = file[len(stem(file)) :]
    if _DATE.search(end):
        return None
    found = _NUMBER.search(end)
    return (int(found[1]) or None) if found else 0
