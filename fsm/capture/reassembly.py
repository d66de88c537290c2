"""Exchanges from the TCP segments of a capture: finds Kafka connections, their exchanges, and lost bytes.

A connection is Kafka's if one of its ports is a broker's, or if it begins with a request of Kafka's. After lost bytes,
frames are found again at the next segment that begins with one; requests whose answers are lost have none, and a note
reports it. All memory is bounded: the connection that was idle for longest is dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from fsm.capture.conversation import LEAST_ANSWER, LEAST_REQUEST, Conversation
from fsm.capture.frames import HELD, LENGTH, Frame, Frames
from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.codec import API_BY_KEY, RequestHeader
from fsm.protocol.encoding import decode_as
from fsm.wire.dialogue import show_address
from fsm.wire.exchange import Exchange, Note

MOST_HELD, MOST_SEGMENTS = 1 << 20, 256
"""The maximum bytes and segments that wait for earlier ones, which then count as lost."""
WINDOW = 1 << 26
"""Bytes that a segment may be ahead or behind; beyond that, the stream restarts at the segment."""
_ALL = 0xFFFFFFFF
Endpoint = tuple[str, int]


class Segment(NamedTuple):
    """A TCP segment."""

    at_ms: float
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int | None = None
    data: bytes = b""
    missing: int = 0
    """Bytes at its end that were not captured."""
    opens: bool = False
    """SYN."""
    closes: bool = False
    """FIN."""
    resets: bool = False
    """RST."""

    @property
    def size(self) -> int:
        """Bytes that it carried."""
        return len(self.data) + self.missing


class Piece(NamedTuple):
    """The next piece of a stream: bytes, or the number of lost bytes, which is None if unknown."""

    at_ms: float
    data: bytes = b""
    lost: int | None = 0


class Direction:
    """The byte stream of one side, in order (RFC 9293).

    Segments may be late, repeated, overlapping, truncated or missing. Bytes that the receiver has acknowledged but that
    were not captured are lost: their number is reported, and the stream continues after them.
    """

    def __init__(self) -> None:
        self.held_bytes = 0
        self.began: int | None = None
        """The first sequence number, if the opening was captured."""
        self._next: int | None = None
        self._held: dict[int, Segment] = {}

    def take(self, segment: Segment) -> Iterator[Piece]:
        """Takes a segment; returns the pieces that are complete."""
        if segment.opens and self._next is None:
            self.began = segment.seq
            self._next = segment.seq + 1 & _ALL
        if not segment.size or segment.opens:
            return
        if self._next is None:
            self._next = segment.seq
        ahead = _distance(segment.seq, self._next)
        if abs(ahead) > WINDOW:
            yield from self.flush()
            yield Piece(segment.at_ms, lost=None)
            self._next = segment.seq
        elif ahead > 0:
            self._hold(segment)
            if self.held_bytes > MOST_HELD or len(self._held) > MOST_SEGMENTS:
                yield from self._jump()
            return
        yield from self._deliver(segment)
        yield from self._drain()

    def acknowledge(self, ack: int) -> Iterator[Piece]:
        """Notes an acknowledgement: bytes before it that were not captured are lost."""
        while self._held and self._next is not None and _distance(ack, self._next) > 0:
            yield from self._jump()

    def flush(self) -> Iterator[Piece]:
        """Releases the held bytes, and the losses before them."""
        while self._held:
            yield from self._jump()

    def _hold(self, segment: Segment) -> None:
        known = self._held.get(segment.seq)
        if known is None or known.size < segment.size:
            self._held[segment.seq] = segment
            self.held_bytes += len(segment.data) - (len(known.data) if known else 0)

    def _deliver(self, segment: Segment) -> Iterator[Piece]:
        """Delivers the new part of a segment that does not begin after the next byte."""
        assert self._next is not None  # noqa: S101  # for mypy: callers have received a segment
        known = -_distance(segment.seq, self._next)
        if known >= segment.size:
            return
        if data := segment.data[known:]:
            yield Piece(segment.at_ms, data)
        if segment.missing:
            yield Piece(segment.at_ms, lost=min(segment.missing, segment.size - known))
        self._next = segment.seq + segment.size & _ALL

    def _first(self) -> Segment:
        start = self._next or 0
        return min(self._held.values(), key=lambda one: _distance(one.seq, start))

    def _drain(self) -> Iterator[Piece]:
        """Releases held segments that are next now."""
        while self._held and self._next is not None and _distance((first := self._first()).seq, self._next) <= 0:
            del self._held[first.seq]
            self.held_bytes -= len(first.data)
            yield from self._deliver(first)

    def _jump(self) -> Iterator[Piece]:
        """Skips lost bytes."""
        first = self._first()
        yield Piece(first.at_ms, lost=_distance(first.seq, self._next or 0))
        self._next = first.seq
        yield from self._drain()


def _distance(one: int, other: int) -> int:
    """How far one sequence number is ahead of another; both wrap around."""
    return (one - other + (1 << 31) & _ALL) - (1 << 31)


MOST_CONNECTIONS, MOST_BYTES = 10_000, 256 << 20
"""The maximal numbers of connections and of held bytes."""
MOST_UNRECOGNISED = 8
"""After how many segments with data a connection that is not Kafka's is ignored."""
MOST_BREAKS = 100
"""How often frames are resynchronised on one connection at most."""
LARGEST, NEWER = 1 << 30, 8
"""The bounds for recognising a request: bytes, and versions above the known ones."""


