"""The background loop on a clock of the test: how often it looks for a coordinator, and for the names of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from fsm.member import ConsumerConfig
from fsm.member.classic.state import ClassicConfig
from fsm.member.events import AsyncPollEvent, TopicSubscriptionChangeEvent
from fsm.member.runtime.background import Background
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.timers import NEVER
from fsm.protocol.assignment import TopicNames
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    Offsets,
    TransportFailure,
)

NAMES = TopicNames({"id-of-foo": "foo"})
NO_COORDINATOR = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


class Cluster:
    """A transport that answers at once and writes down when it was asked what."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.asked: dict[str, list[int]] = {"coordinator": [], "metadata": [], "heartbeat": []}
        self.found: TransportFailure | None = None
        self.names = NAMES
        self.answer: Any = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5_000, assignment=())

    def find_coordinator(self, on_coordinator_found: Callable[[TransportFailure | None], None]) -> None:
        self.asked["coordinator"].append(self.now_ms)
        on_coordinator_found(self.found)

    def update_metadata(self, on_metadata: Callable[[Any], None]) -> None:
        self.asked["metadata"].append(self.now_ms)
        on_metadata(self.names)

    def send(self, request: Any, on_response: Callable[[Any], None]) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest | JoinGroupRequest):
            self.asked["heartbeat"].append(self.now_ms)
        on_response(self.answer)


def polling(cluster: Cluster, jitter: Iterator[float] | None = None) -> tuple[Background, ConsumerMember]:
    """A member of foo whose application polls every 100 ms."""
    member = ConsumerMember(ConsumerConfig("g"), member_id="M", now_ms=0)
    member.submit(TopicSubscriptionChangeEvent(("foo",)))
    drawn = (lambda: 0.0) if jitter is None else lambda: next(jitter)
    return Background(member, cluster, jitter=drawn, wake=lambda: None), member


def run(background: Background, cluster: Cluster, until_ms: int, *, polls: bool = True, consumed: Offsets = ()) -> None:
    """Turns the loop whenever it asks for it, when an answer came, and when the application polls: every 100 ms."""
    member, poll_ms = background.member, cluster.now_ms if polls else NEVER
    while cluster.now_ms < until_ms:
        if cluster.now_ms >= poll_ms:
            member.submit(AsyncPollEvent(consumed))
            poll_ms += 100
            if isinstance(member, ConsumerMember):
                member.run_callbacks(None, cluster.now_ms)
        background.turn(cluster.now_ms)
        while background.outbox:
            background.send_outbox()
            background.turn(cluster.now_ms)
        cluster.now_ms = max(cluster.now_ms + 1, min(background.next_turn_ms, poll_ms, until_ms))


def gaps(instants: list[int]) -> list[int]:
    """How far apart they are."""
    return [later - earlier for earlier, later in pairwise(instants)]


def test_a_coordinator_that_refuses_is_looked_for_ever_less_often() -> None:
    """NOT_COORDINATOR for eight seconds costs eleven look-ups and heartbeats; the first is repeated after 100 ms."""
    cluster = Cluster()
    cluster.answer = NO_COORDINATOR
    background, _ = polling(cluster)
    run(background, cluster, 8_000)
    assert gaps(cluster.asked["coordinator"]) == [100, 200, 400, 800] + [1_000] * 6
    assert cluster.asked["heartbeat"] == cluster.asked["coordinator"]


def test_a_pause_ends_the_backoff() -> None:
    """A coordinator that is lost later is looked for at once, and again after 100 ms."""
    cluster = Cluster()
    cluster.answer = NO_COORDINATOR
    background, member = polling(cluster)
    run(background, cluster, 4_000)
    cluster.answer = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=1_000, assignment=())
    run(background, cluster, 10_000)
    assert member.member.epoch == 1
    lost_ms = cluster.now_ms
    cluster.answer = NO_COORDINATOR
    run(background, cluster, lost_ms + 4_000)
    refused = [at for at in cluster.asked["coordinator"] if at >= lost_ms]
    assert refused[0] in cluster.asked["heartbeat"]
    assert gaps(refused) == [100, 200, 400, 800, 1_000]


def test_a_connection_that_breaks_again_and_again_is_not_hammered() -> None:
    """A coordinator that is found and then cannot be reached is no coordinator."""
    cluster = Cluster()
    cluster.answer = DISCONNECTED
    background, _ = polling(cluster)
    run(background, cluster, 3_000)
    assert gaps(cluster.asked["coordinator"]) == [100, 200, 400, 800, 1_000]


