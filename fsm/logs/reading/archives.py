"""Reads the members of tar and zip archives, from the first to the last byte, as far as an archive is intact.

The readers of the standard library need what a hostile or truncated archive does not give: they hold every member in
memory, `tarfile` a header of any length as well, and `zipfile` looks for the list of members at the end of the file.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import IO

from fsm.logs.reading.opening import READ_ERRORS, TAR, DamageTolerant

_CHUNK, _SMALL = 1 << 16, 1 << 12
_LONGEST_HEADER = 1 << 20
_IRREGULAR = "not a regular file"
_DAMAGED = "a damaged header"


class Member:
    """A member of an archive; its content can be read until the next member is asked for."""

    def __init__(self, name: str, modified_s: float, content: Iterator[bytes], refusal: str = "") -> None:
        self.name = name
        """As in the archive; bytes that are not UTF-8 are surrogates, as in file names."""
        self.modified_s = modified_s
        self.refusal = refusal
        """Why the content cannot be read."""
        self.problem: Exception | None = None
        """The damage at which the content ended."""
        self._content = content

    def read(self) -> Iterator[bytes]:
        """The content in small chunks, up to the first damage."""
        try:
            while part := next(self._content, b""):  # it is not closed with this generator: its rest is skipped
                yield part
        except READ_ERRORS as problem:
            self.problem = problem


def read_members(what: str, handle: IO[bytes]) -> Iterator[Member]:
    """The members of an archive as `open_archive` opens it, without its folders. Raises one of `READ_ERRORS` where it
    cannot be read further."""
    stream = _Stream(handle)
    yield from _read_tar(stream) if what == TAR else _read_zip(stream)


class _Stream:
    """The bytes of an archive. Each method raises one of `READ_ERRORS` at the end and at damage."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = DamageTolerant(handle)
        self._held: list[memoryview] = []

    def read(self, size: int) -> bytes:
        """Some of the next bytes."""
        if not self._held:
            self.put_back(self._handle.read(_CHUNK))
        if not self._held:
            raise self._handle.problem or EOFError("the archive ended before its end mark")
        part = self._held.pop()
        self.put_back(part[size:])
        return bytes(part[:size])

    def put_back(self, data: bytes | memoryview) -> None:
        if data:
            self._held.append(memoryview(data))

    def take(self, size: int) -> bytes:
        """All of the next bytes."""
        return b"".join(self.cut(size))

    def cut(self, size: int) -> Iterator[bytes]:
        """The next bytes in chunks."""
        while size:
            part = self.read(size)
            size -= len(part)
            yield part

    def read_all(self) -> Iterator[bytes]:
        """What is left, in chunks of which little has to be put back."""
        while True:
            yield self.read(_SMALL)

    def check_end(self) -> None:
        """Reads the padding behind the last member, because compressed data has its checksum behind that."""
        left = _LONGEST_HEADER
        while left > 0 and (part := self._handle.read(_CHUNK)):
            left -= len(part)
        if self._handle.problem is not None:
            raise self._handle.problem


def _drain(content: Iterable[bytes]) -> None:
    for _ in content:
        pass


# -- tar (POSIX.1-2017, pax; and GNU's names) -----------------------------------------------------------------

_BLOCK = 512
_EXTENDED = b"xgL"
"""Kinds of headers that describe others: of the next member, of all further members, GNU's long name."""
_WITHOUT_CONTENT = b"123456"
"""Kinds of links, devices, folders and pipes."""
_LINK_NAME, _VOLUME = b"K", b"V"


