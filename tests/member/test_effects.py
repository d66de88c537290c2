"""Effects that neither a conversation nor a recording shows: what each leaves behind."""

from __future__ import annotations

from typing import Any

from member_values import changed

from fsm.member.consumer.state import AutoCommit, Awaited, Member, Origin, Run, StaleRelease, new_member
from fsm.member.consumer.step import step
from fsm.member.consumer.subscription import Ownership, Subscription, SubscriptionType
from fsm.member.dialect.dialect import dialect
from fsm.member.effects import (
    AssignmentUpdated,
    CallCompleted,
    EpochUpdated,
    HeartbeatFailed,
    Purpose,
    RunEnded,
    UnsentRequest,
)
from fsm.member.events import (
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    KafkaError,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, CloseFlush
from fsm.protocol.assignment import NONE, LocalAssignment, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_member import State

HELD, MORE = LocalAssignment(0, (("T", (0,)),)), LocalAssignment(1, (("T", (0, 1)),))
BOTH = (("t", 0), ("t", 1))
RUN = Run(MORE, BOTH, BOTH[1:], ())
DONE = ConsumerRebalanceListenerCallbackCompletedEvent(1)


def member(state: State, **fields: Any) -> Member:
    made = new_member(ConsumerConfig("g"), "M", dialect("4.4.0"), 0)
    topics, owned = Subscription(SubscriptionType.AUTO_TOPICS, ("t",)), Ownership(BOTH[:1])
    made = changed(made, subscription=topics, ownership=owned, coordinator_known=True)
    made = changed(made, state=state, epoch=3, target=MORE, current=HELD, auto_commit=AutoCommit(10_000))
    return changed(made, metadata=TopicNames({"T": "t"}), poll_due_ms=10_000, **fields)


def failed(code: ErrorCode) -> Answered:
    request = UnsentRequest(ConsumerGroupHeartbeatRequest("g", "M", 3), Purpose.HEARTBEAT)
    return Answered(request, ConsumerGroupHeartbeatResponse(error_code=code))


def test_fatal_error_takes_the_epoch_from_listeners_only() -> None:
    """Listeners hear that there is no epoch; the member keeps its own."""
    after, effects = step(member(State.STABLE), failed(ErrorCode.GROUP_AUTHORIZATION_FAILED), 0)
    assert EpochUpdated(None) in effects
    assert after.epoch == 3


def test_unsubscribe_of_one_who_is_out_empties_the_record_and_returns() -> None:
    """The application's record is emptied, and its call ends at once."""
    _, effects = step(member(State.UNSUBSCRIBED), UnsubscribeEvent(call=6), 0)
    assert effects == (AssignmentUpdated(()), CallCompleted(6))


def test_join_forgets_the_target_of_before() -> None:
    """One who was fenced out while leaving still has a target; its next join begins without."""
    before = member(State.UNSUBSCRIBED, updated=True, names=TopicNames({"T": "t"}))
    after, _ = step(before, AsyncPollEvent(), 0)
    assert (after.state, after.target, len(after.names)) == (State.JOINING, NONE, 0)


def test_rejected_assignment_fails_the_call() -> None:
    """Partitions that the application assigned itself are not replaced by the group's."""
    manual, own = Subscription(SubscriptionType.USER_ASSIGNED), Ownership((("u", 0),))
    waiting = member(State.RECONCILING, run=RUN, awaited=(Awaited(1, Origin.RUN_ASSIGNED),))
    after, effects = step(
        changed(waiting, subscription=manual, ownership=own), ApplyAssignmentEvent(1, BOTH, (), call=4), 0
    )
    (completed,) = effects
    assert isinstance(completed, CallCompleted)
    assert completed.error is not None
    assert (completed.call, completed.error.name, after.ownership) == (4, "IllegalStateException", own)


def test_assign_commits_what_is_due_before_it_changes_what_is_owned() -> None:
    """What was consumed under the assignment before is committed once its interval is over, and not earlier."""
    manual = Subscription(SubscriptionType.USER_ASSIGNED)
    mine = changed(member(State.UNSUBSCRIBED, consumed=((BOTH[0], 7),)), subscription=manual)
    other = AssignmentChangeEvent((("t", 1),), call=3)
    early, (completed,) = step(mine, other, 9_999)
    assert (early.ownership.owned, completed) == (BOTH[1:], CallCompleted(3))
    after, (commit, completed) = step(mine, other, 10_000)
    assert isinstance(commit, UnsentRequest)
    assert (commit.purpose, commit.body.offsets) == (Purpose.INTERVAL_COMMIT, ((BOTH[0], 7),))
    assert (after.ownership.owned, after.auto_commit.due_ms, completed) == (BOTH[1:], 15_000, CallCompleted(3))


def test_run_that_ends_well_restarts_the_commit_interval() -> None:
    """The next automatic commit is an interval away."""
    waiting = member(State.RECONCILING, run=RUN, awaited=(Awaited(1, Origin.RUN_ASSIGNED),))
    after, _ = step(waiting, DONE, 7_000)
    assert (after.state, after.auto_commit.due_ms, after.current) == (State.ACKNOWLEDGING, 12_000, MORE)


def test_run_of_an_earlier_membership_is_dropped() -> None:
    """A run open at a rejoin ends with its next callback, though the member reconciles again; nothing is applied."""
    stale = member(State.STALE, run=RUN, awaited=(Awaited(1, Origin.RUN_ASSIGNED),), stale_release=StaleRelease.DONE)
    stale = changed(stale, epoch=-1, poll_due_ms=0)
    joining, _ = step(stale, AsyncPollEvent(), 10)
    assert joining.run is not None
    assert joining.run.rejoined
    after, effects = step(changed(joining, state=State.RECONCILING, target=MORE), DONE, 20)
    assert effects == (RunEnded(None),)
    assert (after.run, after.current) == (None, HELD)


def test_subscribe_returns_at_once() -> None:
    """Its call ends when the subscription is stored."""
    _, effects = step(member(State.STABLE), TopicSubscriptionChangeEvent(("u",), call=8), 0)
    assert effects == (CallCompleted(8),)


def test_last_heartbeat_of_one_whose_release_is_open_is_not_watched() -> None:
    """It carries the epoch of a member, and its answer means nothing."""
    after, effects = step(member(State.PREPARE_LEAVING, calls=()), CloseFlush(), 0)
    (sent,) = effects
    assert isinstance(sent, UnsentRequest)
    assert isinstance(sent.body, ConsumerGroupHeartbeatRequest)
    assert (sent.purpose, sent.body.member_epoch) == (Purpose.UNWATCHED, 3)
    answered = Answered(sent, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert step(after, answered, 1) == (after, ())


def test_refused_leave_ends_the_leave() -> None:
    """Whatever the answer to a leave is, its caller returns."""
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        after, effects = step(member(State.UNSUBSCRIBED, calls=(5,)), failed(code), 0)
        assert CallCompleted(5) in effects
        assert (after.state, after.leaving.calls) == (State.UNSUBSCRIBED, None)


def test_failed_heartbeat_says_what_failed() -> None:
    """For logs and metrics, by the name of the error."""
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.INVALID_REQUEST):
        _, effects = step(member(State.RECONCILING), failed(code), 0)
        assert HeartbeatFailed(KafkaError(code.name)) in effects
