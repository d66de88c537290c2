"""The dialect `document`: what the design notes decide otherwise than Kafka came to do, rule by rule.

Each rule is a choice, so each test tells the same story twice: with the rule, and with it left out.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect, choices_of, custom, dialect
from fsm.member.effects import Purpose, RunEnded
from fsm.member.events import (
    AsyncPollEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from fsm.tables.consumer_member import State

S = State


def with_and_without(choice: Choice) -> list[tuple[Dialect, bool]]:
    return [(dialect("document"), True), (custom("less", choices_of("document") - {choice}), False)]


def flipped(choice: Choice) -> Any:
    return pytest.mark.parametrize(("spoken", "rules"), with_and_without(choice), ids=["with", "without"])


@flipped(Choice.JOIN_ON_SUBSCRIBE)
def test_subscribe_joins_without_a_poll(story: Any, spoken: Dialect, rules: bool) -> None:
    """UNSUBSCRIBED to JOINING when the application subscribes; Kafka waits for its next poll."""
    told = story(spoken)
    told.do(TopicSubscriptionChangeEvent(("t",), listener=True))
    assert told.state is (S.JOINING if rules else S.UNSUBSCRIBED)
    told.tick()
    assert len(told.asked) == (1 if rules else 0)


@flipped(Choice.STABLE_WHEN_SENT)
def test_member_is_stable_when_its_join_is_sent(story: Any, spoken: Dialect, rules: bool) -> None:
    """JOINING to STABLE with the heartbeat of epoch 0; the answer then finds a STABLE member."""
    told = story(spoken)
    told.subscribe()
    told.tick()
    assert (told.state, told.sent.member_epoch) == (S.STABLE if rules else S.JOINING, 0)
    told.answer(0)
    assert (told.state, told.member.epoch) == (S.RECONCILING, 1)


def test_join_that_is_lost_is_repeated_in_full(story: Any) -> None:
    """STABLE without an epoch, the member says everything again after the backoff, with epoch 0."""
    told = story("document")
    told.subscribe()
    told.tick()
    first = told.sent
    told.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told.tick(after_ms=200)
    again = told.sent
    assert (first.member_epoch, again.member_epoch) == (0, 0)
    assert (again.subscribed_topic_names, again.topic_partitions) == (("t",), ())
    assert (again.rebalance_timeout_ms, first.rebalance_timeout_ms) == (300_000, 300_000)


@flipped(Choice.HEARTBEAT_ON_CHANGE)
def test_changed_subscription_is_sent_at_once(story: Any, spoken: Dialect, rules: bool) -> None:
    """The notes ask whether the next heartbeat is sent immediately; Kafka's answer is the interval."""
    told = story(spoken)
    told.join(0)
    told.tick(after_ms=200)
    before = len(told.asked)
    told.subscribe("t", "u")
    told.tick()
    assert len(told.asked) - before == (1 if rules else 0)
    told.tick(after_ms=1_000)
    assert (len(told.asked) - before, told.sent.subscribed_topic_names) == (1, ("t", "u"))


def test_repeated_subscription_is_no_change(story: Any) -> None:
    """The same topics again wait for the interval like anything else."""
    told = story("document")
    told.join(0)
    told.tick(after_ms=200)
    before = len(told.asked)
    told.subscribe("t")
    told.tick()
    assert len(told.asked) == before


