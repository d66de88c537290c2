"""Assembles raw lines into entries: a first line in a known layout and the continuation lines after it.

A continuation line (configuration dump, assignment block, stack trace) belongs to its entry if it starts within
`ENTRY_LIMIT` bytes of the first line. It is recognised by its beginning, so that lines of another program in the same
file are not taken for one. A line outside any entry is an orphan. What happens at a byte offset therefore depends on at
most `ENTRY_LIMIT` bytes before it, and a file may be cut anywhere and read in pieces: reading starts `ENTRY_LIMIT`
bytes before the piece and keeps only what starts inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from fsm.logs import Format, Header
from fsm.logs.message import NoBearing
from fsm.logs.reading.joined_lines import MOST_GLUED, find_glued, unfold
from fsm.trace import TraceRecord

ENTRY_LIMIT = 256 * 1024
"""Largest distance between the start of an entry and the start of a continuation line, in bytes."""
LINE_LIMIT = 1024 * 1024
"""Longest line that is kept whole, in bytes; readers cut longer lines and set `cut`."""
_CAUSES = (b"Caused by: ", b"Suppressed: ", b"Wrapped by: ")
_THROWN = (b"Exception", b"Error", b"Throwable")
_FOLLOWING = b"Following "
_NO_BREAK_SPACE = b"\xc2\xa0"
"""The no-break space of web pages and chats, in UTF-8."""
MAY_BE_DATED = b"[(*"
"""First bytes of continuation lines that may stand before the date of a line of another layout, too."""
_CONTINUES = re.compile(
    rb"[\s})\]]|[\[(*](?![\[(*]{0,3}\d{4}-\d\d-\d\d[ T]\d\d:)|\{[\w.-]{1,250}=\[|" + _NO_BREAK_SPACE + rb"|\Z"
    rb"|" + b"|".join(_CAUSES) + rb"|[\w$]{1,100}\.[\w$.]{0,200}?(?:" + b"|".join(_THROWN) + rb")(?::|\s*\Z)"
    rb"|" + _FOLLOWING + rb"[a-z ]+\(s\) "
)
"""A continuation line begins with a blank, a bracket but that of a JSON object, an asterisk of a banner, the class of
an exception, or the only words that a client of Kafka (Streams) puts there. What has a time in brackets or behind
asterisks is a line of another layout, or one that was made bold."""
CONTINUES = _CONTINUES.match
"""Matches a line that continues an entry, if the line does not begin one."""
CANNOT_CONTINUE = re.compile(
    rb"[^\w$\s{}\[\]()*\xc2]"
    rb"|(?!" + b"|".join((*_CAUSES, _FOLLOWING)) + rb")(?:[\w$]+:|[\w$][\w$.]*(?:[^\w$.:\s]|[ \t]+[^\s]))"
).match
"""Matches a line that certainly does not continue an entry; its first 32 bytes decide."""
CONTINUATION_WORDS = (*_CAUSES, *_THROWN, _FOLLOWING, _NO_BREAK_SPACE, b"=[")
"""A continuation line contains one of these, unless its first byte identifies it."""
PART_SIZES = frozenset(kib * 1024 - less for kib in (1, 2, 4, 8, 16, 32, 48, 64) for less in (0, 1))
"""Bytes after which collectors cut a line in two: syslog's after 1 or 2 KiB, journald's after 2 or 48, Docker's after
16. What follows a line of such a length and begins no entry is the rest of it."""
SMALLEST_PART = min(PART_SIZES)
TEXT_LIMIT = 400
"""Characters of a line that are kept for display."""


class Run(NamedTuple):
    """Consecutive raw lines of a file."""

    offset: int
    """Byte offset of the first line in the file."""
    number: int
    """The number of the first line, counted from 1 at the reader's first line."""
    lines: Sequence[bytes]
    """Without line feeds; may end with a carriage return."""
    cut: bool = False
    """This is a single line of which only the first `LINE_LIMIT` bytes were kept."""


class Block(NamedTuple):
    """The lines of a `Run` as one byte string, before they are split."""

    offset: int
    number: int
    data: bytes
    """Without the last line feed: empty data is one empty line."""
    cut: bool = False

    @property
    def run(self) -> Run:
        return Run(self.offset, self.number, self.data.split(b"\n"), self.cut)


class Entry(NamedTuple):
    """A first line and its continuation lines, or an orphan line, which has no formats."""

    offset: int
    number: int
    formats: tuple[Format, ...]
    """All formats whose header matches the first line; brokers and their clients may share a layout."""
    data: bytes
    """The lines joined by newlines, with the carriage returns before the newlines removed."""
    cut: bool

    @property
    def format(self) -> Format | None:
        return self.formats[0] if self.formats else None


def records_of(entry: Entry, zone: tzinfo) -> Sequence[TraceRecord] | None:
    """The records of an entry, as returned by `parse_entry`."""
    return parse_entry(entry, zone)[1]


def parse_entry(entry: Entry, zone: tzinfo) -> tuple[Format | None, Sequence[TraceRecord] | None]:
    """The first format of an entry that yields records, or None, and the records.

    The records are `()` if the entry is irrelevant, and None if it should have been understood but was not, like every
    orphan that is not blank. A format that finds no records of its own does not make up for another that failed. The
    zone applies to timestamps without one.
    """
    if not entry.formats:
        return None, () if not entry.data.strip() else None
    if begins := find_glued(entry.data, entry.formats):
        return _parse_glued(entry, begins, zone)
    return _parse_one(entry, zone)


