"""The Parquet tables of a result: a folder per table, a part file per task with rows for it.

A part is written under a temporary name and renamed when it is complete: a failed task leaves no part, and a repeated
one writes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
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
from fsm.audit.group.coverage import Coverage
from fsm.audit.hygiene.identity import Key
from fsm.audit.incidents import Incident
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.reading.records import KIND, NUMBER, OFFSET, SEQ, TEXT, TIME, Chunk, Row
from fsm.audit.report.group_views import Overview
from fsm.audit.rows import Interval, Life, MemberRebalance, ObservedTransition, Subscription
from fsm.spark.columns import PARTITION, batch, list_of, reader, schema_of
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


class _Dwell(NamedTuple):
    machine: str
    state: str
    visits: int
    total_ms: int
    median_ms: int
    p99_ms: int
    longest_ms: int


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
    "group",
    "ts_ms",
    "kind",
    "member_id",
    "instance_id",
    "machine",
    "next_state",
    "epoch",
    "detail",
    "full",
    "revoked",
)
_RECORD = schema_of(TraceRecord)
_OTHERS = [name for name in _RECORD.names if name not in ("ts_ms", "kind", "group")]
"""Columns of a record after its kind and group, in the order of a row."""


def _join(*schemas: pa.Schema) -> pa.Schema:
    return pa.schema([field for schema in schemas for field in schema])


_PLACE = pa.schema([("seq", pa.int32()), ("file", pa.string()), ("piece", pa.int64()), ("line", pa.int64())])
_OWNER = pa.schema([("offset", pa.int64()), ("text", pa.string()), ("member", pa.string()), ("shared", pa.bool_())])
_RECORDS = _join(
    pa.schema([_RECORD.field("group"), _RECORD.field("ts_ms"), _RECORD.field("kind")]),
    pa.schema([_RECORD.field(name) for name in _OTHERS]),
    _PLACE,
    _OWNER,
    pa.schema([("rank", pa.int64())]),
)
SCHEMAS: dict[str, pa.Schema] = {
    "records": _RECORDS,
    "files": schema_of(PieceSummary),
    "transitions": _join(schema_of(ObservedTransition), schema_of(_Judged)),
    "dwell": schema_of(_Dwell),
    "intervals": schema_of(Interval),
    "wants": schema_of(Subscription),
    "lives": _join(schema_of(Life), pa.schema([pa.field("end_known", pa.string(), nullable=False)])),
    "turns": schema_of(MemberRebalance),
    "rebalances": schema_of(Rebalance),
    "findings": schema_of(Finding),
    "incidents": schema_of(Incident),
    "groups": schema_of(Overview),
}
"""Tables of every result."""
COORDINATORS: dict[str, pa.Schema] = {
    "coordinator": _join(
        pa.schema([_RECORD.field(name) for name in _COLUMNS]), schema_of(_Beside), pa.schema([("seq", pa.int32())])
    ),
    "assignments": schema_of(Assignment),
}
"""Tables of results with records of coordinators."""
_CLASSES: dict[str, type] = {
    "files": PieceSummary,
    "intervals": Interval,
    "wants": Subscription,
    "turns": MemberRebalance,
    "rebalances": Rebalance,
    "findings": Finding,
    "incidents": Incident,
    "groups": Overview,
    "assignments": Assignment,
}


class Tables:
    """The part files of one task below the folder `work`, complete when the block ends."""

    def __init__(self, work: Path, part: int) -> None:
        self.work = work
        self.part = part
        self._held: dict[str, list[Any]] = {}
        self._writers: dict[str, tuple[parquet.ParquetWriter, Path]] = {}
        self._records: list[_Records] = []
        self._record_rows = 0

    def add(self, name: str, rows: Iterable[Any]) -> None:
        """Adds rows to a table."""
        for row in rows:
            held = self._held.setdefault(name, [])
            held.append(row)
            if len(held) >= ROWS:
                self._flush(name)

    def add_records(self, group: str, chunk: Chunk, rows: Sequence[Row], key: Key | None) -> None:
        """Adds the records of a source with their group and member."""
        self._records.append(_Records(chunk, group or chunk.group, key, rows))
        self._record_rows += len(rows)
        if self._record_rows >= RECORD_ROWS:
            self._flush_records()

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
        self._flush_records()
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
        rows = self._held.pop(name, [])
        if rows:
            self._write(name, _BUILD[name](rows) if name in _BUILD else batch(rows, _CLASSES[name]))

    def _flush_records(self) -> None:
        if self._records:
            self._write("records", _record_batch(self._records))
            self._records, self._record_rows = [], 0

    def _write(self, name: str, rows: pa.RecordBatch) -> None:
        if name not in self._writers:
            folder = self.work / f"{name}.parquet"
            folder.mkdir(exist_ok=True)
            path = folder / f".part-{self.part:05}-{uuid4().hex}"
            self._writers[name] = parquet.ParquetWriter(path, rows.schema, compression="zstd"), path
        self._writers[name][0].write_batch(rows)


def write_whole(work: Path, name: str, rows: Iterable[Any]) -> None:
    """Writes a table in one part, even if it is empty."""
    folder = work / f"{name}.parquet"
    folder.mkdir(exist_ok=True)
    schema = (SCHEMAS | COORDINATORS)[name]
    with parquet.ParquetWriter(folder / "part-00000.parquet", schema, compression="zstd") as writer:
        held: list[Any] = []
        for row in rows:
            held.append(row)
            if len(held) == ROWS:
                writer.write_batch(_whole_batch(name, held))
                held = []
        writer.write_batch(_whole_batch(name, held))


def _whole_batch(name: str, rows: Sequence[Any]) -> pa.RecordBatch:
    if name in _CLASSES:
        return batch(rows, _CLASSES[name])
    return pa.RecordBatch.from_pylist(list(rows), schema=(SCHEMAS | COORDINATORS)[name])


def complete(work: Path, *, coordinators: bool) -> None:
    """Adds the tables without rows, and removes the parts of killed tasks."""
    for part in sorted(work.glob("*.parquet/.part-*")):
        part.unlink()
    for name in (*SCHEMAS, *(COORDINATORS if coordinators else ())):
        if not (work / f"{name}.parquet").exists():
            write_whole(work, name, ())


# -- tables with columns of their own -----------------------------------------------------------------------


def _beside(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=_join(left.schema, right.schema))


def _life_batch(rows: Sequence[Coverage]) -> pa.RecordBatch:
    ends = pa.array([one.end for one in rows], pa.string())
    return pa.RecordBatch.from_arrays([*batch((one.life for one in rows), Life).columns, ends], schema=SCHEMAS["lives"])


def _transition_batch(rows: Sequence[ObservedTransition]) -> pa.RecordBatch:
    return _beside(batch(rows, ObservedTransition), batch(map(_judge, rows), _Judged))


def _judge(one: ObservedTransition) -> _Judged:
    return _Judged(find_causes(one), has_table(one.machine) and bool(one.state))


def _coordinator_batch(rows: Sequence[CoordinatorRecord]) -> pa.RecordBatch:
    columns = batch((one.record for one in rows), TraceRecord).select(list(_COLUMNS))
    beside = batch((_Beside(one.member, one.record.settings.get("client.id", ""), *one.place) for one in rows), _Beside)
    seq = pa.RecordBatch.from_arrays([pa.array([one.seq for one in rows], pa.int32())], names=["seq"])
    return _beside(_beside(columns, beside), seq)


_BUILD: dict[str, Callable[[Any], pa.RecordBatch]] = {
    "lives": _life_batch,
    "transitions": _transition_batch,
    "coordinator": _coordinator_batch,
}


def _record_batch(records: Sequence[_Records]) -> pa.RecordBatch:
    """Builds the batch column by column, for speed: most rows of an audit are records."""
    rows = list(zip(*(row for one in records for row in one.rows), strict=True))
    source = np.repeat(np.arange(len(records)), [len(one.rows) for one in records])

    def of_source(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(source)

    keys = [one.key or Key("", "") for one in records]
    columns = {
        "group": of_source((one.group for one in records), pa.string()),
        "ts_ms": pa.array(rows[TIME], pa.int64()),
        "kind": pa.array(rows[KIND], pa.string()),
        **{name: _column(rows[i], _RECORD.field(name).type) for i, name in enumerate(_OTHERS, KIND + 2)},
        "seq": pa.array(rows[SEQ], pa.int32()),
        "file": of_source((one.chunk.file for one in records), pa.string()),
        "piece": of_source((one.chunk.piece for one in records), pa.int64()),
        "line": pa.array(rows[NUMBER], pa.int64()),
        "offset": pa.array(rows[OFFSET], pa.int64()),
        "text": pa.array(rows[TEXT], pa.string()),
        "member": of_source((key.member for key in keys), pa.string()),
        "shared": of_source((key.shared for key in keys), pa.bool_()),
        "rank": of_source((key.rank for key in keys), pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _RECORDS.names], schema=_RECORDS)


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


def rows_of(work: Path, name: str, cls: type[_T]) -> list[Iterator[_T]]:
    """The rows of each part of a table as instances of its class."""

    def read(path: Path) -> Iterator[_T]:
        build = reader(cls)
        with parquet.ParquetFile(path) as part:
            for rows in part.iter_batches(ROWS_READ):
                yield from map(build, rows.to_pylist())

    return [read(path) for path in sorted((work / f"{name}.parquet").glob("*.parquet"))]
