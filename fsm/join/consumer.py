"""`MessageConsumer` and `AsyncMessageConsumer`: our member on real sockets, with the records of its partitions.

    with MessageConsumer("127.0.0.1:9092", ConsumerConfig("shop")) as consumer:
        consumer.subscribe(["orders"])
        while running:
            for message in consumer.poll(timeout_ms=1_000):
                print(message.offset, message.value)

Both are `fsm.member.Consumer` and `AsyncConsumer` over a `WireTransport`: the member decides what they do in their
group, and `trace=` records it. Positions are committed automatically as by Kafka's consumer: periodically in `poll`,
before a revocation, and at the end; or, with `enable_auto_commit=False`, by `commit_sync`.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Generic, NamedTuple, Self, TypeVar

from fsm.join.fetcher import EARLIEST, Fetcher, Message
from fsm.join.network import Address, Network, check_cluster
from fsm.join.transport import WireTransport, read_counts, read_names
from fsm.member import (
    AsyncConsumer,
    AsyncConsumerRebalanceListener,
    Consumer,
    ConsumerRebalanceListener,
    SubscriptionPattern,
)
from fsm.member.classic.state import ClassicConfig
from fsm.member.dialect.dialect import Dialect
from fsm.member.runtime.consumer_api import check_listener, subscription_to
from fsm.member.runtime.trace import TraceTo, client_id_of, warn
from fsm.protocol.assignment import Partitions, TopicPartition
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import Offsets
from fsm.protocol.releases import LATEST
from fsm.wire.dialogue import read_address
from fsm.wire.login import PLAINTEXT, Security

T = TypeVar("T")
Embedded = TypeVar("Embedded", Consumer, AsyncConsumer)
Subscription = Iterable[str] | re.Pattern[str] | SubscriptionPattern

MOST = 500
"""The maximum number of messages of a poll."""
SLICE_S = 0.05
"""How long a poll waits for messages between two checks for callbacks."""
ASK_S = 0.1
"""The interval at which a wait for the cluster checks whether to give up."""
CLOSE_MS = 5_000


def read_addresses(text: str) -> tuple[Address, ...]:
    """Addresses of HOST:PORT[,HOST:PORT]. Raises `InputError` for an invalid one."""
    return tuple(Address(*read_address(part.strip(), "bootstrap")) for part in text.split(","))


class ReadingOptions(NamedTuple):
    """The options of reading records and metadata, beside the settings of the member."""

    start: int = EARLIEST
    """Where a partition without a committed offset begins: `EARLIEST` or `LATEST`."""
    metadata_max_age_ms: int = 300_000
    """How often the topics are checked for changes."""
    tell: Callable[[str], None] = warn
    """Called with a line for each problem with records."""


READ_ALL = ReadingOptions()


class LoopThread:
    """An event loop in its own thread, for connections of callers without one; a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="connections", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T], gives_up: Callable[[], bool] | None = None) -> T:
        """Runs a coroutine on the loop, and returns its result or raises its exception.

        `gives_up` is called meanwhile; once it returns True, the work is cancelled. Raises `CancelledError` then.
        """
        doing = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            while gives_up is not None and not wait([doing], ASK_S).done:
                if gives_up():
                    doing.cancel()
                    break
            return doing.result()
        finally:
            doing.cancel()  # if the wait was interrupted

    def stop(self) -> None:
        """Ends the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Joined(Generic[Embedded]):
    """The common part of both consumers: a member with its network and the records of its partitions."""

    def __init__(
        self,
        make: type[Embedded],
        loop: asyncio.AbstractEventLoop,
        bootstrap: str,
        config: ConsumerConfig,
        *,
        reading: ReadingOptions,
        security: Security,
        **of_member: Any,
    ) -> None:
        """`of_member` is for the member: its id, dialect and trace. A classic one has none of the former two."""
        self._is_closed = False
        self._is_classic = isinstance(config, ClassicConfig)
        config = replace(config, client_id=client_id_of(config))  # for brokers and the trace
        request_timeout_s, refresh_s = config.request_timeout_ms / 1000, reading.metadata_max_age_ms / 1000
        self._network = Network(read_addresses(bootstrap), config.client_id, request_timeout_s, security)
        read: Any = read_counts if self._is_classic else read_names
        self._transport: WireTransport[Any] = WireTransport(self._network, config.group_id, loop, read, refresh_s)
        self._transport.topics = None if self._is_classic else ()
        self._fetcher = Fetcher(self._network, self._transport, config.group_id, reading.start, reading.tell)
        self._positions: dict[TopicPartition, int] = {}
        """The positions of the application after the last poll."""
        options = {"trace": of_member["trace"]} if self._is_classic else of_member
        self._consumer: Embedded = make(config, self._transport, **options)
        if not self._is_classic:
            self._fetcher.member = self._consumer

    @property
    def member_id(self) -> str:
        """The member id; a classic member has none until its coordinator has created one."""
        return self._consumer.member_id

    def assignment(self) -> Partitions:
        """The partitions that are owned now."""
        return self._consumer.assignment()

    @property
    def _consumed(self) -> Offsets:
        """Positions in the form that a poll of the member takes."""
        return tuple(sorted(self._positions.items()))

    async def _check(self, to: Subscription) -> Subscription:
        """Checks that the cluster can be joined and the topics exist; metadata cover these from now on.

        A classic member may lead its group and needs the topics of all members: its metadata cover every topic. Raises
        `LocalProtocolError` for what is no subscription, such as a text.
        """
        subscription_to(to, listener=False)
        topics = None if isinstance(to, re.Pattern | SubscriptionPattern) else sorted(set(to))
        metadata = await check_cluster(self._network, topics, is_classic=self._is_classic)
        if not self._is_classic:
            self._transport.topics = topics
            self._transport.hand_in(metadata)
        return to if topics is None else topics

    async def _take(self, partitions: Partitions, until_s: float, most: int) -> list[Message]:
        """The next messages; waits briefly for some, and not beyond this instant."""
        wait_s = max(0.0, min(SLICE_S, until_s - time.monotonic()))
        messages = await self._fetcher.take(partitions, wait_s, most)
        self._positions = self._fetcher.positions
        return messages

    def _forget(self, partitions: Partitions) -> None:
        """Drops partitions that the member no longer owns."""
        for partition in partitions:
            self._positions.pop(partition, None)

    async def _disconnect(self) -> None:
        """Closes fetcher and network."""
        await self._fetcher.close()
        await self._transport.close()


class MessageConsumer(_Joined[Consumer]):
    """A consumer on threads: the application's, the member's background, and one for its connections.

    Used by one thread at a time, like `fsm.member.Consumer`, whose exceptions it raises. Callbacks run inside `poll`,
    `unsubscribe` and `close`. Raises `InputError` for invalid settings and addresses.
    """

    def __init__(
        self,
        bootstrap: str,
        config: ConsumerConfig,
        *,
        member_id: str | None = None,
        dialect: Dialect | str = LATEST,
        trace: TraceTo | None = None,
        reading: ReadingOptions = READ_ALL,
        security: Security = PLAINTEXT,
    ) -> None:
        """`bootstrap` is HOST:PORT[,HOST:PORT]; with a `ClassicConfig` it is a member of a classic group."""
        self._running = LoopThread()
        try:
            options: dict[str, Any] = {"member_id": member_id, "dialect": dialect, "trace": trace}
            options |= {"reading": reading, "security": security}
            super().__init__(Consumer, self._running.loop, bootstrap, config, **options)
        except BaseException:
            self._running.stop()
            raise

    def subscribe(
        self,
        to: Subscription,
        listener: ConsumerRebalanceListener | None = None,
        *,
        gives_up: Callable[[], bool] | None = None,
    ) -> None:
        """Subscribes to topics by name or by a pattern.

        `gives_up` is called while the cluster does not answer: once it returns True, the subscription is not made.
        Raises `InputError` for a cluster that cannot be joined: no broker, a required login, an unknown topic.
        """
        check_listener(listener, may_await=False)
        with suppress(CancelledError):
            seen = self._running.do(self._check(to), gives_up)
            self._consumer.subscribe(seen, _Listener(listener, self._forget))

    def poll(self, timeout_ms: int, most: int = MOST) -> list[Message]:
        """The next messages, at most so many; waits for the first, and runs the callbacks that are due."""
        until = time.monotonic() + timeout_ms / 1000
        while True:
            partitions = self._consumer.poll(0, self._consumed)
            messages = self._running.do(self._take(partitions, until, most))
            if messages or time.monotonic() >= until:
                return messages

    def commit_sync(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commits these offsets, by default those of all messages that `poll` has returned. A callback may call it."""
        self._consumer.commit_sync(self._consumed if offsets is None else offsets, timeout_ms)

    def unsubscribe(self) -> None:
        """Gives up all partitions (revoked callback) and leaves the group; returns when that is done."""
        self._consumer.unsubscribe()

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commits, runs the revoked callback, leaves, closes the connections. Closed already: nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._consumer.close(timeout_ms, consumed=self._consumed)
        finally:
            self._running.do(self._disconnect())
            self._running.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget(self, partitions: Partitions) -> None:
        super()._forget(partitions)
        self._running.loop.call_soon_threadsafe(self._fetcher.forget, partitions)


