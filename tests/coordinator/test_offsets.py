"""Commits and fetches of offsets: who may, at which member epoch, and what is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from classic_scene import ClassicScene
from consumer_scene import IDS, START_MS, Scene

from fsm.coordinator.offsets.offsets import apply_offsets, end_offsets_of_topics
from fsm.protocol.assignment import NO_TOPIC_ID
from fsm.protocol.records import OffsetCommit, OffsetKey


def commit(scene: Scene, member_id: str, epoch: int, *places: tuple[str, int], version: int = 9, **more: Any) -> Any:
    """The error of each partition of a commit of offset 7."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": partition, "committed_offset": 7, **more}]}
        for topic, partition in places
    ]
    body = {"generation_id_or_member_epoch": epoch, "member_id": member_id, "topics": topics}
    answer = scene.send("OffsetCommit", version, body)
    return [partition["error_code"] for topic in answer["topics"] for partition in topic["partitions"]]


def fetch(scene: Scene, member_id: str | None, epoch: int, topics: Any) -> Mapping[str, Any]:
    """The answer for group `g`."""
    asked = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "topics": topics}
    answer: Mapping[str, Any] = scene.send("OffsetFetch", 9, {"groups": [asked], "require_stable": True})["groups"][0]
    return answer


def revoking(release: str = "4.4.0") -> Scene:
    """m1 is at its first epoch, has foo 0 and must give up foo 1, both assigned there; the target is one ahead."""
    scene = Scene(release)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.beat("m1", scene.group.members["m1"].epoch)
    return scene


def test_a_member_commits_at_its_epoch() -> None:
    """The record names the topic's id; a fetch at that epoch gives the offset back."""
    scene = Scene()
    scene.join("m1", "foo")
    assert commit(scene, "m1", 2, ("foo", 1)) == [None]
    (record,) = scene.last.records
    assert (record.key, record.version) == (OffsetKey(record.key[0], "g", "foo", 1), 4)  # type: ignore[arg-type]
    assert record.value == OffsetCommit(7, -1, "", START_MS, topic_id=IDS["foo"])
    answer = fetch(scene, "m1", 2, [{"name": "foo", "partition_indexes": [0, 1]}])
    assert [p["committed_offset"] for p in answer["topics"][0]["partitions"]] == [-1, 7]


@pytest.mark.parametrize(("version", "own_error"), [(7, True), (2, True), (1, False)])
def test_a_fetch_of_one_group_is_answered_in_its_form(version: int, own_error: bool) -> None:
    """Up to version 7 topics stand in the answer itself; version 1 has no error but those of partitions."""
    scene = Scene()
    scene.join("m1", "foo")
    commit(scene, "m1", 2, ("foo", 1))
    topics = [{"name": "foo", "partition_indexes": [0, 1]}]
    answer = scene.send("OffsetFetch", version, {"group_id": "g", "topics": topics})
    assert [p["committed_offset"] for p in answer["topics"][0]["partitions"]] == [-1, 7]
    assert answer.get("error_code") is None
    assert ("error_code" in answer) is own_error
    assert "groups" not in answer


@pytest.mark.parametrize(
    ("release", "version", "topic_id"),
    [("4.0.0", 3, NO_TOPIC_ID), ("4.1.1", 4, NO_TOPIC_ID), ("4.2.0", 4, NO_TOPIC_ID), ("4.3.1", 4, IDS["foo"])],
)
def test_the_topic_id_of_a_commit_by_name(release: str, version: int, topic_id: str) -> None:
    """From 4.1 on the record has a place for it, but until 4.3 the broker fills it in only for commits by id."""
    scene = Scene(release)
    epoch = scene.join("m1", "foo")["member_epoch"]
    commit(scene, "m1", epoch, ("foo", 0))
    (record,) = scene.last.records
    assert isinstance(record.value, OffsetCommit)
    assert (record.version, record.value.topic_id) == (version, topic_id)


def test_an_older_epoch_is_accepted_down_to_the_assignment_epoch() -> None:
    """A partition that moved on to the next epoch with its member keeps the epoch it was assigned at."""
    scene = revoking()
    scene.beat("m1", 2, owned={"foo": [0]})
    assert scene.group.members["m1"].epoch == 3
    assert commit(scene, "m1", 2, ("foo", 0)) == [None]
    assert commit(scene, "m1", 1, ("foo", 0)) == ["stale_member_epoch"]
    assert commit(scene, "m1", 4, ("foo", 0)) == ["stale_member_epoch"]


