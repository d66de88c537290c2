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


def fail(told: Any) -> None:
    """The heartbeat under way is given up; the next one goes out after the backoff."""
    told.do(Answered(told.asked[-1], TIMED_OUT))
    told.beat()


def is_full(told: Any) -> bool:
    return bool(told.sent.rebalance_timeout_ms != -1 and told.sent.topic_partitions is not None)


@pytest.mark.parametrize(
    ("name", "reported"), [*((name, ()) for name in RELEASES), ("fixed", BOTH), ("document", BOTH)]
)
def test_what_is_being_assigned_is_reported(story: Any, name: str, reported: object) -> None:
    """W9: in the assigned callback a full report leaves out what the callback is about; `fixed` names it."""
    told = story(name)
    told.subscribe()
    told.tick()
    told.answer(0, 1)
    told.poll()
    assert isinstance(told.background[-1], PartitionsAssignedEvent)
    told.beat()
    fail(told)
    assert is_full(told)
    assert told.sent.topic_partitions == reported


@pytest.mark.parametrize(("name", "reported"), [*((name, ()) for name in RELEASES), ("fixed", BOTH)])
def test_what_no_run_has_begun_with_is_reported(story: Any, name: str, reported: object) -> None:
    """W1: the application has not polled yet, and will be given the target if the next answer is lost."""
    told = story(name)
    told.subscribe()
    told.tick()
    told.answer(0, 1)
    told.beat()
    fail(told)
    assert told.state is State.RECONCILING
    assert told.sent.topic_partitions == reported


@pytest.mark.parametrize(("name", "reported"), [*((name, (0,)) for name in RELEASES), ("fixed", (0, 1))])
def test_an_acknowledgement_that_comes_after_the_next_target_names_both(
    story: Any, name: str, reported: tuple[int, ...]
) -> None:
    """What goes out on the interval, too: it acknowledges one run while the next target waits."""
    told = story(name)
    told.subscribe()
    told.tick()
    told.answer(0)
    told.poll()
    told.beat()
    told.take()
    assert told.state is State.ACKNOWLEDGING
    told.answer(0, 1)
    assert told.state is State.RECONCILING
    told.beat()
    assert told.sent.topic_partitions == topic_partitions({"T": reported})


def test_when_all_is_applied_exactly_that_is_reported(story: Any) -> None:
    """Nothing is claimed for longer than it has to be: the acknowledgement names what is held alone."""
    told = story("fixed")
    told.subscribe()
    told.tick()
    told.answer(0, 1)
    told.poll()
    told.beat()
    fail(told)
    assert told.sent.topic_partitions == BOTH
    told.answer(0)
    told.take()
    told.tick()
    assert (told.state, told.sent.topic_partitions) == (State.RECONCILING, BOTH)
    told.settle()
    assert (told.state, told.sent.topic_partitions) == (State.STABLE, topic_partitions({"T": (0,)}))


@pytest.mark.parametrize("failure", [TIMED_OUT, DISCONNECTED])
@pytest.mark.parametrize("name", [*RELEASES, "fixed"])
def test_after_a_request_was_given_up_every_heartbeat_is_full(story: Any, name: str, failure: object) -> None:
    """W8: it may be handled yet, and its answer goes nowhere; in `fixed`, until its epoch is refused."""
    told = story(name)
    told.join(0)
    told.beat()
    told.do(Answered(told.asked[-1], failure))
    told.do(CoordinatorFound())
    said = []
    for epoch in (1, 1, 2, 2, 3, 3):
        told.beat()
        said.append(is_full(told))
        told.acknowledged(epoch)
    always = name == "fixed"
    assert said == [True, always, always, always, always, False]


@pytest.mark.parametrize("name", [*RELEASES, "fixed"])
def test_a_join_that_was_given_up_can_always_be_handled(story: Any, name: str) -> None:
    """A coordinator takes a join at any epoch: in `fixed` every heartbeat is full from then on."""
    told = story(name)
    told.subscribe()
    told.tick()
    fail(told)
    told.answer(0)
    told.settle()
    for epoch in (2, 3, 4):
        told.beat()
        assert is_full(told) is (name == "fixed")
        told.acknowledged(epoch)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_request_that_was_refused_is_over(story: Any, code: ErrorCode) -> None:
    """One full heartbeat follows a failure, as ever; a refused request cannot be handled later."""
    told = story("fixed")
    told.join(0)
    told.beat()
    told.answer(code=code)
    told.do(CoordinatorFound())
    told.beat()
    assert is_full(told)
    told.acknowledged()
    told.beat()
    assert not is_full(told)
