"""`fsm audit` in this process: what is known is left out, and the files that other tools read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import recordings

from fsm import cli


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group with one incident, and another one with two processes that have one instance id."""
    folder = tmp_path_factory.mktemp("logs")
    for scenario in ("j07_maxpoll", "x05_range_fenced_static"):
        (folder / scenario).mkdir()
        for name, data in recordings.logs("java")[scenario].items():
            (folder / scenario / name).write_bytes(data)
    return folder


def audit(capsys: pytest.CaptureFixture[str], logs: Path, out: Path, *more: str | Path) -> tuple[int, str, str]:
    """Exit status and what was printed."""
    status = cli.main(["audit", str(logs), "-o", str(out), "--master", "none", *map(str, more)])
    said = capsys.readouterr()
    return status, said.out, said.err


def document(out: Path) -> dict[str, Any]:
    """The document of a result."""
    found: dict[str, Any] = json.loads((out / "audit.json").read_text())
    return found


# -- baselines --------------------------------------------------------------------------------------------------


def test_what_is_known_is_counted_and_not_told(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the audit of the same logs nothing is left, and the exit status says so."""
    status, _, _ = audit(capsys, logs, tmp_path / "first")
    assert status == 1
    status, out, _ = audit(capsys, logs, tmp_path / "second", "--baseline", tmp_path / "first")
    assert status == 0
    assert out.splitlines()[1:3] == ["  nothing found", "known by the baseline, and not told: 13 findings"]
    found = document(tmp_path / "second")
    assert (found["findings"], found["incidents"], found["inputs"]["known_findings"]) == ([], [], 13)
    assert len(document(tmp_path / "first")["findings"]) == 13


def test_what_is_new_is_told(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The id of an incident stands for its findings; the exit status is that of the rest."""
    audit(capsys, logs, tmp_path / "first")
    static, polls = sorted(document(tmp_path / "first")["incidents"], key=lambda one: -len(one["findings"]))
    known = tmp_path / "known.txt"
    known.write_text(f"{static['id']}  # until the deployment is repaired\n")
    status, out, _ = audit(capsys, logs, tmp_path / "second", "--baseline", known)
    assert status == 1
    assert "known by the baseline, and not told: 11 findings" in out
    assert document(tmp_path / "second")["incidents"] == [polls]


def test_a_bad_baseline_is_refused_before_anything_is_read(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit status 2, no result."""
    (tmp_path / "bad").write_text("what?\n")
    status, out, err = audit(capsys, logs, tmp_path / "out", "--baseline", tmp_path / "bad")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path}/bad:1: 'what?' is no id" in err
    assert not (tmp_path / "out").exists()


# -- other tools ------------------------------------------------------------------------------------------------


def test_forms_of_other_tools_hold_what_the_document_holds(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed case for each incident, a result for each finding."""
    forms = ("--junit", tmp_path / "ci" / "junit.xml", "--sarif", tmp_path / "found.sarif")
    status, _, _ = audit(capsys, logs, tmp_path / "out", *forms)
    assert status == 1
    found = document(tmp_path / "out")
    suites = ET.parse(tmp_path / "ci" / "junit.xml").getroot()  # noqa: S314  our own
    assert sorted(case.get("name", "").split()[-1] for case in suites.iter("testcase") if len(case)) == sorted(
        one["id"] for one in found["incidents"]
    )
    results = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert {one["partialFingerprints"]["findingId/v1"] for one in results} == {one["id"] for one in found["findings"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ci", "found.sarif", "out"]


@pytest.mark.parametrize("form", ["--junit", "--sarif"])
def test_a_form_that_cannot_be_written(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """One line, exit status 2; the result is there."""
    (tmp_path / "file").write_text("")
    status, out, err = audit(capsys, logs, tmp_path / "out", form, tmp_path / "file" / "x")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "file/x: cannot be written: " in err
    assert (tmp_path / "out" / "audit.json").exists()
