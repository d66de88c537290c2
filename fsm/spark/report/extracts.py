"""What the report takes out of a finished audit, a bounded part at a time: keys, marks, and the coordinator's lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fsm.audit.coordinator.assignments import AssignmentKind
from fsm.audit.coordinator.evidence import STATEMENTS
from fsm.logs.broker import CLASSIC
from fsm.render.timeline import views
from fsm.spark.columns import local
from fsm.spark.written import Written
from fsm.trace import Kind

SPANS = 250
"""States and assignments of one member, and owners of one partition, that a timeline shows."""
UNLOGGED = 20
"""Members without logs that the timeline of a group shows."""
EPOCHS = [Kind.GROUP_EPOCH.value, Kind.GROUP_STATE.value]
ENDS = [kind.value for kind in STATEMENTS]
_T = TypeVar("_T")


def of_groups(frame: DataFrame, groups: Sequence[Row]) -> DataFrame:
    return frame.where(F.col("group").isin([row["group"] for row in groups]))


def keys(spark: SparkSession, rows: Sequence[Row], columns: Sequence[str]) -> DataFrame:
    """Chosen keys as a frame to be joined: what chose them is not computed again."""
    chosen = [{name: row[name] for name in columns} for row in rows]
    schema = StructType([StructField(c, LongType() if c == "partition" else StringType(), False) for c in columns])
    return F.broadcast(local(spark, chosen, schema))


def first(frame: DataFrame, count: int, key: Sequence[str | Column], *order: str | Column) -> DataFrame:
    """The first rows of each key, with `place`, their number from 1."""
    window = Window.partitionBy(*key).orderBy(*order)
    return frame.withColumn("place", F.row_number().over(window)).where(F.col("place") <= count)


def by_key(rows: DataFrame | Sequence[Row], key: Sequence[str], build: Callable[[Row], _T]) -> dict[Any, list[_T]]:
    """What is built of each row, in their order, by one column's value or by the values of several."""
    found: dict[Any, list[_T]] = {}
    for row in rows.collect() if isinstance(rows, DataFrame) else rows:
        found.setdefault(itemgetter(*key)(row), []).append(build(row))
    return found


def marks(records: DataFrame, name: str) -> dict[tuple[str, str], list[views.Mark]]:
    """The first records of each member, which the column `name` names, as marks by group and member."""
    key = ("group", name)
    rows = first(records, SPANS, key, "ts_ms", "file", "offset", "seq").select(*key, "ts_ms", "kind", "detail", "place")
    return by_key(rows.orderBy(*key, "place"), key, lambda row: views.Mark(row["ts_ms"], row["kind"], row["detail"]))


class CoordinatorLanes:
    """What coordinators say about the groups that are shown; empty where none does."""

    def __init__(self, stages: Written, groups: Sequence[Row]) -> None:
        self.stages = stages
        self.ends = {row["group"]: row["end_ms"] for row in groups}
        self.shown = groups
        self.present = stages.has("coordinator")

    def unlogged_count(self, group: Row) -> int:
        """How many members of a group only the coordinator names."""
        return int(group["members_without_logs"]) if self.present else 0

    def groups(self) -> dict[str, views.MemberView]:
        """Each group as its coordinator tells it."""
        if not self.present:
            return {}
        records = self._records().where((F.col("ts_ms") > 0) & F.col("kind").isin([*EPOCHS, *ENDS]))
        rows = first(records, SPANS, ("group", F.col("kind").isin(EPOCHS)), "ts_ms", "file", "offset", "seq")
        lanes = by_key(rows.orderBy("group", "place").drop("full", "revoked"), ("group",), lambda row: row)
        return {group: _lane(own, self.ends[group]) for group, own in lanes.items()}

    def unlogged(self) -> dict[str, list[views.MemberView]]:
        """The first members that only the coordinator names, by their ids."""
        if not self.present:
            return {}
        key = ("group", "member_id")
        records = self._records().where((F.col("member") == "") & (F.col("member_id") != ""))
        first_ms = F.min(F.when(F.col("ts_ms") > 0, F.col("ts_ms"))).alias("first_ms")
        named = records.groupBy(*key).agg(first_ms, F.max("client").alias("client"))
        ranked = first(named, UNLOGGED, ("group",), F.col("first_ms").asc_nulls_last(), "member_id")
        shown = ranked.orderBy("group", "place").collect()
        chosen = keys(self.stages.spark, shown, key)
        ended = records.where((F.col("ts_ms") > 0) & F.col("kind").isin(ENDS)).join(chosen, list(key))
        assigned, marked = self.assigned(chosen, "member_id"), marks(ended, "member_id")

        def view(row: Row) -> views.MemberView:
            member = row["group"], row["member_id"]
            return views.MemberView(
                member=row["member_id"],
                client=row["client"],
                coverage="no log of it was read",
                marks=tuple(marked.get(member, ())),
                target=tuple(assigned.get((*member, AssignmentKind.TARGET), ())),
                current=tuple(assigned.get((*member, AssignmentKind.CURRENT), ())),
            )

        return by_key(shown, ("group",), view)

    def assigned(self, chosen: DataFrame, name: str) -> dict[tuple[str, str, str], list[views.AssignedSpan]]:
        """The assignments by (group, member, which) of each chosen member, which the column `name` names."""
        if not self.present:
            return {}
        key = ("group", name, "which")
        own = of_groups(self.stages.read("assignments"), self.shown).join(chosen, ["group", name])
        shown = ("machine", "state", "role", "epoch", "label", "giving_up", "start_ms", "end_ms", "place")
        rows = first(own, SPANS, key, "start_ms", "start.file", "start.offset").select(
            *key, *shown, F.size("partitions").alias("count")
        )

        def span(row: Row) -> views.AssignedSpan:
            end_ms = max(row["start_ms"], self.ends[row["group"]]) if row["end_ms"] is None else row["end_ms"]
            label = (row["label"], row["count"], row["giving_up"])
            return views.AssignedSpan(row["state"], _epoch(row), *label, row["start_ms"], end_ms)

        return by_key(rows.orderBy(*key, "place"), key, span)

    def _records(self) -> DataFrame:
        return of_groups(self.stages.read("coordinator"), self.shown)


def _epoch(row: Row) -> str:
    if row["epoch"] is None:
        return ""
    name = "generation" if row["machine"] == CLASSIC else "epoch"
    return f"{name} {row['epoch']}" + (f", {row['role']}" if row["role"] else "")


def _lane(records: Sequence[Row], end_ms: int) -> views.MemberView:
    """The group's epochs, or the states of a classic group, as spans; members that it lost as marks."""
    steps = [row for row in records if row["kind"] in EPOCHS and (row["next_state"] or row["epoch"] is not None)]
    untils = [row["ts_ms"] for row in steps[1:]] + [end_ms]
    spans = tuple(
        views.StateSpan(row["next_state"] or f"epoch {row['epoch']}", row["ts_ms"], max(row["ts_ms"], until_ms))
        for row, until_ms in zip(steps, untils, strict=False)
    )
    lost = tuple(
        views.Mark(row["ts_ms"], row["kind"], f"{row['member'] or row['member_id']} {row['detail']}".strip())
        for row in records
        if row["kind"] not in EPOCHS
    )
    return views.MemberView("coordinator", coverage="epochs, states, and members that left", states=spans, marks=lost)