@flipped(Choice.SUBSCRIBE_ENDS_FATAL)
def test_another_subscription_ends_fatal(story: Any, spoken: Dialect, rules: bool) -> None:
    """The notes ask whether FATAL goes to UNSUBSCRIBED when the subscription changes; Kafka's answer is no."""
    told = story(spoken)
    told.join(0)
    told.beat()
    told.answer(code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert told.state is S.FATAL
    told.subscribe("t")
    assert told.state is S.FATAL
    told.subscribe("t", "u")
    assert told.state is (S.UNSUBSCRIBED if rules else S.FATAL)
    told.background = [event for event in told.background if isinstance(event, PartitionsRemovedEvent)]
    told.take()
    told.poll()
    assert (told.state, told.owned) == (S.JOINING if rules else S.FATAL, [])


@flipped(Choice.CANCEL_RUN)
def test_leave_cancels_a_reconciliation(story: Any, spoken: Dialect, rules: bool) -> None:
    """unsubscribe() ends the open run at once; else it ends at its next step, which finds the member elsewhere."""
    told = story(spoken)
    told.join(0)
    told.beat()
    told.answer(0, 1)
    told.poll()
    assert told.member.run is not None
    effects = told.do(UnsubscribeEvent())
    assert (RunEnded(None) in effects, told.member.run is None) == (rules, rules)
    assigned = told.take()
    assert isinstance(assigned, PartitionsAssignedEvent)
    assert (told.refused, told.member.run, told.owned) == (["AssignmentOutdated"], None, [0])
    told.take()
    assert (told.state, told.owned) == (S.LEAVING, [])


@flipped(Choice.CANCEL_RUN)
def test_fence_cancels_a_reconciliation(story: Any, spoken: Dialect, rules: bool) -> None:
    """Thrown out while a commit is under way: the new membership need not wait for its end."""
    told = story(spoken, enable_auto_commit=True)
    told.join(0)
    told.do(_poll_at(5))
    told.beat()
    heartbeat = len(told.asked) - 1
    told.answer(0, 1, to=heartbeat)
    told.do(_poll_at(5))
    commit = told.asked[-1]
    assert commit.purpose is Purpose.RUN_COMMIT
    told.beat()
    told.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    told.take()
    told.tick()
    told.answer(0)
    told.do(_poll_at(5))
    busy = told.member.commit is not None
    assert busy is not rules
    told.do(Answered(commit, OffsetCommitResponse()))
    told.settle()
    assert (told.state, told.owned) == (S.STABLE, [0])


def test_answer_of_a_cancelled_commit_is_not_taken_for_another(story: Any) -> None:
    """The commit of the run in the new membership is over when its own answer comes."""
    told = story("document", enable_auto_commit=True)
    told.join(0, 1)
    told.do(_poll_at(5))
    told.beat()
    told.answer(0)
    told.do(_poll_at(5))
    late = told.asked[-1]
    told.beat()
    told.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    told.take()
    told.tick()
    told.answer(0)
    told.settle()
    told.beat()
    told.answer(1)
    told.do(_poll_at(6))
    assert told.asked[-1].purpose is Purpose.RUN_COMMIT
    told.do(Answered(late, OffsetCommitResponse()))
    assert told.member.commit is not None
    told.do(Answered(told.asked[-1], OffsetCommitResponse()))
    assert told.member.commit is None


@flipped(Choice.COMMIT_ON_UNSUBSCRIBE)
def test_unsubscribe_commits(story: Any, spoken: Dialect, rules: bool) -> None:
    """What was consumed is committed before the leave; Kafka's unsubscribe() never commits."""
    told = story(spoken, enable_auto_commit=True)
    told.join(0)
    told.do(_poll_at(5))
    before = len(told.asked)
    told.do(UnsubscribeEvent())
    committed = [asked.body.offsets for asked in told.asked[before:] if isinstance(asked.body, OffsetCommitRequest)]
    assert committed == ([((("t", 0), 5),)] if rules else [])


@pytest.mark.parametrize("timer", [False, True])
def test_no_poll_timer(story: Any, timer: bool) -> None:
    """The notes have no STALE: an application may take its time, and only the coordinator's timeouts end that."""
    added = {Choice.POLL_TIMER} if timer else set()
    told = story(custom("timed", choices_of("document") | added), max_poll_interval_ms=5_000)
    told.join(0)
    told.tick(after_ms=60_000)
    assert (told.state, told.sent.member_epoch) == ((S.STALE, -1) if timer else (S.STABLE, 1))


def _poll_at(offset: int) -> Any:
    return AsyncPollEvent(consumed=((("t", 0), offset), (("t", 1), offset)))
