"""Decompression of records with snappy, lz4 and zstd, by pyarrow if it is installed.

The size of the result, and the memory for it, are bounded, however small a batch is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsm.errors import InputError

XERIAL = b"\x82SNAPPY\x00"
"""The header of snappy's Java library, which compresses data in blocks."""
XERIAL_HEAD = len(XERIAL) + 8
LENGTH = 4


def inflate(codec: str, data: bytes, most: int) -> bytes:
    """Decompresses bytes with a codec of Kafka's.

    Raises `InputError` for invalid data, for a result of more than `most` bytes, and without pyarrow.
    """
    try:
        import pyarrow  # noqa: PLC0415
    except ImportError:
        remedy = "install pyarrow (extra codecs) to read them"
        raise InputError(f"they are compressed with {codec}", remedy=remedy) from None
    try:
        if codec == "snappy":
            return _unsnap(pyarrow, data, most)
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), codec) as stream:
            inflated: bytes = stream.read(most + 1)
            _check_size(len(inflated), most)
            return inflated
    except (ValueError, OSError) as problem:
        raise InputError(f"no {codec}: {problem}") from None


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise InputError(f"the records exceed {most} bytes")


def _unsnap(pyarrow: Any, data: bytes, most: int) -> bytes:
    found = bytearray()
    for block in _blocks(data):
        size = _size(block)
        _check_size(len(found) + size, most)
        found += pyarrow.decompress(block, size, "snappy", asbytes=True)
    return bytes(found)


def _blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of snappy's Java library; other clients write a single one."""
    if not data.startswith(XERIAL):
        yield data
        return
    at = XERIAL_HEAD
    while at < len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "big")
        if end > len(data):
            raise ValueError("a block ends too early")
        yield data[at + LENGTH : end]
        at = end


def _size(block: bytes) -> int:
    """The uncompressed size of a snappy block, from its header."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    raise ValueError("no size")
