"""From raw lines to entries: a first line in a known layout, with the continuation lines that follow it.

Continuation lines (configuration dumps, assignment blocks, stack traces) stay with their first line while they
begin within `ENTRY_LIMIT` bytes of it; a line that has no entry near enough is an orphan. So what happens at a
byte offset depends on at most `ENTRY_LIMIT` bytes before it, and a file may be cut anywhere and read in pieces:
a piece begins reading `ENTRY_LIMIT` bytes early and keeps only what starts inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from fsm.logs import Format
from fsm.trace import TraceRecord

ENTRY_LIMIT = 256 * 1024
"""How far from the start of its first line a continuation line may begin, in bytes."""
LINE_LIMIT = 1024 * 1024
"""Longest line that is kept whole, in bytes; readers cut what is longer and say so."""
TEXT_LIMIT = 400
"""Characters of a line that are kept to be shown."""


class Line(NamedTuple):
    """A raw line without its line end."""

    offset: int
    """Where it starts in its file, in bytes."""
    number: int
    """Counted from 1 at the reader's first line."""
    data: bytes
    cut: bool = False
    """True where the reader kept only the first `LINE_LIMIT` bytes."""


class Entry(NamedTuple):
    """A first line and its continuation, or an orphan line, which is of no format."""

    offset: int
    number: int
    formats: tuple[Format, ...]
    """Every format whose header the first line has: brokers and their clients may print alike."""
    data: bytes
    """The lines joined by newlines."""
    cut: bool

    @property
    def format(self) -> Format | None:
        """The first of the formats; None for an orphan."""
        return self.formats[0] if self.formats else None


def records_of(entry: Entry, zone: tzinfo) -> Sequence[TraceRecord] | None:
    """The records of an entry: those of its first format that finds any.

    `()` where the entry has no bearing, None where it should have been understood and was not, as every orphan that is
    not blank. The zone is for time stamps that carry none.
    """
    if not entry.formats:
        return () if not entry.data.strip() else None
    understood: set[bool] = set()
    for format_ in entry.formats:
        hit = format_.candidate.search(entry.data) is not None
        # What a candidate is known by may stand in the part that was cut off.
        if hit or entry.cut:
            found = format_.parse(entry.data.decode("utf-8", "replace"), zone)
            if found:
                return found
            if hit:
                understood.add(found is not None)
    return None if understood == {False} else ()


def first_line(data: bytes) -> str:
    """The first line of an entry as it is shown: bounded, with a mark for whatever is no printable character."""
    line = data[: 4 * TEXT_LIMIT].split(b"\n", 1)[0].decode("utf-8", "replace")[:TEXT_LIMIT]
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def assemble(lines: Iterable[Line], formats: Sequence[Format]) -> Iterator[Entry]:
    """Entries and orphans in the order of their first lines. Memory is bounded by one entry."""
    by_first = _by_first_byte(formats)
    head: Line | None = None
    owners: tuple[Format, ...] = ()
    parts: list[bytes] = []
    cut = False
    for line in lines:
        found = _formats_of(line.data, by_first)
        if not found and head is not None and line.offset - head.offset < ENTRY_LIMIT:
            parts.append(line.data)
            cut = cut or line.cut
            continue
        if head is not None:
            yield Entry(head.offset, head.number, owners, b"\n".join(parts), cut)
            head = None
        if not found:
            yield Entry(line.offset, line.number, (), line.data, line.cut)
        else:
            head, owners, parts, cut = line, found, [line.data], line.cut
    if head is not None:
        yield Entry(head.offset, head.number, owners, b"\n".join(parts), cut)


def _by_first_byte(formats: Sequence[Format]) -> list[tuple[Format, ...]]:
    return [tuple(f for f in formats if byte in f.first) for byte in range(256)]


def _formats_of(data: bytes, by_first: Sequence[tuple[Format, ...]]) -> tuple[Format, ...]:
    return tuple(f for f in by_first[data[0]] if f.header.match(data)) if data else ()
