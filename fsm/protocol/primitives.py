"""Readers and writers of numbers, strings, bytes, ids and arrays in Kafka's binary encoding.

A reader takes bytes and a position and returns a value and the position behind it; a writer appends a value. Bytes are
not trusted: a length is compared with the remaining bytes before anything is allocated.
"""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Kind

Read = Callable[[bytes, int], tuple[Any, int]]
Write = Callable[[bytearray, Any], None]


class Codec(NamedTuple):
    """Reader and writer of one type."""

    read: Read
    write: Write
    least: int = 1
    """Minimum size of a value in bytes."""


class Unreadable(Exception):  # noqa: N818  # internal: callers raise `InputError` or `RemoteProtocolError` from it
    """Invalid bytes or an invalid value: the problem, its position, and the path of fields, innermost first."""

    def __init__(self, what: str, at: int = -1, *fields: str) -> None:
        super().__init__(what)
        self.at = at
        self.fields = [*fields]

    def refusal(self, name: str) -> InputError:
        """The `InputError` for the caller; `name` is the struct's."""
        place = "" if self.at < 0 else f", byte {self.at}"
        return InputError(str(self), ".".join([name, *reversed(self.fields)]) + place)


# Numbers.

FORMS = {Kind.INT8: "b", Kind.INT16: "h", Kind.INT32: "i", Kind.INT64: "q", Kind.BOOL: "?", Kind.CODE: "h"}
"""`struct` formats of the types of fixed size."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and the position behind it. Raises `Unreadable` if it is longer than ten bytes."""
    found = shift = 0
    for end in range(at + 1, at + 11):
        byte = data[end - 1]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, end
        shift += 7
    raise Unreadable("a number of variable length does not end", at)


def varint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(form: str) -> Codec:
    """Codec of a number of fixed size; `form` is its `struct` format."""
    layout = struct.Struct(f">{form}")
    unpack, pack, size = layout.unpack_from, layout.pack, layout.size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return Codec(read, write, size)


# Length prefixes of strings, bytes and arrays; -1 is null.


def _read_compact_length(data: bytes, at: int) -> tuple[int, int]:
    found = data[at]
    if found < 0x80:
        return found - 1, at + 1
    found, at = read_varint(data, at)
    return found - 1, at


def _write_compact_length(out: bytearray, length: int) -> None:
    if length < 0x7F:
        out.append(length + 1)
    else:
        out += varint(length + 1)


INT16, INT32 = number("h"), number("i")
COMPACT = Codec(_read_compact_length, _write_compact_length)


def make_sized(
    length: Codec, is_nullable: bool, load: Callable[[bytes], Any], dump: Callable[[Any], bytes | memoryview]
) -> Codec:
    """Codec of strings or bytes behind a length prefix."""
    read_length, write_length, least = length

    def read(data: bytes, at: int) -> tuple[Any, int]:
        size, begin = read_length(data, at)
        if size < 0:
            if is_nullable:
                return None, begin
            raise Unreadable("null where a value is needed", at)
        end = begin + size
        if end > len(data):
            raise Unreadable(f"{size} bytes wanted, {len(data) - begin} left", begin)
        return load(data[begin:end]), end

    def write(out: bytearray, value: Any) -> None:
        if value is None and is_nullable:
            write_length(out, -1)
        else:
            raw = dump(value)
            write_length(out, len(raw))
            out += raw

    return Codec(read, write, least)


def array(length: Codec, is_nullable: bool, element: Codec, form: str = "") -> Codec:
    """Codec of an array. Elements of fixed size, with the `struct` format `form`, are read and written in one call."""
    read_length, write_length, _ = length
    read_one, write_one, least = element

    def read(data: bytes, at: int) -> tuple[Any, int]:
        count, at = read_length(data, at)
        if count < 0:
            if is_nullable:
                return None, at
            raise Unreadable("null where a value is needed", at)
        if count * least > len(data) - at:
            raise Unreadable(f"an array of {count}, {len(data) - at} bytes left", at)
        if form:
            return struct.unpack_from(f">{count}{form}", data, at), at + count * least
        found = []
        for _ in range(count):
            one, at = read_one(data, at)
            found.append(one)
        return tuple(found), at

    def write(out: bytearray, value: Any) -> None:
        if value is None and is_nullable:
            write_length(out, -1)
            return
        write_length(out, len(value))
        if form:
            out += struct.pack(f">{len(value)}{form}", *value)
            return
        for one in value:
            write_one(out, one)

    return Codec(read, write, length.least)


def _read_uuid(data: bytes, at: int) -> tuple[str, int]:
    end = at + 16
    if end > len(data):
        raise Unreadable(f"16 bytes wanted, {len(data) - at} left", at)
    return b2a_base64(data[at:end]).translate(_TO_URL)[:22].decode(), end


def _write_uuid(out: bytearray, value: str) -> None:
    raw = a2b_base64(value.encode().translate(_FROM_URL) + b"==")
    if len(value) != 22 or len(raw) != 16:
        raise ValueError(f"{value!r:.60} is no topic id")
    out += raw


_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


class _Codes(dict[int, ErrorCode]):
    def __missing__(self, number: int) -> ErrorCode:
        """Caches an unknown code, so that a frame full of them takes no more memory than others."""
        return self.setdefault(number, ErrorCode(number))


CODES = _Codes({int(code): code for code in ErrorCode})
"""Error code by number, also for unknown codes."""


def _read_code(data: bytes, at: int) -> tuple[ErrorCode, int]:
    found, at = INT16.read(data, at)
    return CODES[found], at


CODE, UUID = Codec(_read_code, INT16.write, 2), Codec(_read_uuid, _write_uuid, 16)


NULL_STRUCT, NULL_TAGGED_STRUCT = 0xFF, 0


def nullable(whole: Codec, null: int) -> Codec:
    """Codec of a nullable struct: a marker byte, then the struct unless the byte is `null`."""
    read_whole, write_whole, _ = whole

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == null else read_whole(data, at + 1)

    def write(out: bytearray, value: Any) -> None:
        out.append(null if value is None else 1)
        if value is not None:
            write_whole(out, value)

    return Codec(read, write)
