"""Record batches of other peers: those of Kafka's own classes, what a producer may send, and bytes that are none.

What a batch of the coordinator is, `tests/coordinator/test_log.py` tests.
"""

from __future__ import annotations

import gzip
import tracemalloc
from dataclasses import replace
from random import Random

import pytest
from hostile_bytes import change
from produced_batches import BATCH, GZIPPED, PLAIN, PRODUCED, SENT, changed_head, one_record, resealed, with_body

from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import (
    GZIP,
    LARGEST_INFLATED,
    check_produced,
    move_batch,
    read_batches,
    split_batches,
    write_batch,
)

MOST, BESIDE = 48, 100_000
"""Bytes of memory for a byte of a batch, and beside that."""


def test_kafkas_batches_are_read_and_written_as_kafka_writes_them() -> None:
    """Headers, nulls, times that go back: byte for byte. What gzip makes of it is its own."""
    assert list(read_batches(PLAIN)) == [BATCH]
    assert write_batch(BATCH) == PLAIN
    gzipped = replace(BATCH, attributes=GZIP)
    assert list(read_batches(GZIPPED)) == [gzipped]
    assert list(read_batches(write_batch(gzipped) + GZIPPED)) == [gzipped, gzipped]


def test_a_batch_is_moved_without_being_read() -> None:
    """A broker gives a batch its offset and its leader epoch; the checksum stays."""
    (moved,) = read_batches(move_batch(GZIPPED, 1 << 40, 8))
    assert [one.offset for one in moved.records] == [(1 << 40) + i for i in range(3)]
    assert moved.partition_leader_epoch == 8
    assert move_batch(move_batch(PLAIN, 0, -1), 5, 3) == PLAIN


def test_batches_are_split_without_being_read() -> None:
    """Even those whose codec is not known here."""
    zstd = changed_head(attributes=4)
    assert [(head.base_offset, data) for head, data in split_batches(PLAIN + zstd)] == [(5, PLAIN), (0, zstd)]


def test_a_producer_s_batch_is_accepted() -> None:
    """Plain and gzip are looked into, other codecs are taken as they are."""
    assert check_produced(PRODUCED).record_count == 3
    assert check_produced(move_batch(GZIPPED, 0, 3)).max_timestamp_ms == 1_005
    assert all(check_produced(data) for data, code in SENT.values() if code is ErrorCode.NONE)
    assert check_produced(with_body(b"anything", attributes=2)).compression == 2


@pytest.mark.parametrize("what", [one for one, (_, code) in SENT.items() if code is not ErrorCode.NONE])
def test_what_a_broker_refuses(what: str) -> None:
    """With the error code of the answer (`ProduceRequest.validateRecords`, `LogValidator`)."""
    data, code = SENT[what]
    with pytest.raises(RemoteProtocolError, match=f"^a producer sent .*{what.partition(': ')[0]}") as refused:
        check_produced(data)
    assert refused.value.hint == code


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ("10 00 00 00 02 6b 02 76 01", "-1 headers"),
        ("12 00 00 00 02 6b 02 76 02 01", "a header without a name"),
        ("14 00 00 00 02 6b 02 76 02 02 ff", "the bytes end too early"),
        ("18 00 00 00 02 6b 02 76 02 02 61 01", "a record of 12 bytes takes 11"),
        ("16 00 00 00 02 6b 02 76 02 02 ff 01", "not UTF-8"),
        ("0e 00 00 00 02 6b 7e 76 00", "63 bytes wanted, 2 left"),
    ],
)
def test_records_that_cannot_be_read(record: str, what: str) -> None:
    """The error says what is wrong, and where the batch is."""
    data = one_record(record)
    with pytest.raises(InputError, match=f"^byte 0: records that cannot be read: .*{what}"):
        list(read_batches(data))


def test_what_a_batch_inflates_to_is_bounded() -> None:
    """16 kB of gzip may be 16 MB of zeros: they are not read."""
    tracemalloc.start()
    with pytest.raises(InputError, match="the records exceed 16777216 bytes"):
        list(read_batches(with_body(gzip.compress(bytes(4 * LARGEST_INFLATED)))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * LARGEST_INFLATED


@pytest.mark.parametrize(
    ("count", "seed"), [pytest.param(10_000, 1, id="10k"), pytest.param(300_000, 2, id="300k", marks=pytest.mark.slow)]
)
def test_changed_batches_are_read_or_refused(count: int, seed: int) -> None:
    """Whatever is behind a checksum that is right."""
    random = Random(seed)  # noqa: S311  # the same seed, the same batches
    readable = 0
    for number in range(count):
        bodies = random.choice(((PLAIN, GZIPPED), (GZIPPED, PLAIN)))
        data = resealed(change(bodies[0], bodies[1], random))
        if number % 10 == 0:
            tracemalloc.start()
        try:
            found = list(read_batches(data))
        except InputError:
            found = []
        if number % 10 == 0:
            assert tracemalloc.get_traced_memory()[1] <= MOST * len(data) + BESIDE
            tracemalloc.stop()
        readable += bool(found)
        assert answer(data) in ANSWERS
        assert list(read_batches(b"".join(map(write_batch, found)))) == found, data.hex()
    assert count // 50 < readable < count


ANSWERS = {code for _, code in SENT.values()}


def answer(data: bytes) -> int:
    """What a broker says to a producer."""
    try:
        check_produced(data)
    except RemoteProtocolError as refused:
        return refused.hint
    return ErrorCode.NONE


def test_many_small_records_take_no_more_memory_than_others() -> None:
    """The smallest record takes seven bytes."""
    body = bytes.fromhex("0c 00 00 00 01 01 00") * 5_000
    data = with_body(body, attributes=0, record_count=5_000, base_offset=1 << 40, base_timestamp_ms=1 << 40)
    tracemalloc.start()
    (batch,) = read_batches(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(batch.records) == 5_000
    assert peak <= MOST * len(data) + BESIDE
