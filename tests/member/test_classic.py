"""The classic member in situations that real logs of the Java client show, one after the other as they happen.

A `Talk` leads one member. What the member does is told in words: requests by their name and what matters in them,
callbacks by their method and partitions, errors as poll() throws them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.errors import InputError, LocalProtocolError
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicEffect,
    ClassicInput,
    Close,
    EnforceRebalance,
    Generation,
    PartitionCountsUpdated,
    UnsentClassicRequest,
    new_member,
)
from fsm.member.classic.step import due_ms, poll_wanted_ms, step
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.member.events import (
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    GroupMembershipOperation,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    SyncCommitEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, partitions
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TransportFailure,
    commit_results,
)
from fsm.tables.classic_member import State

EAGER = ClassicConfig("g", session_timeout_ms=6_000, heartbeat_interval_ms=1_000, assignors=(RANGE,))
COOPERATIVE = replace(EAGER, assignors=(COOPERATIVE_STICKY,))
STATIC = replace(COOPERATIVE, group_instance_id="i")
C = ErrorCode


def t(*numbers: int) -> Partitions:
    return tuple(("t", n) for n in numbers)


class Talk:
    """One member, its time, and the requests of it that are not answered."""

    def __init__(self, config: ClassicConfig, topics: tuple[str, ...] = ("t",)) -> None:
        self.member = new_member(config)
        self.now_ms = 0
        self.open: dict[str, list[UnsentClassicRequest]] = {}
        self.last: list[ClassicEffect] = []
        self.give(PartitionCountsUpdated((("t", 4), ("u", 2))))
        self.give(TopicSubscriptionChangeEvent(topics))
        self.give(CoordinatorFound())

    def give(self, given: ClassicInput, after_ms: int = 0) -> list[str]:
        self.now_ms += after_ms
        taken = step(self.member, given, self.now_ms)
        self.member, self.last = taken.member, list(taken.effects)
        for effect in taken.effects:
            if isinstance(effect, UnsentClassicRequest):
                self.open.setdefault(name(effect), []).append(effect)
        return [line for effect in taken.effects if (line := words(effect))]

    def poll(self, after_ms: int = 0, **positions: int) -> list[str]:
        consumed = tuple((("t", int(p[1:])), offset) for p, offset in sorted(positions.items()))
        return self.give(AsyncPollEvent(consumed=consumed), after_ms)

    def tick(self, after_ms: int) -> list[str]:
        return self.give(Tick(), after_ms)

    def done(self, error: str | None = None) -> list[str]:
        """The callback that is open ends."""
        assert self.member.awaited is not None
        return self.give(ConsumerRebalanceListenerCallbackCompletedEvent(self.member.awaited.ticket, error))

    def answer(self, request: str, response: object, after_ms: int = 0) -> list[str]:
        return self.give(ClassicAnswered(self.open[request].pop(0), response), after_ms)  # type: ignore[arg-type]

    def joined(self, generation_id: int, *, member_id: str = "m", leader: str = "other", **more: object) -> list[str]:
        """A follower's JoinGroup succeeds, and the application polls."""
        name = self.member.config.assignors[0].name
        response = JoinGroupResponse(generation_id, "consumer", name, leader, member_id, **more)  # type: ignore[arg-type]
        return [*self.answer("JoinGroup", response), *self.poll()]

    def synced(self, *given: int, topic: str = "t") -> list[str]:
        """SyncGroup succeeds, and the application polls."""
        assignment = Assignment(tuple((topic, n) for n in given))
        name = self.member.config.assignors[0].name
        response = SyncGroupResponse(encode_assignment(assignment), protocol_type="consumer", protocol_name=name)
        return [*self.answer("SyncGroup", response), *self.poll()]

    def in_group(self, *given: int) -> Talk:
        """Led into generation 1 as member `m`, its callbacks done."""
        self.poll()
        self.joined(1)
        self.synced(*given)
        self.done()
        return self


NAMES = {
    JoinGroupRequest: "JoinGroup",
    SyncGroupRequest: "SyncGroup",
    HeartbeatRequest: "Heartbeat",
    LeaveGroupRequest: "LeaveGroup",
    OffsetCommitRequest: "OffsetCommit",
}


def name(request: UnsentClassicRequest) -> str:
    return NAMES[type(request.body)]


def words(effect: ClassicEffect) -> str | None:
    match effect:
        case UnsentClassicRequest(JoinGroupRequest() as body):
            owned = decode_subscription(body.protocols[0].metadata).owned_partitions
            return f"JoinGroup({body.member_id or '-'}) owning {numbers(owned)}"
        case UnsentClassicRequest(SyncGroupRequest() as body):
            return f"SyncGroup({body.generation_id})" + (" leading" if body.assignments else "")
        case UnsentClassicRequest(HeartbeatRequest() as body):
            return f"Heartbeat({body.generation_id})"
        case UnsentClassicRequest(LeaveGroupRequest() as body):
            return f"LeaveGroup({body.members[0].member_id}): {body.members[0].reason}"
        case UnsentClassicRequest(OffsetCommitRequest() as body):
            return f"OffsetCommit({body.generation_id_or_member_epoch})"
        case Enqueued(PartitionsRemovedEvent(_, method, gone)):
            return f"{method.name.lower()} {numbers(gone)}"
        case Enqueued(PartitionsAssignedEvent(_, _, added)):
            return f"assigned {numbers(added)}"
        case Enqueued(ErrorEvent(error)):
            return f"throws {error.name}"
        case CallCompleted(call, error) if call:
            return f"call {call}: {error.name if error else 'ok'}"
        case CoordinatorForgotten():
            return "coordinator forgotten"
    return None


def numbers(given: Partitions) -> str:
    return ",".join(f"{'' if topic == 't' else topic}{n}" for topic, n in given) or "nothing"


def unknown_member(talk: Talk) -> None:
    """What the coordinator answers to a member that it does not know any more."""
    talk.tick(1_000)
    talk.answer("Heartbeat", HeartbeatResponse(C.UNKNOWN_MEMBER_ID))


# Join, lead, heartbeat, leave


