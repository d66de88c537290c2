"""The Parquet tables of a result: a folder per table, a part file per task with rows for it.

A part is written under a temporary name and renamed when it is complete: a failed task leaves no part, and a repeated
one writes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fsm.audit.conformance import find_causes, has_table
from fsm.audit.coordinator.assignments import Assignment, CoordinatorRecord
from fsm.audit.findings import Finding
from fsm.audit.group import Rebalance
from fsm.audit.hygiene.identity import Key
from fsm.audit.incidents import Incident
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.reading.records import KIND, NUMBER, OFFSET, SEQ, TEXT, TIME, Chunk, Row
from fsm.audit.report.group_views import Overview
from fsm.audit.rows import Interval, Life, MemberRebalance, ObservedTransition, Subscription
from fsm.spark.columns import PARTITION, batch, beside, join, list_of, reader, schema_of
from fsm.spark.totals import Dwell
from fsm.trace import TraceRecord

ROWS = 10_000
"""Rows of a table that a task buffers."""
RECORD_ROWS = 20_000
ROWS_READ = 500
_T = TypeVar("_T")


class _Judged(NamedTuple):
    """A transition compared with the table of its machine."""

    allowed_by: tuple[str, ...] | None
    """Events that cause it; None if there is none, or if its own event is not among them."""
    judged: bool
    """False if the machine has no table, or the state is not known."""


class _End(NamedTuple):
    end_known: str


class _Records(NamedTuple):
    """Records of one source, with their group and member."""

    chunk: Chunk
    group: str
    key: Key | None
    rows: Sequence[Row]


class _Beside(NamedTuple):
    """Columns of a coordinator's record beside `_COLUMNS`."""

    member: str
    client: str
    file: str
    offset: int


_COLUMNS = (
    "group", "ts_ms", "kind", "member_id", "instance_id", "machine", "next_state", "epoch", "detail", "full",
    "revoked",
)  # fmt: skip
_RECORD = schema_of(TraceRecord)
_OTHERS = [name for name in _RECORD.names if name not in ("ts_ms", "kind", "group")]
"""Columns of a record after its kind and group, in the order of a row."""


class _Table(NamedTuple):
    schema: pa.Schema
    make: Callable[[Sequence[Any]], pa.RecordBatch]


def _table(*parts: tuple[type, Callable[[Any], Any]]) -> _Table:
    """A table with the columns of some classes, and the function that makes an instance of each from a row."""
    schema = join(*(schema_of(cls) for cls, _ in parts))
    return _Table(schema, lambda rows: beside(*(batch(map(get, rows), cls) for cls, get in parts)))


def _table_of(cls: type) -> _Table:
    return _Table(schema_of(cls), partial(batch, cls=cls))


def _same(row: Any) -> Any:
    return row


def _judge(one: ObservedTransition) -> _Judged:
    return _Judged(find_causes(one), has_table(one.machine) and bool(one.state))


def _coordinator_batch(rows: Sequence[CoordinatorRecord]) -> pa.RecordBatch:
    columns = batch((one.record for one in rows), TraceRecord).select(list(_COLUMNS))
    others = batch((_Beside(one.member, one.record.settings.get("client.id", ""), *one.place) for one in rows), _Beside)
    seq = pa.RecordBatch.from_arrays([pa.array([one.seq for one in rows], pa.int32())], schema=_SEQ)
    return beside(columns, others, seq)


def _record_batch(records: Sequence[_Records]) -> pa.RecordBatch:
    """Builds the batch column by column, for speed: most rows of an audit are records."""
    rows = list(zip(*(row for one in records for row in one.rows), strict=True))
    source = np.repeat(np.arange(len(records)), [len(one.rows) for one in records])
    keys = [one.key or Key("", "") for one in records]
    of_rows = dict(zip(_OTHERS, rows[KIND + 2 :], strict=True)) | {
        "ts_ms": rows[TIME],
        "kind": rows[KIND],
        "seq": rows[SEQ],
        "line": rows[NUMBER],
        "offset": rows[OFFSET],
        "text": rows[TEXT],
    }
    of_sources: dict[str, Iterable[Any]] = {
        "group": (one.group for one in records),
        "file": (one.chunk.file for one in records),
        "piece": (one.chunk.piece for one in records),
        "member": (key.member for key in keys),
        "shared": (key.shared for key in keys),
        "rank": (key.rank for key in keys),
    }
    columns = [
        _column(of_rows[name], kind) if name in of_rows else pa.array(of_sources[name], kind).take(source)
        for name, kind in zip(_RECORDS.names, _RECORDS.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_RECORDS)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind == list_of(PARTITION):
        return _partition_lists(values)
    if pa.types.is_map(kind):
        return pa.array([sorted(value.items()) if value else () for value in values], kind)
    return pa.array(values, kind)


def _partition_lists(values: Sequence[Any]) -> pa.Array:
    """Lists of (topic, number) pairs; None stays null."""
    ends, topics, numbers = [0], [], []
    for value in values:
        for topic, number in value or ():
            topics.append(topic)
            numbers.append(number)
        ends.append(len(topics))
    pairs = pa.StructArray.from_arrays(
        [pa.array(topics, pa.string()), pa.array(numbers, pa.int64())], fields=list(PARTITION)
    )
    missing = pa.array([value is None for value in values])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs, type=list_of(PARTITION), mask=missing)


