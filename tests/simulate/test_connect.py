"""Connect clusters under a deployment's schedule."""

from __future__ import annotations

from functools import cache

import pytest
from simulate_scene import CONNECT, CONNECT_FAULTS, connect

from fsm.errors import InputError
from fsm.simulate import read, simulate, write


@pytest.mark.deep
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (1, 2))])
def test_workers_come_and_go_and_the_work_is_done(seed: int) -> None:
    """Every invariant of Connect holds, and the same seed gives the same."""
    outcome = simulate(connect(), seed)
    assert outcome.violations == []
    assert outcome.as_document() == simulate(connect(), seed).as_document()
    totals = outcome.totals()
    assert totals["moves"] > 10
    assert totals["rebalances"] > 10
    assert 60_000 <= totals["longest_unowned_ms"] < 200_000  # the delay, and the round that ends it


def test_a_crash_leaves_work_undone_for_the_delay_and_a_session() -> None:
    """Of a worker that does not come back in time; its session is ten seconds, the delay a minute."""
    gone = connect("- {at: 50m, crash: c-1, away: 10m}\n")
    totals = simulate(gone, 1).totals()
    assert 60_000 < totals["longest_unowned_ms"] <= 60_000 + 10_000 + 6_000
    assert totals["shared_ms"] == 0


def test_two_services_cannot_share_a_connect_connect() -> None:
    """A worker has connectors, not topics."""
    assert read(write(connect()), "again") == connect()
    other = "  d: {group: c, protocol: connect, connectors: {X: 1}}\nplans:"
    with pytest.raises(InputError, match="c and d share a group"):
        read((CONNECT + CONNECT_FAULTS).replace("plans:", other), "connect.yaml")
    with pytest.raises(InputError, match="a Connect service has connectors, not topics"):
        read((CONNECT + CONNECT_FAULTS).replace("connectors: {A: 10, B: 5}, ", ""), "connect.yaml")


@cache
def calm(seed: int) -> dict[str, int]:
    """The totals of workers to which next to nothing happens."""
    return simulate(connect("- {at: 80m, pause: c-0, for: 1s}\n"), seed).totals()


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.deep) for seed in (0, 1, 2)])
def test_messages_are_lost_and_the_work_is_done(seed: int) -> None:
    """Who waits in vain finds its coordinator again; every invariant holds."""
    outcome = simulate(connect("- {at: 10m, lose: 20%, for: 20m}\n- {at: 40m, lose: 2%, for: 40m}\n"), seed)
    assert outcome.violations == []
    assert outcome.totals()["rebalances"] > calm(seed)["rebalances"] + 5


def test_heartbeats_and_requests_are_counted() -> None:
    """Four workers send one every three seconds, but for what a rolling restart takes."""
    totals = calm(0)
    assert totals["heartbeats"] == pytest.approx(4 * 90 * 20, rel=0.03)
    assert 10 < totals["requests"] - totals["heartbeats"] < 200
