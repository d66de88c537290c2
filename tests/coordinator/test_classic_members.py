"""The members of a classic group, and what is counted of them."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest
from classic_scene import ClassicScene

from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, ClassicMembers, renamed
from fsm.protocol.records import ClassicProtocol


def member(member_id: str, *protocols: str, instance_id: str | None = None, timeout_ms: int = 7) -> ClassicGroupMember:
    """A member that lists these protocols."""
    offered = tuple(ClassicProtocol(name, b"") for name in protocols or ("range",))
    return ClassicGroupMember(member_id, instance_id, "client", "/127.0.0.1", timeout_ms, 10_000, offered)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_counts_follow_from_the_members(seed: int) -> None:
    """Whoever comes, changes and goes, alone or many at once: the counts are those of the members made anew."""
    chance = random.Random(seed)  # noqa: S311  # reproducible on purpose
    found = ClassicMembers()
    for _ in range(600):
        ids = [f"m{chance.randrange(90)}" for _ in range(chance.choice((1, 1, 3, 40)))]
        goes = chance.random() < 0.3
        found = found.without(*ids) if goes else found.merged({i: _changed(chance, i) for i in ids})
        anew = ClassicMembers.of(found.values())
        assert [getattr(found, f.name) for f in fields(found)] == [getattr(anew, f.name) for f in fields(anew)]


def _changed(chance: random.Random, member_id: str) -> ClassicGroupMember:
    names = chance.choice((("range",), ("range", "sticky"), ("sticky", "range")))
    instance_id = f"i{member_id}" if chance.random() < 0.3 else None
    made = member(member_id, *names, instance_id=instance_id, timeout_ms=chance.choice((5, 6)))
    return replace(made, assignment=chance.choice((b"", b"a")))


def test_an_instance_id_that_moved_is_kept() -> None:
    """The one who gave it up does not take it along as it goes."""
    found = ClassicMembers.of([member("a", instance_id="i")]).without("a").set(member("b", instance_id="i"))
    assert dict(found.static) == {"i": "b"}
    both = ClassicMembers.of([member("a", instance_id="i"), member("b", instance_id="i")])
    assert dict(both.without("a").static) == {"i": "b"}


def test_votes_are_for_what_all_support() -> None:
    """Each member's first protocol that everybody lists gets its vote; without one in common nothing is elected."""
    found = ClassicMembers.of([member("a", "sticky", "range"), member("b", "range", "sticky"), member("c", "range")])
    assert found.elected_protocol() == "range"
    for without in (found.set(member("d", "sticky")), ClassicMembers()):
        with pytest.raises(ValueError, match="no protocol is supported by all members"):
            without.elected_protocol()


def test_a_tied_vote_goes_as_kafka_s_map_is_walked() -> None:
    """`range` and `roundrobin` with a vote each: the map of votes has `range` in bucket 9, `roundrobin` in bucket 10.

    Two names of one bucket, as Java's `Aa` and `BB` are, are walked as members voted: in the order of their own map.
    """
    one, other = member("a", "range", "roundrobin"), member("b", "roundrobin", "range")
    assert ClassicMembers.of([one, other]).elected_protocol() == "range"
    assert ClassicMembers.of([other, one]).elected_protocol() == "range"
    one, other = member("a", "Aa", "BB"), member("b", "BB", "Aa")
    assert ClassicMembers.of([other, one]).elected_protocol() == "Aa"
    assert ClassicMembers.of([member("c", "Aa", "BB"), other]).elected_protocol() == "BB"


def test_members_of_another_order_are_others() -> None:
    """Java's `Aa` and `BB` share a bucket: who came first is walked first, and may lead one day."""
    one, other = member("Aa"), member("BB")
    assert ClassicMembers.of([one, other]) != ClassicMembers.of([other, one])
    assert ClassicMembers.of([one, member("c")]) == ClassicMembers.of([member("c"), one])


def joined(first: str, second: str, *, before: int = 0, ends: bool = False) -> tuple[ClassicGroup, int]:
    """A group of two whose joins, or the follower's sync, are delayed, after some requests and time; and the time."""
    scene = ClassicScene()
    for _ in range(before):
        scene.wait(777)
        scene.pulse("nobody", 1)
    ids = [scene.come(fresh_id=name)["member_id"] for name in (first, second)]
    for member_id in ids:
        scene.come(member_id)
    scene.come(fresh_id=first + second)
    if ends:
        scene.wait(6_000)
        scene.share(ids[1], 1)
    return scene.classic, scene.context.now_ms


@pytest.mark.parametrize("ends", [False, True])
def test_states_that_differ_by_names_and_time_become_equal(ends: bool) -> None:
    """Renamed and shifted, a group is the one of other ids, other requests and a later time; nothing else makes it."""
    one, at_ms = joined("a", "b", ends=ends)
    other, later_at_ms = joined("x", "y", before=3, ends=ends)
    ids = {"client-a": "client-x", "client-b": "client-y", "client-ab": "client-xy"}
    tokens = {token: token + 3 for token in range(9)}
    again = renamed(one, ids, tokens, later_at_ms - at_ms)
    assert one != other
    assert (again, hash(again)) == (other, hash(other))
    assert renamed(one, ids, {}, later_at_ms - at_ms) != other
    assert renamed(one, ids, tokens, 0) != other
    assert renamed(one, {}, tokens, later_at_ms - at_ms) != other
