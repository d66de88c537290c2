"""The application's side of the two queues: its listener, and a pass over background events.

`process` is that pass as in the design notes and in Kafka: run the callback, add the event that reports its end; apply
an assignment before its callback; keep the first error, log the others, process every event. It is a generator that
yields every action outside (on a listener, the application queue) to its driver, so threads, asyncio and a single
thread share it.

Source: `AsyncKafkaConsumer.processBackgroundEvents`, `ConsumerRebalanceListenerInvoker`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple, Protocol

from fsm.errors import FsmError
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
from fsm.protocol.assignment import Partitions
from fsm.step import value


class KafkaException(FsmError):  # noqa: N818  # Kafka's own name of it
    """The exception of poll(), unsubscribe() and close()."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(f"{error.name}: {error.message}" if error.message else error.name)

    def __reduce__(self) -> tuple[type[KafkaException], tuple[KafkaError]]:
        return type(self), (self.error,)


class ConsumerRebalanceListener(Protocol):
    """The application's callbacks; each may raise. In a subclass without a lost callback the revoked one is called
    instead.
    """

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Partitions were added."""

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Partitions are being revoked; their positions can still be committed."""

    def on_partitions_lost(self, partitions: Partitions) -> None:
        """Partitions were lost and may already belong to others."""
        self.on_partitions_revoked(partitions)


@value
class InvokeListener:
    """Run this method of the listener over these partitions; send back its exception, or None."""

    method: ListenerMethod
    partitions: Partitions


UNSUBSCRIBE_PASSES_OVER = frozenset({"GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"})
"""Errors that unsubscribe() does not throw: a member without authorization for the group or topics leaves anyway."""


class Outcome(NamedTuple):
    """The outcome of a pass: the error to throw, and the others, which are only logged."""

    first: KafkaError | None = None
    others: tuple[KafkaError, ...] = ()

    def with_error(self, error: KafkaError | None) -> Outcome:
        """The outcome with one more error, or none."""
        if error is None:
            return self
        return Outcome(error, self.others) if self.first is None else Outcome(self.first, (*self.others, error))

    def to_throw(self, *, unsubscribing: bool) -> KafkaError | None:
        """The first error, unless unsubscribe() made the pass and ignores it."""
        if unsubscribing and self.first is not None and self.first.name in UNSUBSCRIBE_PASSES_OVER:
            return None
        return self.first


Asked = InvokeListener | ApplicationEvent
"""What a pass yields: a callback to run, or an event to add. The driver sends the exception of a callback, or the error
of a completed `ApplyAssignmentEvent`, for which it waits; else None.
"""

Pass = Generator[Asked, KafkaError | None, Outcome]

SKIPPED = "not applied: the application unsubscribes"


def process(events: Iterable[BackgroundEvent], *, listener: bool, unsubscribing: bool = False) -> Pass:
    """One pass over background events, in their order; `unsubscribing` if unsubscribe() makes it while it waits."""
    outcome = Outcome()
    for event in events:
        match event:
            case ErrorEvent(error=error):
                outcome = outcome.with_error(error)
            case PartitionsRemovedEvent(ticket=ticket, call_back=False):
                yield _complete(ticket, None)
            case PartitionsRemovedEvent(ticket=ticket, method=method, partitions=removed):
                outcome = outcome.with_error((yield from _call_back(ticket, method, removed)))
            case PartitionsAssignedEvent() if unsubscribing and event.apply:
                yield _complete(event.ticket, SKIPPED)
            case PartitionsAssignedEvent():
                outcome = outcome.with_error((yield from _assign(event, listener=listener)))
    return outcome


def _assign(
    event: PartitionsAssignedEvent, *, listener: bool
) -> Generator[Asked, KafkaError | None, KafkaError | None]:
    """Applies, then runs the callback; without a listener reports the end at once."""
    if event.apply:
        failed = yield ApplyAssignmentEvent(event.ticket, event.full, event.added)
        if failed == OUTDATED:
            yield _complete(event.ticket, None)
            return None
        if failed is not None:
            yield _complete(event.ticket, failed.message or failed.name)
            return failed
    if listener:
        return (yield from _call_back(event.ticket, ListenerMethod.ASSIGNED, event.added))
    yield _complete(event.ticket, None)
    return None


def _call_back(
    ticket: int, method: ListenerMethod, over: Partitions
) -> Generator[Asked, KafkaError | None, KafkaError | None]:
    raised = yield InvokeListener(method, over)
    yield _complete(ticket, None if raised is None else raised.message or raised.name)
    return raised


def _complete(ticket: int, error: str | None) -> ConsumerRebalanceListenerCallbackCompletedEvent:
    return ConsumerRebalanceListenerCallbackCompletedEvent(ticket, error)


def invoke(listener: ConsumerRebalanceListener | None, asked: InvokeListener) -> BaseException | None:
    """Runs a callback; returns what it raised, interrupts included.

    A callback that Ctrl-C ends has ended, too: the caller reports that end before it raises the interrupt.
    """
    try:
        if listener is not None:
            getattr(listener, asked.method.value)(asked.partitions)
    except BaseException as raised:  # the member must see any exception of a listener
        return raised
    return None


def callback_error(raised: BaseException) -> KafkaError:
    """The error for the application of its listener's exception: a Kafka error unchanged, anything else wrapped."""
    if isinstance(raised, KafkaException):
        return raised.error
    return KafkaError("KafkaException", f"the rebalance listener raised: {raised}")
