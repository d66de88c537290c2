"""Pieces of files in, records and a summary of each piece out. Runs in Python workers, piece by piece."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import StructField, StructType

from fsm.logs import Format, formats
from fsm.logs.entries import Entry, first_line, parse_entry
from fsm.logs.pieces import READ_ERRORS, Piece, reader_of
from fsm.spark.columns import batches, converter, rows_in, struct_of
from fsm.spark.read.sources import Job
from fsm.trace import TraceRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SHAPES_A_PIECE = 40
SHAPE_LENGTH = 100
"""Bytes of a line that tell its shape."""
_VARIABLE = re.compile(rb"[0-9a-fA-F]{8,}|\d+")
_LEVEL = re.compile(rb"\b(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")


@dataclass(slots=True)
class PieceSummary:
    """What one task saw of one piece."""

    file: str
    piece: int
    """Where it starts, in bytes."""
    gzipped: bool
    lines: int = 0
    entries: int = 0
    records: int = 0
    not_understood: int = 0
    orphans: int = 0
    cut_lines: int = 0
    layouts: Mapping[str, int] = field(default_factory=Counter)
    levels: Mapping[str, int] = field(default_factory=Counter)
    shapes: Mapping[str, int] = field(default_factory=Counter)
    """Lines that were not understood, digits masked, the commonest only."""
    bad_line: int = 0
    """The first line that was not understood, from 1; 0 where there is none."""
    bad_text: str = ""
    first_ms: int | None = None
    last_ms: int | None = None
    error: str = ""

    def take(self, entry: Entry, zone: tzinfo) -> Sequence[TraceRecord]:
        """The records of an entry, counted."""
        self.cut_lines += entry.cut
        format_, found = parse_entry(entry, zone)
        if entry.format is not None:
            self.entries += 1
            self.not_understood += found is None
        else:
            self.orphans += found is None
        if format_ is not None:  # several programs share a layout: it is counted for the one that is understood
            _count(self.layouts, f"{format_.name}/{format_.layout}")
        if found is None:
            self._count_shape(entry)
        elif found:
            self._count_records(found, entry)
        return found or ()

    def _count_records(self, found: Sequence[TraceRecord], entry: Entry) -> None:
        self.records += len(found)
        level = _LEVEL.search(entry.data, 0, 100)
        if level:
            _count(self.levels, level.group(1).decode())
        ts_ms = found[0].ts_ms
        self.first_ms = ts_ms if self.first_ms is None else min(self.first_ms, ts_ms)
        self.last_ms = ts_ms if self.last_ms is None else max(self.last_ms, ts_ms)

    def _count_shape(self, entry: Entry) -> None:
        """Counts the line under its shape; what is rare in a full table goes under an empty name."""
        if not self.bad_line:
            self.bad_line, self.bad_text = entry.number, first_line(entry.data)
        line = entry.data.split(b"\n", 1)[0][: 4 * SHAPE_LENGTH]
        shape = first_line(_VARIABLE.sub(b"#", line)[:SHAPE_LENGTH])
        _count(self.shapes, shape if shape in self.shapes or len(self.shapes) < SHAPES_A_PIECE else "")


def _count(counts: Mapping[str, int], key: str) -> None:
    counts[key] += 1  # type: ignore[index]


RECORD = (
    StructType(list(struct_of(TraceRecord)))
    .add("seq", "integer", nullable=False)  # several records of one entry, in their order
    .add("file", "string", nullable=False)
    .add("piece", "long", nullable=False)  # where the piece starts, in bytes
    .add("line", "long", nullable=False)  # counted from 1 in the piece
    .add("offset", "long", nullable=False)  # in bytes
    .add("text", "string", nullable=False)  # the entry's first line, cut
)
"""A record and the place of its entry."""
PARSED = StructType([StructField("record", RECORD), StructField("seen", struct_of(PieceSummary))])
"""A record, or the summary of a piece."""
_RECORD, _SUMMARY = converter(TraceRecord), converter(PieceSummary)


def parse_pieces(spark: SparkSession, bins: Sequence[Sequence[Job]], wanted: str, timezone: str) -> DataFrame:
    """Rows of `PARSED`: what the pieces hold. One task reads one bin."""

    def read(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
        chosen = [f for f in formats() if wanted in ("auto", f.name)]
        jobs = (job for row in rows_in(given) for job in bins[row["id"]])
        return batches((row for job in jobs for row in rows_of(job.piece, chosen, zone, job.cluster)), PARSED)

    # A range has exactly one row in each of its partitions, and no shuffle.
    return spark.range(0, len(bins), 1, len(bins)).mapInArrow(read, PARSED)


def rows_of(piece: Piece, chosen: Sequence[Format], zone: tzinfo, cluster: str = "") -> Iterator[dict[str, Any]]:
    """A row for each record of the piece, then the summary of the piece."""
    summary = PieceSummary(piece.file, piece.start, piece.gzipped)
    reader = reader_of(piece, chosen)
    try:
        for entry in reader.entries():
            for seq, record in enumerate(summary.take(entry, zone)):
                yield {"record": _record_row(record, entry, piece, seq, cluster), "seen": None}
    except READ_ERRORS as problem:
        summary.error = f"{type(problem).__name__}: {problem}"
    summary.lines = reader.lines
    yield {"record": None, "seen": _SUMMARY(summary)}


def _record_row(record: TraceRecord, entry: Entry, piece: Piece, seq: int, cluster: str) -> dict[str, Any]:
    row = _RECORD(record)
    if cluster and record.group:
        row["group"] = f"{cluster}:{record.group}"
    place = {"file": piece.file, "piece": piece.start, "line": entry.number, "offset": entry.offset}
    return row | place | {"seq": seq, "text": first_line(entry.data)}
