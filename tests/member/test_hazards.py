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
from fsm.protocol.assignment import NO_TOPIC_ID, TopicNames, topic_partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    commit_results,
)
from fsm.tables.consumer_member import State

S = State
Drive = Any
BOTH = (("t", 0), ("t", 1))
FENCED, UNKNOWN = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.hazard("4.0.0", "4.0.2")
def test_h1_late_leave_response_is_adopted_by_one_who_joins(story: Drive, name: str, has: bool) -> None:
    """The answer to a leave that comes after the next join makes that join's epoch negative."""
    driver = story(name)
    driver.join(0)
    driver.do(LeaveGroupOnCloseEvent())
    driver.tick()
    driver.subscribe()
    driver.do(Answered(driver.asked[-1], ConsumerGroupHeartbeatResponse(-1, 0)))
    assert (driver.state, driver.member.epoch) == (S.JOINING, -1 if has else 0)


@pytest.mark.hazard("4.0.0")
def test_h2_late_callback_of_a_leave_wipes_a_new_subscription(story: Drive, name: str, has: bool) -> None:
    """Fenced while its release is queued, unsubscribe() returns; the callback's end then wipes what came after."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    driver.do(UnsubscribeEvent(call=9))
    assert driver.state is S.PREPARE_LEAVING
    effects = driver.answer(code=UNKNOWN)
    assert (CallCompleted(9) in effects, driver.state) == (has, S.UNSUBSCRIBED)
    driver.subscribe()
    driver.take()
    if not has:
        assert driver.state is S.UNSUBSCRIBED
        driver.poll()
    wiped, kept = (S.JOINING, -1, ()), (S.JOINING, 0, ("t",))
    assert (driver.state, driver.member.epoch, driver.member.subscription.topics) == (wiped if has else kept)


@pytest.mark.hazard("4.0.0")
def test_h2b_late_callback_of_a_loss_wipes_a_newer_target(story: Drive, name: str, has: bool) -> None:
    """A lost callback that ends after the member has left and joined again clears its new target and what it owns."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    driver.answer(code=FENCED)
    driver.do(UnsubscribeEvent())
    driver.subscribe()
    assert driver.state is (S.JOINING if has else S.UNSUBSCRIBED)
    if not has:
        driver.take()
        driver.poll()
    driver.tick()
    driver.answer(0, 1)
    assert (driver.state, driver.member.target.is_none) == (S.RECONCILING, False)
    if has:
        driver.take()
    assert (driver.state, driver.member.target.is_none) == (S.RECONCILING, has)


@pytest.mark.hazard("4.0.0", "4.3.1")
def test_h3_topic_without_a_name_is_acknowledged_around(story: Drive, name: str, has: bool) -> None:
    """Every attempt acknowledges the resolvable rest again; metadata is asked for at each in every dialect."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    target = topic_partitions({"T": [0], "NEW": [0]})
    driver.do(Answered(driver.asked[-1], ConsumerGroupHeartbeatResponse(1, 1_000, target)))
    before, asked_for = len(driver.asked), 0
    for _ in range(5):
        effects = (*driver.tick(), *driver.tick())
        asked_for += MetadataNeeded(("NEW",)) in effects
        if driver.member.heartbeat_in_flight:
            driver.acknowledged()
    assert len(driver.asked) - before == (5 if has else 1)
    assert asked_for == 5


@pytest.mark.hazard("4.0.0")
def test_h4_failed_callback_and_reverted_target_acknowledge_too_little(story: Drive, name: str, has: bool) -> None:
    """The assigned callback fails and the target goes back: what is held is acknowledged, more is owned."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    driver.answer(0, 1)
    driver.poll()
    driver.beat()
    driver.take(error="threw")
    driver.answer(0)
    driver.tick()
    driver.tick()
    if not has:
        driver.settle()
    last = next(a.body for a in reversed(driver.asked) if a.body.topic_partitions is not None)
    assert (driver.state, last.topic_partitions) == (S.STABLE, (("T", (0,)),))
    assert driver.owned == ([0, 1] if has else [0])


@pytest.mark.hazard("4.0.0")
def test_h5_close_after_an_abandoned_unsubscribe_sends_no_leave(story: Drive, name: str, has: bool) -> None:
    """With its release still open, the background thread that stops sends an ordinary heartbeat."""
    driver = story(name)
    driver.join(0)
    driver.do(UnsubscribeEvent())
    driver.do(CloseFlush())
    assert (driver.state, driver.sent.member_epoch) == ((S.PREPARE_LEAVING, 1) if has else (S.UNSUBSCRIBED, -1))


