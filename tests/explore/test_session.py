"""A model walked by hand: its documents, its options, and what could go wrong from any place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from strolls import check_whole, stroll

from fsm.check import Choice, Component, Goal, Look, Model, Step, check, compose, make_model
from fsm.errors import FsmError, InputError, LocalProtocolError
from fsm.explore import ModelSession
from fsm.explore.server import ask, read_question
from fsm.tables import find

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("consumer-group", {}),
    ("consumer-group", {"topic_changes": True, "static": True, "members": 1}),
    ("consumer-group", {"pattern": "fo.*", "search": True, "commits": True}),
    ("classic-group", {"protocol": "cooperative"}),
    ("mixed-group", {"static": True}),
    ("connect", {"scenario": "worker_bounces"}),
    ("connect", {}),
    ("lock", {}),
    ("two-phase-commit", {}),
]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(
            *one, marks=[pytest.mark.deep] if one[0] in {"mixed-group", "classic-group", *dict(MODELS[:number])} else []
        )
        for number, one in enumerate(MODELS)
    ],
)
@pytest.mark.loop(2)
def test_every_model_is_told_step_by_step(name: str, options: dict[str, Any]) -> None:
    """Deltas come to positions, places are states of the component's tables, and all of it is JSON.

    The smallest model goes past the two hundred steps after which the whole position is told again.
    """
    model = make_model(name, **options)
    session = ModelSession(model, stroll(model, 210 if name == "lock" else 40, seed=3))
    check_whole(session)
    assert session.opening()["tables"].keys() == session.opening()["states"].keys()
    start = json.dumps([session.opening(), session.steps(0, 50), session.at(session.describe_path()["path"][:5], 0)])
    assert json.loads(start)[0]["can_branch"]


def test_a_group_shows_its_members_queues_and_what_the_coordinator_knows() -> None:
    """The join of a consumer, its assignment, and the callback that waits in the background queue."""
    session = ModelSession(make_model("consumer-group", members=1))
    path: list[int] = []
    for text in (
        "a subscribes",
        "a polls",
        "broker receives from a: joins, owns nothing",
        "a receives from broker: epoch 2, is assigned foo-0, foo-1",
        "a polls",
    ):
        options = session.at(path)["options"]
        path.append(next(one["index"] for one in options if one["text"] == text))
    found = session.at(path)
    assert [step["text"] for step in found["steps"]][-1] == "a polls"
    position = session.at(path, known=len(path))["position"]
    (a, broker) = (position["components"][name] for name in ("a", "broker"))
    assert a["cells"] == [{"table": "consumer-member", "state": "RECONCILING", "of": ""}]
    assert ["member epoch", "2"] in a["fields"]
    assert ["application", "polls, in its assigned callback"] in a["fields"]
    assert [queue["name"] for queue in a["queues"]] == ["application event queue", "background event queue"]
    assert broker["cells"] == [
        {"table": "consumer-group", "state": "STABLE", "of": ""},
        {"table": "consumer-group-member", "state": "STABLE", "of": "a-0"},
    ]
    assert ["a-0 assigned", "foo-0, foo-1"] in broker["fields"]
    assert ["timers", "session of a-0"] in broker["fields"]


def test_what_waits_is_in_a_queue() -> None:
    """An event for the application that has not polled, a join that is answered later."""
    session = ModelSession(make_model("consumer-group", members=1))
    session.walk.take("a subscribes")
    session.walk.take("a polls")
    session.walk.take("broker receives from a: joins, owns nothing")
    session.walk.take("a receives from broker: epoch 2, is assigned foo-0, foo-1")
    a = session.at(session.walk.indices, 9)["position"]["components"]["a"]
    assert a["queues"][1]["items"] == ["PartitionsAssignedEvent(full foo-0, foo-1; added foo-0, foo-1)"]
    classic = ModelSession(make_model("classic-group"))
    for text in ("a subscribes", "a polls", "broker receives from a: JoinGroup, owns nothing"):
        classic.walk.take(text)
    for text in ("a receives from broker: MEMBER_ID_REQUIRED: a-a0", "a polls"):
        classic.walk.take(text)
    classic.walk.take("broker receives from a: JoinGroup as a-a0, owns nothing")
    broker = classic.at(classic.walk.indices, 9)["position"]["components"]["broker"]
    assert broker["queues"][0] == {"name": "joins that wait", "items": ["a-a0"]}


def test_only_what_is_not_known_is_told() -> None:
    """`known` steps are left out, and the position is the one before the first that is told."""
    model = make_model("lock")
    path = stroll(model, 8)
    session = ModelSession(model, path)
    all_of_it, rest = session.at(path, 0), session.at(path, 5)
    assert rest["steps"] == all_of_it["steps"][5:]
    assert rest["position"] == session.steps(5, 1)["position"]
    assert session.at(path, 99)["steps"] == []
    assert session.describe_path() == {"path": path}
    assert session.steps(99, 5)["steps"] == []


def test_options_are_steps_that_can_be_taken() -> None:
    """Each leads on by its index, costs a disturbance where it says so, and changes what it says."""
    session = ModelSession(make_model("consumer-group"))
    path = stroll(session.model, 9, seed=2)
    here = session.at(path, len(path))
    for option in here["options"]:
        found = session.at([*path, option["index"]], len(path))
        (step,) = found["steps"]
        assert step["text"] == option["text"]
        assert step["delta"]["disturbances"] - here["position"]["disturbances"] == bool(option["disturbance"])
        texts = {name: component["said"] for name, component in step["delta"]["components"].items()}
        assert option["changes"].items() <= texts.items()


def test_composed_tables_light_their_states() -> None:
    """A table of Kafka's by itself: its drawing, where it is, and what that means."""
    session = ModelSession(compose([find("classic-group")]))
    opening = session.opening()
    assert 'data-state="EMPTY"' in opening["tables"]["classic-group"]
    (start,) = opening["start"]["components"].values()
    assert start["cells"] == [{"table": "classic-group", "state": "EMPTY", "of": ""}]


