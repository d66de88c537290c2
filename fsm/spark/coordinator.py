"""The coordinator's words beside the clients' lines, by the rules of `fsm.audit.coordinator`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit import coordinator as rules
from fsm.audit.findings import Finding
from fsm.audit.rows import Place
from fsm.logs.broker import THREAD
from fsm.spark.columns import reader
from fsm.spark.groups import only, walked
from fsm.trace import Kind

HELD = 1000
"""Words about one member that are held at once: the last ones."""
_FINDING = reader(Finding)


def spoken(records: DataFrame) -> DataFrame:
    """Every record of a coordinator, with the `member` whose id it names; empty where no log is that one's."""
    ids = (
        records.where((F.col("member") != "") & (F.col("member_id") != ""))
        .groupBy("group", "member_id")
        .agg(F.min("member").alias("named"))
    )
    said = _said(records).drop("member").join(ids, ["group", "member_id"], "left")
    columns = ("group", "ts_ms", "kind", "member_id", "instance_id", "machine", "next_state", "epoch", "detail")
    return said.select(*columns, F.coalesce("named", F.lit("")).alias("member"), "file", "offset", "seq")


def speaks(records: DataFrame) -> bool:
    """Whether a coordinator says anything at all."""
    return not _said(records).select("group").isEmpty()


def _said(records: DataFrame) -> DataFrame:
    return records.where(F.col("thread") == THREAD)


def heard(findings: DataFrame, coordinator: DataFrame, skew_ms: int) -> DataFrame:
    """The findings with what the coordinator said of their members."""
    newest = Window.partitionBy("group", "member").orderBy(F.col("ts_ms").desc(), "file", "offset")
    telling = coordinator.where(F.col("kind").isin([k.value for k in rules.TELLING]) & (F.col("member") != ""))
    kept = telling.withColumn("place", F.row_number().over(newest)).where(F.col("place") <= HELD)
    words = kept.select("group", "member", F.struct("ts_ms", "kind", "detail", "file", "offset").alias("word"))
    found = findings.select("group", "member", F.struct(*findings.columns).alias("finding"))
    in_order = (
        words.unionByName(found, allowMissingColumns=True)
        .repartition("group", "member")
        .sortWithinPartitions("group", "member", F.col("word").asc_nulls_last())
    )
    return only(walked(in_order, partial(_walk, skew_ms), finding=Finding), "finding")


def _walk(skew_ms: int, rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    for _, mine in groupby(rows, key=itemgetter("group", "member")):
        words, found = [], []
        for row in mine:
            if row["finding"] is None:
                words.append(_word(row["word"]))
            else:
                found.append(_FINDING(row["finding"]))
        for one in found:
            yield rules.heard(one, words, skew_ms)


def _word(row: dict[str, Any]) -> rules.Word:
    return rules.Word(row["ts_ms"], Kind(row["kind"]), row["detail"], Place(row["file"], row["offset"]))


def strangers(coordinator: DataFrame) -> DataFrame:
    """How many members of each group only the coordinator names: their logs are missing. Others are absent."""
    unnamed = coordinator.where((F.col("member") == "") & (F.col("member_id") != ""))
    return unnamed.groupBy("group").agg(F.countDistinct("member_id").alias("members_without_logs"))
