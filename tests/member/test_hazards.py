"""The places where Kafka's consumer does what its authors hardly meant: a story each, with the releases that have it.

Numbers are those of the analysis of the Java client (H1 to H20) and of the facts from real logs (A5 to A21).
"""

from __future__ import annotations

from typing import Any

import pytest

from fsm.kafka.assignment import TopicNames, topic_partitions
from fsm.kafka.config import ConsumerConfig
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import (
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    BackgroundEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    GroupMembershipOperation,
    LeaveGroupOnCloseEvent,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.member.consumer import step
from fsm.member.dialect import RELEASES, dialect
from fsm.member.effects import CallCompleted, Enqueued, MemberEffect, MetadataNeeded, UnsentRequest
from fsm.member.inputs import Answered, CloseFlush, CoordinatorFound, CoordinatorLost, MetadataUpdated, Tick
from fsm.member.shell import ConsumerMember
from fsm.member.state import new_member
from fsm.tables.consumer_member import State

S = State


class Story:
    """A member, told step by step; partitions are those of topic t, by their numbers."""

    def __init__(self, release: str = "4.4.0", *, listener: bool = True, **settings: Any) -> None:
        settings.setdefault("enable_auto_commit", False)
        self.now_ms, self.listener = 0, listener
        self.member = new_member(ConsumerConfig("g", **settings), "M", dialect(release), 0)
        self.background: list[BackgroundEvent] = []
        self.asked: list[UnsentRequest] = []
        self.do(CoordinatorFound())
        self.do(MetadataUpdated(TopicNames({"T": "t"})))

    def do(self, given: Any) -> tuple[MemberEffect, ...]:
        self.member, effects = step(self.member, given, self.now_ms)
        self.background += [e.event for e in effects if isinstance(e, Enqueued)]
        self.asked += [e for e in effects if isinstance(e, UnsentRequest)]
        return effects

    @property
    def state(self) -> State:
        return self.member.state

    @property
    def owned(self) -> list[int]:
        return [number for _, number in self.member.subscription.owned]

    def subscribe(self) -> None:
        self.do(TopicSubscriptionChangeEvent(("t",), self.listener))
        self.poll()

    def poll(self) -> tuple[MemberEffect, ...]:
        return self.do(AsyncPollEvent())

    def tick(self, after_ms: int = 0) -> tuple[MemberEffect, ...]:
        self.now_ms += after_ms
        return self.do(Tick())

    def sent(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat."""
        body = self.asked[-1].body
        assert isinstance(body, ConsumerGroupHeartbeatRequest)
        return body

    def answer(self, *numbers: int, epoch: int = 1, code: ErrorCode = ErrorCode.NONE, to: int = -1) -> None:
        """A response with these partitions as target."""
        assigned = topic_partitions({"T": numbers})
        self.do(Answered(self.asked[to], ConsumerGroupHeartbeatResponse(epoch, 1_000, assigned, code)))

    def acknowledged(self, epoch: int = 1, to: int = -1) -> None:
        self.do(Answered(self.asked[to], ConsumerGroupHeartbeatResponse(epoch, 1_000)))

    def take(self, error: str | None = None) -> BackgroundEvent:
        """The application takes the next background event, and its callback ends so."""
        event = self.background.pop(0)
        if isinstance(event, PartitionsAssignedEvent) and event.apply:
            self.do(ApplyAssignmentEvent(event.ticket, event.full, event.added))
        assert isinstance(event, PartitionsAssignedEvent | PartitionsRemovedEvent)
        self.do(ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket, error))
        return event

    def join(self, *numbers: int) -> None:
        """Subscribes, joins and reconciles until it is stable."""
        self.subscribe()
        self.tick()
        self.answer(*numbers)
        self.poll()
        while self.background:
            self.take()
        self.tick()
        self.acknowledged()
        assert (self.state, self.owned) == (S.STABLE, list(numbers))

    def beat(self) -> None:
        self.tick(after_ms=1_200)


def test_h1_late_leave_response_is_adopted_by_one_who_joins() -> None:
    """4.0: the answer to a leave that comes after the next join makes that join's epoch negative."""
    for release, epoch in (("4.0.2", -1), ("4.1.0", 0)):
        story = Story(release)
        story.join(0)
        story.do(LeaveGroupOnCloseEvent())
        story.tick()
        story.subscribe()
        story.do(Answered(story.asked[-1], ConsumerGroupHeartbeatResponse(-1, 0)))
        assert (story.state, story.member.epoch) == (S.JOINING, epoch)


@pytest.mark.parametrize("release", RELEASES)
def test_h2_late_callback_of_a_leave_wipes_a_new_subscription(release: str) -> None:
    """Fenced while its release is queued, unsubscribe() returns; the callback's end then wipes what came after."""
    story = Story(release)
    story.join(0)
    story.beat()
    story.do(UnsubscribeEvent(call=9))
    assert story.state is S.PREPARE_LEAVING
    effects = story.do(
        Answered(story.asked[-1], ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    )
    assert CallCompleted(9) in effects
    assert story.state is S.UNSUBSCRIBED
    story.subscribe()
    story.take()
    assert (story.state, story.member.epoch, story.member.subscription.topics) == (S.JOINING, -1, ())


def test_h2b_late_callback_of_a_loss_wipes_a_newer_target() -> None:
    """A lost callback that ends after the member has left and joined again clears its new target and what it owns."""
    story = Story()
    story.join(0)
    story.beat()
    story.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
    story.do(UnsubscribeEvent())
    story.subscribe()
    story.tick()
    story.answer(0, 1)
    assert (story.state, story.member.target.is_none) == (S.RECONCILING, False)
    story.take()
    assert (story.state, story.member.target.is_none) == (S.RECONCILING, True)


@pytest.mark.parametrize(("release", "acknowledgements"), [("4.3.1", 5), ("4.4.0", 1)])
def test_h3_topic_without_a_name_is_acknowledged_around(release: str, acknowledgements: int) -> None:
    """Before 4.4 every attempt acknowledges the resolvable rest again; metadata is asked for at each in all."""
    story = Story(release)
    story.join(0)
    story.beat()
    story.do(
        Answered(story.asked[-1], ConsumerGroupHeartbeatResponse(1, 1_000, topic_partitions({"T": [0], "NEW": [0]})))
    )
    before, asked_for = len(story.asked), 0
    for _ in range(5):
        effects = (*story.tick(), *story.tick())
        asked_for += MetadataNeeded(("NEW",)) in effects
        if story.member.request.in_flight:
            story.acknowledged()
    assert len(story.asked) - before == acknowledgements
    assert asked_for == 5


@pytest.mark.parametrize("release", RELEASES)
def test_h4_failed_callback_and_reverted_target_acknowledge_too_little(release: str) -> None:
    """The assigned callback fails and the target goes back: what is held is acknowledged, more is owned."""
    story = Story(release)
    story.join(0)
    story.beat()
    story.answer(0, 1)
    story.poll()
    story.beat()
    story.take(error="threw")
    story.answer(0)
    story.tick()
    story.tick()
    assert story.sent().topic_partitions == (("T", (0,)),)
    assert (story.state, story.owned) == (S.STABLE, [0, 1])


def test_h5_close_after_an_abandoned_unsubscribe_sends_no_leave() -> None:
    """With its release still open, the background thread that stops sends an ordinary heartbeat."""
    story = Story()
    story.join(0)
    story.do(UnsubscribeEvent())
    story.do(CloseFlush())
    assert (story.state, story.sent().member_epoch) == (S.PREPARE_LEAVING, 1)


def test_h6_subscription_made_while_leaving_is_forgotten() -> None:
    """A poll consumes the flag before the member is out; nothing ever joins."""
    story = Story()
    story.join(0)
    story.do(LeaveGroupOnCloseEvent())
    story.subscribe()
    story.tick()
    for _ in range(3):
        story.poll()
        story.tick(after_ms=1_000)
    assert (story.state, story.member.subscription.topics) == (S.UNSUBSCRIBED, ("t",))


def test_h7_kept_partition_stays_pending_revocation() -> None:
    """The revoked callback fails and the target goes back: the partition is owned and never fetched again."""
    story = Story()
    story.join(0, 1)
    story.beat()
    story.answer(0)
    story.poll()
    story.take(error="threw")
    story.beat()
    story.answer(0, 1)
    story.tick()
    story.tick()
    assert (story.state, story.owned) == (S.STABLE, [0, 1])
    assert story.member.subscription.fetchable == (("t", 0),)


@pytest.mark.parametrize("release", RELEASES)
def test_h10_unsubscribed_while_stale_joins_without_a_subscription(release: str) -> None:
    """unsubscribe() in STALE stays there; the next poll joins with an empty list of names."""
    story = Story(release, max_poll_interval_ms=5_000)
    story.join(0)
    story.tick(after_ms=6_000)
    assert story.state is S.STALE
    story.take()
    story.do(UnsubscribeEvent())
    story.poll()
    story.tick()
    assert (story.state, story.sent().member_epoch, story.sent().subscribed_topic_names) == (S.JOINING, 0, ())


def test_h12_response_of_an_earlier_membership_is_believed() -> None:
    """A heartbeat's answer that comes after leave and subscribe gives the joining member an epoch."""
    story = Story()
    story.join(0)
    story.beat()
    late = len(story.asked) - 1
    story.do(LeaveGroupOnCloseEvent())
    story.tick()
    story.subscribe()
    story.acknowledged(epoch=7, to=late)
    assert (story.state, story.member.epoch) == (S.JOINING, 7)


def test_h13_joining_ignores_the_backoff() -> None:
    """Ten failures in ten loops of one millisecond are ten requests."""
    story = Story()
    story.subscribe()
    for _ in range(10):
        story.tick()
        story.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert len(story.asked) == 10


def test_h15_late_fatal_error_takes_partitions_assigned_by_hand() -> None:
    """A fatal answer after the leave is over releases what the application has assigned itself since."""
    for release, revoked in (("4.0.2", ()), ("4.4.0", (("t", 7),))):
        story = Story(release)
        story.join(0)
        story.beat()
        late = len(story.asked) - 1
        story.do(LeaveGroupOnCloseEvent())
        story.do(CoordinatorLost())
        story.tick()
        story.do(AssignmentChangeEvent((("t", 7),)))
        story.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED, to=late)
        assert (story.state, story.member.subscription.pending_revocation) == (S.FATAL, revoked)


def test_h16_remaining_in_the_group_leaves_it() -> None:
    """A dynamic member closed to remain still sends its leave, as soon as nothing is in flight."""
    story = Story(max_poll_interval_ms=5_000)
    story.join(0)
    story.beat()
    story.do(LeaveGroupOnCloseEvent(operation=GroupMembershipOperation.REMAIN_IN_GROUP))
    story.tick()
    assert story.state is S.LEAVING
    story.tick(after_ms=6_000)
    assert (story.state, story.member.poll_expired) == (S.LEAVING, True)
    story.poll()
    story.acknowledged()
    story.tick()
    assert (story.state, story.sent().member_epoch) == (S.UNSUBSCRIBED, -1)


@pytest.mark.parametrize(("release", "owned"), [("4.2.1", []), ("4.3.1", [0, 1]), ("4.4.0", [0, 1])])
def test_h17_assignment_of_the_past_is_applied(release: str, owned: list[int]) -> None:
    """Since 4.3: fenced with an assignment in its queue, the joining member comes to own it."""
    story = Story(release, listener=False)
    story.subscribe()
    story.tick()
    story.answer(0, 1)
    if release == "4.2.1":  # the background applies at once, so there is nothing in the queue
        story.poll()
        story.beat()
        story.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
    else:
        story.poll()
        story.beat()
        story.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
        story.take()
    assert (story.state, story.owned) == (S.JOINING, owned)


def test_h19_refused_leave_never_ends() -> None:
    """4.0: a fatal answer to the leave ends the membership, but unsubscribe() waits on; since 4.1 it returns."""
    for release, returned in (("4.0.2", False), ("4.1.0", True)):
        story = Story(release, listener=False)
        story.join(0)
        story.do(UnsubscribeEvent(call=4))
        story.tick()
        answer = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        effects = story.do(Answered(story.asked[-1], answer))
        assert (story.state, CallCompleted(4) in effects) == (S.FATAL, returned)


class Listener:
    def __init__(self) -> None:
        self.called: list[tuple[str, tuple[tuple[str, int], ...]]] = []

    def on_partitions_assigned(self, partitions: tuple[tuple[str, int], ...]) -> None:
        self.called.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: tuple[tuple[str, int], ...]) -> None:
        self.called.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: tuple[tuple[str, int], ...]) -> None:
        self.called.append(("lost", partitions))


