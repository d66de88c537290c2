"""The audit on a standalone Spark cluster: a master and two workers on the loopback, from PySpark's own jars."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from patience import wait_until

from fsm.render.report.folder import PAGE
from fsm.spark.result import MARK
from fsm.spark.session import java_home

from .conftest import run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]
SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No process of the cluster lives long enough to win back what the good compiler costs; there are five of them."""


@pytest.fixture
def environment() -> dict[str, str]:
    """What the cluster needs: Java, this package where its Python finds packages, and no address but the loopback."""
    own = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    own["SPARK_DAEMON_JAVA_OPTS"] = own["SPARK_SUBMIT_OPTS"] = SHORT_LIVED
    own["PYSPARK_SUBMIT_ARGS"] = (
        f"--executor-memory 512m --executor-cores 1 --conf 'spark.executor.extraJavaOptions={SHORT_LIVED}' "
        "--conf spark.scheduler.minRegisteredResourcesRatio=1.0 "
        "--conf spark.scheduler.maxRegisteredResourcesWaitingTime=600s pyspark-shell"
    )
    return os.environ | own


@pytest.fixture
def cluster(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a master with a worker, which starts two executors of a core each."""
    with ExitStack() as stack:
        master = ("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        said = stack.enter_context(daemon(master, tmp_path / "master.log", environment))
        address = said(r"Starting Spark master at (spark://[\d.:]+)")
        worker = ("worker.Worker", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "2")
        worker += ("--memory", "2g", "--work-dir", str(tmp_path / "worker"), address)
        said = stack.enter_context(daemon(worker, tmp_path / "worker.log", environment))
        said("(Successfully registered) with master")
        yield address


@contextmanager
def daemon(command: tuple[str, ...], log: Path, environment: dict[str, str]):
    """Starts a part of the cluster and ends it; gives a function that waits for what it logs."""
    name, *arguments = command
    with log.open("wb") as out:
        started = subprocess.Popen(
            [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
        )

    def said(pattern: str) -> str:
        wait_until(lambda: re.search(pattern, log.read_text()) or started.poll() is not None)
        found = re.search(pattern, log.read_text())
        assert found, log.read_text()
        return found.group(1)

    try:
        yield said
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def assert_same_bytes(folder: Path) -> None:
    """The cluster and this process give one document and one report."""
    for name in (MARK, PAGE):
        assert (folder / "cluster" / name).read_bytes() == (folder / "local" / name).read_bytes()


@pytest.mark.deep
def test_a_cluster_gives_the_bytes_of_this_process(
    recordings: Path, cluster: str, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are named by relative paths, though workers run elsewhere; files are cut, and both executors get pieces."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").symlink_to(recordings)
    run([Path("logs")], Path("local"), split_bytes=65536)
    with audit(cluster, tmp_path, environment) as ran:
        _, complained = ran.communicate()
    assert ran.returncode == 2, complained  # one scenario is of a client that is hardly understood
    assert_same_bytes(tmp_path)
    executors = list(tmp_path.glob("worker/app-*/*/stderr"))
    assert len(executors) == 2
    assert len([log for log in executors if "Running task" in log.read_text()]) == 2


@pytest.mark.slow
def test_a_killed_executor_changes_no_byte(
    recordings: Path, cluster: str, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two is killed while both judge, and what it read is lost with it: it is read and judged once more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").symlink_to(recordings)
    run([Path("logs")], Path("local"), split_bytes=65536)
    with audit(cluster, tmp_path, environment) as ran:
        parts = ".cluster-*/records.parquet/.part-*"
        wait_until(lambda: ran.poll() is not None or [*tmp_path.glob(parts)])
        assert ran.poll() is None, ran.communicate()
        killed, _ = executors_below(tmp_path / "worker")
        os.kill(killed, signal.SIGKILL)
        _, complained = ran.communicate()
    assert ran.returncode == 2, complained
    assert_same_bytes(tmp_path)
    assert sorted(p.name for p in (tmp_path / "cluster" / "records.parquet").iterdir()) == sorted(
        p.name for p in (tmp_path / "local" / "records.parquet").iterdir()
    )
    assert not list((tmp_path / "cluster").rglob(".*"))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def audit(master: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """`fsm audit` of `logs` below a folder, files cut into pieces, into `cluster` beside it."""
    command = (sys.executable, "-m", "fsm", "audit", "logs", "-o", "cluster", "--split-bytes", "65536")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, "--master", master], cwd=folder, env=environment, text=True, **pipes)


def executors_below(folder: Path) -> list[int]:
    """The Java processes that a worker started in its folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if (process / "exe").readlink().name == "java" and (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
        except (OSError, ValueError):
            continue
    return [pid for pid in found if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()]
