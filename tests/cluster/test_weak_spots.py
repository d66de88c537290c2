"""The weak spots W1 to W7 of the coordinator, the client's A5 and A7, and what classic members bring: each shown once.

They arise here from what members and their network do, nothing else; see diagrams/hazards.md. What
the coordinator alone contributes to them is in `tests/coordinator/test_weak_spots.py` and `test_mixed.py`. W3 does not
arise from members at all; its test is there, and the reason here.
"""

from __future__ import annotations

import pytest
from cluster_scene import FOO, LATEST, WITHOUT_EPOCH, causes, cluster, of, two, without_callback
from disturbances import settle

from fsm.cluster.client import COOPERATIVE, EAGER
from fsm.cluster.cluster import Cluster
from fsm.cluster.story import Event
from fsm.member.dialect.dialect import DOCUMENT, FIXED

DIALECTS = ("4.0.0", "4.2.1", LATEST, FIXED)


@pytest.mark.parametrize("dialect", [FIXED, EAGER, COOPERATIVE])
def test_a5_an_application_that_stops_polling_is_left_behind(dialect: str) -> None:
    """The background leaves at max.poll.interval; the application uses its partitions until its next poll (A5)."""
    found = cluster()
    two(found, dialect, dialect)
    found.clients["b"].next_poll_ms = found.now_ms + 10_000
    found.run(found.now_ms + 9_000)
    assert of(found, "a") == FOO
    assert len(of(found, "b")) == 2
    assert causes(found) == {"A5"}
    assert settle(found).problems == []
    assert without_callback(found) == []


def test_a7_a_callback_outlives_the_rebalance_timeout() -> None:
    """A member that is revoking for longer is thrown out, and uses everything it had until its callback ends (A7)."""
    found = cluster()
    found.join("a", FIXED, ("foo",))
    found.run(3_000)
    found.clients["a"].slow_ms = 12_000
    found.join("b", FIXED, ("foo",))
    found.run(found.now_ms + 9_000)
    assert of(found, "a") == of(found, "b") == FOO
    assert causes(found) <= {"A5", "A7"}
    assert causes(found)
    assert settle(found).problems == []


def left_out(dialect: str) -> Cluster:
    """A member was told of four partitions, its application does not poll, and no answer reaches it any more.

    So it repeats everything. Another member joins; then the application polls.
    """
    found = cluster()
    found.join("a", dialect, ("foo",))
    found.run(20)
    found.clients["a"].next_poll_ms = 3_500
    found.deaf.add("a")
    found.run(600)
    found.join("b", FIXED, ("foo",))
    found.run(3_490)
    return found


@pytest.mark.parametrize("dialect", DIALECTS[:-1])
def test_w1_what_was_left_out_of_a_report_is_used_after_all(dialect: str) -> None:
    """No release waits for the answer to such a report before it applies what it was told earlier.

    It reports that it owns nothing, and its coordinator takes two partitions back at once.
    """
    found = left_out(dialect)
    assert (of(found, "a"), of(found, "b"), found.doubles) == ((), FOO[2:], [])
    found.run(3_600)
    assert (of(found, "a"), causes(found)) == (FOO, {"W1"})
    assert settle(found).problems == []
    assert without_callback(found) == []


@pytest.mark.parametrize("dialect", [FIXED, DOCUMENT])
def test_what_was_assigned_is_waited_for_where_it_is_reported(dialect: str) -> None:
    """W1 ends where the report names what is being assigned: nobody else gets it until it is given up."""
    found = left_out(dialect)
    assert (of(found, "a"), of(found, "b"), found.doubles) == ((), (), [])
    found.run(3_600)
    assert (of(found, "a"), of(found, "b")) == (FOO, ())
    assert settle(found).problems == []
    assert causes(found) == set()
    assert without_callback(found) == []


def test_w2_a_classic_member_that_was_removed_is_made_anew_without_a_word() -> None:
    """A cooperative member that does not hear that it is to join is removed, and another gets its partitions.

    Then it joins for a reason of its own, with its old id: nobody tells it, and it uses what it had until its sync.
    """
    found = cluster()
    two(found, COOPERATIVE, FIXED)
    had, member_id = of(found, "a"), found.clients["a"].member_id
    found.deaf.add("a")
    found.clients["b"].subscribe(("bar",))
    while member_id in found.consumer_group.members:
        found.run(found.now_ms + 1)
    found.join("c", FIXED, ("foo",))
    found.run(found.now_ms + 5)
    assert found.doubles == []
    found.deaf.clear()
    found.clients["a"].subscribe(("foo", "bar"))
    found.clients["a"].next_poll_ms = found.now_ms
    found.run(found.now_ms + 95)
    assert (found.clients["a"].member_id, of(found, "a")) == (member_id, had)
    assert member_id in found.consumer_group.members
    assert {(double.partition, double.cause) for double in found.doubles} == {(one, "W2") for one in had}
    assert settle(found).problems == []
    assert without_callback(found) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_w3_members_report_what_they_have_after_each_assignment(dialect: str) -> None:
    """W3 cannot arise from them: what is taken back before they used it is reported given up.

    The member is told of two more partitions, and of their loss before its application polls. Its coordinator keeps it
    as revoking until it says what it owns, which is what it owned before; and it says so at once.
    """
    found = cluster()
    two(found, dialect)
    found.clients["a"].next_poll_ms = found.now_ms + 3_000
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 1_600)
    group = found.consumer_group
    assert len(group.members[found.clients["a"].member_id].current.assigned) == 4
    found.join("c", FIXED, ("foo",))
    found.run(found.now_ms + 1_000)
    assert len(of(found, "a")) == 2
    assert found.consumer_group.members[found.clients["a"].member_id].current.pending
    found.run(found.now_ms + 1_500)
    assert not found.consumer_group.members[found.clients["a"].member_id].current.pending
    assert settle(found).problems == []
    assert found.stale_uses.removed.keys() == {"b-0"}


