"""Recorded leaders against the assignor, recorded bytes against the codec, recorded logs against their observer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_rounds import RecordedRound, differences, rounds_of
from recordings import opened

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.local import audit_files
from fsm.connect.protocol import decode_assignment, decode_metadata, encode_assignment, encode_metadata

ARCHIVE = Path(__file__).parent / "recordings.tar.xz"
BYTES = re.compile(r"(?:(?P<join>metadata)|assignment)=\[(?P<bytes>-?\d[^\]]*)\]")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connect")
    with opened(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def led(recordings: Path) -> dict[str, list[RecordedRound]]:
    """The rounds of each worker that led some, by scenario and worker."""
    logs = {f"{p.parent.name}/{p.stem}": p.read_text("utf-8", "replace") for p in sorted(recordings.glob("*/W*.log"))}
    found = {name: list(rounds_of(text.splitlines(keepends=True))) for name, text in logs.items()}
    return {name: rounds for name, rounds in found.items() if rounds}


def test_every_round_of_recorded_leaders_comes_out(led: dict[str, list[RecordedRound]]) -> None:
    """What leaders of 4.3.1 assigned, revoked and delayed is what the assignor gives; none is left out."""
    rounds = [r for each in led.values() for r in each]
    assert (sum(not r.is_eager for r in rounds), sum(r.is_eager for r in rounds)) == (90, 10)
    assert {name: found for name, each in led.items() if (found := list(differences(each)))} == {}


def test_another_clock_memory_or_order_is_noticed(led: dict[str, list[RecordedRound]]) -> None:
    """The comparison can fail: a slow clock, a forgotten generation, members in another order."""
    cooperative = [r for each in led.values() for r in each if not r.is_eager]
    assert any(r.history_dropped for r in cooperative)
    changes = {
        "half a second later": lambda r: replace(r, now_ms=r.now_ms + 500 * (r.generation % 2)),
        "never completed": lambda r: replace(r, last_completed_generation=-1),
        "members backwards": lambda r: replace(r, received=dict(reversed(r.received.items()))),
        "nothing configured": lambda r: replace(r, configured=frozenset()),
    }
    for what, change in changes.items():
        assert any(list(differences([change(r) for r in each])) for each in led.values()), what


def test_recorded_bytes_are_read_and_written_alike(recordings: Path) -> None:
    """Metadata and assignments of real workers survive being read and written, byte by byte, in every version."""
    seen: dict[bytes, bool] = {}
    for path in sorted(recordings.glob("*/W*.log")):
        for line in path.read_text("utf-8", "replace").splitlines():
            if "Sending JoinGroup" in line or "SyncGroupRequestAssignment" in line:
                for match in BYTES.finditer(line):
                    data = bytes(int(number) & 255 for number in match["bytes"].split(","))
                    seen[data] = match["join"] is not None
    for data, is_metadata in seen.items():
        version = int.from_bytes(data[:2], "big")
        if is_metadata:
            assert encode_metadata(decode_metadata(data), version) == data
        else:
            assert encode_assignment(decode_assignment(data), version) == data
    assert len(seen) > 400
    assert {int.from_bytes(data[:2], "big") for data in seen} == {0, 1, 2}


# ------------------------------------------------------------------------------------------------- the audit


Verdict = tuple[FindingKind, float, float, tuple[str, int]]


SURE_S, DOUBTFUL_S = 2.4, 1.6
"""A unit that ran nowhere for longer than the first must be found, for longer than the second it may be."""


def verdicts(scenario: dict[str, Any], least_s: float) -> Iterator[Verdict]:
    """What the connector itself saw: units on two workers, and on none for longer than this."""
    for one in scenario["ran_twice_at_once"]:
        yield FindingKind.RAN_TWICE, one["frm"], one["to"], unit(one["unit"])
    for one in scenario["not_running"]:
        if one["seconds"] > least_s and "by user" not in one["why"]:
            yield FindingKind.UNASSIGNED_WORK, one["frm"], one["to"], unit(one["unit"])


def unit(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)-(\d+)", text)
    return (match[1], int(match[2])) if match else (text, -1)


def meets(found: Finding, verdict: Verdict, begin: float) -> bool:
    kind, start, end, which = verdict
    overlap = found.start_ms / 1000 < begin + end + 1.5 and found.end_ms / 1000 > begin + start - 1.5
    return found.kind is kind and which in found.partitions and overlap


@pytest.fixture(scope="module")
def audited(recordings: Path) -> dict[str, tuple[dict[str, Any], list[Finding]]]:
    document = {s["scenario"]: s for s in json.loads((recordings / "verdicts.json").read_text())}
    return {
        name: (scenario, audit_files(sorted((recordings / name).glob("W*.log"))).findings)
        for name, scenario in document.items()
    }


def test_what_ran_twice_or_nowhere_is_found(audited: dict[str, tuple[dict[str, Any], list[Finding]]]) -> None:
    """Every verdict of the observer inside the connector has its finding, and every such finding its verdict."""
    missed, invented, right = [], [], 0
    for name, (scenario, found) in audited.items():
        begin, wanted = scenario["begin"], list(verdicts(scenario, SURE_S))
        judged = [f for f in found if f.kind in {FindingKind.RAN_TWICE, FindingKind.UNASSIGNED_WORK}]
        right += sum(any(meets(f, v, begin) for f in judged) for v in wanted)
        missed += [(name, v) for v in wanted if not any(meets(f, v, begin) for f in judged)]
        end_ms = (begin + scenario["duration"]) * 1000 - 300
        allowed = list(verdicts(scenario, DOUBTFUL_S))
        unasked = [f for f in judged if f.start_ms < end_ms and not any(meets(f, v, begin) for v in allowed)]
        invented += [(name, f.summary) for f in unasked]
    assert (right, missed, invented) == (36, [], [])


def test_other_kinds_are_found_where_they_happened(audited: dict[str, tuple[dict[str, Any], list[Finding]]]) -> None:
    """Tasks that ignore their stop, a worker that cannot read the config topic; no alarm above info without cause."""
    kinds = {
        name: {f.kind.value for f in found if f.severity is not Severity.INFO} for name, (_, found) in audited.items()
    }
    assert kinds["s21_task_ignores_stop"] == {"task_zombie", "ran_twice"}
    assert kinds["s24_catchup_timeout"] == {"config_lag"}
    assert kinds["s12_downgrade_compatible_eager"] == {"ran_twice"}
    assert kinds["s12_eager"] == set()
    assert kinds["s17_pause_info"] == set()


def test_a_zombie_is_shown_with_its_lines(audited: dict[str, tuple[dict[str, Any], list[Finding]]]) -> None:
    """The finding names the task as (connector, number) and shows the stop and its failure."""
    zombies = [f for f in audited["s21_task_ignores_stop"][1] if f.kind is FindingKind.TASK_ZOMBIE]
    assert sorted(f.partitions for f in zombies) == [(("A", 0),), (("A", 1),)]
    assert [("Stopping task A-" in e.text, "Graceful stop" in e.text) for e in zombies[0].evidence] == [
        (True, False),
        (False, True),
    ]
    assert "was told to stop and had not stopped 3.0 s later" in zombies[0].summary
