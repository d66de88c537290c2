"""Layouts that are learned: recorded messages put into many layouts mean the same in each of them."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs.wrappers import JAVA, OTHERS, PLAIN, TOOLS, Event, Writer, java_events, librdkafka_events
from recordings import DATA, opened

from fsm.audit.scanning import Scanner
from fsm.errors import InputError
from fsm.logs import Client, Message, clients, formats, stamps
from fsm.logs.entries import parse_entry
from fsm.logs.fields import json_object
from fsm.logs.layout import ENDS, Description, marks_of
from fsm.logs.pattern import in_layout
from fsm.logs.pieces import WHOLE, Piece, PieceReader, cut, is_gzip
from fsm.spark.options import Options
from fsm.spark.sources import bins, expected, find
from fsm.trace import TraceRecord

CLIENTS = {client.name: client for client in clients()}
RECORDED = {
    "java": ("java", "j02_second_joins/A.log"),
    "classic": ("java", "x01_coop_second/A.log"),
    "info": ("java", "i_j09_kill9/A.log"),
    "connect": ("connect", "s01_join_gap/W1.log"),
    "broker": ("broker", "j10_static_restart/broker.log"),
    "librdkafka": ("librdkafka", "c02_two/A.log"),
}
MOST = 130
"""Events of a recording that are written."""


@cache
def events(kind: str) -> tuple[Event, ...]:
    """What a recorded client handed to its logger."""
    archive, name = RECORDED[kind]
    with opened(DATA / f"{archive}-logs.tar.xz") as packed:
        read = packed.extractfile(name)
        data = read.read() if read else b""
    return tuple((librdkafka_events if kind == "librdkafka" else java_events)(data))[:MOST]


def said(client: Client, told: Sequence[Event], lost: set[str]) -> list[TraceRecord]:
    """The records of messages of which a layout loses something."""
    out: list[TraceRecord] = []
    for e in told:
        error = e.trace.strip("\n").partition("\n")[0]
        logger, thread = ("" if name in lost else value for name, value in (("logger", e.logger), ("thread", e.thread)))
        ms = 0 if "time" in lost else e.ts_ms // 1000 * 1000 if "milliseconds" in lost else e.ts_ms
        out += client.understand(Message(ms, e.text, e.level, logger, thread, error)) or ()
    return [without_pid(record) for record in out]


def without_pid(record: TraceRecord) -> TraceRecord:
    """Some layouts tell the process, and the recordings do not."""
    return replace(record, settings={k: v for k, v in record.settings.items() if k != "pid"})


def read(path: Path, client: Client, split_bytes: int = WHOLE) -> tuple[list[TraceRecord], tuple[Description, ...]]:
    """The records of a client in a file, in the order of their entries, and the layouts that were learned."""
    out, layouts = [], ()
    for piece in cut(path, split_bytes):
        reader = PieceReader(piece, formats())
        for entry in reader.entries():
            format_, records = parse_entry(entry, UTC)
            if format_ and format_.name == client.name:
                out += [(entry.offset, without_pid(record)) for record in records or ()]
        layouts = reader.layouts
    return [record for _, record in sorted(out, key=lambda one: one[0])], layouts


def write(path: Path, text: str, told: Sequence[Event]) -> Path:
    """A file as it was left an hour after its last event."""
    path.write_bytes(text.encode())
    os.utime(path, (told[-1].ts_ms / 1000 + 3600,) * 2)
    return path


CASES = [
    *((kind, name, JAVA[name]) for kind in ("java", "info") for name in JAVA),
    *(
        (kind, name, JAVA[name])
        for kind in ("classic", "connect", "broker")
        for name in ("logback", "quarkus", "docker json", "cri", "compose", "journald short-iso", "logstash", "csv")
    ),
    *(("java", name, writer) for name, writer in OTHERS.items()),
    *(("librdkafka", name, writer) for name, writer in PLAIN.items()),
    *((kind, name, writer) for name, writer in TOOLS.items() for kind in ("java", "librdkafka")),
]


@pytest.mark.parametrize(("kind", "name", "writer"), CASES, ids=[f"{kind} in {name}" for kind, name, _ in CASES])
def test_a_layout_changes_nothing_but_what_it_loses(kind: str, name: str, writer: Writer, tmp_path: Path) -> None:
    """Kind, ids, partitions, threads and times are those of the messages."""
    told = events(kind)
    client = CLIENTS["java" if kind in ("classic", "info") else kind]
    found, layouts = read(write(tmp_path / "a.log", writer(told), told), client)
    native = {"thread"} if name != "spring" else set()
    lost = {what for layout in layouts for what in layout.lost} if layouts else native
    if name == "spring" and not layouts:
        told = tuple(e._replace(thread=e.thread[-15:]) for e in told)
    assert found == said(client, told, lost)
    assert found


@pytest.mark.parametrize("name", ["logback", "docker json", "cri", "compose", "syslog 5424", "logstash", "csv"])
def test_a_file_in_a_learned_layout_may_be_cut_anywhere(name: str, tmp_path: Path) -> None:
    """Whoever reads a piece learns the same layout; what cannot be cut stays whole."""
    told = events("java")
    path = write(tmp_path / "a.log", JAVA[name](told), told)
    whole, _ = read(path, CLIENTS["java"])
    for split_bytes in (9_973, 50_000):
        assert read(path, CLIENTS["java"], split_bytes)[0] == whole


def test_what_was_learned_is_told(tmp_path: Path) -> None:
    """The pattern, how many lines it explains, an example, what was taken from elsewhere and what is lost."""
    told = events("java")
    _, (layout,) = read(write(tmp_path / "a.log", JAVA["logback"](told), told), CLIENTS["java"])
    assert layout.pattern == "%{time} [%{thread}] %{level} %{logger} -- %{message}"
    assert layout.share > 0.99
    assert layout.example.startswith("07:55:1")
    assert layout.guessed == ("date", "zone")
    assert layout.lost == ("date", "zone")
    _, (layout,) = read(write(tmp_path / "b.log", JAVA["docker json"](told), told), CLIENTS["java"])
    assert (layout.pattern, layout.guessed) == ("json > [%{time}] %{level} %{message} (%{logger})", ())


def test_known_layouts_need_no_learning(tmp_path: Path) -> None:
    """What is written in a known layout is read as ever."""
    told = events("java")
    _, layouts = read(write(tmp_path / "a.log", JAVA["kafka"](told), told), CLIENTS["java"])
    assert layouts == ()


def test_two_programs_with_two_layouts_share_a_file(tmp_path: Path) -> None:
    """One speaks text, the other JSON, line by line in turn."""
    a, b = events("java")[:100], events("info")
    text, objects = JAVA["logback date"](a).splitlines(), JAVA["logstash"](b).splitlines()
    merged = "\n".join([*text, *objects]) + "\n"
    found, layouts = read(write(tmp_path / "a.log", merged, b), CLIENTS["java"])
    assert len(layouts) == 2
    assert found == said(CLIENTS["java"], (*a, *b), set())


def test_a_layout_that_begins_late_in_a_large_file_is_learned_too(tmp_path: Path) -> None:
    """After a release the program writes objects; between both it says a lot of its own."""
    a, b = events("java")[:100], events("info")
    chatter = "2026-11-21 07:55:20.000 [main] INFO  com.example.Orders -- An order was stored\n" * 40_000
    path = write(tmp_path / "a.log", JAVA["logback date"](a) + chatter + JAVA["logstash"](b), b)
    found, layouts = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], (*a, *b), set())
    assert len(layouts) == 2
    assert read(path, CLIENTS["java"], 1_000_003) == (found, layouts)


def test_marks_without_a_layout_are_told(tmp_path: Path) -> None:
    """Lines that look like a client's and are understood nowhere leave guesses, each with its reason."""
    path = tmp_path / "a.log"
    path.write_text("12 <x> about [Consumer clientId=a, groupId=b] nothing is known\n" * 5)
    reader = PieceReader(Piece(str(path), 0, WHOLE), formats())
    assert list(reader.entries())
    assert reader.layouts == ()
    assert [guess.why for guess in reader.guesses] == [
        "the words behind it are not understood as those of java, and no time stamp was found"
    ]


