"""What the report takes out of a finished audit, a bounded part at a time: keys, marks, and the coordinator's side."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fsm.audit.assignments import Which
from fsm.audit.coordinator import TELLING
from fsm.logs.broker import CLASSIC
from fsm.render import views
from fsm.spark.columns import local
from fsm.spark.written import Written
from fsm.trace import Kind

SPANS = 250
"""States and assignments of one member, and owners of one partition, that a timeline shows."""
STRANGERS = 20
"""Members without logs that the timeline of a group shows."""
EPOCHS = [Kind.GROUP_EPOCH.value, Kind.GROUP_STATE.value]
ENDS = [kind.value for kind in TELLING]
_Key = tuple[str, str]
"""Group and member, or member id."""


def of_groups(frame: DataFrame, groups: Sequence[Row]) -> DataFrame:
    """The rows of some groups."""
    return frame.where(F.col("group").isin([row["group"] for row in groups]))


def keys(spark: SparkSession, rows: Sequence[Row], columns: Sequence[str]) -> DataFrame:
    """Chosen keys as a frame to be joined: what chose them is not computed again."""
    chosen = [{name: row[name] for name in columns} for row in rows]
    schema = StructType([StructField(c, LongType() if c == "partition" else StringType(), False) for c in columns])
    return F.broadcast(local(spark, chosen, schema))


def marks(records: DataFrame, name: str) -> dict[_Key, list[views.Mark]]:
    """The first records of each member, which the column `name` names, as marks."""
    time = Window.partitionBy("group", name).orderBy("ts_ms", "file", "offset", "seq")
    rows = (
        records.withColumn("at", F.row_number().over(time))
        .where(F.col("at") <= SPANS)
        .select("group", name, "ts_ms", "kind", "detail", "at")
        .orderBy("group", name, "at")
    )
    found: dict[_Key, list[views.Mark]] = {}
    for row in rows.collect():
        mark = views.Mark(row["ts_ms"], row["kind"], row["detail"])
        found.setdefault((row["group"], row[name]), []).append(mark)
    return found


class Told:
    """What coordinators tell of the groups that are shown; empty where none does."""

    def __init__(self, stages: Written, groups: Sequence[Row]) -> None:
        self.stages = stages
        self.shown = groups
        self.speaks = stages.has("coordinator")

    def unread(self, group: Row) -> int:
        """How many members of a group only the coordinator names."""
        return int(group["members_without_logs"]) if self.speaks else 0

    def groups(self) -> dict[str, views.MemberView]:
        """Each group as its coordinator tells it."""
        if not self.speaks:
            return {}
        said = self._said().where((F.col("ts_ms") > 0) & F.col("kind").isin([*EPOCHS, *ENDS]))
        time = Window.partitionBy("group", F.col("kind").isin(EPOCHS)).orderBy("ts_ms", "file", "offset", "seq")
        rows = said.withColumn("at", F.row_number().over(time)).where(F.col("at") <= SPANS).orderBy("group", "at")
        words: dict[str, list[Row]] = {}
        for row in rows.drop("full", "revoked").collect():
            words.setdefault(row["group"], []).append(row)
        ends = {row["group"]: row["end_ms"] for row in self.shown}
        return {group: _lane(own, ends[group]) for group, own in words.items()}

    def strangers(self) -> dict[str, list[views.MemberView]]:
        """The first members that only the coordinator names, by their ids."""
        if not self.speaks:
            return {}
        said = self._said().where((F.col("member") == "") & (F.col("member_id") != ""))
        first = F.min(F.when(F.col("ts_ms") > 0, F.col("ts_ms"))).alias("first_ms")
        named = said.groupBy("group", "member_id").agg(first, F.max("client").alias("client"))
        order = Window.partitionBy("group").orderBy(F.col("first_ms").asc_nulls_last(), "member_id")
        ranked = named.withColumn("place", F.row_number().over(order)).where(F.col("place") <= STRANGERS)
        shown = ranked.orderBy("group", "place").collect()
        chosen = keys(self.stages.spark, shown, ("group", "member_id"))
        ended = said.where((F.col("ts_ms") > 0) & F.col("kind").isin(ENDS)).join(chosen, ["group", "member_id"])
        assigned, marked = self.assigned(chosen, "member_id"), marks(ended, "member_id")
        found: dict[str, list[views.MemberView]] = {}
        for row in shown:
            key = (row["group"], row["member_id"])
            found.setdefault(row["group"], []).append(
                views.MemberView(
                    member=row["member_id"],
                    client=row["client"],
                    coverage="no log of it was read",
                    marks=tuple(marked.get(key, ())),
                    target=tuple(assigned.get((*key, Which.TARGET), ())),
                    current=tuple(assigned.get((*key, Which.CURRENT), ())),
                )
            )
        return found

    def assigned(self, chosen: DataFrame, name: str) -> dict[tuple[str, str, str], list[views.AssignedSpan]]:
        """The assignments by (group, member, which) of each chosen member, which the column `name` names."""
        if not self.speaks:
            return {}
        key = ("group", name, "which")
        time = Window.partitionBy(*key).orderBy("start_ms", "start.file", "start.offset")
        rows = (
            of_groups(self.stages.read("assignments"), self.shown)
            .join(chosen, ["group", name])
            .withColumn("at", F.row_number().over(time))
            .where(F.col("at") <= SPANS)
            .select(
                *key,
                "machine",
                "state",
                "role",
                "epoch",
                "label",
                F.size("partitions").alias("count"),
                "giving_up",
                "start_ms",
                "end_ms",
                "at",
            )
            .orderBy(*key, "at")
        )
        ends = {row["group"]: row["end_ms"] for row in self.shown}
        found: dict[tuple[str, str, str], list[views.AssignedSpan]] = {}
        for row in rows.collect():
            end_ms = max(row["start_ms"], ends[row["group"]]) if row["end_ms"] is None else row["end_ms"]
            said = (row["label"], row["count"], row["giving_up"])
            span = views.AssignedSpan(row["state"], _epoch(row), *said, row["start_ms"], end_ms)
            found.setdefault((row["group"], row[name], row["which"]), []).append(span)
        return found

    def _said(self) -> DataFrame:
        return of_groups(self.stages.read("coordinator"), self.shown)


def _epoch(row: Row) -> str:
    if row["epoch"] is None:
        return ""
    name = "generation" if row["machine"] == CLASSIC else "epoch"
    return f"{name} {row['epoch']}" + (f", {row['role']}" if row["role"] else "")


def _lane(words: Sequence[Row], end_ms: int) -> views.MemberView:
    """Its epochs, or the states of a classic group, as spans; members that it lost as marks."""
    steps = [row for row in words if row["kind"] in EPOCHS and (row["next_state"] or row["epoch"] is not None)]
    untils = [row["ts_ms"] for row in steps[1:]] + [end_ms]
    spans = tuple(
        views.StateSpan(row["next_state"] or f"epoch {row['epoch']}", row["ts_ms"], max(row["ts_ms"], until_ms))
        for row, until_ms in zip(steps, untils, strict=False)
    )
    marks = tuple(
        views.Mark(row["ts_ms"], row["kind"], f"{row['member'] or row['member_id']} {row['detail']}".strip())
        for row in words
        if row["kind"] not in EPOCHS
    )
    return views.MemberView("coordinator", coverage="epochs, states, and members that left", states=spans, marks=marks)
