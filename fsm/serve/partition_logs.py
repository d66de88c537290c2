"""The records of partitions of topics and of `__consumer_offsets`.

Those of a topic are generated at a rate, or appended by Produce; the oldest ones are deleted. A generated record
depends only on its offset and is built when it is read: nothing runs in the background, and nothing is stored.
Generation ends for a topic when a client produces to it. Batches of producers are stored unchanged.

The records of a coordinator are compacted: the last record of a key counts, and a null value deletes the key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import (
    BEFORE_LENGTH,
    HEAD,
    MAGIC,
    Batch,
    BatchHead,
    LogRecord,
    batch_of,
    check_produced,
    move_batch,
    read_batches,
    write_batch,
)
from fsm.protocol.records import Record

KEPT_BYTES = 4 << 20
"""The default size limit of a partition; the newest batch is always kept."""
LARGEST_BATCH = 1_048_588
"""The maximum size of a batch: `max.message.bytes` of Kafka."""
MADE_AT_ONCE = 500
"""The maximum number of generated records in a batch and in one read."""
BATCHES_REMEMBERED, MOST_PRODUCERS, SEQUENCES = 5, 1_000, 1 << 31
"""Batches kept per idempotent producer, such producers per partition, and the number at which sequences wrap."""
MOST_MADE = 10_000
"""The number of readable generated records; earlier ones count as deleted."""


class Stored(NamedTuple):
    """One batch."""

    base_offset: int
    next_offset: int
    max_timestamp_ms: int
    data: bytes


@dataclass(slots=True)
class PartitionLog:
    """The records of one partition."""

    topic: str
    partition: int
    since_ms: float
    """When the generation of records began."""
    a_second: float = 0.0
    """The rate of generated records; 0 for none."""
    has_ended: bool = False
    """A client has produced to the topic."""
    made: int = 0
    """The number of generated records, which have the offsets below."""
    batches: list[Stored] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0
    producers: dict[int, tuple[tuple[int, int, int, int], ...]] = field(default_factory=dict)
    """The last batches of idempotent producers: epoch, first sequence, records, offset."""

    def grow(self, now_ms: float) -> None:
        """Generates the records that are due by now."""
        if self.a_second and not self.has_ended:
            made = max(self.made, int((now_ms - self.since_ms) * self.a_second / 1000))
            while self._time_ms(made) <= now_ms:  # due here, in spite of rounding there
                made += 1
            self.made = self.end_offset = made
            self.start_offset = max(self.start_offset, made - MOST_MADE)

    def end(self, now_ms: float) -> None:
        """Ends the generation."""
        self.grow(now_ms)
        self.has_ended = True

    def next_ms(self) -> float | None:
        """When the next record is generated; None if none is."""
        return self._time_ms(self.made) if self.a_second and not self.has_ended else None

    def append(self, data: bytes, kept_bytes: int = KEPT_BYTES) -> tuple[ErrorCode, int]:
        """Appends the batch of a producer; returns an error, or the offset of its first record."""
        if len(data) > LARGEST_BATCH:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        try:
            head = check_produced(data)
        except RemoteProtocolError as problem:
            return ErrorCode(problem.hint), -1
        self.has_ended = True
        if head.producer_id >= 0 and (known := self._repeats(head)) is not None:
            return known
        base = self.end_offset
        self.end_offset = base + head.record_count
        if head.producer_id >= 0:
            self._remember(head, base)
        self.batches.append(Stored(base, self.end_offset, head.max_timestamp_ms, move_batch(data, base, 0)))
        self.size += len(data)
        while self.size > kept_bytes and len(self.batches) > 1:
            gone = self.batches.pop(0)
            self.size -= len(gone.data)
            self.start_offset = gone.next_offset
        return ErrorCode.NONE, base

    def _repeats(self, head: BatchHead) -> tuple[ErrorCode, int] | None:
        """The result for an idempotent producer's batch that is a repetition or out of order."""
        last = self.producers.get(head.producer_id, ())
        if not last or last[-1][0] != head.producer_epoch:
            return None
        for _, sequence, count, offset in last:
            if (sequence, count) == (head.base_sequence, head.record_count):
                return ErrorCode.NONE, offset
        _, sequence, count, _ = last[-1]
        if head.base_sequence != (sequence + count) % SEQUENCES:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return None

    def _remember(self, head: BatchHead, offset: int) -> None:
        last = self.producers.pop(head.producer_id, ())
        one = (head.producer_epoch, head.base_sequence, head.record_count, offset)
        self.producers[head.producer_id] = (*last, one)[-BATCHES_REMEMBERED:]
        if len(self.producers) > MOST_PRODUCERS:
            del self.producers[next(iter(self.producers))]

    def read(self, offset: int, most_bytes: int, at_least_one: bool = True) -> bytes:
        """Whole batches from the one with this offset on: at least one if there is one, even if it is larger."""
        return _take(self._from(offset), most_bytes, at_least_one)

    def _from(self, offset: int) -> Iterator[bytes]:
        if offset < self.made:
            end = min(self.made, offset + MADE_AT_ONCE)
            yield write_batch(Batch.of([self._make_up(one) for one in range(offset, end)], partition_leader_epoch=0))
            if end < self.made:
                return
        at = bisect_right(self.batches, offset, key=lambda one: one.next_offset)
        yield from (batch.data for batch in self.batches[at:])

    def _make_up(self, offset: int) -> LogRecord:
        value = f"{self.topic}-{self.partition}-{offset}".encode()
        return LogRecord(offset, int(self._time_ms(offset)), None, value)

    def _time_ms(self, offset: int) -> float:
        return self.since_ms + (offset + 1) * 1000 / self.a_second

    def find_time(self, timestamp_ms: int) -> tuple[int, int]:
        """Offset and time of the first record that reaches this time; -1, -1 without one."""
        if self.made > self.start_offset:
            first = max(self.start_offset, ceil((timestamp_ms - self.since_ms) * self.a_second / 1000) - 1)
            first += first < self.made and int(self._time_ms(first)) < timestamp_ms
            if first < self.made:
                return first, int(self._time_ms(first))
        for batch in self.batches:
            if batch.max_timestamp_ms >= timestamp_ms:
                return _find_record(batch, timestamp_ms)
        return -1, -1

    def newest(self) -> tuple[int, int]:
        """Offset and time of the record with the newest time; -1, -1 without one."""
        if self.batches:
            latest = max(self.batches, key=lambda one: one.max_timestamp_ms)
            return _find_record(latest, latest.max_timestamp_ms)
        return (self.made - 1, int(self._time_ms(self.made - 1))) if self.made else (-1, -1)


