"""The places where Kafka's consumer does what its authors hardly meant: a story each, in every dialect.

Numbers are those of `diagrams/hazards.md` (H1 to H20). The mark names the first and the last release that
has the hazard; the dialects outside, `fixed` and `document` among them, are shown to be without it.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsm.member.effects import CallCompleted, MetadataNeeded, PollTimerExpired
from fsm.member.events import (
    AssignmentChangeEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    GroupMembershipOperation,
    KafkaError,
    LeaveGroupOnCloseEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, CloseFlush, CoordinatorLost, MetadataUpdated
from fsm.member.runtime.queues import KafkaException
from fsm.protocol.assignment import TopicNames, topic_partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse, OffsetCommitRequest
from fsm.tables.consumer_member import State

S = State
Tell = Any
BOTH = (("t", 0), ("t", 1))
FENCED, UNKNOWN = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.hazard("4.0.0", "4.0.2")
def test_h1_late_leave_response_is_adopted_by_one_who_joins(story: Tell, name: str, has: bool) -> None:
    """The answer to a leave that comes after the next join makes that join's epoch negative."""
    told = story(name)
    told.join(0)
    told.do(LeaveGroupOnCloseEvent())
    told.tick()
    told.subscribe()
    told.do(Answered(told.asked[-1], ConsumerGroupHeartbeatResponse(-1, 0)))
    assert (told.state, told.member.epoch) == (S.JOINING, -1 if has else 0)


@pytest.mark.hazard("4.0.0")
def test_h2_late_callback_of_a_leave_wipes_a_new_subscription(story: Tell, name: str, has: bool) -> None:
    """Fenced while its release is queued, unsubscribe() returns; the callback's end then wipes what came after."""
    told = story(name)
    told.join(0)
    told.beat()
    told.do(UnsubscribeEvent(call=9))
    assert told.state is S.PREPARE_LEAVING
    effects = told.answer(code=UNKNOWN)
    assert (CallCompleted(9) in effects, told.state) == (has, S.UNSUBSCRIBED)
    told.subscribe()
    told.take()
    if not has:
        assert told.state is S.UNSUBSCRIBED
        told.poll()
    wiped, kept = (S.JOINING, -1, ()), (S.JOINING, 0, ("t",))
    assert (told.state, told.member.epoch, told.member.subscription.topics) == (wiped if has else kept)


@pytest.mark.hazard("4.0.0")
def test_h2b_late_callback_of_a_loss_wipes_a_newer_target(story: Tell, name: str, has: bool) -> None:
    """A lost callback that ends after the member has left and joined again clears its new target and what it owns."""
    told = story(name)
    told.join(0)
    told.beat()
    told.answer(code=FENCED)
    told.do(UnsubscribeEvent())
    told.subscribe()
    assert told.state is (S.JOINING if has else S.UNSUBSCRIBED)
    if not has:
        told.take()
        told.poll()
    told.tick()
    told.answer(0, 1)
    assert (told.state, told.member.target.is_none) == (S.RECONCILING, False)
    if has:
        told.take()
    assert (told.state, told.member.target.is_none) == (S.RECONCILING, has)


@pytest.mark.hazard("4.0.0", "4.3.1")
def test_h3_topic_without_a_name_is_acknowledged_around(story: Tell, name: str, has: bool) -> None:
    """Every attempt acknowledges the resolvable rest again; metadata is asked for at each in every dialect."""
    told = story(name)
    told.join(0)
    told.beat()
    target = topic_partitions({"T": [0], "NEW": [0]})
    told.do(Answered(told.asked[-1], ConsumerGroupHeartbeatResponse(1, 1_000, target)))
    before, asked_for = len(told.asked), 0
    for _ in range(5):
        effects = (*told.tick(), *told.tick())
        asked_for += MetadataNeeded(("NEW",)) in effects
        if told.member.heartbeat_in_flight:
            told.acknowledged()
    assert len(told.asked) - before == (5 if has else 1)
    assert asked_for == 5


@pytest.mark.hazard("4.0.0")
def test_h4_failed_callback_and_reverted_target_acknowledge_too_little(story: Tell, name: str, has: bool) -> None:
    """The assigned callback fails and the target goes back: what is held is acknowledged, more is owned."""
    told = story(name)
    told.join(0)
    told.beat()
    told.answer(0, 1)
    told.poll()
    told.beat()
    told.take(error="threw")
    told.answer(0)
    told.tick()
    told.tick()
    if not has:
        told.settle()
    last = next(a.body for a in reversed(told.asked) if a.body.topic_partitions is not None)
    assert (told.state, last.topic_partitions) == (S.STABLE, (("T", (0,)),))
    assert told.owned == ([0, 1] if has else [0])


