"""A topic that carries logs, copied into files that can be followed: one for each key of each partition.

A partition's files and the offset from which it is copied next are told together by one small file, which is written
after them. Who is killed in between copies the same records to the same places again. What a file held once it holds
always, so that it may be read while it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
from fsm.protocol.record_batches import CONTROL, LogRecord, read_records, split_batches
from fsm.spark.live.files import write
from fsm.wire import Connection, PeerError

SCHEME = "kafka://"
CLIENT = "fsm-audit"
TIMEOUT_S = 10.0
EARLIEST = -2
MAX_BYTES, MAX_PARTITION_BYTES = 16 << 20, 4 << 20
ROUNDS = 200
"""Fetches after which others are looked at, though there is more."""
_KEY = re.compile(r"[^\w.\-]+", re.ASCII)


class Place(NamedTuple):
    """A topic and a broker that knows it."""

    host: str
    port: int
    topic: str


def place_of(address: str) -> Place:
    """Of kafka://HOST:PORT/TOPIC. Raises `InputError` for what is none."""
    found = re.fullmatch(r"kafka://(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})/([\w.\-]{1,249})", address, re.ASCII)
    if found is None or not 0 < int(found[3]) < 1 << 16:
        raise InputError("is no topic", address, "give kafka://HOST:PORT/TOPIC")
    return Place(found[1] or found[2], int(found[3]), found[4])


