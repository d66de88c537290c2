"""Reads a piece of a file: the records of its groups, and a summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from functools import lru_cache
from os import SEEK_END
from pathlib import Path
from typing import Any

from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.hygiene.identity import Facts, facts_of
from fsm.audit.reading.known_layouts import open_known
from fsm.audit.reading.records import OFFSET, SEQ, TIME, Chunk, Line, Row, Source, pack, to_row
from fsm.audit.reading.scanning import Parsed, Scanner, parse_all
from fsm.logs import Format, clients
from fsm.logs.layouts.java_layouts import kafka
from fsm.logs.layouts.layout import ORDER, TIMES, signs_of
from fsm.logs.programs.broker import THREAD
from fsm.logs.reading.blocks import DIGITS, Words
from fsm.logs.reading.entries import ENTRY_LIMIT, Entry, first_line
from fsm.logs.reading.opening import PackedError, describe_problem
from fsm.logs.reading.pieces import READ_ERRORS, Piece, PieceReader, reader_of
from fsm.trace import Kind, TraceRecord

SHAPES_A_PIECE = 40
EXAMPLE = 160
"""Characters of the example line of a layout."""
_SEARCH_LENGTH = 1000
"""Bytes of a line that are searched for a client id and for ownership words."""
SHAPE_LENGTH = 100
"""Bytes of a line that make its shape."""
_VARIABLE = re.compile(rb"[0-9a-fA-F]{8,}|\d+")
_SECOND_MS = 1000
_FRACTION = re.compile(r"(?:\d:\d\d[.,]|\b\d\d?:\d\d:\d\d:|\d{10}[.,]?)0(?:00|0?\b)")
"""A time at the beginning of a second that is written with its fraction."""
NAMES_A_PIECE = 1000
"""Limit of client ids by which entries are counted."""
_CLIENT_ID = re.compile(rb"clientId=([^,\]\s]{1,300})|[\[|]([^\[\]|\s]{1,300}#consumer-\d{1,9})[\]|]")
"""The client id in lines of Java and librdkafka."""
OWNERSHIP = {
    "assigned": (rb"assigned|assignment|PARTADD", (Kind.ASSIGN_BEGIN, Kind.OWNED, Kind.ADDED)),
    "revoked": (rb"[Rr]evok(?:e|ed|ing)|PARTDEL", (Kind.REVOKE_BEGIN, Kind.OWNED, Kind.DROPPED)),
    "lost": (rb"[Ll]ost", (Kind.LOST_BEGIN, Kind.LOST_DECIDED, Kind.DROPPED)),
    "joined": (rb"(?:[Rr]e-)?[Jj]oin(?:ed|ing)|[Rr]ebalance complete", (Kind.JOINING, Kind.JOINED)),
    "left": (rb"[Ll]eav(?:e|es|ing)|left", (Kind.LEAVE_BEGIN, Kind.LEAVE_SENT, Kind.LEFT)),
}
"""Changes of ownership and membership: words in lines that report them, and the corresponding kinds of records."""
_OWNERSHIP = re.compile(
    rb"(?<![\w.=/-])(?:"
    + b"|".join(b"(?P<%s>%s)" % (name.encode(), words) for name, (words, _) in OWNERSHIP.items())
    + rb")(?![\w=/-])"
)
_STEP = re.compile(rb"transition|changed (?:join )?state")
_LEVEL = re.compile(rb"\b(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")


@dataclass(slots=True)
class PieceSummary:
    """Counts and layouts of one piece."""

    file: str
    piece: int
    """Start, in bytes."""
    gzipped: bool
    lines: int = 0
    entries: int = 0
    records: int = 0
    not_understood: int = 0
    orphans: int = 0
    suspects: int = 0
    """Orphans that contain words that only a client prints."""
    cut_lines: int = 0
    layouts: Mapping[str, int] = field(default_factory=Counter)
    """Entries in which a client was understood, by client and layout."""
    levels: Mapping[str, int] = field(default_factory=Counter)
    shapes: Mapping[str, int] = field(default_factory=Counter)
    """Lines that were not understood, by text with masked digits; `SHAPES_A_PIECE` texts, the others under ""."""
    bad_line: int = 0
    """Number of the first line that was not understood, from 1; 0 if there is none."""
    bad_text: str = ""
    first_ms: int | None = None
    """Of the records that have a time, as `last_ms`."""
    last_ms: int | None = None
    error: str = ""
    learned: tuple[str, ...] = ()
    """Learned layouts as patterns, with the share of lines that match and an example."""
    guessed: tuple[str, ...] = ()
    """Parts of timestamps that do not come from the lines: `zone`, `year`, `date`."""
    lost: tuple[str, ...] = ()
    """Fields that the layouts lack: `date`, `milliseconds`, `thread`, `time`, ..."""
    not_learned: tuple[str, ...] = ()
    """If the file has lines of clients and no layout could be learned: the likeliest layouts, and why they fail."""
    understood_of: Mapping[str, int] = field(default_factory=Counter)
    """Entries in which a client was understood, by client id."""
    missed_of: Mapping[str, int] = field(default_factory=Counter)
    """Those of `missed` with a client id, by client id."""

    kinds: Mapping[str, int] = field(default_factory=Counter)
    """Kinds of records that occurred."""
    missed_ownership: Mapping[str, int] = field(default_factory=Counter)
    """Those of `missed` about ownership, by the names of `OWNERSHIP`."""
    missed_since: Mapping[str, int] = field(default_factory=Counter)
    """Time in epoch ms of the last record before the first line of `missed` about ownership or a transition, by client
    id; the empty one for lines without a client id."""

    def take(self, parsed: Parsed, signs: Words) -> None:
        """Counts an entry and its records; `signs` are words that only lines of the expected clients have."""
        entry, format_, found = parsed
        self.cut_lines += entry.cut
        missed = found is None
        if entry.format is not None:
            self.entries += 1
            self.not_understood += missed
        elif missed:
            self.orphans += 1
            missed = signs.search(entry.data)
            self.suspects += missed
        if missed:
            self._count_missed(entry.data)
        if format_ is not None:  # several programs share a layout; it is counted for the one that was understood
            _count(self.layouts, f"{format_.name}/{format_.layout}")
        if found is None:
            self._count_shape(entry)
        elif found:
            self._count_records(found, entry)
            self._count_client(self.understood_of, found[0].client_id)

    def take_cut_end(self, line: bytes, signs: Words) -> None:
        """Counts the end of a file if it is half a line of a client. It may only not have been written yet, so that it
        is none of the entries that should have been understood."""
        if signs.search(line):
            self.orphans += 1
            self._count_shape(Entry(0, self.lines, (), line, cut=True))
            self._note_missed(line, _find_clients(line), _find_change(line))

    def _count_missed(self, data: bytes) -> None:
        client_ids, change = _find_clients(data), _find_change(data)
        for client_id in client_ids:
            self._count_client(self.missed_of, client_id)
        if change is not None:
            _count(self.missed_ownership, change.lastgroup or "")
        self._note_missed(data, client_ids, change)

    def _note_missed(self, data: bytes, client_ids: Collection[str], change: re.Match[bytes] | None) -> None:
        is_torn = len(client_ids) > 1
        for client_id in client_ids if is_torn or change or _STEP.search(data, 0, _SEARCH_LENGTH) else ():
            if client_id not in self.missed_since and len(self.missed_since) < NAMES_A_PIECE:
                _count(self.missed_since, client_id, self.last_ms or 0)

    def _count_client(self, counts: Mapping[str, int], client_id: str) -> None:
        if client_id and (client_id in counts or len(counts) < NAMES_A_PIECE):
            _count(counts, client_id)

    def take_rest(self, passed: int, repeats: Mapping[bytes, int]) -> None:
        """Adds entries that were counted without being built, and orphans counted by a line of their shape."""
        self.entries += passed
        for line, count in repeats.items():
            self.orphans += count
            _count(self.shapes, self._shape(line), count)

    def take_layouts(self, reader: PieceReader) -> None:
        layouts = reader.layouts
        self.learned = tuple(f"{one.pattern} ({one.share:.0%} of lines, as {_show(one.example)})" for one in layouts)
        self.guessed = tuple(sorted({name for one in layouts for name in one.guessed}))
        order = {ORDER} if reader.learned.sorted else set[str]()
        self.lost = tuple(sorted(order.union(*(one.lost for one in layouts))))
        self.not_learned = tuple(f"{one.pattern}: {one.why}" for one in reader.guesses)
        if self.not_learned and not (self.missed or self.piece):
            self.suspects += 1  # those lines look like another program's in a known layout

    def _count_records(self, found: Sequence[TraceRecord], entry: Entry) -> None:
        self.records += len(found)
        for record in found:
            if record.kind not in self.kinds:
                _count(self.kinds, record.kind.value)
        level = _LEVEL.search(entry.data, 0, 100)
        if level:
            _count(self.levels, level.group(1).decode())
        ts_ms = found[0].ts_ms
        if not ts_ms:
            return
        if self.first_ms is None or ts_ms < self.first_ms:
            self.first_ms = ts_ms
        if self.last_ms is None or ts_ms > self.last_ms:
            self.last_ms = ts_ms

    def _count_shape(self, entry: Entry) -> None:
        """Counts the line under its shape; new shapes of a full table are counted under ""."""
        if not self.bad_line:
            self.bad_line, self.bad_text = entry.number, first_line(entry.data)
        _count(self.shapes, self._shape(entry.data))

    def _shape(self, data: bytes) -> str:
        line = data.split(b"\n", 1)[0][: 4 * SHAPE_LENGTH]
        shape = _shape(line.translate(DIGITS))  # cached: most lines of one shape differ in digits only
        return shape if shape in self.shapes or len(self.shapes) < SHAPES_A_PIECE else ""

    def values(self) -> list[Any]:
        """Its fields as plain values."""
        found = (getattr(self, one.name) for one in fields(self))
        return [dict(value) if isinstance(value, dict) else value for value in found]

    @property
    def understood(self) -> int:
        """Entries in which a client was understood."""
        return sum(self.layouts.values())

    @property
    def missed(self) -> int:
        """Entries and lines of clients, or similar to theirs, that were not understood."""
        return self.not_understood + self.suspects


def _find_change(data: bytes) -> re.Match[bytes] | None:
    """The word for a change of ownership or membership in a line."""
    return _OWNERSHIP.search(data, 0, _SEARCH_LENGTH)


def _find_clients(data: bytes) -> set[str]:
    """The client ids in a line, into which several processes may have written; an empty one if there is none."""
    return {first_line(one[1] or one[2]) for one in _CLIENT_ID.finditer(data, 0, _SEARCH_LENGTH)} or {""}


@lru_cache(maxsize=4096)
def _shape(line: bytes) -> str:
    return first_line(_VARIABLE.sub(b"#", line)[:SHAPE_LENGTH])


def _show(text: str) -> str:
    return text if len(text) <= EXAMPLE else text[: EXAMPLE - 1] + "…"


def _count(counts: Mapping[str, int], key: str, by: int = 1) -> None:
    counts[key] += by  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class PieceRecords:
    summary: PieceSummary
    facts: Sequence[Facts]
    """Of members only."""
    members: Sequence[Chunk]
    coordinators: Sequence[Chunk]
    names: Mapping[str, str]
    """Topic names by topic id, from coordinators' records."""


