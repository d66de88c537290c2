"""The calls of an embedded member, common to threads and asyncio.

A call is a generator. It yields `Wait` to wait for the background, and `InvokeListener` to run a callback; it is sent
the exception of the callback, or the interrupt of either (Ctrl-C, a cancellation). Between two yields a runtime
excludes the background (threads: by a lock; asyncio: by not awaiting). It lets the background run only while it waits,
so the state that a call has read cannot change before it waits, and no wake-up is lost.

Source: `AsyncKafkaConsumer.poll`, `.subscribe`, `.commitSync`, `.unsubscribe`, `.close`;
`ApplicationEventHandler.addAndGet`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, TypeVar

from fsm.errors import FsmError, LocalProtocolError
from fsm.member import events
from fsm.member.effects import CallCompleted
from fsm.member.runtime.background import Background
from fsm.member.runtime.queues import InvokeListener, KafkaException, Outcome, callback_error, process
from fsm.member.runtime.trace import warn
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, TIMED_OUT, Offsets

T = TypeVar("T")


class BackgroundFailed(FsmError):  # noqa: N818  # the fact, as the application meets it
    """The background has ended with an error, which is this one's cause; the consumer is unusable."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression of RE2/J, which the coordinator matches."""

    pattern: str


class Wait(NamedTuple):
    """Wait until the background has moved, or until this instant; a shorter wait is harmless."""

    until_ms: int


ApiCall = Generator[Wait | InvokeListener, BaseException | None, T]
Subscribe = (
    events.TopicSubscriptionChangeEvent
    | events.TopicPatternSubscriptionChangeEvent
    | events.TopicRe2JPatternSubscriptionChangeEvent
)

CLOSE_GRACE_MS = 100
"""How long close() waits for its last request to be sent, whatever its timeout."""
_RETRIED = frozenset({
    TIMED_OUT.name, DISCONNECTED.name, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name,
    ErrorCode.COORDINATOR_NOT_AVAILABLE.name, ErrorCode.NOT_COORDINATOR.name, ErrorCode.REQUEST_TIMED_OUT.name,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, ErrorCode.UNKNOWN_TOPIC_ID.name,
})  # fmt: skip
"""Errors after which commitSync() commits again (`CommitRequestManager`, `ConsumerCoordinator`)."""


class Pass:
    """A pass over background events: their number, their outcome, and the exception behind the first error."""

    __slots__ = ("cause", "count", "outcome")

    def __init__(self) -> None:
        self.count = 0
        self.outcome = Outcome()
        self.cause: BaseException | None = None

    def add(self, came: Outcome, raised: BaseException | None) -> None:
        """Adds the outcome of one event."""
        self.count += 1
        for error in (came.first, *came.others):
            if error is not None and self.outcome.first is None:
                self.cause = raised
            self.outcome = self.outcome.with_error(error)

    def throw(self, *, unsubscribing: bool = False) -> None:
        """Raises the first error; the others are only logged, and so is one that unsubscribe() ignores."""
        for error in self.outcome.others:
            _log("a later error of the same pass over background events", error)
        thrown = self.outcome.to_throw(unsubscribing=unsubscribing)
        if thrown is not None:
            raise KafkaException(thrown) from self.cause
        if self.outcome.first is not None:
            _log("unsubscribe() goes on after an error", self.outcome.first)