@pytest.mark.hazard("4.0.0")
def test_h5_close_after_an_abandoned_unsubscribe_sends_no_leave(story: Tell, name: str, has: bool) -> None:
    """With its release still open, the background thread that stops sends an ordinary heartbeat."""
    told = story(name)
    told.join(0)
    told.do(UnsubscribeEvent())
    told.do(CloseFlush())
    assert (told.state, told.sent.member_epoch) == ((S.PREPARE_LEAVING, 1) if has else (S.UNSUBSCRIBED, -1))


@pytest.mark.hazard("4.0.0")
def test_h6_subscription_made_while_leaving_is_forgotten(story: Tell, name: str, has: bool) -> None:
    """A poll consumes the flag before the member is out; nothing ever joins."""
    told = story(name)
    told.join(0)
    told.do(LeaveGroupOnCloseEvent())
    told.subscribe()
    told.tick()
    told.do(Answered(told.asked[-1], ConsumerGroupHeartbeatResponse(-1, 0)))
    for _ in range(3):
        told.poll()
    assert (told.state, told.member.subscription.topics) == (S.UNSUBSCRIBED if has else S.JOINING, ("t",))


@pytest.mark.hazard("4.0.0")
def test_h6_subscription_made_during_the_last_callback_is_wiped(story: Tell, name: str, has: bool) -> None:
    """The same while the revoked callback of unsubscribe() runs: its end empties the subscription of then."""
    told = story(name)
    told.join(0)
    told.do(UnsubscribeEvent())
    told.subscribe("u")
    told.take()
    told.tick()
    told.poll()
    left, joins = (S.UNSUBSCRIBED, ()), (S.JOINING, ("u",))
    assert (told.state, told.member.subscription.topics) == (left if has else joins)


@pytest.mark.hazard("4.0.0")
def test_h7_kept_partition_stays_pending_revocation(story: Tell, name: str, has: bool) -> None:
    """The revoked callback fails and the target goes back: the partition is owned and never fetched again."""
    told = story(name)
    told.join(0, 1)
    told.beat()
    told.answer(0)
    told.poll()
    told.beat()
    told.take(error="threw")
    told.answer(0, 1)
    told.settle()
    assert (told.state, told.owned) == (S.STABLE, [0, 1])
    assert told.fetchable == ([0] if has else [0, 1])


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h8_failed_assigned_callback_is_made_good(story: Tell, name: str) -> None:
    """Since 4.0 the next run enables everything that it resolved, also what a failed callback left behind."""
    told = story(name)
    told.join(0)
    told.beat()
    told.answer(0, 1)
    told.poll()
    told.take(error="threw")
    told.settle()
    assert (told.state, told.fetchable) == (S.STABLE, [0, 1])


INTERRUPTS = {"interrupt": KeyboardInterrupt, "wakeup": lambda: KafkaException(KafkaError("WakeupException"))}


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize("method", ["assigned", "revoked"])
@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h9_callback_that_is_interrupted_has_ended(embedded: Any, name: str, method: str, interrupt: str) -> None:
    """Since 4.0 a wakeup or an interrupt out of a listener does not lose its end: the run comes to be acknowledged."""
    told = embedded(name)
    left, called = [INTERRUPTS[interrupt]], getattr(told.listener, f"on_partitions_{method}")

    def stop(given: Any) -> None:
        called(given)
        if left:
            raise left.pop()()

    setattr(told.listener, f"on_partitions_{method}", stop)
    target = (0,) if method == "revoked" else (0, 1, 2)
    told.turn(1_200, topic_partitions({"T": target}))
    stopped = []
    for now_ms in range(1_201, 1_207):
        told.consumer.submit(AsyncPollEvent())
        told.consumer.poll(now_ms)
        try:
            told.run_callbacks(now_ms)
        except (KeyboardInterrupt, KafkaException) as error:
            stopped.append(type(error))
    assert len(stopped) == 1
    assert not left
    assert told.consumer.member.state in (S.ACKNOWLEDGING, S.STABLE)
    assert told.consumer.fetchable(checked=True) == tuple(("t", number) for number in target)


@pytest.mark.hazard("4.0.0", without=("document",))
def test_h10_unsubscribed_while_stale_joins_without_a_subscription(story: Tell, name: str, has: bool) -> None:
    """unsubscribe() in STALE stays there; the next poll joins with an empty list of names."""
    told = story(name, max_poll_interval_ms=5_000)
    told.join(0)
    told.tick(after_ms=6_000)
    assert told.state is S.STALE
    told.take()
    told.do(UnsubscribeEvent())
    told.poll()
    told.tick()
    assert told.state is (S.JOINING if has else S.UNSUBSCRIBED)
    assert told.sent.member_epoch == (0 if has else -1)
    assert not told.sent.subscribed_topic_names


