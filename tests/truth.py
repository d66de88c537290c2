"""`make audit-truth`: the audit's findings against what the applications of the recordings really saw.

One audit on Spark over every scenario, each folder a cluster of its own; then precision and recall of each kind.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import judge
import recordings
import untold

from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, Severity
from fsm.errors import FsmError, InputError
from fsm.logs import clients
from fsm.spark.audit import audit_logs
from fsm.spark.options import Options
from fsm.spark.progress import Progress
from fsm.spark.result import MARK


def main() -> int:
    """Prints the table; gives 0 when nothing is missed or invented, 1 when something is, 2 without recordings."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", type=Path, nargs="?", default=recordings.DATA, help="folder or archive of scenarios")
    arguments.add_argument("--out", type=Path, help="keep the audit's result here")
    chosen = arguments.parse_args()
    try:
        with tempfile.TemporaryDirectory() as work:
            alone, unread = cases(chosen.data, Path(work) / "alone", chosen.out)
            logged, _ = cases(chosen.data, Path(work) / "heard", brokers=True)
    except FsmError as problem:
        print(f"audit-truth: {problem}", file=sys.stderr)
        return 2
    report, both = judge.compare(alone), judge.compare(logged)
    print(judge.table(report), end="")
    print(f"\nnot read, no parser knows the program that wrote the logs: {len(unread)}")
    for name, verdicts in unread.items():
        print(f"  {name}: {verdicts} verdicts")
    print(f"\nwith the brokers' logs beside them: {len(both.misses)} missed, {len(both.false_alarms)} invented, and")
    print("\n".join(added(alone, logged)))
    return 0 if report.clean and both.clean else 1


def added(alone: Iterable[judge.Case], cases_: Iterable[judge.Case]) -> Iterator[str]:
    """What the brokers' logs add to the findings, a line for each kind."""
    before = Counter((case.name, f.kind, f.cause) for case in alone for f in case.findings)
    after = Counter((case.name, f.kind, f.cause) for case in cases_ for f in case.findings)
    new_kinds = Counter(kind for _, kind, _ in (after - before).elements())
    found = [f for case in cases_ for f in case.findings]
    shown = Counter(f.kind for f in found if any("[GroupCoordinator id=" in line.text for line in f.evidence))
    given = Counter(f.kind for f in found if "; the coordinator gave " in f.summary)
    for kind, count in Counter(f.kind for f in found).items():
        if shown[kind]:
            lines, causes = shown[kind], new_kinds[kind]
            gave = f", {given[kind]} say when it gave the partition to whom" if given[kind] else ""
            yield f"  {kind}: {count} findings, {lines} with the coordinator's line, {causes} causes are its own{gave}"


def cases(
    data: Path, work: Path, out: Path | None = None, *, brokers: bool = False
) -> tuple[list[judge.Case], dict[str, int]]:
    """Each scenario for the judge, and how many verdicts those have whose program no parser knows.

    Raises `InputError` where there are no scenarios with verdicts.
    """
    roots = recordings.unpacked(data, work / "recordings")
    verdicts = _verdicts(roots)
    chosen = {
        s.name: (s, verdicts[key]) for s in recordings.scenarios(roots) if (key := _key(s)) in verdicts and s.logs
    }
    if not chosen:
        raise InputError("no scenario with truth.jsonl, logs and verdicts", str(data), "see tests/recordings.py")
    recordings.lay_out((s for s, _ in chosen.values()), work / "logs", brokers=brokers)
    target = out or work / "audit"
    audit_logs([work / "logs"], target, Options(by_folder=True), progress=Progress())
    result = json.loads((target / MARK).read_text(encoding="utf-8"))
    found = findings(result)
    read = {group["group"].partition(":")[0] for group in result["groups"]}
    known = [case(s, verdict, found[name]) for name, (s, verdict) in chosen.items() if name in read]
    return known, {name: len(judge.verdicts(verdict)) for name, (_, verdict) in chosen.items() if name not in read}


def _key(scenario: recordings.Scenario) -> tuple[str, float]:
    return scenario.folder.name, round(scenario.start_s, 3)


def _verdicts(roots: Iterable[Path]) -> dict[tuple[str, float], Any]:
    """Verdicts by scenario and start: two sets may have scenarios of one name."""
    return {
        (name, round(float(verdict["t0"]), 3)): verdict
        for file in recordings.verdict_files(roots)
        for name, verdict in judge.read_verdicts(file).items()
    }


def findings(result: dict[str, Any]) -> dict[str, list[Finding]]:
    """The findings of each cluster; the group without its cluster's name."""
    by_cluster: dict[str, list[Finding]] = defaultdict(list)
    for found in result["findings"]:
        cluster, _, found["group"] = found["group"].partition(":")
        by_cluster[cluster].append(finding(found))
    return by_cluster


def finding(found: dict[str, Any]) -> Finding:
    """The finding of a JSON object."""
    return Finding(
        kind=FindingKind(found["kind"]),
        severity=Severity(found["severity"]),
        group=found["group"],
        member=found["member"],
        start_ms=found["start_ms"],
        end_ms=found["end_ms"],
        partitions=tuple((t, p) for t, p in found["partitions"]),
        cause=Cause(found["cause"]),
        summary=found["summary"],
        evidence=tuple(Evidence(e["file"], -1, e["line"], e["text"]) for e in found["evidence"]),
    )


def case(scenario: recordings.Scenario, verdict: dict[str, Any], found: list[Finding]) -> judge.Case:
    """One scenario for the judge."""
    with (scenario.folder / "truth.jsonl").open(encoding="utf-8") as truth:
        recorded = untold.recording(truth, verdict)
    return judge.Case(
        name=scenario.name,
        label=f"{recorded.client} {recorded.level}" if recorded.client in CLIENTS else label(scenario),
        origin_ms=float(verdict["t0"]) * 1000,
        quiet=verdict["summary"] == judge.NOTHING,
        verdicts=untold.mark(judge.verdicts(verdict), recorded),
        findings=tuple(found),
    )


CLIENTS = frozenset(one.name for one in clients()) - {"java", "librdkafka"}
"""Clients whose recordings tell the client by name."""


def label(scenario: recordings.Scenario) -> str:
    """The line of the table: which client wrote the logs, and whether at DEBUG."""
    heads = [log.read_bytes()[:200_000] for log in scenario.logs]
    if any(b"Kafka Connect worker initializing" in head for head in heads):
        return "Connect DEBUG" if any(b" DEBUG " in log.read_bytes() for log in scenario.logs) else "Connect INFO"
    if all(b"ConsumerConfig values" not in head for head in heads):
        return "librdkafka DEBUG"
    return "Java DEBUG" if any(b"DEBUG" in head for head in heads) else "Java INFO"


if __name__ == "__main__":
    sys.exit(main())
