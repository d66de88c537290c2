"""The HTML report's contents: bounded extracts of a finished audit, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fsm.audit.assignments import Which
from fsm.audit.findings import UNIT_KINDS, FindingKind, Severity
from fsm.audit.rows import NOBODY
from fsm.audit.wording import UNIT, names, unit, units
from fsm.render import views
from fsm.render.wording import many
from fsm.spark.connect_rounds import Rounds
from fsm.spark.evidence import worst_first
from fsm.spark.extracts import SPANS, Told, keys, marks, of_groups
from fsm.spark.written import Written
from fsm.tables import ALL
from fsm.trace import Kind, Partition

FINDINGS, GROUPS, MEMBERS, PARTITIONS, REBALANCES = 400, 12, 40, 120, 60
"""How many of each the report shows; from members on that many in each group."""
STRETCHES = 10_000
"""Times without owner, or with two, that are drawn."""
_Member = tuple[str, str]
"""Group and member."""
MARKED = [
    k.value
    for k in (
        Kind.STARTED,
        Kind.POLL_EXPIRED,
        Kind.FENCED,
        Kind.FATAL,
        Kind.LOST_BEGIN,
        Kind.CALLBACK_FAILED,
        Kind.COORDINATOR_LOST,
        Kind.CLOSE_BEGIN,
    )
]
"""Records that a member's lane marks."""


def contents(stages: Written, known: dict[str, Any]) -> views.Report:
    """What the page shows. `known` is what `document.write` gave."""
    extract = _Extract(stages)
    read = known["inputs"]
    return views.Report(
        title="Rebalance audit",
        inputs=_inputs(read, extract.unknown_ends),
        start_ms=read["start_ms"] or 0,
        end_ms=read["end_ms"] or 0,
        findings_total=tuple(views.KindTotal(*t.values()) for t in known["metrics"]["findings"]),
        findings=extract.findings(),
        groups=extract.groups(),
        groups_hidden=extract.groups_hidden,
        machines=_machines(known["metrics"]),
    )


def _inputs(read: dict[str, Any], unknown_ends: int) -> views.Inputs:
    return views.Inputs(
        files=read["files"],
        bytes=read["bytes"],
        lines=read["lines"],
        records=read["records"],
        orphans=read["orphans"],
        not_understood=read["not_understood"],
        layouts=tuple(views.Count(*c) for c in read["layouts"].items()),
        levels=tuple(views.Count(*c) for c in read["levels"].items()),
        gzipped_files=read["gzipped_files"],
        unreadable=tuple(views.Unreadable(*u) for u in read["unreadable"]),
        unreadable_hidden=read["unreadable_files"] - len(read["unreadable"]),
        shapes=tuple(views.Count(*c) for c in read["shapes"].items()),
        notes=tuple(_notes(read, unknown_ends)),
    )


def _notes(read: dict[str, Any], unknown_ends: int) -> list[str]:
    notes = []
    java = any(layout.startswith("java/") for layout in read["layouts"])
    if java and "DEBUG" not in read["levels"]:
        notes.append(
            "The Java logs hold no DEBUG lines: new targets, the end of callbacks, commits and heartbeats cannot be "
            "seen, so the end of a revocation is the next step that needs it."
        )
    if read["gzipped_files"]:
        notes.append(
            f"One task each read {many(read['gzipped_files'], 'compressed file')}: a large one is as slow as one core."
        )
    if unknown_ends:
        notes.append(
            f"The logs of {many(unknown_ends, 'life', 'lives')} end without a close and nobody took their partitions "
            "over: whether they lived on is unknown, and what depends on it is reported one step less severe."
        )
    if read["older_results"]:
        notes.append(f"Left out, since an audit wrote it: {', '.join(read['older_results'])}.")
    if read["cut_lines"]:
        notes.append(f"Cut at a mebibyte: {many(read['cut_lines'], 'line')}.")
    return notes