class ConsumerApi:
    """The calls of one application for one member; `clock` returns the time in ms, `wake` wakes the background."""

    def __init__(self, background: Background, clock: Callable[[], int], wake: Callable[[], None]) -> None:
        self.listener: Any = None
        self.closing = False
        self.woken = False
        """wakeup() was called, and no poll() has raised for it."""
        self._background = background
        self._member = background.member
        self._config = background.member.config
        self._clock = clock
        self._wake = wake
        self._poll = 0
        """The number of the open poll event, 0 for none."""
        self._consumed: Offsets = ()
        """Positions, as the last poll() gave them."""

    # The public calls

    def check(self) -> None:
        """Raises `LocalProtocolError` on a closed consumer, `BackgroundFailed` if the background has ended."""
        if self.closing:
            raise LocalProtocolError("the consumer is closed; create a new one")
        self._check_background()

    def assignment(self) -> Partitions:
        """What is owned now."""
        self.check()
        return self._member.owned

    def subscribe(self, to: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: Any) -> ApiCall[None]:
        """subscribe(): returns when the background has processed it; no topics mean unsubscribe()."""
        self.check()
        event = subscription_to(to, listener=listener is not None)
        if event == events.TopicSubscriptionChangeEvent((), event.listener):
            yield from self.unsubscribe()
            return
        before, self.listener = self.listener, listener
        deadline_ms = self._clock() + self._config.default_api_timeout_ms
        error = yield from self._await(self._submit(event, deadline_ms), deadline_ms)
        if error is None:
            return
        if error.name != "TimeoutException":  # a late event is executed all the same, and needs its listener
            self.listener = before
        raise KafkaException(error)

    def poll(self, timeout_ms: int, consumed: Offsets) -> ApiCall[Partitions]:
        """poll(): runs due callbacks, waiting for some until the timeout; returns the fetchable partitions."""
        self.check()
        if not self._member.is_subscribed:
            raise LocalProtocolError("the consumer is not subscribed; call subscribe() before poll()")
        until_ms = self._clock() + not_negative(timeout_ms)
        self._consumed = check_positions(consumed)
        while True:
            self._throw_wakeup()
            self._inspect_poll()
            if not self._poll and not self._member.throws_next:
                self._poll = self._submit(events.AsyncPollEvent(consumed))
            moves = self._background.moves
            ran = yield from self._pass()
            ran.throw()
            if self.closing:
                return ()
            self._inspect_poll()
            if ran.count or self._clock() >= until_ms:
                return self._member.fetchable(checked=not self._poll)
            yield from self._wait_for_news(until_ms, moves)

    def commit_sync(self, offsets: Offsets, timeout_ms: int | None) -> ApiCall[None]:
        """commitSync(): returns when the coordinator has stored the offsets; retries what may succeed later.

        The callback of close() may commit, too.
        """
        if self._member.closed:
            self.check()
        self._check_background()
        check_positions(offsets, "offsets")
        given_ms = self._config.default_api_timeout_ms if timeout_ms is None else not_negative(timeout_ms)
        deadline_ms = self._clock() + given_ms
        why = ""
        closed = events.KafkaError("TimeoutException", "the consumer has closed")
        while True:
            call = self._submit(events.SyncCommitEvent(offsets), deadline_ms)
            if (error := (yield from self._await(call, deadline_ms, unfinished=closed))) is None:
                return
            if error.name not in _RETRIED:
                raise KafkaException(error)
            if not why or error.name != "TimeoutException":  # the last try ends by the deadline
                why = error.name
            again_ms = self._clock() + self._config.retry_backoff_ms
            if again_ms >= deadline_ms:
                text = f"not committed within {given_ms} ms, last because of {why}"
                raise KafkaException(events.KafkaError("TimeoutException", text))
            while self._clock() < again_ms:
                yield from self._give_way(again_ms)

    def unsubscribe(self) -> ApiCall[None]:
        """unsubscribe(): returns when the member has left, callbacks included."""
        self.check()
        deadline_ms = self._clock() + self._config.default_api_timeout_ms
        call = self._submit(events.UnsubscribeEvent(), deadline_ms)
        try:
            while call not in self._background.completed and not self.closing:
                ran = yield from self._pass(unsubscribing=True)
                ran.throw(unsubscribing=True)
                if not ran.count and not self._has_ended(call):
                    yield from self._give_way(deadline_ms)
            error = self._error_of(call)
        finally:
            self._forget(call)
        if error is not None and error.name != "TimeoutException":
            raise KafkaException(error)
        if error is not None:
            _log("unsubscribe() ran out of time", error)

    def close(
        self, timeout_ms: int, operation: events.GroupMembershipOperation, consumed: Offsets | None
    ) -> ApiCall[None]:
        """close(): commit, callback, leave; a second call does nothing."""
        if self.closing:
            return
        given_ms = min(not_negative(timeout_ms), self._config.request_timeout_ms)
        self.closing = True
        now_ms = self._clock()
        deadline_ms = now_ms if self._background.ended else now_ms + given_ms
        positions = self._consumed if consumed is None else check_positions(consumed)
        self._member.close(now_ms, operation=operation, timeout_ms=deadline_ms - now_ms, consumed=positions)
        self._wake()
        ran = yield from self._close_out(deadline_ms)
        while not self._background.ended and self._clock() < deadline_ms + CLOSE_GRACE_MS:
            yield from _wait(deadline_ms + CLOSE_GRACE_MS)
        self._check_background()
        if ran.outcome.first is not None:
            failed = f"closed, but not without an error: {ran.outcome.first.message or ran.outcome.first.name}"
            raise KafkaException(events.KafkaError("KafkaException", failed)) from ran.cause

    def _close_out(self, deadline_ms: int) -> ApiCall[Pass]:
        """Waits until the member is closed; does the work itself if the background fails or is too slow."""
        whole = Pass()
        while not self._member.closed:
            ran = yield from self._pass()
            whole.add(ran.outcome, ran.cause)
            yield from self._close_further(deadline_ms, idle=not ran.count)
        return whole

    def _close_further(self, deadline_ms: int, *, idle: bool) -> ApiCall[None]:
        """Takes one more step of close(), in the background or here."""
        if self._member.closed:
            return
        if self._background.ended:
            self._member.poll(self._clock())
        elif self._clock() >= deadline_ms:
            self._background.turn(self._clock())
        elif idle:
            yield from _wait(deadline_ms)

    # Background events

    def _pass(self, *, unsubscribing: bool = False) -> ApiCall[Pass]:
        """Processes the events now in the background queue, in order; a callback that closes the consumer ends the
        pass.
        """
        ran = Pass()
        for _ in range(self._member.pending_background_events):
            event = self._member.next_background_event()
            if event is None:
                break
            yield from self._process(event, ran, unsubscribing=unsubscribing)
        return ran

    def _process(self, event: events.BackgroundEvent, ran: Pass, *, unsubscribing: bool) -> ApiCall[None]:
        """Processes one event to its end, even if its callback is interrupted: the member waits for that end."""
        running = process((event,), listener=self.listener is not None, unsubscribing=unsubscribing)
        answer: events.KafkaError | None = None
        raised: BaseException | None = None
        while True:
            try:
                asked = running.send(answer)
            except StopIteration as done:
                ran.add(done.value, raised)
                break
            if isinstance(asked, InvokeListener):
                trace = None if self.listener is None else self._member.trace
                if trace is not None:
                    trace.begin_callback(asked, self._clock())
                raised = yield asked
                answer = None if raised is None else callback_error(raised)
                if trace is not None:
                    trace.end_callback(asked, answer, self._clock())
            else:
                try:
                    answer = yield from self._report(asked)
                except BaseException as stop:
                    if isinstance(stop, Exception | GeneratorExit):
                        raise
                    raised, answer = stop, callback_error(stop)
        if raised is not None and not isinstance(raised, Exception):
            raise raised

    def _report(self, event: events.ApplicationEvent) -> ApiCall[events.KafkaError | None]:
        """Adds an event of a pass; waits until an assignment is applied."""
        if self._member.closed:
            return None
        call = self._member.report(event, self._clock())
        if isinstance(event, events.ApplyAssignmentEvent):
            self._background.awaited.add(call)
            self._wake()
            return (yield from self._await(call))
        self._wake()
        return None

    # Waiting

    def _wait_for_news(self, until_ms: int, moves: int) -> ApiCall[None]:
        """Waits until a poll has something to do; renews a long poll, because its timers need that."""
        background = self._background
        renewal_ms = self._config.max_poll_interval_ms // 2
        if self._config.enable_auto_commit:
            renewal_ms = min(renewal_ms, self._config.auto_commit_interval_ms)
        at_ms = min(until_ms, self._clock() + max(1, renewal_ms))
        while not self.woken and background.moves == moves and not self._member.pending_background_events:
            done = background.completed.get(self._poll)
            wanted_ms = at_ms if done is None else min(at_ms, self._member.poll_wanted_ms)
            if self._clock() >= wanted_ms or (done is not None and done.error is not None):
                return
            self._check_background()
            yield from _wait(wanted_ms)
        self._check_background()

    def _await(
        self, call: int, deadline_ms: int = NEVER, unfinished: events.KafkaError | None = None
    ) -> ApiCall[events.KafkaError | None]:
        """Waits for a call; returns its error, or `unfinished` if the consumer was closed before it ended."""
        try:
            while not self._has_ended(call):
                yield from self._give_way(deadline_ms)
            return self._error_of(call, unfinished)
        finally:
            self._forget(call)

    def _give_way(self, deadline_ms: int) -> ApiCall[None]:
        """Waits for the background; at the deadline runs its loop itself, which fails the overdue call."""
        self._check_background()
        if self._clock() < deadline_ms:
            yield from _wait(deadline_ms)
            self._check_background()
        else:
            self._background.turn(self._clock())

    def _has_ended(self, call: int) -> bool:
        return call in self._background.completed or self._member.closed

    def _error_of(self, call: int, unfinished: events.KafkaError | None = None) -> events.KafkaError | None:
        done: CallCompleted | None = self._background.completed.get(call)
        return unfinished if done is None else done.error

    def _forget(self, call: int) -> None:
        self._background.awaited.discard(call)
        self._background.completed.pop(call, None)

    # Parts of calls

    def _submit(self, event: events.ApplicationEvent, deadline_ms: int = NEVER) -> int:
        call = self._member.submit(event, deadline_ms)
        self._background.awaited.add(call)
        self._wake()
        return call

    def _inspect_poll(self) -> None:
        """Ends a complete poll event. Raises its failure."""
        if not self._poll or not self._has_ended(self._poll):
            return
        error = self._error_of(self._poll)
        self._forget(self._poll)
        self._poll = 0
        if error is not None:
            raise KafkaException(error)

    def _throw_wakeup(self) -> None:
        if self.woken:
            self.woken = False
            raise KafkaException(events.KafkaError("WakeupException"))

    def _check_background(self) -> None:
        failure = self._background.failure
        if failure is not None:
            raise BackgroundFailed(f"the background has ended: {type(failure).__name__}: {failure}") from failure


