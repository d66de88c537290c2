"""Raw segments of `__consumer_offsets`, as a broker wrote them: every byte is understood and written again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.storage.replay import replay
from fsm.protocol.record_batches import LogRecord, read_batches, write_batch
from fsm.protocol.records import Record, encode, from_json, to_json


def reads(head: Any) -> bool:
    """Bytes that begin with a batch of magic 2."""
    return isinstance(head, bytes) and head[16:17] == b"\x02"


def cases(file: Any) -> Iterator[tuple[str, bytes]]:
    """The segment is one case."""
    yield "segment", file.content


@cache
def decoded(segment: bytes) -> list[tuple[LogRecord, Record]]:
    """Every record of the coordinator, raw and decoded."""
    batches = [batch for batch in read_batches(segment) if not batch.is_control]
    return [(entry, entry.decode()) for batch in batches for entry in batch.records]


def test_batches_are_written_byte_for_byte(case: bytes) -> None:
    """The batches read from the segment, written one after the other, are the segment, checksums included."""
    written = b"".join(write_batch(batch) for batch in read_batches(case))
    assert written == case[: len(written)]
    assert not any(case[len(written) :])


def test_records_are_encoded_byte_for_byte(case: bytes) -> None:
    """Key and value of every record, decoded and encoded, are the bytes that the broker wrote."""
    for entry, record in decoded(case):
        assert encode(record) == (entry.key, entry.value), entry.offset


@pytest.mark.deep
def test_records_survive_json(case: bytes) -> None:
    """Every record, printed as Kafka's tools print it and read again, is the same value."""
    for _, record in decoded(case):
        assert from_json(json.loads(json.dumps(to_json(record)))) == record


def test_segments_replay_without_a_remark(case: bytes) -> None:
    """A coordinator that loads the segment finds every record following from those before it, and some group."""
    found = replay((record for _, record in decoded(case)), dialect())
    assert found.remarks == ()
    assert found.state.groups


@pytest.mark.our_copies
def test_our_segment_holds_every_type_of_4_4(files: Any) -> None:
    """The segment of the 4.4.0 walks: 20,639 records, by type, values and tombstones."""
    (segment,) = (file.content for file in files if reads(file.head))
    found = Counter((int(record.key.type), record.value is not None) for _, record in decoded(segment))
    assert sum(found.values()) == 20_639
    assert found == {
        (1, True): 276,
        (2, True): 545,
        (2, False): 54,
        (3, True): 2947,
        (3, False): 34,
        (4, False): 34,
        (5, True): 2292,
        (5, False): 1015,
        (6, True): 2532,
        (6, False): 34,
        (7, True): 3665,
        (7, False): 1015,
        (8, True): 5077,
        (8, False): 1015,
        (16, True): 42,
        (16, False): 62,
    }