@dataclass
class _Side:
    """One side of a connection."""

    least: int
    held: int
    direction: Direction = field(default_factory=Direction)
    closed: bool = False

    def __post_init__(self) -> None:
        self.lose()

    def lose(self) -> None:
        """Forgets the position of frames, at the beginning and after lost bytes."""
        self.is_read = False
        """Whether the beginning of frames is known."""
        self.frames = Frames(self.least, self.held)

    @property
    def holds(self) -> int:
        """The number of held bytes."""
        return self.direction.held_bytes + self.frames.held_bytes


@dataclass
class _Connection:
    """One connection, with a known client or not yet recognised as Kafka's."""

    conversation: Conversation
    client: Endpoint | None
    requests: _Side
    answers: _Side
    unrecognised: int = 0
    lost: int = 0
    unmatched: int = 0
    breaks: int = 0

    @property
    def holds(self) -> int:
        """The number of held bytes."""
        return self.requests.holds + self.answers.holds

    def begins_frame(self, side: _Side, data: bytes) -> bool:
        if side is self.requests:
            return _begins_request(data)
        return len(data) >= 2 * LENGTH and self.conversation.awaits(
            int.from_bytes(data[LENGTH : 2 * LENGTH], "big", signed=True)
        )


class Reassembly:
    """Reassembles exchanges from segments, which come one after the other."""

    def __init__(self, ports: Collection[int], held: int = HELD) -> None:
        """`ports` are those of brokers; `held` bytes of a frame are held at most, to be read."""
        self._ports, self._held = frozenset(ports), held
        self._open: OrderedDict[tuple[Endpoint, Endpoint], _Connection] = OrderedDict()
        self._numbers = count(1)
        self._bytes = 0

    def take(self, segment: Segment) -> Iterator[Exchange | Note]:
        """Takes a segment; returns the exchanges that ended with it."""
        key = min(segment.source, segment.target), max(segment.source, segment.target)
        connection = self._open.get(key)
        if connection and _is_another(connection, segment):
            yield from self._end(key, segment.at_ms)
            connection = None
        if connection is None:
            if not segment.size and not segment.opens:
                return
            connection = self._open[key] = self._new()
        self._open.move_to_end(key)
        before = connection.holds
        yield from self._follow(connection, segment)
        self._bytes += connection.holds - before
        if segment.resets or (connection.requests.closed and connection.answers.closed):
            yield from self._end(key, segment.at_ms)
            self._open[key] = self._make_tombstone(connection)
        while self._open and (len(self._open) > MOST_CONNECTIONS or self._bytes > MOST_BYTES):
            oldest = next(iter(self._open))
            if self._open[oldest].client:
                yield Note(segment.at_ms, "given_up", {"connection": self._open[oldest].conversation.connection})
            yield from self._end(oldest, segment.at_ms)

    def end(self, at_ms: float) -> Iterator[Exchange | Note]:
        """Ends the capture; returns the remaining exchanges."""
        for key in list(self._open):
            yield from self._end(key, at_ms)

    def _new(self) -> _Connection:
        requests, answers = _Side(LEAST_REQUEST, self._held), _Side(LEAST_ANSWER, self._held)
        return _Connection(Conversation(0), None, requests, answers)

    def _make_tombstone(self, connection: _Connection) -> _Connection:
        """A placeholder for a closed connection: repeated segments do not open a new one."""
        tombstone = self._new()
        tombstone.unrecognised = MOST_UNRECOGNISED
        tombstone.requests.direction.began = connection.requests.direction.began
        return tombstone

    def _follow(self, connection: _Connection, segment: Segment) -> Iterator[Exchange | Note]:
        if connection.client is None:
            yield from self._recognise(connection, segment)
        if connection.client is None:
            return
        asks = segment.source == connection.client
        mine, other = connection.requests, connection.answers
        if not asks:
            mine, other = other, mine
        if segment.opens:
            mine.is_read = True
        if segment.ack is not None:
            yield from _read(connection, other, other.direction.acknowledge(segment.ack))
        yield from _read(connection, mine, mine.direction.take(segment))
        if segment.closes or segment.resets:
            yield from _read(connection, mine, mine.direction.flush())
            mine.closed = True

    def _recognise(self, connection: _Connection, segment: Segment) -> Iterator[Note]:
        """Recognises a Kafka connection and its client."""
        if connection.unrecognised >= MOST_UNRECOGNISED:
            return
        if segment.target[1] in self._ports:
            connection.client, broker = segment.source, segment.target
        elif segment.source[1] in self._ports:
            connection.client, broker = segment.target, segment.source
        elif _begins_request(segment.data):
            connection.client, broker = segment.source, segment.target
        else:
            connection.unrecognised += bool(segment.data)
            return
        connection.conversation = Conversation(next(self._numbers))
        number, ends = connection.conversation.connection, (connection.client, broker)
        peer, to = (show_address(*end) for end in ends)
        yield Note(segment.at_ms, "connected", {"connection": number, "broker": 0, "peer": peer, "to": to})

    def _end(self, key: tuple[Endpoint, Endpoint], at_ms: float) -> Iterator[Exchange | Note]:
        connection = self._open.pop(key)
        self._bytes -= connection.holds
        if connection.client is None:
            return
        for side in (connection.requests, connection.answers):
            yield from _read(connection, side, side.direction.flush())
        connection.conversation.end()
        yield from connection.conversation.take_exchanges()
        about = {"connection": connection.conversation.connection}
        if connection.lost or connection.unmatched:
            why = f"{connection.lost} bytes were not captured or read, {connection.unmatched} answers have no request"
            yield Note(at_ms, "lost", {**about, "why": why})
        yield Note(at_ms, "disconnected", about)