def read_piece(
    piece: Piece, formats: Sequence[Format], zone: tzinfo, cluster: str = "", name: str = ""
) -> PieceRecords:
    """Reads a piece to its end, or to the first read error, which is in the summary.

    Groups are called `cluster:group` if a cluster is given; results use `name` for the file if it is given.
    """
    reader, signs = reader_of(piece, formats), signs_of_formats(formats)
    piece = reader.piece if isinstance(reader, PieceReader) else piece
    named = piece._replace(file=name or piece.file)

    def begin() -> tuple[PieceSummary, SourceRecords]:
        return PieceSummary(named.file, named.start, named.gzipped), SourceRecords(named, f"{cluster}:" * bool(cluster))

    summary, records = begin()
    if not isinstance(reader, PieceReader):
        _take_all(parse_all(reader.entries(), zone), signs, summary, records)
        summary.lines = reader.lines
        return records.of_piece(summary)
    known = open_known(piece, formats, signs, zone)
    if known is not None:
        cut_end = find_cut_end(piece)
        take_scanned(known, summary, records, cut_end)
        if known.explained:
            summary.take_cut_end(cut_end, signs)
            return records.of_piece(summary)
        summary, records = begin()
    cut_end = b"" if piece.gzipped else find_cut_end(piece)
    take_scanned(Scanner(reader, signs, zone), summary, records, cut_end)
    if not (summary.error or reader.learned.layouts):
        summary.take_cut_end(cut_end, signs)
    return records.of_piece(summary)


