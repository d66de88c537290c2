"""Every kind of planted fault is found: the kind, the member, the time; whatever happens to the logs on their way."""

from __future__ import annotations

import sys
import tarfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import faults
from scene import NoPlace

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.limits import Limits
from fsm.audit.local import Options, audit_files

DATA = Path(__file__).parents[1] / "data"
JAVA = ("i_j02_second_joins", "i_j16_subchange", "j02_second_joins", "w_j02_second_joins")
CLASSIC = ("json_info_x01_coop_second", "i_x01_range_second", "x01_range_second", "x01_coop_second")
RDKAFKA = ("c02_two", "k_c12_more_than_parts")
BASES = JAVA + CLASSIC + RDKAFKA
"""Scenarios in which nothing was wrong: each client and protocol, three layouts, with and without debug lines."""
SEEDS = range(3)
SLACK_MS = 1500
ONE_SCENARIO = 3
"""The least that every kind must find a place for, with all bases and seeds."""

Logs = dict[str, bytes]


@pytest.fixture(scope="module")
def bases() -> dict[str, Logs]:
    """The logs of the base scenarios."""
    found: dict[str, Logs] = defaultdict(dict)
    for archive in ("java-logs.tar.xz", "librdkafka-logs.tar.xz"):
        with tarfile.open(DATA / archive) as packed:
            for item in packed:
                scenario, _, name = item.name.partition("/")
                if scenario in BASES and name.endswith(".log") and name != "broker.log":
                    found[scenario][name] = packed.extractfile(item).read()
    return dict(found)


