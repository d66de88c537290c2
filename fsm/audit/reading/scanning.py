"""Scans a piece of a file block by block for the entries that may matter; the others are only counted.

NumPy splits lines. The needles of the formats are searched in a whole block at once, and only entries with a needle are
built.
`assemble` and `parse_entry` define the result; they also do what this fast path cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

import numpy as np

from fsm.audit.reading.line_kinds import CONTINUATION, ORPHAN, Knowledge, Lines, knowledge_of, split_lines
from fsm.logs import Format
from fsm.logs.reading.blocks import DIGITS, Numbers, Words
from fsm.logs.reading.entries import (
    ENTRY_LIMIT,
    Block,
    Entry,
    Run,
    assemble,
    parse_entry,
)
from fsm.logs.reading.opening import DamageTolerant
from fsm.logs.reading.pieces import PieceReader
from fsm.trace import TraceRecord

_SHAPE = 400
"""Bytes of an orphan that make its shape."""
_MOST_KEPT = 20_000
"""Orphan shapes in the cache."""
_MOST_OPEN = 4 << 20


class Parsed(NamedTuple):
    """An entry that matters, or an orphan."""

    entry: Entry
    format: Format | None
    """The first format that finds records, or None."""
    records: Sequence[TraceRecord] | None
    """From `parse_entry`."""


class Scanner:
    """Scans one piece. Its counts are complete once `scan` is exhausted."""

    def __init__(self, reader: PieceReader, signs: Words, zone: tzinfo, *, open_end: bool = False) -> None:
        self.reader = reader
        self.signs = signs
        """Words without digits; an orphan with one is yielded by itself."""
        self.zone = zone
        self.passed = 0
        """Entries that were counted and not built."""
        self.repeats: Counter[bytes] = Counter()
        """Orphans that were counted and not built, by shape."""
        self._owned = range(reader.piece.start, reader.piece.end)
        self._shapes: dict[bytes, bool] = {}
        """Shapes of orphans, and whether they contain a sign."""
        self._formats: tuple[Format, ...] = ()
        self._open_end = open_end
        """The last entry is left out, because it may continue when the file grows. Not for framed entries."""
        self.left_out: Run | None = None
        """The first lines of that entry."""

    def scan(self) -> Iterator[Parsed]:
        """The entries in which a client was understood or should have been, orphans with a sign, and one orphan of each
        shape without a sign.

        Raises one of `READ_ERRORS` if the file cannot be read further.
        """
        return self.reader.read(self._scan_placed)

    def split(self, block: Block, known: Knowledge) -> Lines | None:
        """The lines of a block, and their kinds; None if it is a part of a line."""
        return None if block.cut else split_lines(block, known)

    def _scan_placed(self, handle: DamageTolerant) -> Iterator[Parsed]:
        if not self.reader.learned.reversed:
            return self._scan(handle)
        return (one._replace(entry=self.reader.place(one.entry)) for one in self._scan(handle))

    def _scan(self, handle: DamageTolerant) -> Iterator[Parsed]:
        if self.reader.by_streams:
            streams = self.reader.stream_scanner()
            found = streams.scan(self.reader.blocks(handle)) if streams else self.reader.assemble(handle)
            for entry in found:
                if entry.offset in self._owned:
                    yield _parse(entry, self.zone)
            self.passed = streams.passed if streams else 0
            return
        self._formats = tuple(self.reader.expected)
        known = knowledge_of(self._formats)
        opened: list[Run] = []  # the last entry so far, which may continue in the next block
        for block in self.reader.blocks(handle):
            lines = self.split(block, known)
            heads = np.flatnonzero(lines.kinds if lines is not None else ())
            if lines is None or not len(heads):
                opened.append(block.run)
                if block.offset - opened[0].offset > _MOST_OPEN:  # far beyond the limit of an entry
                    yield from self._one_by_one(opened)
                    opened = []
                continue
            first, last = int(heads[0]), int(heads[-1])
            if first:
                opened.append(lines.part(0, first).run)
            yield from self._one_by_one(opened)
            if first < last and block.offset in self._owned:
                yield from self._many(lines, first, last, known)
            opened = [lines.part(last, len(lines.kinds)).run]
        if self._open_end and opened:
            self.left_out = opened[0]
        else:
            yield from self._one_by_one(opened)

    def _one_by_one(self, runs: Sequence[Run]) -> Iterator[Parsed]:
        for entry in assemble(runs, self._formats) if runs else ():
            if entry.offset not in self._owned:
                continue
            if not entry.formats:
                if entry.cut or self._is_shown(entry.data, entry.data[:_SHAPE].translate(DIGITS)):
                    yield _parse(entry, self.zone)
                continue
            parsed = _parse(entry, self.zone)
            if parsed.records or parsed.records is None or entry.cut:
                yield parsed
            else:
                self.passed += 1

    def _is_shown(self, line: bytes, shape: bytes) -> bool:
        """Whether an orphan is yielded by itself; else it is counted, unless it is blank."""
        signed = self._shapes.get(shape)
        new = signed is None
        if new or len(line) > _SHAPE:
            signed = self.signs.search(line)
        if not new and not signed:
            self.repeats[shape] += 1
            return False
        if not line.strip():
            return False
        if new and len(self._shapes) < _MOST_KEPT:
            self._shapes[shape] = bool(signed)
        return True

    def _choose_shown(self, lines: Lines, orphans: Numbers) -> Numbers:
        """The orphans to yield by themselves; the others are counted."""
        starts, ends = lines.bounds[orphans], lines.bounds[orphans + 1] - 1
        masked = lines.data.translate(DIGITS)
        upto = np.minimum(ends, starts + _SHAPE).tolist()
        shapes = [masked[start:end] for start, end in zip(starts.tolist(), upto, strict=True)]
        counts = Counter(shapes)
        asked = {shape for shape in counts if len(shape) == _SHAPE or self._shapes.get(shape, True)}
        shown: list[int] = []
        for i, shape in zip(orphans.tolist(), shapes, strict=True) if asked else ():
            if shape not in asked:
                continue
            counts[shape] -= 1
            if self._is_shown(lines.line(i), shape):
                shown.append(i)
            if len(shape) < _SHAPE and not self._shapes.get(shape, True):
                asked.remove(shape)  # all others of this shape are counted
        self.repeats.update(+counts)
        return np.array(shown, np.int64)

    def _many(self, lines: Lines, first: int, last: int, known: Knowledge) -> Iterator[Parsed]:
        """The entries that matter in lines `first` to `last`, both of which begin an entry."""
        kinds, starts = lines.kinds[first:last], lines.bounds[first:last]
        heads = np.flatnonzero(kinds)
        of = heads  # for each line, the first line of its entry
        if len(heads) < len(kinds):
            of = heads[np.cumsum(kinds != CONTINUATION) - 1]
            if int((starts - starts[of]).max()) >= ENTRY_LIMIT:
                yield from self._one_by_one((lines.part(first, last).run,))
                return
        wanted = known.find_wanted(lines.data, lines.bounds[first : last + 1], of, kinds)
        self.passed += len(heads)
        if orphans := int(np.count_nonzero(kinds == ORPHAN)):
            self.passed -= orphans
            wanted = np.union1d(wanted, self._choose_shown(lines, first + np.flatnonzero(kinds[of] == ORPHAN)) - first)
        ends = np.append(heads, len(kinds))[np.searchsorted(heads, wanted, "right")]
        bounds = lines.bounds[first : last + 1]
        number, offset = lines.number + first, lines.offset
        for i, kind, start, stop, behind in zip(
            wanted.tolist(),
            kinds[of[wanted]].tolist(),
            bounds[wanted].tolist(),
            (bounds[ends] - 1).tolist(),
            (bounds[wanted + 1] - 1).tolist(),
            strict=True,
        ):
            if kind == ORPHAN:
                line = lines.data[start:behind].removesuffix(b"\r")
                yield _parse(Entry(offset + start, number + i, (), line, False), self.zone)
                continue
            data = lines.data[start:stop]
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
            found = known.parse(kind, data, self.zone)
            if found is not None:
                self.passed -= 1
                owners, format_, records = found
                yield Parsed(Entry(offset + start, number + i, owners, data, False), format_, records)


def parse_all(entries: Iterable[Entry], zone: tzinfo) -> Iterator[Parsed]:
    return (_parse(entry, zone) for entry in entries)


def _parse(entry: Entry, zone: tzinfo) -> Parsed:
    format_, records = parse_entry(entry, zone)
    return Parsed(entry, format_, records)