@pytest.mark.parametrize(("release", "waits"), [("4.1.1", True), ("4.2.0", False)])
def test_w4_a_member_that_lost_its_epoch_cannot_come_back(release: str, waits: bool) -> None:
    """Before 4.2 its id is refused with epoch 0 until its session has expired (F9).

    It hears nothing while its epoch moves twice: by partitions that came free, and by others that it must give up.
    """
    found = cluster(release=release)
    two(found)
    found.deaf.add("a")
    known = found.consumer_group.members["a-0"].epoch
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 1_500)
    found.join("c", FIXED, ("foo",))
    while found.consumer_group.members["a-0"].current.previous_epoch == known:
        found.run(found.now_ms + 10)
    found.deaf.clear()
    found.run(found.now_ms + 2_000)
    assert len(fenced(found, "a")) > 10 if waits else len(fenced(found, "a")) == 1
    assert bool(of(found, "a")) == (not waits)
    found.run(found.now_ms + 3_000)
    assert len(of(found, "a")) == 2
    assert settle(found).problems == []


def fenced(found: Cluster, name: str) -> list[Event]:
    """Answers to this client that tell it that its epoch is not the member's."""
    return [e for e in found.story.events if e.target == name and "fenced_member_epoch" in found.story.describe(e)]


@pytest.mark.parametrize("release", ["4.0.2", "4.1.2", "4.2.1", "4.3.0", LATEST])
def test_w5_classic_members_among_themselves_strand_partitions(release: str) -> None:
    """From 4.3 on: the last consumer member goes, the downgrade is refused, and what it had has no owner.

    A JoinGroup mends it: here that of a classic member whose application asks for a rebalance. Before, heartbeats told
    the classic member to join.
    """
    found = cluster(release=release, policy="upgrade")
    two(found, COOPERATIVE, FIXED)
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 15_000)
    strands = release >= "4.3"
    assert (found.stranded, len(of(found, "a"))) == (("W5", 2) if strands else (None, 4))
    assert found.find_unsettled() == []
    assert settle(found) == ([], "W5" if strands else None)
    assert of(found, "a") == FOO
    assert found.doubles == []


def test_w5_ends_where_classic_members_are_told_to_compute_the_target() -> None:
    """The coordinator's `fixed`: the next heartbeat of a classic member is told to rejoin, and that brings a target."""
    found = cluster(release="fixed", policy="upgrade")
    two(found, COOPERATIVE, FIXED)
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 15_000)
    assert (found.stranded, of(found, "a"), found.doubles) == (None, FOO, [])
    assert settle(found) == ([], None)


@pytest.mark.parametrize(("release", "expected"), [(LATEST, {"W6"}), ("4.1.1", set())])
def test_w6_a_late_duplicate_of_a_join_acknowledges(release: str, expected: set[str]) -> None:
    """It counts as giving up all that is pending, which the member still uses; before F9 such a duplicate is fenced."""
    found = cluster(release=release)
    found.join("a", FIXED, ("foo",))
    found.run(3_000)
    found.clients["a"].slow_ms = 3_000
    found.join("b", FIXED, ("foo",))
    found.run(found.now_ms + 2_000)
    assert found.clients["a"].in_callback
    found.repeat_join("a")
    found.run(found.now_ms + 900)
    assert causes(found) == expected
    assert (len(of(found, "a")), len(of(found, "b"))) == ((4, 2) if expected else (4, 0))
    assert settle(found).problems == []


@pytest.mark.parametrize(("release", "waits"), [(LATEST, True), ("4.2.1", False)])
def test_w7_a_clock_that_goes_back_delays_targets(release: str, waits: bool) -> None:
    """Who comes gets nothing before the clock says again what it said; before 4.3 no target waits for a time."""
    found = cluster(release=release)
    found.join("a", FIXED, ("foo",))
    found.run(3_000)
    found.set_clock_back(10_000)
    found.join("b", FIXED, ("foo",))
    found.run(found.now_ms + 6_000)
    assert (len(of(found, "a")), len(of(found, "b"))) == ((4, 0) if waits else (2, 2))
    assert found.consumer_group.state.name == ("ASSIGNING" if waits else "STABLE")
    found.run(found.now_ms + 6_000)
    assert (len(of(found, "a")), len(of(found, "b"))) == (2, 2)
    assert found.doubles == []


