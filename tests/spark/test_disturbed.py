"""What happens to files and processes while an audit runs: workers that are killed, files that grow or go away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from patience import PATIENCE_S, wait_until
from pyarrow import parquet

from fsm.render.report.folder import PAGE
from fsm.spark.result import MARK

from .conftest import complaints, document, run

sys.path.append(str(Path(__file__).parents[1] / "bench"))

import measure

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def start(out: Path, *given: str | Path) -> subprocess.Popen[str]:
    """An audit in a process of its own."""
    command = [sys.executable, "-m", "fsm", "audit", *map(str, given), "-o", str(out), "--cluster-by-folder"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def end(audit: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit status, and what it said on stdout and complained of on stderr."""
    said, complained = audit.communicate(timeout=5 * PATIENCE_S)
    return audit.returncode, said, complaints(complained)


def wait_for(happens: Callable[[], object], audit: subprocess.Popen[str]) -> None:
    """Until something happens; fails where the audit ends before."""

    def look() -> None:
        assert audit.poll() is None, audit.communicate()
        time.sleep(0.01)

    wait_until(happens, look)


def workers(audit: subprocess.Popen[str]) -> list[int]:
    """Spark's Python workers below the process: forked by a Python that Java started."""
    family = {one.pid: one for one in measure.family(audit.pid)}
    daemons = {one.pid for one in family.values() if one.parent in family and family[one.parent].program == "java"}
    return [one.pid for one in family.values() if one.parent in daemons and one.program.startswith("python")]


@pytest.fixture(scope="module")
def crowd(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings twice: enough work for several tasks of each stage."""
    folder = tmp_path_factory.mktemp("crowd")
    for scenario in sorted(recordings.iterdir()):
        for copy in range(2):
            shutil.copytree(scenario, folder / f"{copy}-{scenario.name}")
    return folder


@pytest.fixture(scope="module")
def undisturbed(crowd: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its result, made in this process."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    run([crowd], out, by_folder=True, master="none")
    return out


def rows(result: Path) -> Iterator[tuple[str, Counter[str]]]:
    """The rows of each table, in no order."""
    for table in sorted(result.glob("*.parquet")):
        yield table.name, Counter(map(repr, parquet.read_table(table).to_pylist()))


@pytest.mark.deep
@pytest.mark.parametrize("stage", ["reading", "judging"])
def test_a_killed_worker_leaves_whole_files_or_none(crowd: Path, undisturbed: Path, tmp_path: Path, stage: str) -> None:
    """Its task runs again elsewhere, and what it had begun to write is gone: nothing is missing, nothing is twice."""
    audit = start(tmp_path / "out", crowd, "--master", "local[2,3]")
    if stage == "judging":
        wait_for(lambda: list(tmp_path.glob(".out-*/records.parquet/.part-*")), audit)
    killed: list[int] = []

    def kill() -> bool:
        for pid in workers(audit):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return bool(killed)

    wait_for(kill, audit)
    status, _, complained = end(audit)
    assert "not enough was understood" in complained  # one of the clients is hardly understood
    assert (status, complained.count("\n")) == (2, 1)
    for name in (MARK, PAGE):
        assert (tmp_path / "out" / name).read_bytes() == (undisturbed / name).read_bytes()
    assert list(rows(tmp_path / "out")) == list(rows(undisturbed))
    assert not list((tmp_path / "out").rglob(".*"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


WRITER = """
import sys, time
data, file = open(sys.argv[1], "rb").read(), open(sys.argv[2], "ab", buffering=0)
for at in range(0, len(data), 777):
    file.write(data[at : at + 777])
    time.sleep(0.1)
"""
"""Appends a file to another one, in parts that end anywhere."""


@pytest.mark.parametrize(
    "more",
    [("--master", "none"), ("--master", "local[2]", "--split-bytes", "300000")],
)
@pytest.mark.deep
def test_a_file_that_grows(recordings: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    """The result is that of what the file held at one time."""
    whole = (recordings / "j07_maxpoll" / "B.log").read_bytes()
    data = b"".join(whole.replace(b"j07-maxpoll", b"x%d" % n) for n in range(20))
    half = data.rfind(b"\n", 0, len(data) // 2) + 1
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_bytes(data[:half])
    (tmp_path / "rest").write_bytes(data[half:])
    command = [sys.executable, "-c", WRITER, str(tmp_path / "rest"), str(tmp_path / "logs" / "a.log")]
    with subprocess.Popen(command) as writer:
        status, said, complained = end(start(tmp_path / "out", tmp_path / "logs", *more))
        writer.terminate()
    grown = document(tmp_path / "out")
    size = grown["inputs"]["bytes"]
    assert (status, half <= size <= len(data)) == (1, True), (said, complained)
    behind = data.find(b"\n[", size - 1)
    # The entry that was being written is read to its end, as far as it went, or not at all.
    ends = {behind + 1 if behind >= 0 else len(data), size, data.rfind(b"\n", 0, size) + 1}
    possible = []
    for end_ in sorted(ends):
        (tmp_path / "logs" / "a.log").write_bytes(data[:end_])
        then = run([tmp_path / "logs"], tmp_path / f"then-{end_}", by_folder=True, master="none")
        possible.append([then["findings"], then["groups"]])
    assert [grown["findings"], grown["groups"]] in possible


@pytest.mark.deep
@pytest.mark.parametrize("master", ["none", pytest.param("local[2]", marks=pytest.mark.deep)])
def test_a_file_that_goes_away(recordings: Path, tmp_path: Path, master: str) -> None:
    """It is named, and the rest is audited."""
    shutil.copytree(recordings / "m_coop_static", tmp_path / "logs" / "one")
    shutil.copytree(recordings / "j07_maxpoll", tmp_path / "logs" / "two")
    gone = tmp_path / "logs" / "one" / "A.log"
    audit = start(tmp_path / "out", tmp_path / "logs", "-", "--master", master)
    wait_for(lambda: list(tmp_path.glob(".out-*")), audit)  # it knows the files and waits for what is piped in
    gone.unlink()
    audit.stdin.write("nothing that a client wrote\n")  # type: ignore[union-attr]
    status, said, complained = end(audit)
    assert (status, complained) == (1, "")
    assert f"\nnot read, or not to the end: {gone} (FileNotFoundError: No such file or directory)\n" in said
    found = document(tmp_path / "out")
    ((file, reason),) = found["inputs"]["unreadable"]
    assert (file, reason.partition(":")[0]) == (str(gone), "FileNotFoundError")
    assert {one["group"] for one in found["groups"]} == {"one:g-m-coop-static", "two:g-j07-maxpoll"}
