"""Deadlines: an immutable mapping that knows its earliest one."""

from __future__ import annotations

import pickle
import random

import pytest

from fsm.coordinator.timers import Deadlines


def test_of_equal_deadlines_the_first_armed_comes_first() -> None:
    """Whoever is armed anew goes to the end."""
    one = Deadlines({"a": 5, "b": 5, "c": 9})
    assert one.earliest() == ("a", 5)
    assert one.armed({"a": 5}).earliest() == ("b", 5)
    assert one.without("a", "b", "z").earliest() == ("c", 9)
    assert (one.earliest(), dict(one)) == (("a", 5), {"a": 5, "b": 5, "c": 9})


def test_no_deadline_is_none() -> None:
    """Also where all were cancelled; what is not there is cancelled for nothing."""
    one = Deadlines({"a": 5})
    assert one.without("a").earliest() is Deadlines[str]().earliest() is None
    assert one.without("b") is one


def test_deadlines_compare_by_content() -> None:
    """However they came about."""
    one = Deadlines({"a": 5, "b": 6}).armed({"a": 7})
    assert (one, hash(one)) == (Deadlines({"b": 6, "a": 7}), hash(Deadlines({"b": 6, "a": 7})))
    assert one != Deadlines({"a": 7})
    assert repr(one) == "Deadlines({'a': 7, 'b': 6})"


@pytest.mark.parametrize("seed", [1, 2])
def test_the_earliest_is_the_earliest(seed: int) -> None:
    """Of hundreds that are armed, armed anew and cancelled at random, also of mappings that were left behind."""
    chance = random.Random(seed)  # noqa: S311  # reproducible on purpose
    kept: list[tuple[Deadlines[int], dict[int, int]]] = [(Deadlines(), {})]
    for _ in range(6_000):
        found, expected = kept[-1] if chance.random() < 0.9 else kept[chance.randrange(len(kept))]
        key, deadline_ms = chance.randrange(200), chance.randrange(1_000)
        expected = {one: at_ms for one, at_ms in expected.items() if one != key}  # armed anew is armed last
        if chance.random() < 0.7:
            kept.append((found.armed({key: deadline_ms}), {**expected, key: deadline_ms}))
        else:
            kept.append((found.without(key), expected))
    for found, expected in kept:
        first = min(expected.items(), key=lambda entry: entry[1], default=None)
        assert (found.earliest(), len(found)) == (first, len(expected))
    found, expected = kept[-1]
    again = pickle.loads(pickle.dumps(found))  # noqa: S301  # our own bytes
    assert (again, again.earliest()) == (found, found.earliest())


def test_a_heap_does_not_grow_for_ever() -> None:
    """What was armed anew is forgotten in time: a member that beats for years costs no more than one that is new."""
    found = Deadlines({i: i for i in range(10)})
    for now_ms in range(10_000):
        found = found.armed({now_ms % 10: now_ms + 45_000})
    assert found._heaped <= 60
    assert found.earliest() == (0, 54_990)
