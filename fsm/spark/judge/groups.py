"""The rows of many members held against each other, by the rules of `fsm.audit.group`.

Those rules look at one partition of one topic at a time, or at one pair of members, in order of time. Spark brings the
rows together and sorts them (and spills); a Python call walks a whole sorted partition and hands one topic-partition
after the other to the rules. What the rules need besides, a join puts beside each row: the life an interval belongs
to, and what is known about the logs of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit.findings import Cause, Finding, Severity
from fsm.audit.group import double_ownership, unowned_partitions
from fsm.audit.group.clocks import clocks_apart
from fsm.audit.group.coverage import END_KNOWN, Coverage, dark_ms
from fsm.audit.group.rebalance import Rebalance, merge_rebalances, rebalance_storms
from fsm.audit.intervals import Gap, Overlap, runs, union
from fsm.audit.limits import Limits
from fsm.audit.rows import NOWHERE, UNTOLD, Begun, Interval, Life, MemberRebalance, Subscription
from fsm.protocol.topic_patterns import matches
from fsm.spark.columns import only, reader, struct_of, walk_rows

if TYPE_CHECKING:
    import pyarrow as pa

SPANS_HELD = 2000
"""Subscriptions to one topic that are held before they are merged."""
NAMES = 20
"""Protocols and versions of a group that the overview names."""


class GroupLogs(NamedTuple):
    """What the logs of a whole group cover."""

    group: str
    end_ms: int
    """End of the last log."""
    dark_until_ms: int
    """Before this some member's log is missing its beginning."""
    dark_from_ms: int
    """After this some member's log is missing its end, or not certain to be its own."""


class Hole(NamedTuple):
    """A time in which one partition had no owner, wanted or not."""

    group: str
    start_ms: int
    end_ms: int


class GroupOverlap(NamedTuple):
    group: str
    part: Overlap


class GroupGap(NamedTuple):
    group: str
    part: Gap


# -- what is known about lives and groups ---------------------------------------------------------------------


def coverage(lives: DataFrame, intervals: DataFrame) -> DataFrame:
    """Each life with `end_known`, by the rule of `fsm.audit.group.coverage`."""
    taken = _taken_over(intervals).withColumn("taken", F.lit(True))
    last_number = F.max("number").over(Window.partitionBy("group", "member"))
    succeeded = (last_number > F.col("number")) | F.coalesce("taken", F.lit(False))
    end_known = F.coalesce(
        *(
            F.when(F.col("ended") == ended.value, F.when(succeeded, F.lit(followed)).otherwise(F.lit(alone)))
            for ended, (alone, followed) in END_KNOWN.items()
        )
    )
    joined = lives.join(taken, ["group", "member", "number"], "left")
    return joined.select(*lives.columns, end_known.alias("end_known"))


def _taken_over(intervals: DataFrame) -> DataFrame:
    """Lives that ended without a word and one of whose partitions another member was given afterwards."""
    key = ["group", "topic", "partition"]
    old = intervals.where(F.col("ended").isin([ended.value for ended in UNTOLD])).select(
        *key, F.col("member").alias("old"), F.col("life").alias("number"), F.col("end_ms").alias("gone_ms")
    )
    new = (
        intervals.where(F.col("begun") == Begun.ASSIGNED.value)
        .groupBy(*key, F.col("member").alias("new"))
        .agg(F.max("start_ms").alias("last_ms"))
    )
    later = (F.col("new") != F.col("old")) & (F.col("last_ms") >= F.col("gone_ms"))
    return old.join(new, key).where(later).select("group", F.col("old").alias("member"), "number").distinct()


def _facts(lives: DataFrame) -> DataFrame:
    of_group = F.max("end_ms").over(Window.partitionBy("group")).alias("logs_end_ms")
    columns = ("group", "member", "number", "start_ms", "end_ms", "whole_start", "end_known", "doubtful_ms")
    in_order = lives.select(*columns, of_group).repartition("group").sortWithinPartitions("group")
    return only(walk_rows(in_order, _walk_lives, facts=GroupLogs), "facts")


def _walk_lives(rows: Iterable[dict[str, Any]]) -> Iterator[GroupLogs]:
    for group, mine in groupby(rows, key=itemgetter("group")):
        first = next(mine)
        covered = (
            Coverage(
                group,
                row["member"],
                row["number"],
                row["start_ms"],
                row["end_ms"],
                row["whole_start"],
                row["end_known"],
                row["doubtful_ms"],
            )
            for row in chain((first,), mine)
        )
        yield GroupLogs(group, first["logs_end_ms"], *dark_ms(covered))


# -- partitions -----------------------------------------------------------------------------------------------


