"""The coordinator's records beside the clients', by the rules of `fsm.audit.coordinator`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit.coordinator import evidence
from fsm.audit.coordinator.assignments import ID, Assignment, AssignmentKind, CoordinatorRecord, assignments
from fsm.audit.findings import Finding, FindingKind
from fsm.audit.rows import Place
from fsm.logs.broker import CLASSIC, THREAD
from fsm.spark.columns import only, reader, walk_rows
from fsm.trace import Kind, Partition, TraceRecord

HELD = 1000
"""Statements about one member that are held at once: the last ones."""
FIELDS = ("group", "ts_ms", "kind", "member_id", "instance_id", "machine", "next_state", "epoch", "detail")
"""Fields of a coordinator's records, besides partitions."""
_FINDING = reader(Finding)
_SPAN = reader(evidence.AssignedSpan)
_PLACE = ("file", "offset", "seq")


def is_present(records: DataFrame) -> bool:
    return not _of_coordinators(records).select("group").isEmpty()


def _of_coordinators(records: DataFrame) -> DataFrame:
    return records.where(F.col("thread") == THREAD)


def coordinator_records(records: DataFrame) -> DataFrame:
    """Every record of a coordinator, with the `member` whose id it names; empty where no log is that one's.

    Topics have their names as far as anything tells them, else their ids behind `assignments.ID`.
    """
    ids = (
        records.where((F.col("member") != "") & (F.col("member_id") != ""))
        .groupBy("group", "member_id")
        .agg(F.min("member").alias("named"))
    )
    own = _name_topics(_of_coordinators(records).drop("member")).join(ids, ["group", "member_id"], "left")
    member = F.coalesce("named", F.lit("")).alias("member")
    client = F.coalesce(F.try_element_at("settings", F.lit("client.id")), F.lit("")).alias("client")
    return own.select(*FIELDS, "full", "revoked", member, client, *_PLACE)


def _name_topics(records: DataFrame) -> DataFrame:
    """Coordinators' records with names of topics in the place of ids."""
    names = (
        records.where(F.col("kind") == Kind.TOPIC_NAMES.value)
        .select(F.explode("settings").alias("id", "name"))
        .groupBy("id")
        .agg(F.min("name").alias("name"))
    )
    by_id = (F.col("machine") != CLASSIC) & F.col("kind").isin(Kind.TARGET.value, Kind.MEMBER_STATE.value)
    topics = F.array_distinct(F.concat(F.coalesce("full.topic", F.array()), "revoked.topic"))
    known = (
        records.where(by_id)
        .select(*_PLACE, F.explode(topics).alias("id"))
        .join(names, "id")
        .groupBy(*_PLACE)
        .agg(F.map_from_entries(F.collect_list(F.struct("id", "name"))).alias("known"))
    )

    def named(column: str) -> Column:
        return F.when(by_id, F.transform(column, _with_name)).otherwise(F.col(column)).alias(column)

    others = [c for c in records.columns if c not in ("full", "revoked")]
    return records.join(known, list(_PLACE), "left").select(*others, named("full"), named("revoked"))


def _with_name(partition: Column) -> Column:
    name = F.coalesce(F.try_element_at("known", partition["topic"]), F.concat(F.lit(ID), partition["topic"]))
    return F.struct(name.alias("topic"), partition["partition"].alias("partition"))


def assignments_of(coordinator: DataFrame) -> DataFrame:
    """Rows of `Assignment`: target and current assignment of each member; records without a time are left out."""
    in_order = (
        coordinator.where(F.col("ts_ms") > 0).repartition("group").sortWithinPartitions("group", "ts_ms", *_PLACE)
    )
    return only(walk_rows(in_order, _walk_records, assignment=Assignment), "assignment")


def _walk_records(rows: Iterable[dict[str, Any]]) -> Iterator[Assignment]:
    for group, mine in groupby(rows, key=itemgetter("group")):
        yield from assignments(group, map(_record, mine))


def _record(row: dict[str, Any]) -> CoordinatorRecord:
    fields = {name: row[name] for name in FIELDS} | {"kind": Kind(row["kind"])}
    full = None if row["full"] is None else _partitions(row["full"])
    record = TraceRecord(**fields, full=full, revoked=_partitions(row["revoked"]))
    return CoordinatorRecord(record, row["member"], Place(row["file"], row["offset"]))


def _partitions(rows: Iterable[dict[str, Any]]) -> tuple[Partition, ...]:
    return tuple((row["topic"], row["partition"]) for row in rows)


