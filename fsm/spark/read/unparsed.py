"""What could not be read or understood, as findings: nothing is skipped in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fsm.audit.findings import Evidence, Finding, FindingKind, finding
from fsm.logs.pieces import Unreadable
from fsm.render.wording import many
from fsm.spark.columns import converter, local, only, struct_of, walk_rows
from fsm.spark.report.evidence import line_bases

SHAPES = 5
"""Shapes that the summary of one file shows."""


def findings(spark: SparkSession, seen: DataFrame, unreadable: Sequence[Unreadable]) -> DataFrame:
    """One finding for each file with lines that were not understood, that is damaged, or that cannot be read."""
    of_files = only(walk_rows(_by_file(seen), _report, finding=Finding), "finding")
    if not unreadable:
        return of_files
    refused = [_finding(0, 0, f"{u.file} was not read: {u.reason}", Evidence(u.file, -1)) for u in unreadable]
    return of_files.unionByName(local(spark, list(map(converter(Finding), refused)), struct_of(Finding)))


def _by_file(seen: DataFrame) -> DataFrame:
    """A row for each file that has something to report, with its first bad line and its commonest shapes."""
    shapes = (
        seen.select("file", F.explode("shapes").alias("shape", "n"))
        .groupBy("file", "shape")
        .agg(F.sum("n").alias("n"))
        .groupBy("file")
        .agg(F.slice(F.sort_array(F.collect_list(F.struct((-F.col("n")).alias("n"), "shape"))), 1, SHAPES).alias("top"))
    )
    first_bad = F.when(
        F.col("bad_line") > 0, F.struct((F.col("lines_before") + F.col("bad_line")).alias("line"), "bad_text")
    )
    counts = (
        seen.join(line_bases(seen), ["file", "piece"])
        .groupBy("file")
        .agg(
            F.sum(F.col("orphans") + F.col("not_understood")).alias("lines"),
            F.sum("cut_lines").alias("cut_lines"),
            F.max("error").alias("error"),
            F.coalesce(F.min("first_ms"), F.lit(0)).alias("start_ms"),
            F.coalesce(F.max("last_ms"), F.lit(0)).alias("end_ms"),
            F.min(first_bad).alias("bad"),
        )
    )
    worth = (F.col("lines") > 0) | (F.col("cut_lines") > 0) | (F.col("error") != "")
    columns = ["file", "lines", "cut_lines", "error", "start_ms", "end_ms", "bad", "top"]
    return counts.where(worth).join(shapes, "file", "left").select(*columns)


def _report(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    for row in rows:
        bad = row["bad"] or {"line": 0, "bad_text": ""}
        shown = Evidence(row["file"], -1, bad["line"], bad["bad_text"] or "")
        yield _finding(row["start_ms"], row["end_ms"], "; ".join(_what(row)), shown)


def _finding(start_ms: int, end_ms: int, summary: str, shown: Evidence) -> Finding:
    bare = finding(FindingKind.UNPARSED_LINES, "", "", start_ms, end_ms, summary=summary)
    return replace(bare, evidence=(shown,))


def _what(row: dict[str, Any]) -> Iterator[str]:
    file = row["file"]
    if row["error"]:
        yield f"{file} was not read to its end: {row['error']}"
    if row["lines"]:
        top = " | ".join(f"{-s['n']} x {s['shape'] or 'others'}" for s in row["top"] or ())
        yield f"not understood in {file}: {many(row['lines'], 'line')}, the commonest: {top}"
    if row["cut_lines"]:
        yield f"too long and cut in {file}: {many(row['cut_lines'], 'line')}"
