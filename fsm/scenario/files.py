"""Scenario files: their kind is detected from their content, and runs them.

A kind is one module of `fsm.scenario.kinds` with `NAME`, `reads(document)` and `replay(document, file, dialect)`. It
reads the document through the nodes of `fsm.nodes`, whose errors have the line. Adding a module adds a kind; there is
no list of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from fsm.errors import InputError
from fsm.nodes import Node, read_text, yaml_node
from fsm.scenario import kinds
from fsm.scenario.story import Comparison, Replay

ROLE = "scenario"


class Kind(Protocol):
    """The interface of a kind's module."""

    NAME: str

    def reads(self, document: Node) -> bool:
        """Whether the document is of this kind; a quick check that raises nothing."""

    def replay(self, document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
        """Runs the scenarios of the document in order, by default in the dialect of the file.

        Raises `InputError` with the line for an invalid scenario, and with the known names for an unknown dialect.
        """


def list_kinds() -> Iterator[Kind]:
    """All kinds by the names of their modules, loaded one by one during the iteration."""
    for name in sorted(module.name for module in pkgutil.iter_modules(kinds.__path__)):
        yield cast("Kind", importlib.import_module(f"{kinds.__name__}.{name}"))


def read(path: Path) -> Node:
    """The document in a file. Raises `InputError` for an unreadable file or other content."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would block
        raise InputError("not a regular file", str(path), "give a scenario file")
    return yaml_node(read_text(path, "the scenario", "a scenario file"), str(path), ROLE)


def replay(path: Path, dialect: str | None = None) -> tuple[Replay, ...]:
    """Runs the scenarios of a file under a dialect, by default their own.

    Raises `InputError` for an invalid scenario, and for an unknown dialect.
    """
    return replay_document(read(path), str(path), dialect)


def replay_document(document: Node, file: str, dialect: str | None = None) -> tuple[Replay, ...]:
    """The same for a parsed document."""
    try:
        return tuple(_find_kind(document).replay(document, file, dialect))
    except InputError as problem:
        if problem.where:
            raise
        raise InputError(problem.what, file, problem.remedy) from None  # a dialect may not suit every file


def compare(path: Path, dialect: str | None = None, against: str | None = None) -> Iterator[Comparison]:
    """Compares the scenarios of a file with their expectations, or, with `against`, with the same scenarios under that
    dialect. Raises `InputError` as `replay` does.
    """
    document = read(path)
    ours = replay_document(document, str(path), dialect)
    if against is None:
        yield from (Comparison(run, None, run.differences()) for run in ours)
        return
    theirs = replay_document(document, str(path), against)
    yield from (Comparison(a, b, a.differences_from(b)) for a, b in zip(ours, theirs, strict=True))


def _find_kind(document: Node) -> Kind:
    for kind in list_kinds():
        if kind.reads(document):
            return kind
    known = ", ".join(kind.NAME for kind in list_kinds())
    raise InputError("is not a known kind of scenario", document.where, f"kinds: {known}; see fsm replay --help")
