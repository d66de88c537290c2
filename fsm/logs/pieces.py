"""Files cut into byte ranges, and the lines of one range. Pure but for reading the file it is given.

A piece owns what *starts* in its range. Reading begins `ENTRY_LIMIT` bytes early, which is all the context an entry may
need, and ends once the last owned entry is complete. Compressed files are one piece: they cannot be cut.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from fsm.logs import Format
from fsm.logs.entries import ENTRY_LIMIT, LINE_LIMIT, Entry, Line, assemble

CHUNK = 1 << 20
"""Bytes read at once."""
GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
"""What some editors begin a file in UTF-8 with."""
WHOLE = 1 << 62
"""End of a piece that is read to the end of its file."""


class Piece(NamedTuple):
    """A range of one file, in bytes."""

    file: str
    start: int
    end: int
    gzipped: bool = False


class Unreadable(NamedTuple):
    """Why a file, or the rest of it, could not be read."""

    file: str
    reason: str


def is_gzip(path: Path) -> bool:
    """True where the content is gzip, whatever the name. Raises OSError like `open`."""
    with path.open("rb") as handle:
        return handle.read(2) == GZIP_MAGIC


def cut(path: Path, split_bytes: int) -> Iterator[Piece]:
    """The pieces of one file. Raises OSError where it cannot be opened."""
    size = path.stat().st_size
    if is_gzip(path):
        yield Piece(str(path), 0, WHOLE, gzipped=True)
        return
    for start in range(0, max(size, 1), split_bytes):
        yield Piece(str(path), start, min(start + split_bytes, size))


class PieceReader:
    """Reads one piece. `lines` counts the lines that start in it, complete once `entries` is exhausted."""

    def __init__(self, piece: Piece, formats: Sequence[Format]) -> None:
        self.piece = piece
        self.formats = formats
        self.lines = 0

    def entries(self) -> Iterator[Entry]:
        """The entries that start in the piece; `number` counts lines from 1 at the piece's first line.

        Raises one of `READ_ERRORS` where the file cannot be read any further; what came before stands.
        """
        with _opened(self.piece) as opened:
            handle = _UntilBroken(opened)
            for entry in assemble(self._lines(handle), self.formats):
                if entry.offset >= self.piece.end:
                    return
                if entry.offset >= self.piece.start:
                    yield entry
            if handle.problem is not None:
                raise handle.problem

    def _lines(self, handle: _Readable) -> Iterator[Line]:
        """Lines from the context before the piece to `ENTRY_LIMIT` behind it."""
        start, end = self.piece.start, self.piece.end
        stop = end + ENTRY_LIMIT
        for offset, data, was_cut in _raw_lines(handle, max(0, start - ENTRY_LIMIT), stop):
            if offset >= stop:
                return
            if start <= offset < end:
                self.lines += 1
            yield Line(offset, self.lines, data if offset else data.removeprefix(BOM), was_cut)


READ_ERRORS = (OSError, EOFError, zlib.error)
"""What reading a damaged file raises."""


class _Readable(Protocol):
    """The two methods of a file that are needed here."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...


class _UntilBroken:
    """A file that ends where it cannot be read any further, so that what came before is read like any other."""

    def __init__(self, handle: gzip.GzipFile | BinaryIO) -> None:
        self.handle = handle
        self.problem: Exception | None = None

    def read(self, size: int, /) -> bytes:
        """The next bytes, none at the end and where the file is damaged."""
        try:
            # To fill `size` a damaged file is read beyond what it can still give, and that would be lost.
            return self.handle.read1(size) if isinstance(self.handle, gzip.GzipFile) else self.handle.read(size)
        except READ_ERRORS as problem:
            self.problem = problem
            return b""

    def seek(self, offset: int, /) -> int:
        """The same as that of the file."""
        return self.handle.seek(offset)


def _opened(piece: Piece) -> gzip.GzipFile | BinaryIO:
    return gzip.open(piece.file, "rb") if piece.gzipped else Path(piece.file).open("rb", buffering=0)


def _raw_lines(handle: _Readable, begin: int, stop: int = WHOLE) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, line, cut) for each line that starts between `begin` and `stop`; holds one chunk and one cut line."""
    if begin:
        handle.seek(begin - 1)
    offset = max(0, begin - 1)
    rest, skipped = b"", 0
    skipping = bool(begin)  # the first, partial line belongs to an earlier piece
    size = min(CHUNK, stop - offset + 1)
    while offset < stop and (chunk := handle.read(size)):
        if skipping and offset + skipped + len(rest) > stop:
            return
        first, *more = chunk.split(b"\n")
        if len(rest) + len(first) > LINE_LIMIT:
            kept = (rest + first)[:LINE_LIMIT]
            skipped += len(rest) + len(first) - len(kept)
            rest = kept
        else:
            rest += first
        if not more:
            continue
        if not skipping:
            yield offset, _without_return(rest, skipped), bool(skipped)
        skipping = False
        offset += len(rest) + skipped + 1
        *complete, rest = more
        skipped = 0
        for line in complete:
            yield offset, _without_return(line, 0), False
            offset += len(line) + 1
    if (rest or skipped) and not skipping:
        yield offset, _without_return(rest, skipped), bool(skipped)


def _without_return(line: bytes, skipped: int) -> bytes:
    return line[:-1] if not skipped and line.endswith(b"\r") else line


def from_bytes(data: bytes, formats: Sequence[Format]) -> Iterator[Entry]:
    """The entries of a text in memory."""
    return assemble((Line(o, i, d, c) for i, (o, d, c) in enumerate(_raw_lines(io.BytesIO(data), 0), 1)), formats)
