"""Who is in the group: fencing, fatal errors, leaves, heartbeats, and lives."""

from __future__ import annotations

import pickle

import pytest

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.limits import Limits
from fsm.audit.member.member_follower import MemberFollower
from fsm.audit.rows import Ended, Interval, Life, Subscription
from fsm.trace import Kind

T0 = ("t", 0)


def test_two_losses_within_the_window_are_a_loop(log):
    """One loss of membership is bad luck, the second one within a minute is a loop; a loss counts once."""
    log(0, Kind.STARTED)
    for at in (1000, 31_000):
        log(at, Kind.JOINED)(at + 10, Kind.ASSIGN_BEGIN, partitions=(T0,))
        log(at + 5000, Kind.FENCED, detail="UNKNOWN_MEMBER_ID")(at + 5100, Kind.LOST_BEGIN, partitions=(T0,))
    log(40_000, Kind.CLOSE_END)
    (loop,) = [f for f in log.rows(Finding) if f.kind is FindingKind.FENCING_LOOP]
    assert (loop.start_ms, loop.end_ms, len(loop.evidence)) == (6000, 36_000, 2)
    assert "2 times" in loop.summary


def test_losses_far_apart_are_no_loop(log):
    """More than `window_ms` between two losses."""
    log(0, Kind.STARTED)
    for at in (1000, 62_000):
        log(at, Kind.JOINED)(at + 500, Kind.FENCED)
    assert not [f for f in log.rows(Finding) if f.kind is FindingKind.FENCING_LOOP]


def test_a_log_of_warnings_tells_of_lost_memberships(log):
    """No line says that it joined; several lines are about one loss, but each poll timeout is about another one."""
    log(1000, Kind.POLL_EXPIRED)(1010, Kind.FENCED, detail="UNKNOWN_MEMBER_ID")(1020, Kind.LOST_BEGIN)
    (found,) = log.rows(Finding)
    assert (found.kind, found.start_ms, found.cause) == (FindingKind.MEMBERSHIP_LOST, 1000, Cause.NO_POLL)
    assert found.summary == "c lost its place in the group because it did not poll in time; no line says what it owned"


@pytest.mark.parametrize(
    ("lines_before", "cause"),
    [([], Cause.UNKNOWN), ([Kind.FENCED], Cause.FENCED), ([Kind.POLL_EXPIRED, Kind.FENCED], Cause.NO_POLL)],
)
def test_a_loss_that_names_its_partitions_is_told_once(log, lines_before, cause):
    """The finding about them says it: another one would deny that a line names them. If the log begins with it, its
    cause is not known: the line before may have told a poll timeout."""
    for kind in lines_before:
        log(1000, kind)
    log(1020, Kind.LOST_BEGIN, partitions=(T0,))
    assert [(f.kind, f.cause) for f in log.rows(Finding)] == [(FindingKind.PARTITIONS_LOST, cause)]


def test_a_log_of_warnings_tells_of_a_loop(log):
    log(1000, Kind.POLL_EXPIRED)(7000, Kind.POLL_EXPIRED)
    assert [f.kind for f in log.rows(Finding)] == [FindingKind.FENCING_LOOP]


@pytest.mark.parametrize(
    ("kind", "detail"), [(Kind.FENCED, ""), (Kind.COMMIT_FAILED, "UNKNOWN_MEMBER_ID"), (Kind.POLL_EXPIRED, "")]
)
def test_a_log_of_warnings_tells_of_each_day(log, kind, detail):
    """Though no line says that it rejoined."""
    for day in range(3):
        log(day * 86_400_000, kind, detail=detail)(day * 86_400_000 + 100, kind, detail=detail)
    assert [f.start_ms for f in log.rows(Finding)] == [day * 86_400_000 for day in range(3)]


@pytest.mark.parametrize(("at", "line"), [(0, Kind.STARTED), (0, Kind.SYNCED), (9000, Kind.SYNCED)])
def test_who_tells_of_joins_lost_no_other_membership(log, at, line):
    """Its log has the line of each join, though it may begin later than its first one."""
    lines = [(at, line), (100, Kind.LEFT), (1000, Kind.POLL_EXPIRED)]
    for ts_ms, kind in sorted(lines):
        log(ts_ms, kind)
    log(9005, Kind.LEFT)(9010, Kind.COMMIT_FAILED, detail="UNKNOWN_MEMBER_ID")
    assert log.rows(Finding) == []


def test_a_refused_commit_is_told_once(log):
    """Not those that are tried again."""
    log(500, Kind.COMMIT_FAILED, detail="REBALANCE_IN_PROGRESS")(600, Kind.COMMIT_FAILED, detail="STALE_MEMBER_EPOCH")
    log(1000, Kind.COMMIT_FAILED, detail="UNKNOWN_MEMBER_ID")(1010, Kind.COMMIT_FAILED, detail="CommitFailedException")
    (found,) = log.rows(Finding)
    assert (found.kind, found.start_ms, found.severity) == (FindingKind.COMMIT_REFUSED, 1000, Severity.WARNING)