def test_member_joins_leads_heartbeats_and_leaves() -> None:
    """The whole life: a name, a generation, an assignment computed, heartbeats at their interval, close."""
    talk = Talk(EAGER)
    assert talk.poll() == ["JoinGroup(-) owning nothing"]
    assert talk.answer("JoinGroup", JoinGroupResponse(member_id="m", error_code=C.MEMBER_ID_REQUIRED)) == []
    assert talk.poll() == ["JoinGroup(m) owning nothing"]
    wants = encode_subscription(Subscription(("t",)))
    members = (JoinGroupResponseMember("m", metadata=wants), JoinGroupResponseMember("n", metadata=wants))
    assert talk.joined(1, leader="m", members=members) == ["SyncGroup(1) leading"]
    body = talk.open["SyncGroup"][0].body
    assert isinstance(body, SyncGroupRequest)
    given = {a.member_id: decode_assignment(a.assignment).partitions for a in body.assignments}
    assert given == {"m": t(0, 1), "n": t(2, 3)}
    assert talk.synced(0, 1) == ["assigned 0,1"]
    assert talk.done() == []
    assert due_ms(talk.member) == 1_000
    assert talk.tick(999) == []
    assert talk.tick(1) == ["Heartbeat(1)"]
    assert talk.answer("Heartbeat", HeartbeatResponse()) == []
    assert talk.give(Close(call=9)) == ["revoked 0,1"]
    assert talk.done() == ["LeaveGroup(m): the consumer is being closed"]
    assert talk.answer("LeaveGroup", LeaveGroupResponse()) == ["call 9: ok"]
    assert talk.member.closed
    assert talk.member.generation == Generation()


def test_member_is_a_value() -> None:
    """A step changes nothing in the member it is given, and the same step gives the same; members are hashable."""
    talk = Talk(COOPERATIVE).in_group(0, 1)
    before = talk.member
    first, second = step(before, Tick(), 1_000), step(before, Tick(), 1_000)
    assert first == second
    assert hash(first.member) == hash(second.member)
    assert before.heartbeats.heartbeat_due_ms == 1_000


def test_member_keeps_whatever_name_the_coordinator_gives() -> None:
    """B11: the id in the answer counts, be it 22 characters of base64 in a group of the other protocol."""
    talk = Talk(EAGER)
    talk.poll()
    talk.joined(5, member_id="QucL7FYSWaZTw1xkEoqD0A")
    assert talk.member.generation == Generation(5, "QucL7FYSWaZTw1xkEoqD0A", "range")


def test_join_waits_for_a_poll_to_be_read() -> None:
    """The heartbeat thread rests while a join is out, so nobody reads its answer before the application polls."""
    talk = Talk(EAGER)
    talk.poll()
    response = JoinGroupResponse(1, "consumer", "range", "other", "m")
    assert talk.answer("JoinGroup", response) == []
    assert talk.member.state is State.PREPARING_REBALANCE
    assert poll_wanted_ms(talk.member) == 0
    assert talk.poll() == ["SyncGroup(1)"]
    assert talk.member.state is State.COMPLETING_REBALANCE


# Eager and cooperative rebalances


def test_eager_member_commits_and_revokes_everything_before_it_joins() -> None:
    """Java-logs 3: the commit, its answer, the revoked callback, then the join that owns nothing."""
    talk = Talk(EAGER).in_group(0, 1)
    assert talk.tick(1_000) == ["Heartbeat(1)"]
    talk.answer("Heartbeat", HeartbeatResponse(C.REBALANCE_IN_PROGRESS))
    assert talk.poll(p0=5, p1=7, p3=9) == ["OffsetCommit(1)"]
    body = talk.open["OffsetCommit"][0].body
    assert isinstance(body, OffsetCommitRequest)
    assert body.offsets == ((("t", 0), 5), (("t", 1), 7))
    assert talk.poll() == []
    assert talk.answer("OffsetCommit", OffsetCommitResponse()) == []
    assert talk.poll() == ["revoked 0,1"]
    assert talk.done() == ["JoinGroup(m) owning nothing"]
    assert talk.joined(2) == ["SyncGroup(2)"]
    assert talk.synced(1) == ["assigned 1"]


def test_eager_member_revokes_even_nothing() -> None:
    """A member that was given nothing gets the revoked callback all the same, as Java calls it."""
    talk = Talk(EAGER).in_group()
    talk.give(EnforceRebalance())
    assert talk.poll() == ["revoked nothing"]


def test_commit_before_a_join_is_not_waited_for_longer_than_the_rebalance_timeout() -> None:
    """The coordinator would throw the member out: it goes on without the commit."""
    talk = Talk(replace(EAGER, max_poll_interval_ms=4_000)).in_group(0)
    talk.give(EnforceRebalance())
    assert talk.poll(p0=1) == ["OffsetCommit(1)"]
    assert talk.poll(after_ms=3_999, p0=1) == []
    assert talk.poll(after_ms=1, p0=1) == ["revoked 0"]


def test_commit_before_a_join_is_tried_again_after_an_error_that_passes() -> None:
    """COORDINATOR_LOAD_IN_PROGRESS: again after `retry.backoff.ms`, under the same deadline."""
    talk = Talk(EAGER).in_group(0)
    talk.give(EnforceRebalance())
    talk.poll(p0=1)
    talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), C.COORDINATOR_LOAD_IN_PROGRESS),))))
    assert talk.poll(p0=1) == []
    assert poll_wanted_ms(talk.member) == talk.now_ms + 100
    assert talk.poll(after_ms=100, p0=1) == ["OffsetCommit(1)"]
    talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), C.OFFSET_METADATA_TOO_LARGE),))))
    assert talk.poll(p0=1) == ["revoked 0"]


def test_positions_are_committed_from_time_to_time() -> None:
    """`auto.commit.interval.ms`, counted from the assignment: by a poll, and only while the member is settled."""
    talk = Talk(replace(EAGER, auto_commit_interval_ms=1_000)).in_group(0, 1)
    assert poll_wanted_ms(talk.member) == talk.now_ms + 1_000
    assert talk.poll(after_ms=999, p0=1) == []
    assert talk.tick(1) == ["Heartbeat(1)"]
    assert talk.poll(p0=1, p3=9) == ["OffsetCommit(1)"]
    body = talk.open["OffsetCommit"][0].body
    assert isinstance(body, OffsetCommitRequest)
    assert body.offsets == ((("t", 0), 1),)
    assert talk.answer("OffsetCommit", OffsetCommitResponse()) == []
    assert talk.poll(after_ms=999, p0=2) == []
    assert talk.poll(after_ms=1, p0=2) == ["OffsetCommit(1)"]
    talk.give(EnforceRebalance())
    talk.poll(after_ms=1_000, p0=3)
    assert poll_wanted_ms(talk.member) > talk.now_ms
    assert Talk(replace(EAGER, enable_auto_commit=False)).in_group(0).member.commit_due_ms == NEVER


