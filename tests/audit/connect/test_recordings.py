"""The audit against recorded Connect clusters, whose connectors said from inside their threads where they ran.

Logs are cut, rotated, merged, filtered and taken away as happens on the way to an auditor; what is then not known is
said, not guessed.
"""

from __future__ import annotations

import json
import random
import re
import tarfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

import judge
import memory
import pytest
import recordings

from fsm.audit.findings import Cause, Finding, FindingKind, Severity

ARCHIVE = Path(__file__).parents[2] / "data" / "connect-logs.tar.xz"
Files = Mapping[str, bytes]
Scenarios = dict[str, tuple[dict[str, bytes], dict[str, object]]]
QUIET = ("s00_quiet", "s10_config_changes_info", "s11_delay0_leave", "s13_fourth_joins", "s19_more_workers_than_tasks")
CHOSEN = (
    *QUIET, "s02_leave_info", "s04_leader_leaves", "s06_crash_nonleader", "s07_bounce_slow_info",
    "s07_two_departed_one_back", "s08_rolling_leader_last", "s09_pause_leader", "s09_pause_short",
    "s10_config_changes_during_delay", "s12_downgrade_sessioned_eager", "s14_failing", "s14_failed_tasks_move",
    "s15_broker_bounce", "s16_broker_frozen", "s17_pause_stop_with_leave", "s21_task_ignores_stop",
    "s23_whole_crash_restart",
)  # fmt: skip
"""Each family of scenarios; `make audit-truth` takes them all."""
ABOUT_WORK = (FindingKind.RAN_TWICE, FindingKind.UNASSIGNED_WORK, FindingKind.ILLEGAL_TRANSITION)


@pytest.fixture(scope="module")
def scenarios() -> Scenarios:
    """Logs and verdicts of the chosen scenarios."""
    with tarfile.open(ARCHIVE) as archive:
        said = {each["scenario"]: each for each in json.load(archive.extractfile("findings.json"))}  # type: ignore[arg-type]
    return {name: (recordings.logs("connect")[name], said[name]) for name in CHOSEN}


def audited(files: Files) -> list[Finding]:
    """What the audit finds in these files."""
    return memory.audit(files).findings


def verdicts(said: dict[str, object], folder: Path) -> tuple[dict[str, object], tuple[judge.Verdict, ...]]:
    """The scenario as the judge reads it, and its verdicts."""
    path = folder / "findings.json"
    path.write_text(json.dumps([said]), encoding="utf-8")
    (read,) = judge.read_verdicts(path).values()
    return read, judge.verdicts(read)


def invented(found: list[Finding], right: tuple[judge.Verdict, ...]) -> list[str]:
    """Findings above info about work and steps that no verdict backs."""
    return [
        f"{f.kind} {f.cause} {f.summary}"
        for f in found
        if f.kind in ABOUT_WORK
        and f.severity is not Severity.INFO
        and not any(v.kind is f.kind and judge.meets(f, v, by_file=False) for v in right)
    ]


# -- whole logs ---------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_whatever_ran_nowhere_or_twice_is_found_and_nothing_else(scenarios: Scenarios, tmp_path: Path) -> None:
    """Precision and recall are 1; nothing above info where nothing was wrong."""
    cases = []
    for name, (files, said) in scenarios.items():
        found = audited(files)
        read, right = verdicts(said, tmp_path)
        quiet = read["summary"] == judge.NOTHING
        cases.append(judge.Case(name, "all", float(read["t0"]) * 1000, quiet, right, tuple(found)))  # type: ignore[arg-type]
    report = judge.compare(cases)
    assert report.clean, judge.table(report)
    assert sum(score.verdicts for score in report.scores.values()) == 69


