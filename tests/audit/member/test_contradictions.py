"""What one member's records say that cannot all be true."""

from __future__ import annotations

import pytest

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.trace import Kind

ID, OTHER = "NKts6OBZQjKVjVHJpeBwXA", "zp6cqWMGTLaEMelrDt_FCw"


@pytest.fixture
def stable(log):
    """A member of the consumer protocol in epoch 3, from its start."""
    log(0, Kind.STARTED)
    for at, state, next_state, epoch in (
        (100, "UNSUBSCRIBED", "JOINING", 0), (200, "JOINING", "RECONCILING", 3),
        (300, "RECONCILING", "ACKNOWLEDGING", 3), (400, "ACKNOWLEDGING", "STABLE", 3),
    ):  # fmt: skip
        log.step(at, state, next_state, epoch=epoch, member_id=ID)
    return log


@pytest.fixture
def reconciling(log):
    """A member of the consumer protocol that is on its way to its first assignment."""
    log(0, Kind.STARTED).step(100, "UNSUBSCRIBED", "JOINING", epoch=0, member_id=ID)
    return log.step(200, "JOINING", "RECONCILING", epoch=3, member_id=ID)


def said(log):
    found = log.rows(Finding)
    assert {f.kind for f in found} <= {FindingKind.ILLEGAL_TRANSITION, FindingKind.MEMBERSHIP_LOST}
    return [f.summary for f in found]


def test_an_epoch_goes_back(stable):
    """Within one membership epochs rise."""
    stable.step(2000, "STABLE", "RECONCILING", epoch=2, member_id=ID)
    assert said(stable) == ["the epoch of c went back from 3 to 2 without a new join"]


def test_a_new_join_begins_with_a_new_epoch(stable):
    """A fenced member joins with epoch 0; the group may count anew."""
    stable.step(2000, "STABLE", "FENCED", epoch=3, member_id=ID).step(2010, "FENCED", "JOINING", epoch=0, member_id=ID)
    stable.step(2100, "JOINING", "RECONCILING", epoch=1, member_id=ID)
    assert said(stable) == []


def test_a_heartbeat_may_cross_a_join(log):
    """Another thread prints it: within the time by which threads interleave it may tell the old generation."""
    log(0, Kind.JOINED, epoch=2)(20, Kind.HEARTBEAT_SENT, epoch=1)
    assert said(log) == []
    log(500, Kind.HEARTBEAT_SENT, epoch=1)
    assert said(log) == ["the epoch of c went back from 2 to 1 without a new join"]


def test_a_generation_is_joined_before_it_is_synced(log):
    """A sync of a generation nobody joined."""
    log(0, Kind.JOINED, epoch=2)(10, Kind.SYNCED, epoch=7)
    assert said(log) == ["c synced generation 7, but had joined generation 2"]


def test_a_generation_that_was_given_up_counts_no_more(log):
    """After a reset a group that was empty begins anew."""
    log(0, Kind.JOINED, epoch=9)(900, Kind.GENERATION_RESET, detail="x")(1000, Kind.JOINED, epoch=1)
    log(1010, Kind.SYNCED, epoch=1)
    assert said(log) == []


def test_a_step_names_another_member(stable):
    """A client of the consumer protocol chooses its id once."""
    stable.step(2000, "STABLE", "RECONCILING", epoch=3, member_id=OTHER)
    stable.step(2100, "RECONCILING", "ACKNOWLEDGING", epoch=3, member_id=ID)
    assert said(stable) == [f"c is {ID}, but a step of it names {OTHER}"]


def test_a_poll_timeout_without_a_leave(stable):
    """The client announces both in one go; here the leave is missing."""
    stable(2000, Kind.POLL_EXPIRED)(2500, Kind.HEARTBEAT_OK, epoch=3)(9000, Kind.HEARTBEAT_OK, epoch=3)
    assert said(stable) == ["c said that its poll timeout had expired, but did not leave; lines are missing"]


def test_a_poll_timeout_with_a_leave(stable):
    """The step follows at once."""
    stable(2000, Kind.POLL_EXPIRED).step(2001, "STABLE", "PREPARE_LEAVING", epoch=3, member_id=ID)
    stable.step(2002, "PREPARE_LEAVING", "LEAVING", epoch=-1, member_id=ID)
    stable.step(2003, "LEAVING", "STALE", epoch=-1, member_id=ID)(9000, Kind.COORDINATOR_FOUND)
    assert said(stable) == []


