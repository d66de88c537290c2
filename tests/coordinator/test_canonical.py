"""Coordinators as a search sees them: equal where they go on alike, whatever members are called and when it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fsm.coordinator import BrokerConfig, Context, Coordinator, Host, Image, PersistentMap, Step, Topic, dialect
from fsm.coordinator.canonical_form import CLOCK_MS, canonicalize
from fsm.coordinator.model.consumer_group import GroupMember, Members, new_member
from fsm.errors import InputError
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

LATER_MS = 987_654_321
ONE, OTHER = "Aa", "BB"
"""Ids that begin so have one hash code in Java and one order among each other: nothing tells the two runs apart."""
Life = Callable[[Host, tuple[str, ...]], None]
TOPIC = "AAAAAAAAAAEAAAAAAAAAAQ"


def begun(now_ms: int, release: str) -> Host:
    """A coordinator with one topic, which answered some requests before."""
    settings = BrokerConfig(group_consumer_assignment_interval_ms=500)
    image = Image(PersistentMap({"foo": Topic(TOPIC, 4)}), 1)
    host = Host(Context(now_ms, dialect(release), settings, image), resolves=False)
    for _ in range(3 if now_ms == LATER_MS else 0):
        host.send("x", HeartbeatRequest("nobody", 1, "m"))
    return host


def beat(host: Host, member_id: str, epoch: int | None = None, **fields: Any) -> None:
    """A consumer heartbeat; without an epoch its member is where it should be and reports what it has."""
    group = host.state.groups.get("g")
    if epoch is None:
        assert group is not None
        member = group.members[member_id]
        epoch, fields = member.epoch, {"topic_partitions": member.assigned, "instance_id": member.instance_id, **fields}
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 30_000, "topic_partitions": (), "subscribed_topic_names": ("foo",), **fields}
    host.send("client", ConsumerGroupHeartbeatRequest("g", member_id, epoch, **fields))


def live_as_consumers(host: Host, ids: tuple[str, ...]) -> None:
    """Members of the consumer protocol come, commit, go away, fall silent; patterns are resolved."""
    a, b, c, d = ids
    for member_id, fields in ((a, {}), (b, {"instance_id": "i"}), (c, {"subscribed_topic_regex": "fo+"})):
        beat(host, member_id, 0, **fields)
        host.advance(host.now_ms + 300)
    for _ in range(3):
        for member_id in (a, b, c):
            beat(host, member_id)
        host.advance(host.now_ms + 300)
    host.resolve()
    for producer_id in (5, 4):
        topic = TxnOffsetCommitRequestTopic("foo", partitions=(TxnOffsetCommitRequestPartition(0, 7),))
        host.send("client", TxnOffsetCommitRequest("t", "g", producer_id, 0, topics=(topic,)), 5)
    committed = OffsetCommitRequestTopic("foo", partitions=(OffsetCommitRequestPartition(1, 9),))
    epoch = host.state.groups["g"].members[a].epoch
    host.send("client", OffsetCommitRequest("g", epoch, a, topics=(committed,)), 9)
    beat(host, b, -2, instance_id="i")
    beat(host, d, 0, instance_id="i")
    host.end_transaction(5, commits=True)
    host.advance(host.now_ms + 91_000)
    host.clean_up()


def live_as_classic_members(host: Host, ids: tuple[str, ...]) -> None:
    """Members of the classic protocol: delayed joins and syncs, a session that ends, an upgrade."""

    def join(member_id: str, fresh_id: str = "") -> None:
        protocol = JoinGroupRequestProtocol("range", encode_subscription(Subscription(("foo",)), 1))
        host.send("c", JoinGroupRequest("g", 10_000, 30_000, member_id, protocols=(protocol,)), fresh_id=fresh_id)

    names = tuple(f"c-{member_id}" for member_id in ids[:3])
    for member_id in ids[:3]:
        join("", member_id)
    for name in names:
        join(name)
    host.advance(host.now_ms + 6_000)
    leader = host.state.groups["g"].leader
    parts = (encode_assignment(Assignment((("foo", i),)), 1) for i in range(3))
    given = tuple(map(SyncGroupRequestAssignment, names, parts))
    for name in sorted(names, key=lambda one: one == leader):
        host.send("c", SyncGroupRequest("g", 1, name, None, "consumer", "range", given if name == leader else ()))
    for name in names[:2]:
        host.send("c", HeartbeatRequest("g", 1, name))
    host.send("c", LeaveGroupRequest("g", (MemberIdentity(names[2]),)))
    join(names[0])
    host.advance(host.now_ms + 9_000)
    beat(host, ids[3], 0)
    host.advance(host.now_ms + 70_000)


def run(live: Life, release: str, prefix: str, now_ms: int) -> list[Coordinator]:
    """The states after each step, in the form of the run whose ids have `ONE` and which begins at 1 s."""
    ids = tuple(f"{i}{prefix}" for i in "1234")
    names = {name.replace(ONE, prefix): name for i in "1234" for name in (f"{i}{ONE}", f"c-{i}{ONE}")}
    host, found = begun(now_ms, release), list[Coordinator]()
    tokens = {token: token - host._tokens for token in range(host._tokens, 100)}

    def note(step: Step[Coordinator]) -> None:
        found.append(canonicalize(step.state, now_ms, names, tokens=tokens))

    host.on_step = note
    live(host, ids)
    return found


@pytest.mark.parametrize("release", ["4.0.0", "4.4.0"])
@pytest.mark.parametrize("live", [live_as_consumers, live_as_classic_members])
def test_two_runs_of_one_story_have_the_same_states(live: Life, release: str) -> None:
    """Other ids, other tokens, another clock: in their canonical form they are equal at each step, and hash alike."""
    first, second = run(live, release, ONE, 1_000), run(live, release, OTHER, LATER_MS)
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        assert one == other, i
        assert hash(one) == hash(other), i
    assert len(set(first)) > 15  # and they tell the steps apart


def test_what_is_not_named_stays() -> None:
    """Without names, tokens and time a state is its own form; each of them alone makes another one."""
    host = begun(1_000, "4.4.0")
    host.send("c", JoinGroupRequest("g", 10_000, 30_000), fresh_id="x")
    beat(host, "1Aa", 0)
    state = host.state
    assert canonicalize(state, CLOCK_MS) == state
    assert canonicalize(state, CLOCK_MS, {"1Aa": "z"}) != state
    assert canonicalize(state, CLOCK_MS - 1) != state
    assert canonicalize(canonicalize(state, CLOCK_MS - 5, {"1Aa": "z"}), CLOCK_MS + 5, {"z": "1Aa"}) == state


def test_an_instant_stays_one() -> None:
    """Zero and less stand for unknown: a shift that would reach them is refused."""
    host = begun(1_000, "4.4.0")
    beat(host, "1Aa", 0)
    with pytest.raises(InputError, match="not a valid instant"):
        canonicalize(host.state, CLOCK_MS + 1_000)


def committed_twice(first: int) -> Coordinator:
    """One partition's offset is pending in two transactions."""
    host = begun(1_000, "4.4.0")
    for producer_id in (first, 3 - first):
        topic = TxnOffsetCommitRequestTopic("foo", partitions=(TxnOffsetCommitRequestPartition(0, producer_id),))
        host.send("c", TxnOffsetCommitRequest("t", "g", producer_id, 0, topics=(topic,)), 5)
    return host.state


