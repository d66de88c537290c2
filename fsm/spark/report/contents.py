"""The HTML report's contents: bounded extracts of a finished audit, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from fsm.audit.coordinator.assignments import AssignmentKind
from fsm.audit.findings import UNIT_KINDS, FindingKind, Severity
from fsm.audit.rows import NOBODY
from fsm.audit.wording import UNIT, names, unit, units
from fsm.render.timeline import views
from fsm.render.wording import many
from fsm.spark.report.connect_rounds import Rounds
from fsm.spark.report.evidence import worst_first
from fsm.spark.report.extracts import SPANS, CoordinatorLanes, by_key, first, keys, marks, of_groups
from fsm.spark.written import Written
from fsm.tables import ALL
from fsm.trace import Kind, Partition

FINDINGS, GROUPS, MEMBERS, PARTITIONS, REBALANCES = 400, 12, 40, 120, 60
"""How many of each the report shows; from members on that many in each group."""
STRETCHES = 10_000
"""Times without owner, or with two, that are drawn."""
_PARTITION = ("group", "topic", "partition")
_MEMBER = ("group", "member")
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
        edges = [(e["state"], e["next_state"], e["count"]) for e in metrics["transitions"] if e["machine"] == name]
        if edges:
            counts = tuple(views.EdgeCount(a, b, count, (name, a, b) not in legal) for a, b, count in edges)
            dwell = [d for d in metrics["dwell"] if d["machine"] == name]
            columns = ("state", "visits", "median_ms", "p99_ms", "longest_ms")
            found.append(views.MachineView(name, counts, tuple(views.Dwell(*(d[c] for c in columns)) for d in dwell)))
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
        self.coordinator = CoordinatorLanes(stages, self.worst)
        self.rounds = Rounds(stages, self.worst)
        self.unknown_ends = totals[1]
        """Lives whose end no log shows."""

    def findings(self) -> tuple[views.FindingView, ...]:
        columns = ("kind", "severity", "group", "member", "start_ms", "end_ms", "cause", "summary")
        return tuple(
            views.FindingView(
                **{name: row[name] for name in columns},
                partitions=_shown(row["kind"], [(p["topic"], p["partition"]) for p in row["partitions"]]),
                evidence=tuple(views.EvidenceLine(e["file"], e["line"], e["text"]) for e in row["evidence"]),
            )
            for row in worst_first(self.stages.read("findings")).limit(FINDINGS).collect()
        )

    def _of_worst(self, name: str) -> DataFrame:
        return of_groups(self.stages.read(name), self.worst)

    def groups(self) -> tuple[views.GroupView, ...]:
        members, owners, moves = self._members(), self._partitions(), self._rebalances()
        rounds, round_counts = self.rounds.shown(), self.rounds.counts()
        lanes, unlogged = self.coordinator.groups(), self.coordinator.unlogged()

        def view(row: Row) -> views.GroupView:
            group = row["group"]
            own, others, owned = members.get(group, ()), unlogged.get(group, ()), owners.get(group, ())
            moved, listed = moves.get(group, ()), rounds.get(group, ())
            return views.GroupView(
                group=group,
                start_ms=row["start_ms"],
                end_ms=row["end_ms"],
                members=tuple(own),
                members_hidden=row["members"] - len(own),
                coordinator=lanes.get(group),
                unlogged=tuple(others),
                unlogged_hidden=self.coordinator.unlogged_count(row) - len(others),
                partitions=tuple(owned),
                partitions_hidden=row["partitions"] - len(owned),
                rebalances=tuple(moved),
                rebalances_hidden=row["rebalances"] - len(moved),
                rounds=tuple(listed),
                rounds_hidden=round_counts.get(group, 0) - len(listed),
            )

        return tuple(map(view, self.worst))

    def _members(self) -> dict[str, list[views.MemberView]]:
        severities = [
            F.sum((F.col("severity") == severity.value).cast("int")).alias(f"{severity.value}s")
            for severity in (Severity.ERROR, Severity.WARNING)
        ]
        blamed = self._of_worst("findings").groupBy(*_MEMBER).agg(*severities)
        lives = (
            self._of_worst("lives")
            .groupBy(*_MEMBER)
            .agg(
                F.min("start_ms").alias("start_ms"),
                F.max("end_ms").alias("end_ms"),
                F.max("client_id").alias("client"),
                F.max("protocol").alias("protocol"),
                F.max("version").alias("version"),
                F.min(F.col("whole_start").cast("int")).alias("whole"),
                F.max_by("end_known", "number").alias("end_known"),
            )
            .join(blamed, list(_MEMBER), "left")
            .fillna(0)
        )
        worst = (F.col("errors").desc(), F.col("warnings").desc(), "start_ms", "member")
        shown = first(lives, MEMBERS, ("group",), *worst).orderBy("group", "start_ms", "member").collect()
        chosen = keys(self.stages.spark, shown, _MEMBER)
        ends = {(row["group"], row["member"]): row["end_ms"] for row in shown}
        states = self._states(chosen, ends) | self.rounds.states(chosen, ends)
        records = self._of_worst("records").where(F.col("kind").isin(MARKED))
        marked = marks(records.join(chosen, list(_MEMBER)), "member")
        assigned = self.coordinator.assigned(chosen, "member")

        def view(row: Row) -> views.MemberView:
            key = (row["group"], row["member"])
            return views.MemberView(
                **{name: row[name] for name in ("member", "client", "protocol", "version")},
                coverage=_coverage(row["whole"], row["end_known"]),
                states=tuple(states.get(key, ())),
                marks=tuple(marked.get(key, ())),
                target=tuple(assigned.get((*key, AssignmentKind.TARGET), ())),
                current=tuple(assigned.get((*key, AssignmentKind.CURRENT), ())),
            )

        return by_key(shown, ("group",), view)

    def _states(
        self, chosen: DataFrame, ends: dict[tuple[str, str], int]
    ) -> dict[tuple[str, str], list[views.StateSpan]]:
        """The states of each chosen member; one with two machines shows the first."""
        key, order = (*_MEMBER, "machine"), ("ts_ms", "place.file", "place.offset")
        until = F.lead("ts_ms").over(Window.partitionBy(*key).orderBy(*order))
        steps = self._of_worst("transitions").join(chosen, list(_MEMBER)).withColumn("until_ms", until)
        rows = first(steps.withColumnRenamed("place", "at"), SPANS, key, "ts_ms", "at.file", "at.offset")
        found: dict[tuple[str, str], list[views.StateSpan]] = {}
        machine: dict[tuple[str, str], str] = {}
        for row in rows.select(*key, "next_state", "ts_ms", "until_ms", "place").orderBy(*key, "place").collect():
            member = (row["group"], row["member"])
            if machine.setdefault(member, row["machine"]) == row["machine"]:
                until_ms = ends[member] if row["until_ms"] is None else row["until_ms"]
                found.setdefault(member, []).append(views.StateSpan(row["next_state"], row["ts_ms"], until_ms))
        return found

    def _partitions(self) -> dict[str, list[views.PartitionView]]:
        wrong = self._stretches()
        blamed = wrong.groupBy(*_PARTITION).agg(F.count("*").alias("blamed"))
        every = self._owned().select(*_PARTITION).distinct().join(blamed, list(_PARTITION), "left").fillna(0)
        ranked = first(every, PARTITIONS, ("group",), F.col("blamed").desc(), "topic", "partition")
        shown = ranked.orderBy(*_PARTITION).collect()
        chosen = keys(self.stages.spark, shown, _PARTITION)
        owners, waits = self._owners(chosen), self.rounds.waits(chosen)
        listed = wrong.join(chosen, list(_PARTITION)).orderBy(*_PARTITION, "start_ms", "end_ms", "kind")
        times = by_key(
            listed.limit(STRETCHES),
            (*_PARTITION, "kind"),
            lambda row: views.Stretch(row["start_ms"], row["end_ms"]),
        )

        def view(row: Row) -> views.PartitionView:
            place = (row["group"], row["topic"], row["partition"])
            return views.PartitionView(
                *unit((row["topic"], row["partition"])),
                tuple(owners[place]),
                tuple(times.get((*place, FindingKind.UNOWNED_PARTITION.value), ())),
                tuple(times.get((*place, FindingKind.DOUBLE_OWNERSHIP.value), ())),
                tuple(waits.get(place, ())),
            )

        return by_key(shown, ("group",), view)

    def _owned(self) -> DataFrame:
        return self._of_worst("intervals").where(~F.col("begun").isin([begun.value for begun in NOBODY]))

    def _owners(self, chosen: DataFrame) -> dict[tuple[str, str, int], list[views.OwnedSpan]]:
        own = self._owned().join(chosen, list(_PARTITION))
        columns = ("member", "start_ms", "end_ms", "ended")
        rows = first(own, SPANS, _PARTITION, "start_ms", "end_ms", "member").select(*_PARTITION, *columns, "place")
        return by_key(
            rows.orderBy(*_PARTITION, "place"), _PARTITION, lambda row: views.OwnedSpan(*(row[c] for c in columns))
        )

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
        longest = (F.col("end_ms") - F.col("start_ms")).desc(), "start_ms"
        rows = first(self._of_worst("rebalances"), REBALANCES, ("group",), *longest).orderBy("group", "start_ms")
        columns = ("start_ms", "end_ms", "cause", "members", "moved", "unowned_ms")
        return by_key(rows, ("group",), lambda row: views.RebalanceView(*(row[c] for c in columns)))


def _shown(kind: str, partitions: Sequence[Partition]) -> str:
    """Partitions as short text; some findings are about connectors and tasks."""
    about_units = kind in (*UNIT_KINDS.values(), FindingKind.TASK_ZOMBIE) or any(n < 0 for _, n in partitions)
    return units(partitions) if about_units else names(partitions)


def _coverage(whole: int, end_known: str) -> str:
    begin = "from its start" if whole else "begins in mid-life"
    end = {"closed": "to its close", "killed": "ends without a close, others took over"}
    return f"{begin}, {end.get(end_known, 'ends without a close')}"
