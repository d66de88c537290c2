"""What the rows of several members mean together."""

from __future__ import annotations

from fsm.audit.findings import Cause, FindingKind, Severity
from fsm.audit.group import judge, rebalances
from fsm.audit.group.coverage import find_coverage
from fsm.audit.limits import Limits
from fsm.audit.live.group_state import select_needed
from fsm.audit.rows import Begun, Ended, GroupRows, MemberRebalance, Place


def one(rows: GroupRows, **limits: int):
    """The only finding."""
    (found,) = judge("g", rows, Limits(**limits))
    return found


def test_two_owners_at_once(interval):
    """The one that began earlier had not let go, for the reason its rows give."""
    old = interval("a", 0, 9000, void_ms=4000, void_cause="no_poll", ended=Ended.LOST)
    found = one(GroupRows([old, interval("b", 5000, 12_000)]))
    assert (found.kind, found.severity, found.member) == (FindingKind.DOUBLE_OWNERSHIP, Severity.ERROR, "a")
    assert (found.start_ms, found.end_ms, found.cause) == (5000, 9000, Cause.NO_POLL)
    assert found.partitions == (("t", 0),)


def test_an_overlap_within_tolerance_and_skew_is_none(interval):
    """Exactly the tolerance is allowed; the skew of two clocks is added to it."""
    rows = GroupRows([interval("a", 0, 1000), interval("b", 900, 2000)])
    assert judge("g", rows, Limits(tolerance_ms=100)) == []
    assert judge("g", rows, Limits(tolerance_ms=99)) != []
    assert judge("g", rows, Limits(tolerance_ms=50, clock_skew_ms=50)) == []


def test_an_overlap_that_two_clocks_explain_is_for_information(interval):
    """Less than a second, the old owner gave up when asked, and another file tells of it."""
    for end_ms in (9000, 1200):  # the new owner may keep it for less than the clocks differ
        found = one(GroupRows([interval("a", 0, 1300), interval("b", 1000, end_ms)]))
        assert (found.severity, found.cause) == (Severity.INFO, Cause.UNKNOWN)
        assert found.summary.endswith("or the clocks of their hosts differ by 0.3 s or more")


def test_an_overlap_that_no_clocks_explain_is_an_error(interval):
    """A second and more; one file, so one clock; a member out of its group; exchanges that overlap both ways."""
    for intervals in (
        [interval("a", 0, 2000), interval("b", 1000, 9000)],
        [interval("a", 0, 1300), interval("b", 1000, 9000, start=Place("a.log", 5))],
        [interval("a", 0, 1300, ended=Ended.LOST), interval("b", 1000, 9000)],
        [interval("a", 0, 1300, void_ms=900, void_cause="fenced"), interval("b", 1000, 9000)],
        [interval("a", 0, 9000), interval("b", 1000, 1300)],
        [interval("a", 0, 1300), interval("b", 1000, 5000), interval("a", 4700, 9000)],
    ):
        assert {f.severity for f in judge("g", GroupRows(intervals))} == {Severity.ERROR}


def test_one_member_is_never_its_own_rival(interval):
    """Lives of one member may touch."""
    assert judge("g", GroupRows([interval("a", 0, 5000), interval("a", 1000, 9000, life=1)])) == []


def test_three_owners_give_each_pair(interval):
    """An owner that never lets go is found against everybody who comes after."""
    rows = GroupRows([interval("a", 0, 9000), interval("b", 1000, 5000), interval("c", 4000, 8000)])
    assert [(f.start_ms, f.end_ms) for f in judge("g", rows)] == [(1000, 5000), (4000, 8000), (4000, 5000)]


def test_partitions_that_go_together_are_one_finding(interval):
    """Begin and end within `MERGE_MS`; partition 2 was taken later and stays apart."""
    old = [interval("a", 0, 9000, partition=p) for p in range(3)]
    new = [interval("b", at, 20_000, partition=p) for p, at in enumerate((5000, 5200, 7000))]
    assert [f.partitions for f in judge("g", GroupRows(old + new))] == [(("t", 0), ("t", 1)), (("t", 2),)]


