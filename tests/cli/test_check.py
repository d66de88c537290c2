"""`fsm check`: exit status, what it prints, what it writes, and one line for what it cannot use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fsm.check import mutation_score
from fsm.check.catalog import SHIPPED, make_model, options_of
from fsm.cli import check, main
from fsm.cli.check_options import GROUPS
from fsm.errors import InputError

OWN = """
from fsm.check import Choice, Component, Model, Step

def make():
    return Model("own", [Component("one", 0, lambda s: [Choice("goes")] if s < 2 else (), lambda s, _: Step(s + 1))])

MODEL, NUMBER = make(), 3
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["check", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.parametrize("model", [name for name in SHIPPED if name != "mixed-group"])
@pytest.mark.loop(3)
def test_every_model_that_comes_along_holds_undisturbed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = run(capsys, model)
    assert status == 0
    assert "every property that was checked holds" in printed
    assert "exact keys" in printed


def test_a_mixed_group_holds_where_no_consumer_joins_early(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = run(capsys, "mixed-group")
    assert (status, "live objects with running clocks also take this path" in printed) == (1, True)
    status, printed, _ = run(capsys, "mixed-group", "--known", "early")
    assert (status, "cut off at known hazards: early 1" in printed) == (0, True)


@pytest.mark.parametrize("model", GROUPS)
def test_the_command_has_every_option_of_a_model(model: str) -> None:
    """They are named before a model is loaded, so twice; here is seen that both say the same."""
    assert set(GROUPS[model]) == set(options_of(model))


def test_a_counterexample_is_told_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = run(capsys, "lock", "--disturb", "expire")
    assert status == 1
    assert "broken: writes come in the order of the lock, after 1 disturbance (!) and 11 steps" in printed
    assert "! server ends the lease\n" in printed
    assert "server receives from ann: acquire" in printed


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = run(capsys, "consumer-group", "--disturb", "late", "--every", "--json")
    document = json.loads(printed)
    assert status == 1
    assert (document["verdict"], document["states"], document["transitions"], document["exact"]) == (
        "violated",
        54_841,
        196_308,
        True,
    )
    settles = next(one for one in document["violations"] if one["property"] == "the group settles")
    assert (settles["disturbances"], settles["steps"], settles["doomed_at"]) == (1, 17, 17)
    assert settles["path"][8]["disturbance"] == "late"
    assert document["cpu_s"] > 0
    assert document["uncovered"]


def test_counterexamples_are_written_as_pictures_and_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each form; the same bytes again."""
    arguments = ("lock", "--disturb", "expire", "-o", str(tmp_path / "out"))
    status, printed, _ = run(capsys, *arguments)
    assert status == 1
    assert sorted(map(Path, printed.split("\n")[-7:-1])) == sorted((tmp_path / "out").iterdir())
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.suffix != ".json"}
    assert sorted(Path(name).suffix for name in written) == [".mmd", ".puml", ".svg", ".txt", ".yaml"]
    assert run(capsys, *arguments)[0] == 1
    assert {name: (tmp_path / "out" / name).read_bytes() for name in written} == written
    svg = next(data for name, data in written.items() if name.endswith(".svg")).decode()
    assert "broken: writes come in the order of the lock" in svg
    assert svg.count('class="head"') == 4


def test_lists_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    """An option that takes a list may be given again."""
    _, printed, _ = run(capsys, "consumer-group", "--disturb", "late", "--disturb", "lose,late", "--max-states", "9")
    assert "  disturbances, at most 1: late, lose\n" in printed
    assert "unknown hazard: 'W9'" in run(capsys, "consumer-group", "--known", "W9", "--known", "W1")[2]


def test_a_model_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(OWN)
    for name in ("MODEL", "make"):
        status, printed, _ = run(capsys, f"{tmp_path / 'own.py'}:{name}")
        assert status == 0
        assert "own: every property that was checked holds\n  3 states, 2 transitions, depth 2" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nix"], "unknown model 'nix'; choose from consumer-group"),
        (["consumer-grup"], "unknown model 'consumer-grup'; did you mean consumer-group? choose from consumer-group, "),
        (["classic-membr"], "unknown model 'classic-membr'; did you mean classic-member? choose from consumer-group, "),
        (["nix.yaml"], "nix.yaml: cannot be read"),
        (["nix.py"], "nix.py: a Python file may have several models; name one: nix.py:MODEL"),
        (["nix.py:MODEL"], "nix.py: cannot be run: FileNotFoundError"),
        (
            ["lock", "--members", "3"],
            "lock: --members is for consumer-group, classic-group, mixed-group and connect",
        ),
        (["lock", "--delay", "0"], "lock: --delay is for connect"),
        (["consumer-group", "--disturb", "move"], "consumer-group: --disturb move needs --search; give that"),
        (["mixed-group", "--disturb", "late,resubscribe"], "--disturb resubscribe needs --topics with two topics"),
        (["connect", "--disturb", "move"], "unknown kind of disturbance: 'move'; choose from"),
        (["connect", "--scenario", "worker_leaves", "--members", "2"], "has its own three workers and two connectors"),
        (["connect", "--client", "4.4"], "connect: --client is for consumer-group, classic-group and mixed-group"),
        (["connect", "--topic-changes"], "connect: --topic-changes is for consumer-group and classic-group"),
        (["consumer-group", "--pattern", "fo("], "--pattern: 'fo('"),
        (["consumer-group", "--client", "4.0,4.2,4.4"], "--client: 3 dialects for 2 members; give one"),
        (["consumer-group", "--never", "a.B"], "consumer-group: --never is for tables"),
        (["consumer-group", "--client", "9.9"], "9.9"),
        (["consumer-group", "--members", "0"], "'0' is not a whole number of at least 1"),
        (["consumer-group", "--topics", "foo:2,foo:1"], "names foo twice"),
        (
            ["consumer-group", "--topics", "foo 2"],
            "'foo 2' is no name of at most 249 letters, digits, '.', '_' and '-'; write",
        ),
        (["consumer-group", "--disturb", "rain"], "unknown kind of disturbance: 'rain'; choose from close"),
        (["consumer-group", "--disturbances", "1"], "no kind of disturbance is enabled"),
        (["consumer-group", "--known", "nix"], "unknown hazard: 'nix'; choose from W1"),
        (["consumer-group", "--property", "luck"], "unknown property 'luck'; choose from members use only assigned "),
        (
            ["connect", "--property", "cluster settles"],
            "unknown property 'cluster settles'; did you mean the cluster settles? choose from no connector or task ",
        ),
        (["lock", "--max-memory", "10Q"], "write a size as 6G, 512M, 100K or a number of bytes, not '10Q'"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status, printed, error = run(capsys, *arguments)
    assert (status, printed, error.count("\n")) == (2, "", 1)
    assert message in error


@pytest.mark.parametrize("model", SHIPPED)
def test_names_of_properties_can_be_listed(model: str) -> None:
    """Errors and verdicts list them, separated by commas: no name has one, apart from the numbered invariants."""
    made = make_model(model)
    names = [one.name for one in made.properties] + [one for one in made.asked_of_steps if not re.match(r"\w*\d", one)]
    assert not [name for name in names if "," in name]


def test_a_file_that_holds_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(OWN)
    for name, problem in (("NUMBER", "is not a Model or a Table"), ("nix", "is not defined")):
        said = run(capsys, f"{tmp_path / 'own.py'}:{name}")[2]
        assert said.endswith(f"own.py: {name} {problem}; choose from MODEL (Model), make (function)\n")
    (tmp_path / "bad.py").write_text("1 / 0")
    assert "cannot be run: ZeroDivisionError" in run(capsys, f"{tmp_path / 'bad.py'}:MODEL")[2]


def test_a_limit_is_exit_status_two(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = run(
        capsys,
        "consumer-group",
        "--disturb",
        "all",
        "--max-states",
        "5000",
        "--property",
        "no partition is assigned twice",
    )
    assert status == 2
    assert "stopped at more than 5,000 states: states beyond were not explored" in printed


def test_what_reads_no_models_loads_no_numpy() -> None:
    program = "import sys, fsm, fsm.check, fsm.cli.check; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


ONE_ROW = ("consumer-group", "--members", "1", "--topics", "foo:1", "--client", "fixed", "--mutate")


def test_mutants_are_told_with_what_kills_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, printed, _ = run(
        capsys, *ONE_ROW, "drop:consumer-member.JOINING.HB_SENT,ignore:consumer-member.JOINING.HB_SENT", "--json"
    )
    document = json.loads(printed)
    assert (status, document["score"], document["killed"]) == (0, 1.0, 2)
    assert {one["outcome"] for one in document["mutants"]} == {"killed"}
    monkeypatch.setattr(check, "LINES_AFTER_S", 0)
    row = "repeat:consumer-group.ASSIGNING.LAST_MEMBERS_REMOVED"
    status, printed, meanwhile = run(capsys, *ONE_ROW, row, "--disturb", "expire", "--coordinator", "fixed")
    told = "survived  repeat:consumer-group.ASSIGNING.LAST_MEMBERS_REMOVED:BUMP_GROUP_EPOCH"
    assert (status, told in printed, told in meanwhile) == (1, True, True)
    assert {*meanwhile.splitlines()} < {*printed.splitlines()}


def test_an_interrupt_leaves_the_mutants_that_were_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = mutation_score.describe

    def interrupt(_one: mutation_score.Outcome) -> str:
        monkeypatch.setattr(mutation_score, "describe", first)
        raise KeyboardInterrupt

    monkeypatch.setattr(mutation_score, "describe", interrupt)
    status, printed, _ = run(capsys, *ONE_ROW, "drop:consumer-member.JOINING.HB_SENT,lose")
    assert (status, "ended by Ctrl-C" in printed) == (130, True)
    assert printed.endswith("drop:consumer-member.JOINING.HB_SENT by 'no deadlock', disturbances 0, steps 1\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lock", "--mutate"), "uses no table: there is nothing to mutate"),
        ((*ONE_ROW, "timer:consumer-member.JOINING.HB_SENT"), "changes nothing"),
        ((*ONE_ROW, "reorder:consumer-member.UNSUBSCRIBED.SUBSCRIBE"), "changes nothing: no step of 1 mutants differs"),
        ((*ONE_ROW, "bend"), "unknown operator 'bend'"),
        ((*ONE_ROW, "lose", "-o", "out"), "-o does not go with --mutate"),
    ],
)
def test_a_mutation_that_changes_nothing_is_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed, problem = run(capsys, *arguments)
    assert (status, printed, problem.count("\n")) == (2, "", 1)
    assert message in problem


def test_a_verdict_is_told_even_if_its_files_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search may have taken hours."""

    def refuse(path: Path, _content: bytes) -> None:
        raise InputError("cannot be written: No space left on device", str(path))

    monkeypatch.setattr(check, "write", refuse)
    status, printed, problem = run(capsys, "lock", "--disturb", "expire", "-o", str(tmp_path))
    assert (status, "broken: writes come in the order of the lock" in printed, problem.count("\n")) == (2, True, 1)
