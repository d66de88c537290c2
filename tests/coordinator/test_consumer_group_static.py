"""Static members: instance ids that outlive member ids, members that leave for a while and come back."""

from __future__ import annotations

import pytest
from consumer_scene import Scene, assigned

from fsm.coordinator.consumer.group_records import current_record
from fsm.protocol.records import Current


def static_and_dynamic(release: str = "4.4.0") -> Scene:
    """s1 is the static member i1 with foo 0, m2 has foo 1."""
    scene = Scene(release)
    scene.join("s1", "foo", instance_id="i1")
    scene.join("m2", "foo")
    scene.settle("s1", "m2")
    return scene


def test_a_static_member_leaves_for_a_while() -> None:
    """It keeps its partitions at epoch -2; the group waits for it and bumps nothing."""
    scene = static_and_dynamic()
    answer = scene.beat("s1", -2, instance_id="i1")
    assert (answer["member_epoch"], answer["assignment"]) == (-2, None)
    assert scene.records == ["8 s1 2->-2 foo[0]"]
    assert (scene.described["state"], scene.described["epoch"]) == ("Reconciling", 3)


@pytest.mark.parametrize(("release", "before", "after"), [("4.4.0", (2,), (0,)), ("4.2.0", None, None)])
def test_what_an_absent_member_has_counts_as_assigned_long_ago(
    release: str, before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> None:
    """Its assignment epochs are 0 in the record; before 4.3 there are none."""
    scene = static_and_dynamic(release)
    record = current_record("g", scene.group.members["s1"], scene.context.dialect).value
    assert isinstance(record, Current)
    assert record.assigned_partitions[0].assignment_epochs == before
    scene.beat("s1", -2, instance_id="i1")
    written = scene.last.records[0].value
    assert isinstance(written, Current)
    assert written.assigned_partitions[0].assignment_epochs == after


def test_a_static_member_comes_back_under_another_id() -> None:
    """It takes over the target, the partitions and the subscription of the one that left, without a bump."""
    scene = static_and_dynamic()
    scene.beat("s1", -2, instance_id="i1")
    answer = scene.join("s2", "foo", instance_id="i1")
    assert (answer["member_epoch"], assigned(answer)) == (3, {"foo": [0]})
    assert scene.events == ["MEMBER_REPLACED", "HEARTBEAT_ALL_STABLE"]
    assert scene.records == [
        "8t s1",
        "7t s1",
        "5t s1",
        "5 s2",
        "7 s2 foo[0]",
        "8 s2 0->0 foo[0]",
        "8 s2 0->3 foo[0]",
    ]


@pytest.mark.parametrize("member_id", ["s1", "s9"])
def test_an_instance_id_in_use_is_not_given_away(member_id: str) -> None:
    """Not even to the same member id, until its holder leaves."""
    scene = static_and_dynamic()
    assert scene.join(member_id, "foo", instance_id="i1")["error_code"] == "unreleased_instance_id"
    assert scene.records == []


def test_a_static_member_may_join_again() -> None:
    """A `fixed` coordinator knows it by its id; another one waits."""
    scene = static_and_dynamic("fixed")
    answer = scene.join("s1", "foo", instance_id="i1")
    assert (answer["member_epoch"], assigned(answer)) == (3, {"foo": [0]})
    assert scene.join("s9", "foo", instance_id="i1")["error_code"] == "unreleased_instance_id"


def test_another_id_with_the_instance_id_is_fenced() -> None:
    """Heartbeats and leaves must come from the member that has the instance id."""
    scene = static_and_dynamic()
    for epoch in (3, -1, -2):
        assert scene.beat("m2", epoch, instance_id="i1")["error_code"] == "fenced_instance_id"
        assert scene.beat("s1", epoch, instance_id="i9")["error_code"] == "unknown_member_id"


def test_a_member_that_is_away_cannot_heartbeat() -> None:
    """Only epoch 0 brings it back."""
    scene = static_and_dynamic()
    scene.beat("s1", -2, instance_id="i1")
    assert scene.beat("s1", 3, instance_id="i1")["error_code"] == "fenced_member_epoch"


@pytest.mark.parametrize(("names", "written"), [([], 2), (["none"], 1)], ids=["no target", "an empty target"])
def test_who_had_no_target_leaves_none(names: list[str], written: int) -> None:
    """Its successor's entry is written as it comes, and again with the first target; an empty one that moved is not."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.settle("m1")
    scene.join("s1", *names, instance_id="i1")
    assert ("s1" in scene.group.targets) is (written == 1)
    scene.beat("s1", -2, instance_id="i1")
    scene.join("s2", "nothing", instance_id="i1")
    assert [record.split()[1] for record in scene.records if record.startswith("7 ")] == ["s2"] * written


def test_a_member_that_stays_away_is_removed_with_its_session() -> None:
    """Leaving for a while does not touch the session timer."""
    scene = static_and_dynamic()
    scene.wait(40_000)
    scene.ack("m2")
    scene.beat("s1", -2, instance_id="i1")
    assert scene.wait(5_000) == ["8t s1", "7t s1", "5t s1", "3 epoch 4"]


def test_a_dynamic_member_becomes_static() -> None:
    """An unknown instance id re-labels the member that joins again under its id."""
    scene = static_and_dynamic()
    scene.join("m2", "foo", instance_id="i2")
    assert dict(scene.group.members.static) == {"i1": "s1", "i2": "m2"}


@pytest.mark.parametrize(("release", "static"), [("4.4.0", {"i7": "s1"}), ("4.3.1", {"i1": "s1", "i7": "s1"})])
def test_a_member_that_changes_its_instance_id_gives_up_the_old_one(release: str, static: dict[str, str]) -> None:
    """From 4.4 on; before, the old instance id still leads to it."""
    scene = Scene(release)
    scene.join("s1", "foo", instance_id="i1")
    scene.join("s1", "foo", instance_id="i7")
    assert dict(scene.group.members.static) == static


@pytest.mark.parametrize(("release", "error"), [("4.4.0", None), ("4.3.1", "group_max_size_reached")])
def test_a_known_instance_id_is_exempt_from_the_size_limit(release: str, error: str | None) -> None:
    """From 4.4 on a static member may come back into a full group."""
    scene = Scene(release, group_consumer_max_size=1)
    scene.join("s1", "foo", instance_id="i1")
    scene.beat("s1", -2, instance_id="i1")
    assert scene.join("s2", "foo", instance_id="i1")["error_code"] == error


def test_an_instance_id_taken_while_behind_strands_partitions() -> None:
    """The target of a static member is looked up by its instance id, which is unknown in the request that brings it.

    So the member settles with nothing, and as a settled one it never asks again: what its target has stays unheld until
    the next target. Kafka 4.4 does the same.
    """
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.join("m2", "foo", instance_id="i2")
    scene.beat("m1", 2)
    scene.beat("m1", 2, owned={"foo": [0]})
    scene.beat("m2", 3, instance_id="i2", owned={})
    described = scene.described["members"]["m2"]
    assert (scene.described["state"], described["target"], described["assigned"]) == ("Stable", {"foo": [1]}, {})
