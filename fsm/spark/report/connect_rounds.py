"""What the report shows of Connect clusters: rounds with generation, leader and delay, workers' states, waits."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from fsm.audit.intervals import union
from fsm.audit.rows import Begun
from fsm.logs.connect_worker import MACHINE
from fsm.render.timeline import views
from fsm.spark.report.extracts import SPANS, by_key, first, of_groups
from fsm.spark.written import Written
from fsm.tables.connect_worker import State
from fsm.trace import Kind

ROUNDS = 60
"""Rounds of one group that are listed: those with a delay, revocations or an error before the others."""
_ID = r"(?:-[0-9a-f]+){5}$"
"""What a member id has beyond the client id."""


class Rounds:
    """The Connect side of some groups; empty where they are none."""

    def __init__(self, stages: Written, groups: Sequence[Row]) -> None:
        self.stages, self.groups = stages, groups

    def _records(self) -> DataFrame:
        return of_groups(self.stages.read("records"), self.groups).where(
            (F.col("machine") == MACHINE) & (F.col("member") != "")
        )

    def _rounds(self) -> DataFrame:
        """A row for each generation that a worker printed."""
        results = self._records().where(F.col("kind") == Kind.TARGET.value)
        setting = {name: F.col("settings")[name] for name in ("leader", "version", "delay_ms", "error")}
        return results.groupBy("group", "epoch", setting["leader"].alias("leader_id")).agg(
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
        notable = (F.col("delay_ms") > 0) | (F.col("revoked") > 0) | (F.col("failed") > 0)
        rows = first(self._rounds(), ROUNDS, ("group",), notable.desc(), "start_ms", "epoch")
        columns = ("start_ms", "epoch", "leader", "workers", "version", "delay_ms", "held", "revoked", "failed")
        return by_key(
            rows.withColumn("failed", F.col("failed") > 0).orderBy("group", "start_ms", "epoch", "leader_id"),
            ("group",),
            lambda row: views.RoundView(*(row[name] for name in columns)),
        )

    def counts(self) -> dict[str, int]:
        """How many rounds each group had."""
        return {row["group"]: row["count"] for row in self._rounds().groupBy("group").count().collect()}

    def states(
        self, chosen: DataFrame, ends: dict[tuple[str, str], int]
    ) -> dict[tuple[str, str], list[views.StateSpan]]:
        """Where in the table each worker was, as far as lines at INFO tell."""
        key, order = ("group", "member"), ("ts_ms", "rank", "offset", "seq")
        time = Window.partitionBy(*key).orderBy(*order)
        steps = (
            self._records()
            .join(chosen, list(key))
            .withColumn("state", _state())
            .where(F.col("state").isNotNull())
            .withColumn("before", F.lag("state").over(time))
            .where(F.col("before").isNull() | (F.col("before") != F.col("state")))
            .withColumn("until_ms", F.lead("ts_ms").over(time))
        )

        def span(row: Row) -> views.StateSpan:
            until_ms = ends[row["group"], row["member"]] if row["until_ms"] is None else row["until_ms"]
            return views.StateSpan(row["state"], row["ts_ms"], until_ms)

        rows = first(steps, SPANS, key, *order).select(*key, "state", "ts_ms", "until_ms", "place")
        return by_key(rows.orderBy(*key, "place"), key, span)

    def waits(self, chosen: DataFrame) -> dict[tuple[str, str, int], list[views.Stretch]]:
        """When delays ran, for each connector and task."""
        key = ("group", "topic", "partition")
        waits = of_groups(self.stages.read("intervals"), self.groups).where(F.col("begun") == Begun.WAITS.value)
        rows = waits.join(chosen, list(key)).select(*key, "start_ms", "end_ms").distinct().orderBy(*key, "start_ms")
        spans = by_key(rows, key, lambda row: (row["start_ms"], row["end_ms"]))
        return {place: [views.Stretch(*span) for span in union(own)] for place, own in spans.items()}


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