def test_nothing_that_was_consumed_is_not_committed() -> None:
    """The interval begins anew without a request."""
    talk = Talk(replace(EAGER, auto_commit_interval_ms=1_000)).in_group(0)
    assert talk.poll(after_ms=1_000) == []
    assert poll_wanted_ms(talk.member) == talk.now_ms + 1_000


@pytest.mark.parametrize(
    ("code", "wait_ms", "state"),
    [
        (C.COORDINATOR_LOAD_IN_PROGRESS, 100, State.STABLE),
        (C.OFFSET_METADATA_TOO_LARGE, 1_000, State.STABLE),
        (C.ILLEGAL_GENERATION, 1_000, State.UNJOINED),
    ],
)
def test_commit_of_the_interval_that_fails(code: ErrorCode, wait_ms: int, state: State) -> None:
    """Nobody is told; one that may succeed later is tried again after `retry.backoff.ms`."""
    talk = Talk(replace(EAGER, auto_commit_interval_ms=1_000)).in_group(0)
    talk.poll(after_ms=1_000, p0=1)
    assert talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), code),)))) == []
    assert talk.member.state is state
    assert talk.member.commit_due_ms == talk.now_ms + wait_ms


def test_fenced_commit_of_the_interval_makes_every_poll_throw() -> None:
    """As a commit before a join does."""
    talk = Talk(replace(STATIC, auto_commit_interval_ms=1_000)).in_group(0)
    talk.poll(after_ms=1_000, p0=1)
    talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), C.FENCED_INSTANCE_ID),))))
    assert [talk.poll(), talk.poll()] == [["throws FENCED_INSTANCE_ID"], ["throws FENCED_INSTANCE_ID"]]


def test_cooperative_member_keeps_its_partitions_and_gives_up_in_a_second_round() -> None:
    """Java-logs 3: revoked after the sync, then assigned, then the second join with what is left."""
    talk = Talk(COOPERATIVE).in_group(0, 1)
    talk.give(EnforceRebalance())
    assert talk.poll() == ["JoinGroup(m) owning 0,1"]
    assert talk.joined(2) == ["SyncGroup(2)"]
    assert talk.synced(0) == ["revoked 1"]
    assert talk.member.owned == t(0, 1)
    assert talk.done() == ["assigned nothing"]
    assert talk.done() == ["JoinGroup(m) owning 0"]
    body = talk.open["JoinGroup"][0].body
    assert isinstance(body, JoinGroupRequest)
    assert body.reason == "need to revoke partitions and re-join"
    wants = decode_subscription(body.protocols[0].metadata)
    assert (wants.generation_id, wants.user_data) == (2, b"\x00\x00\x00\x02")


def test_cooperative_member_revokes_topics_it_left_before_the_join() -> None:
    """A changed subscription: what nobody would let it keep is revoked first, the rest is kept."""
    talk = Talk(COOPERATIVE, topics=("t", "u"))
    talk.poll()
    talk.joined(1)
    response = SyncGroupResponse(encode_assignment(Assignment(partitions([*t(0), ("u", 1)]))))
    talk.answer("SyncGroup", response)
    assert talk.poll() == ["assigned 0,u1"]
    talk.done()
    talk.give(TopicSubscriptionChangeEvent(("t",)))
    assert talk.poll() == ["revoked u1"]
    assert talk.done() == ["JoinGroup(m) owning 0"]


def test_assignment_of_an_older_subscription_is_not_applied() -> None:
    """The subscription changed while the sync was out: the member joins again instead of taking foreign topics."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    talk.joined(1)
    talk.give(TopicSubscriptionChangeEvent(("u",)))
    assert talk.synced(0) == ["JoinGroup(m) owning nothing"]
    assert talk.member.owned == ()


def test_pattern_takes_topics_that_its_leader_knew_first() -> None:
    """Topics that match are the member's, also those that its own metadata has not shown yet."""
    talk = Talk(COOPERATIVE)
    talk.give(TopicPatternSubscriptionChangeEvent("t|v.*"))
    talk.poll()
    talk.joined(1)
    assert talk.synced(0, topic="v1") == ["assigned v10"]
    assert talk.member.topics == ("t", "v1")
    talk.done()
    assert talk.poll() == []
    talk.give(EnforceRebalance())
    talk.poll()
    talk.joined(2)
    assert talk.synced(0, topic="w") == ["JoinGroup(m) owning v10"]


def test_topic_that_begins_to_match_the_pattern_makes_the_member_join_again() -> None:
    """Seen in the metadata; a topic that does not match changes nothing."""
    talk = Talk(COOPERATIVE)
    talk.give(TopicPatternSubscriptionChangeEvent("t.*"))
    talk.in_group(0)
    talk.give(PartitionCountsUpdated((("s", 1), ("t", 4))))
    assert talk.poll() == []
    talk.give(PartitionCountsUpdated((("s", 1), ("t", 4), ("t2", 1))))
    assert talk.poll() == ["JoinGroup(m) owning 0"]
    assert talk.member.rejoin_reason == "subscription has changed"


def test_member_without_auto_commit_revokes_at_once() -> None:
    """`enable.auto.commit=false`: the application commits in its callback."""
    talk = Talk(replace(EAGER, enable_auto_commit=False)).in_group(0)
    talk.give(EnforceRebalance())
    assert talk.poll(p0=3) == ["revoked 0"]
    assert talk.give(SyncCommitEvent(((("t", 0), 3),), call=1)) == ["OffsetCommit(1)"]
    assert talk.done() == ["JoinGroup(m) owning nothing"]