def _parse_one(entry: Entry, zone: tzinfo) -> tuple[Format | None, Sequence[TraceRecord] | None]:
    unfolded = unfold(entry.data)
    if unfolded is not entry.data and (found := _parse(entry._replace(data=unfolded), zone))[1]:
        return found
    return _parse(entry, zone)  # what looks joined may be a value of a document


def _parse(entry: Entry, zone: tzinfo) -> tuple[Format | None, Sequence[TraceRecord] | None]:
    missed = is_irrelevant = False
    for format_ in entry.formats:
        hit = bool(format_.candidate.search(entry.data))
        # The text that makes it a candidate may be in the part that was cut off.
        if hit or entry.cut:
            found = format_.parse(entry.data.decode("utf-8", "replace"), zone)
            if found:
                return format_, found
            missed = missed or (hit and found is None and not has_learned_format(format_, entry.formats))
            is_irrelevant = is_irrelevant or isinstance(found, NoBearing)
    return None, None if missed and not is_irrelevant else ()


def _parse_glued(
    entry: Entry, begins: Sequence[int], zone: tzinfo
) -> tuple[Format | None, Sequence[TraceRecord] | None]:
    """What the entries on one line say: the first one, and those that begin there.

    Not understood if one of them is not, or if they are too many.
    """
    if len(begins) >= MOST_GLUED:
        return None, None
    parsed = [
        _parse_one(entry._replace(data=entry.data[start:end]), zone)
        for start, end in pairwise((0, *begins, len(entry.data)))
    ]
    if any(records is None for _, records in parsed):
        return None, None
    return next((one for one, _ in parsed if one), None), [record for _, records in parsed for record in records or ()]


def has_learned_format(known: Format, owners: Sequence[Format]) -> bool:
    """Whether the entry also has a learned format of the same client, which decides whether it was understood."""
    return known.client is None and any(one.client is not None and one.name == known.name for one in owners)


def first_line(data: bytes) -> str:
    """The first line of an entry for display: at most `TEXT_LIMIT` characters, unprintable ones replaced."""
    line = data[: 4 * TEXT_LIMIT].split(b"\n", 1)[0].decode("utf-8", "replace")[:TEXT_LIMIT]
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def assemble(runs: Iterable[Run], formats: Sequence[Format]) -> Iterator[Entry]:
    """Entries and orphans in the order of their first lines. Holds one run and one entry in memory."""
    by_first, continues = headers_by_first(tuple(formats)), _CONTINUES.match
    head, head_number, first, cut = 0, 0, b"", False
    more: list[bytes] = []
    owners: tuple[Format, ...] = ()
    for start, number_at_start, lines, was_cut in runs:
        offset, number = start, number_at_start
        for line in lines:  # hot loop: runs for every line of every log, and most are single-line entries
            found: tuple[Format, ...] = ()
            if line:
                for matches, its in by_first.get(line[0], ()):
                    if matches(line):
                        found += its
            continued = not found and owners and offset - head < ENTRY_LIMIT
            if continued and (continues(line) or len(more[-1] if more else first) in PART_SIZES):
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
"""Header matchers with their formats; formats that share a header cost one match."""


@lru_cache(maxsize=64)
def headers_by_first(formats: tuple[Format, ...]) -> Mapping[int, Headers]:
    """The headers that a line may match, by its first byte."""
    firsts = dict.fromkeys(f.first for f in formats)
    by_firsts: dict[tuple[bytes, ...], Headers] = {}
    out: dict[int, Headers] = {}
    for byte in {byte: None for first in firsts for byte in first}:
        its = tuple(first for first in firsts if byte in first)
        if its not in by_firsts:
            by_firsts[its] = _headers([f for f in formats if f.first in its])
        out[byte] = by_firsts[its]
    return out


def find_owners(line: bytes, by_first: Mapping[int, Headers]) -> tuple[Format, ...]:
    """The formats whose header a line has."""
    headers = by_first.get(line[0], ()) if line else ()
    return tuple(one for matches, its in headers if matches(line) for one in its)


def _headers(formats: Sequence[Format]) -> Headers:
    shared: dict[Header, tuple[Format, ...]] = {}
    for format_ in formats:
        shared[format_.header] = (*shared.get(format_.header, ()), format_)
    return tuple((header.match, its) for header, its in shared.items())


def join_parts(entry: bytes) -> bytes:
    """The entry, with those of its lines whole that a collector cut."""
    if len(entry) < SMALLEST_PART or b"\n" not in entry:
        return entry
    out: list[bytes] = []
    is_part = False
    for line in entry.split(b"\n"):
        if is_part:
            out[-1] += line
        else:
            out.append(line)
        is_part = len(line) in PART_SIZES
    return b"\n".join(out)


def join_lines(first: bytes, more: Sequence[bytes]) -> bytes:
    """The data of an entry."""
    return join_parts(b"\n".join((first, *more)).replace(b"\r\n", b"\n").removesuffix(b"\r"))
