"""The audit's judge: findings held against what an observer says was really wrong.

Verdicts come from files in the shape of `findings.json` (one object a scenario: `group`, `t0` in epoch seconds, and
lists of what happened at seconds after `t0`). A finding meets a verdict of its kind if their times overlap within
`SLACK_MS`, their partitions intersect, and, where the verdict is about one member, the finding shows a line of that
member's file. A verdict below its kind's threshold may be found or not. Kinds without verdicts are counted only.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import judge_connect as connect_truth

from fsm.audit.findings import UNIT_KINDS, Finding, FindingKind, Severity
from fsm.audit.limits import UNDATED_MS
from fsm.audit.wording import names, units
from fsm.errors import InputError
from fsm.trace import Partition

SLACK_MS = 1500
DOUBLE_S = 0.1
UNOWNED_S = 2.4
UNOWNED_MAYBE_S = 1.6
NOTHING = ["nothing wrong with the clients"]
"""The summary of a scenario in which no finding above info is right."""


class Verdict(NamedTuple):
    """One thing that was really wrong."""

    kind: FindingKind
    start_ms: float
    end_ms: float
    partitions: frozenset[Partition]
    """Empty where the verdict names none: then any will do."""
    member: str
    """Stem of the member's log file; empty where the verdict is about several."""
    counts: bool
    """False where it may be found or not."""
    hidden: str = ""
    """Why logs of this kind cannot show it; empty where they can."""

    def __str__(self) -> str:
        shown = units if self.kind in UNIT_KINDS.values() else names
        what = shown(self.partitions) if self.partitions else ""
        return " ".join(filter(None, (self.kind, self.member, what)))


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario: what was found and what was wrong."""

    name: str
    label: str
    """The line of the table it counts in."""
    origin_ms: float
    quiet: bool
    """Nothing was wrong."""
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    by_file: bool = True
    """Every member has a file of its own: a finding must show a line of the right one."""


@dataclass(slots=True)
class Score:
    """One cell pair of the table."""

    verdicts: int = 0
    found: int = 0
    findings: int = 0
    right: int = 0

    @property
    def recall(self) -> float:
        """Share of the verdicts that were found; 1 where there are none."""
        return self.found / self.verdicts if self.verdicts else 1.0

    @property
    def precision(self) -> float:
        """Share of the findings that a verdict backs; 1 where there are none."""
        return self.right / self.findings if self.findings else 1.0


@dataclass(slots=True)
class Report:
    """The whole comparison."""

    scores: dict[tuple[str, FindingKind], Score] = field(default_factory=dict)
    misses: list[str] = field(default_factory=list)
    false_alarms: list[str] = field(default_factory=list)
    """Findings without a verdict, and any finding above info where nothing was wrong."""
    hidden: Counter[tuple[str, FindingKind, str]] = field(default_factory=Counter)
    """Verdicts that such logs cannot show, with the reason: they may be found or not."""
    others: Counter[tuple[str, FindingKind]] = field(default_factory=Counter)
    """Findings of kinds that have no verdicts."""

    @property
    def clean(self) -> bool:
        """Nothing missed, nothing invented."""
        return not self.misses and not self.false_alarms


JUDGED = (
    FindingKind.DOUBLE_OWNERSHIP,
    FindingKind.UNOWNED_PARTITION,
    FindingKind.PARTITIONS_LOST,
    FindingKind.LOST_WITHOUT_CALLBACK,
    FindingKind.CALLBACK_NOT_OWNED,
    FindingKind.MEMBER_OUT_FOR_GOOD,
    FindingKind.FENCING_LOOP,
    FindingKind.LISTENER_ERROR,
    FindingKind.RAN_TWICE,
    FindingKind.UNASSIGNED_WORK,
)
"""Kinds that have verdicts."""


def read_verdicts(path: Path) -> dict[str, Any]:
    """The verdicts of a file, by scenario. Raises `InputError` if it is not such a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"no verdicts: {problem}", str(path)) from None
    if isinstance(data, list) and all(isinstance(each, dict) and "begin" in each for each in data):
        return connect_truth.by_scenario(data)
    if not isinstance(data, dict):
        raise InputError("verdicts are one object, scenario by scenario", str(path))
    return data


