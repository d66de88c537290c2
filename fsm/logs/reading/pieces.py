"""Files cut into byte ranges, and the lines of one range. Pure but for reading the file it is given.

A piece owns what *starts* in its range. Reading begins `ENTRY_LIMIT` bytes early, which is all the context an entry may
need, and ends once the last owned entry is complete. Compressed files are one piece: they cannot be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from fsm.logs import Format, formats
from fsm.logs.exports.recodings import HEAD
from fsm.logs.exports.tables import longest_line
from fsm.logs.layouts.layout import Description, formats_of
from fsm.logs.layouts.learned import Guess
from fsm.logs.layouts.samples import NOTHING, Learned, learn_bytes, learn_file
from fsm.logs.reading.entries import ENTRY_LIMIT, LINE_LIMIT, Block, Entry, assemble
from fsm.logs.reading.opening import GZIP_MAGIC, READ_ERRORS, UntilBroken, UpTo, in_memory, is_coded, open_packed
from fsm.logs.reading.segments import SegmentReader, begins_segment, is_segment
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
    "is_gzip",
    "reader_of",
]

Found = TypeVar("Found")

CHUNK = 1 << 20
"""Bytes read at once."""
_KEPT = 31 << 20
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
    """True where the content is packed or coded, by gzip or another, whatever the name. Raises OSError like `open`."""
    with path.open("rb", buffering=0) as handle:
        head = handle.read(HEAD)
    return is_coded(head) and not begins_segment(head)


def cut(path: Path, split_bytes: int, expected: Sequence[Format] = (), *, size: int | None = None) -> Iterator[Piece]:
    """The pieces of one file: one of what is compressed, a segment, or, in the formats that are expected (none means
    all), a table or a file that has its newest entries first.

    A file that grows may be cut at the size that it had. Raises OSError where it cannot be opened.
    """
    size = path.stat().st_size if size is None else size
    gzipped = is_gzip(path)
    if (
        gzipped
        or is_segment(path)
        or (size > split_bytes and learn_file(str(path), False, expected or formats()).whole)
    ):
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


def _count_feeds(data: bytes) -> int:
    return data.count(b"\n")


class PieceReader:
    """Reads one piece. `lines` counts the lines that start in it, complete once `entries` is exhausted."""

    context = ENTRY_LIMIT
    """How far before the piece reading begins."""

    def __init__(self, piece: Piece, formats: Sequence[Format]) -> None:
        self.piece = piece
        self.formats = formats
        self.lines = 0
        self.learned = NOTHING
        """The layouts that were learned from the file, known once it is opened."""

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
        for entry in self.read(self.assemble):
            if start <= entry.offset < end:
                yield self.place(entry)

    def read(self, how: Callable[[UntilBroken], Iterator[Found]]) -> Iterator[Found]:
        """What a function makes of the opened file, which is called when its layouts are known. Raises as `entries`."""
        self.learned = learn_file(self.piece.file, self.piece.gzipped, self.formats)
        with _open_piece(self.piece) as opened:
            handle = UntilBroken(opened)
            yield from how(handle)
            if handle.problem is not None:
                raise handle.problem

    def place(self, entry: Entry) -> Entry:
        """The entry at an offset that rises with time."""
        return entry._replace(offset=WHOLE - entry.offset) if self.learned.reversed else entry

    @property
    def by_streams(self) -> bool:
        """Whether lines have to be told apart behind frames, or entries are rows."""
        return self.learned.table is not None or any(layout.by_lines for layout in self.learned.layouts)

    def stream_scanner(self) -> StreamScanner | None:
        """Who looks behind the frames of few lines; None where all have to be looked at."""
        layouts = self.learned.layouts
        if self.learned.table is not None or any(layout.second for layout in layouts):
            return None
        clients = [one.client for one in self.formats if one.client is not None]
        return StreamScanner(layouts, self.expected, clients, range(self.piece.start, self.piece.end))

    @property
    def expected(self) -> list[Format]:
        """The layouts that are known, and those that were learned."""
        known = [one for one in self.formats if one.client is None]
        return [*known, *formats_of(self.learned.layouts, self.learned.clients)]

    def assemble(self, handle: UntilBroken) -> Iterator[Entry]:
        """The entries of the piece and of its context, in the layouts that are known and were learned."""
        runs = (block.run for block in self.blocks(handle))
        if self.by_streams:
            return assemble_streams(runs, self.learned.layouts, self.expected, self.learned.table)
        return assemble(runs, self.expected)

    def blocks(self, handle: UntilBroken, count_feeds: Callable[[bytes], int] = _count_feeds) -> Iterator[Block]:
        """Lines from the context before the piece to `ENTRY_LIMIT` behind it; no block crosses its borders."""
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
    """Reads a piece of a file that grows: what was learned is given, and nothing behind `upto` is looked at.

    Without context the piece begins where an entry does. Lines are counted from `lines` on.
    """

    def __init__(self, piece: Piece, formats: Sequence[Format], learned: Learned, lines: int, upto: int) -> None:
        super().__init__(piece, formats)
        self.learned = learned
        self.lines = lines
        self.upto = upto
        if not self.by_streams:
            self.context = 0

    def read(self, how: Callable[[UntilBroken], Iterator[Found]]) -> Iterator[Found]:
        """As `PieceReader.read`."""
        with Path(self.piece.file).open("rb", buffering=0) as opened:
            handle = UntilBroken(UpTo(opened, self.upto))
            yield from how(handle)
            if handle.problem is not None:
                raise handle.problem


def _open_piece(piece: Piece) -> AbstractContextManager[IO[bytes]]:
    return open_packed(piece.file) if piece.gzipped else Path(piece.file).open("rb", buffering=0)


@cache
def _keep_memory() -> None:
    """Lets glibc keep the memory of a block that is freed for the next: it keeps as much as the largest block that was
    freed had, and asks the kernel for more each time."""
    bytes(_KEPT)


def _read_blocks(handle: UntilBroken, begin: int, stop: int, longest: int = LINE_LIMIT) -> Iterator[Block]:
    """The lines that start from `begin` on, to some behind `stop`, not numbered; holds one chunk and one cut line."""
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
    """The block in parts that do not cross the borders, which rise: each line belongs where it starts."""
    for border in borders:
        if block.offset < border <= block.offset + len(block.data):
            end = block.data.find(b"\n", border - block.offset - 1)
            if end >= 0:
                yield block._replace(data=block.data[:end])
                block = block._replace(offset=block.offset + end + 1, data=block.data[end + 1 :])
    yield block


def _without_mark(blocks: Iterable[Block]) -> Iterator[Block]:
    """A byte order mark is left out of the first line of a file; the offset of the second counts it."""
    for block in blocks:
        if block.offset or not block.data.startswith(BOM):
            yield block
            continue
        first, feed, others = block.data.partition(b"\n")
        yield block._replace(data=first.removeprefix(BOM))
        if feed:
            yield Block(len(first) + 1, 0, others)


def from_bytes(data: bytes, formats: Sequence[Format], modified_ms: int = 0) -> Iterator[Entry]:
    """The entries of a text in memory; stamps without a year or a date are of the time given."""
    reader = PieceReader(Piece("", 0, WHOLE), formats)
    reader.learned = learn_bytes(data, modified_ms, formats)
    return reader.assemble(in_memory(data))
