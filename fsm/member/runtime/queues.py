"""The two queues between the threads of a consumer, and how the application's side of them works.

The application thread adds application events, the background thread background events; each queue keeps its order,
and a drain takes what is there at that moment. Events that a caller waits for are *completable*: a reaper fails those
that are past their deadline and, at close, all that are left.

`process` is the application's pass over background events as the design notes draw it and Kafka does it: run the
callback, add the event that reports its end; apply an assignment before its callback; remember the first error, note
the others, process every event. It is a generator: what touches the outside (a listener, the application queue) is
yielded to the driver, so the same pass serves threads, asyncio and a single thread.

Source: `ApplicationEventHandler`, `BackgroundEventHandler`, `CompletableEventReaper`,
`AsyncKafkaConsumer.processBackgroundEvents`, `ConsumerRebalanceListenerInvoker`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from fsm.errors import FsmError
from fsm.member.effects import CallCompleted
from fsm.member.events import (
    OUTDATED,
    ApplicationEvent,
    ApplyAssignmentEvent,
    BackgroundEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    KafkaError,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
)
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions

E = TypeVar("E")


class KafkaException(FsmError):  # noqa: N818  # Kafka's own name of it
    """What poll(), unsubscribe() and close() throw at the application."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(f"{error.name}: {error.message}" if error.message else error.name)

    def __reduce__(self) -> tuple[type[KafkaException], tuple[KafkaError]]:
        return type(self), (self.error,)


class EventQueue(Generic[E]):
    """A queue in one direction, first in, first out."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: deque[E] = deque()

    def add(self, event: E) -> None:
        """At the end."""
        self._events.append(event)

    def take(self) -> E | None:
        """The first one; None where there is none."""
        return self._events.popleft() if self._events else None

    def drain(self) -> Iterator[E]:
        """What is there now, in order; what is added meanwhile waits for the next drain."""
        for _ in range(len(self._events)):
            yield self._events.popleft()

    def clear(self) -> tuple[E, ...]:
        """Empties the queue and gives what was in it."""
        left = tuple(self._events)
        self._events.clear()
        return left

    def __len__(self) -> int:
        return len(self._events)


class _Waiting(NamedTuple):
    name: str
    deadline_ms: int


class CompletableEventReaper:
    """The calls that somebody waits for, until they are completed or fail."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}

    def add(self, call: int, name: str, deadline_ms: int = NEVER) -> None:
        """A call is made."""
        self._waiting[call] = _Waiting(name, deadline_ms)

    def complete(self, call: int) -> bool:
        """Whether somebody still waited for the call; a completion after its deadline finds nobody."""
        return self._waiting.pop(call, None) is not None

    def reap(self, now_ms: int) -> tuple[CallCompleted, ...]:
        """Fails the calls that are past their deadline."""
        overdue = [(call, w) for call, w in sorted(self._waiting.items()) if now_ms >= w.deadline_ms]
        return tuple(
            self._fail(call, f"{w.name} had until {w.deadline_ms} ms, and it is {now_ms} ms") for call, w in overdue
        )

    def close(self) -> tuple[CallCompleted, ...]:
        """Fails every call that is left."""
        left = sorted(self._waiting.items())
        return tuple(self._fail(call, f"{w.name} was still open when the consumer closed") for call, w in left)

    def _fail(self, call: int, text: str) -> CallCompleted:
        del self._waiting[call]
        return CallCompleted(call, KafkaError("TimeoutException", text))

    @property
    def next_deadline_ms(self) -> int:
        """The earliest deadline; `NEVER` where there is none."""
        return min((w.deadline_ms for w in self._waiting.values()), default=NEVER)

    def __len__(self) -> int:
        return len(self._waiting)


@dataclass(frozen=True, slots=True)
class InvokeListener:
    """Run this method of the listener over these partitions; give back what it raised, or None."""

    method: ListenerMethod
    partitions: Partitions


UNSUBSCRIBE_PASSES_OVER = frozenset({"GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"})
"""Errors that unsubscribe() does not throw: who may not be in the group, or see its topics, is leaving anyway."""


class Outcome(NamedTuple):
    """What a pass came to: the error to throw, and the others, which are only logged."""

    first: KafkaError | None = None
    others: tuple[KafkaError, ...] = ()

    def with_error(self, error: KafkaError | None) -> Outcome:
        """The same after one more error, or none."""
        if error is None:
            return self
        return Outcome(error, self.others) if self.first is None else Outcome(self.first, (*self.others, error))

    def to_throw(self, *, unsubscribing: bool) -> KafkaError | None:
        """The first error, unless it is one that unsubscribe() passes over in its passes."""
        if unsubscribing and self.first is not None and self.first.name in UNSUBSCRIBE_PASSES_OVER:
            return None
        return self.first


Asked = InvokeListener | ApplicationEvent
"""What a pass yields: a callback to run; an event to add. For an `ApplyAssignmentEvent` the driver waits for its
completion and sends the error of it, or None; for a callback it sends what it raised; else None."""

Pass = Generator[Asked, KafkaError | None, Outcome]

SKIPPED = "not applied: the application unsubscribes"


def process(events: Iterable[BackgroundEvent], *, listener: bool, unsubscribing: bool = False) -> Pass:
    """One pass over background events, in their order; `unsubscribing` where unsubscribe() makes it while it waits."""
    outcome = Outcome()
    for event in events:
        match event:
            case ErrorEvent(error=error):
                outcome = outcome.with_error(error)
            case PartitionsRemovedEvent(ticket=ticket, heard=False):
                yield _completed(ticket, None)
            case PartitionsRemovedEvent(ticket=ticket, method=method, partitions=removed):
                outcome = outcome.with_error((yield from _call_back(ticket, method, removed)))
            case PartitionsAssignedEvent() if unsubscribing and event.apply:
                yield _completed(event.ticket, SKIPPED)
            case PartitionsAssignedEvent():
                outcome = outcome.with_error((yield from _assign(event, listener=listener)))
    return outcome


def _assign(
    event: PartitionsAssignedEvent, *, listener: bool
) -> Generator[Asked, KafkaError | None, KafkaError | None]:
    """Apply, then call back; without a listener the end is reported at once."""
    if event.apply:
        failed = yield ApplyAssignmentEvent(event.ticket, event.full, event.added)
        if failed == OUTDATED:
            yield _completed(event.ticket, None)
            return None
        if failed is not None:
            yield _completed(event.ticket, failed.message or failed.name)
            return failed
    if listener:
        return (yield from _call_back(event.ticket, ListenerMethod.ASSIGNED, event.added))
    yield _completed(event.ticket, None)
    return None


def _call_back(
    ticket: int, method: ListenerMethod, over: Partitions
) -> Generator[Asked, KafkaError | None, KafkaError | None]:
    raised = yield InvokeListener(method, over)
    yield _completed(ticket, None if raised is None else raised.message or raised.name)
    return raised


def _completed(ticket: int, error: str | None) -> ConsumerRebalanceListenerCallbackCompletedEvent:
    return ConsumerRebalanceListenerCallbackCompletedEvent(ticket, error)
