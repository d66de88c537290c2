"""Machines of one's own tables in virtual time: what happens to them, what is watched, what is told and made small."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from fsm import document
from fsm.check import check, compose
from fsm.cli import main
from fsm.errors import InputError
from fsm.simulate import Truth, read, read_file, simulate
from fsm.simulate.fleet import Fleet, run_seeds
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.machines.run import MachinesRun
from fsm.simulate.shrink import Shrink
from fsm.simulate.variants import vary
from fsm.simulate.writing import write_machines

TUTORIAL = Path(__file__).parents[2] / "fsm" / "simulate" / "tutorial"
CROSSING = (TUTORIAL / "crossing.yaml").read_text()
PING = """
fsm: 1
name: ping
states: {IDLE: waits for its time, ASKING: waits for an answer}
events: {RANG: its time has come, PONG: it is answered}
effects: {PING: asks}
initial: IDLE
rows:
  - {states: [IDLE], events: [RANG], steps: [ASKING, PING]}
  - {states: [ASKING], events: [PONG], steps: [IDLE]}
"""
PONG = """
fsm: 1
name: pong
states: {READY: answers}
events: {PING: is asked}
effects: {PONG: answers}
initial: READY
terminal: [READY]
rows:
  - {states: [READY], events: [PING], steps: [PONG]}
"""
PYTHON = """
from fsm import Symbol, Table, row

class State(Symbol):
    READY = "Answers."

class Event(Symbol):
    PING = "Is asked."

class Effect(Symbol):
    PONG = "Answers."

S, E, F = State, Event, Effect
TABLE = Table(name="pong", initial=S.READY, terminal=S.READY, effects=F, rows=(row(S.READY, E.PING, F.PONG),))
"""
GAME = """
deployment: game
lasts: 10m
machines:
  ping: {table: ping.yaml, happens: {RANG: 10s..10s}%s}
  pong: {table: pong.yaml}
network: {least: 100ms, median: 100ms, p99: 100ms, most: 100ms%s}
%s
"""


def game(folder: Path, part: str = "", network: str = "", more: str = "") -> Machines:
    """One that asks every ten seconds, of one that answers."""
    (folder / "ping.yaml").write_text(PING)
    (folder / "pong.yaml").write_text(PONG)
    found = read(GAME % (part, network, more), str(folder / "game.yaml"), folder)
    assert isinstance(found, Machines)
    return found


def crossing(text: str = CROSSING) -> Machines:
    found = read(text, "crossing.yaml", TUTORIAL)
    assert isinstance(found, Machines)
    return found


def mended(**changes: str) -> Machines:
    text = CROSSING.replace("signal.yaml", "mended.yaml")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return crossing(text)


def test_what_is_measured_of_a_calm_game_can_be_told_in_advance(tmp_path: Path) -> None:
    """A round takes ten seconds and two messages of 100 ms: 58 of them in ten minutes."""
    outcome = simulate(game(tmp_path), 1)
    assert (
        outcome.totals()
        == {
            "ping.transitions": 116,
            "ping.messages": 58,
            "ping.lost": 0,
            "ping.IDLE_ms": 600_000 - 58 * 200,
            "ping.ASKING_ms": 58 * 200,
            "pong.transitions": 58,
            "pong.messages": 58,
            "pong.lost": 0,
            "pong.READY_ms": 600_000,
        }
        or outcome.totals()
    )
    assert outcome.violations == []
    for group in outcome.groups:
        assert {name: sum(values) for name, values in group.series.items()} == group.totals


def test_a_machine_may_be_in_a_table_inside_a_state(tmp_path: Path) -> None:
    """A place that holds others is taken by whoever is in one of them; the time is told of each by itself."""
    grammar = document.__doc__ or ""
    (tmp_path / "door.yaml").write_text("    fsm: 1" + grammar.partition("    fsm: 1")[2].partition("A row without")[0])
    text = """
deployment: doors
lasts: 1h
machines:
  door: {table: door.yaml, count: 20, happens: {PUSHED: 20s, PULLED: 10s, KICKED: 10h}}
