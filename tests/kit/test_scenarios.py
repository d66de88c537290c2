"""Our own member in every scenario, in virtual time: it breaks no rule that matters; a run can be repeated."""

from __future__ import annotations

from functools import cache

import pytest

from fsm.kit.check import Grade
from fsm.kit.checks import CHECKS
from fsm.kit.client_history import CLASSIC, CONSUMER
from fsm.kit.judge import NOT_SEEN, Report, judge, merge
from fsm.kit.scenarios import SCENARIOS
from fsm.wire import to_line
from tests.kit.virtual import run

LESSER = {"loading_at_join": {"E8"}}
"""What our member does that it SHOULD not: as in Java, a member that joins knows no backoff (hazard H13)."""


@cache
def report(name: str) -> Report:
    """What the checks say of our member."""
    return judge(run(SCENARIOS[name]))


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.loop(16)
def test_our_member_passes(name: str) -> None:
    """No MUST fails; of the others only what is known."""
    assert report(name).list_failed(Grade.MUST) == []
    assert set(report(name).list_failed(Grade.SHOULD)) == LESSER.get(name, set())
    assert report(name).list_failed(Grade.NOTE) == []


def test_there_are_enough_scenarios() -> None:
    """Of both protocols, each said in one sentence."""
    assert len(SCENARIOS) >= 60
    assert {one.protocol for one in SCENARIOS.values()} == {CONSUMER, CLASSIC}
    assert all(one.about.endswith(".") for one in SCENARIOS.values())


@pytest.mark.deep
def test_the_scenarios_bring_up_every_rule() -> None:
    """All but a few come up with a member that does nothing wrong."""
    whole = merge(report(name) for name in SCENARIOS)
    silent = {check.id for check in CHECKS.values() if whole.verdict(check) == NOT_SEEN}
    assert silent == SILENT


SILENT = {"F3", "F5", "J8", "K33", "K34"}
"""Rules that come up only where they are broken, or in groups of others."""


def test_a_run_can_be_repeated() -> None:
    """The same trace, to the byte."""
    first, second = (["".join(map(to_line, run(SCENARIOS["moved_while_revoking"])))] for _ in range(2))
    assert first == second
