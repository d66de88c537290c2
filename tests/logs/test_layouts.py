"""Layouts that are learned: recorded messages put into many layouts mean the same in each of them."""

from __future__ import annotations

import gzip
import html
import json
import os
import random
import re
import tarfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from textwrap import indent
from time import process_time
from typing import Literal

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs.coded import CODED
from logs.exports import EXPORTS
from logs.shown import SHOWN
from logs.wrappers import (
    JAVA,
    OTHERS,
    PLAIN,
    TOOLS,
    Event,
    Writer,
    iso,
    java_events,
    kafka_line,
    librdkafka_events,
    logback_line,
)
from recordings import DATA, logs, opened

from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.scanning import Scanner
from fsm.errors import InputError
from fsm.logs import Client, Message, clients, formats
from fsm.logs.exports import tables
from fsm.logs.exports.recodings import HEAD, find_recoding
from fsm.logs.layouts import stamps
from fsm.logs.layouts.fields import json_object, logfmt
from fsm.logs.layouts.headers import Token, find_program, roles_of, score_logger
from fsm.logs.layouts.layout import ENDS, GAPS, Description, marks_of
from fsm.logs.layouts.pattern import in_layout
from fsm.logs.layouts.ties import are_ties_in_order
from fsm.logs.reading.entries import ENTRY_LIMIT, LINE_LIMIT, parse_entry
from fsm.logs.reading.opening import DamageTolerant, open_packed
from fsm.logs.reading.pieces import WHOLE, Piece, PieceReader, cut, from_bytes, reader_of
from fsm.spark.options import Options
from fsm.spark.sources import find, list_formats, pack_bins
from fsm.trace import TraceRecord

CLIENTS = {client.name: client for client in clients()}
RECORDED = {
    "java": ("java", "j02_second_joins/A.log"),
    "classic": ("java", "x01_coop_second/A.log"),
    "info": ("java", "i_j09_kill9/A.log"),
    "throws": ("java", "i_j24_commit_fail_revoke/A.log"),
    "connect": ("connect", "s01_join_gap/W1.log"),
    "broker": ("broker", "j10_static_restart/broker.log"),
    "librdkafka": ("librdkafka", "c02_two/A.log"),
}
MOST = 130
"""Events of a recording that are written."""
FEW = 45
"""Enough of them to learn a layout: who tries each of many layouts writes these."""


FEEDS = {
    "a blank": " ", "escapes": r"\n", "escapes of CR LF": r"\r\n", "octal": "#012", "bars": " | ", "HTML": "<br>",
    "carets": "^J", "blank and escapes": r" \n\t", "line separators": "\u2028", "arrows": " \u21b5 ", "nothing": "",
}  # fmt: skip
"""What collectors write for line feeds."""


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


def read(
    path: Path, client: Client, split_bytes: int = WHOLE, *, is_cut: bool = False
) -> tuple[list[TraceRecord], tuple[Description, ...]]:
    """The records of a client in a file, in the order of their entries, and the layouts that were learned. If it `is
    cut`, as far as it goes."""
    out, layouts = [], ()
    for piece in cut(path, split_bytes):
        reader = reader_of(piece, formats())
        assert isinstance(reader, PieceReader)
        with suppress(EOFError) if is_cut else nullcontext():
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
    *(("throws", name, writer) for name, writer in SHOWN.items()),
    *(("java", name, writer) for name, writer in CODED.items()),
    *((kind, name, writer) for name, writer in {**TOOLS, **EXPORTS}.items() for kind in ("java", "librdkafka")),
]


def is_twin(kind: str, name: str) -> bool:
    """Whether another client's debug log is read in the same layout, and this one's in others; so are two of three
    layouts of other loggers."""
    if kind == "java" and name not in JAVA:
        return sum(name.encode()) % 3 != 0
    if kind in ("classic", "connect", "broker"):
        return name not in ("logback", "docker json")
    return kind == "info" or (kind == "librdkafka" and (name in TOOLS or name in EXPORTS))


@pytest.mark.parametrize(
    ("kind", "name", "writer"),
    [
        pytest.param(*case, id=f"{case[0]} in {case[1]}", marks=[pytest.mark.deep] if is_twin(*case[:2]) else [])
        for case in CASES
    ],
)
@pytest.mark.loop(110)
def test_a_layout_changes_nothing_but_what_it_loses(kind: str, name: str, writer: Writer, tmp_path: Path) -> None:
    """Kind, ids, partitions, threads and times are those of the messages."""
    told = events(kind)[: MOST if kind == "throws" else FEW]
    client = CLIENTS["java" if kind in ("classic", "info", "throws") else kind]
    found, layouts = read(write(tmp_path / "a.log", writer(told), told), client)
    native = {"thread"} if name != "spring" else set()
    lost = {what for layout in layouts for what in layout.lost} if layouts else native
    if name == "spring" and not layouts:
        told = tuple(e._replace(thread=e.thread[-15:]) for e in told)
    assert found == said(client, told, lost)
    assert found


@pytest.mark.parametrize("line", [kafka_line, logback_line], ids=["kafka", "logback"])
@pytest.mark.parametrize("kind", ["java", "classic", "throws"])
@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
@pytest.mark.loop(22)
def test_lines_of_a_message_may_be_joined(feed: str, kind: str, line: Callable[[Event], str], tmp_path: Path) -> None:
    """Settings, lists of partitions and stack traces, between whose lines a collector wrote something else than line
    feeds; quickly read and line by line."""
    told = events(kind)
    paths = [tmp_path / "lines.log", tmp_path / "joined.log"]
    for path, text in zip(paths, ("\n", feed), strict=True):
        write(path, "".join(line(e).rstrip("\n").replace("\n", text) + "\n" for e in told), told)
    whole, joined = (read(path, CLIENTS["java"])[0] for path in paths)
    assert joined == whole
    whole, joined = (read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary for path in paths)
    assert (joined.records, joined.missed, joined.kinds) == (whole.records, 0, whole.kinds)


@pytest.mark.parametrize("head", ["", "<pre>\n", "<table class='log'>\n"])
def test_quotes_may_be_entities(head: str, tmp_path: Path) -> None:
    """In lines of a page and in a part of one; the classic protocol's messages have quotes."""
    told = events("classic")
    text = head + "".join(f"<tr><td>{iso(e)}</td><td>{html.escape(e.text)}</td></tr>\n" for e in told)
    found, _ = read(write(tmp_path / "a.log", text, told), CLIENTS["java"])
    assert found == said(CLIENTS["java"], [e._replace(trace="") for e in told], {"logger", "thread"})


def test_directions_of_writing_are_no_part_of_a_time(tmp_path: Path) -> None:
    """Windows puts their marks between the parts of a date that is copied."""
    told = events("java")
    _, (layout,) = read(write(tmp_path / "a.log", SHOWN["directions of writing"](told), told), CLIENTS["java"])
    assert "date" not in layout.lost


