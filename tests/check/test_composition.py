"""Tables that work together: what one orders is what happens to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.check import check, compose
from fsm.cli import main
from fsm.document import from_yaml
from fsm.errors import InputError
from fsm.exchange import Role
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
    with pytest.raises(InputError, match="two tables have the same name"):
        compose([*tables(), *tables()])


def test_the_command_takes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("door", DOOR), ("lift", LIFT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    files = [str(tmp_path / "door.yaml"), "--with", str(tmp_path / "lift.yaml")]
    assert main(["check", *files]) == 0
    assert main(["check", *files, "--never", "door.OPEN,lift.MOVING"]) == 1
    assert "broken: never door.OPEN,lift.MOVING, after 0 disturbances (!) and 6 steps" in capsys.readouterr().out


CLIENT = """
fsm: 1
name: client
states: {OUT: has no lock, ASKING: waits for it, IN: has it}
events: {WANTED: it wants the lock, DONE: it is through, GRANTED: it is given the lock, BUSY: another one has it}
effects: {ASKED: asks for the lock, FREED: gives it back}
initial: OUT
rows:
  - {states: [OUT], events: [WANTED], steps: [ASKING, ASKED]}
  - {states: [ASKING], events: [GRANTED], steps: [IN]}
  - {states: [ASKING], events: [BUSY], steps: [OUT]}
  - {states: [IN], events: [DONE], steps: [OUT, FREED]}
"""
LOCK = """
fsm: 1
name: lock
states: {FREE: nobody has it, TAKEN: somebody does}
events: {ASKED: somebody wants it, FREED: it is given back}
effects: {GRANTED: gives it, BUSY: says that it is taken}
initial: FREE
rows:
  - {states: [FREE], events: [ASKED], steps: [TAKEN, GRANTED]}
  - {states: [TAKEN], events: [ASKED], steps: [BUSY]}
  - {states: [TAKEN], events: [FREED], steps: [FREE]}
"""


def clients(count: int) -> list[Table | Role]:
    return [from_yaml(LOCK, "lock.yaml"), Role("client", from_yaml(CLIENT, "client.yaml"), count)]


def test_who_asked_is_answered_and_nobody_else() -> None:
    """Of three clients one has the lock; were all of them told, two would have it, or be told where they do not ask."""
    model = compose(clients(3), ["client.IN,client.IN"], "lock.FREE,client.OUT")
    assert check(model, every=True).word == "holds"
    assert [(wire.sender, wire.receiver) for wire in model.wires][:3] == [
        ("lock", "client-0"),
        ("lock", "client-1"),
        ("lock", "client-2"),
    ]


def test_machines_of_one_table_tell_each_other() -> None:
    """What one of them orders all others hear; alone it hears nothing of itself."""
    text = """
fsm: 1
name: node
states: {ASLEEP: does nothing, AWAKE: runs}
events: {RANG: its clock rings, CALLED: another one woke up}
effects: {CALLED: wakes the others}
initial: ASLEEP
rows:
  - {states: [ASLEEP], events: [RANG], steps: [AWAKE, CALLED]}
  - {states: [ASLEEP], events: [CALLED], steps: [AWAKE]}
  - {states: [AWAKE], events: [CALLED], why: it is awake}
  - {states: [AWAKE], events: [RANG], steps: [ASLEEP]}
"""
    node = from_yaml(text, "node.yaml")
    assert [(wire.sender, wire.receiver) for wire in compose([node]).wires] == []
    three = compose([Role("node", node, 3)], ["node-1.AWAKE,node-2.AWAKE"])
    assert len(three.wires) == 6
    (found,) = check(three).violations
    assert len(found.path) == 2


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("client.IN,client.IN,client.IN", "3 times; there are 2 machines"),
        ("client-2.IN", "did you mean client"),
        ("client.INN", "did you mean IN?"),
        ("clint.IN", "did you mean client?"),
    ],
)
def test_a_place_of_several_machines_that_there_is_not_is_refused(place: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        compose(clients(2), [place])
    assert message in str(refused.value)


PYTHON = """
from fsm import Symbol, Table, row

class State(Symbol):
    STANDING, MOVING = "At a floor.", "Between floors."

class Event(Symbol):
    CALL, ARRIVED = "Somebody waits.", "At the floor."

class Effect(Symbol):
    STOPPED = "Tells the door."

TABLE = Table(name="lift", initial=State.STANDING, effects=Effect, rows=(
    row(State.STANDING, Event.CALL, State.MOVING),
    row(State.MOVING, Event.ARRIVED, State.STANDING, Effect.STOPPED),
    row(State.MOVING, Event.CALL),
))
NUMBER = 7
"""


def test_a_table_of_a_python_file_goes_wherever_one_of_yaml_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To check, to draw, to print; what is no table is told."""
    (tmp_path / "door.yaml").write_text(DOOR)
    (tmp_path / "lift.py").write_text(PYTHON)
    lift = f"{tmp_path / 'lift.py'}:TABLE"
    never = ["--never", "door.OPEN,lift.MOVING"]
    assert main(["check", str(tmp_path / "door.yaml"), "--with", lift, *never]) == 1
    assert main(["check", lift, "--with", str(tmp_path / "door.yaml"), *never]) == 1
    assert capsys.readouterr().out.count("and 6 steps") == 2
    assert main(["tables", lift]) == 0
    assert main(["draw", lift, "-o", str(tmp_path / "out"), "--format", "mermaid"]) == 0
    assert (tmp_path / "out" / "lift.mmd").exists()
    capsys.readouterr()
    for name, message in (("NUMBER", "NUMBER is not a Table"), ("NONE", "NONE is not defined")):
        for command in (["tables"], ["simulate"], ["draw", "-o", str(tmp_path)]):
            assert main([*command, f"{tmp_path / 'lift.py'}:{name}"]) == 2
            assert f"{message}; choose from TABLE (Table)" in capsys.readouterr().err
    assert main(["tables", f"{tmp_path / 'none.py'}:TABLE"]) == 2
    assert "cannot be run" in capsys.readouterr().err


def test_mutants_of_tables_of_files_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables that are changed are those that the model is made of: a lift that never stops is noticed."""
    (tmp_path / "door.yaml").write_text(DOOR)
    (tmp_path / "lift.yaml").write_text(LIFT)
    files = [str(tmp_path / "door.yaml"), "--with", str(tmp_path / "lift.yaml"), "--goal", "door.OPEN"]
    assert main(["check", *files, "--mutate", "drop,lose,target"]) == 1
    printed = capsys.readouterr().out
    assert "killed    drop:lift.MOVING.CALL by 'lift: CALL is illegal in MOVING" in printed
    assert "killed    lose:lift.MOVING.ARRIVED:STOPPED by 'door.OPEN can be reached'" in printed