def test_whether_a_file_is_cut_is_for_the_formats_that_are_expected(tmp_path: Path) -> None:
    """A table of a client that nobody looks for is text like any other."""
    path = write(tmp_path / "a.log", JAVA["csv"](events("java")), events("java"))
    looked_for = expected(Options(format="java")), expected(Options(format="broker"))
    assert [len(list(cut(path, 50_000, its))) > 1 for its in looked_for] == [False, True]
    jobs = [sum(map(len, bins(find([path]), 50_000, 1, its))) for its in looked_for]
    assert [count > 1 for count in jobs] == [False, True]


STATED = {
    "%{time} [%{thread}] %{level} %{logger} -- %{message}": "logback",
    "%d{HH:mm:ss.SSS} [%thread] %-5level %logger{36} -- %msg%n": "logback",
    "%clr(%d{ISO8601}){faint} %clr(%5p) %c : %m%n%wEx": "ansi",
    "%{TIMESTAMP_ISO8601:time} %{LOGLEVEL:level} %{JAVACLASS:logger} [%{DATA:thread}] %{GREEDYDATA:message}": "log4j2",
    "[%(asctime)s] %(levelname)s %(message)s (%(name)s)": "docker json",
}


@pytest.mark.parametrize(("pattern", "name"), STATED.items(), ids=STATED)
def test_a_layout_may_be_stated(pattern: str, name: str, tmp_path: Path) -> None:
    """In the words of logback, log4j, grok or Python's logging, what frames hold."""
    told = events("java")
    path = write(tmp_path / "a.log", JAVA[name](told), told)
    reader = PieceReader(Piece(str(path), 0, WHOLE), in_layout(formats(), pattern))
    found = [r for entry in reader.entries() for r in parse_entry(entry, UTC)[1] or ()]
    (layout,) = reader.layouts
    assert layout.share > 0.99
    assert [without_pid(r) for r in found] == said(CLIENTS["java"], told, set(layout.lost))


