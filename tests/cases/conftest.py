"""Case files: found below a folder, told apart by what is in them, each case a test of its own.

    pytest tests/cases --cases DIR      runs every file below DIR instead of the copies that lie here

A case file is YAML, lines of JSON, or a raw log segment, as it is, as `.xz`, or inside a `.tar.xz`, also both. What
cannot be read fails one test, which names it (`test_files.py`); the rest runs. A file's name means nothing: a module
`test_*.py` of this folder says by `reads(head)` which files are its own, where the head is the whole document of a YAML
file, the first line of lines of JSON, the bytes of a segment; and by `cases(file)` which cases a file holds, as
(id, case). Its tests take each `case` in turn. A module of thousands of small cases says `ONE_TEST_A_FILE = True`: then
a file's cases are one test, which runs all of them and names each that fails. If it says `ONE_IN_SO_MANY = 3`, all
but every third of our copies are marked `slow`: another target runs them all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # modules that the tests of this folder share are found by their names

from case_file import CaseFile, Kind, case_files, has_case, stated  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", metavar="DIR", type=Path, help="run the case files below DIR instead of our copies")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "our_copies: speaks of the case files of this folder only")
    given = config.getoption("--cases", default=None)
    if given is not None and not given.is_dir():
        raise pytest.UsageError(f"--cases {given}: no such folder")


def chosen(config: pytest.Config) -> Path:
    given: Path | None = config.getoption("--cases", default=None)
    return given or HERE


class Together(NamedTuple):
    """All cases of a file, for one test, which reads them when it runs."""

    kind: Kind
    file: CaseFile

    @property
    def cases(self) -> list[tuple[str, Any]]:
        return stated(self.kind, self.file)[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every case of every file that the module reads, for a test that takes a `case`."""
    if "case" not in metafunc.fixturenames:
        return
    kind: Kind = metafunc.module
    files = [file for file in case_files(chosen(metafunc.config)) if kind.reads(file.head)]
    if getattr(kind, "ONE_TEST_A_FILE", False):
        found = [pytest.param(Together(kind, file), id=file.name) for file in files if has_case(kind, file)]
    else:
        by_file = [(file.name, stated(kind, file)[0]) for file in files]
        given = metafunc.config.getoption("--cases", default=None) is not None
        every = 1 if given else getattr(kind, "ONE_IN_SO_MANY", 1)
        named = ((f"{file}:{name}", case) for file, cases in by_file for name, case in cases)
        found = [
            pytest.param(case, id=name, marks=[pytest.mark.slow] if i % every else [])
            for i, (name, case) in enumerate(named)
        ]
    metafunc.parametrize("case", found)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test on each of its cases, where it has many: fails with the id and problem of every one that fails."""
    case = pyfuncitem.funcargs.get("case")
    if not isinstance(case, Together):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    failed, cases = [], case.cases
    for name, one in cases:
        try:
            pyfuncitem.obj(**{**given, "case": one})
        except (Exception, pytest.fail.Exception) as problem:  # whatever it is, the other cases run
            failed.append(f"{name}: {type(problem).__name__}: {problem}")
    if failed:
        pytest.fail(f"{len(failed)} of {len(cases)} cases\n\n" + "\n\n".join(failed), pytrace=False)
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A kind of which the folder has no file is left out; with `--cases`, so is what speaks of our copies only."""
    given = config.getoption("--cases", default=None) is not None
    mine = [item for item in items if str(item.path).startswith(f"{HERE}/")]  # a path takes long to compare
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
