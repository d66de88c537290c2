"""Invariants that Kafka's consumer violates: each is seen broken, by the shortest story there is, and held by `fixed`.

That the others hold is for the walks to show (`test_walk.py`); here is what the status of the rest means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fsm.member.consumer.invariants import INVARIANTS, Status, Watch
from fsm.member.consumer.step import Step
from fsm.member.events import LeaveGroupOnCloseEvent, UnsubscribeEvent
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.consumer_member import State

FENCED, UNKNOWN = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
Drive = Any


def watched(story: type[Any], name: str) -> Drive:
    """A story whose every step is held against every invariant; `broken` are the names of those it broke."""

    class Watched(story):  # type: ignore[misc]
        def __init__(self) -> None:
            self.watch, self.broken = Watch(), set[str]()
            super().__init__(name, max_poll_interval_ms=5_000)

        def do(self, given: Any) -> Any:
            before = self.member
            effects = super().do(given)
            done = Step(self.member, effects)
            self.broken |= {i.name for i in self.watch.violations(before, given, done)}
            return effects

        def take_all(self) -> None:
            while self.background:
                self.take()

        def rejoin(self) -> None:
            """Subscribes and joins: with a callback still open where the dialect lets it, else after its end."""
            self.subscribe()
            if self.state is State.UNSUBSCRIBED:
                self.take_all()
                self.poll()
            self.tick()

    return Watched()


# What leads there


def lost_callback_ends_late(driver: Drive) -> None:
    """H2b: fenced, gone and back with a new target, before the lost callback ends."""
    driver.join(0)
    driver.beat()
    driver.answer(code=FENCED)
    driver.do(UnsubscribeEvent())
    driver.rejoin()
    driver.answer(0, 1)
    driver.take_all()


def lost_callback_ends_within_the_next_run(driver: Drive) -> None:
    """H2b: the same with the run of the new target begun: what it acknowledges is nothing."""
    driver.join(0)
    driver.beat()
    driver.answer(code=FENCED)
    driver.do(UnsubscribeEvent())
    driver.rejoin()
    driver.answer(0, 1)
    driver.poll()
    driver.take_all()
    driver.settle()


def revoked_callback_of_a_leave_ends_late(driver: Drive) -> None:
    """H2: fenced while leaving; the member is back with a target before the revoked callback ends."""
    driver.join(0)
    driver.beat()
    driver.do(UnsubscribeEvent(call=9))
    driver.answer(code=UNKNOWN)
    driver.rejoin()
    driver.answer(0)
    driver.take_all()


def leave_ends_before_the_join_is_sent(driver: Drive) -> None:
    """H2: the same with the callback's end before the first heartbeat of the join."""
    driver.join(0)
    driver.beat()
    driver.do(UnsubscribeEvent(call=9))
    driver.answer(code=UNKNOWN)
    driver.subscribe()
    driver.take_all()
    driver.tick()


def answer_of_an_earlier_membership(driver: Drive) -> None:
    """H12: the answer to a heartbeat comes when the member has left and joins again."""
    driver.join(0)
    driver.beat()
    late = len(driver.asked) - 1
    driver.do(LeaveGroupOnCloseEvent())
    driver.tick()
    driver.subscribe()
    driver.acknowledged(epoch=7, to=late)


def join_without_an_assignment(driver: Drive) -> None:
    """A coordinator that answers a join without saying what is assigned."""
    driver.subscribe()
    driver.tick()
    driver.acknowledged()


def assignment_in_its_queue(driver: Drive) -> None:
    """The target has come and its run has begun; the application has not polled since."""
    driver.subscribe()
    driver.tick()
    driver.answer(0, 1)
    driver.poll()
    driver.beat()


def fenced_with_an_assignment_in_its_queue(driver: Drive) -> None:
    """H17, to the next poll of an application that takes what is queued."""
    assignment_in_its_queue(driver)
    driver.answer(code=FENCED)
    driver.take_all()


def stale_with_an_assignment_in_its_queue(driver: Drive) -> None:
    """H17: the poll that ends the absence applies it, then joins."""
    assignment_in_its_queue(driver)
    driver.tick(after_ms=6_000)
    driver.take_all()
    driver.poll()