def _read_tar(stream: _Stream) -> Iterator[Member]:
    common: dict[bytes, bytes] = {}
    own: dict[bytes, bytes] = {}
    while (head := stream.take(_BLOCK)).strip(b"\0"):
        size, kind = _read_number(head[124:136]), head[156:157]
        if sum(head[:148]) + sum(b" " * 8) + sum(head[156:]) != _read_number(head[148:156]):
            raise OSError(_DAMAGED)
        if kind in _EXTENDED:
            if size > _LONGEST_HEADER:
                raise OSError("a header of more than 1 MB")
            data = stream.take(size)
            _drain(stream.cut(-size % _BLOCK))
            if kind == b"L":
                own[b"path"] = data.partition(b"\0")[0]
            else:
                (common if kind == b"g" else own).update(_read_pax(data))
            continue
        if kind == _LINK_NAME:
            _drain(stream.cut(size + -size % _BLOCK))
            continue
        fields = {**common, **own}
        own = {}
        size = _read_number(fields[b"size"], 10) if b"size" in fields else size
        if kind in _WITHOUT_CONTENT:
            size = 0
        elif kind == b"S" and head[482]:  # GNU's list of holes goes on in further blocks
            while stream.take(_BLOCK)[504]:
                pass
        name = fields.get(b"path") or _read_tar_name(head)
        content = stream.cut(size)
        if kind not in (b"5", b"D", _VOLUME) and not name.endswith(b"/"):
            yield Member(os.fsdecode(name), _read_time(fields, head), content, _explain_tar(kind, fields))
        _drain(content)
        _drain(stream.cut(-size % _BLOCK))
    stream.check_end()


def _explain_tar(kind: bytes, fields: Mapping[bytes, bytes]) -> str:
    if kind not in (b"\0", b"0", b"7"):
        return _IRREGULAR
    return "a sparse file" if _SPARSE in fields else ""


