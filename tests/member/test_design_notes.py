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
    return pytest.mark.parametrize(("dialect", "rules"), with_and_without(choice), ids=["with", "without"])


@flipped(Choice.JOIN_ON_SUBSCRIBE)
def test_subscribe_joins_without_a_poll(story: Any, dialect: Dialect, rules: bool) -> None:
    """UNSUBSCRIBED to JOINING when the application subscribes; Kafka waits for its next poll."""
    driver = story(dialect)
    driver.do(TopicSubscriptionChangeEvent(("t",), listener=True))
    assert driver.state is (S.JOINING if rules else S.UNSUBSCRIBED)
    driver.tick()
    assert len(driver.asked) == (1 if rules else 0)


@flipped(Choice.STABLE_WHEN_SENT)
def test_member_is_stable_when_its_join_is_sent(story: Any, dialect: Dialect, rules: bool) -> None:
    """JOINING to STABLE with the heartbeat of epoch 0; the answer then finds a STABLE member."""
    driver = story(dialect)
    driver.subscribe()
    driver.tick()
    assert (driver.state, driver.sent.member_epoch) == (S.STABLE if rules else S.JOINING, 0)
    driver.answer(0)
    assert (driver.state, driver.member.epoch) == (S.RECONCILING, 1)


def test_join_that_is_lost_is_repeated_in_full(story: Any) -> None:
    """STABLE without an epoch, the member says everything again after the backoff, with epoch 0."""
    driver = story("document")
    driver.subscribe()
    driver.tick()
    first = driver.sent
    driver.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    driver.tick(after_ms=200)
    again = driver.sent
    assert (first.member_epoch, again.member_epoch) == (0, 0)
    assert (again.subscribed_topic_names, again.topic_partitions) == (("t",), ())
    assert (again.rebalance_timeout_ms, first.rebalance_timeout_ms) == (300_000, 300_000)


@flipped(Choice.HEARTBEAT_ON_CHANGE)
def test_changed_subscription_is_sent_at_once(story: Any, dialect: Dialect, rules: bool) -> None:
    """The notes ask whether the next heartbeat is sent immediately; Kafka's answer is the interval."""
    driver = story(dialect)
    driver.join(0)
    driver.tick(after_ms=200)
    before = len(driver.asked)
    driver.subscribe("t", "u")
    driver.tick()
    assert len(driver.asked) - before == (1 if rules else 0)
    driver.tick(after_ms=1_000)
    assert (len(driver.asked) - before, driver.sent.subscribed_topic_names) == (1, ("t", "u"))


def test_repeated_subscription_is_no_change(story: Any) -> None:
    """The same topics again wait for the interval like anything else."""
    driver = story("document")
    driver.join(0)
    driver.tick(after_ms=200)
    before = len(driver.asked)
    driver.subscribe("t")
    driver.tick()
    assert len(driver.asked) == before


@flipped(Choice.SUBSCRIBE_ENDS_FATAL)
def test_another_subscription_ends_fatal(story: Any, dialect: Dialect, rules: bool) -> None:
    """The notes ask whether FATAL goes to UNSUBSCRIBED when the subscription changes; Kafka's answer is no."""
    driver = story(dialect)
    driver.join(0)
    driver.beat()
    driver.answer(code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert driver.state is S.FATAL
    driver.subscribe("t")
    assert driver.state is S.FATAL
    driver.subscribe("t", "u")
    assert driver.state is (S.UNSUBSCRIBED if rules else S.FATAL)
    driver.background = [event for event in driver.background if isinstance(event, PartitionsRemovedEvent)]
    driver.take()
    driver.poll()
    assert (driver.state, driver.owned) == (S.JOINING if rules else S.FATAL, [])


@flipped(Choice.CANCEL_RUN)
def test_leave_cancels_a_reconciliation(story: Any, dialect: Dialect, rules: bool) -> None:
    """unsubscribe() ends the open run at once; else it ends at its next step, which finds the member elsewhere."""
    driver = story(dialect)
    driver.join(0)
    driver.beat()
    driver.answer(0, 1)
    driver.poll()
    assert driver.member.run is not None
    effects = driver.do(UnsubscribeEvent())
    assert (RunEnded(None) in effects, driver.member.run is None) == (rules, rules)
    assigned = driver.take()
    assert isinstance(assigned, PartitionsAssignedEvent)
    assert (driver.refused, driver.member.run, driver.owned) == (["AssignmentOutdated"], None, [0])
    driver.take()
    assert (driver.state, driver.owned) == (S.LEAVING, [])


@flipped(Choice.CANCEL_RUN)
def test_fence_cancels_a_reconciliation(story: Any, dialect: Dialect, rules: bool) -> None:
    """Thrown out while a commit is under way: the new membership need not wait for its end."""
    driver = story(dialect, enable_auto_commit=True)
    driver.join(0)
    driver.do(_poll_at(5))
    driver.beat()
    heartbeat = len(driver.asked) - 1
    driver.answer(0, 1, to=heartbeat)
    driver.do(_poll_at(5))
    commit = driver.asked[-1]
    assert commit.purpose is Purpose.RUN_COMMIT
    driver.beat()
    driver.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    driver.take()
    driver.tick()
    driver.answer(0)
    driver.do(_poll_at(5))
    busy = driver.member.commit is not None
    assert busy is not rules
    driver.do(Answered(commit, OffsetCommitResponse()))
    driver.settle()
    assert (driver.state, driver.owned) == (S.STABLE, [0])


def test_answer_of_a_cancelled_commit_is_not_taken_for_another(story: Any) -> None:
    """The commit of the run in the new membership is over when its own answer comes."""
    driver = story("document", enable_auto_commit=True)
    driver.join(0, 1)
    driver.do(_poll_at(5))
    driver.beat()
    driver.answer(0)
    driver.do(_poll_at(5))
    late = driver.asked[-1]
    driver.beat()
    driver.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    driver.take()
    driver.tick()
    driver.answer(0)
    driver.settle()
    driver.beat()
    driver.answer(1)
    driver.do(_poll_at(6))
    assert driver.asked[-1].purpose is Purpose.RUN_COMMIT
    driver.do(Answered(late, OffsetCommitResponse()))
    assert driver.member.commit is not None
    driver.do(Answered(driver.asked[-1], OffsetCommitResponse()))
    assert driver.member.commit is None


@flipped(Choice.COMMIT_ON_UNSUBSCRIBE)
def test_unsubscribe_commits(story: Any, dialect: Dialect, rules: bool) -> None:
    """What was consumed is committed before the leave; Kafka's unsubscribe() never commits."""
    driver = story(dialect, enable_auto_commit=True)
    driver.join(0)
    driver.do(_poll_at(5))
    before = len(driver.asked)
    driver.do(UnsubscribeEvent())
    committed = [asked.body.offsets for asked in driver.asked[before:] if isinstance(asked.body, OffsetCommitRequest)]
    assert committed == ([((("t", 0), 5),)] if rules else [])


@pytest.mark.parametrize("timer", [False, True])
def test_no_poll_timer(story: Any, timer: bool) -> None:
    """The notes have no STALE: an application may take its time, and only the coordinator's timeouts end that."""
    added = {Choice.POLL_TIMER} if timer else set()
    driver = story(custom("timed", choices_of("document") | added), max_poll_interval_ms=5_000)
    driver.join(0)
    driver.tick(after_ms=60_000)
    assert (driver.state, driver.sent.member_epoch) == ((S.STALE, -1) if timer else (S.STABLE, 1))


def _poll_at(offset: int) -> Any:
    return AsyncPollEvent(consumed=((("t", 0), offset), (("t", 1), offset)))
