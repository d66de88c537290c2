"""Reads, writes and validates record batches of log segments, Produce and Fetch.

Batches compressed with gzip are read and written; records in snappy, lz4 and zstd are refused unless the caller passes
a decompressor. Bytes are not trusted: the decompressed size is bounded, and lengths of records are checked.

Source: the record batch format, magic 2 (`DefaultRecordBatch`, `DefaultRecord`, `EndTransactionMarker` of
apache/kafka); refusals of brokers: `ProduceRequest.validateRecords`, `LogValidator`, and a broker of 4.4.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct as Layout
from struct import error as too_short
from typing import NamedTuple

from google_crc32c import value as crc32c

from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.error_codes import ErrorCode
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
NONE, GZIP, OPAQUE = 0, 1, (2, 3, 4)
LARGEST_INFLATED = 16 << 20
"""Maximum decompressed size of a batch's records, in bytes."""
Inflate = Callable[[str, bytes, int], bytes]
"""Decompresses bytes of the named codec. Raises `InputError` if it cannot, or if the result is longer than the last
argument."""


class BatchHead(NamedTuple):
    """The header of a batch."""

    base_offset: int
    length: int
    """Bytes behind this field."""
    partition_leader_epoch: int
    magic: int
    crc: int
    """CRC-32C of everything behind this field."""
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def compression(self) -> int:
        """The codec's position in `CODECS`."""
        return self.attributes & COMPRESSION


class LogRecord(NamedTuple):
    """One record of a batch, undecoded."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def decode(self) -> Record:
        """The decoded record. Raises `InputError` if it is not a record of the group coordinator."""
        if self.key is None:
            raise InputError("a record without a key", f"offset {self.offset}")
        return decode(self.key, self.value)


class EndOfTransaction(NamedTuple):
    """The record of a control batch: the end of a producer's transaction."""

    committed: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were appended atomically."""

    base_offset: int
    records: tuple[LogRecord, ...]
    partition_leader_epoch: int = -1
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_offset_delta: int = 0
    """Distance to the batch's last offset when it was written; compaction may have removed that record."""
    base_timestamp_ms: int = 0
    max_timestamp_ms: int = field(default=0)

    @classmethod
    def of(cls, records: Sequence[LogRecord], **fields: int) -> Batch:
        """The batch of one or more records, with their offsets and timestamps; other fields are passed in."""
        first, times = records[0], [record.timestamp_ms for record in records]
        fields |= {"last_offset_delta": records[-1].offset - first.offset}
        fields |= {"base_timestamp_ms": times[0], "max_timestamp_ms": max(times)}
        return cls(first.offset, tuple(records), **fields)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    def end_of_transaction(self) -> EndOfTransaction:
        """The end of transaction in a control batch. Raises `InputError` for another batch."""
        key, value = (self.records[0].key, self.records[0].value) if self.records else (None, None)
        if not self.is_control or key is None or value is None:
            raise InputError("not a control batch", f"offset {self.base_offset}")
        try:
            (_, committed), (_, epoch) = _MARKER_KEY.unpack_from(key), _MARKER.unpack_from(value)
        except too_short:
            raise InputError("a control batch that ends too early", f"offset {self.base_offset}") from None
        return EndOfTransaction(committed == 1, epoch)


def batch_of(base_offset: int, records: Iterable[Record], now_ms: int, **fields: int) -> Batch:
    """A batch of these records with one timestamp, as the coordinator appends the records of a step."""
    return Batch.of([LogRecord(base_offset + i, now_ms, *encode(one)) for i, one in enumerate(records)], **fields)


