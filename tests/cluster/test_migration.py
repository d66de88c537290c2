"""Groups of classic members, of both kinds, and on their way from one type to the other, from members' behaviour."""

from __future__ import annotations

import pytest
from cluster_scene import FOO, LATEST, cluster, kinds, of, two
from disturbances import settle

from fsm.cluster.client import BOTH, COOPERATIVE, EAGER
from fsm.cluster.cluster import Cluster
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.member.dialect.dialect import FIXED

SOME_RELEASES = ["4.0.0", "4.1.1", "4.2.0", "4.3.1", LATEST]
CLASSIC = [EAGER, COOPERATIVE, BOTH]
EITHER = "bidirectional"
UPGRADING = [("4.0.0", EITHER), ("4.1.1", "upgrade"), ("4.2.0", EITHER), ("4.3.1", "upgrade"), (LATEST, EITHER)]
DOWNGRADING = [("4.0.0", "downgrade"), ("4.1.1", EITHER), ("4.2.0", "downgrade"), ("4.3.1", EITHER), (LATEST, EITHER)]


def callbacks(found: Cluster, name: str, method: str) -> list[str]:
    """What the application of this client was called back for."""
    suffix = f"has ended on_partitions_{method} "
    return [
        event.what.removeprefix(suffix) for event in found.story.events if suffix in event.what and event.source == name
    ]


@pytest.mark.parametrize("release", SOME_RELEASES)
@pytest.mark.parametrize("dialect", CLASSIC)
def test_a_classic_group_shares_and_takes_over(release: str, dialect: str) -> None:
    """Two members share a topic; one leaves, and the other has it all; nothing is used twice."""
    found = cluster(release=release)
    two(found, dialect, dialect)
    assert isinstance(found.group, ClassicGroup)
    found.clients["a"].close(found.now_ms)
    found.run(found.now_ms + 6_000)
    assert of(found, "b") == FOO
    assert list(found.clients) == ["b"]
    assert found.find_unsettled() == []
    assert found.doubles == []


@pytest.mark.parametrize(("dialect", "first"), [(COOPERATIVE, []), (EAGER, [str(FOO)])])
def test_a_cooperative_member_gives_up_only_what_another_gets(dialect: str, first: list[str]) -> None:
    """An eager one gives up everything before each join."""
    found = cluster()
    found.join("a", dialect, ("foo",))
    found.run(5_000)
    found.join("b", dialect, ("foo",))
    found.run(found.now_ms + 5_000)
    half = str(of(found, "b"))
    revoked = [given for given in callbacks(found, "a", "revoked") if given != "()"]
    assert revoked == (first or [half])


@pytest.mark.parametrize("classic", CLASSIC)
@pytest.mark.parametrize(("release", "policy"), UPGRADING)
@pytest.mark.loop(8)
def test_a_group_goes_online_to_the_new_protocol(release: str, classic: str, policy: str) -> None:
    """A classic group takes in a consumer-protocol member, and goes on as a consumer group until all speak it."""
    found = cluster(release=release, policy=policy)
    two(found, classic, classic)
    found.join("c", FIXED, ("foo",))
    found.run(found.now_ms + 12_000)
    assert isinstance(found.group, ConsumerGroup)
    assert sorted(len(client.using) for client in found.clients.values()) == [1, 1, 2]
    assert found.find_unsettled() == []
    for name in ("a", "b"):
        found.clients[name].close(found.now_ms)
        found.run(found.now_ms + 5_000)
        found.join(name * 2, FIXED, ("foo",))
        found.run(found.now_ms + 8_000)
    assert kinds(found) == {"consumer"}
    assert found.find_unsettled() == []
    assert found.doubles == []


@pytest.mark.parametrize("classic", CLASSIC)
@pytest.mark.parametrize(("release", "policy"), DOWNGRADING)
def test_a_group_goes_online_back(release: str, classic: str, policy: str) -> None:
    """The last consumer-protocol member leaves, and the classic ones go on in a classic group, with what it had."""
    found = cluster(release=release, policy=policy)
    found.join("c", FIXED, ("foo",))
    found.run(2_000)
    found.join("a", classic, ("foo",))
    found.run(12_000)
    assert found.consumer_group.members.classic == 1
    assert (len(of(found, "a")), len(of(found, "c")), found.find_unsettled()) == (2, 2, [])
    found.clients["c"].close(found.now_ms)
    found.run(found.now_ms + 12_000)
    assert isinstance(found.group, ClassicGroup)
    assert (of(found, "a"), found.find_unsettled(), found.doubles) == (FOO, [], [])


@pytest.mark.parametrize(
    ("policy", "first", "second", "error"),
    [
        ("disabled", EAGER, FIXED, "GROUP_ID_NOT_FOUND"),
        ("downgrade", COOPERATIVE, FIXED, "GROUP_ID_NOT_FOUND"),
        ("disabled", FIXED, EAGER, "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_who_the_policy_refuses_ends_and_disturbs_nobody(policy: str, first: str, second: str, error: str) -> None:
    """The application sees the error and its process ends; the group goes on as it was."""
    found = cluster(policy=policy)
    found.join("a", first, ("foo",))
    found.run(5_000)
    found.join("b", second, ("foo",))
    found.run(found.now_ms + 3_000)
    assert f"poll() raises {error}" in {event.what for event in found.story.events if event.source == "b"}
    assert found.clients.keys() == {"a"}
    assert (of(found, "a"), settle(found), found.doubles) == (FOO, ([], None), [])


@pytest.mark.parametrize(
    ("before", "after"), [(EAGER, EAGER), (COOPERATIVE, FIXED), (FIXED, COOPERATIVE), (FIXED, EAGER)]
)
def test_a_static_member_restarts_with_either_protocol(before: str, after: str) -> None:
    """It comes back under its instance id with what it had; alone in its group, it takes the group along."""
    found = cluster()
    found.join("a", before, ("foo",), "i")
    found.run(5_000)
    found.clients["a"].close(found.now_ms)
    found.run(found.now_ms + 1_000)
    found.join("b", after, ("foo",), "i")
    found.run(found.now_ms + 5_000)
    assert isinstance(found.group, ConsumerGroup if after == FIXED else ClassicGroup)
    assert (of(found, "b"), found.find_unsettled(), found.doubles) == (FOO, [], [])


@pytest.mark.parametrize("dialect", [EAGER, COOPERATIVE])
def test_a_static_member_that_comes_back_with_more_topics_strands_them(dialect: str) -> None:
    """Its classic group does not look at the subscription, and begins no rebalance until somebody joins."""
    found = cluster()
    found.join("a", dialect, ("foo",), "i")
    found.run(5_000)
    found.kill("a")
    found.join("b", dialect, ("foo", "bar"), "i")
    found.run(found.now_ms + 20_000)
    assert (of(found, "b"), found.stranded) == (FOO, "static swap")
    assert settle(found) == ([], "static swap")
    assert len(of(found, "b")) == 7


@pytest.mark.parametrize("dialect", [FIXED, COOPERATIVE, EAGER])
def test_members_commit_before_they_give_up(dialect: str) -> None:
    """Positions of a member that leaves are the coordinator's when another takes over; nobody commits late."""
    found = cluster()
    found.join("a", dialect, ("foo",), commits=True)
    found.run(8_000)
    consumed = dict(found.clients["a"].consumed)
    found.join("b", dialect, ("foo",), commits=True)
    found.run(found.now_ms + 4_000)
    assert len(of(found, "b")) == 2
    committed = found.state.offsets["g"]
    assert all(consumed[one] <= committed[one].offset for one in of(found, "b"))
    assert found.late_commits == {}
