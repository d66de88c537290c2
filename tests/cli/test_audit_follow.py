"""`fsm audit --follow`: what it prints, writes and refuses, in this process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import recordings
from page_data import data as data_of
from patience import PATIENCE_S
from pyarrow import parquet

from fsm import cli
from fsm.audit.lag import by_group
from fsm.audit.live.changes import Change, Status
from fsm.audit.reading import unparsed
from fsm.cli.audit_summary import print_change
from fsm.cli.broker_lag import LagWatch
from fsm.protocol.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fsm.spark.live import lag_kept
from fsm.testing import LiveBroker
from fsm.wire import Connection

HERE = ("--follow", "--master", "none", "--trigger-ms", "50", "--stop-ms", "300")


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording in which two members own partitions at once, below the current folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, data in recordings.logs("java")["j07_maxpoll"].items():
        (folder / name).write_bytes(data)
    return folder


def follow(*more: str) -> int:
    """The exit status."""
    return cli.main(["audit", "logs", "-o", "out", *HERE, *more])


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that says why a command is refused."""
    capsys.readouterr()
    assert cli.main(["audit", *arguments]) == 2
    printed = capsys.readouterr().err.splitlines()
    return printed[-1]


def lines() -> list[dict[str, Any]]:
    """All versions of findings that were written."""
    files = sorted(Path("out/findings").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_alarms_are_printed_and_everything_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The worst with the place of its line; JSON lines and Parquet hold the same."""
    assert follow() == 1
    printed = capsys.readouterr().out
    assert "error: g-j07-maxpoll: g-j07-maxpoll-B and g-j07-maxpoll-A both owned" in printed
    assert "logs/B.log:173" in printed
    table = parquet.read_table("out/findings.parquet").to_pylist()
    written = lines()
    assert [(row["id"], row["version"], row["status"]) for row in table] == [
        (one["id"], one["version"], one["status"]) for one in written
    ]
    standing = json.loads(Path("out/standing.json").read_text())
    assert {one["id"] for one in standing["findings"]} == {one["id"] for one in written if one["status"] != "withdrawn"}


def test_json_prints_each_alarm_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing else on stdout."""
    assert follow("--json") == 1
    document = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["kind"] for one in document} == {"double_ownership", "partitions_lost"}


def test_the_same_command_goes_on_and_tells_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """What was told stands; the exit status is still that of what stands."""
    assert follow() == 1
    before = lines()
    capsys.readouterr()
    assert follow() == 1
    assert capsys.readouterr().out == ""
    assert lines() == before


def test_figures_for_prometheus(logs: Path) -> None:
    """Open findings by kind and severity, and by group; how far was read."""
    follow()
    text = Path("out/metrics.prom").read_text()
    assert 'fsm_findings_open{kind="double_ownership",severity="error"} 1\n' in text
    assert 'fsm_group_findings_open{group="g-j07-maxpoll",severity="error"} 1\n' in text
    size = sum(path.stat().st_size for path in logs.iterdir())
    assert f"fsm_audit_read_bytes {size}\n" in text


def test_a_command_gets_each_alarm_on_stdin(tmp_path: Path) -> None:
    """As JSON, without a shell: what stands in a log is no argument."""
    script = tmp_path / "note"
    script.write_text(f'#!/bin/sh\ncat >> "{tmp_path}/noted" && echo >> "{tmp_path}/noted"\n')
    script.chmod(0o755)
    follow("--exec", str(script))
    noted = [json.loads(line) for line in (tmp_path / "noted").read_text().splitlines()]
    assert {one["kind"] for one in noted} == {"double_ownership", "partitions_lost"}
    follow("--exec", str(script))
    assert len((tmp_path / "noted").read_text().splitlines()) == len(noted)


