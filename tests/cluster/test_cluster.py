"""Members and coordinator back to back: whatever happens, they converge, and nobody shares a partition unexplained."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from fsm.cluster.channel import NONE, Channel, Faults
from fsm.cluster.cluster import Cluster, Double
from fsm.cluster.disturbances import disturb, settle
from fsm.cluster.speech import GROUP
from fsm.cluster.translation import as_answered, as_sent
from fsm.kafka import classic_messages as classic
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.messages import OffsetCommitRequest, OffsetCommitResponse
from fsm.member.dialect import FIXED, RELEASES

LATEST = "4.4.0"
EXPLAINED = {"A5", "A7", "expired", "W6"}
"""What is no fault of anybody: the protocol cannot do better."""
FOO = tuple(("foo", i) for i in range(4))


def cluster(seed: int = 1, release: str = LATEST, faults: Faults = NONE) -> Cluster:
    return Cluster(random.Random(seed), release, faults)  # noqa: S311  # walks are to be repeated


def two(found: Cluster, spoken: str = FIXED) -> None:
    """Two settled consumers of one topic, two partitions each."""
    found.join("a", spoken, ("foo",))
    found.join("b", spoken, ("foo",))
    found.run(5_000)
    assert found.unsettled() == []
    assert {name: len(client.using) for name, client in found.clients.items()} == {"a": 2, "b": 2}


def of(found: Cluster, name: str) -> tuple[tuple[str, int], ...]:
    return found.clients[name].using


# How it goes where nothing goes wrong.


@pytest.mark.parametrize("release", ["4.0.0", "4.1.1", "4.2.0", "4.3.1", LATEST])
@pytest.mark.parametrize("spoken", ["4.0.0", "4.2.1", LATEST, FIXED])
def test_every_member_converges_with_every_coordinator(release: str, spoken: str) -> None:
    """Members of all dialects come, share, and leave what they had to those who stay; nothing is ever used twice."""
    found = cluster(release=release)
    found.join("a", spoken, ("foo",))
    found.run(3_000)
    assert of(found, "a") == FOO
    found.join("b", spoken, ("foo", "bar"))
    found.join("c", spoken, ("bar",))
    found.run(20_000)
    assert found.unsettled() == []
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 2_500)
    assert "b" not in found.clients
    assert settle(found).problems == []
    assert found.untold() == []
    assert found.doubles == []


def test_a_killed_member_is_replaced_after_its_session() -> None:
    """Its partitions stay with it for the session timeout, then the other one has them all."""
    found = cluster()
    two(found)
    found.kill("b")
    found.run(found.now_ms + 2_000)
    assert len(of(found, "a")) == 2
    found.run(found.now_ms + 4_000)
    assert of(found, "a") == FOO


def test_the_same_seed_is_the_same_run() -> None:
    """Two runs of one seed end with equal coordinators and equal doubles."""

    def run(seed: int) -> tuple[object, list[Double], int]:
        found = cluster(seed)
        disturb(found, (FIXED,), 15_000)
        return found.state, found.doubles, found.steps

    assert run(3) == run(3)
    assert run(3) != run(4)


# Under disturbances.


def disturbed(seed: int, release: str, spoken: tuple[str, ...]) -> Cluster:
    """A cluster after half a minute of whatever may happen, and a quiet, fair time."""
    found = cluster(seed, release)
    disturb(found, spoken, 30_000)
    assert settle(found).problems == [], f"seed {seed}"
    return found


@pytest.mark.parametrize("seed", range(2))
def test_disturbed_clusters_converge_and_share_nothing_unexplained(seed: int) -> None:
    """Loss, doubles, delays, frozen, dead, slow and silent members; then everybody holds what it shall, once."""
    found = disturbed(seed, LATEST, (FIXED,))
    assert found.untold() == []
    assert {double.cause for double in found.doubles} <= EXPLAINED
    assert found.steps > 1_000


@pytest.mark.parametrize(("release", "spoken"), [("4.0.0", "4.0.0"), (LATEST, LATEST)])
def test_released_members_converge_too(release: str, spoken: str) -> None:
    """So do members as they were released; an application that was never called back is their own fault (untold)."""
    found = disturbed(11, release, (spoken,))
    assert {double.cause for double in found.doubles} <= EXPLAINED | {"untold"}


@pytest.mark.slow
def test_a_million_steps() -> None:
    """A million events over all releases and dialects: no double is unexplained, every cluster converges."""
    steps, seed = 0, 1_000
    causes: Counter[str | None] = Counter()
    while steps < 1_000_000:
        release = RELEASES[seed % len(RELEASES)]
        found = disturbed(seed, release, (FIXED,) if seed % 2 else RELEASES)
        causes.update(double.cause for double in found.doubles)
        steps, seed = steps + found.steps, seed + 1
    assert causes.keys() <= EXPLAINED | {"untold"}
    assert causes["A5"] > 20
    assert causes["A7"] > 20
    assert causes["expired"] > 20


# Static members.


def test_a_static_member_keeps_its_partitions_through_a_restart() -> None:
    """A closed static member leaves with -2; who comes with its instance id gets what it had, without a rebalance."""
    found = cluster()
    found.join("a", FIXED, ("foo",), "i-a")
    found.join("b", FIXED, ("foo",), "i-b")
    found.run(5_000)
    had, group = of(found, "b"), found.consumer_group
    found.clients["b"].close(found.now_ms)
    found.run(found.now_ms + 500)
    assert "b" not in found.clients
    found.join("b", FIXED, ("foo",), "i-b")
    found.run(found.now_ms + 1_500)
    assert of(found, "b") == had
    assert found.consumer_group.epoch == group.epoch
    assert found.doubles == []


# The channel, and what goes through it.


def test_a_channel_loses_doubles_and_delays() -> None:
    """About as often as its faults say, and the same way for the same seed."""
    arrived: list[int] = []
    channel = Channel(random.Random(5), Faults(loses=0.2, doubles=0.1, latest_ms=10))  # noqa: S311
    for _ in range(1_000):
        channel.send(0, arrived.append)
    while channel.next_ms is not None:
        channel.deliver()
    assert 850 < len(arrived) < 950
    assert arrived == sorted(arrived)
    assert (min(arrived), max(arrived)) == (1, 50)


def test_commits_are_translated_both_ways() -> None:
    """Offsets by topic; what was not committed comes back by partition."""
    request = OffsetCommitRequest(GROUP, 5, "m", ((("bar", 1), 7), (("foo", 0), 3)), "i")
    sent = as_sent(request)
    assert (sent.api, sent.body["generation_id_or_member_epoch"], sent.body["group_instance_id"]) == (
        "OffsetCommit",
        5,
        "i",
    )
    assert [(t["name"], t["partitions"][0]["committed_offset"]) for t in sent.body["topics"]] == [
        ("bar", 7),
        ("foo", 3),
    ]
    partition = {"partition_index": 0, "error_code": "stale_member_epoch"}
    found = as_answered(request, {"topics": [{"name": "foo", "partitions": [partition]}]})
    assert found == OffsetCommitResponse(((("foo", 0), ErrorCode.STALE_MEMBER_EPOCH),))


def test_classic_requests_are_translated() -> None:
    """Bytes are base64 on the way, and bytes again in the answer."""
    join = classic.JoinGroupRequest(GROUP, 10, 20, "", (classic.JoinGroupRequestProtocol("range", b"\0\1"),))
    assert as_sent(join).body["protocols"] == [{"name": "range", "metadata": "AAE="}]
    sync = classic.SyncGroupRequest(GROUP, 1, "m", (classic.SyncGroupRequestAssignment("m", b"\2"),))
    assert as_sent(sync).body["assignments"] == [{"member_id": "m", "assignment": "Ag=="}]
    body = {"error_code": None, "protocol_type": "consumer", "protocol_name": "range", "assignment": "Ag=="}
    assert as_answered(sync, body) == classic.SyncGroupResponse(b"\2", "consumer", "range")
    leave = classic.LeaveGroupRequest(GROUP, (classic.MemberIdentity("m", None, "bye"),))
    assert as_sent(leave).body["members"] == [{"member_id": "m", "group_instance_id": None, "reason": "bye"}]