def test_a_search_that_fails_backs_off() -> None:
    """As before: 100 ms to 1 s."""
    cluster = Cluster()
    cluster.found = TransportFailure("CoordinatorNotAvailableException")
    background, _ = polling(cluster)
    run(background, cluster, 3_000)
    assert gaps(cluster.asked["coordinator"]) == [100, 200, 400, 800, 1_000]


def test_the_jitter_is_the_callers() -> None:
    """Up to a fifth more or less, as the caller draws it; never more than the limit."""
    cluster = Cluster()
    cluster.answer = NO_COORDINATOR
    drawn = iter([1.0, -1.0] * 100_000)
    background, _ = polling(cluster, drawn)
    run(background, cluster, 3_000)
    waits = gaps(cluster.asked["coordinator"])
    for term, wait in zip((100, 200, 400, 800), waits, strict=False):
        assert wait in {term * 8 // 10, min(term * 12 // 10, 1_000)}


def test_an_unknown_topic_is_asked_for_ever_less_often() -> None:
    """Nine times in six seconds as long as the metadata stays the same; news ends the backoff."""
    cluster = Cluster()
    cluster.answer = ConsumerGroupHeartbeatResponse(
        member_epoch=1, heartbeat_interval_ms=5_000, assignment=(("id-of-foo", (0,)), ("id-of-bar", (0,)))
    )
    background, member = polling(cluster)
    run(background, cluster, 6_000)
    assert gaps(cluster.asked["metadata"]) == [100, 200, 400, 800] + [1_000] * 4
    cluster.names = TopicNames({**NAMES, "id-of-bar": "bar"})
    run(background, cluster, 7_500)
    assert member.owned == (("bar", 0), ("foo", 0))


def test_a_classic_member_backs_off_as_well() -> None:
    """The same for a JoinGroup that is sent to the wrong broker."""
    cluster = Cluster()
    cluster.answer = JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    cluster.names = (("foo", 1),)  # type: ignore[assignment]
    member = ClassicConsumerMember(ClassicConfig("g"), now_ms=0)
    member.submit(TopicSubscriptionChangeEvent(("foo",)))
    background = Background(member, cluster, jitter=lambda: 0.0, wake=lambda: None)  # type: ignore[arg-type]
    run(background, cluster, 4_000)
    assert len(cluster.asked["coordinator"]) <= 7
    assert min(gaps(cluster.asked["coordinator"])) >= 100


def test_after_poll_expiry_the_next_poll_commits_without_an_epoch_and_rejoins() -> None:
    """As a Java client of 4.4.0 did on a broker: the commit at -1 goes out before the join at 0."""
    sent: list[tuple[int, str, int]] = []

    class Group(Cluster):
        def send(self, request: Any, on_response: Callable[[Any], None]) -> None:
            if isinstance(request, OffsetCommitRequest):
                sent.append((self.now_ms, "commit", request.generation_id_or_member_epoch))
                on_response(OffsetCommitResponse())
                return
            sent.append((self.now_ms, "heartbeat", request.member_epoch))
            epoch = request.member_epoch or 2
            given = (("id-of-foo", (0,)),) if request.member_epoch == 0 else None
            on_response(
                ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=1_000, assignment=given)
            )

    cluster = Group()
    config = ConsumerConfig("g", enable_auto_commit=True, auto_commit_interval_ms=1_000, max_poll_interval_ms=3_000)
    member = ConsumerMember(config, member_id="M", now_ms=0)
    member.submit(TopicSubscriptionChangeEvent(("foo",), listener=True))
    background = Background(member, cluster, jitter=lambda: 0.0, wake=lambda: None)
    run(background, cluster, 3_050, consumed=((("foo", 0), 7),))
    run(background, cluster, 9_000, polls=False)
    away = [(what, epoch) for at, what, epoch in sent if at > 3_000]
    assert away == [("heartbeat", 2)] * (len(away) - 1) + [("heartbeat", -1)]
    (left_ms,) = (at for at, _, epoch in sent if epoch == -1)
    assert left_ms == 6_000
    run(background, cluster, 9_050, consumed=((("foo", 0), 7),))
    assert [(what, epoch) for at, what, epoch in sent if at >= 9_000][:2] == [("commit", -1), ("heartbeat", 0)]
