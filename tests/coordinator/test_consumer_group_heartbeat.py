"""Consumer heartbeats to a group, told as they happen: joins, acknowledgements, leaves, errors, records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from consumer_scene import START_MS, Scene, assigned

from fsm.coordinator.assignors import GroupSpec, PartitionAssignorError
from fsm.coordinator.model.persistent import PersistentMap


def two_members(release: str = "4.4.0") -> Scene:
    """m1 has foo 0, m2 has foo 1, everybody is at rest at epoch 3."""
    scene = Scene(release)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.settle("m1", "m2")
    return scene


def test_the_first_member_gets_everything_at_once() -> None:
    """A fresh group begins at epoch 1, so its first subscriber has epoch 2 and every partition."""
    scene = Scene()
    answer = scene.join("m1", "foo", "bar")
    assert assigned(answer) == {"foo": [0, 1], "bar": [0]}
    assert (answer["member_epoch"], answer["heartbeat_interval"], answer["error_code"]) == (2, 5_000, None)
    assert scene.events == ["MEMBER_JOINED_ALL_STABLE"]
    assert scene.records == [
        "5 m1",
        "3 epoch 2",
        "7 m1 foo[0, 1] bar[0]",
        f"6 epoch 2 at {START_MS}",
        "8 m1 0->2 foo[0, 1] bar[0]",
    ]


def test_a_fresh_group_of_older_releases_begins_at_zero() -> None:
    """Before 4.3 the first member gets epoch 1, and topic metadata is a record of its own before 4.1."""
    scene = Scene("4.0.0")
    assert scene.join("m1", "foo")["member_epoch"] == 1
    assert scene.records == ["5 m1", "4", "3 epoch 1", "7 m1 foo[0, 1]", "6 epoch 1 at 0", "8 m1 0->1 foo[0, 1]"]


def test_a_member_without_subscription_does_not_bump() -> None:
    """Who subscribes to nothing is a member all the same; the group stays at its first epoch."""
    scene = Scene()
    assert assigned(scene.join("m1")) == {}
    assert (scene.group.epoch, scene.records) == (1, ["5 m1", "8 m1 0->1 "])
    assert scene.events == ["UNSUBSCRIBED_JOINED_ALL_STABLE", "METADATA_UNCHANGED"]


def test_before_4_3_a_member_without_subscription_bumps_a_fresh_group() -> None:
    """The group must move away from epoch 0."""
    scene = Scene("4.2.0")
    assert scene.join("m1")["member_epoch"] == 1


def test_partitions_are_revoked_before_they_are_assigned() -> None:
    """A newcomer waits until the holder reports that it gave up what the new target takes from it."""
    scene = Scene()
    scene.join("m1", "foo")
    assert assigned(scene.join("m2", "foo")) == {}
    assert scene.group.members["m2"].current.state.name == "UNRELEASED_PARTITIONS"
    assert assigned(scene.beat("m1", 2)) == {"foo": [0]}
    assert scene.records == ["8 m1 2->2 foo[0] gives up foo[1]"]
    assert assigned(scene.beat("m2", 3)) is None
    assert scene.beat("m1", 2, owned={"foo": [0]})["member_epoch"] == 3
    assert assigned(scene.beat("m2", 3)) == {"foo": [1]}
    assert scene.group.state.name == "STABLE"


def test_a_report_that_still_has_a_pending_partition_changes_nothing() -> None:
    """The acknowledgement is a list without anything that is to be given up."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.beat("m1", 2)
    assert scene.beat("m1", 2, owned={"foo": [0, 1]})["member_epoch"] == 2
    assert scene.records == []


def test_a_heartbeat_with_nothing_new_writes_nothing() -> None:
    """Its answer says neither an assignment nor another epoch; only the session goes on."""
    scene = two_members()
    before = scene.group
    answer = scene.beat("m1", 3)
    assert (answer["member_epoch"], answer["assignment"], scene.records) == (3, None, [])
    assert replace(scene.group, timers=before.timers) == before
    assert dict(scene.group.timers) == dict(before.timers)