never: [[door.OPEN, door.OPEN, door.OPEN], [door.BROKEN, door.BROKEN]]
"""
    found = read(text, "doors.yaml", tmp_path)
    outcome = simulate(found, 1)
    totals = outcome.totals()
    assert totals["door.AJAR_ms"] > totals["door.WIDE_ms"] > 0
    assert sum(value for name, value in totals.items() if name.endswith("_ms")) == 20 * 3_600_000
    first, *_ = (violation for _, violation in outcome.violations)
    assert first.what == "never door.OPEN,door.OPEN,door.OPEN"
    named = first.detail.partition(" (")[0].split(", ")
    assert [one.split()[1] in ("AJAR", "WIDE") for one in named] == [True] * 3


def test_many_are_answered_each_by_itself(tmp_path: Path) -> None:
    """A hundred that ask at once are answered, and none gets the answer to another."""
    outcome = simulate(game(tmp_path, ", count: 100"), 1)
    assert outcome.violations == []
    assert outcome.totals()["pong.messages"] == outcome.totals()["pong.transitions"] == 5_800


@pytest.mark.parametrize(
    ("fault", "asking_s", "away_s"),
    [
        ("{at: 10s150ms, crash: ping, for: 60s}", None, 60),
        ("{at: 10s150ms, restart: ping, for: 60s}", None, 60),
        ("{at: 10s150ms, pause: ping, for: 60s}", 60, 0),
        ("{at: 9s, pause: ping, for: 60s}", 0, 0),
        ("{at: 9s, cut: pong, for: 60s}", 590, 0),
        ("{at: 9s, lose: 100%, for: 60s}", 590, 0),
        ("{at: 5s, event: ping.RANG}", 0, 0),
    ],
)
def test_what_is_done_to_machines(tmp_path: Path, fault: str, asking_s: int | None, away_s: int) -> None:
    """One that crashes forgets, one that restarts remembers; who stands still is told later; what is lost is lost."""
    run = simulate(game(tmp_path, more=f"faults: [{fault}]"), 1)
    totals = run.totals()
    assert totals.get("ping.AWAY_ms", 0) == away_s * 1_000
    if asking_s is not None:
        assert abs(totals["ping.ASKING_ms"] - asking_s * 1_000) < 12_000
    stuck = [violation.what for _, violation in run.violations]
    if "restart" in fault or "cut" in fault or "lose" in fault:  # it asks no more, and nobody answers
        assert stuck == ["nothing can happen any more"]
    else:
        assert stuck == []
        assert totals["ping.transitions"] > 90


def test_a_message_that_is_doubled_arrives_twice(tmp_path: Path) -> None:
    """Every one: the answer comes again, where nothing was asked."""
    outcome = simulate(game(tmp_path, network=", duplicates: 100%"), 1)
    (violated,) = [violation for _, violation in outcome.violations]
    assert violated.what.startswith("ping: PONG is illegal in IDLE")
    assert violated.at_ms == 10_300
    assert violated.detail.endswith("times)")


def test_messages_keep_their_order_unless_the_network_reorders() -> None:
    """The mended crossing lives by it: with duplicates or without order it can fail, and in order it does not."""
    hasty = {
        "lasts: 1d": "lasts: 3h",
        "loses: 1%": "loses: 10%",
        "median: 20ms": "median: 900ms",
        "LATE: 2s..2s": "LATE: 100ms..100ms",
    }
    for seed in range(4):
        assert simulate(mended(**hasty), seed).violations == []
    reordering = hasty | {"loses: 1%": "loses: 10%, reorders: yes"}
    assert any(simulate(mended(**reordering), seed).violations for seed in range(4))


def test_the_checker_and_a_run_know_the_same_of_a_deployment() -> None:
    """The tables of the tutorial: what the checker finds some seed finds, and what it proves no seed refutes."""
    broken, whole = crossing(), mended()
    assert check(compose(broken.exchange.roles, broken.never, broken.goal)).word == "violated"
    assert (
        check(compose(whole.exchange.roles, whole.never, whole.goal), disturb=["lose"], disturbances=2).word == "holds"
    )
    fleet = Fleet.of(run_seeds(broken, range(30, 37)))
    assert fleet.violations == {"never signal.GREEN,barrier.UP": 2}
    assert Fleet.of(run_seeds(whole, range(30, 37))).failures == 0


def test_a_goal_that_is_not_reached_when_all_goes_well_is_told() -> None:
    """A signal that does not ask again waits for good once a message is lost."""
    text = CROSSING.replace("LATE: 2s..2s", "LATE: never").replace("loses: 1%", "loses: 20%")
    outcome = simulate(crossing(text), 1)
    assert "nothing can happen any more" in {violation.what for _, violation in outcome.violations}
    asked = crossing(CROSSING.replace("goal: [signal.GREEN]", "goal: [signal.GREEN, barrier.UP]"))
    assert "signal.GREEN,barrier.UP is not reached" in {one.what for _, one in simulate(asked, 1).violations}


def test_a_seed_gives_the_same_bytes_and_another_one_others() -> None:
    """Chance is the seed's alone."""
    first, again, other = (json.dumps(simulate(crossing(), seed).as_document()) for seed in (3, 3, 4))
    assert first == again != other


