"""A scan finds what reading every entry finds, and counts the rest."""

from __future__ import annotations

import re
import re._parser as parser  # type: ignore[import-not-found]
from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs.wrappers import JAVA, Event, java_events
from recordings import logs

from fsm.audit.reading.line_kinds import DIGITS
from fsm.audit.reading.scanning import _SHAPE, Parsed, Scanner, parse_all
from fsm.logs import clients, formats
from fsm.logs.layouts.layout import signs_of
from fsm.logs.message import NoBearing
from fsm.logs.programs import broker, connect_worker, java_client, librdkafka
from fsm.logs.reading.entries import ENTRY_LIMIT, LINE_LIMIT
from fsm.logs.reading.pieces import WHOLE, Piece, PieceReader, cut

SIGNS = signs_of(clients())
REST = b" (org.apache.kafka.connect.runtime.rest.RestServer:62)"
ODD = ("INIT", "SUBSCRIBE")
"""Facilities of librdkafka that ask for digits."""


def told(found: list[Parsed]) -> list[tuple[Any, ...]]:
    """What matters of entries: records, what was not understood, and orphans with marks."""
    out: list[tuple[Any, ...]] = []
    for entry, format_, records in found:
        if records or (records is None and (entry.formats or SIGNS.search(entry.data))):
            out.append((entry.offset, entry.number, entry.data, entry.cut, format_ and format_.layout, records))
    return out


def shape(line: bytes) -> bytes:
    return line[:_SHAPE].translate(DIGITS)


def counted(piece: Piece) -> tuple[Any, ...]:
    """Lines, entries, orphans by shape, and what matters, where every entry is read."""
    reader = PieceReader(piece, formats())
    found = list(parse_all(reader.entries(), UTC))
    return reader.lines, entries(found), orphans(found), told(found)


def entries(found: list[Parsed]) -> int:
    return sum(bool(one.entry.formats) for one in found)


def orphans(found: list[Parsed]) -> Counter[bytes]:
    return Counter(shape(one.entry.data) for one in found if not one.entry.formats and one.entry.data.strip())


def scanned(piece: Piece) -> tuple[Any, ...]:
    """The same by a scan."""
    scanner = Scanner(PieceReader(piece, formats()), SIGNS, UTC)
    found = list(scanner.scan())
    return (
        scanner.reader.lines,
        entries(found) + scanner.passed,
        orphans(found) + scanner.repeats,
        told(found),
    )


def hold(path: Path, split_bytes: int) -> None:
    """Both find the same in every piece."""
    pieces = list(cut(path, split_bytes))
    assert pieces
    for piece in pieces:
        assert scanned(piece) == counted(piece)


RECORDED = [
    ("java", "j02_second_joins"),
    ("java", "x01_coop_second"),
    ("librdkafka", "c02_two"),
    ("connect", "s01_join_gap"),
]


@pytest.mark.parametrize(("archive", "scenario"), RECORDED)
@pytest.mark.parametrize("split_bytes", [WHOLE, 50_000])
def test_recordings_are_scanned_as_they_are_read(archive: str, scenario: str, split_bytes: int, tmp_path: Path) -> None:
    """In the layouts that are known, whole and in pieces."""
    for name, data in logs(archive)[scenario].items():
        path = tmp_path / name
        path.write_bytes(data)
        hold(path, split_bytes)


@pytest.mark.parametrize("name", ["logback", "cr lf", "logstash", "spring", "ansi", "epoch"])
def test_learned_layouts_are_scanned_as_they_are_read(name: str, tmp_path: Path) -> None:
    """With lines of other programs between a client's."""
    events = [e for e in java_events(logs("java")["i_j09_kill9"]["A.log"]) for e in (e, other(e), other(e))]
    path = tmp_path / "a.log"
    path.write_text(JAVA[name](events), newline="")
    hold(path, WHOLE)
    hold(path, 20_000)


@pytest.mark.parametrize("width", [300, 3000])
def test_messages_may_stand_far_behind_the_beginning_of_their_lines(width: int, tmp_path: Path) -> None:
    """Behind a field that all lines have, and beyond what is remembered of beginnings."""
    events = [e for e in list(java_events(logs("java")["i_j09_kill9"]["A.log"]))[:150] for e in (e, other(e))]
    path = tmp_path / "a.log"
    text = JAVA["logstash"](events)
    path.write_text(re.sub(r'(?m)^\{"', '{"about":"' + width * "x" + '","', text), newline="")
    hold(path, WHOLE)


