"""Reads a short file in the known layouts alone. If they explain it, there are none to learn.

To learn layouts, which costs as much as to read the rest of a short file, some lines with words of clients are compared
with the known layouts. Here all of them are, while they are read: a file passes only if none would be learned from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path

import numpy as np

from fsm.audit.reading.line_kinds import ORPHAN, Knowledge, Lines
from fsm.audit.reading.scanning import Parsed, Scanner
from fsm.logs import Format
from fsm.logs.layouts.layout import marks_of
from fsm.logs.layouts.quotes import FEWEST_PRINTED, count_quotes, find_strange_words
from fsm.logs.layouts.samples import NOTHING, is_plain
from fsm.logs.reading.blocks import Words
from fsm.logs.reading.entries import Block
from fsm.logs.reading.pieces import GrowingReader, Piece

SHORT = 4 << 20
"""Most bytes of a short file."""
_OBJECT = ord("{")


class _Unexplained(Exception):  # noqa: N818  it is no error
    """Other layouts may be learned from the file."""


class KnownScanner(Scanner):
    """Scans a short file in the known layouts, as far as these explain it."""

    def __init__(self, reader: GrowingReader, status: os.stat_result, signs: Words, zone: tzinfo) -> None:
        super().__init__(reader, signs, zone)
        self._file, self._size = reader.piece.file, status.st_size
        self.explained = False
        """Nothing can be learned from the file; set at its end."""
        self._expected = tuple(reader.formats)
        self._marks = marks_of(tuple(one.client for one in reader.formats if one.client is not None))
        self._modified_ms = status.st_mtime_ns // 1_000_000
        self._quotes = 0

    def scan(self) -> Iterator[Parsed]:
        """As `Scanner.scan`, up to the block with a line that the known layouts do not explain."""
        has_message = False
        try:
            for parsed in super().scan():
                entry, format_, records = parsed
                if records and format_ is not None:
                    has_message = has_message or self._shows_message(entry.data.partition(b"\n")[0], format_)
                elif entry.formats or self.signs.search(entry.data):
                    return
                yield parsed
        except _Unexplained:
            return
        # If the file has grown, the entry that was being written has to be read to its end.
        self.explained = has_message and _find_size(self._file) == self._size

    def _shows_message(self, line: bytes, format_: Format) -> bool:
        return bool(format_.candidate.search(line)) and self._marks.search(line)

    def split(self, block: Block, known: Knowledge) -> Lines:
        """As `Scanner.split`. Raises `_Unexplained` if other layouts may be learned from the block."""
        lines = super().split(block, known)
        if lines is None or not is_plain(lines.data, lines.bounds, self._modified_ms):
            raise _Unexplained
        if not self._are_explained(lines, known):
            raise _Unexplained
        return lines

    def _are_explained(self, lines: Lines, known: Knowledge) -> bool:
        """Whether all lines with words of clients look like their messages, or like quotes of them."""
        kinds, heads = lines.kinds, np.flatnonzero(lines.kinds)
        # Lines without an entry; and objects, which may begin as in a known layout and have other names for the rest.
        alone = kinds == ORPHAN
        alone |= np.frombuffer(lines.data + b"\n", np.uint8)[lines.bounds[:-1]] == _OBJECT
        alone[: heads[0] if len(heads) else None] = True
        names = [frozenset(one.name for one in owners) for owners in known.owners]
        hits = np.empty(0, np.int64)
        if alone.any():
            hits = self._marks.lines(lines.data, lines.bounds)
            hits = hits[alone[hits]]
        if not alone.all():
            present = frozenset(names[kind] for kind in np.flatnonzero(np.bincount(kinds)).tolist())
            strange = find_strange_words(present, self._expected).lines(lines.data, lines.bounds)
            hits = np.union1d(hits, strange[~alone[strange]])
        every = np.arange(len(kinds))
        first = np.where(alone, every, np.maximum.accumulate(np.where(kinds, every, 0)))
        asked = zip(map(lines.line, hits.tolist()), kinds[first[hits]].tolist(), alone[hits].tolist(), strict=True)
        left = [
            (line, frozenset[str]() if is_alone else names[kind])
            for line, kind, is_alone in asked
            if not any(one.candidate.search(line) for one in known.owners[kind])
        ]
        quotes = count_quotes(left, self._expected)
        self._quotes += quotes or 0
        return quotes is not None and self._quotes < FEWEST_PRINTED


def _find_size(file: str) -> int | None:
    """The size of a file; None if it is gone."""
    try:
        return Path(file).stat().st_size
    except OSError:
        return None


def open_known(piece: Piece, formats: Sequence[Format], signs: Words, zone: tzinfo) -> KnownScanner | None:
    """The scanner of a short file that is one piece; None for another file."""
    try:
        status = Path(piece.file).stat()
    except OSError:
        return None
    if piece.gzipped or piece.start or status.st_size > min(piece.end, SHORT):
        return None
    reader = GrowingReader(piece, formats, NOTHING, 0, status.st_size)
    return KnownScanner(reader, status, signs, zone)
