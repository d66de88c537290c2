"""Batches that Kafka's own classes wrote, and what a producer may send instead."""

from __future__ import annotations

import gzip
from base64 import b64decode
from dataclasses import replace

from google_crc32c import value as crc32c

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import (
    AFTER_CRC,
    BEFORE_CRC,
    CONTROL,
    GZIP,
    HEAD,
    Batch,
    BatchHead,
    LogRecord,
    move_batch,
    write_batch,
)

RECORDS = (
    LogRecord(5, 1_000, b"k", b"v", (("h", b"x"), ("n", None))),
    LogRecord(6, 1_005, None, b"w" * 100),
    LogRecord(7, 999, b"t", None),
)
PLAIN = b64decode(
    "AAAAAAAAAAUAAAC2AAAAAwIAwLxlAAAAAAACAAAAAAAAA+gAAAAAAAAD7f//////////////////AAAAAx4AAAACawJ2BAJoAngC"
    "bgHWAQAKAgHIAXd3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3"
    "d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3cADgABBAJ0AQA="
)
GZIPPED = b64decode(
    "AAAAAAAAAAUAAABpAAAAAwLjHYxaAAEAAAACAAAAAAAAA+gAAAAAAAAD7f//////////////////AAAAAx+LCAAAAAAAAP+TY2Bg"
    "YMpmKmNhymCqYMpjvMbIwMXEeIKxnA6AgY+BkYWphJEBAG73eamFAAAA"
)
"""`MemoryRecords.withRecords` of kafka-clients 4.4.0 wrote both: at offset 5, under leader epoch 3."""
BATCH = Batch.of(RECORDS, partition_leader_epoch=3)
PRODUCED = move_batch(PLAIN, 0, -1)
"""As a producer sends it."""


def resealed(data: bytes) -> bytes:
    """The bytes with the checksum that they should have."""
    return data[:BEFORE_CRC] + crc32c(data[AFTER_CRC:]).to_bytes(4, "big") + data[AFTER_CRC:]


def changed_head(**changes: int) -> bytes:
    """The batch with other numbers in its head."""
    head = BatchHead._make(HEAD.unpack_from(PRODUCED))._replace(**changes)
    return resealed(HEAD.pack(*head) + PRODUCED[HEAD.size :])


def with_body(body: bytes, attributes: int = GZIP, **changes: int) -> bytes:
    """A batch of these bytes."""
    head = BatchHead._make(HEAD.unpack_from(PRODUCED))._replace(attributes=attributes, length=49 + len(body), **changes)
    return resealed(HEAD.pack(*head) + body)


def one_record(text: str) -> bytes:
    """A batch of one record, in hexadecimal."""
    return with_body(bytes.fromhex(text), attributes=0, record_count=1, last_offset_delta=0)


BODY = PRODUCED[HEAD.size :]
SENT: dict[str, tuple[bytes, ErrorCode]] = {
    "no whole batch: nothing": (b"", ErrorCode.INVALID_RECORD),
    "no whole batch: half a head": (PRODUCED[:30], ErrorCode.INVALID_RECORD),
    "no whole batch: a byte is missing": (PRODUCED[:-1], ErrorCode.INVALID_RECORD),
    "more than one batch": (PRODUCED + PRODUCED, ErrorCode.INVALID_RECORD),
    "a batch of magic 1": (PRODUCED[:16] + b"\1" + PRODUCED[17:], ErrorCode.INVALID_RECORD),
    "a damaged batch: zeros behind it": (PRODUCED + bytes(61), ErrorCode.CORRUPT_MESSAGE),
    "a damaged batch: another byte": (PRODUCED[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    "3 records, 5 to 7": (PLAIN, ErrorCode.INVALID_RECORD),
    "2 records, 0 to 2": (changed_head(record_count=2), ErrorCode.INVALID_RECORD),
    "0 records, 0 to -1": (changed_head(record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "8 bytes too many": (changed_head(record_count=2, last_offset_delta=1), ErrorCode.INVALID_RECORD),
    "records that cannot be read": (changed_head(record_count=4, last_offset_delta=3), ErrorCode.INVALID_RECORD),
    "records that cannot be read: .*-1 headers": (one_record("10 00 00 00 02 6b 02 76 01"), ErrorCode.INVALID_RECORD),
    "records that cannot be read: .*a header without a name": (
        one_record("12 00 00 00 02 6b 02 76 02 01"),
        ErrorCode.INVALID_RECORD,
    ),
    "control records": (changed_head(attributes=CONTROL), ErrorCode.INVALID_RECORD),
    "no gzip": (with_body(b"anything"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "gzip that ends too early": (with_body(gzip.compress(BODY)[:-1]), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a batch compressed with no known codec": (with_body(b"anything", 7), ErrorCode.UNKNOWN_SERVER_ERROR),
    "plain": (PRODUCED, ErrorCode.NONE),
    "of another leader": (move_batch(PLAIN, 0, 3), ErrorCode.NONE),
    "gzip": (move_batch(GZIPPED, 0, -1), ErrorCode.NONE),
    "gzip, and more": (with_body(gzip.compress(BODY) + b"?"), ErrorCode.NONE),
    "offsets in disorder": (
        move_batch(write_batch(replace(BATCH, records=(RECORDS[0], RECORDS[2], RECORDS[1]))), 0, -1),
        ErrorCode.NONE,
    ),
}
"""What a producer sent, in words, and what a broker of 4.4 answers."""
