"""Pictures of recorded groups: who used which partition, and when two did."""

from __future__ import annotations

from pathlib import Path

import pytest
from recordings import opened

from fsm.audit.picture import of_files
from fsm.cli import main

ARCHIVE = Path(__file__).parents[1] / "data" / "java-logs.tar.xz"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The logs of a group one of whose members does not poll for longer than `max.poll.interval.ms`."""
    with opened(ARCHIVE) as archive:
        for member in archive:
            if "/j07_maxpoll/" in f"/{member.name}" and member.name.endswith(".log"):
                archive.extract(member, tmp_path)
    return tmp_path


def test_a_group_of_consumers_is_drawn_from_its_logs(logs: Path) -> None:
    """Both members are there, all six partitions have users, and three of them had two at once."""
    ((group, picture),) = of_files(sorted(logs.rglob("*.log"))).items()
    assert group == "g-j07-maxpoll"
    assert picture.workers == ["g-j07-maxpoll-A", "g-j07-maxpoll-B"]
    assert [str(unit) for unit in picture.units] == [f"j07-maxpoll-foo-{number}" for number in range(6)]
    assert [mark.text for mark in picture.marks] == ["epoch 2", "epoch 3", "epoch 4", "epoch 5"]
    twice = {
        a.unit.number
        for a in picture.bars
        for b in picture.bars
        if a.unit == b.unit and a.worker < b.worker and a.start_ms < b.end_ms and b.start_ms < a.end_ms
    }
    assert twice == {3, 4, 5}


def test_the_command_draws_it(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file for the group, and its name on stdout."""
    assert main(["draw", "--timeline", str(logs), "-o", str(logs / "out")]) == 0
    drawn = logs / "out" / "group-g-j07-maxpoll.svg"
    assert capsys.readouterr().out == f"{drawn}\n"
    picture = drawn.read_text(encoding="utf-8")
    assert "<svg" in picture
    assert picture.count("<title>two owners at once, 4 s</title>") == 3
    assert ">0 s is 2026-11-21 07:54:51.982 UTC</text>" in picture
