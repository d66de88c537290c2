"""Entries of files in which every line stands in a frame, perhaps of several programs in turn.

Lines are told apart behind their frames, and each program's entries are put together by themselves. An entry holds its
lines as they stand in the file. Memory is bounded by the programs whose last entry still goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fsm.logs import Format
from fsm.logs.entries import ENTRY_LIMIT, Entry, Run, assemble
from fsm.logs.fields import Table
from fsm.logs.frames import Named, clean
from fsm.logs.layout import Layout

MOST_STREAMS = 1000


@dataclass(slots=True)
class _Open:
    """The last entry of a stream."""

    offset: int
    number: int
    lines: list[bytes]
    formats: tuple[Format, ...]
    cut: bool
    partial: bool

    def entry(self) -> Entry:
        data = b"\n".join(line.removesuffix(b"\r") for line in self.lines)
        return Entry(self.offset, self.number, self.formats, data, self.cut)


def assemble_streams(
    runs: Iterable[Run], layouts: Sequence[Layout], formats: Sequence[Format], table: Table | None = None
) -> Iterator[Entry]:
    """Entries and orphans, in the order in which they end."""
    known = [one for one in formats if one.client is None]
    of_layout = [tuple(one for one in formats if getattr(one.header, "layout", None) is layout) for layout in layouts]
    tables = [frame for layout in layouts for frame in layout.frames if isinstance(frame, Named)]
    opened: dict[tuple[int, str], _Open] = {}
    for offset, number, line, was_cut in _rows(runs, table):
        if any(frame.heads(line) for frame in tables):
            continue
        text = clean(line.decode("utf-8", "replace")).removesuffix("\r")
        i, layout, told = next(
            ((i, layout, told) for i, layout in enumerate(layouts) if (told := layout.look(text)) is not None),
            (0, None, None),
        )
        if layout is None or told is None:
            (entry,) = assemble((Run(offset, number, (line,), was_cut),), known)
            yield entry
            continue
        key = (i, told.stream)
        last = opened.get(key)
        near = last is not None and offset - last.offset < ENTRY_LIMIT
        goes_on = last is not None and last.partial
        if (
            last is not None
            and near
            and (goes_on or (not layout.begins(told.text) and layout.goes_on(told.text, len(last.lines))))
        ):
            last.lines.append(line)
            last.partial, last.cut = told.partial, last.cut or was_cut
            continue
        if last is not None:
            yield last.entry()
        elif len(opened) >= MOST_STREAMS:
            yield opened.pop(min(opened, key=lambda one: opened[one].offset)).entry()
        begins = layout.begins(told.text) or told.partial
        opened[key] = _Open(offset, number, [line], of_layout[i] if begins else (), was_cut, told.partial)
    yield from (one.entry() for one in opened.values())


def _rows(runs: Iterable[Run], table: Table | None) -> Iterator[tuple[int, int, bytes, bool]]:
    """Lines with their places; rows of a table as they stand, where they have several lines."""
    row: list[bytes] = []
    begin, first, cut = 0, 0, False
    closed = table.closer() if table is not None else lambda _row: True
    for start, number_at_start, lines, was_cut in runs:
        offset, number = start, number_at_start
        for line in lines:
            if not row:
                begin, first, cut = offset, number, False
            row.append(line)
            cut = cut or was_cut
            offset, number = offset + len(line) + 1, number + 1
            if closed(row) or offset - begin >= ENTRY_LIMIT:
                yield begin, first, b"\n".join(row), cut
                row = []
    if row:
        yield begin, first, b"\n".join(row), cut