def test_sync_that_meets_the_next_rebalance_is_followed_by_a_join() -> None:
    """REBALANCE_IN_PROGRESS: generation and partitions are kept, nothing is prepared again."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.give(EnforceRebalance())
    talk.poll()
    talk.joined(2)
    assert talk.answer("SyncGroup", SyncGroupResponse(error_code=C.REBALANCE_IN_PROGRESS)) == []
    assert talk.poll() == ["JoinGroup(m) owning 0"]
    assert talk.member.generation.generation_id == 2


def test_leader_joins_again_when_its_topics_change() -> None:
    """Only who led the last rebalance watches; topics of nobody's subscription do not count."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    members = (JoinGroupResponseMember("m", metadata=encode_subscription(Subscription(("t",)))),)
    talk.joined(1, leader="m", members=members)
    talk.synced(0, 1, 2, 3)
    talk.done()
    talk.give(PartitionCountsUpdated((("t", 4), ("u", 3))))
    assert talk.poll() == []
    talk.give(PartitionCountsUpdated((("t", 5), ("u", 3))))
    assert talk.poll() == ["JoinGroup(m) owning 0,1,2,3"]
    assert talk.member.rejoin_reason == "cached metadata has changed"


def test_static_leader_that_comes_back_assigns_nothing() -> None:
    """`skip_assignment`: the assignment stays what it was; the leader only watches again."""
    talk = Talk(STATIC)
    talk.poll()
    members = (JoinGroupResponseMember("m", "i", encode_subscription(Subscription(("t",)))),)
    assert talk.joined(3, leader="m", members=members, skip_assignment=True) == ["SyncGroup(3)"]
    assert talk.member.led_metadata == (("t", 4),)


def test_assignor_that_raises_ends_the_rebalance() -> None:
    """The error is thrown by poll(); no sync is sent; the next poll joins again."""

    def broken(*_: object) -> dict[str, Partitions]:
        raise ZeroDivisionError("no members")

    talk = Talk(replace(EAGER, assignors=(ClientAssignor("range", broken, cooperative=False),)))
    talk.poll()
    members = (JoinGroupResponseMember("m", metadata=encode_subscription(Subscription(("t",)))),)
    assert talk.joined(1, leader="m", members=members) == ["throws ZeroDivisionError"]
    assert talk.poll() == ["JoinGroup(m) owning nothing"]


# Out of the group and back


def test_member_that_does_not_poll_leaves_and_holds_its_partitions_until_it_polls() -> None:
    """B2: the leave goes out at the expiry, the lost callback comes with the next poll: double ownership between."""
    talk = Talk(replace(COOPERATIVE, max_poll_interval_ms=4_000)).in_group(0, 1)
    for _ in range(3):
        talk.tick(1_000)
        talk.answer("Heartbeat", HeartbeatResponse())
    assert talk.tick(1_000) == ["LeaveGroup(m): consumer poll timeout has expired."]
    assert talk.member.owned == t(0, 1)
    assert due_ms(talk.member) == NEVER
    assert talk.poll(after_ms=9_000, p0=4) == ["lost 0,1"]
    assert talk.done() == ["JoinGroup(-) owning nothing"]


def test_static_member_that_does_not_poll_keeps_its_place() -> None:
    """No leave is sent: the coordinator waits for the session to end."""
    talk = Talk(replace(STATIC, max_poll_interval_ms=1_000)).in_group(0)
    assert talk.tick(1_000) == []
    assert talk.member.state is State.UNJOINED
    assert talk.poll() == ["lost 0"]


def test_slow_callback_runs_into_the_poll_timeout() -> None:
    """An application inside its callback does not poll: the member leaves, and the callback's end rejoins."""
    talk = Talk(replace(COOPERATIVE, max_poll_interval_ms=3_000)).in_group(0, 1)
    talk.give(EnforceRebalance())
    talk.poll()
    talk.joined(2)
    assert talk.synced(0) == ["revoked 1"]
    assert talk.poll(after_ms=1_000) == []
    assert talk.tick(2_000) == ["LeaveGroup(m): consumer poll timeout has expired."]
    assert talk.done() == ["assigned nothing"]
    assert talk.done() == ["lost 0"]
    assert talk.done() == ["JoinGroup(-) owning nothing"]


def test_reset_between_sync_and_poll_makes_the_assignment_outdated() -> None:
    """The assignment of a generation that is gone is never applied."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    talk.joined(1)
    talk.answer("SyncGroup", SyncGroupResponse(encode_assignment(Assignment(t(0)))))
    unknown_member(talk)
    assert talk.poll() == ["JoinGroup(-) owning nothing"]
    assert talk.member.owned == ()


def test_reset_while_the_sync_is_out_makes_its_answer_useless() -> None:
    """An answer to a sync of a generation that is gone counts as ILLEGAL_GENERATION."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    talk.joined(1)
    unknown_member(talk)
    assert talk.synced(0) == ["JoinGroup(-) owning nothing"]


def test_unknown_member_id_loses_everything_and_joins_without_a_name() -> None:
    """Of a heartbeat: generation and member id are gone."""
    talk = Talk(EAGER).in_group(0, 1)
    unknown_member(talk)
    assert talk.poll() == ["lost 0,1"]
    assert talk.done() == ["JoinGroup(-) owning nothing"]


def test_illegal_generation_loses_everything_but_the_name() -> None:
    """Of a heartbeat: the coordinator may still know the member id, and a join under it replaces the old place."""
    talk = Talk(EAGER).in_group(0, 1)
    talk.tick(1_000)
    talk.answer("Heartbeat", HeartbeatResponse(C.ILLEGAL_GENERATION))
    assert talk.poll() == ["lost 0,1"]
    assert talk.done() == ["JoinGroup(m) owning nothing"]


def test_answer_to_an_older_generation_changes_nothing() -> None:
    """A heartbeat sent before the rebalance fails after it: stale."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.tick(1_000)
    talk.give(EnforceRebalance())
    talk.poll()
    talk.joined(2)
    before = talk.member
    talk.answer("Heartbeat", HeartbeatResponse(C.UNKNOWN_MEMBER_ID))
    assert talk.member.state is State.COMPLETING_REBALANCE
    assert talk.member.generation == before.generation


def test_join_that_is_refused_after_a_reset_is_stale() -> None:
    """The heartbeat has told already that the member id is unknown; the join's answer tells nothing new."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.tick(1_000)
    talk.give(EnforceRebalance())
    talk.poll()
    talk.answer("Heartbeat", HeartbeatResponse(C.UNKNOWN_MEMBER_ID))
    talk.answer("JoinGroup", JoinGroupResponse(error_code=C.UNKNOWN_MEMBER_ID))
    assert talk.poll() == ["lost 0"]
    assert talk.done() == ["JoinGroup(-) owning nothing"]
    assert talk.member.rejoin_reason == "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"