def fatal_with_an_assignment_in_its_queue(driver: Drive) -> None:
    """H17: what is applied after the end stays for good."""
    assignment_in_its_queue(driver)
    driver.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    driver.background = [event for event in driver.background if hasattr(event, "ticket")]
    driver.take_all()


def failed_assigned_callback_and_reverted_target(driver: Drive) -> None:
    """H4: more is owned than is acknowledged."""
    driver.join(0)
    driver.beat()
    driver.answer(0, 1)
    driver.poll()
    driver.beat()
    driver.take(error="threw")
    driver.answer(0)
    driver.settle()


def failed_revoked_callback_and_reverted_target(driver: Drive) -> None:
    """H7: a partition that is kept after all stays marked."""
    driver.join(0, 1)
    driver.beat()
    driver.answer(0)
    driver.poll()
    driver.beat()
    driver.take(error="threw")
    driver.answer(0, 1)
    driver.settle()


def abandoned_unsubscribe(driver: Drive) -> None:
    """The leave is sent, its answer does not come, and the application subscribes again."""
    driver.join(0)
    driver.do(UnsubscribeEvent(call=9))
    driver.take_all()
    driver.tick()
    assert driver.state is State.UNSUBSCRIBED
    driver.subscribe()


def unsubscribed_while_stale(driver: Drive) -> None:
    """H10: nothing is subscribed to any more, and the next poll joins."""
    driver.join(0)
    driver.tick(after_ms=6_000)
    driver.take_all()
    driver.do(UnsubscribeEvent())
    driver.poll()


def joins_anew_while_an_answer_is_due(driver: Drive) -> None:
    """The poll timer ran out with a heartbeat in flight, and the member is back before its answer."""
    driver.join(0)
    driver.beat()
    driver.tick(after_ms=6_000)
    driver.take_all()
    driver.poll()
    driver.tick()


BREAKS: list[tuple[str, Callable[[Drive], None]]] = [
    ("I04", lost_callback_ends_late),
    ("I05", lost_callback_ends_within_the_next_run),
    ("I06", revoked_callback_of_a_leave_ends_late),
    ("I09b", leave_ends_before_the_join_is_sent),
    ("I09b", answer_of_an_earlier_membership),
    ("I09b", join_without_an_assignment),
    ("I09c", fenced_with_an_assignment_in_its_queue),
    ("I10", leave_ends_before_the_join_is_sent),
    ("I14", failed_assigned_callback_and_reverted_target),
    ("I15", failed_revoked_callback_and_reverted_target),
    ("I17", abandoned_unsubscribe),
    ("I20", unsubscribed_while_stale),
    ("I26", joins_anew_while_an_answer_is_due),
    ("I27", revoked_callback_of_a_leave_ends_late),
    ("I28b", stale_with_an_assignment_in_its_queue),
    ("I34", fatal_with_an_assignment_in_its_queue),
]
NO_CLIENT_CAN = {join_without_an_assignment, joins_anew_while_an_answer_is_due}
"""Stories whose cause is the coordinator or the network: every dialect goes through them alike."""
IDS = [f"{name}-{leads.__name__}" for name, leads in BREAKS]


@pytest.mark.parametrize(("invariant", "leads"), BREAKS, ids=IDS)
def test_violated_invariant_is_seen_broken(story: type[Any], invariant: str, leads: Callable[[Drive], None]) -> None:
    """In the latest release the story breaks the invariant, and nothing that is said to hold."""
    driver = watched(story, "4.4.0")
    leads(driver)
    assert invariant in driver.broken
    assert driver.broken <= {i.name for i in INVARIANTS if i.status is not Status.HOLDS}


@pytest.mark.parametrize(("invariant", "leads"), BREAKS, ids=IDS)
def test_fixed_holds_what_a_client_can(story: type[Any], invariant: str, leads: Callable[[Drive], None]) -> None:
    """The same story breaks nothing in `fixed`, unless it is the coordinator's doing or the network's."""
    driver = watched(story, "fixed")
    leads(driver)
    assert driver.broken == ({invariant} if leads in NO_CLIENT_CAN else set())


def test_every_exception_has_its_story() -> None:
    """No invariant is excused without being seen broken, and none that holds is listed."""
    assert {name for name, _ in BREAKS} == {i.name for i in INVARIANTS if i.status is not Status.HOLDS}
