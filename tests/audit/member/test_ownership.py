"""Ownership as the application sees it, from the callbacks of Java clients."""

from __future__ import annotations

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.limits import Limits
from fsm.audit.member.member_follower import MemberFollower
from fsm.audit.rows import Begun, Ended, Interval
from fsm.trace import Kind

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def test_from_the_start_of_the_assigned_to_the_end_of_the_revoked_callback(log):
    """At DEBUG the client prints when a revoked callback has returned: that is when ownership ends."""
    log(0, Kind.STARTED)(100, Kind.ASSIGN_BEGIN, partitions=(T0,))(120, Kind.ASSIGN_END)
    log(500, Kind.REVOKE_BEGIN, partitions=(T0,))(3500, Kind.REVOKE_END)(9000, Kind.CLOSE_END)
    (owned,) = log.rows(Interval)
    assert (owned.start_ms, owned.end_ms, owned.begun, owned.ended) == (100, 3500, Begun.ASSIGNED, Ended.REVOKED)
    assert (owned.start.offset, owned.end.offset) == (100, 300)


def test_without_a_line_for_its_end_a_revoked_callback_ends_with_the_acknowledgement(log):
    """At INFO the step to ACKNOWLEDGING is the first line that cannot come before the callback has returned (A2)."""
    log(0, Kind.STARTED)(100, Kind.ASSIGN_BEGIN, partitions=(T0, T1))
    log(500, Kind.REVOKE_BEGIN, partitions=(T1,)).step(2500, "RECONCILING", "ACKNOWLEDGING")
    log(9000, Kind.CLOSE_END)
    assert [(i.partition, i.end_ms) for i in log.rows(Interval)] == [(1, 2500), (0, 9000)]


def test_background_lines_do_not_end_a_revoked_callback(log):
    """A member is fenced in the background while its callback runs on (A7)."""
    log(0, Kind.STARTED)(100, Kind.ASSIGN_BEGIN, partitions=(T0,))(500, Kind.REVOKE_BEGIN, partitions=(T0,))
    log(4000, Kind.FENCED, detail="UNKNOWN_MEMBER_ID").step(4000, "RECONCILING", "FENCED")
    log(4100, Kind.JOINING, detail="group is already rebalancing")(7000, Kind.LOST_BEGIN, partitions=(T0,))
    assert [i.end_ms for i in log.rows(Interval)] == [7000]


def test_a_revoked_partition_that_is_lost_as_well_was_not_owned_any_more(log):
    """onPartitionsLost after a slow onPartitionsRevoked names partitions that were given back already (A7)."""
    log(0, Kind.STARTED)(100, Kind.ASSIGN_BEGIN, partitions=(T0, T1))(500, Kind.REVOKE_BEGIN, partitions=(T1,))
    log(7000, Kind.LOST_BEGIN, partitions=(T0, T1))
    lost, not_owned = log.rows(Finding)[1], log.rows(Finding)[0]
    assert (not_owned.kind, not_owned.partitions) == (FindingKind.CALLBACK_NOT_OWNED, (T1,))
    assert (lost.kind, lost.partitions, lost.start_ms) == (FindingKind.PARTITIONS_LOST, (T0, T1), 7000)


def test_a_member_without_listener_owns_what_its_block_lists_once_it_acknowledges(log):
    """Without a listener only the `Reconciling` block tells (A3)."""
    log(0, Kind.STARTED)(10, Kind.RECONCILING, full=(T0, T1), partitions=(T0, T1))
    log.step(20, "RECONCILING", "ACKNOWLEDGING")
    log(50, Kind.RECONCILING, full=(T0,), partitions=(), revoked=(T1,)).step(60, "RECONCILING", "ACKNOWLEDGING")
    log(90, Kind.CLOSE_END)
    assert [(i.partition, i.start_ms, i.end_ms, i.ended) for i in log.rows(Interval)] == [
        (1, 20, 60, Ended.REASSIGNED),
        (0, 20, 90, Ended.CLOSED),
    ]
    assert FindingKind.LOST_WITHOUT_CALLBACK not in [f.kind for f in log.rows(Finding)]