def test_sync_that_is_refused_after_a_reset_is_stale() -> None:
    """Likewise: one reset, one join."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    talk.joined(1)
    unknown_member(talk)
    talk.answer("SyncGroup", SyncGroupResponse(error_code=C.ILLEGAL_GENERATION))
    assert talk.poll() == ["JoinGroup(-) owning nothing"]


def test_heartbeat_answer_during_the_next_join_is_ignored() -> None:
    """REBALANCE_IN_PROGRESS while the join is out asks for nothing new."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.tick(1_000)
    talk.give(EnforceRebalance())
    talk.poll()
    assert talk.answer("Heartbeat", HeartbeatResponse(C.REBALANCE_IN_PROGRESS)) == []
    assert talk.member.rejoin_reason == "rebalance enforced by user"


@pytest.mark.parametrize(
    ("code", "name", "next_id"),
    [
        (C.UNKNOWN_MEMBER_ID, "UnknownMemberIdException", "-"),
        (C.ILLEGAL_GENERATION, "IllegalGenerationException", "m"),
        (C.REBALANCE_IN_PROGRESS, "RebalanceInProgressException", "m"),
    ],
)
def test_failed_sync_joins_again_at_once(code: ErrorCode, name: str, next_id: str) -> None:
    """The errors after which a sync is not waited for; each with the reason that the next join gives."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    talk.joined(1)
    talk.answer("SyncGroup", SyncGroupResponse(error_code=code))
    assert talk.poll() == [f"JoinGroup({next_id}) owning nothing"]
    assert talk.member.rejoin_reason == f"rebalance failed due to {name}"


@pytest.mark.parametrize("code", [C.COORDINATOR_LOAD_IN_PROGRESS, C.UNKNOWN_MEMBER_ID, C.REBALANCE_IN_PROGRESS])
def test_failed_join_is_repeated(code: ErrorCode) -> None:
    """Only a coordinator that loads makes the member wait, for `retry.backoff.ms`."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    talk.answer("JoinGroup", JoinGroupResponse(error_code=code))
    wait_ms = 100 if code is C.COORDINATOR_LOAD_IN_PROGRESS else 0
    replies = talk.poll()
    assert (replies == []) == (wait_ms > 0)
    assert (replies or talk.poll(after_ms=wait_ms)) == ["JoinGroup(-) owning nothing"]


# The coordinator goes away


def test_restarted_broker_makes_a_member_join_again_and_revoke_nothing() -> None:
    """B10: NOT_COORDINATOR of a sync; the next join says why, after the backoff and after the coordinator is found."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.give(EnforceRebalance())
    talk.poll()
    talk.joined(2)
    assert talk.answer("SyncGroup", SyncGroupResponse(error_code=C.NOT_COORDINATOR)) == ["coordinator forgotten"]
    assert talk.poll(after_ms=500) == []
    assert poll_wanted_ms(talk.member) == NEVER
    talk.give(CoordinatorFound())
    assert talk.poll() == ["JoinGroup(m) owning 0"]
    assert talk.member.rejoin_reason == "rebalance failed due to NotCoordinatorException"


def test_broken_connection_does_not_end_the_membership() -> None:
    """A heartbeat that is not answered: the coordinator is looked for, and heartbeats go on where it is found."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.tick(1_000)
    assert talk.answer("Heartbeat", DISCONNECTED) == ["coordinator forgotten"]
    assert talk.tick(5_000) == []
    talk.give(CoordinatorFound())
    assert talk.poll() == []
    assert talk.tick(0) == ["Heartbeat(1)"]


def test_silent_coordinator_is_looked_for_anew_after_the_session_timeout() -> None:
    """Six unanswered heartbeats: the session is over by the member's clock, and another coordinator is asked."""
    talk = Talk(COOPERATIVE).in_group(0)
    replies = [word for _ in range(6) for word in talk.tick(1_000)]
    assert replies == ["Heartbeat(1)"] * 5 + ["coordinator forgotten"]
    assert talk.member.state is State.STABLE


def test_failed_heartbeats_back_off_and_double() -> None:
    """COORDINATOR_NOT_AVAILABLE: 100, 200, 400 ms; jitter moves a fifth; a success starts anew."""
    talk = Talk(COOPERATIVE).in_group(0)
    waits = []
    talk.tick(1_000)
    for jitter in (0.0, 0.0, 1.0):
        request = talk.open["Heartbeat"].pop()
        talk.give(ClassicAnswered(request, HeartbeatResponse(C.COORDINATOR_NOT_AVAILABLE), jitter))
        talk.give(CoordinatorFound())
        waits.append(due_ms(talk.member) - talk.now_ms)
        talk.tick(waits[-1])
    assert waits == [100, 200, 480]
    talk.answer("Heartbeat", HeartbeatResponse())
    assert talk.member.heartbeats.attempts == 0


def test_lost_coordinator_is_forgotten_once() -> None:
    """Who hears of it a second time has nothing to do."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.tick(1_000)
    assert talk.give(CoordinatorLost()) == ["coordinator forgotten"]
    assert talk.answer("Heartbeat", DISCONNECTED) == []


def test_join_that_is_lost_on_the_way_is_sent_again() -> None:
    """The connection breaks with the join out."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    assert talk.answer("JoinGroup", DISCONNECTED) == ["coordinator forgotten"]
    talk.give(CoordinatorFound())
    assert talk.poll() == []
    assert talk.poll(after_ms=100) == ["JoinGroup(-) owning nothing"]
    assert talk.member.rejoin_reason == "rebalance failed due to DisconnectException"


# Errors that are thrown