@pytest.mark.parametrize("kind", ["classic", "librdkafka"])
def test_quotes_may_be_set_as_in_print(kind: str, tmp_path: Path) -> None:
    """As a word processor, a mailer or a chat does."""
    told, client = events(kind), CLIENTS["java" if kind == "classic" else kind]
    text = re.sub("'([^'\n]*)'", "\u2018\\1\u2019", JAVA["log4j2"](told))
    text = re.sub('"([^"\n]*)"', "\u201c\\1\u201d", text).replace('"', "\u201d")
    found, (layout,) = read(write(tmp_path / "a.log", text, told), client)
    assert found == said(client, told, set(layout.lost))


@pytest.mark.parametrize("name", ["logback", "docker json", "cri", "compose", "syslog 5424", "logstash", "csv"])
@pytest.mark.loop(3)
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


OTHER_CLIENTS = (
    ("sarama.sigstop", "A.log", "sarama"),
    ("kafkajs.sigstop", "A.log", "kafkajs"),
    ("aiokafka.maxpoll", "A.log", "aiokafka"),
    ("kafkapython_range.bounce", "A.log", "kafka-python"),
    ("franz_consumer.sigstop_twice", "A.log", "franz-go"),
)
BEHIND: dict[str, Callable[[int], str]] = {
    "a word": lambda _: " host-1",
    "a word in brackets": lambda _: " [host-1]",
    "a trace": lambda i: f" [traceId={i * 2_654_435_761 % 2**32:08x}]",
    "cat -A": lambda _: "$",
    "a field in brackets": lambda i: f" [trace={i}]",
    "fields": lambda i: f" trace_id={i * 2_654_435_761 % 2**32:032x} span_id={i:016x}",
    "fields that may be missing": lambda i: f" {{requestId={i}, user=bob}}" if i % 3 else " {}",
    "a column": lambda i: f"\t2026-11-21 07:{i % 60:02}:01.000",
    "an id": lambda i: f" {i * 2_654_435_761 % 2**32:08x}-{i:04x}",
    "a number": lambda i: f" #{i}",
    "an id before a word": lambda i: f" id={i} host-1",
    "a level": lambda i: f" [{('INFO', 'DEBUG', 'WARN')[i % 3]}]",
    "a level before a word": lambda i: f" <{('INFO', 'DEBUG', 'WARN')[i % 3]}|{('consumer', 'group')[i % 2]}>",
    "a level behind a dash": lambda i: f" - {('INFO', 'DEBUG', 'WARN')[i % 3]}",
    "columns": lambda i: f" | {('INFO', 'DEBUG', 'WARN')[i % 3]} | {('consumer', 'group')[i % 2]}",
    "an address": lambda i: f" @{('consumer', 'group')[i % 2]}",
    "function and line behind a bar": lambda i: f" | _poll_{'once' if i % 3 else 'loop'}:{100 + i * 7 % 400}",
    "function at a line": lambda i: f" #poll{'Once' if i % 3 else ''}@{100 + i * 7 % 400}",
}
"""What may stand behind each line of a file, by the number of the line."""


SOMETIMES: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "fields behind": (lambda _: "", lambda i: f" traceId={i * 7919:08x} spanId={i:04x}"),
    "fields in brackets": (lambda _: "", lambda i: f" [trace={i * 7919:x}]"),
    "an object": (lambda _: "", lambda i: f' {{"traceId":"{i * 7919:x}"}}'),
    "an id": (lambda _: "", lambda i: f" 123e4567-e89b-12d3-a456-{i:012x}"),
    "a source": (lambda _: "", lambda i: f" (ConsumerCoordinator.java:{300 + i})"),
    "a field before": (lambda i: f"traceId={i * 7919:x} ", lambda _: ""),
    "brackets before": (lambda i: f"[{i * 7919:08x}] ", lambda _: ""),
    "pairs before": (lambda i: f"[traceId={i * 7919:x} spanId={i:x}] ", lambda _: ""),
}
"""What may stand before or behind some messages, and not others."""


@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("name", SOMETIMES)
@pytest.mark.loop(8)
def test_what_only_some_messages_have_changes_nothing(name: str, every: int, tmp_path: Path) -> None:
    """A request is traced, others are not: in layouts that are learned and in those that are known."""
    before, behind = SOMETIMES[name]
    told = events("java")
    some = [
        e if i % every else e._replace(text=before(i) + e.text + ("" if e.trace else behind(i)))
        for i, e in enumerate(told)
    ]
    for layout in ("kafka", "spring", "no logger"):
        path = write(tmp_path / f"{layout}.log", JAVA[layout](some), told)
        found, layouts = read(path, CLIENTS["java"])
        lost = {what for one in layouts for what in one.lost} if layouts else {"thread"} - {layout}
        if layout == "spring":
            lost -= {"thread"}
        assert found
        assert [replace(r, thread="") for r in found] == [
            replace(r, thread="") for r in said(CLIENTS["java"], told, lost)
        ]


@pytest.mark.parametrize("remark", ["- request 7", "| bob", ":: shard 2 of 3"])
def test_a_remark_behind_some_messages_changes_only_those_with_lists(remark: str, tmp_path: Path) -> None:
    """What stands behind a list may say that it was cut: such a message is not understood, rather than half of it."""
    told = events("java")
    marked = [i % 5 == 0 and not e.trace and "\n" not in e.text for i, e in enumerate(told)]
    some = [e._replace(text=f"{e.text} {remark}") if at else e for e, at in zip(told, marked, strict=True)]
    plain = [e for e, at in zip(told, marked, strict=True) if not (at and re.search("partition|topic", e.text))]
    found, _ = read(write(tmp_path / "a.log", JAVA["kafka"](some), told), CLIENTS["java"])
    assert len(plain) < len(told)
    assert found == said(CLIENTS["java"], plain, {"thread"})


@pytest.mark.parametrize(
    "behind",
    [
        "",
        " traceId=7",
        ", truncated=true",
        " truncated=true",
        " - and 2 more",
        " -- cut",
        " | foo-2",
        " - foo-2",
        " - 3 others",
        " | 5",
    ],
)
def test_half_a_list_is_no_list_whatever_stands_behind(behind: str) -> None:
    whole = () if behind in ("", " traceId=7") else ("foo-0, foo-1",)
    for text in ("foo-0, foo-1, fo", "foo-0, foo", "fo", *whole):
        line = f"[Consumer clientId=a, groupId=g] Adding newly assigned partitions: {text}{behind}"
        entry = (
            f"[2026-11-21 07:55:15,123] INFO {line} (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
        )
        _, records = parse_entry(next(iter(from_bytes(entry.encode(), formats()))), UTC)
        assert not records


