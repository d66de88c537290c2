"""Loggers that print each line several times: what is read is what happened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest
import recordings

from fsm.audit.findings import Severity
from fsm.audit.hygiene.repeated_lines import RepeatedLines
from fsm.audit.local import audit_files
from fsm.audit.rows import Place, Seen
from fsm.trace import Kind, TraceRecord


def seen(ts_ms: int, epoch: int, offset: int, thread: str = "app", file: str = "a.log") -> Seen:
    return Seen(TraceRecord(ts_ms, Kind.HEARTBEAT_OK, epoch=epoch, thread=thread), Place(file, offset))


def read(*given: Seen) -> tuple[list[int], list[str]]:
    """The offsets of what is left of records, which are given moment by moment, and what is told."""
    lines = RepeatedLines("g", "c")
    kept = [one for _, moment in groupby(given, key=lambda one: one.record.ts_ms) for one in lines.see(list(moment))]
    kept += lines.finish(())
    return [one.place.offset for one in kept], [found.summary for found in lines.findings()]


def test_of_equal_lines_one_is_read() -> None:
    """Whether there are more of them than are needed to know that, or fewer."""
    for count in (2, 40):
        times = range(10, 10 * count + 10, 10)
        kept, told = read(*(seen(ms, ms, 10 * ms + i) for ms in times for i in (0, 4)))
        assert kept == [10 * ms for ms in times]
        assert told == [f"the logger of c printed its lines several times; {count} repetitions were left out"]


def test_the_line_with_the_thread_is_read() -> None:
    """One of two layouts may not print it."""
    assert read(*(seen(ms, ms, 10 * ms + i, thread) for ms in (1, 2) for i, thread in ((0, ""), (4, "app"))))[0] == [
        14,
        24,
    ]


@pytest.mark.parametrize(
    "given",
    [
        [seen(10, 1, 0), seen(20, 2, 10), seen(20, 2, 20), seen(30, 3, 30)],
        [seen(ms, 1, ms) for ms in range(40)],
        [seen(10, epoch, 10 * epoch) for epoch in range(40)],
        [seen(10, 1, 0, file=f"{i}.log") for i in range(40)],
    ],
    ids=["one line again", "at other times", "other lines", "other files"],
)
def test_what_happened_is_read(given: list[Seen]) -> None:
    assert read(*given) == ([one.place.offset for one in given], [])


def test_of_several_consumers_each_line_is_read() -> None:
    """Two of them may print equal lines at once; a line with a member id is that of one."""

    def lines(times: int, *member_ids: str) -> list[Seen]:
        each = [member_id for member_id in member_ids for _ in range(times)]
        return [Seen(TraceRecord(5, Kind.JOINED, member_id=id_), Place("a.log", i)) for i, id_ in enumerate(each)]

    for times in (1, 2, 3):
        given = lines(times, "m-1", "m-2", "", "", "m-3", "m-4", "m-5")
        apart = RepeatedLines("g", "c", shared=True)
        kept = [*apart.see(given), *apart.finish(())]
        assert [one.record.member_id for one in kept] == ["m-1", "m-2", "", "", "m-3", "m-4", "m-5"]


def split(data: bytes) -> Iterator[str]:
    """The entries of a log of Java or librdkafka."""
    yield from re.split(r"(?m)^(?=\[|%\d\|)", data.decode())


def as_json(entry: str) -> str:
    """An entry in Kafka's layout as an appender prints it that tells no thread."""
    at = re.fullmatch(r"\[(\S+) (\S+),(\d{3})\] (\w+) (.*) \((\S+?)(?::\d+)?\)\n", entry, re.DOTALL)
    if at is None:
        return entry
    stamp = f"{at[1]}T{at[2]}.{at[3]}004+00:00"
    return json.dumps({"@timestamp": stamp, "level": at[4], "class": at[6], "message": at[5]}) + "\n"


@pytest.mark.parametrize("second", [str, as_json], ids=["in one layout", "in two layouts"])
@pytest.mark.parametrize(
    "name", ["java/i_j07_maxpoll", "java/x01_coop_second", "librdkafka/c02_two", "connect/s01_join_gap"]
)
def test_a_log_of_two_appenders_is_read_as_one(name: str, second: Callable[[str], str], tmp_path: Path) -> None:
    """Nothing above info is found that is not found in the log of one of them, and nothing is missed."""
    archive, _, scenario = name.partition("/")
    found = []
    for printed in ((str,), (str, second)):
        for file, data in recordings.logs(archive)[scenario].items():
            (tmp_path / file).write_text("".join(line(one) for one in split(data) for line in printed))
        told = audit_files(tmp_path.iterdir()).findings
        found.append([(one.kind, one.member, one.summary) for one in told if one.severity is not Severity.INFO])
    assert found[0] == found[1]


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("name", ["i_j07_maxpoll", "i_j13_dup_instance", "i_j20_bad_regex"])
def test_a_log_of_two_appenders_and_several_consumers_is_read_as_one(name: str, times: int, tmp_path: Path) -> None:
    """They share a client id, and a file; lines that were printed twice were steps that nobody can take."""
    entries = sorted(one for data in recordings.logs("java")[name].values() for one in split(data))
    of_one = [re.sub(r"clientId=[^,\]]+", "clientId=c", one) for one in entries]
    found = []
    for count in (1, times):
        (tmp_path / "a.log").write_text("".join(one * count for one in of_one))
        told = audit_files([tmp_path / "a.log"]).findings
        told = [one for one in told if "repetitions" not in one.summary]
        found.append([(one.kind, one.severity, one.member, one.summary) for one in told])
    assert found[0] == found[1]
