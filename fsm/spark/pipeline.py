"""The audit as two stages: from pieces of files to records by group, and from these to findings, tables and totals.

    read      a task reads pieces of files and sends their packed records to the groups
    route     only if files are cut into pieces: the groups of some lines are known only from the whole file
    judge     a task judges one group after the other, and writes its part of every table

Each stage is a plain function from rows to rows. `run_on_spark` runs them in the tasks of one Spark job,
`run_in_process` in a loop; only totals return to the driver.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge as merge_sorted
from itertools import groupby
from operator import attrgetter
from os import SEEK_END
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.findings import Finding, rank, with_ids
from fsm.audit.group_audit import audit_group
from fsm.audit.hygiene.identity import Facts
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.incidents import Incident, baseline, find_incidents, of_files
from fsm.audit.incidents import rank as rank_incident
from fsm.audit.lag import add_lag
from fsm.audit.reading import unparsed
from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.records import Chunk, spool, unpack
from fsm.audit.reading.routing import (
    BY_FILE,
    BY_GROUP,
    FACTS,
    OF_FILE,
    SUMMARY,
    Sent,
    in_order_of,
    receive,
    route,
    send,
    summary_of,
    values_of,
)
from fsm.audit.report import pack_group
from fsm.audit.report.group_views import Overview, group_view, overview
from fsm.audit.report.highlights import Highlights
from fsm.render.report.folder import write_group
from fsm.render.timeline.views import GroupView
from fsm.spark import collecting
from fsm.spark.files import write
from fsm.spark.options import Options
from fsm.spark.progress import Progress
from fsm.spark.sources import Job, list_formats
from fsm.spark.tables import Tables, rows_of
from fsm.spark.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES = 4 << 20
"""Size of packed records in one Arrow batch of a task."""
_READING = 0.6
"""Share of the first stage in the displayed progress."""
REDUCE_BYTES = 64 << 20
"""Bytes of logs per task of the second stage, roughly. All cores have equally many tasks: at least two each if the logs
are larger than this."""


_COLUMNS = ("key", "kind", *Chunk._fields)
SCHEMA = (
    "key string, kind long, group string, client_id string, file string, program string, piece long, "
    "lines_before long, first_ms long, first_offset long, last_offset long, packed binary"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of all tasks."""

    work: str
    """The folder of the result."""
    options: Options
    gone: Missing
    cut: bool
    """Some files are cut into pieces."""

    def drop_known(
        self, findings: Sequence[Finding], incidents: Iterable[Incident], totals: Totals
    ) -> Sequence[Finding]:
        """The findings that are not in the baseline; the others are counted."""
        left = baseline.find_unknown(findings, incidents, self.options.known)
        totals.sums["known"] += len(findings) - len(left)
        return left

    @property
    def names(self) -> Path:
        """The folder for topic names from the first stage to the second, which begins after the end of the first."""
        return Path(self.work) / "names"


# -- read ---------------------------------------------------------------------------------------------------


def read(jobs: Iterable[Job], plan: Plan, part: int) -> Iterator[Sent]:
    """The content of some pieces of files; keyed by group, unless files are cut."""
    formats, zone = list_formats(plan.options), plan.options.zone
    names: dict[str, str] = {}
    for job in jobs:
        found = read_piece(job.piece, formats, zone, job.cluster, job.name)
        add_topic_names(names, found.names)
        yield from send(found) if plan.cut else route(send(found), plan.options.min_understood)
    if names:
        write(plan.names / f"{part}.json", json.dumps(names).encode())


# -- judge --------------------------------------------------------------------------------------------------


def judge(rows: Iterable[Sent], plan: Plan, part: int) -> Totals:
    """Judges the groups of the rows, which are sorted by key and kind, and writes their tables."""
    totals = Totals(plan.options.min_understood)
    names: dict[str, str] | None = None
    files: list[Finding] = []
    with Tables(Path(plan.work), part) as tables:
        for key, own in groupby(rows, key=attrgetter("key")):
            if key.startswith(OF_FILE):
                rest = list(own)
                pieces = [summary_of(row) for row in rest if row.kind == SUMMARY]
                homeless = [Facts(*values) for row in rest if row.kind == FACTS for values in values_of(row)]
                totals.add_file(pieces, homeless)
                tables.add("files", pieces)
                files += unparsed.report_file(pieces, homeless)
                continue
            add_file_findings(files, plan, totals, tables)
            files = []
            if not key:
                for row in own:
                    tables.add_records("", row.chunk, unpack(row.chunk.packed), None)
            elif plan.options.judges(key):
                names = read_names(plan.names) if names is None else names
                _judge_group(key, own, plan, names, _GroupObserver(totals, tables))
            else:
                totals.add_other_group(key)
        add_file_findings(files, plan, totals, tables)
    return totals


