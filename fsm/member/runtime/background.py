"""The background side of an embedded member: its loop, and its interface to the network.

A thread or an asyncio task drives `Background`. It passes responses to the member, runs the member's own loop, finds
coordinators, fetches topic names and times out requests. It owns no thread and reads no clock: a turn takes the time
and returns when the next is due. Input of a transport is checked on arrival: answers by the member, everything else
here.

Consecutive look-ups of one kind wait longer and longer, up to `retry_backoff_max_ms`, whatever their answers were. New
metadata resets this, and so does a pause of that length. (Kafka's own client waits 100 ms each time, and then for the
fetch that its look-ups queue behind.)

Source: `ConsumerNetworkThread.runOnce`, `NetworkClientDelegate`, `CoordinatorRequestManager`, `Metadata`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from fsm.errors import LocalProtocolError, RemoteProtocolError
from fsm.member.classic.assignors import PartitionCounts
from fsm.member.effects import CallCompleted
from fsm.member.events import KafkaError
from fsm.member.runtime.answers import is_counts
from fsm.member.runtime.shell import MemberShell
from fsm.member.timers import IDLE, NEVER
from fsm.protocol.assignment import TopicNames
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    ClassicRequest,
    ClassicResponse,
    ConsumerRequest,
    ConsumerResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    TransportFailure,
)

Request_contra = TypeVar("Request_contra", contravariant=True)
Response_co = TypeVar("Response_co", covariant=True)
Metadata_co = TypeVar("Metadata_co", covariant=True)


class Network(Protocol[Request_contra, Response_co, Metadata_co]):
    """The network interface of an embedded member.

    Each method starts an operation and returns soon; later it calls its callback once, from any thread. After the
    request timeout the operation has failed, and a later answer is ignored. An `OSError` raised by a method means a
    lost connection; any other exception ends the member. So does an answer of a wrong type, with a
    `RemoteProtocolError` that names the right one.
    """

    def find_coordinator(self, on_coordinator_found: Callable[[TransportFailure | None], None]) -> None:
        """Finds the group's coordinator; the callback gets None once requests can be sent to it, or the failure."""

    def update_metadata(self, on_metadata: Callable[[Metadata_co | TransportFailure], None]) -> None:
        """Fetches the topics that a subscription may match; may call back again whenever they change."""

    def send(self, request: Request_contra, on_response: Callable[[Response_co | TransportFailure], None]) -> None:
        """Sends a request to the coordinator; the callback gets the answer or a `TransportFailure`."""


_METHODS = ("find_coordinator", "update_metadata", "send")


class Transport(Network[ConsumerRequest, ConsumerResponse, TopicNames], Protocol):
    """The network of a member of KIP-848; its metadata are the names of topics by their ids."""


class ClassicTransport(
    Network[ClassicRequest | OffsetCommitRequest, ClassicResponse | OffsetCommitResponse, PartitionCounts], Protocol
):
    """The network of a member of a classic group; its metadata are how many partitions each topic has."""


class Lookup(Enum):
    """A client's look-ups beside the requests of the group."""

    COORDINATOR = "where the coordinator is"
    METADATA = "which topics there are"

    __hash__ = object.__hash__


class TransportRequest(NamedTuple):
    """An operation of the transport."""

    number: int
    order: Any
    """A `Lookup`, or the unsent request of the member."""
    deadline_ms: int


