"""When the steps of a path can happen."""

from __future__ import annotations

from fsm.check.timing import APART_MS, Timing


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
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500, "heartbeat": 100})
    timing.step()
    timing.meets("a", over=["poll"], idle=["heartbeat"])
    assert timing.solve() == (0, 500)


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
