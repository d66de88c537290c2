"""Random walks and their logs: a log cut at any batch, cleaned as far as it may be, says what the coordinator was."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from classic_world import ClassicWorld
from consumer_scene import Scene
from consumer_world import World
from stored_state import at, batch_of_step, compacted_batches, settled

from fsm.coordinator.classic.invariants import find_broken as broken_in_classic_group
from fsm.coordinator.consumer.invariants import Moment, find_broken
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.storage.load import keep_stored, load
from fsm.coordinator.storage.replay import replay_segment
from fsm.protocol.record_batches import Batch, write_batch

RELEASES = ("4.0.0", pytest.param("4.2.0", marks=pytest.mark.deep), "4.4.0")


def held_against_its_log(world: World | ClassicWorld, steps: int, every: int) -> set[str]:
    """After each step the log since the last one is replayed; now and then a cleaned copy from its beginning.

    Gives the types of group that were seen in a state which a log can tell.
    """
    chance, scene, seen = Random(steps), world.scene, set()  # noqa: S311  # cuts are to be repeated
    replayed, batches = Coordinator(), list[Batch]()
    for step in range(steps):
        world.act()
        added = [batch_of_step(100 * i, scene.log[i]) for i in range(len(batches), len(scene.log))]
        replayed, remarks = replay_segment(b"".join(map(write_batch, added)), scene.context.dialect, replayed)
        batches += added
        assert remarks == ()
        agree(replayed, scene)
        if step % every == 0:
            agree(replay_segment(cleaned(batches, chance), scene.context.dialect).state, scene)
        seen |= {type(group).__name__ for group in settled(scene.state).values()}
        seen |= {"Offsets"} if scene.state.offsets else set()
        seen |= {"Transactions"} if scene.state.transactions else set()
        if step % every == 0:
            takes_over(replayed, scene)
    agree(replay_segment(b"".join(map(write_batch, batches)), scene.context.dialect).state, scene)
    return seen


def takes_over(replayed: Coordinator, scene: Scene) -> None:
    """Another coordinator loads the log: nothing stored is lost, timers run again, every promise holds (8.5, 4)."""
    after = load(replayed, scene.context)
    assert after.records == ()
    assert (after.state.offsets, after.state.transactions) == (replayed.offsets, replayed.transactions)
    for group_id, group in after.state.groups.items():
        if isinstance(group, ConsumerGroup):
            assert keep_stored(after.state).groups[group_id] == keep_stored(replayed).groups[group_id]
            # An incomplete assignment of a leader, which an upgrade made the target, leaves partitions to nobody.
            found = find_broken(Moment(None, group, scene.context))
            assert [promise for promise in found if not promise.startswith("10 ")] == []
        else:
            assert list(broken_in_classic_group(group)) == []
            assert group.pending_join_members == set()
            assert not group.delayed_joins


def cleaned(batches: Sequence[Batch], chance: Random) -> bytes:
    """The segment as a cleaner may leave it."""
    return b"".join(map(write_batch, compacted_batches(batches, chance)))


def agree(replayed: Coordinator, scene: Scene) -> None:
    """What was replayed has every settled group as it is; one that Kafka dropped without a record may be there, too."""
    expected = settled(scene.state)
    assert at(replayed, list(expected)) == expected
    assert (replayed.offsets, replayed.transactions) == (scene.state.offsets, scene.state.transactions)


@pytest.mark.parametrize("release", RELEASES)
def test_the_log_of_a_consumer_group_says_what_it_is(release: str) -> None:
    """Whatever members and topics do: after each step, and from any cleaned log cut there."""
    assert held_against_its_log(World(release, 21), 250, every=25) >= {"ConsumerGroup"}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.loop(1)
def test_the_log_of_a_group_that_changes_its_type_says_what_it_is(release: str) -> None:
    """Classic groups, consumer groups with members of both protocols, conversions both ways."""
    seen = set[str]()
    for seed in range(6):
        seen |= held_against_its_log(ClassicWorld(release, seed), 120, every=30)
    assert seen == {"ClassicGroup", "ConsumerGroup", "Offsets", "Transactions"}