def add_file_findings(findings: Iterable[Finding], plan: Plan, totals: Totals, tables: Tables) -> None:
    """Adds findings about files; in the report each file is a group without a name."""
    every = with_ids(findings)
    found = plan.drop_known(every, of_files(every), totals)
    _add(found, of_files(found), totals, tables)
    for file, own in groupby(sorted(found, key=_file_of), key=_file_of):
        of_file = list(own)
        write_group(Path(plan.work), pack_group(GroupView("", 0, 0, file=file), of_file, of_files(of_file)))


def _file_of(found: Finding) -> str:
    return found.evidence[0].file if found.evidence else ""


def _add(found: Sequence[Finding], incidents: Sequence[Incident], totals: Totals, tables: Tables) -> None:
    totals.add_findings(found, incidents)
    tables.add("findings", found)
    tables.add("incidents", incidents)


def read_names(folder: Path) -> dict[str, str]:
    """Topic names by topic id, from all files of a folder."""
    names: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        add_topic_names(names, json.loads(path.read_bytes()))
    return names


class _GroupObserver(Highlights):
    """Collects highlights for the report, and writes every transition to its table."""

    def __init__(self, totals: Totals, tables: Tables) -> None:
        super().__init__()
        self.totals, self.tables = totals, tables

    def see_transition(self, transition: Any) -> None:
        super().see_transition(transition)
        self.totals.add_transition(transition)
        self.tables.add("transitions", (transition,))


def _judge_group(
    group: str, rows: Iterable[Sent], plan: Plan, names: Mapping[str, str], observer: _GroupObserver
) -> None:
    totals, tables, options = observer.totals, observer.tables, plan.options
    with spool() as held:
        read = receive(rows, held)
        audit = audit_group(group, read, options.limits, plan.gone, names=names, observer=observer)
        audit = replace(audit, findings=options.choose(add_lag(audit.findings, options.lag_of(group))))
        if options.known:
            audit = replace(audit, findings=plan.drop_known(audit.findings, find_incidents(audit), totals))
        for chunk, own in read.records.chunks():
            tables.add_records(group, chunk, own, audit.members.get(chunk.source))
        its = audit.rows
        tables.add("intervals", its.intervals)
        tables.add("wants", its.subscriptions)
        tables.add("turns", its.rebalances)
        tables.add("rebalances", audit.rebalances)
        tables.add("lives", audit.coverage)
        tables.add("coordinator", audit.coordinator)
        tables.add("assignments", audit.assignments)
        incidents = find_incidents(audit)
        _add(audit.findings, incidents, totals, tables)
        totals.sums["coordinators"] += len(audit.coordinator)
        known = overview(audit)
        if known is not None:
            tables.add("groups", [known])
            totals.add_group(audit, known)
        write_group(Path(plan.work), pack_group(group_view(audit, known, observer), audit.findings, incidents))


# -- in one process, and on Spark ---------------------------------------------------------------------------


def run_in_process(bins: Sequence[Sequence[Job]], plan: Plan, progress: Progress) -> Totals:
    """Runs both stages in this process. Large amounts of rows are kept on disk."""
    jobs = [job for own in bins for job in own]
    size, done = sum(job.weight for job in jobs) or 1, 0
    with spool() as held, collecting.collect_rarely():
        rows: list[Sent] = []
        for number, job in enumerate(jobs):
            progress("reading", _READING * done / size)
            rows += (_store(row, held) for row in read([job], plan, number))
            done += job.weight
        if plan.cut:
            by_file = (_fetch(row, held) for row in in_order_of(rows, BY_FILE))
            rows = [_store(row, held) for row in route(by_file, plan.options.min_understood)]
        return judge(_fetch_all(in_order_of(rows, BY_GROUP), held, progress), plan, 0)


def _store(row: Sent, held: IO[bytes]) -> Sent:
    """Writes the packed records to `held`, and returns the row with their offset and length instead."""
    packed = row.chunk.packed
    place = b"%d %d" % (held.seek(0, SEEK_END), len(packed))
    held.write(packed)
    return row._replace(chunk=row.chunk._replace(packed=place))


def _fetch(row: Sent, held: IO[bytes]) -> Sent:
    start, length = map(int, row.chunk.packed.split())
    held.seek(start)
    return row._replace(chunk=row.chunk._replace(packed=held.read(length)))


