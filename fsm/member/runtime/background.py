"""The background side of an embedded member: its loop, and what the loop asks of the network.

`Background` is turned by whatever runs in the background, a thread or an asyncio task. It hands in what the network
brought, turns the member's own loop, finds coordinators, learns topic names and gives up on requests without an
answer. It owns no thread and reads no clock: a turn is told the time and says when the next is due.

What a transport hands in is checked where it comes in: answers by the member, anything else here.

A look-up is not repeated at once, whatever its answer was: look-ups of one kind that follow each other wait longer and
longer, up to `retry_backoff_max_ms`. Metadata that bring news end that, and so does a pause of that length. (Kafka's
own client waits 100 ms each time, and then for the fetch that its look-ups queue behind.)

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
    """The network, as an embedded member needs it.

    Each method starts something and returns soon; it then calls the function it was given once, from any thread, now
    or later. What takes longer than the request timeout has failed, and a later answer is passed over. An `OSError`
    raised by a method is a connection that is gone; any other exception ends the member, loudly. So does an answer of
    another type, with a `RemoteProtocolError` that says what to give.
    """

    def find_coordinator(self, on_coordinator_found: Callable[[TransportFailure | None], None]) -> None:
        """Finds the group's coordinator: None once requests can be sent to it, or what went wrong."""

    def update_metadata(self, on_metadata: Callable[[Metadata_co | TransportFailure], None]) -> None:
        """Learns which topics there are: those a subscription may mean. May call again whenever that changes."""

    def send(self, request: Request_contra, on_response: Callable[[Response_co | TransportFailure], None]) -> None:
        """Sends a request to the coordinator; the answer, or the `TransportFailure` for which there is none."""


_METHODS = ("find_coordinator", "update_metadata", "send")


class Transport(Network[ConsumerRequest, ConsumerResponse, TopicNames], Protocol):
    """The network of a member of KIP-848; its metadata are the names of topics by their ids."""


class ClassicTransport(
    Network[ClassicRequest | OffsetCommitRequest, ClassicResponse | OffsetCommitResponse, PartitionCounts], Protocol
):
    """The network of a member of a classic group; its metadata are how many partitions each topic has."""


class Lookup(Enum):
    """What a client asks its cluster beside requests of the group."""

    COORDINATOR = "where the coordinator is"
    METADATA = "which topics there are"

    __hash__ = object.__hash__


class TransportRequest(NamedTuple):
    """Something asked of the transport."""

    number: int
    order: Any
    """A `Lookup`, or the unsent request of the member."""
    deadline_ms: int


class Background:
    """The loop. One thread at a time calls it, under the lock of the runtime if it has one; any may call `receive`.

    What `turn` wants sent waits in `outbox`; `send_outbox` starts it, without that lock, since a transport may be slow.
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
        """Calls that came to their end, until their caller looks."""
        self.awaited: set[int] = set()
        """Calls that somebody waits for."""
        self.moves = 0
        """Counts what may give a poll() something new to do."""
        self.next_turn_ms = 0
        self.ended = False
        """Nobody turns the loop any more."""
        self.failure: BaseException | None = None
        """What the loop ended with, if not with close()."""
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
        """Which topics there are, as the transport told last."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, waits to be sent, or has come and was not taken in."""
        return not (self._in_flight or self._arrivals or self.outbox or self._list_lookups())

    # Called from anywhere

    def receive(self, number: int, answer: object) -> None:
        """An answer; one that comes twice, or too late, is passed over when the loop comes to it."""
        self._arrivals.append((number, answer))  # a deque's append is atomic
        self._wake()

    # The loop

    def turn(self, now_ms: int) -> None:
        """Takes in what arrived and what is overdue, turns the member's loop, and says when it is to be called again.

        Raises `RemoteProtocolError` for an answer that does not answer its request, or holds what it must not.
        """
        for _ in range(len(self._arrivals)):
            number, answer = self._arrivals.popleft()
            sent = self._in_flight.pop(number, None)
            if sent is not None:
                self._take_in(sent.order, answer, now_ms)
            elif isinstance(answer, TopicNames | tuple):  # metadata that a transport gives unasked
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
        """Starts what waits in the outbox."""
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
            self._back_off(order, now_ms)  # it may turn out not to coordinate the group
            self.member.find_coordinator(now_ms)
        else:
            given = type(answer).__name__
            raise RemoteProtocolError(f"find_coordinator was answered with {given}; give None, or a TransportFailure")

    def _learn(self, metadata: object, now_ms: int) -> None:
        """The first answer, and any that a transport gives unasked."""
        if not isinstance(metadata, TopicNames) and not is_counts(metadata):
            wanted = "TopicNames, or for a classic member ((topic, partitions), ...)"
            raise RemoteProtocolError(f"update_metadata was answered with {type(metadata).__name__}; give {wanted}")
        if metadata != self._metadata:
            self._metadata, self._lookups[Lookup.METADATA] = metadata, IDLE
        self._back_off(Lookup.METADATA, now_ms)
        self._metadata_wanted = False
        self.moves += self.member.learn(metadata, now_ms)

    def _fail_lookup(self, order: Lookup, failure: TransportFailure, now_ms: int) -> None:
        """Tried again after a backoff; what cannot be retried, the application sees."""
        self._back_off(order, now_ms)
        if failure.retriable:
            return
        self.moves += 1
        fail = self.member.lose_coordinator if order is Lookup.COORDINATOR else self.member.fail_metadata
        fail(KafkaError(failure.name), now_ms)

    def _back_off(self, lookup: Lookup, now_ms: int) -> None:
        """The next such look-up waits, twice as long as the one before it did: 100 ms to 1 s by default."""
        state = self._lookups[lookup]
        self._lookups[lookup] = state.fail(now_ms, self.member.backoff_ms(state.attempts, self._jitter()))
