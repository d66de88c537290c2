"""Lines scanned many at a time for the entries that may matter; the others are only counted.

Whether a line begins an entry depends on its beginning only up to the values of digits, so headers are asked once for
each distinct beginning. What entries that matter are known by is searched in all lines at once, at the speed of memory,
and only entries around it are made. `assemble` is the meaning of all of it, and does what this cannot.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import re2

from fsm.logs import Format
from fsm.logs.entries import CONTINUES, ENTRY_LIMIT, Entry, Run, assemble, join_lines

_DIGITS = bytes(48 if 48 <= i < 58 else i for i in range(256))
"""Makes all digits equal."""
_BEGINNING = 32
"""Bytes that tell whether a line begins an entry."""
_SHAPE = 400
"""Bytes of an orphan that tell its shape."""
_MOST_KEPT = 20_000
"""Distinct beginnings and shapes that are remembered."""
_GOES_ON, _ORPHAN = 0, 1
_CONTINUED = re.compile(rb"\0+")
_ORPHANS = re.compile(rb"\x01[\0\x01]*")


class Scanner:
    """Finds the entries that may matter among the lines of one piece."""

    def __init__(self, formats: Sequence[Format], marks: re.Pattern[bytes], start: int, end: int) -> None:
        self.formats = formats
        self.marks = marks
        """What makes an orphan worth being shown by itself."""
        self.owned = range(start, end)
        """Where entries begin that belong to the piece; runs do not cross its borders."""
        self.passed = 0
        """Entries that were counted and not made."""
        self.repeats: Counter[bytes] = Counter()
        """Orphans that were counted and not made, under a line of their shape."""
        self._owners: list[tuple[Format, ...]] = [(), ()]
        self._kinds: dict[bytes, int] = {}
        self._shapes: set[bytes] = set()

    def scan(self, runs: Iterable[Run]) -> Iterator[Entry]:
        """The entries of the runs that may matter, in their order."""
        opened: list[Run] = []  # from the first line of the last entry on, which may go on in the next run
        for run in runs:
            kinds = b"" if run.cut else self._kinds_of(run.lines)
            first, last = len(kinds) - len(kinds.lstrip(b"\0")), len(kinds.rstrip(b"\0")) - 1
            if last < 0:
                opened.append(run)
                if run.offset - opened[0].offset > _MOST_OPEN:  # far beyond the limit of an entry
                    yield from self._one_by_one(opened)
                    opened = []
                continue
            at = [run.offset, *accumulate((len(line) + 1 for line in run.lines[:first]), initial=run.offset)][-1]
            opened.append(Run(run.offset, run.number, run.lines[:first]))
            yield from self._one_by_one(opened)
            body = Run(at, run.number + first, run.lines[first:last])
            if body.lines:
                yield from self._many(body, kinds[first:last])
            at += sum(map(len, body.lines)) + len(body.lines)
            opened = [Run(at, run.number + last, run.lines[last:])]
        yield from self._one_by_one(opened)

    def _kinds_of(self, lines: Sequence[bytes]) -> bytes:
        """What each line is: it goes on, is an orphan, or begins an entry of some formats."""
        known = self._kinds
        if len(known) > _MOST_KEPT:
            known.clear()
        keys = [line[:_BEGINNING].translate(_DIGITS) for line in lines]
        try:
            return bytes(map(known.__getitem__, keys))
        except KeyError:
            for key, line in zip(keys, lines, strict=True):
                if key not in known:
                    known[key] = self._kind(line)
            return bytes(map(known.__getitem__, keys))

    def _kind(self, line: bytes) -> int:
        found = tuple(one for one in self.formats if line[:1] and line[0] in one.first and one.header.match(line))
        if not found:
            return _GOES_ON if CONTINUES(line) else _ORPHAN
        if found not in self._owners:
            self._owners.append(found)
        return self._owners.index(found)

    def _one_by_one(self, runs: Sequence[Run]) -> Iterator[Entry]:
        for entry in assemble(runs, self.formats):
            if entry.offset not in self.owned:
                continue
            if not entry.formats:
                yield from self._orphan(entry.offset, entry.number, entry.data, entry.cut)
            elif entry.cut or any(one.candidate.search(entry.data) for one in entry.formats):
                yield entry
            else:
                self.passed += 1

    def _orphan(self, offset: int, number: int, line: bytes, cut: bool = False) -> Iterator[Entry]:
        if not cut and not line.strip():
            return
        shape = line[:_SHAPE].translate(_DIGITS)
        if shape in self._shapes and not cut and not self.marks.search(line):
            self.repeats[shape] += 1
            return
        if len(self._shapes) < _MOST_KEPT:
            self._shapes.add(shape)
        yield Entry(offset, number, (), line.removesuffix(b"\r"), cut)

    def _many(self, run: Run, kinds: bytes) -> Iterator[Entry]:
        """The entries that may matter of lines that begin with the first line of one and end with the last of one."""
        offset, number, lines, _ = run
        if offset not in self.owned:
            return
        wanted = self._wanted(lines, kinds)
        strange = list(_ORPHANS.finditer(kinds)) if _ORPHAN in kinds else []
        if not wanted and not strange and _GOES_ON not in kinds:
            self.passed += len(kinds)
            return
        starts = list(accumulate((len(line) + 1 for line in lines), initial=offset))
        if any(starts[m.end() - 1] - starts[m.start() - 1] >= ENTRY_LIMIT for m in _CONTINUED.finditer(kinds)):
            yield from self._one_by_one((run,))
            return
        orphans = [i for m in strange for i in range(m.start(), m.end())]
        self.passed += len(kinds) - kinds.count(_GOES_ON) - kinds.count(_ORPHAN)
        for i in sorted({*wanted, *orphans}):
            if kinds[i] in (_GOES_ON, _ORPHAN):
                yield from self._orphan(starts[i], number + i, lines[i])
                continue
            behind = i + 1
            while behind < len(kinds) and kinds[behind] == _GOES_ON:
                behind += 1
            data = join_lines(lines[i], lines[i + 1 : behind]) if behind > i + 1 else lines[i].removesuffix(b"\r")
            owners = tuple(one for one in self._owners[kinds[i]] if one.candidate.search(data))
            if owners:
                self.passed -= 1
                yield Entry(starts[i], number + i, owners, data, False)

    def _wanted(self, lines: Sequence[bytes], kinds: bytes) -> set[int]:
        """The first lines of entries that hold what one of their formats needs."""
        present = sorted(set(kinds) - {_GOES_ON, _ORPHAN})
        needles = {needle for kind in present for one in self._owners[kind] for needle in one.needles}
        bare = bytes(kind for kind in present if any(not one.needles for one in self._owners[kind]))
        wanted = {i for i, kind in enumerate(kinds) if kind in bare} if bare else set()
        if not needles:
            return wanted
        block = b"\n".join(lines)
        found = places(block, sorted(needles))
        if not found:
            return wanted
        ends = list(accumulate(len(line) + 1 for line in lines))
        for place in found:
            i = bisect_right(ends, place)
            while kinds[i] == _GOES_ON:
                i -= 1
            wanted.add(i)
        return wanted


_MOST_OPEN = 4 << 20


def places(block: bytes, needles: Sequence[bytes]) -> list[int]:
    """Where any of the needles stands: one pass of an automaton for all, some 250 MB a second."""
    return [match.start() for match in _finder(tuple(needles)).finditer(block)]


@lru_cache(maxsize=64)
def _finder(needles: tuple[bytes, ...]) -> Any:
    return re2.compile(b"|".join(map(re.escape, needles)))
