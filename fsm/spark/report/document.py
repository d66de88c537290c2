"""`audit.json`: the result as one JSON document, streamed, in a fixed order.

{"inputs": {...}, "groups": [...], "findings": [...], "metrics": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fsm.spark.judge import conformance
from fsm.spark.read.sources import Inputs
from fsm.spark.report.evidence import in_order
from fsm.spark.written import Written

MOST = 40
"""Unreadable files, layouts and shapes that the document names; it counts the rest."""
NAMES = 1000
"""Kinds, transitions and states that it counts."""


def write(stages: Written, given: Inputs, summed: dict[str, Any], path: Path) -> dict[str, Any]:
    """Writes the document; gives its `inputs` and `metrics`, which are bounded. `summed` is what `totals` gave."""
    known = {"inputs": inputs(stages, given, summed), "metrics": metrics(stages)}
    with path.open("w", encoding="utf-8") as out:
        out.write('{"inputs": ' + _text(known["inputs"]))
        _list(out, "groups", _rows(stages.read("groups").orderBy("group")))
        _list(out, "findings", map(_finding, _rows(in_order(stages.read("findings")))))
        out.write(',\n"metrics": ' + _text(known["metrics"]) + "}\n")
    return known


def _list(out: TextIO, name: str, items: Iterable[dict[str, Any]]) -> None:
    out.write(f',\n"{name}": [')
    out.writelines((",\n " if number else "\n ") + _text(item) for number, item in enumerate(items))
    out.write("]")


def _text(value: object) -> str:
    return json.dumps(value)


def _rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """The rows in their order; the driver holds one Spark partition of them."""
    for row in frame.toLocalIterator():
        yield row.asDict(recursive=True)


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    row["partitions"] = [[p["topic"], p["partition"]] for p in row["partitions"]]
    row["evidence"] = [{k: e[k] for k in ("file", "line", "text")} for e in row["evidence"]]
    return row


def totals(seen: DataFrame) -> dict[str, Any]:
    summed = ("lines", "entries", "records", "not_understood", "orphans", "cut_lines")
    row = seen.agg(
        *(F.sum(name).alias(name) for name in summed),
        F.countDistinct(F.when(F.col("gzipped"), F.col("file"))).alias("gzipped_files"),
        F.countDistinct(F.when(F.col("error") != "", F.col("file"))).alias("damaged_files"),
        F.min("first_ms").alias("start_ms"),
        F.max("last_ms").alias("end_ms"),
    ).collect()[0]
    return {name: row[name] for name in row.asDict()}


def inputs(stages: Written, given: Inputs, summed: dict[str, Any]) -> dict[str, Any]:
    seen, refused = stages.read("files"), given.unreadable
    known = dict(summed)
    damaged = known.pop("damaged_files")
    unreadable = [[u.file, u.reason] for u in refused] + (_list_damaged(seen) if damaged else [])
    return {
        "files": len(given.sources),
        "bytes": given.size,
        **known,
        **_counts(seen, ("layouts", "levels", "shapes")),
        "unreadable": sorted(unreadable)[:MOST],
        "unreadable_files": len(refused) + damaged,
        "older_results": list(given.results[:MOST]),
    }


def _list_damaged(seen: DataFrame) -> list[list[str]]:
    found = seen.groupBy("file").agg(F.max("error").alias("error")).where(F.col("error") != "").orderBy("file")
    return [[row["file"], row["error"]] for row in found.limit(MOST).collect()]


def _counts(seen: DataFrame, columns: Sequence[str]) -> dict[str, dict[str, int]]:
    """The commonest entries of each column of counts, most first."""
    entries = [F.transform(F.map_entries(c), partial(_entry, c)) for c in columns]
    by_count = Window.partitionBy("what").orderBy(F.col("n").desc(), "key")
    counts = (
        seen.select(F.explode(F.concat(*entries)).alias("entry"))
        .groupBy("entry.what", "entry.key")
        .agg(F.sum("entry.value").alias("n"))
        .withColumn("place", F.row_number().over(by_count))
        .where(F.col("place") <= MOST)
        .orderBy("what", "place")
    )
    found: dict[str, dict[str, int]] = {c: {} for c in columns}
    for row in counts.collect():
        found[row["what"]][row["key"]] = row["n"]
    return found


def _entry(column: str, entry: Column) -> Column:
    return F.struct(F.lit(column).alias("what"), entry["key"].alias("key"), entry["value"].alias("value"))


def metrics(stages: Written) -> dict[str, Any]:
    """Counts by kind, traffic on the tables, dwell times and rebalances."""
    kinds = stages.read("findings").groupBy("kind", "severity").count()
    edges = conformance.edge_counts(stages.read("transitions"))
    took = F.col("end_ms") - F.col("start_ms")
    rebalances = stages.read("rebalances").agg(
        F.count("*").alias("count"),
        F.coalesce(F.sum("moved"), F.lit(0)).alias("moved"),
        F.coalesce(F.percentile_approx(took, 0.5), F.lit(0)).alias("median_ms"),
        F.coalesce(F.max(took), F.lit(0)).alias("longest_ms"),
        F.coalesce(F.max("unowned_ms"), F.lit(0)).alias("longest_unowned_ms"),
    )
    return {
        "findings": _few(kinds, "count", ("kind", "severity")),
        "transitions": _few(edges, "count", ("machine", "state", "next_state")),
        "dwell": _few(stages.read("dwell"), "visits", ("machine", "state")),
        "rebalances": rebalances.collect()[0].asDict(),
    }


def _few(frame: DataFrame, count: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows with the largest counts, by name. There are few, unless a log makes up names."""
    rows = [row.asDict() for row in frame.orderBy(F.col(count).desc(), *names).limit(NAMES).collect()]
    return sorted(rows, key=itemgetter(*names))
