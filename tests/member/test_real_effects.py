"""What logs of real consumers show that surprises their users (A5, A7, A11, A21), in every dialect.

Two of them no client can avoid: an application that does not poll cannot be told, one that sits in its callback
cannot be stopped. Of the others `fixed` is free.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsm.member.events import AsyncPollEvent, ListenerMethod, PartitionsRemovedEvent, UnsubscribeEvent
from fsm.member.inputs import Answered
from fsm.member.runtime.queues import KafkaException
from fsm.protocol.assignment import topic_partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_member import State

S = State
T0, T1, BOTH = (("t", 0),), (("t", 1),), (("t", 0), ("t", 1))


@pytest.mark.hazard("4.0.0", "fixed", without=("document",))
def test_a5_application_that_does_not_poll_owns_what_others_have(story: Any, name: str, has: bool) -> None:
    """The leave goes out at the expiry; the application hears of its loss at the next poll. Nobody can avoid it."""
    driver = story(name, max_poll_interval_ms=5_000)
    driver.join(0)
    driver.tick(after_ms=6_000)
    assert (driver.state, driver.sent.member_epoch, driver.owned == [0]) == (S.STALE, -1, has)
    driver.now_ms += 4_000
    assert driver.background == [PartitionsRemovedEvent(1, ListenerMethod.LOST, T0)]


def test_a5_without_a_poll_timer_the_coordinator_waits(story: Any) -> None:
    """The design notes know no poll timer: such a member stays, and holds up the group for as long as it sleeps."""
    driver = story("document", max_poll_interval_ms=5_000)
    driver.join(0)
    driver.tick(after_ms=6_000)
    assert (driver.state, driver.sent.member_epoch) == (S.STABLE, 1)


def fenced_in_a_callback(driver: Any) -> None:
    driver.join(0, 1)
    driver.beat()
    driver.answer(0)
    driver.poll()
    driver.beat()
    driver.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("name", ["4.0.0", "4.2.1", "4.4.0", "fixed", "document"])
def test_a7_application_in_its_callback_owns_what_others_have(story: Any, name: str) -> None:
    """Thrown out while its callback runs, the application hears of it when that is over. Nobody can avoid it."""
    driver = story(name)
    fenced_in_a_callback(driver)
    assert driver.state is S.FENCED
    revoked, lost = driver.background
    assert (revoked.method, lost.method) == (ListenerMethod.REVOKED, ListenerMethod.LOST)
    assert ("t", 0) in driver.member.ownership.owned
    driver.take()
    assert driver.state is S.FENCED
    driver.take()
    assert (driver.state, driver.member.run) == (S.JOINING, None)


@pytest.mark.hazard("4.0.0")
def test_a7_partition_is_revoked_and_then_lost(story: Any, name: str, has: bool) -> None:
    """The lost callback that follows is over all partitions, those just revoked among them."""
    driver = story(name)
    fenced_in_a_callback(driver)
    assert [e.partitions for e in driver.background] == [T1, BOTH if has else T0]


def test_a7_nothing_left_to_lose_is_no_callback(embedded: Any) -> None:
    """`fixed`: a fence while everything is being revoked asks for no lost callback, and joins when revoked is over."""
    consumer = embedded("fixed")
    consumer.turn(1_200, ())
    consumer.consumer.submit(AsyncPollEvent())
    (request,) = consumer.consumer.poll(2_400).unsent_requests
    consumer.consumer.receive(
        Answered(request, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)), 2_401
    )
    assert consumer.consumer.member.state is S.FENCED
    consumer.run_callbacks(2_402)
    consumer.consumer.poll(2_403)
    assert consumer.listener.called == [("assigned", BOTH), ("revoked", BOTH)]
    assert consumer.consumer.member.state is S.JOINING


@pytest.mark.hazard("4.0.0")
def test_a11_failed_revoked_callback_is_called_again(story: Any, name: str, has: bool) -> None:
    """The next poll reconciles again and asks for the same callback over the same partitions."""
    driver = story(name)
    driver.join(0, 1)
    driver.beat()
    driver.answer(0)
    revoked = []
    for _ in range(3):
        driver.poll()
        event = driver.take(error="threw")
        revoked += [event.partitions] if isinstance(event, PartitionsRemovedEvent) else []
        if not driver.background and not has:
            break
    assert revoked == ([T1] * 3 if has else [T1])


def test_a11_error_is_thrown_and_the_run_goes_on(embedded: Any) -> None:
    """`fixed`: poll() throws what the listener raised, as the classic consumer's does, and nothing is done twice."""
    consumer = embedded("fixed")

    def fail() -> None:
        raise RuntimeError("disk full")

    consumer.listener.during = fail
    consumer.turn(1_200, topic_partitions({"T": (0,)}))
    consumer.consumer.submit(AsyncPollEvent())
    consumer.consumer.poll(1_201)
    with pytest.raises(KafkaException, match="disk full"):
        consumer.run_callbacks(1_202)
    consumer.consumer.poll(1_203)
    consumer.run_callbacks(1_204)
    consumer.consumer.poll(1_205)
    assert consumer.listener.called == [("assigned", BOTH), ("revoked", T1), ("assigned", ())]
    assert consumer.consumer.member.state is S.STABLE


