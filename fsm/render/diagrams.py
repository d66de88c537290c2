"""A folder of diagrams: what should be in it, and how what is there differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fsm.errors import InputError
from fsm.render import FORMS, render
from fsm.table import Table

NONE: Mapping[str, bytes] = {}
"""No files beside those of the tables."""
INDEX = "README.md"
"""The page that links all others, drawn where all tables are drawn as Markdown."""


class Difference(NamedTuple):
    """One file of a folder that is not what the tables say."""

    file: str
    problem: str
    """`missing`, `stale` or `surplus`."""


def drawings(
    tables: Sequence[Table], forms: Sequence[str], *, index: bool, pictures: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of every diagram, in the order of the tables; the index names `pictures`, too.

    Raises `InputError` for a table whose name cannot be the name of a file, and as `render` does.
    """
    for table in tables:
        if table.name.startswith(".") or not table.name.isprintable() or set(table.name) & set("/\\"):
            raise InputError(f"{table.name!r} cannot be the name of a file", remedy="give the table another name")
        for form in forms:
            yield f"{table.name}.{FORMS[form]}", render(table, form)
    if index and "markdown" in forms:
        yield INDEX, _index(tables, pictures)


def differences(
    folder: Path,
    tables: Sequence[Table],
    forms: Sequence[str],
    *,
    whole: bool,
    further: Mapping[str, bytes] = NONE,
    pictures: Sequence[str] = (),
) -> list[Difference]:
    """What differs, sorted by file. `whole`: tables and `further` files are all there are, so any other is surplus.

    Text is compared byte for byte. An SVG is compared by the hash of its DOT, so this needs no `dot` program; a PNG,
    which carries no hash, only has to be there.
    """
    found = {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.is_dir() else set()
    problems: list[Difference] = []
    wanted = {f"{table.name}.{FORMS[form]}": (table, form) for table in tables for form in forms}
    for file, (table, form) in wanted.items():
        if file not in found:
            problems.append(Difference(file, "missing"))
        elif not _is_current(folder / file, table, form):
            problems.append(Difference(file, "stale"))
    for file, content in further.items():
        if file not in found or (folder / file).read_bytes() != content:
            problems.append(Difference(file, "stale" if file in found else "missing"))
    if whole:
        problems.extend(_of_index(folder, found, _index(tables, pictures)) if "markdown" in forms else ())
        surplus = found - wanted.keys() - further.keys() - ({INDEX} if "markdown" in forms else set())
        problems.extend(Difference(file, "surplus") for file in surplus)
    return sorted(problems)


def _is_current(path: Path, table: Table, form: str) -> bool:
    if form == "png":
        return True
    if form == "svg":
        from fsm.render.svg import dot_hash, drawn_from

        return drawn_from(path.read_text(encoding="utf-8", errors="replace")) == dot_hash(render(table, "dot").decode())
    return path.read_bytes() == render(table, form)


def _of_index(folder: Path, found: set[str], content: bytes) -> Iterator[Difference]:
    if INDEX not in found:
        yield Difference(INDEX, "missing")
    elif (folder / INDEX).read_bytes() != content:
        yield Difference(INDEX, "stale")


def _index(tables: Iterable[Table], pictures: Iterable[str]) -> bytes:
    from fsm.render.markdown import index

    return index(tables, pictures).encode()
