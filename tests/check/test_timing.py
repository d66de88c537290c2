"""When the steps of a path can happen."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from models import consumer_group

from fsm.check import check
from fsm.check.catalog import shipped
from fsm.check.timing import APART_MS, LATE_MS, Timing
from fsm.check.verdict import count_steps


def test_a_timer_takes_its_time() -> None:
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500})
    timing.step()
    timing.meets("a", over=["poll"])
    timing.step()
    assert timing.solve() == (0, 500, 500 + APART_MS)


def test_what_starts_a_timer_waits_where_it_would_run_out_too_soon() -> None:
    """b's timer has to run still when a's is over, so it starts later, and a's before it."""
    timing = Timing()
    for owner in "ab":
        timing.step()
        timing.leaves(owner, 0, {"poll": 500 if owner == "a" else 100})
    timing.step()
    timing.meets("a", over=["poll"])
    timing.step()
    timing.meets("b")
    assert timing.solve() == (0, 500 + APART_MS - 99, 500, 500 + APART_MS)


def test_timers_that_contradict_a_path_have_no_times() -> None:
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500, "heartbeat": 100})
    timing.step()
    timing.meets("a", over=["poll"])
    assert timing.solve() == ()
    assert timing.contradiction() == (
        "a: heartbeat, 100 ms from step 1 on, still runs at step 2; a: poll, 500 ms from step 1 on, is over at step 2"
    )
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500, "heartbeat": 100})
    timing.step()
    timing.meets("a", over=["poll"], idle=["heartbeat"])
    assert timing.solve() == (0, 500)
    assert timing.contradiction() == ""


def test_a_timer_that_is_over_means_nothing_until_it_is_started_again() -> None:
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500})
    for due_ms in (500, 500, 1_700):
        timing.step()
        timing.meets("a", over=["poll"] if timing.solve() == (0, APART_MS) else [])
        timing.leaves("a", 1_000, {"poll": due_ms})
    timing.step()
    timing.meets("a", over=["poll"])
    assert timing.solve() == (0, 500, 502, 504, 1_204)


def test_a_timer_that_is_over_is_acted_on_soon() -> None:
    """b acts on its own after 100 ms, or a second later, so a's 5,000 cannot be over before."""
    for prompt in (True, False):
        timing = Timing()
        for owner, ms in (("a", 5_000), ("b", 100)):
            timing.step()
            timing.leaves(owner, 0, {"poll": ms})
        for owner in "ab":
            timing.step()
            timing.meets(owner, over=["poll"], prompt=prompt)
        times_ms = timing.solve()
        assert times_ms[2] >= 5_000
        assert times_ms[3] - times_ms[1] == (100 + LATE_MS if prompt else 5_000)


@pytest.mark.parametrize(
    ("options", "kinds", "properties", "over", "least_ms"),
    [
        ({}, [], [], "", 0),
        ({"policy": "upgrade"}, ["leave"], [], "initial rebalance delay is over", 500),
        ({}, ["expire"], [], "expires", 45_000),
        (
            {"protocol": "cooperative", "client": "fixed"},
            ["rebalance_timeout"],
            ["one user"],
            "time for b0 to join is over",
            10_000,
        ),
    ],
    ids=["early", "leave", "expire", "rebalance_timeout"],
)
def test_a_path_of_a_mixed_group_has_times(
    options: dict[str, Any], kinds: list[str], properties: list[str], over: str, least_ms: int
) -> None:
    """By Kafka's default timeouts, or by shorter ones: a timer is over no sooner than it takes."""
    known = [] if not kinds else ["early"]
    verdict = check(
        shipped("mixed-group", **options), disturb=kinds, disturbances=len(kinds), known=known, properties=properties
    )
    (found,) = verdict.violations
    assert found.replayed is not None
    times_ms = found.replayed.times_ms
    assert len(times_ms) == count_steps(found)
    assert all(later - earlier >= APART_MS for earlier, later in pairwise(times_ms))
    assert found.replayed.settings["session.timeout.ms"] == 45_000
    if over:
        assert least_ms <= next(at_ms for at_ms, step in zip(times_ms, found.path, strict=False) if over in step.action)


def test_a_path_without_times_says_which_timers_are_against_it() -> None:
    """Its poll timer, which is as long as the rebalance timeout, would run out before; two heartbeat intervals pass."""
    model = consumer_group()
    (found,) = check(model, disturb=["rebalance_timeout"], disturbances=1).violations
    assert found.replayed is not None
    assert found.replayed.times_ms == ()
    told = found.replayed.untimed
    assert "a: poll, 10000 ms from step 2 on, still runs at step 15" in told
    assert "a: heartbeat, 15000 ms from step 5 on, is over at step 11" in told