@pytest.mark.hazard("4.0.0")
def test_h10_subscription_taken_back_joins(story: Tell, name: str, has: bool) -> None:
    """subscribe, unsubscribe, assign, poll: the flag of the first one joins a group for partitions taken by hand."""
    told = story(name)
    told.do(TopicSubscriptionChangeEvent(("t",), listener=True))
    told.do(UnsubscribeEvent())
    told.tick()
    told.do(AssignmentChangeEvent((("t", 7),)))
    told.poll()
    assert told.state is (S.JOINING if has else S.UNSUBSCRIBED)


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h11_one_who_was_never_answered_leaves_under_its_id(story: Tell, name: str) -> None:
    """Since 4.0 the member makes its id itself, so a leave before the first answer says whose it is."""
    told = story(name)
    told.subscribe()
    told.tick()
    told.do(UnsubscribeEvent())
    told.tick()
    assert (told.sent.member_epoch, told.sent.member_id) == (-1, "M")


@pytest.mark.hazard("4.0.0")
def test_h12_response_of_an_earlier_membership_is_believed(story: Tell, name: str, has: bool) -> None:
    """A heartbeat's answer that comes after leave and subscribe gives the joining member an epoch."""
    told = story(name)
    told.join(0)
    told.beat()
    late = len(told.asked) - 1
    told.do(LeaveGroupOnCloseEvent())
    told.tick()
    told.subscribe()
    told.acknowledged(epoch=7, to=late)
    assert (told.state, told.member.epoch) == (S.JOINING, 7 if has else 0)


@pytest.mark.hazard("4.0.0")
def test_h13_joining_ignores_the_backoff(story: Tell, name: str, has: bool) -> None:
    """Ten failures in ten loops of one millisecond are ten requests; else one, and the next after the backoff."""
    told = story(name)
    told.subscribe()
    for _ in range(10):
        told.tick()
        told.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert len(told.asked) == (10 if has else 1)
    told.tick(after_ms=200)
    assert len(told.asked) == (11 if has else 2)


@pytest.mark.hazard("4.0.0", without=("document",))
def test_h14_late_fatal_error_is_shown_to_one_who_is_stale(story: Tell, name: str, has: bool) -> None:
    """The change to FATAL is refused in silence, the application gets the error, and the member lives on."""
    told = story(name, max_poll_interval_ms=5_000)
    told.join(0)
    told.beat()
    late = len(told.asked) - 1
    told.tick(after_ms=6_000)
    told.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED, to=late)
    assert told.state is S.STALE
    assert any(isinstance(event, ErrorEvent) for event in told.background) is has


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h14_late_fence_is_nothing_to_one_whose_membership_is_over(story: Tell, name: str) -> None:
    """Fenced by the answer to an older heartbeat, a member in FATAL stays there and calls nobody back again."""
    told = story(name)
    told.join(0)
    told.beat()
    told.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    while told.background:
        event = told.background[0]
        told.take() if isinstance(event, PartitionsRemovedEvent) else told.background.pop(0)
    assert told.state is S.FATAL
    before = told.member
    told.answer(code=FENCED)
    assert (told.state, told.background) == (S.FATAL, [])
    assert told.member.subscription == before.subscription


@pytest.mark.hazard("4.1.0")
def test_h15_late_fatal_error_takes_partitions_assigned_by_hand(story: Tell, name: str, has: bool) -> None:
    """A fatal answer after the leave is over releases what the application has assigned itself since."""
    told = story(name)
    told.join(0)
    told.beat()
    late = len(told.asked) - 1
    told.do(LeaveGroupOnCloseEvent())
    told.do(CoordinatorLost())
    told.tick()
    told.do(AssignmentChangeEvent((("t", 7),)))
    told.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED, to=late)
    asked = [event.partitions for event in told.background if isinstance(event, PartitionsRemovedEvent)]
    assert asked == ([(("t", 7),)] if has else [])
    if not has:
        assert told.fetchable == [7]


@pytest.mark.hazard("4.1.0", without=("4.0.0", "4.0.1", "4.0.2"))
def test_h16_remaining_in_the_group_leaves_it(story: Tell, name: str, has: bool) -> None:
    """A dynamic member closed to remain still sends its leave, as soon as nothing is in flight."""
    told = story(name, max_poll_interval_ms=5_000)
    told.join(0)
    told.beat()
    told.do(LeaveGroupOnCloseEvent(operation=GroupMembershipOperation.REMAIN_IN_GROUP))
    told.tick()
    assert told.state is (S.LEAVING if has else S.UNSUBSCRIBED)
    assert (PollTimerExpired() in told.tick(after_ms=6_000)) is has
    told.poll()
    told.acknowledged()
    told.tick()
    assert (told.state, told.sent.member_epoch) == (S.UNSUBSCRIBED, -1 if has else 1)


