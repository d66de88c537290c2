"""Counterexamples as files: walked again by `fsm replay`, and audited as a fleet's logs are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsm.check import Walk, make_model
from fsm.cli import main
from fsm.errors import LocalProtocolError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a check of late requests wrote its counterexamples."""
    found = tmp_path_factory.mktemp("check")
    assert main(["check", "consumer-group", "--disturb", "late", "--every", "-o", str(found)]) == 1
    return found


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["replay", *arguments])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


@pytest.mark.deep
def test_a_counterexample_goes_as_it_was_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(folder.glob("*.yaml"))
    assert len(paths) >= 3
    status, printed = replayed(capsys, *map(str, paths))
    assert status == 0
    assert "they do the same" in printed
    assert "broken: no partition has two users" in printed


def test_a_late_message_is_drawn_as_held_up(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not as lost: it arrives in a later step, which names the step in which it was sent."""
    picture = tmp_path / "late.mmd"
    path = folder / "1-members-use-only-assigned-partitions.yaml"
    assert replayed(capsys, str(path), "--quiet", "--picture", str(picture))[0] == 0
    lines = [line.strip() for line in picture.read_text().splitlines()]
    assert [line for line in lines if "late" in line] == [
        "Note over L0,L2: 5: late on the way from a to broker (late): joins, owns nothing",
        "L0--)L2: late on its way: joins, owns nothing",
        "Note over L0,L2: 11: broker receives from a, late: joins, owns nothing",
        "L0->>L2: late, of step 5: joins, owns nothing",
    ]


@pytest.mark.parametrize(
    "asked",
    [
        ("classic-group", "--members", "3", "--max-size", "2", "--property", "a join phase waits for somebody"),
        ("mixed-group", "--disturb", "expire", "--property", "a group that is gone is gone from the log"),
        pytest.param(
            ("connect", "--settled", "--disturb", "config,crash", "--disturbances", "2"), marks=pytest.mark.deep
        ),
    ],
    ids=lambda asked: asked[0],
)
@pytest.mark.loop(1)
def test_so_does_one_of_each_model(asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all options of the model, those that were not given, too."""
    assert main(["check", *asked, "-o", str(tmp_path)]) == 1
    (path,) = tmp_path.glob("*.yaml")
    status, printed = replayed(capsys, str(path))
    assert (status, "they do the same" in printed) == (0, True)


@pytest.mark.parametrize("asked", [("two-phase-commit", "--disturb", "lose"), ("lock", "--disturb", "expire")])
def test_so_does_one_of_each_example(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *asked, "-o", str(tmp_path)]) == 1
    (path,) = tmp_path.glob("*.yaml")
    assert replayed(capsys, str(path))[0] == 0


@pytest.mark.deep
def test_another_dialect_parts_from_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4.3.1 takes the same path; a client that is mended does not come as far."""
    path = str(next(folder.glob("*-two-users.yaml")))
    assert replayed(capsys, path, "--dialect", "4.3.1", "--quiet")[0] == 0
    status, printed = replayed(capsys, path, "--dialect", "fixed", "--quiet")
    assert status == 1
    assert "refused: expected none, got no such step here; possible:" in printed


def test_an_audit_sees_what_the_checker_found(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The trace of the live members, at times that their timers allow, has two owners of a partition."""
    trace = next(folder.glob("*-two-users.trace.jsonl"))
    verdict = json.loads((folder / "verdict.json").read_text())
    violations = next(one for one in verdict["violations"] if one["property"] == "no partition has two users")
    assert violations["times_ms"] == sorted(violations["times_ms"])
    assert len(violations["times_ms"]) == violations["steps"]
    capsys.readouterr()
    status = main(["audit", "--format", "trace", "--master", "none", "-o", str(tmp_path / "audit"), str(trace)])
    assert status == 1
    assert "double_ownership" in capsys.readouterr().out