@pytest.mark.parametrize(
    "before",
    [
        "last heard - ",
        "seen | ",
        "Error: ",
        "quoted: ",
        "payload: - ",
        "com.acme.App: ",
        "[dlq] (retry) ",
        "Retry of ",
        "WARN request=5 ",
    ],
)
def test_a_quoted_message_is_nobodys(before: str, tmp_path: Path) -> None:
    """An application's line holds what a client said elsewhere."""
    told = events("java")
    quote = "[Consumer clientId=a, groupId=g] Revoke previously assigned partitions foo-0"
    lines = JAVA["no logger"](told).splitlines(keepends=True)
    info = next(line for line in reversed(lines) if " INFO " in line)
    stamp = info[: info.index("INFO")]
    level, text = ("WARN ", before[5:]) if before.startswith("WARN") else ("INFO ", before)
    path = write(tmp_path / "a.log", "".join([*lines, f"{stamp}{level}{text}{quote}\n"]), told)
    found, _ = read(path, CLIENTS["java"])
    assert [one for one in found if one.group == "g"] == []


def test_words_without_bearing_in_a_known_layout_are_no_unknown_layout(tmp_path: Path) -> None:
    """A consumer's network client says nothing about its group, however often."""
    told = [
        e._replace(text="[Consumer clientId=a, groupId=g] Node -1 disconnected.", logger="o.a.k.clients.NetworkClient")
        for e in events("java")
    ]
    reader = PieceReader(Piece(str(write(tmp_path / "a.log", JAVA["spring"](told), told)), 0, WHOLE), formats())
    list(reader.entries())
    assert not reader.layouts
    assert not reader.guesses


@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.loop(8)
def test_what_stands_behind_each_line_changes_nothing(name: str, tmp_path: Path) -> None:
    """Of Kafka's own layout, which ends with the logger; first lines, last lines and those between."""
    for kind in ("java", "broker"):
        told = events(kind)
        client = CLIENTS["java" if kind in ("classic", "info", "throws") else kind]
        rows = JAVA["kafka"](told).splitlines()
        text = "".join(f"{line}{BEHIND[name](i)}\n" for i, line in enumerate(rows))
        found, (layout,) = read(write(tmp_path / f"{kind}.log", text, told), client)
        assert found == said(client, told, {"thread"})
        assert layout.lost == ("thread", "zone")


@pytest.mark.deep
@pytest.mark.parametrize("name", BEHIND)
def test_what_stands_behind_each_line_of_other_clients_changes_nothing(name: str, tmp_path: Path) -> None:
    """Whatever their messages end with themselves."""
    for scenario, member, client in OTHER_CLIENTS:
        data = logs("client")[scenario][member].decode()
        path = tmp_path / f"{scenario}.log"
        path.write_text(data)
        want, _ = read(path, CLIENTS[client])
        path.write_text("".join(f"{line}{BEHIND[name](i)}\n" for i, line in enumerate(data.splitlines())))
        found, _ = read(path, CLIENTS[client])
        assert [replace(r, detail="") for r in found] == [replace(r, detail="") for r in want]
        assert want


def test_a_client_is_learned_from_one_line_in_a_hundred(tmp_path: Path) -> None:
    """The sample has lines of each client, however many another one prints."""
    path, client = tmp_path / "a.log", CLIENTS["sarama"]
    path.write_bytes(logs("client")["sarama.sigstop"]["A.log"])
    want, _ = read(path, client)
    few = path.read_text(encoding="utf-8").splitlines(keepends=True)
    many = [kafka_line(e) + "\n" for e in events("java")] * 20
    step = len(many) // len(few)
    path.write_text("".join("".join([*many[i * step :][:step], line]) for i, line in enumerate(few)), encoding="utf-8")
    assert read(path, client)[0] == want
    assert want


@pytest.mark.parametrize(
    ("path", "is_certain"),
    [
        ("_pod_name_", True),
        ("@logStream", True),
        ("alloc_id", True),
        ("resource.service.instance.id", True),
        ("_sourceHost", False),
        ("event.syslog.host", False),
        ("host.hostname", False),
        ("cloud_RoleInstance", False),
        ("log.file.path", False),
        ("_stream", False),
    ],
)
def test_fields_that_name_the_process(path: str, is_certain: bool) -> None:
    assert find_program([path, "message", "service", "file", "level"]) == ((path,), is_certain)


def test_a_logger_may_have_a_line_number(tmp_path: Path) -> None:
    """Only with its logger is a message that two clients print that of one of them."""
    path = tmp_path / "a.log"
    path.write_bytes(logs("client")["aiokafka.maxpoll"]["A.log"])
    found, (layout,) = read(path, CLIENTS["aiokafka"])
    assert {one.client_id for one in found} == {"aiokafka"}
    assert "logger" not in layout.lost
    assert score_logger(["consumer.go:17"] * 20) == 0


def test_loggers_of_a_package_are_one_column(tmp_path: Path) -> None:
    """Most lines are of `aiokafka` itself, and other brackets stand before it; groups are those of the client."""
    client = CLIENTS["aiokafka"]
    rows = logs("client")["aiokafka.bounce"]["A.log"].decode().splitlines()
    parts = [row.split(" ", 4) for row in rows]
    (tmp_path / "plain.log").write_text("\n".join(rows))
    want, _ = read(tmp_path / "plain.log", client)
    doc = [
        {"at": f"{day} {time}", "log": f"[{day} {time}] {level} {text} ({name})" + "\nKilled" * ("Discovered" in text)}
        for day, time, level, name, text in parts
    ]
    (tmp_path / "a.json").write_text(json.dumps(doc))
    found, (layout,) = read(tmp_path / "a.json", client)
    assert "logger" not in layout.lost
    assert found == want
    assert score_logger(["worker.1", "worker.2"]) == 0


def test_a_header_that_names_the_logger_has_no_line_above(tmp_path: Path) -> None:
    """Python's default layout, with one line of the client: the line above it has the same beginning."""
    path = tmp_path / "consumer.log"
    path.write_text(
        "WARNING:kafka.client:Node 1 went away\n"
        "WARNING:kafka.coordinator:Marking the coordinator dead (node 1) for group g: Node Disconnected.\n"
    )
    (record,), (layout,) = read(path, CLIENTS["kafka-python"])
    assert record.group == "g"
    assert layout.pattern == "%{level}:%{logger}:%{message}"


