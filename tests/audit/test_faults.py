"""Faults planted into quiet recordings: every kind is found, about the right member, at the right time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import recordings
from faults import KINDS, Planted, plant
from scene import NoPlace

from fsm.audit.findings import Finding, Severity
from fsm.audit.local import audit_files

BASES = ("java.j02_second_joins", "java.x01_coop_second", "librdkafka.c02_two", "librdkafka.k_x01_coop_rolling")
"""One quiet recording of each client and protocol."""
SEEDS = range(2)
SLACK_MS = 1500
NOT_ALWAYS = frozenset({"clock_ahead", "clock_behind", "epoch_backwards", "poll_expired"})
"""Kinds that these short recordings do not always tell: they are planted, and found in some of them only."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The logs of each base by file name."""
    roots = recordings.unpacked(recordings.DATA, tmp_path_factory.mktemp("recordings"))
    found = {s.name: {log.name: log.read_bytes() for log in s.logs} for s in recordings.scenarios(roots)}
    return {name: found[name] for name in BASES}


def audited(logs: dict[str, bytes], folder: Path) -> list[Finding]:
    """All findings. What is told of a member whose log just ends is info."""
    folder.mkdir()
    for name, data in logs.items():
        (folder / name).write_bytes(data)
    return audit_files(folder.iterdir()).findings


def tells(one: Finding, planted: Planted) -> bool:
    """True where the finding is about the fault."""
    fault = planted.fault
    in_time = one.start_ms - SLACK_MS <= fault.end_ms and one.end_ms + SLACK_MS >= fault.start_ms
    shown = any(Path(line.file).name == fault.file for line in one.evidence)
    return one.kind in fault.expected and in_time and shown


@pytest.mark.parametrize("name", BASES)
def test_the_base_is_quiet(bases: dict[str, dict[str, bytes]], name: str, tmp_path: Path) -> None:
    """The untouched recordings give no finding above info."""
    found = audited(bases[name], tmp_path / "logs")
    assert [one for one in found if one.severity is not Severity.INFO] == []


def test_there_are_twenty_kinds() -> None:
    """The generator knows at least twenty kinds of fault that are always found."""
    assert len(KINDS.keys() - NOT_ALWAYS) >= 20


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - NOT_ALWAYS))
def test_every_fault_is_found(bases: dict[str, dict[str, bytes]], kind: str, tmp_path: Path) -> None:
    """Wherever a fault of this kind can be planted it is found."""
    missed, tried = [], 0
    for name, logs in bases.items():
        for seed in SEEDS:
            try:
                planted = plant(kind, logs, seed)
            except NoPlace:
                continue
            tried += 1
            found = audited(planted.logs, tmp_path / f"{name}-{seed}")
            if not any(tells(one, planted) for one in found):
                missed.append((name, seed, planted.fault, [(one.kind.value, one.summary) for one in found]))
    assert tried
    assert missed == []
