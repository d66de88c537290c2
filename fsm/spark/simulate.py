"""Fleets of simulated seeds on Spark: tasks add their rows up, and only their totals return to the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa

from fsm.simulate.deployment import Deployment
from fsm.simulate.fleet import Fleet, run_seed
from fsm.simulate.machines.deployment import Machines
from fsm.spark.session import convert_errors, session

SEEDS_A_TASK = 4
MOST_TASKS = 10_000


def run_on_spark(deployment: Deployment | Machines, first: int, last: int, master: str) -> Fleet:
    """Runs the seeds from the first to the last one. Raises `InputError` if Spark does not start."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seeds = (seed for batch in batches for seed in batch.column(0).to_pylist())
        fleet = Fleet.of(run_seed(deployment, seed) for seed in seeds)
        yield pa.RecordBatch.from_pydict({"fleet": [pickle.dumps(fleet)]})

    tasks = max(1, min((last - first + 1) // SEEDS_A_TASK, MOST_TASKS))
    found = Fleet()
    with session(master) as spark, convert_errors(lambda: "running seeds"):
        for row in spark.range(first, last + 1, 1, tasks).mapInArrow(run, "fleet binary").collect():  # one per task
            found.merge(pickle.loads(row["fleet"]))  # noqa: S301  made by a task of this command
    return found
