"""Growing files as a source of Spark's Structured Streaming: offsets are file sizes, a partition has parts of files.

A task sends packed rows to groups, as in the batch audit.
"""

from __future__ import annotations

import os
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from fsm.logs.reading.pieces import Unreadable
from fsm.render.wording import show_line
from fsm.spark import sources
from fsm.spark.live import plan
from fsm.spark.live.plan import Part
from fsm.spark.live.reading import Kept, choose, reader_of
from fsm.spark.options import TOPICS, Followed
from fsm.spark.pipeline import SCHEMA, to_batches

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "fsm-logs"


def settings(followed: Followed, tasks: int) -> dict[str, str]:
    """The options of the source, as strings for Spark."""
    own = replace(followed, options=replace(followed.options, lag={}))
    return {"followed": b64encode(pickle.dumps(own)).decode(), "tasks": str(tasks)}


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002  Spark's name
        followed = pickle.loads(b64decode(self.options["followed"]))  # noqa: S301  made by `settings`
        return LogReader(followed, int(self.options["tasks"]))


class Parts(InputPartition):
    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts


class LogReader(DataSourceStreamReader):
    """Plans batches in a process of the driver, and reads in tasks."""

    def __init__(self, followed: Followed, tasks: int) -> None:
        self.followed, self.tasks = followed, tasks
        self.kept = Kept(followed.checkpoint)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802, ARG002
        return plan.to_json(plan.advance(plan.from_json(start), look_for(self.followed)[0]))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        paths = {source.name: source.path for source in look_for(self.followed)[0]}
        found = plan.parts(plan.from_json(start), plan.from_json(end), paths)
        found.sort(key=lambda part: (-part.weight, part.growth.name))
        dealt = sources.deal(found, min(self.tasks, len(found)), attrgetter("weight"))
        return [Parts(own) for own in dealt]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Parts)  # noqa: S101
        options = self.followed.options
        reader = reader_of(options)
        return to_batches(row for part in partition.parts for row in choose(self.kept.read(part, reader), options))

    def commit(self, end: dict[str, Any]) -> None:
        self.kept.forget(plan.from_json(end))


def find_files(followed: Followed) -> list[sources.Source]:
    """The existing files. Each unreadable one is printed once on stderr."""
    found, unreadable = look_for(followed)
    for one in unreadable:
        _print_unreadable(followed.out, one.file, one.reason)
    return found


def look_for(followed: Followed) -> tuple[list[sources.Source], list[Unreadable]]:
    """(the existing files, those that cannot be read); paths may be missing."""
    by_folder = followed.options.by_folder
    there = [path for path in map(Path, followed.paths) if path.exists()]
    copies = [path for path in there if path.parent == followed.checkpoint / TOPICS]
    logs = [path for path in there if path not in copies]
    found, unreadable, _ = sources.look(logs, by_folder=by_folder, leave_out=followed.out)
    # A topic's records count as lines, whatever they look like.
    found += [source for path in copies for source in _find_copied(path, by_folder=by_folder)]
    return found, [one for path, one in sorted(unreadable.items()) if os.path.lexists(path)]


def _find_copied(folder: Path, *, by_folder: bool) -> Iterator[sources.Source]:
    """The files of the copy of a topic."""
    for path in sorted(folder.iterdir()):
        yield sources.Source(path.absolute(), str(path), folder.name if by_folder else "", path.stat().st_size)


@lru_cache(maxsize=10_000)
def _print_unreadable(_out: Path, file: str, reason: str) -> None:
    """Prints why a file is not followed; cached, so once per file and reason."""
    print(f"fsm: {show_line(f'{file}: {reason}; it is not followed')}", file=sys.stderr)  # noqa: T201
