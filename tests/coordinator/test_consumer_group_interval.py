"""Targets are computed at the earliest one assignment interval apart: what members see meanwhile."""

from __future__ import annotations

import pytest
from consumer_scene import START_MS, Scene, assigned

from fsm.coordinator.consumer.invariants import Moment, find_broken
from fsm.coordinator.model.persistent import PersistentMap


def test_a_joiner_inside_the_interval_gets_nothing_yet() -> None:
    """It is reconciled towards the old target, in which it has no part."""
    scene = Scene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.wait(999)
    answer = scene.join("m2", "foo")
    assert (answer["member_epoch"], assigned(answer)) == (2, {})
    assert scene.records == ["5 m2", "3 epoch 3", "8 m2 0->2 "]
    assert (scene.events, scene.described["state"]) == (["MEMBER_JOINED_TARGET_STALE"], "Assigning")


def test_the_first_heartbeat_after_the_interval_computes_the_target() -> None:
    """No timer does: somebody has to ask, whoever it is."""
    scene = Scene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.join("m3", "foo")
    assert scene.wait(1_000) == []
    scene.beat("m2", 2)
    assert scene.records[-2:] == [f"6 epoch 4 at {START_MS + 1_000}", "8 m2 2->4 "]
    assert scene.events == ["HEARTBEAT_RECONCILING"]
    assert (scene.group.epoch, scene.group.target_epoch) == (4, 4)


def test_an_unsubscribed_topic_is_taken_back_at_once() -> None:
    """Even inside the interval the old target is only followed as far as the new subscription goes."""
    scene = Scene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo", "bar")
    answer = scene.beat("m1", 2, subscribed_topic_names=["bar"])
    assert (answer["member_epoch"], assigned(answer)) == (2, {"bar": [0]})
    assert scene.records == ["5 m1", "3 epoch 3", "8 m1 2->2 bar[0] gives up foo[0, 1]"]


def test_a_joiner_without_subscription_may_strand_a_partition() -> None:
    """It bumps nothing, so the delayed target it triggers goes by the subscriptions of before: all alike.

    Kafka does the same. The partition that the joiner's target has is never handed out; nobody has it until the next
    target.
    """
    scene = Scene(topics={"foo": 3}, group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.wait(1_000)
    scene.join("m3")
    scene.settle("m1", "m2", "m3")
    assert [len(scene.described["members"][m]["assigned"].get("foo", [])) for m in ("m1", "m2", "m3")] == [1, 1, 0]
    assert len(scene.described["members"]["m3"]["target"]["foo"]) == 1


def test_a_joiner_without_subscription_may_strand_every_partition() -> None:
    """The same, where the coordinator's map has the joiner first: then all are alike in that they want nothing.

    Kafka's assignors take the first member's subscription for everybody's. m1 and m2 keep what they have until they
    are told of the empty target, and give it up; the next change of any subscription mends it.
    """
    scene = Scene(topics={"foo": 3}, group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.wait(1_000)
    scene.join("m0")
    scene.settle("m1", "m2", "m0")
    assert [scene.described["members"][m]["assigned"] for m in ("m1", "m2", "m0")] == [{}, {}, {}]
    assert find_broken(Moment(scene.group, scene.group, scene.context)) == []
    scene.wait(1_000)
    scene.beat("m0", scene.group.members["m0"].epoch, subscribed_topic_names=["bar"])
    scene.settle("m1", "m2", "m0")
    assert [len(scene.described["members"][m]["assigned"].get("foo", [])) for m in ("m1", "m2", "m0")] == [2, 1, 0]


def test_before_4_3_there_is_no_interval() -> None:
    """The target is computed in the very request that bumps."""
    scene = Scene("4.2.0", group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    assert scene.group.target_epoch == 2


def test_an_emptied_group_computes_its_next_target_at_once() -> None:
    """Time 0 is unknown, and lets the next joiner begin without a delay."""
    scene = Scene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert assigned(scene.join("m2", "foo")) == {"foo": [0, 1]}


@pytest.mark.parametrize(("own_ms", "delayed"), [(20_000, True), (0, False)])
def test_a_group_may_have_an_interval_of_its_own(own_ms: int, delayed: bool) -> None:
    """Its own setting goes before the broker's, within the broker's bounds."""
    own = PersistentMap({"g": PersistentMap({"consumer_assignment_interval_ms": own_ms})})
    scene = Scene(group_consumer_assignment_interval_ms=1_000, groups=own)
    scene.join("m1", "foo")
    scene.wait(14_999)
    scene.join("m2", "foo")
    assert (scene.group.state.name == "ASSIGNING") is delayed
    scene.wait(1)
    scene.beat("m2", scene.group.members["m2"].epoch)
    assert scene.group.target_epoch == 3
