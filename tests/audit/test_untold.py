"""When a member counts as one that was not told of its partition, and when a late request is the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fsm.audit.coordinator.assignments import Assignment, AssignmentKind, CoordinatorRecord, EndReason
from fsm.audit.findings import Cause, FindingKind, Severity, finding
from fsm.audit.group.clocks import CLOCKS_DIFFER
from fsm.audit.rows import NOWHERE, Ended, GivenUp, GroupRows, Interval, Life, MemberRebalance, Place
from fsm.audit.weak_spots import LATE_MS, NOTIFIED_MS, name_weak_spots
from fsm.trace import Kind, TraceRecord

GIVEN_UP_MS, GONE_MS, GRANTED_MS, BACK_MS, LAST_MS = 200_000, 205_000, 207_000, 260_000, 270_000
GAP = finding(
    FindingKind.UNOWNED_PARTITION, "g", "a", GONE_MS, BACK_MS, summary="so", partitions=[("t", 0)], cause=Cause.REVOKED
).lower_severity()
GRANT = Assignment(
    "g", "b", "id-b", AssignmentKind.CURRENT, "consumer-group-member", "STABLE", "", 3, (("t", 0),), (), GRANTED_MS,
    None, EndReason.OPEN, "", "", Place("broker", 1), NOWHERE,
)  # fmt: skip


def turn(start_ms: int, end_ms: int, added: int = 0) -> MemberRebalance:
    """A rebalance of b."""
    return MemberRebalance("g", "b", start_ms, end_ms, 3, added, 0, "", Place("b.log", start_ms))


def given_up(ts_ms: int, timeout_ms: int = 30_000) -> GivenUp:
    """A heartbeat of b."""
    return GivenUp("g", "b", ts_ms, (), ts_ms, timeout_ms, Place("b.log", ts_ms))


def said(ts_ms: int, kind: Kind, place: Place) -> CoordinatorRecord:
    return CoordinatorRecord(TraceRecord(ts_ms, kind, "g", member_id="id-b", thread="coordinator"), "b", place)


@dataclass
class Case:
    """B joined and rests; it gave a heartbeat up, A let go, and the coordinator gave the partition to B."""

    life: Life
    before: Interval
    """What A had."""
    turns: list[MemberRebalance] = field(default_factory=lambda: [turn(190_000, 190_100)])
    given_up: list[GivenUp] = field(default_factory=lambda: [given_up(GIVEN_UP_MS)])
    grant: Assignment = GRANT
    told: list[CoordinatorRecord] = field(default_factory=lambda: [said(LAST_MS, Kind.JOINED, Place("broker", 9))])

    def cause(self) -> Cause:
        rows = GroupRows([self.before], [self.life], self.turns)
        for one in self.given_up:
            rows.add(one)
        (found,) = name_weak_spots([GAP], rows, self.told, [self.grant], 0)
        assert (found.severity is Severity.INFO) == (found.cause is Cause.REVOKED)
        return found.cause


@pytest.fixture
def case(life: Callable[..., Life], interval: Callable[..., Interval]) -> Case:
    return Case(life("b", 180_000, LAST_MS), interval("a", 100_000, GONE_MS))


def test_a_late_request_takes_a_request_that_was_given_up_before(case: Case) -> None:
    assert case.cause() is Cause.LATE_REQUEST


@pytest.mark.parametrize(
    "own",
    [
        [],
        [given_up(GRANTED_MS + 1000)],
        [given_up(GIVEN_UP_MS), given_up(BACK_MS - 1)],
        [given_up(GRANTED_MS - LATE_MS - 1)],
        [given_up(GIVEN_UP_MS, timeout_ms=BACK_MS - GRANTED_MS)],
    ],
    ids=["none", "the one with the answer", "another one later", "too long before", "still waiting for an answer"],
)
def test_else_an_answer_may_have_been_lost(case: Case, own: list[GivenUp]) -> None:
    case.given_up = own
    assert case.cause() is Cause.UNTOLD


@pytest.mark.parametrize(
    "own",
    [
        [turn(190_000, GRANTED_MS + 20_000, added=1)],
        [turn(190_000, LAST_MS)],
        [turn(GRANTED_MS + 10, GRANTED_MS + 40_000, added=1)],
        [turn(190_000, 190_100), turn(GRANTED_MS + NOTIFIED_MS, BACK_MS)],
        [],
    ],
    ids=["busy", "busy to the end", "told at once", "told soon", "nothing was ever logged"],
)
def test_who_is_told_or_busy_or_does_not_say_is_not_untold(case: Case, own: list[MemberRebalance]) -> None:
    """A slow callback is no late request."""
    case.turns = own
    assert case.cause() is Cause.REVOKED


def test_a_rebalance_that_brings_nothing_tells_nothing(case: Case) -> None:
    """Its answer is of before: that of a join, which was repeated as the first one was given up."""
    case.turns = [turn(190_000, GRANTED_MS + 1_000)]
    assert case.cause() is Cause.LATE_REQUEST
    case.turns.append(turn(GRANTED_MS + 1_000 + NOTIFIED_MS, BACK_MS))
    assert case.cause() is Cause.REVOKED


def test_who_is_told_much_later_did_not_know_until_then(case: Case) -> None:
    case.turns.append(turn(GRANTED_MS + 40_000, BACK_MS))
    assert case.cause() is Cause.LATE_REQUEST
    case.turns[-1] = turn(GRANTED_MS + 20_000, BACK_MS)
    assert case.cause() is Cause.UNTOLD


@pytest.mark.parametrize(
    "values",
    [
        {"protocol": "classic"},
        {"start_ms": GRANTED_MS + 1},
        {"doubtful_ms": 200_000},
        {"client_id": "b#consumer-1"},
    ],
    ids=["a classic one", "not born yet", "another process's lines", "another client"],
)
def test_a_member_whose_log_does_not_tell_is_not_untold(case: Case, values: dict[str, Any]) -> None:
    case.life = replace(case.life, **values)
    assert case.cause() is Cause.REVOKED


def test_a_silent_member_lives_where_its_coordinator_keeps_it_for_longer_than_a_session(case: Case) -> None:
    """A member that rests prints nothing at INFO."""
    case.life = replace(case.life, end_ms=GRANTED_MS - 5000, ended=Ended.LOG_ENDED)
    assert case.cause() is Cause.LATE_REQUEST
    case.told = [said(GRANTED_MS + 45_000, Kind.JOINED, Place("broker", 9))]  # it may have been killed
    assert case.cause() is Cause.REVOKED


def test_a_member_that_was_removed_in_the_end_may_have_been_gone(case: Case) -> None:
    end = Place("broker", 7)
    case.grant = replace(GRANT, end_ms=GRANTED_MS + 46_000, until=EndReason.REMOVED, end=end)
    case.told.insert(0, said(GRANTED_MS + 46_000, Kind.FENCED, end))
    assert case.cause() is Cause.REVOKED
    case.told[0] = said(GRANTED_MS + 46_000, Kind.LEFT, end)
    assert case.cause() is Cause.LATE_REQUEST


def test_where_clocks_are_apart_nothing_is_named(case: Case) -> None:
    apart = finding(FindingKind.ILLEGAL_TRANSITION, "g", "a", 1, 1, summary=f"{CLOCKS_DIFFER}a are wrong")
    rows = GroupRows([case.life], case.turns)
    assert name_weak_spots([apart, GAP], rows, case.told, [GRANT], 0) == [apart, GAP]
