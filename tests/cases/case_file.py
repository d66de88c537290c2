"""Case files: found below a folder, unpacked, and told apart by what is in them."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterator
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
            return told(problem)

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
        return (json.loads(line) for line in io.BytesIO(self.content) if not line.isspace())


def told(problem: BaseException) -> str:
    """What went wrong, on one line."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())


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
        yield CaseFile(name, content, told(problem))


def stated(kind: Kind, file: CaseFile) -> tuple[list[tuple[str, Any]], str]:
    """The file's cases, and why they are not all, where they are not."""
    found: list[tuple[str, Any]] = []
    try:
        found.extend(kind.cases(file))
    except (*DAMAGE, FsmError, LookupError, TypeError, AttributeError) as problem:
        return found, f"behind {found[-1][0] if found else 'its head'}: {told(problem)}"
    return found, ""
