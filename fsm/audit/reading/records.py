"""Packed records: chunks of one source, as they are sent from pieces of files to groups.

A source is (group, client id, file, program) as printed. A chunk holds some of its records by time, with the place,
number and text of their lines; a packed record takes some hundred bytes. The records of one group are kept packed, on
disk if there are many, and unpacked a few chunks at a time.
"""

from __future__ import annotations

import marshal
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import fields
from heapq import merge
from operator import attrgetter, itemgetter
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from fsm.audit.rows import Place, Seen
from fsm.trace import Kind, TraceRecord

Source = tuple[str, str, str, str]
"""(group, client id, file, program) of a record; the group may be empty. The program is the process that printed it, as
a collector names it, and mostly empty."""

Row = tuple[Any, ...]
"""A record in a chunk: its position (`TIME`, `OFFSET`, `SEQ`), its line, and its fields."""
TIME, OFFSET, SEQ, NUMBER, TEXT, KIND = range(6)
"""Indexes in a row: epoch ms; byte offset of the entry; position in the entry; line number in the piece; text of the
line; kind. The other fields of the record follow."""
GROUP, CLIENT_ID, MEMBER_ID = KIND + 1, KIND + 2, KIND + 3
IN_ORDER = itemgetter(TIME, OFFSET, SEQ)
ROWS = 500
"""Most rows of a chunk."""
HELD_BYTES = 64 << 20
"""Packed records are kept in memory up to this size, and on disk beyond it."""
_REST = attrgetter(*(f.name for f in fields(TraceRecord) if f.name not in ("ts_ms", "kind", "group", "settings")))
_KINDS = {kind.value: kind for kind in Kind}
_TIME_SEEN = attrgetter("record.ts_ms")


class Line(NamedTuple):
    number: int
    text: str


def to_row(record: TraceRecord, group: str, place: tuple[int, int], line: Line) -> Row:
    """A record as plain values. `group` may differ from the printed one; `place` is (offset, seq)."""
    return (record.ts_ms, *place, *line, record.kind.value, group, *_REST(record), dict(record.settings))


def to_seen(row: Row, file: str) -> Seen:
    return Seen(TraceRecord(row[TIME], _KINDS[row[KIND]], *row[GROUP:]), Place(file, row[OFFSET]))


class Chunk(NamedTuple):
    """Packed rows of one source, by time."""

    group: str
    """As printed, like the client id."""
    client_id: str
    file: str
    program: str
    piece: int
    """Start of the piece they were read from, in bytes."""
    lines_before: int
    """Lines of the file before that piece."""
    first_ms: int
    first_offset: int
    last_offset: int
    packed: bytes

    @property
    def source(self) -> Source:
        return self.group, self.client_id, self.file, self.program


def pack(source: Source, piece: int, rows: Iterable[Row]) -> Iterator[Chunk]:
    """Packs the rows of one source, given in file order, in chunks."""
    given = list(rows)
    for start in range(0, len(given), ROWS):
        own = given[start : start + ROWS]
        offsets = [row[OFFSET] for row in own]  # descending if the file has its newest entries first
        first_offset, last_offset = min(offsets), max(offsets)
        own.sort(key=IN_ORDER)
        packed = marshal.dumps(own)
        yield Chunk(*source, piece, 0, own[0][TIME], first_offset, last_offset, packed)


def unpack(packed: bytes) -> list[Row]:
    rows: list[Row] = marshal.loads(packed)  # noqa: S302  written by `pack` of this audit
    return rows


def spool() -> IO[bytes]:
    """A temporary file for packed records, in memory up to `HELD_BYTES`. The caller closes it."""
    return SpooledTemporaryFile(max_size=HELD_BYTES)


class GroupRecords:
    """The packed records of one group, in a file that several groups may share."""

    def __init__(self, spool: IO[bytes]) -> None:
        self.spool = spool
        self._members: dict[Source, list[_Held]] = {}
        self._coordinators: list[_Held] = []

    def add(self, chunk: Chunk, *, coordinator: bool) -> None:
        self.spool.seek(0, 2)
        held = _Held(chunk._replace(packed=b""), self.spool.tell(), len(chunk.packed))
        self.spool.write(chunk.packed)
        if coordinator:
            self._coordinators.append(held)
        else:
            self._members.setdefault(chunk.source, []).append(held)

    def _rows(self, held: _Held) -> list[Row]:
        self.spool.seek(held.start)
        return unpack(self.spool.read(held.length))

    def coordinators(self) -> Iterator[tuple[Seen, int]]:
        """The records of coordinators, each with its position in its entry; unordered."""
        for held in self._coordinators:
            for row in self._rows(held):
                yield to_seen(row, held.chunk.file), row[SEQ]

    def in_time(self, sources: Iterable[tuple[Source, int]]) -> Iterator[Seen]:
        """The records of the (source, rank of its file) by time, rank, and position in the file."""
        files: dict[int, list[_Held]] = {}
        for source, rank in sources:
            files.setdefault(rank, []).extend(self._members.get(source, ()))
        return merge(*(self._of_file(own) for _, own in sorted(files.items())), key=_TIME_SEEN)

    def _of_file(self, chunks: Iterable[_Held]) -> Iterator[Seen]:
        """The records of a file by time and position. A chunk is unpacked when its first time is reached."""
        waiting: list[Row] = []
        file = ""
        for held in sorted(chunks, key=lambda one: (one.chunk.first_ms, one.start)):
            file = held.chunk.file
            ready = bisect_left(waiting, (held.chunk.first_ms,))
            for row in waiting[:ready]:
                yield to_seen(row, file)
            waiting = waiting[ready:] + self._rows(held)
            waiting.sort()
        for row in waiting:
            yield to_seen(row, file)

    def lines(self, wanted: Iterable[Place]) -> dict[Place, Line]:
        """The lines at these places; places without a record are missing."""
        offsets: dict[str, list[int]] = {}
        for place in sorted(wanted):
            offsets.setdefault(place.file, []).append(place.offset)
        found: dict[Place, Line] = {}
        for held in self._hold():
            chunk = held.chunk
            own = offsets.get(chunk.file, [])
            here = set(own[bisect_left(own, chunk.first_offset) : bisect_right(own, chunk.last_offset)])
            for row in self._rows(held) if here else ():
                if row[OFFSET] in here:
                    found[Place(chunk.file, row[OFFSET])] = Line(chunk.lines_before + row[NUMBER], row[TEXT])
        return found

    def chunks(self) -> Iterator[tuple[Chunk, list[Row]]]:
        """Every chunk with its rows, by source."""
        for held in self._hold():
            yield held.chunk, self._rows(held)

    def _hold(self) -> Iterator[_Held]:
        for _, own in sorted(self._members.items()):
            yield from own
        yield from self._coordinators


class _Held(NamedTuple):
    """A chunk whose packed rows are in the spool file."""

    chunk: Chunk
    start: int
    length: int