def test_a_gap_while_a_member_wants_the_topic(interval, want, life):
    """Nobody owned it for longer than `unowned_ms`."""
    rows = GroupRows(
        [interval("a", 0, 1000), interval("b", 8000, 9000)],
        [want("b", 0, 9000)],
        [life("a", 0, 9000), life("b", 0, 9000)],
    )
    found = one(rows)
    assert (found.kind, found.severity, found.cause) == (FindingKind.UNOWNED_PARTITION, Severity.WARNING, Cause.REVOKED)
    assert (found.start_ms, found.end_ms) == (1000, 8000)
    assert judge("g", rows, Limits(unowned_ms=7000)) == []


def test_a_gap_that_the_heartbeat_interval_explains_is_by_design(interval, want, life):
    """Members learn of a rebalance with their next heartbeat: by default after 3 s, or 5 s in a consumer group."""
    for interval_ms, taken_ms, severity, cause in (
        (3000, 5000, Severity.INFO, Cause.HEARTBEAT_INTERVAL),
        (3000, 5001, Severity.WARNING, Cause.REVOKED),
        (5000, 7000, Severity.INFO, Cause.HEARTBEAT_INTERVAL),
        (None, 5000, Severity.WARNING, Cause.REVOKED),
    ):
        lives = [life("a", 0, 9000), life("b", 0, 9000, heartbeat_interval_ms=interval_ms)]
        found = one(GroupRows([interval("a", 0, 1000), interval("b", taken_ms, 9000)], [want("b", 0, 9000)], lives))
        assert (found.severity, found.cause) == (severity, cause)


def test_a_gap_that_a_member_unread_may_fill_is_for_information(interval, want, life):
    """The next owner's rebalance began later than a heartbeat after the loss: in between somebody else had it.

    An owner that was told in time and took long, or that nobody knows when it was told, leaves a gap for certain.
    """
    lives = [life("a", 0, 20_000), life("b", 0, 20_000, heartbeat_interval_ms=3000)]
    for turn_ms, severity in ((5001, Severity.INFO), (5000, Severity.WARNING), (None, Severity.WARNING)):
        owned = [interval("a", 0, 1000), interval("b", 8000, 20_000, turn_ms=turn_ms)]
        found = one(GroupRows(owned, [want("b", 0, 20_000)], lives))
        assert (found.severity, found.cause) == (severity, Cause.REVOKED)
        told = found.summary.endswith("then b got them, unless a member had them whose log is missing")
        assert told is (severity is Severity.INFO)


def test_a_member_that_gets_back_what_it_had_at_its_end_was_restarted(interval, want, life):
    """Nobody else need have been there, so the time in between is a gap."""
    lives = [life("a", 0, 1100), life("a", 9000, 20_000, number=1)]
    owned = [interval("a", 0, 1000), interval("a", 9500, 20_000, life=1, turn_ms=9100)]
    assert one(GroupRows(owned, [want("a", 0, 20_000)], lives)).severity is Severity.WARNING


def test_what_a_fenced_member_lost_does_not_wait_for_a_heartbeat_only(interval, want, life):
    """The same gap after a loss stays a warning."""
    lost = interval("a", 0, 1000, ended=Ended.LOST)
    lives = [life("a", 0, 9000), life("b", 0, 9000)]
    found = one(GroupRows([lost, interval("b", 5000, 9000)], [want("b", 0, 9000)], lives))
    assert (found.severity, found.cause) == (Severity.WARNING, Cause.FENCED)


def test_what_the_only_known_member_lost_others_may_have_had(interval, want, life):
    """The coordinator assigns it to the others, if there are any: no log says so."""
    owned = [interval("a", 0, 1000, ended=Ended.LOST, void_cause="no_poll"), interval("a", 5000, 9000)]
    rows = GroupRows(owned, [want("a", 0, 9000)], [life("a", 0, 9000)])
    assert one(rows).severity is Severity.INFO
    assert one(rows).summary.endswith("then a got them, unless a member had them whose log is missing")
    rows.lives.append(life("b", 0, 9000))
    assert one(rows).severity is Severity.WARNING
    assert one(rows).summary.endswith("then a got them")