def test_a_former_holder_cannot_commit_what_was_handed_on() -> None:
    """At an older epoch every partition must still be assigned or pending: one violation fails the whole commit."""
    scene = revoking()
    scene.beat("m1", 2, owned={"foo": [0]})
    assert commit(scene, "m1", 2, ("foo", 0), ("foo", 1)) == ["stale_member_epoch", "stale_member_epoch"]
    assert scene.last.records == ()


def test_what_must_be_given_up_may_still_be_committed() -> None:
    """A pending partition counts, at the member's own epoch and at older ones down to its assignment."""
    scene = revoking()
    assert commit(scene, "m1", 2, ("foo", 1)) == [None]


def test_before_4_3_the_epoch_must_be_exact() -> None:
    """There are no assignment epochs to compare with."""
    scene = revoking("4.2.0")
    scene.beat("m1", 1, owned={"foo": [0]})
    assert commit(scene, "m1", 1, ("foo", 0)) == ["stale_member_epoch"]


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "error"),
    [
        ("m9", 2, 9, "unknown_member_id"),
        ("", -1, 9, "unknown_member_id"),
        ("m1", 2, 8, "unsupported_version"),
    ],
)
def test_strangers_do_not_commit(member_id: str, epoch: int, version: int, error: str) -> None:
    """A group with members takes commits of its members alone, and of those in version 9."""
    scene = Scene()
    scene.join("m1", "foo")
    before = scene.state
    assert commit(scene, member_id, epoch, ("foo", 0), version=version) == [error]
    assert scene.state is before


@pytest.mark.parametrize(("version", "error"), [(9, "group_id_not_found"), (8, "illegal_generation")])
def test_a_group_that_does_not_exist(version: int, error: str) -> None:
    """With an epoch it is an error, told to older clients as they know it; without one a simple group is made."""
    scene = Scene()
    assert commit(scene, "m1", 2, ("foo", 0), version=version) == [error]
    assert commit(scene, "", -1, ("foo", 0), version=version) == [None]
    assert scene.state.offsets["g"]["foo", 0].offset == 7