def find_cut_end(piece: Piece) -> bytes:
    """The last line of a file if it has no line feed and is only the beginning of a line in Kafka's layout: a log that
    was rotated by its size. Such a line has no logger, by which others are recognised. Empty if there is none."""
    line = b""
    with suppress(OSError), Path(piece.file).open("rb", buffering=0) as file:
        size = file.seek(0, SEEK_END)
        file.seek(max(piece.start, size - 1))
        if size <= piece.end and file.read(1) != b"\n":
            file.seek(max(piece.start, size - ENTRY_LIMIT))
            line = file.read().rpartition(b"\n")[2]
    message = kafka(line.decode("utf-8", "replace"), UTC) if line else None
    return line if message is not None and message.cut else b""


def take_scanned(scanner: Scanner, summary: PieceSummary, records: SourceRecords, cut_end: bytes = b"") -> None:
    """Adds a scanner's results to `summary` and `records`, without that half line if it was not understood; a read
    error is in the summary."""
    found = scanner.scan()
    if cut_end:
        found = (one for one in found if one.records is not None or one.entry.data != cut_end)
    _take_all(found, scanner.signs, summary, records)
    summary.lines = scanner.reader.lines
    summary.take_rest(scanner.passed, scanner.repeats)
    summary.take_layouts(scanner.reader)


