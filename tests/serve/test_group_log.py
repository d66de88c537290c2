"""A log that is compacted, or torn, says what it said before: the logs of random walks."""

from __future__ import annotations

import pytest
from classic_world import ClassicWorld
from consumer_world import World
from stored_state import content

from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.storage.replay import replay_segment
from fsm.serve.partition_logs import GroupLog

RELEASES = ("4.0.0", "4.4.0")
NOW_MS = 1_000


def compacts_at_any_time(world: World | ClassicWorld, steps: int, every: int) -> int:
    """Two logs of one walk, one of which is compacted now and then, and read again from its bytes; batches it saved."""
    whole, small = GroupLog(), GroupLog()
    saved = 0
    appended = 0
    for step in range(steps):
        world.act()
        for one in world.scene.log[appended:]:
            if one.records:
                whole.append(one.records, NOW_MS)
                small.append(one.records, NOW_MS)
        appended = len(world.scene.log)
        if step % every == every - 1:
            small.compacted_size = 0
            assert small.compact()
            saved = max(saved, len(whole.batches) - len(small.batches))
            again, size = GroupLog.of(small.segment())
            assert (size, again.end_offset) == (small.size, whole.end_offset)
            small = again
            says_the_same(whole, small, world)
    says_the_same(whole, small, world)
    return saved


def says_the_same(whole: GroupLog, small: GroupLog, world: World | ClassicWorld) -> None:
    dialect = world.scene.context.dialect
    expected, found = (replay_segment(log.segment(), dialect) for log in (whole, small))
    assert found.remarks == ()
    assert content(found.state) == content(expected.state)


@pytest.mark.parametrize("release", RELEASES)
def test_a_compacted_log_of_a_consumer_group(release: str) -> None:
    assert compacts_at_any_time(World(release, 31), 250, every=20) > 20


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.loop(1)
def test_a_compacted_log_of_groups_that_change_their_type(release: str) -> None:
    assert max(compacts_at_any_time(ClassicWorld(release, seed), 120, every=15) for seed in range(6)) > 20


def test_a_log_in_which_everything_was_deleted_keeps_its_end() -> None:
    log = GroupLog()
    world = ClassicWorld("4.4.0", 1)
    while not world.scene.log:
        world.act()
    (first, *_) = (one.records for one in world.scene.log if one.records)
    log.append(first, NOW_MS)
    log.append([record._replace(value=None) for record in first], NOW_MS)
    log.compacted_size = 0
    assert log.compact()
    again, _ = GroupLog.of(log.segment())
    assert again.end_offset == log.end_offset == 2 * len(first)
    assert replay_segment(again.segment(), world.scene.context.dialect).state.groups.by_id == PersistentMap()