def read_batches(segment: bytes | memoryview) -> Iterator[Batch]:
    """The batches of a segment, lazily.

    Raises `InputError` with the byte position of a batch that is damaged, truncated, compressed with a codec other than
    gzip, or of another magic, after yielding the batches before it. Zeros behind the last batch are preallocated space.
    """
    place = 0
    for head, data in split_batches(segment):
        try:
            records = tuple(_records(_inflate(data, head), head))
        except Unreadable as problem:
            raise InputError(str(problem), f"byte {place}", _remedy(head)) from None
        yield Batch(
            head.base_offset,
            records,
            head.partition_leader_epoch,
            head.attributes,
            head.producer_id,
            head.producer_epoch,
            head.base_sequence,
            head.last_offset_delta,
            head.base_timestamp_ms,
            head.max_timestamp_ms,
        )
        place += len(data)


def read_records(batch: bytes, inflate: Inflate) -> Iterator[LogRecord]:
    """The records of a batch of `split_batches`, lazily, in constant memory.

    `inflate` decompresses snappy, lz4 and zstd. Raises `InputError` as `read_batches` does.
    """
    head = BatchHead._make(HEAD.unpack_from(batch))
    try:
        yield from _records(_inflate(batch, head, inflate), head)
    except Unreadable as problem:
        raise InputError(str(problem)) from None


def split_batches(segment: bytes | memoryview) -> Iterator[tuple[BatchHead, bytes]]:
    """Header and bytes of each batch; records are not decoded. Raises `InputError` as `read_batches` does."""
    data = memoryview(segment)
    at = 0
    while at < len(data) and any(data[at : at + BEFORE_LENGTH]):
        length = int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
        end = at + BEFORE_LENGTH + length
        if end > len(data) or length < HEAD.size - BEFORE_LENGTH:
            raise InputError("the segment ends inside a batch", f"byte {at}", "read it again once it is written")
        head = BatchHead._make(HEAD.unpack_from(data, at))
        if head.magic != MAGIC:
            raise InputError(f"a batch of magic {head.magic}; only magic {MAGIC} is supported", f"byte {at}")
        batch = bytes(data[at:end])
        if crc32c(batch[AFTER_CRC:]) != head.crc:
            raise InputError("damaged: its checksum does not match", f"byte {at}")
        yield head, batch
        at = end


def check_produced(data: bytes) -> BatchHead:
    """The header of the single batch that a producer sent for a partition.

    Raises `RemoteProtocolError` with a broker's error code for a batch that brokers refuse. Records compressed with
    snappy, lz4 or zstd are not checked.
    """
    end = BEFORE_LENGTH + int.from_bytes(data[8:BEFORE_LENGTH], "big", signed=True)
    if len(data) < HEAD.size or end > len(data):
        raise _refuse("no whole batch", ErrorCode.INVALID_RECORD)
    head = BatchHead._make(HEAD.unpack_from(data))
    if head.magic != MAGIC:
        raise _refuse(f"a batch of magic {head.magic}", ErrorCode.INVALID_RECORD)
    if any(data[end:]):
        raise _refuse("more than one batch", ErrorCode.INVALID_RECORD)
    if end != len(data) or crc32c(data[AFTER_CRC:]) != head.crc:
        raise _refuse("a damaged batch", ErrorCode.CORRUPT_MESSAGE)
    if head.base_offset or head.record_count < 1 or head.last_offset_delta != head.record_count - 1:
        last = head.base_offset + head.last_offset_delta
        raise _refuse(f"{head.record_count} records, {head.base_offset} to {last}", ErrorCode.INVALID_RECORD)
    if head.attributes & CONTROL:
        raise _refuse("control records, which only brokers write", ErrorCode.INVALID_RECORD)
    if head.compression in OPAQUE:
        return head
    try:
        body = _inflate(data, head)
    except Unreadable as problem:
        raise _refuse(str(problem), ErrorCode.UNKNOWN_SERVER_ERROR) from None
    try:
        for _ in _records(body, head):
            pass
    except Unreadable as problem:
        raise _refuse(str(problem), ErrorCode.INVALID_RECORD) from None
    return head


def _refuse(what: str, code: ErrorCode) -> RemoteProtocolError:
    return RemoteProtocolError(f"a producer sent {what}", code)


