"""Offsets that nobody uses: they expire with time, go with their topic, and take a group without members along."""

from __future__ import annotations

import pytest
from consumer_scene import START_MS, Scene

WEEK_MS = 7 * 24 * 3_600_000


def committed(scene: Scene, member_id: str = "", epoch: int = -1) -> None:
    """Offsets of foo 0 and bar 0 are committed now."""
    topics = [{"name": n, "partitions": [{"partition_index": 0, "committed_offset": 7}]} for n in ("foo", "bar")]
    scene.send("OffsetCommit", 9, {"generation_id_or_member_epoch": epoch, "member_id": member_id, "topics": topics})


def cleaned(scene: Scene, now_ms: int) -> list[str]:
    """The records of a clean-up at that time."""
    return scene.clean_up(now_ms)


def test_offsets_of_an_empty_group_expire_with_the_group() -> None:
    """After a week, to the millisecond, in the order of its records."""
    scene = Scene()
    scene.join("m1", "foo")
    committed(scene, "m1", 2)
    scene.beat("m1", -1)
    assert cleaned(scene, START_MS + WEEK_MS - 1) == []
    assert cleaned(scene, START_MS + WEEK_MS) == ["1t foo 0", "1t bar 0", "6t", "4t", "3t"]
    assert not scene.state.groups
    assert not scene.state.offsets


def test_what_a_member_reads_does_not_expire() -> None:
    """What it has committed for other topics does, and the group stays."""
    scene = Scene()
    scene.join("m1", "foo")
    committed(scene, "m1", 2)
    assert cleaned(scene, START_MS + WEEK_MS) == ["1t bar 0"]
    assert list(scene.state.offsets["g"]) == [("foo", 0)]
    assert "g" in scene.state.groups


def test_an_empty_group_without_offsets_ends_at_once() -> None:
    """The next clean-up takes it, whatever its age."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert cleaned(scene, START_MS) == ["6t", "4t", "3t"]


@pytest.mark.parametrize(("minutes", "left"), [(10, False), (11, True)])
def test_the_broker_says_how_long_offsets_are_kept(minutes: int, left: bool) -> None:
    """offsets.retention.minutes; a simple group goes with its offsets."""
    scene = Scene(offsets_retention_minutes=minutes)
    committed(scene)
    cleaned(scene, START_MS + 600_000)
    assert ("g" in scene.state.groups) is left
    assert bool(scene.state.offsets) is left


def test_offsets_go_with_their_topic() -> None:
    """Whoever committed them, and however young they are."""
    scene = Scene()
    committed(scene)
    scene.topic("foo", 0)
    assert scene.records == ["1t foo 0"]
    assert list(scene.last.state.offsets["g"]) == [("bar", 0)]
