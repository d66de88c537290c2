"""A topic that carries logs, copied from its brokers into files that can be followed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fsm.cli.topic_files import Mark, TopicFiles
from fsm.errors import InputError
from fsm.join.compression import inflate
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from fsm.protocol.record_batches import (
    BEFORE_LENGTH,
    CONTROL,
    HEAD,
    MAGIC,
    BatchHead,
    LogRecord,
    read_records,
    split_batches,
)
from fsm.wire import Connection, PeerError
from fsm.wire.login import PLAINTEXT, Security

SCHEME = "kafka://"
CLIENT = "fsm-audit"
TIMEOUT_S = 10.0
EARLIEST = -2
MAX_BYTES, MAX_PARTITION_BYTES = 16 << 20, 4 << 20
ROUNDS = 200
"""Fetches after which others are looked at, though there is more."""
_CUT = "the segment ends inside a batch"
"""What `split_batches` says where it ends so."""


class Place(NamedTuple):
    """A topic and a broker that knows it."""

    host: str
    port: int
    topic: str

    @property
    def folder(self) -> str:
        """The name of the folder that is its own: another cluster may have a topic of that name."""
        return f"{self.host.replace(':', '_')}+{self.port}+{self.topic}"


class Fetched(NamedTuple):
    """What was fetched of one batch."""

    start: int
    """Its first offset."""
    end: int
    """The offset behind it, as far as it can be told."""
    records: Sequence[LogRecord] = ()
    problem: str = ""
    """Why its records cannot be read."""


def place_of(address: str) -> Place:
    """Of kafka://HOST:PORT/TOPIC. Raises `InputError` for what is none."""
    found = re.fullmatch(r"kafka://(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})/([\w.\-]{1,249})", address, re.ASCII)
    if found is None or not 0 < int(found[3]) < 1 << 16 or found[4] in {".", ".."}:
        raise InputError("is no topic", address, "give kafka://HOST:PORT/TOPIC")
    return Place(found[1] or found[2], int(found[3]), found[4])