def test_a_command_that_fails_is_said_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each time."""
    assert follow("--exec", "false") == 1
    assert "fsm: --exec false: ended with status 1\n" in capsys.readouterr().err


def test_a_page_that_refreshes_itself(logs: Path) -> None:
    """It tells what was read, and loads what is beside it: a file for each group, whose name and findings are there."""
    follow()
    page = Path("out/report.html").read_text()
    assert "report/" in page
    assert "now" in {path.stem for path in Path("out/report").glob("*.js")}
    text = "".join(path.read_text() for path in Path("out/report").glob("*.js"))
    assert "g-j07-maxpoll-B and g-j07-maxpoll-A both owned" in text
    (logs / "A.log").open("a").write("\n")
    before = Path("out/report/now.js").read_text()
    follow()
    assert Path("out/report/now.js").read_text() != before


def test_the_page_has_the_trends_of_all_groups(logs: Path) -> None:
    """Those of the batch audit: rebalances, moves and times without owner; also where only one group was new."""
    for name, data in recordings.logs("java")["j09_kill9"].items():
        (logs / f"other-{name}").write_bytes(data)
    follow()
    with (logs / "A.log").open("a") as out:
        out.write("\n")
    follow()
    cli.main(["audit", "logs", "-o", "batch", "--master", "none"])
    once = data_of(Path("batch/report.html").read_text())[0]["trend"]
    assert sum(step[1] for step in once["steps"]) > 4
    assert json.loads(Path("out/report/now.js").read_text().splitlines()[2].removesuffix(");"))["trend"] == once
    assert '<a href="#trend">' in Path("out/report.html").read_text()


def test_what_cannot_be_read_is_said_once(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However often it is looked for what is new."""
    (logs / "core").write_bytes(bytes(range(32)) * 64)
    os.mkfifo(logs / "pipe")
    os.mkfifo(logs / "a\x1b[2J\nerror: b")
    follow()
    printed = [line for line in capsys.readouterr().err.splitlines() if "logs/" in line]
    assert printed == [
        r"fsm: logs/a\x1b[2J error: b: not a regular file; it is not followed",
        "fsm: logs/core: binary file; it is not followed",
        "fsm: logs/pipe: not a regular file; it is not followed",
    ]


def test_what_happened_to_a_file_is_printed_without_what_it_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    """It is of no group, and has no line; some have no time."""
    for at_ms in (0, 1_700_000_000_120):
        print_change(Change(1, Status.OPENED, unparsed.report_event("a.log", at_ms, "a.log is gone")))
    expected = ("info: a.log is gone\n  a.log\n", "info: a.log is gone\n  2023-11-14 22:13:20.120 UTC, a.log\n")
    assert capsys.readouterr().out == "".join(expected)


def test_one_file_that_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Is no success, nor is a folder in which nothing comes, or nothing of a client."""
    Path("core").write_bytes(bytes(range(32)) * 64)
    assert "core: binary file" in refusal(capsys, "core", "-o", "other", *HERE)
    Path("empty").mkdir()
    assert "empty: no file to read" in refusal(capsys, "empty", "-o", "third", *HERE)
    Path("notes.log").write_text("nothing of any client\n" * 9)
    assert "no known client wrote any of the 1 files" in refusal(capsys, "notes.log", "-o", "fourth", *HERE)


def test_no_verdict_where_too_little_was_understood(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in the batch audit: status 2, and the share."""
    for name, data in recordings.logs("java")["s01_share"].items():
        (logs / f"share-{name}").write_bytes(data)
    once = refusal(capsys, "logs", "-o", "batch", "--master", "none")
    assert "not enough was understood" in once
    assert refusal(capsys, "logs", "-o", "out", *HERE).replace("out:", "batch:") == once
    assert follow("--min-understood", "1") == 2  # it was begun with another
    capsys.readouterr()
    assert cli.main(["audit", "logs", "-o", "again", *HERE, "--min-understood", "0"]) == 1


# -- lag ------------------------------------------------------------------------------------------------------

