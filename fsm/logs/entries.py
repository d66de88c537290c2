"""From raw lines to entries: a first line in a known layout, with the continuation lines that follow it.

Continuation lines (configuration dumps, assignment blocks, stack traces) stay with their first line while they
begin within `ENTRY_LIMIT` bytes of it; a line that has no entry near enough is an orphan. So what happens at a
byte offset depends on at most `ENTRY_LIMIT` bytes before it, and a file may be cut anywhere and read in pieces:
a piece begins reading `ENTRY_LIMIT` bytes early and keeps only what starts inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fsm.logs import Format

ENTRY_LIMIT = 64 * 1024
"""How far from the start of its first line a continuation line may begin, in bytes."""
LINE_LIMIT = 1024 * 1024
"""Longest line that is kept whole, in bytes; readers cut what is longer and say so."""


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
    """A first line and its continuation, or an orphan line (`format` is None)."""

    offset: int
    number: int
    format: Format | None
    data: bytes
    """The lines joined by newlines."""
    cut: bool


def assemble(lines: Iterable[Line], formats: Sequence[Format]) -> Iterator[Entry]:
    """Entries and orphans in the order of their first lines. Memory is bounded by one entry."""
    by_first = _by_first_byte(formats)
    head: Line | None = None
    owner: Format | None = None
    parts: list[bytes] = []
    cut = False
    for line in lines:
        found = _format_of(line.data, by_first)
        if found is None and head is not None and line.offset - head.offset < ENTRY_LIMIT:
            parts.append(line.data)
            cut = cut or line.cut
            continue
        if head is not None:
            yield Entry(head.offset, head.number, owner, b"\n".join(parts), cut)
            head = None
        if found is None:
            yield Entry(line.offset, line.number, None, line.data, line.cut)
        else:
            head, owner, parts, cut = line, found, [line.data], line.cut
    if head is not None:
        yield Entry(head.offset, head.number, owner, b"\n".join(parts), cut)


def _by_first_byte(formats: Sequence[Format]) -> list[tuple[Format, ...]]:
    return [tuple(f for f in formats if byte in f.first) for byte in range(256)]


def _format_of(data: bytes, by_first: Sequence[tuple[Format, ...]]) -> Format | None:
    if data:
        for format_ in by_first[data[0]]:
            if format_.header.match(data):
                return format_
    return None
