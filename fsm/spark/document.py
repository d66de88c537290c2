"""`audit.json`: the result as one JSON document, streamed, in a fixed order.

{"inputs": {...}, "groups": [...], "findings": [...], "metrics": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fsm.audit.findings import Cause
from fsm.spark import conformance
from fsm.spark.evidence import in_order

if TYPE_CHECKING:
    from fsm.spark.audit import Stages

MOST = 40
"""Unreadable files, layouts and shapes that the document names; it counts the rest."""


def write(stages: Stages, path: Path) -> dict[str, Any]:
    """Writes the document; gives its `inputs` and `metrics`, which are bounded."""
    known = {"inputs": inputs(stages), "metrics": metrics(stages)}
    with path.open("w", encoding="utf-8") as out:
        out.write('{"inputs": ' + _text(known["inputs"]))
        _list(out, "groups", _groups(stages))
        _list(out, "findings", _findings(stages.read("findings")))
        out.write(',\n"metrics": ' + _text(known["metrics"]) + "}\n")
    return known


def _list(out: TextIO, name: str, items: Iterable[dict[str, Any]]) -> None:
    out.write(f',\n"{name}": [')
    for number, item in enumerate(items):
        out.write((",\n " if number else "\n ") + _text(item))
    out.write("]")


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _findings(findings: DataFrame) -> Iterator[dict[str, Any]]:
    for row in in_order(findings).toLocalIterator(prefetchPartitions=True):
        item = row.asDict(recursive=True)
        item["partitions"] = [[p["topic"], p["partition"]] for p in item["partitions"]]
        item["evidence"] = [{k: e[k] for k in ("file", "line", "text")} for e in item["evidence"]]
        yield item


def inputs(stages: Stages) -> dict[str, Any]:
    """What was read and what of it was understood."""
    seen = stages.read("files")
    totals = seen.agg(
        *(
            F.coalesce(F.sum(name), F.lit(0)).alias(name)
            for name in ("lines", "entries", "records", "not_understood", "orphans", "cut_lines")
        ),
        F.countDistinct(F.when(F.col("gzipped"), F.col("file"))).alias("gzipped_files"),
        F.min("first_ms").alias("start_ms"),
        F.max("last_ms").alias("end_ms"),
    ).first()
    damaged = seen.where(F.col("error") != "").select("file", "error").orderBy("file")
    refused = [[u.file, u.reason] for u in stages.inputs.unreadable]
    refused += [[r["file"], r["error"]] for r in damaged.limit(MOST).collect()]
    return {
        "files": len(stages.inputs.sources),
        "bytes": stages.inputs.size,
        **(totals.asDict() if totals else {}),
        "layouts": _counts(seen, "layouts"),
        "levels": _counts(seen, "levels"),
        "shapes": _counts(seen, "shapes"),
        "unreadable": sorted(refused)[:MOST],
        "unreadable_files": len(stages.inputs.unreadable) + damaged.count(),
    }


def _counts(seen: DataFrame, column: str) -> dict[str, int]:
    """The commonest entries of a column of counts, most first."""
    counted = (
        seen.select(F.explode(column).alias("name", "n"))
        .groupBy("name")
        .agg(F.sum("n").alias("n"))
        .orderBy(F.col("n").desc(), "name")
        .limit(MOST)
    )
    return {row["name"]: row["n"] for row in counted.collect()}


def _groups(stages: Stages) -> Iterator[dict[str, Any]]:
    """A row for each group with what its logs cover."""
    unknown = F.sum((F.col("end_known") == Cause.UNKNOWN.value).cast("int"))
    lives = (
        stages.read("lives")
        .groupBy("group")
        .agg(
            F.min("start_ms").alias("start_ms"),
            F.max("end_ms").alias("end_ms"),
            F.countDistinct("member").alias("members"),
            F.count("*").alias("lives"),
            F.sum((~F.col("whole_start")).cast("int")).alias("begin_unknown"),
            unknown.alias("end_unknown"),
            F.array_sort(F.collect_set("protocol")).alias("protocols"),
            F.array_sort(F.collect_set("version")).alias("versions"),
        )
    )
    owned = stages.read("intervals").groupBy("group").agg(F.countDistinct("topic", "partition").alias("partitions"))
    moves = (
        stages.read("rebalances")
        .groupBy("group")
        .agg(F.count("*").alias("rebalances"), F.sum("moved").alias("partitions_moved"))
    )
    joined = lives.join(owned, "group", "left").join(moves, "group", "left").fillna(0).orderBy("group")
    for row in joined.toLocalIterator(prefetchPartitions=True):
        item = row.asDict(recursive=True)
        whole = not item["begin_unknown"] and not item["end_unknown"]
        yield {**item, "coverage": "whole" if whole else "unknown"}


def metrics(stages: Stages) -> dict[str, Any]:
    """Counts by kind, traffic on the tables, dwell times and rebalances."""
    totals = stages.read("findings").groupBy("kind", "severity").count().orderBy("kind", "severity")
    took = F.col("end_ms") - F.col("start_ms")
    rebalances = (
        stages.read("rebalances")
        .agg(
            F.count("*").alias("count"),
            F.coalesce(F.sum("moved"), F.lit(0)).alias("moved"),
            F.coalesce(F.percentile_approx(took, 0.5), F.lit(0)).alias("median_ms"),
            F.coalesce(F.max(took), F.lit(0)).alias("longest_ms"),
            F.coalesce(F.max("unowned_ms"), F.lit(0)).alias("longest_unowned_ms"),
        )
        .first()
    )
    return {
        "findings": [row.asDict() for row in totals.collect()],
        "transitions": [row.asDict() for row in conformance.edge_counts(stages.read("transitions")).collect()],
        "dwell": [row.asDict() for row in stages.read("dwell").orderBy("machine", "state").collect()],
        "rebalances": rebalances.asDict() if rebalances else {},
    }
