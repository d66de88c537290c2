"""The classic member embedded: the same runtime as for KIP-848, on two threads and on asyncio.

Against a scripted coordinator, with the default assignors (range first: every rebalance revokes everything) and with
the cooperative one alone. No test looks at how long anything took.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from runtime_scene import FOR_EVER_MS, LIMIT_S, Awaiting, Noted, frantic, until_quiet, within

from fsm.errors import LocalProtocolError
from fsm.member import (
    AsyncConsumer,
    BackgroundFailed,
    ClassicConfig,
    Consumer,
    KafkaException,
    SubscriptionPattern,
)
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE
from fsm.member.classic.state import Generation
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from fsm.testing.classic_coordinator import ScriptedClassicCoordinator

FOUR = (("t", 0), ("t", 1), ("t", 2), ("t", 3))


def config(**settings: Any) -> ClassicConfig:
    given = {"heartbeat_interval_ms": 2, "session_timeout_ms": 60_000, "retry_backoff_ms": 1}
    return ClassicConfig("g", **{**given, **settings})


def coordinator(partitions: int = 4) -> ScriptedClassicCoordinator:
    return ScriptedClassicCoordinator({"t": partitions})


@contextmanager
def embedded(transport: Any, listener: Any = None, **settings: Any) -> Iterator[Consumer]:
    """A consumer subscribed to `t`, whatever happens closed in the end."""
    consumer = Consumer(config(**settings), transport)
    try:
        consumer.subscribe(["t"], listener)
        yield consumer
    finally:
        try:
            consumer.close(0)
        except (BackgroundFailed, KafkaException):
            assert not consumer._thread.is_alive()


def poll_until(consumer: Consumer, holds: Callable[[], bool], timeout_ms: int = 5) -> None:
    while not holds():
        consumer.poll(timeout_ms)


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


# The life of a member


def test_join_rebalance_expire_leave() -> None:
    """Joins as the leader, revokes all before the next generation, loses all when thrown out, revokes at close."""
    group, listener = coordinator(), Noted()
    with embedded(group, listener) as consumer:
        within(lambda: poll_until(consumer, lambda: consumer.assignment() == FOUR))
        group.rebalance()
        within(lambda: poll_until(consumer, lambda: group.generation_id == 2 and consumer.assignment() == FOUR))
        group.expire(consumer.member_id)
        within(lambda: poll_until(consumer, lambda: group.generation_id == 3 and consumer.assignment() == FOUR))
        assert consumer.member_id == "member-2"
        within(consumer.close)
    named = [(method, given) for method, given in listener.called if given]
    assert named == [
        ("assigned", FOUR),
        ("revoked", FOUR),
        ("assigned", FOUR),
        ("lost", FOUR),
        ("assigned", FOUR),
        ("revoked", FOUR),
    ]
    assert isinstance(group.requests[-1], LeaveGroupRequest)
    assert group.get_owned() == {}


def test_cooperative_members_keep_what_they_may() -> None:
    """A second member takes half, and the first one is called back for that half alone."""
    group, first, second = coordinator(), Noted(), Noted()
    settings = {"assignors": (COOPERATIVE_STICKY,)}
    with embedded(group, first, **settings) as one, embedded(group, second, **settings) as two:
        within(lambda: poll_until(one, lambda: one.assignment() == FOUR))

        def both() -> None:
            while len(two.assignment()) != 2 or len(one.assignment()) != 2:
                one.poll(2)
                two.poll(2)

        within(both)
        assert {*one.assignment(), *two.assignment()} == {*FOUR}
        assert {given for method, given in first.called if method == "revoked"} == {two.assignment()}


def test_without_a_listener() -> None:
    """Nobody is called back, and everything else is the same."""
    group = coordinator()
    with embedded(group) as consumer:
        within(lambda: poll_until(consumer, lambda: consumer.assignment() == FOUR))
        within(consumer.unsubscribe)
        assert consumer.assignment() == ()
        with pytest.raises(LocalProtocolError, match="is not subscribed"):
            consumer.poll(0)
    assert group.get_owned() == {}


def test_polls_of_no_time_are_enough() -> None:
    """poll(0) waits for nothing, and many of them still join; what they give can be fetched."""
    group, listener = coordinator(), Noted()
    with embedded(group, listener) as consumer:
        within(lambda: poll_until(consumer, lambda: consumer.poll(0) == FOUR, timeout_ms=0))
    assert ("assigned", FOUR) in listener.called


def test_one_long_poll_is_enough() -> None:
    """A poll without end moves the rebalance on by itself, and ends with the callback that it ran."""
    group, listener = coordinator(), Noted()
    with embedded(group, listener) as consumer:
        within(lambda: poll_until(consumer, lambda: bool(listener.called), timeout_ms=FOR_EVER_MS))
        assert listener.called == [("assigned", FOUR)]


def test_subscribes_by_a_pattern() -> None:
    """A pattern is matched by the client; one for the coordinator to match is not of this protocol."""
    group, listener = ScriptedClassicCoordinator({"orders": 1, "order-lines": 1, "users": 1}), Noted()
    with Consumer(config(), group) as consumer:
        with pytest.raises(KafkaException, match="is not an input of a classic member"):
            consumer.subscribe(SubscriptionPattern("order.*"))
        consumer.subscribe(re.compile("order.*"), listener)
        within(lambda: poll_until(consumer, lambda: bool(listener.called)))
        assert consumer.assignment() == (("order-lines", 0), ("orders", 0))


def test_positions_are_committed_before_they_are_given_up() -> None:
    """The positions of the last poll are committed before a rebalance, and those given to close() at the end."""
    group, listener = coordinator(1), Noted()
    with embedded(group, listener) as consumer:
        within(lambda: poll_until(consumer, lambda: bool(consumer.assignment())))
        consumer.poll(1, (((("t", 0)), 5),))
        group.rebalance()
        within(lambda: until(lambda: consumer.poll(1, ((("t", 0), 5),)) is not None and group.generation_id == 2))
        assert group.committed == {("t", 0): 5}
        within(lambda: poll_until(consumer, lambda: listener.called[-1][0] == "assigned"))
        within(lambda: consumer.close(consumed=((("t", 0), 9),)))
    assert group.committed == {("t", 0): 9}


def test_a_name_is_the_coordinators_to_give() -> None:
    """A classic member has no id of its own making."""
    with pytest.raises(LocalProtocolError, match="the coordinator assigns the id"):
        Consumer(config(), coordinator(), member_id="M")
    with Consumer(config(), coordinator()) as consumer:
        assert consumer.member_id == ""


# Listeners


def test_heartbeats_go_on_while_a_callback_runs() -> None:
    """A callback that takes its time does not cost the membership."""
    group = coordinator()

    def slow(method: str, _given: Any) -> None:
        if method == "assigned":
            before = sum(isinstance(r, HeartbeatRequest) for r in group.requests)
            until(lambda: sum(isinstance(r, HeartbeatRequest) for r in group.requests) > before + 3)

    listener = Noted(slow)
    with embedded(group, listener) as consumer:
        within(lambda: poll_until(consumer, lambda: bool(listener.called)))
        assert consumer.assignment() == FOUR


def test_a_raising_listener() -> None:
    """poll() throws what a callback raised, wrapped; the rebalance goes on, and revoked is not called twice."""
    group = coordinator()
    fail_at = ["assigned", "revoked"]

    def fail(method: str, given: Any) -> None:
        if given and fail_at and method == fail_at[0]:
            fail_at.pop(0)
            raise RuntimeError("no disk")

    listener, thrown = Noted(fail), []
    with embedded(group, listener) as consumer:

        def live() -> None:
            while len(thrown) < 2 or consumer.assignment() != FOUR or group.generation_id < 2:
                try:
                    consumer.poll(2)
                except KafkaException as error:
                    thrown.append(str(error))
                    group.rebalance()

        within(live)
    assert len(thrown) == 2
    assert all("the rebalance listener raised" in text for text in thrown)
    assert [method for method, given in listener.called if given][:2] == ["assigned", "revoked"]


@pytest.mark.parametrize("method", ["assigned", "revoked", "lost"])
def test_close_inside_a_callback(method: str) -> None:
    """close() from within any callback ends the consumer; nothing is called back twice for the same partitions."""
    group = coordinator()

    def stop(called: str, given: Any) -> None:
        if called == method and given:
            consumer.close()

    listener = Noted(stop)
    consumer = Consumer(config(), group)
    consumer.subscribe(["t"], listener)

    def live() -> None:
        while not consumer._api.closing:
            consumer.poll(2)
            if consumer._api.closing:
                break
            if consumer.assignment() and method == "lost":
                group.expire(consumer.member_id)
            elif consumer.assignment():
                group.rebalance()

    within(live)
    assert not consumer._thread.is_alive()
    expected = {
        "assigned": [("assigned", FOUR), ("revoked", FOUR)],
        "revoked": [("assigned", FOUR), ("revoked", FOUR)],
        "lost": [("assigned", FOUR), ("lost", FOUR)],
    }
    assert [(called, given) for called, given in listener.called if given] == expected[method]
    with pytest.raises(LocalProtocolError, match="the consumer is closed"):
        consumer.poll(0)


def test_close_goes_past_a_callback_that_has_not_begun() -> None:
    """An assignment that the application never heard of is neither assigned nor revoked at close()."""
    group, listener = coordinator(), Noted()
    consumer = Consumer(config(), group)
    consumer.subscribe(["t"], listener)

    def join() -> None:
        with consumer._changed:  # a poll without the pass over its events
            consumer._api._submit(_poll())
        until(lambda: consumer._member.pending_background_events > 0 or _again())

    def _again() -> bool:
        with consumer._changed:
            consumer._api._submit(_poll())
        return False

    within(join)
    within(consumer.close)
    assert listener.called == []
    assert group.get_owned() == {}


def _poll() -> Any:
    from fsm.member.events import AsyncPollEvent  # noqa: PLC0415

    return AsyncPollEvent()


def test_close_twice_and_use_after() -> None:
    """A second close() does nothing; every other call is refused."""
    group = coordinator()
    with embedded(group, Noted()) as consumer:
        within(lambda: poll_until(consumer, lambda: bool(consumer.assignment())))
        within(consumer.close)
        within(consumer.close)
        for call in (lambda: consumer.poll(0), lambda: consumer.subscribe(["t"]), consumer.unsubscribe):
            with pytest.raises(LocalProtocolError, match="the consumer is closed"):
                call()
    assert sum(isinstance(r, LeaveGroupRequest) for r in group.requests) == 1


def test_close_without_time_still_calls_back_and_leaves() -> None:
    """close(0) waits for no answer; its callback runs, and its leave is sent."""
    group, listener = coordinator(), Noted()
    with embedded(group, listener) as consumer:
        within(lambda: poll_until(consumer, lambda: bool(consumer.assignment())))
        within(lambda: consumer.close(0))
        assert listener.called[-1] == ("revoked", FOUR)
        within(lambda: until(lambda: isinstance(group.requests[-1], LeaveGroupRequest)))


def test_close_while_the_group_rebalances() -> None:
    """With its join unanswered, close() calls lost back instead of revoked, waits its time, and ends."""
    group, listener = coordinator(), Noted()
    send, held_back = group.send, threading.Event()

    def hold_back(request: Any, on_response: Any) -> None:
        if isinstance(request, JoinGroupRequest) and group.generation_id == 1:
            held_back.set()
        else:
            send(request, on_response)

    group.send = hold_back  # type: ignore[method-assign]
    with embedded(group, listener, assignors=(COOPERATIVE_STICKY,)) as consumer:
        within(lambda: poll_until(consumer, lambda: bool(consumer.assignment())))
        group.rebalance()
        within(lambda: poll_until(consumer, held_back.is_set))
        within(lambda: consumer.close(50))
    assert listener.called == [("assigned", FOUR), ("lost", FOUR)]


# The network


def test_a_connection_that_breaks_is_tried_again() -> None:
    """Every third request fails on the way; the member gets in all the same, and stays."""
    group, listener = coordinator(), Noted()
    send, sent = group.send, iter(range(1_000_000))

    def break_down(request: Any, on_response: Any) -> None:
        if next(sent) % 3 == 1:
            raise ConnectionError("reset by peer")
        send(request, on_response)

    group.send = break_down  # type: ignore[method-assign]
    with embedded(group, listener, retry_backoff_max_ms=2) as consumer:
        within(lambda: poll_until(consumer, lambda: consumer.assignment() == FOUR))


@pytest.mark.parametrize("where", ["send", "find_coordinator", "update_metadata"])
def test_a_bug_of_the_transport_ends_the_consumer_loudly(where: str) -> None:
    """An exception that is no broken connection ends the background; every call says so, with its cause."""
    group = coordinator()

    def fail(*_args: Any) -> None:
        raise ZeroDivisionError("a bug")

    setattr(group, where, fail)
    consumer = Consumer(config(), group)
    with pytest.raises(BackgroundFailed, match="a bug") as failed:
        within(lambda: [consumer.subscribe(["t"]), poll_until(consumer, lambda: False)])
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    with pytest.raises(BackgroundFailed):
        consumer.close()
    assert not consumer._thread.is_alive()


def test_an_error_that_ends_a_rebalance_comes_out_of_poll() -> None:
    """GROUP_AUTHORIZATION_FAILED is thrown by poll(); the next poll tries again, as the Java client does."""
    group = coordinator()
    send, refused = group.send, [True]

    def refuse(request: Any, on_response: Any) -> None:
        if isinstance(request, JoinGroupRequest) and refused and refused.pop():
            on_response(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        else:
            send(request, on_response)

    group.send = refuse  # type: ignore[method-assign]
    with embedded(group) as consumer:
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            within(lambda: poll_until(consumer, lambda: False))
        within(lambda: poll_until(consumer, lambda: consumer.assignment() == FOUR))


def test_what_ended_a_rebalance_is_thrown_before_another_join_goes_out() -> None:
    """Also to polls of no time: one join, then the error; only a poll after it joins again."""
    group = coordinator()
    send, joins = group.send, []

    def refuse(request: Any, on_response: Any) -> None:
        if isinstance(request, JoinGroupRequest):
            joins.append(request)
            on_response(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        else:
            send(request, on_response)

    group.send = refuse  # type: ignore[method-assign]
    with embedded(group) as consumer:
        for count in (1, 2):
            with pytest.raises(KafkaException, match="GROUP_MAX_SIZE_REACHED"):
                within(lambda: poll_until(consumer, lambda: False, timeout_ms=0))
            assert len(joins) == count


def test_nothing_is_fetchable_that_is_about_to_be_given_up() -> None:
    """After its session ended, a poll offers nothing of what the member had; a cooperative rebalance takes nothing."""
    for assignor, left in ((RANGE, ()), (COOPERATIVE_STICKY, FOUR)):
        member = ClassicConsumerMember(config(assignors=(assignor,)))
        member.member = replace(
            member.member,
            generation=Generation(3, "m"),
            coordinator_known=True,
            topics=("t",),
            owned=FOUR,
            rejoin_reason=None,
        )
        assert member.fetchable(checked=False) == FOUR
        member.member = replace(member.member, rejoin_reason="rebalance enforced by user")
        assert member.fetchable(checked=False) == left
        member.member = replace(member.member, generation=Generation())
        assert member.fetchable(checked=False) == ()
        member.member = replace(member.member, coordinator_known=False)
        assert member.fetchable(checked=False) == FOUR


# No lost wake-up, no stall


@frantic()
def test_a_hundred_generations_of_one_member() -> None:
    """A hundred rebalances as fast as they come: revoked and assigned in turn, two hundred callbacks."""
    group, listener = coordinator(), Noted()
    with embedded(group, listener, heartbeat_interval_ms=1, retry_backoff_ms=0) as consumer:

        def live() -> None:
            for number in range(1, 101):
                poll_until(consumer, lambda number=number: len(listener.called) >= 2 * number - 1)
                assert listener.called[-1] == ("assigned", FOUR)
                group.rebalance()

        within(live)
    assert len(listener.called) == 200
    assert [method for method, _ in listener.called] == ["assigned", "revoked"] * 100
    assert group.generation_id >= 100


@frantic()
@pytest.mark.parametrize("assignors", [None, (COOPERATIVE_STICKY,)], ids=["eager", "cooperative"])
def test_three_members_share_without_overlap(assignors: Any) -> None:
    """Members come and go on six threads; no two own a partition at once, as their listeners see."""
    group = coordinator(6)
    owners: dict[Any, int] = {}
    overlaps: list[Any] = []
    lives = 8

    def live(me: int) -> None:
        def follow(method: str, given: Any) -> None:
            for partition in given:
                before = owners.setdefault(partition, me) if method == "assigned" else owners.pop(partition, me)
                if before != me:
                    overlaps.append((method, me, before, partition))

        for _ in range(lives):
            settings = {} if assignors is None else {"assignors": assignors}
            with Consumer(config(heartbeat_interval_ms=1, retry_backoff_ms=0, **settings), group) as consumer:
                consumer.subscribe(["t"], Noted(follow))
                poll_until(consumer, lambda consumer=consumer: bool(consumer.assignment()), 2)
                for _poll in range(10):
                    consumer.poll(1)

    def all_of_them() -> None:
        members = [threading.Thread(target=live, args=(n,), daemon=True) for n in range(3)]
        for member in members:
            member.start()
        for member in members:
            member.join()

    within(all_of_them)
    assert (overlaps, owners, group.get_owned()) == ([], {}, {})


@pytest.mark.deep
@frantic()
def test_opened_and_closed_again_and_again() -> None:
    """200 consumers begin and end, in every phase of joining; none leaves a thread or a membership behind."""
    group = coordinator()
    before = threading.active_count()

    def live() -> None:
        for number in range(200):
            with Consumer(config(), group) as consumer:
                consumer.subscribe(["t"], Noted())
                for _ in range(number % 7):
                    consumer.poll(number % 2)

    within(live)
    within(lambda: until(lambda: threading.active_count() <= before + 1))
    assert group.get_owned() == {}


def test_an_idle_background_sleeps() -> None:
    """A member with nothing to do until its next heartbeat does not turn its loop."""
    turns = [0]

    def count() -> float:
        turns[0] += 1
        return 0.0

    group = coordinator()
    settings = config(heartbeat_interval_ms=50_000)
    with Consumer(settings, group, jitter=count) as consumer:
        consumer.subscribe(["t"])
        within(lambda: poll_until(consumer, lambda: consumer.assignment() == FOUR))
        within(lambda: until_quiet(lambda: turns[0]))


# On asyncio


async def a_moment(_method: str, _partitions: Any) -> None:
    await asyncio.sleep(0)


def test_on_asyncio() -> None:
    """The same life in one event loop: two members share, one leaves, the other takes over."""

    async def live() -> tuple[list[Any], list[Any]]:
        group, first, second = coordinator(), Awaiting(a_moment), Awaiting(a_moment)
        async with AsyncConsumer(config(), group) as one:
            await one.subscribe(["t"], first)
            while one.assignment() != FOUR:
                await one.poll(5)
            async with AsyncConsumer(config(), group) as two:
                await two.subscribe(["t"], second)
                while len(one.assignment()) != 2 or len(two.assignment()) != 2:
                    await asyncio.gather(one.poll(5), two.poll(5))
            while one.assignment() != FOUR:
                await one.poll(5)
        assert group.get_owned() == {}
        return first.called, second.called

    first, second = asyncio.run(asyncio.wait_for(live(), LIMIT_S))
    assert [called for called in second if called[1]] == [("assigned", FOUR[2:]), ("revoked", FOUR[2:])]
    assert [method for method, given in first if given] == [
        "assigned",
        "revoked",
        "assigned",
        "revoked",
        "assigned",
        "revoked",
    ]


def test_many_generations_on_asyncio() -> None:
    """200 rebalances in one event loop, none of them lost."""

    async def live() -> list[Any]:
        group, listener = coordinator(), Awaiting(a_moment)
        async with AsyncConsumer(config(heartbeat_interval_ms=1, retry_backoff_ms=0), group) as consumer:
            await consumer.subscribe(["t"], listener)
            for number in range(1, 201):
                while group.generation_id < number or not group.get_owned() or not consumer.assignment():
                    await consumer.poll(2)
                group.rebalance()
            assert sum(isinstance(r, SyncGroupRequest) for r in group.requests) >= 200
        return listener.called

    called = asyncio.run(asyncio.wait_for(live(), LIMIT_S))
    moves = [method for method, given in called if given]
    assert moves[:400] == ["assigned", "revoked"] * 200
