"""Weak spots of the protocol that a coordinator cannot mend, as members of the consumer protocol meet them.

W2, W5 and W7 are those of classic members (`test_mixed.py`); W6 needs a member that still uses what it must give up.
All but W3 arise from what real members do, too: `tests/cluster/test_weak_spots.py`. W3 needs a client that does not say
what it owns after each assignment; members of all dialects do. Numbers: `diagrams/hazards.md`.
"""

from __future__ import annotations

from typing import Any

import pytest
from consumer_scene import Scene, assigned


def full(scene: Scene, member_id: str, epoch: int, owned: dict[str, list[int]]) -> dict[str, list[int]] | None:
    """The assignment in the answer to a heartbeat that says everything."""
    fields: dict[str, Any] = {"rebalance_timeout": 30_000, "subscribed_topic_names": ["foo"], "owned": owned}
    return assigned(scene.beat(member_id, epoch, **fields))


def commit(scene: Scene, member_id: str, epoch: int, partition: int) -> Any:
    """The error of a commit for one partition of foo."""
    topics = [{"name": "foo", "partitions": [{"partition_index": partition, "committed_offset": 7}]}]
    body = {"generation_id_or_member_epoch": epoch, "member_id": member_id, "topics": topics}
    return scene.send("OffsetCommit", 9, body)["topics"][0]["partitions"][0]["error_code"]


def test_weak_spot_1_what_is_left_out_of_a_report_is_released_at_once() -> None:
    """W1: who then starts to use it, before that report is answered, shares it; its commits are refused."""
    scene = Scene()
    given = assigned(scene.join("m1", "foo"))
    assert given == {"foo": [0, 1]}  # received, and not applied yet
    scene.join("m2", "foo")
    assert full(scene, "m1", 2, {"foo": [0]}) == {"foo": [0]}  # after a timeout: what it uses; this answer is lost
    using = {("foo", number) for number in given["foo"]}  # and now the client applies what it was told before
    scene.ack("m2")
    held = {("foo", number) for _, numbers in scene.group.members["m2"].assigned for number in numbers}
    assert using & held == {("foo", 1)}
    assert commit(scene, "m1", 2, 1) == "stale_member_epoch"
    assert commit(scene, "m2", 3, 1) is None


@pytest.mark.parametrize(("reports", "members"), [(False, ["m3"]), (True, ["m1", "m3"])])
def test_weak_spot_3_an_owned_set_that_did_not_change_must_be_reported_again(reports: bool, members: list[str]) -> None:
    """W3: what is taken back before its member used it stays pending until a report, or the rebalance timer.

    The member has foo 0, is told of foo 1, and is told of foo 0 alone before it used foo 1.
    """
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.settle("m1", "m2")
    scene.beat("m2", -1)
    assert assigned(scene.beat("m1", 3)) == {"foo": [0, 1]}
    scene.join("m3", "foo")
    assert assigned(scene.beat("m1", 4)) == {"foo": [0]}
    for _ in range(6):
        scene.wait(4_999)
        epoch = scene.group.members["m1"].epoch
        report: dict[str, Any] = {"owned": {"foo": [0]}} if reports else {}
        scene.beat("m1", epoch, **report)
        scene.ack("m3")
    assert bool(scene.group.members["m1"].current.pending) == (not reports)
    scene.wait(6)
    assert sorted(scene.group.members) == members


@pytest.mark.parametrize(("release", "waits"), [("4.1.1", True), ("4.2.0", False)])
def test_weak_spot_4_a_member_that_lost_its_epoch_cannot_come_back(release: str, waits: bool) -> None:
    """W4: before 4.2 its id is refused with epoch 0 until its session has expired (F9)."""
    scene = Scene(release)
    scene.join("m1", "foo")
    scene.join("m2", "foo")
    scene.settle("m1", "m2")
    assert scene.beat("m1", 77)["error_code"] == "fenced_member_epoch"
    refusal = "fenced_member_epoch" if waits else None
    for _ in range(4):
        assert scene.join("m1", "foo")["error_code"] == refusal
        scene.wait(11_000)
        scene.ack("m2")
    scene.wait(1_000)
    assert ("m1" in scene.group.members) == (not waits)
    assert scene.join("m1", "foo")["error_code"] is None
