"""What the lines of a block are: whether they begin an entry, of which formats, or continue one.

Whether a line begins an entry depends on its first bytes, with all digits equal, so headers are matched once for each
distinct beginning. An entry that a client ignored is not parsed again if only its digits differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fsm.logs import Format
from fsm.logs.message import NoBearing
from fsm.logs.reading.beginnings import LONGEST, Beginnings, Kinds
from fsm.logs.reading.blocks import DIGITS, Numbers, line_bounds, words
from fsm.logs.reading.entries import (
    CANNOT_CONTINUE,
    CONTINUATION_WORDS,
    CONTINUES,
    MAY_BE_DATED,
    PART_SIZES,
    SMALLEST_PART,
    Block,
    Entry,
    Headers,
    find_owners,
    has_learned_format,
    headers_by_first,
    join_parts,
    parse_entry,
)
from fsm.logs.reading.joined_lines import find_glued, unfold
from fsm.trace import TraceRecord

_ORPHAN_REACH = 32
"""Bytes that decide, for most lines, that a line neither begins nor continues an entry."""
_LEARNED_REACH = 64
"""Bytes that decide that a line begins an entry of a learned layout."""
_LONGEST_KNOWN = 1000
"""Longest entries, in bytes, whose owners are cached."""
_MOST_ENTRIES = 8_000
"""Entries of a kind in the cache."""
CONTINUATION, ORPHAN = 0, 1
_NO_HEADER = 255
_PAD = b"\n" * LONGEST
_CONTINUED = np.array([CONTINUES(bytes([i])) is not None and not chr(i).isalnum() for i in range(256)])
"""By first byte: whether a line that begins no entry continues one."""
_MAY_BE_DATED = np.isin(np.arange(256), list(MAY_BE_DATED))
_AFTER_BRACKET = np.isin(np.arange(256), list(MAY_BE_DATED + b"0123456789"))
_PART_SIZES = np.array(sorted(PART_SIZES))
_WITHOUT_HEADER = np.where(_CONTINUED, CONTINUATION, _NO_HEADER).astype(np.uint8)


class Lines(NamedTuple):
    """The lines of a block, and the kind of each."""

    offset: int
    number: int
    data: bytes
    bounds: Numbers
    """Start of each line, and of a line after the last."""
    kinds: Kinds
    """`CONTINUATION`, `ORPHAN`, or the kind of the entry that the line begins."""

    def line(self, i: int) -> bytes:
        return self.data[self.bounds[i] : self.bounds[i + 1] - 1]

    def part(self, begin: int, end: int) -> Block:
        start = int(self.bounds[begin])
        return Block(self.offset + start, self.number + begin, self.data[start : int(self.bounds[end]) - 1])


def split_lines(block: Block, known: Knowledge) -> Lines:
    lines = Lines(*block[:3], line_bounds(block.data), np.empty(0, np.uint8))
    return lines._replace(kinds=known.kinds(lines))


class _Owners(NamedTuple):
    """The formats that may find records in entries that differ in digits only."""

    formats: tuple[Format, ...]
    understood: bool = False
    """Another format parsed such an entry, and it has no bearing on the audit."""


class Knowledge:
    """Caches of decisions about lines and entries in some layouts, for all files."""

    def __init__(self, formats: tuple[Format, ...]) -> None:
        self._headers = headers_by_first(formats)
        self._learned = any(one.client is not None for one in formats)
        self.owners: list[tuple[Format, ...]] = [(), ()]
        """The formats of the entries of each kind."""
        self._needles = words(*sorted({needle for one in formats for needle in one.needles}))
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

    def kinds(self, lines: Lines) -> Kinds:
        cells = np.frombuffer(lines.data + _PAD, np.uint8)
        first = cells[lines.bounds[:-1]]
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
        dated = np.flatnonzero((kinds == CONTINUATION) & _MAY_BE_DATED.take(first))
        asked = dated[_AFTER_BRACKET.take(cells[lines.bounds[dated] + 1])]
        strange = kinds == _NO_HEADER
        if strange.any():
            kinds[strange] = ORPHAN
            hits = words(*CONTINUATION_WORDS).lines(lines.data, lines.bounds)
            asked = np.append(asked, hits[strange[hits]])
        for i in asked.tolist():
            kinds[i] = CONTINUATION if CONTINUES(lines.line(i)) else ORPHAN
        sizes = np.diff(lines.bounds) - 1
        if sizes.max() >= SMALLEST_PART:
            rests = np.flatnonzero(np.isin(sizes[:-1], _PART_SIZES)) + 1
            kinds[rests[kinds[rests] == ORPHAN]] = CONTINUATION
        return kinds

    def _by_headers(self, lines: Lines, cells: Kinds, at: Numbers, reach: int) -> Kinds:
        def ask(i: int) -> tuple[int, bool]:
            line = lines.line(at[i])
            kind = self._ask(line, self._by_reach)
            if kind != _NO_HEADER:
                return kind, True
            return ORPHAN if CANNOT_CONTINUE(line, 0, reach) else kind, not self._learned

        return self._by_beginning[reach].classify(cells, lines.bounds[at], ask)

    def _ask(self, line: bytes, by_first: Mapping[int, Headers]) -> int:
        """The kind of the entry that begins with the line, or `_NO_HEADER`."""
        found = find_owners(line, by_first)
        if not found:
            return _NO_HEADER
        if found not in self.owners:
            self.owners.append(found)
            self._by_entry.append({} if all(one.needles for one in found) else None)
        return self.owners.index(found)

    def find_wanted(self, data: bytes, bounds: Numbers, of: Numbers, kinds: Kinds) -> Numbers:
        """The first lines of entries that contain a needle of their formats; `of` has the first line of each line's
        entry."""
        found = of[self._needles.lines(data, bounds)]  # in order
        found = found[np.diff(found, prepend=-1) > 0]
        present = [self.owners[kind] for kind in np.flatnonzero(np.bincount(kinds)).tolist() if kind > ORPHAN]
        for end in {one.end for owners in present for one in owners if one.end}:
            ending = [self.owners.index(owners) for owners in present if any(one.end == end for one in owners)]
            found = np.union1d(found, _find_cut(data, bounds, kinds, (end, ending)))
        sizes = np.diff(bounds) - 1
        if sizes.max() >= SMALLEST_PART:
            found = np.union1d(found, of[np.isin(sizes, _PART_SIZES)])  # a needle may be cut
        bare = [owners for owners in present if any(not one.needles for one in owners)]
        if bare:
            asked = np.isin(kinds, [self.owners.index(owners) for owners in bare])
            found = np.union1d(found, np.flatnonzero(asked))
        return found[kinds[found] > ORPHAN]

    def parse(
        self, kind: int, data: bytes, zone: tzinfo
    ) -> tuple[tuple[Format, ...], Format | None, Sequence[TraceRecord] | None] | None:
        """(formats that may find records, the format that found them or None, records or None) of an entry.

        Records are None if the entry was not understood. None if the entry has no bearing on the audit.
        """
        known = self._by_entry[kind]
        if known is None or len(data) > _LONGEST_KNOWN:
            known, data = {}, join_parts(data)
        elif len(known) > _MOST_ENTRIES:
            known.clear()
        key = data.translate(DIGITS)
        owners = known.get(key)
        if owners is None:
            owners = _Owners(tuple(one for one in self.owners[kind] if one.candidate.search(data)))
            if owners.formats and (find_glued(data, self.owners[kind]) or unfold(data) is not data):
                format_, found = parse_entry(Entry(0, 0, self.owners[kind], data, False), zone)
                return (self.owners[kind], format_, found) if found or found is None else None
            known[key] = owners
        if not owners.formats:
            return None
        text, understood, missed = data.decode("utf-8", "replace"), owners.understood, False
        for one in owners.formats:
            records = one.parse(text, zone)
            if records:
                return owners.formats, one, records
            missed = missed or (records is None and not has_learned_format(one, self.owners[kind]))
            if isinstance(records, NoBearing):
                understood = True
                left = tuple(other for other in known[key].formats if other is not one)
                known[key] = _Owners(left, understood=True)
        return (owners.formats, None, None) if missed and not understood else None


def _find_cut(data: bytes, bounds: Numbers, kinds: Kinds, ending: tuple[bytes, Sequence[int]]) -> Numbers:
    """The first lines of a client's entries of some kinds that do not end with this byte."""
    end, of_kinds = ending
    heads = np.flatnonzero(kinds)
    cells = np.frombuffer(data, np.uint8)
    last = bounds[np.append(heads[1:], len(kinds))] - 2
    last = last - (cells[last] == ord("\r"))
    odd = heads[(cells[last] != ord(end)) & np.isin(kinds[heads], of_kinds)]
    is_client = [data.find(_PREFIX, start, start + _PREFIX_WITHIN) >= 0 for start in bounds[odd].tolist()]
    found: Numbers = odd[np.array(is_client, bool)]
    return found


_PREFIX, _PREFIX_WITHIN = b"[Consumer ", 64


@lru_cache(maxsize=4)
def knowledge_of(formats: tuple[Format, ...]) -> Knowledge:
    return Knowledge(formats)
