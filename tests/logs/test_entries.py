"""`fsm.logs.reading.entries`: lines become entries, and a file may be cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs.test_layouts import events, write
from logs.wrappers import Event, iso, kafka_line, logback_line, spring_line

from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.records import TIME, unpack
from fsm.logs import Format, formats
from fsm.logs.message import NO_BEARING
from fsm.logs.reading.entries import (
    ENTRY_LIMIT,
    TEXT_LIMIT,
    Entry,
    Run,
    assemble,
    first_line,
    parse_entry,
    records_of,
)
from fsm.logs.reading.joined_lines import find_glued
from fsm.logs.reading.pieces import WHOLE, Piece, from_bytes, reader_of
from fsm.trace import Kind, TraceRecord


def layout(name: str, first: bytes, header: bytes) -> Format:
    return Format(name, "test", first, re.compile(header), re.compile(b""), lambda _entry, _zone: ())


HASH, HASHES, NUMBER = (
    layout("hash", b"#", b"# "),
    layout("hashes", b"#", b"## "),
    layout("number", b"0123456789", rb"\d+ "),
)
FORMATS = (HASH, HASHES, NUMBER)


def lines(*texts: bytes) -> list[Run]:
    """Runs of one line with the offsets they have in a file."""
    offset, found = 0, []
    for number, text in enumerate(texts, 1):
        found.append(Run(offset, number, [text]))
        offset += len(text) + 1
    return found


def test_a_first_line_takes_the_lines_that_follow() -> None:
    """Indented lines without a header belong to the last line with one, empty lines included."""
    found = list(assemble(lines(b"# a", b"  one", b"", b"# b", b"7 c", b"\tend"), FORMATS))
    assert found == [
        Entry(0, 1, (HASH,), b"# a\n  one\n", False),
        Entry(11, 4, (HASH,), b"# b", False),
        Entry(15, 5, (NUMBER,), b"7 c\n\tend", False),
    ]


CONTINUED = (
    b"\tat org.apache.kafka.clients.Metadata.fetch(Metadata.java:1)",
    b"    ... 5 more",
    b"Caused by: java.lang.IllegalStateException: on purpose",
    b"org.apache.kafka.common.errors.DisconnectException",
    b"java.lang.OutOfMemoryError: Java heap space",
    b"{consumer-1=[t-0, t-1]}",
    b"*****",
    b"* The consumer rebalance protocol (KIP-848) is production-ready!",
    b"Following changelog topic(s) has not been named: KSTREAM-1-changelog",
    b"[2026-11, 17]",
    b"\r",
)
FOREIGN = (
    b"10.0.0.1 - - [21/Nov/2026:07:55:00 +0000] GET / HTTP/1.1 200 5",
    b"2026/11/21 07:55:00 [notice] 1#1: start worker processes",
    b"Error: only a word",
    b"worker.NetworkError was raised",
    b"processed order 17 of customer 4",
    b"at last",
    b"<html>",
    b"[2026-11-21 07:55:00,001] INFO of another program",
    b"**[2026-11-21 07:55:00,001] INFO made bold**",
    b"(2026-11-21T07:55:00.001Z) of a third one",
    b'{"level":"info","message":"order 17 was processed"}',
)


@pytest.mark.parametrize("line", CONTINUED)
def test_what_clients_print_below_a_first_line_continues_it(line: bytes) -> None:
    """Stack traces, dumps, banners and assignments, each with or without more below it."""
    (entry,) = assemble(lines(b"# a", line, b"  more"), FORMATS)
    assert entry.data == b"# a\n" + line.removesuffix(b"\r") + b"\n  more"


@pytest.mark.parametrize("line", FOREIGN)
def test_what_another_program_printed_continues_nothing(line: bytes) -> None:
    """A line that begins like none of those is an orphan, and so is whatever follows it up to the next entry."""
    found = list(assemble(lines(b"# a", b"  one", line, b"  more", b"# b"), FORMATS))
    assert [(one.format, one.data) for one in found] == [
        (HASH, b"# a\n  one"),
        (None, line),
        (None, b"  more"),
        (HASH, b"# b"),
    ]


def test_the_first_byte_does_not_decide_alone() -> None:
    """Of the formats with a first byte the one whose header matches owns the line; if none does, it is no head."""
    found = list(assemble(lines(b"## a", b"#nothing", b"9nothing"), FORMATS))
    assert found == [
        Entry(0, 1, (HASHES,), b"## a", False),
        Entry(5, 2, (), b"#nothing", False),
        Entry(14, 3, (), b"9nothing", False),
    ]


def test_lines_before_the_first_entry_are_orphans() -> None:
    """Each line that has no entry before it is reported by itself, with its place."""
    found = list(assemble(lines(b"stray", b"", b"# a"), FORMATS))
    assert found == [
        Entry(0, 1, (), b"stray", False),
        Entry(6, 2, (), b"", False),
        Entry(7, 3, (HASH,), b"# a", False),
    ]


def test_continuation_is_bounded_by_where_a_line_begins() -> None:
    """A line that begins `ENTRY_LIMIT` bytes behind the head is an orphan, one byte earlier it is not."""
    filler = b" " * (ENTRY_LIMIT - len(b"# a\n") - 2)
    near = list(assemble(lines(b"# a", filler, b" near", b" far"), FORMATS))
    assert [(one.offset, one.format, one.data[-4:]) for one in near] == [
        (0, HASH, b"near"),
        (ENTRY_LIMIT + 5, None, b" far"),
    ]
    far = list(assemble(lines(b"# a", filler + b" ", b"far", b"too"), FORMATS))
    assert [(one.offset, one.format) for one in far] == [(0, HASH), (ENTRY_LIMIT, None), (ENTRY_LIMIT + 4, None)]


def test_a_cut_line_marks_its_entry() -> None:
    """An entry says so where the reader kept only part of any of its lines, and its neighbours do not."""
    found = assemble([Run(0, 1, [b"# a"]), Run(4, 2, [b" long"], cut=True), Run(900, 3, [b"# b"])], FORMATS)
    assert [one.cut for one in found] == [True, False]


def answering(name: str, candidate: bytes, answer: Sequence[TraceRecord] | None) -> Format:
    """A format of the layout `# ` that has one answer to every candidate."""
    return Format(name, "test", b"#", re.compile(b"# "), re.compile(candidate), lambda _entry, _zone: answer)


SEEN = (TraceRecord(1, Kind.JOINING),)
GIVES, KNOWS, LOST = answering("gives", b"x", SEEN), answering("knows", b"y", NO_BEARING), answering("lost", b"z", None)


def of(data: bytes, *formats: Format, cut: bool = False) -> Sequence[TraceRecord] | None:
    """The records of one line that is read with these formats."""
    (entry,) = assemble([Run(0, 1, [data], cut)], formats)
    return records_of(entry, UTC)


def test_formats_of_one_header_are_asked_in_turn() -> None:
    """An entry carries every format that it may be of; the first one that finds records has them."""
    (entry,) = assemble(lines(b"# xyz"), (LOST, HASHES, KNOWS, GIVES))
    assert entry.formats == (LOST, KNOWS, GIVES)
    assert entry.format is LOST
    assert records_of(entry, UTC) == SEEN
    assert parse_entry(entry, UTC) == (GIVES, SEEN)
    assert of(b"# yz", LOST, KNOWS, GIVES) == ()


def test_what_is_no_word_of_one_format_is_no_excuse_for_another() -> None:
    """Who finds nothing of its own in a line does not know that it means nothing."""
    nothing = answering("nothing", b"y", ())
    assert of(b"# yz", LOST, nothing, GIVES) is None
    assert of(b"# y", LOST, nothing, GIVES) == ()


def test_an_entry_that_no_format_understands_is_said() -> None:
    """Not understood is a candidate of which no format knows what it means; no candidate has no bearing."""
    assert of(b"# z", LOST, GIVES) is None
    assert of(b"# z", GIVES, KNOWS) == ()
    assert of(b"stray", LOST) is None
    assert of(b" \t", LOST) == ()


def test_a_cut_entry_is_parsed_without_being_a_candidate() -> None:
    """What a candidate is known by may be cut off; a cut line that then says nothing has no bearing."""
    assert of(b"# a", GIVES) == ()
    assert of(b"# a", GIVES, cut=True) == SEEN
    assert of(b"# a", LOST, cut=True) == ()
    assert of(b"# z", LOST, cut=True) is None


def test_a_line_is_shown_in_part_and_without_control_characters() -> None:
    """Terminal codes, NUL and broken UTF-8 are marked, only the first line counts, and it is bounded."""
    assert first_line(b"a\x1b[1mb\0c\xff\nsecond") == "a\ufffd[1mb\ufffdc\ufffd"
    assert first_line("ü".encode() * 1000) == "ü" * TEXT_LIMIT


def test_no_lines_give_no_entries() -> None:
    """An empty file has no entries."""
    assert list(assemble([], FORMATS)) == []


LENGTHS = st.sampled_from([0, 1, 40, 1000, 30_000, ENTRY_LIMIT - 5, ENTRY_LIMIT - 1, ENTRY_LIMIT, 3 * ENTRY_LIMIT])
TEXTS = st.lists(
    st.builds(lambda head, length: head + b"x" * length, st.sampled_from([b"# ", b"7 ", b"", b" "]), LENGTHS),
    max_size=12,
)


@given(TEXTS, st.data())
def test_pieces_give_what_the_whole_gives(texts: list[bytes], data: st.DataObject) -> None:
    """A file cut at any bytes and read in pieces, each with its context, gives each entry once and as a whole."""
    whole = lines(*texts)
    size = sum(len(text) + 1 for text in texts)
    starts = [0, *(one.offset for one in whole)]
    near = st.builds(lambda start, step: min(size, max(0, start + step)), st.sampled_from(starts), st.integers(-2, 2))
    cuts = sorted({0, size, *data.draw(st.lists(st.integers(0, size) | near, max_size=6))})
    pieces = [entry for begin, end in pairwise(cuts) for entry in _piece(whole, begin, end)]
    assert pieces == list(assemble(whole, FORMATS))


def _piece(whole: list[Run], begin: int, end: int) -> Iterator[Entry]:
    """What a reader of one range yields that knows only the lines near it."""
    near = [one for one in whole if begin - ENTRY_LIMIT <= one.offset < end + ENTRY_LIMIT]
    return (entry for entry in assemble(near, FORMATS) if begin <= entry.offset < end)


@pytest.mark.parametrize("how", ["kafka", "logback", "spring", "iso"])
def test_a_line_may_end_where_a_pasted_file_begins(how: str, tmp_path: Path) -> None:
    """The last line of a file has no line feed, and another file follows: both entries of that line are read."""
    halves = events("java")[:40], events("java")[40:]
    texts = ("".join(_PASTED[how](event) + "\n" for event in half) for half in halves)
    first, second = (text.removesuffix("\n") for text in texts)
    found = {}
    for end in ("\n", ""):
        path = write(tmp_path / "a.log", f"{first}{end}{second}", events("java"))
        reader = reader_of(Piece(str(path), 0, WHOLE), formats())
        slow = [record for entry in reader.entries() for record in records_of(entry, UTC) or ()]
        rows = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).members
        found[end] = slow, [row[TIME] for chunk in rows for row in unpack(chunk.packed)]
    assert found[""] == found["\n"]


_PASTED: dict[str, Callable[[Event], str]] = {
    "kafka": kafka_line,
    "logback": logback_line,
    "spring": spring_line,
    "iso": lambda e: f"{iso(e)} {e.level} {e.body}",
}


@pytest.mark.parametrize(
    "line",
    [
        b'08:13:17.408 [main] INFO o.a.k.RestServer - 127.0.0.1 - - [21/Nov/2026:08:13:17 +0000] "GET / HTTP/1.1"',
        b"[2026-11-21 08:13:17,408] INFO the line was [2026-11-21 08:13:16,001] INFO before (o.a.k.C)",
        b'[2026-11-21 08:13:17,408] INFO said "[2026-11-21 08:13:16,001] INFO before" (o.a.k.C)',
    ],
)
def test_a_time_in_a_message_begins_no_entry(line: bytes) -> None:
    (entry,) = from_bytes(line, formats())
    assert find_glued(line, entry.formats or formats()) == []


def test_very_many_entries_on_a_line_are_not_understood(tmp_path: Path) -> None:
    """Nor do they raise."""
    line = kafka_line(next(one for one in events("java") if "Adding newly assigned" in one.body))
    for times, expected in ((5, (0, 5)), (5000, (1, 0))):
        path = tmp_path / f"{times}.log"
        path.write_text(line * times)
        found = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
        assert (found.not_understood, found.records) == expected