DOOR = """
fsm: 1
name: door
states: {SHUT: s, OPEN: o}
events: {PUSHED: p, CALLED: c}
effects: {CALLED: c}
initial: SHUT
rows:
  - {states: [SHUT], events: [PUSHED], steps: [OPEN, CALLED]}
  - {states: [OPEN], events: [PUSHED], steps: [SHUT]}
  - {states: [SHUT, OPEN], events: [CALLED], why: it hears itself}
"""
LIFT = DOOR.replace("name: door", "name: lift")
LIFTS = """
deployment: lifts
lasts: 1m
machines: {door: {table: door.yaml, happens: {PUSHED: 1s}}, lift: {table: lift.yaml, happens: {PUSHED: 1s}}}
never: [door.OPEN, lift.OPEN]
"""
MODEL = """
from fsm.check import Choice, Component, Model, Property, Step

one = Component("one", 0, lambda s: [Choice("goes")], lambda s, _: Step((s + 1) % 4), {"at": lambda s: s})
MODEL = Model("mine", [one], properties=[Property("below two", lambda view: view.of("one", "at") < 2)])
"""


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (("door.yaml", "--with", "lift.yaml", "--never", "door.OPEN,lift.OPEN"), 2),
        (("lifts.yaml",), 2),
        (("mine.py:MODEL",), 2),
    ],
)
def test_a_counterexample_of_ones_own_goes_as_it_was_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    steps: int,
) -> None:
    """Of tables, of a deployment, of a Python file; from any folder, and to walk on from."""
    for name, text in (("door.yaml", DOOR), ("lift.yaml", LIFT), ("lifts.yaml", LIFTS), ("mine.py", MODEL)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["check", *arguments, "-o", "out"]) == 1
    monkeypatch.chdir(tmp_path / "out")
    (path,) = Path().glob("*.yaml")
    status, printed = replayed(capsys, str(path))
    assert (status, f"{steps} steps, {steps} expectations, all met" in printed, "broken: " in printed) == (
        0,
        True,
        True,
    )
    assert main(["explore", str(path), "-o", "page.html"]) == 0
    assert replayed(capsys, str(path), "--dialect", "4.0") == (
        2,
        f"fsm: {path}:2: a model of your own has no dialect; leave --dialect out\n",
    )


def test_a_goal_that_was_never_in_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The counterexample has no step; it says so, and goes on."""
    (tmp_path / "mine.py").write_text(
        MODEL.replace("Model, Property", "Goal, Model")
        .replace("properties=[Property", "goal=Goal")
        .replace("< 2)]", "> 9)")
    )
    monkeypatch.chdir(tmp_path)
    assert main(["check", "mine.py:MODEL", "-o", "out"]) == 1
    printed = capsys.readouterr().out
    assert "       one: 0\n  from here on, the goal cannot be reached without another disturbance; one" in printed
    assert replayed(capsys, "out/1-below-two.yaml", "--quiet")[0] == 0
    assert "the goal cannot be reached from here on" in Path("out/1-below-two.mmd").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model: consumer-group", "model: consumers", ":2: unknown model 'consumers'; choose from"),
        ("  members: 2", "  member: 2", ":4: unknown option 'member'"),
        ("  members: 2", "  members: two", ":4: "),
        ("  client: ", "  client: x", "unknown dialect"),
        ("- do: b polls", "- do: c polls", "refused: expected none, got no such step here; possible:"),
        ("- do: b polls", "- go: b polls", "unknown step 'go'"),
        ("    b: JOINING", "    c: JOINING", "no component 'c'"),
        ("    b: JOINING", "    b: LEAVING", "got JOINING"),
    ],
)
def test_what_cannot_be_walked_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    text = next(folder.glob("*-two-users.yaml")).read_text()
    assert old in text
    (folder / "changed.yml").write_text(text.replace(old, new, 1))
    status, printed = replayed(capsys, str(folder / "changed.yml"), "--quiet")
    assert status in (1, 2)
    assert message in printed
    assert "Traceback" not in printed


def test_a_walk_by_hand() -> None:
    walk = Walk(make_model("lock"))
    assert {str(one) for one in walk.options()} == {"ann asks", "bob asks"}
    taken = walk.take("ann asks")
    assert taken.state == {"ann": "waits"}
    assert "server receives from ann: acquire" in {str(one) for one in walk.options()}
    with pytest.raises(LocalProtocolError, match="no such step here; possible: bob asks; server receives"):
        walk.take("ann asks")
    assert walk.state()["ann"] == "waits"
    assert walk.list_broken() == []
