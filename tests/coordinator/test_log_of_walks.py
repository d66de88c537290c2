"""Random walks and their logs: a log cut at any batch, cleaned as far as it may be, says what the coordinator was."""

from __future__ import annotations

from random import Random

import pytest
from classic_world import ClassicWorld
from consumer_scene import START_MS, Scene
from consumer_world import World
from stored_state import at, compacted, settled

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.log import batch_of, write_batch
from fsm.coordinator.replay import replay, replay_segment

RELEASES = ("4.0.0", "4.2.0", "4.4.0")


def held_against_its_log(world: World | ClassicWorld, steps: int, every: int) -> set[str]:
    """After each step the log since the last one is replayed; now and then a cleaned copy from its beginning.

    Gives the types of group that were seen in a state which a log can tell.
    """
    chance, scene, seen = Random(steps), world.scene, set()  # noqa: S311  # cuts are to be repeated
    replayed, done = Coordinator(), 0
    for step in range(steps):
        world.act()
        added = [record for batch in scene.log[done:] for record in batch]
        replayed, remarks = replay(added, scene.context.dialect, replayed)
        done = len(scene.log)
        assert remarks == ()
        agree(replayed, scene)
        if step % every == 0:
            log = [record for batch in scene.log for record in batch]
            agree(replay(compacted(log, chance), scene.context.dialect).state, scene)
        seen |= {type(group).__name__ for group in settled(scene.state).values()}
    segment = b"".join(write_batch(batch_of(100 * i, records, START_MS)) for i, records in enumerate(scene.log))
    agree(replay_segment(segment, scene.context.dialect).state, scene)
    return seen


def agree(replayed: Coordinator, scene: Scene) -> None:
    """What was replayed has every settled group as it is; one that Kafka dropped without a record may be there, too."""
    expected = settled(scene.state)
    assert at(replayed, list(expected)) == expected


@pytest.mark.parametrize("release", RELEASES)
def test_the_log_of_a_consumer_group_says_what_it_is(release: str) -> None:
    """Whatever members and topics do: after each step, and from any cleaned log cut there."""
    assert held_against_its_log(World(release, 21), 400, every=5) == {"ConsumerGroup"}


@pytest.mark.parametrize("release", RELEASES)
def test_the_log_of_a_group_that_changes_its_type_says_what_it_is(release: str) -> None:
    """Classic groups, consumer groups with members of both protocols, conversions both ways."""
    seen = set[str]()
    for seed in range(6):
        seen |= held_against_its_log(ClassicWorld(release, seed), 150, every=5)
    assert seen == {"ClassicGroup", "ConsumerGroup"}