def embedded() -> tuple[ConsumerMember, Listener]:
    """A consumer that owns partitions 0 and 1 of t, with the heartbeat of its acknowledgement answered."""
    consumer, listener = (
        ConsumerMember(ConsumerConfig("g", enable_auto_commit=False), member_id="M", now_ms=0),
        Listener(),
    )
    consumer.receive(CoordinatorFound(), 0)
    consumer.receive(MetadataUpdated(TopicNames({"T": "t"})), 0)
    consumer.submit(TopicSubscriptionChangeEvent(("t",), listener=True))
    consumer.submit(AsyncPollEvent())
    (request,) = consumer.poll(0).unsent_requests
    target = topic_partitions({"T": (0, 1)})
    consumer.receive(Answered(request, ConsumerGroupHeartbeatResponse(1, 1_000, target)), 0)
    consumer.submit(AsyncPollEvent())
    consumer.poll(0)
    consumer.run_callbacks(listener, 0)
    (acknowledged,) = consumer.poll(0).unsent_requests
    consumer.receive(Answered(acknowledged, ConsumerGroupHeartbeatResponse(1, 1_000)), 0)
    return consumer, listener


BOTH = (("t", 0), ("t", 1))


def test_h20_close_after_unsubscribe_loses_what_was_revoked_long_ago() -> None:
    """A normal leave does not empty the application's record; close() then calls onPartitionsLost over it."""
    consumer, listener = embedded()
    consumer.submit(UnsubscribeEvent())
    consumer.poll(1)
    consumer.run_callbacks(listener, 1)
    (leave,) = consumer.poll(2).unsent_requests
    consumer.receive(Answered(leave, ConsumerGroupHeartbeatResponse(-1, 0)), 3)
    consumer.close(4)
    consumer.run_callbacks(listener, 4)
    assert listener.called == [("assigned", BOTH), ("revoked", BOTH), ("lost", BOTH)]