def partitions(intervals: DataFrame, wants: DataFrame, lives: DataFrame, limits: Limits) -> DataFrame:
    """Columns `overlap`, `gap` and `hole`: what is wrong with, or missing in, the owners of each partition."""
    topics = intervals.select("group", "topic").distinct()
    wanted = _by_topic(wants, topics).select(
        "group",
        "topic",
        F.lit(0).alias("rank"),
        F.lit(-1).cast("long").alias("partition"),
        "start_ms",
        "end_ms",
        F.lit("").alias("member"),
        *(F.lit(None).cast(struct_of(cls)).alias(name) for name, cls in _BESIDE.items()),
    )
    number = F.col("number").alias("life")
    life = lives.select("group", "member", number, F.struct(*struct_of(Life).names).alias("of"))
    known = _facts(lives).select("group", F.struct(*GroupLogs._fields).alias("known"))
    owned = (
        intervals.join(life, ["group", "member", "life"], "left")  # what is nobody's has no life
        .join(known, "group")
        .select(
            "group",
            "topic",
            F.lit(1).alias("rank"),
            "partition",
            "start_ms",
            "end_ms",
            "member",
            F.struct(*struct_of(Interval).names).alias("interval"),
            "of",
            "known",
        )
    )
    in_order = (
        wanted.unionByName(owned)
        .repartition("group", "topic")
        .sortWithinPartitions("group", "topic", "rank", "partition", "start_ms", "end_ms", "member", *_LOGGED)
    )

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Any]:
        for (group, _), of_topic in groupby(rows, key=itemgetter("group", "topic")):
            wanted: list[Subscription] = []
            for (rank, _), mine in groupby(of_topic, key=itemgetter("rank", "partition")):
                if rank == 0:
                    wanted = _union(mine)
                else:
                    yield from _one_partition(group, list(mine), wanted, limits)

    return walk_rows(in_order, walk, overlap=GroupOverlap, gap=GroupGap, hole=Hole)


_BESIDE: dict[str, type] = {"interval": Interval, "of": Life, "known": GroupLogs}
_LOGGED = ("interval.life", "interval.end.offset", "interval.start.offset")
"""The order in which a log tells of intervals that begin and end at once."""


def _by_topic(wants: DataFrame, topics: DataFrame) -> DataFrame:
    """Subscriptions by pattern become those of the topics that match; a group has few patterns and few topics."""
    by_name = wants.where(F.col("pattern") == "").select("group", "topic", "start_ms", "end_ms")
    patterns = wants.where(F.col("pattern") != "").select("group", "pattern").distinct()
    pairs = patterns.join(topics, "group").mapInArrow(_matching, "group string, pattern string, topic string")
    by_pattern = wants.drop("topic").join(pairs, ["group", "pattern"]).select("group", "topic", "start_ms", "end_ms")
    return by_name.unionByName(by_pattern)


