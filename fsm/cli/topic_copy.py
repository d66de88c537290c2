"""Copies a topic of logs from its brokers into files that an audit can follow."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fsm.cli.arguments import SCHEME
from fsm.cli.brokers import REMEDY, Brokers
from fsm.errors import InputError
from fsm.join.compression import inflate
from fsm.logs.reading.opening import is_packed
from fsm.logs.reading.segments import begins_segment
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
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
from fsm.spark.files import write
from fsm.wire import PeerError
from fsm.wire.login import PLAINTEXT, Security

CLOSED_BYTES = 64 << 20
"""Size at which a file is closed."""
_KEY = re.compile(r"[^\w.\-]+", re.ASCII)


class Mark(NamedTuple):
    """The progress of a partition's copy."""

    topic_id: str
    """Another id means that the topic was recreated."""
    next: int
    """The next offset to copy."""
    sizes: Mapping[str, int]
    """Sizes of the open files, by name."""
    names: Mapping[str, str] = {}
    """The current file of a key, by the name of the key's first file, if it is another one."""
    closed: Sequence[str] = ()
    """Files that are complete and to be removed after they were read."""
    numbered: bool = False
    """Whether files were closed; new files are then named by offsets."""

    def close(self, names: Iterable[str]) -> Mark:
        """The mark with these files closed."""
        gone = sorted(names)
        if not gone:
            return self
        return self._replace(
            sizes={name: size for name, size in self.sizes.items() if name not in gone},
            names={first: name for first, name in self.names.items() if name not in gone},
            closed=[*self.closed, *gone],
            numbered=True,
        )


class TopicFiles:
    """The files of one topic in a folder, one per key and partition, and their marks in another.

    A partition's mark is written after its files. After a kill in between, the same records are copied to the same
    positions again. Files are append-only, so that they may be read while they are written.

    A file is closed when it is large or idle, and removed when all of it was read. Later records of its key go to
    another file, named by the offset of its first record.
    """

    def __init__(
        self, folder: Path, marks: Path, idle_s: float = 86_400.0, clock: Callable[[], float] = time.time
    ) -> None:
        """Files are closed after `idle_s` without records. Raises OSError if the folder cannot be created."""
        self.folder = folder
        self.marks = marks
        self.idle_s = idle_s
        self.clock = clock
        folder.mkdir(parents=True, exist_ok=True)

    def mark(self, partition: int) -> Mark | None:
        """The stored mark of a partition, or None."""
        try:
            return Mark(**json.loads(self._place(partition).read_bytes()))
        except FileNotFoundError:
            return None

    def keep(self, partition: int, mark: Mark) -> None:
        """Stores the mark of a partition."""
        write(self._place(partition), json.dumps(mark._asdict(), sort_keys=True).encode())

    def _place(self, partition: int) -> Path:
        return self.marks / f"{partition}.json"

    def add(self, partition: int, mark: Mark, records: Iterable[LogRecord], end: int) -> None:
        """Appends the records from a mark up to offset `end`, one or more lines each."""
        sizes, names = dict(mark.sizes), dict(mark.names)
        lines: dict[str, list[bytes]] = {}
        for one in records:
            value, first = one.value or b"", _name(partition, one.key)
            name = names.get(first, first)
            if name not in sizes and name not in lines and mark.numbered:
                name = names[first] = f"{first.removesuffix('.log')}.{one.offset:020}.log"
            lines.setdefault(name, []).append(value if value.endswith(b"\n") else value + b"\n")
        full = []
        for name, own in lines.items():
            if not sizes.get(name) and (is_packed(own[0]) or begins_segment(own[0])):
                own.insert(0, b"\n")  # otherwise the file would be detected as compressed or as a log segment
            data = b"".join(own)
            path = self.folder / name
            path.touch()
            with path.open("r+b") as out:
                out.seek(sizes.get(name, 0))
                out.write(data)
            sizes[name] = sizes.get(name, 0) + len(data)
            # A larger file was written before a kill; its records are being copied again.
            if sizes[name] >= CLOSED_BYTES and path.stat().st_size == sizes[name]:
                full.append(name)
        self.keep(partition, mark._replace(next=end, sizes=sizes, names=names).close(full))

    def remove(self, read: Mapping[str, int]) -> None:
        """Closes idle files, and removes closed files that were read; `read` maps paths to the bytes read."""
        before_s = self.clock() - self.idle_s
        for path in sorted(self.marks.glob("[!.]*.json")):
            known = Mark(**json.loads(path.read_bytes()))
            mark = known.close(name for name in known.sizes if self._is_idle(name, known.sizes[name], before_s))
            if mark != known:
                self.keep(int(path.stem), mark)
            if done := [name for name in mark.closed if self._is_read(name, read)]:
                for name in done:
                    (self.folder / name).unlink(missing_ok=True)
                self.keep(int(path.stem), mark._replace(closed=[name for name in mark.closed if name not in done]))

    def _is_idle(self, name: str, size: int, before_s: float) -> bool:
        status = (self.folder / name).stat()
        return status.st_mtime < before_s and status.st_size == size

    def _is_read(self, name: str, read: Mapping[str, int]) -> bool:
        path = self.folder / name
        return not path.exists() or path.stat().st_size == read.get(str(path))


