"""Cuts files into byte ranges and reads the lines of one range. Pure except for reading the given file.

A piece owns the entries that start in its range. Reading begins `ENTRY_LIMIT` bytes earlier, which is all the context
an entry may need, and ends when the last owned entry is complete. A compressed file is one piece, since it cannot be
cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from fsm.logs import Format, formats
from fsm.logs.exports.recodings import HEAD
from fsm.logs.exports.tables import longest_line
from fsm.logs.layouts.layout import Description, formats_of
from fsm.logs.layouts.learned import Guess
from fsm.logs.layouts.samples import NOTHING, Learned, learn_bytes, learn_file
from fsm.logs.reading.blocks import count_feeds
from fsm.logs.reading.entries import ENTRY_LIMIT, LINE_LIMIT, Block, Entry, assemble
from fsm.logs.reading.opening import (
    GZIP_MAGIC,
    READ_ERRORS,
    DamageTolerant,
    SizeLimited,
    is_coded,
    is_packed,
    open_bytes,
    open_packed,
)
from fsm.logs.reading.segments import SegmentReader, begins_segment
from fsm.logs.reading.streams import StreamScanner, assemble_streams

__all__ = [
    "CHUNK",
    "GZIP_MAGIC",
    "READ_ERRORS",
    "WHOLE",
    "GrowingReader",
    "Piece",
    "PieceReader",
    "Unreadable",
    "cut",
    "from_bytes",
    "reader_of",
]

Found = TypeVar("Found")

CHUNK = 1 << 20
"""Bytes per read."""
_KEPT = 31 << 20
BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
WHOLE = 1 << 62
"""End offset of a piece that extends to the end of its file."""


class Piece(NamedTuple):
    file: str
    start: int
    end: int
    gzipped: bool = False
    """It is compressed or encoded; `reader_of` finds out."""


class Unreadable(NamedTuple):
    file: str
    reason: str
    begun: bool = False
    """Whether its beginning was read."""
    packed: bool = False
    """It is an archive of which nothing was read."""


def _read_head(path: Path) -> bytes:
    with path.open("rb", buffering=0) as handle:
        return handle.read(HEAD)


def cut(path: Path, split_bytes: int, expected: Sequence[Format] = (), *, size: int | None = None) -> Iterator[Piece]:
    """The pieces of one file. There is only one for a compressed file, a segment, or, in the expected formats (none
    means all), a table or a file with its newest entries first.

    A growing file may be cut at an earlier size. Raises OSError if the file cannot be opened.
    """
    size = path.stat().st_size if size is None else size
    head = _read_head(path)
    segment, large = begins_segment(head), size > split_bytes
    gzipped = not segment and (is_coded(head) if large else is_packed(head))
    if gzipped or segment or (large and learn_file(str(path), False, expected or formats()).whole):
        yield Piece(str(path), 0, WHOLE, gzipped)
        return
    for start in range(0, max(size, 1), split_bytes):
        yield Piece(str(path), start, min(start + split_bytes, size))


def reader_of(piece: Piece, formats: Sequence[Format]) -> PieceReader | SegmentReader:
    """The reader of a piece, which knows whether the file is compressed or encoded, whatever its name. A file that
    cannot be opened raises when it is read."""
    try:
        head = b"" if piece.start or piece.gzipped else _read_head(Path(piece.file))
    except OSError:
        head = b""
    if begins_segment(head):
        return SegmentReader(piece.file, formats)
    return PieceReader(piece._replace(end=WHOLE, gzipped=True) if is_coded(head) else piece, formats)


class PieceReader:
    """Reads one piece. `lines` counts the lines that start in it; complete once `entries` is exhausted."""

    context = ENTRY_LIMIT
    """How many bytes before the piece reading begins."""

    def __init__(self, piece: Piece, formats: Sequence[Format]) -> None:
        self.piece = piece
        self.formats = formats
        self.lines = 0
        self.learned = NOTHING
        """The layouts learned from the file; set when it is opened."""

    @property
    def layouts(self) -> tuple[Description, ...]:
        """Descriptions of the learned layouts; empty if the file has only known layouts or no client's messages."""
        return tuple(layout.description for layout in self.learned.layouts)

    @property
    def guesses(self) -> tuple[Guess, ...]:
        """The likeliest layouts and why they fail, if there are client messages but no layout could be learned."""
        return self.learned.guesses

    def entries(self) -> Iterator[Entry]:
        """The entries that start in the piece; `number` counts lines from 1 at the piece's first line.

        If the newest entries come first, offsets count from the end of the file, so that they increase with time.
        Raises one of `READ_ERRORS` where the file cannot be read further, after the entries before that.
        """
        start, end = self.piece.start, self.piece.end
        for entry in self.read(self.assemble):
            if start <= entry.offset < end:
                yield self.place(entry)

    def read(self, how: Callable[[DamageTolerant], Iterator[Found]]) -> Iterator[Found]:
        """Applies a function to the opened file, once its layouts are learned. Raises as `entries`."""
        file, gzipped = self.piece.file, self.piece.gzipped
        self.learned = learn_file(file, gzipped, self.formats)
        with open_packed(file) if gzipped else Path(file).open("rb", buffering=0) as opened:
            handle = DamageTolerant(opened)
            yield from how(handle)
            if handle.problem is not None:
                raise handle.problem

    def place(self, entry: Entry) -> Entry:
        """The entry with an offset that increases with time."""
        return entry._replace(offset=WHOLE - entry.offset) if self.learned.reversed else entry

    @property
    def by_streams(self) -> bool:
        """Whether lines have to be separated by stream behind their frames, or entries are table rows."""
        return self.learned.table is not None or any(layout.by_lines for layout in self.learned.layouts)

    def stream_scanner(self) -> StreamScanner | None:
        """A scanner that unframes only few lines; None if all of them have to be unframed."""
        layouts = self.learned.layouts
        if self.learned.table is not None or any(layout.second or layout.upside_down for layout in layouts):
            return None
        clients = [one.client for one in self.formats if one.client is not None]
        return StreamScanner(layouts, self.expected, clients, range(self.piece.start, self.piece.end))

    @property
    def expected(self) -> list[Format]:
        """The known formats and the learned ones."""
        known = [one for one in self.formats if one.client is None]
        return [*known, *formats_of(self.learned.layouts, self.learned.clients)]

    def assemble(self, handle: DamageTolerant) -> Iterator[Entry]:
        """The entries of the piece and of its context, in the known and the learned layouts."""
        runs = (block.run for block in self.blocks(handle))
        if self.by_streams:
            return assemble_streams(runs, self.learned.layouts, self.expected, self.learned.table)
        return assemble(runs, self.expected)

    def blocks(self, handle: DamageTolerant) -> Iterator[Block]:
        """Blocks of lines from the context before the piece to `ENTRY_LIMIT` behind it. No block crosses the piece's
        borders."""
        start, end = self.piece.start, self.piece.end
        stop = end + ENTRY_LIMIT
        longest = longest_line(self.learned.table)
        read = _without_mark(_read_blocks(handle, max(0, start - self.context), stop, longest))
        for block in (part for whole in read for part in _split(whole, (start, end, stop))):
            if block.offset >= stop:
                return
            if block.cut and longest > LINE_LIMIT:
                handle.problem = OSError(f"a line is longer than {longest >> 20} MB; it was read as far as that")
            number = self.lines + 1
            if start <= block.offset < end:
                self.lines += count_feeds(block.data) + 1
            yield block._replace(number=number)