def test_with_a_listener_the_block_does_not_count(log):
    """The callbacks tell what the application owns; the block says what the background thread wants."""
    log(0, Kind.STARTED)(10, Kind.RECONCILING, full=(T0,), partitions=(T0,))
    log(400, Kind.ASSIGN_BEGIN, partitions=(T0,)).step(410, "RECONCILING", "ACKNOWLEDGING")
    assert [i.start_ms for i in log.rows(Interval)] == [400]


def test_partitions_owned_before_the_log_begins_are_found(log):
    """A log that begins in mid-life shows a partition only when it goes: it was owned since the log's beginning."""
    log.step(1000, "STABLE", "RECONCILING")
    log(1010, Kind.RECONCILING, full=(T0,), partitions=(), revoked=(T1,))(1020, Kind.REVOKE_BEGIN, partitions=(T1,))
    log(1030, Kind.REVOKE_END)(5000, Kind.CLOSE_END)
    assert [(i.partition, i.start_ms, i.begun) for i in log.rows(Interval)] == [
        (1, 1000, Begun.FOUND),
        (0, 1000, Begun.FOUND),
    ]
    assert not [f for f in log.rows(Finding) if f.kind is FindingKind.CALLBACK_NOT_OWNED]


def test_a_close_that_leaves_partitions_behind_tells_nobody(log):
    """A consumer that had a listener and is closed while it owns partitions never told its application."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(50, Kind.CLOSE_BEGIN)(60, Kind.CLOSE_END)
    (found,) = log.rows(Finding)
    assert (found.kind, found.severity, found.partitions) == (FindingKind.LOST_WITHOUT_CALLBACK, Severity.ERROR, (T0,))


def test_a_close_that_never_calls_back_is_a_warning(new_log):
    """aiokafka's stop() calls nothing. Who was fenced before lost its partitions all the same, which is an error."""
    for kinds, severity in (([], Severity.WARNING), ([Kind.FENCED], Severity.ERROR)):
        log = new_log("aiokafka")(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))
        for kind in (*kinds, Kind.CLOSE_BEGIN, Kind.CLOSE_END):
            log(50, kind)
        (found,) = (one for one in log.rows(Finding) if one.kind is FindingKind.LOST_WITHOUT_CALLBACK)
        assert found.severity is severity


def test_a_close_that_never_returns_is_told_with_less_certainty(log):
    """The log ends inside close(): it hangs (B12), or the process was killed there. close() gives up at 30 s."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(50, Kind.CLOSE_BEGIN, thread="app")
    (found,) = log.rows(Finding)
    assert (found.cause, found.severity, found.start_ms, found.end_ms) == (
        Cause.CLOSE_HANGS, Severity.INFO, 50, 30_050,
    )  # fmt: skip
    assert [i.ended for i in log.rows(Interval)] == [Ended.HANGS]


def test_a_killed_member_owns_until_its_last_line(log):
    """Its log ends without a word; the end is the earliest possible one."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(800, Kind.HEARTBEAT_OK)
    (owned,) = log.rows(Interval)
    assert (owned.end_ms, owned.ended, owned.end_exact) == (800, Ended.LOG_ENDED, False)
    assert log.rows(Finding) == []


