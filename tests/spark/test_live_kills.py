"""A followed audit that is killed at any instant goes on where it was: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import recordings
from pyarrow import parquet

from fsm.audit.live.changes import from_json, standing
from fsm.audit.local import audit_files
from fsm.spark import files, sources
from fsm.spark.live.local import LocalBatches
from fsm.spark.live.sink import Sink
from fsm.spark.options import IN_PROCESS, Follow, Followed, Options

FEW, MORE, MANY = 4, 14, 100
KILLS = 8
"""Of one audit."""
INSTANTS_S = (0.4, 2.0)
"""When the command is killed: as it starts, within its first batches, or behind them."""
SCENARIOS = ("j07_maxpoll", "j09_kill9", "x05_range_fenced_static", "j13_dup_instance")


class Killed(BaseException):
    """What nobody catches."""


class Instants:
    """Counts the instants that are named, and kills at one of them."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, _point: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def written(out: Path) -> list[dict[str, object]]:
    """All lines that a sink wrote, by batch."""
    return [json.loads(line) for path in sorted((out / "findings").glob("*.jsonl")) for line in path.open()]


def growing(logs: dict[str, bytes], folder: Path, chance: random.Random) -> Iterator[None]:
    """Writes logs bit by bit."""
    left = dict(sorted(logs.items()))
    while any(left.values()):
        for name, data in left.items():
            size = chance.randrange(1 + len(logs[name]) // 2)
            with (folder / name).open("ab") as out:
                out.write(data[:size])
            left[name] = data[size:]
        yield


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, bytes]]:
    """Some recordings with findings."""
    logs = recordings.logs("java")
    return {name: logs[name] for name in SCENARIOS if name in logs}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("seeds", "least"), [(range(FEW), 25), pytest.param(range(FEW, MORE), 75, marks=pytest.mark.deep)]
)
def test_killed_at_named_instants(
    seeds: range,
    least: int,
    recorded: dict[str, dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between any two steps of a batch, and before and after each file that is written; also of a restart.

    What is in memory is gone, and what SQLite has not committed.
    """
    killed = 0
    for seed in seeds:
        killed += kill_and_check(seed, recorded, tmp_path / str(seed), monkeypatch)
    assert killed >= least


@pytest.mark.slow
def test_killed_at_hundreds_more(
    recorded: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with other seeds."""
    for seed in range(MORE, MANY):
        assert kill_and_check(seed, recorded, tmp_path / str(seed), monkeypatch)


def kill_and_check(
    seed: int, recorded: dict[str, dict[str, bytes]], root: Path, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Follows a recording with kills, and judges what was written; gives how many kills there were."""
    chance = random.Random(seed)  # noqa: S311
    killed = follow_with_kills(root, recorded[chance.choice(sorted(recorded))], chance, monkeypatch)
    check(root)
    return killed


def follow_with_kills(
    root: Path, logs: dict[str, bytes], chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Follows logs that grow, with a kill now and then; gives how many there were."""
    (root / "logs").mkdir(parents=True)
    (root / "out" / "checkpoint").mkdir(parents=True)
    write, killed = files.write, 0
    for _ in growing(logs, root / "logs", chance):
        while True:
            instants = Instants(chance.randrange(1, 40) if killed < KILLS else 0)

            def writing(path: Path, data: bytes, told: Instants = instants) -> None:
                told("before a file")
                write(path, data)
                told("after a file")

            for module in ("sink", "reading"):
                monkeypatch.setattr(f"fsm.spark.live.{module}.write", writing)
            batches = LocalBatches(followed_into(root / "out"), Sink(root / "out"), instants)
            try:
                batches.recover(sources.look([root / "logs"])[0])
                while batches.run(sources.look([root / "logs"])[0]) is not None:
                    pass
                instants.left = 0
                break
            except Killed:
                killed += 1
            finally:
                batches.close()
    return killed


def check(root: Path) -> None:
    """Every version of every finding was written once, and the last ones are what the batch audit finds.

    Parquet and what stands tell the same as JSON lines, and the groups' files of the page are those of an audit that
    follows the same logs without a kill.
    """
    lines = written(root / "out")
    times = Counter((one["id"], one["version"], one["batch"]) for one in lines)
    assert set(times.values()) == {1}
    seen: dict[object, int] = {}
    for one in lines:
        version, id_ = one["version"], one["id"]
        assert version == seen.get(id_, 0) + 1, "a version is lost, or there twice"
        seen[id_] = 0 if one["status"] == "withdrawn" else version  # type: ignore[assignment]
    told = standing({}, map(from_json, lines))
    found = sorted(one.finding.summary for one in told.values() if one.finding.group)
    assert found == sorted(one.summary for one in audit_files((root / "logs").iterdir()).findings)
    assert found
    assert list(in_parquet(root / "out")) == list(map(plain, lines))
    stands = json.loads((root / "out" / "standing.json").read_bytes())["findings"]
    assert sorted(one["id"] for one in stands) == sorted(told)
    assert all(from_json(one) == told[one["id"]] for one in stands)
    assert pages(root / "out") == pages(follow_at_once(root))


def in_parquet(out: Path) -> Iterator[dict[str, object]]:
    """All rows that a sink wrote, by batch."""
    for path in sorted((out / "findings.parquet").glob("*.parquet")):
        yield from map(plain, parquet.read_table(path).to_pylist())


def plain(row: dict[str, Any]) -> dict[str, object]:
    """A version of a finding as a line or a row tells it."""
    evidence = [(one["file"], one["line"], one["text"]) for one in row["evidence"]]
    partitions = [
        (one["topic"], one["partition"]) if isinstance(one, dict) else tuple(one) for one in row["partitions"]
    ]
    return row | {"evidence": evidence, "partitions": partitions, "others": list(row["others"])}


def followed_into(out: Path) -> Followed:
    """Logs that are followed in this process, with the usual options; each batch is given its files."""
    return Followed((), out, Options(master=IN_PROCESS), Follow())


def follow_at_once(root: Path) -> Path:
    """The result of following the logs as they are by now, without a kill."""
    out = root / "at once"
    (out / "checkpoint").mkdir(parents=True)
    batches = LocalBatches(followed_into(out), Sink(out))
    while batches.run(sources.look([root / "logs"])[0]) is not None:
        pass
    batches.close()
    return out


def pages(out: Path) -> dict[str, bytes]:
    """What the page loads of groups."""
    there = {path.name: path.read_bytes() for path in (out / "report").iterdir()}
    assert not [name for name in there if name.startswith(".")], "what was not finished is left"
    return {name: data for name, data in there.items() if name != "now.js" and not name.startswith("index-")}


# -- real processes -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_command_killed_with_kill_9(seed: int, recorded: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """In this process, without Spark, at five instants and more while the logs grow: a hundred in all."""
    chance = random.Random(seed)  # noqa: S311
    logs = recorded[chance.choice(sorted(recorded))]
    (tmp_path / "logs").mkdir()
    killed = 0
    for _ in growing(logs, tmp_path / "logs", chance):
        run_and_kill(tmp_path, chance.uniform(*INSTANTS_S), "--master", "none")
        killed += 1
    while killed < 5:
        run_and_kill(tmp_path, chance.uniform(*INSTANTS_S), "--master", "none")
        killed += 1
    assert finish(tmp_path, "--master", "none") in (0, 1)
    check(tmp_path)
    check_page(tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(3))
def test_the_command_on_spark_killed_with_kill_9(
    seed: int, recorded: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    """The driver with all that it started, while a batch is under way or between two."""
    chance = random.Random(seed)  # noqa: S311
    logs = recorded[chance.choice(sorted(recorded))]
    (tmp_path / "logs").mkdir()
    for turn, _ in enumerate(growing(logs, tmp_path / "logs", chance)):
        if turn < 4:
            run_and_kill(tmp_path, 6 + 20 * chance.random())
    assert finish(tmp_path) in (0, 1)
    check(tmp_path)
    check_page(tmp_path)


@pytest.mark.slow
@pytest.mark.spark
def test_python_workers_of_spark_killed_with_kill_9(recorded: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """Tasks are tried again; where the query could not go on the same command does."""
    chance, logs, killed = random.Random(0), recorded["j07_maxpoll"], 0  # noqa: S311
    (tmp_path / "logs").mkdir()
    process = start(tmp_path)
    for _ in growing(logs, tmp_path / "logs", chance):
        until_s = time.monotonic() + 8
        while time.monotonic() < until_s:
            for pid in workers(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            time.sleep(2 * chance.random())
        if process.poll() is not None:
            process = start(tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    assert killed
    assert finish(tmp_path) == 1
    check(tmp_path)
    check_page(tmp_path)


def workers(root: int) -> list[int]:
    """The Python processes below the JVM that a process started."""
    told = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [(int(pid), int(parent), name) for pid, parent, name in (row.split(None, 2) for row in told.splitlines())]
    below, found = {root}, list[int]()
    for pid, parent, name in sorted(rows):
        if parent in below:
            below.add(pid)
            found += [pid] if name.startswith("python") else []
    return found


def command(root: Path, *options: str, out: str = "out") -> list[str]:
    """The command that follows the logs below a folder."""
    about = ("--follow", "--trigger-ms", "200", *options)
    return [sys.executable, "-m", "fsm", "audit", str(root / "logs"), "-o", str(root / out), *about]


def start(root: Path, *options: str) -> subprocess.Popen[bytes]:
    """Starts the command as the leader of a group."""
    return subprocess.Popen(
        command(root, *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def run_and_kill(root: Path, after_s: float, *options: str) -> None:
    """Starts the command, and kills it with all that it started."""
    process = start(root, *options)
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL


def check_page(root: Path) -> None:
    """The page is that of an audit of the same logs without a kill, and nothing half written is left."""
    assert finish(root, "--master", "none", out="fresh") in (0, 1)
    for out in (root / "out", root / "fresh"):
        assert not [path for path in out.rglob(".*") if path.parent.name != "spark" and "spark" not in path.parts]
    told, fresh = ({p.name: p.read_bytes() for p in (root / out / "report").iterdir()} for out in ("out", "fresh"))
    assert told == fresh
    assert (root / "out" / "report.html").read_bytes() == (root / "fresh" / "report.html").read_bytes()


def finish(root: Path, *options: str, out: str = "out") -> int:
    """Runs the command until nothing is new; gives its status."""
    arguments = command(root, "--stop-ms", "3000", *options, out=out)
    ended = subprocess.run(arguments, capture_output=True, timeout=240, check=False)
    assert b"Traceback" not in ended.stderr, ended.stderr
    return ended.returncode