@pytest.mark.hazard("4.3.0")
def test_h17_assignment_of_the_past_is_applied(story: Tell, name: str, has: bool) -> None:
    """Fenced with an assignment in its queue, the joining member comes to own it."""
    told = story(name, listener=False)
    told.subscribe()
    told.tick()
    told.answer(0, 1)
    told.poll()
    told.beat()
    told.answer(code=FENCED)
    while told.background:
        told.take()
    assert (told.state, told.owned) == (S.JOINING, [0, 1] if has else [])


def test_h17_without_it_nobody_is_called_back_either(embedded: Any) -> None:
    """`fixed` skips an assignment of the past: neither is it applied nor is its callback run, and poll() throws not."""
    told = embedded("fixed")
    told.turn(1_200, topic_partitions({"T": (0, 1, 2)}))
    told.consumer.submit(AsyncPollEvent())
    (request,) = told.consumer.poll(2_400).unsent_requests
    told.consumer.receive(Answered(request, ConsumerGroupHeartbeatResponse(error_code=FENCED)), 2_400)
    told.run_callbacks(2_400)
    assert told.listener.called == [("assigned", BOTH), ("lost", BOTH)]


@pytest.mark.hazard("4.3.0")
def test_h18_application_thread_does_the_work_of_the_background(embedded: Any, name: str, has: bool) -> None:
    """Without a listener a run ends on the application's thread, before the background has looked at its queue."""
    told = embedded(name, heard=False)
    told.turn(1_200, topic_partitions({"T": (0, 1, 2)}))
    told.consumer.submit(AsyncPollEvent())
    told.consumer.poll(1_200)
    before = told.consumer.member.state
    told.run_callbacks(1_200)
    after = told.consumer.member.state
    assert ((before, after) == (S.RECONCILING, S.ACKNOWLEDGING)) is has


@pytest.mark.hazard("4.0.0", "4.0.2")
def test_h19_refused_leave_never_ends(story: Tell, name: str, has: bool) -> None:
    """A fatal answer to the leave ends the membership, but unsubscribe() waits on; since 4.1 it returns."""
    told = story(name, listener=False)
    told.join(0)
    told.do(UnsubscribeEvent(call=4))
    told.tick()
    effects = told.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert (told.state, CallCompleted(4) in effects) == (S.FATAL, not has)


@pytest.mark.hazard("4.0.0")
def test_h20_close_after_unsubscribe_loses_what_was_revoked_long_ago(embedded: Any, name: str, has: bool) -> None:
    """A normal leave does not empty the application's record; close() then calls onPartitionsLost over it."""
    told = embedded(name)
    told.consumer.submit(UnsubscribeEvent())
    told.consumer.poll(1)
    told.run_callbacks(1)
    (leave,) = told.consumer.poll(2).unsent_requests
    told.consumer.receive(Answered(leave, ConsumerGroupHeartbeatResponse(-1, 0)), 3)
    told.consumer.close(4)
    told.run_callbacks(4)
    lost = [("lost", BOTH)] if has else []
    assert told.listener.called == [("assigned", BOTH), ("revoked", BOTH), *lost]


@pytest.mark.parametrize(
    ("name", "state"),
    [(name, S.PREPARE_LEAVING) for name in ("4.0.0", "4.4.0", "document")] + [("fixed", S.UNSUBSCRIBED)],
)
def test_w22_poll_timer_bounds_the_callback_of_unsubscribe(story: Tell, name: str, state: State) -> None:
    """One that does not return keeps the partitions; in `fixed` the member leaves, and the call ends with it."""
    told = story(name)
    told.join(0)
    told.now_ms = told.member.poll_due_ms - 1
    told.do(UnsubscribeEvent(call=9))
    told.tick(after_ms=1)
    told.acknowledged()
    assert (told.state, told.owned) == (S.PREPARE_LEAVING, [0])
    effects = told.tick(after_ms=300_000)
    assert (told.state, PollTimerExpired() in effects) == (state, name == "fixed")
    assert told.sent.member_epoch == (-1 if name == "fixed" else 1)
    event = told.background.pop(0)
    assert isinstance(event, PartitionsRemovedEvent)
    effects = told.do(ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket, None))
    assert (CallCompleted(9) in effects) == (name == "fixed")


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_w23_topic_made_anew_is_another_one(embedded: Any, name: str) -> None:
    """A release reads by name, whichever topic that is, and commits where it was in the old one."""
    known = embedded(name, enable_auto_commit=True, auto_commit_interval_ms=100)
    assert known.consumer.fetchable(checked=True) == BOTH
    known.consumer.receive(MetadataUpdated(TopicNames({"U": "t"})), 100)
    known.consumer.submit(AsyncPollEvent(consumed=((BOTH[0], 7),)))
    sent = [type(one.body) for one in known.consumer.poll(100).unsent_requests]
    has = name[0].isdigit()
    assert (known.consumer.fetchable(checked=True), OffsetCommitRequest in sent) == (BOTH if has else (), has)