def test_times_above_messages_are_found_in_a_sample_with_gaps(tmp_path: Path) -> None:
    """Erlang's logger; of a long file only lines near those of clients are looked at."""
    told = tuple(librdkafka_events(logs("librdkafka")["k_x03_coop_maxpoll"]["B.log"]))
    text = "".join(
        f"=INFO REPORT==== {e.at:%d-%b-%Y::%H:%M:%S}.{e.ts_ms % 1000:03} ===\n    {e.body}\n\n" for e in told
    )
    found, (layout,) = read(write(tmp_path / "a.log", text, told), CLIENTS["librdkafka"])
    assert layout.lost == ("logger", "thread", "zone")
    assert found == said(CLIENTS["librdkafka"], told, {"logger", "thread"})


@pytest.mark.parametrize("behind", [" @ {}", " [{}]", " ({1}) [{0}]", " time={}"])
@pytest.mark.parametrize("kind", ["java", "librdkafka"])
def test_a_time_may_stand_behind_messages(kind: str, behind: str, tmp_path: Path) -> None:
    """And nowhere else."""
    told = tuple(e._replace(trace="") for e in events(kind) if "\n" not in e.text)
    text = "".join(f"{e.level} {e.logger} - {e.text}{behind.format(iso(e, ' '), e.logger)}\n" for e in told)
    found, (layout,) = read(write(tmp_path / "a.log", text, told), CLIENTS[kind])
    assert "time" not in layout.lost
    assert found == said(CLIENTS[kind], told, {"thread"} | set(layout.lost))


def test_a_traceback_of_python_is_not_upside_down() -> None:
    """The error stands below its frames."""
    told = events("java")
    trace = 'Traceback (most recent call last):\n  File "a.py", line 5, in f\n    g()\nRuntimeError: no\n'
    some = [e for e in told if "\n" not in e.body]
    rows = [f"{kafka_line(e)}\n{trace if i == 5 else ''}" for i, e in enumerate(some)]
    head = "".join(rows).encode()
    assert tables.find_table(head) is None


def go_text(value: object) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(one)}' for key, one in value.items())}]"
    return f"[{' '.join(map(go_text, value))}]" if isinstance(value, list) else str("<nil>" if value is None else value)


def pairs(fields: dict[str, object], as_json: bool) -> str:
    """Fields as loggers put them behind a message; only values with blanks are quoted."""
    texts = {
        name: json.dumps(value, separators=(",", ":")) if as_json and isinstance(value, dict) else go_text(value)
        for name, value in fields.items()
    }
    return " ".join(
        f"{name}={text if text and not re.search(r'[ =]', text) else json.dumps(text)}" for name, text in texts.items()
    )


def below(fields: dict[str, object], spaces: int | None) -> str:
    """Fields on lines of their own, as pino-pretty prints them."""
    return indent("\n".join(f"{name}: {json.dumps(value, indent=spaces)}" for name, value in fields.items()), " " * 4)


def rows(fields: dict[str, object], line: str) -> str:
    """Fields on lines of their own, as console handlers of Go print them."""
    return "".join(line.format(name, go_text(value)) for name, value in fields.items())


@pytest.mark.parametrize(
    "line",
    [
        lambda at, text, fields: f"INFO[{at[17:19]}] {text:<44} {pairs(fields, False)}",
        lambda at, text, fields: f"{at} [INFO]  kafka: {text}: {pairs(fields, False)}",
        lambda at, text, fields: f"{at[11:19]} INFO {text} {pairs(fields, False)}",
        lambda at, text, fields: f"\x1b[90m{at}\x1b[0m \x1b[32mINF\x1b[0m {text} {pairs(fields, True)}",
        lambda _at, text, fields: f"{text}\t{json.dumps(fields)}",
        lambda at, text, fields: f'I{at[5:7]}{at[8:10]} {at[11:23]} 1 a.go:7] "{text}" {pairs(fields, False)} pod="b"',
        lambda at, text, fields: f"  kgo {text} {json.dumps(fields)} +{at[20:23]}ms",
        lambda at, text, fields: json.dumps({"timestamp": at, "jsonPayload": {"message": text, **fields}}),
        lambda at, text, fields: json.dumps({"ts": at, "entry": {"msg": text, "attributes": fields}}),
        lambda at, text, fields: json.dumps({"time": at, "msg": text, "app": {"kafka": fields}}),
        lambda at, text, fields: (
            f"time={at} msg={json.dumps(text)} {pairs({f'kafka.{name}': fields[name] for name in fields}, False)}"
        ),
        lambda at, text, fields: f"[{at}] INFO: {text}\n{below(fields, None)}",
        lambda at, text, fields: f"[{at}] INFO: {text}\n{below(fields, 2)}",
        lambda at, text, fields: f"{at} INF {text}" + rows(fields, "\n    {}={}"),
        lambda at, text, fields: f"[{at[11:19]}]  INFO  {text}" + rows(fields, "\n  {:>14}: {}"),
        lambda at, text, fields: f"{at} INFO {text}" + rows(fields, "\n                  ├ {}: {}"),
        lambda at, text, fields: f"[{at}] INFO: {text}\n  {json.dumps(fields)}",
    ],
    ids=[
        *("logrus", "hclog", "charm", "zerolog", "nothing before", "klog", "debug", "beside", "in an object beside"),
        *("in two groups", "in a group of names", "below", "below, over several lines"),
        *("pairs below", "in a column below", "a tree below", "an object below"),
    ],
)
def test_fields_behind_messages_are_read(line: Callable[[str, str, dict[str, object]], str], tmp_path: Path) -> None:
    """As pairs behind words, quoted or not, as an object behind words with nothing before them, in objects, or on
    lines below."""
    data = logs("client")["franz_consumer.sigstop_twice"]["A.log"].decode()
    path = tmp_path / "plain.log"
    path.write_text(data)
    want, _ = read(path, CLIENTS["franz-go"])
    rows = (row.split("\t") for row in data.splitlines())
    told = [(at, text, json.loads(fields[0]) if fields else {}) for at, _, text, *fields in rows]
    path = tmp_path / "a.log"
    path.write_text("".join(f"{line(*one)}\n" for one in told))
    found, _ = read(path, CLIENTS["franz-go"])
    assert [replace(r, ts_ms=0) for r in found] == [replace(r, ts_ms=0) for r in want]
    assert want


def test_an_application_writes_otherwise_into_the_same_objects(tmp_path: Path) -> None:
    """Below a client's lines: they are none of what those say."""
    told = logs("client")["franz_consumer.grow"]["A.log"].decode().splitlines()
    path = tmp_path / "plain.log"
    path.write_text("".join(f"{line}\n" for line in told))
    want, _ = read(path, CLIENTS["franz-go"])
    between = [part for i, line in enumerate(told) for part in (line, f"{line[5:29]} WARN order {i} is late")]
    path = tmp_path / "a.log"
    path.write_text("".join(json.dumps({"log": part, "pod": "a"}) + "\n" for part in between))
    assert read(path, CLIENTS["franz-go"])[0] == want
    assert want


