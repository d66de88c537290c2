"""Units of Connect that ran nowhere: how the gap is measured, what it is laid to, what is not certain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.group import judge
from fsm.audit.rows import Begun, Ended, GroupRows, Interval, Life, Subscription

Make = Callable[..., Any]
UNIT = {"topic": "unit:A:0", "partition": 0}


@pytest.fixture
def gap(interval: Make, life: Make) -> Callable[..., list[Finding]]:
    """Findings for task A-0, which is wanted for 200 s: `a` had it to 10 s, `b` from 40 s, unless told otherwise."""

    def found(*more: Interval, old: dict[str, Any] | None = None, new: dict[str, Any] | None = None) -> list[Finding]:
        rows = [interval("a", 0, 10_000, **UNIT, **(old or {})), interval("b", 40_000, 200_000, **UNIT, **(new or {}))]
        lives = [_life(life, name) for name in ("a", "b")]
        wanted = [Subscription("g", "b", "unit:A:0", "", 0, 200_000, rows[0].start)]
        return judge("g", GroupRows([*rows, *more], wanted, lives))

    return found


def _life(life: Make, name: str) -> Life:
    made = life(name, 0, 200_000, heartbeat_interval_ms=3000, session_timeout_ms=10_000, max_poll_interval_ms=60_000)
    assert isinstance(made, Life)
    return made


def nobody(interval: Make, begun: Begun, start_ms: int, end_ms: int, **values: Any) -> Interval:
    """A stretch of time that tells about the unit."""
    made = interval("nobody", start_ms, end_ms, **UNIT, begun=begun, **values)
    assert isinstance(made, Interval)
    return made


def test_a_delay_that_ran_for_half_of_the_gap_is_its_cause(gap: Make, interval: Make) -> None:
    """15 s of 30 s are enough, and it is for information; a second less, and the next worker took long."""
    (found,) = gap(nobody(interval, Begun.WAITS, 25_000, 60_000))
    assert (found.kind, found.cause, found.severity) == (
        FindingKind.UNASSIGNED_WORK,
        Cause.SCHEDULED_DELAY,
        Severity.INFO,
    )
    assert found.partitions == (("A", 0),)
    assert found.summary == (
        "task A-0 ran nowhere for 30.0 s: a had to let go, and its work waited 15.0 s for a scheduled delay; "
        "then b took over"
    )
    (other,) = gap(nobody(interval, Begun.WAITS, 26_000, 60_000))
    assert (other.cause, other.severity) == (Cause.REVOKED, Severity.WARNING)


@pytest.mark.parametrize(
    ("ended", "void_cause", "cause"),
    [
        (Ended.DROPPED, "", Cause.FATAL_ERROR),
        (Ended.LOST, "coordinator_lost", Cause.COORDINATOR_LOST),
        (Ended.LOST, "worker_frozen", Cause.WORKER_FROZEN),
        (Ended.CLOSED, "", Cause.WORKER_STOPPED),
        (Ended.REVOKED, "", Cause.REVOKED),
    ],
)
def test_a_fault_of_the_last_worker_is_the_cause(gap: Make, ended: Ended, void_cause: str, cause: Cause) -> None:
    """What ended its last run says it; all of them are worth a warning."""
    (found,) = gap(old={"ended": ended, "void_cause": void_cause})
    assert (found.cause, found.severity) == (cause, Severity.WARNING)


@pytest.mark.parametrize(("given_ms", "severity"), [(14_000, Severity.WARNING), (14_001, Severity.INFO)])
def test_who_got_it_later_than_the_next_round_may_not_be_the_next(gap: Make, given_ms: int, severity: Severity) -> None:
    """Workers learn of a round within a heartbeat interval: a worker without a log may have had it before."""
    (found,) = gap(new={"turn_ms": given_ms})
    assert (found.cause, found.severity) == (Cause.REVOKED, severity)


def test_a_dead_worker_is_gone_one_session_before_the_group_acts(interval: Make, life: Make) -> None:
    """Its last line is older; the delay began at 30 s, so it was gone at 20 s at the latest."""
    rows = [
        interval("a", 0, 10_000, **UNIT, ended=Ended.LOG_ENDED, end_exact=False),
        nobody(interval, Begun.WAITS, 30_000, 45_000),
        interval("b", 45_500, 90_000, **UNIT),
    ]
    dead = life("a", 0, 10_000, ended=Ended.LOG_ENDED, in_group=True, session_timeout_ms=10_000)
    wants = [Subscription("g", "b", "unit:A:0", "", 0, 90_000, rows[0].start)]
    (found,) = judge("g", GroupRows(rows, wants, [dead, _life(life, "b")]))
    assert (found.start_ms, found.end_ms, found.cause) == (20_000, 45_500, Cause.SCHEDULED_DELAY)


def test_new_work_is_missing_from_the_answer_to_who_asked_for_it(interval: Make, life: Make) -> None:
    """Two workers read its config at 1.0 and 1.4 s, its request was answered at 4 s; late readers do not count."""
    rows = [
        nobody(interval, Begun.CALLED, 1_000, 4_000),
        nobody(interval, Begun.CALLED, 1_400, 1_400),
        nobody(interval, Begun.CALLED, 9_000, 9_000),
        interval("b", 10_000, 90_000, **UNIT, turn_ms=9_000),
    ]
    wants = [Subscription("g", "b", "unit:A:0", "", 1_000, 90_000, rows[0].start)]
    (found,) = judge("g", GroupRows(rows, wants, [_life(life, "b")]))
    assert (found.start_ms, found.end_ms) == (4_000, 10_000)
    assert (found.member, found.cause, found.severity) == ("", Cause.NEW_WORK, Severity.INFO)


@pytest.mark.parametrize(("missing_ms", "count"), [(2250, 0), (2251, 1)])
def test_lines_may_be_a_quarter_second_off_at_the_edges(
    interval: Make, life: Make, missing_ms: int, count: int
) -> None:
    """Work counts as missing when it is so for longer than the threshold and that."""
    rows = [interval("a", 0, 10_000, **UNIT), interval("b", 10_000 + missing_ms, 90_000, **UNIT)]
    wants = [Subscription("g", "b", "unit:A:0", "", 0, 90_000, rows[0].start)]
    assert len(judge("g", GroupRows(rows, wants, [_life(life, "a"), _life(life, "b")]))) == count