def test_a_full_request_is_answered_with_the_whole_assignment() -> None:
    """Who gives timeout, subscription and owned partitions may have missed an answer."""
    scene = two_members()
    answer = scene.beat("m1", 3, rebalance_timeout=30_000, subscribed_topic_names=["foo"], owned={"foo": [0]})
    assert assigned(answer) == {"foo": [0]}
    assert scene.records == []


def test_the_previous_epoch_is_accepted_with_a_subset_of_what_is_assigned() -> None:
    """The answer with the new epoch may have been lost."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.beat("m1", 2, subscribed_topic_names=["bar"])
    scene.beat("m1", 2, owned={})
    member = scene.group.members["m1"].current
    assert (member.previous_epoch, member.epoch) == (2, 3)
    assert scene.beat("m1", 2, owned={"bar": [0]})["member_epoch"] == 3
    assert scene.beat("m1", 2, owned={"foo": [0]})["error_code"] == "fenced_member_epoch"
    assert scene.beat("m1", 2)["error_code"] == "fenced_member_epoch"


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error"),
    [
        ("", 3, {}, "invalid_request"),
        ("m1", 3, {"group_id": " "}, "invalid_request"),
        ("m1", 3, {"instance_id": ""}, "invalid_request"),
        ("m1", 3, {"rack_id": ""}, "invalid_request"),
        ("m9", 0, {"subscribed_topic_names": ["foo"], "owned": {}}, "invalid_request"),
        ("m9", 0, {"rebalance_timeout": 1, "subscribed_topic_names": ["foo"]}, "invalid_request"),
        (
            "m9",
            0,
            {"rebalance_timeout": 1, "subscribed_topic_names": ["foo"], "owned": {"foo": [0]}},
            "invalid_request",
        ),
        ("m9", 0, {"rebalance_timeout": 1, "owned": {}}, "invalid_request"),
        ("m1", -2, {}, "invalid_request"),
        ("m1", -3, {"instance_id": "i"}, "invalid_request"),
        ("m1", -1, {"server_assignor": "none"}, "unsupported_assignor"),
        ("m1", 3, {"group_id": "other"}, "group_id_not_found"),
        ("m9", 3, {}, "unknown_member_id"),
        ("m9", -1, {}, "unknown_member_id"),
        ("m1", 4, {}, "fenced_member_epoch"),
        ("m1", 1, {"owned": {}}, "fenced_member_epoch"),
        ("m1", 3, {"instance_id": "i"}, "unknown_member_id"),
        ("m1", 3, {"subscribed_topic_regex": "("}, "invalid_regular_expression"),
    ],
)
def test_a_refused_heartbeat_changes_nothing(member_id: str, epoch: int, fields: dict[str, Any], error: str) -> None:
    """An error answer leaves groups, members, timers and log as they were."""
    scene = two_members()
    before = scene.state
    answer = scene.beat(member_id, epoch, **fields)
    assert answer["error_code"] == error
    assert (answer["member_id"], answer["member_epoch"], answer["assignment"]) == (None, 0, None)
    assert scene.state is before
    assert scene.records == []


def test_checks_come_in_kafkas_order() -> None:
    """A blank member id is told before a blank group id, and that before an unknown assignor."""
    scene = Scene()
    text = scene.beat(" ", 1, group_id="", server_assignor="none")["error_message"]
    assert "MemberId" in text
    assert "GroupId" in scene.beat("m1", 1, group_id="", server_assignor="none")["error_message"]


def test_version_0_lets_the_coordinator_make_the_member_id() -> None:
    """An empty id of a joiner is replaced by a random one, which the answer tells."""
    scene = Scene()
    full = {"rebalance_timeout": 1, "subscribed_topic_names": ["foo"], "owned": {}}
    assert scene.beat("", 0, version=0, **full)["member_id"] == "made-by-broker"
    assert list(scene.group.members) == ["made-by-broker"]


def test_a_fenced_member_rejoins_at_once() -> None:
    """Epoch 0 of a member that exists always passes, and acknowledges whatever was pending."""
    scene = two_members()
    answer = scene.join("m1", "foo")
    assert (answer["member_epoch"], assigned(answer)) == (3, {"foo": [0]})


def test_before_4_2_a_fenced_member_waits_for_its_session() -> None:
    """Its id is refused with epoch 0 until it was removed."""
    scene = two_members("4.1.1")
    assert scene.join("m1", "foo")["error_code"] == "fenced_member_epoch"


def test_a_changed_subscription_bumps_once_and_takes_back() -> None:
    """Names that are left out cost their partitions at once."""
    scene = two_members()
    answer = scene.beat("m1", 3, subscribed_topic_names=["bar"])
    assert (answer["member_epoch"], assigned(answer)) == (3, {})
    assert scene.records[:2] == ["5 m1", "3 epoch 4"]
    assert scene.records[-1] == "8 m1 3->3  gives up foo[0]"
    assert scene.events == ["SUBSCRIPTION_CHANGED_RECONCILING"]


def test_a_leave_bumps_and_leaves_the_target_to_others() -> None:
    """The partitions of a leaver are free; the next heartbeat of anybody computes the new target."""
    scene = two_members()
    answer = scene.beat("m2", -1)
    assert (answer["member_id"], answer["member_epoch"], answer["heartbeat_interval"]) == ("m2", -1, 0)
    assert scene.records == ["8t m2", "7t m2", "5t m2", "3 epoch 4"]
    assert scene.group.state.name == "ASSIGNING"
    assert assigned(scene.beat("m1", 3)) == {"foo": [0, 1]}


def test_the_last_leave_keeps_the_group_and_levels_its_epochs() -> None:
    """From 4.4 on the target epoch of an emptied group follows, with time 0."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert scene.records == ["8t m1", "7t m1", "5t m1", "3 epoch 3", "6 epoch 3 at 0"]
    assert (scene.described["state"], scene.described["epoch"]) == ("Empty", 3)