def add_statements(findings: DataFrame, coordinator: DataFrame, skew_ms: int) -> DataFrame:
    """The findings with the coordinator's statements about their members."""
    newest = Window.partitionBy("group", "member").orderBy(F.col("ts_ms").desc(), "file", "offset")
    made = coordinator.where(F.col("kind").isin([k.value for k in evidence.STATEMENTS]) & (F.col("member") != ""))
    kept = made.withColumn("place", F.row_number().over(newest)).where(F.col("place") <= HELD)
    statement = F.struct("ts_ms", "kind", "detail", "file", "offset").alias("statement")
    found = findings.select("group", "member", F.struct(*findings.columns).alias("finding"))
    in_order = (
        kept.select("group", "member", statement)
        .unionByName(found, allowMissingColumns=True)
        .repartition("group", "member")
        .sortWithinPartitions("group", "member", F.col("statement").asc_nulls_last())
    )

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
        for _, mine in groupby(rows, key=itemgetter("group", "member")):
            own = []
            for row in mine:  # statements come first
                if row["finding"] is None:
                    own.append(_statement(row["statement"]))
                else:
                    yield evidence.add_statements(_FINDING(row["finding"]), own, skew_ms)

    return only(walk_rows(in_order, walk, finding=Finding), "finding")


def _statement(row: dict[str, Any]) -> evidence.Statement:
    return evidence.Statement(row["ts_ms"], Kind(row["kind"]), row["detail"], Place(row["file"], row["offset"]))


def add_handover(findings: DataFrame, assignments: DataFrame, skew_ms: int) -> DataFrame:
    """The findings with how the coordinator handed their partitions over."""
    numbered = findings.withColumn("id", F.xxhash64(*findings.columns))
    is_asked = F.col("kind").isin([k.value for k in evidence.ABOUT_OWNERS]) & (F.size("partitions") > 0)
    double = F.col("kind") == FindingKind.DOUBLE_OWNERSHIP.value
    asked = numbered.where(is_asked).select(
        "id",
        "group",
        F.col("partitions")[0]["topic"].alias("topic"),
        F.col("partitions")[0]["partition"].alias("partition"),
        (F.col("start_ms") - evidence.BEFORE_MS - skew_ms).alias("first_ms"),
        (F.when(double, F.col("start_ms") + evidence.AFTER_MS).otherwise(F.col("end_ms")) + skew_ms).alias("last_ms"),
    )
    near = (F.col("start_ms") <= F.col("last_ms")) & (F.col("end_ms").isNull() | (F.col("end_ms") >= F.col("first_ms")))
    newest = Window.partitionBy("id").orderBy(F.col("span").desc())
    spans = (
        asked.join(_assigned_spans(assignments, asked), ["group", "topic", "partition"])
        .where(near)
        .select("id", F.struct(*evidence.AssignedSpan._fields).alias("span"))
        .withColumn("place", F.row_number().over(newest))
        .where(F.col("place") <= evidence.HELD)
        .groupBy("id")
        .agg(F.collect_list("span").alias("spans"))
    )
    beside = numbered.join(spans, "id", "left").select(F.struct(*findings.columns).alias("finding"), "spans")

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
        for row in rows:
            yield evidence.add_handover(_FINDING(row["finding"]), map(_SPAN, row["spans"] or ()), skew_ms)

    return only(walk_rows(beside, walk, finding=Finding), "finding")


def _assigned_spans(assignments: DataFrame, asked: DataFrame) -> DataFrame:
    """Current assignments in the groups that are asked about, a row for each partition.

    Its columns are those of `AssignedSpan`, and group, topic and partition.
    """

    def each(column: str, giving_up: bool) -> Column:
        return F.transform(column, lambda p: F.struct(p.alias("p"), F.lit(giving_up).alias("giving_up")))

    current = assignments.where(F.col("which") == AssignmentKind.CURRENT.value).join(
        asked.select("group").distinct(), "group", "left_semi"
    )
    exploded = current.withColumn("one", F.explode(F.concat(each("partitions", False), each("revoked", True))))
    columns = [name for name in evidence.AssignedSpan._fields if name != "giving_up"]
    return exploded.select("group", "one.p.topic", "one.p.partition", *columns, "one.giving_up")


def add_unlogged_members(groups: DataFrame, coordinator: DataFrame) -> DataFrame:
    """The overview with how many members of each group only the coordinator names, whose logs are missing.

    And with the groups that nobody else names: they begin and end with the coordinator's records about them.
    """
    unnamed = F.when((F.col("member") == "") & (F.col("member_id") != ""), F.col("member_id"))
    when = F.when(F.col("ts_ms") > 0, F.col("ts_ms"))
    named = coordinator.groupBy("group").agg(
        F.countDistinct(unnamed).alias("members_without_logs"),
        F.min(when).alias("first_ms"),
        F.max(when).alias("last_ms"),
    )
    empty = {"start_ms": F.col("first_ms"), "end_ms": F.col("last_ms"), "coverage": F.lit("unknown")}
    empty |= {name: F.array().cast("array<string>") for name in ("protocols", "versions")}
    zero = F.lit(0).cast("long")
    counts = [F.coalesce(name, empty.get(name, zero)).alias(name) for name in groups.columns if name != "group"]
    together = groups.join(named, "group", "full").where(F.col("start_ms").isNotNull() | F.col("first_ms").isNotNull())
    return together.select("group", *counts, F.coalesce("members_without_logs", zero).alias("members_without_logs"))
