"""The classic member on asyncio where things go wrong: listeners, the transport, and every way to close.

Its life without trouble stands in `test_classic_runtime.py`, and so does the same trouble on threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runtime_scene import LIMIT_S, Awaiting

from fsm.errors import LocalProtocolError
from fsm.member import AsyncConsumer, BackgroundFailed, ClassicConfig, KafkaException
from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from fsm.testing.classic_coordinator import ScriptedClassicCoordinator

BOTH = (("t", 0), ("t", 1))


class Losing(Awaiting):
    """Has a lost callback, too; calls about no partitions are passed over."""

    async def note(self, method: str, partitions: Partitions) -> None:
        if partitions:
            await super().note(method, partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        await self.note("lost", partitions)


def run(story: Callable[[], Any]) -> None:
    """Runs a story; fails where it does not come to its end."""
    asyncio.run(asyncio.wait_for(story(), LIMIT_S))


def coordinator() -> ScriptedClassicCoordinator:
    return ScriptedClassicCoordinator({"t": 2})


async def subscribed(group: Any, listener: Any = None) -> AsyncConsumer:
    config = ClassicConfig("g", heartbeat_interval_ms=2, session_timeout_ms=60_000, retry_backoff_ms=1)
    consumer = AsyncConsumer(config, group)
    await consumer.subscribe(["t"], listener)
    return consumer


async def poll_until(consumer: AsyncConsumer, holds: Callable[[], bool], timeout_ms: int = 5) -> None:
    while not holds():
        await consumer.poll(timeout_ms)
        await asyncio.sleep(0)


def sent(group: ScriptedClassicCoordinator, kind: type[Any]) -> int:
    return sum(isinstance(request, kind) for request in group.requests)


@pytest.mark.parametrize("method", ["assigned", "revoked", "lost"])
def test_close_inside_a_callback_and_again(method: str) -> None:
    """close() from within any callback ends the consumer; nothing is called back twice, closing again is nothing."""

    async def story() -> None:
        async def stop(called: str, _partitions: Partitions) -> None:
            if called == method:
                await consumer.close()

        group, listener = coordinator(), Losing(stop)
        consumer = await subscribed(group, listener)
        await poll_until(consumer, lambda: bool(listener.called))
        if method == "revoked":
            group.rebalance()
        elif method == "lost":
            group.expire(consumer.member_id)
        if method != "assigned":
            await poll_until(consumer, lambda: listener.called[-1][0] == method)
        await consumer.close()
        ends = "lost" if method == "lost" else "revoked"
        assert listener.called == [("assigned", BOTH), (ends, BOTH)]
        assert (group.get_owned(), consumer._task.done()) == ({}, True)

    run(story)


def test_close_twice_and_use_after() -> None:
    """A second close() sends no second leave; every other call is refused."""

    async def story() -> None:
        group = coordinator()
        consumer = await subscribed(group)
        await poll_until(consumer, lambda: bool(consumer.assignment()))
        await consumer.close()
        await consumer.close()
        for call in (lambda: consumer.poll(0), lambda: consumer.subscribe(["t"]), consumer.unsubscribe):
            with pytest.raises(LocalProtocolError, match="the consumer is closed"):
                await call()
        assert sent(group, LeaveGroupRequest) == 1

    run(story)


def test_timeouts_of_zero() -> None:
    """Polls that never wait are enough to join; close(0) waits for no answer, and still calls back and leaves."""

    async def story() -> None:
        group, listener = coordinator(), Losing()
        consumer = await subscribed(group, listener)
        await poll_until(consumer, lambda: bool(listener.called), timeout_ms=0)
        assert consumer.assignment() == BOTH
        await consumer.close(0)
        assert listener.called == [("assigned", BOTH), ("revoked", BOTH)]
        assert consumer._task.done()
        assert sent(group, LeaveGroupRequest) == 1

    run(story)


def test_close_while_its_join_is_unanswered() -> None:
    """A coordinator that never answers the join holds up close() for its timeout and no longer."""

    class Silent(ScriptedClassicCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            if not (isinstance(request, JoinGroupRequest) and request.member_id):
                super().send(request, on_response)

    async def story() -> None:
        consumer = await subscribed(Silent({"t": 2}))
        await poll_until(consumer, lambda: bool(consumer.member_id))
        await consumer.close(20)
        assert consumer._task.done()

    run(story)


def test_heartbeats_go_on_while_a_callback_awaits() -> None:
    """A slow callback that awaits holds up nothing but its own task."""

    async def story() -> None:
        group = coordinator()

        ended: list[str] = []

        async def slow(method: str, _partitions: Partitions) -> None:
            before = sent(group, HeartbeatRequest)
            while method == "assigned" and sent(group, HeartbeatRequest) < before + 4:
                await asyncio.sleep(0.001)
            ended.append(method)

        listener = Losing(slow)
        consumer = await subscribed(group, listener)
        await poll_until(consumer, lambda: "assigned" in ended)
        assert consumer.assignment() == BOTH
        assert (sent(group, JoinGroupRequest), listener.called) == (2, [("assigned", BOTH)])
        await consumer.close()

    run(story)


@pytest.mark.parametrize("method", ["assigned", "revoked"])
def test_a_raising_listener(method: str) -> None:
    """poll() throws with the listener's exception as the cause, the call is not repeated, the rebalance goes on."""

    async def story() -> None:
        async def fail(called: str, _partitions: Partitions) -> None:
            if called == method and len(listener.called) <= 2:
                raise ValueError("no disk")

        group, listener = coordinator(), Losing(fail)
        consumer = await subscribed(group, listener)

        async def live() -> None:
            await poll_until(consumer, lambda: bool(listener.called))
            group.rebalance()
            await poll_until(consumer, lambda: listener.called[-1][0] == "revoked")

        with pytest.raises(KafkaException, match="the rebalance listener raised") as thrown:
            await live()
        assert isinstance(thrown.value.__cause__, ValueError)
        generation_id = group.generation_id
        group.rebalance()
        await poll_until(consumer, lambda: group.generation_id > generation_id and consumer.assignment() == BOTH)
        await consumer.close()
        calls = [called for called, _ in listener.called]
        assert calls == ["assigned", "revoked"] * (len(calls) // 2)
        assert group.get_owned() == {}

    run(story)


@pytest.mark.parametrize("where", ["send", "find_coordinator", "update_metadata"])
def test_a_bug_of_the_transport_ends_the_consumer_loudly(where: str) -> None:
    """The call that waits raises it, so does each later one, and close() once; no task is left."""

    async def story() -> None:
        def fail(*_args: Any) -> None:
            raise ZeroDivisionError("a bug")

        group = coordinator()
        setattr(group, where, fail)
        consumer = AsyncConsumer(ClassicConfig("g"), group)

        async def live() -> None:
            await consumer.subscribe(["t"])
            await poll_until(consumer, lambda: False)

        with pytest.raises(BackgroundFailed, match="a bug") as thrown:
            await live()
        assert isinstance(thrown.value.__cause__, ZeroDivisionError)
        with pytest.raises(BackgroundFailed):
            await consumer.close()
        await consumer.close()
        assert consumer._task.done()

    run(story)


def test_a_connection_that_breaks_is_tried_again() -> None:
    """Every third request fails on the way; the member gets in all the same."""

    class Breaking(ScriptedClassicCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            if len(self.requests) % 3 == 1:
                self.requests.append(None)
                raise ConnectionError("reset by peer")
            super().send(request, on_response)

    async def story() -> None:
        group = Breaking({"t": 2})
        consumer = await subscribed(group)
        await poll_until(consumer, lambda: consumer.assignment() == BOTH and group.requests.count(None) >= 3)
        assert group.generation_id == 1, "a failure on the way is no rebalance"
        await consumer.close(50)

    run(story)
