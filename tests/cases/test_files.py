"""No case file is passed over."""

from __future__ import annotations

import importlib.util
import io
import lzma
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from case_file import CaseFile, stated, unpacked
from known_keys import place

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
    if not files:
        pytest.fail("there is no case file (.yaml, .jsonl, .log, also packed) in the folder", pytrace=False)
    counted = {file.name: sum(bool(kind.reads(file.head)) for kind in readers) for file in files if not file.problem}
    fail_with([f"{name}: {n or 'no'} kinds of cases are like this" for name, n in counted.items() if n != 1])


def test_every_file_can_be_read_to_its_end(files: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is damaged, or is no case of its kind, is named here, with the place; every other case has run."""
    fail_with(problems_of(files, kinds(monkeypatch)))


def problems_of(files: Sequence[Any], readers: Sequence[Any]) -> list[str]:
    """A line for each."""
    found = [f"{file.name}: {file.problem}" for file in files if file.problem]
    for file in (file for file in files if not file.problem):
        found += [line for kind in readers if kind.reads(file.head) for line in stated(kind, file)[1]]
    return found


def fail_with(problems: Sequence[str]) -> None:
    """Fails with these lines and nothing else."""
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


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


def misspelt(name: str, old: str, new: str) -> CaseFile:
    """Our copy of a file with one text in it replaced, the first time that it comes."""
    text = (HERE / name).read_text()
    assert old in text
    return CaseFile(name, text.replace(old, new, 1).encode())


MISSPELT = [
    (
        "current_assignment.yaml",
        "    pending_epochs:",
        "    pending_epoch:",
        "'pending_epoch'; did you mean pending_epochs?",
    ),
    ("assignors.yaml", "    properties:", "    propertys:", "'propertys'; did you mean properties?"),
    ("connect.yaml", "balanced_and_complete:", "balanced_and_compleat:", "did you mean balanced_and_complete?"),
    ("connect.yaml", "    expect:", "    expekt:", "'expekt'; did you mean expect?"),
    ("connect.yaml", "kind: placement", "kind: placements", "unknown kind 'placements'; did you mean placement?"),
    ("seed_connect.yaml", "newly_assigned:", "newly_asigned:", "'newly_asigned'; did you mean newly_assigned?"),
    ("seed_migration.yaml", "previous_epoch:", "previous_epohc:", "did you mean previous_epoch?"),
]
"""What is expected under a name that is none, and what is said about it."""


@pytest.mark.our_copies
@pytest.mark.parametrize(
    ("name", "old", "new", "message"), MISSPELT, ids=[new.strip(" :") for _, _, new, _ in MISSPELT]
)
def test_what_would_not_be_compared_is_refused(
    name: str, old: str, new: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt key of an expectation is named with its line and the nearest key; the other cases are still there."""
    file = misspelt(name, old, new)
    line = 1 + (HERE / name).read_text().partition(old)[0].count("\n")
    (kind,) = (kind for kind in kinds(monkeypatch) if kind.reads(file.head))
    found, (problem,) = stated(kind, file)
    assert f"{name}:{line}: unknown " in problem
    assert message in problem
    assert found


@pytest.mark.our_copies
def test_a_bad_case_does_not_end_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases of 49 lack a key: both are named, and the other 47 run in each of the 12 dialects."""
    text = (HERE / "current_assignment.yaml").read_text()
    file = CaseFile("x.yaml", text.replace("  row: ", "  rwo: ", 2).encode())
    (kind,) = (kind for kind in kinds(monkeypatch) if kind.reads(file.head))
    found, problems = stated(kind, file)
    assert len(found) == 47 * 12
    assert problems == [
        "x.yaml: stable_to_stable: KeyError: 'row'",
        "x.yaml: stable_to_stable_with_new_partitions: KeyError: 'row'",
    ]


@pytest.mark.our_copies
def test_a_bad_line_does_not_end_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of calls on lines of JSON those before and behind one that is damaged run."""
    call = (
        b'{"case": "%s", "assignor": "range", "subscription_type": "HOMOGENEOUS", "topics": {"T1": 1},'
        b' "members": [{"id": "A", "subscribed": ["T1"], "previous": {}}], "expect": {"A": {"T1": [0]}}}\n'
    )
    file = CaseFile("calls.jsonl", call % b"first" + b"{\n" + call % b"last")
    (kind,) = (kind for kind in kinds(monkeypatch) if kind.reads(file.head))
    found, (problem,) = stated(kind, file)
    assert [name for name, _ in found] == ["first", "last"]
    assert problem.startswith("calls.jsonl: line 2: JSONDecodeError: Expecting property name")


@pytest.mark.our_copies
def test_both_tellings_of_a_migration_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is none in the document's story does not keep the shipped one from running."""
    file = misspelt("seed_migration.yaml", "event: leave_and_rejoin", "event: leave_and_rejion")
    (kind,) = (kind for kind in kinds(monkeypatch) if kind.reads(file.head))
    found, (problem,) = stated(kind, file)
    assert found[0][0] == "s24-0"
    assert "did you mean leave_and_rejoin?" in problem


def run_pytest(folder: Path, module: str = "test_files.py") -> str:
    """What a run over a folder says, by a pytest of its own that reads no module but this one."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-rN",  # where CI is set, pytest's summary would repeat each whole message
        str(HERE / module),
    ]
    run = subprocess.run([*command, "--cases", str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    return run.stdout + run.stderr


@pytest.mark.our_copies
def test_a_folder_that_there_is_not_is_one_line(tmp_path: Path) -> None:
    """It is refused before anything is collected."""
    assert run_pytest(tmp_path / "nowhere").strip() == f"ERROR: --cases {tmp_path / 'nowhere'}: no such folder"


@pytest.mark.our_copies
def test_what_cannot_be_read_is_a_line_each(tmp_path: Path) -> None:
    """Broken YAML is one line with its file, without a comparison of mappings."""
    (tmp_path / "a.yaml").write_text("cases: [ {id: x")
    (tmp_path / "b.yaml").write_text("something: else")
    lines = run_pytest(tmp_path).splitlines()
    assert "b.yaml: no kinds of cases are like this" in lines
    assert [line for line in lines if line.startswith("a.yaml: ParserError: while parsing a flow mapping")]
    assert not [line for line in lines if "assert" in line]


@pytest.mark.deep
@pytest.mark.our_copies
def test_every_case_of_a_file_that_fails_is_named(tmp_path: Path) -> None:
    """Also where the cases of a file are one test: the others run, and each difference tells expected and got."""
    call = (
        '{"case": "%s", "assignor": "range", "subscription_type": "HOMOGENEOUS", "topics": {"T1": 1},'
        ' "members": [{"id": "A", "subscribed": ["T1"], "previous": {}}], "expect": {"A": {"T1": [%d]}}}\n'
    )
    calls = (("first", 1), ("second", 0), ("third", 2))
    (tmp_path / "calls.jsonl").write_text("".join(call % one for one in calls))
    lines = run_pytest(tmp_path, "test_assignors.py")
    assert "2 of 3 cases" in lines
    assert [line.partition(":")[0] for line in lines.splitlines() if ": AssertionError: " in line] == ["first", "third"]
    assert "(2,)" in lines


@pytest.mark.our_copies
def test_a_folder_without_a_case_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder is no run that passes."""
    with pytest.raises(pytest.fail.Exception, match="there is no case file") as failed:
        test_every_file_has_exactly_one_reader((), monkeypatch)
    assert not failed.value.pytrace


@pytest.mark.our_copies
def test_a_merged_key_is_placed_where_it_is_asked_for() -> None:
    """A key that comes from an anchor elsewhere has the line of the mapping into which it is merged."""
    file = CaseFile("x.yaml", b"a: &a {bogus: 3}\ncases:\n- id: x\n  expect:\n    <<: *a\n")
    assert place(file, ("cases", 0, "expect", "bogus")) == "x.yaml:4"
    assert place(file, ("a", "bogus")) == "x.yaml:1"