def move_batch(batch: bytes, base_offset: int, partition_leader_epoch: int) -> bytes:
    """The batch with another offset and leader epoch; the checksum covers neither."""
    epoch = partition_leader_epoch.to_bytes(4, "big", signed=True)
    return base_offset.to_bytes(8, "big") + batch[8:BEFORE_LENGTH] + epoch + batch[BEFORE_CRC - 1 :]


def _remedy(head: BatchHead) -> str:
    compressed = "dump the segment with kafka-dump-log.sh --offsets-decoder and read that"
    return compressed if head.compression in OPAQUE else ""


def _records(data: bytes, head: BatchHead) -> Iterator[LogRecord]:
    """The records in these bytes. Raises `Unreadable`."""
    at = 0
    try:
        for _ in range(head.record_count):
            record, at = _record(data, at, head)
            yield record
    except (Unreadable, IndexError, UnicodeDecodeError) as problem:
        what = {IndexError: "the bytes end too early", UnicodeDecodeError: "not UTF-8"}.get(type(problem), problem)
        raise Unreadable(f"records that cannot be read: {what}") from None
    if at != len(data):
        raise Unreadable(f"{len(data) - at} bytes too many")


def _inflate(batch: bytes, head: BatchHead, inflate: Inflate | None = None) -> bytes:
    """The decompressed records. Raises `Unreadable`, and what `inflate` raises."""
    if head.compression == NONE:
        return batch[HEAD.size :]
    if head.compression in OPAQUE and inflate is not None:
        return inflate(CODECS[head.compression], batch[HEAD.size :], LARGEST_INFLATED)
    if head.compression != GZIP:
        raise Unreadable(f"a batch compressed with {dict(enumerate(CODECS)).get(head.compression, 'no known codec')}")
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        found = inflater.decompress(batch[HEAD.size :], LARGEST_INFLATED + 1)
    except zlib.error as problem:
        raise Unreadable(f"no gzip: {problem}") from None
    if len(found) > LARGEST_INFLATED:
        raise Unreadable(f"the records exceed {LARGEST_INFLATED} bytes")
    if not inflater.eof:
        raise Unreadable("gzip that ends too early")
    return found


def _record(data: bytes, at: int, head: BatchHead) -> tuple[LogRecord, int]:
    length, begin = _read_zigzag(data, at)
    # The first byte has the record's attributes, which are unused.
    time, at = _read_zigzag(data, begin + 1)
    offset, at = _read_zigzag(data, at)
    key, at = _read_blob(data, at)
    value, at = _read_blob(data, at)
    number, at = _read_zigzag(data, at)
    if number < 0:
        raise Unreadable(f"{number} headers", at)
    headers = []
    for _ in range(number):
        name, at = _read_blob(data, at)
        if name is None:
            raise Unreadable("a header without a name", at)
        header, at = _read_blob(data, at)
        headers.append((name.decode(), header))
    if at != begin + length:
        raise Unreadable(f"a record of {length} bytes takes {at - begin}", begin)
    return LogRecord(head.base_offset + offset, head.base_timestamp_ms + time, key, value, tuple(headers)), at


def _read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed varint and the position behind it."""
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
    """The bytes of a batch with its checksum, compressed if its attributes say gzip."""
    body = b"".join(_encode(record, batch) for record in batch.records)
    if batch.attributes & COMPRESSION == GZIP:
        body = gzip.compress(body, mtime=0)
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


def _encode(record: LogRecord, batch: Batch) -> bytes:
    out = bytearray(1)
    out += _zigzag(record.timestamp_ms - batch.base_timestamp_ms) + _zigzag(record.offset - batch.base_offset)
    for part in (record.key, record.value):
        out += _encode_sized(part)
    out += _zigzag(len(record.headers))
    for name, value in record.headers:
        out += _encode_sized(name.encode()) + _encode_sized(value)
    return _zigzag(len(out)) + bytes(out)


def _encode_sized(part: bytes | None) -> bytes:
    return _zigzag(-1) if part is None else _zigzag(len(part)) + part
