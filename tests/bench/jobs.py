"""What `audit.py` measures beside the command: `python jobs.py JOB LOGS OUT` runs one job and prints JSON.

DuckDB and Polars do a small part of the audit's work: they read the same lines and count those that hold a mark of a
client, which is how the audit knows where to look.
"""

# ruff: noqa: PLC0415  a job loads what it needs and no more: what it holds is measured

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure

from fsm.logs import clients

MARKS = sorted({mark.decode() for client in clients() for mark in client.marks})


def audit_twice(logs: Path, out: Path) -> dict[str, Any]:
    """Two audits in one session; what the second takes."""
    from fsm.spark.audit import audit_logs
    from fsm.spark.options import Options
    from fsm.spark.session import session
    from fsm.spark.sources import find

    with session(input_bytes=find([logs]).size, scratch=out / "scratch"):
        audit_logs([logs], out / "first", Options())
        # Nobody samples from inside: that would take CPU time of this process.
        before_s, begun = _cpu_s(), time.perf_counter()
        audit_logs([logs], out / "second", Options())
        seconds, after_s = time.perf_counter() - begun, _cpu_s()
        return {"seconds": seconds, "cpu_seconds": sum(cpu_s - before_s.get(pid, 0) for pid, cpu_s in after_s.items())}


def _cpu_s() -> dict[int, float]:
    """CPU seconds of this process and of all that it started and that live, as Spark's workers do."""
    return {one.pid: one.cpu_seconds for one in measure.family(os.getpid())}


def marks_duckdb(logs: Path, _out: Path) -> dict[str, Any]:
    """A search for each mark, until one is found."""
    import duckdb

    lines = """read_csv($logs, columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = '',
        new_line = '\\n', strict_mode = false, ignore_errors = true, max_line_size = 4194304)"""
    marked = " OR ".join("contains(line, '" + mark.replace("'", "''") + "')" for mark in MARKS)
    with duckdb.connect() as base:
        query = f"SELECT count(*) FILTER (WHERE {marked}) FROM {lines}"  # noqa: S608  the marks are our own
        row = base.execute(query, {"logs": str(logs / "**" / "*.log")}).fetchone()
    return {"marked": row and row[0]}


def marks_polars(logs: Path, _out: Path) -> dict[str, Any]:
    """All marks at once."""
    import polars as pl

    lines = pl.scan_lines(sorted(logs.rglob("*.log")))
    marked = lines.select(pl.col("line").str.contains_any(MARKS).sum()).collect(engine="streaming")
    return {"marked": marked.item()}


JOBS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "audit-twice": audit_twice,
    "marks-duckdb": marks_duckdb,
    "marks-polars": marks_polars,
}


if __name__ == "__main__":
    job, logs, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out.mkdir(parents=True)
    print(json.dumps(JOBS[job](logs, out)))
