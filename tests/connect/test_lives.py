"""Random lives of clusters: every round keeps the invariants, and each comes to rest with all its work placed."""

from __future__ import annotations

import pytest
from connect_lives import Fate, Misfortune
from connect_scene import find_doubles, find_outdated


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_every_round_keeps_the_invariants(seed: int) -> None:
    """Joins, leaves, crashes, connectors that come, grow and go: no round breaks an invariant, no unit runs twice, and
    the cluster comes to rest with all its work placed and balanced."""
    lived = Fate(seed).live(15)
    assert (lived.broken, lived.find_problems()) == ([], [])


@pytest.mark.parametrize("seed", range(6))
def test_misfortunes_are_overcome(seed: int) -> None:
    """Frozen processes, cut connections, broker outages, paused, stopped and restarted connectors: what runs twice
    meanwhile runs in zombies; at rest nothing does, and no task runs with old configs."""
    lived = Misfortune(seed).live(25)
    assert (lived.broken, lived.find_problems(), find_doubles(lived), find_outdated(lived)) == ([], [], set(), set())


def test_a_run_depends_on_its_seed_alone() -> None:
    """Same seed, same rounds at the same instants."""
    assert Fate(3).live(6).rounds == Fate(3).live(6).rounds
    assert Misfortune(3).live(6).steps == Misfortune(3).live(6).steps


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_long_lives_keep_the_invariants(seed: int) -> None:
    """Three hundred lives of eighty changes each."""
    lived = Fate(seed).live(80)
    assert (lived.broken, lived.find_problems()) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_long_misfortunes_are_overcome(seed: int) -> None:
    """Two hundred lives of eighty misfortunes each."""
    lived = Misfortune(seed).live(80)
    assert (lived.broken, lived.find_problems(), find_doubles(lived), find_outdated(lived)) == ([], [], set(), set())
