"""Observed transitions held against the tables, as one join: the tables' steps are a small broadcast frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fsm.audit.conformance import illegal_transitions
from fsm.audit.findings import Finding
from fsm.audit.rows import ObservedTransition
from fsm.spark.columns import converter, local, only, reader, struct_of, walk_rows
from fsm.table import Table
from fsm.tables import ALL


class Allowed(NamedTuple):
    """What a table allows between two states."""

    machine: str
    state: str
    next_state: str
    named: bool
    """True for whole rows, as transitions that name their event are; False for single steps."""
    allowed_by: tuple[str, ...]
    """Events that cause it."""


def allowed_steps(tables: tuple[Table, ...] = ALL) -> Iterator[Allowed]:
    """Every single step, and every pair of states that a row leads from and to, of every table."""
    for table in tables:
        columns = table.columns
        for source, target, events in columns.edges:
            names = tuple(columns.events[e] for e in events)
            yield Allowed(table.name, columns.states[source], columns.states[target], False, names)
        for (state, next_state), events_ in sorted(_rows(table).items()):
            yield Allowed(table.name, state, next_state, True, tuple(sorted(events_)))


def _rows(table: Table) -> dict[tuple[str, str], list[str]]:
    """The events that lead from one state to another, or leave it as it is."""
    found: dict[tuple[str, str], list[str]] = {}
    for (state, event), cell in table.compiled.items():
        found.setdefault((state.name, cell.target.name), []).append(event.name)
    return found


def judge(spark: SparkSession, transitions: DataFrame) -> DataFrame:
    """Each observed transition with `allowed_by`: the events of its table that cause it, null where none does, or
    where the event that it names does not.

    One of a machine that has no table, or whose state is not known, is not judged: `judged` is false.
    """
    allowed = local(spark, list(map(converter(Allowed), allowed_steps())), struct_of(Allowed))
    machines = [table.name for table in ALL]
    known = F.col("machine").isin(machines) & (F.col("state") != "")
    fits = ~F.col("named") | F.array_contains("allowed_by", F.col("event"))
    return (
        transitions.withColumn("named", F.col("event") != "")
        .join(F.broadcast(allowed), ["machine", "state", "next_state", "named"], "left")
        .withColumn("allowed_by", F.when(fits, F.col("allowed_by")))
        .withColumn("judged", known)
        .select(*transitions.columns, "allowed_by", "judged")
    )


def illegal(judged_: DataFrame) -> DataFrame:
    """Findings for the transitions that their table does not have, or that do not follow the one before."""
    broken = (F.col("previous") != "") & (F.col("previous") != F.col("state"))
    wrong = judged_.where(F.col("judged") & (F.col("allowed_by").isNull() | broken))
    return only(walk_rows(wrong, _report, finding=Finding), "finding")


def _report(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    return illegal_transitions(map(reader(ObservedTransition), rows))


def dwell(judged_: DataFrame) -> DataFrame:
    """Time spent in each state of each machine: visits, and total, median, 99th percentile and longest in ms."""
    at = F.percentile_approx("dwell_ms", [0.5, 0.99], 1000)
    return (
        judged_.where(F.col("dwell_ms").isNotNull())
        .groupBy("machine", "state")
        .agg(
            F.count("*").alias("visits"),
            F.sum("dwell_ms").alias("total_ms"),
            at.alias("at"),
            F.max("dwell_ms").alias("longest_ms"),
        )
        .select(
            "machine",
            "state",
            "visits",
            "total_ms",
            F.col("at")[0].alias("median_ms"),
            F.col("at")[1].alias("p99_ms"),
            "longest_ms",
        )
    )


def edge_counts(judged_: DataFrame) -> DataFrame:
    """How often each transition was seen, by machine."""
    return (
        judged_.where(F.col("state") != "").groupBy("machine", "state", "next_state").agg(F.count("*").alias("count"))
    )