def test_known_layouts_need_no_learning(tmp_path: Path) -> None:
    """What is written in a known layout is read as ever."""
    told = events("java")
    _, layouts = read(write(tmp_path / "a.log", JAVA["kafka"](told), told), CLIENTS["java"])
    assert layouts == ()


def test_what_one_client_cannot_read_is_not_excused_by_another(tmp_path: Path) -> None:
    """To whom the words mean nothing: the line is told as one that should have been understood."""
    told = events("throws")
    line = f"{iso(told[-1])} [Consumer clientId=c, groupId=g] Adding newly assigned partitions: [t-0] and more"
    path = write(tmp_path / "a.log", JAVA["nothing but time"](told) + line, told)
    *_, last = PieceReader(Piece(str(path), 0, WHOLE), formats()).entries()
    assert last.formats
    assert parse_entry(last, UTC) == (None, None)


def test_two_programs_with_two_layouts_share_a_file(tmp_path: Path) -> None:
    """One speaks text, the other JSON, line by line in turn."""
    a, b = events("java")[:100], events("info")
    text, objects = JAVA["logback date"](a).splitlines(), JAVA["logstash"](b).splitlines()
    merged = "\n".join([*text, *objects]) + "\n"
    found, layouts = read(write(tmp_path / "a.log", merged, b), CLIENTS["java"])
    assert len(layouts) == 2
    assert found == said(CLIENTS["java"], (*a, *b), set())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("logback", "time before each line"),
        ("stern", "heroku"),
        ("foreman", "fly"),
        ("cloudwatch", "compose v2 ts"),
        ("papertrail tsv", "line numbers"),
        ("aws logs tail", "nlog all"),
        ("logcli raw", "helidon"),
        ("ansi", "cloudwatch"),
    ],
)
@pytest.mark.loop(4)
def test_what_collects_the_lines_may_change_in_the_middle_of_a_file(before: str, after: str, tmp_path: Path) -> None:
    """Each has its own prefix before continuation lines, or none."""
    writers = {**JAVA, **OTHERS, **TOOLS, **SHOWN}
    told = events("throws")
    half = len(told) // 2
    text = writers[before](told[:half]) + writers[after](told[half:])
    found, layouts = read(write(tmp_path / "a.log", text, told), CLIENTS["java"])
    assert len(layouts) == 2
    wanted = said(CLIENTS["java"], told, set())
    assert [replace(one, ts_ms=0, thread="") for one in found] == [replace(one, ts_ms=0, thread="") for one in wanted]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (logfmt, "a='x'" + " " * 3_000 + "y' b=1 c='z'"),
        (logfmt, 'a="x"' + "\t" * 30_000 + "]" * 30_000 + 'y" b=1'),
        (lambda text: roles_of([Token("word", "")], [[text]]), "thread" * 10_000 + "\nx"),
    ],
    ids=["blanks", "brackets", "threads"],
)
def test_looking_for_fields_and_threads_takes_linear_time(function: Callable[[str], object], text: str) -> None:
    """Ends of values, and names that contain what threads are called."""
    begun = process_time()
    function(text)
    assert process_time() - begun < 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("bulk", "structlog console"), ("syslog 3164", "ts"), ("otel", "equal signs"), ("mongo shell", "websphere")],
)
def test_the_layout_of_a_file_may_change_more_than_once(one: str, other: str, tmp_path: Path) -> None:
    """As in the log of a container that is restarted with one setting or another: a seventh of the file each."""
    writers = {**JAVA, **OTHERS, **TOOLS, **SHOWN}
    told = events("throws")
    length = len(told) // 6
    parts = [told[start : start + length] for start in range(0, len(told), length)]
    text = "".join(writers[(one, other)[i % 2]](part) for i, part in enumerate(parts))
    found, _ = read(write(tmp_path / "a.log", text, told), CLIENTS["java"])
    wanted = said(CLIENTS["java"], told, set())
    assert [replace(one, ts_ms=0, thread="") for one in found] == [replace(one, ts_ms=0, thread="") for one in wanted]


def test_a_scanner_of_streams_with_several_layouts_agrees_with_the_reader(tmp_path: Path) -> None:
    """Whatever lines it passes over, a line below an entry belongs to no earlier one."""
    told = list(java_events(logs("java")["i_x03_coop_maxpoll"]["A.log"]))
    half = len(told) // 2
    text = SHOWN["rancher"](told[:half]) + SHOWN["blanks that are kept"](told[half:])
    path = write(tmp_path / "a.log", text, told)
    reader = PieceReader(Piece(str(path), 0, WHOLE), formats())
    scanned = {one.entry.offset: one.records for one in Scanner(reader, marks_of(clients()), UTC).scan() if one.records}
    assert reader.stream_scanner() is not None
    assert scanned == {entry.offset: found for entry in reader.entries() if (found := parse_entry(entry, UTC)[1])}


def test_what_mongodbs_shell_writes_around_values_is_no_part_of_them() -> None:
    """Brackets behind the object are, of the message."""
    printed = "2026 { at: ISODate('2026-11-21T07:57:36Z'), n: NumberLong(5), m: 'a (7)' } worker (7)"
    assert json_object(printed) == ("2026 worker (7)", {"at": "2026-11-21T07:57:36Z", "n": 5, "m": "a (7)"})


def test_the_time_of_objects_may_change_its_field_in_the_middle_of_a_file(tmp_path: Path) -> None:
    """What else is in them does not: one layout explains both halves, and each line has its time."""
    told = events("java")[:100]
    times = [datetime.fromtimestamp(one.ts_ms / 1000, UTC).isoformat(timespec="milliseconds") for one in told]
    timed = [{"@timestamp": one} for one in times[:50]] + [{"ts": {"$date": one}} for one in times[50:]]
    objects = (
        time | {"logger": one.logger, "thread": one.thread, "message": one.body}
        for time, one in zip(timed, told, strict=True)
    )
    text = "".join(f"{json.dumps(one)}\n" for one in objects)
    found, layouts = read(write(tmp_path / "a.log", text, told), CLIENTS["java"])
    assert len(layouts) == 1
    assert found == said(CLIENTS["java"], told, set())


