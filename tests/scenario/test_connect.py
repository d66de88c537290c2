"""Rounds of Connect: the design document's five scenarios as it prints them, and what Kafka ships instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.replay import compared, replay, replayed

FILE = Path(__file__).parents[1] / "cases" / "seed_connect.yaml"
SMALL = """\
scenarios:
- id: one
  initial: {W1: [AC0, AT1]}
  config_topic: [AC0, AT1]
  initial_leader: W1
  rounds:
  - round: 1
    joins: [{worker: W1}, {worker: W2}]
    leader: W1
    expect:
      W1: {delay: 0, assigned: [AC0], revoked: [AT1]}
      W2: {delay: 0, assigned: [], revoked: []}
"""


@pytest.mark.parametrize("profile", ["document", "shipped"])
def test_every_round_comes_out_as_the_file_says(profile: str) -> None:
    """All five scenarios, round by round, delay by delay, under either profile."""
    runs = replay(FILE, profile)
    assert [len(run.steps) for run in runs] == [2, 2, 3, 1, 5]
    assert [run.differences() for run in runs] == [()] * 5
    assert all(run.expectations > 5 for run in runs)


def test_bounced_leader_is_printed_as_in_the_document() -> None:
    """The third round of the last scenario: W3 takes over and goes on with the delay that runs."""
    step = replay(FILE)[4].steps[2]
    assert step.lines == (
        "W1, the leader, leaves (triggers the rebalance)",
        "W2 joins with assignment: []",
        "W3 joins with assignment: [BT1]",
        "W3 becomes leader",
        "W3 computes and sends assignments:",
        "W2(delay: d'', assigned: [], revoked: [])",
        "W3(delay: d'', assigned: [BT1], revoked: [])",
    )


def test_profiles_part_at_the_leader_without_memory() -> None:
    """Shipped Kafka places at once what the document still waits for; before that round they agree."""
    *_, found = compared(FILE, "shipped", "document")
    first = found.differences[0]
    assert (first.step, first.field, first.expected, first.got) == (3, "W2 delay", "0 ms", "200000 ms")


def told(text: str) -> list[tuple[str, str, str]]:
    (run,) = replayed(yaml_node(text, "rounds.yaml", "scenario"), "rounds.yaml")
    return [(d.field, d.expected, d.got) for d in run.differences()]


def test_difference_names_worker_and_field() -> None:
    """What a worker was to get and got; a worker that the file does not know has no place in the group."""
    assert told(SMALL) == []
    assert told(SMALL.replace("revoked: [AT1]", "revoked: []")) == [("W1 revoked", "[]", "[AT1]")]
    assert told(SMALL.replace("      W2: {delay: 0, assigned: [], revoked: []}\n", ""))[0][0] == "W2 delay"


@pytest.mark.parametrize(
    ("said", "instead", "refusal"),
    [
        ("  config_topic: [AC0, AT1]", "  config_topic: [AC0, A1]", "rounds.yaml:4: 'A1' is no unit; "),
        ("  initial: {W1: [AC0, AT1]}\n", "", "rounds.yaml:2: the key 'initial' is missing"),
        ("leader: W1\n    expect", "leader: W9\n    expect", "rounds.yaml:9: 'W9' leads, but does not join"),
        ("{worker: W2}", "{worker: W1}", "rounds.yaml:8: a worker joins twice in one round"),
        ("round: 1", "round: one", "rounds.yaml:7: 'one' is not a whole number"),
        ("[{worker: W1}, {worker: W2}]", "[W1, W2]", "rounds.yaml:8: must be a mapping"),
        ("W2: {delay: 0, assigned: [], revoked: []}", "W2: []", "rounds.yaml:12: must be a mapping"),
        ("assigned: [AC0]", "assigned: AC0", "rounds.yaml:11: must be a list"),
    ],
)
def test_other_shapes_are_refused_with_their_line(said: str, instead: str, refusal: str) -> None:
    """A document of this kind that lacks something or holds something else says where."""
    assert said in SMALL
    with pytest.raises(InputError) as refused:
        told(SMALL.replace(said, instead, 1))
    assert str(refused.value).startswith(refusal)
