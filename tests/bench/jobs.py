"""The jobs that `audit.py` measures: `python jobs.py JOB LOGS OUT` runs one and prints what it found as JSON.

The small job, done by three tools: find every line in which a librdkafka client tells of a step of its join state,
hold the step against the table `rdkafka-join-state`, and each step against the one before it in the same log.
"""

# ruff: noqa: PLC0415  a job loads what it needs and no more: what it holds is measured

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.tables.rdkafka_join_state import TABLE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from fsm.spark.sources import Job

EDGE = (
    r"(?:%\d\|\d+\.\d{3}\|CGRPJOINSTATE\|([^|]*)\||\d+\.\d{3}\|[A-Z]+\|CGRPJOINSTATE \[([^\]]*)\])"
    r' [^"]*"[^"]*" changed join state ([a-z-]+) -> ([a-z-]+) \('
)
"""Both layouts; Python and DuckDB read it alike."""
_STATES = [name.lower().replace("_", "-") for name in TABLE.columns.states]
LEGAL = [(_STATES[a], _STATES[b]) for a, b, _ in TABLE.columns.edges]
"""Steps of the table, as librdkafka spells them."""


def audit_spark(logs: Path, out: Path) -> dict[str, Any]:
    """`fsm audit` as the command runs it, with a clock at each stage."""
    from fsm.spark.read import sources
    from fsm.spark.stages import Stages

    from fsm.spark import audit
    from fsm.spark.options import Options
    from fsm.spark.session import session

    clock = Clock()
    inputs = sources.find([logs])
    with session("local[*]", input_bytes=inputs.size, scratch=out / "scratch") as spark:
        started = clock.tick()
        stages = Stages(spark, inputs, Options(), out, clock.stage)
        known, _ = stages.run(out / "report.html", out / audit.MARK)
        seconds = clock.tick()
    findings = sum(total["count"] for total in known["metrics"]["findings"] if total["severity"] != "info")
    return {"start_seconds": started, "seconds": seconds, "stages": clock.stages(), "findings": findings}


def read_spark(logs: Path, out: Path, split_bytes: int | None = None) -> dict[str, Any]:
    """The first stage alone: what files hold, parsed and written."""
    from fsm.spark.read import parse, sources

    from fsm.spark.options import Options
    from fsm.spark.session import session

    inputs, usual = sources.find([logs]), Options()
    with session(usual.master, input_bytes=inputs.size, scratch=out / "scratch") as spark:
        clock = Clock()
        bins = sources.bins(inputs, split_bytes or usual.split_bytes, spark.sparkContext.defaultParallelism)
        read = parse.parse_pieces(spark, bins, usual.format, usual.timezone)
        read.write.parquet(str(out / "parsed.parquet"))
        seconds = clock.tick()
        records = spark.read.parquet(str(out / "parsed.parquet")).where("record IS NOT NULL").count()
    return {"seconds": seconds, "tasks": len(bins), "records": records}


def read_spark_uncut(logs: Path, out: Path) -> dict[str, Any]:
    """The same, each file by one task."""
    return read_spark(logs, out, 1 << 62)


def audit_python(logs: Path, _out: Path) -> dict[str, Any]:
    """The same audit in this process."""
    from fsm.audit.local import Options, audit_records, read_files

    clock, options = Clock(), Options()
    read = read_files(logs.rglob("*.log"), options)
    reading = clock.tick()
    told = audit_records(read, options.limits)
    findings = sum(one.severity != "info" for one in told.findings)
    return {"read_seconds": reading, "seconds": reading + clock.tick(), "findings": findings}


def edges_python(logs: Path, _out: Path) -> dict[str, Any]:
    """One `re.match` a line."""
    clock = Clock()
    match = re.compile(EDGE.encode()).match
    legal = {(a.encode(), b.encode()) for a, b in LEGAL}
    told = illegal = broken = 0
    for path in sorted(logs.rglob("*.log")):
        state: dict[bytes, bytes] = {}
        with path.open("rb") as handle:
            for line in handle:
                found = match(line)
                if found is not None:
                    client, other, before, after = found.groups()
                    told += 1
                    illegal += (before, after) not in legal
                    broken += state.get(client or other, before) != before
                    state[client or other] = after
    return {"seconds": clock.tick(), "counts": [told, illegal, broken]}