def _name(partition: int, key: bytes | None) -> str:
    """The name of a key's first file."""
    if not key:
        return f"{partition}.log"
    shown = _KEY.sub("_", key.decode("utf-8", "replace"))[:80]
    suffix = "" if shown.encode() == key else f"-{hashlib.sha256(key).hexdigest()[:8]}"
    return f"{partition}-{shown}{suffix}.log"


EARLIEST = -2
MAX_BYTES, MAX_PARTITION_BYTES = 16 << 20, 4 << 20
ROUNDS = 200
"""Maximum number of fetches of one topic in a row."""
_CUT = "the segment ends inside a batch"
"""Message of `split_batches` for a truncated segment."""


class Place(NamedTuple):
    """A topic and a broker of its cluster."""

    host: str
    port: int
    topic: str

    @property
    def folder(self) -> str:
        """The folder's name; it has host and port, because another cluster may have a topic of the same name."""
        return f"{self.host.replace(':', '_')}+{self.port}+{self.topic}"


class Fetched(NamedTuple):
    """One fetched batch."""

    start: int
    """Its first offset."""
    end: int
    """The offset behind it, or behind its first record if its last offset is unknown."""
    records: Sequence[LogRecord] = ()
    problem: str = ""
    """Why its records cannot be read."""


def place_of(address: str) -> Place:
    """The place of kafka://HOST:PORT/TOPIC. Raises `InputError` for any other text."""
    found = re.fullmatch(r"kafka://(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})/([\w.\-]{1,249})", address, re.ASCII)
    if found is None or not 0 < int(found[3]) < 1 << 16 or found[4] in {".", ".."}:
        raise InputError("is no topic", address, "give kafka://HOST:PORT/TOPIC")
    return Place(found[1] or found[2], int(found[3]), found[4])


