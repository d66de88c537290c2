"""Random walks over a group of both protocols: the promises of a classic group hold whatever its clients send."""

from __future__ import annotations

import pytest
from classic_world import ClassicWorld

from fsm.coordinator.classic.invariants import find_broken
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, ClassicMembers
from fsm.tables.classic_group import State

RELEASES = ("4.0.0", "4.2.0", "4.4.0")


def walk(release: str, steps: int, seed: int) -> set[str]:
    """So many steps in walks of 200; gives the states that were met."""
    states: set[str] = set()
    for number in range(steps // 200):
        world = ClassicWorld(release, seed * 1_000_003 + number)
        for _ in range(200):
            world.act()
        states |= world.states
    return states


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.loop(1)
def test_promises_hold_in_a_walk(release: str) -> None:
    """And every state is met on the way."""
    assert walk(release, 2_000, 5) == {"EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"}


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_promises_hold_in_a_long_walk(release: str) -> None:
    """The same over three hundred thousand steps."""
    assert len(walk(release, 100_000, 6)) == 4


def test_a_broken_group_is_called_so() -> None:
    """A stable group whose leader is gone, and whose member's session cannot expire."""
    member = ClassicGroupMember("a", None, "client", "/127.0.0.1", 60_000, 10_000, ())
    group = ClassicGroup("g", State.STABLE, leader="b", members=ClassicMembers.of([member]))
    assert list(find_broken(group)) == [
        "the leader is a member and an empty group has none",
        "all members support the chosen protocol",
        "a member that does not wait has a session timer",
    ]
