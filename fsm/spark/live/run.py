"""Runs a followed audit until it is stopped, or until nothing new came for some time; and its checkpoint: the folder,
its lock, and a mark with the options that must not change."""

from __future__ import annotations

import json
import platform
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

import fsm
from fsm.audit.live.changes import Change
from fsm.errors import FsmError, InputError, refuse_os_errors
from fsm.logs.reading.pieces import Unreadable
from fsm.render.report.folder import FOLDER
from fsm.spark import session
from fsm.spark.audit import Result, explain_nothing
from fsm.spark.files import lock, sweep
from fsm.spark.live.alarms import Alarms
from fsm.spark.live.known_files import Offsets
from fsm.spark.live.local import LocalBatches
from fsm.spark.live.page import Page, inputs_of
from fsm.spark.live.sink import FINDINGS, PARQUET, Sink
from fsm.spark.live.source import find_files, look_for
from fsm.spark.options import IN_PROCESS, Followed
from fsm.spark.sources import FOLLOWED

OnAlarms = Callable[[Sequence[Change]], None]
Look = Callable[[Offsets], None]
_LOOK_S = 0.2
_LOOKS = 3
"""Consecutive looks without news after which there is nothing new."""
_WRITTEN_S = 600
"""Temporary files older than this belong to killed tasks."""
_LATE, _TRIES = "Python worker failed to connect back", 10
"""Spark's error for a Python process that took ten seconds to start, as on a busy machine: the query is restarted, at
most this many times in a row."""
_RETRYING = {"local": "local[1, 4]", "local[*]": "local[*, 4]"}
"""Masters that retry tasks, so that a killed worker does not stop the query."""


def follow_logs(followed: Followed, report: OnAlarms, look: Look = lambda _: None) -> Result:
    """Follows the logs; `report` is called with the alarms of each batch. Returns open findings and inputs.

    `look` is called before each look for new lines, with the current offsets; it may add files.

    Raises `InputError` if it cannot begin, or nothing was understood by the end, and `FsmError` if it cannot continue;
    the same call continues from there.
    """
    _check_paths(path for path in followed.paths if followed.checkpoint not in Path(path).parents)
    with open_checkpoint(followed):
        look({})
        _check_paths(followed.paths)  # including copies of topics
        page, command = Page(followed), followed.follow.command
        alarms = None
        try:
            alarms = Alarms(followed.checkpoint / "alarms.db", command) if command else None
            sink = Sink(followed.out, alarms)
            if followed.options.master == IN_PROCESS:
                _follow_here(followed, page, sink, report, look)
            else:
                _follow_on_spark(followed, page, sink, report, look)
        except (OSError, sqlite3.Error) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise FsmError(
                f"{followed.out}: cannot be written: {reason}; run the same command again to resume"
            ) from None
        except KeyboardInterrupt:
            pass  # the normal end; unwritten changes are written when it continues
        finally:
            if alarms is not None:
                alarms.close()
        return _result(followed, page, sink)


def _list_outputs(followed: Followed) -> list[Path]:
    out, below = followed.out, followed.checkpoint
    return [out, out / FINDINGS, out / PARQUET, out / FOLDER, below / "files", below / "names"]


def _result(followed: Followed, page: Page, sink: Sink) -> Result:
    """The result. Raises `InputError` if no file could be read, or nothing was understood."""
    totals = page.totals()
    if not page.offsets:
        if find_files(followed):
            raise InputError("ended before anything was read", remedy="run the same command again to resume")
        nothing = Unreadable(", ".join(followed.paths), "no file to read")
        refused = next(iter(look_for(followed)[1]), nothing)
        raise InputError(refused.reason, refused.file, "give log files or a folder that holds some")
    if not totals.sums["records"]:
        raise explain_nothing(len(page.offsets), next(iter(page.offsets)), totals, followed.options)
    counts = Counter(one.finding.severity.value for one in sink.versions.values())
    findings = [{"severity": severity, "count": count} for severity, count in sorted(counts.items())]
    return Result(inputs_of(page.offsets, totals), {"findings": findings}, followed.options.master)


def _check_paths(paths: Iterable[str]) -> None:
    for path in paths:
        if not Path(path).exists():
            raise InputError("no such file or folder", path, "name log files, or folders that hold some")


class _Sweeper:
    """Removes the temporary files of killed tasks from time to time."""

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.last_s = time.time()
        sweep(_list_outputs(followed), self.last_s)

    def sweep(self) -> None:
        now_s = time.time()
        if now_s - self.last_s >= _WRITTEN_S:
            self.last_s = now_s
            sweep(_list_outputs(self.followed), now_s - _WRITTEN_S)


class _Idle:
    """Measures the time without news. It also counts looks, because time passes while the machine is suspended."""

    def __init__(self, stop_ms: int | None) -> None:
        self.stop_ms = stop_ms
        self.new()

    def new(self) -> None:
        self.since_s, self.looks = time.monotonic(), 0

    def nothing(self) -> None:
        self.looks += 1

    @property
    def over(self) -> bool:
        is_long = self.stop_ms is not None and 1000 * (time.monotonic() - self.since_s) >= self.stop_ms
        return is_long and self.looks >= _LOOKS