GAP = "j09_kill9"
"""A recording in which partitions have no owner for a while."""


def unowned() -> list[str]:
    """What stands about partitions without owner."""
    document = json.loads(Path("out/standing.json").read_text())["findings"]
    return [one["summary"] for one in document if one["kind"] == "unowned_partition"]


def lag_at(ts_ms: int, lag: int, found: dict[str, Any]) -> str:
    """The lag of all partitions of a finding, as JSON lines."""
    about = {"ts_ms": ts_ms, "group": found["group"], "lag": lag}
    rows = (about | {"topic": topic, "partition": number} for topic, number in found["partitions"])
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_lag_of_a_file_that_grows_while_logs_do(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What piled up is told of a gap whose lag came later, as soon as its group says more."""
    shutil.rmtree(logs)
    logs.mkdir()
    for name, data in recordings.logs("java")[GAP].items():
        (logs / name).write_bytes(data)
    assert cli.main(["audit", "logs", "-o", "before", *HERE]) in (0, 1)
    stands = json.loads(Path("before/standing.json").read_text())["findings"]
    gap = next(one for one in stands if one["kind"] == "unowned_partition")
    Path("lag.txt").write_text(lag_at(gap["start_ms"] - 1000, 5, gap))
    follow("--lag", "lag.txt")
    assert unowned()
    assert all("records piled up" not in one for one in unowned())
    with Path("lag.txt").open("a") as out:
        out.write(lag_at(gap["end_ms"], 25, gap))
    with (logs / "A.log").open("a") as out:
        out.write(recordings.logs("java")[GAP]["A.log"].decode().splitlines()[-1] + "\n")
    follow("--lag", "lag.txt")
    piled = 20 * len(gap["partitions"])
    assert any(f"; {piled} records piled up, from a lag of" in one for one in unowned())
    assert piled in {row["piled_up"] for row in parquet.read_table("out/findings.parquet").to_pylist()}
    assert "gone.txt: the lag cannot be read" in refusal(capsys, "logs", "-o", "x", *HERE, "--lag", "gone.txt")


def test_what_a_broker_said_is_kept_for_its_group_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says nothing new is left out, but not for long; the oldest goes."""
    kept = lag_kept.KeptLag(tmp_path / "lag.db")
    assert "g" not in kept
    for second in range(0, 600, 30):
        kept.add(by_group([("g", ("t", 0), 1000 * second, 7), ("h", ("t", 1), 1000 * second, second)]))
    assert [one.ts_ms for one in kept["g"]["t", 0]] == [0, 90_000, 180_000, 270_000, 360_000, 450_000, 540_000]
    assert [one.lag for one in kept["h"]["t", 1]] == list(range(0, 600, 30))
    assert sorted(kept) == ["g", "h"]
    monkeypatch.setattr(lag_kept, "ROWS", 3)
    kept.add(by_group([("g", ("t", 0), 700_000, 9)]))
    assert sum(len(own) for group in kept.values() for own in group.values()) == 3


def test_a_broker_is_asked_for_the_lag_again_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When it is gone that is said once, and what it said stands; where it never was, nothing is followed."""
    end_s = time.monotonic() + PATIENCE_S
    with LiveBroker({"t1": 1}, records_a_second=200.0) as broker:
        client = Connection("127.0.0.1", broker.port, "test")
        asked = (OffsetCommitRequestTopic("t1", partitions=(OffsetCommitRequestPartition(0, 0),)),)
        assert not client.call(OffsetCommitRequest("g", topics=asked)).errors
        kept = lag_kept.KeptLag(tmp_path / "lag.db")
        watch = LagWatch("127.0.0.1", broker.port, kept, every_s=0.05)
        while len({one.lag for one in kept["g"]["t1", 0]}) < 3:
            assert time.monotonic() < end_s
            time.sleep(0.05)
        client.close()
    printed = ""
    while "127.0.0.1" not in printed:
        assert time.monotonic() < end_s
        time.sleep(0.05)
        printed += capsys.readouterr().err
    watch.close()
    assert len(kept["g"]["t1", 0]) >= 3
    assert "cannot connect" in refusal(capsys, "logs", "-o", "out", *HERE, "--lag-from", "127.0.0.1:1")
    assert not Path("out").exists()


# -- refusals -------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_other_options(capsys: pytest.CaptureFixture[str]) -> None:
    """The option and its value are named, and nothing is changed."""
    follow()
    printed = refusal(capsys, "logs", "-o", "out", *HERE, "--timezone", "Europe/Berlin")
    assert printed.startswith("fsm: ")
    assert 'was begun with other options: timezone was "UTC"' in printed
    assert "was begun with other paths" in refusal(capsys, "logs/A.log", "-o", "out", *HERE)


def test_a_checkpoint_of_another_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is named."""
    follow()
    mark = Path("out/checkpoint/follow.json")
    document = json.loads(mark.read_text())
    document["version"]["version"] = "0.0.1"
    mark.write_text(json.dumps(document))
    assert "was begun by another version (python " in refusal(capsys, "logs", "-o", "out", *HERE)
    mark.write_text("{")
    assert "is not a checkpoint" in refusal(capsys, "logs", "-o", "out", *HERE)


def test_a_folder_that_holds_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written into it."""
    Path("out").mkdir()
    Path("out/mine").write_text("x")
    assert "holds files that --follow did not write" in refusal(capsys, "logs", "-o", "out", *HERE)
    assert os.listdir("out") == ["mine"]  # noqa: PTH208


def test_a_folder_that_was_given_a_wrong_path_is_as_new(capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not there leaves nothing behind, nor does a start that was killed before its mark stood."""
    assert "no such file or folder" in refusal(capsys, "lgos", "-o", "out", *HERE)
    assert not Path("out").exists()
    Path("out/checkpoint").mkdir(parents=True)
    Path("out/checkpoint/lock").touch()
    Path("out/checkpoint/.follow.json").write_text("{")
    assert follow() == 1


def test_an_audit_passes_over_what_a_followed_one_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    """Its copies and findings are no logs."""
    follow()
    capsys.readouterr()
    assert cli.main(["audit", ".", "-o", "again", "--master", "none", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)["inputs"]
    assert (document["files"], document["older_results"]) == (2, ["out"])


def test_what_cannot_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """Stdin, a path that does not exist, a command that does not, options of the other kind of audit."""
    assert "cannot be followed" in refusal(capsys, "-", "-o", "out", *HERE)
    assert "no such file or folder" in refusal(capsys, "gone", "-o", "out", *HERE)
    assert "no such command" in refusal(capsys, "logs", "-o", "out", *HERE, "--exec", "no-such-program")
    assert "is not for --follow" in refusal(capsys, "logs", "-o", "out", *HERE, "--junit", "x.xml")
    assert "needs --follow" in refusal(capsys, "logs", "-o", "out", "--exec", "true")


def test_two_cannot_follow_into_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """The second one says so at once."""
    first = subprocess.Popen(
        [sys.executable, "-m", "fsm", "audit", "logs", "-o", "out", "--follow", "--master", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline()
        assert "another audit is following into it" in refusal(capsys, "logs", "-o", "out", *HERE)
    finally:
        first.terminate()
        first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 1, "a signal ends it as Ctrl-C does"


@pytest.mark.deep
def test_a_sink_that_is_full() -> None:
    """One line, status 2; with room the same command goes on and nothing is lost."""
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14)); "
    script += "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from fsm import cli; "
    script += f"sys.exit(cli.main({['audit', 'logs', '-o', 'out', *HERE]!r}))"
    # -B: bytecode would be cut there too, and break whoever reads it next.
    ended = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert follow() == 1
    assert {one["kind"] for one in lines()} >= {"double_ownership", "partitions_lost"}
