"""Files cut into byte ranges, and the lines of one range. Pure but for reading the file it is given.

A piece owns what *starts* in its range. Reading begins `ENTRY_LIMIT` bytes early, which is all the context an entry may
need, and ends once the last owned entry is complete. Compressed files are one piece: they cannot be cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, NamedTuple

from fsm.logs import Format, formats
from fsm.logs.blocks import Scanner
from fsm.logs.entries import ENTRY_LIMIT, LINE_LIMIT, Entry, Run, assemble
from fsm.logs.layout import Description, formats_of, marks_of
from fsm.logs.learned import Guess
from fsm.logs.opening import GZIP_MAGIC, READ_ERRORS, UntilBroken, in_memory, is_packed, open_packed
from fsm.logs.samples import NOTHING, learn_bytes, learn_file
from fsm.logs.segments import SegmentReader, is_segment
from fsm.logs.streams import assemble_streams

__all__ = [
    "CHUNK",
    "GZIP_MAGIC",
    "READ_ERRORS",
    "WHOLE",
    "Piece",
    "PieceReader",
    "Unreadable",
    "cut",
    "from_bytes",
    "is_gzip",
    "reader_of",
]

CHUNK = 1 << 20
"""Bytes read at once."""
BOM = b"\xef\xbb\xbf"
"""What some editors begin a file in UTF-8 with."""
WHOLE = 1 << 62
"""End of a piece that is read to the end of its file."""


class Piece(NamedTuple):
    file: str
    start: int
    end: int
    gzipped: bool = False


class Unreadable(NamedTuple):
    file: str
    reason: str


def is_gzip(path: Path) -> bool:
    """True where the content is compressed, by gzip or another, whatever the name. Raises OSError like `open`."""
    with path.open("rb") as handle:
        return is_packed(handle.read(8))


def cut(path: Path, split_bytes: int) -> Iterator[Piece]:
    """The pieces of one file: one of what is compressed, a segment, a table, or has its newest entries first.

    Raises OSError where it cannot be opened.
    """
    size = path.stat().st_size
    gzipped = is_gzip(path)
    if gzipped or is_segment(path) or (size > split_bytes and learn_file(str(path), False, formats()).whole):
        yield Piece(str(path), 0, WHOLE, gzipped)
        return
    for start in range(0, max(size, 1), split_bytes):
        yield Piece(str(path), start, min(start + split_bytes, size))


def reader_of(piece: Piece, formats: Sequence[Format]) -> PieceReader | SegmentReader:
    """Who reads a piece. A file that cannot be opened is found out when it is read."""
    try:
        whole = piece.start == 0 and not piece.gzipped and is_segment(Path(piece.file))
    except OSError:
        whole = False
    return SegmentReader(piece.file, formats) if whole else PieceReader(piece, formats)


class PieceReader:
    """Reads one piece. `lines` counts the lines that start in it, complete once `entries` is exhausted."""

    def __init__(self, piece: Piece, formats: Sequence[Format]) -> None:
        self.piece = piece
        self.formats = formats
        self.lines = 0
        self.learned = NOTHING
        """The layouts that were learned from the file, known once `entries` or `scan` has begun."""
        self.passed = 0
        """Entries that `scan` left out, complete once it is exhausted."""
        self.repeats: Counter[bytes] = Counter()
        """Orphans that `scan` left out, under a line of their shape."""

    @property
    def layouts(self) -> tuple[Description, ...]:
        """What was learned of the file's layouts: none where it has only known ones, or no client speaks."""
        return tuple(layout.description for layout in self.learned.layouts)

    @property
    def guesses(self) -> tuple[Guess, ...]:
        """Where clients speak and no layout could be learned: the likeliest, and why they fail."""
        return self.learned.guesses

    def entries(self) -> Iterator[Entry]:
        """The entries that start in the piece; `number` counts lines from 1 at the piece's first line.

        Where the newest entries stand first, offsets count from the end of the file, so that they rise with time.
        Raises one of `READ_ERRORS` where the file cannot be read any further; what came before stands.
        """
        start, end = self.piece.start, self.piece.end
        self.learned = learn_file(self.piece.file, self.piece.gzipped, self.formats)
        with _open_piece(self.piece) as opened:
            handle = UntilBroken(opened)
            for entry in self.assembled(handle):
                if start <= entry.offset < end:
                    yield entry._replace(offset=WHOLE - entry.offset) if self.learned.reversed else entry
            if handle.problem is not None:
                raise handle.problem

    def scan(self) -> Iterator[Entry]:
        """The entries that may matter: those in which a format's candidate is found, and of the orphans that hold no
        mark of a client one of each shape. What is left out is counted in `passed` and `repeats`.

        Raises one of `READ_ERRORS` where the file cannot be read any further; what came before stands.
        """
        self.learned = learn_file(self.piece.file, self.piece.gzipped, self.formats)
        if self.by_streams:
            yield from self.entries()
            return
        clients = {one.client.name: one.client for one in self.formats if one.client is not None}
        marks = marks_of(tuple(clients.values()))
        scanner = Scanner(self.expected, marks, self.piece.start, self.piece.end)
        self.repeats = scanner.repeats
        with _open_piece(self.piece) as opened:
            handle = UntilBroken(opened)
            for entry in scanner.scan(self.runs(handle)):
                yield entry._replace(offset=WHOLE - entry.offset) if self.learned.reversed else entry
            self.passed = scanner.passed
            if handle.problem is not None:
                raise handle.problem

    @property
    def by_streams(self) -> bool:
        """Whether lines have to be told apart behind frames, or entries are rows."""
        return self.learned.table is not None or any(layout.by_lines for layout in self.learned.layouts)

    @property
    def expected(self) -> list[Format]:
        """The layouts that are known, and those that were learned."""
        known = [one for one in self.formats if one.client is None]
        return [*known, *formats_of(self.learned.layouts, self.learned.clients)]

    def assembled(self, handle: UntilBroken) -> Iterator[Entry]:
        """The entries of the piece and of its context, in the layouts that are known and were learned."""
        if self.by_streams:
            return assemble_streams(self.runs(handle), self.learned.layouts, self.expected, self.learned.table)
        return assemble(self.runs(handle), self.expected)

    def runs(self, handle: UntilBroken) -> Iterator[Run]:
        """Lines from the context before the piece to `ENTRY_LIMIT` behind it, in runs that do not cross its borders."""
        start, end = self.piece.start, self.piece.end
        stop = end + ENTRY_LIMIT
        raw = _without_mark(_raw_runs(handle, max(0, start - ENTRY_LIMIT), stop))
        for offset, lines, was_cut in (part for run in raw for part in _split_run(run, (start, end, stop))):
            if offset >= stop:
                return
            number = self.lines + 1
            if start <= offset < end:
                self.lines += len(lines)
            yield Run(offset, number, lines, was_cut)