def _matching(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in given:
        pairs = zip(batch.column("pattern").to_pylist(), batch.column("topic").to_pylist(), strict=True)
        keep = [matches(pattern, topic) for pattern, topic in pairs]
        yield batch.filter(pa.array(keep, pa.bool_())).select(["group", "pattern", "topic"])


def _union(rows: Iterable[dict[str, Any]]) -> list[Subscription]:
    """The union of the subscriptions to one topic, as subscriptions."""
    first: dict[str, Any] = {}
    spans: list[tuple[int, int]] = []
    for row in rows:
        first = first or row
        spans.append((row["start_ms"], row["end_ms"]))
        if len(spans) > SPANS_HELD:  # thousands of members subscribe to the same; keep only what differs
            spans = union(spans)
    return [Subscription(first["group"], "", first["topic"], "", start, end, NOWHERE) for start, end in union(spans)]


def _one_partition(
    group: str, rows: list[dict[str, Any]], wanted: list[Subscription], limits: Limits
) -> Iterator[GroupOverlap | GroupGap | Hole]:
    intervals = [reader(Interval)(r["interval"]) for r in rows]
    lives = {(r["of"]["member"], r["of"]["number"]): reader(Life)(r["of"]) for r in rows if r["of"]}
    known = GroupLogs(**rows[0]["known"])
    for overlap in double_ownership.overlaps(intervals, known.end_ms, limits):
        yield GroupOverlap(group, overlap)
    dark = known.dark_until_ms, known.dark_from_ms
    for gap in unowned_partitions.gaps(intervals, wanted, lives, dark, limits):
        yield GroupGap(group, gap)
    for _, start_ms, end_ms, new in unowned_partitions.holes(intervals, {}):
        if new is not None:
            yield Hole(group, start_ms, end_ms)


def findings(parts: DataFrame) -> DataFrame:
    """Overlaps and gaps merged over partitions, as findings."""

    def either(name: str) -> Column:
        return F.coalesce(f"overlap.{name}", f"gap.{name}").alias(name.rpartition(".")[2])

    order = ("group", "double", "old", "new", "start_ms", "end_ms", "partition")
    columns = [either(f"part.{name}") for name in order[2:]]
    in_order = (
        parts.where(F.col("hole").isNull())
        .select(either("group"), F.col("gap").isNull().alias("double"), *columns, "overlap", "gap")
        .repartition(*order[:4])
        .sortWithinPartitions(*order)
    )
    return only(walk_rows(in_order, _walk_pairs, finding=Finding), "finding")


def _walk_pairs(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    overlap, gap = reader(GroupOverlap), reader(GroupGap)
    for (group, double, _, _), mine in groupby(rows, key=itemgetter("group", "double", "old", "new")):
        if double:
            yield from double_ownership.findings_of_pair(group, (overlap(row["overlap"]).part for row in mine))
        else:
            for gaps in runs(gap(row["gap"]).part for row in mine):
                yield unowned_partitions.finding_of(group, gaps)


# -- clocks ---------------------------------------------------------------------------------------------------


def clocks(turns: DataFrame) -> DataFrame:
    """Findings for members whose files tell another time than those of the others."""

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
        for group, mine in groupby(rows, key=itemgetter("group")):
            yield from clocks_apart(group, map(reader(MemberRebalance), mine))

    in_order = (
        turns.where(F.col("epoch") > 0)
        .repartition("group")
        .sortWithinPartitions("group", "epoch", "member", "start_ms", "end_ms")
    )
    return only(walk_rows(in_order, walk, finding=Finding), "finding")


def lower_severity(found: DataFrame, clocks_: DataFrame) -> DataFrame:
    """Findings about owners, for information where the clocks of the group are apart."""
    apart = clocks_.select("group", F.lit(True).alias("apart")).distinct()
    severity = F.when(F.col("apart"), F.lit(Severity.INFO.value)).otherwise(F.col("severity")).alias("severity")
    columns = [severity if name == "severity" else F.col(name) for name in found.columns]
    return found.join(apart, "group", "left").select(*columns)


# -- rebalances -----------------------------------------------------------------------------------------------


def rebalances(turns: DataFrame, parts: DataFrame) -> DataFrame:
    """Rows of `Rebalance`, from the turns of all members and the times without owner."""
    none = F.lit(None)
    turn = struct_of(MemberRebalance)
    holes = only(parts, "hole").select("group", "start_ms", "end_ms", none.cast(turn).alias("turn"))
    took = turns.select("group", "start_ms", "end_ms", F.struct(*turn.names).alias("turn"))
    in_order = (
        holes.unionByName(took)
        .repartition("group")
        .sortWithinPartitions("group", "start_ms", "end_ms", F.coalesce("turn.member", F.lit("")))
    )

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Rebalance]:
        for group, mine in groupby(rows, key=itemgetter("group")):
            yield from merge_rebalances(group, map(_turn_or_hole, mine))

    return only(walk_rows(in_order, walk, rebalance=Rebalance), "rebalance")


def _turn_or_hole(row: dict[str, Any]) -> MemberRebalance | tuple[int, int]:
    return reader(MemberRebalance)(row["turn"]) if row["turn"] else (row["start_ms"], row["end_ms"])


def storms(turns: DataFrame, limits: Limits) -> DataFrame:
    """Findings for members that do nothing but rebalance."""

    def walk(rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
        for (group, _), mine in groupby(rows, key=itemgetter("group", "member")):
            yield from rebalance_storms(group, map(reader(MemberRebalance), mine), limits)

    in_order = turns.repartition("group", "member").sortWithinPartitions("group", "member", "start_ms", "end_ms")
    return only(walk_rows(in_order, walk, finding=Finding), "finding")


# -- overview -------------------------------------------------------------------------------------------------


def overview(lives: DataFrame, intervals: DataFrame, rebalances_: DataFrame, findings_: DataFrame) -> DataFrame:
    """A row for each group: from when to when, of what it is made, what was found in it and what its logs cover."""
    of_life = ("start_ms", "end_ms", "number", "whole_start", "end_known", "protocol", "version")
    parts = [
        lives.select("group", F.struct(*of_life).alias("life")),
        intervals.select("group", F.struct("topic", "partition").alias("owned")),
        rebalances_.select("group", F.col("moved")),
        findings_.select("group", "severity"),
    ]
    together = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    begins, ends = _count(F.col("life.whole_start"), False), _count(F.col("life.end_known"), Cause.UNKNOWN.value)
    return (
        together.groupBy("group")
        .agg(
            F.min("life.start_ms").alias("start_ms"),
            F.max("life.end_ms").alias("end_ms"),
            _count(F.col("life.number"), 0).alias("members"),
            F.count("life").alias("lives"),
            begins.alias("begin_unknown"),
            ends.alias("end_unknown"),
            _names("life.protocol").alias("protocols"),
            _names("life.version").alias("versions"),
            F.countDistinct("owned").alias("partitions"),
            F.count("moved").alias("rebalances"),
            F.coalesce(F.sum("moved"), F.lit(0)).alias("partitions_moved"),
            _count(F.col("severity"), Severity.ERROR.value).alias("errors"),
            _count(F.col("severity"), Severity.WARNING.value).alias("warnings"),
        )
        .where(F.col("lives") > 0)
        .withColumn(
            "coverage", F.when(F.col("begin_unknown") + F.col("end_unknown") == 0, "whole").otherwise("unknown")
        )
    )


def _count(column: Column, value: str | int) -> Column:
    return F.count(F.when(column == value, True))


def _names(column: str) -> Column:
    """The distinct texts of a column, a bounded number of them."""
    return F.slice(F.array_sort(F.collect_set(column)), 1, NAMES)
