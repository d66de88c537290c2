"""Deployments as YAML: what is written reads the same, and what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulate_scene import FAULTS, HEAD, SERVICES, deployment

from fsm.cli import main
from fsm.errors import InputError
from fsm.simulate import Machines, read, simulate, write
from fsm.simulate.deployment import expand

GOOD = HEAD.format(lasts="12m", loses="0.1%") + SERVICES["mixed"] + FAULTS


@pytest.mark.parametrize("kind", SERVICES)
def test_what_is_written_reads_the_same(kind: str) -> None:
    """Every key there and back."""
    given = deployment(kind)
    assert read(write(given), "again") == given


def test_plans_are_spread_over_processes_and_rates_over_time() -> None:
    """A rolling restart takes one process after the other; a fault at a rate is drawn by the seed."""
    given = deployment("consumer")
    deeds = expand(given, 1)
    restarts = [(deed.at_ms, deed.target) for deed in deeds if deed.what == "restart"]
    assert restarts == [(120_000, "a-0"), (135_000, "a-1"), (150_000, "a-2")]
    pauses = [deed for deed in deeds if deed.what == "pause"]
    assert 1 <= len(pauses) <= 12
    assert all(1_000 <= deed.for_ms <= 20_000 and deed.target in ("a-0", "a-1", "a-2") for deed in pauses)
    assert expand(given, 2) != deeds == expand(given, 1)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("lasts: 12m", "lasts: 12 minutes", 3, "'12 minutes' is not a duration"),
        ("lasts: 12m", "lasts: 0s", 3, "too short"),
        ("lasts: 12m", "lasts: 12m\nchance: 0", 4, "its seed is for version '0' of the random numbers, not 1"),
        ("lasts: 12m", "lasts: 12m\nseed: -1", 4, "a seed is 0 or more"),
        ("orders: 12", "orders: 0", 4, "0 is not a count from 1 to 1,000,000"),
        ("orders: 12", "orders: many", 4, "'many' is not a whole number"),
        ("loses: 0.1%", "loses: 120%", 8, "is not a share"),
        ("median: 3ms", "median: 50ms", 8, "are not ascending"),
        ("processes: 2}", "proceses: 2}", 10, "did you mean processes?"),
        ("topics: [orders], processes", "topics: [odrers], processes", 10, "did you mean orders?"),
        ("protocol: classic", "protocol: classical", 11, "did you mean classic?"),
        ("cooperative-sticky", "coop-sticky", 11, "did you mean cooperative-sticky?"),
        ("crash: a-1", "crash: a-7", 16, "no 'a-7' to crash; did you mean a-1?"),
        ("{at: 3m10s, crash", "{crash", 16, "needs either at or every"),
        ("crash: a-1, away: 20s", "crash: a-1, away: 1s..20s", 16, "a range needs every"),
        ("at: 3m10s", "at: 3h", 16, "is after the end of the run, 12m"),
        ("fail_over: brokers", "fail_over: b7", 17, "choose from b1, b2, brokers"),
        ("partitions: 16", "partitions: 6", 14, "orders has 12 partitions"),
        ("{at: 8m, lose: 5%", "{at: 8m, loose: 5%", 20, "unknown key 'loose'"),
        ("for: 1s..20s", "for: 20s..1s", 21, "is descending"),
        ("every: 2m", "every: 1ms", 21, "1ms is too short; 100ms to 366d"),
        ("  b2: {}", "  b2: {release: 3.9}", 7, "unknown coordinator dialect"),
        ("group.initial.rebalance.delay.ms", "group.initial.delay.ms", 6, "did you mean group.initial.rebalance"),
        ("processes: 2, starts", "settings: {session.timeout.ms: 100000000000}, starts", 11, "session_timeout_ms"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, line: int, message: str) -> None:
    """One line that names the place, and the nearest name where there is one."""
    assert old in GOOD
    with pytest.raises(InputError) as found:
        read(GOOD.replace(old, new, 1), "shop.yaml")
    assert message in str(found.value)
    assert str(found.value).startswith(f"shop.yaml:{line}:")


def test_a_bad_file_ends_the_command_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2; no traceback."""
    path = tmp_path / "shop.yaml"
    path.write_text(GOOD.replace("crash: a-1", "crash: a-9"))
    assert main(["simulate", str(path)]) == 2
    assert capsys.readouterr().err == f"fsm: {path}:16: no 'a-9' to crash; did you mean a-1?\n"
    assert main(["simulate", str(tmp_path / "none.yaml")]) == 2


SHOWN = (Path(__file__).parents[2] / "fsm" / "simulate" / "README.md").read_text().split("```yaml\n")[1:]


def test_the_deployment_of_the_readme_reads() -> None:
    """Every key and deed that it shows."""
    shown = SHOWN[0].partition("```")[0]
    found = read(shown, "README.md")
    assert read(write(found), "again") == found
    assert {deed.what for deed in expand(found, 1)} == {"restart", "upgrade", "grow", "crash", "pause"}
    assert [service.group for service in found.services.values()] == ["checkout", "billing", "checkout", "pipes"]


def test_the_machines_of_the_readme_run(tmp_path: Path) -> None:
    """With two tables of which one has the places that are named there, and the other moves."""
    (tmp_path / "door.yaml").write_text(DOOR)
    (tmp_path / "lift.py").write_text(LIFT)
    found = read(SHOWN[1].partition("```")[0], "README.md", tmp_path)
    assert isinstance(found, Machines)
    totals = simulate(found, 1).totals()
    assert totals["lift.MOVING_ms"] > 0
    assert totals["door.OPEN_ms"] > 0


DOOR = """
fsm: 1
name: door
states: {OPEN: one may go in, SHUT: nobody may}
events: {PUSHED: somebody pushes it}
initial: SHUT
rows:
- {states: [SHUT], events: [PUSHED], steps: [OPEN]}
- {states: [OPEN], events: [PUSHED], steps: [SHUT]}
"""
LIFT = """
from fsm import Symbol, Table, row


class State(Symbol):
    MOVING = "Between two floors."
    THERE = "At a floor."


class Event(Symbol):
    ARRIVED = "It has come to a floor, or to the next one."


TABLE = Table(
    name="lift",
    initial=State.THERE,
    rows=(row(State.THERE, Event.ARRIVED, State.MOVING), row(State.MOVING, Event.ARRIVED, State.THERE)),
)
"""