def test_where_no_lost_callback_tells_of_it_each_refused_commit_does(new_log):
    """aiokafka has no lost callback."""
    log = new_log("aiokafka")(0, Kind.STARTED)(10, Kind.JOINED)(20, Kind.ASSIGN_BEGIN, partitions=(T0,))
    log(5000, Kind.COMMIT_FAILED, detail="CommitFailedError: ('Commit cannot be completed')")(6000, Kind.JOINED)
    log(9000, Kind.COMMIT_FAILED, detail="CommitFailedError: ('Commit cannot be completed')")
    assert [f.start_ms for f in log.rows(Finding) if f.kind is FindingKind.COMMIT_REFUSED] == [5000, 9000]


def test_a_member_that_lives_on_after_a_fatal_error_is_out_for_good(log):
    """Its polls return nothing and throw nothing (A15)."""
    log(0, Kind.STARTED)(100, Kind.FATAL, detail="UNRELEASED_INSTANCE_ID")(9000, Kind.CLOSE_END)
    (found,) = log.rows(Finding)
    assert (found.kind, found.start_ms, found.end_ms) == (FindingKind.MEMBER_OUT_FOR_GOOD, 100, 9000)
    assert "UNRELEASED_INSTANCE_ID" in found.summary


def test_a_fatal_error_that_ends_the_process_is_not_out_for_good(log):
    """An application that closes at once did the right thing."""
    log(0, Kind.STARTED)(100, Kind.FATAL)(600, Kind.CLOSE_END)
    assert log.rows(Finding) == []


def test_a_member_that_gets_partitions_again_is_not_out(log):
    """Classic clients go on after a fatal answer if the application polls on (B5)."""
    log(0, Kind.STARTED)(100, Kind.FATAL)(500, Kind.ASSIGN_BEGIN, partitions=(T0,))(
        600, Kind.REVOKE_BEGIN, partitions=(T0,)
    )
    log(9000, Kind.CLOSE_END)
    assert log.rows(Finding) == []


def test_a_leave_that_goes_out_late(log):
    """librdkafka announces the leave at the expiry and sends it when the application polls again (c06)."""
    log(0, Kind.STARTED)(10, Kind.JOINED)(5000, Kind.POLL_EXPIRED)(5000, Kind.LEAVE_BEGIN)(8700, Kind.LEAVE_SENT)
    (found,) = log.rows(Finding)
    assert (found.kind, found.start_ms, found.end_ms, found.cause) == (
        FindingKind.LATE_LEAVE, 5000, 8700, Cause.NO_POLL,
    )  # fmt: skip


def test_a_silence_longer_than_the_session(log):
    """Heartbeats further apart than session.timeout.ms while the member counts itself in; none while no coordinator."""
    log(0, Kind.STARTED, settings={"session.timeout.ms": "6000", "group.protocol": "classic"})(10, Kind.SYNCED)
    log(100, Kind.HEARTBEAT_SENT)(3000, Kind.HEARTBEAT_SENT)(9500, Kind.HEARTBEAT_SENT)
    log(10_000, Kind.COORDINATOR_LOST)(20_000, Kind.HEARTBEAT_SENT)
    assert [(f.kind, f.start_ms, f.end_ms) for f in log.rows(Finding)] == [(FindingKind.HEARTBEAT_GAP, 3000, 9500)]


def test_who_waits_in_a_join_is_not_silent(log):
    """A classic member sends no heartbeats meanwhile, and the coordinator waits for the others, not for it."""
    log(0, Kind.STARTED, settings={"session.timeout.ms": "6000"})(100, Kind.JOINED, epoch=2)
    log(3000, Kind.HEARTBEAT_SENT, epoch=2)(3500, Kind.JOINING)(60_000, Kind.JOINED, epoch=3)
    log(63_000, Kind.HEARTBEAT_SENT, epoch=3)
    assert log.rows(Finding) == []


def test_a_restart_ends_the_old_life_with_its_last_line(log):
    """Restarts append to the same file; what the old process owned it owned until its last line."""
    log(0, Kind.STARTED)(10, Kind.SUBSCRIBED, topics=("t",))(20, Kind.ASSIGN_BEGIN, partitions=(T0,))
    log(60_000, Kind.STARTED)(60_010, Kind.SUBSCRIBED, topics=("t",))(70_000, Kind.CLOSE_END)
    assert [(life.number, life.end_ms, life.ended) for life in log.rows(Life)] == [
        (0, 20, Ended.RESTARTED),
        (1, 70_000, Ended.CLOSED),
    ]
    assert [(i.end_ms, i.ended) for i in log.rows(Interval)] == [(20, Ended.RESTARTED)]
    assert [(w.start_ms, w.end_ms) for w in log.rows(Subscription)] == [(10, 20), (60_010, 70_000)]


