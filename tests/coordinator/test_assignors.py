"""The server-side assignors: what holds for every group, and that one of your own is a function."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from consumer_scene import Scene
from consumer_scene import assigned as told
from hypothesis import given
from hypothesis import strategies as st

from fsm.coordinator.assignors import (
    Assignor,
    GroupSpec,
    MemberSpec,
    Order,
    PartitionAssignorError,
    make_assignors,
    range_assignor,
    uniform_assignor,
)
from fsm.coordinator.model.dialect import dialect, presets
from fsm.coordinator.model.persistent import PersistentMap
from fsm.protocol.assignment import TopicPartitions

TOPICS = ("bar", "baz", "foo", "qux")
MEMBERS = tuple(f"m{i}" for i in range(7))


@st.composite
def histories(draw: st.DrawFn) -> list[GroupSpec]:
    """Three states of one group: members come and go, topics grow, subscriptions change; no last target yet."""
    same = draw(st.booleans())
    rounds = []
    counts = dict.fromkeys(TOPICS, 0)
    for _ in range(3):
        counts = {topic: count + draw(st.integers(0, 5)) for topic, count in counts.items()}
        shared = draw(st.sets(st.sampled_from(TOPICS), min_size=1))
        members = draw(st.permutations(MEMBERS))[: draw(st.integers(1, 6))]
        subscribed = {m: shared if same else draw(st.sets(st.sampled_from(TOPICS))) for m in members}
        specs = {m: MemberSpec(tuple(sorted(topics))) for m, topics in subscribed.items()}
        rounds.append(GroupSpec(specs, counts, same))
    return rounds


def after(group: GroupSpec, assigned: dict[str, TopicPartitions]) -> GroupSpec:
    """The group with its last target filled in."""
    specs = {m: MemberSpec(spec.subscribed, assigned.get(m, ())) for m, spec in group.members.items()}
    return GroupSpec(specs, group.topics, group.homogeneous)


def runs(assignor: Assignor, history: list[GroupSpec]) -> list[tuple[GroupSpec, dict[str, TopicPartitions]]]:
    """Each state with what was assigned in it, the result of the one before as last target."""
    found, assigned = [], {}
    for state in history:
        group = after(state, assigned)
        assigned = dict(assignor(group))
        found.append((group, assigned))
    return found


def flat(partitions: TopicPartitions) -> set[tuple[str, int]]:
    return {(topic, p) for topic, numbers in partitions for p in numbers}


def wanted(group: GroupSpec) -> list[tuple[str, int]]:
    topics = {topic for spec in group.members.values() for topic in spec.subscribed}
    return sorted((topic, p) for topic in topics for p in range(group.topics[topic]))


ASSIGNORS = st.sampled_from([assignor for preset in presets() for assignor in make_assignors(preset).values()])


@given(ASSIGNORS, histories())
def test_every_partition_of_a_subscribed_topic_is_assigned_once(assignor: Assignor, history: list[GroupSpec]) -> None:
    """Nothing is left out, nothing given twice, nobody gets a topic that it does not subscribe to."""
    for group, assigned in runs(assignor, history):
        assert sorted(p for partitions in assigned.values() for p in flat(partitions)) == wanted(group)
        for member_id, partitions in assigned.items():
            assert {topic for topic, _ in partitions} <= set(group.members[member_id].subscribed)


@given(ASSIGNORS, histories())
def test_partitions_come_in_their_one_form(assignor: Assignor, history: list[GroupSpec]) -> None:
    """Topics and partitions are sorted, no topic is empty: equal assignments are equal values."""
    for _, assigned in runs(assignor, history):
        for partitions in assigned.values():
            assert list(partitions) == sorted((topic, tuple(sorted(numbers))) for topic, numbers in partitions)
            assert all(numbers for _, numbers in partitions)


@given(histories(), st.booleans())
def test_uniform_is_level_among_equal_subscriptions(history: list[GroupSpec], stays: bool) -> None:
    """Sizes differ by one at most, whatever the last target was."""
    for group, assigned in runs(lambda g: uniform_assignor(g, extra_slot_stays=stays), history):
        if group.homogeneous:
            sizes = [len(flat(partitions)) for partitions in assigned.values()]
            assert max(sizes) - min(sizes) <= 1


@given(histories(), st.permutations(MEMBERS))
def test_uniform_moves_nothing_without_need(history: list[GroupSpec], order: list[str]) -> None:
    """Run again on its own result, with members in any order, uniform gives every member its very object back."""
    for group, assigned in runs(uniform_assignor, history):
        settled = after(group, assigned)
        members = {m: settled.members[m] for m in order if m in settled.members}
        again = uniform_assignor(GroupSpec(members, settled.topics, settled.homogeneous))
        for member_id, partitions in again.items():
            assert partitions is members[member_id].previous


@given(histories())
def test_uniform_takes_no_more_than_it_must(history: list[GroupSpec]) -> None:
    """With equal subscriptions, a member loses only what exceeds the largest share."""
    for group, assigned in runs(uniform_assignor, history):
        if group.homogeneous and assigned:
            largest = -(-len(wanted(group)) // len(group.members))
            for member_id, spec in group.members.items():
                kept = {(topic, p) for topic, p in flat(spec.previous) if topic in spec.subscribed}
                assert len(kept & flat(assigned[member_id])) >= min(len(kept), largest) - (len(kept) >= largest)


@given(histories())
def test_range_gives_consecutive_partitions(history: list[GroupSpec]) -> None:
    """Of each topic a subscriber has a run of partitions, and runs differ by one at most, the longer ones first."""
    for group, assigned in runs(range_assignor, history):
        for topic in TOPICS:
            mine = [dict(assigned[m]).get(topic, ()) for m in sorted(assigned) if topic in group.members[m].subscribed]
            assert all(later == earlier + 1 for numbers in mine for earlier, later in pairwise(numbers))
            lengths = [len(numbers) for numbers in mine]
            assert lengths == sorted(lengths, reverse=True)
            assert not lengths or max(lengths) - min(lengths) <= 1


def test_range_co_partitions() -> None:
    """Topics of equal size with equal subscribers are assigned alike."""
    group = GroupSpec({m: MemberSpec(("bar", "foo")) for m in ("b", "a")}, {"bar": 3, "foo": 3}, homogeneous=True)
    assert range_assignor(group) == {
        "a": (("bar", (0, 1)), ("foo", (0, 1))),
        "b": (("bar", (2,)), ("foo", (2,))),
    }


def test_the_extra_slot_stays_with_the_member_that_uses_it() -> None:
    """From 4.0.1 on a newcomer at the front does not attract the extra slot; before, it did (F25)."""
    members = {"A": MemberSpec(("foo",)), "B": MemberSpec(("foo",), (("foo", (0, 1)),))}
    group = GroupSpec(members, {"foo": 3}, homogeneous=True)
    assert make_assignors(dialect("4.0.1"))["uniform"](group) == {"A": (("foo", (2,)),), "B": (("foo", (0, 1)),)}
    assert make_assignors(dialect("4.0.0"))["uniform"](group) == {"A": (("foo", (1, 2)),), "B": (("foo", (0,)),)}


def test_ties_follow_the_order_that_is_asked_for() -> None:
    """Which topic fills the first member is the caller's choice."""
    group = GroupSpec({m: MemberSpec(("bar", "foo")) for m in ("A", "B")}, {"bar": 2, "foo": 2}, homogeneous=True)
    backwards = Order(topics=lambda topics: sorted(topics, reverse=True))
    assert uniform_assignor(group) == {"A": (("bar", (0, 1)),), "B": (("foo", (0, 1)),)}
    assert uniform_assignor(group, order=backwards) == {"A": (("foo", (0, 1)),), "B": (("bar", (0, 1)),)}


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("name", ["uniform", "range"])
def test_a_topic_that_does_not_exist_fails_the_run(name: str, homogeneous: bool) -> None:
    """No partition is assigned when a member subscribes to a topic without partitions count."""
    group = GroupSpec({"A": MemberSpec(("gone",))}, {"foo": 1}, homogeneous)
    with pytest.raises(PartitionAssignorError, match="topic gone, which does not exist"):
        make_assignors(dialect())[name](group)


