"""From raw lines to entries: a first line in a known layout, with the continuation lines that follow it.

Continuation lines (configuration dumps, assignment blocks, stack traces) stay with their first line while they
begin within `ENTRY_LIMIT` bytes of it. They are told by how they begin: the line of another program in the same file
is none. A line that continues no entry is an orphan. So what happens at a
byte offset depends on at most `ENTRY_LIMIT` bytes before it, and a file may be cut anywhere and read in pieces:
a piece begins reading `ENTRY_LIMIT` bytes early and keeps only what starts inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import NamedTuple

from fsm.logs import Format, Header
from fsm.logs.message import NoBearing
from fsm.trace import TraceRecord

ENTRY_LIMIT = 256 * 1024
"""How far from the start of its first line a continuation line may begin, in bytes."""
LINE_LIMIT = 1024 * 1024
"""Longest line that is kept whole, in bytes; readers cut what is longer and say so."""
_CAUSES = (b"Caused by: ", b"Suppressed: ", b"Wrapped by: ")
_THROWN = (b"Exception", b"Error", b"Throwable")
_FOLLOWING = b"Following "
_FIRM_BLANK = b"\xc2\xa0"
"""The blank that pages and chats keep from breaking, in UTF-8."""
_CONTINUES = re.compile(
    rb"[\s{}\[\]()*]|" + _FIRM_BLANK + rb"|\Z"
    rb"|" + b"|".join(_CAUSES) + rb"|[\w$]{1,100}\.[\w$.]{0,200}?(?:" + b"|".join(_THROWN) + rb")(?::|\s*\Z)"
    rb"|" + _FOLLOWING + rb"[a-z ]+\(s\) "
)
"""What a continuation line begins with: a blank or a bracket, an asterisk of a banner, the class of what was thrown,
and the only words that a client of Kafka (Streams) puts there."""
CONTINUES = _CONTINUES.match
"""Whether a line that begins no entry continues one."""
BEGINS_ANEW = re.compile(
    rb"[^\w$\s{}\[\]()*\xc2]"
    rb"|(?!" + b"|".join((*_CAUSES, _FOLLOWING)) + rb")(?:[\w$]+:|[\w$][\w$.]*(?:[^\w$.:\s]|[ \t]+[^\s]))"
).match
"""Whether a line does not continue an entry for certain, which its first 32 bytes may tell."""
CONTINUED_BY = (*_CAUSES, *_THROWN, _FOLLOWING, _FIRM_BLANK)
"""Such a line holds one of these, unless its first byte tells."""
TEXT_LIMIT = 400
"""Characters of a line that are kept to be shown."""


class Run(NamedTuple):
    """Raw lines that stand one after the other in a file, as a reader has them in hand."""

    offset: int
    """Where the first line starts in its file, in bytes."""
    number: int
    """The number of the first line, counted from 1 at the reader's first line."""
    lines: Sequence[bytes]
    """Without line feeds; a carriage return may stand at their ends."""
    cut: bool = False
    """True where this is one line of which the reader kept only the first `LINE_LIMIT` bytes."""


class Block(NamedTuple):
    """The same lines as a reader has them at first."""

    offset: int
    number: int
    data: bytes
    """Without the last line feed: no bytes are one empty line."""
    cut: bool = False

    @property
    def run(self) -> Run:
        return Run(self.offset, self.number, self.data.split(b"\n"), self.cut)


class Entry(NamedTuple):
    """A first line and its continuation, or an orphan line, which is of no format."""

    offset: int
    number: int
    formats: tuple[Format, ...]
    """Every format whose header the first line has: brokers and their clients may print alike."""
    data: bytes
    """The lines joined by newlines, without carriage returns before those."""
    cut: bool

    @property
    def format(self) -> Format | None:
        return self.formats[0] if self.formats else None


def records_of(entry: Entry, zone: tzinfo) -> Sequence[TraceRecord] | None:
    """The records of an entry: those of its first format that finds any, as `parse_entry` gives them."""
    return parse_entry(entry, zone)[1]