def _fetch_all(rows: Sequence[Sent], held: IO[bytes], progress: Progress) -> Iterator[Sent]:
    for number, row in enumerate(rows):
        if number % 100 == 0:
            progress("judging", _READING + (1 - _READING) * number / len(rows))
        yield _fetch(row, held)


def run_on_spark(
    spark: SparkSession, bins: Sequence[Sequence[Job]], plan: Plan, size: int, progress: Progress
) -> Totals:
    """Runs both stages as one job on a session; `size` is that of the input in bytes."""
    progress("reading and judging")

    def run_read(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with collecting.collect_rarely():
            for batch in given:
                for number in batch.column(0).to_pylist():
                    yield from to_batches(read(bins[number], plan, number))
        collecting.freeze()

    def run_route(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_batches(route(_rows(given), plan.options.min_understood))

    def run_judge(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        with collecting.collect_rarely():
            totals = judge(_rows(given), plan, context.partitionId() if context else 0)
        collecting.freeze()
        yield pa.RecordBatch.from_pydict({"totals": [pickle.dumps(totals)]})

    cores = spark.sparkContext.defaultParallelism
    rounds = min(64, max(2 if size > REDUCE_BYTES else 1, -(-(size // REDUCE_BYTES) // cores)))
    tasks = rounds * cores if size > REDUCE_BYTES >> 5 else 1
    # A range has exactly one row per partition, without a shuffle.
    sent: DataFrame = spark.range(0, len(bins), 1, len(bins)).mapInArrow(run_read, SCHEMA)
    if plan.cut:
        sent = sent.repartition(tasks, "file").sortWithinPartitions(*BY_FILE)
        sent = sent.mapInArrow(run_route, SCHEMA)
    by_group = sent.repartition(tasks, "key").sortWithinPartitions(*BY_GROUP)
    totals = Totals(plan.options.min_understood)
    begun: set[int] = set()
    with progress.watch(lambda: _share_done(spark, begun)):
        for row in by_group.mapInArrow(run_judge, "totals binary").collect():  # bounded, one per task
            totals.merge(pickle.loads(row["totals"]))  # noqa: S301  made by a task of this audit
    return totals


_STAGES = {"run_read": "reading", "run_route": "reading", "run_judge": "judging"}


def find_stage(error: str) -> str:
    """The stage whose function is last in the worker's stack trace of a Spark error; empty if there is none."""
    named = re.findall(rf"\bin ({'|'.join(_STAGES)})$", error, re.MULTILINE)
    return _STAGES[named[-1]] if named else ""


def _share_done(spark: SparkSession, begun: set[int]) -> tuple[str, float] | None:
    """(stage, share of all work) of the running Spark stage; the first one that began is the reading one."""
    tracker = spark.sparkContext.statusTracker()
    for stage in sorted(tracker.getActiveStageIds()):
        info = tracker.getStageInfo(stage)
        if info is not None and info.numTasks:
            begun.add(stage)
            share = info.numCompletedTasks / info.numTasks
            if stage == min(begun):
                return "reading", _READING * share
            return "judging", _READING + (1 - _READING) * share
    return None


def _rows(given: Iterable[pa.RecordBatch]) -> Iterator[Sent]:
    for batch in given:
        keys, kinds, *rest = (column.to_pylist() for column in batch.columns)
        yield from map(Sent, keys, kinds, map(Chunk, *rest))


def to_batches(rows: Iterable[Sent]) -> Iterator[pa.RecordBatch]:
    """The rows in Arrow batches of some `BATCH_BYTES`."""

    def make_batch() -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(map(pa.array, zip(*held, strict=True))), names=_COLUMNS)

    held: list[tuple[Any, ...]] = []
    size = 0
    for key, kind, chunk in rows:
        held.append((key, kind, *chunk))
        size += len(chunk.packed)
        if size >= BATCH_BYTES:
            yield make_batch()
            held, size = [], 0
    if held:
        yield make_batch()


# -- tables of a result, merged from their parts --------------------------------------------------------------


def findings(work: Path) -> Iterator[Finding]:
    """All findings in order, merged from the parts of their table, with some rows of each in memory."""
    return merge_sorted(*rows_of(work, "findings", Finding), key=rank)


def incidents(work: Path) -> Iterator[Incident]:
    return merge_sorted(*rows_of(work, "incidents", Incident), key=rank_incident)


def overviews(work: Path) -> Iterator[Overview]:
    return merge_sorted(*rows_of(work, "groups", Overview), key=attrgetter("group"))
