"""The log of `__consumer_offsets`: record batches of a segment, read and written byte for byte.

Source: the record batch format, magic 2, of apache/kafka; section 8.7 of the coordinator reference. Compressed batches
are refused: `offsets.topic.compression.codec` is none unless somebody sets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from struct import Struct as Layout
from typing import NamedTuple

from fsm.coordinator.encoding import Bytes, Reader, zigzag
from fsm.coordinator.records import Record, decode, encode
from fsm.errors import InputError

HEAD = Layout(">qiibIhiqqqhii")
"""Offset, length, leader epoch, magic, crc, attributes, last offset delta, first and last time, producer id and epoch,
first sequence, count."""

BEFORE_LENGTH, BEFORE_CRC, AFTER_CRC = 12, 17, 21
MAGIC = 2
COMPRESSION, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class LogRecord(NamedTuple):
    """One record of a batch, undecoded."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def decoded(self) -> Record:
        """What the record says. Raises `InputError` where it is none of the coordinator's."""
        if self.key is None:
            raise InputError("a record without a key", f"offset {self.offset}")
        return decode(self.key, self.value)


class EndOfTransaction(NamedTuple):
    """The one record of a control batch: how the transaction of its producer ended."""

    committed: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were appended together, or not at all."""

    base_offset: int
    records: tuple[LogRecord, ...]
    partition_leader_epoch: int = -1
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_offset_delta: int = 0
    """Distance to the last offset the batch had when it was written; compaction may have removed that record."""
    base_timestamp_ms: int = 0
    max_timestamp_ms: int = field(default=0)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    def end_of_transaction(self) -> EndOfTransaction:
        """What a control batch says. Raises `InputError` for a batch that is none."""
        if not self.is_control or not self.records or self.records[0].key is None or self.records[0].value is None:
            raise InputError("not a control batch", f"offset {self.base_offset}")
        key, value = Reader(self.records[0].key), Reader(self.records[0].value)
        key.number(2), value.number(2)
        return EndOfTransaction(key.number(2) == 1, value.number(4))


def batch_of(base_offset: int, records: Iterable[Record], now_ms: int, **said: int) -> Batch:
    """A batch of these records, all with one time stamp, as the coordinator appends the records of a step."""
    entries = tuple(LogRecord(base_offset + i, now_ms, *encode(record)) for i, record in enumerate(records))
    return Batch(
        base_offset,
        entries,
        last_offset_delta=len(entries) - 1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        **said,
    )


def read_batches(segment: Bytes) -> Iterator[Batch]:
    """The batches of a segment, one after the other.

    Raises `InputError` naming the byte where a batch is damaged, compressed, of another magic, or where the segment
    ends inside one; the batches before have been given by then. Zeros behind the last batch are the space Kafka keeps.
    """
    data = memoryview(segment)
    at = 0
    while at < len(data) and any(data[at : at + BEFORE_LENGTH]):
        length = int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
        end = at + BEFORE_LENGTH + length
        if end > len(data) or length < HEAD.size - BEFORE_LENGTH:
            raise InputError("the segment ends inside a batch", f"byte {at}", "read it again once it is written")
        yield _batch(data[at:end], at)
        at = end


def _batch(data: memoryview, place: int) -> Batch:
    head = HEAD.unpack_from(data)
    base, _, leader_epoch, magic, crc, attributes, last, first_ms, max_ms, producer, epoch, sequence, count = head
    _refuse_unreadable(magic, attributes, place)
    if crc32c(data[AFTER_CRC:]) != crc:
        raise InputError("damaged: its checksum is another", f"byte {place}")
    reader = Reader(data[HEAD.size :])
    records = tuple(_record(reader, base, first_ms) for _ in range(count))
    reader.end()
    return Batch(base, records, leader_epoch, attributes, producer, epoch, sequence, last, first_ms, max_ms)


def _refuse_unreadable(magic: int, attributes: int, place: int) -> None:
    if magic != MAGIC:
        raise InputError(f"a batch of magic {magic}; read are those of magic {MAGIC}", f"byte {place}")
    if attributes & COMPRESSION:
        codec = dict(enumerate(CODECS)).get(attributes & COMPRESSION, "unknown")
        remedy = "dump the segment with kafka-dump-log.sh --offsets-decoder and read that"
        raise InputError(f"a batch compressed with {codec}", f"byte {place}", remedy)


def _record(reader: Reader, base_offset: int, base_timestamp_ms: int) -> LogRecord:
    inside = Reader(reader.take(reader.zigzag()))
    inside.take(1)  # attributes, unused
    timestamp_ms = base_timestamp_ms + inside.zigzag()
    offset = base_offset + inside.zigzag()
    key, value = _blob(inside), _blob(inside)
    headers = tuple((inside.text(inside.zigzag()), _blob(inside)) for _ in range(inside.zigzag()))
    inside.end()
    return LogRecord(offset, timestamp_ms, key, value, headers)


def _blob(reader: Reader) -> bytes | None:
    length = reader.zigzag()
    return None if length < 0 else bytes(reader.take(length))


def write_batch(batch: Batch) -> bytes:
    """The bytes of a batch, checksum included."""
    body = b"".join(_written(record, batch) for record in batch.records)
    out = bytearray(HEAD.size) + body
    HEAD.pack_into(
        out,
        0,
        batch.base_offset,
        len(out) - BEFORE_LENGTH,
        batch.partition_leader_epoch,
        MAGIC,
        0,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
    )
    out[BEFORE_CRC:AFTER_CRC] = crc32c(memoryview(out)[AFTER_CRC:]).to_bytes(4, "big")
    return bytes(out)


def _written(record: LogRecord, batch: Batch) -> bytes:
    out = bytearray(1)
    out += zigzag(record.timestamp_ms - batch.base_timestamp_ms) + zigzag(record.offset - batch.base_offset)
    for part in (record.key, record.value):
        out += _sized(part)
    out += zigzag(len(record.headers))
    for name, value in record.headers:
        out += _sized(name.encode()) + _sized(value)
    return zigzag(len(out)) + bytes(out)


def _sized(part: bytes | None) -> bytes:
    return zigzag(-1) if part is None else zigzag(len(part)) + part


def crc32c(data: Bytes) -> int:
    """The Castagnoli checksum that batches carry.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table = _crc_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        return value

    return tuple(entry(value) for value in range(256))
