"""The scenarios of the document on Connect's cooperative rebalancing, and what Kafka does in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from case_file import each, listed
from known_keys import ANY, EACH, Of, refuse_unknown

from fsm.connect.dialect import profile as profile_of
from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.files import replay_document
from fsm.scenario.story import Replay, Step

RESULT = {"assigned": ANY, "holds_after": ANY, "revoked": ANY, "delay": ANY, "newly_assigned": ANY}
COMPARED = Of({"rounds": [Of({"expect": {EACH: RESULT}, "shipped_trunk": Of({"per_worker": {EACH: RESULT}})})]})


def reads(head: Any) -> bool:
    """Documents with scenarios of rounds; one of them may lack something, which running it tells."""
    scenarios = head.get("scenarios") if isinstance(head, dict) else None
    if not scenarios or not isinstance(scenarios, list):
        return False
    return any(isinstance(s, dict) and {"config_topic", "initial_leader", "rounds"} <= s.keys() for s in scenarios)


def cases(file: Any) -> Iterator[tuple[str, tuple[Replay, int]]]:
    """Every round under both profiles, run from the start of its scenario."""
    return each(listed(file.head, "scenarios"), lambda found: documented(file, *found))


def documented(file: Any, at: tuple[Any, ...], scenario: Any) -> Iterator[tuple[str, tuple[Replay, int]]]:
    refuse_unknown(file, at, scenario, COMPARED)
    for profile in ("document", "shipped"):
        run = replayed(scenario, profile)
        for number, stated_round in enumerate(scenario["rounds"], 1):
            yield f"{scenario['id']}-{stated_round['round']}-{profile}", (run, number)


def replayed(scenario: Mapping[str, Any], profile: str) -> Replay:
    """As `fsm replay` runs it."""
    document = yaml_node(json.dumps({"scenarios": [scenario]}), str(scenario.get("id")), "scenario")
    (run,) = replay_document(document, document.where, profile)
    return run


def test_a_round_comes_out_as_stated(case: tuple[Replay, int]) -> None:
    """Leader, delay, assignments and revocations of every worker are those of the file, in both profiles."""
    run, number = case
    step = run.steps[number - 1]
    assert step.expected
    found = [f"{d.field}: expected {d.expected}, got {d.got}" for d in run.differences() if d.step == number]
    if found:
        pytest.fail("\n".join([*step.lines, *found]), pytrace=False)


def scenarios(files: tuple[Any, ...]) -> list[Mapping[str, Any]]:
    return next(file.head["scenarios"] for file in files if reads(file.head))


def delays(step: Step) -> dict[str, str]:
    """What the document's notation has for every worker."""
    results = (line.partition("(delay: ") for line in step.lines if "(delay: " in line)
    return {worker: result.partition(",")[0] for worker, _, result in results}


@pytest.mark.our_copies
def test_symbols_follow_one_delay(files: tuple[Any, ...]) -> None:
    """Under the document's profile the delays have the document's own symbols, round after round."""
    printed = {}
    for scenario in scenarios(files):
        found = [delays(step) for step in replayed(scenario, "document").steps]
        stated = [
            {w: str(result["delay"]) for w, result in stated_round["expect"].items()}
            for stated_round in scenario["rounds"]
        ]
        assert found == stated
        printed[scenario["id"]] = [next(iter(each.values())) for each in found]
    assert printed["leader_bounces"] == ["d", "d'", "d''", "d'''", "0"]
    assert printed["leader_leaves"] == ["0"]


@pytest.mark.our_copies
def test_a_round_is_printed_as_the_document_prints_it(files: tuple[Any, ...]) -> None:
    """The lines of the first round are the document's."""
    first = replayed(scenarios(files)[0], "document").steps[0]
    assert list(first.lines) == [
        "Initial group and assignment: W1([AC0, AT1, AT2, BC0, BT1])",
        "Config topic contains: AC0, AT1, AT2, BC0, BT1",
        "W1 is current leader",
        "W2 joins (triggers the rebalance)",
        "W3 joins while that rebalance is still active",
        "W2 joins with assignment: []",
        "W3 joins with assignment: []",
        "W1 joins with assignment: [AC0, AT1, AT2, BC0, BT1]",
        "W1 becomes leader",
        "W1 computes and sends assignments:",
        "W1(delay: 0, assigned: [AC0, AT1], revoked: [AT2, BC0, BT1])",
        "W2(delay: 0, assigned: [], revoked: [])",
        "W3(delay: 0, assigned: [], revoked: [])",
    ]


def test_unknown_profile_and_unit_are_told() -> None:
    """A profile that does not exist, a unit that is none and a missing field are refused in a sentence."""
    with pytest.raises(InputError, match="choose from shipped, document"):
        profile_of("trunk")
    stated = {"id": "x", "config_topic": ["A"], "initial_leader": "W1", "initial": {}, "rounds": []}
    with pytest.raises(InputError, match="'A' is not a unit"):
        replayed(stated, "shipped")
    del stated["initial"]
    stated["config_topic"] = []
    with pytest.raises(InputError, match="the key 'initial' is missing"):
        replayed(stated, "shipped")
