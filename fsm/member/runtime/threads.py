"""`Consumer`: a member of a group on two threads, the application's own and one in the background.

    with Consumer(ConsumerConfig("orders"), transport) as consumer:
        consumer.subscribe(["orders"], listener)
        while running:
            fetch_from(consumer.poll(timeout_ms=100))

The application's thread calls `poll`, which runs the listener's callbacks. The background thread sends heartbeats
through the `Transport`, also during long callbacks. With a `ClassicConfig` it is a member of a classic group, and
nothing else changes. The calls are in `fsm.member.runtime.consumer_api`, the loop in `fsm.member.runtime.background`.
This module adds the synchronization of two threads: one lock, held while either side uses the member and never while
foreign code runs (callbacks, the transport), one condition on it for the waiting application, and one event for the
sleeping background. The event is cleared before the loop looks, and set after something was added: anything added while
the loop runs ends its next sleep at once.

Source: `AsyncKafkaConsumer`, `ConsumerNetworkThread`.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from fsm.errors import LocalProtocolError
from fsm.member.classic.state import ClassicConfig
from fsm.member.dialect.dialect import Dialect
from fsm.member.events import GroupMembershipOperation
from fsm.member.runtime.background import Background, ClassicTransport, Transport
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.consumer_api import (
    ApiCall,
    BackgroundFailed,
    ConsumerApi,
    SubscriptionPattern,
    Wait,
    check_listener,
)
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import ConsumerRebalanceListener, invoke
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import TraceTo
from fsm.protocol.assignment import Partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import Offsets
from fsm.protocol.releases import LATEST

T = TypeVar("T")


def new_member_id() -> str:
    """A member id as Kafka makes them: 16 random bytes in 22 characters of base64."""
    return secrets.token_urlsafe(16)


def embed(
    config: ConsumerConfig, member_id: str | None, dialect: Dialect | str, trace: TraceTo | None
) -> MemberShell[Any, Any]:
    """The member for these settings:

    `ConsumerConfig` means KIP-848, `ClassicConfig` the classic protocol. Raises `LocalProtocolError` for other
    settings, and for a classic member with a member id, which only its coordinator may create.
    """
    if not isinstance(config, ConsumerConfig):
        raise LocalProtocolError(f"the config is {config!r}; give a ConsumerConfig or a ClassicConfig")
    now_ms = clock_ms()
    offset_ms = time.time_ns() // 1_000_000 - now_ms
    if not isinstance(config, ClassicConfig):
        name = member_id or new_member_id()
        return ConsumerMember(
            config, member_id=name, now_ms=now_ms, dialect=dialect, trace=trace, trace_offset_ms=offset_ms
        )
    if member_id is not None:
        raise LocalProtocolError("the coordinator assigns the id of a classic member; leave member_id out")
    return ClassicConsumerMember(config, trace=trace, trace_offset_ms=offset_ms, now_ms=now_ms)


def draw_jitter() -> float:
    """Jitter for a backoff: from -1 to 1, evenly drawn."""
    return secrets.SystemRandom().uniform(-1.0, 1.0)


def clock_ms() -> int:
    """A clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


class ConsumerRuntime:
    """The common part of consumers on threads and on asyncio: a member, its background loop, the calls of its
    application. `trace` is a file to which the member's trace is appended, or a function that takes each record: the
    format of `fsm audit --format trace`. Raises `LocalProtocolError` for a classic member with a member id,
    `InputError` for a dialect that does not exist, `OSError` for a trace that cannot be opened.
    """

    _lock: AbstractContextManager[object]
    """Serializes the application's calls and the background."""
    _work: Any
    """The event of the sleeping background: a thread's, or one of asyncio."""
    _tell: Callable[[], None]
    """Wakes the waiting application."""

    @overload
    def __init__(
        self,
        config: ClassicConfig,
        transport: ClassicTransport,
        *,
        jitter: Callable[[], float] = ...,
        trace: TraceTo | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: ConsumerConfig,
        transport: Transport,
        *,
        member_id: str | None = ...,
        dialect: Dialect | str = ...,
        jitter: Callable[[], float] = ...,
        trace: TraceTo | None = ...,
    ) -> None: ...
    def __init__(
        self,
        config: ConsumerConfig,
        transport: Transport | ClassicTransport,
        *,
        member_id: str | None = None,
        dialect: Dialect | str = LATEST,
        jitter: Callable[[], float] = draw_jitter,
        trace: TraceTo | None = None,
    ) -> None:
        self._member = embed(config, member_id, dialect, trace)
        self._background = Background(self._member, transport, jitter=jitter, wake=self._wake)
        self._api = ConsumerApi(self._background, clock_ms, self._wake)
        self._owner: object = None
        self._depth = 0
        self._start(config.group_id)

    def _start(self, group_id: str) -> None:
        raise NotImplementedError

    def _wake(self) -> None:
        """Wakes the loop; may be called from any thread."""
        raise NotImplementedError

    def _turn(self) -> bool:
        """One turn of the loop; whether there is another."""
        self._work.clear()
        with self._lock:
            self._background.turn(clock_ms())
            goes_on = not self._background.member.closed
            self._tell()
        self._background.send_outbox()
        return goes_on

    @property
    def member_id(self) -> str:
        """The member id; a classic member has none until its coordinator has created one."""
        return self._member.member_id

    @property
    def member_epoch(self) -> int:
        """The last epoch from its coordinator, or a classic member's generation; at most 0 outside the group."""
        return self._member.member_epoch

    def assignment(self) -> Partitions:
        """The partitions that are owned now."""
        with self._lock:
            return self._api.assignment()

    @contextmanager
    def _alone(self, me: object, rule: str) -> Iterator[None]:
        """Excludes other threads from a call; its own thread may call again, from a callback."""
        with self._lock:
            if self._owner not in (None, me):
                raise LocalProtocolError(f"a consumer is used by one {rule}")
            self._owner, self._depth = me, self._depth + 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                self._owner = me if self._depth else None


