"""The embedded member on asyncio: the same calls as on threads, cancellation, and tasks in each other's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from runtime_scene import FOR_EVER_MS, LIMIT_S, Awaiting

from fsm.errors import LocalProtocolError
from fsm.member.runtime.asyncio_runtime import AsyncConsumer
from fsm.member.runtime.consumer_api import BackgroundFailed
from fsm.member.runtime.queues import ConsumerRebalanceListener, KafkaException
from fsm.protocol.assignment import Partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest
from fsm.tables.consumer_member import State
from fsm.testing.coordinator import ScriptedCoordinator

A, B = ("t", 0), ("t", 1)


def run(story: Callable[[], Awaitable[None]]) -> None:
    """Runs a story; fails where it does not come to its end."""

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await story()

    asyncio.run(limited())


def coordinator(*given: tuple[str, int], heartbeat_interval_ms: int = 2) -> ScriptedCoordinator:
    """A group over topic `t` whose member M is to have these partitions."""
    group = ScriptedCoordinator(["t"], heartbeat_interval_ms=heartbeat_interval_ms)
    group.give({"M": given})
    return group


def embedded(transport: Any, **settings: Any) -> AsyncConsumer:
    return AsyncConsumer(ConsumerConfig("g", retry_backoff_ms=0, **settings), transport, member_id="M")


def epochs(group: ScriptedCoordinator) -> list[int]:
    """The epochs of all heartbeats."""
    return [r.member_epoch for r in group.requests if isinstance(r, ConsumerGroupHeartbeatRequest)]


async def poll_until(consumer: AsyncConsumer, holds: Callable[[], bool]) -> None:
    """Polls until something holds."""
    while not holds():
        await consumer.poll(timeout_ms=5)


def test_a_life() -> None:
    """Joins, is given partitions, revokes, is fenced (lost is revoked here), rejoins, leaves."""

    async def story() -> None:
        group, listener = coordinator(A, B), Awaiting()
        async with embedded(group) as consumer:
            await consumer.subscribe(["t"], listener)
            await poll_until(consumer, lambda: group.get_owned() == {"M": (A, B)} and consumer.assignment() == (A, B))
            group.give({"M": (B,)})
            await poll_until(consumer, lambda: group.get_owned() == {"M": (B,)})
            group.fence("M")
            await poll_until(consumer, lambda: listener.called[-1] == ("assigned", (B,)))
        assert group.get_owned() == {}
        assert [called for called in listener.called if called[1]] == [
            ("assigned", (A, B)),
            ("revoked", (A,)),
            ("revoked", (B,)),
            ("assigned", (B,)),
            ("revoked", (B,)),
        ]

    run(story)


def test_a_listener_without_coroutines() -> None:
    """The listener of a threaded consumer serves as well."""

    class Plain(ConsumerRebalanceListener):
        called: tuple[Partitions, ...] = ()

        def on_partitions_assigned(self, partitions: Partitions) -> None:
            self.called += (partitions,)

    async def story() -> None:
        listener = Plain()
        async with embedded(coordinator(A, heartbeat_interval_ms=FOR_EVER_MS)) as consumer:
            await consumer.subscribe(["t"], listener)
            await consumer.poll(FOR_EVER_MS)
            assert listener.called == ((A,),)

    run(story)


def test_heartbeats_go_on_while_a_callback_awaits() -> None:
    """A slow callback that awaits holds up nothing but its own task."""

    async def story() -> None:
        group = coordinator(A)

        ended: list[str] = []

        async def slow(method: str, _partitions: Partitions) -> None:
            seen = len(group.requests)
            while len(group.requests) < seen + 5:
                await asyncio.sleep(0.001)
            ended.append(method)

        listener = Awaiting(slow)
        async with embedded(group) as consumer:
            await consumer.subscribe(["t"], listener)
            await poll_until(consumer, lambda: bool(ended))
            assert len(epochs(group)) >= 6, "one to join, and five within the callback"
            assert epochs(group).count(0) == 1
            assert listener.called == [("assigned", (A,))]

    run(story)


def test_cancelled_inside_a_callback() -> None:
    """The cancellation comes out, the member hears that the callback failed, and a later poll calls it again."""

    async def story() -> None:
        reached = asyncio.Event()

        async def once(_method: str, _partitions: Partitions) -> None:
            if not reached.is_set():
                reached.set()
                await asyncio.sleep(FOR_EVER_MS)

        group, listener = coordinator(A), Awaiting(once)
        async with embedded(group) as consumer:
            await consumer.subscribe(["t"], listener)
            task = asyncio.ensure_future(consumer.poll(FOR_EVER_MS))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await poll_until(consumer, lambda: group.get_owned() == {"M": (A,)} and len(listener.called) == 2)
            await poll_until(consumer, lambda: consumer._background.member.member.state is State.STABLE)

    run(story)


def test_cancelled_while_it_waits() -> None:
    """500 polls are cancelled at different points of a rebalance; the consumer still gets its partitions."""

    async def story() -> None:
        group, listener, cancelled = coordinator(A, heartbeat_interval_ms=1), Awaiting(), 0
        async with embedded(group) as consumer:
            await consumer.subscribe(["t"], listener)
            for number in range(500):
                group.give({"M": (A,) if number % 2 else (B,)})
                task = asyncio.ensure_future(consumer.poll(FOR_EVER_MS))
                for _ in range(number % 11):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])  # cancelled, or done before
                cancelled += task.cancelled()
            group.give({"M": (A, B)})
            await poll_until(consumer, lambda: group.get_owned() == {"M": (A, B)} and consumer.assignment() == (A, B))
            assert epochs(group).count(0) == 1, "it has been a member all the while"
            assert listener.called[-1][0] == "assigned"
            assert cancelled >= 50

    run(story)


def test_two_tasks_at_once() -> None:
    """A second task is told that the consumer is in use; one after the other is fine."""

    async def story() -> None:
        async with embedded(coordinator(A, heartbeat_interval_ms=FOR_EVER_MS)) as consumer:
            await consumer.subscribe(["t"])
            first = asyncio.ensure_future(consumer.poll(100))
            await asyncio.sleep(0)
            with pytest.raises(LocalProtocolError, match="one task at a time"):
                await asyncio.ensure_future(consumer.poll(0))
            await first
            await asyncio.ensure_future(consumer.poll(0))

    run(story)


def test_close_inside_a_callback_and_again() -> None:
    """The consumer is closed when that call returns; the poll around it ends, and closing again is nothing."""

    async def story() -> None:
        async def close(method: str, _partitions: Partitions) -> None:
            if method == "assigned":
                await consumer.close()

        group, listener = coordinator(A), Awaiting(close)
        consumer = embedded(group)
        await consumer.subscribe(["t"], listener)
        assert await consumer.poll(FOR_EVER_MS) == ()
        await consumer.close()
        assert (listener.called, group.get_owned()) == ([("assigned", (A,)), ("revoked", (A,))], {})
        assert consumer._task.done()
        with pytest.raises(LocalProtocolError, match="closed"):
            await consumer.poll(0)

    run(story)


def test_a_raising_listener() -> None:
    """poll() throws with the listener's exception as the cause; the consumer goes on."""

    async def story() -> None:
        async def fail(_method: str, _partitions: Partitions) -> None:
            if len(listener.called) == 1:
                raise ValueError("no disk")

        listener = Awaiting(fail)
        async with embedded(coordinator(A)) as consumer:
            await consumer.subscribe(["t"], listener)
            with pytest.raises(KafkaException, match="no disk") as thrown:
                await poll_until(consumer, lambda: False)
            assert isinstance(thrown.value.__cause__, ValueError)
            await poll_until(consumer, lambda: len(listener.called) == 2)

    run(story)