def test_a_layout_that_begins_late_in_a_large_file_is_learned_too(tmp_path: Path) -> None:
    """After a release the program writes objects; between both it says a lot of its own."""
    a, b = events("java")[:100], events("info")
    chatter = "2026-11-21 07:55:20.000 [main] INFO  com.example.Orders -- An order was stored\n" * 20_000
    path = write(tmp_path / "a.log", JAVA["logback date"](a) + chatter + JAVA["logstash"](b), b)
    found, layouts = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], (*a, *b), set())
    assert len(layouts) == 2
    assert read(path, CLIENTS["java"], 500_003) == (found, layouts)


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
    looked_for = list_formats(Options(format="java")), list_formats(Options(format="broker"))
    assert [len(list(cut(path, 50_000, its))) > 1 for its in looked_for] == [False, True]
    jobs = [sum(map(len, pack_bins(find([path]), 50_000, 1, its))) for its in looked_for]
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


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_archives_are_refused(mode: Literal["w", "w:gz", "w:xz"], tmp_path: Path) -> None:
    """Packed or not: they hold several files, and what stands between those is no line of any."""
    told = events("info")
    path = write(tmp_path / "a.log", JAVA["logback date"](told), told)
    with tarfile.open(tmp_path / "a.tar", mode) as archive:
        archive.add(path, "logs/a.log")
    with pytest.raises(OSError, match="an archive of tar; unpack it first"):
        read(tmp_path / "a.tar", CLIENTS["java"])


@pytest.mark.parametrize("inner", ["gzip", "zstd", "lz4"])
def test_packed_twice(tmp_path: Path, inner: str) -> None:
    """A gzip of a packed file is unpacked twice."""
    told = events("info")
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(pyarrow.compress(JAVA["logback date"](told).encode(), codec=inner, asbytes=True)))
    found, _ = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], told, set())


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


@settings(max_examples=12, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["logback", "docker json", "cri", "logfmt", "csv", "gelf"]))
def test_damaged_files_raise_nothing(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, name: str
) -> None:
    """Lines cut anywhere, bytes changed, objects without an end."""
    data = bytearray(JAVA[name](events("info")[:FEW]).encode())
    for _ in range(20):
        at = chance.randrange(len(data))
        data[at : at + chance.choice([0, 1, 50])] = chance.choice(
            [b"\0", b"\n", b'"', b"}", b"\xff", b"\x1b[3m", b"\\ud800"]
        )
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_bytes(bytes(data))
    read(path, CLIENTS["java"])


@pytest.mark.parametrize(("name", "cut"), [("elastic search hits", 2000), ("loki push", 300), ("new relic", 900)])
def test_a_document_that_is_cut_is_read_as_far_as_it_goes_and_told(name: str, cut: int, tmp_path: Path) -> None:
    """JSON that ends in the middle of an object; what follows a whole document, as the prompt of a shell, is none."""
    told = events("info")
    text = {**TOOLS, **SHOWN, **EXPORTS}[name](told).rstrip("\n")
    ends = {"whole": text, "with a prompt": f"{text}\n$ ls [a-", "cut": text[:-cut]}
    pieces = {end: write(tmp_path / end, content, told) for end, content in ends.items()}
    found = {end: read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary for end, path in pieces.items()}
    assert (found["whole"].error, found["with a prompt"].error) == ("", "")
    assert found["cut"].error.endswith("its JSON ends in the middle")
    assert 0 < found["cut"].records < found["whole"].records


def test_deep_objects_are_bounded(tmp_path: Path) -> None:
    """JSON of any depth, and with very many fields."""
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    wide = json.dumps(
        {f"k{i}": i for i in range(5000)} | {"message": "[Consumer clientId=a, groupId=b] (Re-)joining group"}
    )
    path = tmp_path / "a.log"
    many = json.dumps({f"k{i}": {"message": "a"} for i in range(5000)})
    path.write_text("\n".join([deep, wide, many] * 5))
    assert len(read(path, CLIENTS["java"])[0]) in (0, 10)


@pytest.mark.parametrize("name", ["docker json", "docker json parts", "cri", "compose", "kubectl prefix timestamps"])
@pytest.mark.loop(2)
def test_a_scan_finds_in_frames_what_reading_every_line_finds(name: str, tmp_path: Path) -> None:
    """Entries that matter, with all their lines, wherever the file is cut; the rest is counted."""
    told = [e for one in events("java")[:60] for e in (one, *(CHATTER._replace(ts_ms=one.ts_ms) for _ in range(5)))]
    path = write(tmp_path / "a.log", JAVA[name](told), told)
    for split_bytes in (WHOLE, 25_000):
        for piece in cut(path, split_bytes):
            wanted = {e.offset: e.data for e in PieceReader(piece, formats()).entries() if parse_entry(e, UTC)[1]}
            few = Scanner(PieceReader(piece, formats()), marks_of(clients()), UTC)
            assert {one.entry.offset: one.entry.data for one in few.scan() if one.records} == wanted
            assert few.passed > 0


CHATTER = Event(
    0, "INFO", "com.example.Orders", "main", "Order 17 was stored", "x.y.StoreException: no\n\tat x.y.Z(Z.java:1)"
)


@pytest.mark.parametrize("line", [kafka_line, lambda e: e.body], ids=["lines", "messages"])
def test_lists_of_bytes_are_read_wherever_they_stand(line: Callable[[Event], str], tmp_path: Path) -> None:
    """Journald exports a message with colours so; here none stands in the part of the file that decides on codes."""
    told = [e for e in events("java") if "\n" not in e.body]
    chatter = CHATTER._replace(ts_ms=told[0].ts_ms, text="Order 17 was stored " * 10, trace="")
    rows = [(e, line(e)) for e in (*told[:40], *[chatter] * 300)]
    rows += [(e, f"\x1b[1m{line(e)}\x1b[0m") for e in told[40:]]
    fields = (
        {"__REALTIME_TIMESTAMP": str(e.ts_ms * 1000), "MESSAGE": list(text.encode()) if "\x1b" in text else text}
        for e, text in rows
    )
    path = write(tmp_path / "a.json", "".join(f"{json.dumps(one, separators=(',', ':'))}\n" for one in fields), told)
    assert path.read_bytes().index(b"[27,") > HEAD
    found, layouts = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], told, set(layouts[0].lost))
    few = Scanner(PieceReader(Piece(str(path), 0, WHOLE), formats()), marks_of(clients()), UTC)
    assert [without_pid(record) for one in few.scan() for record in one.records or ()] == found
    assert few.passed > 0


@pytest.mark.parametrize("framed", [False, True])
def test_lines_that_a_collector_cut_are_told(framed: bool, tmp_path: Path) -> None:
    """Several lines as long as the longest one, which end anywhere: behind frames, whose own ends differ."""
    told = events("java")
    whole = JAVA["logback date"](told).splitlines()
    long = max(whole, key=len)
    for name, lines, want in (
        ("whole", whole, False),
        ("cut", [line[:500] for line in whole], True),
        ("closed", [*whole, *(f"{long[:-9]}{i:08}]" for i in range(9))], False),
    ):
        rows = lines
        if framed:
            time = "2026-11-21T07:57:36.%09dZ"
            rows = [json.dumps({"log": f"{line}\n", "time": time % i}) for i, line in enumerate(lines)]
        _, (layout,) = read(write(tmp_path / name, "\n".join(rows), told), CLIENTS["java"])
        assert (ENDS in layout.lost) is want


