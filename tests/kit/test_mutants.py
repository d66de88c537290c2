"""Every check finds the mutant that breaks its rule, and no other MUST does."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.kit.check import Grade
from fsm.kit.checks import CHECKS
from fsm.kit.judge import judge
from fsm.kit.scenario import Scenario
from fsm.protocol.messages import HeartbeatRequest
from fsm.wire.exchange import Exchange
from tests.kit import classic_mutants, consumer_mutants, error_mutants, offset_mutants
from tests.kit.mutants import PLANTED, Mutant, Planted
from tests.kit.virtual import run


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
@pytest.mark.loop(12)
def test_a_mutant_is_found_by_its_check(planted: Planted) -> None:
    """By this check, and by no other MUST."""
    report = judge(run(planted.scenario, planted.mutant))
    found = {finding.check.id for finding in report.findings if finding.client == "A"}
    assert planted.check in found, sorted(found)
    assert set(report.list_failed(Grade.MUST)) <= {planted.check}


def test_every_check_has_a_mutant() -> None:
    """None is left without proof."""
    assert {planted.check for planted in PLANTED} == set(CHECKS)
    modules = {planted.mutant.__module__ for planted in PLANTED}
    planting = (consumer_mutants, error_mutants, offset_mutants, classic_mutants)
    assert modules <= {module.__name__ for module in planting} | {"tests.kit.mutants"}


class OnlyCommits(Mutant):
    """No heartbeat, but a commit every second."""

    def change(self, request: Any) -> Any:
        return None if isinstance(request, HeartbeatRequest) else request


@pytest.mark.parametrize("scenario", [classic_mutants.QUIET, classic_mutants.QUIET_STATIC], ids=["leaves", "stays"])
def test_a_member_that_commits_is_not_silent(scenario: Scenario) -> None:
    """The coordinator takes a commit for a sign of life, and so does K8."""
    seen = run(scenario, OnlyCommits)
    commits = [one for one in seen if isinstance(one, Exchange) and one.api == "OffsetCommit"]
    assert len(commits) > 8
    assert all(one.response.errors == () for one in commits)
    assert judge(seen).list_failed(Grade.MUST) == []
