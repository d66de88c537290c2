"""Members and coordinator back to back: whatever happens, they converge, and nobody shares a partition unexplained."""

from __future__ import annotations

import random

import pytest
from cluster_scene import FOO, LATEST, cluster, of, two, without_callback
from disturbances import disturb

from fsm.cluster.client import BOTH, COOPERATIVE
from fsm.cluster.cluster import Double
from fsm.cluster.network import Channel, Faults
from fsm.member.dialect.dialect import FIXED

# How it goes where nothing goes wrong.


@pytest.mark.parametrize("release", ["4.0.0", "4.1.1", "4.2.0", "4.3.1", LATEST])
@pytest.mark.parametrize("dialect", ["4.0.0", "4.2.1", LATEST, FIXED])
@pytest.mark.loop(10)
def test_every_member_converges_with_every_coordinator(release: str, dialect: str) -> None:
    """Members of all dialects come, share, and leave what they had to those who stay; nothing is ever used twice."""
    found = cluster(release=release)
    found.join("a", dialect, ("foo",))
    found.run(3_000)
    assert of(found, "a") == FOO
    found.join("b", dialect, ("foo", "bar"))
    found.join("c", dialect, ("bar",))
    found.run(12_000)
    assert found.find_unsettled() == []
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 2_500)
    assert "b" not in found.clients
    found.run(found.now_ms + 5_000)
    assert (found.find_unsettled(), without_callback(found), found.doubles) == ([], [], [])


def test_a_killed_member_is_replaced_after_its_session() -> None:
    """Its partitions stay with it for the session timeout, then the other one has them all."""
    found = cluster()
    two(found)
    found.kill("b")
    found.run(found.now_ms + 2_000)
    assert len(of(found, "a")) == 2
    found.run(found.now_ms + 4_000)
    assert of(found, "a") == FOO


@pytest.mark.parametrize("dialect", [(FIXED,), (FIXED, COOPERATIVE, BOTH)])
def test_the_same_seed_is_the_same_run(dialect: tuple[str, ...]) -> None:
    """Two runs of one seed end with equal coordinators and equal doubles, and tell the same story."""

    def run(seed: int) -> tuple[object, list[Double], int, str]:
        found = cluster(seed)
        disturb(found, dialect, 12_000)
        return found.state, found.doubles, found.steps, found.story.text(1_000)

    assert run(3) == run(3)
    assert run(3) != run(4)


# Static members.


def test_a_static_member_keeps_its_partitions_through_a_restart() -> None:
    """A closed static member leaves with -2; who comes with its instance id gets what it had, without a rebalance."""
    found = cluster()
    found.join("a", FIXED, ("foo",), "i-a")
    found.join("b", FIXED, ("foo",), "i-b")
    found.run(5_000)
    had, group = of(found, "b"), found.consumer_group
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 500)
    assert "b" not in found.clients
    found.join("b", FIXED, ("foo",), "i-b")
    found.run(found.now_ms + 1_500)
    assert of(found, "b") == had
    assert found.consumer_group.epoch == group.epoch
    assert found.doubles == []


# The channel, and what goes through it.


def test_a_channel_loses_doubles_and_delays() -> None:
    """About as often as its faults say, and the same way for the same seed."""
    arrived: list[int] = []
    channel = Channel(random.Random(5), Faults(loses=0.2, doubles=0.1, latest_ms=10))  # noqa: S311
    for _ in range(1_000):
        channel.send(0, arrived.append)
    while channel.next_ms is not None:
        channel.deliver()
    assert 850 < len(arrived) < 950
    assert arrived == sorted(arrived)
    assert (min(arrived), max(arrived)) == (1, 50)