_SEQ = pa.schema([("seq", pa.int32())])
_OF_LINE = pa.schema([("file", pa.string()), ("piece", pa.int64()), ("line", pa.int64()), ("offset", pa.int64())])
_OF_OWNER = pa.schema([("text", pa.string()), ("member", pa.string()), ("shared", pa.bool_()), ("rank", pa.int64())])
_RECORDS = join(pa.schema(map(_RECORD.field, ("group", "ts_ms", "kind", *_OTHERS))), _SEQ, _OF_LINE, _OF_OWNER)
TABLES: dict[str, _Table] = {
    "records": _Table(_RECORDS, _record_batch),
    "files": _table_of(PieceSummary),
    "transitions": _table((ObservedTransition, _same), (_Judged, _judge)),
    "dwell": _table_of(Dwell),
    "intervals": _table_of(Interval),
    "wants": _table_of(Subscription),
    "lives": _table((Life, attrgetter("life")), (_End, lambda one: _End(one.end))),
    "turns": _table_of(MemberRebalance),
    "rebalances": _table_of(Rebalance),
    "findings": _table_of(Finding),
    "incidents": _table_of(Incident),
    "groups": _table_of(Overview),
}
"""Tables of every result."""
COORDINATORS: dict[str, _Table] = {
    "coordinator": _Table(join(pa.schema(map(_RECORD.field, _COLUMNS)), schema_of(_Beside), _SEQ), _coordinator_batch),
    "assignments": _table_of(Assignment),
}
"""Tables of results with records of coordinators."""
_ALL = TABLES | COORDINATORS


class Tables:
    """The part files of one task below the folder `work`, complete when the block ends."""

    def __init__(self, work: Path, part: int) -> None:
        self.work = work
        self.part = part
        self._held: dict[str, list[Any]] = {}
        self._writers: dict[str, tuple[parquet.ParquetWriter, Path]] = {}
        self._record_rows = 0

    def add(self, name: str, rows: Iterable[Any]) -> None:
        for row in rows:
            held = self._held.setdefault(name, [])
            held.append(row)
            if len(held) >= ROWS:
                self._flush(name)

    def add_records(self, group: str, chunk: Chunk, rows: Sequence[Row], key: Key | None) -> None:
        self._held.setdefault("records", []).append(_Records(chunk, group or chunk.group, key, rows))
        self._record_rows += len(rows)
        if self._record_rows >= RECORD_ROWS:
            self._flush("records")
            self._record_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._complete()
        finally:
            self._abandon()

    def _complete(self) -> None:
        """Writes buffered rows and renames the parts."""
        for name in sorted(self._held):
            self._flush(name)
        for writer, path in self._writers.values():
            writer.close()
            path.rename(path.with_name(f"part-{self.part:05}.parquet"))
        self._writers = {}

    def _abandon(self) -> None:
        """Discards incomplete parts."""
        for writer, path in self._writers.values():
            with suppress(OSError):
                writer.close()
            path.unlink(missing_ok=True)
            writer.is_open = False  # else it would try again when it is collected, and print the error
        self._writers = {}

    def _flush(self, name: str) -> None:
        if name not in self._writers:
            folder = self.work / f"{name}.parquet"
            folder.mkdir(exist_ok=True)
            path = folder / f".part-{self.part:05}-{uuid4().hex}"
            self._writers[name] = parquet.ParquetWriter(path, _ALL[name].schema, compression="zstd"), path
        self._writers[name][0].write_batch(_ALL[name].make(self._held.pop(name)))


def complete(work: Path, *, coordinators: bool) -> None:
    """Adds the tables without rows, and removes the parts of killed tasks."""
    for part in sorted(work.glob("*.parquet/.part-*")):
        part.unlink()
    for name, table in (_ALL if coordinators else TABLES).items():
        folder = work / f"{name}.parquet"
        if not folder.exists():
            folder.mkdir()
            parquet.write_table(table.schema.empty_table(), folder / "part-00000.parquet", compression="zstd")


def rows_of(work: Path, name: str, cls: type[_T]) -> list[Iterator[_T]]:
    """The rows of each part of a table as instances of its class."""

    def read(path: Path) -> Iterator[_T]:
        build = reader(cls)
        with parquet.ParquetFile(path) as part:
            for rows in part.iter_batches(ROWS_READ):
                yield from map(build, rows.to_pylist())

    return [read(path) for path in sorted((work / f"{name}.parquet").glob("*.parquet"))]
