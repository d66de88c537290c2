"""`fsm audit --follow` on Spark: the findings of the batch audit, whenever lines came and it was stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fsm.audit.live.changes import Change, from_json, standing
from fsm.audit.local import audit_files
from fsm.spark.live.run import follow_logs
from fsm.spark.options import IN_PROCESS, Follow, Followed, Options

from .conftest import write
from .test_live_kills import written

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]
SCENARIOS = ("j07_maxpoll", "k_p03_aiokafka")


@pytest.mark.deep
def test_logs_that_grow_on_spark(recordings: Path, tmp_path: Path) -> None:
    """Read in two runs of which the second goes on where the first ended, while lines are added to both."""
    logs = tmp_path / "logs"
    data = {(name, path.name): path.read_bytes() for name in SCENARIOS for path in (recordings / name).iterdir()}
    logs.mkdir()
    for name in SCENARIOS:
        write(logs / name, {})
    followed = Followed((str(logs),), tmp_path / "out", Options(), Follow(trigger_ms=500, stop_ms=2000))
    told: list[Change] = []

    def add(part: int, of: int) -> None:
        for (name, file), all_ in data.items():
            with (logs / name / file).open("ab") as out:
                out.write(all_[len(all_) * part // of : len(all_) * (part + 1) // of])

    def keep(alarms: Sequence[Change]) -> None:
        told.extend(alarms)

    for run in range(2):
        add(2 * run, 4)
        later = threading.Timer(4, add, (2 * run + 1, 4))
        later.start()
        assert follow_logs(followed, keep).bad
        later.join()
    follow_logs(followed, keep)  # what came when it was about to end
    stands = [one.finding for one in standing({}, map(from_json, written(tmp_path / "out"))).values()]
    found = audit_files(path for path in logs.rglob("*") if path.is_file()).findings
    assert sorted(one.summary for one in stands if one.group) == sorted(one.summary for one in found)
    assert len({(one.id, one.version) for one in told}) == len(told)
    here = replace(followed, out=tmp_path / "here", options=Options(master=IN_PROCESS))
    follow_logs(here, keep)
    pages = [{path.name: path.read_bytes() for path in (one.out / "report").iterdir()} for one in (followed, here)]
    assert pages[0] == pages[1], "the page tells the same, of files in which nothing was new as well"


@pytest.mark.slow
def test_a_finding_is_there_within_two_intervals(recordings: Path, tmp_path: Path) -> None:
    """Counted from its last line, on a machine that has nothing else to do for a while."""
    logs, interval_s = tmp_path / "logs", 5.0
    write(logs, {path.name: path.read_bytes() for path in (recordings / "c06_maxpoll").iterdir()})
    late = {path.name: path.read_bytes() for path in (recordings / "j07_maxpoll").iterdir()}
    came: list[float] = []
    added: list[float] = []
    follow = Follow(trigger_ms=int(1000 * interval_s), stop_ms=20_000)

    def add() -> None:
        for name, data in late.items():
            (logs / name).write_bytes(data)
        added.append(time.monotonic())

    def keep(alarms: Sequence[Change]) -> None:
        if any(one.finding.group == "g-j07-maxpoll" for one in alarms):
            came.append(time.monotonic())
        elif alarms:
            threading.Timer(interval_s / 2, add).start()

    follow_logs(Followed((str(logs),), tmp_path / "out", Options(), follow), keep)
    assert came[0] - added[0] <= 2 * interval_s