class TopicCopy:
    """Copies one topic into a folder."""

    def __init__(self, place: Place, files: TopicFiles, security: Security = PLAINTEXT) -> None:
        """Raises `InputError` if the topic cannot be read."""
        self.place = place
        self.files = files
        self._brokers = Brokers(place.host, place.port, security)
        self._last_problem = ""
        try:
            self._find_leaders()
        except PeerError as problem:
            raise InputError(f"cannot be read: {problem}", self._name, REMEDY) from None

    @property
    def _name(self) -> str:
        return f"{SCHEME}{self.place.host}:{self.place.port}/{self.place.topic}"

    def close(self) -> None:
        self._brokers.close()

    def copy(self, read: Mapping[str, int] | None = None) -> None:
        """Copies new records, and removes files that are closed and were read.

        `read` maps paths of files to the number of bytes read. A problem is printed once, on one line; the next call
        tries again.
        """
        self.files.remove(read or {})
        try:
            for _ in range(ROUNDS):
                if not self._copy_some():
                    break
        except (PeerError, InputError) as problem:
            self.close()
            text = f"{problem}; what was read of it stands"
            if text != self._last_problem:
                self._print(text)
            self._last_problem = text
        else:
            self._last_problem = ""

    def _print(self, text: str) -> None:
        print(f"fsm: {self._name}: {text}", file=sys.stderr)  # noqa: T201

    def _copy_some(self) -> bool:
        """Fetches once from each leader; returns whether there were any records."""
        found_any = False
        for leader, partitions in sorted(self._find_leaders().items()):
            marks = {number: self._mark(leader, number) for number in partitions}
            wanted = tuple(
                m.FetchPartition(number, fetch_offset=mark.next, partition_max_bytes=MAX_PARTITION_BYTES)
                for number, mark in marks.items()
            )
            asked = m.FetchTopic(self.place.topic, self._topic_id, wanted)
            request = m.FetchRequest(max_bytes=MAX_BYTES, min_bytes=1, topics=(asked,))
            response = self._brokers.connect(leader).call(request)
            _check(response.error_code)
            for topic in response.responses:
                for one in topic.partitions:
                    number = one.partition_index
                    if one.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                        self._restart(leader, number, marks[number])
                        found_any = True
                        continue
                    _check(one.error_code)
                    found_any |= self._take(number, marks[number], one.records or b"", one.high_watermark)
        return found_any

    # -- leaders --------------------------------------------------------------------------------------------

    def _find_leaders(self) -> Mapping[int, Sequence[int]]:
        """Leader -> partitions. Opens connections to the leaders."""
        (topic,) = self._brokers.describe((m.MetadataRequestTopic(name=self.place.topic),)).topics
        _check(topic.error_code)
        self._topic_id = topic.topic_id
        found: dict[int, list[int]] = {}
        for one in topic.partitions:
            if one.leader_id in self._brokers.addresses:
                found.setdefault(one.leader_id, []).append(one.partition_index)
        for leader in found:
            self._brokers.connect(leader)
        return found

    def _mark(self, leader: int, number: int) -> Mark:
        """The mark from which a partition is copied."""
        known = self.files.mark(number)
        if known is None or known.topic_id != str(self._topic_id):
            return self._restart(leader, number, known)
        return known

    def _restart(self, leader: int, number: int, known: Mark | None) -> Mark:
        """Copies the partition from its earliest offset: it is new, or was recreated or truncated."""
        asked = m.ListOffsetsTopic(self.place.topic, (m.ListOffsetsPartition(number, timestamp=EARLIEST),))
        (topic,) = self._brokers.connect(leader).call(m.ListOffsetsRequest(topics=(asked,))).topics
        (one,) = topic.partitions
        _check(one.error_code)
        begun = Mark(str(self._topic_id), int(one.offset), {})
        if known is not None:
            begun = begun._replace(sizes=known.sizes, names=known.names, numbered=known.numbered)
            self._print(f"partition {number}: {_explain_restart(known, begun)}")
        self.files.keep(number, begun)
        return begun

    # -- records --------------------------------------------------------------------------------------------

    def _take(self, number: int, mark: Mark, fetched: bytes, high_watermark: int) -> bool:
        """Writes the records of a partition from a mark on; returns whether there were any batches.

        A batch that cannot be read is reported and left out.
        """
        records: list[LogRecord] = []
        offset = mark.next
        problems = []
        for batch in whole_batches(fetched):
            end = max(offset, batch.end)
            if batch.problem:
                end = max(offset + 1, min(batch.end, high_watermark))
                problems.append(f"partition {number}: offsets {batch.start} to {end - 1} are left out: {batch.problem}")
            records += (one for one in batch.records if one.offset >= mark.next and one.value)
            offset = end
        if offset > mark.next:
            self.files.add(number, mark, records, offset)
        for text in problems:
            self._print(text)
        return offset > mark.next


def _explain_restart(before: Mark, begun: Mark) -> str:
    """Why a partition is copied from its earliest offset, and which offsets are left out."""
    if before.topic_id != begun.topic_id:
        return (
            f"the topic was made again; what was read of the former one stands, it is read on from offset {begun.next}"
        )
    if before.next < begun.next:
        return f"offsets {before.next} to {begun.next - 1} are left out: they were deleted before they were read"
    return f"it ends before offset {before.next}: it was cut, and is read again from offset {begun.next}"


def whole_batches(fetched: bytes) -> Iterator[Fetched]:
    """The complete batches; control batches have no records."""
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
            if problem.what == _CUT:  # fetched again with the rest
                return
            yield Fetched(start, end, problem=problem.what)
        at += len(data)


def _check(code: ErrorCode) -> None:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise PeerError("there is no such topic")
    if code:
        raise PeerError(f"the broker says {ErrorCode(code).name}")