def _read_tar_name(head: bytes) -> bytes:
    name = head[:100].partition(b"\0")[0]
    folder = head[345:500].partition(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return folder + b"/" + name if folder else name


def _read_number(field: bytes, base: int = 8) -> int:
    """A number in digits, or GNU's binary one. Raises OSError if it is none."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    if not digits:
        return 0
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        raise OSError(_DAMAGED)
    try:
        return int(digits, base)
    except ValueError:
        raise OSError(_DAMAGED) from None


_MOST_DIGITS = 20


def _read_time(fields: Mapping[bytes, bytes], head: bytes) -> float:
    """The time of the last change; 0 if there is none."""
    try:
        return float(fields[b"mtime"]) if b"mtime" in fields else _read_number(head[136:148])
    except (OSError, ValueError):
        return 0


_SPARSE = b"GNU.sparse"


def _read_pax(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The needed ones of the fields of a header, each `LENGTH KEY=VALUE` on a line."""
    place = 0
    while place < len(data):
        length, blank, _ = data[place : place + _MOST_DIGITS].partition(b" ")
        if not blank or not length.isdigit() or int(length) <= len(length):
            raise OSError(_DAMAGED)
        key, _, value = data[place + len(length) + 1 : place + int(length) - 1].partition(b"=")
        place += int(length)
        if key in (b"path", b"size", b"mtime"):
            yield key, value
        elif key.startswith(_SPARSE):
            yield _SPARSE, b""


# -- zip (PKWARE's APPNOTE 6.3.10) ----------------------------------------------------------------------------

_LOCAL, _DESCRIPTOR = b"PK\x03\x04", b"PK\x07\x08"
_BEHIND_MEMBERS = (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x08", b"PK\x06\x06")
"""What may follow the last member."""
_HEAD = struct.Struct("<5H3I2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _LENGTH_BEHIND = 1, 8
"""Flags of a member; the lengths of a member that was written to a pipe are behind it."""
_IN_EXTRA = 0xFFFF_FFFF
"""The length is in an extra field, because it has more than 32 bits."""


def _read_zip(stream: _Stream) -> Iterator[Member]:
    while (sign := stream.take(4)) == _LOCAL:
        head = _HEAD.unpack(stream.take(_HEAD.size))
        _, flags, method, clock, day, checksum, packed, _, name_length, extra_length = head
        name = _decode_name(stream.take(name_length))
        extra = dict(_read_extra(stream.take(extra_length)))
        if packed == _IN_EXTRA and len(extra.get(1, b"")) >= 16:
            packed = int.from_bytes(extra[1][8:16], "little")
        is_folder = name.endswith("/")
        open_end = bool(flags & _LENGTH_BEHIND) and not packed and not (is_folder and method == _STORED)
        refusal = _explain_zip(flags, method)
        if not open_end:
            raw = stream.cut(packed)
        elif method == _DEFLATED and not refusal:
            raw = stream.read_all()
        else:
            raw = _read_to_descriptor(stream)
        content = raw
        if not refusal:
            content = _inflate(raw, stream if open_end else None) if method == _DEFLATED else raw
            content = content if flags & _LENGTH_BEHIND else _check(content, checksum)
        if not is_folder:
            yield Member(name, _read_zip_time(extra, day, clock), content, refusal)
        _drain(content if open_end else raw)
        if flags & _LENGTH_BEHIND:
            _skip_descriptor(stream)
    if sign not in _BEHIND_MEMBERS:
        raise OSError(_DAMAGED)


def _explain_zip(flags: int, method: int) -> str:
    if flags & _ENCRYPTED:
        return "encrypted"
    return "" if method in (_STORED, _DEFLATED) else f"compressed by the unsupported method {method} of zip"


def _decode_name(name: bytes) -> str:
    """The name with folders as on Linux. Programs for DOS write it in code page 437."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        text = name.decode("cp437")
    return text.replace("\\", "/")


def _read_extra(extra: bytes) -> Iterator[tuple[int, bytes]]:
    while len(extra) >= 4:
        number, size = struct.unpack_from("<2H", extra)
        yield number, extra[4 : 4 + size]
        extra = extra[4 + size :]


_UNIX_TIMES = 0x5455


def _read_zip_time(extra: Mapping[int, bytes], day: int, clock: int) -> float:
    """The time of the last change: in UTC, or as the local time of an unknown place; 0 if there is none."""
    times = extra.get(_UNIX_TIMES, b"")
    if len(times) >= 5 and times[0] & 1:
        return float(int.from_bytes(times[1:5], "little", signed=True))
    try:
        local = datetime(
            1980 + (day >> 9), day >> 5 & 15, day & 31, clock >> 11, clock >> 5 & 63, 2 * (clock & 31), tzinfo=UTC
        )
    except ValueError:
        return 0
    return local.timestamp()


def _inflate(raw: Iterator[bytes], stream: _Stream | None) -> Iterator[bytes]:
    """Decompresses; bytes behind the end are put back into the stream."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for data in raw:
        rest, part = data, b""
        while rest or len(part) == _CHUNK:
            part = inflater.decompress(rest, _CHUNK)
            rest = inflater.unconsumed_tail
            if part:
                yield part
            if inflater.eof:
                if stream is not None:
                    stream.put_back(inflater.unused_data)
                return
    raise EOFError("the compressed data ended before its end mark")


def _check(content: Iterable[bytes], expected: int) -> Iterator[bytes]:
    checksum = 0
    for part in content:
        checksum = zlib.crc32(part, checksum)
        yield part
    if checksum != expected:
        raise OSError("its checksum is wrong")


def _read_to_descriptor(stream: _Stream) -> Iterator[bytes]:
    """What stands before the descriptor of a member: it has the number of these bytes behind its sign and a
    checksum."""
    rest, offset = b"", 0
    for data in stream.read_all():
        text = rest + data
        end = max(0, len(text) - 11)
        place = text.find(_DESCRIPTOR, 0, end + 3)
        while place >= 0:
            if int.from_bytes(text[place + 8 : place + 12], "little") == (offset + place) & _IN_EXTRA:
                stream.put_back(text[place:])
                if place:
                    yield text[:place]
                return
            place = text.find(_DESCRIPTOR, place + 1, end + 3)
        if end:
            yield text[:end]
        rest, offset = text[end:], offset + end


def _skip_descriptor(stream: _Stream) -> None:
    """Skips a checksum and two lengths of 4 or 8 bytes, with or without a sign before them; a folder may have none."""
    start = stream.take(4)
    if start in (_LOCAL, *_BEHIND_MEMBERS):
        stream.put_back(start)
        return
    if start == _DESCRIPTOR:
        stream.take(4)
    stream.take(8)
    following = stream.take(4)
    if following.startswith(b"PK"):
        stream.put_back(following)
    else:
        stream.take(4)
