"""The audit against recordings of real clients, and against an observer who knew what was really wrong.

`tests/data` holds the members' logs of the scenarios and what their applications saw. aiokafka's and kafka-python's
logs are not understood, on purpose: the three losses of `k_p03_aiokafka` cannot be found.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import judge
import memory
import pytest
import recordings

from fsm.audit.findings import FindingKind, Severity

DATA = Path(__file__).parents[1] / "data"
FEW = (
    "i_j07_maxpoll", "i_j09_kill9", "i_j24_commit_fail_revoke", "i_m_range_upgrade_down", "i_x02_coop_rolling",
    "j03_rolling3", "j31_nolistener", "r01_java_rdk", "spring_x02_coop_rolling", "json_j36_stall_loop",
    "x05_range_fenced_static", "c06_maxpoll", "c11_slow_revoke", "f08_unreleased_instance", "k_x05_coop_subchange",
    "x02_range_kill9", "x05_coop_subchange",
)  # fmt: skip
"""Scenarios for the transformations: each protocol, client, layout and level."""

Scenarios = dict[str, tuple[dict[str, bytes], dict[str, Any]]]


@pytest.fixture(scope="module")
def scenarios() -> Scenarios:
    """Logs and verdicts of every recorded scenario."""
    found: Scenarios = {}
    for name in ("java", "librdkafka"):
        with tarfile.open(DATA / f"{name}-logs.tar.xz") as archive:
            verdicts = json.load(archive.extractfile("findings.json"))
        for scenario, verdict in verdicts.items():
            found[scenario] = (recordings.logs(name)[scenario], verdict)
    return found


def case(name: str, logs: dict[str, bytes], verdict: dict[str, Any], by_file: bool = True) -> judge.Case:
    """The scenario's logs, audited."""
    findings = memory.audit(logs).findings
    quiet = verdict["summary"] == judge.NOTHING
    return judge.Case(name, "all", verdict["t0"] * 1000, quiet, judge.verdicts(verdict), tuple(findings), by_file)


def test_everything_that_was_wrong_is_found_and_nothing_else(scenarios):
    """Precision and recall are 1 in all kinds; nothing above info where nothing was wrong."""
    cases = [case(name, *one) for name, one in scenarios.items() if name != "k_p03_aiokafka"]
    report = judge.compare(cases)
    assert report.clean, judge.table(report)
    assert {kind: score.verdicts for (_, kind), score in report.scores.items() if score.verdicts} == {
        FindingKind.DOUBLE_OWNERSHIP: 80,
        FindingKind.UNOWNED_PARTITION: 94,
        FindingKind.PARTITIONS_LOST: 88,
        FindingKind.LOST_WITHOUT_CALLBACK: 6,
        FindingKind.CALLBACK_NOT_OWNED: 10,
        FindingKind.MEMBER_OUT_FOR_GOOD: 12,
        FindingKind.FENCING_LOOP: 13,
        FindingKind.LISTENER_ERROR: 7,
    }


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("change", ["merged", "dealt", "rotated"])
def test_whatever_happens_to_whole_logs_findings_stay_right(scenarios, transform, name, change):
    """Rotated files give the same; where a collector mixed lines, what is certain is right."""
    logs, verdict = scenarios[name]
    found = case(name, transform.WHOLE[change](logs), verdict, by_file=change == "rotated")
    certain = tuple(f for f in found.findings if f.severity is not Severity.INFO or change == "rotated")
    report = judge.compare(
        [judge.Case(name, "all", found.origin_ms, found.quiet, found.verdicts, certain, found.by_file)]
    )
    assert report.false_alarms == []
    assert change != "rotated" or report.misses == []


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(
    "change", ["first half dropped", "last half dropped", "each from its middle", "each to its middle"]
)
def test_half_a_log_invents_nothing(scenarios, transform, name, change):
    """Every finding above info is one that the whole log gives as well, or that its verdicts back."""
    logs, verdict = scenarios[name]
    found = case(name, transform.CUT[change](logs), verdict)
    invented = [
        f.summary
        for f in found.findings
        if f.severity is not Severity.INFO
        and f.kind in (*judge.JUDGED, FindingKind.ILLEGAL_TRANSITION)
        and not any(v.kind is f.kind and judge.meets(f, v, by_file=False) for v in found.verdicts)
    ]
    assert invented == []


@pytest.mark.parametrize("name", ["i_j07_maxpoll", "c11_slow_revoke", "j31_nolistener"])
def test_a_dropped_line_is_found(scenarios, name):
    """Any transition that is taken out of a log breaks its chain."""
    logs, verdict = scenarios[name]
    file = min(logs)
    lines = logs[file].split(b"\n")
    steps = [i for i, line in enumerate(lines) if b" transitioned from " in line or b" changed join state " in line]
    for i in steps:
        found = case(name, logs | {file: b"\n".join(lines[:i] + lines[i + 1 :])}, verdict)
        assert FindingKind.ILLEGAL_TRANSITION in [f.kind for f in found.findings], lines[i]
    assert len(steps) > 5