def _is_another(connection: _Connection, segment: Segment) -> bool:
    """Whether this opens a later connection between the same ports."""
    return segment.opens and segment.ack is None and connection.requests.direction.began not in (None, segment.seq)


def _read(connection: _Connection, side: _Side, pieces: Iterable[Piece]) -> Iterator[Exchange | Note]:
    """Reads further bytes of one side."""
    for piece in pieces:
        try:
            for frame in _frames(connection, side, piece):
                _take_frame(connection, side, frame, piece.at_ms)
        except RemoteProtocolError:
            connection.breaks += 1
            side.lose()
        yield from connection.conversation.take_exchanges()


def _frames(connection: _Connection, side: _Side, piece: Piece) -> Iterator[Frame]:
    if piece.lost != 0:
        connection.lost += piece.lost or 0
        if piece.lost is None:
            raise RemoteProtocolError("an unknown number of bytes is missing")
        begun = side.frames.skip(piece.lost) if side.is_read else None
        if begun and len(begun.data) >= side.least:
            yield begun
        return
    if not side.is_read:
        if connection.breaks > MOST_BREAKS or not connection.begins_frame(side, piece.data):
            connection.lost += len(piece.data)
            return
        side.is_read = True
    for part in side.frames.feed(piece.data):
        if isinstance(part, Frame):
            yield part


def _take_frame(connection: _Connection, side: _Side, frame: Frame, at_ms: float) -> None:
    if side is connection.requests:
        connection.conversation.take_request(frame, at_ms)
        return
    try:
        connection.conversation.take_response(frame, at_ms)
    except RemoteProtocolError:
        connection.unmatched += 1


def _begins_request(data: bytes) -> bool:
    """Whether a Kafka request begins here, according to its header."""
    size = int.from_bytes(data[:LENGTH], "big", signed=True)
    if not LEAST_REQUEST <= size <= LARGEST:
        return False
    try:
        header, _ = decode_as(RequestHeader, data[LENGTH:], 0, flexible=False)
    except InputError:
        return False
    api = API_BY_KEY.get(header.api_key)
    name = header.client_id or ""
    return api is not None and 0 <= header.api_version <= api.newest + NEWER and name.isprintable()
