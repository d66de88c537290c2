"""Stage two: the records of each member, in order, folded into rows by `fsm.audit.member`.

The rows of one member must be read in order, and there may be very many members of very different size. So Spark
sorts (and spills), and one Python call walks a whole partition of sorted records, from member to member, holding the
state of one member at a time: no call per row or per member, and no member need fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from fsm.audit.findings import Finding
from fsm.audit.rows import Hop, Interval, Life, Place, Seen, Turn, Want
from fsm.spark.columns import converter, reader, struct_of
from fsm.trace import TraceRecord

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_A_BATCH = 2000
ROWS: dict[str, type] = {
    "interval": Interval,
    "want": Want,
    "life": Life,
    "hop": Hop,
    "turn": Turn,
    "finding": Finding,
}
"""What the fold yields, by the name of its column."""
SCHEMA = StructType([StructField(name, struct_of(cls), nullable=True) for name, cls in ROWS.items()])
_NAME = {cls: name for name, cls in ROWS.items()}
_RECORD = reader(TraceRecord)
ORDER = ("group", "member", "ts_ms", "file", "offset", "seq")

Fold = Callable[[str, str, Iterable[Seen]], Iterator[Any]]
"""(group, member, its records in order) -> rows of the types in `ROWS`."""


class Keyed(NamedTuple):
    """A record of a sorted partition with the member it belongs to."""

    member: tuple[str, str]
    seen: Seen


def folded(records: DataFrame, fold: Fold) -> DataFrame:
    """Rows of every member; `records` has the columns of `schema.RECORD` and `member`."""
    columns = [*(f for f in TraceRecord.__dataclass_fields__), "seq", "file", "offset", "member"]
    in_order = (
        records.select(*columns)
        .repartition("group", "member")
        .sortWithinPartitions(*ORDER)
    )
    return in_order.mapInArrow(walker(fold), SCHEMA)


def rows(folded_: DataFrame, name: str) -> DataFrame:
    """The rows of one kind, as columns."""
    return folded_.where(F.col(name).isNotNull()).select(f"{name}.*")


def walker(fold: Fold) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` over sorted partitions."""

    def walk(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415  a worker's import
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

        schema = to_arrow_schema(SCHEMA)
        waiting: list[dict[str, Any]] = []
        for (group, member), mine in groupby(_keyed(batches), key=attrgetter("member")):
            for row in fold(group, member, (k.seen for k in mine)):
                name = _NAME[type(row)]
                waiting.append({name: converter(type(row))(row)})
                if len(waiting) >= ROWS_A_BATCH:
                    yield pa.RecordBatch.from_pylist(waiting, schema=schema)
                    waiting = []
        if waiting:
            yield pa.RecordBatch.from_pylist(waiting, schema=schema)

    return walk


def _keyed(batches: Iterable[pa.RecordBatch]) -> Iterator[Keyed]:
    for batch in batches:
        for row in batch.to_pylist():
            yield Keyed((row["group"], row["member"]), Seen(_RECORD(row), Place(row["file"], row["offset"])))