def test_a_log_without_steps_cannot_miss_one(log):
    """Warnings alone: nobody knows whether the member left."""
    log(0, Kind.ASSIGN_BEGIN, partitions=(("t", 0),))(2000, Kind.POLL_EXPIRED)(9000, Kind.COORDINATOR_FOUND)
    assert said(log) == []


def test_an_assignment_is_given_twice(reconciling):
    """The application has it already: a revocation is missing, or the line stands there twice."""
    reconciling(500, Kind.ASSIGN_BEGIN, partitions=(("t", 0), ("t", 1)))(900, Kind.ASSIGN_BEGIN, partitions=(("t", 1),))
    assert said(reconciling) == [
        "c was given t-[1] though it had not given them up; lines are missing, or stand there twice"
    ]


def test_an_assignment_stands_twice_where_all_other_lines_were_left_out(log):
    """The lines of the rebalance between are missing, but nothing is wrong with the client."""
    log(500, Kind.ASSIGN_BEGIN, partitions=(("t", 0), ("t", 1)))(900, Kind.ASSIGN_BEGIN, partitions=(("t", 1),))
    (found,) = log.rows(Finding)
    assert (found.kind, found.severity) == (FindingKind.ILLEGAL_TRANSITION, Severity.INFO)


def test_an_assigned_callback_that_failed_may_come_again(reconciling):
    """The client tries once more."""
    reconciling(500, Kind.ASSIGN_BEGIN, partitions=(("t", 0),))(510, Kind.CALLBACK_FAILED, event="assigned")
    reconciling(700, Kind.ASSIGN_BEGIN, partitions=(("t", 0),))
    assert [f.kind for f in reconciling.rows(Finding)] == [FindingKind.LISTENER_ERROR]


def test_what_was_given_up_in_a_log_without_beginning_is_not_owned(log):
    """The first revocation tells of a partition owned before; the second is one too many."""
    log(0, Kind.HEARTBEAT_OK, epoch=3)(500, Kind.REVOKE_BEGIN, partitions=(("t", 0),))(510, Kind.REVOKE_END)
    log(900, Kind.REVOKE_BEGIN, partitions=(("t", 0),))
    assert [(f.kind, f.start_ms) for f in log.rows(Finding)] == [(FindingKind.CALLBACK_NOT_OWNED, 900)]


@pytest.mark.parametrize("kind", [Kind.TARGET, Kind.RECONCILING, Kind.ASSIGN_BEGIN])
def test_a_classic_member_syncs_before_it_has_an_assignment(log, kind):
    """One thread does both, so the line of the sync is missing."""
    for ts_ms, state in ((0, "PREPARING_REBALANCE"), (100, "COMPLETING_REBALANCE")):
        log(ts_ms, Kind.TRANSITION, machine="classic-member", next_state=state)
    log(200, kind)(210, Kind.ASSIGN_BEGIN)
    assert said(log) == ["c got an assignment while it was COMPLETING_REBALANCE; lines are missing"]


def test_a_classic_member_that_has_synced_gets_its_assignment(log):
    """Nothing is missing."""
    log(100, Kind.TRANSITION, machine="classic-member", next_state="STABLE")(110, Kind.TARGET)(120, Kind.ASSIGN_BEGIN)
    assert said(log) == []


def test_lines_that_were_dealt_out_to_files_tell_in_time_what_is_wrong(stable):
    """A file may be missing, so it is for information; within one moment nothing is."""
    for i, epoch in enumerate((3, 3, 3, 2)):
        stable(2000 + 1000 * i, Kind.HEARTBEAT_OK, epoch=epoch, file=f"{i % 2}.log")
    stable(5010, Kind.HEARTBEAT_OK, epoch=3, file="0.log")(5020, Kind.HEARTBEAT_OK, epoch=2, file="1.log")
    assert [(f.severity, f.start_ms, f.end_ms) for f in stable.rows(Finding)] == [(Severity.INFO, 5000, 5000)]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Kind.ASSIGN_BEGIN, "got an assignment"),
        (Kind.RECONCILING, "got an assignment"),
    ],
)
def test_a_rebalance_whose_steps_are_missing(stable, kind, what):
    """The member is where it was, but it got an assignment: the last step and the line that cannot follow it."""
    stable(2000, kind, partitions=(("t", 0),))
    stable.step(9000, "STABLE", "RECONCILING", epoch=4, member_id=ID)
    assert said(stable) == [f"c {what} while it was STABLE; lines are missing"]
    (shown,) = stable.rows(Finding)
    assert [e.offset for e in shown.evidence] == [400, 500]


