"""Effects that neither a conversation nor a recording shows: what each leaves behind."""

from __future__ import annotations

from typing import Any

from fsm.kafka.assignment import NONE, LocalAssignment, TopicNames
from fsm.kafka.config import ConsumerConfig
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import (
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.member.consumer import step
from fsm.member.dialect import dialect
from fsm.member.effects import (
    AssignmentUpdated,
    CallCompleted,
    EpochUpdated,
    Purpose,
    RebalanceFailed,
    RunEnded,
    UnsentRequest,
)
from fsm.member.inputs import Answered, CloseFlush
from fsm.member.state import Awaited, Member, Origin, Run, StaleRelease, new_member
from fsm.member.subscription import Ownership, Subscription, SubscriptionType
from fsm.tables.consumer_member import State

HELD, MORE = LocalAssignment(0, (("T", (0,)),)), LocalAssignment(1, (("T", (0, 1)),))
BOTH = (("t", 0), ("t", 1))
RUN = Run(MORE, BOTH, BOTH[1:], ())
DONE = ConsumerRebalanceListenerCallbackCompletedEvent(1)


def member(state: State, **fields: Any) -> Member:
    made = new_member(ConsumerConfig("g"), "M", dialect("4.4.0"), 0)
    topics, owned = Subscription(SubscriptionType.AUTO_TOPICS, ("t",)), Ownership(BOTH[:1])
    made = made._replace(subscription=topics, ownership=owned, coordinator_known=True)
    made = made._replace(state=state, epoch=3, target=MORE, current=HELD)
    return made._replace(metadata=TopicNames({"T": "t"}), poll_due_ms=10_000, auto_commit_due_ms=10_000, **fields)


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
        waiting._replace(subscription=manual, ownership=own), ApplyAssignmentEvent(1, BOTH, (), call=4), 0
    )
    (completed,) = effects
    assert isinstance(completed, CallCompleted)
    assert completed.error is not None
    assert (completed.call, completed.error.name, after.ownership) == (4, "IllegalStateException", own)


def test_assign_commits_what_is_due_before_it_changes_what_is_owned() -> None:
    """What was consumed under the assignment before is committed once its interval is over, and not earlier."""
    mine = member(State.UNSUBSCRIBED, consumed=((BOTH[0], 7),))._replace(
        subscription=Subscription(SubscriptionType.USER_ASSIGNED)
    )
    other = AssignmentChangeEvent((("t", 1),), call=3)
    early, (completed,) = step(mine, other, 9_999)
    assert (early.ownership.owned, completed) == (BOTH[1:], CallCompleted(3))
    after, (commit, completed) = step(mine, other, 10_000)
    assert isinstance(commit, UnsentRequest)
    assert (commit.purpose, commit.body.offsets) == (Purpose.INTERVAL_COMMIT, ((BOTH[0], 7),))
    assert (after.ownership.owned, after.auto_commit_due_ms, completed) == (BOTH[1:], 15_000, CallCompleted(3))


def test_run_that_ends_well_restarts_the_commit_interval() -> None:
    """The next automatic commit is an interval away."""
    waiting = member(State.RECONCILING, run=RUN, awaited=(Awaited(1, Origin.RUN_ASSIGNED),))
    after, _ = step(waiting, DONE, 7_000)
    assert (after.state, after.auto_commit_due_ms, after.current) == (State.ACKNOWLEDGING, 12_000, MORE)


def test_run_of_an_earlier_membership_is_dropped() -> None:
    """A run open at a rejoin ends with its next callback, though the member reconciles again; nothing is applied."""
    stale = member(
        State.STALE, epoch=-1, run=RUN, awaited=(Awaited(1, Origin.RUN_ASSIGNED),), stale_release=StaleRelease.DONE
    )._replace(poll_due_ms=0)
    joining, _ = step(stale, AsyncPollEvent(), 10)
    assert joining.run is not None
    assert joining.run.rejoined
    after, effects = step(joining._replace(state=State.RECONCILING, target=MORE), DONE, 20)
    assert effects == (RunEnded(None),)
    assert (after.run, after.current) == (None, HELD)


def test_subscribe_returns_at_once() -> None:
    """Its call ends when the subscription is stored."""
    _, effects = step(member(State.STABLE), TopicSubscriptionChangeEvent(("u",), call=8), 0)
    assert effects == (CallCompleted(8),)


def test_last_heartbeat_of_one_whose_release_is_open_is_not_watched() -> None:
    """It carries the epoch of a member, and its answer means nothing."""
    after, effects = step(member(State.PREPARE_LEAVING, leave=()), CloseFlush(), 0)
    (sent,) = effects
    assert isinstance(sent, UnsentRequest)
    assert isinstance(sent.body, ConsumerGroupHeartbeatRequest)
    assert (sent.purpose, sent.body.member_epoch) == (Purpose.UNWATCHED, 3)
    answered = Answered(sent, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert step(after, answered, 1) == (after, ())


def test_refused_leave_ends_the_leave() -> None:
    """Whatever the answer to a leave is, its caller returns."""
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        after, effects = step(member(State.UNSUBSCRIBED, leave=(5,)), failed(code), 0)
        assert CallCompleted(5) in effects
        assert (after.state, after.leave) == (State.UNSUBSCRIBED, None)


def test_failed_heartbeat_counts_a_failed_rebalance_once() -> None:
    """Only while one is open."""
    after, effects = step(member(State.RECONCILING, rebalance_open=True), failed(ErrorCode.NOT_COORDINATOR), 0)
    assert RebalanceFailed() in effects
    _, again = step(after, failed(ErrorCode.NOT_COORDINATOR), 1)
    assert RebalanceFailed() not in again