@pytest.mark.parametrize(
    "pattern", ["", "%{time} %{level}", "%{message} %{message}", "%{nonsense} %{message}", "%q %m"]
)
def test_a_pattern_that_says_nothing_is_refused(pattern: str) -> None:
    """With one line that names what is missing or unknown."""
    with pytest.raises(InputError, match="pattern"):
        in_layout(formats(), pattern)


def test_packed_twice(tmp_path: Path) -> None:
    """A gzip of a gzip is unpacked twice; what no program here unpacks is said in one line."""
    told = events("info")
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(gzip.compress(JAVA["logback date"](told).encode())))
    assert is_gzip(path)
    found, _ = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], told, set())
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 100)
    with pytest.raises(OSError, match="zstd"):
        read(path, CLIENTS["java"])


ROWS = [(row.name, text, want) for row in stamps.STAMPS for text, want in row.examples.items()]


@pytest.mark.parametrize(("row", "text", "want"), ROWS, ids=[f"{row} {text}" for row, text, _ in ROWS])
def test_every_row_of_stamps_means_what_it_says(row: str, text: str, want: str) -> None:
    """A stamp is found in a line, by its own row, and is the time of its example."""
    clock = stamps.Clock(UTC, round(datetime(2026, 11, 22, 20, tzinfo=UTC).timestamp() * 1000))
    found = next(stamps.find(f"x [{text}] INFO"))
    assert (found.lastgroup, found[0]) == (row, text)
    time = stamps.read(text, clock, (row,))
    assert time is not None
    assert datetime.fromtimestamp(time.ms / 1000, UTC).replace(tzinfo=None) == datetime.fromisoformat(want)