def test_a_gap_counts_only_while_it_is_wanted(interval, want):
    """Two wants of 1.5 s each make 3 s; another topic's want makes nothing."""
    owned = [interval("a", 0, 1000), interval("b", 9000, 9500)]
    wanted = [want("b", 2000, 3500), want("c", 5000, 6500)]
    found = one(GroupRows(owned, wanted))
    assert (found.start_ms, found.end_ms) == (2000, 6500)
    assert "3.0 s" in found.summary
    assert judge("g", GroupRows(owned, wanted[:1])) == []
    assert judge("g", GroupRows(owned, [want("b", 0, 9000, topic="u")])) == []


def test_a_pattern_wants_the_whole_name(interval, want):
    """`orders-.*` wants `orders-eu` and not `my-orders-eu`; a pattern that cannot be read wants nothing."""
    for topic, pattern, found in (("orders-eu", "orders-.*", 1), ("my-orders-eu", "orders-.*", 0), ("t", "(", 0)):
        owned = [interval("a", 0, 1000, topic=topic), interval("b", 9000, 9500, topic=topic)]
        assert len(judge("g", GroupRows(owned, [want("b", 0, 9000, topic="", pattern=pattern)]))) == found


def test_what_precedes_the_first_owner_is_no_gap(interval, want):
    """Nobody knows since when the partition exists."""
    assert judge("g", GroupRows([interval("a", 9000, 9900)], [want("a", 0, 9900)])) == []


def test_a_gap_that_nobody_ends(interval, want, life):
    """Up to the last moment in which anyone wanted it."""
    found = one(GroupRows([interval("a", 0, 1000)], [want("b", 0, 9000)], [life("a", 0, 9000), life("b", 0, 9000)]))
    assert (found.start_ms, found.end_ms) == (1000, 9000)


def test_a_gap_after_a_kill_is_less_certain(interval, want, life):
    """The log of the last owner ends without a word; its end is the earliest possible one."""
    killed = interval("a", 0, 1000, ended=Ended.LOG_ENDED, end_exact=False)
    lives = [life("a", 0, 1000, ended=Ended.LOG_ENDED, in_group=True), life("b", 0, 19_000)]
    rows = GroupRows([killed, interval("b", 9000, 19_000)], [want("b", 0, 19_000)], lives)
    found = one(rows)
    assert (found.cause, found.severity, found.start_ms) == (Cause.KILLED, Severity.INFO, 1000)
    assert [c.end for c in find_coverage(rows.lives, rows.intervals)] == ["killed", "closed"]


def test_a_session_bounds_the_gap_after_a_kill(interval, want, life):
    """A member that was silent at INFO died at most a session before the next owner got the partition.

    Where the log does not tell how long that is, by Kafka's default of 45 s.
    """
    killed = interval("a", 0, 1000, ended=Ended.LOG_ENDED, end_exact=False)
    for session_timeout_ms, start_ms in ((6000, 84_000), (None, 45_000)):
        ended = life("a", 0, 1000, ended=Ended.LOG_ENDED, in_group=True, session_timeout_ms=session_timeout_ms)
        found = one(GroupRows([killed, interval("b", 90_000, 99_000)], [want("b", 0, 99_000)], [ended]))
        assert (found.start_ms, found.end_ms) == (start_ms, 90_000)


def test_a_silent_owner_may_live(interval, want, life):
    """Its log ends, nobody takes over: it owns, or its log is missing. Coverage is unknown, nothing is wrong."""
    silent = interval("a", 0, 1000, ended=Ended.LOG_ENDED, end_exact=False)
    rows = GroupRows([silent], [want("b", 0, 90_000)], [life("a", 0, 1000, ended=Ended.LOG_ENDED)])
    assert judge("g", rows) == []
    assert [c.end for c in find_coverage(rows.lives, rows.intervals)] == ["unknown"]


def test_a_static_member_that_left_is_awaited(interval, want, life):
    """The group keeps the partitions of a static member that was closed."""
    away = [life("a", 0, 1200, instance_id="i-a"), life("b", 0, 9000)]
    found = one(GroupRows([interval("a", 0, 1000), interval("a", 6000, 9000, life=1)], [want("b", 0, 9000)], away))
    assert found.cause is Cause.STATIC_MEMBER_AWAY


