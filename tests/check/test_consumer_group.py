"""Consumer groups: how many states there are, what holds of them, and which weak spots the checker finds by itself."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache

import pytest
from models import consumer_group, replayed

from fsm.check import Limits, Verdict, Violation, check
from fsm.check.search import Search
from fsm.check.verdict import states_on
from fsm.errors import InputError


@pytest.mark.parametrize(
    ("options", "kinds", "states", "transitions"),
    [
        ({}, (), 2_893, 8_774),
        pytest.param({"topics": {"foo": 1, "bar": 1}}, (), 2_893, 8_774, marks=pytest.mark.deep),
        ({"client": "fixed"}, (), 2_893, 8_774),
        ({"client": "4.0.0", "coordinator": "4.0.0"}, (), 2_893, 8_774),
        pytest.param({}, ("late",), 54_841, 196_308, marks=pytest.mark.deep),
        pytest.param({}, ("crash", "expire"), 104_293, 346_550, marks=pytest.mark.deep),
    ],
)
@pytest.mark.loop(2)
def test_groups_have_so_many_states(options: dict, kinds: tuple[str, ...], states: int, transitions: int) -> None:
    """Whoever changes a member's or the coordinator's behaviour sees it here."""
    found = Search(consumer_group(**options), frozenset(kinds), int(bool(kinds)), every=True).run()
    assert (found.states.size, found.transitions, found.exact) == (states, transitions, True)


@pytest.mark.parametrize(
    "client", [pytest.param("4.0.0", marks=pytest.mark.deep), "4.4.0", pytest.param("fixed", marks=pytest.mark.deep)]
)
def test_an_undisturbed_group_is_safe_and_settles(client: str) -> None:
    assert check(consumer_group(client=client), every=True).word == "holds"


@cache
def late() -> Verdict:
    return check(consumer_group(), disturb=["late"], disturbances=1, every=True)


def broken(verdict: Verdict, name: str) -> Violation:
    return next(one for one in verdict.violations if one.property == name)


@pytest.mark.usefixtures("timed")
def test_a_late_request_swallows_a_grant() -> None:
    """A heartbeat that was given up is handled after the full retry; its answer, with a new target, goes nowhere.

    From then on the coordinator answers that nothing changed. No timer helps: to the coordinator, all is settled.
    """
    found = broken(late(), "the group settles")
    assert (found.disturbances, found.doomed_at) == (1, 17)
    assert [step.action for step in found.path if step.disturbance] == ["late"]
    assert found.path[16].action == "receives late"
    assert found.replayed is not None
    assert found.replayed.differs == ""
    assert found.replayed.times_ms
    assert found.path[16].state["broker"].startswith("STABLE")


@pytest.mark.usefixtures("timed")
def test_a_late_join_makes_the_coordinator_forget_what_is_used() -> None:
    """W6: it owns nothing, it says, and by then it has been told to use everything."""
    found = broken(late(), "members use only assigned partitions")
    assert (found.disturbances, len(found.path)) == (1, 11)
    assert [step.action for step in found.path if step.disturbance] == ["late"]
    assert found.path[-1].action == "receives late"
    assert found.path[-3].state == {"a": "STABLE at epoch 2, uses foo-0, foo-1"}


@pytest.mark.deep
def test_an_assignment_of_an_earlier_life_is_used() -> None:
    """H17: the poll timer ran out, the member left, rejoined, and its application applies what it was given before."""
    verdict = check(
        consumer_group(), disturb=["poll_timeout"], disturbances=1, properties=["no partition has two users"]
    )
    (found,) = verdict.violations
    assert (found.disturbances, len(found.path)) == (1, 17)


def test_a_known_hazard_can_be_cut_off() -> None:
    """W1 is counted, and what a lost request or answer leads to besides is looked at: nothing."""
    lost = check(consumer_group(), disturb=["lose", "unanswered"], disturbances=1, known=["W1"], every=True)
    assert (lost.word, lost.states, lost.cut) == ("holds", 11_265, {"W1": 240})


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        pytest.param({}, ("late", "poll_timeout"), marks=pytest.mark.deep),
        ({"client": "fixed", "coordinator": "4.1.0"}, ("leave", "rejoin", "crash", "failover")),
    ],
)
def test_paths_are_taken_by_live_objects_too(options: dict, kinds: tuple[str, ...]) -> None:
    """Clocks that run, call numbers, generators: after each step of any path all is as the model says."""
    search = Search(consumer_group(**options), frozenset(kinds), 1, every=True, limits=Limits(15_000)).run()
    assert not any(one.differs for one in replayed(search, 30))


def test_a_path_that_live_objects_do_not_take_is_told() -> None:
    """Here one in which a member claims another epoch."""
    search = Search(consumer_group(), frozenset(("late",)), 1, every=True).run()
    path = states_on(search, search.states.size - 1)
    action, states = path[-1]
    states["a"] = states["a"]._replace(member=replace(states["a"].member, epoch=99))
    assert search.model.replay is not None
    difference = search.model.replay(path).differs
    assert difference.startswith(f"step {len(path)}, {action.actor} {action.what}: the epoch of a is ")


def test_states_can_be_sent_to_another_process() -> None:
    """A model goes to the workers of a cluster with them."""
    state = consumer_group().components[0].start
    assert pickle.loads(pickle.dumps(state)) == state  # noqa: S301  our own


def test_what_is_not_modelled_is_said() -> None:
    verdict = check(consumer_group(1))
    assert "more than two restarts of a member" in verdict.uncovered
    assert verdict.document()["uncovered"] == list(verdict.uncovered)


@pytest.mark.parametrize("options", [{"members": 0}, {"members": 7}, {"topics": {"foo": 63}}])
def test_more_than_it_can_is_refused(options: dict) -> None:
    with pytest.raises(InputError, match=r"--members|--topics"):
        consumer_group(**options)


def test_a_target_that_an_old_callback_reached_is_stable() -> None:
    """A callback of an earlier life makes what is held the target; the coordinator says it again: RECONCILING ends."""
    model = consumer_group(1, {"foo": 1})
    found = check(model, disturb=["poll_timeout"], disturbances=2, every=True)
    assert ([one.property for one in found.violations], found.states) == (["the group settles"], 5_389)
