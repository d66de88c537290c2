"""A day of a whole deployment with faults: every invariant holds, but for hazards that are documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.simulate import read_file, simulate

DAY = Path(__file__).parent / "day.yaml"
KNOWN = ("two users: ", "ended: ", "stranded: ")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_a_day_of_faults(seed: int) -> None:
    """Consumers, classic and mixed groups, static members and Connect; deploys, an upgrade of brokers, 150 faults."""
    outcome = simulate(read_file(DAY), seed)
    assert outcome.violations == []
    assert all(name.startswith(KNOWN) for name in outcome.hazards())
    assert outcome.totals()["heartbeats"] > 500_000
    assert len(outcome.deeds) > 120


@pytest.mark.slow
def test_a_steady_group_of_a_thousand_for_a_month() -> None:
    """2.6 thousand million member-seconds: what is steady takes no time."""
    text = DAY.with_name("steady.yaml")
    outcome = simulate(read_file(text), 1)
    assert outcome.violations == []
    assert outcome.totals()["heartbeats"] == pytest.approx(1_000 * 30 * 86_400 / 5, rel=0.001)
