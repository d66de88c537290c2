"""Epochs, generations and ids that cannot follow one another."""

from __future__ import annotations

import pytest

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.trace import Kind

ID, OTHER = "NKts6OBZQjKVjVHJpeBwXA", "zp6cqWMGTLaEMelrDt_FCw"
OUT = "which no member has, and nothing took it out of its group"


def said(log):
    found = log.rows(Finding)
    assert {f.kind for f in found} <= {FindingKind.ILLEGAL_TRANSITION}
    return [f.summary for f in found]


@pytest.fixture
def classic(log):
    """A classic member of Java that has synced generation 3."""
    log(0, Kind.STARTED)
    for at, kind, state in ((100, Kind.JOINED, "COMPLETING_REBALANCE"), (200, Kind.SYNCED, "STABLE")):
        log(at, Kind.TRANSITION, machine="classic-member", next_state=state, epoch=3, member_id="c-1")
        log(at, kind, epoch=3, member_id="c-1")
    return log


@pytest.mark.parametrize(
    ("state", "next_state", "epoch", "sign"),
    [
        ("JOINING", "RECONCILING", 0, "positive"),
        ("STABLE", "RECONCILING", -1, "positive"),
        ("ACKNOWLEDGING", "STABLE", 0, "positive"),
        ("STABLE", "PREPARE_LEAVING", 0, "positive"),
        ("STALE", "JOINING", -1, "0"),
        ("PREPARE_LEAVING", "LEAVING", 0, "negative"),
        ("LEAVING", "UNSUBSCRIBED", 7, "negative"),
    ],
)
def test_the_sign_of_an_epoch_goes_with_the_state(log, state, next_state, epoch, sign):
    """0 asks to join, a negative epoch leaves, and a member has a positive one."""
    log.step(100, state, next_state, epoch=epoch)
    assert said(log) == [f"c went from {state} to {next_state} with epoch {epoch}, but its epoch is {sign} then"]


def test_our_own_machines_are_not_judged_by_the_epoch_of_a_step(log):
    """They name the event, and tell the epoch before it."""
    log.step(100, "JOINING", "RECONCILING", epoch=0, event="TARGET_ASSIGNMENT_NEW")
    assert said(log) == []


@pytest.mark.parametrize("kind", [Kind.JOINED, Kind.SYNCED])
@pytest.mark.parametrize("epoch", [0, -1])
def test_a_generation_is_positive(log, kind, epoch):
    """Whatever came before."""
    log(100, kind, epoch=epoch)
    assert said(log) == [f"c tells epoch {epoch}, {OUT}"]


@pytest.mark.parametrize("kind", [Kind.HEARTBEAT_SENT, Kind.HEARTBEAT_OK, Kind.JOINING, Kind.LEAVE_SENT])
def test_a_member_has_a_positive_epoch_until_something_takes_it_out(new_log, kind):
    """A join in the middle of a membership; after a leave, an error or a loss it is in order."""
    epoch = -1 if kind is Kind.LEAVE_SENT else 0
    log = new_log("c#consumer-1")(100, Kind.HEARTBEAT_OK, epoch=4)(2000, kind, epoch=epoch)
    assert said(log) == [f"c#consumer-1 tells epoch {epoch}, {OUT}"]
    (shown,) = log.rows(Finding)
    assert [e.offset for e in shown.evidence] == [0, 100]
    for out in (Kind.FENCED, Kind.ERROR, Kind.LEAVE_BEGIN, Kind.COORDINATOR_LOST):
        log = new_log("c#consumer-1")(100, Kind.HEARTBEAT_OK, epoch=4)(1900, out)(2000, kind, epoch=epoch)
        assert said(log) == []


def test_epochs_rise_on_behind_one_that_was_wrong(new_log):
    """The wrong one says nothing of the others."""
    log = new_log("c#consumer-1")(100, Kind.HEARTBEAT_OK, epoch=4)(2000, Kind.HEARTBEAT_OK, epoch=0)
    log(3000, Kind.HEARTBEAT_OK, epoch=3)
    assert said(log)[1:] == ["the epoch of c#consumer-1 went back from 4 to 3 without a new join"]


@pytest.mark.parametrize("kind", [Kind.SYNCED, Kind.HEARTBEAT_SENT, Kind.LEAVE_SENT])
def test_a_classic_member_keeps_its_id_while_it_is_one(classic, kind):
    """It gets another one only with a join, and only after it gave its own up; no other process took over."""
    classic(900, kind, epoch=3, member_id="c-2")
    assert said(classic) == ["c is c-1, but a line of it names c-2"]


def test_a_classic_member_that_lost_its_id_joins_with_another_one(classic):
    """The coordinator did not know it any more."""
    classic(900, Kind.GENERATION_RESET, detail="x")(950, Kind.MEMBER_ID, member_id="c-2")
    classic(1000, Kind.JOINED, epoch=4, member_id="c-2")(1010, Kind.SYNCED, epoch=4, member_id="c-2")
    assert said(classic) == []


def test_a_generation_that_is_missing_is_told(classic):
    """Both joins are shown; the group may have been upgraded meanwhile, so it is for information."""
    classic(900, Kind.JOINED, epoch=5, member_id="c-1")
    (told,) = classic.rows(Finding)
    assert (told.severity, told.start_ms, [e.offset for e in told.evidence]) == (Severity.INFO, 900, [200, 500])
    assert told.summary.startswith("c joined generation 3, and then 5: ")


def test_the_next_generation_is_in_order(classic):
    """One after the other, or the same once more; and any after the membership was lost."""
    classic(900, Kind.JOINED, epoch=4, member_id="c-1")(950, Kind.JOINED, epoch=4, member_id="c-1")
    classic(1900, Kind.GENERATION_RESET, detail="x")(2000, Kind.JOINED, epoch=9, member_id="c-1")
    assert said(classic) == []
