"""The brokers: frames of bytes in, effects out. No socket, no clock, no thread: the same frames give the same effects.

    brokers = Brokers(Served({"foo": 4}), now_ms=0, random=Random(1))
    brokers.connect(7, broker=1, peer="127.0.0.1", now_ms=0)
    brokers.receive(7, frame, now_ms=1)      # (Send(7, ...),)
    brokers.next_deadline_ms()               # the next timer
    brokers.advance(500)                     # the effects of due timers

Each connection has one request at a time, as in Kafka: later ones wait until the answer is sent. Several brokers share
topics and groups; each group has its coordinator on one of them.

Source: `SocketServer`, `KafkaApis` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, NamedTuple

from fsm.coordinator.coordinator import HANDLERS
from fsm.coordinator.model.step import Answer
from fsm.protocol import messages as m
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.codec import API_BY_KEY, RequestHeader, encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.cluster import Cluster, Served
from fsm.serve.effects import Effect, HangUp, ReadOn, Send
from fsm.serve.faults import Do, Rule, Seen, groups_of, members_of, partitions_of
from fsm.serve.refusals import refusal
from fsm.serve.requests import RequestContext, Requests, read_header
from fsm.serve.timers import Timers
from fsm.wire.exchange import Exchange, Note

MOST_WAITING = 1_000
"""The maximal number of frames that wait on one connection; a client that sends more is disconnected."""
CLEAN_UP_MS = 600_000
"""How often old offsets expire and groups without members and offsets end: `offsets.retention.check.interval.ms`."""
GROUP_REQUESTS = {*HANDLERS, m.ConsumerGroupDescribeRequest, m.DescribeGroupsRequest, m.ListGroupsRequest}
"""Responses of the coordinators."""


@dataclass(slots=True)
class _Connection:
    number: int
    broker: int
    peer: str
    frames: deque[tuple[bytes, float]] = field(default_factory=deque)
    is_busy: bool = False
    """Whether a request is unanswered, perhaps for ever."""
    is_held: bool = False
    """Whether a frame had to wait, so that reading from the socket has stopped."""
    tokens: list[int] = field(default_factory=list)
    """The number of its delayed group requests."""
    until_ms: float = 0.0
    """The time until which no request is handled, because the client was throttled."""


@dataclass(slots=True)
class _Open:
    """A request in progress."""

    connection: _Connection
    header: RequestHeader
    api: m.Api
    request: Any
    at_ms: float
    rule: Rule | None = None
    is_repeat: bool = False
    """Whether it is the second handling of a duplicate."""


class _Waiting(NamedTuple):
    """A Fetch request that waits for records."""

    asked: _Open
    until_ms: float
    timer: int
    partitions: frozenset[TopicPartition]


class Brokers:
    """Brokers with topics and groups, driven by their caller."""

    def __init__(
        self,
        served: Served,
        now_ms: float,
        random: Random,
        *,
        rules: list[Rule] | None = None,
        on_event: Callable[[Exchange | Note], None] | None = None,
        kept: Mapping[str, bytes] | None = None,
    ) -> None:
        """Raises `InputError` for settings with which no broker would start.

        `on_event` is called with each ended exchange and with notes of other events. `kept` has the logs of an earlier
        run, by name, and enables the effects that store logs.
        """
        self.rules = rules if rules is not None else []
        """The rules of faults; the first that matches a request applies. They may be changed at any time."""
        self.on_event = on_event
        self._since_ms = now_ms
        self._effects: list[Effect] = []
        self.cluster = Cluster(served, now_ms, self._effects.append if kept is not None else lambda _: None, kept or {})
        self._requests = Requests(self.cluster.versions)
        self._random = random
        self._connections: dict[int, _Connection] = {}
        self._asked: dict[int, _Open] = {}
        """Group requests that wait for their answer, by token."""
        self._tokens = count(1)
        self._timers = Timers()
        self._ready: deque[_Connection] = deque()
        """Connections with waiting requests whose last one was answered."""
        self._fetches: dict[int, _Waiting] = {}
        """Fetch requests that wait for records, by connection."""
        self._paused_until_ms = 0.0
        self._timers.set(now_ms + CLEAN_UP_MS, self._clean_up)

    # Connections

    def connect(self, number: int, broker: int, peer: str, now_ms: float) -> None:
        """Takes a new connection of a client."""
        self._connections[number] = _Connection(number, broker, peer)
        self._note("connected", now_ms, connection=number, broker=broker, peer=peer)

    def disconnect(self, number: int, now_ms: float) -> tuple[Effect, ...]:
        """Ends a connection. Delayed requests stay with their group, as with Kafka."""
        self._forget(number, now_ms)
        return self._take(now_ms)

    def _forget(self, number: int, now_ms: float) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            for token in connection.tokens:
                asked = self._asked.pop(token)
                if not asked.is_repeat:
                    self._record(asked, None, None)
            self._end_wait(number)
            self._note("disconnected", now_ms, connection=number)

    def receive(self, number: int, frame: bytes, now_ms: float) -> tuple[Effect, ...]:
        """Takes a frame, without its length prefix."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.frames.append((frame, now_ms))
            if len(connection.frames) > MOST_WAITING:
                self._hang_up(connection, now_ms)
            else:
                self._handle_waiting(connection, now_ms)
                connection.is_held = bool(connection.frames)
        return self._take(now_ms)

    def count_waiting(self, number: int) -> int:
        """The number of frames of this connection that wait. If there are any, do not read until `ReadOn`."""
        connection = self._connections.get(number)
        return len(connection.frames) if connection else 0

    # Time

    def next_deadline_ms(self) -> float | None:
        """The time of the next timer; None if there is none."""
        deadlines_ms = self.cluster.coordinators.next_deadline_ms(), self._timers.next_deadline_ms()
        due_ms = min((at_ms for at_ms in deadlines_ms if at_ms is not None), default=None)
        return None if due_ms is None else max(due_ms, self._paused_until_ms)

    def advance(self, now_ms: float) -> tuple[Effect, ...]:
        """Runs everything that is due; timers that become due by that wait for the next call."""
        if now_ms >= self._paused_until_ms:
            self._timers.advance(now_ms)
            self._give(*self.cluster.coordinators.advance(now_ms), now_ms)
        return self._take(now_ms)

    # Actions of a test, a page or an operator

    def expire(self, group_id: str, member_id: str, now_ms: float) -> tuple[Effect, ...]:
        """Ends the member's session."""
        self._give(*self.cluster.coordinators.expire(group_id, member_id, now_ms), now_ms)
        return self._take(now_ms)

    def move(self, group_id: str, broker: int | None, now_ms: float) -> tuple[Effect, ...]:
        """Moves the group's partition to this broker, or to the next one.

        Waiting clients get NOT_COORDINATOR. Raises `InputError` for an unknown broker.
        """
        self._move(group_id, broker, now_ms)
        return self._take(now_ms)

    def pause(self, for_ms: float, now_ms: float) -> None:
        """Pauses every broker for so long."""
        self._paused_until_ms = max(self._paused_until_ms, now_ms + for_ms)
        self._timers.set(self._paused_until_ms, self._resume)

    def change_topic(self, name: str, partitions: int, now_ms: float) -> tuple[Effect, ...]:
        """Creates or extends a topic, or deletes it for no partitions. Raises `InputError` for an impossible change."""
        self.cluster.change_topic(name, partitions, now_ms, self._random)
        self._note("topics", now_ms, topics=self.cluster.topics.describe())
        return self._take(now_ms)

    def start(self, now_ms: float) -> tuple[Effect, ...]:
        """Notes the topics for the trace; returns the effects that store them."""
        self._note("topics", now_ms, topics=self.cluster.topics.describe())
        return self._take(now_ms)

    def _clean_up(self, now_ms: float) -> None:
        self.cluster.coordinators.clean_up(now_ms)
        self._timers.set(now_ms + CLEAN_UP_MS, self._clean_up)

    # A request

    def _handle_waiting(self, connection: _Connection, now_ms: float) -> None:
        """Handles the waiting requests of a connection, up to one that is not answered at once."""
        while connection.frames and not connection.is_busy and connection.number in self._connections:
            wait_until_ms = max(connection.until_ms, self._paused_until_ms)
            if wait_until_ms > now_ms:
                if wait_until_ms > self._paused_until_ms:
                    self._timers.set(wait_until_ms, lambda now: self._handle_waiting(connection, now))
                return
            frame, at_ms = connection.frames.popleft()
            connection.is_busy = True
            if connection.is_held and not connection.frames:
                connection.is_held = False
                self._effects.append(ReadOn(connection.number))
            read = self._requests.read(frame)
            if read is None:
                self._refuse_unreadable(connection, frame, at_ms, now_ms)
                continue
            header, request = read
            asked = _Open(connection, header, API_BY_KEY[header.api_key], request, at_ms)
            asked.rule = self._find_rule(asked, now_ms)
            if asked.rule is None:
                self._serve(asked, now_ms)
            else:
                self._disturb(asked, asked.rule, now_ms)

    def _refuse_unreadable(self, connection: _Connection, frame: bytes, at_ms: float, now_ms: float) -> None:
        """Answers a too new ApiVersions with version 0 (KIP-511); any other unreadable frame ends the connection."""
        header = read_header(frame)
        if header is not None:
            api = API_BY_KEY.get(header.api_key)
            name = api.name if api else str(header.api_key)
            answered = api is not None and api.request is m.ApiVersionsRequest
            if self.on_event is not None:
                exchange = Exchange(at_ms, connection.number, header.client_id, name, header.api_version)
                exchange = exchange._replace(broker=connection.broker, correlation_id=header.correlation_id)
                self.on_event(exchange._replace(answered_ms=now_ms) if answered else exchange)
            if answered:
                response = self.cluster.api_versions(0, ErrorCode.UNSUPPORTED_VERSION)
                self._send(connection, encode_response(response, 0, header.correlation_id))
                connection.is_busy = False
                return
        self._hang_up(connection, now_ms)

    def _serve(self, asked: _Open, now_ms: float) -> None:
        """Dispatches a request; its response may be sent later."""
        request, connection, header = asked.request, asked.connection, asked.header
        token = next(self._tokens)
        client_id, host = header.client_id or "", f"/{connection.peer}"
        numbers = token, connection.broker, connection.number
        context = RequestContext(*numbers, client_id, host, header.api_version, now_ms, self._random)
        if type(request) in GROUP_REQUESTS:
            answers = self.cluster.coordinators.send(request, context)
            if len(answers) == 1 and answers[0].token == token:
                self._answer(asked, answers[0].body, now_ms)
                return
            self._asked[token] = asked
            connection.tokens.append(token)
            self._give(answers, [], now_ms)
        elif isinstance(request, m.FetchRequest):
            self._fetch(asked, now_ms + request.max_wait_ms, now_ms)
        else:
            response = self.cluster.answer(request, context)
            if isinstance(request, m.ProduceRequest):
                self._wake_fetches(request, now_ms)
                if not request.acks:
                    response = None
            self._answer(asked, response, now_ms)
            for news in self.cluster.take_news():
                self._note("topics", now_ms, topics=news)

    def _give(self, answers: list[Answer], removed: list[tuple[str, str]], now_ms: float) -> None:
        """Sends the coordinators' answers, and notes removed members."""
        for group_id, member_id in removed:
            self._note("removed", now_ms, group=group_id, member=member_id)
        for token, body in answers:
            asked = self._asked.pop(token, None)
            if asked is not None:
                asked.connection.tokens.remove(token)
                self._answer(asked, body, now_ms)

    def _fetch(self, asked: _Open, until_ms: float, now_ms: float) -> None:
        """Answers if there are records or errors, or no reason to wait; otherwise waits."""
        number = asked.connection.number
        response, is_due, next_ms = self.cluster.topics.fetch(asked.request, asked.connection.broker, now_ms)
        if is_due or now_ms >= until_ms:
            self._end_wait(number)
            self._answer(asked, response, now_ms)
        elif number not in self._fetches and number in self._connections:
            due_ms = until_ms if next_ms is None else min(until_ms, next_ms)

            def again(now_ms: float) -> None:
                del self._fetches[number]
                self._fetch(asked, until_ms, now_ms)

            wanted = partitions_of(asked.request, self.cluster.topics.names)
            self._fetches[number] = _Waiting(asked, until_ms, self._timers.set(due_ms, again), wanted)

    def _end_wait(self, number: int) -> None:
        waiting = self._fetches.pop(number, None)
        if waiting is not None:
            self._timers.call_off(waiting.timer)

    def _wake_fetches(self, request: m.ProduceRequest, now_ms: float) -> None:
        """Retries the fetches that wait for records of these partitions."""
        produced = partitions_of(request, self.cluster.topics.names)
        for waiting in [*self._fetches.values()]:
            if not produced.isdisjoint(waiting.partitions):
                self._fetch(waiting.asked, waiting.until_ms, now_ms)

    def _answer(self, asked: _Open, response: Any, now_ms: float) -> None:
        """Sends an answer unless a fault prevents it. None: the request expects none."""
        rule = asked.rule
        if asked.is_repeat:
            return
        if response is m.DISCONNECTED:
            self._drop(asked, None, now_ms)
            return
        if rule is not None and response is not None:
            if rule.do is Do.LOSE:
                self._drop(asked, response, now_ms)
                return
            if rule.do is Do.MUTE:
                self._record(asked, response, None)
                return
            if rule.do is Do.REWRITE:
                response = replace(response, **rule.fields)
            if rule.do is Do.THROTTLE:
                response = replace(response, throttle_time_ms=rule.ms)
                asked.connection.until_ms = now_ms + rule.ms
            if rule.do is Do.DELAY_ANSWER:
                self._timers.set(now_ms + rule.ms, lambda now: self._deliver(asked, response, now))
                return
        self._deliver(asked, response, now_ms)

    def _deliver(self, asked: _Open, response: Any, now_ms: float) -> None:
        connection = asked.connection
        is_there = connection.number in self._connections
        self._record(asked, response, now_ms if is_there else None)
        if is_there:
            if response is not None:
                frame = encode_response(response, asked.header.api_version, asked.header.correlation_id)
                self._send(connection, frame)
            connection.is_busy = False
            if connection.frames:
                self._ready.append(connection)

    def _drop(self, asked: _Open, response: Any, now_ms: float) -> None:
        """Ends the connection of a request, whose answer, if there is one, is lost."""
        self._record(asked, response, None)
        self._hang_up(asked.connection, now_ms)

    def _record(self, asked: _Open, response: Any, answered_ms: float | None) -> None:
        if self.on_event is not None:
            header, rule = asked.header, asked.rule
            self.on_event(
                Exchange(
                    asked.at_ms,
                    asked.connection.number,
                    header.client_id,
                    asked.api.name,
                    header.api_version,
                    asked.request,
                    answered_ms,
                    response,
                    asked.connection.broker,
                    header.correlation_id,
                    "" if rule is None else rule.name or rule.do.value,
                )
            )

    # Faults

    def _find_rule(self, asked: _Open, now_ms: float) -> Rule | None:
        if not self.rules:
            return None
        header, names = asked.header, self.cluster.topics.names
        since_ms = now_ms - self._since_ms
        seen = Seen(asked.api.name, header.api_version, header.client_id, asked.request, since_ms, names)
        return next((rule for rule in self.rules if rule.meets(seen)), None)

    def _disturb(self, asked: _Open, rule: Rule, now_ms: float) -> None:
        """Applies faults to a request before it is handled; `_answer` applies the others."""
        if rule.do is Do.REFUSE:
            if isinstance(asked.request, m.ProduceRequest) and not asked.request.acks:
                self._drop(asked, None, now_ms)  # it expects no answer, so a broker can only close the connection
                return
            self._answer(asked, self._refusal(asked, rule.code), now_ms)
        elif rule.do is Do.CLOSE:
            self._drop(asked, None, now_ms)
        elif rule.do is Do.SWALLOW:
            self._record(asked, None, None)
        elif rule.do is Do.DELAY:
            self._timers.set(now_ms + rule.ms, lambda now: self._serve(asked, now))
        elif rule.do is Do.PAUSE:
            self.pause(rule.ms, now_ms)
            self._timers.set(self._paused_until_ms, lambda now: self._serve(asked, now))
        else:
            if rule.do is Do.EXPIRE:
                for group_id, member_id in sorted(members_of(asked.request)):
                    self._give(*self.cluster.coordinators.expire(group_id, member_id, now_ms), now_ms)
            elif rule.do is Do.MOVE:
                for group_id in sorted(groups_of(asked.request)):
                    self._move(group_id, None, now_ms)
            self._serve(asked, now_ms)
            if rule.do is Do.DUPLICATE:
                self._serve(replace(asked, is_repeat=True), now_ms)

    def _move(self, group_id: str, broker: int | None, now_ms: float) -> None:
        partition, broker = self.cluster.move(group_id, broker, now_ms)
        self._note("moved", now_ms, group=group_id, partition=partition, broker=broker)
        of_partition = self.cluster.coordinators.partition_of
        for token, asked in [*self._asked.items()]:
            if of_partition(getattr(asked.request, "group_id", "")) == partition:
                del self._asked[token]
                asked.connection.tokens.remove(token)
                self._answer(asked, self._refusal(asked, ErrorCode.NOT_COORDINATOR), now_ms)

    def _refusal(self, asked: _Open, code: ErrorCode) -> Any:
        return refusal(asked.request, asked.header.api_version, code, self.cluster.coordinators.context)

    def _resume(self, now_ms: float) -> None:
        if now_ms >= self._paused_until_ms:
            for connection in [*self._connections.values()]:
                self._handle_waiting(connection, now_ms)

    # Effects and events

    def _send(self, connection: _Connection, frame: bytes) -> None:
        self._effects.append(Send(connection.number, len(frame).to_bytes(4, "big") + frame))

    def _hang_up(self, connection: _Connection, now_ms: float) -> None:
        self._effects.append(HangUp(connection.number))
        self._forget(connection.number, now_ms)

    def _take(self, now_ms: float) -> tuple[Effect, ...]:
        """Takes the effects, after continuing with connections whose request was answered."""
        while self._ready:
            self._handle_waiting(self._ready.popleft(), now_ms)
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    def _note(self, event: str, now_ms: float, **about: Any) -> None:
        if self.on_event is not None:
            self.on_event(Note(now_ms, event, about))