@pytest.mark.hazard("4.0.0")
def test_h6_subscription_made_while_leaving_is_forgotten(story: Drive, name: str, has: bool) -> None:
    """A poll consumes the flag before the member is out; nothing ever joins."""
    driver = story(name)
    driver.join(0)
    driver.do(LeaveGroupOnCloseEvent())
    driver.subscribe()
    driver.tick()
    driver.do(Answered(driver.asked[-1], ConsumerGroupHeartbeatResponse(-1, 0)))
    for _ in range(3):
        driver.poll()
    assert (driver.state, driver.member.subscription.topics) == (S.UNSUBSCRIBED if has else S.JOINING, ("t",))


@pytest.mark.hazard("4.0.0")
def test_h6_subscription_made_during_the_last_callback_is_wiped(story: Drive, name: str, has: bool) -> None:
    """The same while the revoked callback of unsubscribe() runs: its end empties the subscription of then."""
    driver = story(name)
    driver.join(0)
    driver.do(UnsubscribeEvent())
    driver.subscribe("u")
    driver.take()
    driver.tick()
    driver.poll()
    left, joins = (S.UNSUBSCRIBED, ()), (S.JOINING, ("u",))
    assert (driver.state, driver.member.subscription.topics) == (left if has else joins)


@pytest.mark.hazard("4.0.0")
def test_h7_kept_partition_stays_pending_revocation(story: Drive, name: str, has: bool) -> None:
    """The revoked callback fails and the target goes back: the partition is owned and never fetched again."""
    driver = story(name)
    driver.join(0, 1)
    driver.beat()
    driver.answer(0)
    driver.poll()
    driver.beat()
    driver.take(error="threw")
    driver.answer(0, 1)
    driver.settle()
    assert (driver.state, driver.owned) == (S.STABLE, [0, 1])
    assert driver.fetchable == ([0] if has else [0, 1])


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h8_failed_assigned_callback_is_made_good(story: Drive, name: str) -> None:
    """Since 4.0 the next run enables everything that it resolved, also what a failed callback left behind."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    driver.answer(0, 1)
    driver.poll()
    driver.take(error="threw")
    driver.settle()
    assert (driver.state, driver.fetchable) == (S.STABLE, [0, 1])


INTERRUPTS = {"interrupt": KeyboardInterrupt, "wakeup": lambda: KafkaException(KafkaError("WakeupException"))}


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize("method", ["assigned", "revoked"])
@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h9_callback_that_is_interrupted_has_ended(embedded: Any, name: str, method: str, interrupt: str) -> None:
    """Since 4.0 a wakeup or an interrupt out of a listener does not lose its end: the run comes to be acknowledged."""
    consumer = embedded(name)
    left, called = [INTERRUPTS[interrupt]], getattr(consumer.listener, f"on_partitions_{method}")

    def stop(given: Any) -> None:
        called(given)
        if left:
            raise left.pop()()

    setattr(consumer.listener, f"on_partitions_{method}", stop)
    target = (0,) if method == "revoked" else (0, 1, 2)
    consumer.turn(1_200, topic_partitions({"T": target}))
    stopped = []
    for now_ms in range(1_201, 1_207):
        consumer.consumer.submit(AsyncPollEvent())
        consumer.consumer.poll(now_ms)
        try:
            consumer.run_callbacks(now_ms)
        except (KeyboardInterrupt, KafkaException) as error:
            stopped.append(type(error))
    assert len(stopped) == 1
    assert not left
    assert consumer.consumer.member.state in (S.ACKNOWLEDGING, S.STABLE)
    assert consumer.consumer.fetchable(checked=True) == tuple(("t", number) for number in target)


@pytest.mark.hazard("4.0.0", without=("document",))
def test_h10_unsubscribed_while_stale_joins_without_a_subscription(story: Drive, name: str, has: bool) -> None:
    """unsubscribe() in STALE stays there; the next poll joins with an empty list of names."""
    driver = story(name, max_poll_interval_ms=5_000)
    driver.join(0)
    driver.tick(after_ms=6_000)
    assert driver.state is S.STALE
    driver.take()
    driver.do(UnsubscribeEvent())
    driver.poll()
    driver.tick()
    assert driver.state is (S.JOINING if has else S.UNSUBSCRIBED)
    assert driver.sent.member_epoch == (0 if has else -1)
    assert not driver.sent.subscribed_topic_names


@pytest.mark.hazard("4.0.0")
def test_h10_subscription_taken_back_joins(story: Drive, name: str, has: bool) -> None:
    """subscribe, unsubscribe, assign, poll: the flag of the first one joins a group for partitions taken by hand."""
    driver = story(name)
    driver.do(TopicSubscriptionChangeEvent(("t",), listener=True))
    driver.do(UnsubscribeEvent())
    driver.tick()
    driver.do(AssignmentChangeEvent((("t", 7),)))
    driver.poll()
    assert driver.state is (S.JOINING if has else S.UNSUBSCRIBED)


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h11_one_who_was_never_answered_leaves_under_its_id(story: Drive, name: str) -> None:
    """Since 4.0 the member makes its id itself, so a leave before the first answer says whose it is."""
    driver = story(name)
    driver.subscribe()
    driver.tick()
    driver.do(UnsubscribeEvent())
    driver.tick()
    assert (driver.sent.member_epoch, driver.sent.member_id) == (-1, "M")


@pytest.mark.hazard("4.0.0")
def test_h12_response_of_an_earlier_membership_is_believed(story: Drive, name: str, has: bool) -> None:
    """A heartbeat's answer that comes after leave and subscribe gives the joining member an epoch."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    late = len(driver.asked) - 1
    driver.do(LeaveGroupOnCloseEvent())
    driver.tick()
    driver.subscribe()
    driver.acknowledged(epoch=7, to=late)
    assert (driver.state, driver.member.epoch) == (S.JOINING, 7 if has else 0)


