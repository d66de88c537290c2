"""Interchangeable components: a quotient has the states that one expects, and is refused where one row differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis.strategies import DataObject, data, integers, sampled_from
from hypothesis.strategies import permutations as orders
from naive_search import Naive, State

from fsm.check import Choice, Component, Goal, Limits, Memo, Model, Property, Step, Wire, check
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.kafka.targets import equivariant_target
from fsm.check.symmetry import Renaming, rename
from fsm.cli import main
from fsm.coordinator.assignors import GroupSpec, MemberSpec
from fsm.errors import InputError


def resources(managers: int) -> list[str]:
    return [f"resource-{i}" for i in range(1, managers + 1)]


def orbits(model: Model, names: list[str]) -> int:
    """How many states there are but for who is who, each state renamed in every way."""
    naive, seen = Naive(model), set()
    renamings = [Renaming(dict(zip(names, order, strict=True))) for order in permutations(names)]

    def renamed(state: State, renaming: Renaming) -> State:
        states, queues = list(state[0]), list(state[1])
        for i, one in enumerate(model.components):
            states[naive.index[renaming.names.get(one.name, one.name)]] = rename(one, state[0][i], renaming)
        for i, wire in enumerate(model.wires):
            ends = (renaming.names.get(end, end) for end in (wire.sender, wire.receiver))
            queues[naive.wires[tuple(ends)]] = renaming(state[1][i])  # type: ignore[index]
        return tuple(states), tuple(queues)

    for state in naive.best:
        if not any(renamed(state, renaming) in seen for renaming in renamings):
            seen.add(state)
    return len(seen)


@pytest.mark.parametrize(("managers", "states"), [(2, 34), (3, 80), pytest.param(4, 166, marks=pytest.mark.deep)])
def test_the_quotient_has_one_state_of_each_orbit(managers: int, states: int) -> None:
    model = two_phase_commit(managers)
    verdict = check(model, symmetry=resources(managers))
    assert (verdict.word, verdict.states) == ("holds", states)
    assert orbits(model, resources(managers)) == states


@pytest.mark.deep
@pytest.mark.parametrize("kinds", [[], ["lose"]])
def test_a_counterexample_is_as_short_as_without(kinds: list[str]) -> None:
    """Deadlocks and liveness are asked of the quotient, too; its path is one of real states."""
    for model in (two_phase_commit(3), two_phase_commit(3, counts_to=2)):
        found = [
            {
                one.property: (one.disturbances, len(one.path) if one.doomed_at is None else one.doomed_at)
                for one in check(
                    model, disturb=kinds, disturbances=len(kinds), every=True, symmetry=symmetry
                ).violations
            }
            for symmetry in ((), resources(3))
        ]
        assert found[0] == found[1]
    assert found[0]


def test_the_lock_has_two_like_clients() -> None:
    assert (check(lock()).states, check(lock(), symmetry=["ann", "bob"]).states) == (51, 27)
    (found,) = check(lock(), disturb=["expire"], disturbances=1, symmetry=["ann", "bob"]).violations
    assert (found.property, len(found.path)) == ("writes come in the order of the lock", 11)


RESTARTS: dict[str, Any] = {"topics": {"foo": 3}, "client": "fixed", "coordinator": "fixed"}


@pytest.mark.deep
def test_members_are_not_interchangeable_where_the_assignor_goes_by_a_hash_of_their_names() -> None:
    """It walks members in that order, which decides where two could have the third partition."""
    with pytest.raises(InputError, match=r"not interchangeable: renamed, broker does .* in ASSIGNING.* on ") as refused:
        check(consumer_group(**RESTARTS), disturb=["restart"], disturbances=1, symmetry=["a", "b"])
    assert "\n" not in str(refused.value)


@pytest.mark.deep
@pytest.mark.parametrize(("most", "states"), [(2_000, None), (400_000, 392_337)])
def test_they_are_where_targets_do_not_depend_on_ids(most: int, states: int | None) -> None:
    """The same question: the other one is refused before it has met as many."""
    model, limits = consumer_group(equivariant=True, **RESTARTS), Limits(max_states=most)
    found = check(model, disturb=["restart"], disturbances=1, symmetry=["a", "b"], limits=limits)
    assert (found.word, found.states if states else None) == ("holds" if states else "stopped", states)
    assert "targets independent of member ids" in found.model
    assert any(one.startswith("Kafka's assignors: targets do not") for one in found.uncovered)


@pytest.mark.parametrize(
    ("options", "states", "quotient"),
    [
        ({}, 2_893, 1_448),
        pytest.param({"equivariant": True}, 2_893, 1_448, marks=pytest.mark.deep),
        pytest.param({"equivariant": True, "static": True}, 2_893, 1_448, marks=pytest.mark.deep),
    ],
)
def test_the_quotient_of_a_group_has_one_state_of_each_orbit(
    options: dict[str, Any], states: int, quotient: int
) -> None:
    """As many states as there are but for who is who, and the same word."""
    model = consumer_group(**options)
    full, half = check(model), check(model, symmetry=["a", "b"])
    assert (full.word, full.states) == ("holds", states)
    assert (half.word, half.states) == ("holds", quotient)


@pytest.mark.deep
def test_that_is_what_renaming_each_state_of_a_group_counts() -> None:
    assert orbits(consumer_group(equivariant=True), ["a", "b"]) == 1_448


@pytest.mark.deep
def test_a_group_is_broken_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """With as many steps, and live objects whose targets do not depend on ids either, take the path."""
    found = [
        check(consumer_group(equivariant=True), disturb=["late"], disturbances=1, symmetry=names).violations
        for names in ((), ("a", "b"))
    ]
    violations = [(one.property, len(one.path), one.replayed and one.replayed.differs) for (one,) in found]
    assert violations[0] == violations[1]
    assert violations[0][2] == ""
    assert main(["check", "consumer-group", "--equivariant", "--symmetry", "a,b"]) == 0
    assert "interchangeable, verified on every step: a, b" in capsys.readouterr().out


def test_only_names_tell_two_members_apart_who_have_nothing() -> None:
    """Both have joined before their pattern is resolved."""
    model = consumer_group(pattern="fo.*", equivariant=True)
    with pytest.raises(InputError, match="not interchangeable: renamed, broker does another thing in"):
        check(model, symmetry=["a", "b"])


@given(data())
def test_a_target_independent_of_ids_commutes_with_renaming(drawn: DataObject) -> None:
    """It is even, keeps what it can, and is renamed with the members of which no two have nothing."""
    names = drawn.draw(orders(["a-0", "b-0", "c-0"]))
    topics = {"one": drawn.draw(integers(0, 4)), "two": drawn.draw(integers(0, 3))}
    places = [(topic, number) for topic, count in topics.items() for number in range(count)]
    owner = {place: drawn.draw(sampled_from([*names, None])) for place in places}
    had = {name: [place for place in places if owner[place] == name] for name in names}
    assume(sum(not places for places in had.values()) < 2)

    def target(called: dict[str, str]) -> dict[str, Any]:
        places_of = {called[name]: _by_topic(places) for name, places in had.items()}
        members = {name: MemberSpec(list(topics), places_of[name]) for name in sorted(places_of)}
        return dict(equivariant_target("uniform", GroupSpec(members, topics, homogeneous=True), {}))

    plain, other = ({name: name for name in names}, dict(zip(names, names[1:] + names[:1], strict=True)))
    found = target(plain)
    assert target(other) == {other[name]: parts for name, parts in found.items()}
    counts = [sum(len(numbers) for _, numbers in parts) for parts in found.values()]
    assert sum(counts) == len(places)
    assert max(counts) - min(counts) <= 1
    for name, places_before in had.items():
        kept = {(topic, number) for topic, numbers in found[name] for number in numbers}.intersection(places_before)
        assert len(kept) >= min(len(places_before), len(places) // 3)


def _by_topic(places: list[tuple[Any, int]]) -> Any:
    return tuple((topic, tuple(n for t, n in places if t == topic)) for topic in sorted({t for t, _ in places}))


def pair(**changes: Any) -> Model:
    """Two that count to three and tell a third one each time."""

    def choices(state: int) -> Iterable[Choice]:
        return [Choice("counts")] if state < 3 else ()

    def step(state: int, _given: Any) -> Step:
        return Step(state + 1, [("hub", "more")])

    def hear(state: frozenset[tuple[str, int]], given: Any) -> Step:
        counts = dict(state)
        return Step(frozenset((counts | {given.sender: counts.get(given.sender, 0) + 1}).items()))

    features = {"count": int}
    ones = [
        Component(name, 0, changes.get(f"choices_{name}", choices), changes.get(f"step_{name}", step), features)
        for name in "ab"
    ]
    hub = Component("hub", frozenset(), lambda _: (), changes.get("hear", hear))
    wires = [Wire("a", "hub"), Wire("b", "hub", at_most=changes.get("room", 16))]
    return Model("pair", [*ones, hub], wires, changes.get("properties", ()), changes.get("goal"))


def test_like_ones_are_taken_for_one() -> None:
    full, half = check(pair()).states, check(pair(), symmetry=["a", "b"]).states
    assert half == orbits(pair(), ["a", "b"]) < full


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_b": lambda s, _: Step(s + 1 if s != 1 else 3, [("hub", "more")])}, "does another thing in"),
        ({"step_b": lambda s, _: Step(s + 1, [("hub", "more")] if s else [])}, "does another thing in"),
        ({"choices_b": lambda s: [Choice("counts")] if s < 2 else ()}, "has other choices in"),
        ({"hear": lambda h, given: Step(h | {given.sender} if given.sender == "a" else h)}, "hub does another thing"),
        ({"room": 3}, "has no counterpart"),
        ({"properties": [Property("p", lambda view: view.of("a", "count") < 9)]}, ""),
        ({"properties": [Property("p", lambda view: view.of("a", "count") < 2)]}, "'p' is asked of one"),
        ({"goal": Goal("g", lambda view: view.of("b", "count") == 3)}, "'g' is true of one"),
    ],
)
def test_a_single_difference_is_found(changes: dict[str, Any], message: str) -> None:
    """One step, one choice, one wire, one question."""
    if not message:
        assert check(pair(**changes), symmetry=["a", "b"]).word == "holds"
        return
    with pytest.raises(InputError, match=message):
        check(pair(**changes), symmetry=["a", "b"], every=True)


def test_what_cannot_be_exchanged_is_one_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for names in (["a"], ["a", "c"], ["a", "a"]):
        with pytest.raises(InputError, match="cannot exchange"):
            check(pair(), symmetry=names)
    with pytest.raises(InputError, match="does not go with --memo"):
        check(pair(), symmetry=["a", "b"], memo=Memo(tmp_path, "one"))
    assert main(["check", "two-phase-commit", "--symmetry", "resource-1,resource-2,resource-3"]) == 0
    assert "interchangeable, verified on every step: resource-1, resource-2, resource-3" in capsys.readouterr().out


def test_names_are_found_inside_of_any_value() -> None:
    renaming = Renaming({"a": "b", "b": "a"})
    choice = Choice("a asks", ("b", frozenset({"a-0", "ab"}), 1))
    assert renaming(choice) == Choice("b asks", ("a", frozenset({"b-0", "ab"}), 1))
    assert renaming(replace(Wire("a", "hub"), at_most=3)) == Wire("b", "hub", at_most=3)
