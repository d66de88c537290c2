"""The online migration: the design document's story by its own rules, and Kafka's by the coordinator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from fsm.errors import InputError
from fsm.nodes import Node, yaml_node
from fsm.protocol.releases import RELEASES
from fsm.scenario.files import replay_document
from fsm.scenario.story import Replay

FILE = Path(__file__).parents[1] / "cases" / "seed_migration.yaml"
TEXT = FILE.read_text()
META = "meta: {schema: migration-scenario/1, topic: foo, partitions: 4}\n"
START = f"""\
{META}steps:
- id: '0'
  stimulus: {{event: initial}}
  expected:
    group: {{type: classic, generation: 7}}
    members: {{A: {{protocol: classic}}, B: {{protocol: classic}}}}
    target: null
    current:
      A: {{epoch: 7, owned: [0, 1], revoking: [], waiting: []}}
      B: {{epoch: 7, owned: [2, 3], revoking: [], waiting: []}}
"""


@cache
def document() -> Node:
    """The story of the design document, read once."""
    return yaml_node(TEXT, "story.yaml", "scenario")


@cache
def story(dialect: str) -> Replay:
    (run,) = replay_document(document(), "story.yaml", dialect)
    return run


def run_text(text: str, dialect: str | None = None) -> Replay:
    (run,) = replay_document(yaml_node(text, "story.yaml", "scenario"), "story.yaml", dialect)
    return run


NOTHING_KNOWN = "{group: {type: consumer, epoch: 7}, members: {}, target: null, current: {}}"


def step(stimulus: str, expected: str = NOTHING_KNOWN) -> str:
    return f"- id: x\n  stimulus: {stimulus}\n  expected: {expected}\n"


def test_document_is_reproduced_step_by_step() -> None:
    """Every group, target, member assignment, classic state and answer of the corrected document."""
    (run,) = replay_document(document(), "story.yaml")
    assert run.dialect == "document"
    assert " ".join(s.key for s in run.steps) == "0 1 2 3 4a 4b 5 6 7 8 9a 9b 9c 9d 10 11 12"
    assert run.expectations == 371
    assert run.differences() == ()


@pytest.mark.parametrize("release", ["s24", *RELEASES])
def test_every_release_tells_the_shipped_story(release: str) -> None:
    """The coordinator answers and keeps what the trace of the shipped code says, timers included."""
    run = story(release)
    assert (run.dialect, run.expectations) == (release, 400)
    assert run.differences() == ()


def test_step_is_printed_as_the_document_prints_it() -> None:
    """Members with their upgrade or classic state, the target, the member assignments; typos are named before."""
    run = story("document")
    assert run.steps[8].title == "7. B returns with the consumer protocol; the group epoch is bumped."
    assert run.steps[8].lines[0].startswith("# TYPO: the second row of the member assignment names A again")
    assert run.steps[8].lines[1:] == (
        "* Group (epoch=24)",
        "    * A (upgraded)",
        "    * B (upgraded)",
        "    * C (Stable)",
        "* Target Assignment (epoch=23)",
        "    * A - partitions=[foo-0, foo-1, foo-3]",
        "    * C - partitions=[foo-2, foo-4, foo-5]",
        "* Member Assignment",
        "    * A - epoch=23, partitions=[foo-0, foo-1, foo-3]",
        "    * B - epoch=0, partitions=[]",
        "    * C - epoch=23, partitions=[foo-2, foo-4, foo-5]",
    )
    assert run.steps[0].lines[1:3] == ("* Generic Group (generation=22)", "    * A")


def test_document_and_kafka_part_at_the_conversion() -> None:
    """Shipped Kafka bumps the epoch in the heartbeat that converts, so every later epoch is one higher."""
    differences = story("document").differences_from(story("4.4.0"))
    first = differences[0]
    assert (first.field, first.expected, first.got) == ("group", "consumer, epoch 22", "consumer, epoch 23")
    groups = [(d.expected, d.got) for d in differences if d.field == "group"]
    assert groups[-1] == ("consumer, epoch 24", "consumer, epoch 25")
    assert {d.field for d in differences} >= {"target", "C.phase", "A.epoch"}
    assert not [d for d in differences if d.field.endswith(".owned")]


def test_stories_are_paired_from_either_side() -> None:
    """Kafka's story has a request more than the document's; it stands alone, whichever is compared with the other."""
    there = story("document").differences_from(story("4.4.0"))
    back = story("4.4.0").differences_from(story("document"))
    assert [(d.field, d.expected, d.got) for d in there] == [(d.field, d.got, d.expected) for d in back]


def test_releases_do_not_part_in_this_story() -> None:
    """None of the coordinator's flags shows in the trace of the document."""
    assert story("4.0.0").differences_from(story("4.4.0")) == ()