class TopicCopy:
    """Copies one topic into a folder."""

    def __init__(self, place: Place, folder: Path, marks: Path) -> None:
        """`marks` is the folder of what tells how far was copied. Raises `InputError` where the topic cannot be read
        from the start."""
        self.place = place
        self.folder = folder
        self.marks = marks
        folder.mkdir(parents=True, exist_ok=True)
        self._first: Connection | None = None
        self._leaders: dict[int, Connection] = {}
        self._said = ""
        try:
            self._find_leaders()
        except PeerError as problem:
            raise InputError(
                f"cannot be read: {problem}", self._name, "give a broker that listens without TLS"
            ) from None

    @property
    def _name(self) -> str:
        return f"{SCHEME}{self.place.host}:{self.place.port}/{self.place.topic}"

    def close(self) -> None:
        for connection in (self._first, *self._leaders.values()):
            if connection is not None:
                connection.close()
        self._first, self._leaders = None, {}

    def copy(self) -> None:
        """Copies what there is to copy. What is amiss is said once, on one line, and tried again the next time."""
        try:
            for _ in range(ROUNDS):
                if not self._copy_some():
                    break
        except (PeerError, InputError) as problem:
            self.close()
            self._say(f"{problem}; what was read of it stands")
        else:
            self._said = ""

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            print(f"fsm: {self._name}: {text}", file=sys.stderr)  # noqa: T201

    def _copy_some(self) -> bool:
        """One fetch of each leader; whether anything came."""
        came = False
        for leader, (topic_id, partitions) in sorted(self._find_leaders().items()):
            at = {number: self._next(leader, number) for number in partitions}
            wanted = tuple(
                FetchPartition(number, fetch_offset=offset, partition_max_bytes=MAX_PARTITION_BYTES)
                for number, offset in at.items()
            )
            asked = FetchTopic(self.place.topic, topic_id, wanted)
            told = self._leaders[leader].call(FetchRequest(max_bytes=MAX_BYTES, min_bytes=1, topics=(asked,)))
            _check(told.error_code)
            for topic in told.responses:
                for one in topic.partitions:
                    if one.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                        self._begin_anew(leader, one.partition_index)
                        came = True
                        continue
                    _check(one.error_code)
                    came |= self._take(one.partition_index, at[one.partition_index], one.records or b"")
        return came

    # -- who has it -----------------------------------------------------------------------------------------

    def _find_leaders(self) -> Mapping[int, tuple[Any, Sequence[int]]]:
        """The topic's id and partitions by their leaders, to which there are connections then."""
        if self._first is None or self._first.is_closed:
            self._first = Connection(self.place.host, self.place.port, CLIENT, TIMEOUT_S)
        asked = MetadataRequest((MetadataRequestTopic(name=self.place.topic),), allow_auto_topic_creation=False)
        told = self._first.call(asked)
        (topic,) = told.topics
        _check(topic.error_code)
        addresses = {one.node_id: (one.host, one.port) for one in told.brokers}
        found: dict[int, tuple[Any, list[int]]] = {}
        for one in topic.partitions:
            if one.leader_id in addresses:
                found.setdefault(one.leader_id, (topic.topic_id, []))[1].append(one.partition_index)
        for leader in found:
            if leader not in self._leaders or self._leaders[leader].is_closed:
                self._leaders[leader] = Connection(*addresses[leader], CLIENT, TIMEOUT_S)
        return found

    def _next(self, leader: int, number: int) -> int:
        known = self._known(number)
        return self._begin_anew(leader, number) if known is None else known[0]

    def _begin_anew(self, leader: int, number: int) -> int:
        """The partition is copied from its beginning on: it is new, or was deleted and made again, or was cut."""
        asked = ListOffsetsTopic(self.place.topic, (ListOffsetsPartition(number, timestamp=EARLIEST),))
        (topic,) = self._leaders[leader].call(ListOffsetsRequest(topics=(asked,))).topics
        (one,) = topic.partitions
        _check(one.error_code)
        known = self._known(number)
        self._keep(number, one.offset, known[1] if known else {})
        return int(one.offset)

    # -- what is copied -------------------------------------------------------------------------------------

    def _known(self, number: int) -> tuple[int, dict[str, int]] | None:
        """The offset from which a partition is copied next, and how large its files are."""
        try:
            told = json.loads((self.marks / f"{number}.json").read_bytes())
        except FileNotFoundError:
            return None
        return told["next"], told["sizes"]

    def _keep(self, number: int, offset: int, sizes: Mapping[str, int]) -> None:
        told = {"next": offset, "sizes": sizes}
        write(self.marks / f"{number}.json", json.dumps(told, sort_keys=True).encode())

    def _take(self, number: int, at: int, fetched: bytes) -> bool:
        """Writes the records of a partition from an offset on; whether there were any batches."""
        known = self._known(number)
        sizes = dict(known[1]) if known else {}
        lines: dict[str, list[bytes]] = {}
        offset = at
        for end, records in _batches(fetched):
            for one in records:
                if one.offset >= at and one.value:
                    line = one.value if one.value.endswith(b"\n") else one.value + b"\n"
                    lines.setdefault(_file(number, one.key), []).append(line)
            offset = max(offset, end)
        for name, own in lines.items():
            data = b"".join(own)
            path = self.folder / name
            path.touch()
            with path.open("r+b") as out:
                out.seek(sizes.get(name, 0))
                out.write(data)
            sizes[name] = sizes.get(name, 0) + len(data)
        if offset > at:
            self._keep(number, offset, sizes)
        return offset > at


def _batches(fetched: bytes) -> Iterator[tuple[int, Iterator[LogRecord]]]:
    """The whole batches: the offset behind each, and its records, which those of control batches are not."""
    try:
        for head, batch in split_batches(fetched):
            end = head.base_offset + head.last_offset_delta + 1
            yield end, iter(()) if head.attributes & CONTROL else read_records(batch, inflate)
    except InputError as problem:
        if problem.what != "the segment ends inside a batch":  # the rest is fetched again
            raise


def _file(number: int, key: bytes | None) -> str:
    """The name of the file that holds the records of a key."""
    if not key:
        return f"{number}.log"
    shown = _KEY.sub("_", key.decode("utf-8", "replace"))[:80]
    told = "" if shown.encode() == key else f"-{hashlib.sha256(key).hexdigest()[:8]}"
    return f"{number}-{shown}{told}.log"


def _check(code: ErrorCode) -> None:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise PeerError("there is no such topic")
    if code:
        raise PeerError(f"the broker says {ErrorCode(code).name}")
