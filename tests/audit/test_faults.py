"""Every kind of planted fault is found: the kind, the member, the time; whatever happens to the logs on their way."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import faults
import memory
import pytest
import recordings
from scene import NoPlace

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.limits import Limits

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
    recorded = recordings.logs("java") | recordings.logs("librdkafka")
    return {scenario: recorded[scenario] for scenario in BASES}


def audited(logs: Logs, limits: Limits | None = None) -> tuple[list[Finding], dict[str, set[str]]]:
    """The findings, and the members that each file is of."""
    result = memory.audit(logs, limits or Limits())
    members: dict[str, set[str]] = defaultdict(set)
    for (_, _, file, _), key in result.members.items():
        members[file].add(key.member)
    return result.findings, members


def meets(found: Finding, fault: faults.Fault) -> bool:
    """The finding is of an expected kind and of that time."""
    in_time = found.start_ms <= fault.end_ms + SLACK_MS and found.end_ms >= fault.start_ms - SLACK_MS
    return found.kind in fault.expected and in_time


_planted: dict[tuple[str, str, int], faults.Planted | None] = {}


def planted(kind: str, bases: dict[str, Logs], seeds: range = SEEDS) -> list[tuple[str, faults.Planted]]:
    """The faults of a kind in all scenarios that have a place for it."""
    found = []
    for name in BASES:
        for seed in seeds:
            if (kind, name, seed) not in _planted:
                try:
                    _planted[kind, name, seed] = faults.plant(kind, bases[name], seed)
                except NoPlace:
                    _planted[kind, name, seed] = None
            case = _planted[kind, name, seed]
            if case is not None:
                found.append((f"{name} {seed}", case))
    return found


@pytest.mark.parametrize("scenario", BASES)
def test_where_nothing_is_wrong_nothing_is_found(bases, scenario):
    """No finding above info in the logs that faults are planted in, so what is found was planted."""
    found, _ = audited(bases[scenario])
    assert [f.summary for f in found if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        *((kind, range(1)) for number, kind in enumerate(faults.KINDS) if number % 2 == 0),
        *(pytest.param(kind, SEEDS, marks=pytest.mark.deep) for kind in faults.KINDS),
    ],
)
@pytest.mark.loop(10)
def test_every_planted_fault_is_found(bases, kind, seeds):
    """In each scenario that has a place for it, with each seed: an expected kind, its member, its time.

    With one seed in every second scenario.
    """
    cases = planted(kind, bases, seeds)[:: 1 if seeds == SEEDS else 2]
    missed = []
    for name, case in cases:
        found, members = audited(case.logs)
        if not any(meets(f, case.fault) and f.member in members[case.fault.file] for f in found):
            missed.append((name, case.fault, [f.summary for f in found]))
    assert missed == []
    assert len(cases) >= (ONE_SCENARIO if seeds == SEEDS else 1)


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
@pytest.mark.loop(6)
def test_a_fault_is_found_in_rotated_files(bases, transform, kind):
    """Every file in three: nothing is missing between them, so the same is found. In every second scenario."""
    missed = []
    for name, case in planted(kind, bases, range(1))[::2]:
        found, _ = audited(transform.rotated(case.logs))
        if not any(meets(f, case.fault) for f in found):
            missed.append((name, case.fault))
    assert missed == []


@pytest.mark.parametrize("kind", MERGED)
@pytest.mark.loop(6)
def test_a_fault_is_found_in_one_merged_file(bases, transform, kind):
    """All lines of all members by time in one file."""
    missed = []
    for name, case in planted(kind, bases, range(1)):
        if name.split()[0] in NAMED:
            found, _ = audited(transform.merged(case.logs))
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
def test_a_fault_is_found_where_lines_were_dealt_out_to_files(bases, transform, kind):
    """What needs no order within a moment is found whatever file its lines stand in."""
    missed = []
    for name, case in planted(kind, bases, range(1)):
        if name.split()[0] in NAMED:
            found, _ = audited(transform.dealt(case.logs))
            if not any(meets(f, case.fault) for f in found):
                missed.append((name, case.fault))
    assert missed == []


@pytest.mark.parametrize(
    "kind",
    [
        *("next_state_forged", "lines_swapped", "epoch_backwards"),
        *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("steps_swapped", "step_inserted", "revoke_repeated")),
    ],
)
def test_a_fault_is_found_in_half_a_log(bases, transform, kind):
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
        found, _ = audited(half)
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
def test_thresholds_decide_what_is_too_long(bases, kind, wider):
    """With the user's threshold above the fault it is none any more; with the default it is."""
    case = faults.plant(kind, bases["j02_second_joins"], 0)
    usual, _ = audited(case.logs)
    patient, _ = audited(case.logs, replace(Limits(), **wider))
    assert any(meets(f, case.fault) for f in usual)
    assert not any(meets(f, case.fault) for f in patient)


def test_clocks_that_differ_are_named(bases):
    """Where each exchange of two members overlaps by the same time, the finding says how far clocks are apart.

    The exchange itself takes some time, which the difference of the clocks hides.
    """
    case = faults.plant("clock_behind", bases["j02_second_joins"], 0)
    found, _ = audited(case.logs)
    (double,) = (f for f in found if f.kind is FindingKind.DOUBLE_OWNERSHIP)
    overlap_ms = double.end_ms - double.start_ms
    assert f"or the clocks of their hosts differ by {overlap_ms / 1000:.1f} s or more" in double.summary
    assert overlap_ms <= int(case.fault.what.split()[2]) <= overlap_ms + 1000