class Background:
    """The loop. One thread at a time calls it, under the lock of the runtime if it has one; any may call `receive`.

    `turn` puts requests into `outbox`; `send_outbox` sends them, without that lock, because a transport may be slow.
    """

    def __init__(
        self,
        member: MemberShell[Any, Any],
        transport: Transport | ClassicTransport,
        *,
        jitter: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        lacking = [name for name in _METHODS if not callable(getattr(transport, name, None))]
        if lacking:
            raise LocalProtocolError(f"the transport {type(transport).__name__} has no {', '.join(lacking)}")
        self.member = member
        self.outbox: deque[TransportRequest] = deque()
        self.completed: dict[int, CallCompleted] = {}
        """Completed calls, until their caller fetches them."""
        self.awaited: set[int] = set()
        """Calls whose callers wait."""
        self.moves = 0
        """Counts the events that may give a poll() something new to do."""
        self.next_turn_ms = 0
        self.ended = False
        """The loop has ended."""
        self.failure: BaseException | None = None
        """The exception that ended the loop, if close() did not."""
        self._transport: Network[Any, Any, Any] = transport
        self._jitter = jitter
        self._wake = wake
        self._arrivals: deque[tuple[int, object]] = deque()
        """Answers by the number of their request."""
        self._in_flight: dict[int, TransportRequest] = {}
        self._last_number = 0
        self._lookups = {Lookup.COORDINATOR: IDLE, Lookup.METADATA: IDLE}
        self._metadata_wanted = True
        self._metadata: object = None
        """The last metadata of the transport."""

    @property
    def is_quiet(self) -> bool:
        """Whether no operation is in flight, waits to be sent, or has an unread answer."""
        return not (self._in_flight or self._arrivals or self.outbox or self._list_lookups())

    # Called from anywhere

    def receive(self, number: int, answer: object) -> None:
        """Queues an answer; the loop ignores one that comes twice or too late."""
        self._arrivals.append((number, answer))  # a deque's append is atomic
        self._wake()

    # The loop

    def turn(self, now_ms: int) -> None:
        """Handles arrived answers and timeouts, runs the member's loop, and returns when it must be called again.

        Raises `RemoteProtocolError` for an answer to another request or with invalid content.
        """
        for _ in range(len(self._arrivals)):
            number, answer = self._arrivals.popleft()
            sent = self._in_flight.pop(number, None)
            if sent is not None:
                self._take_in(sent.order, answer, now_ms)
            elif isinstance(answer, TopicNames | tuple):  # metadata that a transport sends by itself
                self._learn(answer, now_ms)
        for sent in [f for f in self._in_flight.values() if now_ms >= f.deadline_ms]:
            del self._in_flight[sent.number]
            self._take_in(sent.order, TIMED_OUT, now_ms)
        result = self.member.poll(now_ms, self._jitter())
        self.moves += len(result.notices)
        self.completed.update((done.call, done) for done in result.completed_calls if done.call in self.awaited)
        self._metadata_wanted |= result.metadata_needed
        for request in result.unsent_requests:
            self._ask(request, self.member.timeout_ms(request.body), now_ms)
        wanted = self._list_lookups()
        for lookup in wanted:
            state = self._lookups[lookup]
            if state.may_send(now_ms):
                is_first = now_ms - state.ready_ms > self.member.config.retry_backoff_max_ms
                self._lookups[lookup] = (IDLE if is_first else state).send()
                self._ask(lookup, self.member.config.request_timeout_ms, now_ms)
        due = [self._lookups[lookup].ready_ms for lookup in wanted if not self._lookups[lookup].in_flight]
        due += [sent.deadline_ms for sent in self._in_flight.values()]
        self.next_turn_ms = min(now_ms + result.time_until_next_poll_ms, NEVER, *due)

    def send_outbox(self) -> None:
        """Starts the operations in the outbox."""
        while self.outbox:
            number, order, _ = self.outbox.popleft()
            answer = partial(self.receive, number)
            try:
                if order is Lookup.COORDINATOR:
                    self._transport.find_coordinator(answer)
                elif order is Lookup.METADATA:
                    self._transport.update_metadata(answer)
                else:
                    self._transport.send(order.body, answer)
            except OSError:
                self.receive(number, DISCONNECTED)

    def _list_lookups(self) -> list[Lookup]:
        if self.member.closed:
            return []
        wanted = {Lookup.COORDINATOR: self.member.seeks_coordinator, Lookup.METADATA: self._metadata_wanted}
        return [lookup for lookup, is_wanted in wanted.items() if is_wanted]

    def _ask(self, order: Any, patience_ms: int, now_ms: int) -> None:
        self._last_number += 1
        sent = TransportRequest(self._last_number, order, now_ms + patience_ms)
        self._in_flight[sent.number] = sent
        self.outbox.append(sent)

    # Answers

    def _take_in(self, order: Any, answer: object, now_ms: int) -> None:
        if not isinstance(order, Lookup):
            self.member.receive_answer(order, answer, self._jitter(), now_ms)
        elif isinstance(answer, TransportFailure):
            self._fail_lookup(order, answer, now_ms)
        elif order is Lookup.METADATA:
            self._learn(answer, now_ms)
        elif answer is None:
            self._back_off(order, now_ms)  # the broker may not be the group's coordinator
            self.member.find_coordinator(now_ms)
        else:
            given = type(answer).__name__
            raise RemoteProtocolError(f"find_coordinator was answered with {given}; give None, or a TransportFailure")

    def _learn(self, metadata: object, now_ms: int) -> None:
        """Handles the first answer of a look-up, and any that a transport sends by itself."""
        if not isinstance(metadata, TopicNames) and not is_counts(metadata):
            wanted = "TopicNames, or for a classic member ((topic, partitions), ...)"
            raise RemoteProtocolError(f"update_metadata was answered with {type(metadata).__name__}; give {wanted}")
        if metadata != self._metadata:
            self._metadata, self._lookups[Lookup.METADATA] = metadata, IDLE
        self._back_off(Lookup.METADATA, now_ms)
        self._metadata_wanted = False
        self.moves += self.member.learn(metadata, now_ms)

    def _fail_lookup(self, order: Lookup, failure: TransportFailure, now_ms: int) -> None:
        """Retries a look-up after a backoff; passes a failure that cannot be retried to the application."""
        self._back_off(order, now_ms)
        if failure.retriable:
            return
        self.moves += 1
        fail = self.member.lose_coordinator if order is Lookup.COORDINATOR else self.member.fail_metadata
        fail(KafkaError(failure.name), now_ms)

    def _back_off(self, lookup: Lookup, now_ms: int) -> None:
        """Makes the next look-up of this kind wait twice as long as the last one: 100 ms to 1 s by default."""
        state = self._lookups[lookup]
        self._lookups[lookup] = state.fail(now_ms, self.member.backoff_ms(state.attempts, self._jitter()))