def _take_all(found: Iterable[Parsed], signs: Words, summary: PieceSummary, records: SourceRecords) -> None:
    try:
        for parsed in found:
            summary.take(parsed, signs)
            if parsed.records:
                records.take(parsed)
    except READ_ERRORS as problem:
        summary.error = describe_problem(problem)
        # The content of an archive counts as an entry that was not understood.
        summary.suspects += isinstance(problem, PackedError) and not (summary.entries or summary.orphans)


def signs_of_formats(formats: Iterable[Format]) -> Words:
    """The words by which lines of these formats' clients are recognised."""
    names = {one.name for one in formats}
    return signs_of([client for client in clients() if client.name in names])


class SourceRecords:
    def __init__(self, piece: Piece, cluster: str = "") -> None:
        self.piece = piece
        self.cluster = cluster
        self.rows: tuple[dict[Source, list[Row]], ...] = ({}, {})
        """Those of members, and those of coordinators, by source."""
        self.names: dict[str, str] = {}
        self._in_seconds: set[tuple[int, int]] = set()
        """Offsets and numbers of the rows of lines whose times are written in whole seconds."""

    def take(self, parsed: Parsed) -> None:
        entry, format_, found = parsed
        line = Line(entry.number, first_line(entry.data))
        find_program = format_.find_program if format_ is not None else None
        program = find_program(entry.data.decode("utf-8", "replace")) if find_program is not None else ""
        for seq, record in enumerate(found or ()):
            group = self.cluster + record.group if record.group else ""
            coordinator = record.thread == THREAD
            if coordinator and record.kind is Kind.TOPIC_NAMES:
                add_topic_names(self.names, record.settings)
            row = to_row(record, group, (entry.offset, seq), line)
            source = group, record.client_id, self.piece.file, program
            own = self.rows[coordinator].setdefault(source, [])
            if not row[TIME] % _SECOND_MS and not _FRACTION.search(line.text):
                self._in_seconds.add((entry.offset, seq))
            own.append(row)

    def of_piece(self, summary: PieceSummary) -> PieceRecords:
        if summary.learned and self._settle_times():  # known layouts have times, which may be 0 in traces
            summary.lost = tuple(sorted({*summary.lost, TIMES}))
        facts = facts_of(self.rows[False])
        return PieceRecords(summary, facts, list(self._chunks(False)), list(self._chunks(True)), self.names)

    def _settle_times(self) -> bool:
        """Whether some rows had no time, though others have one: the layout changes in the file. Such a row gets the
        time of the row above it.

        Rows whose times are written in whole seconds get the time of the row above in the same second, of their program
        or of lines that name none: they are not older.
        """
        every = [(own, i, source[-1]) for of in self.rows for source, own in of.items() for i in range(len(own))]
        every.sort(key=lambda one: one[0][one[1]][OFFSET : SEQ + 1])
        latest = next((ms for own, i, _ in every if (ms := own[i][TIME])), 0)
        above: dict[str, int] = {}
        filled = False
        for own, i, program in every:
            ms, *place = own[i][: SEQ + 1]
            if ms:
                latest = ms
            elif latest:
                filled, ms = True, latest
            if tuple(place) in self._in_seconds:
                above_ms = max(above.get(program, 0), above.get("", 0))
                ms = above_ms if ms < above_ms < ms + _SECOND_MS else ms
            above[program] = ms
            if ms != own[i][TIME]:
                own[i] = (ms, *own[i][OFFSET:])
        return filled

    def _chunks(self, coordinator: bool) -> Iterator[Chunk]:
        for source, rows in sorted(self.rows[coordinator].items()):
            yield from pack(source, self.piece.start, rows)