def test_a_fault_that_is_taken_out_changes_nothing_before_it() -> None:
    """Each chance goes by what it is for."""
    with_it = MachinesRun(crossing(), 1)
    with_it.begin([])
    with_it.run(3_600_000)
    faulty = MachinesRun(
        crossing(CROSSING.replace("{every: 2h, restart: any, for: 1s..60s}", "{at: 40m, crash: any}")), 1
    )
    faulty.begin(faulty.deployment.deeds)
    faulty.run(3_600_000)
    before = [one for one in with_it.happened if one[0] < 2_400_000]
    assert before == [one for one in faulty.happened if one[0] < 2_400_000]
    assert len(before) > 5


def test_a_run_that_fails_is_made_small_and_fails_still(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a day three events are left: a train, the signal that gives up, another train. The mended table bears them."""
    search = Shrink(crossing(), 32)
    found = search.run()
    assert isinstance(found, Machines)
    assert [deed.target for deed in found.deeds] == ["signal.TRAIN", "signal.LATE", "signal.TRAIN"]
    assert (found.loses, found.is_scripted, found.goal) == (0.0, True, "")
    assert read(write_machines(found, TUTORIAL), "again", TUTORIAL) == found
    for name in ("signal", "mended", "barrier", "crossing"):
        shutil.copy(TUTORIAL / f"{name}.yaml", tmp_path)
    out = tmp_path / "out"
    assert main(["simulate", str(tmp_path / "crossing.yaml"), "--seed", "32", "--shrink", "-o", str(out)]) == 1
    shrunk = out / "shrunk.yaml"
    assert "table: ../signal.yaml" in shrunk.read_text()
    assert main(["simulate", str(shrunk)]) == 1
    capsys.readouterr()
    assert main(["replay", str(shrunk)]) == 1
    printed = capsys.readouterr().out
    assert "event signal.LATE" in printed
    assert "violated: expected [], got [signal at " in printed
    assert main(["replay", str(shrunk), "--dialect", "4.0"]) == 2
    shrunk.write_text(shrunk.read_text().replace("signal.yaml", "mended.yaml"))
    assert main(["simulate", str(shrunk)]) == 0


def test_machines_that_matter_not_are_left_out(tmp_path: Path) -> None:
    """Of five that ask one is left; what happens to it happens to it under its new name."""
    given = game(tmp_path, ", count: 5", ", duplicates: 100%")
    found = Shrink(given, 1).run()
    assert isinstance(found, Machines)
    assert found.parts[0].count == 1
    assert {deed.target for deed in found.deeds} == {"ping.RANG"}


def test_fleets_come_to_the_same_in_a_loop_and_in_processes(tmp_path: Path) -> None:
    """Tables of files are sent to processes as documents."""
    given = game(tmp_path, ", count: 3", ", loses: 1%")
    assert pickle.loads(pickle.dumps(given)) == given  # noqa: S301  # our own
    alone = Fleet.of(run_seeds(given, range(1, 4)))
    assert Fleet.of(run_seeds(given, range(1, 4), jobs=2)).as_document() == alone.as_document()
    assert alone.measures["ping.messages"].most > 20


def test_a_trace_has_every_transition() -> None:
    """As records of the machine, with what it ordered."""
    truth = Truth()
    outcome = simulate(crossing(), 1, truth=truth)
    first = truth.records[0]
    assert (first.machine, first.state, first.event, first.next_state) == ("signal", "RED", "TRAIN", "WAITING")
    assert first.effects == ("LOWER",)
    totals = outcome.totals()
    assert len(truth.records) == totals["signal.transitions"] + totals["barrier.transitions"]


def test_the_command_draws_compares_and_takes_tables_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, JSON, a picture, a trace, two tables side by side; two files without a deployment."""
    monkeypatch.chdir(TUTORIAL)
    assert main(["simulate", "crossing.yaml", "-o", str(tmp_path), "--trace", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "metrics.json").read_text())
    picture = (tmp_path / "picture.svg").read_text()
    assert "time in GREEN" in picture
    assert 'class="violated"' not in picture
    assert (tmp_path / "trace.jsonl").read_text().count("\n") == document["totals"]["signal.transitions"] + document[
        "totals"
    ]["barrier.transitions"]
    assert json.loads((tmp_path / "truth.json").read_text())["faults"][0]["restart"] in ("signal", "barrier")
    assert main(["simulate", "crossing.yaml", "--seed", "32", "-o", str(tmp_path / "32")]) == 1
    picture = (tmp_path / "32" / "picture.svg").read_text()
    assert ">violated</text>" in picture
    assert picture.count('class="violated"') == picture.count('class="head"') + 1
    capsys.readouterr()
    assert main(["simulate", "crossing.yaml", "--compare", "signal=mended.yaml", "loses=5%", "-o", str(tmp_path)]) == 0
    assert "time in LIFTING" in capsys.readouterr().out
    assert main(["simulate", "crossing.yaml", "--compare", "loses=1%", "loses=5%", "--seeds", "1-2"]) == 0
    tables = ["simulate", "signal.yaml", "--with", "barrier.yaml", "--lasts", "5h"]
    assert main([*tables, "--never", "signal.GREEN,barrier.UP", "--goal", "signal.GREEN"]) in (0, 1)
    assert "5h of virtual time, seed 0; machines: signal, barrier" in capsys.readouterr().out
    assert main(["check", "crossing.yaml"]) == 1
    assert "broken: never signal.GREEN,barrier.UP, after 0 disturbances (!) and 6 steps" in capsys.readouterr().out


def test_a_memo_of_a_deployment_hears_of_a_table_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of the deployment is the same; what it names is not."""
    for name in ("signal", "mended", "barrier", "crossing"):
        shutil.copy(TUTORIAL / f"{name}.yaml", tmp_path)
    command = ["check", str(tmp_path / "crossing.yaml"), "--memo", str(tmp_path / "memo")]
    assert main(command) == 1
    shutil.copy(tmp_path / "mended.yaml", tmp_path / "signal.yaml")
    assert main(command) == 0
    capsys.readouterr()


GOOD = """
deployment: crossing
lasts: 1h
machines:
  signal:
    table: signal.yaml
    happens: {TRAIN: 5m, PASSED: 20s..60s, LATE: 2s..2s}
  barrier: {table: barrier.yaml, count: 2}
network: {least: 5ms, loses: 1%}
never: [signal.GREEN, barrier.UP]
goal: [signal.GREEN]
faults:
- {every: 2h, restart: any, for: 1s..60s}
- {at: 5m, event: signal.TRAIN}
- {at: 6m, crash: barrier-1, for: 5s}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("lasts: 1h", "lasst: 1h", 3, "unknown key 'lasst'; did you mean lasts?"),
        ("table: signal.yaml", "tabel: signal.yaml", 6, "unknown key 'tabel'; did you mean table?"),
        ("TRAIN: 5m", "TRIAN: 5m", 7, "signal has no event 'TRIAN'; did you mean TRAIN?"),
        ("TRAIN: 5m", "TRAIN: soon", 7, "'soon' is not a duration"),
        ("TRAIN: 5m", "TRAIN: 0s", 7, "too short"),
        ("20s..60s", "60s..20s", 7, "is descending"),
        ("lasts: 1h\nmachines:", "lasts: 366d\nmachines:", 7, "more than 1,000,000,000 events"),
        ("20s..60s", "0s..0s", 7, "must not be 0"),
        (", LATE: 2s..2s", "", 6, "nothing sends signal.LATE"),
        ("LATE: 2s..2s", "LATE: 2s, LOWERED: 1s", 7, "signal.LOWERED is sent by another machine"),
        ("count: 2", "count: 0", 8, "0 is not a count from 1 to 100,000"),
        ("count: 2", "count: 999999", 8, "999999 is not a count from 1 to 100,000"),
        ("loses: 1%", "loses: 101%", 9, "is not a share"),
        ("GREEN, barrier.UP]", "GREEN, barrier.UPP]", 10, "no such place: 'barrier.UPP'; did you mean UP?"),
        ("[signal.GREEN, barrier.UP]", "[signla.GREEN]", 10, "did you mean signal?"),
        ("goal: [signal.GREEN]", "goal: [signal.GREEEN]", 11, "did you mean GREEN?"),
        ("restart: any", "restart: signall", 13, "no machine 'signall'; did you mean signal?"),
        ("{every: 2h, ", "{", 13, "needs either at or every"),
        ("restart: any", "resart: any", 13, "unknown key 'resart'; did you mean restart?"),
        ("event: signal.TRAIN", "event: signal.LOWERED", 14, "'LOWERED' does not come to signal from outside"),
        ("at: 5m", "at: 5h", 14, "is after the end of the run, 1h"),
        ("crash: barrier-1", "crash: barrier-7", 15, "no machine 'barrier-7'; did you mean barrier-1?"),
        ("never: [signal.GREEN, barrier.UP]", "never: []", 10, "names no state"),
        ("goal: [signal.GREEN]", "goal: signal.GREEN", 11, "must be a list"),
        ("[signal.GREEN, barrier.UP]", "[barrier.UP, barrier.UP, barrier.UP]", 10, "3 times; there are 2 machines"),
        ("  barrier: {table: barrier.yaml, count: 2}", "  barrier: barrier.yaml", 8, "must be a mapping"),
        ("deployment: crossing", "deployment: crossing\nchance: 7", 3, "its seed is for version '7' of the random"),
        ("table: barrier.yaml", "table: barier.yaml", None, "barier.yaml: cannot be read"),
        ("table: barrier.yaml", "table: consumer-membr", 8, "did you mean consumer-member"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, line: int | None, message: str) -> None:
    """One line that names the place, and the nearest name where there is one."""
    assert old in GOOD
    read(GOOD, "crossing.yaml", TUTORIAL)
    wrong = GOOD.replace(old, new, 1)
    if "366d" in new:
        wrong = wrong.replace("LATE: 2s..2s", "LATE: 1ms..2ms")
    with pytest.raises(InputError) as found:
        read(wrong, "crossing.yaml", TUTORIAL)
    assert message in str(found.value)
    assert line is None or str(found.value).startswith(f"crossing.yaml:{line}:")


def test_timers_of_states_that_are_over_do_not_pile_up(tmp_path: Path) -> None:
    """A door that is moved each second, and each time might be kicked in within a year; who stands still is told."""
    (tmp_path / "door.yaml").write_text(
        PING.replace("PONG: it is answered", "PONG: it is answered, KICKED: it breaks")
        .replace("name: ping", "name: door")
        .replace("effects: {PING: asks}\n", "")
        .replace("steps: [ASKING, PING]", "steps: [ASKING]")
        + "  - {states: [IDLE, ASKING], events: [KICKED], steps: [IDLE]}\n"
    )
    text = """
deployment: door
lasts: 12h
machines:
  door: {table: door.yaml, happens: {RANG: 1s..1s, PONG: 1s..1s, KICKED: 366d..366d}}
"""
    found = read(text, "doors.yaml", tmp_path)
    assert isinstance(found, Machines)
    run = MachinesRun(found, 1)
    run.begin([])
    run.run(found.lasts_ms)
    assert run.measures["door"].series()["door.transitions"] == [359] + [360] * 119
    assert len(run._queue) < 5_000
    still = read(text.replace("PONG: 1s..1s", "PONG: never").replace("366d..366d", "never"), "doors.yaml", tmp_path)
    (violated,) = [violation for _, violation in simulate(still, 1).violations]
    assert (violated.what, violated.at_ms) == ("nothing can happen any more", 1_000)


def test_an_event_of_one_role_at_named_times_is_not_sent_to_another(tmp_path: Path) -> None:
    """Two roles of one table: each has to say where its events come from."""
    both = GAME % ("", "", "plans: [{at: 1m, event: ping.RANG}]")
    game(tmp_path)
    text = both.replace("happens: {RANG: 10s..10s}", "happens: {}").replace(
        "  pong:", "  other: {table: ping.yaml}\n  pong:"
    )
    with pytest.raises(InputError, match=r"game.yaml:6: nothing sends other.RANG"):
        read(text, "game.yaml", tmp_path)


def test_what_cannot_be_asked_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit status 2, one line."""
    monkeypatch.chdir(TUTORIAL)
    (tmp_path / "lift.py").write_text("TABLE = 1\n")
    for given, message in (
        (["crossing.yaml", "--with", "barrier.yaml"], "--with is for tables"),
        (["crossing.yaml", "--never", "barrier.UP"], "--never is for tables"),
        (["signal.yaml", "--with", "signal.yaml"], "two tables have the same name"),
        (["signal.yaml", "--with", "barrier.yaml", "--never", "barier.UP"], "did you mean barrier?"),
        (["signal.yaml", "--lasts", "long"], "'long' is not a duration"),
        (["crossing.yaml", "--compare", "loses=1%", "signal=barrier.yaml"], "did you mean"),
        (["crossing.yaml", "--compare", "loses=1%", "4.0"], "unknown variant '4.0'"),
        (["crossing.yaml", "--compare", "loses=1%", "loses=many"], "is not a share"),
        (["crossing.yaml", "--logs", "info", "-o", str(tmp_path / "out")], "is for Kafka's clients"),
        (["none.yaml"], "cannot be read"),
        (["none.py:TABLE"], "cannot be run"),
        ([str(tmp_path / "lift.py")], "lift.py: a Python file may have several tables; name one: "),
    ):
        assert main(["simulate", *given]) == 2, given
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        if message != "did you mean":
            assert message in error
    assert [one.name for one in tmp_path.iterdir()] == ["lift.py"]
    assert main(["check", "crossing.yaml", "--goal", "signal.GREEN"]) == 2


def test_vary_keeps_what_it_is_not_told_of() -> None:
    """Another network is the same deployment else."""
    assert vary(crossing(), "loses=1%") == crossing()
    assert read_file(TUTORIAL / "crossing.yaml").name == "crossing"


def test_a_table_of_a_python_file_takes_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a deployment, in processes, in a run that is made small and written from another folder."""
    (tmp_path / "ping.yaml").write_text(PING)
    (tmp_path / "pong.py").write_text(PYTHON)
    text = GAME % ("", ", duplicates: 100%", "")
    (tmp_path / "game.yaml").write_text(text.replace("pong.yaml", "pong.py:TABLE"))
    path = str(tmp_path / "game.yaml")
    assert main(["simulate", path]) == 1
    assert main(["simulate", path, "--seeds", "1-2", "--jobs", "2"]) == 1
    assert main(["simulate", path, "--shrink", "-o", str(tmp_path / "out")]) == 1
    assert "'../pong.py:TABLE'" in (tmp_path / "out" / "shrunk.yaml").read_text()
    assert main(["simulate", str(tmp_path / "out" / "shrunk.yaml")]) == 1
    assert capsys.readouterr().out.count("PONG is illegal in IDLE") >= 4
