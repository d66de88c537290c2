"""What a type checker sees of the installed wheel: tables, bound models, which enum is whose, transports."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from fsm.cli import main

ROOT = Path(__file__).parents[1]
HEAD = """
from fsm import Symbol, Table, bind, row
from fsm.member import ClassicConfig, ClassicTransport, Consumer, ConsumerConfig, Transport
from fsm.protocol.assignment import TopicNames
from fsm.protocol.messages import TransportFailure
from fsm.testing import ScriptedClassicCoordinator, ScriptedCoordinator
from fsm.tables import consumer_member_notes as notes
from fsm.tables.models import AsyncConsumerMemberNotesModel, ConsumerMemberNotesModel

class State(Symbol):
    OUT = "Not a member."
    IN = "A member."

class Event(Symbol):
    JOINED = "Let in."
    LEFT = "Gone."

class Effect(Symbol):
    SEND = "Send a heartbeat."

TABLE = Table(name="t", initial=State.OUT, effects=Effect, rows=(
    row(State.OUT, Event.JOINED, State.IN, Effect.SEND),
    row(State.IN, Event.LEFT, State.OUT),
))

class Prototype(ConsumerMemberNotesModel):
    def on_effect(self, effect: notes.Effect) -> None: ...

class Waiting(AsyncConsumerMemberNotesModel):
    async def on_effect(self, effect: notes.Effect) -> None: ...

p, w = Prototype(), Waiting()
machine = bind(notes.TABLE, p)
async def main() -> bool: return await w.subscribed()

transport: Transport = ScriptedCoordinator(["t"])
classic: ClassicTransport = ScriptedClassicCoordinator({"t": 1})
def names(learnt: TopicNames | TransportFailure) -> None: ...
"""
RIGHT = (
    "target: State = TABLE.compiled[State.OUT, Event.JOINED].target",
    "effects: tuple[Effect, ...] = TABLE.compiled.by_state[State.OUT][Event.JOINED].effects",
    "shipped: notes.State = notes.TABLE.compiled[notes.State.JOINING, notes.Event.JOIN_HEARTBEAT_SENT].target",
    "anything: Table = TABLE",
    "came: bool = p.subscribed()",
    "state: notes.State = p.state",
    "p.trigger(notes.Event.SUBSCRIBED)",
    "machine.dispatch(notes.Event.SUBSCRIBED)",
    "Consumer(ConsumerConfig('g'), transport, member_id='M', trace='run.jsonl')",
    "Consumer(ClassicConfig('g'), classic)",
    "transport.update_metadata(names)",
)
WRONG = (
    "TABLE.compiled[Event.JOINED, State.OUT]",
    "TABLE.compiled[State.OUT, State.OUT]",
    "TABLE.compiled[notes.State.JOINING, Event.JOINED]",
    "TABLE.compiled.by_state[Event.JOINED]",
    "wrong: Event = TABLE.compiled[State.OUT, Event.JOINED].target",
    "notes.TABLE.compiled[notes.Event.JOIN_HEARTBEAT_SENT, notes.State.JOINING]",
    "p.subscirbed()",
    "other: State = p.state",
    "p.trigger(Event.JOINED)",
    "machine.dispatch(Event.JOINED)",
    "bind(notes.TABLE, Prototype(), initial=State.OUT)",
    "Consumer(ConsumerConfig('g'), classic)",
    "Consumer(ClassicConfig('g'), classic, member_id='M')",
    "Consumer(ConsumerConfig('g'), object())",
    "transport.send('a heartbeat', print)",
    "classic.update_metadata(names)",
)


def test_tables_and_bound_models_are_typed(tmp_path: Path) -> None:
    """In strict mode every right line passes, and every wrong one is an error."""
    assert_typed(tmp_path, ROOT, "--cache-dir", str(ROOT / ".mypy_cache"))


@pytest.mark.deep
def test_they_are_typed_in_an_installed_wheel(tmp_path: Path) -> None:
    """It says so itself, and brings its stubs."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = ("--python-executable", str(tmp_path / "venv/bin/python"))
    assert_typed(tmp_path, tmp_path, "--cache-dir", str(tmp_path / "cache"), *python)


def assert_typed(folder: Path, where: Path, *options: str) -> None:
    """What mypy says of a program in the folder, run where it finds `fsm`, is what the lines above are to give."""
    file = folder / "user.py"
    file.write_text("\n".join((*HEAD.splitlines(), *RIGHT, *WRONG, "")))
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *options, str(file)]
    done = subprocess.run(mypy, check=False, cwd=where, capture_output=True, text=True)
    assert not done.stderr
    first = len(HEAD.splitlines()) + len(RIGHT) + 1
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert found == set(range(first, first + len(WRONG))), done.stdout


def test_the_stub_of_ones_own_table_is_typed(tmp_path: Path, capsys: object) -> None:
    """Its symbols are in no module that could be imported."""
    (tmp_path / "door.yaml").write_text(
        "{fsm: 1, name: door, states: {SHUT: s, OPEN: o}, terminal: [OPEN], events: {PUSHED: p}, initial: SHUT,"
        " rows: [{states: [SHUT], events: [PUSHED], steps: [OPEN]}]}"
    )
    rows = "rows = (row(State.UP, Event.CALLED, State.DOWN),)"
    table = 'TABLE = Table(name="lift", initial=State.UP, terminal=(State.DOWN,), rows=rows)'
    symbols = 'class State(Symbol):\n    UP = "u"\n    DOWN = "d"\nclass Event(Symbol):\n    CALLED = "c"'
    (tmp_path / "lift.py").write_text(f"from fsm import Symbol, Table, row\n{symbols}\n{rows}\n{table}\n")
    for own in ("door.yaml", "lift.py:TABLE"):
        assert main(["tables", str(tmp_path / own), "--format", "stub"]) == 0
        (tmp_path / "stub.pyi").write_text(capsys.readouterr().out)  # type: ignore[attr-defined]
        mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(tmp_path / "stub.pyi")]
        done = subprocess.run(mypy, check=False, cwd=ROOT, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("", "")


def test_the_stubs_of_models_are_those_of_the_tables(capsys: object) -> None:
    """`fsm/tables/models.pyi` is what `fsm tables --format stub` prints."""
    assert main(["tables", "--format", "stub"]) == 0
    assert capsys.readouterr().out == (ROOT / "fsm/tables/models.pyi").read_text("utf-8")  # type: ignore[attr-defined]
