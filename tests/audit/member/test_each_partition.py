"""Ownership from the lines of librdkafka, which names each partition it adds and drops."""

from __future__ import annotations

import pytest

from fsm.audit.findings import Cause, Finding, FindingKind
from fsm.audit.rows import Ended, Interval
from fsm.trace import Kind

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def rdk(new_log):
    """A librdkafka client that was assigned t-0 and t-1."""
    log = new_log("A#consumer-1")(0, Kind.STARTED, settings={"client": "librdkafka", "version": "2.16.0"})
    log(100, Kind.ASSIGN_BEGIN, detail="2 partition(s)")(101, Kind.ASSIGN_END)
    return log(101, Kind.ADDED, partitions=(T0,))(101, Kind.ADDED, partitions=(T1,))


def test_partitions_are_owned_from_added_to_dropped(rdk):
    """The callbacks only say why they go."""
    rdk(500, Kind.REVOKE_BEGIN, detail="1 partition(s)")(3000, Kind.REVOKE_END)(3001, Kind.DROPPED, partitions=(T1,))
    rdk(3001, Kind.ASSIGN_BEGIN)(9000, Kind.CLOSE_BEGIN)(9001, Kind.CLOSE_END)
    assert [(i.partition, i.start_ms, i.end_ms, i.ended) for i in rdk.rows(Interval)] == [
        (1, 101, 3001, Ended.REVOKED),
        (0, 101, 9001, Ended.CLOSED),
    ]
    assert rdk.rows(Finding) == []


def test_a_loss_is_told_with_all_that_went(rdk):
    """The lost callback counts its partitions; the lines that follow name them."""
    rdk(500, Kind.FENCED, detail="UNKNOWN_MEMBER_ID")(500, Kind.LOST_DECIDED)(500, Kind.LOST_BEGIN)
    rdk(4000, Kind.REVOKE_END)(4000, Kind.DROPPED, partitions=(T0,))(4000, Kind.DROPPED, partitions=(T1,))(
        4001, Kind.LOST_END
    )
    (lost,) = rdk.rows(Finding)
    assert (lost.kind, lost.partitions, lost.start_ms, lost.end_ms) == (
        FindingKind.PARTITIONS_LOST, (T0, T1), 500, 4000,
    )  # fmt: skip


def test_a_fatal_error_drops_partitions_without_a_callback(rdk):
    """A fatal heartbeat error queues nothing for the application (f06, f08, f10)."""
    rdk(500, Kind.FATAL, detail="INVALID_REQUEST")(500, Kind.LOST_DECIDED)
    rdk(501, Kind.DROPPED, partitions=(T0,))(501, Kind.DROPPED, partitions=(T1,))(900, Kind.HEARTBEAT_OK)
    found = rdk.rows(Finding)[0]
    assert (found.kind, found.partitions, found.cause) == (
        FindingKind.LOST_WITHOUT_CALLBACK, (T0, T1), Cause.FATAL_ERROR,
    )  # fmt: skip


def test_a_callback_of_the_same_moment_explains_what_was_dropped_before_it(rdk):
    """Lines of one millisecond that were dealt out to two files may come in any order."""
    rdk(500, Kind.DROPPED, partitions=(T0,))(500, Kind.REVOKE_BEGIN, file="b.log")(900, Kind.HEARTBEAT_OK)
    assert rdk.rows(Finding) == []
    assert next((i.partition, i.ended) for i in rdk.rows(Interval)) == (0, Ended.REVOKED)


def test_dropped_before_added_in_one_moment_means_not_owned(rdk):
    """The two lines were swapped: the partition was added and dropped at once."""
    rdk(500, Kind.REVOKE_BEGIN)(500, Kind.DROPPED, partitions=(("t", 7),))(
        500, Kind.ADDED, partitions=(("t", 7),), file="b"
    )
    rdk(9000, Kind.CLOSE_END)
    assert 7 not in [i.partition for i in rdk.rows(Interval)]


def test_added_before_dropped_in_one_moment_means_owned_on(rdk):
    """The two lines were swapped: the partition was dropped and given back at once."""
    rdk(500, Kind.REVOKE_BEGIN)(500, Kind.ADDED, partitions=(T0,))(500, Kind.DROPPED, partitions=(T0,), file="b")
    rdk(9000, Kind.CLOSE_END)
    assert [(i.start_ms, i.end_ms) for i in rdk.rows(Interval) if i.partition == 0] == [(101, 500), (500, 9000)]


def test_without_a_listener_nothing_is_owed(new_log):
    """A client without callback prints no BEGIN: its application is not to be told."""
    log = new_log("A#consumer-1")(0, Kind.STARTED)(10, Kind.ADDED, partitions=(T0,))(
        500, Kind.DROPPED, partitions=(T0,)
    )
    log(900, Kind.HEARTBEAT_OK)
    assert log.rows(Finding) == []


def test_in_one_file_no_later_callback_explains_what_was_dropped(rdk):
    """The revoked callback of t-0 is missing; that of t-1 begins within the same moment, but after it."""
    rdk(500, Kind.DROPPED, partitions=(T0,))(501, Kind.REVOKE_BEGIN, detail="1 partition(s)")
    rdk(900, Kind.DROPPED, partitions=(T1,))
    (found,) = rdk.rows(Finding)
    assert (found.kind, found.partitions) == (FindingKind.LOST_WITHOUT_CALLBACK, (T0,))


@pytest.mark.parametrize(
    ("counted", "dropped", "told"),
    [(2, (T0, T1), None), (2, (T0,), "with 0 partitions, the lines that add and drop them with 1"),
     (1, (T0, T1), "with 1 partitions, the lines that add and drop them with 0")],
)  # fmt: skip
def test_callbacks_count_what_is_added_and_dropped(rdk, counted, dropped, told):
    """When the consumer has been closed both must come to the same."""
    rdk(500, Kind.REVOKE_BEGIN, detail=f"{counted} partition(s)")
    for partition in dropped:
        rdk(501, Kind.DROPPED, partitions=(partition,))
    found = rdk(9000, Kind.CLOSE_END).rows(Finding)
    assert [(f.kind, f.start_ms, f.end_ms) for f in found] == (
        [(FindingKind.ILLEGAL_TRANSITION, 500, 9000)] if told else []
    )
    assert all(told in f.summary for f in found)


def test_what_is_added_late_may_be_revoked_before(rdk):
    """librdkafka asks for positions first: a callback that takes partitions away can overtake what adds them."""
    rdk(500, Kind.ASSIGN_BEGIN, detail="1 partition(s)")(600, Kind.REVOKE_BEGIN, detail="1 partition(s)")
    rdk(700, Kind.ADDED, partitions=(("t", 2),))(701, Kind.DROPPED, partitions=(T1,))
    rdk(800, Kind.REVOKE_BEGIN, detail="2 partition(s)")(801, Kind.DROPPED, partitions=(T0,))
    rdk(801, Kind.DROPPED, partitions=(("t", 2),))(9000, Kind.CLOSE_END)
    assert rdk.rows(Finding) == []
