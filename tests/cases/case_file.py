"""Case files: found below a folder, unpacked, and told apart by what is in them."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

import yaml

from fsm.errors import FsmError

KINDS = {".yaml": "yaml", ".yml": "yaml", ".jsonl": "json lines", ".log": "segment"}
DAMAGE = (OSError, EOFError, ValueError, lzma.LZMAError, tarfile.TarError, yaml.YAMLError)
"""What is raised over a file that is not what its name says."""


@dataclass(frozen=True)
class CaseFile:
    """One file of cases, by its path below the folder, with what it holds."""

    name: str
    content: bytes
    damage: str = ""
    """Why it could not be unpacked."""

    @property
    def kind(self) -> str:
        return KINDS.get(Path(self.name).suffix, "")

    @cached_property
    def problem(self) -> str:
        """Why it cannot be read; empty where it can."""
        try:
            return self.damage or str(self._head() and "")
        except DAMAGE as problem:
            return describe(problem)

    @cached_property
    def head(self) -> Any:
        """What tells whose file this is; None where it cannot be read."""
        return None if self.problem else self._head()

    def _head(self) -> Any:
        if self.kind == "yaml":
            return yaml.load(self.content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        return next(self.lines(), None) if self.kind == "json lines" else self.content

    def lines(self) -> Iterator[Any]:
        """The lines of a recording, one after the other, read when they are asked for."""
        return (json.loads(line) for _, line in self.raw_lines())

    def raw_lines(self) -> Iterator[tuple[str, bytes]]:
        """The lines of a recording by their numbers, not read yet."""
        return ((f"line {n}", line) for n, line in enumerate(io.BytesIO(self.content), 1) if not line.isspace())


def describe(problem: BaseException) -> str:
    """What went wrong, on one line; what says so itself needs no name before it."""
    text = " ".join(str(problem).split())
    return text if isinstance(problem, FsmError) else f"{type(problem).__name__}: {text}"


NO_CASE = (*DAMAGE, FsmError, LookupError, TypeError, AttributeError)
"""What is raised over what is no case of its kind."""


@dataclass(frozen=True)
class NotACase:
    """Stands for what could not be read as a case."""

    why: str


class Kind(Protocol):
    """What a test module tells about its case files."""

    reads: Callable[[Any], bool]
    cases: Callable[[CaseFile], Iterator[tuple[str, Any]]]


@cache
def case_files(folder: Path) -> tuple[CaseFile, ...]:
    """Every case file below the folder, in the order of their names."""
    found = (file for path in sorted(folder.rglob("*")) if path.is_file() for file in opened(path, folder))
    return tuple(sorted((f for f in found if f.kind or f.damage), key=lambda f: f.name))


def opened(path: Path, folder: Path) -> Iterator[CaseFile]:
    """The file itself, what its `.xz` holds, or the members of its `.tar.xz`."""
    name = path.relative_to(folder).as_posix()
    if path.suffix == ".xz" or path.suffix in KINDS:
        yield from unpacked(name, path.read_bytes())


def unpacked(name: str, content: bytes) -> Iterator[CaseFile]:
    """The files inside, however they are packed."""
    try:
        if name.endswith(".tar.xz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for member in archive:
                    if member.isfile() and (stream := archive.extractfile(member)):
                        inside = f"{name.removesuffix('.tar.xz')}/{member.name.removeprefix('./')}"
                        yield from unpacked(inside, stream.read())
        elif name.endswith(".xz"):
            yield CaseFile(name.removesuffix(".xz"), lzma.decompress(content))
        else:
            yield CaseFile(name, content)
    except DAMAGE as problem:
        yield CaseFile(name, content, describe(problem))


def each(found: Iterable[tuple[str, Any]], cases: Callable[[Any], Iterable[tuple[str, Any]]]) -> Iterator[Any]:
    """The cases in everything that was found under a name: one that is none does not end those behind it."""
    for name, one in found:
        try:
            yield from list(cases(one))
        except NO_CASE as problem:
            yield name, NotACase(describe(problem))


def listed(document: Mapping[str, Any], *sections: str) -> Iterator[tuple[str, tuple[tuple[Any, ...], Any]]]:
    """Everything in these lists of a document, with its place, by its id."""
    for section in sections:
        for number, one in enumerate(document.get(section) or ()):
            name = one.get("id") if isinstance(one, dict) else None
            yield str(name or f"{section} {number + 1}"), ((section, number), one)


def stated(kind: Kind, file: CaseFile) -> tuple[list[tuple[str, Any]], list[str]]:
    """The file's cases, and why there are no more of them, one line for each that is none."""
    found: list[tuple[str, Any]] = []
    problems: list[str] = []
    try:
        for name, case in kind.cases(file):
            if isinstance(case, NotACase):
                problems.append(f"{file.name}: {name}: {case.why}")
            else:
                found.append((name, case))
    except NO_CASE as problem:
        problems.append(f"{file.name}: behind {found[-1][0] if found else 'its head'}: {describe(problem)}")
    return found, problems


def has_case(kind: Kind, file: CaseFile) -> bool:
    """Whether there is a case in the file, of which no more is read than tells it."""
    try:
        return any(not isinstance(case, NotACase) for _, case in kind.cases(file))
    except NO_CASE:
        return False
