"""Deadlines: an immutable mapping that knows its earliest one."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from fsm.coordinator.model.timers import CHUNK, Deadlines


def first(found: Deadlines[Any]) -> tuple[Any, int] | None:
    """Whose deadline comes first, and when."""
    at_ms = found.next_deadline_ms
    return None if at_ms is None else (found.earliest(), at_ms)


def test_of_equal_deadlines_the_first_armed_comes_first() -> None:
    """Whoever is armed anew goes to the end."""
    one = Deadlines({"a": 5, "b": 5, "c": 9})
    assert first(one) == ("a", 5)
    assert first(one.set_all({"a": 5})) == ("b", 5)
    assert first(one.without("a", "b", "z")) == ("c", 9)
    assert (first(one), dict(one)) == (("a", 5), {"a": 5, "b": 5, "c": 9})


def test_no_deadline_is_none() -> None:
    """Also where all were cancelled; what is not there is cancelled for nothing."""
    one = Deadlines({"a": 5})
    assert first(one.without("a")) is first(Deadlines[str]()) is None
    assert one.without("b") is one


def test_deadlines_compare_by_content() -> None:
    """However they came about."""
    one = Deadlines({"a": 5, "b": 6}).set_all({"a": 7})
    assert (one, hash(one)) == (Deadlines({"b": 6, "a": 7}), hash(Deadlines({"b": 6, "a": 7})))
    assert one != Deadlines({"a": 7})
    assert repr(one) == "Deadlines([('b', 6, 0), ('a', 7, 0)])"


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
            kept.append((found.set_all({key: deadline_ms}), {**expected, key: deadline_ms}))
        else:
            kept.append((found.without(key), expected))
    for found, expected in kept:
        expected_first = min(expected.items(), key=lambda entry: entry[1], default=None)
        assert (first(found), len(found)) == (expected_first, len(expected))
    found, expected = kept[-1]
    again = pickle.loads(pickle.dumps(found))  # noqa: S301  # our own bytes
    assert (again, first(again)) == (found, first(found))


def test_equal_deadlines_expire_in_their_order() -> None:
    """So mappings that differ by that order are not equal, and those that agree in it are, however they came about."""
    one, other = Deadlines({"a": 5, "b": 5}), Deadlines({"b": 5, "a": 5})
    assert one != other
    assert one.set("a", 5) == other
    assert hash(one.set("a", 5)) == hash(other)


def test_chunks_stay_few() -> None:
    """Thousands that are cancelled leave no trace: what is left lies in as many chunks as it needs."""
    found = Deadlines({i: i for i in range(5_000)})
    for i in range(5_000):
        found = found.set((i * 7) % 5_000, 5_000 + i)
    assert len(found._chunks) <= 4 * 5_000 // CHUNK
    found = found.without(*range(0, 5_000, 2))
    for i in range(1, 5_000, 2):
        found = found.without(i) if i % 100 != 1 else found
    assert (len(found), len(found._chunks) <= 4) == (50, True)
