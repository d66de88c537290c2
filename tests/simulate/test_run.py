"""Runs of whole deployments: the same seed gives the same bytes, whether heartbeats are stepped or counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulate_scene import CALM, SERVICES, deployment

from fsm.cluster.skipping import SkippingCluster
from fsm.simulate import Outcome, read_file, simulate
from fsm.simulate.group import GroupRun


def bytes_of(outcome: Outcome) -> bytes:
    """All that a run came to."""
    return json.dumps(outcome.as_document()).encode()


@pytest.mark.parametrize(
    "kind", [kind if kind == "mixed" else pytest.param(kind, marks=pytest.mark.deep) for kind in SERVICES]
)
def test_what_rests_is_counted_as_if_each_heartbeat_were_stepped(kind: str) -> None:
    """Restarts, crashes, pauses, partitions, fail-overs, loss, slow callbacks: the same bytes, in less time."""
    given = deployment(kind)
    stepped, counted = simulate(given, 1, skips=False), simulate(given, 1)
    assert bytes_of(stepped) == bytes_of(counted)
    assert stepped.totals()["heartbeats"] > 400


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
@pytest.mark.parametrize("kind", SERVICES)
def test_many_seeds_are_counted_as_they_are_stepped(kind: str, seed: int) -> None:
    """The same of more seeds."""
    given = deployment(kind)
    assert bytes_of(simulate(given, seed, skips=False)) == bytes_of(simulate(given, seed))


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    """Chance is the seed's alone."""
    given = deployment("consumer")
    first = bytes_of(simulate(given, 3))
    assert bytes_of(simulate(given, 3)) == first
    assert bytes_of(simulate(given, 4)) != first


@pytest.mark.parametrize("kind", SERVICES)
def test_nothing_goes_wrong_but_what_is_documented(kind: str) -> None:
    """Every invariant holds, and the group settles when all is well again; hazards are named."""
    outcome = simulate(deployment(kind), 1)
    assert outcome.violations == []
    assert outcome.hazards().keys() <= {"two users: expired", "two users: A5", "ended: UNRELEASED_INSTANCE_ID"}
    totals = outcome.totals()
    assert totals["moves"] > 10
    assert totals["rebalances"] > 5
    assert totals["unowned_ms"] > 60_000


def test_a_calm_group_is_owned_from_its_start_on() -> None:
    """What is measured of a group to which nothing happens can be told in advance."""
    outcome = simulate(deployment("consumer", CALM, loses="0"), 1)
    totals = outcome.totals()
    assert (totals["shared_ms"], totals["moves"] <= 12, outcome.hazards()) == (0, True, {})
    assert abs(totals["heartbeats"] - 6 * 12 * 60 / 5) < 60
    assert totals["longest_unowned_ms"] < 30_000


def test_a_steady_group_takes_no_steps() -> None:
    """All clients rest, and an hour passes without one event."""
    run = GroupRun(deployment("consumer", CALM, lasts="2h", loses="0"), "a", 1)
    run.begin(())
    run.run(60_000)
    assert len(run.skipped) == 6
    before = run.steps
    run.run(3_600_000)
    assert run.steps == before
    run.wake()
    run.run(3_600_000)
    assert run.meter.totals()["heartbeats"] == pytest.approx(6 * 720, abs=40)


def test_who_rests_is_woken_by_whatever_may_be_answered_otherwise() -> None:
    """A member that leaves makes every other one hear of it with its next heartbeat."""
    run = GroupRun(deployment("consumer", CALM, loses="0"), "a", 1)
    run.begin(())
    run.run(60_000)
    gone = run.clients["a-0-0"]
    assert run.wake(("a-0-0",))
    gone.close(run.now_ms)
    run.run(90_000)
    assert isinstance(run, SkippingCluster)
    assert "a-0-0" not in run.clients
    assert run.find_unsettled() == []
    assert {name for client in run.clients.values() for name in client.using} >= {("orders", i) for i in range(12)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 13))
def test_a_bad_day_in_a_bad_network(seed: int) -> None:
    """Messages that take 40 seconds or are lost, and a fault every twenty seconds: what goes wrong is documented."""
    outcome = simulate(read_file(Path(__file__).parent / "bad_day.yaml"), seed)
    assert outcome.violations == []
    known = ("two users: ", "ended: UNRELEASED_INSTANCE_ID", "stranded: ", "a clock that went back: 19 ", "I26 ")
    assert all(name.startswith(known) for name in outcome.hazards())
