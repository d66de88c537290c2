"""Topics that come, grow and go under a group, and regular expressions that match them."""

from __future__ import annotations

import pytest
from consumer_scene import Scene, assigned


def test_a_grown_topic_is_noticed_by_the_next_heartbeat() -> None:
    """Nothing happens before; then the group epoch moves and the new partition is assigned."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.topic("foo", 3)
    assert (scene.group.epoch, scene.group.metadata_due) == (2, True)
    answer = scene.beat("m1", 2)
    assert (answer["member_epoch"], assigned(answer)) == (3, {"foo": [0, 1, 2]})
    assert scene.events == ["METADATA_CHANGED_ALL_STABLE"]


def test_a_deleted_topic_is_taken_back() -> None:
    """Its partitions are no part of the next target, and the description does not name it any more."""
    scene = Scene()
    scene.join("m1", "foo", "bar")
    scene.topic("foo", 0)
    assert scene.described["members"]["m1"]["assigned"] == {"bar": [0]}
    assert assigned(scene.beat("m1", 2)) == {"bar": [0]}


def test_a_subscription_waits_for_its_topic() -> None:
    """A topic that does not exist is subscribed all the same, and assigned once it does."""
    scene = Scene(topics={"foo": 2})
    assert assigned(scene.join("m1", "bar")) == {}
    assert scene.group.metadata.digest == 0
    scene.topic("bar", 1)
    assert assigned(scene.beat("m1", 2)) == {"bar": [0]}


def test_other_topics_do_not_matter() -> None:
    """A group checks its metadata only after an update that touches a subscribed topic."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.topic("bar", 2)
    assert not scene.group.metadata_due
    scene.beat("m1", 2)
    assert scene.group.epoch == 2


def test_before_4_1_a_record_of_its_own_tells_the_metadata() -> None:
    """It is written before the group's record, wherever the metadata changed."""
    scene = Scene("4.0.0")
    scene.join("m1", "foo")
    scene.topic("foo", 3)
    scene.beat("m1", 1)
    assert scene.records[:2] == ["4", "3 epoch 2"]


def test_a_regular_expression_matches_nothing_until_it_is_resolved() -> None:
    """The join bumps nothing; the background task's result does, and the next heartbeat gets the target."""
    scene = Scene()
    assert assigned(scene.join("m1", subscribed_topic_regex="fo+")) == {}
    assert (scene.group.epoch, scene.records) == (1, ["5 m1", "8 m1 0->1 "])
    assert scene.resolve() == ["16 fo+", "3 epoch 2"]
    assert scene.described["state"] == "Assigning"
    assert assigned(scene.beat("m1", 1)) == {"foo": [0, 1]}


def test_a_resolved_regular_expression_bumps_for_the_next_subscriber() -> None:
    """A second member with the same one needs no resolution."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.resolve()
    scene.beat("m1", 1)
    scene.join("m2", subscribed_topic_regex="fo+")
    assert scene.events == ["MEMBER_JOINED_RECONCILING"]
    assert scene.group.resolution is None
    assert scene.group.is_homogeneous


def test_another_regular_expression_takes_partitions_back_at_once() -> None:
    """From 4.2 on: what the new one does not match yet must be given up, before anything is bumped."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.resolve()
    scene.beat("m1", 1)
    scene.beat("m1", 2, subscribed_topic_regex="bar")
    assert scene.records == ["5 m1", "16t fo+", "8 m1 2->2  gives up foo[0, 1]"]
    assert scene.events == ["REGEX_UNRESOLVED_RECONCILING"]
    assert scene.group.epoch == 2