def test_an_empty_group_takes_commits_of_anybody() -> None:
    """As tools do that set offsets."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert commit(scene, "", -1, ("foo", 0)) == [None]


def test_partitions_that_do_not_exist_are_told_one_by_one() -> None:
    """Before the others, which are committed; so does a broker of 4.4."""
    scene = Scene()
    scene.join("m1", "foo")
    unknown = "unknown_topic_or_partition"
    assert commit(scene, "m1", 2, ("foo", 0), ("foo", 2), ("baz", 0)) == [unknown, None, unknown]
    assert len(scene.last.records) == 1
    assert commit(scene, "m9", 2, ("baz", 0)) == [unknown]


def test_metadata_that_is_too_large_is_refused_for_its_partition() -> None:
    """More than 4,096 characters are not stored."""
    scene = Scene()
    scene.join("m1", "foo")
    assert commit(scene, "m1", 2, ("foo", 0), committed_metadata="x" * 4_097) == ["offset_metadata_too_large"]
    assert commit(scene, "m1", 2, ("foo", 0), committed_metadata="x" * 4_096) == [None]


def test_commits_by_topic_id() -> None:
    """From version 10 on topics come by id, and an unknown id is told as such."""
    scene = Scene()
    scene.join("m1", "foo")
    topics = [
        {"topic_id": IDS[name], "partitions": [{"partition_index": 0, "committed_offset": 7}]}
        for name in ("foo", "baz")
    ]
    body = {"generation_id_or_member_epoch": 2, "member_id": "m1", "topics": topics}
    answer = scene.send("OffsetCommit", 10, body)
    errors = [(topic["topic_id"], topic["partitions"][0]["error_code"]) for topic in answer["topics"]]
    assert errors == [(IDS["baz"], "unknown_topic_id"), (IDS["foo"], None)]


EVERY_VERSION = tuple(range(2, 11))
"""Of OffsetCommit."""
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAATQ"


def refusals(scene: Scene, version: int, member_id: str, epoch: int) -> list[Any]:
    """What is told of foo 0, foo 77, a topic that does not exist and bar 0, each with topic and partition."""

    def topic(name: str, *numbers: int) -> dict[str, Any]:
        named = {"topic_id": IDS.get(name, UNKNOWN_ID)} if version >= 10 else {"name": name}
        return {**named, "partitions": [{"partition_index": number, "committed_offset": 7} for number in numbers]}

    topics = [topic("foo", 0, 77), topic("nope", 0), topic("bar", 0)]
    body = {"generation_id_or_member_epoch": epoch, "member_id": member_id, "topics": topics}
    answer = scene.send("OffsetCommit", version, body)
    names = {IDS["foo"]: "foo", IDS["bar"]: "bar", UNKNOWN_ID: "nope"}
    return [
        (topic.get("name") or names[topic["topic_id"]], one["partition_index"], one["error_code"])
        for topic in answer["topics"]
        for one in topic["partitions"]
    ]


@pytest.mark.parametrize("version", EVERY_VERSION)
@pytest.mark.parametrize(
    ("member_id", "epoch", "error", "until_8"),
    [
        ("nobody", 1, "unknown_member_id", "unknown_member_id"),
        ("", -1, "unknown_member_id", "unknown_member_id"),
        ("m1", 99, "stale_member_epoch", "unsupported_version"),
        ("m1", 1, "stale_member_epoch", "unsupported_version"),
        ("m1", -1, "stale_member_epoch", "unsupported_version"),
    ],
)
def test_a_refused_commit_tells_its_error_in_every_version(
    version: int, member_id: str, epoch: int, error: str, until_8: str
) -> None:
    """As a broker of 4.4 answered: what does not exist comes first in its topic, the rest has the group's error."""
    scene = Scene()
    scene.join("m1", "foo")
    before = scene.state
    code = until_8 if version < 9 else error
    unknown = "unknown_topic_or_partition"
    expected = [("foo", 77, unknown), ("foo", 0, code)]
    expected += [("nope", 0, "unknown_topic_id" if version >= 10 else unknown), ("bar", 0, code)]
    assert refusals(scene, version, member_id, epoch) == expected
    assert scene.state is before


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_commit_to_no_group_tells_its_error_in_every_version(version: int) -> None:
    """The same where there is no such group: older clients hear of a generation."""
    code = "illegal_generation" if version < 9 else "group_id_not_found"
    refused = refusals(Scene(), version, "m1", 3)
    assert [error for _, number, error in refused if number != 77][::2] == [code, code]
    assert len(refused) == 4


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_commit_of_a_classic_member_tells_its_error_in_every_version(version: int) -> None:
    """A classic group refuses strangers and old generations alike in all versions."""
    scene = ClassicScene()
    (member_id,) = scene.enter("c")
    refused = [refusals(scene, version, who, at)[1::2] for who, at in (("nobody", 1), (member_id, 9), (member_id, 1))]
    assert refused == [
        [("foo", 0, error), ("bar", 0, error)]
        for error in ("unknown_member_id", "illegal_generation", "rebalance_in_progress")
    ]
    scene.share(member_id, 1, {"assigns": {}})
    assert refusals(scene, version, member_id, 1)[1::2] == [("foo", 0, None), ("bar", 0, None)]


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [("m1", 2, None), ("m1", 1, "stale_member_epoch"), ("m1", 3, "stale_member_epoch"), ("m9", 2, "unknown_member_id")],
)
def test_a_fetch_needs_the_exact_epoch(member_id: str, epoch: int, error: str | None) -> None:
    """Assignment epochs do not help here."""
    scene = Scene()
    scene.join("m1", "foo")
    answer = fetch(scene, member_id, epoch, [{"name": "foo", "partition_indexes": [0]}])
    assert (answer["error_code"], bool(answer["topics"])) == (error, error is None)


def test_a_fetch_without_a_member_is_always_answered() -> None:
    """As tools ask: all topics of a group, or those of a group that does not exist."""
    scene = Scene()
    assert fetch(scene, None, -1, None)["topics"] == []
    unknown = fetch(scene, None, -1, [{"name": "foo", "partition_indexes": [0]}])
    assert unknown["topics"][0]["partitions"][0]["committed_offset"] == -1
    scene.join("m1", "foo")
    commit(scene, "m1", 2, ("foo", 1), ("foo", 0))
    answer = fetch(scene, None, -1, None)
    assert [p["partition_index"] for p in answer["topics"][0]["partitions"]] == [0, 1]


def test_offsets_end_with_their_topic() -> None:
    """A deleted topic's offsets get tombstones, and the group has them no more."""
    scene = Scene()
    scene.join("m1", "foo", "bar")
    commit(scene, "m1", 2, ("foo", 0), ("bar", 0))
    gone = end_offsets_of_topics(scene.state.offsets, ["foo"])
    assert [(record.key[1:], record.value) for record in gone] == [(("g", "foo", 0), None)]
    assert list(apply_offsets(scene.state.offsets, gone)["g"]) == [("bar", 0)]