def test_two_processes_of_one_instance_id_fence_each_other_for_ever() -> None:
    """B5: each fencing throws once, then loses everything and joins, which fences the other one; no end by itself."""
    talk = Talk(STATIC).in_group(0, 1)
    for generation_id in (1, 2, 3):
        talk.tick(1_000)
        assert talk.answer("Heartbeat", HeartbeatResponse(C.FENCED_INSTANCE_ID)) == []
        assert talk.tick(1_000) == []
        assert talk.poll() == ["throws FENCED_INSTANCE_ID"]
        assert talk.poll() == ["lost 0,1"]
        assert talk.done() == ["JoinGroup(-) owning nothing"]
        talk.joined(generation_id + 1)
        talk.synced(0, 1)
        talk.done()


def test_close_of_a_member_that_was_fenced_often_ends() -> None:
    """B12: in the Java client threads left behind by fencings make close() hang; here nothing is left behind."""
    talk = Talk(STATIC).in_group(0)
    for generation_id in range(2, 12):
        talk.tick(1_000)
        talk.answer("Heartbeat", HeartbeatResponse(C.FENCED_INSTANCE_ID))
        talk.poll()
        talk.poll()
        talk.done()
        talk.joined(generation_id)
        talk.synced(0)
        talk.done()
    assert talk.give(Close(call=3, timeout_ms=10_000)) == ["revoked 0"]
    assert talk.done() == ["call 3: ok"]


def test_fenced_join_is_thrown() -> None:
    """FENCED_INSTANCE_ID of a join is fatal for that poll, and comes back at the next."""
    talk = Talk(STATIC)
    talk.poll()
    talk.answer("JoinGroup", JoinGroupResponse(error_code=C.FENCED_INSTANCE_ID))
    assert talk.poll() == ["throws FENCED_INSTANCE_ID"]
    assert talk.poll() == ["JoinGroup(-) owning nothing"]


def test_refused_member_hears_it_at_every_poll() -> None:
    """B9: INCONSISTENT_GROUP_PROTOCOL is thrown, and the next poll tries again at once."""
    talk = Talk(EAGER)
    for _ in range(3):
        assert talk.poll() == ["JoinGroup(-) owning nothing"]
        talk.answer("JoinGroup", JoinGroupResponse(error_code=C.INCONSISTENT_GROUP_PROTOCOL))
        assert talk.poll() == ["throws INCONSISTENT_GROUP_PROTOCOL"]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (SyncGroupResponse(encode_assignment(Assignment(())), protocol_type="connect"), "INCONSISTENT_GROUP_PROTOCOL"),
        (
            SyncGroupResponse(encode_assignment(Assignment(())), protocol_type="consumer", protocol_name="roundrobin"),
            "INCONSISTENT_GROUP_PROTOCOL",
        ),
        (SyncGroupResponse(b"\x00"), "INCONSISTENT_GROUP_PROTOCOL"),
        (SyncGroupResponse(error_code=C.GROUP_AUTHORIZATION_FAILED), "GROUP_AUTHORIZATION_FAILED"),
        (TransportFailure("UnsupportedVersionException", retriable=False), "UnsupportedVersionException"),
    ],
)
def test_sync_that_cannot_be_used_is_thrown(response: object, error: str) -> None:
    """Another protocol, bytes that are no assignment, no right: thrown, and the next poll joins."""
    talk = Talk(EAGER)
    talk.poll()
    talk.joined(1)
    assert talk.answer("SyncGroup", response) == [f"throws {error}"]
    assert talk.poll() == ["JoinGroup(m) owning nothing"]


def test_join_of_another_protocol_type_is_thrown() -> None:
    """A coordinator that answers for `connect` is refused."""
    talk = Talk(EAGER)
    talk.poll()
    talk.answer("JoinGroup", JoinGroupResponse(1, "connect", "range", "m", "m"))
    assert talk.poll() == ["throws INCONSISTENT_GROUP_PROTOCOL"]


# Callbacks that raise


def test_revoked_callback_that_raises_does_not_stop_the_rebalance() -> None:
    """B7: poll() throws, the partitions are gone all the same, and the next poll joins."""
    talk = Talk(EAGER).in_group(0, 1)
    talk.give(EnforceRebalance())
    assert talk.poll() == ["revoked 0,1"]
    assert talk.done("boom") == ["throws KafkaException"]
    assert talk.member.owned == ()
    assert talk.poll() == ["JoinGroup(m) owning nothing"]


def test_assigned_callback_that_raises_is_called_again_for_nothing() -> None:
    """The assignment stands; the join is not over before a callback succeeds, so that the next poll repeats it."""
    talk = Talk(EAGER)
    talk.poll()
    talk.joined(1)
    assert talk.synced(0) == ["assigned 0"]
    assert talk.done("boom") == ["throws KafkaException"]
    assert talk.member.owned == t(0)
    assert talk.poll() == ["assigned nothing"]
    assert talk.done() == []
    assert talk.poll() == []


def test_cooperative_row_is_done_to_its_end_before_the_first_error_is_thrown() -> None:
    """The revoked callback raises: the assigned one runs, the rejoin is asked for, then poll() throws."""
    talk = Talk(COOPERATIVE).in_group(0, 1)
    talk.give(EnforceRebalance())
    talk.poll()
    talk.joined(2)
    assert talk.synced(1, 2) == ["revoked 0"]
    assert talk.done("boom") == ["assigned 2"]
    assert talk.done() == ["throws KafkaException"]
    assert talk.poll() == ["assigned nothing"]
    assert talk.done() == ["JoinGroup(m) owning 1,2"]


def test_close_with_a_callback_that_raises_sends_no_leave() -> None:
    """The coordinator learns of it only by the session timeout; close() returns with the error."""
    talk = Talk(EAGER).in_group(0)
    assert talk.give(Close(call=4)) == ["revoked 0"]
    assert talk.done("boom") == ["call 4: KafkaException"]
    assert talk.member.owned == ()


def test_end_of_a_callback_that_nobody_asked_for_is_refused() -> None:
    """The embedding's fault; the member stays as it was."""
    talk = Talk(EAGER).in_group(0)
    before = talk.member
    with pytest.raises(LocalProtocolError, match="no callback of ticket 7 is open"):
        talk.give(ConsumerRebalanceListenerCallbackCompletedEvent(7))
    assert talk.member == before