def _follow_here(followed: Followed, page: Page, sink: Sink, report: OnAlarms, look: Look) -> None:
    idle, sweeper = _Idle(followed.follow.stop_ms), _Sweeper(followed)
    batches = LocalBatches(followed, sink)
    try:
        report(batches.recover(find_files(followed)))
        page.change(batches.offsets)
        while not idle.over:
            begun_s = time.monotonic()
            look(page.offsets)
            alarms = batches.run(find_files(followed))
            if alarms is None:
                idle.nothing()
            else:
                idle.new()
                page.change(batches.offsets)
                report(alarms)
            page.write(time.monotonic())
            sweeper.sweep()
            time.sleep(max(0.0, followed.follow.trigger_ms / 1000 - (time.monotonic() - begun_s)))
    finally:
        page.write(0, at_once=True)
        batches.close()


def _follow_on_spark(followed: Followed, page: Page, sink: Sink, report: OnAlarms, look: Look) -> None:
    from fsm.spark.live import query  # which loads pandas

    idle, sweeper = _Idle(followed.follow.stop_ms), _Sweeper(followed)
    failed: list[FsmError] = []

    checkpoint = followed.checkpoint
    number = query.read_committed(checkpoint)
    last = [(number, query.read_reached(checkpoint, number))]

    def on_batch(offsets: Offsets, alarms: list[Change]) -> None:
        idle.new()
        last[0] = query.read_committed(checkpoint) + 1, offsets  # which is committed after this
        page.change(offsets)
        report(alarms)

    def get_offsets() -> Offsets:
        """The committed offsets, because `on_batch` is not called for a batch without judged groups."""
        done = query.read_committed(checkpoint)
        return query.read_reached(checkpoint, done) if done > last[0][0] else last[0][1]

    with (
        session.session(
            _RETRYING.get(followed.options.master, followed.options.master),
            input_bytes=session.TINY_INPUT_BYTES,
            scratch=followed.checkpoint / "scratch",
        ) as spark,
        session.convert_errors(lambda: "following"),
    ):
        page.reached = get_offsets

        def follow() -> None:
            running = query.start(spark, followed, on_batch, sink, failed)
            idle.new()
            try:
                while running.isActive and not idle.over:
                    status = running.status
                    if running.lastProgress is None or (status["isTriggerActive"] and status["isDataAvailable"]):
                        idle.new()
                    else:
                        idle.nothing()
                    page.write(time.monotonic())
                    look(page.offsets)
                    sweeper.sweep()
                    time.sleep(_LOOK_S)
                if failed:
                    raise failed[0]
                if (problem := running.exception()) is not None:
                    raise FsmError(f"Spark failed while following: {session.reason(problem)}")
            finally:
                running.stop()
                page.write(0, at_once=True)

        tries = 0
        while True:
            done = last[0]
            try:
                follow()
                break
            except (FsmError, PySparkException) as problem:
                tries = tries + 1 if last[0] == done else 1
                if tries == _TRIES or _LATE not in str(problem):
                    raise


MARK, HALF, LOCK = FOLLOWED.name, f".{FOLLOWED.name}", "lock"
SCHEMA = 9
"""Version of the content of a checkpoint."""


@contextmanager
def open_checkpoint(followed: Followed) -> Iterator[None]:
    """Creates the folder of the checkpoint if it is new, and locks it.

    Raises `InputError` if the result's folder has other content, or a checkpoint of another version or of other
    options, or if another process follows into it.
    """
    out, folder = followed.out, followed.checkpoint
    mine = _mark(followed)
    with refuse_os_errors("cannot be written", out, "give another folder"):
        own = {folder, folder / LOCK, folder / HALF}  # of an audit that was killed at its start
        if not (folder / MARK).exists() and any(path not in own for path in out.rglob("*")):
            raise InputError(
                "the folder holds files that --follow did not write", str(out), "give a new or empty folder"
            )
    with lock(folder / LOCK, out, "another audit is following into it", "stop that or give another folder"):
        mark = folder / MARK
        if mark.exists():
            _compare(mark, mine)
        else:
            (folder / HALF).write_text(json.dumps(mine, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            (folder / HALF).rename(mark)
        yield


def _mark(followed: Followed) -> dict[str, Any]:
    options = followed.options
    chosen = asdict(options) | {"known": sorted(options.known), "expire_ms": followed.follow.expire_ms}
    for free in ("master", "split_bytes", "top", "lag"):
        del chosen[free]
    engine = "this process" if options.master == IN_PROCESS else "Spark"
    python = ".".join(platform.python_version_tuple()[:2])
    version = {"schema": SCHEMA, "version": fsm.__version__, "python": python}
    mine = {"version": version, "paths": list(followed.paths), "engine": engine, "options": chosen}
    plain: dict[str, Any] = json.loads(json.dumps(mine))
    return plain


def _compare(mark: Path, mine: dict[str, Any]) -> None:
    try:
        known = json.loads(mark.read_bytes())
        known_options, version = known["options"], known["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError("is not a checkpoint", str(mark), "give a new folder") from None
    if version != mine["version"]:
        was = ", ".join(f"{name} {value}" for name, value in version.items())
        raise InputError(f"was begun by another version ({was})", str(mark.parent), "give a new folder")
    for name in ("paths", "engine"):
        if known[name] != mine[name]:
            raise InputError(f"was begun with other {name}: {known[name]}", str(mark.parent), "give a new folder")
    differ = [name for name, value in mine["options"].items() if known_options.get(name) != value]
    if differ:
        was = "; ".join(f"{name} was {json.dumps(known_options.get(name))}" for name in differ)
        raise InputError(f"was begun with other options: {was}", str(mark.parent), "give those, or a new folder")
