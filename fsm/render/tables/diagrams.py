"""A folder of diagrams: its expected content, and the differences of the actual one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fsm.errors import InputError
from fsm.render import FORMS, render
from fsm.render.tables.view import WHOLE, View
from fsm.table import Table

NONE: Mapping[str, bytes] = {}
"""No additional files."""
INDEX = "README.md"
"""The page that links all others, drawn where all tables are drawn as Markdown."""


class Difference(NamedTuple):
    """One file of a folder that differs from the tables."""

    file: str
    problem: str
    """`missing`, `stale` or `surplus`."""


def drawings(tables: Sequence[Table], forms: Sequence[str], *, view: View = WHOLE) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of every diagram, in the order of the tables.

    Raises `InputError` for a table whose name is no valid file name, and as `render` does.
    """
    for table in tables:
        if table.name.startswith(".") or not table.name.isprintable() or set(table.name) & set("/\\"):
            raise InputError(f"{table.name!r} cannot be the name of a file", remedy="give the table another name")
        for form in forms:
            yield f"{table.name}.{FORMS[form]}", render(table, form, view)


def index(
    tables: Sequence[Table], forms: Sequence[str], *, pictures: Sequence[str] = (), pages: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of the page that links the tables' pages, pictures and further pages."""
    if "markdown" in forms:
        from fsm.render.tables.markdown import index as page

        yield INDEX, page(tables, pictures, pages).encode()


def differences(
    folder: Path,
    tables: Sequence[Table],
    forms: Sequence[str],
    *,
    whole: bool,
    further: Mapping[str, bytes] = NONE,
    pictures: Sequence[str] = (),
    pages: Sequence[str] = (),
) -> list[Difference]:
    """The differences, sorted by file. `whole`: tables and `further` files are complete, so any other file is surplus.

    Text is compared byte for byte. An SVG is compared by the hash of its DOT, so this needs no `dot` program; a PNG,
    which has no hash, only has to exist.
    """
    found = {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.is_dir() else set()
    drawn = {f"{table.name}.{FORMS[form]}": (table, form) for table in tables for form in forms}
    others = {**further, **(dict(index(tables, forms, pictures=pictures, pages=pages)) if whole else {})}
    problems = [Difference(file, "missing") for file in {*drawn, *others} - found]
    stale = [file for file in drawn.keys() & found if not _is_current(folder / file, *drawn[file])]
    stale += [file for file in others.keys() & found if (folder / file).read_bytes() != others[file]]
    problems += [Difference(file, "stale") for file in stale]
    if whole:
        problems += [Difference(file, "surplus") for file in found - drawn.keys() - others.keys()]
    return sorted(problems)


def _is_current(path: Path, table: Table, form: str) -> bool:
    if form == "png":
        return True
    if form == "svg":
        from fsm.render.tables.svg import dot_hash, read_dot_hash

        return read_dot_hash(path.read_text(encoding="utf-8", errors="replace")) == dot_hash(
            render(table, "dot").decode()
        )
    return path.read_bytes() == render(table, form)