def test_lines_that_grep_left_out_are_told(tmp_path: Path) -> None:
    """They may have said anything, and what stands behind a gap belongs to none of the lines above it."""
    told = events("throws")
    text = SHOWN["grep -rC"](told)
    text += "--\nlogs/a-1.log.1-\tclient.id = nobody\n--\nlogs/a-1.log.1-\tgroup.id = none\n"
    path = write(tmp_path / "a.log", text, told)
    found, (layout,) = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], told, set(layout.lost))
    assert GAPS in layout.lost
    *_, last = (e for e in PieceReader(Piece(str(path), 0, WHOLE), formats()).entries() if e.data != b"--")
    assert last.data == b"logs/a-1.log.1-\tgroup.id = none"


def test_days_stand_before_months_where_one_date_of_the_file_says_so(tmp_path: Path) -> None:
    """Or, where none does, where the file was written soon after."""
    for days, want in ((0, 21), (18, 3)):
        told = [e._replace(ts_ms=e.ts_ms - days * stamps.DAY_MS) for e in events("java")]
        path = write(tmp_path / f"{days}.log", TOOLS["uk date"](told), told)
        found, _ = read(path, CLIENTS["java"])
        assert {datetime.fromtimestamp(one.ts_ms / 1000, UTC).day for one in found} == {want}


@pytest.mark.parametrize(
    "line",
    [
        *('{ "a { " name " => " }', '{ "a" => "b', '{"a" => {' * 200, '{ "a" => ' + "[" * 5000),
        *('[{"a": 1}, {"b": 2}]', '{"a": 1}{"b": 2}', 'two: {"a": 1},{"b": 2}'),
        *("{ a: 'b", "{ a: ' + }", "{ a: {" * 2000, "{ a: [Object", "{ a: b }", "{ a: 'b' + 'c }" * 500),
    ],
)
def test_what_only_looks_like_an_object_is_none(line: str) -> None:
    assert json_object(line) is None


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("name", CODED)
def test_coded_texts_may_come_in_parts(name: str, size: int) -> None:
    """Cut anywhere, they say the same, and what was cut off at their end costs no more than that."""
    data = CODED[name](events("info")[:12]).encode()
    recode = find_recoding(data)
    assert recode is not None
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    whole = b"".join(recode([data]))
    assert b"".join(recode(parts)) == whole
    assert b"".join(recode([data[:-5]]))[:100] == whole[:100]


@pytest.mark.parametrize(
    "data",
    [
        b"ab" * 4000,
        b"7 <a> said\n8 <b> did\n",
        b"\0" * 200 + b"2026-11-21 a\n" * 9,
        b"10%\r20%\r\n" * 9,
        b'{"a": "b"}\n' * 9,
        b"0123456789abcdef" * 4 + b"\n",
        "à la carte\n".encode() * 50,
        b"",
    ],
)
def test_texts_that_nobody_coded_are_left_alone(data: bytes) -> None:
    """Letters, numbers before a bracket, a log that was truncated while it was written, progress, accents."""
    assert find_recoding(data) is None


HEADING = b"2026-01-01 00:00:00,%03d DEBG 'a' stdout output:\n"


def test_what_a_damaged_file_gives_of_a_coded_text_is_not_lost(tmp_path: Path) -> None:
    """Also not what was held until it would be whole."""
    lines = [b"2026-01-01 00:00:01 line %d %s\n" % (i, sha256(b"%d" % i).hexdigest().encode()) for i in range(9_000)]
    few = b"".join(HEADING % i + line + b"\n" for i, line in enumerate(lines[:200]))
    data = few + HEADING % 0 + b"".join(lines[200:])
    assert find_recoding(data[:HEAD]) is not None
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(data)[:-2_000])
    with open_packed(path) as handle:
        until = DamageTolerant(handle)
        text = b"".join(iter(lambda: until.read(HEAD), b""))
    assert isinstance(until.problem, EOFError)
    kept = text.split(b"\n")[:-2]
    assert len(kept) > 8_000
    assert kept == [line.rstrip(b"\n") for line in lines[: len(kept)]]