@pytest.mark.parametrize(
    ("message", "instead", "dialect", "field"),
    [
        ("    target:\n      epoch: 22\n", "    target:\n      epoch: 21\n", "document", "target_epoch"),
        ("        classic_state: CompletingRebalance", "        classic_state: Stable", "document", "C.phase"),
        ("      generation: 23\n  expected", "      generation: 24\n  expected", "document", "answer.generation"),
        ("        classic_phase: CompletingRebalance", "        classic_phase: Stable", "s24", "C.phase"),
        ("          pending_revocation:\n          - 3\n", "          pending_revocation: []\n", "s24", "A.revoking"),
        ("state: ASSIGNING", "state: STABLE", "s24", "group_state"),
    ],
)
def test_wrong_expectation_is_found(message: str, instead: str, dialect: str, field: str) -> None:
    """One changed value is the first difference."""
    assert message in TEXT
    assert run_text(TEXT.replace(message, instead, 1), dialect).differences()[0].field == field


@pytest.mark.parametrize(
    ("stimulus", "refused"),
    [
        ("{event: leave, actor: A}", "the document does not say what a leave does to a classic group"),
        ("{event: leave_and_rejoin, actor: Z}", "Z is not a member of the group"),
        ("{event: leave_and_rejoin}", "the step names no member"),
        ("{event: heartbeat, protocol: consumer, actor: A, epoch: 0}", "the group is not converted"),
    ],
)
def test_what_the_document_does_not_allow_is_a_difference(stimulus: str, refused: str) -> None:
    """A step that cannot be done says why, and the story goes on."""
    first = run_text(START + step(stimulus)).differences()[0]
    assert (first.field, first.expected, first.got) == ("refused", "none", refused)


def test_heartbeat_at_another_epoch_is_a_difference() -> None:
    """A member of the document sends the epoch that it is at."""
    text = (
        START
        + step("{event: leave_and_rejoin, actor: A}")
        + step("{event: heartbeat, protocol: consumer, actor: A, epoch: 3}")
    )
    assert "A is at epoch 7 and sends 3" in [d.got for d in run_text(text).differences()]


@pytest.mark.parametrize(
    ("text", "dialect", "message"),
    [
        (START, "4.4", "story.yaml:1: no shipped_trace to be run by a release; --dialect document"),
        (START, "3.9", "story.yaml: unknown coordinator dialect '3.9'; one of s24, 4.0.0, "),
        (META, None, "story.yaml:1: the key 'steps' is missing"),
        (META + "steps: []\n", None, "story.yaml:2: no steps; "),
        (START.replace("event: initial", "event: leave"), None, "story.yaml:3: does not begin with a classic group "),
        (START.replace("partitions: 4", "partitions: 3"), None, "story.yaml:3: a partition is held twice, or does "),
        (START.replace("[2, 3]", "[1, 3]"), None, "story.yaml:3: a partition is held twice, or does not exist"),
        (START.replace("partitions: 4", "partitions: 999999"), None, "story.yaml:3: 999999 partitions; "),
        (START.replace("[2, 3]", "[2, x]"), None, "story.yaml:11: 'x' is not a whole number"),
        (START + step("{event: explode}"), None, "story.yaml:13: unknown event 'explode'; "),
        (START + step("{event: leave}", "{}"), None, "story.yaml:14: the key 'group' is missing"),
        (START.replace("B: {protocol: classic}", "C: {protocol: classic}"), None,
         "story.yaml:6: members and current assignments name different members"),
        (TEXT.replace("api: LeaveGroup", "api: LeaveGrop", 1), "4.4", "story.yaml:"),
    ],
)  # fmt: skip
def test_other_shapes_are_refused_with_their_line(text: str, dialect: str | None, message: str) -> None:
    """A document of this kind that lacks something or holds something else says where."""
    with pytest.raises(InputError) as refused:
        run_text(text, dialect)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("old", "new", "dialect", "message"),
    [
        ("    after:\n", "    after:\n      groop: {epoch: 7}\n", "s24", "unknown key 'groop'; did you mean group?"),
        ("previous_epoch:", "previous_epohc:", "s24", "unknown key 'previous_epohc'; did you mean previous_epoch?"),
        ("classic_state:", "classic_stat:", None, "unknown key 'classic_stat'; did you mean classic_state?"),
    ],
)
def test_what_would_not_be_compared_is_refused(old: str, new: str, dialect: str | None, message: str) -> None:
    """A misspelt key of what is expected, in either telling, is an error with its line and never met."""
    assert old in TEXT
    line = TEXT.partition(old)[0].count("\n") + (2 if "groop" in new else 1)
    with pytest.raises(InputError) as refused:
        run_text(TEXT.replace(old, new, 1), dialect)
    assert str(refused.value) == f"story.yaml:{line}: {message}"