def _machines(metrics: dict[str, Any]) -> tuple[views.MachineView, ...]:
    legal = {(t.name, t.columns.states[a], t.columns.states[b]) for t in ALL for a, b, _ in t.columns.edges}
    found = []
    for name in [t.name for t in ALL]:
        edges = [e for e in metrics["transitions"] if e["machine"] == name]
        if edges:
            found.append(
                views.MachineView(
                    name,
                    tuple(
                        views.EdgeCount(
                            e["state"], e["next_state"], e["count"], (name, e["state"], e["next_state"]) not in legal
                        )
                        for e in edges
                    ),
                    tuple(
                        views.Dwell(d["state"], d["visits"], d["median_ms"], d["p99_ms"], d["longest_ms"])
                        for d in metrics["dwell"]
                        if d["machine"] == name
                    ),
                )
            )
    return tuple(found)


class _Extract:
    """Reads the bounded parts; each method is a Spark job or two."""

    def __init__(self, stages: Written) -> None:
        self.stages = stages
        every = stages.read("groups")
        totals = every.agg(F.count("*"), F.coalesce(F.sum("end_unknown"), F.lit(0))).collect()[0]
        worst = (F.col("errors").desc(), F.col("warnings").desc(), F.col("rebalances").desc(), "group")
        self.worst = every.orderBy(*worst).limit(GROUPS).collect()
        self.groups_hidden = totals[0] - len(self.worst)
        self.told = Told(stages, self.worst)
        self.rounds = Rounds(stages, self.worst)
        self.unknown_ends = totals[1]
        """Lives whose end no log shows."""

    def findings(self) -> tuple[views.FindingView, ...]:
        """The worst findings of all groups."""
        rows = worst_first(self.stages.read("findings")).limit(FINDINGS).collect()
        return tuple(
            views.FindingView(
                kind=row["kind"],
                severity=row["severity"],
                group=row["group"],
                member=row["member"],
                start_ms=row["start_ms"],
                end_ms=row["end_ms"],
                partitions=_shown(row["kind"], [(p["topic"], p["partition"]) for p in row["partitions"]]),
                cause=row["cause"],
                summary=row["summary"],
                evidence=tuple(views.EvidenceLine(e["file"], e["line"], e["text"]) for e in row["evidence"]),
            )
            for row in rows
        )

    def _of_worst(self, name: str) -> DataFrame:
        return of_groups(self.stages.read(name), self.worst)

    def groups(self) -> tuple[views.GroupView, ...]:
        """The timelines."""
        members, owners, moves = self._members(), self._partitions(), self._rebalances()
        rounds, counted = self.rounds.shown(), self.rounds.counted()
        told, strangers = self.told.groups(), self.told.strangers()
        return tuple(
            views.GroupView(
                group=row["group"],
                start_ms=row["start_ms"],
                end_ms=row["end_ms"],
                members=tuple(members.get(row["group"], ())),
                members_hidden=row["members"] - len(members.get(row["group"], ())),
                coordinator=told.get(row["group"]),
                strangers=tuple(strangers.get(row["group"], ())),
                strangers_hidden=self.told.unread(row) - len(strangers.get(row["group"], ())),
                partitions=tuple(owners.get(row["group"], ())),
                partitions_hidden=row["partitions"] - len(owners.get(row["group"], ())),
                rebalances=tuple(moves.get(row["group"], ())),
                rebalances_hidden=row["rebalances"] - len(moves.get(row["group"], ())),
                rounds=tuple(rounds.get(row["group"], ())),
                rounds_hidden=counted.get(row["group"], 0) - len(rounds.get(row["group"], ())),
            )
            for row in self.worst
        )

    def _members(self) -> dict[str, list[views.MemberView]]:
        blamed = self._of_worst("findings").groupBy("group", "member").agg(*_severities())
        lives = (
            self._of_worst("lives")
            .groupBy("group", "member")
            .agg(
                F.min("start_ms").alias("start_ms"),
                F.max("end_ms").alias("end_ms"),
                F.max("client_id").alias("client"),
                F.max("protocol").alias("protocol"),
                F.max("version").alias("version"),
                F.min(F.col("whole_start").cast("int")).alias("whole"),
                F.max_by("end_known", "number").alias("end_known"),
            )
            .join(blamed, ["group", "member"], "left")
            .fillna(0)
        )
        worst = Window.partitionBy("group").orderBy(
            F.col("errors").desc(), F.col("warnings").desc(), "start_ms", "member"
        )
        ranked = lives.withColumn("place", F.row_number().over(worst)).where(F.col("place") <= MEMBERS)
        shown = ranked.orderBy("group", "start_ms", "member").collect()
        chosen = keys(self.stages.spark, shown, ("group", "member"))
        ends = {(row["group"], row["member"]): row["end_ms"] for row in shown}
        states, marked = self._states(chosen, ends) | self.rounds.states(chosen, ends), self._marks(chosen)
        assigned = self.told.assigned(chosen, "member")
        found: dict[str, list[views.MemberView]] = {}
        for row in shown:
            key = (row["group"], row["member"])
            found.setdefault(row["group"], []).append(
                views.MemberView(
                    member=row["member"],
                    client=row["client"],
                    protocol=row["protocol"],
                    version=row["version"],
                    coverage=_coverage(row["whole"], row["end_known"]),
                    states=tuple(states.get(key, ())),
                    marks=tuple(marked.get(key, ())),
                    target=tuple(assigned.get((*key, Which.TARGET), ())),
                    current=tuple(assigned.get((*key, Which.CURRENT), ())),
                )
            )
        return found

    def _states(self, chosen: DataFrame, ends: dict[_Member, int]) -> dict[_Member, list[views.StateSpan]]:
        """The states of each chosen member from hop to hop; a member with two machines shows the first."""
        time = Window.partitionBy("group", "member", "machine").orderBy("ts_ms", "place.file", "place.offset")
        spans = (
            self._of_worst("transitions")
            .join(chosen, ["group", "member"])
            .withColumn("until_ms", F.lead("ts_ms").over(time))
            .withColumn("at", F.row_number().over(time))
            .where(F.col("at") <= SPANS)
            .select("group", "member", "machine", "next_state", "ts_ms", "until_ms", "at")
            .orderBy("group", "member", "machine", "at")
        )
        found: dict[_Member, list[views.StateSpan]] = {}
        machine: dict[_Member, str] = {}
        for row in spans.collect():
            key = (row["group"], row["member"])
            if machine.setdefault(key, row["machine"]) == row["machine"]:
                until_ms = ends[key] if row["until_ms"] is None else row["until_ms"]
                found.setdefault(key, []).append(views.StateSpan(row["next_state"], row["ts_ms"], until_ms))
        return found

    def _marks(self, chosen: DataFrame) -> dict[_Member, list[views.Mark]]:
        records = self._of_worst("records").where(F.col("kind").isin(MARKED))
        return marks(records.join(chosen, ["group", "member"]), "member")

    def _partitions(self) -> dict[str, list[views.PartitionView]]:
        key = ("group", "topic", "partition")
        wrong = self._stretches()
        blamed = wrong.groupBy(*key).agg(F.count("*").alias("blamed"))
        every = self._owned().select(*key).distinct().join(blamed, list(key), "left").fillna(0)
        worst = Window.partitionBy("group").orderBy(F.col("blamed").desc(), "topic", "partition")
        ranked = every.withColumn("place", F.row_number().over(worst)).where(F.col("place") <= PARTITIONS)
        shown = ranked.orderBy(*key).collect()
        chosen = keys(self.stages.spark, shown, key)
        owners, waits = self._owners(chosen), self.rounds.waits(chosen)
        times: dict[tuple[str, str, int, str], list[views.Stretch]] = {}
        listed = wrong.join(chosen, list(key)).orderBy(*key, "start_ms", "end_ms", "kind").limit(STRETCHES)
        for row in listed.collect():
            where = (row["group"], row["topic"], row["partition"], row["kind"])
            times.setdefault(where, []).append(views.Stretch(row["start_ms"], row["end_ms"]))
        found: dict[str, list[views.PartitionView]] = {}
        for row in shown:
            place = (row["group"], row["topic"], row["partition"])
            gaps = times.get((*place, FindingKind.UNOWNED_PARTITION.value), ())
            overlaps = times.get((*place, FindingKind.DOUBLE_OWNERSHIP.value), ())
            found.setdefault(row["group"], []).append(
                views.PartitionView(
                    *unit((row["topic"], row["partition"])),
                    tuple(owners[place]),
                    tuple(gaps),
                    tuple(overlaps),
                    tuple(waits.get(place, ())),
                )
            )
        return found

    def _owned(self) -> DataFrame:
        """Intervals in which somebody had a partition."""
        return self._of_worst("intervals").where(~F.col("begun").isin([begun.value for begun in NOBODY]))

    def _owners(self, chosen: DataFrame) -> dict[tuple[str, str, int], list[views.OwnedSpan]]:
        """Who owned each chosen partition."""
        key = ("group", "topic", "partition")
        time = Window.partitionBy(*key).orderBy("start_ms", "end_ms", "member")
        rows = (
            self._owned()
            .join(chosen, list(key))
            .withColumn("at", F.row_number().over(time))
            .where(F.col("at") <= SPANS)
            .select(*key, "member", "start_ms", "end_ms", "ended", "at")
            .orderBy(*key, "at")
        )
        spans: dict[tuple[str, str, int], list[views.OwnedSpan]] = {}
        for row in rows.collect():
            span = views.OwnedSpan(row["member"], row["start_ms"], row["end_ms"], row["ended"])
            spans.setdefault((row["group"], row["topic"], row["partition"]), []).append(span)
        return spans

    def _stretches(self) -> DataFrame:
        """Times of each partition that a finding is about."""
        kinds = [kind.value for kind in UNIT_KINDS]
        of_units = {of_unit.value: kind.value for kind, of_unit in UNIT_KINDS.items()}
        found = self._of_worst("findings").where(F.col("kind").isin([*kinds, *of_units]))
        rows = found.select("group", "kind", "start_ms", "end_ms", F.explode("partitions").alias("p"))
        task = F.when(F.col("p.partition") >= 0, F.concat(F.lit(":"), F.col("p.partition"))).otherwise("")
        topic = F.when(F.col("kind").isin(kinds), F.col("p.topic")).otherwise(
            F.concat(F.lit(UNIT), F.col("p.topic"), task)
        )
        kind = F.col("kind")
        for shown, meant in of_units.items():
            kind = F.when(F.col("kind") == shown, F.lit(meant)).otherwise(kind)
        return rows.select("group", topic.alias("topic"), "p.partition", kind.alias("kind"), "start_ms", "end_ms")

    def _rebalances(self) -> dict[str, list[views.RebalanceView]]:
        every = self._of_worst("rebalances")
        longest = Window.partitionBy("group").orderBy((F.col("end_ms") - F.col("start_ms")).desc(), "start_ms")
        rows = (
            every.withColumn("place", F.row_number().over(longest))
            .where(F.col("place") <= REBALANCES)
            .orderBy("group", "start_ms")
        )
        found: dict[str, list[views.RebalanceView]] = {}
        for r in rows.collect():
            found.setdefault(r["group"], []).append(
                views.RebalanceView(r["start_ms"], r["end_ms"], r["cause"], r["members"], r["moved"], r["unowned_ms"])
            )
        return found


def _shown(kind: str, partitions: Sequence[Partition]) -> str:
    """Partitions as short text; some findings are about connectors and tasks."""
    about_units = kind in (*UNIT_KINDS.values(), FindingKind.TASK_ZOMBIE) or any(n < 0 for _, n in partitions)
    return units(partitions) if about_units else names(partitions)


def _severities() -> list[Column]:
    def count(severity: Severity) -> Column:
        return F.sum((F.col("severity") == severity.value).cast("int"))

    return [count(Severity.ERROR).alias("errors"), count(Severity.WARNING).alias("warnings")]


def _coverage(whole: int, end_known: str) -> str:
    begin = "from its start" if whole else "begins in mid-life"
    end = {"closed": "to its close", "killed": "ends without a close, others took over"}
    return f"{begin}, {end.get(end_known, 'ends without a close')}"