def _take(batches: Iterable[bytes], most_bytes: int, at_least_one: bool) -> bytes:
    """The first batches, as many as fit."""
    found: list[bytes] = []
    for data in batches:
        most_bytes -= len(data)
        if most_bytes < 0 and (found or not at_least_one):
            break
        found.append(data)
    return b"".join(found)


def _find_record(batch: Stored, timestamp_ms: int) -> tuple[int, int]:
    """The first record of the batch that reaches this time; its first one if they cannot be read."""
    try:
        (read,) = read_batches(batch.data)
    except InputError:
        return batch.base_offset, batch.max_timestamp_ms
    found = (one for one in read.records if one.timestamp_ms >= timestamp_ms)
    return next(((one.offset, one.timestamp_ms) for one in found), (batch.base_offset, batch.max_timestamp_ms))


COMPACTED_FROM = 1 << 20
"""The size below which a log is never compacted."""
GROWTH, GROWTH_WHEN_FULL = 2.0, 1.1
"""The growth since the last compaction at which a log is compacted."""
IN_ONE_BATCH = 1_000
"""Records of a batch that compaction writes."""


@dataclass(slots=True)
class GroupLog:
    """Batches in their order, and the next offset."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    """First offset and bytes."""
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0
    compacted_size: int = COMPACTED_FROM // 2

    @classmethod
    def of(cls, data: bytes) -> tuple[GroupLog, int]:
        """The log in these bytes up to a torn batch, and the number of valid bytes.

        Raises `InputError` if valid batches follow unreadable bytes, which are then no torn end.
        """
        log, at = cls(), 0
        try:
            for batch in read_batches(data):
                length = BEFORE_LENGTH + int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
                log._keep(batch.base_offset, batch.base_offset + batch.last_offset_delta + 1, data[at : at + length])
                at += length
        except InputError as problem:  # an incomplete batch was never acknowledged
            if _has_batch(data, at + 1):
                raise InputError(f"damaged at byte {at}: {problem.what}") from None
        return log, at

    def append(self, records: Iterable[Record], now_ms: int) -> bytes:
        """Adds the records of a step; returns the bytes of their batch."""
        batch = batch_of(self.end_offset, records, now_ms)
        data = write_batch(batch)
        self._keep(self.end_offset, self.end_offset + len(batch.records), data)
        return data

    def compact(self, growth: float = GROWTH) -> bool:
        """Compacts the log if it has grown enough; returns whether it did."""
        if self.size < growth * self.compacted_size:
            return False
        last: dict[bytes | None, LogRecord] = {}
        for batch in read_batches(self.segment()):
            for record in batch.records:
                last.pop(record.key, None)
                if record.value is not None:
                    last[record.key] = record
        kept = list(last.values())
        self.batches, self.size = [], 0
        end_offset = self.end_offset
        batches = [
            Batch.of(kept[at : at + IN_ONE_BATCH], partition_leader_epoch=0) for at in range(0, len(kept), IN_ONE_BATCH)
        ] or [Batch(end_offset - 1, (), partition_leader_epoch=0)]
        # The last batch reaches to the end, so that no offset is used twice when the log is read again.
        batches[-1] = replace(batches[-1], last_offset_delta=end_offset - 1 - batches[-1].base_offset)
        for batch in batches:
            self._keep(batch.base_offset, batch.base_offset + batch.last_offset_delta + 1, write_batch(batch))
        self.compacted_size = max(self.size, COMPACTED_FROM // 2)
        return True

    def segment(self) -> bytes:
        """The whole log."""
        return b"".join(data for _, data in self.batches)

    def read(self, offset: int, most_bytes: int, at_least_one: bool = True) -> bytes:
        """Batches from this offset on: at least one if there is one, even if it is larger."""
        at = bisect_left(self.batches, (offset + 1,))
        if at and self.batches[at - 1][0] <= offset:
            at -= 1
        return _take((data for _, data in self.batches[at:]), most_bytes, at_least_one)

    def _keep(self, base_offset: int, end_offset: int, data: bytes) -> None:
        self.batches.append((base_offset, data))
        self.end_offset = end_offset
        self.size += len(data)


def _has_batch(data: bytes, begin: int) -> bool:
    """Whether there is a valid batch anywhere from there on."""
    at = begin - 1
    while (at := data.find(MAGIC_BYTE, at + 1 + MAGIC_AT)) >= 0:
        at -= MAGIC_AT
        length = int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
        end = at + BEFORE_LENGTH + length
        if HEAD.size <= BEFORE_LENGTH + length and end <= len(data):
            with suppress(InputError):
                if next(read_batches(data[at:end]), None) is not None:
                    return True
    return False


MAGIC_AT, MAGIC_BYTE = 16, bytes([MAGIC])
"""The position of the format in a batch, and its value."""
