"""The members of a classic group, and what is counted of them."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from fsm.coordinator.model.classic_group import ClassicGroupMember, ClassicMembers
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
        found = found.without(*ids) if goes else found.merge({i: _changed(chance, i) for i in ids})
        rebuilt = ClassicMembers.of(found.values())
        assert [getattr(found, f.name) for f in fields(found)] == [getattr(rebuilt, f.name) for f in fields(rebuilt)]


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