def test_the_order_of_transactions_counts() -> None:
    """Which of two pending offsets of a partition was written last decides what is committed in the end."""
    assert committed_twice(1) != committed_twice(2)


def advanced(*ids: str) -> Coordinator:
    """Two members, of which these were heard at one instant, in this order."""
    host = begun(1_000, "4.4.0")
    for member_id in ("a", "b"):
        beat(host, member_id, 0, subscribed_topic_names=())
    host.advance(2_000)
    for member_id in ids:
        beat(host, member_id)
    return host.state


def test_the_order_of_timers_counts() -> None:
    """Of sessions that end at one instant, the one that was set first ends first."""
    assert advanced("a", "b") != advanced("b", "a")
    assert advanced("a", "b") == advanced("b", "a", "b")
    assert advanced("a", "b").groups["g"].members == advanced("b", "a").groups["g"].members


def members(*ids: str, votes: Mapping[str, str] = PersistentMap()) -> Members:
    """Members of these ids, with their votes."""
    return Members.of(voting(new_member(i), votes.get(i)) for i in ids)


def voting(member: GroupMember, assignor: str | None) -> GroupMember:
    """The member with its vote."""
    return replace(member, metadata=replace(member.metadata, server_assignor=assignor))


def test_the_order_of_members_counts_where_they_share_a_slot() -> None:
    """Java's `Aa` and `BB` do: the coordinator walks them from the last to the first, and so do its assignors."""
    assert members("Aa", "BB") != members("BB", "Aa")
    assert members("Aa", "d") == members("d", "Aa")
    assert hash(members("Aa", "d")) == hash(members("d", "Aa"))


def test_a_table_that_grew_counts() -> None:
    """Tables of the coordinator do not shrink: members are walked in another order after a crowd was there."""
    crowd = members("a", "b", *map(str, range(20)))
    for i in range(20):
        crowd = crowd.without(str(i))
    assert crowd != members("a", "b")


def test_the_order_of_votes_counts_where_they_share_a_slot() -> None:
    """The first of two assignors with as many votes is elected."""
    one = members("x", "y", votes={"x": "Aa", "y": "BB"})
    other = members("y", "x", votes={"x": "Aa", "y": "BB"})
    assert one.by_id == other.by_id
    assert one != other
