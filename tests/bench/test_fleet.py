"""The benchmark's input: recorded logs under fresh names mean what the recorded logs mean."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fleet
import recordings

from fsm.audit.findings import Finding
from fsm.audit.local import audit_files

pytestmark = pytest.mark.deep

SOME = ("c06_maxpoll", "k_x03_coop_maxpoll", "j09_kill9", "spring_j07_maxpoll", "r01_java_rdk")
"""Both clients, both protocols, Spring, and a group of both clients."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[recordings.Scenario]:
    """All recorded scenarios."""
    roots = recordings.unpacked(recordings.DATA, tmp_path_factory.mktemp("recorded"))
    return list(recordings.scenarios(roots))


@pytest.fixture(scope="module")
def some(recorded: list[recordings.Scenario]) -> list[recordings.Scenario]:
    """The scenarios of `SOME`."""
    return [scenario for scenario in recorded if scenario.folder.name in SOME]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.log")}


def kinds(findings: Iterable[Finding], group: str = "") -> Counter[tuple[str, ...]]:
    """What was found, how bad and about how much, in the group or in all."""
    return Counter(
        (one.kind, one.severity, one.cause, str(len(one.partitions)))
        for one in findings
        if group in ("", one.group.partition(".")[0])
    )


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path, some: list[recordings.Scenario]) -> None:
    """Two fleets of one mix are equal, and the sizes are those of the files."""
    one, two = fleet.write(some, 2, tmp_path / "one"), fleet.write(some, 2, tmp_path / "two")
    written = contents(one.folder)
    assert written == contents(two.folder)
    assert one.files == len(written)
    assert one.lines == sum(data.count(b"\n") for data in written.values()) == two.lines
    assert one.groups == 2 * len(some)


def test_every_placing_has_the_findings_of_the_recording(tmp_path: Path, some: list[recordings.Scenario]) -> None:
    """Audited together, each of the copies gives what its scenario gives alone: no group meets another."""
    assert sorted(scenario.folder.name for scenario in some) == sorted(SOME)
    copies = 3
    found = audit_files(fleet.write(some, copies, tmp_path).folder.rglob("*.log")).findings
    for number, scenario in enumerate(some * copies):
        alone = kinds(audit_files(scenario.logs).findings)
        assert alone, scenario.name
        assert kinds(found, f"r{number}") == alone, scenario.name
    assert len(found) == copies * sum(len(audit_files(scenario.logs).findings) for scenario in some)


def test_a_mix_has_the_lines_asked_for(recorded: list[recordings.Scenario]) -> None:
    """A mix ends with the scenario that fills it, begins like a longer one, and takes all before any twice."""
    size = {scenario.name: sum(log.read_bytes().count(b"\n") for log in scenario.logs) for scenario in recorded}
    few, many = fleet.mix(recorded, 20_000), fleet.mix(recorded, sum(size.values()) + 20_000)
    lines = [size[scenario.name] for scenario in few]
    assert sum(lines[:-1]) < 20_000 <= sum(lines)
    assert many[: len(few)] == few
    assert {scenario.name for scenario in many[: len(recorded)]} == set(size)
    assert len(many) > len(recorded)


def test_an_application_says_nine_lines_in_ten(tmp_path: Path, some: list[recordings.Scenario]) -> None:
    """In each layout: the client's lines stay, in their order, and what the application says changes no finding."""
    one = some[:1]
    alone = kinds(audit_files(log for scenario in one for log in scenario.logs).findings)
    for layout in fleet.CHATTER:
        made = fleet.write(one, 1, tmp_path / layout, 9, layout)
        data = b"".join(contents(made.folder).values())
        count = len(re.findall(rb"Order \d+ was stored", data))
        assert 0.85 * made.lines < count < 0.91 * made.lines
        assert kinds(audit_files(made.folder.rglob("*.log")).findings) == alone
