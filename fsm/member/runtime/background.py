"""The background side of an embedded member: its loop, and what the loop asks of the network.

`Background` is turned by whatever runs in the background, a thread or an asyncio task. It hands in what the network
brought, turns the member's own loop, finds coordinators, learns topic names and gives up on requests without an
answer. It owns no thread and reads no clock: a turn is told the time and says when the next is due.

Source: `ConsumerNetworkThread.runOnce`, `NetworkClientDelegate`, `CoordinatorRequestManager`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

from fsm.errors import RemoteProtocolError
from fsm.member.effects import CallCompleted
from fsm.member.events import KafkaError
from fsm.member.runtime.embedding import EmbeddedMember, Order
from fsm.member.timers import IDLE, NEVER, RequestState
from fsm.protocol.assignment import TopicNames
from fsm.protocol.codec import API_OF
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, TIMED_OUT, ConsumerGroupHeartbeatResponse, TransportFailure


class Transport(Protocol):
    """The network, as an embedded member needs it.

    Each method starts something and returns soon; it then calls the function it was given once, from any thread, now
    or later. What takes longer than the request timeout has failed, and a later answer is passed over. An `OSError`
    raised by a method is a connection that is gone; any other exception ends the member, loudly.
    """

    def find_coordinator(self, found: Callable[[TransportFailure | None], None]) -> None:
        """Finds the group's coordinator: None once requests can be sent to it, or what went wrong."""

    def update_metadata(self, learnt: Callable[[Any], None]) -> None:
        """Learns which topics there are: those a subscription may mean. May call again whenever that changes.

        For a member of KIP-848 `TopicNames`, their names by id; for a classic one `PartitionCounts`, how many
        partitions each has; or a `TransportFailure`.
        """

    def send(self, request: Any, answered: Callable[[Any], None]) -> None:
        """Sends a request to the coordinator; the answer, or the `TransportFailure` for which there is none.

        Requests and responses are messages of `fsm.protocol.messages`.
        """


class Lookup(Enum):
    """What a client asks its cluster beside requests of the group."""

    COORDINATOR = "where the coordinator is"
    METADATA = "which topics there are"

    __hash__ = object.__hash__


class Flight(NamedTuple):
    """Something asked of the transport."""

    number: int
    order: Order | Lookup
    deadline_ms: int


@dataclass(slots=True)
class _Arrival:
    number: int
    answer: Any