def test_a5_application_that_does_not_poll_owns_what_others_have() -> None:
    """The leave goes out at the expiry; the application hears of its loss at the next poll. Nobody can avoid it."""
    story = Story(max_poll_interval_ms=5_000)
    story.join(0)
    story.tick(after_ms=6_000)
    assert (story.state, story.sent().member_epoch, story.owned) == (S.STALE, -1, [0])
    story.now_ms += 4_000
    assert story.background == [PartitionsRemovedEvent(1, ListenerMethod.LOST, (("t", 0),))]


def test_a7_partition_is_revoked_and_then_lost() -> None:
    """Fenced while its revoked callback runs, the member loses all partitions, those just revoked among them."""
    story = Story()
    story.join(0, 1)
    story.beat()
    story.answer(0)
    story.poll()
    story.beat()
    story.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert story.state is S.FENCED
    revoked, lost = story.take(), story.take()
    assert isinstance(revoked, PartitionsRemovedEvent)
    assert (revoked.method, revoked.partitions) == (ListenerMethod.REVOKED, (("t", 1),))
    assert isinstance(lost, PartitionsRemovedEvent)
    assert (lost.method, lost.partitions) == (ListenerMethod.LOST, BOTH)
    assert (story.state, story.member.run) == (S.JOINING, None)


def test_a11_failed_revoked_callback_is_called_again() -> None:
    """The next poll reconciles again and asks for the same callback over the same partitions."""
    story = Story()
    story.join(0, 1)
    story.beat()
    story.answer(0)
    for _ in range(3):
        story.poll()
        event = story.take(error="threw")
        assert isinstance(event, PartitionsRemovedEvent)
        assert event.partitions == (("t", 1),)


def test_a21_close_revokes_again_what_a_reconciliation_has_just_revoked() -> None:
    """close() between a run's two callbacks runs revoked over everything the application's record still has."""
    consumer, listener = embedded()
    (request,) = consumer.poll(1_200).unsent_requests
    consumer.receive(Answered(request, ConsumerGroupHeartbeatResponse(1, 1_000, topic_partitions({"T": (0,)}))), 1_201)
    consumer.submit(AsyncPollEvent())
    consumer.poll(1_202)
    consumer.run_callbacks(listener, 1_202)
    consumer.close(1_203)
    consumer.run_callbacks(listener, 1_203)
    assert listener.called == [("assigned", BOTH), ("revoked", (("t", 1),)), ("revoked", BOTH)]