@pytest.mark.hazard("4.0.0")
def test_h13_joining_ignores_the_backoff(story: Drive, name: str, has: bool) -> None:
    """Ten failures in ten loops of one millisecond are ten requests; else one, and the next after the backoff."""
    driver = story(name)
    driver.subscribe()
    for _ in range(10):
        driver.tick()
        driver.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert len(driver.asked) == (10 if has else 1)
    driver.tick(after_ms=200)
    assert len(driver.asked) == (11 if has else 2)


@pytest.mark.hazard("4.0.0", without=("document",))
def test_h14_late_fatal_error_is_shown_to_one_who_is_stale(story: Drive, name: str, has: bool) -> None:
    """The change to FATAL is refused in silence, the application gets the error, and the member lives on."""
    driver = story(name, max_poll_interval_ms=5_000)
    driver.join(0)
    driver.beat()
    late = len(driver.asked) - 1
    driver.tick(after_ms=6_000)
    driver.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED, to=late)
    assert driver.state is S.STALE
    assert any(isinstance(event, ErrorEvent) for event in driver.background) is has


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_h14_late_fence_is_nothing_to_one_whose_membership_is_over(story: Drive, name: str) -> None:
    """Fenced by the answer to an older heartbeat, a member in FATAL stays there and calls nobody back again."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    driver.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    while driver.background:
        event = driver.background[0]
        driver.take() if isinstance(event, PartitionsRemovedEvent) else driver.background.pop(0)
    assert driver.state is S.FATAL
    before = driver.member
    driver.answer(code=FENCED)
    assert (driver.state, driver.background) == (S.FATAL, [])
    assert driver.member.subscription == before.subscription


@pytest.mark.hazard("4.1.0")
def test_h15_late_fatal_error_takes_partitions_assigned_by_hand(story: Drive, name: str, has: bool) -> None:
    """A fatal answer after the leave is over releases what the application has assigned itself since."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    late = len(driver.asked) - 1
    driver.do(LeaveGroupOnCloseEvent())
    driver.do(CoordinatorLost())
    driver.tick()
    driver.do(AssignmentChangeEvent((("t", 7),)))
    driver.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED, to=late)
    asked = [event.partitions for event in driver.background if isinstance(event, PartitionsRemovedEvent)]
    assert asked == ([(("t", 7),)] if has else [])
    if not has:
        assert driver.fetchable == [7]


@pytest.mark.hazard("4.1.0", without=("4.0.0", "4.0.1", "4.0.2"))
def test_h16_remaining_in_the_group_leaves_it(story: Drive, name: str, has: bool) -> None:
    """A dynamic member closed to remain still sends its leave, as soon as nothing is in flight."""
    driver = story(name, max_poll_interval_ms=5_000)
    driver.join(0)
    driver.beat()
    driver.do(LeaveGroupOnCloseEvent(operation=GroupMembershipOperation.REMAIN_IN_GROUP))
    driver.tick()
    assert driver.state is (S.LEAVING if has else S.UNSUBSCRIBED)
    assert (PollTimerExpired() in driver.tick(after_ms=6_000)) is has
    driver.poll()
    driver.acknowledged()
    driver.tick()
    assert (driver.state, driver.sent.member_epoch) == (S.UNSUBSCRIBED, -1 if has else 1)


@pytest.mark.hazard("4.3.0")
def test_h17_assignment_of_the_past_is_applied(story: Drive, name: str, has: bool) -> None:
    """Fenced with an assignment in its queue, the joining member comes to own it."""
    driver = story(name, listener=False)
    driver.subscribe()
    driver.tick()
    driver.answer(0, 1)
    driver.poll()
    driver.beat()
    driver.answer(code=FENCED)
    while driver.background:
        driver.take()
    assert (driver.state, driver.owned) == (S.JOINING, [0, 1] if has else [])


