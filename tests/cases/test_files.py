"""No case file is passed over."""

from __future__ import annotations

import importlib.util
import io
import lzma
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from case_file import stated, unpacked

HERE = Path(__file__).parent


def kinds(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    """The modules beside this one that read case files."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"case_kind_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec.loader.exec_module(module)
        found.append(module)
    return [module for module in found if hasattr(module, "reads")]


def test_every_file_has_exactly_one_reader(files: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case file is read by one module of this folder, and there is at least one file."""
    readers = kinds(monkeypatch)
    assert files
    read = [file for file in files if not file.problem]
    assert {f.name: n for f in read if (n := sum(bool(kind.reads(f.head)) for kind in readers)) != 1} == {}


def test_every_file_can_be_read_to_its_end(files: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is damaged, or is no case of its kind, is named here, with the place; every other case has run."""
    readers = kinds(monkeypatch)
    problems = {file.name: file.problem for file in files if file.problem}
    for file in (file for file in files if not file.problem):
        for kind in (kind for kind in readers if kind.reads(file.head)):
            problems |= {file.name: problem} if (problem := stated(kind, file)[1]) else {}
    assert problems == {}


@pytest.mark.our_copies
@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.yaml", b"cases: [ {id: x", "ParserError: while parsing a flow mapping"),
        ("a.jsonl", b'{"case": 1,', "JSONDecodeError: Expecting property name"),
        ("a.jsonl.xz", b"no such thing", "LZMAError: Input format not supported"),
        ("a.tar.xz", b"no such thing", "ReadError:"),
        ("a.yaml", b"\xff\xfe\xff", "Error:"),
    ],
)
def test_a_damaged_file_is_named(name: str, content: bytes, problem: str) -> None:
    """It is one file with one problem, and has no head that a kind could take for its own."""
    (file,) = unpacked(name, content)
    assert problem in file.problem
    assert file.head is None


@pytest.mark.our_copies
def test_packed_files_are_unpacked_to_the_last() -> None:
    """An archive may hold files that are packed themselves; what is no case file is left alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for name, content in (("./x/a.jsonl.xz", lzma.compress(b'{"case": 1}')), ("b.yml", b"cases: []")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    assert [(file.name, file.head) for file in unpacked("walks.tar.xz", packed.getvalue())] == [
        ("walks/x/a.jsonl", {"case": 1}),
        ("walks/b.yml", {"cases": []}),
    ]