# What classic members bring


@pytest.mark.parametrize("dialect", [FIXED, EAGER, COOPERATIVE])
def test_a_frozen_member_uses_what_others_have(dialect: str) -> None:
    """A process that does not run cannot know that its session ended; it loses everything when it goes on."""
    found = cluster()
    two(found, dialect, dialect)
    found.clients["b"].freeze(found.now_ms + 8_000)
    found.run(found.now_ms + 7_900)
    assert of(found, "a") == FOO
    assert causes(found) == {"expired"}
    assert settle(found).problems == []
    assert len(of(found, "b")) == 2


@pytest.mark.parametrize("dialect", [EAGER, COOPERATIVE])
def test_a_classic_member_that_joins_late_is_left_behind(dialect: str) -> None:
    """A callback that outlives the rebalance timeout: the generation begins without its member."""
    found = cluster()
    two(found, dialect, dialect)
    found.join("c", dialect, ("foo",))
    found.run(found.now_ms + 300)
    found.clients["a"].slow_ms = 12_000
    found.clients["a"].subscribe(("bar",))
    found.run(found.now_ms + 10_000)
    assert causes(found) == {"late join"}
    assert settle(found).problems == []
    assert without_callback(found) == []


@pytest.mark.parametrize(("zombie", "successor"), [(EAGER, EAGER), (COOPERATIVE, FIXED), (FIXED, COOPERATIVE)])
def test_a_static_member_is_replaced_while_it_runs(zombie: str, successor: str) -> None:
    """Who takes a classic member's instance id, or takes one by the classic protocol, has its partitions at once.

    The first process learns of it with its next heartbeat, and ends.
    """
    found = cluster()
    found.join("a", zombie, ("foo",), "i")
    found.run(5_000)
    assert of(found, "a") == FOO
    found.clients["a"].freeze(found.now_ms + 2_000)
    found.join("b", successor, ("foo",), "i")
    found.run(found.now_ms + 1_900)
    assert of(found, "a") == of(found, "b") == FOO
    assert causes(found) == {"replaced"}
    assert settle(found).problems == []
    assert found.clients.keys() == {"b"}


@pytest.mark.parametrize("release", ["4.0.0", LATEST])
def test_an_upgrade_gives_away_what_is_being_revoked(release: str) -> None:
    """A classic group knows who is to have what, not who still has it: the upgrade counts the former alone.

    A cooperative member is in its revoked callback when a member of the consumer protocol joins: that one, and another,
    get at once what the first still uses. The reference does not count it among the weak spots.
    """
    found = cluster(release=release)
    found.join("a", COOPERATIVE, ("foo",))
    found.run(5_000)
    found.clients["a"].slow_ms = 2_500
    found.join("b", COOPERATIVE, ("foo",))
    while not found.clients["a"].in_callback:
        found.run(found.now_ms + 10)
    found.join("c", FIXED, ("foo",))
    found.run(found.now_ms + 2_000)
    assert {one: cause for _, one, _, cause, _ in found.doubles} == {("foo", 2): "upgraded", ("foo", 3): "upgraded"}
    assert settle(found).problems == []


@pytest.mark.parametrize(("release", "expected"), [(LATEST, {"downgraded"}), ("4.0.2", {"downgraded"})])
def test_a_downgrade_by_replacement_gives_away_what_is_being_revoked(release: str, expected: set[str]) -> None:
    """Where the stored target is current, the classic group begins STABLE, with the targets as assignments.

    A cooperative member is in its revoked callback when a static consumer-protocol member comes back as a classic one,
    whose target is what the first still uses. The reference does not count it among the weak spots.
    """
    found = cluster(release=release)
    found.join("s", FIXED, ("bar",), "i")
    found.run(2_000)
    found.join("a", COOPERATIVE, ("foo",))
    found.run(8_000)
    assert of(found, "a") == FOO
    found.clients["a"].slow_ms = 3_500
    found.clients["s"].subscribe(("foo",))
    while not found.clients["a"].in_callback:
        found.run(found.now_ms + 10)
    found.kill("s")
    found.join("t", COOPERATIVE, ("foo",), "i")
    found.run(found.now_ms + 1_500)
    assert causes(found) == expected
    assert settle(found).problems == []


def test_a_group_without_members_takes_the_commit_of_one_that_left() -> None:
    """At its poll timeout a member is out; its next poll commits without an epoch, as who was never a member does.

    Nobody else is in the group, so the coordinator takes it; with others there it does not.
    """
    for others in (False, True):
        found = cluster()
        found.join("a", FIXED, ("foo",), commits=True)
        found.run(3_000)
        if others:
            found.join("b", FIXED, ("bar",))
        found.run(4_900)
        found.clients["a"].freeze(14_000)
        found.clients["a"].slow_ms = 500
        found.run(14_200)
        assert found.late_commits.keys() == (set() if others else {WITHOUT_EPOCH})