class GrowingReader(PieceReader):
    """Reads a piece of a growing file: takes layouts learned earlier and reads nothing past `upto`.

    Without context, the piece begins at the start of an entry. Line numbers continue from `lines`.
    """

    def __init__(self, piece: Piece, formats: Sequence[Format], learned: Learned, lines: int, upto: int) -> None:
        super().__init__(piece, formats)
        self.learned = learned
        self.lines = lines
        self.upto = upto
        if not self.by_streams:
            self.context = 0

    def read(self, how: Callable[[DamageTolerant], Iterator[Found]]) -> Iterator[Found]:
        """As `PieceReader.read`."""
        with Path(self.piece.file).open("rb", buffering=0) as opened:
            handle = DamageTolerant(SizeLimited(opened, self.upto))
            yield from how(handle)
            if handle.problem is not None:
                raise handle.problem


@cache
def _keep_memory() -> None:
    """Makes glibc keep the memory of a freed block for the next one. Otherwise it keeps only as much as the largest
    freed block and asks the kernel for more each time."""
    bytes(_KEPT)


def _read_blocks(handle: DamageTolerant, begin: int, stop: int, longest: int = LINE_LIMIT) -> Iterator[Block]:
    """The lines from `begin` to shortly after `stop`, not numbered. Holds one chunk and one cut line in memory."""
    _keep_memory()
    if begin:
        handle.seek(begin - 1)
    offset = max(0, begin - 1)
    rest, skipped = b"", 0
    skipping = bool(begin)  # the first, partial line belongs to an earlier piece
    size = min(CHUNK, stop - offset + 1)
    while offset < stop and (chunk := handle.read(size)):
        if skipping and offset + skipped + len(rest) > stop:
            return
        last = chunk.rfind(b"\n")
        first = chunk.find(b"\n") if last >= 0 else len(chunk)
        if skipping or skipped or last < 0 or len(rest) + first > longest:
            skipped += max(0, len(rest) + first - longest)
            rest = (rest + chunk[:first])[:longest]
            if last < 0:
                continue
            if not skipping:
                yield Block(offset, 0, rest, bool(skipped))
            offset += len(rest) + skipped + 1
            lines = chunk[first + 1 : last] if first < last else None
        else:
            lines = rest + chunk[:last]
        skipping, skipped, rest = False, 0, chunk[last + 1 :]
        if lines is not None:
            yield Block(offset, 0, lines)
            offset += len(lines) + 1
    if (rest or skipped) and not skipping:
        yield Block(offset, 0, rest, bool(skipped))


def _split(block: Block, borders: Sequence[int]) -> Iterator[Block]:
    """Splits the block at these borders, in ascending order. A line belongs to the part in which it starts."""
    for border in borders:
        if block.offset < border <= block.offset + len(block.data):
            end = block.data.find(b"\n", border - block.offset - 1)
            if end >= 0:
                yield block._replace(data=block.data[:end])
                block = block._replace(offset=block.offset + end + 1, data=block.data[end + 1 :])
    yield block


def _without_mark(blocks: Iterable[Block]) -> Iterator[Block]:
    """Removes a byte order mark from the first line of a file. The offset of the second line still counts it."""
    for block in blocks:
        if block.offset or not block.data.startswith(BOM):
            yield block
            continue
        first, feed, others = block.data.partition(b"\n")
        yield block._replace(data=first.removeprefix(BOM))
        if feed:
            yield Block(len(first) + 1, 0, others)


def from_bytes(data: bytes, formats: Sequence[Format], modified_ms: int = 0) -> Iterator[Entry]:
    """The entries of a text in memory; `modified_ms` completes timestamps without a year or a date."""
    reader = PieceReader(Piece("", 0, WHOLE), formats)
    reader.learned = learn_bytes(data, modified_ms, formats)
    return map(reader.place, reader.assemble(open_bytes(data)))