def test_a_group_without_subscriptions() -> None:
    """Uniform then names nobody, range names everybody."""
    group = GroupSpec({"A": MemberSpec(()), "B": MemberSpec(())}, {"foo": 1}, homogeneous=True)
    assert (uniform_assignor(group), range_assignor(group)) == ({}, {"A": (), "B": ()})


def last_takes_all(group: GroupSpec) -> dict[str, TopicPartitions]:
    """Everything to the last member."""
    *_, last = sorted(group.members)
    return {last: tuple((topic, tuple(range(n))) for topic, n in sorted(group.topics.items()))}


@pytest.mark.parametrize(("listed", "vote"), [(("uniform", "last"), "last"), (("last", "uniform"), None)])
def test_an_assignor_of_one_s_own_is_a_function(listed: tuple[str, ...], vote: str | None) -> None:
    """What Kafka asks of an assignor class, one function gives: a group uses it by vote, or as the broker's default."""
    scene = Scene(topics={"foo": 2}, group_consumer_assignors=listed)
    scene.context = replace(scene.context, custom_assignors=PersistentMap({"last": last_takes_all}))
    fields = {} if vote is None else {"server_assignor": vote}
    assert told(scene.join("a", "foo", **fields)) == {"foo": [0, 1]}
    scene.join("b", "foo", **fields)
    assert told(scene.beat("a", 2)) == {}
    scene.beat("a", 2, owned={})
    assert told(scene.beat("b", 3)) == {"foo": [0, 1]}


def test_an_assignor_that_nobody_lists_is_not_used() -> None:
    """A member may vote for what the broker lists only."""
    scene = Scene(topics={"foo": 2})
    scene.context = replace(scene.context, custom_assignors=PersistentMap({"last": last_takes_all}))
    assert scene.join("a", "foo", server_assignor="last")["error_code"] == "unsupported_assignor"
    assert list(scene.context.assignors) == ["uniform", "range", "last"]


def test_a_partition_that_does_not_exist_fails() -> None:
    """As in Kafka: a leader of the classic protocol may have assigned it, before its group was upgraded."""
    members = {"a": MemberSpec({"foo", "bar"}, (("foo", (0, 7)),)), "b": MemberSpec({"bar"})}
    with pytest.raises(PartitionAssignorError, match="foo has no partition 7"):
        uniform_assignor(GroupSpec(members, {"foo": 2, "bar": 2}, homogeneous=False))
