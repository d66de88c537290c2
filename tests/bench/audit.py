"""What an audit costs in CPU seconds of all processes, beside DuckDB and Polars that only look for clients' lines.

    python tests/bench/audit.py [--lines N ...] [--only INPUT ...] [--jobs JOB ...] [--scratch DIR]

The logs are the recorded ones over and over, under fresh names (`fleet.py`): ten lines; clients at DEBUG and nothing
else; nine lines in ten an application's own, in several layouts. Each job runs in a process of its own, one after the
other. Of several sizes CPU microseconds a line show how the work grows. Nobody passes or fails here by time: the
figures are for reading.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

import fleet
import measure
import recordings
from measure import Measured

TEN = "ten"
DEBUG = "debug"
INPUTS = (TEN, DEBUG, *fleet.CHATTER)
CHATTER = 9
ROUND = 1_000_000
"""Lines of the mix that is repeated."""
JOBS_FILE = Path(__file__).parent / "jobs.py"


def main() -> None:
    """Writes each input, runs the jobs, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lines",
        type=int,
        nargs="+",
        default=[ROUND],
        metavar="N",
        help=f"about so many each (default: {ROUND})",
    )
    parser.add_argument("--only", nargs="+", choices=INPUTS, default=INPUTS, help="inputs (default: all)")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS), help="jobs (default: all)")
    parser.add_argument("--scratch", type=Path, help="where the logs go: some 250 MB for a million lines")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load before {os.getloadavg()[0]:.1f}\n")
    print(
        f"{'':26}{'lines':>13}{'seconds':>9}{'CPU s':>8}{'lines/CPU s':>13}{'CPU us/line':>13}"
        "   peak MB: all, driver, JVM, workers"
    )
    if options.scratch is not None:
        options.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="fsm-bench-") as made:
        work = Path(made)
        roots = recordings.unpacked(recordings.DATA, work / "recordings")
        scenarios = list(recordings.scenarios(roots))
        for name, lines in product(options.only, sorted(options.lines)):
            logs = lay_out(scenarios, name, lines, work / name)
            for job in options.jobs:
                for shown, took in JOBS[job](logs.folder, work / job):
                    print_row(f"{name}: {shown}", logs.lines, took)
                shutil.rmtree(work / job)
            shutil.rmtree(logs.folder)


def lay_out(scenarios: list[recordings.Scenario], name: str, lines: int, folder: Path) -> fleet.Fleet:
    """The logs of one input."""
    if name == TEN:
        log = next(scenario for scenario in scenarios if scenario.folder.name == "c05_kill9").logs[0]
        folder.mkdir()
        data = b"".join(log.read_bytes().splitlines(keepends=True)[:10])
        (folder / log.name).write_bytes(data)
        return fleet.Fleet(folder, 1, 10, len(data), 1)
    chatter = 0 if name == DEBUG else CHATTER
    own = lines // (chatter + 1)
    chosen = fleet.mix(scenarios, min(own, ROUND))
    return fleet.write(chosen, max(1, round(own / ROUND)), folder, chatter, name)


def print_row(name: str, lines: int, took: Measured) -> None:
    """One line of the table."""
    peaks = ", ".join(f"{took.peak_mb[part]:,.0f}" for part in ("all", "driver", "jvm", "workers"))
    rate = lines / took.cpu_seconds if took.cpu_seconds else 0
    cost_us = 1e6 * took.cpu_seconds / lines
    print(
        f"{name:26}{lines:13,}{took.seconds:9.1f}{took.cpu_seconds:8.1f}{rate:13,.0f}{cost_us:13.2f}"
        f"   {peaks if took.peak_mb else ''}"
    )
    sys.stdout.flush()


Shown = Iterator[tuple[str, Measured]]


def _command(logs: Path, out: Path, *options: str, **environment: str) -> Measured:
    fsm = (sys.executable, "-m", "fsm", "audit", logs, "-o", out / "result", "--min-understood", "0", *options)
    return measure.run(fsm, **environment)


def cold(logs: Path, out: Path) -> Shown:
    """The command, first with nothing kept by a former run, then again."""
    yield "cold, first run ever", _command(logs, out, XDG_CACHE_HOME=str(out / "cache"))
    yield "cold", _command(logs, out, XDG_CACHE_HOME=str(out / "cache"))


def warm(logs: Path, out: Path) -> Shown:
    """A second audit in one session."""
    took = _job("audit-twice", logs, out)
    second = json.loads(took.printed.splitlines()[-1])
    yield "warm", Measured(second["seconds"], second["cpu_seconds"], took.peak_mb, "")


def in_process(logs: Path, out: Path) -> Shown:
    """The command without Spark."""
    yield "--master none", _command(logs, out, "--master", "none")


def others(logs: Path, out: Path) -> Shown:
    """Tools that look for the clients' marks."""
    took = {name: _job(f"marks-{name}", logs, out / name) for name in ("duckdb", "polars")}
    if len({one.printed for one in took.values()}) != 1:
        raise SystemExit(f"they disagree: { {name: one.printed for name, one in took.items()} }")
    yield from took.items()


def _job(job: str, logs: Path, out: Path) -> Measured:
    return measure.run((sys.executable, JOBS_FILE, job, logs, out))


JOBS: dict[str, Callable[[Path, Path], Shown]] = {"cold": cold, "warm": warm, "none": in_process, "others": others}


if __name__ == "__main__":
    main()
