"""The coordinator's words beside the clients' lines, by the rules of `fsm.audit.coordinator` and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit import coordinator as rules
from fsm.audit import handover
from fsm.audit.assignments import ID, Assignment, Spoken, Which, assignments
from fsm.audit.findings import Finding, FindingKind
from fsm.audit.rows import Place
from fsm.logs.broker import CLASSIC, THREAD
from fsm.spark.columns import reader
from fsm.spark.groups import only, walked
from fsm.trace import Kind, TraceRecord

HELD = 1000
"""Words about one member that are held at once: the last ones."""
SAID = ("group", "ts_ms", "kind", "member_id", "instance_id", "machine", "next_state", "epoch", "detail")
"""Columns of a record that say something when a coordinator wrote it, besides its partitions."""
_FINDING = reader(Finding)
_HOLDING = reader(handover.Holding)
_PLACE = ("file", "offset", "seq")


def spoken(records: DataFrame) -> DataFrame:
    """Every record of a coordinator, with the `member` whose id it names; empty where no log is that one's.

    Topics have their names as far as anything tells them, else their ids behind `assignments.ID`.
    """
    ids = (
        records.where((F.col("member") != "") & (F.col("member_id") != ""))
        .groupBy("group", "member_id")
        .agg(F.min("member").alias("named"))
    )
    said = _named(_said(records).drop("member")).join(ids, ["group", "member_id"], "left")
    member = F.coalesce("named", F.lit("")).alias("member")
    client = F.coalesce(F.try_element_at("settings", F.lit("client.id")), F.lit("")).alias("client")
    return said.select(*SAID, "full", "revoked", member, client, *_PLACE)


def _named(said: DataFrame) -> DataFrame:
    """What coordinators say with names of topics in the place of ids."""
    names = (
        said.where(F.col("kind") == Kind.TOPIC_NAMES.value)
        .select(F.explode("settings").alias("id", "name"))
        .groupBy("id")
        .agg(F.min("name").alias("name"))
    )
    by_id = (F.col("machine") != CLASSIC) & F.col("kind").isin(Kind.TARGET.value, Kind.MEMBER_STATE.value)
    topics = F.array_distinct(F.concat(F.coalesce("full.topic", F.array()), "revoked.topic"))
    known = (
        said.where(by_id)
        .select(*_PLACE, F.explode(topics).alias("id"))
        .join(names, "id")
        .groupBy(*_PLACE)
        .agg(F.map_from_entries(F.collect_list(F.struct("id", "name"))).alias("known"))
    )

    def named(column: str) -> Column:
        return F.when(by_id, F.transform(column, _with_name)).otherwise(F.col(column)).alias(column)

    others = [c for c in said.columns if c not in ("full", "revoked")]
    return said.join(known, list(_PLACE), "left").select(*others, named("full"), named("revoked"))


def _with_name(owned: Column) -> Column:
    name = F.coalesce(F.try_element_at("known", owned["topic"]), F.concat(F.lit(ID), owned["topic"]))
    return F.struct(name.alias("topic"), owned["partition"].alias("partition"))


def assigned(coordinator: DataFrame) -> DataFrame:
    """Rows of `Assignment`: target and current assignment of each member, as far as it is told when."""
    in_order = (
        coordinator.where(F.col("ts_ms") > 0).repartition("group").sortWithinPartitions("group", "ts_ms", *_PLACE)
    )
    return only(walked(in_order, _walk_spoken, assignment=Assignment), "assignment")


def _walk_spoken(rows: Iterable[dict[str, Any]]) -> Iterator[Assignment]:
    for group, mine in groupby(rows, key=itemgetter("group")):
        yield from assignments(group, map(_spoken, mine))


def _spoken(row: dict[str, Any]) -> Spoken:
    said = {name: row[name] for name in SAID} | {"kind": Kind(row["kind"])}
    full = None if row["full"] is None else _partitions(row["full"])
    return Spoken(
        TraceRecord(**said, full=full, revoked=_partitions(row["revoked"])),
        row["member"],
        Place(row["file"], row["offset"]),
    )


def _partitions(rows: Iterable[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((row["topic"], row["partition"]) for row in rows)


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


def handed(findings: DataFrame, assignments: DataFrame, skew_ms: int) -> DataFrame:
    """The findings with how the coordinator handed their partitions over, by the rules of `fsm.audit.handover`."""
    numbered = findings.withColumn("id", F.xxhash64(*findings.columns))
    is_asked = F.col("kind").isin([k.value for k in handover.KINDS]) & (F.size("partitions") > 0)
    double = F.col("kind") == FindingKind.DOUBLE_OWNERSHIP.value
    asked = numbered.where(is_asked).select(
        "id",
        "group",
        F.col("partitions")[0]["topic"].alias("topic"),
        F.col("partitions")[0]["partition"].alias("partition"),
        (F.col("start_ms") - rules.BEFORE_MS - skew_ms).alias("first_ms"),
        (F.when(double, F.col("start_ms") + rules.AFTER_MS).otherwise(F.col("end_ms")) + skew_ms).alias("last_ms"),
    )
    near = (F.col("start_ms") <= F.col("last_ms")) & (F.col("end_ms").isNull() | (F.col("end_ms") >= F.col("first_ms")))
    newest = Window.partitionBy("id").orderBy(F.col("holding").desc())
    held = (
        asked.join(_holdings(assignments, asked), ["group", "topic", "partition"])
        .where(near)
        .select("id", F.struct(*handover.Holding._fields).alias("holding"))
        .withColumn("place", F.row_number().over(newest))
        .where(F.col("place") <= handover.HELD)
        .groupBy("id")
        .agg(F.collect_list("holding").alias("held"))
    )
    finding = F.struct(*findings.columns).alias("finding")
    beside = numbered.join(held, "id", "left").select(finding, "held")
    return only(walked(beside, partial(_walk_handed, skew_ms), finding=Finding), "finding")


def _holdings(assignments: DataFrame, asked: DataFrame) -> DataFrame:
    """Current assignments in the groups that are asked about, a row for each partition.

    Its columns are those of `handover.Holding`, and group, topic and number.
    """

    def each(column: str, giving_up: bool) -> Column:
        return F.transform(column, lambda p: F.struct(p.alias("p"), F.lit(giving_up).alias("giving_up")))

    current = assignments.where(F.col("which") == Which.CURRENT.value).join(
        asked.select("group").distinct(), "group", "left_semi"
    )
    exploded = current.withColumn("one", F.explode(F.concat(each("partitions", False), each("revoked", True))))
    columns = [name for name in handover.Holding._fields if name != "giving_up"]
    return exploded.select("group", "one.p.topic", "one.p.partition", *columns, "one.giving_up")


def _walk_handed(skew_ms: int, rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    for row in rows:
        found = _FINDING(row["finding"])
        yield handover.handed(found, [_HOLDING(one) for one in row["held"] or ()], skew_ms)


def with_strangers(groups: DataFrame, coordinator: DataFrame) -> DataFrame:
    """The overview with how many members of each group only the coordinator names, whose logs are missing.

    And with the groups that nobody else names: they begin and end as far as the coordinator tells when.
    """
    unnamed = F.when((F.col("member") == "") & (F.col("member_id") != ""), F.col("member_id"))
    when = F.when(F.col("ts_ms") > 0, F.col("ts_ms"))
    told = coordinator.groupBy("group").agg(
        F.countDistinct(unnamed).alias("members_without_logs"),
        F.min(when).alias("first_ms"),
        F.max(when).alias("last_ms"),
    )
    empty = {"start_ms": F.col("first_ms"), "end_ms": F.col("last_ms"), "coverage": F.lit("unknown")}
    empty |= {name: F.array().cast("array<string>") for name in ("protocols", "versions")}
    zero = F.lit(0).cast("long")
    counted = [F.coalesce(name, empty.get(name, zero)).alias(name) for name in groups.columns if name != "group"]
    together = groups.join(told, "group", "full").where(F.col("start_ms").isNotNull() | F.col("first_ms").isNotNull())
    return together.select("group", *counted, F.coalesce("members_without_logs", zero).alias("members_without_logs"))
