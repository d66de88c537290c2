"""Scenario files: their kind is found by what they hold, and runs them.

A kind is one module of `fsm.scenario.kinds` with `NAME`, `reads(document)` and `replay(document, file, dialect)`. It
reads what it is given through the nodes of `fsm.nodes`, whose errors name the line. To add a kind is to add its
module; nothing lists them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from fsm.errors import InputError
from fsm.nodes import SIZE_LIMIT, Node, yaml_node
from fsm.scenario import kinds
from fsm.scenario.story import Comparison, Replay

ROLE = "scenario"


class Kind(Protocol):
    """What the module of a kind offers."""

    NAME: str

    def reads(self, document: Node) -> bool:
        """Whether the document is of this kind; it looks at no more than it needs, and raises nothing."""

    def replay(self, document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
        """Runs the scenarios of the document in their order, in the dialect the file names where none is given.

        Raises `InputError` with the line for what cannot be run, and naming the dialects for one that is unknown.
        """


def list_kinds() -> Iterator[Kind]:
    """Every kind there is, by the names of their modules, each loaded when it is come to."""
    for name in sorted(module.name for module in pkgutil.iter_modules(kinds.__path__)):
        yield cast("Kind", importlib.import_module(f"{kinds.__name__}.{name}"))


def read(path: Path) -> Node:
    """The document in a file. Raises `InputError` for a file that cannot be read or holds anything else."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for
        raise InputError("not a regular file", str(path), "give a scenario's file")
    try:
        with path.open("rb") as file:  # a character is four bytes at most; what is longer is refused below
            text = file.read(4 * SIZE_LIMIT + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", str(path), "save the scenario as UTF-8") from None
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(path), "give a scenario's file") from None
    return yaml_node(text, str(path), ROLE)


def replay(path: Path, dialect: str | None = None) -> tuple[Replay, ...]:
    """The scenarios of a file as they go under a dialect, or under the one that each names itself.

    Raises `InputError` for what cannot be run, and for an unknown dialect.
    """
    return replay_document(read(path), str(path), dialect)


def replay_document(document: Node, file: str, dialect: str | None = None) -> tuple[Replay, ...]:
    """The same for a document that was read already."""
    try:
        return tuple(_find_kind(document).replay(document, file, dialect))
    except InputError as problem:
        if problem.where:
            raise
        raise InputError(problem.what, file, problem.remedy) from None  # a dialect is wrong for some file


def compare(path: Path, dialect: str | None = None, against: str | None = None) -> Iterator[Comparison]:
    """The scenarios of a file beside what they expect, or, with `against`, beside themselves under that dialect.

    Raises `InputError` as `replay` does.
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
    raise InputError("no kind of scenario that is known", document.where, f"kinds: {known}; see fsm replay --help")
