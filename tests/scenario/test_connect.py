"""Rounds of Connect: the design document's five scenarios as it prints them, and what Kafka ships instead."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from fsm.errors import InputError
from fsm.nodes import Node, yaml_node
from fsm.scenario.files import read, replay, replay_document

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


@cache
def document() -> Node:
    """The scenarios of the design document, read once."""
    return read(FILE)


@pytest.mark.parametrize("profile", ["document", "shipped"])
def test_every_round_comes_out_as_the_file_says(profile: str) -> None:
    """All five scenarios, round by round, delay by delay, under either profile."""
    runs = replay_document(document(), "rounds.yaml", profile)
    assert [len(run.steps) for run in runs] == [2, 2, 3, 1, 5]
    assert [run.differences() for run in runs] == [()] * 5
    assert all(run.expectations > 5 for run in runs)


def test_bounced_leader_is_printed_as_in_the_document() -> None:
    """The third round of the last scenario: W3 takes over and goes on with the delay that runs."""
    step = replay_document(document(), "rounds.yaml")[4].steps[2]
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
    ours, theirs = (replay_document(document(), "rounds.yaml", name)[4] for name in ("shipped", "document"))
    first = ours.differences_from(theirs)[0]
    assert (first.step, first.field, first.expected, first.got) == (3, "W2 delay", "0 ms", "200000 ms")


def run_text(text: str) -> list[tuple[str, str, str]]:
    (run,) = replay_document(yaml_node(text, "rounds.yaml", "scenario"), "rounds.yaml")
    return [(d.field, d.expected, d.got) for d in run.differences()]


def test_difference_names_worker_and_field() -> None:
    """What a worker was to get and got; a worker that the file does not know has no place in the group."""
    assert run_text(SMALL) == []
    assert run_text(SMALL.replace("revoked: [AT1]", "revoked: []")) == [("W1 revoked", "[]", "[AT1]")]
    assert run_text(SMALL.replace("      W2: {delay: 0, assigned: [], revoked: []}\n", ""))[0][0] == "W2 delay"


@pytest.mark.parametrize(
    ("message", "instead", "refusal"),
    [
        ("  config_topic: [AC0, AT1]", "  config_topic: [AC0, A1]", "rounds.yaml:4: 'A1' is not a unit; "),
        ("  initial: {W1: [AC0, AT1]}\n", "", "rounds.yaml:2: the key 'initial' is missing"),
        ("leader: W1\n    expect", "leader: W9\n    expect", "rounds.yaml:9: 'W9' leads, but does not join"),
        ("{worker: W2}", "{worker: W1}", "rounds.yaml:8: a worker joins twice in one round"),
        ("round: 1", "round: one", "rounds.yaml:7: 'one' is not a whole number"),
        ("[{worker: W1}, {worker: W2}]", "[W1, W2]", "rounds.yaml:8: must be a mapping"),
        ("W2: {delay: 0, assigned: [], revoked: []}", "W2: []", "rounds.yaml:12: must be a mapping"),
        ("assigned: [AC0]", "assigned: AC0", "rounds.yaml:11: must be a list"),
    ],
)
def test_other_shapes_are_refused_with_their_line(message: str, instead: str, refusal: str) -> None:
    """A document of this kind that lacks something or holds something else says where."""
    assert message in SMALL
    with pytest.raises(InputError) as refused:
        run_text(SMALL.replace(message, instead, 1))
    assert str(refused.value).startswith(refusal)


# Cases of Kafka's own tests

CASES = FILE.with_name("connect.yaml")
CASE = """\
cases:
- kind: placement
- id: one
  kind: rounds
  setup: {max_delay_ms: 1000, connectors: {c: 1}, workers: {w1: []}, generation: 5, assignor_previous_generation: 5}
  rounds:
  - {round: 1, mode: standard, stimuli: [], derived: {assigned: {w1: [c, c-0]}, owned_after: {w1: [c, c-0]}}}
  - {round: 2, mode: standard, stimuli: [{add_workers: [w2]}, {remove_workers: [w1]}], expect: {delay_ms: 1000}}
  - {round: 3, mode: standard, stimuli: [{advance: D/2}], expect: {delay_ms: 500}}
  - {round: 4, mode: standard, stimuli: [{advance: D}], derived: {assigned: {w2: [c, c-0]}}}
"""


def test_every_case_of_rounds_comes_out() -> None:
    """All cases with rounds in the file: delays, assignments, revocations, owned units and candidates exactly."""
    runs = replay(CASES)
    assert len(runs) == 22
    assert [run.differences() for run in runs] == [()] * 22
    assert sum(run.expectations for run in runs) > 600


def test_case_is_told_round_by_round() -> None:
    """What happens to the group, then what each worker holds and must give up; D is the delay of the round before."""
    (run,) = replay_document(yaml_node(CASE, "rounds.yaml", "scenario"), "rounds.yaml")
    assert run.differences() == ()
    assert [step.title for step in run.steps][1:] == ["round 2 at 0 ms", "round 3 at 500 ms", "round 4 at 1000 ms"]
    assert run.steps[1].lines == (
        "add_workers: [w2]",
        "remove_workers: [w1]",
        "w2(delay: 1000, assigned: [], revoked: [])",
    )
    assert run.steps[3].lines == ("advance: D", "w2(delay: 0, assigned: [c, c-0], revoked: [])")


def test_case_that_comes_out_otherwise_says_where() -> None:
    """Round, worker and field of a wrong expectation."""
    assert run_text(CASE.replace("{w2: [c, c-0]}", "{w2: [c]}")) == [("w2 assigned", "[c]", "[c, c-0]")]
    assert run_text(CASE.replace("delay_ms: 500", "delay_ms: 501")) == [("delay_ms", "501", "500")]


@pytest.mark.parametrize(
    ("message", "instead", "refusal"),
    [
        ("add_workers", "add_worker", "rounds.yaml:8: unknown stimulus 'add_worker'; did you mean add_workers?"),
        ("remove_workers: [w1]", "remove_workers: [w9]", "rounds.yaml:8: 'w9' is not there; "),
        ("advance: D/2", "advance: D/0", "rounds.yaml:9: 'D/0' is not a time; "),
        ("advance: D/2", "advance: soon", "rounds.yaml:9: 'soon' is not a time; "),
        ("{c: 1}", "{c: 999999999}", "rounds.yaml:3: more than 100000 connectors and tasks"),
        ("{c: 1}", "{c: -1}", "rounds.yaml:3: a connector cannot have fewer than 0 tasks"),
        (
            "mode: standard, stimuli: []",
            "mode: fast, stimuli: []",
            "rounds.yaml:7: 'fast' is not a mode; one of standard, ",
        ),
        ("max_delay_ms: 1000, ", "", "rounds.yaml:5: the key 'max_delay_ms' is missing"),
    ],
)
def test_case_of_another_shape_is_refused_with_its_line(message: str, instead: str, refusal: str) -> None:
    """What a case cannot mean is one line."""
    assert message in CASE
    with pytest.raises(InputError) as refused:
        run_text(CASE.replace(message, instead, 1))
    assert str(refused.value).startswith(refusal)
