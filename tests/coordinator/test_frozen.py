"""Immutable maps and sets: values that compare, hash and change by copy, or by sharing where a copy would be long."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import pytest

from fsm.coordinator.model.persistent import PersistentMap, PersistentSet, adopt_dict, count


def test_a_change_is_another_map() -> None:
    """The one before stays as it was; a changed key keeps its place, a new one comes last."""
    one = PersistentMap({"a": 1, "b": 2})
    assert list(one.set("a", 3).set("c", 4).items()) == [("a", 3), ("b", 2), ("c", 4)]
    assert list(one.without("a", "z")) == ["b"]
    assert dict(one) == {"a": 1, "b": 2}


def test_no_change_is_the_same_map() -> None:
    """Nothing is copied where nothing would differ."""
    one = PersistentMap({"a": 1})
    assert one.set("a", 1) is one
    assert one.without("z") is one
    assert one.merge({}) is one


def test_equal_content_is_an_equal_value() -> None:
    """Whatever the order; a plain dict is another kind of thing."""
    one, other = PersistentMap({"a": 1, "b": 2}), PersistentMap({"b": 2, "a": 1})
    assert (one, hash(one)) == (other, hash(other))
    assert one != PersistentMap({"a": 1})
    assert one != {"a": 1, "b": 2}


def test_a_map_of_mutable_values_has_no_hash() -> None:
    """As a tuple of them has none."""
    with pytest.raises(TypeError):
        hash(PersistentMap({"a": [1]}))


def test_entries_are_the_map_s_own() -> None:
    """Read as one dict, also where the map is shared; a dict can be made a map without another copy."""
    one = PersistentMap(dict.fromkeys(range(100), 0)).set(3, 1).without(5)
    assert one.entries() == dict(one)
    assert adopt_dict({**one.entries(), "b": 2}) == one.set("b", 2)


def walk(seed: int) -> Iterator[tuple[PersistentMap[int, int], dict[int, int]]]:
    """A large map and the dict that it should be, changed at random; old maps are gone back to now and then."""
    chance = random.Random(seed)  # noqa: S311  # reproducible on purpose
    kept = [(PersistentMap(dict.fromkeys(range(300), 0)), dict.fromkeys(range(300), 0))]
    for number in range(3_000):
        found, expected = kept[chance.randrange(max(0, len(kept) - 3), len(kept))]
        keys = [chance.randrange(330) for _ in range(chance.choice((1, 1, 1, 2, 50)))]
        roll = chance.random()
        if roll < 0.5:
            kept.append((found.merge(dict.fromkeys(keys, number)), {**expected, **dict.fromkeys(keys, number)}))
        elif roll < 0.7:
            kept.append((found.set(keys[0], number), {**expected, keys[0]: number}))
        else:
            kept.append((found.without(*keys), {key: value for key, value in expected.items() if key not in keys}))
        yield kept[-1]
    yield from kept


@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (2, 3))])
def test_a_large_map_is_shared_and_still_a_value(seed: int) -> None:
    """Whatever is set, taken out and put back, every map stays what a copied dict would be, also in its order."""
    for found, expected in walk(seed):
        assert len(found) == len(expected)
        assert [found.get(key) for key in range(330)] == [expected.get(key) for key in range(330)]
        assert [key in found for key in range(330)] == [key in expected for key in range(330)]
    for found, expected in walk(seed):
        assert list(found.items()) == list(expected.items())
        assert pickle.loads(pickle.dumps(found)) == found == PersistentMap(expected)  # noqa: S301  # our own bytes


def test_a_set_keeps_the_order_in_which_its_elements_came() -> None:
    """It compares with any set, hashes by content, and gives itself where nothing would differ."""
    one = PersistentSet("ab")
    assert list(one.add("c").without("a", "z")) == ["b", "c"]
    assert one.add("a") is one
    assert one.without("z") is one
    assert (one, hash(one)) == (PersistentSet("ba"), hash(PersistentSet("ba")))
    assert one == {"a", "b"} == set(one)


def test_names_that_nobody_has_are_not_count() -> None:
    """A count that falls to nothing is left out, and comes back at the end."""
    counts = count(count(PersistentMap(), (), ("a", "b")), ("a",), ("b",))
    assert dict(counts) == {"b": 2}
    assert list(count(counts, (), ("a",)).items()) == [("b", 2), ("a", 1)]
    assert count(counts, ("b",), ("b",)) is counts


@pytest.mark.parametrize("size", [3, 200])
def test_maps_tell_where_they_differ(size: int) -> None:
    """Few changes are found by what the maps note, many by all that they hold; values are told apart by identity."""
    first = PersistentMap({i: [i] for i in range(size)})
    second = first.set(1, [1]).set(size, [0]).without(2)
    assert second.differing(first) == first.differing(second) == {1, 2, size}
    assert first.differing(first) == first.set(1, first[1]).differing(first) == set()
    many = second
    for i in range(0, size, 2):
        many = many.set(i, [i])
    assert many.differing(first) == {1, 2, size, *range(0, size, 2)}
    assert PersistentMap(many.items()).differing(many) == set()
