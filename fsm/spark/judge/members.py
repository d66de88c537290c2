"""Which member each record belongs to, and the records of each member, in order, folded into rows.

`fsm.audit.attribution.identity` decides the first from facts that Spark aggregates. For the second the rows of one
member must be read in order, and there may be very many members of very different size. So Spark sorts (and spills),
and one Python call walks a whole partition of sorted records, from member to member, holding the state of one member at
a time: no call per row or per member, and no member need fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fsm.audit.attribution.identity import EMBEDDED, Facts, members
from fsm.audit.attribution.shared_client_id import separate
from fsm.audit.findings import Finding
from fsm.audit.rows import Interval, Life, MemberRebalance, ObservedTransition, Place, Seen, Subscription
from fsm.spark.columns import only, reader, walk_rows
from fsm.trace import Kind, TraceRecord


class Named(NamedTuple):
    """The member that the records of one (group as printed, client id, file) belong to."""

    printed_group: str
    client_id: str
    file: str
    group: str
    member: str
    shared: bool
    """Several consumers share the client id."""
    rank: int
    """Position of the file among the member's files, oldest first."""


def assign_members(records: DataFrame) -> DataFrame:
    """Every record with the `group` and `member` it belongs to, both empty where it has none, `shared` and `rank`."""
    named = _with_nameless(_name_members(records)).withColumnsRenamed(
        {"printed_group": "as_printed", "group": "of_group"}
    )
    same = (
        (F.col("r.group") == F.col("n.as_printed"))
        & (F.col("r.client_id") == F.col("n.client_id"))
        & (F.col("r.file") == F.col("n.file"))
    )
    columns = [F.coalesce("n.of_group", "r.group").alias("group")]
    columns += [F.col(f"r.{c}") for c in records.columns if c != "group"]
    return (
        records.alias("r")
        .join(named.alias("n"), same, "left")
        .select(
            *columns,
            F.coalesce("n.member", F.lit("")).alias("member"),
            F.coalesce("n.shared", F.lit(False)).alias("shared"),
            F.coalesce("n.rank", F.lit(0).cast("long")).alias("rank"),
        )
    )


def _name_members(records: DataFrame) -> DataFrame:
    facts = (
        records.where(F.col("client_id") != "")
        .groupBy("group", "client_id", "file", "member_id")
        .agg(
            F.min("ts_ms").alias("first_ms"),
            F.max("ts_ms").alias("last_ms"),
            F.sum((F.col("kind") == Kind.STARTED.value).cast("long")).alias("starts"),
        )
    )
    in_order = (
        _at_home(facts)
        .repartition("home", "client_id")
        .sortWithinPartitions("home", "client_id", "file", "group", "member_id")
    )
    return only(walk_rows(in_order, _name, named=Named), "named")


def _with_nameless(named: DataFrame) -> DataFrame:
    """And the member of the records that name no client: the only one that writes to their file."""
    key = F.struct("group", "member", "shared", "rank")
    host = F.when(~F.col("client_id").rlike(EMBEDDED), key)
    alone = (
        named.groupBy("file")
        .agg(F.coalesce(F.min(host), F.min(key)).alias("one"), F.coalesce(F.max(host), F.max(key)).alias("other"))
        .where(F.col("one") == F.col("other"))
        .select(F.lit("").alias("printed_group"), F.lit("").alias("client_id"), "file", "one.*")
    )
    return named.unionByName(alone)


def _at_home(facts: DataFrame) -> DataFrame:
    """Facts with `home`: the group as printed, or the only group that the client id has in the file."""
    groups = (
        facts.where(F.col("group") != "")
        .groupBy("client_id", "file")
        .agg(F.min("group").alias("one"), F.max("group").alias("other"))
        .where(F.col("one") == F.col("other"))
        .drop("other")
    )
    printed = F.when(F.col("group") != "", F.col("group"))
    return (
        facts.join(groups, ["client_id", "file"], "left")
        .withColumn("home", F.coalesce(printed, "one"))
        .where(F.col("home").isNotNull())
        .drop("one")
    )


def _name(rows: Iterable[dict[str, Any]]) -> Iterator[Named]:
    for (home, client_id), mine in groupby(rows, key=itemgetter("home", "client_id")):
        facts = [Facts(*(row[name] for name in Facts._fields)) for row in mine]
        keys = members(home, client_id, facts)
        for printed, file in sorted({(f.group, f.file) for f in facts}):
            key = keys[file]
            yield Named(printed, client_id, file, home, key.member, key.shared, key.rank)


# -- rows of each member --------------------------------------------------------------------------------------

ROWS: dict[str, type] = {
    "interval": Interval,
    "want": Subscription,
    "life": Life,
    "hop": ObservedTransition,
    "turn": MemberRebalance,
    "finding": Finding,
}
"""What the fold yields, by the name of its column."""
Fold = Callable[[str, str, Iterable[Seen]], Iterator[Any]]
"""(group, member, its records in order) -> rows of the types in `ROWS`."""


def fold_members(records: DataFrame, fold: Fold) -> DataFrame:
    """Rows of every member, from what `assign_members` gives."""
    columns = [*TraceRecord.__dataclass_fields__, "seq", "file", "offset", "member", "shared", "rank"]
    owned = records.where(F.col("member") != "").select(*columns)
    in_order = owned.repartition("group", "member").sortWithinPartitions(
        "group", "member", "ts_ms", "rank", "offset", "seq"
    )
    record = reader(TraceRecord)

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Any]:
        for (group, member, shared), mine in groupby(rows, key=itemgetter("group", "member", "shared")):
            seen = (Seen(record(row), Place(row["file"], row["offset"])) for row in mine)
            yield from _fold_shared(group, member, seen, fold) if shared else fold(group, member, seen)

    return walk_rows(in_order, walk, **ROWS)


def _fold_shared(group: str, member: str, seen: Iterable[Seen], fold: Fold) -> Iterator[Any]:
    """Several consumers behind one client id and file. Their records are held in memory: this is rare."""
    own: dict[str, list[Seen]] = {}
    for name, one in separate(member, seen):
        own.setdefault(name, []).append(one)
    for name, its in sorted(own.items()):
        yield from fold(group, name, its)