SENTENCES = {
    "s02_leave_info": (
        Cause.SCHEDULED_DELAY,
        Severity.INFO,
        (
            "connector B ran nowhere for 7.5 s: connect-127.0.0.1:38104 was stopped, and its work waited 6.0 s for a "
            "scheduled delay; then connect-127.0.0.1:38105 took over"
        ),
    ),
    "s04_leader_leaves": (
        Cause.WORKER_STOPPED,
        Severity.WARNING,
        (
            "connector A ran nowhere for 5.3 s: connect-127.0.0.1:38103 was stopped, and no delay was set that would "
            "await its return; then connect-127.0.0.1:38105 took over"
        ),
    ),
    "s15_broker_bounce": (
        Cause.COORDINATOR_LOST,
        Severity.WARNING,
        (
            "task A-1 ran nowhere for 12.9 s: connect-127.0.0.1:38084 could not reach the group's coordinator and"
            " stopped its work; then connect-127.0.0.1:38084 went on"
        ),
    ),
    "s14_failed_tasks_move": (
        Cause.FATAL_ERROR,
        Severity.WARNING,
        (
            "task F-0 ran nowhere for 13.9 s: failed on connect-127.0.0.1:38103; a scheduled delay ran for 5.0 s of it"
            "; no worker has taken over"
        ),
    ),
    "s09_pause_leader": (
        Cause.WORKER_FROZEN,
        Severity.ERROR,
        (
            "connector A ran on connect-127.0.0.1:38103 and connect-127.0.0.1:38105 at once for 0.6 s: "
            "connect-127.0.0.1:38103 had stood still until its session was over, and then went on"
        ),
    ),
    "s12_downgrade_sessioned_eager": (
        Cause.DOWNGRADED,
        Severity.ERROR,
        (
            "task A-0 ran on connect-127.0.0.1:38083 and connect-127.0.0.1:38085 at once for 6.3 s: the group went"
            " back to the eager protocol, which does not tell connect-127.0.0.1:38083 to stop"
        ),
    ),
    "s21_task_ignores_stop": (
        Cause.SLOW_CALLBACK,
        Severity.ERROR,
        (
            "task A-1 ran on connect-127.0.0.1:38083 and connect-127.0.0.1:38085 at once for 4.2 s: "
            "connect-127.0.0.1:38083 was told to stop and could not within task.shutdown.graceful.timeout.ms"
        ),
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.loop(4)
def test_a_finding_says_what_ran_where_for_how_long_and_why(scenarios: Scenarios, name: str) -> None:
    """In Connect's words, with its cause, and the lines that show it."""
    cause, severity, words = SENTENCES[name]
    found = {f.summary: f for f in audited(scenarios[name][0])}
    assert words in found, "\n".join(found)
    assert (found[words].cause, found[words].severity) == (cause, severity)
    assert all(evidence.text.startswith("[2026-") for evidence in found[words].evidence)


def test_the_lines_of_a_delay_are_the_stop_the_round_and_the_start(scenarios: Scenarios) -> None:
    """Who had it last, the round that announced the delay, who has it then."""
    found = {f.summary: f for f in audited(scenarios["s02_leave_info"][0])}
    lines = [evidence.text for evidence in found[SENTENCES["s02_leave_info"][2]].evidence]
    assert [
        (
            "Stopping connector B" in text,
            "Joined group at generation 7" in text,
            "Finished creating connector B" in text,
        )
        for text in lines
    ] == [(True, False, False), (False, True, False), (False, False, True)]


# -- what happens to logs on their way ------------------------------------------------------------------------


STAMP = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.MULTILINE)


def entries(data: bytes) -> list[bytes]:
    """Lines with what continues them."""
    return re.split(rb"(?m)^(?=\[\d{4}-)", data)


def at_info(files: Files) -> dict[str, bytes]:
    """As a worker at INFO would have written them."""
    return {n: b"".join(e for e in entries(d) if b"] DEBUG " not in e[:40]) for n, d in files.items()}


def without(file: str) -> Callable[[Files], dict[str, bytes]]:
    """One worker's log was not collected."""
    return lambda files: {n: d for n, d in files.items() if n != file}


def ends_early(file: str, share: float) -> Callable[[Files], dict[str, bytes]]:
    """One worker's log was collected before the others."""

    def cut(files: Files) -> dict[str, bytes]:
        own = entries(files[file])
        return {**files, file: b"".join(own[: int(len(own) * share)])}

    return cut


def begins_late(file: str, share: float) -> Callable[[Files], dict[str, bytes]]:
    """The beginning of one worker's log is gone."""

    def cut(files: Files) -> dict[str, bytes]:
        own = entries(files[file])
        return {**files, file: b"".join(own[int(len(own) * share) :])}

    return cut


def apart(file: str, by_ms: int) -> Callable[[Files], dict[str, bytes]]:
    """The clock of one worker's host is off."""

    def later(match: re.Match[bytes]) -> bytes:
        when = datetime.fromisoformat(match[1].decode()) + timedelta(milliseconds=int(match[2]) + by_ms)
        return b"[" + when.strftime("%Y-%m-%d %H:%M:%S,").encode() + b"%03d]" % (when.microsecond // 1000)

    return lambda files: {n: STAMP.sub(later, d) if n == file else d for n, d in files.items()}


def thinned(files: Files) -> dict[str, bytes]:
    """A collector that lost one entry in twenty."""
    chance = random.Random(20261121)  # noqa: S311
    return {n: b"".join(e for e in entries(d) if chance.random() >= 0.05) for n, d in sorted(files.items())}


LOST: dict[str, Callable[[Files], dict[str, bytes]]] = {
    "INFO only": at_info,
    "no W1": without("W1.log"),
    "no W2": without("W2.log"),
    "no W3": without("W3.log"),
    "W1 ends early": ends_early("W1.log", 0.6),
    "W2 ends early": ends_early("W2.log", 0.8),
    "W1 begins late": begins_late("W1.log", 0.4),
    "W3 begins late": begins_late("W3.log", 0.7),
    "half a second apart": apart("W2.log", 500),
}


@pytest.mark.parametrize("change", LOST)
@pytest.mark.parametrize("name", ["s11_delay0_leave", "s13_fourth_joins", "s10_config_changes_info"])
@pytest.mark.loop(14)
def test_what_is_missing_makes_no_fault_of_a_quiet_cluster(scenarios: Scenarios, name: str, change: str) -> None:
    """A worker's log that is missing, cut or at INFO gives no finding above info where nothing was wrong."""
    found = audited(LOST[change](scenarios[name][0]))
    assert [f.summary for f in found if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize("change", ["rotated", "merged", "dealt"])
@pytest.mark.parametrize("name", ["s00_quiet", "s06_crash_nonleader", "s21_task_ignores_stop"])
def test_whole_logs_in_other_files_say_nothing_wrong(
    scenarios: Scenarios, transform: ModuleType, tmp_path: Path, name: str, change: str
) -> None:
    """Rotated files give what whole ones give; where all workers share a file, what is above info is right."""
    files, said = scenarios[name]
    found = audited(transform.WHOLE[change](files))
    _, right = verdicts(said, tmp_path)
    assert invented(found, right) == []
    if change == "rotated":
        whole = audited(files)
        assert [(f.kind, f.severity, f.partitions) for f in found if f.kind in ABOUT_WORK] == [
            (f.kind, f.severity, f.partitions) for f in whole if f.kind in ABOUT_WORK
        ]


def test_one_file_of_all_workers_still_tells_by_the_herders_own_lines(
    scenarios: Scenarios, transform: ModuleType, tmp_path: Path
) -> None:
    """Lines about units name no worker: what ran nowhere is found by what the herders were about to do, for info."""
    files, said = scenarios["s07_two_departed_one_back"]
    found = audited(transform.merged(files))
    _, right = verdicts(said, tmp_path)
    about = [f for f in found if f.kind is FindingKind.UNASSIGNED_WORK]
    assert {f.severity for f in about} == {Severity.INFO}
    met = [v for v in right if any(judge.meets(f, v, by_file=False) for f in about)]
    assert len(met) == len([v for v in right if v.kind is FindingKind.UNASSIGNED_WORK]) == 7


def test_info_lines_tell_the_same_delay(scenarios: Scenarios) -> None:
    """Stop, rounds and start are printed at INFO, too: kind, units, cause and length stay."""
    files, _ = scenarios["s07_two_departed_one_back"]
    debug = audited(files)
    info = audited(at_info(files))
    shown = [
        [(f.partitions, f.cause, f.start_ms, f.end_ms) for f in each if f.kind in ABOUT_WORK] for each in (debug, info)
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 3


def test_a_worker_that_stands_still_is_seen_by_its_heartbeats_only(scenarios: Scenarios) -> None:
    """At DEBUG a stop of 3.5 s shows; at INFO the log is silent for want of news, and nothing is said."""
    files, _ = scenarios["s09_pause_short"]
    (found,) = audited(files)
    assert (found.kind, found.cause) == (FindingKind.UNASSIGNED_WORK, Cause.WORKER_FROZEN)
    assert audited(at_info(files)) == []


def test_lines_that_were_lost_show_as_steps_that_the_table_does_not_have(scenarios: Scenarios) -> None:
    """One entry in twenty is gone: steps are missing, and work that ran is not said to be missing for that."""
    found = audited(thinned(scenarios["s19_more_workers_than_tasks"][0]))
    kinds = {f.kind for f in found if f.severity is not Severity.INFO}
    assert kinds == {FindingKind.ILLEGAL_TRANSITION}


@pytest.mark.parametrize("by_ms", [3_000, -3_000])
def test_clocks_that_differ_by_seconds_are_named_as_a_way_to_run_twice(scenarios: Scenarios, by_ms: int) -> None:
    """An orderly exchange between two hosts may look like two owners; the sentence says by how much clocks differ."""
    found = audited(apart("W1.log", by_ms)(scenarios["s13_fourth_joins"][0]))
    twice = [f.summary for f in found if f.kind is FindingKind.RAN_TWICE]
    assert all("or the clocks of their hosts differ by" in text for text in twice)
    assert bool(twice) == (by_ms > 0)
