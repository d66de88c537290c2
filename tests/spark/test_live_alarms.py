"""The command of alarms: told at least once each, in order, whatever the command does, and the audit does not wait."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S, wait_until

from fsm.audit.findings import Finding, FindingKind, Severity, finding
from fsm.audit.live.changes import Change, Status
from fsm.spark.live import alarms
from fsm.spark.live.alarms import Alarms


def change(number: int) -> Change:
    """An alarm that tells its number."""
    one: Finding = finding(FindingKind.DOUBLE_OWNERSHIP, "g", "m", number, number, summary=str(number))
    assert one.severity is Severity.ERROR
    return Change(1, Status.OPENED, one)


def script(folder: Path, text: str) -> tuple[str, ...]:
    """A command whose shell script begins by noting what it is given."""
    path = folder / "command"
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$(cat)" >> "{folder}/noted"\n{text}\n')
    path.chmod(0o755)
    return (str(path),)


def noted(folder: Path) -> list[int]:
    """What the command was given, in order."""
    there = folder / "noted"
    return [int(json.loads(line)["summary"]) for line in there.read_text().splitlines()] if there.exists() else []


def test_each_is_told_once_in_order_and_nobody_waits(tmp_path: Path) -> None:
    """A batch that is done again adds nothing."""
    told = Alarms(tmp_path / "journal", script(tmp_path, f'until [ -e "{tmp_path}/go" ]; do sleep 0.02; done'))
    told.add(0, [change(0), change(1)])
    told.add(1, [change(2)])
    told.add(1, [change(2)])
    assert told.waiting >= 2
    (tmp_path / "go").touch()
    told.close()
    assert noted(tmp_path) == [0, 1, 2]
    Alarms(tmp_path / "journal", script(tmp_path, "")).close()
    assert noted(tmp_path) == [0, 1, 2]


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said, and the next one is told."""
    hangs = f'[ -e "{tmp_path}/child" ] || {{ sleep 600 & echo $! > "{tmp_path}/child"; wait; }}'
    told = Alarms(tmp_path / "journal", script(tmp_path, hangs), command_s=6)
    told.add(0, [change(0), change(1)])
    wait_until(lambda: not told.waiting)
    told.close()
    assert noted(tmp_path) == [0, 1]
    assert capsys.readouterr().err.count("took longer than 6 s") == 1
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not Path(f"/proc/{child}").exists() or "Z (" in Path(f"/proc/{child}/status").read_text())


def test_what_waits_is_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many are not told is said and counted."""
    monkeypatch.setattr(alarms, "WAITING", 3)
    told = Alarms(tmp_path / "journal", script(tmp_path, "sleep 0.2"))
    told.add(0, [change(number) for number in range(5)])
    assert told.dropped == 2
    assert "2 alarms are not told: 3 others wait" in capsys.readouterr().err
    told.close()
    assert noted(tmp_path) == [0, 1, 2]


def test_after_a_kill_only_the_one_that_ran_is_told_again(tmp_path: Path) -> None:
    """What was told before is not, and what waited is."""
    hangs = f'[ $(wc -l < "{tmp_path}/noted") -lt 2 ] || until [ -e "{tmp_path}/go" ]; do sleep 0.02; done'
    command = script(tmp_path, hangs)
    code = "import sys, time; sys.path[:0] = sys.argv[3:]; from test_live_alarms import *; "
    code += "a = Alarms(Path(sys.argv[1]), (sys.argv[2],)); a.add(0, [change(n) for n in range(4)]); time.sleep(60)"
    arguments = [str(tmp_path / "journal"), *command, *(str(Path(__file__).parents[i]) for i in (0, 1))]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments])
    wait_until(lambda: len(noted(tmp_path)) >= 2)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_S)
    (tmp_path / "go").touch()
    told = Alarms(tmp_path / "journal", command)
    told.add(0, [change(number) for number in range(4)])  # the batch, done again
    told.close()
    assert noted(tmp_path) == [0, 1, 1, 2, 3]
