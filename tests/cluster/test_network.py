"""A network in which each message fares by its own chance."""

from __future__ import annotations

import pytest

from fsm.cluster.network import STEADY, Latency, Network


def sent(network: Network, names: list[str]) -> list[int | None]:
    """When the messages of these clients arrive, sent at once; None for those that are lost."""
    arrived: list[int | None] = []
    for i, name in enumerate(names):
        arrived.append(None)
        network.send(0, lambda at_ms, i=i: arrived.__setitem__(i, at_ms), name)  # type: ignore[misc]
    while network.next_ms is not None:
        network.deliver()
    return arrived


def test_who_else_sends_changes_nothing() -> None:
    """A message's fate hangs on its client and its number alone."""
    alone = sent(Network(STEADY, seed=5, loses=0.3), ["a"] * 40)
    among = sent(Network(STEADY, seed=5, loses=0.3), ["a", "b", "c"] * 40)
    assert among[::3] == alone
    assert None in alone
    assert sent(Network(STEADY, seed=6, loses=0.3), ["a"] * 40) != alone


def test_what_will_be_is_known_before() -> None:
    """Loss and latency of the messages that come next."""
    network = Network(STEADY, seed=2, latency=Latency(1, 5, 50, 90), loses=0.2)
    foreseen = [network.foresee("a", i, 1_000 * i) for i in range(30)]
    there = sent(Network(STEADY, seed=2, latency=Latency(1, 5, 50, 90), loses=0.2), ["a"] * 30)
    for i, fate in enumerate(foreseen):
        assert fate is None or (there[i] is not None and fate[0] == 1_000 * i + there[i] < fate[1])
    network.pass_over("a", 10)
    assert network.foresee("a", 0, 0) == (None if foreseen[10] is None else tuple(t - 10_000 for t in foreseen[10]))


def test_latencies_have_the_distribution_that_was_asked_for() -> None:
    """Half are below the median, one in a hundred is above the 99th percentile, none outside the ends."""
    latency = Latency(2, 10, 100, 1_000)
    assert [latency.at(share) for share in (0, 0.5, 0.99, 0.999999)] == [2, 10, 100, 999]
    took = [at for at in sent(Network(STEADY, seed=1, latency=latency), ["a"] * 4_000) if at is not None]
    assert len(took) == 4_000
    assert sum(at <= 10 for at in took) / 4_000 == pytest.approx(0.5, abs=0.06)
    assert sum(at > 100 for at in took) / 4_000 == pytest.approx(0.01, abs=0.006)
    assert min(took) >= 2
    assert max(took) <= 1_000


def test_who_is_cut_off_hears_and_says_nothing() -> None:
    """Others do."""
    network = Network(STEADY, cut={"a"})
    assert sent(network, ["a", "b"])[0] is None
    assert sent(network, ["b"])[0] is not None