def test_a_failed_callback_is_told_once_and_called_again(log):
    """Clients print a failure two or three times; the next poll calls the same callback again (A11)."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(100, Kind.REVOKE_BEGIN, partitions=(T0,))
    log(110, Kind.CALLBACK_FAILED, event="revoked", detail="boom")(112, Kind.CALLBACK_FAILED, event="revoked")
    log(500, Kind.REVOKE_BEGIN, partitions=(T0,))(510, Kind.REVOKE_END)(900, Kind.CLOSE_END)
    assert [(f.kind, f.start_ms) for f in log.rows(Finding)] == [
        (FindingKind.LISTENER_ERROR, 100),
        (FindingKind.CALLBACK_NOT_OWNED, 500),
    ]
    assert "boom" in log.rows(Finding)[0].summary


def test_a_callback_longer_than_the_rebalance_timeout_is_slow(log):
    """The rebalance timeout of a consumer is its max.poll.interval.ms; where it was not printed nothing is judged."""
    for settings, slow in (({"max.poll.interval.ms": "4000"}, 1), ({}, 0), ({"max.poll.interval.ms": "8000"}, 0)):
        log.seen.clear()
        log(0, Kind.STARTED, settings=settings)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))
        log(100, Kind.REVOKE_BEGIN, partitions=(T0,))(5000, Kind.REVOKE_END)(6000, Kind.CLOSE_END)
        assert [f.kind for f in log.rows(Finding)] == [FindingKind.SLOW_CALLBACK] * slow


def test_the_coordinator_gives_partitions_away_before_the_application_knows(log):
    """After max.poll.interval the member leaves in the background; its application learns it at its next poll (A5)."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0, T2))(5000, Kind.POLL_EXPIRED)
    log(9000, Kind.LOST_BEGIN, partitions=(T0, T2))
    assert [(i.void_ms, i.void_cause, i.end_ms) for i in log.rows(Interval)] == [(5000, "no_poll", 9000)] * 2
    assert log.rows(Finding)[0].cause is Cause.NO_POLL


def test_a_deleted_topic_ends_ownership_in_its_own_way(log):
    """A commit that is refused for an unknown topic just before the revocation says why the partition goes (A13)."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(
        90, Kind.COMMIT_FAILED, detail="UNKNOWN_TOPIC_OR_PARTITION"
    )
    log(100, Kind.REVOKE_BEGIN, partitions=(T0,))(110, Kind.REVOKE_END)(900, Kind.CLOSE_END)
    assert [i.ended for i in log.rows(Interval)] == [Ended.DELETED]


def test_a_missing_callback_line_is_found_and_ownership_heals(log):
    """The block says that t-1 goes and t-2 comes, the member acknowledges, and no callback line says so."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0, T1))
    log(500, Kind.RECONCILING, full=(T0, T2), partitions=(T2,), revoked=(T1,)).step(600, "RECONCILING", "ACKNOWLEDGING")
    log(900, Kind.HEARTBEAT_OK)
    assert [(i.partition, i.start_ms, i.end_ms) for i in log.rows(Interval)] == [
        (1, 10, 600),
        (0, 10, 900),
        (2, 600, 900),
    ]
    (found,) = [f for f in log.rows(Finding) if f.kind is FindingKind.ILLEGAL_TRANSITION]
    assert (found.partitions, found.start_ms) == ((T2,), 600)


def test_a_missing_revoked_callback_is_found(log):
    """The assigned callback of the same reconciliation comes, the revoked one before it has no line."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0, T1))
    log(500, Kind.RECONCILING, full=(T0,), partitions=(), revoked=(T1,))(700, Kind.ASSIGN_BEGIN, partitions=())
    assert [(i.partition, i.end_ms, i.ended) for i in log.rows(Interval)][0] == (1, 700, Ended.REASSIGNED)  # noqa: RUF015
    assert [f.partitions for f in log.rows(Finding) if f.kind is FindingKind.ILLEGAL_TRANSITION] == [(T1,)]


def test_rows_come_out_as_soon_as_they_are_known(log):
    """Its follower holds what the member owns, not its log: an interval is there when the next moment is read."""
    log(0, Kind.STARTED)(10, Kind.ASSIGN_BEGIN, partitions=(T0,))(500, Kind.REVOKE_BEGIN, partitions=(T0,))
    log(510, Kind.REVOKE_END)
    for ts_ms in (900, 1900, 2900):
        log(ts_ms, Kind.HEARTBEAT_OK)
    follower = MemberFollower("g", "c", Limits(), {})
    read = ((seen, row) for seen in log.seen for row in follower.see(seen))
    last, first = next((seen.record.ts_ms, row) for seen, row in read if isinstance(row, Interval))
    assert (first.end_ms, last) == (510, 1900)