def other(event: Event) -> Event:
    """A line of an application."""
    return event._replace(logger="com.acme.Orders", text=f"order {event.ts_ms} was taken", trace="")


SPRING = b"2026-11-21T07:57:36.001+01:00  "
HEADS_OF_ONE_BEGINNING = {
    "spring with an offset": (SPRING + b"INFO 1 --- [main] a.B  : yes", SPRING + b"INSIDE of what was thrown"),
    "spring, the process": (SPRING + b"INFO 1 --- [main] a.B  : yes", SPRING + b"INFO 1 is no process"),
    "trace": (
        b'{"kind":"joining","group":"a rather long name","ts_ms":1,"v":1}',
        b'{"kind":"joining","group":"a rather long name","ts_ms":1}',
    ),
    "thrown": (
        b"org.apache.kafka.common.errors.DisconnectException: yes",
        b"org.apache.kafka.common.errors.DisconnectAndGo is no class of theirs",
    ),
    "librdkafka": (b"%7|1795247856.001|HEARTBEAT|c#consumer-1| [thrd:main]: yes", b"%7|1795247856.001|HEARTBEAT"),
    "seconds": (b"[2026-11-21 07:57:36,001] INFO yes (com.acme.A)", b"[2026-11-21 07:57:76,001] INFO no (com.acme.A)"),
    "offsets": (b'{"partition":17,"offset":3,"type":1}', b'{"partition":17,"offset":null,"type":1}'),
}


@pytest.mark.parametrize("names", HEADS_OF_ONE_BEGINNING, ids=str)
def test_of_two_lines_with_one_beginning_each_is_looked_at(names: str, tmp_path: Path) -> None:
    """In either order, whatever the line above it is."""
    one, other = HEADS_OF_ONE_BEGINNING[names]
    path = tmp_path / "a.log"
    for above in (b"[2026-11-21 07:57:36,001] INFO text (com.acme.A)", b"stray"):
        for pair in ((one, other), (other, one)):
            path.write_bytes(b"\n".join([above, *pair, b"\tat a.B.c(B.java:7)", b"stray", *pair, above, b""]))
            hold(path, WHOLE)


@pytest.mark.parametrize("name", ["logback", "logstash"])
def test_a_line_that_begins_like_one_of_a_learned_layout_hides_no_other(name: str, tmp_path: Path) -> None:
    """A line that does not go on like the others, and comes first, leaves them what they are."""
    lines = JAVA[name](java_events(logs("java")["i_j09_kill9"]["A.log"])).encode().split(b"\n")
    path = tmp_path / "a.log"
    path.write_bytes(b"\n".join([lines[0][:20] + b" and no more", *lines]))
    assert told_of(scanned(path_of(path))) == told_of(counted(path_of(path)))


def path_of(path: Path) -> Piece:
    return next(cut(path, WHOLE))


def told_of(found: tuple[Any, ...]) -> Any:
    """What matters of the entries."""
    return found[-1]


@pytest.mark.parametrize("one", [one for one in formats() if one.reach], ids=lambda one: f"{one.name}-{one.layout}")
def test_a_header_reads_as_far_as_its_format_says(one: Any) -> None:
    """And in what it reads, one digit is like another."""
    parsed = parser.parse(one.header.pattern)
    assert parsed.getwidth()[1] <= one.reach
    assert digits_alike(parsed)
    assert "(?=" not in str(one.header.pattern)
    assert "(?!" not in str(one.header.pattern)


def test_where_entries_are_found_by_words_no_digit_matters() -> None:
    """An entry that no format wants stands for all that differ from it in digits only."""
    patterns = [one.candidate.pattern for one in formats() if one.needles and isinstance(one.candidate, re.Pattern)]
    assert len(patterns) > 5
    assert all(digits_alike(parser.parse(pattern)) for pattern in patterns)


def test_entries_in_which_a_digit_matters_are_each_looked_at(tmp_path: Path) -> None:
    """Of records of `__consumer_offsets` that differ in their type alone, those of a group count."""
    line = b'{"partition":7,"offset":%d,"type":%d,"key":{"group":"g"},"value":null}'
    path = tmp_path / "a.log"
    path.write_bytes(b"\n".join(line % (n, n % 10) for n in range(100)))
    hold(path, WHOLE)
    assert told_of(scanned(path_of(path)))


