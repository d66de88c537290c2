"""What it costs to keep a blob for each group in Spark's state: one value that is written anew, or a list that grows.

    python tests/bench/state.py [--groups N] [--batches N] [--bytes N] [--how apply,transform]

`apply` is applyInPandasWithState, `transform` is transformWithState with rows, which needs the package protobuf. Each
batch brings so many bytes for every group, which are added to what is kept of it. Printed are milliseconds a batch.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from fsm.spark.live.query import STATE_SETTINGS
from fsm.spark.session import TINY_INPUT_BYTES, session

TASKS = 2
GIVEN_UP_S = 120


class Blobs(DataSource):
    """The same groups in every batch."""

    @classmethod
    def name(cls) -> str:
        return "blobs"

    def schema(self) -> str:
        return "key string, packed binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002
        return Reader(int(self.options["groups"]), int(self.options["batches"]), int(self.options["bytes"]))


class Reader(DataSourceStreamReader):
    """A batch after the other, as many as there shall be."""

    def __init__(self, groups: int, batches: int, size: int) -> None:
        self.groups, self.batches, self.size = groups, batches, size

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: ARG002
        return {"batch": min(self.batches, start["batch"] + 1)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(task) for task in range(TASKS)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        keys = [f"g{number}" for number in range(partition.value, self.groups, TASKS)]
        blobs = [os.urandom(self.size)] * len(keys)
        yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(blobs)], names=["key", "packed"])


def add(key: tuple[str], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """One value, read and written whole."""
    kept = bytes(state.get[0]) if state.exists else b""
    kept += b"".join(bytes(one) for frame in frames for one in frame["packed"])
    state.update((kept,))
    yield pd.DataFrame({"key": [key[0]], "size": [len(kept)]})


class Append(StatefulProcessor):
    """A list, of which only what is new is written, and a small value."""

    def init(self, handle: Any) -> None:
        self.blobs = handle.getListState("blobs", "packed binary")
        self.stored = handle.getValueState("told", "told binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N803
        for row in rows:
            self.blobs.appendValue((bytes(row.packed),))
        self.stored.update((b"x" * 500,))
        yield Row(key=key[0], size=0)

    def close(self) -> None:
        """Nothing is open."""


def main() -> None:
    """Runs each way in a session of its own query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--how", default="apply")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        with session(f"local[{TASKS}]", input_bytes=TINY_INPUT_BYTES, scratch=scratch / "scratch") as spark:
            for how in options.how.split(","):
                took_ms = run(spark, how, options, scratch / how)
                print(f"{how:10} {' '.join(f'{one:6}' for one in took_ms)}")


def run(spark: SparkSession, how: str, options: argparse.Namespace, checkpoint: Path) -> list[int]:
    """Milliseconds of each batch."""
    for name, value in (STATE_SETTINGS | {"spark.sql.shuffle.partitions": str(TASKS)}).items():
        spark.conf.set(name, value)
    spark.dataSource.register(Blobs)
    settings = {name: str(getattr(options, name)) for name in ("groups", "batches", "bytes")}
    grouped = spark.readStream.format("blobs").options(**settings).load().groupBy("key")
    schema = "key string, size long"
    if how == "apply":
        kept = grouped.applyInPandasWithState(add, schema, "packed binary", "append", "NoTimeout")
    else:
        kept = grouped.transformWithState(Append(), schema, "append", "None")
    writer = kept.writeStream.foreachBatch(lambda batch, _number: batch.foreach(lambda _row: None))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="100 milliseconds").start()
    until_s = time.monotonic() + GIVEN_UP_S
    while query.isActive and time.monotonic() < until_s:
        if query.lastProgress is not None and query.lastProgress.batchId >= options.batches - 1:
            break
        time.sleep(0.2)
    took = [one.durationMs["triggerExecution"] for one in query.recentProgress if one.numInputRows]
    query.stop()
    return took


if __name__ == "__main__":
    main()
