"""What the report shows of Connect clusters: rounds with generation, leader and delay, workers' states, waits."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from fsm.audit.parts import union
from fsm.audit.rows import Begun
from fsm.logs.connect_worker import MACHINE
from fsm.render import views
from fsm.spark.extracts import SPANS, of_groups
from fsm.spark.written import Written
from fsm.tables.connect_worker import State
from fsm.trace import Kind

ROUNDS = 60
"""Rounds of one group that are listed: those with a delay, revocations or an error before the others."""
_ID = r"(?:-[0-9a-f]+){5}$"
"""What a member id has beyond the client id."""
_Place = tuple[str, str, int]
_Member = tuple[str, str]


class Rounds:
    """The Connect side of some groups; empty where they are none."""

    def __init__(self, stages: Written, groups: Sequence[Row]) -> None:
        self.stages, self.groups = stages, groups

    def _records(self) -> DataFrame:
        return of_groups(self.stages.read("records"), self.groups).where(
            (F.col("machine") == MACHINE) & (F.col("member") != "")
        )

    def _rounds(self) -> DataFrame:
        """A row for each generation that a worker told of."""
        told = self._records().where(F.col("kind") == Kind.TARGET.value)
        setting = {name: F.col("settings")[name] for name in ("leader", "version", "delay_ms", "error")}
        return told.groupBy("group", "epoch", setting["leader"].alias("leader_id")).agg(
            F.min("ts_ms").alias("start_ms"),
            F.regexp_replace(F.first(setting["leader"]), _ID, "").alias("leader"),
            F.countDistinct("member").alias("workers"),
            F.max(setting["version"]).alias("version"),
            F.max(setting["delay_ms"].cast("long")).alias("delay_ms"),
            F.size(F.array_distinct(F.flatten(F.collect_list(F.coalesce("full", F.array()))))).alias("held"),
            F.size(F.array_distinct(F.flatten(F.collect_list("revoked")))).alias("revoked"),
            F.max((setting["error"] != "0").cast("int")).alias("failed"),
        )

    def shown(self) -> dict[str, list[views.RoundView]]:
        """The rounds of each group, by time."""
        tells = (F.col("delay_ms") > 0) | (F.col("revoked") > 0) | (F.col("failed") > 0)
        telling = Window.partitionBy("group").orderBy(tells.desc(), "start_ms", "epoch")
        rows = self._rounds().withColumn("place", F.row_number().over(telling)).where(F.col("place") <= ROUNDS)
        found: dict[str, list[views.RoundView]] = {}
        for r in rows.orderBy("group", "start_ms", "epoch", "leader_id").collect():
            found.setdefault(r["group"], []).append(
                views.RoundView(
                    r["start_ms"],
                    r["epoch"],
                    r["leader"],
                    r["workers"],
                    r["version"],
                    r["delay_ms"],
                    r["held"],
                    r["revoked"],
                    bool(r["failed"]),
                )
            )
        return found

    def counted(self) -> dict[str, int]:
        """How many rounds each group had."""
        return {row["group"]: row["count"] for row in self._rounds().groupBy("group").count().collect()}

    def states(self, chosen: DataFrame, ends: dict[_Member, int]) -> dict[_Member, list[views.StateSpan]]:
        """Where in the table each worker was, as far as lines at INFO tell."""
        time = Window.partitionBy("group", "member").orderBy("ts_ms", "rank", "offset", "seq")
        steps = (
            self._records()
            .join(chosen, ["group", "member"])
            .withColumn("state", _state())
            .where(F.col("state").isNotNull())
            .withColumn("before", F.lag("state").over(time))
            .where(F.col("before").isNull() | (F.col("before") != F.col("state")))
            .withColumn("until_ms", F.lead("ts_ms").over(time))
            .withColumn("at", F.row_number().over(time))
            .where(F.col("at") <= SPANS)
            .select("group", "member", "state", "ts_ms", "until_ms", "at")
        )
        found: dict[_Member, list[views.StateSpan]] = {}
        for row in steps.orderBy("group", "member", "at").collect():
            key = (row["group"], row["member"])
            until_ms = ends[key] if row["until_ms"] is None else row["until_ms"]
            found.setdefault(key, []).append(views.StateSpan(row["state"], row["ts_ms"], until_ms))
        return found

    def waits(self, chosen: DataFrame) -> dict[_Place, list[views.Stretch]]:
        """When delays ran, for each connector and task."""
        key = ["group", "topic", "partition"]
        told = of_groups(self.stages.read("intervals"), self.groups).where(F.col("begun") == Begun.WAITS.value)
        rows = told.join(chosen, key).select(*key, "start_ms", "end_ms").distinct().orderBy(*key, "start_ms")
        found: dict[_Place, list[tuple[int, int]]] = {}
        for row in rows.collect():
            place = (row["group"], row["topic"], row["partition"])
            found.setdefault(place, []).append((row["start_ms"], row["end_ms"]))
        return {place: [views.Stretch(*span) for span in union(spans)] for place, spans in found.items()}


def _state() -> Column:
    """The state that a record shows; null where it shows none."""
    kind, delayed = F.col("kind"), F.col("settings")["delay_ms"] != "0"
    return (
        F.when((kind == Kind.JOINING.value) & (F.col("event") == "JOIN_DUE"), State.JOINING.name)
        .when((kind == Kind.TARGET.value) & delayed, State.DELAYED.name)
        .when(kind == Kind.TARGET.value, State.ASSIGNED.name)
        .when(kind.isin(Kind.STARTED.value, Kind.COORDINATOR_LOST.value), State.DISCONNECTED.name)
        .when(kind.isin(Kind.CLOSE_BEGIN.value, Kind.FATAL.value), State.DOWN.name)
    )