def test_before_4_4_the_target_epoch_of_an_emptied_group_stays_behind() -> None:
    """The next member computes its target even if it subscribes to nothing, and nothing is bumped for it."""
    scene = Scene("4.3.1")
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert scene.records == ["8t m1", "7t m1", "5t m1", "3 epoch 3"]
    scene.join("m2")
    assert scene.events == ["UNSUBSCRIBED_JOINED_TARGET_STALE", "HEARTBEAT_ALL_STABLE"]
    assert scene.records == ["5 m2", "7 m2", f"6 epoch 3 at {START_MS}", "8 m2 0->3 "]


def test_a_vote_that_elects_another_assignor_bumps() -> None:
    """From 4.4 on; before, the vote waits for the next reason to compute a target."""
    for release, epochs in (("4.4.0", (3, 4)), ("4.3.1", (3, 3))):
        scene = two_members(release)
        before = scene.group.epoch
        scene.beat("m1", 3, server_assignor="range")
        assert (before, scene.group.epoch) == epochs
        assert scene.described["assignor"] == "range"


def test_the_group_is_full() -> None:
    """One more member than allowed is refused; those that are in may go on."""
    scene = Scene(group_consumer_max_size=1)
    scene.join("m1", "foo")
    assert scene.join("m2", "foo")["error_code"] == "group_max_size_reached"
    assert scene.join("m1", "foo")["error_code"] is None


def test_an_assignor_that_fails_undoes_the_whole_request() -> None:
    """The answer is an error of the server, and not even the bump persists."""
    scene = Scene(group_consumer_assignors=("broken",))

    def broken(_group: GroupSpec) -> dict[str, Any]:
        raise PartitionAssignorError("nobody fits")

    scene.context = replace(scene.context, custom_assignors=PersistentMap({"broken": broken}))
    assert scene.join("m1", "foo")["error_code"] == "unknown_server_error"
    assert not scene.state.groups


@pytest.mark.parametrize(("release", "shown"), [("4.4.0", {"foo": [0, 1]}), ("4.2.0", {"foo": [0]})])
def test_describe_shows_what_must_still_be_given_up(release: str, shown: dict[str, list[int]]) -> None:
    """From 4.3 on partitions that a member must give up count as assigned in a description."""
    scene = Scene(release)
    epoch = scene.join("m1", "foo")["member_epoch"]
    scene.join("m2", "foo")
    scene.beat("m1", epoch)
    described = scene.described["members"]["m1"]
    assert (described["assigned"], described["target"]) == (shown, {"foo": [0]})