def test_texts_made_to_mislead_are_read_in_passing() -> None:
    """A run of blanks that no line ends, digits that are no frame's, progress without an end: a megabyte of each."""
    padded = find_recoding(b"a  \n" * 20)
    assert padded is not None
    assert b"".join(padded([b" " * (1 << 20) + b"x  \n"])) == b" " * (1 << 20) + b"x\n"
    framed = find_recoding(b"8 <34> abc" * 5)
    assert framed is not None
    digits = b"".join(framed([b"8 <34> abc", *[b"1" * 8192] * 128, b" 8 <34> def"]))
    assert digits.count(b"1") == 1 << 20
    assert digits.endswith(b"\n<34> def\n")
    headed = find_recoding(b"".join(HEADING % i + b"2026-01-01 00:00:01 a\n\n" for i in range(9)))
    assert headed is not None
    parts = list(headed(HEADING % (i % 1000) + b"." * 1000 + b"\n" for i in range(4_000)))
    assert (sum(map(len, parts)), max(map(len, parts)) < 2 << 20) == (4_000_000, True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_texts_in_wide_characters_are_read_like_others(encoding: str, tmp_path: Path) -> None:
    """With a mark at the beginning or without, as PowerShell writes them, also packed, and as far as they go."""
    told = events("info")
    data = JAVA["logback date"](told).replace("\n", "\r\n").encode(encoding)
    path = tmp_path / "a.log"
    for packed in (data, gzip.compress(data)):
        path.write_bytes(packed)
        assert read(path, CLIENTS["java"])[0] == said(CLIENTS["java"], told, set())
    path.write_bytes(data[: len(data) // 2 + 1])
    assert 0 < len(read(path, CLIENTS["java"])[0]) < len(said(CLIENTS["java"], told, set()))


@pytest.mark.deep
def test_a_document_on_one_long_line_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or told to be too long: nothing is left out without a word."""
    one = events("java")
    told = [e._replace(ts_ms=e.ts_ms + 10_000 * i) for i in range(25) for e in one]
    path = write(tmp_path / "a.json", TOOLS["elastic search hits"](told), told)
    assert path.stat().st_size > LINE_LIMIT
    found, _ = read(path, CLIENTS["java"])
    assert len(found) == 25 * len(said(CLIENTS["java"], one, {"thread"}))
    monkeypatch.setattr(tables, "_LONGEST_DOCUMENT", LINE_LIMIT + 1)
    with pytest.raises(OSError, match="longer than 1 MB"):
        read(path, CLIENTS["java"])


@pytest.mark.parametrize(
    "name", ["pg_dump inserts", "mysqldump", "gcloud yaml", "otlp batches", "azure tables", "firehose"]
)
@pytest.mark.loop(3)
def test_exports_may_be_packed_and_cut(name: str, tmp_path: Path) -> None:
    """What is packed says the same; what is cut says a part of it, and nothing else."""
    told = events("java")
    path = write(tmp_path / "a.log", EXPORTS[name](told), told)
    whole, _ = read(path, CLIENTS["java"])
    data = path.read_bytes()
    path.write_bytes(gzip.compress(data))
    assert read(path, CLIENTS["java"])[0] == whole
    path.write_bytes(data[: len(data) * 2 // 3])
    part, _ = read(path, CLIENTS["java"], is_cut=True)
    assert part
    assert not [one for one in part if one not in whole]


def test_streams_of_one_answer_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    """Loki gives one after another, each newest first."""
    told = events("info")
    streams = [
        {
            "stream": {"pod": f"c-{pod}"},
            "values": [[str(e.ts_ms * 1_000_000), JAVA["logback date"]([e])[:-1]] for e in reversed(told[pod::2])],
        }
        for pod in range(2)
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}})
    found, (layout,) = read(write(tmp_path / "a.json", text, told), CLIENTS["java"])
    assert sorted(map(repr, found)) == sorted(map(repr, said(CLIENTS["java"], told, set(layout.lost))))
    assert [one.ts_ms for one in found] == sorted(one.ts_ms for one in found)
    assert not layout.reversed


def test_lines_behind_a_record_are_no_part_of_it(tmp_path: Path) -> None:
    """A log that is a table first and text later: each line is an entry of its own."""
    told = events("java")
    text = EXPORTS["clickhouse vertical"](told) + "\n" + JAVA["no logger"](told)
    reader = PieceReader(Piece(str(write(tmp_path / "a.log", text, told)), 0, WHOLE), formats())
    entries = list(reader.entries())
    behind = [e for e in entries if e.data.startswith(b"2026-")]
    assert len(behind) > len(told) / 2


def test_lines_that_only_look_like_those_of_a_known_layout_are_learned(tmp_path: Path) -> None:
    """Something stands behind each of them."""
    lines = [
        f"%7|{e.ts_ms / 1000:.3f}|{e.text.replace(' [', '|', 1).replace(']', '|', 1)}" for e in events("librdkafka")
    ]
    path = tmp_path / "a.log"
    path.write_text("\n".join(lines))
    want, layouts = read(path, CLIENTS["librdkafka"])
    assert not layouts
    path.write_text("\n".join(f"{line}<br/>" for line in lines))
    found, layouts = read(path, CLIENTS["librdkafka"])
    assert [one.kind for one in found] == [one.kind for one in want]
    assert len(layouts) == 1


def test_the_beginning_of_the_epoch_is_no_time(tmp_path: Path) -> None:
    """OpenTelemetry's collector writes it where a record has none; the other stamp counts."""
    told = events("java")
    text = EXPORTS["otel debug exporter"](told)
    lines = (
        "Timestamp: 1970-01-01 00:00:00 +0000 UTC" if one.startswith("Timestamp") else one for one in text.split("\n")
    )
    found, layouts = read(write(tmp_path / "a.log", "\n".join(lines), told), CLIENTS["java"])
    assert found == said(CLIENTS["java"], told, set(layouts[0].lost))
    assert "time" not in layouts[0].lost


@pytest.mark.parametrize("line", [kafka_line, logback_line, lambda e: f'"{iso(e)}","host-1","shop","{e.text}"'])
def test_of_three_lines_the_newest_may_come_first(line: Callable[[Event], str], tmp_path: Path) -> None:
    """As pasted from a log store: an audit took these for moved lines, or the clock for set back."""
    told = list({e.ts_ms: e for e in events("info") if "transitioned" in e.text}.values())[:3]
    path = write(tmp_path / "a.log", "".join(line(e).strip() + "\n" for e in reversed(told)), told)
    found, layouts = read(path, CLIENTS["java"])
    assert found == said(CLIENTS["java"], told, {lost for one in layouts for lost in one.lost} or {"thread"})


def test_a_line_above_an_older_one_does_not_turn_a_file_around(tmp_path: Path) -> None:
    """The other lines are their program's, in the order of their times."""
    told = [e for e in events("info") if "transitioned" in e.text][:2]
    at = told[0].ts_ms
    swapped = [e._replace(ts_ms=at - i) for i, e in enumerate(told)]
    others = [told[0]._replace(ts_ms=at + i, text=f"Order {i}", logger="shop") for i in range(-9, 9)]
    text = "".join(logback_line(e) + "\n" for e in (*others[:7], *swapped, *others[11:]))
    _, (layout,) = read(write(tmp_path / "a.log", text, others), CLIENTS["java"])
    assert not layout.reversed


def test_steps_of_several_partitions_are_no_steps_of_one() -> None:
    """Printed within one millisecond, the newest first."""
    began, ended = (
        [f"2026-11-21 00:25:38.539 Partition foo [{i}] changed fetch state {step}" for i in range(2)]
        for step in ("active -> stopping", "stopping -> stopped")
    )
    assert are_ties_in_order([began[1], ended[1], began[0], ended[0]])
    assert not are_ties_in_order([began[1], ended[0]])


def test_a_few_lines_with_as_many_commas_are_no_table(tmp_path: Path) -> None:
    """Though a quote stands behind one of them: the comma is that of a time stamp."""
    told = events("librdkafka")
    other = 'orders - ERROR - Payment 1 failed: {"code":"card_declined","retry":7}'
    lines = [f"{iso(e, ' ', ',', '')} - {e.logger} - {e.level} - {e.text}\n" for e in told]
    lines.insert(2, f"{iso(told[2], ' ', ',', '')} - {other}\n")
    path = write(tmp_path / "a.log", "".join(line for line in lines if line.count(",") == 1 or other in line), told)
    _, layouts = read(path, CLIENTS["librdkafka"])
    assert ["csv" in one.pattern or "milliseconds" in one.lost for one in layouts] == [False]


def test_a_log_inside_of_one_long_object_is_read_to_its_end(tmp_path: Path) -> None:
    """As Ansible prints the lines of a command: what is longer than any entry is no entry."""
    told = events("librdkafka")
    shown = ",\n".join(f"        {json.dumps(kafka_line(e))}" for e in told * 12)
    path = write(tmp_path / "a.log", f'ok: [host] => {{\n    "msg": [\n{shown}\n    ]\n}}\n', told)
    assert path.stat().st_size > ENTRY_LIMIT
    found, (layout,) = read(path, CLIENTS["librdkafka"])
    assert found == 12 * said(CLIENTS["librdkafka"], told, set(layout.lost))