def write(logs: Logs, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, data in logs.items():
        (folder / name).write_bytes(data)


def audited(logs: Logs, folder: Path, limits: Limits | None = None) -> tuple[list[Finding], dict[str, set[str]]]:
    """The findings, and the members that each file is of."""
    write(logs, folder)
    result = audit_files(folder.iterdir(), Options(limits=limits or Limits()))
    members: dict[str, set[str]] = defaultdict(set)
    for (_, _, file), key in result.members.items():
        members[Path(file).name].add(key.member)
    return result.findings, members


def meets(found: Finding, fault: faults.Fault) -> bool:
    """The finding is of an expected kind and of that time."""
    in_time = found.start_ms <= fault.end_ms + SLACK_MS and found.end_ms >= fault.start_ms - SLACK_MS
    return found.kind in fault.expected and in_time


def planted(kind: str, bases: dict[str, Logs], seeds: range = SEEDS) -> list[tuple[str, faults.Planted]]:
    """The faults of a kind in all scenarios that have a place for it."""
    found = []
    for name in BASES:
        for seed in seeds:
            try:
                found.append((f"{name} {seed}", faults.plant(kind, bases[name], seed)))
            except NoPlace:
                continue
    return found


@pytest.mark.parametrize("scenario", BASES)
def test_where_nothing_is_wrong_nothing_is_found(bases, tmp_path, scenario):
    """No finding above info in the logs that faults are planted in, so what is found was planted."""
    found, _ = audited(bases[scenario], tmp_path / "logs")
    assert [f.summary for f in found if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize("kind", faults.KINDS)
def test_every_planted_fault_is_found(bases, tmp_path, kind):
    """In each scenario that has a place for it, with each seed: an expected kind, its member, its time."""
    cases = planted(kind, bases)
    missed = []
    for name, case in cases:
        found, members = audited(case.logs, tmp_path / "logs")
        if not any(meets(f, case.fault) and f.member in members[case.fault.file] for f in found):
            missed.append((name, case.fault, [f.summary for f in found]))
    assert missed == []
    assert len(cases) >= ONE_SCENARIO


def test_there_are_more_than_twenty_kinds_in_every_family(bases):
    """Each kind says what it expects; both clients and both protocols have a place for twenty of them."""
    assert len(faults.KINDS) >= 30
    for family in (JAVA, CLASSIC, RDKAFKA):
        placed = {
            kind for kind in faults.KINDS for name, _ in planted(kind, bases, range(1)) if name.split()[0] in family
        }
        assert len(placed) >= 20


def test_a_seed_gives_the_same_fault(bases):
    """The same kind, logs and seed give the same bytes; other seeds give other faults."""
    logs = bases["j02_second_joins"]
    assert faults.plant("step_dropped", logs, 7) == faults.plant("step_dropped", logs, 7)
    assert len({faults.plant("step_dropped", logs, seed).fault.what for seed in range(12)}) > 3


def test_a_fault_changes_the_logs(bases):
    """Whatever is planted, the files are not what they were."""
    for kind in faults.KINDS:
        for name, case in planted(kind, bases, range(1)):
            assert case.logs != bases[name.split()[0]]


# -- on their way -------------------------------------------------------------------------------------------

ROTATED = sorted(faults.KINDS.keys() - {"clock_jumped_back"})
"""Where a clock jumps over the end of a file, nothing tells a rotation from lines that were dealt out."""
MERGED = sorted(faults.KINDS.keys() - {"lines_swapped", "clock_jumped_back"})
"""A collector that sorts by time puts right what stood in the wrong order."""
NAMED = ("j02_second_joins", "x01_range_second", "c02_two")
"""Scenarios in which every process has a client id of its own, so that one file tells them apart."""


@pytest.mark.parametrize("kind", ROTATED)
def test_a_fault_is_found_in_rotated_files(bases, transform, tmp_path, kind):
    """Every file in three: nothing is missing between them, so the same is found."""
    missed = []
    for name, case in planted(kind, bases, range(1)):
        found, _ = audited(transform.rotated(case.logs), tmp_path / "logs")
        if not any(meets(f, case.fault) for f in found):
            missed.append((name, case.fault))
    assert missed == []


@pytest.mark.parametrize("kind", MERGED)
def test_a_fault_is_found_in_one_merged_file(bases, transform, tmp_path, kind):
    """All lines of all members by time in one file."""
    missed = []
    for name, case in planted(kind, bases, range(1)):
        if name.split()[0] in NAMED:
            found, _ = audited(transform.merged(case.logs), tmp_path / "logs")
            if not any(meets(f, case.fault) for f in found):
                missed.append((name, case.fault))
    assert missed == []


@pytest.mark.parametrize(
    "kind",
    [
        "clock_behind",
        "epoch_backwards",
        "fatal_lived_on",
        "fenced_twice",
        "foreign_step",
        "heartbeats_removed",
        "identity_forged",
        "listener_failed",
        "lost_inserted",
        "previous_state_forged",
        "rebalance_storm",
        "stuck",
    ],
)
def test_a_fault_is_found_where_lines_were_dealt_out_to_files(bases, transform, tmp_path, kind):
    """What needs no order within a moment is found whatever file its lines stand in."""
    missed = []
    for name, case in planted(kind, bases, range(1)):
        if name.split()[0] in NAMED:
            found, _ = audited(transform.dealt(case.logs), tmp_path / "logs")
            if not any(meets(f, case.fault) for f in found):
                missed.append((name, case.fault))
    assert missed == []


@pytest.mark.parametrize(
    "kind",
    ["next_state_forged", "steps_swapped", "lines_swapped", "step_inserted", "epoch_backwards", "revoke_repeated"],
)
def test_a_fault_is_found_in_half_a_log(bases, transform, tmp_path, kind):
    """The half that has the fault is enough."""
    missed, cut = [], 0
    for name, case in planted(kind, bases):
        times = [t for data in case.logs.values() for e in transform.entries(data) if (t := transform.when_ms(e))]
        middle_ms = (min(times) + max(times)) / 2
        if case.fault.start_ms - SLACK_MS > middle_ms:
            half = transform.first_half_dropped(case.logs)
        elif case.fault.end_ms + SLACK_MS < middle_ms:
            half = transform.last_half_dropped(case.logs)
        else:
            continue
        cut += 1
        found, _ = audited(half, tmp_path / "logs")
        if not any(meets(f, case.fault) for f in found):
            missed.append((name, case.fault))
    assert missed == []
    assert cut >= ONE_SCENARIO


# -- thresholds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wider"),
    [
        ("double_assigned", {"tolerance_ms": 4500}),
        ("double_assigned", {"clock_skew_ms": 4500}),
        ("clock_behind", {"clock_skew_ms": 10_000}),
        ("clock_ahead", {"unowned_ms": 10_000}),
        ("fenced_twice", {"window_ms": 2000}),
        ("rebalance_storm", {"storm_turns": 100}),
    ],
)
def test_thresholds_decide_what_is_too_long(bases, tmp_path, kind, wider):
    """With the user's threshold above the fault it is none any more; with the default it is."""
    case = faults.plant(kind, bases["j02_second_joins"], 0)
    usual, _ = audited(case.logs, tmp_path / "logs")
    patient, _ = audited(case.logs, tmp_path / "logs", replace(Limits(), **wider))
    assert any(meets(f, case.fault) for f in usual)
    assert not any(meets(f, case.fault) for f in patient)


def test_clocks_that_differ_are_named(bases, tmp_path):
    """Where each exchange of two members overlaps by the same time, the finding says how far clocks are apart.

    The exchange itself takes some time, which the difference of the clocks hides.
    """
    case = faults.plant("clock_behind", bases["j02_second_joins"], 0)
    found, _ = audited(case.logs, tmp_path / "logs")
    (double,) = (f for f in found if f.kind is FindingKind.DOUBLE_OWNERSHIP)
    overlap_ms = double.end_ms - double.start_ms
    assert f"or the clocks of their hosts differ by {overlap_ms / 1000:.1f} s or more" in double.summary
    assert overlap_ms <= int(case.fault.what.split()[2]) <= overlap_ms + 1000