class Consumer(ConsumerRuntime):
    """A consumer's membership in its group, used by one thread at a time; `wakeup` and `assignment` by any.

    Callbacks run inside `poll`, `unsubscribe` and `close`, and may call the consumer. Every call raises
    `LocalProtocolError` for illegal use (on a closed consumer, from a second thread), `KafkaException` for the errors
    of Kafka's consumer, and `BackgroundFailed` once the background thread has died.
    """

    def _start(self, group_id: str) -> None:
        self._changed = self._lock = threading.Condition()
        self._tell = self._changed.notify_all
        self._work = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consumer_background_thread-{group_id}")
        self._thread.daemon = True  # a program that forgets close() can still end; the session timeout does the rest
        self._thread.start()

    def _wake(self) -> None:
        self._work.set()

    def subscribe(
        self,
        to: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribes to topics by name, by a pattern (`re.compile`), or by one that the coordinator matches.

        The next `poll` joins. A later call replaces subscription and listener. No topics: `unsubscribe`.
        """
        check_listener(listener, may_await=False)
        self._drive(self._api.subscribe(to, listener))

    def poll(self, timeout_ms: int, consumed: Offsets = ()) -> Partitions:
        """Runs due callbacks, waiting for some until the timeout (0: not at all); returns the partitions that may be
        fetched now. `consumed` are the application's positions, for auto-commits and commits before a revocation.
        """
        return self._drive(self._api.poll(timeout_ms, consumed))

    def commit_sync(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commits these offsets; returns when the coordinator has stored them. A callback may call it, too.

        Errors that may pass are retried until the timeout (`default_api_timeout_ms`).
        """
        self._drive(self._api.commit_sync(offsets, timeout_ms))

    def unsubscribe(self) -> None:
        """Revokes all partitions (revoked callback) and leaves the group; returns when that is done."""
        self._drive(self._api.unsubscribe())

    def close(
        self,
        timeout_ms: int = 30_000,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
        consumed: Offsets | None = None,
    ) -> None:
        """Commits, runs the revoked callback, leaves, ends the background thread; does nothing if already closed.

        `consumed` are the positions to commit, if they differ from those of the last `poll`. Takes at most the timeout
        plus the callback's time. Raises the first error at the end; it never has to be called again.
        """
        self._drive(self._api.close(timeout_ms, operation, consumed))
        if self._background.ended:
            self._thread.join()

    def wakeup(self) -> None:
        """Makes the current `poll` of another thread, or the next one, raise `KafkaException` (WakeupException)."""
        with self._changed:
            self._api.woken = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Where something was raised, the block has ended with that failure, or with something closer to the cause.
        with nullcontext() if raised is None else suppress(BackgroundFailed):
            self.close()

    # The application's thread

    def _drive(self, call: ApiCall[T]) -> T:
        with self._alone(threading.get_ident(), "thread at a time; other threads call wakeup()"):
            raised: BaseException | None = None
            try:
                while True:
                    with self._changed:
                        try:
                            asked = call.send(raised)
                        except StopIteration as done:
                            result: T = done.value
                            return result
                        if isinstance(asked, Wait):
                            raised = self._sleep(asked)
                            continue
                    raised = invoke(self._api.listener, asked)  # raised again when the end is reported
            finally:
                with self._changed:
                    call.close()

    def _sleep(self, asked: Wait) -> BaseException | None:
        """Releases the lock and waits; returns an interrupt of the wait, if any."""
        try:
            self._changed.wait(_seconds(asked.until_ms))
        except BaseException as interrupt:  # the call raises it again where nothing is left half done
            return interrupt
        return None

    # The background thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while self._turn():
                self._work.wait(_seconds(self._background.next_turn_ms))
        except BaseException as died:  # every later call raises it
            failure = died
        with self._changed:
            self._background.failure, self._background.ended = failure, True
            self._changed.notify_all()


def _seconds(until_ms: int) -> float:
    """How long to sleep, limited to what a thread can; waking early is harmless."""
    return min(max(0, until_ms - clock_ms()) / 1_000, threading.TIMEOUT_MAX)
