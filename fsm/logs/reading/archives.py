"""Reads the members of tar and zip archives with the readers of the standard library, in bounded memory."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fsm.logs.reading.opening import (
    READ_ERRORS,
    TAR,
    DamageTolerant,
    PackedError,
    SizeLimited,
    open_archive,
    open_bytes,
)

_LONGEST_HEADERS = 1 << 16
"""Most bytes of a tar before the content of a member: its headers, names, attributes and list of holes."""
_LONGEST_LIST = 32 << 20
"""Most bytes of the list of a zip's members, which is held."""
_IRREGULAR = "not a regular file"
_MALFORMED = (tarfile.TarError, ArithmeticError, LookupError, RuntimeError, ValueError, struct.error)
"""What the readers of the standard library raise for malformed archives, in addition to `READ_ERRORS`."""


class Member(NamedTuple):
    name: str
    """As in the archive; bytes of a tar that are not UTF-8 are surrogates, as in file names."""
    modified_s: float
    content: DamageTolerant
    """It can be read until the next member is asked for."""
    refusal: str
    """Why the content cannot be read."""
    other_name: str = ""
    """The earlier member of which it is another name, a hard link."""


def read_members(file: str) -> Iterator[Member]:
    """The members of an archive, without its folders. Raises one of `READ_ERRORS` where it cannot be read further."""
    with open_archive(file) as (what, handle):
        try:
            yield from _read_tar(DamageTolerant(handle)) if what == TAR else _read_zip(file)
        except _MALFORMED as problem:
            raise PackedError(f"damaged: {problem}") from None


class _Stream(io.RawIOBase):
    """A stream as `TarFile` reads it: it seeks over content, and for headers reads whatever length they state."""

    def __init__(self, handle: DamageTolerant) -> None:
        self._handle = handle
        self._place = 0
        self.allowed = _LONGEST_HEADERS
        """How many bytes may be read."""
        self.last = b""
        """What was read last."""

    def tell(self) -> int:
        return self._place

    def seek(self, place: int, _whence: int = io.SEEK_SET, /) -> int:
        """Skips what is before a place. Raises as `read`, and for a place that was passed."""
        if place < self._place:
            raise PackedError("damaged: a header with a false length")
        while self._place < place:
            self.allowed = _LONGEST_HEADERS
            self.read(min(self.allowed, place - self._place))
        self.allowed = _LONGEST_HEADERS
        return place

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, fewer only before the end or damage. Raises one of `READ_ERRORS` where there is none."""
        if not 0 <= size <= self.allowed:
            raise PackedError(f"damaged: headers of more than {_LONGEST_HEADERS >> 10} KB")
        self.last = self._handle.fill(size)
        if size and not self.last:
            raise self._handle.problem or EOFError("the archive ended before its end mark")
        self.allowed -= len(self.last)
        self._place += len(self.last)
        return self.last


def _read_tar(handle: DamageTolerant) -> Iterator[Member]:
    stream = _Stream(handle)
    archive: Any = tarfile.TarFile(fileobj=stream, encoding="utf-8", errors="surrogateescape")
    while (head := archive.next()) is not None:
        if not head.isdir():
            refusal = "a sparse file" if head.issparse() else "" if head.isreg() else _IRREGULAR
            size = stream.allowed = 0 if refusal else head.size
            content = DamageTolerant(SizeLimited(stream, stream.tell() + size))
            yield Member(head.name, head.mtime, content, refusal, head.linkname if head.islnk() else "")
        stream.allowed = _LONGEST_HEADERS
        archive.members.clear()  # it keeps all that it has read
        archive.pax_headers.clear()
    if stream.last != bytes(tarfile.BLOCKSIZE):
        raise PackedError("damaged: a header that cannot be read")  # which `TarFile` takes for the end
    for _ in range(16):  # the checksum of a compressed tar is behind the padding
        if handle.read(_LONGEST_HEADERS).strip(b"\0"):
            raise PackedError("what is behind its end mark was not read, as in several archives in one file")
    if handle.problem is not None:
        raise handle.problem


class _Bounded(io.FileIO):
    """A zip as `ZipFile` reads it, which reads the list of members at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_LIST:
            raise PackedError(
                f"the list of its files has more than {_LONGEST_LIST >> 20} MB; unpack what is needed of it"
            )
        return super().read(size)


class _Checked(io.RawIOBase):
    """A member of a zip, whose checksum is compared behind its last byte: `ZipExtFile` compares it before it hands out
    the last part, which is lost if the checksum is wrong."""

    def __init__(self, handle: Any, checksum: int) -> None:
        super().__init__()
        handle._expected_crc = handle._orig_crc = None  # the latter counts after a seek
        self._handle = handle
        self._checksum: int | None = checksum
        self._found = 0

    def read1(self, size: int, /) -> bytes:
        """The next bytes. Raises one of `READ_ERRORS` instead of the end if the checksum is wrong."""
        part = bytes(self._handle.read1(size))
        self._found = zlib.crc32(part, self._found)
        if size and not part and self._checksum not in (None, self._found):
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {self._handle.name!r}")
        return part

    def seek(self, place: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves to a place; what is read from there on has no checksum."""
        self._checksum = None
        return int(self._handle.seek(place, whence))


def _read_zip(file: str) -> Iterator[Member]:
    with _Bounded(file) as plain:
        try:
            archive = zipfile.ZipFile(plain)
        except zipfile.BadZipFile as problem:  # cut off, or a zip that is compressed once more
            why = f"the list of files at its end cannot be read ({problem})"
            raise PackedError(f"an archive of zip; {why}; unpack or repair it first") from None
        for info in archive.infolist():
            name = info.filename.replace("\\", "/")  # as some programs for Windows write it
            if name.endswith("/"):
                continue
            refusal, content = _explain_zip(info), open_bytes(b"")
            try:
                content = content if refusal else DamageTolerant(_Checked(archive.open(info), info.CRC))
            except (*READ_ERRORS, *_MALFORMED) as problem:
                refusal = f"damaged: {problem}"
            yield Member(name, _read_time(info), content, refusal)


def _explain_zip(info: zipfile.ZipInfo) -> str:
    """Why a member cannot be read; empty if it can be. Only deflate is decompressed in bounded memory."""
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return _IRREGULAR
    if info.flag_bits & 1:
        return "encrypted"
    known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return "" if known else f"compressed by the unsupported method {info.compress_type} of zip"


def _read_time(info: zipfile.ZipInfo) -> float:
    """The time of the last change, a local time of an unknown place, as UTC; 0 if it is none."""
    try:
        return datetime(*info.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        return 0
