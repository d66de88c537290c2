"""The assignors that a leader of a classic group runs."""

from __future__ import annotations

import struct
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fsm.member.classic.assignors import (
    COOPERATIVE_STICKY,
    Candidate,
    PartitionCounts,
    assign_cooperative_sticky,
    assign_range,
)
from fsm.protocol.assignment import Partitions, partitions
from fsm.protocol.consumer_protocol import Subscription


def members(**topics: str) -> dict[Candidate, Subscription]:
    return {Candidate.of(member, None): Subscription(tuple(sorted(wants))) for member, wants in topics.items()}


def holding(owned: dict[str, tuple[int, ...]], generation_id: int = 1) -> dict[Candidate, Subscription]:
    """Members that all want topic `t` and hold these partitions of it."""
    return {
        Candidate.of(member, None): Subscription(
            ("t",), owned_partitions=tuple(("t", n) for n in numbers), generation_id=generation_id
        )
        for member, numbers in owned.items()
    }


def numbers(given: dict[str, Partitions]) -> dict[str, list[int]]:
    return {member: [n for _, n in mine] for member, mine in given.items()}


def test_range_gives_the_first_members_more() -> None:
    """Each topic by itself, so that the first member gets more of each."""
    given = assign_range(members(a="tu", b="tu"), (("t", 3), ("u", 3)))
    assert given == {"a": (("t", 0), ("t", 1), ("u", 0), ("u", 1)), "b": (("t", 2), ("u", 2))}


def test_range_leaves_out_who_does_not_subscribe() -> None:
    """And topics that nobody wants."""
    given = assign_range(members(a="t", b="u"), (("t", 1), ("u", 2), ("v", 9)))
    assert given == {"a": (("t", 0),), "b": (("u", 0), ("u", 1))}


def test_range_orders_static_members_first_and_by_their_instance_ids() -> None:
    """So that a static member keeps its range under each new member id."""
    wants = Subscription(("t",))
    group = {Candidate.of("a", None): wants, Candidate.of("z", "i2"): wants, Candidate.of("b", "i3"): wants}
    assert numbers(assign_range(group, (("t", 3),))) == {"z": [0], "b": [1], "a": [2]}


def test_cooperative_sticky_takes_from_the_fullest_and_gives_in_the_next_round() -> None:
    """A second member joins: the first round only takes, the second gives."""
    first = assign_cooperative_sticky(holding({"a": (0, 1, 2, 3), "b": ()}), (("t", 4),))
    assert numbers(first) == {"a": [0, 1], "b": []}
    second = assign_cooperative_sticky(holding({"a": (0, 1), "b": ()}), (("t", 4),))
    assert numbers(second) == {"a": [0, 1], "b": [2, 3]}


def test_cooperative_sticky_believes_the_later_generation() -> None:
    """A member that was away still claims what another one got meanwhile."""
    group = holding({"old": (0, 1)}, generation_id=3) | holding({"new": (1,)}, generation_id=4)
    assert numbers(assign_cooperative_sticky(group, (("t", 2),))) == {"old": [0], "new": [1]}


def test_cooperative_sticky_reads_the_generation_from_user_data() -> None:
    """A subscription of version 1 carries it there only."""
    group = {
        Candidate.of(m, None): Subscription(("t",), struct.pack(">i", generation), (("t", 0),))
        for m, generation in (("a", 2), ("b", 5))
    }
    assert numbers(assign_cooperative_sticky(group, (("t", 1),))) == {"a": [], "b": [0]}
    assert COOPERATIVE_STICKY.user_data is not None
    assert COOPERATIVE_STICKY.user_data(5) == b"\x00\x00\x00\x05"


def test_cooperative_sticky_gives_a_partition_of_two_claims_to_nobody_yet() -> None:
    """Two members of one generation claim it: both give it up first, and the next round assigns it."""
    group = holding({"a": (0,), "b": (0,)})
    assert numbers(assign_cooperative_sticky(group, (("t", 1),))) == {"a": [], "b": []}
    assert numbers(assign_cooperative_sticky(holding({"a": (), "b": ()}), (("t", 1),))) == {"a": [0], "b": []}


topics = st.sampled_from("tuv")
group = st.dictionaries(
    st.sampled_from("abcde"),
    st.tuples(
        st.sets(topics, min_size=1), st.sets(st.tuples(topics, st.integers(0, 5)), max_size=5), st.integers(-1, 3)
    ),
    min_size=1,
).map(
    lambda found: {
        Candidate.of(m, None): Subscription(tuple(sorted(wants)), None, partitions(owned), generation)
        for m, (wants, owned, generation) in found.items()
    }
)
counts = st.dictionaries(topics, st.integers(0, 5), min_size=1).map(lambda found: tuple(sorted(found.items())))


def wanted(members: dict[Candidate, Subscription], counts: PartitionCounts) -> set[tuple[str, int]]:
    """Partitions that somebody subscribes to."""
    return {(t, n) for t, count in counts for n in range(count) if any(t in s.topics for s in members.values())}


@given(group, counts)
def test_range_gives_every_wanted_partition_once(found: dict[Candidate, Subscription], have: PartitionCounts) -> None:
    """To a member that subscribes to it, with shares that differ by one at most in each topic."""
    given = assign_range(found, have)
    assert Counter(p for mine in given.values() for p in mine) == Counter(wanted(found, have))
    for topic, _ in have:
        sizes = [sum(t == topic for t, _ in given[c.member_id]) for c, s in found.items() if topic in s.topics]
        assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(p[0] in s.topics for c, s in found.items() for p in given[c.member_id])


@given(group, counts)
def test_cooperative_sticky_never_gives_what_another_member_holds_by_right(
    found: dict[Candidate, Subscription], have: PartitionCounts
) -> None:
    """No partition twice, none of a foreign topic, none that the latest claimants have not given up."""
    given = assign_cooperative_sticky(found, have)
    assert all(n == 1 for n in Counter(p for mine in given.values() for p in mine).values())
    for p in wanted(found, have):
        claims = [
            (s.generation_id, c.member_id) for c, s in found.items() if p in s.owned_partitions and p[0] in s.topics
        ]
        latest = [m for g, m in claims if g == max(claims)[0]]
        if latest:
            assert all(p not in mine for m, mine in given.items() if [m] != latest)


@given(group, counts)
def test_cooperative_sticky_settles_after_two_rounds(
    found: dict[Candidate, Subscription], have: PartitionCounts
) -> None:
    """The second round gives everything away and evenly; the third one changes nothing."""
    first = assign_cooperative_sticky(found, have)
    second = assign_cooperative_sticky(_after(found, first), have)
    assert {p for mine in second.values() for p in mine} == wanted(found, have)
    assert assign_cooperative_sticky(_after(found, second), have) == second
    for more, mine in second.items():
        for p in mine:
            takers = [c.member_id for c, s in found.items() if p[0] in s.topics]
            assert all(len(mine) - len(second[m]) <= 1 for m in takers), (more, p)


def _after(
    found: dict[Candidate, Subscription], given: dict[str, Partitions], generation_id: int = 9
) -> dict[Candidate, Subscription]:
    """The same members, holding what they were given."""
    return {c: Subscription(s.topics, None, partitions(given[c.member_id]), generation_id) for c, s in found.items()}
