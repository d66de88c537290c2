"""A short file that the known layouts explain is read once; from any other, layouts are learned first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from logs.wrappers import JAVA, java_events
from recordings import logs

from fsm.audit.reading import known_layouts
from fsm.audit.reading.piece import PieceRecords, read_piece
from fsm.audit.reading.records import unpack
from fsm.logs import formats
from fsm.logs.layouts.samples import Learned
from fsm.logs.reading import pieces
from fsm.logs.reading.pieces import WHOLE, Piece, cut

RECORDED = [
    ("java", "i_j09_kill9", "A.log"),
    ("java", "x01_coop_second", "A.log"),
    ("librdkafka", "c02_two", "A.log"),
    ("connect", "s02_leave", "W2.log"),
]
LOG = logs("java")["i_j09_kill9"]["A.log"].splitlines(keepends=True)
EVENTS = list(java_events(b"".join(LOG)))
LEARN = pieces.learn_file


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files from which layouts were learned."""
    files: list[str] = []

    def learn(file: str, packed: bool, expected: Any) -> Learned:
        files.append(file)
        return LEARN(file, packed, expected)

    monkeypatch.setattr(pieces, "learn_file", learn)
    return files


def told(found: PieceRecords) -> tuple[Any, ...]:
    chunks = [(one._replace(packed=b""), unpack(one.packed)) for one in (*found.members, *found.coordinators)]
    return found.summary, found.facts, chunks, found.names


def read_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """What is told of a file, which is the same if layouts are always learned."""
    piece = Piece(str(path), 0, WHOLE)
    found = told(read_piece(piece, formats(), UTC))
    with monkeypatch.context() as always:
        always.setattr(known_layouts, "SHORT", -1)
        always.setattr(pieces, "learn_file", LEARN)
        assert told(read_piece(piece, formats(), UTC)) == found
    return found


@pytest.mark.parametrize("recorded", RECORDED)
def test_nothing_is_learned_from_known_layouts(
    recorded: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """The records, the counts and the facts are those of a file that is learned from."""
    archive, scenario, name = recorded
    path = tmp_path / name
    path.write_bytes(logs(archive)[scenario][name])
    assert read_twice(path, monkeypatch)[0].records > 0
    assert not asked


def say(text: bytes, logger: bytes = b"com.example.Orders") -> bytes:
    """A line in Kafka's layout."""
    return b"[2026-11-21 07:57:36,001] INFO " + text + b" (" + logger + b")\n"


OTHERS = JAVA["logback"](EVENTS[:40]).encode().splitlines(keepends=True)
RDKAFKA = b"%7|1795220978.245|CGRPQUERY|A#consumer-1| [thrd:main]: no broker"
HARMLESS: dict[str, list[bytes]] = {
    "nothing": [],
    "quotes": [say(RDKAFKA)] * 4,
    "lines of an application": [b"2026-11-21 07:57:36.001 INFO order 17 was stored\n", b'{"order": 17}\n'] * 200,
    "blanks": [b"\n", b"  \n"],
    "everyday words": [say(b"Starting connectors, heartbeating")] * 9,
}
OPEN: dict[str, list[bytes]] = {
    "another layout": OTHERS,
    "another layout behind blanks": [b"  " + line for line in OTHERS],
    "one line of another layout": [line for line in OTHERS if b"groupId=" in line][:1],
    "objects": [b'{"m": "' + one.body.encode() + b'"}\n' for one in EVENTS[:9] if one.body.isprintable()],
    "many quotes": [say(RDKAFKA)] * 5,
    "words of no release": [
        say(
            b"[Consumer clientId=c, groupId=g] Lost x",
            b"org.apache.kafka.clients.consumer.internals.ConsumerCoordinator",
        )
    ],
}


@pytest.mark.parametrize("what", [*HARMLESS, *OPEN])
def test_layouts_are_learned_from_lines_of_clients_in_no_known_one(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """Wherever these stand, and however few of all lines they are."""
    path = tmp_path / "a.log"
    path.write_bytes(b"".join([*LOG[:300], *(HARMLESS | OPEN)[what], *LOG[300:]]))
    read_twice(path, monkeypatch)
    assert bool(asked) == (what in OPEN)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "newest first": lambda data: b"".join(data.splitlines(keepends=True)[::-1]),
    "broken": lambda data: b"".join(
        line[i : i + 132].rstrip(b"\n") + b"\n" for line in data.splitlines(True) for i in range(0, len(line), 132)
    ),
    "without messages": lambda _: say(b"Order 17 was stored") * 9,
    "Connect in Spring's layout": lambda _: (
        JAVA["spring"](EVENTS[:40]) + JAVA["spring"](list(java_events(logs("connect")["s01_join_gap"]["W1.log"]))[:9])
    ).encode(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_layouts_are_learned_if_lines_are_not_as_they_were_printed(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """Their order and their ends; and without any message nothing is known of the file."""
    path = tmp_path / "a.log"
    path.write_bytes(CHANGES[what](b"".join(LOG)))
    read_twice(path, monkeypatch)
    assert asked


def test_quotes_are_counted_in_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """Five, in as many blocks."""
    path = tmp_path / "a.log"
    path.write_bytes(b"".join([*LOG[:300], *(9_000 * say(b"Order 17 was stored") + say(RDKAFKA) for _ in range(5))]))
    read_twice(path, monkeypatch)
    assert asked


def test_layouts_are_learned_from_files_that_are_large_or_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """What the pieces of a file learn must be the same."""
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(LOG))
    for piece in list(cut(path, len(b"".join(LOG)) // 2)):
        asked.clear()
        read_piece(piece, formats(), UTC)
        assert asked
    asked.clear()
    monkeypatch.setattr(known_layouts, "SHORT", 1000)
    read_piece(Piece(str(path), 0, WHOLE), formats(), UTC)
    assert asked