def test_marks_hold_no_digits() -> None:
    """An orphan's shape, in which all digits are equal, tells whether it holds one."""
    assert not any(mark.translate(DIGITS) != mark or b"0" in mark for one in clients() for mark in one.marks)


RULES = [
    *(("java", r.pattern) for words in java_client.RULES.values() for rules in words.values() for r in rules),
    *(("connect", r.pattern) for name, rules in connect_worker.RULES.items() for r in rules if name != "RestServer"),
    *(("broker", r.pattern) for rules in broker._RULES_IN_GROUP.values() for r in rules),
    *(("broker", r.pattern) for rules in broker._RULES_WITHOUT_PREFIX.values() for r in rules),
    *(("librdkafka", r[0]) for name, rules in librdkafka._RULES.items() for r in rules if name not in ODD),
]


def test_clients_that_remember_what_has_no_bearing_treat_all_digits_alike() -> None:
    """`NO_BEARING` holds for messages with other digits, so no rule of theirs may ask for one; those that do, and
    their neighbours, answer otherwise."""
    odd = [(client, pattern.pattern) for client, pattern in RULES if not digits_alike(parser.parse(pattern.pattern))]
    assert odd == []
    ok = b'[2026-11-21 07:57:36,001] INFO [x y] 127.0.0.1 - - [x] "PUT /connectors/c/config HTTP/1.1" 500 1 - 7'
    assert not isinstance(connect_worker.FORMATS[0].parse((ok + REST).decode(), UTC), NoBearing)
    said = 'Group "g": subscribe to new subscription of 3 topics (join-state x)'
    line = f"%7|1795247856.001|SUBSCRIBE|c#consumer-1| [thrd:main]: {said}"
    assert not isinstance(librdkafka.FORMATS[0].parse(line, UTC), NoBearing)


def digits_alike(pattern: Any) -> bool:
    """Whether a parsed pattern holds nothing that only some digits match."""
    for operation, value in pattern:
        match str(operation):
            case "LITERAL" | "NOT_LITERAL":
                good = not chr(value).isdigit()
            case "IN":
                single = {chr(v) for op, v in value if str(op) == "LITERAL"} & set("0123456789")
                ranges = [v for op, v in value if str(op) == "RANGE" and v[0] <= 57 and v[1] >= 48]
                whole = any(low <= 48 and high >= 57 for low, high in ranges)
                good = whole or any(str(op) == "CATEGORY" for op, _ in value) or not (single or ranges)
            case "MAX_REPEAT" | "MIN_REPEAT":
                good = digits_alike(value[2])
            case "SUBPATTERN":
                good = digits_alike(value[3])
            case "BRANCH":
                good = all(map(digits_alike, value[1]))
            case "ASSERT" | "ASSERT_NOT":
                good = digits_alike(value[1])
            case _:
                good = True
        if not good:
            return False
    return True


CLASS = b" (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
PARTS = st.sampled_from(
    [
        b"[2026-11-21 07:57:36,001] INFO text (com.acme.A)",
        b"[2026-11-21 07:57:37,001] INFO [Consumer clientId=c, groupId=g] (Re-)joining group" + CLASS,
        b"[2026-11-21 07:57:37,001] DEBUG [Consumer clientId=c, groupId=g] odd" + CLASS,
        b"\tat a.B.c(B.java:7)",
        b"stray 17",
        b"**[2026-11-21 07:57:37,001] INFO [Consumer clientId=c, groupId=g] (Re-)joining group" + CLASS + b"**",
        b"[2026-11-21 07:57] stray",
        b"[17, 18]",
        *(line for pair in HEADS_OF_ONE_BEGINNING.values() for line in pair),
        b"about [Consumer clientId=c, groupId=g] nothing",
        b"",
        b"\r",
        b"{",
        b" " * 70_000,
        b"x" * (LINE_LIMIT + 3),
        b" " * (ENTRY_LIMIT - 50),
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(PARTS, max_size=25), st.sampled_from([WHOLE, 200, 100_000]))
def test_any_lines_are_scanned_as_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], split_bytes: int
) -> None:
    """Long lines, long entries, orphans, blank lines and carriage returns in any order."""
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_bytes(b"\n".join(parts))
    hold(path, max(split_bytes, path.stat().st_size // 10))
