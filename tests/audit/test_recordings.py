"""The audit against recordings of real clients, and against an observer who knew what was really wrong.

`tests/data` holds the members' logs of the scenarios and what their applications saw; `untold` says which of that logs
of some clients cannot show.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import judge
import memory
import pytest
import recordings
import untold

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.incidents import Incident
from fsm.audit.report.group_views import overview

DATA = Path(__file__).parents[1] / "data"
FEW = (
    "i_j07_maxpoll", "i_j09_kill9", "i_j24_commit_fail_revoke", "i_m_range_upgrade_down", "i_x02_coop_rolling",
    "j03_rolling3", "j31_nolistener", "r01_java_rdk", "spring_x02_coop_rolling", "json_j36_stall_loop",
    "x05_range_fenced_static", "c06_maxpoll", "c11_slow_revoke", "f08_unreleased_instance", "k_x05_coop_subchange",
    "x02_range_kill9", "x05_coop_subchange",
)  # fmt: skip
"""Scenarios for the transformations: each protocol, client, layout and level."""

ONE_IN_SO_MANY = 6
"""Recordings are in the loop; the others are judged by `make test-deep`, and all by `make audit-truth`."""
TRUTH = "truth.jsonl"
UNREAD = ("@platformatic/kafka",)
"""Clients whose logs name no partitions at any level."""

VERDICTS = {
    FindingKind.DOUBLE_OWNERSHIP: {"some": 18, "others": 118},
    FindingKind.UNOWNED_PARTITION: {"some": 31, "others": 87},
    FindingKind.PARTITIONS_LOST: {"some": 21, "others": 85},
    FindingKind.LOST_WITHOUT_CALLBACK: {"some": 8, "others": 17},
    FindingKind.CALLBACK_NOT_OWNED: {"some": 2, "others": 9},
    FindingKind.MEMBER_OUT_FOR_GOOD: {"some": 1, "others": 12},
    FindingKind.FENCING_LOOP: {"some": 4, "others": 10},
    FindingKind.LISTENER_ERROR: {"some": 1, "others": 10},
}
"""How much was wrong."""

Scenarios = dict[str, tuple[dict[str, bytes], dict[str, Any], untold.Recording]]


@pytest.fixture(scope="module")
def scenarios() -> Scenarios:
    """Logs and verdicts of every recorded scenario."""
    found: Scenarios = {}
    for name in ("java", "librdkafka", "client", "old"):
        with recordings.opened(DATA / f"{name}-logs.tar.xz") as archive:
            inside = {PurePosixPath(item.name): item for item in archive}
            verdicts = json.load(archive.extractfile(inside[PurePosixPath("findings.json")]))
            truths = {path.parent.name: archive.extractfile(inside[path]) for path in inside if path.name == TRUTH}
            recorded = {scenario: untold.recording(truths[scenario], verdicts[scenario]) for scenario in verdicts}
        for scenario, verdict in verdicts.items():
            found[scenario] = (recordings.logs(name)[scenario], verdict, recorded[scenario])
    return {name: one for name, one in found.items() if one[2].client not in UNREAD}


@pytest.fixture(scope="module", params=["some", pytest.param("others", marks=pytest.mark.deep)])
def part(request: pytest.FixtureRequest) -> str:
    """Which of the recordings are audited."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def audits(scenarios: Scenarios, part: str) -> dict[str, tuple[list[Finding], list[Incident]]]:
    """What is found in each of this part."""
    chosen = (name for i, name in enumerate(sorted(scenarios)) if (i % ONE_IN_SO_MANY == 0) is (part == "some"))
    audits = ((name, memory.audit(scenarios[name][0])) for name in chosen)
    return {name: (audit.findings, audit.incidents) for name, audit in audits}


def case(
    name: str,
    logs: dict[str, bytes],
    verdict: dict[str, Any],
    recorded: untold.Recording,
    *,
    findings: list[Finding] | None = None,
    by_file: bool = True,
) -> judge.Case:
    """The scenario's logs, audited."""
    findings = memory.audit(logs).findings if findings is None else findings
    quiet, right = verdict["summary"] == judge.NOTHING, untold.mark(judge.verdicts(verdict), recorded)
    return judge.Case(name, "all", verdict["t0"] * 1000, quiet, right, tuple(findings), by_file)


def test_everything_that_was_wrong_is_found_and_nothing_else(scenarios, audits, part):
    """Precision and recall are 1 in all kinds; nothing above info where nothing was wrong."""
    cases = [case(name, *scenarios[name], findings=findings) for name, (findings, _) in audits.items()]
    report = judge.compare(cases)
    assert report.clean, judge.table(report)
    verdicts = {kind: score.verdicts for (_, kind), score in report.scores.items() if score.verdicts}
    assert verdicts == {kind: counts[part] for kind, counts in VERDICTS.items()}


def test_every_finding_is_in_one_incident(audits):
    """None is in two, none is lost, and no two have one id; an incident is as severe as its worst finding."""
    for name, (findings, incidents) in audits.items():
        by_id = {found.id: found for found in findings}
        assert len(by_id) == len(findings), name
        assert sorted(found for one in incidents for found in one.findings) == sorted(by_id), name
        for one in incidents:
            worst = {by_id[found].severity for found in one.findings}
            assert one.severity is next(severity for severity in Severity if severity in worst)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("change", ["merged", "dealt", "rotated"])
@pytest.mark.loop(14)
def test_whatever_happens_to_whole_logs_findings_stay_right(scenarios, transform, name, change):
    """Rotated files give the same; where a collector mixed lines, what is certain is right."""
    logs, verdict, recorded = scenarios[name]
    found = case(name, transform.WHOLE[change](logs), verdict, recorded, by_file=change == "rotated")
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
@pytest.mark.loop(18)
def test_half_a_log_invents_nothing(scenarios, transform, name, change):
    """Every finding above info is one that the whole log gives as well, or that its verdicts back."""
    logs, verdict, recorded = scenarios[name]
    found = case(name, transform.CUT[change](logs), verdict, recorded)
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
    logs, verdict, recorded = scenarios[name]
    file = min(logs)
    lines = logs[file].split(b"\n")
    steps = [i for i, line in enumerate(lines) if b" transitioned from " in line or b" changed join state " in line]
    for i in steps:
        found = case(name, logs | {file: b"\n".join(lines[:i] + lines[i + 1 :])}, verdict, recorded)
        assert FindingKind.ILLEGAL_TRANSITION in [f.kind for f in found.findings], lines[i]
    assert len(steps) > 5


WARNINGS = {
    ("java", "i_j07_maxpoll"): FindingKind.MEMBERSHIP_LOST,
    ("java", "i_j36_stall_loop"): FindingKind.FENCING_LOOP,
    ("java", "i_j08_sigstop"): FindingKind.COMMIT_REFUSED,
    ("java", "i_x03_range_maxpoll"): FindingKind.MEMBERSHIP_LOST,
}


@pytest.mark.parametrize(("kind", "name"), WARNINGS)
def test_warnings_alone_tell_what_was_lost(kind: str, name: str) -> None:
    """Logs at WARN, as many have them: no line says who owned what, but the fault has one."""
    logs = {
        file: b"".join(line for line in log.splitlines(keepends=True) if b" WARN " in line or b" ERROR " in line)
        for file, log in recordings.logs(kind)[name].items()
    }
    audit = memory.audit(logs)
    assert {one.kind for one in audit.findings} >= {WARNINGS[kind, name]}
    assert [known.is_ownerless for group in audit.groups if (known := overview(group))] == [True]