# Commits


def test_commit_of_a_member_that_does_not_poll() -> None:
    """B6: it succeeds under the old generation while the group rebalances, and fails once the member is out."""
    talk = Talk(replace(COOPERATIVE, max_poll_interval_ms=4_000)).in_group(0)
    talk.tick(1_000)
    talk.answer("Heartbeat", HeartbeatResponse(C.REBALANCE_IN_PROGRESS))
    assert talk.give(SyncCommitEvent(((("t", 0), 3),), call=1)) == ["OffsetCommit(1)"]
    assert talk.answer("OffsetCommit", OffsetCommitResponse()) == ["call 1: ok"]
    talk.tick(3_000)
    assert talk.give(SyncCommitEvent(((("t", 0), 4),), call=2)) == ["call 2: CommitFailedException"]


@pytest.mark.parametrize(
    ("code", "error", "state", "member_id"),
    [
        (C.REBALANCE_IN_PROGRESS, "REBALANCE_IN_PROGRESS", State.STABLE, "m"),
        (C.UNKNOWN_MEMBER_ID, "CommitFailedException", State.UNJOINED, ""),
        (C.ILLEGAL_GENERATION, "CommitFailedException", State.UNJOINED, "m"),
        (C.FENCED_INSTANCE_ID, "FENCED_INSTANCE_ID", State.STABLE, "m"),
        (C.UNKNOWN_TOPIC_OR_PARTITION, "UNKNOWN_TOPIC_OR_PARTITION", State.STABLE, "m"),
    ],
)
def test_failed_commit_tells_of_the_membership(code: ErrorCode, error: str, state: State, member_id: str) -> None:
    """What the call throws, and what it does to generation and member id."""
    talk = Talk(STATIC).in_group(0)
    talk.give(SyncCommitEvent(((("t", 0), 3),), call=1))
    assert talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), code),)))) == [
        f"call 1: {error}"
    ]
    assert (talk.member.state, talk.member.generation.member_id) == (state, member_id)


def test_commit_of_an_older_generation_is_stale_only_while_the_join_is_out() -> None:
    """Afterwards the member is reset although its generation is another one: Java does so too."""
    for sync_first, expected in ((False, State.PREPARING_REBALANCE), (True, State.UNJOINED)):
        talk = Talk(COOPERATIVE).in_group(0)
        talk.give(SyncCommitEvent(((("t", 0), 3),), call=1))
        talk.give(EnforceRebalance())
        talk.poll()
        if sync_first:
            talk.joined(2)
        talk.member = replace(talk.member, generation=Generation(9, "m"))
        talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), C.ILLEGAL_GENERATION),))))
        assert talk.member.state is expected


def test_fenced_commit_of_an_older_generation_fails_as_stale() -> None:
    """RebalanceInProgressException while the join is out, CommitFailedException afterwards; nothing is reset."""
    for sync_first, error in ((False, "RebalanceInProgressException"), (True, "CommitFailedException")):
        talk = Talk(COOPERATIVE).in_group(0)
        talk.give(SyncCommitEvent(((("t", 0), 3),), call=1))
        talk.give(EnforceRebalance())
        talk.poll()
        if sync_first:
            talk.joined(2)
        talk.member = replace(talk.member, generation=Generation(9, "m"))
        response = talk.answer(
            "OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), C.FENCED_INSTANCE_ID),)))
        )
        assert response == [f"call 1: {error}"]
        assert talk.member.generation == Generation(9, "m")


def test_commit_without_a_coordinator_fails_without_being_sent() -> None:
    """Its caller may repeat it; one whose connection breaks makes the member look for the coordinator."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.give(SyncCommitEvent(((("t", 0), 3),), call=1))
    replies = talk.answer("OffsetCommit", DISCONNECTED)
    assert replies == ["coordinator forgotten", "call 1: COORDINATOR_NOT_AVAILABLE"]
    assert talk.give(SyncCommitEvent(((("t", 0), 3),), call=2)) == ["call 2: COORDINATOR_NOT_AVAILABLE"]


def test_commit_of_close_is_repeated_until_the_timeout() -> None:
    """Without a coordinator close() tries for its whole timeout, then gives the partitions up all the same."""
    talk = Talk(COOPERATIVE).in_group(0)
    talk.give(CoordinatorLost())
    assert talk.give(Close(call=5, timeout_ms=250, consumed=((("t", 0), 9),))) == []
    assert due_ms(talk.member) == 100
    assert [talk.tick(100), talk.tick(100)] == [[], []]
    assert talk.tick(50) == ["revoked 0"]
    assert talk.done() == ["call 5: ok"]


def test_fenced_automatic_commit_makes_every_poll_throw() -> None:
    """Nothing takes it back; the application has to close."""
    talk = Talk(STATIC).in_group(0)
    talk.give(EnforceRebalance())
    talk.poll(p0=1)
    talk.answer("OffsetCommit", OffsetCommitResponse(commit_results(((("t", 0), C.FENCED_INSTANCE_ID),))))
    assert talk.poll() == ["throws FENCED_INSTANCE_ID"]
    assert talk.poll() == ["throws FENCED_INSTANCE_ID"]


# Unsubscribe and close


def test_close_during_a_rebalance_loses_the_partitions_and_waits_for_the_join() -> None:
    """B4: lost, not revoked; the join's answer does not come, so close() takes its whole timeout."""
    talk = Talk(COOPERATIVE).in_group(0, 1)
    talk.give(EnforceRebalance())
    talk.poll()
    assert talk.give(Close(call=5, timeout_ms=10_000, consumed=((("t", 0), 9),))) == ["lost 0,1"]
    assert talk.done() == ["LeaveGroup(m): the consumer is being closed"]
    assert due_ms(talk.member) == talk.now_ms + 10_000
    assert talk.tick(9_999) == []
    assert talk.tick(1) == ["call 5: ok"]


