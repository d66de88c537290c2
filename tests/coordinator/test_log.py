"""Record batches of `__consumer_offsets`: written, read, and refused where they are damaged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.errors import InputError
from fsm.protocol.record_batches import (
    CONTROL,
    TRANSACTIONAL,
    Batch,
    EndOfTransaction,
    LogRecord,
    batch_of,
    read_batches,
    write_batch,
)
from fsm.protocol.records import GroupEpoch, GroupKey, Record, RecordType, TargetEpoch

NOW_MS = 1_795_250_178_505
EPOCH = Record(GroupKey(RecordType.CONSUMER_GROUP_METADATA, "g"), GroupEpoch(2))
TARGET = Record(GroupKey(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, "g"), TargetEpoch(2, NOW_MS))
STEP = batch_of(40, [EPOCH, TARGET], NOW_MS)

parts = st.none() | st.binary(max_size=5)
entries = st.builds(
    LogRecord,
    st.integers(100, 200),
    st.integers(0, 1 << 41),
    parts,
    parts,
    st.lists(st.tuples(st.text(max_size=3), parts), max_size=2).map(tuple),
)
batches = st.builds(
    Batch,
    st.just(100),
    st.lists(entries, max_size=4).map(tuple),
    st.integers(-1, 5),
    st.sampled_from([0, TRANSACTIONAL]),
    st.integers(-1, 1 << 40),
    st.integers(-1, 9),
    st.integers(-1, 9),
    st.integers(0, 100),
    st.integers(0, 1 << 41),
    st.integers(0, 1 << 41),
)


@given(st.lists(batches, max_size=3))
def test_batches_survive_their_bytes(written: list[Batch]) -> None:
    """Any batches, one after the other, are read as they were written."""
    assert list(read_batches(b"".join(map(write_batch, written)))) == written


def test_a_step_is_one_batch_at_one_time() -> None:
    """Records of a step get consecutive offsets and the step's time stamp, and say what was put in."""
    (batch,) = read_batches(write_batch(STEP))
    assert [(entry.offset, entry.timestamp_ms) for entry in batch.records] == [(40, NOW_MS), (41, NOW_MS)]
    assert [entry.decode() for entry in batch.records] == [EPOCH, TARGET]
    assert (batch.last_offset_delta, batch.is_transactional, batch.is_control) == (1, False, False)


def test_zeros_behind_the_last_batch_are_no_batch() -> None:
    """Space that Kafka has set aside is not read."""
    assert list(read_batches(write_batch(STEP) + bytes(1000))) == [STEP]


def test_a_segment_cut_inside_a_batch_gives_the_batches_before() -> None:
    """The whole batches come first, then the error with the byte where the cut one begins."""
    one = write_batch(STEP)
    reading = read_batches(one + one[:-1])
    assert next(reading) == STEP
    with pytest.raises(InputError, match=f"byte {len(one)}: the segment ends inside a batch"):
        next(reading)


@pytest.mark.parametrize("place", [21, 30, 60, -1])
def test_a_changed_byte_is_noticed(place: int) -> None:
    """The checksum covers everything behind it."""
    raw = bytearray(write_batch(STEP))
    raw[place] ^= 1
    with pytest.raises(InputError, match="byte 0: damaged"):
        list(read_batches(raw))


def test_compressed_batches_and_old_ones_are_refused_by_name() -> None:
    """The error names the codec, or the magic."""
    with pytest.raises(InputError, match="compressed with zstd"):
        list(read_batches(write_batch(replace(STEP, attributes=4))))
    raw = bytearray(write_batch(STEP))
    raw[16] = 1
    with pytest.raises(InputError, match="magic 1"):
        list(read_batches(raw))


@pytest.mark.parametrize(("kind", "committed"), [(0, False), (1, True)])
def test_a_control_batch_ends_a_transaction(kind: int, committed: bool) -> None:
    """Its one record says whether the producer's offsets count, and the epoch of the transaction coordinator."""
    marker = LogRecord(7, NOW_MS, bytes([0, 0, 0, kind]), bytes.fromhex("0000 00000003"))
    batch = Batch(7, (marker,), attributes=TRANSACTIONAL | CONTROL, producer_id=5, producer_epoch=1)
    (read,) = read_batches(write_batch(batch))
    assert read.end_of_transaction() == EndOfTransaction(committed, 3)
    with pytest.raises(InputError, match="not a control batch"):
        STEP.end_of_transaction()


def test_a_record_without_key_is_none_of_the_coordinator_s() -> None:
    """It is refused with its offset."""
    with pytest.raises(InputError, match="offset 9: a record without a key"):
        LogRecord(9, NOW_MS, None, b"").decode()
