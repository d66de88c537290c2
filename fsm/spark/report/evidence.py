"""Findings with their lines: `file:line` and the text of each place, by joins, and a fixed order."""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit.findings import FindingKind, Severity


def line_bases(seen: DataFrame) -> DataFrame:
    """For each piece how many lines of its file come before it."""
    before = Window.partitionBy("file").orderBy("piece").rowsBetween(Window.unboundedPreceding, -1)
    return seen.select("file", "piece", F.coalesce(F.sum("lines").over(before), F.lit(0)).alias("lines_before"))


def with_lines(findings: DataFrame, records: DataFrame, seen: DataFrame) -> DataFrame:
    """The findings, each once, and each place of their evidence with its line number and text.

    A place that no record begins at keeps line 0 and no text.
    """
    columns = [c for c in findings.columns if c != "evidence"]
    places = findings.select(
        F.xxhash64(*findings.columns).alias("id"),
        F.struct(*columns).alias("rest"),
        F.posexplode_outer("evidence").alias("at", "place"),
    )
    heads = (
        records.where(F.col("seq") == 0)
        .select("file", "offset", "piece", F.col("line").alias("line_in_piece"), "text")
        .join(line_bases(seen), ["file", "piece"])
        .select("file", "offset", (F.col("lines_before") + F.col("line_in_piece")).alias("number"), "text")
        .alias("head")
    )
    here = (F.col("place.file") == F.col("head.file")) & (F.col("place.offset") == F.col("head.offset"))
    line = F.struct(
        "place.file",
        "place.offset",
        F.coalesce("head.number", "place.line").alias("line"),
        F.coalesce("head.text", "place.text").alias("text"),
    )
    shown = F.when(F.col("place").isNotNull(), F.struct("at", line.alias("line")))
    return (
        places.join(heads, here, "left")
        .groupBy("id")
        .agg(F.any_value("rest").alias("rest"), F.array_sort(F.collect_set(shown)).alias("shown"))
        .select("rest.*", F.col("shown.line").alias("evidence"))
        .select(findings.columns)
    )


def _rank(column: str, known: type[StrEnum]) -> Column:
    """The position of a column's value in its enumeration."""
    return F.array_position(F.array(*(F.lit(k.value) for k in known)), F.col(column))


def in_order(findings: DataFrame) -> DataFrame:
    """The order of `fsm.audit.findings.in_order`, and a fixed one where that leaves a choice."""
    return findings.orderBy("group", "start_ms", _rank("kind", FindingKind), *_TIES)


def worst_first(findings: DataFrame) -> DataFrame:
    """By severity, then kind, then how long it lasted, then the fixed order."""
    lasted = F.col("end_ms") - F.col("start_ms")
    worst = [_rank("severity", Severity), _rank("kind", FindingKind), lasted.desc()]
    return findings.orderBy(*worst, "group", "start_ms", *_TIES)


_TIES = ("member", "partitions", "end_ms", "summary", "severity", "cause", "evidence")
