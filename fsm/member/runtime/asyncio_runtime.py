"""`AsyncConsumer`: a member of a group on asyncio, the application's task and one in the background.

    async with AsyncConsumer(ConsumerConfig("orders"), transport) as consumer:
        await consumer.subscribe(["orders"], listener)
        while running:
            await fetch_from(await consumer.poll(timeout_ms=100))

The same calls (`fsm.member.runtime.consumer_api`) and the same loop (`fsm.member.runtime.background`) as on two
threads. Both run on the event loop, so nothing is locked; a callback that blocks the event loop also stops the
heartbeats, one that awaits does not. A `Transport` is called on the event loop; it may answer from any thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar

from fsm.member.events import GroupMembershipOperation
from fsm.member.runtime.consumer_api import ApiCall, BackgroundFailed, SubscriptionPattern, Wait, check_listener
from fsm.member.runtime.queues import ConsumerRebalanceListener, InvokeListener
from fsm.member.runtime.threads import ConsumerRuntime, clock_ms
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import Offsets

T = TypeVar("T")


class AsyncConsumerRebalanceListener(Protocol):
    """The application's callbacks as coroutines. In a subclass without a lost callback the revoked one is called
    instead.
    """

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Partitions were added."""

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Partitions are being revoked; their positions can still be committed."""

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Partitions were lost and may already belong to others."""
        await self.on_partitions_revoked(partitions)


class AsyncConsumer(ConsumerRuntime):
    """A consumer's membership in its group, used by one task at a time; made while an event loop runs.

    Raises the same errors as `fsm.member.runtime.threads.Consumer`. A call that is cancelled inside a callback reports
    that callback as failed. If it is cancelled while it waits, its operation continues.
    """

    def _start(self, group_id: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._tell = self._changed.set
        self._work = asyncio.Event()
        self._lock = nullcontext()
        self._task = self._loop.create_task(self._run(), name=f"consumer_background-{group_id}")

    def _wake(self) -> None:
        """Schedules a turn, never at once, so that a transport that answers inside `send` does not starve
        other tasks.
        """
        with suppress(RuntimeError):  # after the event loop was closed there is no task to wake
            self._loop.call_soon_threadsafe(self._work.set)

    async def subscribe(
        self,
        to: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: AsyncConsumerRebalanceListener | ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribes to topics by name, by a pattern (`re.compile`), or by one that the coordinator matches."""
        check_listener(listener, may_await=True)
        await self._drive(self._api.subscribe(to, listener))

    async def poll(self, timeout_ms: int, consumed: Offsets = ()) -> Partitions:
        """Runs due callbacks, or waits for some; returns the partitions that may be fetched."""
        return await self._drive(self._api.poll(timeout_ms, consumed))

    async def commit_sync(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commits these offsets; returns when the coordinator has stored them. A callback may call it, too."""
        await self._drive(self._api.commit_sync(offsets, timeout_ms))

    async def unsubscribe(self) -> None:
        """Revokes all partitions (revoked callback) and leaves the group; returns when that is done."""
        await self._drive(self._api.unsubscribe())

    async def close(
        self,
        timeout_ms: int = 30_000,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
        consumed: Offsets | None = None,
    ) -> None:
        """Commits, runs the revoked callback, leaves, ends the background task; does nothing if already closed."""
        await self._drive(self._api.close(timeout_ms, operation, consumed))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Where something was raised, the block has ended with that failure, or with something closer to the cause.
        with nullcontext() if raised is None else suppress(BackgroundFailed):
            await self.close()

    # The application's task

    async def _drive(self, call: ApiCall[T]) -> T:
        with self._alone(asyncio.current_task(), "task at a time"):
            raised: BaseException | None = None
            try:
                while True:
                    self._changed.clear()
                    try:
                        asked = call.send(raised)
                    except StopIteration as done:
                        result: T = done.value
                        return result
                    raised = await self._do(asked)
            finally:
                call.close()

    async def _do(self, asked: Wait | InvokeListener) -> BaseException | None:
        """Waits, or runs a callback; returns what it raised, cancellation included, for the member."""
        try:
            if isinstance(asked, Wait):
                await _wait(self._changed, asked.until_ms)
            elif self._api.listener is not None:
                returned = getattr(self._api.listener, asked.method.value)(asked.partitions)
                if isinstance(returned, Awaitable):
                    await returned
        except BaseException as raised:  # the call raises it again where nothing is left half done
            return raised
        return None

    # The background task

    async def _run(self) -> None:
        try:
            while self._turn():
                await _wait(self._work, self._background.next_turn_ms)
        except BaseException as died:  # every later call raises it
            self._background.failure = died
            if not isinstance(died, Exception):
                raise
        finally:
            self._background.ended = True
            self._changed.set()


async def _wait(event: asyncio.Event, until_ms: int) -> None:
    if until_ms >= NEVER:
        await event.wait()
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0, until_ms - clock_ms()) / 1_000):
            await event.wait()
