"""Findings with their lines: `file:line` and the text of each place, by joins, and a fixed order."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit.findings import FindingKind, Severity

SEVERITIES = [s.value for s in Severity]
"""Worst first."""


def line_bases(seen: DataFrame) -> DataFrame:
    """For each piece how many lines of its file come before it."""
    before = Window.partitionBy("file").orderBy("piece").rowsBetween(Window.unboundedPreceding, -1)
    return seen.select("file", "piece", F.coalesce(F.sum("lines").over(before), F.lit(0)).alias("lines_before"))


def with_lines(findings: DataFrame, records: DataFrame, seen: DataFrame) -> DataFrame:
    """The findings, each place of their evidence with its line number and text, in the order of `worst_first`.

    A place that no record begins at keeps line 0 and no text.
    """
    known = findings.withColumn("id", F.xxhash64(*findings.columns)).dropDuplicates(["id"])
    places = known.select("id", F.posexplode("evidence").alias("at", "place")).select("id", "at", "place.*")
    heads = (
        records.where(F.col("seq") == 0)
        .select("file", "offset", "piece", F.col("line").alias("line_in_piece"), F.col("text").alias("said"))
        .join(line_bases(seen), ["file", "piece"])
        .select("file", "offset", (F.col("lines_before") + F.col("line_in_piece")).alias("number"), "said")
    )
    shown = (
        places.join(heads, ["file", "offset"], "left")
        .groupBy("id")
        .agg(
            F.sort_array(
                F.collect_list(
                    F.struct(
                        "at",
                        F.struct(
                            "file",
                            "offset",
                            F.coalesce("number", "line").alias("line"),
                            F.coalesce("said", "text").alias("text"),
                        ).alias("place"),
                    )
                )
            ).alias("places")
        )
        .select("id", F.col("places.place").alias("shown"))
    )
    empty = F.array().cast(findings.schema["evidence"].dataType)
    return (
        known.drop("evidence")
        .join(shown, "id", "left")
        .withColumn("evidence", F.coalesce("shown", empty))
        .select(*findings.columns)
    )


def rank(kind: str = "kind") -> F.Column:
    """The position of a finding's kind in the list of kinds."""
    kinds = F.array(*(F.lit(k.value) for k in FindingKind))
    return F.array_position(kinds, F.col(kind))


def in_order(findings: DataFrame) -> DataFrame:
    """The order of `fsm.audit.findings.in_order`."""
    return findings.orderBy("group", "start_ms", rank(), "member", F.to_json("partitions"), "end_ms", "summary")


def worst_first(findings: DataFrame) -> DataFrame:
    """By severity, then kind, then how long it lasted, then the fixed order."""
    severity = F.array_position(F.array(*map(F.lit, SEVERITIES)), F.col("severity"))
    lasted = F.col("end_ms") - F.col("start_ms")
    return findings.orderBy(severity, rank(), lasted.desc(), "group", "start_ms", "member", "summary")