def _open_piece(piece: Piece) -> IO[bytes]:
    return open_packed(piece.file) if piece.gzipped else Path(piece.file).open("rb", buffering=0)


_RawRun = tuple[int, list[bytes], bool]
"""A `Run` without its number."""


def _raw_runs(handle: UntilBroken, begin: int, stop: int) -> Iterator[_RawRun]:
    """The lines that start from `begin` on, to some behind `stop`; holds one chunk and one cut line."""
    if begin:
        handle.seek(begin - 1)
    offset = max(0, begin - 1)
    rest, skipped = b"", 0
    skipping = bool(begin)  # the first, partial line belongs to an earlier piece
    size = min(CHUNK, stop - offset + 1)
    while offset < stop and (chunk := handle.read(size)):
        if skipping and offset + skipped + len(rest) > stop:
            return
        lines = chunk.split(b"\n")
        long = rest + lines[0]
        lines[0] = long[:LINE_LIMIT]
        skipped += len(long) - len(lines[0])
        rest = lines.pop()
        if not lines:
            continue
        if skipping or skipped:
            first = lines.pop(0)
            if not skipping:
                yield offset, [first], True
            offset += len(first) + skipped + 1
            skipping, skipped = False, 0
        yield offset, lines, False
        offset += _size(lines)
    if (rest or skipped) and not skipping:
        yield offset, [rest], bool(skipped)


def _split_run(run: _RawRun, borders: Sequence[int]) -> Iterator[_RawRun]:
    """The run in parts that do not cross the borders, which rise: each line belongs where it starts."""
    offset, lines, was_cut = run
    for border in borders:
        if offset < border < offset + _size(lines):
            starts = accumulate((len(line) + 1 for line in lines), initial=offset)
            count = min(len(lines), sum(start < border for start in starts))
            yield offset, lines[:count], was_cut
            offset, lines = offset + _size(lines[:count]), lines[count:]
    if lines:
        yield offset, lines, was_cut


def _without_mark(runs: Iterable[_RawRun]) -> Iterator[_RawRun]:
    """A byte order mark is left out of the first line of a file; the offset of the second counts it."""
    for offset, lines, was_cut in runs:
        if offset or not lines or not lines[0].startswith(BOM):
            yield offset, lines, was_cut
        else:
            yield 0, [lines[0].removeprefix(BOM)], was_cut
            yield len(lines[0]) + 1, lines[1:], was_cut


def _size(lines: Sequence[bytes]) -> int:
    return sum(map(len, lines)) + len(lines)


def from_bytes(data: bytes, formats: Sequence[Format], modified_ms: int = 0) -> Iterator[Entry]:
    """The entries of a text in memory; stamps without a year or a date are of the time given."""
    reader = PieceReader(Piece("", 0, WHOLE), formats)
    reader.learned = learn_bytes(data, modified_ms, formats)
    return reader.assembled(in_memory(data))
