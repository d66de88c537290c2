"""Scenarios of whole consumer groups: real members and the coordinator under a virtual clock."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET  # our own picture

import pytest

from fsm.cli import main
from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.files import ROLE, replay_document
from fsm.scenario.story import Replay

HEAD = "consumers: x\ntopics: {foo: 4}\nsteps:\n"


def run_text(text: str, dialect: str | None = None) -> Replay:
    """The run of a text."""
    (run,) = replay_document(yaml_node(text, "group.yaml", ROLE), "group.yaml", dialect)
    return run


def test_a_partition_moves_once_its_user_gave_it_up() -> None:
    """Until the slow callback of A has ended C uses nothing; no instant has two users."""
    steps = "- start: A\n- settle\n- slow_callback: {consumer: A, ms: 1000}\n- start: C\n- settle\n"
    run = run_text(HEAD + steps)
    assert run.differences() == ()
    assert run.timeline is not None
    bars = {bar for bar in run.timeline.bars if str(bar.unit) in {"foo-2", "foo-3"}}
    ended = {bar.end_ms for bar in bars if bar.worker == "A"}
    began = {bar.start_ms for bar in bars if bar.worker == "C"}
    assert len(ended) == len(began) == 1
    assert max(ended) <= min(began)
    joined = next(mark.at_ms for mark in run.timeline.marks if mark.generation == 3)
    assert max(ended) - joined >= 1_000


def test_a_double_use_is_a_difference_and_names_its_cause() -> None:
    """A step that says nothing of doubles expects none: a frozen consumer shows as one, with the weak spot."""
    steps = "- start: A\n- settle\n- start: B\n- settle\n- freeze: {consumer: A, ms: 6000}\n- wait: 5000\n"
    (difference,) = run_text(HEAD + steps).differences()
    assert (difference.step, difference.field, difference.expected) == (6, "doubles", "[]")
    assert difference.got.startswith("[foo-0: A and B (expired), ")


def test_a_consumer_whose_answers_are_cut_off_loses_its_membership_and_comes_back() -> None:
    """`cut` and `heal`: without answers a consumer goes on sending, so its session lives and its epoch falls behind."""
    steps = "- start: A\n- settle\n- cut: A\n- start: B\n- wait: 2000\n- heal: A\n- settle\n"
    run = run_text(HEAD + steps)
    assert run.steps[-1].seen["unsettled"] == "[]"
    assert run.steps[-1].seen["group members"] == "[A, B]"


def test_a_subscription_changes_who_uses_what() -> None:
    """Topics are subscribed to by name; what a consumer does not subscribe to goes to the other one."""
    steps = "- start: A\n- start: B\n- settle\n- subscribe: {consumer: A, topics: [bar]}\n- settle\n"
    seen = run_text(HEAD.replace("{foo: 4}", "{foo: 2, bar: 2}") + steps).steps[-1].seen
    assert (seen["A uses"], seen["B uses"]) == ("[bar-0, bar-1]", "[foo-0, foo-1]")


def test_two_releases_are_compared_step_by_step() -> None:
    """The same story under an older coordinator is the same where the rules are: nothing differs but what must."""
    steps = "- start: A\n- settle\n- start: B\n- settle\n"
    ours, theirs = run_text(HEAD + steps), run_text(HEAD + steps, "4.0")
    fields = {difference.field for difference in ours.differences_from(theirs)}
    assert fields == {"group epoch", "A epoch", "B epoch"}  # a group begins at epoch 0 there, at 1 here


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("- strat: A\n", "group.yaml:4: unknown step 'strat'; did you mean start?"),
        ("- close: A\n", "group.yaml:4: no consumer 'A' is running"),
        ("- start: A\n- start: A\n", "group.yaml:5: A is running; close or kill it first"),
        (
            "- start: {consumer: A, protocol: range2}\n",
            "group.yaml:4: unknown protocol 'range2'; one of consumer, range, ",
        ),
        ("- start: {consumer: A, dialect: 3.9}\n", "group.yaml:4: "),
        ("- start: {consumer: A, topics: [fooo]}\n", "group.yaml:4: no topic 'fooo'; did you mean foo?"),
        ("- grow: {foo: 3}\n", "group.yaml:4: foo has 4 partitions; a topic can only get more"),
        ("- wait: 3600001\n", "group.yaml:4: 3600001 ms; 0 to 3600000"),
        (
            "- start: A\n- kill: A\n- wait: 10\n  expect: {B: {state: GONE}}\n",
            "group.yaml:7: no consumer is called 'B'",
        ),
        ("- start: A\n  expect: {A: {use: [foo-0]}}\n", "group.yaml:5: unknown key 'use'"),
        ("- start: A\n- cut: A\n- settle: {most_ms: 3000}\n", "group.yaml:6: the group does not settle: A "),
    ],
)
def test_what_cannot_be_done_is_one_line_with_its_place(steps: str, message: str) -> None:
    """Unknown words and what makes no sense are refused in one line that names the line of the file."""
    with pytest.raises(InputError) as refused:
        run_text(HEAD + steps)
    assert str(refused.value).startswith(message)


def test_the_picture_is_a_timeline_of_consumers_and_partitions(tmp_path: Path) -> None:
    """`fsm replay --picture` draws it; partitions that two used at once have both bars in their row."""
    scenario = Path(__file__).parents[1] / "scenarios" / "frozen_consumer.yaml"
    target = tmp_path / "group.svg"
    assert main(["replay", str(scenario), "--quiet", "--picture", str(target)]) == 0
    root = ET.parse(target).getroot()  # noqa: S314
    texts = {"".join(node.itertext()) for node in root.iter() if node.tag.endswith("}text")}
    assert {"Consumers", "Partitions", "foo-0", "foo-1", "epoch 3"} <= texts
    bars = [node for node in root.iter() if node.tag.endswith("}rect") and node.find("{*}title") is not None]
    heights = {node.findtext("{*}title"): float(node.attrib["height"]) for node in bars}
    assert heights["foo-0 on B"] < heights["foo-1 on B"]


def test_a_picture_makes_no_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there is said, with nothing written anywhere."""
    scenario = Path(__file__).parents[1] / "scenarios" / "frozen_consumer.yaml"
    target = tmp_path / "no" / "such" / "group.svg"
    assert main(["replay", str(scenario), "--picture", str(target)]) == 2
    assert capsys.readouterr().err == f"fsm: {target.parent}: no such folder; create it first\n"
    assert list(tmp_path.iterdir()) == []
