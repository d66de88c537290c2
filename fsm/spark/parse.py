"""Stage one: pieces of files in, records and a summary of each piece out. Runs in Python workers, piece by piece."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from fsm.logs import Format, formats
from fsm.logs.entries import Entry, first_line, told
from fsm.logs.pieces import READ_ERRORS, Piece, reader_of
from fsm.spark.columns import batches, converter, rows_in
from fsm.spark.schema import PARSED
from fsm.spark.sources import Job
from fsm.trace import TraceRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SHAPES_A_PIECE = 40
SHAPE_LENGTH = 100
"""Bytes of a line that tell its shape."""
_RECORD = converter(TraceRecord)
_VARIABLE = re.compile(rb"[0-9a-fA-F]{8,}|\d+")
_LEVEL = re.compile(rb"\b(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")


def parsed(spark: SparkSession, bins: Sequence[Sequence[Job]], wanted: str, timezone: str) -> DataFrame:
    """Rows of `schema.PARSED`: what the pieces hold. One task reads one bin."""

    def read(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
        chosen = [f for f in formats() if wanted in ("auto", f.name)]
        jobs = (job for row in rows_in(given) for job in bins[row["id"]])
        return batches((row for job in jobs for row in rows_of(job.piece, chosen, zone, job.cluster)), PARSED)

    # A range has exactly one row in each of its partitions, and no shuffle.
    return spark.range(0, len(bins), 1, len(bins)).mapInArrow(read, PARSED)


def rows_of(piece: Piece, chosen: Sequence[Format], zone: tzinfo, cluster: str = "") -> Iterator[dict[str, Any]]:
    """A row for each record of the piece, then the summary of the piece."""
    summary = Summary(piece)
    reader = reader_of(piece, chosen)
    try:
        for entry in reader.entries():
            for seq, record in enumerate(summary.take(entry, zone)):
                yield {"record": _record_row(record, entry, piece, seq, cluster), "seen": None}
    except READ_ERRORS as problem:
        summary.error = f"{type(problem).__name__}: {problem}"
    yield {"record": None, "seen": summary.row(reader.lines)}


class Summary:
    """Counts what one piece held."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.entries = self.records = self.not_understood = self.orphans = self.cut_lines = 0
        self.layouts: Counter[str] = Counter()
        self.levels: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.error = ""
        self.bad_line, self.bad_text = 0, ""

    def take(self, entry: Entry, zone: tzinfo) -> Sequence[TraceRecord]:
        """The records of an entry, counted."""
        self.cut_lines += entry.cut
        by, found = told(entry, zone)
        if entry.format is not None:
            self.entries += 1
            self.not_understood += found is None
        else:
            self.orphans += found is None
        if by is not None:  # several programs share a layout: it is counted for the one that is understood
            self.layouts[f"{by.name}/{by.layout}"] += 1
        if found is None:
            self._shape(entry)
        elif found:
            self._count(found, entry)
        return found or ()

    def _count(self, found: Sequence[TraceRecord], entry: Entry) -> None:
        self.records += len(found)
        level = _LEVEL.search(entry.data, 0, 100)
        if level:
            self.levels[level.group(1).decode()] += 1
        ts_ms = found[0].ts_ms
        self.first_ms = ts_ms if self.first_ms is None else min(self.first_ms, ts_ms)
        self.last_ms = ts_ms if self.last_ms is None else max(self.last_ms, ts_ms)

    def _shape(self, entry: Entry) -> None:
        """Counts the line under its shape; what is rare in a full table goes under an empty name."""
        if not self.bad_line:
            self.bad_line, self.bad_text = entry.number, first_line(entry.data)
        line = entry.data.split(b"\n", 1)[0][: 4 * SHAPE_LENGTH]
        shape = first_line(_VARIABLE.sub(b"#", line)[:SHAPE_LENGTH])
        self.shapes[shape if shape in self.shapes or len(self.shapes) < SHAPES_A_PIECE else ""] += 1

    def row(self, lines: int) -> dict[str, Any]:
        """The summary as a row of `schema.PIECE`."""
        return {
            "file": self.piece.file,
            "piece": self.piece.start,
            "gzipped": self.piece.gzipped,
            "lines": lines,
            "entries": self.entries,
            "records": self.records,
            "not_understood": self.not_understood,
            "orphans": self.orphans,
            "cut_lines": self.cut_lines,
            "layouts": sorted(self.layouts.items()),
            "levels": sorted(self.levels.items()),
            "shapes": sorted(self.shapes.items()),
            "bad_line": self.bad_line,
            "bad_text": self.bad_text,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "error": self.error,
        }


def _record_row(record: TraceRecord, entry: Entry, piece: Piece, seq: int, cluster: str) -> dict[str, Any]:
    row = _RECORD(record)
    if cluster and record.group:
        row["group"] = f"{cluster}:{record.group}"
    row.update(
        seq=seq,
        file=piece.file,
        piece=piece.start,
        line=entry.number,
        offset=entry.offset,
        text=first_line(entry.data),
    )
    return row
