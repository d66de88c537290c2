"""A piece of a file scanned many lines at a time for the entries that may matter; the others are only counted.

Lines are told apart by NumPy. Whether a line begins an entry depends on its beginning, in which one digit is like
another, so headers are asked once for each distinct beginning. What entries that matter are known by is searched in a
whole block at once, and only entries around it are made. What a client ignored once, whatever its digits, is not parsed
again. `assemble` and `parse_entry` are the meaning of all of it, and do what this cannot.
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
    BEGINS_ANEW,
    CONTINUED_BY,
    CONTINUES,
    ENTRY_LIMIT,
    Block,
    Entry,
    Headers,
    Run,
    assemble,
    has_other,
    headers_by_first,
    parse_entry,
)
from fsm.logs.reading.opening import UntilBroken
from fsm.logs.reading.pieces import PieceReader
from fsm.trace import TraceRecord

_DIGITS = bytes(48 if 48 <= i < 58 else i for i in range(256))
"""Makes all digits equal."""
_SHAPE = 400
"""Bytes of an orphan that tell its shape."""
_ORPHAN_REACH = 32
"""Bytes by which most lines are known that begin no entry and continue none."""
_LEARNED_REACH = 64
"""Bytes by which a line is known to begin an entry of a learned layout, once one was seen."""
_LONGEST_KNOWN = 1000
"""Bytes of entries whose owners are remembered."""
_MOST_KEPT, _MOST_ENTRIES = 20_000, 8_000
"""Distinct beginnings and shapes that are remembered, and distinct entries of a kind, which are longer."""
_MOST_OPEN = 4 << 20
_GOES_ON, _ORPHAN = 0, 1
_NO_HEADER = 255
_FEED = 10
_PAD = b"\n" * LONGEST
_CONTINUED = np.array([CONTINUES(bytes([i])) is not None and not chr(i).isalnum() for i in range(256)])
"""Whether any line that begins with a byte continues an entry, where it begins none."""
_WITHOUT_HEADER = np.where(_CONTINUED, _GOES_ON, _NO_HEADER).astype(np.uint8)


class Parsed(NamedTuple):
    """An entry that matters, or an orphan."""

    entry: Entry
    format: Format | None
    """The first format that finds records, if any does."""
    records: Sequence[TraceRecord] | None
    """As `parse_entry` gives them."""


class Scanner:
    """Scans one piece. Its counts are complete once `scan` is exhausted."""

    def __init__(self, reader: PieceReader, signs: Words, zone: tzinfo, *, open_end: bool = False) -> None:
        self.reader = reader
        self.signs = signs
        """What makes an orphan worth being shown by itself; they hold no digits."""
        self.zone = zone
        self.passed = 0
        """Entries that were counted and not made."""
        self.repeats: Counter[bytes] = Counter()
        """Orphans that were counted and not made, under a line of their shape."""
        self._owned = range(reader.piece.start, reader.piece.end)
        self._shapes: dict[bytes, bool] = {}
        """Those of orphans, and whether they hold a sign."""
        self._formats: tuple[Format, ...] = ()
        self._open_end = open_end
        """The last entry may go on in what the file does not hold yet: it is left out. Not of framed entries."""
        self.left_out: Run | None = None
        """Its first lines."""

    def scan(self) -> Iterator[Parsed]:
        """The entries in which a client was understood, or should have been, and of the orphans that hold no mark of a
        client one of each shape.

        Raises one of `READ_ERRORS` where the file cannot be read any further; what came before stands.
        """
        for parsed in self.reader.read(self._scan):
            yield parsed._replace(entry=self.reader.place(parsed.entry)) if self.reader.learned.reversed else parsed

    def _scan(self, handle: UntilBroken) -> Iterator[Parsed]:
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
        opened: list[Run] = []  # from the first line of the last entry on, which may go on in the next block
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
                if entry.cut or self._shows(entry.data, entry.data[:_SHAPE].translate(_DIGITS)):
                    yield _parse(entry, self.zone)
                continue
            parsed = _parse(entry, self.zone)
            if parsed.records or parsed.records is None or entry.cut:
                yield parsed
            else:
                self.passed += 1

    def _shows(self, line: bytes, shape: bytes) -> bool:
        """Whether an orphan is shown by itself; it is counted otherwise, unless it is blank."""
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
        """Which orphans are shown by themselves; the others are counted."""
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
            if self._shows(lines.line(i), shape):
                shown.append(i)
            if len(shape) < _SHAPE and not self._shapes.get(shape, True):
                asked.remove(shape)  # all others of it are counted
        self.repeats.update(+counts)
        return np.array(shown, np.int64)

    def _many(self, lines: _Lines, first: int, last: int, known: _Knowledge) -> Iterator[Parsed]:
        """The entries that matter from the first line of one up to the first line of another."""
        kinds, starts = lines.kinds[first:last], lines.bounds[first:last]
        heads = np.flatnonzero(kinds)
        of = heads  # the first line to which each line belongs
        if len(heads) < len(kinds):
            of = heads[np.cumsum(kinds != _GOES_ON) - 1]
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
    """What all entries say."""
    return (_parse(entry, zone) for entry in entries)


def _parse(entry: Entry, zone: tzinfo) -> Parsed:
    format_, records = parse_entry(entry, zone)
    return Parsed(entry, format_, records)


class _Lines(NamedTuple):
    """The lines of a block, and what each of them is."""

    offset: int
    number: int
    data: bytes
    bounds: Numbers
    """Where each line starts, and where one behind the last would."""
    kinds: Kinds
    """It goes on, is an orphan, or begins an entry of some formats."""

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
    """Who may make records of entries that differ in digits only."""

    formats: tuple[Format, ...]
    understood: bool = False
    """Somebody else knows what they mean: nothing that concerns him."""


class _Knowledge:
    """What was found out about lines and entries in some layouts, whatever the file."""

    def __init__(self, formats: tuple[Format, ...]) -> None:
        self._headers = headers_by_first(formats)
        self._learned = any(one.client is not None for one in formats)
        self._owners: list[tuple[Format, ...]] = [(), ()]
        each = [one for one in formats if not one.reach and one.client is None]
        self._each = [(one, np.isin(np.arange(256), list(one.first))) for one in each]
        self._by_reach = headers_by_first(tuple(one for one in formats if one.reach or one.client is not None))
        self._by_entry: list[dict[bytes, _Owners] | None] = [None, None]
        """Of each kind; none where a format asks for digits."""
        self._reach = np.where(_CONTINUED, 0, _ORPHAN_REACH).astype(np.uint8)
        """By the first byte of a line: how many bytes tell whether it begins an entry, or none."""
        for one in formats:
            firsts = np.frombuffer(one.first, np.uint8)
            self._reach[firsts] = np.maximum(self._reach[firsts], one.reach if one.client is None else _LEARNED_REACH)
        self._by_beginning = {reach: Beginnings(reach) for reach in np.unique(self._reach).tolist() if reach}

    def kinds(self, lines: _Lines, cells: Kinds) -> Kinds:
        """What each line is."""
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
            hits = words(*CONTINUED_BY).lines(lines.data, lines.bounds)
            for i in hits[strange[hits]].tolist():
                kinds[i] = _GOES_ON if CONTINUES(lines.line(i)) else _ORPHAN
        return kinds

    def _by_headers(self, lines: _Lines, cells: Kinds, at: Numbers, reach: int) -> Kinds:
        def ask(i: int) -> tuple[int, bool]:
            line = lines.line(at[i])
            kind = self._ask(line, self._by_reach)
            if kind != _NO_HEADER:
                return kind, True
            return _ORPHAN if BEGINS_ANEW(line, 0, reach) else kind, not self._learned

        return self._by_beginning[reach].kinds(cells, lines.bounds[at], ask)

    def _ask(self, line: bytes, by_first: Mapping[int, Headers]) -> int:
        """Whose entry begins with the line, by these headers."""
        headers = by_first.get(line[0], ()) if line else ()
        found = tuple(one for matches, its in headers if matches(line) for one in its)
        if not found:
            return _NO_HEADER
        if found not in self._owners:
            self._owners.append(found)
            self._by_entry.append({} if all(one.needles for one in found) else None)
        return self._owners.index(found)

    def find_wanted(self, data: bytes, bounds: Numbers, of: Numbers, kinds: Kinds) -> Numbers:
        """The first lines of entries that hold what one of their formats needs; `of` has the first line of each line's
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
        """Who may make records of an entry, who does, and the records, or None where it was not understood; nothing
        where it has no bearing."""
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
            missed = missed or (records is None and not has_other(one, self._owners[kind]))
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
