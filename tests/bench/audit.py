"""What an audit costs: Spark against one process, against DuckDB, and against itself on ten times the lines.

    python tests/bench/audit.py [--lines N] [--times N] [--scratch DIR]

The logs are the recorded ones over and over, under fresh names (`fleet.py`). Every job of `jobs.py` runs in a process
of its own, one after the other. Memory is what the whole family of a process holds at once, sampled while it runs. Jobs
that do the same work must count the same. Nobody passes or fails here by time: the figures are for reading.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

import fleet
import measure
import recordings
from measure import Measured

Found = dict[tuple[str, str], Measured]
"""What each job took, by (job, size)."""
SIZES = ("small", "large")


def main() -> None:
    """Writes the logs, runs the jobs, prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of the small input (default: %(default)s)")
    parser.add_argument("--times", type=int, default=10, help="the large one has so many times more (%(default)s)")
    parser.add_argument("--scratch", type=Path, help="where the logs go: some 250 MB for a million lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="fsm-bench-") as work:
        logs = lay_out(Path(work), options.lines, options.times)
        print(f"What an audit costs on {len(os.sched_getaffinity(0))} cores, load before {os.getloadavg()[0]:.1f}\n")
        for size, made in logs.items():
            print(
                f"- {size}: {made.lines:,} lines, {made.size / 1e6:,.0f} MB, {made.files:,} files, {made.groups} groups"
            )
        print(flush=True)
        whole_audit(logs, Path(work))
        splits(logs["large"], Path(work))
        edges(logs["large"], Path(work))


def lay_out(work: Path, lines: int, times: int) -> dict[str, fleet.Fleet]:
    """The small fleet, and the large one, which is the small one several times."""
    roots = recordings.unpacked(recordings.DATA, work / "recordings")
    chosen = fleet.mix(recordings.scenarios(roots), lines)
    return {"small": fleet.write(chosen, 1, work / "small"), "large": fleet.write(chosen, times, work / "large")}


def whole_audit(logs: dict[str, fleet.Fleet], work: Path) -> None:
    """The same audit on Spark and in one process, at both sizes."""
    found = {
        (job, size): measure.run(job, logs[size].folder, work / f"{job}-{size}")
        for size in SIZES
        for job in ("audit-python", "audit-spark")
    }
    for (job, size), one in found.items():
        if one.inner["findings"] != found["audit-python", size].inner["findings"]:
            raise SystemExit(f"{job} found {one.inner['findings']} in the {size} input, one process did not")
    for size in SIZES:
        speed(size, logs[size].lines, found)
    stages(found)
    memory(found)


def speed(size: str, lines: int, found: Found) -> None:
    """Lines a second, and how many times faster than one process."""
    local, spark = found["audit-python", size], found["audit-spark", size]
    base = local.inner["seconds"]
    table = Table(f"the whole audit, {size} input", "seconds", "lines/s", "x one process")
    for name, seconds in (
        ("one Python process: read and parse alone", local.inner["read_seconds"]),
        ("one Python process", base),
        ("Spark: read and parse alone", spark.inner["stages"][0][1]),
        ("Spark, its session started before", spark.inner["seconds"]),
        ("Spark, with the start of Python, JVM and session", spark.seconds),
    ):
        table.row(name, f"{seconds:.1f}", f"{lines / seconds:,.0f}", f"{base / seconds:.2f}")
    table.print()
    print(
        f"Findings above info: {local.inner['findings']} by both. CPU seconds: one process {local.cpu_seconds:.0f}, "
        f"Spark {spark.cpu_seconds:.0f} with its start.\n"
    )


def stages(found: Found) -> None:
    """Where Spark's time goes."""
    few, many = (found["audit-spark", size].inner for size in SIZES)
    table = Table("seconds of Spark for", *SIZES, "large / small")
    rows = [("starting the session", few["start_seconds"], many["start_seconds"])]
    rows += [(name, a, b) for (name, a), (_, b) in zip(few["stages"], many["stages"], strict=True)]
    for name, a, b in rows:
        table.row(name, f"{a:.1f}", f"{b:.1f}", f"{b / a:.1f}")
    table.print()


def memory(found: Found) -> None:
    """Whether memory grows with the input."""
    table = Table("peak memory, MB", *SIZES, "large / small")
    for name, job, part in (
        ("Spark: all of it", "audit-spark", "all"),
        ("- JVM", "audit-spark", "jvm"),
        ("- Python workers", "audit-spark", "workers"),
        ("- Python driver", "audit-spark", "driver"),
        ("one Python process", "audit-python", "all"),
    ):
        few, many = (found[job, size].peak_mb[part] for size in SIZES)
        table.row(name, f"{few:,.0f}", f"{many:,.0f}", f"{many / few:.2f}")
    table.print()


def splits(logs: fleet.Fleet, work: Path) -> None:
    """The same lines in many small files, and in one large one that is cut into pieces or not."""
    one = fleet.joined(logs, work / "joined")
    found = {
        "many small files": measure.run("read-spark", logs.folder, work / "read-many"),
        "one large file, in pieces": measure.run("read-spark", one, work / "read-pieces"),
        "one large file, as one piece": measure.run("read-spark-uncut", one, work / "read-one"),
    }
    if len({took.inner["records"] for took in found.values()}) != 1:
        raise SystemExit(f"pieces hold other records: { {name: took.inner for name, took in found.items()} }")
    base = found["many small files"].inner["seconds"]
    table = Table("Spark reads and parses the large input", "tasks", "seconds", "lines/s", "x small files", "peak MB")
    for name, took in found.items():
        seconds, tasks = took.inner["seconds"], took.inner["tasks"]
        rate, ratio = logs.lines / seconds, base / seconds
        table.row(name, f"{tasks}", f"{seconds:.1f}", f"{rate:,.0f}", f"{ratio:.2f}", f"{took.peak_mb['all']:,.0f}")
    table.print()


def edges(logs: fleet.Fleet, work: Path) -> None:
    """A small job that every tool can do: find librdkafka's join-state lines and hold each against the table."""
    found = {job: measure.run(job, logs.folder, work / job) for job in ("edges-python", "edges-duckdb", "edges-spark")}
    if len({tuple(one.inner["counts"]) for one in found.values()}) != 1:
        raise SystemExit(f"the tools disagree: { {job: one.inner['counts'] for job, one in found.items()} }")
    plain, duckdb, spark = found.values()
    base = plain.inner["seconds"]
    table = Table("join-state edges, large input", "seconds", "lines/s", "x Python", "peak MB")
    for name, one, seconds in (
        ("plain Python, one process", plain, base),
        ("DuckDB", duckdb, duckdb.inner["seconds"]),
        ("Spark, its session started before, second run", spark, spark.inner["warm_seconds"]),
        ("Spark, its session started before, first run", spark, spark.inner["seconds"]),
        ("Spark, with the start of Python, JVM and session", spark, spark.seconds - spark.inner["warm_seconds"]),
    ):
        rate, ratio = logs.lines / seconds, base / seconds
        table.row(name, f"{seconds:.2f}", f"{rate:,.0f}", f"{ratio:.2f}", f"{one.peak_mb['all']:,.0f}")
    table.print()
    told, illegal, broken = plain.inner["counts"]
    print(f"{told:,} edges by all three, {illegal} not in the table, {broken} that do not follow the one before.")
    print("Spark loses on one small machine: it starts slowly, and rows travel between JVM and Python. It wins where")
    print("more cores or machines read, and where the records of one process no longer fit into memory.")


class Table:
    """A Markdown table whose columns line up; all but the first hold figures."""

    def __init__(self, *titles: str) -> None:
        self.rows = [titles]

    def row(self, *cells: str) -> None:
        """One more line."""
        self.rows.append(cells)

    def print(self) -> None:
        """All of it, and an empty line."""
        first, *others = (max(map(len, column)) for column in zip(*self.rows, strict=True))
        lines = [
            [name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]
            for name, *cells in self.rows
        ]
        lines.insert(1, ["-" * first, *("-" * (width - 1) + ":" for width in others)])
        print("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n", flush=True)


if __name__ == "__main__":
    main()
