"""Scans a piece of a file block by block for the entries that may matter; the others are only counted.

NumPy splits lines. Whether a line begins an entry depends on its first bytes, with all digits equal, so headers are
matched once for each distinct beginning. The needles of the formats are searched in a whole block at once, and only
entries with a needle are built. An entry that a client ignored is not parsed again if only its digits differ.
`assemble` and `parse_entry` define the result; they also do what this fast path cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fsm.logs import Format
from fsm.logs.message import NoBearing
from fsm.logs.reading.beginnings import LONGEST, Beginnings, Kinds
from fsm.logs.reading.blocks import Numbers, Words, words
from fsm.logs.reading.entries import (
    CANNOT_CONTINUE,
    CONTINUATION_WORDS,
    CONTINUES,
    ENTRY_LIMIT,
    Block,
    Entry,
    Headers,
    Run,
    assemble,
    has_learned_format,
    headers_by_first,
    parse_entry,
)
from fsm.logs.reading.opening import DamageTolerant
from fsm.logs.reading.pieces import PieceReader
from fsm.trace import TraceRecord

_DIGITS = bytes(48 if 48 <= i < 58 else i for i in range(256))
"""Makes all digits equal."""
_SHAPE = 400
"""Bytes of an orphan that make its shape."""
_ORPHAN_REACH = 32
"""Bytes that decide, for most lines, that a line neither begins nor continues an entry."""
_LEARNED_REACH = 64
"""Bytes that decide that a line begins an entry of a learned layout."""
_LONGEST_KNOWN = 1000
"""Longest entries, in bytes, whose owners are cached."""
_MOST_KEPT, _MOST_ENTRIES = 20_000, 8_000
"""Cache sizes: orphan shapes; entries of a kind, which are longer."""
_MOST_OPEN = 4 << 20
_CONTINUES, _ORPHAN = 0, 1
_NO_HEADER = 255
_FEED = 10
_PAD = b"\n" * LONGEST
_CONTINUED = np.array([CONTINUES(bytes([i])) is not None and not chr(i).isalnum() for i in range(256)])
"""By first byte: whether a line that begins no entry continues one."""
_WITHOUT_HEADER = np.where(_CONTINUED, _CONTINUES, _NO_HEADER).astype(np.uint8)


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
        for parsed in self.reader.read(self._scan):
            yield parsed._replace(entry=self.reader.place(parsed.entry)) if self.reader.learned.reversed else parsed

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
        known = _knowledge(self._formats)
        opened: list[Run] = []  # the last entry so far, which may continue in the next block
        for block in self.reader.blocks(handle, _count_feeds):
            lines = None if block.cut else _lines(block, known)
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
                if entry.cut or self._is_shown(entry.data, entry.data[:_SHAPE].translate(_DIGITS)):
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

    def _choose_shown(self, lines: _Lines, orphans: Numbers) -> Numbers:
        """The orphans to yield by themselves; the others are counted."""
        starts, ends = lines.bounds[orphans], lines.bounds[orphans + 1] - 1
        masked = lines.data.translate(_DIGITS)
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

    def _many(self, lines: _Lines, first: int, last: int, known: _Knowledge) -> Iterator[Parsed]:
        """The entries that matter in lines `first` to `last`, both of which begin an entry."""
        kinds, starts = lines.kinds[first:last], lines.bounds[first:last]
        heads = np.flatnonzero(kinds)
        of = heads  # for each line, the first line of its entry
        if len(heads) < len(kinds):
            of = heads[np.cumsum(kinds != _CONTINUES) - 1]
            if int((starts - starts[of]).max()) >= ENTRY_LIMIT:
                yield from self._one_by_one((lines.part(first, last).run,))
                return
        wanted = known.find_wanted(lines.data, lines.bounds[first : last + 1], of, kinds)
        self.passed += len(heads)
        if orphans := int(np.count_nonzero(kinds == _ORPHAN)):
            self.passed -= orphans
            wanted = np.union1d(wanted, self._choose_shown(lines, first + np.flatnonzero(kinds[of] == _ORPHAN)) - first)
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
            if kind == _ORPHAN:
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
    """The parsed entries."""
    return (_parse(entry, zone) for entry in entries)


def _parse(entry: Entry, zone: tzinfo) -> Parsed:
    format_, records = parse_entry(entry, zone)
    return Parsed(entry, format_, records)


class _Lines(NamedTuple):
    """The lines of a block, and the kind of each."""

    offset: int
    number: int
    data: bytes
    bounds: Numbers
    """Start of each line, and of a line after the last."""
    kinds: Kinds
    """`_CONTINUES`, `_ORPHAN`, or the kind of the entry that the line begins."""

    def line(self, i: int) -> bytes:
        return self.data[self.bounds[i] : self.bounds[i + 1] - 1]

    def part(self, begin: int, end: int) -> Block:
        start = int(self.bounds[begin])
        return Block(self.offset + start, self.number + begin, self.data[start : int(self.bounds[end]) - 1])


def _lines(block: Block, known: _Knowledge) -> _Lines:
    data = block.data
    cells = np.frombuffer(data + _PAD, np.uint8)
    feeds = np.flatnonzero(cells[: len(data)] == _FEED)
    bounds = np.empty(len(feeds) + 2, np.int64)
    bounds[0], bounds[1:-1], bounds[-1] = 0, feeds + 1, len(data) + 1
    lines = _Lines(block.offset, block.number, data, bounds, np.empty(0, np.uint8))
    return lines._replace(kinds=known.kinds(lines, cells))


class _Owners(NamedTuple):
    """The formats that may find records in entries that differ in digits only."""

    formats: tuple[Format, ...]
    understood: bool = False
    """Another format parsed such an entry, and it has no bearing on the audit."""


class _Knowledge:
    """Caches of decisions about lines and entries in some layouts, for all files."""

    def __init__(self, formats: tuple[Format, ...]) -> None:
        self._headers = headers_by_first(formats)
        self._learned = any(one.client is not None for one in formats)
        self._owners: list[tuple[Format, ...]] = [(), ()]
        each = [one for one in formats if not one.reach and one.client is None]
        self._each = [(one, np.isin(np.arange(256), list(one.first))) for one in each]
        self._by_reach = headers_by_first(tuple(one for one in formats if one.reach or one.client is not None))
        self._by_entry: list[dict[bytes, _Owners] | None] = [None, None]
        """By kind; None if a format's `candidate` looks at digits."""
        self._reach = np.where(_CONTINUED, 0, _ORPHAN_REACH).astype(np.uint8)
        """By first byte of a line: how many bytes decide whether it begins an entry."""
        for one in formats:
            firsts = np.frombuffer(one.first, np.uint8)
            self._reach[firsts] = np.maximum(self._reach[firsts], one.reach if one.client is None else _LEARNED_REACH)
        self._by_beginning = {reach: Beginnings(reach) for reach in np.unique(self._reach).tolist() if reach}

    def kinds(self, lines: _Lines, cells: Kinds) -> Kinds:
        """The kind of each line."""
        starts = lines.bounds[:-1]
        first = cells[starts]
        kinds = _WITHOUT_HEADER.take(first)
        reaches = self._reach.take(first)
        for reach in self._by_beginning:
            at = np.flatnonzero(reaches == reach)
            if len(at):
                found = self._by_headers(lines, cells, at, reach)
                kinds[at] = np.where(found == _NO_HEADER, kinds[at], found)
        for one, firsts in self._each:
            mine = firsts.take(first)
            if one.needles and mine.any():
                has = np.zeros(len(mine), bool)
                has[words(*one.needles).lines(lines.data, lines.bounds)] = True
                mine &= has
            for i in np.flatnonzero(mine).tolist():
                kind = self._ask(lines.line(i), self._headers)
                kinds[i] = kinds[i] if kind == _NO_HEADER else kind
        strange = kinds == _NO_HEADER
        if strange.any():
            kinds[strange] = _ORPHAN
            hits = words(*CONTINUATION_WORDS).lines(lines.data, lines.bounds)
            for i in hits[strange[hits]].tolist():
                kinds[i] = _CONTINUES if CONTINUES(lines.line(i)) else _ORPHAN
        return kinds

    def _by_headers(self, lines: _Lines, cells: Kinds, at: Numbers, reach: int) -> Kinds:
        def ask(i: int) -> tuple[int, bool]:
            line = lines.line(at[i])
            kind = self._ask(line, self._by_reach)
            if kind != _NO_HEADER:
                return kind, True
            return _ORPHAN if CANNOT_CONTINUE(line, 0, reach) else kind, not self._learned

        return self._by_beginning[reach].classify(cells, lines.bounds[at], ask)

    def _ask(self, line: bytes, by_first: Mapping[int, Headers]) -> int:
        """The kind of the entry that begins with the line, or `_NO_HEADER`."""
        headers = by_first.get(line[0], ()) if line else ()
        found = tuple(one for matches, its in headers if matches(line) for one in its)
        if not found:
            return _NO_HEADER
        if found not in self._owners:
            self._owners.append(found)
            self._by_entry.append({} if all(one.needles for one in found) else None)
        return self._owners.index(found)

    def find_wanted(self, data: bytes, bounds: Numbers, of: Numbers, kinds: Kinds) -> Numbers:
        """The first lines of entries that contain a needle of their formats; `of` has the first line of each line's
        entry."""
        present = [self._owners[kind] for kind in np.flatnonzero(np.bincount(kinds)).tolist() if kind > _ORPHAN]
        needles = sorted({needle for owners in present for one in owners for needle in one.needles})
        found = of[words(*needles).lines(data, bounds)]  # in order
        found = found[np.diff(found, prepend=-1) > 0]
        bare = [owners for owners in present if any(not one.needles for one in owners)]
        if bare:
            asked = np.isin(kinds, [self._owners.index(owners) for owners in bare])
            found = np.union1d(found, np.flatnonzero(asked))
        return found[kinds[found] > _ORPHAN]

    def parse(
        self, kind: int, data: bytes, zone: tzinfo
    ) -> tuple[tuple[Format, ...], Format | None, Sequence[TraceRecord] | None] | None:
        """(formats that may find records, the format that found them or None, records or None) of an entry.

        Records are None if the entry was not understood. None if the entry has no bearing on the audit.
        """
        known = self._by_entry[kind]
        if known is None or len(data) > _LONGEST_KNOWN:
            known = {}
        elif len(known) > _MOST_ENTRIES:
            known.clear()
        key = data.translate(_DIGITS)
        owners = known.get(key)
        if owners is None:
            owners = _Owners(tuple(one for one in self._owners[kind] if one.candidate.search(data)))
            known[key] = owners
        if not owners.formats:
            return None
        text, understood, missed = data.decode("utf-8", "replace"), owners.understood, False
        for one in owners.formats:
            records = one.parse(text, zone)
            if records:
                return owners.formats, one, records
            missed = missed or (records is None and not has_learned_format(one, self._owners[kind]))
            if isinstance(records, NoBearing):
                understood = True
                left = tuple(other for other in known[key].formats if other is not one)
                known[key] = _Owners(left, understood=True)
        return (owners.formats, None, None) if missed and not understood else None


def _count_feeds(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _FEED))


@lru_cache(maxsize=4)
def _knowledge(formats: tuple[Format, ...]) -> _Knowledge:
    return _Knowledge(formats)