WORDS = st.sampled_from(
    [
        *("order", "17", "took", "a.b.C", "[main]", "{}", "INFO", "2026-11-21", "07:57:36,001", "\t", "\x1b[1m", "\0"),
        *('"', "'", "=", ":", ",", "|"),
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=12).map(" ".join), max_size=40))
def test_lines_of_no_client_give_nothing(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    """Whatever other programs print, nothing is learned and nothing is found."""
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_text("\n".join(lines))
    for client in CLIENTS.values():
        assert read(path, client)[0] == []


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["logback", "docker json", "cri", "logfmt", "csv", "gelf"]))
def test_damaged_files_raise_nothing(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, name: str
) -> None:
    """Lines cut anywhere, bytes changed, objects without an end."""
    data = bytearray(JAVA[name](events("info")).encode())
    for _ in range(40):
        at = chance.randrange(len(data))
        data[at : at + chance.choice([0, 1, 50])] = chance.choice(
            [b"\0", b"\n", b'"', b"}", b"\xff", b"\x1b[3m", b"\\ud800"]
        )
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_bytes(bytes(data))
    read(path, CLIENTS["java"])


def test_deep_objects_are_bounded(tmp_path: Path) -> None:
    """JSON of any depth, and with very many fields."""
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    wide = json.dumps(
        {f"k{i}": i for i in range(5000)} | {"message": "[Consumer clientId=a, groupId=b] (Re-)joining group"}
    )
    path = tmp_path / "a.log"
    path.write_text("\n".join([deep, wide] * 5))
    assert len(read(path, CLIENTS["java"])[0]) in (0, 10)


@pytest.mark.parametrize("name", ["docker json", "docker json parts", "cri", "compose", "kubectl prefix timestamps"])
def test_a_scan_finds_in_frames_what_reading_every_line_finds(name: str, tmp_path: Path) -> None:
    """Entries that matter, with all their lines, wherever the file is cut; the rest is counted."""
    told = [e for one in events("java") for e in (one, *(CHATTER._replace(ts_ms=one.ts_ms) for _ in range(5)))]
    path = write(tmp_path / "a.log", JAVA[name](told), told)
    for split_bytes in (WHOLE, 50_000):
        for piece in cut(path, split_bytes):
            wanted = {e.offset: e.data for e in PieceReader(piece, formats()).entries() if parse_entry(e, UTC)[1]}
            few = Scanner(PieceReader(piece, formats()), marks_of(clients()), UTC)
            assert {one.entry.offset: one.entry.data for one in few.scan() if one.records} == wanted
            assert few.passed > 0


CHATTER = Event(
    0, "INFO", "com.example.Orders", "main", "Order 17 was stored", "x.y.StoreException: no\n\tat x.y.Z(Z.java:1)"
)


def test_lines_that_a_collector_cut_are_told(tmp_path: Path) -> None:
    """Several lines as long as the longest one, which end anywhere."""
    told = events("java")
    whole = JAVA["logback date"](told)
    cut_at = sorted(map(len, whole.splitlines()))[-9]
    for name, text, want in (
        ("whole", whole, False),
        ("cut", "\n".join(line[:cut_at] for line in whole.splitlines()), True),
    ):
        _, (layout,) = read(write(tmp_path / name, text, told), CLIENTS["java"])
        assert (ENDS in layout.lost) is want


def test_days_stand_before_months_where_one_date_of_the_file_says_so(tmp_path: Path) -> None:
    """Or, where none does, where the file was written soon after."""
    for days, want in ((0, 21), (18, 3)):
        told = [e._replace(ts_ms=e.ts_ms - days * stamps.DAY_MS) for e in events("java")]
        path = write(tmp_path / f"{days}.log", TOOLS["uk date"](told), told)
        found, _ = read(path, CLIENTS["java"])
        assert {datetime.fromtimestamp(one.ts_ms / 1000, UTC).day for one in found} == {want}


def test_a_document_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """JSON that ends in the middle of an object."""
    told = events("info")
    text = TOOLS["elastic search hits"](told)
    found, _ = read(write(tmp_path / "a.log", text[: len(text) * 2 // 3], told), CLIENTS["java"])
    whole = said(CLIENTS["java"], told, {"thread"})
    assert 0 < len(found) < len(whole)


@pytest.mark.parametrize("line", ['{ "a { " name " => " }', '{ "a" => "b', '{"a" => {' * 200, '{ "a" => ' + "[" * 5000])
def test_what_only_looks_like_a_ruby_hash_is_no_object(line: str) -> None:
    assert json_object(line) is None
