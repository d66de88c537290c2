"""`fsm.logs.programs.trace_lines`: what `TraceRecord.to_json` wrote is read back."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.logs import formats
from fsm.logs.programs.trace_lines import FORMATS
from fsm.logs.reading.entries import records_of
from fsm.logs.reading.pieces import from_bytes
from fsm.trace import Kind, TraceRecord

(TRACE,) = FORMATS
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
PARTITIONS = st.lists(st.tuples(st.text(), NUMBERS), max_size=3).map(tuple)
RECORDS = st.builds(
    TraceRecord,
    ts_ms=st.integers(0, 1 << 50),
    kind=st.sampled_from(Kind),
    group=st.text(),
    client_id=st.text(),
    epoch=st.none() | NUMBERS,
    partitions=PARTITIONS,
    full=st.none() | PARTITIONS,
    topics=st.lists(st.text(), max_size=2).map(tuple),
    detail=st.text(),
    settings=st.dictionaries(st.text(), st.text(), max_size=2),
)


@given(st.lists(RECORDS, max_size=5))
def test_a_written_trace_is_read_back(records: list[TraceRecord]) -> None:
    """Each record becomes one entry, a candidate, and the same record again, whatever its texts hold."""
    data = "".join(record.to_json() + "\n" for record in records).encode()
    entries = list(from_bytes(data, FORMATS))
    assert all(entry.format is TRACE and TRACE.candidate.search(entry.data) for entry in entries)
    assert [TRACE.parse(entry.data.decode(), UTC) for entry in entries] == [(record,) for record in records]


SPELLINGS = {
    "as json.dumps writes": {},
    "by key": {"sort_keys": True},
    "escaped": {"ensure_ascii": True, "sort_keys": True, "separators": (" ,\t", " :  ")},
}
"""How other programs write the same object, on one line."""


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(st.lists(RECORDS, max_size=3))
def test_any_spelling_of_a_record_is_read(spelling: str, records: list[TraceRecord]) -> None:
    """Spaces after separators, another order of keys, escapes: JSON is JSON."""
    lines = [json.dumps(json.loads(record.to_json()), **SPELLINGS[spelling]) for record in records]
    entries = list(from_bytes("".join(line + "\n" for line in lines).encode(), formats()))
    assert all(TRACE in entry.formats and TRACE.candidate.search(entry.data) for entry in entries)
    assert [records_of(entry, UTC) for entry in entries] == [(record,) for record in records]


@pytest.mark.parametrize(
    "entry",
    [
        '{"v":2,"ts_ms":1,"kind":"left"}',
        '{"v":1,"ts_ms":1,"kind":"vanished"}',
        '{"v":1,"ts_ms":1,"kind":"left"',
        '{"v":1,"ts_ms":1,"kind":"left","colour":"red"}',
        '{ "kind" : "left", "v" : 2, "ts_ms" : 1 }',
        '{"v":1' + "[" * 100_000,
        '{"v":1,"ts_ms":' + "9" * 5000 + ',"kind":"left"}',
    ],
)
def test_what_is_no_record_of_this_release_is_not_understood(entry: str) -> None:
    """Newer schemas, unknown kinds and fields, and cut lines are candidates that give None, and raise nothing."""
    assert TRACE.header.match(entry.encode())
    assert TRACE.parse(entry, UTC) is None


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """Arbitrary text behind the header raises nothing."""
    TRACE.parse(text, UTC)
    TRACE.parse('{"v":1,' + text, UTC)


def test_only_the_first_line_counts() -> None:
    """Continuation lines that were gathered behind a record are not part of it."""
    record = TraceRecord(1, Kind.LEFT, group="g1")
    assert TRACE.parse(record.to_json() + "\nTraceback (most recent call last):", UTC) == (record,)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"@timestamp":"2026-11-21T09:00:00Z","message":"{\\"v\\":1}"}',
        b'{"ts":1795220705.6,"ev":"start"}',
        b'{"version":1,"kind":"left"}',
        b"{}",
        b"[1]",
    ],
)
def test_other_json_lines_are_not_traces(raw: bytes) -> None:
    """JSON of other layouts (ECS logs, event files) does not have the header."""
    assert not TRACE.header.match(raw)


@pytest.mark.parametrize(
    "raw", [b'{"@timestamp":"2026-11-21T09:00:00Z","labels":{"v":1}}', b'{"a":{"v": 2},"kind":"x"}']
)
def test_another_programs_v_makes_no_candidate(raw: bytes) -> None:
    """A number under `v` inside another layout is not held against this one."""
    assert not TRACE.candidate.search(raw)
