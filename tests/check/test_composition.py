"""Tables that work together: what one orders is what happens to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.check import check, compose
from fsm.cli import main
from fsm.document import from_yaml
from fsm.errors import InputError
from fsm.table import Table

DOOR = """
fsm: 1
name: door
states: {SHUT: nobody can pass, OPEN: one can pass}
events: {PUSHED: somebody pushed, STOPPED: the lift stands}
effects: {CALL: the lift is called}
initial: SHUT
rows:
  - {states: [SHUT], events: [PUSHED], steps: [CALL]}
  - {states: [SHUT], events: [STOPPED], steps: [OPEN]}
  - {states: [OPEN], events: [PUSHED], steps: [SHUT]}
  - {states: [OPEN], events: [STOPPED], why: it is open}
"""
LIFT = """
fsm: 1
name: lift
states: {STANDING: at a floor, MOVING: between floors}
events: {CALL: somebody waits, ARRIVED: at the floor}
effects: {STOPPED: tells the door}
initial: STANDING
rows:
  - {states: [STANDING], events: [CALL], steps: [MOVING]}
  - {states: [MOVING], events: [ARRIVED], steps: [STANDING, STOPPED]}
  - {states: [MOVING], events: [CALL], why: it is on its way}
"""


def tables() -> list[Table]:
    return [from_yaml(DOOR, "door.yaml"), from_yaml(LIFT, "lift.yaml")]


def test_what_may_not_be_at_once_is_found() -> None:
    """The door was pushed twice, so the lift is called away while it opens."""
    (found,) = check(compose(tables(), ["door.OPEN,lift.MOVING"])).violations
    assert found.property == "never door.OPEN,lift.MOVING"
    assert found.path[-1].state in ({"lift": "MOVING"}, {"door": "OPEN"})
    assert len(found.path) == 6


def test_a_place_that_can_always_be_reached() -> None:
    assert check(compose(tables(), goal="door.OPEN,lift.STANDING"), every=True).word == "holds"
    lost = check(compose(tables(), goal="door.OPEN"), disturb=["lose"], disturbances=1, every=True)
    assert lost.word == "holds"  # one can push again


def test_an_event_where_the_table_has_no_cell_is_a_violation() -> None:
    """The line that ignored it is gone."""
    door = from_yaml(DOOR.replace("  - {states: [OPEN], events: [STOPPED], why: it is open}\n", ""), "door.yaml")
    (found,) = check(compose([door, tables()[1]])).violations
    assert found.property.startswith("door: STOPPED is illegal in OPEN")


@pytest.mark.parametrize("place", ["door.AJAR", "lid.OPEN", "OPEN", ""])
def test_a_place_that_there_is_not_is_refused(place: str) -> None:
    with pytest.raises(InputError, match="no such place"):
        compose(tables(), [place])


def test_two_tables_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two tables have one name"):
        compose([*tables(), *tables()])


def test_the_command_takes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("door", DOOR), ("lift", LIFT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    files = [str(tmp_path / "door.yaml"), "--with", str(tmp_path / "lift.yaml")]
    assert main(["check", *files]) == 0
    assert main(["check", *files, "--never", "door.OPEN,lift.MOVING"]) == 1
    assert "broken: never door.OPEN,lift.MOVING, after 0 disturbances (!) and 6 steps" in capsys.readouterr().out