def parse_entry(entry: Entry, zone: tzinfo) -> tuple[Format | None, Sequence[TraceRecord] | None]:
    """The first format of an entry that finds records, if any does, and the records.

    These are `()` where the entry has no bearing, None where it should have been understood and was not, as every
    orphan that is not blank; that one format finds nothing of its own does not excuse another. The zone is for time
    stamps that carry none.
    """
    if not entry.formats:
        return None, () if not entry.data.strip() else None
    missed = concerns_nobody = False
    for format_ in entry.formats:
        hit = bool(format_.candidate.search(entry.data))
        # What a candidate is known by may stand in the part that was cut off.
        if hit or entry.cut:
            found = format_.parse(entry.data.decode("utf-8", "replace"), zone)
            if found:
                return format_, found
            missed = missed or (hit and found is None and not has_other(format_, entry.formats))
            concerns_nobody = concerns_nobody or isinstance(found, NoBearing)
    return None, None if missed and not concerns_nobody else ()


def has_other(known: Format, owners: Sequence[Format]) -> bool:
    """Whether its client speaks in a learned layout, too: that one tells whether it was understood."""
    return known.client is None and any(one.client is not None and one.name == known.name for one in owners)


def first_line(data: bytes) -> str:
    """The first line of an entry as it is shown: bounded, with a mark for whatever is no printable character."""
    line = data[: 4 * TEXT_LIMIT].split(b"\n", 1)[0].decode("utf-8", "replace")[:TEXT_LIMIT]
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def assemble(runs: Iterable[Run], formats: Sequence[Format]) -> Iterator[Entry]:
    """Entries and orphans in the order of their first lines. Memory is bounded by one run and one entry."""
    by_first, continues = headers_by_first(tuple(formats)), _CONTINUES.match
    head, head_number, first, cut = 0, 0, b"", False
    more: list[bytes] = []
    owners: tuple[Format, ...] = ()
    for start, number_at_start, lines, was_cut in runs:
        offset, number = start, number_at_start
        for line in lines:  # every line of every log comes here, and most are entries of their own: no spare calls
            found: tuple[Format, ...] = ()
            if line:
                for matches, its in by_first.get(line[0], ()):
                    if matches(line):
                        found += its
            if not found and owners and offset - head < ENTRY_LIMIT and continues(line):
                more.append(line)
                cut = cut or was_cut
            else:
                if owners:
                    yield Entry(
                        head, head_number, owners, join_lines(first, more) if more else first.removesuffix(b"\r"), cut
                    )
                if not found:
                    yield Entry(offset, number, (), line.removesuffix(b"\r"), was_cut)
                head, head_number, first, cut, owners = offset, number, line, was_cut, found
                if more:
                    more = []
            offset += len(line) + 1
            number += 1
    if owners:
        yield Entry(head, head_number, owners, join_lines(first, more), cut)


Headers = tuple[tuple[Callable[[bytes], object], tuple[Format, ...]], ...]
"""What tells a first line of some formats, and the formats; formats that share a header cost one question."""


@lru_cache(maxsize=64)
def headers_by_first(formats: tuple[Format, ...]) -> Mapping[int, Headers]:
    """The headers that a line may have, by its first byte."""
    firsts = dict.fromkeys(f.first for f in formats)
    by_firsts: dict[tuple[bytes, ...], Headers] = {}
    out: dict[int, Headers] = {}
    for byte in {byte: None for first in firsts for byte in first}:
        its = tuple(first for first in firsts if byte in first)
        if its not in by_firsts:
            by_firsts[its] = _headers([f for f in formats if f.first in its])
        out[byte] = by_firsts[its]
    return out


def _headers(formats: Sequence[Format]) -> Headers:
    shared: dict[Header, tuple[Format, ...]] = {}
    for format_ in formats:
        shared[format_.header] = (*shared.get(format_.header, ()), format_)
    return tuple((header.match, its) for header, its in shared.items())


def join_lines(first: bytes, more: Sequence[bytes]) -> bytes:
    """The data of an entry."""
    return b"\n".join((first, *more)).replace(b"\r\n", b"\n").removesuffix(b"\r")