class TopicCopy:
    """Copies one topic into a folder."""

    def __init__(self, place: Place, files: TopicFiles, security: Security = PLAINTEXT) -> None:
        """Raises `InputError` where the topic cannot be read from the start."""
        self.place, self.security = place, security
        self.files = files
        self._first: Connection | None = None
        self._leaders: dict[int, Connection] = {}
        self._last_problem = ""
        self._topic_id = ""
        try:
            self._find_leaders()
        except PeerError as problem:
            raise InputError(
                f"cannot be read: {problem}", self._name, "say --tls where it speaks TLS, --user where it wants a login"
            ) from None

    @property
    def _name(self) -> str:
        return f"{SCHEME}{self.place.host}:{self.place.port}/{self.place.topic}"

    def close(self) -> None:
        for connection in (self._first, *self._leaders.values()):
            if connection is not None:
                connection.close()
        self._first, self._leaders = None, {}

    def copy(self, read: Mapping[str, int] | None = None) -> None:
        """Copies what there is to copy, and removes the files that are closed and were read.

        `read` says how far files were read, by their paths. What is amiss is said once, on one line, and tried again
        the next time.
        """
        self.files.remove(read or {})
        try:
            for _ in range(ROUNDS):
                if not self._copy_some():
                    break
        except (PeerError, InputError) as problem:
            self.close()
            self._say(f"{problem}; what was read of it stands")
        else:
            self._last_problem = ""

    def _say(self, text: str) -> None:
        if text != self._last_problem:
            self._last_problem = text
            self._print(text)

    def _print(self, text: str) -> None:
        print(f"fsm: {self._name}: {text}", file=sys.stderr)  # noqa: T201

    def _copy_some(self) -> bool:
        """One fetch of each leader; whether anything came."""
        came = False
        for leader, (topic_id, partitions) in sorted(self._find_leaders().items()):
            marks = {number: self._mark(leader, number) for number in partitions}
            wanted = tuple(
                FetchPartition(number, fetch_offset=mark.next, partition_max_bytes=MAX_PARTITION_BYTES)
                for number, mark in marks.items()
            )
            asked = FetchTopic(self.place.topic, topic_id, wanted)
            response = self._leaders[leader].call(FetchRequest(max_bytes=MAX_BYTES, min_bytes=1, topics=(asked,)))
            _check(response.error_code)
            for topic in response.responses:
                for one in topic.partitions:
                    number = one.partition_index
                    if one.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                        self._begin_anew(leader, number, marks[number])
                        came = True
                        continue
                    _check(one.error_code)
                    came |= self._take(number, marks[number], one.records or b"", one.high_watermark)
        return came

    # -- who has it -----------------------------------------------------------------------------------------

    def _find_leaders(self) -> Mapping[int, tuple[Any, Sequence[int]]]:
        """The topic's id and partitions by their leaders, to which there are connections then."""
        if self._first is None or self._first.is_closed:
            self._first = Connection(self.place.host, self.place.port, CLIENT, TIMEOUT_S, self.security)
        asked = MetadataRequest((MetadataRequestTopic(name=self.place.topic),), allow_auto_topic_creation=False)
        metadata = self._first.call(asked)
        (topic,) = metadata.topics
        _check(topic.error_code)
        self._topic_id = str(topic.topic_id)
        addresses = {one.node_id: (one.host, one.port) for one in metadata.brokers}
        found: dict[int, tuple[Any, list[int]]] = {}
        for one in topic.partitions:
            if one.leader_id in addresses:
                found.setdefault(one.leader_id, (topic.topic_id, []))[1].append(one.partition_index)
        for leader in found:
            if leader not in self._leaders or self._leaders[leader].is_closed:
                self._leaders[leader] = Connection(*addresses[leader], CLIENT, TIMEOUT_S, self.security)
        return found

    def _mark(self, leader: int, number: int) -> Mark:
        """From where a partition is copied."""
        known = self.files.mark(number)
        if known is None or known.topic_id != self._topic_id:
            return self._begin_anew(leader, number, known)
        return known

    def _begin_anew(self, leader: int, number: int, known: Mark | None) -> Mark:
        """The partition is copied from its beginning on: it is new, or was deleted and made again, or was cut."""
        asked = ListOffsetsTopic(self.place.topic, (ListOffsetsPartition(number, timestamp=EARLIEST),))
        (topic,) = self._leaders[leader].call(ListOffsetsRequest(topics=(asked,))).topics
        (one,) = topic.partitions
        _check(one.error_code)
        begun = Mark(self._topic_id, int(one.offset), {})
        if known is not None:
            begun = begun._replace(sizes=known.sizes, names=known.names, numbered=known.numbered)
        if known is not None:
            self._print(f"partition {number}: {_why_anew(known, begun)}")
        self.files.keep(number, begun)
        return begun

    # -- what is copied -------------------------------------------------------------------------------------

    def _take(self, number: int, mark: Mark, fetched: bytes, high_watermark: int) -> bool:
        """Writes the records of a partition from a mark on; whether there were any batches. One that cannot be read is
        said and left out."""
        records: list[LogRecord] = []
        offset = mark.next
        parts = []
        for batch in whole_batches(fetched):
            end = max(offset, batch.end)
            if batch.problem:
                end = max(offset + 1, min(batch.end, high_watermark))
                parts.append(f"partition {number}: offsets {batch.start} to {end - 1} are left out: {batch.problem}")
            records += (one for one in batch.records if one.offset >= mark.next and one.value)
            offset = end
        if offset > mark.next:
            self.files.add(number, mark, records, offset)
        for text in parts:
            self._print(text)
        return offset > mark.next


def _why_anew(before: Mark, begun: Mark) -> str:
    """Why a partition is copied from its beginning on, and what is not copied of it."""
    if before.topic_id != begun.topic_id:
        return (
            f"the topic was made again; what was read of the former one stands, it is read on from offset {begun.next}"
        )
    if before.next < begun.next:
        return f"offsets {before.next} to {begun.next - 1} are left out: they were deleted before they were read"
    return f"it ends before offset {before.next}: it was cut, and is read again from offset {begun.next}"


def whole_batches(fetched: bytes) -> Iterator[Fetched]:
    """The whole batches; those of control have no records."""
    at = 0
    while len(fetched) - at >= HEAD.size:
        head = BatchHead._make(HEAD.unpack_from(fetched, at))
        if head.length < HEAD.size - BEFORE_LENGTH:
            return
        data = fetched[at : at + BEFORE_LENGTH + head.length]
        start, end = head.base_offset, head.base_offset + 1
        if head.magic == MAGIC and head.last_offset_delta > 0:
            end += head.last_offset_delta
        try:
            for _, batch in split_batches(data):
                records = () if head.attributes & CONTROL else tuple(read_records(batch, inflate))
                yield Fetched(start, end, records)
        except InputError as problem:
            if problem.what == _CUT:  # the rest is fetched again
                return
            yield Fetched(start, end, problem=problem.what)
        at += len(data)


def _check(code: ErrorCode) -> None:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise PeerError("there is no such topic")
    if code:
        raise PeerError(f"the broker says {ErrorCode(code).name}")
