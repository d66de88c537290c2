"""Converts a wire trace to moments of clients: each action, with the known state of the client before it.

A trace has exchanges in the order in which they ended; here request and response each have their own time. A client is
identified by its client id, and additionally by its member id if several clients share one at the same time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from fsm.kit.application import Application, partitions_of
from fsm.kit.classic_member import ClassicMember, identity
from fsm.kit.consumer_member import ConsumerMember
from fsm.kit.positions import Reads, read_commit, read_fetch
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.error_codes import ErrorCode
from fsm.wire.exchange import Exchange, Note

CONSUMER, CLASSIC = "consumer", "classic"
SESSION_MS = 45_000.0
"""The default of `group.consumer.session.timeout.ms`."""
LAG_MS = 300.0
"""How much later than its client's requests an application's notes may arrive."""
AT_ONCE_MS = 5.0
"""Requests on two connections within this time may have been sent in the other order."""
PATIENCE_MS = 800.0
"""A connection that ends within this time after a request was closed by the broker; later by a waiting client."""
SILENT_FAULTS = ("mute", "swallow")
GROUP_APIS = frozenset(
    ("ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")
)


class What(Enum):
    """The kinds of moments."""

    HEARTBEAT = "ConsumerGroupHeartbeat"
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    BEAT = "Heartbeat"
    LEAVE = "LeaveGroup"
    COMMIT = "OffsetCommit"
    OFFSETS = "OffsetFetch"
    FETCH = "Fetch"
    SEARCH = "FindCoordinator"
    APPLICATION = "application"
    """The application is notified of partitions or errors."""
    END = "end"
    """The end of the trace."""

    __hash__ = object.__hash__


class Doubt(Enum):
    """Why a client cannot know whether its last heartbeat was handled."""

    LOST = "the connection closed before its answer came"
    TIMED_OUT = "its answer did not come in time"

    __hash__ = object.__hash__


@dataclass(slots=True)
class Surroundings:
    """The known state besides clients."""

    names: dict[str, str] = field(default_factory=dict)
    """Topic names by id, also of topics that were deleted."""
    existing: set[str] = field(default_factory=set)
    """The names of the existing topics, according to brokers."""
    missing: set[str] = field(default_factory=set)
    """Topic ids that brokers did not know when asked."""
    closed: dict[int, float] = field(default_factory=dict)
    """When each connection ended."""
    session_ms: float = SESSION_MS

    def note(self, seen: Note) -> None:
        """Takes a note or exchange that belongs to no client."""
        match seen.event:
            case "disconnected":
                self.closed[int(seen.about["connection"])] = seen.at_ms
            case "topics":
                self.existing = {name for name, *_ in seen.about["topics"]}
                self.names.update({topic_id: name for name, topic_id, *_ in seen.about["topics"]})
            case "settings":
                self.session_ms = float(seen.about.get("session_timeout_ms", self.session_ms))

    def learn(self, response: Any) -> None:
        """Names and ids of topics in an answer to Metadata."""
        for topic in response.topics:
            if topic.error_code is ErrorCode.NONE and topic.name:
                self.names[topic.topic_id] = topic.name
                self.missing.discard(topic.topic_id)
            elif topic.error_code is ErrorCode.UNKNOWN_TOPIC_ID:
                self.missing.add(topic.topic_id)

    def is_unknown(self, topic_id: str) -> bool:
        """Whether brokers know no topic of this id, according to their responses."""
        return topic_id in self.missing or (bool(self.existing) and topic_id not in self.names)


@dataclass(slots=True)
class Client:
    """The known state of a client."""

    name: str
    around: Surroundings
    protocol: str = ""
    consumer: ConsumerMember = field(default_factory=ConsumerMember)
    classic: ClassicMember = field(default_factory=ClassicMember)
    reads: Reads = field(default_factory=Reads)
    application: Application = field(default_factory=Application)
    seen_ms: float = 0.0
    """Its last request."""
    connections: dict[int, float] = field(default_factory=dict)
    """Its connections, and since when it uses each."""

    def restart(self) -> None:
        """Begins another process of this name."""
        self.application, self.reads = Application(), Reads()
        self.consumer, self.classic = ConsumerMember(), ClassicMember()

    def is_restarted(self) -> bool:
        """Whether every connection is closed that it had at its last heartbeat: another process has its name."""
        sent = self.consumer.sent
        had = (number for number, since_ms in self.connections.items() if sent and since_ms <= sent.at_ms)
        return all(number in self.around.closed for number in had)


class Moment(NamedTuple):
    """An action of a client, or an event for it, with the state before it."""

    what: What
    at_ms: float
    client: Client
    """The state of the client before it."""
    exchange: Exchange | None = None
    about: Mapping[str, Any] = MappingProxyType({})
    """The fields of a note."""
    notes_after: tuple[Note, ...] = ()
    """The notes of the application within `LAG_MS` after a heartbeat, which may be about events before it."""
    searches_at_once: bool = False
    """Whether the client looks for the coordinator within `AT_ONCE_MS`, which may have happened before."""

    def list_noted(self, *events: str) -> frozenset[TopicPartition]:
        """The partitions of simultaneous notes of this kind, as far as known."""
        found = (partitions_of(note.about) for note in self.notes_after if note.about.get("ev") in events)
        return frozenset().union(*found)

    @property
    def request(self) -> Any:
        """The request of the exchange."""
        return self.exchange and self.exchange.request

    @property
    def consumer(self) -> ConsumerMember:
        """The member of a consumer group."""
        return self.client.consumer

    @property
    def classic(self) -> ClassicMember:
        """The member of a classic group."""
        return self.client.classic

    @property
    def application(self) -> Application:
        return self.client.application

    @property
    def reads(self) -> Reads:
        """The client's offsets."""
        return self.client.reads

    def name_topics(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Partitions by the name of their topic, where it is known."""
        names = self.client.around.names
        return frozenset((names.get(topic, topic), number) for topic, number in partitions)

    @property
    def fetched(self) -> dict[TopicPartition, int]:
        """The partitions of a Fetch, and from where each is read."""
        return read_fetch(self.request, self.client.around.names)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The partitions of an OffsetCommit, and their offsets."""
        return read_commit(self.request, self.client.around.names)

    @property
    def is_open(self) -> bool:
        """Whether the client's last heartbeat is still to be answered."""
        sent = self.consumer.sent
        return sent is not None and sent.answered_ms is not None and sent.answered_ms > self.at_ms

    @property
    def doubt(self) -> Doubt | None:
        """Why the client cannot know whether its last heartbeat was handled; None if it can."""
        sent = self.consumer.sent
        if sent is None or sent.is_answered:
            return None
        if sent.fault in SILENT_FAULTS:
            return Doubt.TIMED_OUT
        ended_ms = min(self.client.around.closed.get(sent.connection, self.at_ms), self.at_ms)
        return Doubt.LOST if ended_ms - sent.at_ms < PATIENCE_MS else Doubt.TIMED_OUT

    @property
    def silent_until_ms(self) -> float:
        """Until when the client was silent: it may have ended with its last request or note if the trace ends here."""
        app, client = self.application, self.client
        is_running = app.exited_ms is None and app.closed_ms is None and app.closing_ms is None
        if self.what is not What.END or (app.reports_callbacks and is_running):
            return self.at_ms
        return max(client.seen_ms, app.noted_ms)


def follow(seen: Iterable[Exchange | Note]) -> Iterator[Moment]:
    """The moments of all clients in order of time; what is known of a client changes after each."""
    trace = list(seen)
    name_of = names_of_clients(trace)
    clients = Clients()
    events = _in_order(trace)
    notes = [one for one in trace if isinstance(one, Note) and one.event == "application"]
    time_of = attrgetter("at_ms")
    notes.sort(key=time_of)
    searches: dict[str, list[float]] = defaultdict(list)
    for _, is_answer, one in events:
        if isinstance(one, Exchange) and not is_answer and one.api == What.SEARCH.value:
            searches[name_of(one)].append(one.at_ms)
    for _, is_answer, one in events:
        if isinstance(one, Note):
            yield from clients.note(one)
        elif is_answer:
            clients.take(one, name_of(one))
        else:
            begin = bisect_right(notes, one.at_ms, key=time_of)
            end = bisect_right(notes, one.at_ms + LAG_MS, lo=begin, key=time_of)
            name = name_of(one)
            first = bisect_left(searches[name], one.at_ms)
            at_once = first < bisect_right(searches[name], one.at_ms + AT_ONCE_MS)
            yield from clients.send(one, name, notes[begin:end], searches_at_once=at_once)
    if events:
        yield from clients.end(events[-1][0])


def _in_order(trace: list[Exchange | Note]) -> list[tuple[float, bool, Exchange | Note]]:
    """Requests, answers and notes by time; at the same time as in the trace, and a request before its answer."""
    events = []
    for number, one in enumerate(trace):
        events.append((one.at_ms, number, False, one))
        if isinstance(one, Exchange) and one.answered_ms is not None:
            events.append((one.answered_ms, number, True, one))
    events.sort(key=lambda event: event[:3])
    return [(at_ms, is_answer, one) for at_ms, _, is_answer, one in events]


def names_of_clients(trace: list[Exchange | Note]) -> Callable[[Exchange], str]:
    """A function that names the client of an exchange: by its client id, and its member if the id is shared."""
    lives: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for one in trace:
        if isinstance(one, Exchange) and (member := member_of(one)):
            life = lives[one.client_id or ""].setdefault(member, [one.at_ms, one.at_ms])
            life[0], life[1] = min(life[0], one.at_ms), max(life[1], one.at_ms)
    shared = {client for client, found in lives.items() if _overlap(found.values())}

    def name_of(exchange: Exchange) -> str:
        client = exchange.client_id or ""
        if client not in shared:
            return client
        member = member_of(exchange)
        return f"{client}/{member}" if member else ""

    return name_of


def _overlap(lives: Iterable[list[float]]) -> bool:
    return any(later[0] < earlier[1] for earlier, later in pairwise(sorted(lives)))


def member_of(exchange: Exchange) -> str:
    """The member that sent a request of a group, according to the request or the response; empty if neither has a
    member id."""
    if exchange.api not in GROUP_APIS or exchange.request is None:
        return ""
    request = exchange.request
    if exchange.api == "OffsetFetch":
        return next((str(group.member_id) for group in request.groups if group.member_id), "")
    return identity(request) or str(getattr(exchange.response, "member_id", "") or "")


# What happens


class Clients:
    """The states of all clients, updated in order of time."""

    def __init__(self) -> None:
        self.around = Surroundings()
        self.found: dict[str, Client] = {}
        """By name."""

    def note(self, seen: Note) -> Iterator[Moment]:
        """Takes a note."""
        name = seen.about.get("client")
        if seen.event not in ("application", "command", "started", "exited") or not isinstance(name, str):
            self.around.note(seen)
            return
        client = self._find(name)
        if seen.event == "application":
            yield Moment(What.APPLICATION, seen.at_ms, client, about=seen.about)
            client.application.apply_event(seen.at_ms, seen.about)
        elif seen.event == "started":
            client.restart()
        elif seen.event == "command":
            client.application.apply_command(seen.at_ms, str(seen.about.get("line", "")))
        else:
            client.application.exited_ms = seen.at_ms

    def send(
        self, exchange: Exchange, name: str, notes_after: Iterable[Note] = (), *, searches_at_once: bool = False
    ) -> Iterator[Moment]:
        """A request of a client; `notes_after` are the notes of applications soon after it. Requests without a client
        name are ignored.
        """
        what = _WHATS.get(exchange.api)
        if not name:
            return
        client = self._find(name)
        client.connections.setdefault(exchange.connection, exchange.at_ms)
        if what is None or exchange.request is None:
            return
        if what is What.HEARTBEAT:
            client.protocol = CONSUMER
        elif what in (What.JOIN, What.SYNC, What.BEAT, What.LEAVE):
            client.protocol = CLASSIC
        client.seen_ms = exchange.at_ms
        if exchange.at_ms > (client.application.exited_ms or exchange.at_ms):
            client.restart()
        notes = tuple(note for note in notes_after if note.about.get("client") == name)
        yield Moment(what, exchange.at_ms, client, exchange, notes_after=notes, searches_at_once=searches_at_once)
        if what in _SENDS:
            _SENDS[what](client, exchange)

    def take(self, exchange: Exchange, name: str) -> None:
        """Takes the response to a request."""
        if exchange.response is None:
            return
        if exchange.api == "Metadata":
            self.around.learn(exchange.response)
        what, client = _WHATS.get(exchange.api), self.found.get(name)
        if client is not None and what in _TAKES and exchange.request is not None:
            _TAKES[what](client, exchange)

    def end(self, at_ms: float) -> Iterator[Moment]:
        """The end of the trace."""
        for _, client in sorted(self.found.items()):
            yield Moment(What.END, at_ms, client)

    def _find(self, name: str) -> Client:
        return self.found.setdefault(name, Client(name, self.around))


def _beat(client: Client, exchange: Exchange) -> None:
    request = exchange.request
    client.application.note_sent(frozenset(request.subscribed_topic_names or ()), leaves=request.member_epoch < 0)
    client.consumer.send(exchange)


def _take_beat(client: Client, exchange: Exchange) -> None:
    member = client.consumer
    was_member = member.is_member
    member.take(exchange)
    if was_member and not member.is_member:
        client.application.lose()
        client.reads.position.clear()


def _search(client: Client, _exchange: Exchange) -> None:
    client.consumer.searched = client.classic.searched = True


def _commit(client: Client, exchange: Exchange) -> None:
    client.reads.commit(exchange, client.around.names)
    if not client.reads.refused_commit.code:
        client.classic.committed_ms = exchange.ended_ms


_WHATS = {what.value: what for what in What if what not in (What.APPLICATION, What.END)}
_SENDS: Mapping[What, Callable[[Client, Exchange], None]] = {
    What.HEARTBEAT: _beat,
    What.JOIN: lambda client, exchange: client.classic.send_join(exchange),
    What.SYNC: lambda client, exchange: client.classic.send(exchange),
    What.BEAT: lambda client, exchange: client.classic.send_beat(exchange),
    What.LEAVE: lambda client, exchange: client.classic.send_leave(exchange),
    What.FETCH: lambda client, exchange: client.reads.fetch(exchange, client.around.names),
    What.SEARCH: _search,
}
_TAKES: Mapping[What | None, Callable[[Client, Exchange], None]] = {
    What.HEARTBEAT: _take_beat,
    What.JOIN: lambda client, exchange: client.classic.take_join(exchange),
    What.SYNC: lambda client, exchange: client.classic.take_sync(exchange),
    What.BEAT: lambda client, exchange: client.classic.take_beat(exchange),
    What.COMMIT: _commit,
    What.SEARCH: _search,  # a client that was already searching when it was refused need not search again
    What.OFFSETS: lambda client, exchange: client.reads.learn(exchange, client.around.names),
}
