"""Assembles the entries of files in which every line has a frame, possibly with the lines of several programs
interleaved.

Lines are unframed and assigned to streams, and the entries of each stream are assembled separately. An entry keeps its
lines as they are in the file. Memory is bounded by the number of streams with an open entry.

`assemble_streams` is the reference implementation. `StreamScanner` unframes only the lines that contain client marks,
and the lines around them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fsm.logs import Client, Format
from fsm.logs.exports.tables import End, Table, rows_of
from fsm.logs.layouts.frames import GAP, Named, Peeled, clean
from fsm.logs.layouts.layout import Layout
from fsm.logs.reading.beginnings import LONGEST, Beginnings
from fsm.logs.reading.blocks import Numbers, line_bounds, words
from fsm.logs.reading.entries import (
    ENTRY_LIMIT,
    SMALLEST_PART,
    Block,
    Entry,
    Run,
    find_owners,
    headers_by_first,
)

MOST_STREAMS = 1000


class _Line(NamedTuple):
    """A line of a file, unframed."""

    offset: int
    number: int
    data: bytes
    cut: bool
    layout: int
    """The number of its layout."""
    key: tuple[int, str]
    """The number of the first layout with the same frames, and the stream."""
    peeled: Peeled


@dataclass(slots=True)
class _Open:
    """The last entry of a stream, which may still continue."""

    offset: int
    number: int
    lines: list[bytes]
    formats: tuple[Format, ...]
    cut: bool
    partial: bool
    is_part: bool
    """The last line has the length after which collectors cut."""

    def entry(self) -> Entry:
        data = b"\n".join(line.removesuffix(b"\r") for line in self.lines)
        return Entry(self.offset, self.number, self.formats, data, self.cut)


class _Streams:
    """The last entry of each stream."""

    def __init__(self, layouts: Sequence[Layout], formats: Sequence[Format]) -> None:
        self.layouts = layouts
        self.known = headers_by_first(tuple(one for one in formats if one.client is None))
        self.of_layout = [
            tuple(one for one in formats if getattr(one.header, "layout", None) is layout) for layout in layouts
        ]
        framing = [([frame.name for frame in one.frames], one.repeated, one.stream_groups) for one in layouts]
        self.families = [framing.index(one) for one in framing]
        """For each layout the first one with the same frames: their lines are in the same streams."""
        self.opened: dict[tuple[int, str], _Open] = {}
        """In the order in which the entries begin."""

    def look(self, line: bytes) -> tuple[int, Peeled] | None:
        """The number of the layout of a line, and the unframed line; None if no layout matches. If several layouts have
        the same frames, it is the one whose header leaves the shortest message, or else the one whose entry the line
        may continue."""
        text = clean(line.decode("utf-8", "replace")).removesuffix("\r")
        looks = ((i, layout.look(text)) for i, layout in enumerate(self.layouts))
        found = [(i, peeled) for i, peeled in looks if peeled is not None]
        if len(found) < 2:
            return found[0] if found else None
        # Without frames, any text may be a line of an entry.
        found = [one for one in found if self.layouts[one[0]].frames] or found
        headed = [
            (len(split[1]), i, peeled) for i, peeled in found if (split := self.layouts[i].split_header(peeled.text))
        ]
        return min(headed)[1:] if headed else max(found, key=self._rank)

    def _rank(self, found: tuple[int, Peeled]) -> tuple[bool, bool, int]:
        """Whether a line without a header may continue an entry of a layout, whether it may begin one, and where the
        last one begins."""
        i, peeled = found
        layout, last = self.layouts[i], self.opened.get((self.families[i], peeled.stream))
        begins = layout.begins(peeled.text)
        continues = not begins and layout.continues_entry(peeled.text, len(last.lines) if last is not None else 0)
        return continues, bool(layout.headers) and begins, last.offset if last is not None else -1

    def place(self, offset: int, number: int, line: bytes, cut: bool, found: tuple[int, Peeled]) -> _Line:
        """A line in the stream of its layout."""
        layout, peeled = found
        return _Line(offset, number, line, cut, layout, (self.families[layout], peeled.stream), peeled)

    def continues_entry(self, line: _Line) -> bool:
        """Whether a line continues the last entry of its stream."""
        layout, last = self.layouts[line.layout], self.opened.get(line.key)
        if last is None or line.offset - last.offset >= ENTRY_LIMIT:
            return False
        text = line.peeled.text
        if last.partial or layout.begins(text):
            return last.partial
        return last.is_part or layout.continues_entry(text, len(last.lines))

    def take(self, line: _Line) -> Iterator[Entry]:
        """The entries that a line completes."""
        if self.layouts[line.layout].upside_down:
            yield from self._take_last(line)
            return
        if self.continues_entry(line):
            last = self.opened[line.key]
            last.lines.append(line.data)
            last.partial, last.cut = line.peeled.partial, last.cut or line.cut
            last.is_part = self._is_part(line)
            return
        yield from self.close(line.key)
        if len(self.opened) >= MOST_STREAMS:
            yield from self.close(next(iter(self.opened)))
        i, peeled = line.layout, line.peeled
        begins = self.layouts[i].begins(peeled.text) or peeled.partial
        formats = self.of_layout[i] if begins else ()
        self.opened[line.key] = _Open(
            line.offset, line.number, [line.data], formats, line.cut, peeled.partial, self._is_part(line)
        )

    def _is_part(self, line: _Line) -> bool:
        return len(line.data) >= SMALLEST_PART and self.layouts[line.layout].is_part(line.data, line.peeled.text)

    def _take_last(self, line: _Line) -> Iterator[Entry]:
        """The entry of a line with the lines above it, which follow it in time."""
        layout, text = self.layouts[line.layout], line.peeled.text
        above = self.opened.get(line.key)
        if above is not None and line.offset - above.offset >= ENTRY_LIMIT:
            yield from self.close(line.key)
            above = None
        if layout.begins(text) or not layout.continues_entry(text, 0):
            lines, cut = (above.lines[::-1], above.cut) if above is not None else ([], False)
            self.opened.pop(line.key, None)
            formats = self.of_layout[line.layout] if layout.begins(text) else ()
            yield _Open(line.offset, line.number, [line.data, *lines], formats, line.cut or cut, False, False).entry()
        elif above is not None:
            above.lines.append(line.data)
        else:
            self.opened[line.key] = _Open(line.offset, line.number, [line.data], (), line.cut, False, False)
            if len(self.opened) > MOST_STREAMS:
                yield from self.close(next(iter(self.opened)))

    def make_orphan(self, offset: int, number: int, line: bytes, cut: bool) -> Iterator[Entry]:
        """A line in none of the layouts is an entry of its own. No entry continues after a gap."""
        if line == GAP:
            yield from self.finish()
            self.opened.clear()
        yield Entry(offset, number, find_owners(line, self.known), line.removesuffix(b"\r"), cut)

    def close(self, key: tuple[int, str]) -> Iterator[Entry]:
        """The last entry of a stream, if it is open."""
        last = self.opened.pop(key, None)
        if last is not None:
            yield last.entry()

    def finish(self) -> Iterator[Entry]:
        """The last entries of all streams."""
        yield from (one.entry() for one in self.opened.values())


def assemble_streams(
    runs: Iterable[Run], layouts: Sequence[Layout], formats: Sequence[Format], table: Table | None = None
) -> Iterator[Entry]:
    """Entries and orphans, in the order in which they end. Raises EOFError behind them if a document ends in the
    middle."""
    streams = _Streams(layouts, formats)
    tables = [frame for layout in layouts for frame in layout.frames if isinstance(frame, Named)]
    end = End()
    for offset, number, line, cut in rows_of(runs, table, end):
        if any(frame.is_header(line) for frame in tables):
            continue
        found = streams.look(line)
        if found is None:
            yield from streams.make_orphan(offset, number, line, cut)
        else:
            yield from streams.take(streams.place(offset, number, line, cut, found))
    yield from streams.finish()
    if end.is_cut:
        raise EOFError("its JSON ends in the middle")


_BEGINS, _CONTINUES, _OTHER = range(3)
"""The kind of an unframed line: the first of an entry, a continuation, or anything else, such as part of a line."""
_REACH, _FARTHEST = 48, 512
"""Bytes of an unframed line that decide whether it begins an entry, and bytes of a whole line if the length of its
frame is unknown."""
_PAD = b"\n" * LONGEST


class _Part(NamedTuple):
    """A run of lines with their offsets and kinds."""

    run: Run
    starts: list[int]
    kinds: bytes

    def place(self, i: int) -> tuple[int, int, bytes, bool]:
        """The offset and number of a line, the line, and whether it is cut."""
        return self.starts[i], self.run.number + i, self.run.lines[i], self.run.cut


class StreamScanner:
    """Finds the potentially relevant entries among the framed lines of one piece."""

    def __init__(
        self, layouts: Sequence[Layout], formats: Sequence[Format], clients: Sequence[Client], owned: range
    ) -> None:
        self.passed = 0
        """Entries that were counted but not created."""
        self._owned = owned
        self._streams = _Streams(layouts, formats)
        hidden = (needle for layout in layouts for needle in layout.hidden)
        self._marks = words(*(mark for client in clients for mark in client.marks), *hidden)
        reach = max(map(_measure_reach, layouts))
        self._kinds = Beginnings(min(reach, LONGEST))
        self._reach_suffices = reach <= LONGEST
        """Whether the first bytes of a line determine its kind."""
        self._whole_lines = any(
            isinstance(frame, Named) and frame.whole_lines for one in layouts for frame in one.frames
        )
        self._open: dict[tuple[int, str], int] = {}
        """The streams whose last entry was created and may continue, and its offset, the oldest first."""

    def scan(self, blocks: Iterable[Block]) -> Iterator[Entry]:
        """The potentially relevant entries, in the order in which they end. The others are only counted, if they begin
        in the piece. No block crosses the piece's borders."""
        before = _Part(Run(0, 0, ()), [], b"")
        for block in blocks:
            run = block.run
            bounds = line_bounds(block.data)
            part = _Part(run, (bounds + run.offset).tolist(), self._classify(run.lines, block.data, bounds))
            self.passed += part.kinds.count(_BEGINS) if run.offset in self._owned else 0
            marked = self._marks.lines(block.data, bounds).tolist()
            for line, begins in self._near_marks(part, before, marked):
                self.passed -= begins and line.offset in self._owned
                yield from self._streams.take(line) if line.layout >= 0 else self._streams.make_orphan(*line[:4])
            yield from self._close_old(part.starts[-1])
            before = part
        yield from self._streams.finish()

    def _near_marks(self, part: _Part, before: _Part, marked: Sequence[int]) -> Iterator[tuple[_Line, bool]]:
        """The lines to process, and whether each begins an entry: lines with marks, the other lines of their entries,
        and lines of kind `_OTHER`."""
        lines, kinds = part.run.lines, part.kinds
        chosen = set(marked)
        chosen.update(i for i, kind in enumerate(kinds) if kind == _OTHER)
        order = sorted(chosen)
        at = -1
        while True:
            at += 1
            if not self._open:
                place = bisect_left(order, at)
                at = order[place] if place < len(order) else len(lines)
            if at >= len(lines):
                return
            looked = self._streams.look(lines[at])
            if looked is None:
                if at in chosen:
                    yield _Line(*part.place(at), *_NO_LAYOUT), False
                continue
            line = self._streams.place(*part.place(at), looked)
            if at in chosen:
                if kinds[at] == _CONTINUES and line.key not in self._open:
                    yield from self._find_lines_above(line, part, at, before)
                self._open.pop(line.key, None)
                self._open[line.key] = line.offset
                yield line, kinds[at] == _BEGINS
            elif line.key in self._open:
                if self._streams.continues_entry(line):
                    yield line, False
                else:
                    del self._open[line.key]

    def _find_lines_above(self, line: _Line, part: _Part, at: int, before: _Part) -> Iterator[tuple[_Line, bool]]:
        """The lines of an entry that precede one of its continuation lines."""
        out: list[tuple[_Line, bool]] = []
        for one, end in ((part, at), (before, len(before.kinds))):
            for i in range(end - 1, -1, -1):
                if line.offset - one.starts[i] >= ENTRY_LIMIT:
                    return
                looked = self._streams.look(one.run.lines[i]) if one.kinds[i] != _OTHER else None
                above = self._streams.place(*one.place(i), looked) if looked is not None else None
                if above is not None and above.key == line.key:
                    out.append((above, one.kinds[i] == _BEGINS))
                    if one.kinds[i] == _BEGINS:
                        yield from reversed(out)
                        return

    def _close_old(self, offset: int) -> Iterator[Entry]:
        """Closes the entries that are too far back to continue."""
        while self._open and offset - next(iter(self._open.values())) >= ENTRY_LIMIT:
            key = next(iter(self._open))
            del self._open[key]
            yield from self._streams.close(key)

    def _classify(self, lines: Sequence[bytes], data: bytes, bounds: Numbers) -> bytes:
        cells = np.frombuffer(data + _PAD, np.uint8)
        kinds = self._kinds.classify(
            cells, bounds[:-1], lambda i: (self._classify_line(lines[i]), self._reach_suffices)
        ).tobytes()
        if self._whole_lines and not all(ends := [_LINE_FEED in line for line in lines]):
            kinds = bytes(kind if end else _OTHER for kind, end in zip(kinds, ends, strict=True))
        return kinds

    def _classify_line(self, line: bytes) -> int:
        found = self._streams.look(line)
        if found is None or found[1].partial:
            return _OTHER
        layout, text = self._streams.layouts[found[0]], found[1].text
        return _BEGINS if layout.begins(text) else _CONTINUES if layout.continues_entry(text, 0) else _OTHER


_NO_LAYOUT = (-1, (-1, ""), Peeled(""))
_LINE_FEED = b'\\n"'


def _measure_reach(layout: Layout) -> int:
    example = layout.description.example
    peeled = layout.look(clean(example))
    place = example.find(peeled.text[:12]) if peeled is not None else -1
    if peeled is None or place < 0:
        return _FARTHEST
    above = layout.repeated.match(peeled.text) if layout.repeated is not None else None
    return place + (above.end() if above else 0) + _REACH