def test_lines_of_a_new_process_before_the_one_that_says_started(new_log):
    """librdkafka prints its first lines before INIT: they belong to the new life, not to the one that was killed."""
    log = new_log("A#consumer-1")(0, Kind.STARTED)(10, Kind.ADDED, partitions=(T0,))(900, Kind.HEARTBEAT_OK)
    log(30_000, Kind.MEMBER_ID, member_id="new")(30_005, Kind.STARTED)(31_000, Kind.CLOSE_END)
    assert [(i.end_ms, i.ended) for i in log.rows(Interval)] == [(900, Ended.RESTARTED)]


def test_a_log_that_begins_in_mid_life_says_so(log):
    """Its life is not whole, and it wants the topics of the partitions it turns out to hold."""
    log.step(1000, "STABLE", "RECONCILING")(1010, Kind.ASSIGN_BEGIN, partitions=(T0,))(2000, Kind.HEARTBEAT_OK)
    assert [life.whole_start for life in log.rows(Life)] == [False]
    assert [(w.topic, w.start_ms) for w in log.rows(Subscription)] == [("t", 1000)]


def test_a_change_of_subscription_ends_only_what_is_not_wanted_any_more(log):
    """Topics that stay keep their want."""
    log(0, Kind.STARTED)(10, Kind.SUBSCRIBED, topics=("a", "b"))(500, Kind.SUBSCRIBED, topics=("b", "c"))
    log(900, Kind.UNSUBSCRIBED)(1000, Kind.CLOSE_END)
    assert [(w.topic, w.start_ms, w.end_ms) for w in log.rows(Subscription)] == [
        ("a", 10, 500),
        ("b", 10, 900),
        ("c", 500, 900),
    ]


def test_after_a_doubtful_line_findings_inform_only(log):
    """What rests on lines that may be another process's is not an error."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(20, Kind.HEARTBEAT_OK)
    log(50, Kind.REVOKE_BEGIN, partitions=(("t", 9),))(900, Kind.CLOSE_END)
    follower = MemberFollower("g", "c", Limits(), {})
    rows = [row for seen in log.seen for row in follower.see(seen, doubtful=seen.record.ts_ms == 20)]
    rows += follower.finish()
    found = [(row.kind, row.severity) for row in rows if isinstance(row, Finding)]
    assert found[0] == (FindingKind.CALLBACK_NOT_OWNED, Severity.INFO)
    assert [row.doubtful for row in rows if isinstance(row, Interval)] == [True]
    assert [row.doubtful_ms for row in rows if isinstance(row, Life)] == [20]


def test_a_member_can_be_kept_between_any_two_records(log):
    """A follower that was pickled and read again goes on as if nothing had happened."""
    log(0, Kind.STARTED)(5, Kind.SUBSCRIBED, topics=("t",))(10, Kind.ASSIGN_BEGIN, partitions=(T0,))
    log.step(20, "RECONCILING", "ACKNOWLEDGING")(50, Kind.REVOKE_BEGIN, partitions=(("t", 9),))
    log(900, Kind.CLOSE_BEGIN)(950, Kind.CLOSE_END)(5000, Kind.STARTED)(5100, Kind.POLL_EXPIRED)
    follower, rows = MemberFollower("g", "c", Limits(), {}), []
    for seen in log.seen:
        rows += follower.see(seen)
        follower = pickle.loads(pickle.dumps(follower))  # noqa: S301  its own
    assert [*rows, *follower.finish()] == log.rows()


def test_a_state_held_longer_than_the_rebalance_timeout(log):
    """A member that reconciles for longer than its max.poll.interval.ms is stuck; a stable one never is."""
    log(0, Kind.STARTED, settings={"max.poll.interval.ms": "4000"}).step(10, "UNSUBSCRIBED", "JOINING")
    log.step(20, "JOINING", "STABLE").step(60_000, "STABLE", "RECONCILING").step(64_001, "RECONCILING", "ACKNOWLEDGING")
    (found,) = log.rows(Finding)
    assert (found.kind, found.start_ms, found.end_ms) == (FindingKind.STUCK_STATE, 60_000, 64_001)


@pytest.mark.parametrize(("waited_ms", "found"), [(299_000, []), (301_000, [FindingKind.STUCK_STATE])])
def test_a_classic_member_waits_for_the_slowest_of_its_group(log, waited_ms, found):
    """Its own timeout does not count: the group waits for the longest, at least Kafka's default."""
    log(0, Kind.STARTED, settings={"max.poll.interval.ms": "4000"})
    for ts_ms, state in ((10, "PREPARING_REBALANCE"), (10 + waited_ms, "COMPLETING_REBALANCE")):
        log(ts_ms, Kind.TRANSITION, machine="classic-member", next_state=state)
    assert [f.kind for f in log.rows(Finding)] == found
