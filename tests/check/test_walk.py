"""A model taken step by step: forward, back, to any place, and on from there as a model of its own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fsm.check import (
    Choice,
    Component,
    Disturbance,
    Fault,
    Memo,
    Model,
    PathStep,
    Property,
    Queue,
    Received,
    Step,
    Walk,
    Wire,
    check,
    make_model,
)
from fsm.check import walk as walking
from fsm.errors import LocalProtocolError


def stroll(walk: Walk, steps: int, seed: int = 1) -> tuple[int, ...]:
    """Takes so many steps, undisturbed ones where there are."""
    chance = random.Random(seed)  # noqa: S311
    for _ in range(steps):
        free = [at for at, one in enumerate(walk.options()) if not one.disturbance]
        walk.choose(chance.choice(free or range(len(walk.options()))))
    return walk.indices


def test_a_path_of_numbers_leads_where_it_led() -> None:
    """Another walk, which has seen nothing else, goes the same way."""
    walk = Walk(make_model("consumer-group"))
    path = stroll(walk, 60)
    other = Walk(walk.model)
    other.go(path)
    assert other.state() == walk.state()
    assert other.options() == walk.options()
    assert [action for action, _ in other.path] == [action for action, _ in walk.path]


def test_the_way_back_takes_no_step_of_the_model() -> None:
    """What was walked is kept, and so is what branches off."""
    taken = []

    def step(state: int, given: object) -> Step:
        taken.append(given)
        return Step(state + 1)

    walk = Walk(Model("counts", [Component("one", 0, lambda state: [Choice(f"{state} up"), Choice("up")], step)]))
    walk.go((0, 1, 0, 0))
    before = len(taken)
    walk.go((0, 1))
    assert walk.state() == {"one": "2"}
    walk.go((0, 1, 0, 0))
    walk.go(())
    assert (walk.state(), walk.indices) == ({"one": "0"}, ())
    assert len(taken) == before


def test_a_path_that_is_not_there_is_told_by_its_step() -> None:
    """The walk stands still then."""
    walk = Walk(make_model("lock"))
    walk.go((0,))
    with pytest.raises(LocalProtocolError, match=r"step 3: no step 7 here: there are 3, numbered from 0"):
        walk.go((0, 0, 7))
    assert walk.indices == (0,)
    with pytest.raises(LocalProtocolError, match="no step -1 here"):
        walk.choose(-1)


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to where the walk stands stays, whatever is dropped."""
    monkeypatch.setattr(walking, "KEPT", 10)
    walk = Walk(make_model("consumer-group"))
    path = stroll(walk, 40)
    state = walk.state()
    walk.go(path[:5])
    walk.go(path)
    assert (walk.state(), walk.indices) == (state, path)


def test_options_hang_on_the_state_alone() -> None:
    """Messages that are late, or have no order, come in the same order whatever was walked before."""

    def choices(sent: tuple[str, ...]) -> list[Choice]:
        return [Choice(word) for word in "abc" if word not in sent]

    def sender(sent: tuple[str, ...], given: str) -> Step:
        return Step((*sent, given), [("there", given)])

    def receiver(text: str, given: Received) -> Step:
        return Step(text + given.message)

    ends = [Component("here", (), choices, sender), Component("there", "", lambda _: [], receiver)]
    wires = [Wire("here", "there", [Disturbance("late", Fault.LATE)], reorders=True)]
    model = Model("unordered", ends, wires)
    one, other = Walk(model), Walk(model)
    for first, second in (("a", "c"), ("c", "a")):
        other.go(())
        other.take(f"here {first}")
        other.take(f"here {second}")
    one.take("here c")
    one.take("here a")
    assert one.options() == other.options()


def test_steps_that_are_told_alike_are_followed_to_where_the_others_are() -> None:
    """The second of two steps of one text is the one after which the path goes on."""

    def choices(state: int) -> list[Choice]:
        return [Choice("goes", 1), Choice("goes", 2)] if state == 0 else [Choice("ends")] if state == 2 else []

    component = Component(
        "one", 0, choices, lambda state, given: Step(given if state == 0 else 3), describe=lambda _: "x"
    )
    walk = Walk(Model("alike", [component]))
    goes, ends = PathStep("one", "goes", "", {}), PathStep("one", "ends", "", {})
    walk.follow([goes, ends])
    assert walk.indices == (1, 0)
    walk.go(())
    with pytest.raises(LocalProtocolError, match="step 3: no such step here: one ends"):
        walk.follow([goes, ends, ends])
    assert walk.indices == ()


def test_the_model_from_here_goes_on_as_the_walk_does() -> None:
    """States, what is under way and what is late are where they were."""
    walk = Walk(make_model("consumer-group"))
    stroll(walk, 12, seed=4)
    late = next(str(one) for one in walk.options() if one.disturbance == "late")
    walk.take(late)
    on = Walk(walk.from_here())
    assert on.state() == walk.state()
    assert sorted(map(str, on.options())) == sorted(map(str, walk.options()))


def test_what_goes_wrong_from_here_is_a_path_on_from_here() -> None:
    """A check of the model from here finds what a check from the start finds, and its path is walked on."""
    walk = Walk(make_model("lock"))
    walk.take("ann asks")
    walk.take("server receives from ann: acquire")
    verdict = check(walk.from_here(), disturb=["expire"], disturbances=1)
    assert verdict.word == "violated"
    (found,) = verdict.violations
    walk.follow(found.path)
    assert len(walk.indices) == 2 + len(found.path)
    assert walk.stands[-1].breaks == (found.property,)


def test_live_objects_take_the_path_from_the_start_on() -> None:
    """A violation that is found from here is replayed with what led here before it."""
    walk = Walk(make_model("consumer-group"))
    for text in ("a subscribes", "a polls", "broker receives from a: joins, owns nothing"):
        walk.take(text)
    verdict = check(walk.from_here(), disturb=["late"], disturbances=1, properties=["no partition has two users"])
    (found,) = verdict.violations
    assert found.replayed is not None
    assert found.replayed.differs == ""
    walk.follow(found.path)
    assert "no partition has two users" in walk.list_broken()


def test_a_wire_may_have_something_under_way_at_first(tmp_path: Path) -> None:
    """It arrives, late or not, and is what a check begins with, also one whose tables were kept."""

    def append(text: str, given: Received) -> Step:
        return Step(text + given.message + ("!" if given.late else ""))

    ends = [Component("here", 0, lambda _: [], lambda state, _: Step(state))]
    ends += [Component("there", "", lambda _: [], append, {"all": lambda text: int(len(text) == 4)})]
    never = Property("never everything", lambda view: view.of("there", "all") == 0)
    model = Model("begun", ends, [Wire("here", "there", start=Queue(("a", "b"), ("c",)))], [never])
    assert sorted(map(str, Walk(model).options())) == [
        "there receives from here, late: c",
        "there receives from here: a",
    ]
    verdicts = [check(model, memo=memo) for memo in (None, Memo(tmp_path, "begun"), Memo(tmp_path, "begun"))]
    assert [(one.word, len(one.violations[0].path)) for one in verdicts] == [("violated", 3)] * 3
    assert [one.memo_steps > 0 for one in verdicts] == [True, True, False]
