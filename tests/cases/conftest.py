"""Case files: found below a folder, told apart by what is in them, each case a test of its own.

    pytest tests/cases --cases DIR      runs every file below DIR instead of the copies that lie here

A case file is YAML, lines of JSON, or a raw log segment, as it is, as `.xz`, or inside a `.tar.xz`. Its name means
nothing: a module `test_*.py` of this folder says by `reads(head)` which files are its own, where the head is the
whole document of a YAML file, the first line of lines of JSON, the bytes of a segment; and by `cases(file)` which
cases a file holds, as (id, case). Its tests take each `case` in turn.
"""

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

import pytest
import yaml

HERE = Path(__file__).parent
KINDS = {".yaml": "yaml", ".yml": "yaml", ".jsonl": "json lines", ".log": "segment"}


@dataclass(frozen=True)
class CaseFile:
    """One file of cases, by its path below the folder, with what it holds."""

    name: str
    content: bytes

    @property
    def kind(self) -> str:
        return KINDS[Path(self.name).suffix]

    @cached_property
    def head(self) -> Any:
        """What tells whose file this is."""
        if self.kind == "yaml":
            return yaml.load(self.content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        return next(self.lines(), None) if self.kind == "json lines" else self.content

    def lines(self) -> Iterator[Any]:
        """The lines of a recording, one after the other, read when they are asked for."""
        return (json.loads(line) for line in io.BytesIO(self.content) if not line.isspace())


class Kind(Protocol):
    """What a test module tells about its case files."""

    reads: Callable[[Any], bool]
    cases: Callable[[CaseFile], Iterator[tuple[str, Any]]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", metavar="DIR", type=Path, help="run the case files below DIR instead of our copies")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "our_copies: speaks of the case files of this folder only")


def chosen(config: pytest.Config) -> Path:
    given: Path | None = config.getoption("--cases", default=None)
    if given is not None and not given.is_dir():
        raise pytest.UsageError(f"--cases {given}: no such folder")
    return given or HERE


@cache
def case_files(folder: Path) -> tuple[CaseFile, ...]:
    """Every case file below the folder, in the order of their names."""
    found = (file for path in sorted(folder.rglob("*")) if path.is_file() for file in opened(path, folder))
    return tuple(sorted((f for f in found if Path(f.name).suffix in KINDS), key=lambda f: f.name))


def opened(path: Path, folder: Path) -> Iterator[CaseFile]:
    """The file itself, what its `.xz` holds, or the members of its `.tar.xz`."""
    name = path.relative_to(folder).as_posix()
    if name.endswith(".tar.xz"):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and (stream := archive.extractfile(member)):
                    yield CaseFile(f"{name.removesuffix('.tar.xz')}/{member.name.removeprefix('./')}", stream.read())
    elif name.endswith(".xz"):
        yield CaseFile(name.removesuffix(".xz"), lzma.decompress(path.read_bytes()))
    elif path.suffix in KINDS:
        yield CaseFile(name, path.read_bytes())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every case of every file that the module reads, for a test that takes a `case`."""
    if "case" not in metafunc.fixturenames:
        return
    kind: Kind = metafunc.module
    files = [file for file in case_files(chosen(metafunc.config)) if kind.reads(file.head)]
    found = [pytest.param(case, id=f"{file.name}:{name}") for file in files for name, case in kind.cases(file)]
    metafunc.parametrize("case", found)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A kind of which the folder has no file is left out; with `--cases`, so is what speaks of our copies only."""
    given = config.getoption("--cases", default=None) is not None
    mine = [item for item in items if HERE in item.path.parents]
    left_out = {item for item in mine if is_empty(item) or (given and item.get_closest_marker("our_copies"))}
    config.hook.pytest_deselected(items=[item for item in mine if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def is_empty(item: pytest.Item) -> bool:
    """Whether the test stands for no case at all."""
    mark = item.get_closest_marker("skip")
    return mark is not None and "empty parameter set" in mark.kwargs.get("reason", "")


@pytest.fixture(scope="session")
def files(request: pytest.FixtureRequest) -> tuple[CaseFile, ...]:
    """The case files of this run."""
    return case_files(chosen(request.config))
