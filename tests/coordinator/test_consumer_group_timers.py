"""Deadlines: sessions that expire, partitions that are not given up in time, timers that find nobody."""

from __future__ import annotations

from consumer_scene import START_MS, Scene

from fsm.coordinator.coordinator import next_deadline_ms
from fsm.coordinator.model.timers import Deadlines, TimerKind


def revoking() -> Scene:
    """m1 must give up foo 1 within 30 seconds; m2 waits for it."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.beat("m1", 2)
    return scene


def test_a_silent_member_is_removed_when_its_session_ends() -> None:
    """To the millisecond, by a bump; what it held is free."""
    scene = Scene()
    scene.join("m1", "foo")
    assert next_deadline_ms(scene.state) == START_MS + 45_000
    assert scene.wait(44_999) == []
    assert scene.wait(1) == ["8t m1", "7t m1", "5t m1", "3 epoch 3", "6 epoch 3 at 0"]
    assert next_deadline_ms(scene.state) is None


def test_an_accepted_heartbeat_begins_a_new_session() -> None:
    """A refused one does not."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.wait(1_000)
    scene.beat("m1", 2)
    assert next_deadline_ms(scene.state) == START_MS + 46_000
    scene.wait(1_000)
    scene.beat("m1", 9)
    assert next_deadline_ms(scene.state) == START_MS + 46_000


def test_a_member_that_does_not_give_up_its_partitions_is_removed() -> None:
    """Within the rebalance timeout that it announced, though its session goes on."""
    scene = revoking()
    scene.wait(29_999)
    scene.beat("m1", 2)
    assert scene.wait(1) == ["8t m1", "7t m1", "5t m1", "3 epoch 4"]
    assert list(scene.group.members) == ["m2"]


def test_a_member_that_gave_up_its_partitions_stays() -> None:
    """Its rebalance timer is cancelled with the acknowledgement."""
    scene = revoking()
    scene.beat("m1", 2, owned={"foo": [0]})
    assert (TimerKind.REBALANCE, "m1") not in scene.group.timers
    assert scene.wait(40_000) == []


def test_each_wave_of_revocation_has_the_full_time() -> None:
    """A newer target that takes more starts the timer anew."""
    scene = revoking()
    scene.wait(20_000)
    scene.beat("m1", 2, subscribed_topic_names=["bar"], owned={"foo": [0]})
    assert scene.group.timers[TimerKind.REBALANCE, "m1"] == START_MS + 50_000


def test_a_rebalance_timer_of_an_earlier_epoch_is_ignored() -> None:
    """A static member that left for a while is at epoch -2: only its session removes it."""
    scene = Scene(group_consumer_session_timeout_ms=45_000)
    scene.join("s1", "foo", instance_id="i1")
    scene.join("m2", "foo")
    scene.beat("s1", 2, instance_id="i1")
    scene.beat("s1", -2, instance_id="i1")
    assert scene.wait(30_000) == []
    assert "s1" in scene.group.members


def test_a_replaced_members_timers_find_nobody() -> None:
    """They go on under the old id and do nothing."""
    scene = Scene()
    scene.join("s1", "foo", instance_id="i1")
    scene.beat("s1", -2, instance_id="i1")
    scene.wait(10_000)
    scene.join("s2", "foo", instance_id="i1")
    assert (TimerKind.SESSION, "s1") in scene.group.timers
    assert scene.wait(35_000) == []
    assert list(scene.group.members) == ["s2"]


def test_timers_that_are_due_together_all_run() -> None:
    """Each is a step of its own: two removals are two bumps."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    found = scene.wait(45_000)
    assert [record for record in found if record.startswith("3 ")] == ["3 epoch 4", "3 epoch 5"]


def test_the_earliest_deadline_comes_first() -> None:
    """Timers that are due are given in the order of their deadlines."""
    session, rebalance = (TimerKind.SESSION, "a"), (TimerKind.REBALANCE, "b")
    timers = Deadlines({session: 7}).set(rebalance, 5, 2)
    assert (timers.next_deadline_ms, timers.earliest(), timers.epoch(rebalance)) == (5, rebalance, 2)
    assert timers.without(rebalance).earliest() == session
    assert timers.without((TimerKind.SESSION, "b")) is timers
