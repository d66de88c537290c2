"""The log of `__consumer_offsets`: record batches of a segment, read and written byte for byte.

Source: the record batch format, magic 2 (`DefaultRecordBatch`, `DefaultRecord`, `EndTransactionMarker` of
apache/kafka). Compressed batches are refused: `offsets.topic.compression.codec` is none unless somebody sets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct as Layout
from struct import error as too_short
from typing import NamedTuple

from google_crc32c import value as crc32c

from fsm.errors import InputError
from fsm.protocol.primitives import Unreadable, read_varint, varint
from fsm.protocol.records import Record, decode, encode

HEAD = Layout(">qiibIhiqqqhii")
"""Offset, length, leader epoch, magic, crc, attributes, last offset delta, first and last time, producer id and epoch,
first sequence, count."""

_MARKER_KEY, _MARKER = Layout(">hh"), Layout(">hi")
"""Version and kind of the end; version and epoch of the coordinator."""

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
        key, value = (self.records[0].key, self.records[0].value) if self.records else (None, None)
        if not self.is_control or key is None or value is None:
            raise InputError("not a control batch", f"offset {self.base_offset}")
        try:
            (_, committed), (_, epoch) = _MARKER_KEY.unpack_from(key), _MARKER.unpack_from(value)
        except too_short:
            raise InputError("a control batch that ends too early", f"offset {self.base_offset}") from None
        return EndOfTransaction(committed == 1, epoch)


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


def read_batches(segment: bytes | memoryview) -> Iterator[Batch]:
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
        yield _batch(bytes(data[at:end]), at)
        at = end


def _batch(data: bytes, place: int) -> Batch:
    head = HEAD.unpack_from(data)
    base, _, leader_epoch, magic, crc, attributes, last, first_ms, max_ms, producer, epoch, sequence, count = head
    _refuse_unreadable(magic, attributes, place)
    if crc32c(data[AFTER_CRC:]) != crc:
        raise InputError("damaged: its checksum is another", f"byte {place}")
    try:
        records, end = _records(data, count, base, first_ms)
    except (Unreadable, IndexError, UnicodeDecodeError) as problem:
        raise InputError(f"records that cannot be read: {problem}", f"byte {place}") from None
    if end != len(data):
        raise InputError(f"{len(data) - end} bytes too many", f"byte {place + end}")
    return Batch(base, records, leader_epoch, attributes, producer, epoch, sequence, last, first_ms, max_ms)


def _refuse_unreadable(magic: int, attributes: int, place: int) -> None:
    if magic != MAGIC:
        raise InputError(f"a batch of magic {magic}; read are those of magic {MAGIC}", f"byte {place}")
    if attributes & COMPRESSION:
        codec = dict(enumerate(CODECS)).get(attributes & COMPRESSION, "unknown")
        remedy = "dump the segment with kafka-dump-log.sh --offsets-decoder and read that"
        raise InputError(f"a batch compressed with {codec}", f"byte {place}", remedy)


def _records(data: bytes, count: int, base_offset: int, base_timestamp_ms: int) -> tuple[tuple[LogRecord, ...], int]:
    found, at = [], HEAD.size
    for _ in range(count):
        length, begin = _read_zigzag(data, at)
        # A byte of attributes, which nobody uses, comes first.
        time, at = _read_zigzag(data, begin + 1)
        offset, at = _read_zigzag(data, at)
        key, at = _read_blob(data, at)
        value, at = _read_blob(data, at)
        number, at = _read_zigzag(data, at)
        headers = []
        for _ in range(number):
            name, at = _read_blob(data, at)
            header, at = _read_blob(data, at)
            headers.append(((name or b"").decode(), header))
        if at != begin + length:
            raise Unreadable(f"a record of {length} bytes takes {at - begin}", begin)
        found.append(LogRecord(base_offset + offset, base_timestamp_ms + time, key, value, tuple(headers)))
    return tuple(found), at


def _read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed number of variable length."""
    found, at = read_varint(data, at)
    return found >> 1 ^ -(found & 1), at


def _zigzag(value: int) -> bytes:
    return varint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)


def _read_blob(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _read_zigzag(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise Unreadable(f"{length} bytes wanted, {len(data) - at} left", at)
    return data[at : at + length], at + length


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
    out[BEFORE_CRC:AFTER_CRC] = crc32c(bytes(out[AFTER_CRC:])).to_bytes(4, "big")
    return bytes(out)


def _written(record: LogRecord, batch: Batch) -> bytes:
    out = bytearray(1)
    out += _zigzag(record.timestamp_ms - batch.base_timestamp_ms) + _zigzag(record.offset - batch.base_offset)
    for part in (record.key, record.value):
        out += _sized(part)
    out += _zigzag(len(record.headers))
    for name, value in record.headers:
        out += _sized(name.encode()) + _sized(value)
    return _zigzag(len(out)) + bytes(out)


def _sized(part: bytes | None) -> bytes:
    return _zigzag(-1) if part is None else _zigzag(len(part)) + part