def test_a_bug_of_the_transport_ends_the_consumer_loudly() -> None:
    """The call that waits raises it, so does each later one, and close() once."""

    class Buggy(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            raise ZeroDivisionError("bug", request, on_response)

    async def story() -> None:
        consumer = embedded(Buggy(["t"]))
        await consumer.subscribe(["t"])
        for call in (lambda: consumer.poll(FOR_EVER_MS), consumer.unsubscribe, consumer.close):
            with pytest.raises(BackgroundFailed, match=r"ZeroDivisionError: .*bug") as thrown:
                await call()
            assert isinstance(thrown.value.__cause__, ZeroDivisionError)
        await consumer.close()
        assert consumer._task.done()

    run(story)


def test_a_cancelled_background_ends_the_consumer_loudly() -> None:
    """Whoever cancels all tasks of a program also ends the background; calls say so and do not wait for it."""

    async def story() -> None:
        consumer = embedded(coordinator(A))
        await consumer.subscribe(["t"])
        consumer._task.cancel()
        with pytest.raises(BackgroundFailed, match="CancelledError"):
            await consumer.poll(FOR_EVER_MS)
        with pytest.raises(BackgroundFailed):
            await consumer.close()

    run(story)


def test_answers_from_other_threads() -> None:
    """A transport may have threads: 200 rebalances whose every answer comes from another one."""

    class Later(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            threading.Thread(target=super().send, args=(request, on_response)).start()

    async def story() -> None:
        group, listener = Later(["t"], heartbeat_interval_ms=1), Awaiting()
        async with embedded(group) as consumer:
            await consumer.subscribe(["t"], listener)
            for number in range(200):
                target = (A,) if number % 2 else (B,)
                group.give({"M": target})
                await poll_until(consumer, lambda target=target: group.get_owned() == {"M": target})
        moves = [method for method, given in listener.called if given]
        assert moves == ["assigned", "revoked"] * 200

    run(story)


def test_an_answer_from_another_thread_wakes_a_loop_that_sleeps() -> None:
    """With nothing else to wake the event loop for an hour, each answer does."""

    class Later(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            threading.Timer(0.02, super().send, args=(request, on_response)).start()

    async def story() -> None:
        group, listener = Later(["t"], heartbeat_interval_ms=FOR_EVER_MS), Awaiting()
        group.give({"M": (A,)})
        quiet = {"max_poll_interval_ms": FOR_EVER_MS, "request_timeout_ms": FOR_EVER_MS, "enable_auto_commit": False}
        async with embedded(group, default_api_timeout_ms=FOR_EVER_MS, **quiet) as consumer:
            await consumer.subscribe(["t"], listener)
            await consumer.poll(FOR_EVER_MS)
            assert listener.called == [("assigned", (A,))]

    run(story)


def test_unsubscribe_and_zero_timeouts() -> None:
    """unsubscribe() leaves; poll(0) and close(0) never wait for an answer."""

    async def story() -> None:
        group, listener = coordinator(A), Awaiting()
        consumer = embedded(group)
        await consumer.subscribe(["t"], listener)
        while ("assigned", (A,)) not in listener.called:
            await consumer.poll(0)
            await asyncio.sleep(0)
        await consumer.unsubscribe()
        assert (listener.called[-1], group.get_owned()) == (("revoked", (A,)), {})
        await consumer.close(0)
        assert consumer._task.done()

    run(story)


def test_other_tasks_run_while_a_transport_answers_at_once() -> None:
    """A member that is busy joining, again and again, leaves the event loop to others between two turns."""

    class Fencing(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            self.fence("M")
            super().send(request, on_response)

    async def story() -> None:
        group = Fencing(["t"], heartbeat_interval_ms=0)
        async with embedded(group) as consumer:
            await consumer.subscribe(["t"])
            for _ in range(300):
                await consumer.poll(1)
            assert len(group.requests) > 10

    run(story)