@pytest.mark.hazard("4.0.0")
def test_a21_close_revokes_again_what_a_reconciliation_has_just_revoked(embedded: Any, name: str, has: bool) -> None:
    """close() between a run's two callbacks runs revoked over everything the application's record still has."""
    consumer = embedded(name)
    consumer.turn(1_200, topic_partitions({"T": (0,)}))
    consumer.consumer.submit(AsyncPollEvent())
    consumer.consumer.poll(1_202)
    consumer.run_callbacks(1_202)
    consumer.consumer.close(1_203)
    consumer.run_callbacks(1_203)
    assert consumer.listener.called == [("assigned", BOTH), ("revoked", T1), ("revoked", BOTH if has else T0)]


def test_a21_close_inside_the_callback_revokes_the_rest(embedded: Any) -> None:
    """`fixed`: close() from within a revoked callback leaves out what that callback is about."""
    consumer = embedded("fixed")
    consumer.turn(1_200, topic_partitions({"T": (0,)}))
    consumer.consumer.submit(AsyncPollEvent())
    consumer.consumer.poll(1_202)
    consumer.listener.during = lambda: consumer.consumer.close(1_203)
    consumer.run_callbacks(1_203)
    consumer.listener.during = lambda: None
    consumer.run_callbacks(1_204)
    assert consumer.listener.called == [("assigned", BOTH), ("revoked", T1), ("revoked", T0)]


@pytest.mark.hazard("4.0.0", without=("document",))
def test_a21_close_of_a_stale_consumer_revokes_what_others_have(embedded: Any, name: str, has: bool) -> None:
    """close() while STALE runs revoked, though the membership is gone and others own the partitions: lost is due."""
    consumer = embedded(name, max_poll_interval_ms=5_000)
    consumer.consumer.poll(6_000)
    assert consumer.consumer.member.state is S.STALE
    consumer.consumer.close(9_000)
    consumer.run_callbacks(9_000)
    assert consumer.listener.called == [("assigned", BOTH), ("revoked" if has else "lost", BOTH)]


def test_a21_close_tells_what_a_leave_has_not_come_to_tell(embedded: Any) -> None:
    """`fixed`: fenced while unsubscribe() waits, an application that closes at once is told of its loss, too."""
    consumer = embedded("fixed")
    (request,) = consumer.consumer.poll(1_200).unsent_requests
    consumer.consumer.submit(UnsubscribeEvent())
    consumer.consumer.poll(1_201)
    consumer.consumer.receive(
        Answered(request, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)), 1_202
    )
    assert consumer.consumer.member.state is S.UNSUBSCRIBED
    consumer.consumer.close(1_203)
    consumer.run_callbacks(1_203)
    assert consumer.listener.called == [("assigned", BOTH), ("lost", BOTH)]
