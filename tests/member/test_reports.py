"""What a member says that it owns, and when it says everything: where reports of releases hurt (W1, W8, W9)."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.member.events import PartitionsAssignedEvent
from fsm.member.inputs import Answered, CoordinatorFound
from fsm.protocol.assignment import topic_partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, TIMED_OUT
from fsm.tables.consumer_member import State

RELEASES = ("4.0.0", "4.2.1", "4.3.1", "4.4.0")
BOTH = topic_partitions({"T": (0, 1)})


def fail(driver: Any) -> None:
    """The heartbeat under way is given up; the next one goes out after the backoff."""
    driver.do(Answered(driver.asked[-1], TIMED_OUT))
    driver.beat()


def is_full(driver: Any) -> bool:
    return bool(driver.sent.rebalance_timeout_ms != -1 and driver.sent.topic_partitions is not None)


@pytest.mark.parametrize(
    ("name", "reported"), [*((name, ()) for name in RELEASES), ("fixed", BOTH), ("document", BOTH)]
)
def test_what_is_being_assigned_is_reported(story: Any, name: str, reported: object) -> None:
    """W9: in the assigned callback a full report leaves out what the callback is about; `fixed` names it."""
    driver = story(name)
    driver.subscribe()
    driver.tick()
    driver.answer(0, 1)
    driver.poll()
    assert isinstance(driver.background[-1], PartitionsAssignedEvent)
    driver.beat()
    fail(driver)
    assert is_full(driver)
    assert driver.sent.topic_partitions == reported


@pytest.mark.parametrize(("name", "reported"), [*((name, ()) for name in RELEASES), ("fixed", BOTH)])
def test_what_no_run_has_begun_with_is_reported(story: Any, name: str, reported: object) -> None:
    """W1: the application has not polled yet, and will be given the target if the next answer is lost."""
    driver = story(name)
    driver.subscribe()
    driver.tick()
    driver.answer(0, 1)
    driver.beat()
    fail(driver)
    assert driver.state is State.RECONCILING
    assert driver.sent.topic_partitions == reported


@pytest.mark.parametrize(("name", "reported"), [*((name, (0,)) for name in RELEASES), ("fixed", (0, 1))])
def test_an_acknowledgement_that_comes_after_the_next_target_names_both(
    story: Any, name: str, reported: tuple[int, ...]
) -> None:
    """What goes out on the interval, too: it acknowledges one run while the next target waits."""
    driver = story(name)
    driver.subscribe()
    driver.tick()
    driver.answer(0)
    driver.poll()
    driver.beat()
    driver.take()
    assert driver.state is State.ACKNOWLEDGING
    driver.answer(0, 1)
    assert driver.state is State.RECONCILING
    driver.beat()
    assert driver.sent.topic_partitions == topic_partitions({"T": reported})


def test_when_all_is_applied_exactly_that_is_reported(story: Any) -> None:
    """Nothing is claimed for longer than it has to be: the acknowledgement names what is held alone."""
    driver = story("fixed")
    driver.subscribe()
    driver.tick()
    driver.answer(0, 1)
    driver.poll()
    driver.beat()
    fail(driver)
    assert driver.sent.topic_partitions == BOTH
    driver.answer(0)
    driver.take()
    driver.tick()
    assert (driver.state, driver.sent.topic_partitions) == (State.RECONCILING, BOTH)
    driver.settle()
    assert (driver.state, driver.sent.topic_partitions) == (State.STABLE, topic_partitions({"T": (0,)}))


@pytest.mark.parametrize("failure", [TIMED_OUT, DISCONNECTED])
@pytest.mark.parametrize("name", [*RELEASES, "fixed"])
def test_after_a_request_was_given_up_every_heartbeat_is_full(story: Any, name: str, failure: object) -> None:
    """W8: it may be handled yet, and its answer goes nowhere; in `fixed`, until its epoch is refused."""
    driver = story(name)
    driver.join(0)
    driver.beat()
    driver.do(Answered(driver.asked[-1], failure))
    driver.do(CoordinatorFound())
    full = []
    for epoch in (1, 1, 2, 2, 3, 3):
        driver.beat()
        full.append(is_full(driver))
        driver.acknowledged(epoch)
    always = name == "fixed"
    assert full == [True, always, always, always, always, False]


@pytest.mark.parametrize("name", [*RELEASES, "fixed"])
def test_a_join_that_was_given_up_can_always_be_handled(story: Any, name: str) -> None:
    """A coordinator takes a join at any epoch: in `fixed` every heartbeat is full from then on."""
    driver = story(name)
    driver.subscribe()
    driver.tick()
    fail(driver)
    driver.answer(0)
    driver.settle()
    for epoch in (2, 3, 4):
        driver.beat()
        assert is_full(driver) is (name == "fixed")
        driver.acknowledged(epoch)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_request_that_was_refused_is_over(story: Any, code: ErrorCode) -> None:
    """One full heartbeat follows a failure, as ever; a refused request cannot be handled later."""
    driver = story("fixed")
    driver.join(0)
    driver.beat()
    driver.answer(code=code)
    driver.do(CoordinatorFound())
    driver.beat()
    assert is_full(driver)
    driver.acknowledged()
    driver.beat()
    assert not is_full(driver)
