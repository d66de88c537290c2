"""Consumer groups: each step of a member and of the coordinator is asked for its invariants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fsm.check import check
from fsm.check.kafka.consumer import coordinator
from fsm.check.kafka.consumer import group as consumer_group
from fsm.check.kafka.consumer import shell as consumer_shell
from fsm.coordinator import coordinator as broker
from fsm.coordinator.storage.load import load
from fsm.member.consumer.invariants import INVARIANTS, Status
from fsm.member.dialect.dialect import dialect
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.consumer_member import Effect, Event, State


def broken(kind: str = "", **options: Any) -> set[str]:
    kinds = [kind] if kind else []
    verdict = check(consumer_group.consumer_group(**options), disturb=kinds, disturbances=len(kinds), every=True)
    return {one.property for one in verdict.violations}


def test_what_a_dialect_is_known_to_break_is_told_and_not_asked() -> None:
    latest, fixed = consumer_group.consumer_group(), consumer_group.consumer_group(client="fixed")
    assert [name.split()[0] for name in fixed.not_asked] == ["I09b", "I26"]
    named = {name.split()[0] for name in latest.not_asked}
    assert named == {one.name for one in INVARIANTS if one.status_in(dialect("4.4.0")) is not Status.HOLDS}
    for model in (latest, fixed):
        assert not {*model.not_asked} & {*model.asked_of_steps}
        assert len(model.not_asked) + len(model.asked_of_steps) == len(INVARIANTS) + 60 + (model is fixed)


def test_a_known_hazard_of_a_member_is_found_where_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """H17: out for want of a poll, it applies an old assignment, and joins with what it owns by that."""
    monkeypatch.setattr(consumer_shell, "select_invariants", lambda _: INVARIANTS)
    found = {name.split()[0] for name in broken("poll_timeout", members=1)}
    assert "I09c" in found
    assert not found & {one.name for one in INVARIANTS if one.status is Status.HOLDS}


def test_a_table_that_forgets_the_target_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It enters STABLE where a late callback made what is held equal to a target, and does not note that target."""
    row = dialect("4.4.0").cells.by_state[State.RECONCILING]
    cell = row[Event.RESP_SAME]
    forgetful = cell._replace(steps=tuple(one for one in cell.steps if one is not Effect.BUMP_TARGET))
    monkeypatch.setitem(row, Event.RESP_SAME, forgetful)
    verdict = check(consumer_group.consumer_group(1, {"foo": 1}), disturb=["poll_timeout"], disturbances=2)
    assert [one.property for one in verdict.violations] == ["I03 STABLE holds its target"]


def test_an_answer_that_tells_another_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = broker.handle

    def handle(state: Any, request: Any, context: Any) -> Any:
        step = real(state, request, context)
        answers = [one._replace(body=_one_less(one.body)) for one in step.answers]
        return step._replace(answers=tuple(answers))

    monkeypatch.setattr(broker, "handle", handle)
    assert "27 the answer tells the member's epoch" in broken(members=1)


def _one_less(body: Any) -> Any:
    return body if body.error_code is not ErrorCode.NONE else replace(body, member_epoch=body.member_epoch - 1)


def test_a_failover_that_forgets_an_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(state: Any, context: Any) -> Any:
        step = load(state, context)
        groups = [replace(one, epoch=one.epoch - 1) for one in step.state.groups.values()]
        return step.with_state(step.state.with_group(groups[0]))

    monkeypatch.setattr(coordinator, "load", forgetful)
    assert "20 epochs never fall" in broken("failover", members=1)
