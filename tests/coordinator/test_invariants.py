"""The invariants see what they are there for: each is broken by a group that was tampered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from consumer_scene import IDS, Scene
from consumer_world import World

from fsm.coordinator.consumer.invariants import INVARIANTS, Moment, find_broken
from fsm.coordinator.model.consumer_group import NO_COUNTS, ConsumerGroup, GroupMember, Members
from fsm.coordinator.model.step import Answer
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_group_member import State

FOO_0, FOO_1, BAR_0 = (IDS["foo"], 0), (IDS["foo"], 1), (IDS["bar"], 0)


def at_rest() -> Scene:
    """m1 has foo 0, the static m2 has foo 1, at epoch 3."""
    scene = Scene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.wait(1_000)
    scene.join("m2", "foo", instance_id="i2")
    scene.settle("m1", "m2")
    return scene


def member(group: ConsumerGroup, member_id: str, **changes: Any) -> GroupMember:
    """A member with other values in its current assignment."""
    found = group.members[member_id]
    return replace(found, current=replace(found.current, **changes))


def tampered(member_id: str, **changes: Any) -> Callable[[ConsumerGroup], ConsumerGroup]:
    """A change of one member's current assignment."""

    def change(group: ConsumerGroup) -> ConsumerGroup:
        return replace(group, members=group.members.set(member(group, member_id, **changes)))

    return change


def without_timers(group: ConsumerGroup) -> ConsumerGroup:
    """Nobody has a session any more."""
    return replace(group, timers=Deadlines())


def with_rebalance_timer(group: ConsumerGroup) -> ConsumerGroup:
    """A settled member has a rebalance timer of its present epoch."""
    return replace(group, timers=group.timers.set((TimerKind.REBALANCE, "m1"), 9_999_999, 3))


def overlapping_targets(group: ConsumerGroup) -> ConsumerGroup:
    """Both members shall have foo 0."""
    return replace(group, targets=group.targets.set("m2", ((IDS["foo"], (0,)),)))


def lost_holder(group: ConsumerGroup) -> ConsumerGroup:
    """The ownership map forgot a partition."""
    return replace(group, members=replace(group.members, holders=group.members.holders.without(FOO_0)))


def lost_count(group: ConsumerGroup) -> ConsumerGroup:
    """The group forgot that somebody has arrived."""
    return replace(group, members=replace(group.members, settled=NO_COUNTS))


def lost_instance(group: ConsumerGroup) -> ConsumerGroup:
    """The instance id leads nowhere."""
    return replace(group, members=replace(group.members, static=group.members.static.without("i2")))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (tampered("m1", assigned=((FOO_0, 3), (FOO_1, 3))), {"1", "6", "9"}),
        (tampered("m1", pending=((FOO_0, 3),)), {"2", "5"}),
        (lost_holder, {"3", "10"}),
        (lost_count, {"8"}),
        (tampered("m1", epoch=2), {"20"}),
        (tampered("m1", previous_epoch=4), {"4"}),
        (tampered("m1", state=State.UNREVOKED_PARTITIONS), {"5", "17"}),
        (tampered("m1", assigned=((BAR_0, 3),)), {"6", "9", "10", "23"}),
        (tampered("m1", state=State.UNRELEASED_PARTITIONS), {"7"}),
        (tampered("m1", assigned=()), {"9", "10", "23"}),
        (overlapping_targets, {"6", "9", "11", "22"}),
        (lost_instance, {"13"}),
        (without_timers, {"17"}),
        (with_rebalance_timer, {"17"}),
        (tampered("m1", assigned=((FOO_0, 4),)), {"18"}),
        (lambda group: replace(group, target_time_ms=9_999_999), {"19"}),
        (lambda group: replace(group, epoch=2), {"4", "9", "20", "21"}),
        (lambda group: replace(group, epoch=5), {"21"}),
        (lambda group: replace(group, epoch=4, target_epoch=4), {"28"}),
        (lambda group: replace(group, members=group.members.without("m1")), {"33"}),
    ],
)
def test_a_tampered_group_breaks_what_it_should(
    change: Callable[[ConsumerGroup], ConsumerGroup], names: set[str]
) -> None:
    """At least these numbers of the reference, measured against the group as it was."""
    scene = at_rest()
    sent = ConsumerGroupHeartbeatRequest("g", "m9", 3)
    moment = Moment(scene.group, change(scene.group), scene.context, sent)
    assert names <= {name.split()[0] for name in find_broken(moment)}
    assert not find_broken(Moment(scene.group, scene.group, scene.context, sent))


