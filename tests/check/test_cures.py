"""What releases suffer in groups, and that each cure of the dialect `fixed` ends its own part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from models import classic_group, consumer_group, mixed_group

from fsm.check import Verdict, check
from fsm.coordinator.model.dialect import Choice as Coordinator
from fsm.coordinator.model.dialect import Dialect as Rules
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect, choices_of, custom

ALL_BUT_LATE = [
    "crash",
    "expire",
    "failover",
    "leave",
    "lose",
    "poll_timeout",
    "rebalance_timeout",
    "rejoin",
    "unanswered",
]
EVERY = sorted([*ALL_BUT_LATE, "late"])


def checked(kinds: Sequence[str], disturbances: int = 1, **options: Any) -> Verdict:
    return check(consumer_group(**options), disturb=kinds, disturbances=disturbances, every=True)


def lengths(verdict: Verdict) -> dict[str, int]:
    """Each broken property, and the steps of its shortest path."""
    return {one.property: one.doomed_at or len(one.path) for one in verdict.violations}


def without(cure: Choice) -> Dialect:
    return custom(f"fixed but for {cure.name}", choices_of("fixed") - {cure})


def broker_without(cure: Coordinator) -> Rules:
    return coordinator_dialect("fixed").without_choices(cure)


FIXED = coordinator_dialect("fixed")


def test_what_is_being_assigned_is_released_by_a_report() -> None:
    """W1 and W9: one lost heartbeat, and two applications use a partition in good standing."""
    verdict = checked(["lose"])
    assert lengths(verdict) == {"held by the coordinator's book": 13, "one user": 20}
    assert all(one.replayed is not None and not one.replayed.differs for one in verdict.violations)


def test_fixed_members_are_clean() -> None:
    """One disturbance of every kind but `late`, anywhere; nothing is cut off."""
    verdict = checked(ALL_BUT_LATE, client="fixed")
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", 210_953, {})


def test_reports_of_what_is_assigned_end_double_use() -> None:
    """Without that cure `fixed` has W1 and W9 as releases have them."""
    verdict = checked(["lose"], client=without(Choice.REPORTS_WHAT_IS_ASSIGNED))
    assert lengths(verdict) == {"held by the coordinator's book": 13, "one user": 20}
    assert checked(["lose", "unanswered"], client="fixed").word == "holds"


def test_full_heartbeats_end_a_swallowed_grant() -> None:
    """Without that cure a group of `fixed` members does not settle (W8); no client ends that of a late join (W6)."""
    assert "the group settles" in lengths(checked(["late"], client=without(Choice.FULL_WHILE_IN_DOUBT)))
    assert lengths(checked(["late"], client="fixed")) == {"held by the coordinator's book": 12, "one user": 19}


def test_a_fixed_group_is_clean() -> None:
    """One disturbance of every kind, `late` too, with a `fixed` coordinator: nothing is cut off."""
    verdict = checked(EVERY, client="fixed", coordinator="fixed")
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", 263_253, {})


def test_a_fixed_coordinator_repeats_what_it_grants() -> None:
    """W8 ends there for clients of releases, too; what is left after a late request are W1 and H17, the client's."""
    assert "the group settles" in lengths(checked(["late"]))
    assert lengths(checked(["late"], coordinator="fixed")) == {"held by the coordinator's book": 13, "one user": 20}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoken", "coordinator", "kinds"), [("fixed", "4.4.0", ALL_BUT_LATE), ("fixed", "fixed", EVERY)]
)
def test_fixed_groups_are_clean_for_two_disturbances(spoken: str, coordinator: str, kinds: Sequence[str]) -> None:
    """Two of these kinds, anywhere: the whole space, some 60 CPU seconds with `late`."""
    verdict = checked(kinds, 2, client=spoken, coordinator=coordinator)
    assert (verdict.word, verdict.cut, verdict.stopped) == ("holds", {}, "")


@pytest.mark.slow
def test_a_late_report_gives_up_what_was_assigned_since() -> None:
    """W10: it takes two disturbances. All else of the coordinator's `fixed` stands, and does not help."""
    rules = broker_without(Coordinator.OLD_REPORT_IS_OLD)
    verdict = checked(["late", "poll_timeout"], 2, client="fixed", coordinator=rules)
    assert lengths(verdict) == {"held by the coordinator's book": 20, "one user": 29}


# Static members. A join of a process that is over, which comes late, and one that comes too soon are cut off.

STATIC = ("early", "late_join", "unreleased")
UNSYNCED, WAITING = Coordinator.CONVERSION_IN_REBALANCE_BUMPS, Coordinator.REPLACEMENT_REBALANCES_IF_WAITING


def converted(rules: Rules, members: int = 2, disturbances: int = 1, **options: Any) -> Verdict:
    model = mixed_group(members, client="fixed", coordinator=rules, static=True, **options)
    return check(model, disturb=["convert"], disturbances=disturbances, known=STATIC, every=True)


@pytest.mark.parametrize(
    ("rules", "states", "doomed_at"),
    [
        (FIXED, 573_654, {}),
        (broker_without(Coordinator.OWED_JOIN_REBALANCES), 580_218, {"the group settles": 24}),
    ],
)
@pytest.mark.slow
def test_who_takes_the_place_of_one_that_owes_a_join_rebalances(rules: Rules, states: int, doomed_at: dict) -> None:
    """W13 ends there."""
    model = classic_group(protocol="cooperative", static=True, coordinator=rules)
    verdict = check(model, disturb=["restart"], disturbances=1, known=["late_join"], every=True)
    assert (lengths(verdict), verdict.states) == (doomed_at, states)


def test_a_conversion_within_a_rebalance_computes_a_target() -> None:
    """W14 ends there; a second conversion does no harm either."""
    assert lengths(converted(broker_without(UNSYNCED), 1))["the group settles"] == 8
    assert (converted(FIXED, 1, 2).word, converted(FIXED, 1, 2).states) == ("holds", 1_291)


@pytest.mark.parametrize(("protocol", "states"), [("eager", 253_830), ("cooperative", 365_428)])
def test_a_downgrade_lets_nobody_wait(protocol: str, states: int) -> None:
    """W15 ends there."""
    assert lengths(converted(broker_without(WAITING), protocol=protocol))["the group settles"] == 13
    verdict = converted(FIXED, protocol=protocol)
    assert (verdict.word, verdict.states) == ("holds", states)
