"""Stage two: the records of each member, in order, folded into rows by `fsm.audit.member`.

The rows of one member must be read in order, and there may be very many members of very different size. So Spark
sorts (and spills), and one Python call walks a whole partition of sorted records, from member to member, holding the
state of one member at a time: no call per row or per member, and no member need fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fsm.audit.findings import Finding
from fsm.audit.mixed import separate
from fsm.audit.rows import Hop, Interval, Life, Place, Seen, Turn, Want
from fsm.spark.columns import reader
from fsm.spark.groups import Walk, walked
from fsm.trace import TraceRecord

ROWS: dict[str, type] = {
    "interval": Interval,
    "want": Want,
    "life": Life,
    "hop": Hop,
    "turn": Turn,
    "finding": Finding,
}
"""What the fold yields, by the name of its column."""
_RECORD = reader(TraceRecord)
ORDER = ("group", "member", "ts_ms", "rank", "offset", "seq")

Fold = Callable[[str, str, Iterable[Seen]], Iterator[Any]]
"""(group, member, its records in order) -> rows of the types in `ROWS`."""


def folded(records: DataFrame, fold: Fold) -> DataFrame:
    """Rows of every member; `records` has the columns of `schema.RECORD`, and those of `members.keyed`."""
    columns = [*TraceRecord.__dataclass_fields__, "seq", "file", "offset", "member", "mixed", "rank"]
    owned = records.where(F.col("member") != "").select(*columns)
    in_order = owned.repartition("group", "member").sortWithinPartitions(*ORDER)
    return walked(in_order, walker(fold), **ROWS)


def walker(fold: Fold) -> Walk:
    """Walks from member to member."""

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Any]:
        for (group, member, mixed), mine in groupby(rows, key=itemgetter("group", "member", "mixed")):
            seen = (Seen(_RECORD(row), Place(row["file"], row["offset"])) for row in mine)
            if mixed:
                yield from _told_apart(group, member, seen, fold)
            else:
                yield from fold(group, member, seen)

    return walk


def _told_apart(group: str, member: str, seen: Iterable[Seen], fold: Fold) -> Iterator[Any]:
    """Several processes that share a name and a file. Their records are held in memory: this is rare."""
    own: dict[str, list[Seen]] = {}
    for name, one in separate(member, seen):
        own.setdefault(name, []).append(one)
    for name, its in sorted(own.items()):
        yield from fold(group, name, its)
