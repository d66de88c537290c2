"""Immutable maps: values that compare, hash and change by copy."""

from __future__ import annotations

import pytest

from fsm.coordinator.frozen import FrozenMap, freeze, taken, thaw


def test_a_change_is_another_map() -> None:
    """The one before stays as it was; a changed key keeps its place, a new one comes last."""
    one = FrozenMap({"a": 1, "b": 2})
    assert list(one.set("a", 3).set("c", 4).items()) == [("a", 3), ("b", 2), ("c", 4)]
    assert list(one.without("a", "z")) == ["b"]
    assert dict(one) == {"a": 1, "b": 2}


def test_no_change_is_the_same_map() -> None:
    """Nothing is copied where nothing would differ."""
    one = FrozenMap({"a": 1})
    assert one.set("a", 1) is one
    assert one.without("z") is one
    assert one.merged({}) is one


def test_equal_content_is_an_equal_value() -> None:
    """Whatever the order; a plain dict is another kind of thing."""
    one, other = FrozenMap({"a": 1, "b": 2}), FrozenMap({"b": 2, "a": 1})
    assert (one, hash(one)) == (other, hash(other))
    assert one != FrozenMap({"a": 1})
    assert one != {"a": 1, "b": 2}


def test_a_map_of_mutable_values_has_no_hash() -> None:
    """As a tuple of them has none."""
    with pytest.raises(TypeError):
        hash(FrozenMap({"a": [1]}))


def test_nested_values_freeze_and_thaw() -> None:
    """What JSON gives becomes a value, and back."""
    given = {"topics": [{"name": "foo", "partitions": [0, 1]}], "epoch": 3}
    frozen = freeze(given)
    assert hash(frozen) == hash(freeze(given))
    assert frozen["topics"][0]["partitions"] == (0, 1)
    assert thaw(frozen) == given


def test_a_copy_is_ones_own() -> None:
    """A dict made from a map may be changed, and be made a map again without another copy."""
    one = FrozenMap({"a": 1})
    mine = one.copied()
    mine["b"] = 2
    assert dict(one) == {"a": 1}
    assert taken(mine) == FrozenMap({"a": 1, "b": 2})