def test_an_owner_found_in_mid_life_ends_no_gap(interval, want):
    """It may have owned the partition all the time before its log begins."""
    found = interval("b", 9000, 9900, begun=Begun.FOUND)
    assert judge("g", GroupRows([interval("a", 0, 1000), found], [want("b", 0, 9900)])) == []


def test_a_deleted_topic_needs_no_owner(interval, want):
    """Its partitions are revoked and never come back."""
    assert judge("g", GroupRows([interval("a", 0, 1000, ended=Ended.DELETED)], [want("a", 0, 9000)])) == []


def test_a_topic_that_is_created_again_has_an_owner_later(interval, want, life):
    owned = [interval("a", 0, 1000, ended=Ended.DELETED), interval("b", 9000, 20_000)]
    found = one(GroupRows(owned, [want("b", 0, 20_000)], [life("a", 0, 20_000), life("b", 0, 20_000)]))
    assert (found.severity, found.cause) == (Severity.INFO, Cause.TOPIC_DELETED)
    assert "the last owner was a, until their topic was deleted; then b got them" in found.summary


def test_while_a_log_is_missing_a_gap_is_less_certain(interval, want, life):
    """Another member's log begins in mid-life: it may have owned the partition before."""
    rows = GroupRows(
        [interval("a", 0, 1000), interval("b", 9000, 9900)],
        [want("b", 0, 9900)],
        [life("c", 5000, 9900, whole_start=False), life("a", 0, 9900), life("b", 0, 9900)],
    )
    assert one(rows).severity is Severity.INFO


def test_a_member_that_hangs_in_close_owns_on(interval, life):
    """By its own view; but it may have been killed there, so it is less certain."""
    hangs = interval("a", 0, 1000, ended=Ended.HANGS, end_exact=False)
    found = one(GroupRows([hangs, interval("b", 3000, 8000)], [], [life("b", 0, 8000)]))
    assert (found.cause, found.severity, found.end_ms) == (Cause.CLOSE_HANGS, Severity.INFO, 8000)


def test_doubtful_intervals_inform_only(interval):
    """Lines of several processes were mixed."""
    rows = GroupRows([interval("a", 0, 9000, doubtful=True), interval("b", 5000, 12_000)])
    assert one(rows).severity is Severity.INFO


def turn(
    member: str, start_ms: int, end_ms: int, *, added: int = 0, removed: int = 0, cause: str = ""
) -> MemberRebalance:
    return MemberRebalance("g", member, start_ms, end_ms, None, added, removed, cause, Place("f", start_ms))


def test_turns_close_together_are_one_rebalance(interval):
    """Less than a second between the latest end and the next start; a partition had no owner for 400 ms."""
    turns = [turn("a", 0, 100, removed=1), turn("b", 900, 1500, added=1, cause="joined"), turn("a", 2600, 2700)]
    owned = [interval("a", -9000, 1000), interval("b", 1400, 9000)]
    first, second = rebalances("g", GroupRows(owned, turns))
    assert (first.start_ms, first.end_ms, first.cause, first.members, first.moved, first.unowned_ms) == (
        0, 1500, "joined", 2, 1, 400,
    )  # fmt: skip
    assert (second.start_ms, second.cause, second.unowned_ms) == (2600, "told", 0)


def test_a_storm_is_many_turns_that_move_partitions():
    """21 turns in a minute with the default of 20; turns in which nothing moves do not count."""
    busy = [turn("a", 2000 * i, 2000 * i + 10, added=1) for i in range(21)]
    idle = [turn("a", 2000 * i, 2000 * i + 10) for i in range(21)]
    assert [f.kind for f in judge("g", GroupRows(busy))] == [FindingKind.REBALANCE_STORM]
    assert judge("g", GroupRows(busy[1:])) == []
    assert judge("g", GroupRows(idle)) == []


def test_what_is_pending_revocation_does_not_hide_its_last_owner(interval):
    """Rows of long ago are dropped, but for those that a later judgement needs."""
    before = interval("a", 0, 1000)
    rows = [before, interval("a", 1000, 5000, begun=Begun.PENDING)]
    assert select_needed(rows, GroupRows(rows)) == rows
    later = [interval("b", 6000, 7000), *rows]
    assert select_needed(later, GroupRows(later)) == later[:1]