class Background:
    """The loop. Everything but `land` is called by one thread at a time, under the lock of the runtime if it has one.

    What `turn` wants sent waits in `outbox`; `take_off` starts it, without that lock, since a transport may be slow.
    """

    def __init__(
        self,
        member: EmbeddedMember,
        transport: Transport,
        *,
        jitter: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self.member = member
        self.outbox: deque[Flight] = deque()
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
        self._transport = transport
        self._jitter = jitter
        self._wake = wake
        self._arrivals: deque[_Arrival] = deque()
        self._flights: dict[int, Flight] = {}
        self._last_flight = 0
        self._lookups = {Lookup.COORDINATOR: IDLE, Lookup.METADATA: IDLE}
        self._metadata_wanted = True
        self._names: Mapping[str, str] = {}
        """Topic names by id, as the transport told them last."""

    # Called from anywhere

    def land(self, number: int, answer: Any) -> None:
        """An answer; one that comes twice, or too late, is passed over when the loop comes to it."""
        self._arrivals.append(_Arrival(number, answer))  # a deque's append is atomic
        self._wake()

    # The loop

    def turn(self, now_ms: int) -> None:
        """Takes in what arrived and what is overdue, turns the member's loop, and says when it is to be called again.

        Raises `RemoteProtocolError` for an answer that does not answer its request, or holds what it must not.
        """
        for _ in range(len(self._arrivals)):
            arrival = self._arrivals.popleft()
            self._arrived(arrival, now_ms)
        for flight in [f for f in self._flights.values() if now_ms >= f.deadline_ms]:
            del self._flights[flight.number]
            self._take_in(flight.order, TIMED_OUT, now_ms)
        result = self.member.poll(now_ms, self._jitter())
        self.moves += len(result.notices)
        self.completed.update((done.call, done) for done in result.completed_calls if done.call in self.awaited)
        self._metadata_wanted |= result.metadata_needed
        for request in result.unsent_requests:
            self._ask(request, now_ms)
        self._look_up(now_ms)
        self.next_turn_ms = self._next_turn_ms(now_ms, result.time_until_next_poll_ms)

    def take_off(self) -> None:
        """Starts what waits in the outbox."""
        while self.outbox:
            flight = self.outbox.popleft()
            try:
                self._start(flight)
            except OSError:
                self.land(flight.number, DISCONNECTED)

    def _start(self, flight: Flight) -> None:
        answered = partial(self.land, flight.number)
        match flight.order:
            case Lookup.COORDINATOR:
                self._transport.find_coordinator(answered)
            case Lookup.METADATA:
                self._transport.update_metadata(answered)
            case order:
                self._transport.send(order.body, answered)

    def _ask(self, order: Order | Lookup, now_ms: int) -> None:
        self._last_flight += 1
        config = self.member.config
        patience_ms = config.request_timeout_ms if isinstance(order, Lookup) else self.member.timeout_ms(order.body)
        flight = Flight(self._last_flight, order, now_ms + patience_ms)
        self._flights[flight.number] = flight
        self.outbox.append(flight)

    # Answers

    def _arrived(self, arrival: _Arrival, now_ms: int) -> None:
        flight = self._flights.pop(arrival.number, None)
        if flight is not None:
            self._take_in(flight.order, arrival.answer, now_ms)
        elif isinstance(arrival.answer, TopicNames | tuple):
            self._know(arrival.answer, now_ms)

    def _take_in(self, order: Order | Lookup, answer: Any, now_ms: int) -> None:
        if not isinstance(order, Lookup):
            self._check(order.body, answer)
            self.member.answered(order, answer, self._jitter(), now_ms)
        elif isinstance(answer, TransportFailure):
            self._lookup_failed(order, answer, now_ms)
        elif order is Lookup.METADATA:
            self._know(answer, now_ms)
        else:
            self._lookups[order] = IDLE
            self.member.found_coordinator(now_ms)

    def _check(self, request: Any, answer: Any) -> None:
        """Raises `RemoteProtocolError` for an answer to something else, or with a field of another kind."""
        what = type(answer).__name__
        if not isinstance(answer, TransportFailure | API_OF[type(request)].response):
            raise RemoteProtocolError(f"{what} does not answer {type(request).__name__}")
        code = getattr(answer, "error_code", ErrorCode.NONE)
        if not isinstance(code, ErrorCode):
            raise RemoteProtocolError(f"{what}.error_code is {code!r}; give an ErrorCode, as ErrorCode({code!r})")
        given = getattr(answer, "assignment", None) if isinstance(answer, ConsumerGroupHeartbeatResponse) else None
        if given is None:
            return
        if not (isinstance(given, tuple) and all(_is_topic(each) for each in given)):
            raise RemoteProtocolError(f"{what}.assignment is {given!r}; give topic ids, as ((topic_id, (0, 1)),)")
        ids = {name: topic_id for topic_id, name in self._names.items()}
        for topic_id, _ in given:
            if topic_id not in self._names and topic_id in ids:
                raise RemoteProtocolError(f"{what}.assignment names topic {topic_id!r}; give its id, {ids[topic_id]!r}")

    def _know(self, metadata: Any, now_ms: int) -> None:
        """The first answer, and any that a transport gives unasked."""
        if not isinstance(metadata, TopicNames | tuple):
            wanted = "TopicNames, or for a classic member ((topic, partitions), ...)"
            raise RemoteProtocolError(f"update_metadata was answered with {type(metadata).__name__}; give {wanted}")
        if isinstance(metadata, TopicNames):
            self._names = metadata
        wait = self.member.config.retry_backoff_ms
        self._lookups[Lookup.METADATA] = RequestState().succeeded(now_ms, wait)
        self._metadata_wanted = False
        self.moves += self.member.learn(metadata, now_ms)

    def _lookup_failed(self, order: Lookup, failure: TransportFailure, now_ms: int) -> None:
        """Tried again after a backoff; what cannot be retried, the application sees."""
        state = self._lookups[order]
        self._lookups[order] = state.failed(now_ms, self.member.backoff_ms(state.attempts, self._jitter()))
        if failure.retriable:
            return
        self.moves += 1
        failed = self.member.lost_coordinator if order is Lookup.COORDINATOR else self.member.fail_metadata
        failed(KafkaError(failure.name), now_ms)

    # What the client wants to know

    def _wanted(self) -> tuple[Lookup, ...]:
        if self.member.closed:
            return ()
        wanted = ((Lookup.COORDINATOR, self.member.seeks_coordinator), (Lookup.METADATA, self._metadata_wanted))
        return tuple(lookup for lookup, is_wanted in wanted if is_wanted)

    def _look_up(self, now_ms: int) -> None:
        for lookup in self._wanted():
            if self._lookups[lookup].may_send(now_ms):
                self._lookups[lookup] = self._lookups[lookup].sent()
                self._ask(lookup, now_ms)

    def _next_turn_ms(self, now_ms: int, wait_ms: int) -> int:
        lookups = [self._lookups[w].ready_ms for w in self._wanted() if not self._lookups[w].in_flight]
        deadlines = [f.deadline_ms for f in self._flights.values()]
        return min(now_ms + wait_ms, NEVER, *lookups, *deadlines)


def _is_topic(given: Any) -> bool:
    """Whether it is a topic id with its partitions."""
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], tuple)
        and all(isinstance(number, int) for number in given[1])
    )
