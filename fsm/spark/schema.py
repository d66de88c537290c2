"""The columns of every stage, as Spark types. A column is nullable only where absence means something."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)


def _struct(*fields: tuple[str, object] | tuple[str, object, bool]) -> StructType:
    return StructType([StructField(f[0], f[1], len(f) == 3 and f[2]) for f in fields])  # type: ignore[arg-type]


TEXT, LONG, INT, YES_NO = StringType(), LongType(), IntegerType(), BooleanType()
PARTITION = _struct(("topic", TEXT), ("partition", INT))
PARTITIONS = ArrayType(PARTITION, containsNull=False)
TEXTS = ArrayType(TEXT, containsNull=False)
COUNTS = MapType(TEXT, LONG, valueContainsNull=False)

PLACE = (("file", TEXT), ("piece", LONG), ("line", LONG), ("offset", LONG))
"""Where an entry stands: file, start of its piece in bytes, line within the piece from 1, offset in bytes."""

RECORD = _struct(
    ("ts_ms", LONG),
    ("kind", TEXT),
    ("group", TEXT),
    ("client_id", TEXT),
    ("member_id", TEXT),
    ("instance_id", TEXT),
    ("thread", TEXT),
    ("machine", TEXT),
    ("state", TEXT),
    ("event", TEXT),
    ("next_state", TEXT),
    ("effects", TEXTS),
    ("epoch", LONG, True),  # the line prints none
    ("partitions", PARTITIONS),
    ("revoked", PARTITIONS),
    ("full", PARTITIONS, True),  # the line does not print the whole assignment
    ("topics", TEXTS),
    ("detail", TEXT),
    ("settings", MapType(TEXT, TEXT, valueContainsNull=False)),
    ("seq", INT),  # several records of one entry, in their order
    *PLACE,
)

PIECE = _struct(
    ("file", TEXT),
    ("piece", LONG),
    ("gzipped", YES_NO),
    ("lines", LONG),
    ("entries", LONG),
    ("records", LONG),
    ("not_understood", LONG),
    ("orphans", LONG),
    ("cut_lines", LONG),
    ("layouts", COUNTS),
    ("levels", COUNTS),
    ("shapes", COUNTS),
    ("first_ms", LONG, True),  # no record in the piece
    ("last_ms", LONG, True),
    ("error", TEXT),
)
"""What one task saw of one piece. `shapes` counts lines that were not understood, digits masked, the commonest only."""

PARSED = _struct(("record", RECORD, True), ("seen", PIECE, True))
"""One row of the parsing stage: a record, or the summary of a piece."""
