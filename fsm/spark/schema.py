"""The columns of every stage, as Spark types. A column is nullable only where absence means something."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from fsm.spark.columns import struct_of
from fsm.trace import TraceRecord


def _field(name: str, kind: DataType, *, nullable: bool = False) -> StructField:
    return StructField(name, kind, nullable)


TEXT, LONG, INT, YES_NO = StringType(), LongType(), IntegerType(), BooleanType()
COUNTS = MapType(TEXT, LONG, valueContainsNull=False)

RECORD = StructType(
    [
        *struct_of(TraceRecord),
        _field("seq", INT),  # several records of one entry, in their order
        _field("file", TEXT),
        _field("piece", LONG),  # where the piece starts, in bytes
        _field("line", LONG),  # counted from 1 in the piece
        _field("offset", LONG),  # in bytes
        _field("text", TEXT),  # the entry's first line, cut
    ]
)
"""A record and the place of its entry."""

PIECE = StructType(
    [
        _field("file", TEXT),
        _field("piece", LONG),
        _field("gzipped", YES_NO),
        _field("lines", LONG),
        _field("entries", LONG),
        _field("records", LONG),
        _field("not_understood", LONG),
        _field("orphans", LONG),
        _field("cut_lines", LONG),
        _field("layouts", COUNTS),
        _field("levels", COUNTS),
        _field("shapes", COUNTS),
        _field("bad_line", LONG),  # the first line that was not understood, from 1; 0 where there is none
        _field("bad_text", TEXT),
        _field("first_ms", LONG, nullable=True),  # no record in the piece
        _field("last_ms", LONG, nullable=True),
        _field("error", TEXT),
    ]
)
"""What one task saw of one piece. `shapes` counts lines that were not understood, digits masked, the commonest only."""

PARSED = StructType([_field("record", RECORD, nullable=True), _field("seen", PIECE, nullable=True)])
"""One row of the parsing stage: a record, or the summary of a piece."""