def _wait(until_ms: int) -> ApiCall[None]:
    """Waits. Raises an interrupt of the caller."""
    interrupt = yield Wait(until_ms)
    if interrupt is not None:
        raise interrupt


def subscription_to(to: Iterable[str] | re.Pattern[str] | SubscriptionPattern, *, listener: bool) -> Subscribe:
    """The event of a subscription. Raises `LocalProtocolError` for an invalid one."""
    if isinstance(to, SubscriptionPattern):
        return events.TopicRe2JPatternSubscriptionChangeEvent(to.pattern, listener)
    if isinstance(to, re.Pattern):
        if re.compile(to.pattern).flags != to.flags:
            raise LocalProtocolError(f"write the flags of {to.pattern!r} into the pattern, as (?i)")
        return events.TopicPatternSubscriptionChangeEvent(to.pattern, listener)
    topics = tuple(to) if isinstance(to, Iterable) and not isinstance(to, str) else None
    if topics is None or not all(topic and isinstance(topic, str) for topic in topics):
        raise LocalProtocolError(f"subscribe to a list of topic names, not to {to!r}")
    return events.TopicSubscriptionChangeEvent(topics, listener)


def check_listener(listener: Any, *, may_await: bool) -> None:
    """Raises `LocalProtocolError` naming missing callbacks, or coroutines that would never be awaited.

    A missing lost callback would show only when a member is fenced.
    """
    names = [method.value for method in events.ListenerMethod]
    missing = [name for name in names if not callable(getattr(listener, name, None))]
    if listener is not None and missing:
        text = f"the listener {type(listener).__name__} has no {' and no '.join(missing)}"
        raise LocalProtocolError(
            f"{text}; inherit from ConsumerRebalanceListener, whose lost callback is the revoked one"
        )
    coroutines = [name for name in names if iscoroutinefunction(getattr(listener, name, None))]
    if coroutines and not may_await:
        text = f"the listener {type(listener).__name__} has coroutines: {', '.join(coroutines)}"
        raise LocalProtocolError(f"{text}; only AsyncConsumer awaits them")


def check_positions(given: Offsets, name: str = "consumed") -> Offsets:
    """The positions. Raises `LocalProtocolError` for an invalid one."""
    if not isinstance(given, tuple) or not all(map(_is_position, given)):
        raise LocalProtocolError(f"{name} is {given!r}; give a tuple of ((topic, partition), offset)")
    return given


def _is_position(given: object) -> bool:
    match given:
        case ((str(), int(partition)), int(offset)):
            return partition >= 0 and 0 <= offset < 1 << 63
    return False


def not_negative(timeout_ms: int) -> int:
    """The timeout. Raises `LocalProtocolError` if it is negative."""
    if timeout_ms < 0:
        raise LocalProtocolError(f"timeout_ms must not be negative, not {timeout_ms}")
    return timeout_ms


def _log(what: str, error: events.KafkaError) -> None:
    warn(what, error=error.name, reason=error.message)
