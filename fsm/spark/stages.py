"""The stages of one audit, each written down before the next reads it, so that none is computed twice.

pieces of files -> records -> members -> rows of each member -> partitions and groups -> findings -> report
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fsm.audit.attribution.rotation import missing
from fsm.audit.member.fold import fold
from fsm.errors import InputError
from fsm.render.report.page import render
from fsm.spark.columns import only
from fsm.spark.judge import conformance, coordinator, groups, members
from fsm.spark.options import Options
from fsm.spark.read import parse, sources, unparsed
from fsm.spark.read.sources import Inputs
from fsm.spark.report import contents, document, evidence
from fsm.spark.written import Written

KEPT = (
    "records",
    "files",
    "transitions",
    "dwell",
    "intervals",
    "wants",
    "lives",
    "turns",
    "rebalances",
    "coordinator",
    "assignments",
    "findings",
    "groups",
)
"""Parquet folders of a result; those of other stages are removed."""


class Stages:
    """One audit on one session, below the folder `work`. `say` is told what is being done."""

    def __init__(
        self, spark: SparkSession, inputs: Inputs, options: Options, work: Path, say: Callable[[str], None]
    ) -> None:
        self.spark = spark
        self.inputs = inputs
        self.options = options
        self.say = say
        self.written = Written(spark, work)
        self.read, self.write = self.written.read, self.written.write
        self.totals: dict[str, Any] = {}
        """Sums over all files."""

    def run(self, page: Path, mark: Path) -> tuple[dict[str, Any], Any]:
        """All stages, then the document `mark` and the report `page`; gives what is in them, which is bounded."""
        self.say(f"reading {len(self.inputs.sources)} files, {self.inputs.size / 1e6:.0f} MB")
        self._records()
        self.say("following each member")
        self._members()
        self.say("comparing members")
        self._groups()
        self.say("collecting evidence")
        self._findings()
        self.say("writing the report")
        known = document.write(self.written, self.inputs, self.totals, mark)
        shown = contents.contents(self.written, known)
        page.write_text(render(shown), encoding="utf-8")
        self.written.keep(KEPT)
        return known, shown

    def _records(self) -> None:
        options = self.options
        bins = sources.bins(self.inputs, options.split_bytes, self.spark.sparkContext.defaultParallelism)
        read = self.write(parse.parse_pieces(self.spark, bins, options.format, options.timezone), "parsed")
        self.totals = document.totals(self.write(only(read, "seen"), "files"))
        if not self.totals["records"]:
            raise self._nothing()
        records = self.write(members.assign_members(only(read, "record")), "records")
        if coordinator.is_present(records):
            own = self.write(coordinator.coordinator_records(records), "coordinator")
            self.write(coordinator.assignments_of(own), "assignments")

    def _nothing(self) -> InputError:
        wrote = "no known client" if self.options.format == "auto" else f"no {self.options.format} log"
        damaged = self.read("files").where(F.col("error") != "").orderBy("file").first()
        if damaged is not None:
            return InputError(f"cannot be read: {damaged['error']}", damaged["file"], "nor does any other file help")
        return InputError(
            f"{wrote} wrote any of the {len(self.inputs.sources)} files (the first is {self.inputs.first})",
            remedy="see `fsm audit --help` for what can be read",
        )

    def _members(self) -> None:
        limits = self.options.limits
        gone = missing(str(source.path) for source in self.inputs.sources)
        rows = members.fold_members(
            self.read("records"), lambda group, member, seen: fold(group, member, seen, limits, gone)
        )
        folded = self.write(rows, "folded")
        for column, name in (("interval", "intervals"), ("want", "wants"), ("turn", "turns")):
            self.write(only(folded, column), name)
        self.write(conformance.judge(self.spark, only(folded, "hop")), "transitions")
        self.write(conformance.dwell(self.read("transitions")), "dwell")

    def _groups(self) -> None:
        intervals, wants = self.read("intervals"), self.read("wants")
        lives = self.write(groups.coverage(only(self.read("folded"), "life"), intervals), "lives")
        parts = groups.partitions(intervals, wants, lives, self.options.limits)
        self.write(parts, "partitions")
        self.write(groups.rebalances(self.read("turns"), self.read("partitions")), "rebalances")

    def _findings(self) -> None:
        clocks = self.write(groups.clocks(self.read("turns")), "clocks")
        found = [
            only(self.read("folded"), "finding"),
            clocks,
            groups.lower_severity(groups.findings(self.read("partitions")), clocks),
            groups.storms(self.read("turns"), self.options.limits),
            conformance.illegal(self.read("transitions")),
            unparsed.findings(self.spark, self.read("files"), self.inputs.unreadable),
        ]
        together = reduce(DataFrame.unionByName, found)
        if self.written.has("coordinator"):
            skew_ms = self.options.limits.clock_skew_ms
            together = coordinator.add_statements(together, self.read("coordinator"), skew_ms)
            together = coordinator.add_handover(together, self.read("assignments"), skew_ms)
        shown = evidence.with_lines(together, self.read("records"), self.read("files"))
        findings = self.write(evidence.in_order(shown), "findings")
        known = groups.overview(self.read("lives"), self.read("intervals"), self.read("rebalances"), findings)
        if self.written.has("coordinator"):
            known = coordinator.add_unlogged_members(known, self.read("coordinator"))
        self.write(known, "groups")