@pytest.mark.parametrize(
    ("body", "change", "names"),
    [
        ({"error_code": ErrorCode.FENCED_MEMBER_EPOCH}, tampered("m1", previous_epoch=1), {"25"}),
        ({}, tampered("m1", assigned=()), {"26"}),
        ({"member_epoch": 2}, tampered("m1", previous_epoch=3), {"27"}),
    ],
)
def test_an_answer_that_lies_is_seen(
    body: dict[str, Any], change: Callable[[ConsumerGroup], ConsumerGroup], names: set[str]
) -> None:
    """An error that changed something, a change that was not told, an epoch that is not the member's."""
    scene = at_rest()
    sent = ConsumerGroupHeartbeatRequest("g", "m1", 3)
    answer = Answer(1, ConsumerGroupHeartbeatResponse(**{"member_id": "m1", "member_epoch": 3, **body}))
    moment = Moment(scene.group, change(scene.group), scene.context, sent, answer)
    assert names <= {name.split()[0] for name in find_broken(moment)}


def test_a_member_must_not_be_granted_anything_while_it_revokes() -> None:
    """24: a step into UNREVOKED only takes."""
    scene = at_rest()
    before = replace(scene.group, members=Members.of([member(scene.group, "m1", assigned=())]))
    after = tampered("m1", state=State.UNREVOKED_PARTITIONS, assigned=((FOO_0, 3),))(before)
    assert "24 who must revoke is granted nothing" in find_broken(Moment(before, after, scene.context))


def test_a_joiner_must_hear_everything() -> None:
    """27: an answer to epoch 0 that leaves partitions out is seen."""
    scene = at_rest()
    sent = ConsumerGroupHeartbeatRequest("g", "m1", 0)
    answer = Answer(1, ConsumerGroupHeartbeatResponse(3, assignment=(), member_id="m1"))
    assert find_broken(Moment(scene.group, scene.group, scene.context, sent, answer)) == [
        "27 a joiner is told all it has"
    ]


def test_a_group_must_not_grow_beyond_its_limit() -> None:
    """14: two members where one is allowed, of whom one is new; none is new where both were there before."""
    scene = at_rest()
    context = replace(scene.context, config=replace(scene.context.config, group_consumer_max_size=1))
    before = replace(scene.group, members=scene.group.members.without("m2"))
    assert "14 a group grows up to its limit" in find_broken(Moment(before, scene.group, context))
    assert find_broken(Moment(scene.group, scene.group, context)) == []


def test_every_invariant_has_a_number() -> None:
    """All of the reference, but what needs clients (16), two types of group (29 to 31: `tests/cluster`), or offsets."""
    numbers = {int(name.split()[0]) for name, _ in INVARIANTS}
    assert set(range(1, 33)) - numbers == {16, 29, 30, 31, 32}


def test_what_held_before_is_not_looked_at_again() -> None:
    """Only where the step left another state: members, targets or epochs that are not the same."""
    scene = at_rest()
    group = scene.group
    other = replace(group, members=group.members.set(member(group, "m1", assigned=((FOO_1, 3),))))
    assert find_broken(Moment(other, replace(other, timers=group.timers), scene.context), held_before=True) == []
    assert "1 a partition has one holder" in find_broken(Moment(other, other, scene.context))
    assert "1 a partition has one holder" in find_broken(Moment(group, other, scene.context), held_before=True)
    later = replace(group, target_epoch=group.epoch + 1)
    assert "4 epochs are in order" in find_broken(Moment(group, later, scene.context), held_before=True)


@pytest.mark.parametrize("release", [pytest.param("4.0.0", marks=pytest.mark.deep), "4.4.0"])
def test_clients_of_offsets_meet_every_answer(release: str) -> None:
    """The random walks commit, fetch and delete offsets in and outside of transactions, rightly and wrongly."""
    seen = set[str]()
    for seed in range(5):
        world = World(release, seed)
        for _ in range(300):
            world.act()
            world.watched(world.offsets.act)
        seen |= world.offsets.seen
    assert EVERY_ANSWER - seen == set()
    assert ("TxnOffsetCommit stale_member_epoch" in seen) is (release == "4.4.0")


EVERY_ANSWER = {
    "OffsetCommit None",
    "OffsetCommit offset_metadata_too_large",
    "OffsetCommit unknown_topic_or_partition",
    "OffsetCommit unknown_member_id",
    "OffsetCommit group_id_not_found",
    "OffsetCommit stale_member_epoch",
    "OffsetCommit unsupported_version",
    "TxnOffsetCommit None",
    "TxnOffsetCommit offset_metadata_too_large",
    "TxnOffsetCommit unknown_topic_or_partition",
    "TxnOffsetCommit illegal_generation",
    "OffsetFetch None",
    "OffsetFetch unstable_offset_commit",
    "OffsetDelete None",
    "OffsetDelete group_subscribed_to_topic",
    "DeleteGroups None",
    "DeleteGroups non_empty_group",
}