class AsyncMessageConsumer(_Joined[AsyncConsumer]):
    """The same on asyncio; made while an event loop runs, used by one task at a time."""

    def __init__(
        self,
        bootstrap: str,
        config: ConsumerConfig,
        *,
        member_id: str | None = None,
        dialect: Dialect | str = LATEST,
        trace: TraceTo | None = None,
        reading: ReadingOptions = READ_ALL,
        security: Security = PLAINTEXT,
    ) -> None:
        """As `MessageConsumer`."""
        options: dict[str, Any] = {"member_id": member_id, "dialect": dialect, "trace": trace}
        options |= {"reading": reading, "security": security}
        super().__init__(AsyncConsumer, asyncio.get_running_loop(), bootstrap, config, **options)

    async def subscribe(
        self, to: Subscription, listener: AsyncConsumerRebalanceListener | ConsumerRebalanceListener | None = None
    ) -> None:
        """Subscribes to topics by name or by a pattern. Raises `InputError` as `MessageConsumer.subscribe` does."""
        check_listener(listener, may_await=True)
        await self._consumer.subscribe(await self._check(to), _AsyncListener(listener, self._forget))

    async def poll(self, timeout_ms: int, most: int = MOST) -> list[Message]:
        """The next messages, at most so many; waits for the first, and runs the callbacks that are due."""
        until = time.monotonic() + timeout_ms / 1000
        while True:
            partitions = await self._consumer.poll(0, self._consumed)
            messages = await self._take(partitions, until, most)
            if messages or time.monotonic() >= until:
                return messages

    async def commit_sync(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commits these offsets, by default those of all messages that `poll` has returned. A callback may call it."""
        await self._consumer.commit_sync(self._consumed if offsets is None else offsets, timeout_ms)

    async def unsubscribe(self) -> None:
        """Gives up all partitions (revoked callback) and leaves the group; returns when that is done."""
        await self._consumer.unsubscribe()

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commits, runs the revoked callback, leaves, closes the connections. Closed already: nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._consumer.close(timeout_ms, consumed=self._consumed)
        finally:
            await self._disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _forget(self, partitions: Partitions) -> None:
        super()._forget(partitions)
        self._fetcher.forget(partitions)


class _Listener(ConsumerRebalanceListener):
    """The application's listener, if it has one; what is taken away is forgotten once it has been told."""

    def __init__(self, listener: Any, forget: Callable[[Partitions], None]) -> None:
        self._listener = listener
        self._forget = forget

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._call("on_partitions_assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        try:
            self._call("on_partitions_revoked", partitions)
        finally:
            self._forget(partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        try:
            self._call("on_partitions_lost", partitions)
        finally:
            self._forget(partitions)

    def _call(self, method: str, partitions: Partitions) -> None:
        if self._listener is not None:
            getattr(self._listener, method)(partitions)


class _AsyncListener(AsyncConsumerRebalanceListener):
    """The same for listeners that may await."""

    def __init__(self, listener: Any, forget: Callable[[Partitions], None]) -> None:
        self._listener = listener
        self._forget = forget

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self._call("on_partitions_assigned", partitions)

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        try:
            await self._call("on_partitions_revoked", partitions)
        finally:
            self._forget(partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        try:
            await self._call("on_partitions_lost", partitions)
        finally:
            self._forget(partitions)

    async def _call(self, method: str, partitions: Partitions) -> None:
        returned = None if self._listener is None else getattr(self._listener, method)(partitions)
        if isawaitable(returned):
            await returned
