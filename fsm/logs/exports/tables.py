"""Files whose entries are not lines: table rows with quotes, objects over several lines, documents with many entries.
Detects the table, and splits the file into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from fsm.logs.exports.broken_lines import Broken, find_broken
from fsm.logs.exports.documents import Document, find_document
from fsm.logs.exports.sql_dumps import Inserts, find_inserts
from fsm.logs.exports.stanzas import Stanzas, find_stanzas
from fsm.logs.exports.xml_events import XmlEvents, find_xml
from fsm.logs.layouts.fields import Csv, Pretty, find_csv, find_pretty
from fsm.logs.reading.entries import ENTRY_LIMIT, LINE_LIMIT, Run

Table = Csv | Pretty | Document | XmlEvents | Stanzas | Inserts | Broken
_HEAD = 1 << 16
_LONGEST_DOCUMENT = 1 << 25
"""Most bytes of a document that are kept at once, on one line or over several."""


def longest_line(table: Table | None) -> int:
    """How many bytes of a line are kept; more if one line may be the whole file."""
    return _LONGEST_DOCUMENT if isinstance(table, Document | Inserts | XmlEvents) else LINE_LIMIT


def find_table(head: bytes) -> Table | None:
    """The table at the beginning of a text; None if it has none."""
    return (
        find_document(head)
        or find_pretty(head)
        or find_xml(head)
        or find_stanzas(head)
        or find_inserts(head)
        or find_broken(head)
        or find_csv(head[:_HEAD].decode("utf-8", "replace"))
    )


class End:
    """How a text ended."""

    is_cut = False
    """In the middle of a document."""


def rows_of(runs: Iterable[Run], table: Table | None, end: End | None = None) -> Iterator[tuple[int, int, bytes, bool]]:
    """Lines with their positions; or the rows of a table, each converted to a line if one text contains several."""
    row: list[bytes] = []
    last = b""
    begin, first, cut = 0, 0, False
    opened = 0
    begins, count_open = _get_borders(table)
    longest = _LONGEST_DOCUMENT if isinstance(table, Document | XmlEvents) else ENTRY_LIMIT

    def read_rows() -> Iterator[tuple[int, int, bytes, bool]]:
        nonlocal last
        text = last = b"\n".join(row)
        if table is None or isinstance(table, Csv):
            yield begin, first, text, cut
            return
        if isinstance(table, Pretty) and len(text) >= longest:  # the log is inside of one object
            places = accumulate((len(line) + 1 for line in row), initial=begin)
            yield from ((at, first + i, line, cut) for i, (at, line) in enumerate(zip(places, row, strict=False)))
            return
        parts = table.rows(text.replace(b"\r\n", b"\n").removesuffix(b"\r"))
        yield from ((begin + n, first, one, cut) for n, one in enumerate(parts))

    for start, number_at_start, lines, was_cut in runs:
        places = accumulate((len(line) + 1 for line in lines), initial=start)
        for number, (offset, line) in enumerate(zip(places, lines, strict=False), number_at_start):
            if row and begins(row, line):
                yield from read_rows()
                row = []
            if not row:
                begin, first, cut, opened = offset, number, False, 0
            row.append(line)
            cut = cut or was_cut
            opened = count_open(opened, line)
            if opened <= 0 or offset + len(line) + 1 - begin >= longest:
                yield from read_rows()
                row = []
    if row:
        yield from read_rows()
    if end is not None and isinstance(table, Document):
        end.is_cut = not cut and table.is_cut(last)


def _get_borders(
    table: Table | None,
) -> tuple[Callable[[Sequence[bytes], bytes], bool], Callable[[int, bytes], int]]:
    """Functions that return whether a line begins another row, and how much is open behind it: a row ends where nothing
    is."""
    if isinstance(table, Stanzas | Broken):
        return table.begins, lambda _before, _line: 1
    return lambda _row, _line: False, table.count_open if table is not None else lambda _before, _line: 0