def test_close_commits_revokes_and_leaves() -> None:
    """In this order; heartbeats end with the commit."""
    talk = Talk(COOPERATIVE).in_group(0)
    assert talk.give(Close(call=5, consumed=((("t", 0), 9),))) == ["OffsetCommit(1)"]
    assert talk.tick(1_000) == ["Heartbeat(1)"]
    assert talk.answer("OffsetCommit", OffsetCommitResponse()) == ["revoked 0"]
    assert talk.tick(1_000) == []
    assert talk.done() == ["LeaveGroup(m): the consumer is being closed"]
    assert talk.answer("LeaveGroup", LeaveGroupResponse()) == []
    assert talk.answer("Heartbeat", HeartbeatResponse()) == ["call 5: ok"]


def test_close_asks_for_a_rejoin_that_nobody_hears() -> None:
    """B3: generation and member id are reset and a rejoin is asked for on every close."""
    talk = Talk(COOPERATIVE).in_group()
    talk.give(Close(call=5))
    assert talk.member.rejoin_needed
    assert talk.member.rejoin_reason == "consumer pro-actively leaving the group"
    talk.answer("LeaveGroup", LeaveGroupResponse())
    assert talk.poll() == []


@pytest.mark.parametrize(
    ("config", "operation", "leaves"),
    [
        (COOPERATIVE, GroupMembershipOperation.DEFAULT, True),
        (COOPERATIVE, GroupMembershipOperation.REMAIN_IN_GROUP, False),
        (STATIC, GroupMembershipOperation.DEFAULT, False),
        (STATIC, GroupMembershipOperation.LEAVE_GROUP, True),
    ],
)
def test_close_leaves_unless_the_place_is_to_be_kept(
    config: ClassicConfig, operation: GroupMembershipOperation, leaves: bool
) -> None:
    """A static member keeps its place, and any member as close() asks for."""
    talk = Talk(config).in_group()
    replies = talk.give(Close(call=5, operation=operation))
    assert any(word.startswith("LeaveGroup") for word in replies) == leaves


def test_close_of_a_member_that_streams_runs_goes_silently() -> None:
    """`internal.leave.group.on.close=false`: no callback, no leave."""
    talk = Talk(replace(COOPERATIVE, leave_group_on_close=False)).in_group(0)
    assert talk.give(Close(call=5)) == ["call 5: ok"]


def test_close_inside_a_callback_and_a_second_close_are_refused() -> None:
    """A consumer is for one thread at a time."""
    talk = Talk(EAGER).in_group(0)
    talk.give(EnforceRebalance())
    talk.poll()
    assert talk.give(Close(call=5)) == ["call 5: ConcurrentModificationException"]
    assert talk.give(UnsubscribeEvent(call=6)) == ["call 6: ConcurrentModificationException"]
    talk.done()
    talk.give(Close(call=7))
    assert talk.give(Close(call=8)) == ["call 8: ConcurrentModificationException"]


def test_closed_member_refuses_calls_and_ignores_late_answers() -> None:
    """Nothing reaches it any more."""
    talk = Talk(EAGER).in_group()
    talk.tick(1_000)
    talk.give(Close(call=5, timeout_ms=0))
    assert talk.member.closed
    assert talk.answer("Heartbeat", HeartbeatResponse(C.UNKNOWN_MEMBER_ID)) == []
    assert talk.give(SyncCommitEvent((), call=6)) == ["call 6: IllegalStateException"]
    assert (due_ms(talk.member), poll_wanted_ms(talk.member)) == (NEVER, NEVER)


def test_unsubscribe_leaves_and_a_new_subscription_joins_again() -> None:
    """The same consumer subscribes again, under no name."""
    talk = Talk(COOPERATIVE).in_group(0)
    assert talk.give(UnsubscribeEvent(call=2)) == ["revoked 0"]
    assert talk.done() == ["LeaveGroup(m): the consumer unsubscribed from all topics", "call 2: ok"]
    assert talk.poll() == []
    talk.give(TopicSubscriptionChangeEvent(("u",)))
    assert talk.poll() == ["JoinGroup(-) owning nothing"]


def test_join_answered_after_unsubscribe_is_not_followed() -> None:
    """The generation it names has a member too many; the member joins anew once it is subscribed again."""
    talk = Talk(COOPERATIVE)
    talk.poll()
    assert talk.give(UnsubscribeEvent(call=2)) == ["call 2: ok"]
    talk.give(TopicSubscriptionChangeEvent(("t",)))
    assert talk.joined(1) == []
    assert talk.poll(after_ms=100) == ["JoinGroup(-) owning nothing"]


# Configuration


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"heartbeat_interval_ms": 6_000}, "heartbeat_interval_ms"),
        ({"assignors": ()}, "assignors"),
        ({"assignors": (RANGE, RANGE)}, "assignors"),
        (
            {"assignors": ("range",)},
            "^assignors: must be assignors, not 'range'; give RANGE, COOPERATIVE_STICKY or your own ClientAssignor",
        ),
        ({"assignors": RANGE}, "^assignors: must be a tuple, not "),
        ({"session_timeout_ms": "5"}, "^session_timeout_ms: must be a whole number, not '5'$"),
        ({"group_id": ""}, "group_id"),
        ({"session_timeout_ms": 2_147_483_648}, "session_timeout_ms: must be at most 2147483647 ms"),
        ({"group_remote_assignor": "uniform"}, "group_remote_assignor: cannot be set under the classic protocol"),
    ],
)
def test_configuration_that_cannot_work_is_refused(more: dict[str, object], field: str) -> None:
    """The setting is named."""
    with pytest.raises(InputError, match=field):
        replace(EAGER, **more)  # type: ignore[arg-type]


def test_configuration_reads_kafkas_keys() -> None:
    """Those of the classic protocol too."""
    read = ClassicConfig.of({"group.id": "g", "session.timeout.ms": "7000", "heartbeat.interval.ms": "2000"})
    assert (read.session_timeout_ms, read.heartbeat_interval_ms) == (7_000, 2_000)


def test_one_eager_assignor_makes_the_member_eager() -> None:
    """Kafka's default, range before cooperative-sticky, revokes everything."""
    assert not replace(EAGER, assignors=(RANGE, COOPERATIVE_STICKY)).is_cooperative
    assert COOPERATIVE.is_cooperative


def test_other_inputs_are_refused() -> None:
    """The KIP-848 member's events that mean nothing here."""
    with pytest.raises(LocalProtocolError, match="object is not an input"):
        step(new_member(EAGER), object(), 0)  # type: ignore[arg-type]
