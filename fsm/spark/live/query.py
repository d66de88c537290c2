"""A followed audit on Spark: a streaming query with the state of each group.

Spark stores the source's offsets and the states below the checkpoint, so that an interrupted batch is repeated from its
begin; the sink takes each batch once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState as SparkState

from fsm.audit.live import blobs
from fsm.audit.live.changes import Change
from fsm.audit.reading.records import Chunk
from fsm.audit.reading.routing import Sent
from fsm.errors import FsmError
from fsm.spark.live import plan
from fsm.spark.live.judging import Judge
from fsm.spark.live.known_files import Offsets
from fsm.spark.live.reading import Kept
from fsm.spark.live.sink import Counts, Sink, in_order
from fsm.spark.live.source import NAME, LogSource, find_files, settings
from fsm.spark.options import Followed
from fsm.spark.pipeline import read_names

STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "4",
}
_OUTPUT = "key string, changes binary"
_STATE = "value binary"


def start(
    spark: SparkSession,
    followed: Followed,
    on_batch: Callable[[Offsets, list[Change]], None],
    sink: Sink,
    failed: list[FsmError],
) -> Any:
    """Starts the query, and returns the `StreamingQuery`.

    `on_batch` is called with the offsets and alarms of each batch; errors of the sink are added to `failed`.
    """
    spark = spark.newSession()  # for settings of its own
    for name, value in STATE_SETTINGS.items():
        spark.conf.set(name, value)
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(cores))
    spark.dataSource.register(LogSource)
    checkpoint = followed.checkpoint / "spark"
    source = spark.readStream.format(NAME).options(**settings(followed, cores)).load()
    judged = source.groupBy("key").applyInPandasWithState(
        _judge(followed), _OUTPUT, _STATE, "append", "ProcessingTimeTimeout"
    )

    def take(batch: DataFrame, number: int) -> None:
        rows = batch.collect()  # only changes, which are few
        if not rows:  # Spark runs batches without data to find expired states
            return
        changes: list[Change] = [one for row in rows for one in blobs.unpack(row["changes"])]
        offsets = _reach(checkpoint / "offsets" / str(number))
        find_files(followed)  # prints which files cannot be read
        counts = Counts(len(offsets), sum(one.size for one in offsets.values()), len(rows))
        try:
            on_batch(offsets, sink.write(number, in_order(changes), counts))
        except FsmError as problem:  # Spark would report it as a Python error
            failed.append(problem)
            raise

    find_files(followed)
    trigger = f"{followed.follow.trigger_ms} milliseconds"
    writer = judged.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime=trigger).start()


def _judge(followed: Followed) -> Callable[..., Iterator[pd.DataFrame]]:
    """A function that takes the rows of one group or file, and returns the changes."""
    checkpoint, judge = followed.checkpoint, Judge(followed)

    def take(key: tuple[str], frames: Iterable[pd.DataFrame], kept: SparkState) -> Iterator[pd.DataFrame]:
        before = bytes(kept.get[0]) if kept.exists else None
        if kept.hasTimedOut:
            kept.remove()
            yield write_changes(key[0], judge.end(before) if before else [])
            return
        judged = judge.take(key[0], before, _rows(frames), _names(checkpoint), kept.getCurrentProcessingTimeMs())
        kept.update((judged.kept,))
        kept.setTimeoutDuration(followed.follow.expire_ms)
        yield write_changes(key[0], judged.changes)

    def write_changes(key: str, changes: Iterable[Change]) -> pd.DataFrame:
        return pd.DataFrame({"key": [key], "changes": [blobs.pack(list(changes))]})

    return take


def _rows(frames: Iterable[pd.DataFrame]) -> Iterator[Sent]:
    for frame in frames:
        keys, kinds, *rest = (frame[name].tolist() for name in ("key", "kind", *Chunk._fields))
        yield from map(Sent, keys, kinds, map(Chunk, *rest))


def _names(checkpoint: Path) -> dict[str, str]:
    """Topic names by topic id, cached until a file adds some."""
    folder = Kept(checkpoint).names
    return _names_at(folder, folder.stat().st_mtime_ns if folder.exists() else 0)


@lru_cache(maxsize=2)
def _names_at(folder: Path, _changed_ns: int) -> dict[str, str]:
    return read_names(folder)


def read_committed(checkpoint: Path) -> int:
    """The number of the last batch that Spark has committed; -1 if there is none."""
    return max((int(path.name) for path in (checkpoint / "spark" / "commits").glob("[0-9]*")), default=-1)


def read_reached(checkpoint: Path, number: int) -> Offsets:
    """The offsets of a batch; empty for -1."""
    return _reach(checkpoint / "spark" / "offsets" / str(number)) if number >= 0 else {}


def _reach(path: Path) -> Offsets:
    """The offsets of a batch, from Spark's offset log."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").splitlines()[2])
    return plan.from_json(document)