def verdicts(scenario: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """What was wrong in one scenario."""
    return tuple(_verdicts(scenario, float(scenario["t0"]) * 1000))


def _verdicts(scenario: Mapping[str, Any], t0: float) -> Iterator[Verdict]:
    if connect_truth.RAN_TWICE in scenario:
        yield from _of_connect(scenario, t0)
        return
    for one in scenario["double_ownership"]:
        yield _verdict(FindingKind.DOUBLE_OWNERSHIP, one, t0, counts=one["seconds"] > DOUBLE_S, member=one["old"])
    for one in scenario["unowned"]:
        if one["wanted_s"] > UNOWNED_MAYBE_S:
            counts = one["wanted_s"] > UNOWNED_S and not one["in_teardown"]
            yield _verdict(FindingKind.UNOWNED_PARTITION, one, t0, counts=counts, member="")
    for name, kind in _AT_ONCE.items():
        for one in scenario[name]:
            yield _verdict(kind, one, t0)
    for one in scenario["out_for_good"]:
        yield _verdict(FindingKind.MEMBER_OUT_FOR_GOOD, one, t0)
    for member in scenario["fencing_loops"]:
        yield Verdict(FindingKind.FENCING_LOOP, t0, math.inf, frozenset(), member, True)


def _of_connect(scenario: Mapping[str, Any], t0: float) -> Iterator[Verdict]:
    for kind, start_s, end_s, unit, counts, hidden in connect_truth.list_stated(scenario):
        yield Verdict(kind, t0 + start_s * 1000, t0 + end_s * 1000, frozenset({unit}), "", counts, hidden)
    if "herder_died" in scenario.get("log_event_counts", {}):
        yield Verdict(FindingKind.MEMBER_OUT_FOR_GOOD, t0, math.inf, frozenset(), "", False)


_AT_ONCE = {
    "lost_callbacks": FindingKind.PARTITIONS_LOST,
    "dropped_without_callback": FindingKind.LOST_WITHOUT_CALLBACK,
    "callbacks_for_partitions_not_owned": FindingKind.CALLBACK_NOT_OWNED,
    "listener_threw": FindingKind.LISTENER_ERROR,
}


def _verdict(
    kind: FindingKind, one: Mapping[str, Any], t0: float, *, counts: bool = True, member: str | None = None
) -> Verdict:
    begin = one.get("from", one.get("at", one.get("since", 0.0)))
    end = one.get("to", one.get("process_alive_until", begin))
    return Verdict(
        kind,
        t0 + begin * 1000,
        math.inf if end is None else t0 + end * 1000,
        frozenset(_partitions(one.get("partitions", ""))),
        one["member"] if member is None else member,
        counts,
    )


def _partitions(text: str) -> Iterator[Partition]:
    """Partitions of `t1-[0, 1], t2-[3]`."""
    for topic, numbers in re.findall(r"(\S+)-\[([\d, ]*)\]", text):
        for number in numbers.split(", "):
            yield topic, int(number)


def compare(cases: Iterable[Case]) -> Report:
    """The table and everything that is not as it should be, in the order of the cases."""
    report = Report()
    for case in cases:
        for kind in JUDGED:
            _compare_kind(report, case, kind)
        for found in case.findings:
            if found.kind not in JUDGED:
                report.others[case.label, found.kind] += 1
                if case.quiet and found.severity is not Severity.INFO:
                    report.false_alarms.append(_line(case, found.kind, found.start_ms, found.end_ms, found.summary))
    return report


def _compare_kind(report: Report, case: Case, kind: FindingKind) -> None:
    found = [f for f in case.findings if f.kind is kind]
    right = [v for v in case.verdicts if v.kind is kind]
    score = report.scores.setdefault((case.label, kind), Score())
    for verdict in right:
        if verdict.hidden:
            report.hidden[case.label, kind, verdict.hidden] += verdict.counts
        elif verdict.counts:
            met = any(meets(f, verdict, case.by_file) for f in found)
            score.verdicts += 1
            score.found += met
            if not met:
                report.misses.append(_line(case, kind, verdict.start_ms, verdict.end_ms, str(verdict)))
    for one in found:
        backing = [v for v in right if meets(one, v, case.by_file)]
        if case.quiet and one.severity is not Severity.INFO:
            report.false_alarms.append(_line(case, kind, one.start_ms, one.end_ms, one.summary))
        if backing and not any(v.counts and not v.hidden for v in backing):
            continue
        score.findings += 1
        score.right += bool(backing)
        if not backing:
            report.false_alarms.append(_line(case, kind, one.start_ms, one.end_ms, one.summary))


def meets(found: Finding, verdict: Verdict, by_file: bool = True) -> bool:
    """True where the finding is about what the verdict is about; the kinds are the same already."""
    dated = found.end_ms != UNDATED_MS
    if dated and (found.start_ms - SLACK_MS > verdict.end_ms or found.end_ms + SLACK_MS < verdict.start_ms):
        return False
    if verdict.partitions and verdict.partitions.isdisjoint(found.partitions):
        return False
    if not (by_file and verdict.member):
        return True
    return any(PurePath(e.file).name.split(".")[0] == verdict.member for e in found.evidence)


def _line(case: Case, kind: FindingKind, start_ms: float, end_ms: float, what: str) -> str:
    begin, end = (start_ms - case.origin_ms) / 1000, (end_ms - case.origin_ms) / 1000
    return f"{case.name} {begin:.3f}-{end:.3f} {kind}: {what}"


def table(report: Report) -> str:
    """Precision and recall by label and kind, then misses, false alarms and the counts of the other kinds."""
    lines = [f"{'set':<20} {'kind':<24} {'verdicts':>8} {'found':>6} {'recall':>7} {'findings':>8} {'precision':>9}"]
    for (label, kind), s in sorted(report.scores.items()):
        if s.verdicts or s.findings:
            recall, precision = f"{s.recall:>7.3f}", f"{s.precision:>9.3f}"
            lines.append(f"{label:<20} {kind:<24} {s.verdicts:>8} {s.found:>6} {recall} {s.findings:>8} {precision}")
    lines += _section("missed", report.misses)
    lines += _section("false alarms", report.false_alarms)
    hidden = [f"{label} {kind}: {n}, {why}" for (label, kind, why), n in sorted(report.hidden.items()) if n]
    lines += _section("not visible", hidden)
    lines += _section("no verdicts", [f"{label} {kind}: {n}" for (label, kind), n in sorted(report.others.items())])
    return "\n".join(lines) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"{title}: {len(lines)}", *(f"  {line}" for line in lines)]
