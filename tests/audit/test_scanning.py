"""A scan finds what reading every entry finds, and counts the rest."""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs.wrappers import JAVA, Event, java_events
from recordings import logs

from fsm.audit.scanning import _DIGITS, _SHAPE, Parsed, Scanner, parse_all
from fsm.logs import clients, formats
from fsm.logs.entries import ENTRY_LIMIT, LINE_LIMIT
from fsm.logs.layout import signs_of
from fsm.logs.pieces import WHOLE, Piece, PieceReader, cut

SIGNS = signs_of(clients())


def told(found: list[Parsed]) -> list[tuple[Any, ...]]:
    """What matters of entries: records, what was not understood, and orphans with marks."""
    out: list[tuple[Any, ...]] = []
    for entry, format_, records in found:
        if records or (records is None and (entry.formats or SIGNS.search(entry.data))):
            out.append((entry.offset, entry.number, entry.data, entry.cut, format_ and format_.layout, records))
    return out


def shape(line: bytes) -> bytes:
    return line[:_SHAPE].translate(_DIGITS)


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
    for piece in cut(path, split_bytes):
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


def other(event: Event) -> Event:
    """A line of an application."""
    return event._replace(logger="com.acme.Orders", text=f"order {event.ts_ms} was taken", trace="")


CLASS = b" (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
PARTS = st.sampled_from(
    [
        b"[2026-11-21 07:57:36,001] INFO text (com.acme.A)",
        b"[2026-11-21 07:57:37,001] INFO [Consumer clientId=c, groupId=g] (Re-)joining group" + CLASS,
        b"[2026-11-21 07:57:37,001] DEBUG [Consumer clientId=c, groupId=g] odd" + CLASS,
        b"\tat a.B.c(B.java:7)",
        b"stray 17",
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