def test_a_model_of_ones_own_needs_no_look() -> None:
    """Its components have their one line; what its look raises is told by its name."""

    def look(_state: int) -> Look:
        raise ZeroDivisionError

    plain = Component("one", 0, lambda _: [Choice("goes")], lambda state, _: Step(state + 1))
    shown = ModelSession(Model("plain", [plain])).opening()["start"]["components"]["one"]
    assert shown == {"said": "0", "cells": [], "fields": [], "queues": []}
    broken = Component("one", 0, lambda _: [], lambda state, _: Step(state), look=look)
    with pytest.raises(InputError, match=r"one: look raises ZeroDivisionError: ; fix the model"):
        ModelSession(Model("broken", [broken])).opening()


def test_a_path_that_is_not_there_is_refused() -> None:
    """With the step, and how many there are."""
    with pytest.raises(LocalProtocolError, match="step 2: no step 9 here: there are 2, numbered from 0"):
        ModelSession(make_model("lock"), [0, 9])


def test_what_could_go_wrong_from_here_is_a_path_on_from_here() -> None:
    """It is the shortest one from there, its steps are those of the path, and it ends where the property is broken."""
    session = ModelSession(make_model("lock"))
    path = stroll(session.model, 2)
    question = read_question({"path": ".".join(map(str, path)), "disturb": ["all"]})
    verdict, summary = ask(session.model_at(question.path), question, lambda: 0.0)
    assert (summary["word"], verdict is not None) == ("violated", True)
    (found,) = session.describe_violations(question.path, verdict)
    whole = [int(number) for number in found["path"].split(".")]
    assert whole[:2] == path
    assert session.at(whole, 2)["steps"] == found["steps"]
    assert found["steps"][-1]["delta"]["broken"] == [found["property"]] == ["writes come in the order of the lock"]
    assert found["steps"][-1]["delta"]["disturbances"] == found["disturbances"] == 1
    from_start = check(session.model, disturb=["expire"], disturbances=1).violations[0]
    assert len(whole) == len(from_start.path)


def test_a_way_out_of_reach_of_the_goal_is_told_to_where_it_is_lost() -> None:
    """What follows after that shows what becomes of it."""

    def choices(state: str) -> list[Choice]:
        ways = {"begins": ["goes on", "errs"], "lost": ["turns"], "turned": ["errs"]}
        return [Choice(label) for label in ways.get(state, [])]

    after = {"goes on": "done", "errs": "lost", "turns": "turned"}
    one = Component("one", "begins", choices, lambda _, given: Step(after[given]), {"done": lambda s: int(s == "done")})
    session = ModelSession(Model("errs", [one], goal=Goal("it is done", lambda view: view.of("one", "done") == 1)))
    verdict, _ = ask(session.model_at(()), read_question({}), lambda: 0.0)
    found = session.describe_violations((), verdict)
    assert [(one["property"], one["path"], one["doomed_at"]) for one in found] == [("it is done", "1.0", 1)]


def test_a_check_has_bounds() -> None:
    """So many states, so long."""
    session = ModelSession(make_model("consumer-group"))
    few = read_question({"max_states": 500})
    verdict, summary = ask(session.model_at(()), few, lambda: 0.0)
    assert verdict is not None
    assert (summary["word"], summary["stopped"]) == ("stopped", "more than 500 states")
    seconds = iter(range(0, 10_000, 7))
    verdict, summary = ask(session.model_at(()), read_question({}), lambda: next(seconds))
    assert verdict is None
    assert (summary["word"], summary["stopped"]) == ("stopped", "more than 60 s")
    assert session.describe_violations((), None) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"path": "0.x"}, "'x' is not the number of a step"),
        ({"path": 7}, "not a path: 7"),
        ({"path": "0." * 99_999 + "0"}, "a path of 100000 steps"),
        ({"disturb": "crash"}, "not a list of kinds"),
        ({"disturb": [1]}, "not a list of kinds"),
        ({"disturbances": 10}, "10 disturbances"),
        ({"disturbances": True}, "not a number: True"),
        ({"max_states": 0}, "0 states"),
        ({"max_states": 10**9}, "1000000000 states"),
        ({"max_states": "many"}, "not a number: 'many'"),
    ],
)
def test_what_is_no_question_is_refused(asked: dict[str, Any], words: str) -> None:
    """On one line."""
    with pytest.raises(FsmError) as refused:
        read_question(asked)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    """As `fsm check` does."""
    session = ModelSession(make_model("lock"))
    with pytest.raises(InputError, match=r"unknown kind of disturbance: 'flood'.*choose from expire"):
        ask(session.model_at(()), read_question({"disturb": ["flood"]}), lambda: 0.0)
