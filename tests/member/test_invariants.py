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
Tell = Any


def watched(story: type[Any], name: str) -> Tell:
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


def lost_callback_ends_late(told: Tell) -> None:
    """H2b: fenced, gone and back with a new target, before the lost callback ends."""
    told.join(0)
    told.beat()
    told.answer(code=FENCED)
    told.do(UnsubscribeEvent())
    told.rejoin()
    told.answer(0, 1)
    told.take_all()


def lost_callback_ends_within_the_next_run(told: Tell) -> None:
    """H2b: the same with the run of the new target begun: what it acknowledges is nothing."""
    told.join(0)
    told.beat()
    told.answer(code=FENCED)
    told.do(UnsubscribeEvent())
    told.rejoin()
    told.answer(0, 1)
    told.poll()
    told.take_all()
    told.settle()


def revoked_callback_of_a_leave_ends_late(told: Tell) -> None:
    """H2: fenced while leaving; the member is back with a target before the revoked callback ends."""
    told.join(0)
    told.beat()
    told.do(UnsubscribeEvent(call=9))
    told.answer(code=UNKNOWN)
    told.rejoin()
    told.answer(0)
    told.take_all()


def leave_ends_before_the_join_is_sent(told: Tell) -> None:
    """H2: the same with the callback's end before the first heartbeat of the join."""
    told.join(0)
    told.beat()
    told.do(UnsubscribeEvent(call=9))
    told.answer(code=UNKNOWN)
    told.subscribe()
    told.take_all()
    told.tick()


def answer_of_an_earlier_membership(told: Tell) -> None:
    """H12: the answer to a heartbeat comes when the member has left and joins again."""
    told.join(0)
    told.beat()
    late = len(told.asked) - 1
    told.do(LeaveGroupOnCloseEvent())
    told.tick()
    told.subscribe()
    told.acknowledged(epoch=7, to=late)


def join_without_an_assignment(told: Tell) -> None:
    """A coordinator that answers a join without saying what is assigned."""
    told.subscribe()
    told.tick()
    told.acknowledged()


def assignment_in_its_queue(told: Tell) -> None:
    """The target has come and its run has begun; the application has not polled since."""
    told.subscribe()
    told.tick()
    told.answer(0, 1)
    told.poll()
    told.beat()


def fenced_with_an_assignment_in_its_queue(told: Tell) -> None:
    """H17, to the next poll of an application that takes what is queued."""
    assignment_in_its_queue(told)
    told.answer(code=FENCED)
    told.take_all()


def stale_with_an_assignment_in_its_queue(told: Tell) -> None:
    """H17: the poll that ends the absence applies it, then joins."""
    assignment_in_its_queue(told)
    told.tick(after_ms=6_000)
    told.take_all()
    told.poll()


def fatal_with_an_assignment_in_its_queue(told: Tell) -> None:
    """H17: what is applied after the end stays for good."""
    assignment_in_its_queue(told)
    told.answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    told.background = [event for event in told.background if hasattr(event, "ticket")]
    told.take_all()


def failed_assigned_callback_and_reverted_target(told: Tell) -> None:
    """H4: more is owned than is acknowledged."""
    told.join(0)
    told.beat()
    told.answer(0, 1)
    told.poll()
    told.beat()
    told.take(error="threw")
    told.answer(0)
    told.settle()


def failed_revoked_callback_and_reverted_target(told: Tell) -> None:
    """H7: a partition that is kept after all stays marked."""
    told.join(0, 1)
    told.beat()
    told.answer(0)
    told.poll()
    told.beat()
    told.take(error="threw")
    told.answer(0, 1)
    told.settle()


def abandoned_unsubscribe(told: Tell) -> None:
    """The leave is sent, its answer does not come, and the application subscribes again."""
    told.join(0)
    told.do(UnsubscribeEvent(call=9))
    told.take_all()
    told.tick()
    assert told.state is State.UNSUBSCRIBED
    told.subscribe()


def unsubscribed_while_stale(told: Tell) -> None:
    """H10: nothing is subscribed to any more, and the next poll joins."""
    told.join(0)
    told.tick(after_ms=6_000)
    told.take_all()
    told.do(UnsubscribeEvent())
    told.poll()


def joins_anew_while_an_answer_is_due(told: Tell) -> None:
    """The poll timer ran out with a heartbeat in flight, and the member is back before its answer."""
    told.join(0)
    told.beat()
    told.tick(after_ms=6_000)
    told.take_all()
    told.poll()
    told.tick()


BREAKS: list[tuple[str, Callable[[Tell], None]]] = [
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
def test_violated_invariant_is_seen_broken(story: type[Any], invariant: str, leads: Callable[[Tell], None]) -> None:
    """In the latest release the story breaks the invariant, and nothing that is said to hold."""
    told = watched(story, "4.4.0")
    leads(told)
    assert invariant in told.broken
    assert told.broken <= {i.name for i in INVARIANTS if i.status is not Status.HOLDS}


@pytest.mark.parametrize(("invariant", "leads"), BREAKS, ids=IDS)
def test_fixed_holds_what_a_client_can(story: type[Any], invariant: str, leads: Callable[[Tell], None]) -> None:
    """The same story breaks nothing in `fixed`, unless it is the coordinator's doing or the network's."""
    told = watched(story, "fixed")
    leads(told)
    assert told.broken == ({invariant} if leads in NO_CLIENT_CAN else set())


def test_every_exception_has_its_story() -> None:
    """No invariant is excused without being seen broken, and none that holds is listed."""
    assert {name for name, _ in BREAKS} == {i.name for i in INVARIANTS if i.status is not Status.HOLDS}
