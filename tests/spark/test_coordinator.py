"""The broker's side beside the clients': evidence, causes, and members whose logs are missing."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from fsm.audit import local

from .conftest import DATA, Told, as_told, run, without_unparsed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCENARIOS = ("i_j09_kill9", "i_j13_dup_instance", "x09_coop_sigstop", "j07_maxpoll")


@pytest.fixture(scope="module")
def both_sides(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients' logs and the broker's, a folder for each scenario; of one of them a member's log is missing."""
    folder = tmp_path_factory.mktemp("both-sides")
    with tarfile.open(DATA / "broker-logs.tar.xz") as packed:
        for name in SCENARIOS:
            shutil.copytree(recordings / name, folder / name)
            packed.extract(f"{name}/broker.log", folder, filter="data")
    (folder / "j07_maxpoll" / "B.log").unlink()
    return folder


@pytest.fixture(scope="module")
def audited(both_sides: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, str]:
    """The document of one audit of all of it, and its report."""
    out = tmp_path_factory.mktemp("heard") / "out"
    return run([both_sides], out), (out / "report.html").read_text(encoding="utf-8")


def test_the_pipeline_hears_what_one_process_hears(audited: tuple[Told, str], both_sides: Path) -> None:
    """The same findings, causes, words and lines."""
    expected = local.audit_files(both_sides.rglob("*.log")).findings
    assert without_unparsed(audited[0]["findings"]) == [as_told(one) for one in expected]


def test_the_brokers_lines_are_evidence(audited: tuple[Told, str]) -> None:
    """The coordinator says why a member was out, and its line is shown with its number."""
    found = without_unparsed(audited[0]["findings"])
    told = [one for one in found if "the coordinator says that its session expired" in one["summary"]]
    assert {one["group"] for one in told} >= {"g-i-j09-kill9"}
    lines = [e for one in told for e in one["evidence"] if e["file"].endswith("broker.log")]
    assert lines
    assert all(e["line"] > 0 and "GroupCoordinator" in e["text"] for e in lines)


def test_members_without_logs_are_counted(audited: tuple[Told, str]) -> None:
    """Only the coordinator names them; where every log is there, nobody is missing."""
    missing = {group["group"]: group["members_without_logs"] for group in audited[0]["groups"]}
    assert missing["g-j07-maxpoll"] >= 1
    assert missing["g-i-j09-kill9"] == 0


def test_the_report_draws_the_coordinators_words(audited: tuple[Told, str]) -> None:
    """A lane of its own in the timeline of each group of which a coordinator speaks, and in close-ups of findings."""
    assert audited[1].count("s own words") >= len(SCENARIOS)