HITS = """
CREATE TEMP TABLE hits AS
SELECT filename, line, row_number() OVER () AS place
FROM read_csv(
    $logs, columns = {'line': 'VARCHAR'}, header = false, filename = true, delim = '\x01', quote = '', escape = '',
    new_line = '\\n', strict_mode = false, ignore_errors = true, max_line_size = 4194304)
WHERE contains(line, 'CGRPJOINSTATE')
"""
STEPS = """
CREATE TEMP TABLE steps AS
SELECT filename, place, regexp_extract(line, $edge, ['a', 'b', 'state', 'next_state']) AS step
FROM hits
WHERE regexp_matches(line, '^' || $edge)
"""
COUNTS = """
SELECT count(*),
       count(*) FILTER (WHERE (step.state, step.next_state) NOT IN (SELECT (state, next_state) FROM legal)),
       count(*) FILTER (WHERE before <> step.state)
FROM (SELECT step, lag(step.next_state) OVER (PARTITION BY filename, step.a || step.b ORDER BY place) AS before
      FROM steps)
"""


def edges_duckdb(logs: Path, _out: Path) -> dict[str, Any]:
    """Each step a table of its own, so that the expression for a line runs once."""
    import duckdb

    clock = Clock()
    with duckdb.connect() as base:
        base.execute("CREATE TEMP TABLE legal (state VARCHAR, next_state VARCHAR)")
        base.executemany("INSERT INTO legal VALUES (?, ?)", LEGAL)
        base.execute(HITS, {"logs": str(logs / "**" / "*.log")})
        base.execute(STEPS, {"edge": EDGE})
        row = base.execute(COUNTS).fetchone()
    return {"seconds": clock.tick(), "counts": list(row or ())}


def edges_spark(logs: Path, out: Path) -> dict[str, Any]:
    """The audit's own reader and its own judgement, restricted to the lines that the others look for; twice."""
    from fsm.spark.read import sources

    from fsm.spark.options import Options
    from fsm.spark.session import session

    inputs = sources.find([logs])
    with session("local[*]", input_bytes=inputs.size, scratch=out / "scratch") as spark:
        bins = sources.bins(inputs, Options().split_bytes, spark.sparkContext.defaultParallelism)
        clock = Clock()
        counts = _count_edges(spark, bins)
        cold = clock.tick()
        again = _count_edges(spark, bins)
        warm = clock.tick()
    if counts != again:
        raise SystemExit(f"two runs disagree: {counts}, {again}")
    return {"seconds": cold, "warm_seconds": warm, "counts": counts}


def _count_edges(spark: SparkSession, bins: Sequence[Sequence[Job]]) -> list[int]:
    from fsm.spark.judge import conformance
    from fsm.spark.read.parse import PARSED
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    from fsm.spark.columns import only

    read = spark.range(0, len(bins), 1, len(bins)).mapInArrow(_edge_reader(bins), PARSED)
    steps = only(read, "record").where(F.col("machine") == TABLE.name)
    in_order = Window.partitionBy("file", "client_id").orderBy("offset")
    steps = steps.select("machine", "state", "next_state", F.lag("next_state").over(in_order).alias("before"))
    row = (
        conformance.judge(spark, steps)
        .agg(
            F.count("*"),
            F.count(F.when(F.col("allowed_by").isNull(), 1)),
            F.count(F.when(F.col("before") != F.col("state"), 1)),
        )
        .first()
    )
    return list(row or ())


def _edge_reader(bins: Sequence[Sequence[Job]]) -> Any:
    """What `parse.parse_pieces` does, for these lines alone."""
    from fsm.spark.read.parse import PARSED, rows_of

    from fsm.logs.librdkafka import FORMATS
    from fsm.spark.columns import batches, rows_in

    def read(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        few = [replace(f, candidate=re.compile(rb"\|CGRPJOINSTATE(?:\|| \[)")) for f in FORMATS]
        jobs = (job for row in rows_in(given) for job in bins[row["id"]])
        return batches((row for job in jobs for row in rows_of(job.piece, few, UTC)), PARSED)

    return read


class Clock:
    """Seconds since the last tick, and at each stage."""

    def __init__(self) -> None:
        self.last = time.perf_counter()
        self.marks: list[tuple[str, float]] = []

    def tick(self) -> float:
        """Seconds since it was made, or since the tick before."""
        before, self.last = self.last, time.perf_counter()
        return self.last - before

    def stage(self, text: str) -> None:
        """A stage of the audit begins."""
        self.marks.append((re.sub(r" \d.*", "", text), time.perf_counter()))

    def stages(self) -> list[tuple[str, float]]:
        """Each stage and its seconds; the last one ended at the last tick."""
        ends = [begun for _, begun in self.marks[1:]] + [self.last]
        return [(name, end - begun) for (name, begun), end in zip(self.marks, ends, strict=True)]


RUN: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "audit-spark": audit_spark,
    "audit-python": audit_python,
    "read-spark": read_spark,
    "read-spark-uncut": read_spark_uncut,
    "edges-python": edges_python,
    "edges-duckdb": edges_duckdb,
    "edges-spark": edges_spark,
}


if __name__ == "__main__":
    job, logs, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out.mkdir(parents=True)
    print(json.dumps(RUN[job](logs, out)))
