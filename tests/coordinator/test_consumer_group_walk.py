"""Random walks of clients that misbehave in every way they may: what must hold, holds; in the end all comes to rest."""

from __future__ import annotations

import pytest
from consumer_world import World

RELEASES = ("4.0.0", "4.0.2", "4.1.1", "4.2.0", "4.3.1", "4.4.0")


def walk(release: str, steps: int, seed: int, **settings: int) -> int:
    """So many steps, in walks of 300 that end in a fair time; gives how many walks there were."""
    done = walks = 0
    while done < steps:
        world = World(release, seed * 1_000_003 + walks, **settings)
        while world.steps < 300:
            world.act()
        world.quiet()
        assert world.has_converged(), (release, seed, walks, world.group, world.clients)
        done, walks = done + world.steps, walks + 1
    return walks


@pytest.mark.parametrize("interval_ms", [0, 1_000])
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.loop(4)
def test_invariants_hold_in_a_walk(release: str, interval_ms: int) -> None:
    """Single ownership, ordered epochs, deadlines, answers, safety of clients; and convergence."""
    assert walk(release, 300, 7, group_consumer_assignment_interval_ms=interval_ms)


def test_a_group_that_is_full_refuses_and_goes_on() -> None:
    """The limit holds in every step; who is refused is no member, and the others come to rest."""
    assert walk("4.4.0", 600, 5, group_consumer_max_size=3)


def test_a_tie_of_votes_never_rests_since_4_4() -> None:
    """With one vote each, every round moves the epoch (F13), and yet everybody has what it is given."""
    torn = World("4.4.0", 11 * 1_000_003 + 130)
    while torn.steps < 300:
        torn.act()
    torn.quiet()
    assert torn.is_torn()
    before = torn.group.epoch
    torn.quiet(rounds=3)
    assert torn.group.epoch == before + 3
    assert torn.has_converged()


@pytest.mark.slow
@pytest.mark.parametrize("interval_ms", [0, 1_000])
@pytest.mark.parametrize("release", RELEASES)
def test_invariants_hold_in_a_long_walk(release: str, interval_ms: int) -> None:
    """The same over a million steps, a twelfth of them for each release and interval."""
    assert walk(release, 84_000, 11, group_consumer_assignment_interval_ms=interval_ms)