def test_another_thread_s_callback_may_cross_a_step(stable):
    """Within the time by which threads interleave; what the thread of the steps prints may not."""
    stable(420, Kind.ASSIGN_BEGIN)
    assert said(stable) == []
    stable(425, Kind.RECONCILING)
    assert said(stable) == ["c got an assignment while it was STABLE; lines are missing"]


@pytest.mark.parametrize(
    ("kind", "state", "what"),
    [
        (Kind.ASSIGN_BEGIN, "STEADY", "got an assignment"),
        (Kind.REVOKE_BEGIN, "STEADY", "gave an assignment up"),
        (Kind.LOST_BEGIN, "INIT", "lost an assignment"),
        (Kind.RECONCILING, "WAIT_ASSIGN_CALL", "got an assignment"),
    ],
)
def test_callbacks_of_librdkafka_begin_in_their_state(new_log, kind, state, what):
    """One thread prints both."""
    log = new_log("c#consumer-1")
    log(0, Kind.TRANSITION, machine="rdkafka-join-state", state="WAIT_SYNC", next_state=state)
    log(500, kind, detail="1 partition(s): x")
    assert f"c#consumer-1 {what} while it was {state}; lines are missing" in said(log)


def test_a_classic_member_gets_one_assignment_in_a_generation(log):
    """A second one belongs to a rebalance whose lines are missing."""
    log(100, Kind.TRANSITION, machine="classic-member", next_state="STABLE")
    log(110, Kind.ASSIGN_BEGIN, partitions=(("t", 0),))(900, Kind.ASSIGN_BEGIN, partitions=(("t", 1),))
    assert said(log) == ["c got two assignments in one generation; lines are missing"]


@pytest.mark.parametrize("event", ["revoked", "assigned"])
def test_a_generation_in_which_a_callback_failed_is_assigned_again(log, event):
    """Whichever failed: the client goes through all of them once more."""
    log(100, Kind.TRANSITION, machine="classic-member", next_state="STABLE")
    log(105, Kind.CALLBACK_FAILED, event=event)(110, Kind.ASSIGN_BEGIN)(400, Kind.ASSIGN_BEGIN)
    assert [f.kind for f in log.rows(Finding)] == [FindingKind.LISTENER_ERROR]


def test_what_a_member_says_that_it_owns_shows_what_is_missing(stable):
    """The block of the next rebalance names what no line gave; both lines are shown."""
    stable.step(2000, "STABLE", "RECONCILING", epoch=4, member_id=ID)
    t0, t1, t2 = (("t", i) for i in range(3))
    stable(2001, Kind.RECONCILING, full=(t0, t1, t2), partitions=(t2,))
    assert said(stable) == [
        (
            "c says that it owns t-[0, 1], but by its lines before it owns nothing; lines are missing, "
            "or one of them is wrong"
        )
    ]


def test_what_librdkafka_was_given_is_what_its_coordinator_counts(new_log):
    """A partition that was added and is not in the acknowledged assignment; one added just after is none."""
    log = new_log("c#consumer-1")(0, Kind.STARTED)
    log(100, Kind.ADDED, partitions=(("t", 0),))(110, Kind.OWNED, full=(("t", 0), ("t", 1)))
    log(111, Kind.ADDED, partitions=(("t", 1),))
    assert said(log) == []
    log(900, Kind.OWNED, full=(("t", 1),))
    assert said(log) == [
        (
            "c#consumer-1 says that it owns t-[1], but by its lines before it owns t-[0, 1]; lines are missing, "
            "or one of them is wrong"
        )
    ]


def test_as_many_partitions_are_added_as_were_announced(new_log):
    """Told with the next callback; where none was added the callback was never answered."""
    log = new_log("c#consumer-1")(0, Kind.HEARTBEAT_OK, epoch=1)
    log(100, Kind.ASSIGN_BEGIN, detail="3 partition(s): x")(110, Kind.ADDED, partitions=(("t", 0),))
    log(120, Kind.ADDED, partitions=(("t", 1),))(900, Kind.ASSIGN_BEGIN, detail="5 partition(s): x")
    log(950, Kind.REVOKE_BEGIN, detail="2 partition(s): y")
    assert said(log) == [
        (
            "the assigned callback of c#consumer-1 announced 3 partitions, but 2 were added; lines are missing, "
            "or one of them is wrong"
        )
    ]
