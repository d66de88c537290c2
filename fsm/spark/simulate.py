"""Fleets of simulated seeds on Spark: a row per seed; only aggregates return to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fsm.simulate.deployment import Deployment
from fsm.simulate.fleet import MOST_FAILED, Fleet, Measured, run_seed
from fsm.simulate.machines.deployment import Machines
from fsm.spark.session import convert_errors, session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "seed long, measures map<string, long>, hazards map<string, long>, violations array<string>"
SEEDS_A_TASK = 4


def run_on_spark(deployment: Deployment | Machines, first: int, last: int, master: str) -> Fleet:
    """Runs the seeds from the first to the last one. Raises `InputError` if Spark does not start."""
    with session(master) as spark, convert_errors(lambda: "running seeds"):
        return add_up(rows_of(spark, deployment, first, last))


def rows_of(spark: SparkSession, deployment: Deployment | Machines, first: int, last: int) -> DataFrame:
    """A row for each seed."""
    tasks = max(1, min((last - first + 1) // SEEDS_A_TASK, 10_000))
    seeds = spark.range(first, last + 1, 1, tasks)
    return seeds.mapInArrow(_runner(deployment), SCHEMA)


def _runner(deployment: Deployment | Machines) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        counts = pa.map_(pa.string(), pa.int64())
        types = [pa.int64(), counts, counts, pa.list_(pa.string())]
        schema = pa.schema(list(zip(("seed", "measures", "hazards", "violations"), types, strict=True)))
        for batch in batches:
            for seed in batch.column(0).to_pylist():
                row = run_seed(deployment, seed)
                values = [row.seed, list(row.measures.items()), sorted(row.hazards.items()), list(row.violations)]
                yield pa.record_batch([pa.array([v], t) for v, t in zip(values, types, strict=True)], schema=schema)

    return run


def add_up(rows: DataFrame) -> Fleet:
    """Aggregates all rows: sums, counts, and the first seeds that failed."""
    import pyspark.sql.functions as F

    kept = rows.persist()
    failing = F.sum((F.size("violations") > 0).cast("long"))
    one = kept.agg(F.count("*").alias("runs"), failing.alias("failures"), F.first("measures").alias("measures")).first()
    assert one is not None  # noqa: S101  # a global aggregate has one row
    found = Fleet(one["runs"], failures=one["failures"] or 0)
    measured = kept.select(F.explode("measures").alias("name", "value")).groupBy("name")
    ends = measured.agg(*(function("value").alias(word) for word, function in _ends(F)))
    by_name = {row["name"]: Measured(row["sum"], row["min"], row["max"]) for row in ends.toLocalIterator()}
    found.measures = {name: by_name[name] for name in one["measures"]}
    hazards = (
        kept.select(F.explode("hazards").alias("name", "count")).groupBy("name").agg(F.sum("count").alias("count"))
    )
    found.hazards = dict(hazards.toLocalIterator())
    violations = kept.select(F.explode(F.array_distinct("violations")).alias("what")).groupBy("what").count()
    found.violations = {row["what"]: row["count"] for row in violations.toLocalIterator()}
    failed = kept.where(F.size("violations") > 0).select("seed").orderBy("seed").limit(MOST_FAILED)
    found.failed = [row["seed"] for row in failed.toLocalIterator()]
    kept.unpersist()
    return found


def _ends(functions: Any) -> list[tuple[str, Callable[[str], Any]]]:
    return [(word, getattr(functions, word)) for word in ("sum", "min", "max")]