def test_h17_without_it_nobody_is_called_back_either(embedded: Any) -> None:
    """`fixed` skips an assignment of the past: neither is it applied nor is its callback run, and poll() throws not."""
    consumer = embedded("fixed")
    consumer.turn(1_200, topic_partitions({"T": (0, 1, 2)}))
    consumer.consumer.submit(AsyncPollEvent())
    (request,) = consumer.consumer.poll(2_400).unsent_requests
    consumer.consumer.receive(Answered(request, ConsumerGroupHeartbeatResponse(error_code=FENCED)), 2_400)
    consumer.run_callbacks(2_400)
    assert consumer.listener.called == [("assigned", BOTH), ("lost", BOTH)]


@pytest.mark.hazard("4.3.0")
def test_h18_application_thread_does_the_work_of_the_background(embedded: Any, name: str, has: bool) -> None:
    """Without a listener a run ends on the application's thread, before the background has looked at its queue."""
    consumer = embedded(name, listens=False)
    consumer.turn(1_200, topic_partitions({"T": (0, 1, 2)}))
    consumer.consumer.submit(AsyncPollEvent())
    consumer.consumer.poll(1_200)
    before = consumer.consumer.member.state
    consumer.run_callbacks(1_200)
    after = consumer.consumer.member.state
    assert ((before, after) == (S.RECONCILING, S.ACKNOWLEDGING)) is has


@pytest.mark.hazard("4.0.0", "4.0.2")
def test_h19_refused_leave_never_ends(story: Drive, name: str, has: bool) -> None:
    """A fatal answer to the leave ends the membership, but unsubscribe() waits on; since 4.1 it returns."""
    driver = story(name, listener=False)
    driver.join(0)
    driver.do(UnsubscribeEvent(call=4))
    driver.tick()
    effects = driver.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert (driver.state, CallCompleted(4) in effects) == (S.FATAL, not has)


@pytest.mark.hazard("4.0.0")
def test_h20_close_after_unsubscribe_loses_what_was_revoked_long_ago(embedded: Any, name: str, has: bool) -> None:
    """A normal leave does not empty the application's record; close() then calls onPartitionsLost over it."""
    consumer = embedded(name)
    consumer.consumer.submit(UnsubscribeEvent())
    consumer.consumer.poll(1)
    consumer.run_callbacks(1)
    (leave,) = consumer.consumer.poll(2).unsent_requests
    consumer.consumer.receive(Answered(leave, ConsumerGroupHeartbeatResponse(-1, 0)), 3)
    consumer.consumer.close(4)
    consumer.run_callbacks(4)
    lost = [("lost", BOTH)] if has else []
    assert consumer.listener.called == [("assigned", BOTH), ("revoked", BOTH), *lost]


@pytest.mark.parametrize(
    ("name", "state"),
    [(name, S.PREPARE_LEAVING) for name in ("4.0.0", "4.4.0", "document")] + [("fixed", S.UNSUBSCRIBED)],
)
def test_w22_poll_timer_bounds_the_callback_of_unsubscribe(story: Drive, name: str, state: State) -> None:
    """One that does not return keeps the partitions; in `fixed` the member leaves, and the call ends with it."""
    driver = story(name)
    driver.join(0)
    driver.now_ms = driver.member.poll_due_ms - 1
    driver.do(UnsubscribeEvent(call=9))
    driver.tick(after_ms=1)
    driver.acknowledged()
    assert (driver.state, driver.owned) == (S.PREPARE_LEAVING, [0])
    effects = driver.tick(after_ms=300_000)
    assert (driver.state, PollTimerExpired() in effects) == (state, name == "fixed")
    assert driver.sent.member_epoch == (-1 if name == "fixed" else 1)
    event = driver.background.pop(0)
    assert isinstance(event, PartitionsRemovedEvent)
    effects = driver.do(ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket, None))
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


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_w23_commits_name_the_topic_that_was_assigned(embedded: Any, name: str) -> None:
    """By name they are those of the new topic. One that the broker does not know any more is not tried again."""
    known = embedded(name, enable_auto_commit=True, auto_commit_interval_ms=100)
    known.consumer.submit(AsyncPollEvent(consumed=((BOTH[0], 7),)))
    (request,) = (one for one in known.consumer.poll(100).unsent_requests if isinstance(one.body, OffsetCommitRequest))
    has = name[0].isdigit()
    assert [(one.name, one.topic_id) for one in request.body.topics] == [("t", NO_TOPIC_ID if has else "T")]
    gone = OffsetCommitResponse(topics=commit_results([(BOTH[0], ErrorCode.UNKNOWN_TOPIC_ID)]))
    known.consumer.receive(Answered(request, gone), 101)
    due_ms = known.consumer.member.auto_commit.due_ms
    assert due_ms == (101 + known.consumer.config.retry_backoff_ms if has else 200)