@pytest.mark.parametrize(("release", "event"), [("4.4.0", "SUBSCRIPTION_CHANGED_"), ("4.1.1", "REGEX_UNRESOLVED_")])
def test_giving_up_a_regular_expression_bumps(release: str, event: str) -> None:
    """From 4.1.2 and 4.2.0 on; before, the group keeps its epoch until something else moves it."""
    scene = Scene(release)
    scene.join("m1", subscribed_topic_regex="nothing")
    scene.resolve()
    scene.beat("m1", 1, subscribed_topic_regex="")
    assert scene.events[0] == event + "ALL_STABLE"
    assert ("16t nothing" in scene.records, scene.group.epoch) == (True, 1 + (release == "4.4.0"))


def test_the_last_subscriber_takes_the_regular_expression_with_it() -> None:
    """Its tombstone stands between the member's and the group's record."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.resolve()
    scene.beat("m1", -1)
    assert scene.records == ["8t m1", "7t m1", "5t m1", "16t fo+", "3 epoch 3", "6 epoch 3 at 0"]
    assert not scene.group.regexes


def test_a_result_that_comes_too_late_is_dropped() -> None:
    """The group may be empty by then."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.beat("m1", -1)
    assert scene.resolve() == []
    assert scene.events == ["REGEX_RESULT_SAME"]


def test_a_failed_resolution_keeps_what_was_resolved() -> None:
    """Nothing is written, and the next request that finds something to resolve starts it again (7.3)."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.resolve()
    resolved = scene.group.regexes
    scene.wait(10_001)
    scene.join("m2", subscribed_topic_regex="ba+r")
    assert scene.group.resolution is not None
    epoch = scene.group.epoch
    assert scene.fail_to_resolve() == []
    assert scene.events == ["REGEX_RESOLUTION_FAILED"]
    assert (scene.group.resolution, scene.group.regexes, scene.group.epoch) == (None, resolved, epoch)
    scene.beat("m1", scene.group.members["m1"].epoch)
    assert scene.resolve()[:2] == ["16 fo+", "16 ba+r"]


def test_a_first_resolution_that_failed_is_started_by_the_next_heartbeat() -> None:
    """Ten seconds of rest follow a result, not a failure; where no task was running, none can fail."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.fail_to_resolve()
    assert scene.group.resolution is None
    assert (scene.fail_to_resolve(), scene.events) == ([], [])
    scene.beat("m1", 1)
    assert scene.resolve() == ["16 fo+", "3 epoch 2"]


def test_a_resolution_is_not_repeated_within_ten_seconds() -> None:
    """A new regular expression waits for the next heartbeat after that."""
    scene = Scene()
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.resolve()
    scene.join("m2", subscribed_topic_regex="ba+r")
    assert scene.group.resolution is None
    scene.wait(10_000)
    scene.beat("m1", 1)
    assert scene.group.resolution is None
    scene.wait(1)
    scene.beat("m1", scene.group.members["m1"].epoch)
    assert scene.resolve() == ["16 fo+", "16 ba+r", "3 epoch 3"]


def test_new_topics_are_matched_by_the_next_resolution() -> None:
    """A topic that was created makes the result of before outdated."""
    scene = Scene(topics={"foo": 2})
    scene.join("m1", subscribed_topic_regex=".*")
    scene.resolve()
    scene.beat("m1", 1)
    scene.wait(10_001)
    scene.topic("bar", 1)
    scene.beat("m1", 2)
    assert scene.resolve() == ["16 .*", "3 epoch 3"]
    assert assigned(scene.beat("m1", 2)) == {"foo": [0, 1], "bar": [0]}


@pytest.mark.parametrize(("release", "starts"), [("4.4.0", True), ("4.0.0", False)])
def test_old_results_are_refreshed(release: str, starts: bool) -> None:
    """From 4.1 on, after the refresh interval; a result without news bumps nothing."""
    scene = Scene(release)
    scene.join("m1", subscribed_topic_regex="fo+")
    scene.resolve()
    for _ in range(30):
        scene.wait(20_001)
        scene.beat("m1", scene.group.members["m1"].epoch)
    assert (scene.group.resolution is not None) is starts
    if starts:
        assert scene.resolve() == ["16 fo+"]
        assert scene.events == ["REGEX_RESULT_SAME"]
