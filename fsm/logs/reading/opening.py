"""Opens files for reading: decompresses gzip, bzip2, xz, zstd and lz4, also nested; recognizes archives; decodes
UTF-16, as PowerShell writes it, and UTF-32; and undoes other encodings (`recodings`)."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from fsm.logs.exports.recodings import HEAD, Recode, find_recoding

Row = TypeVar("Row")

GZIP_MAGIC = b"\x1f\x8b"


class Decoded:
    """A text that is decoded while it is read."""

    def __init__(self, handle: IO[bytes], recode: Recode) -> None:
        self.handle = handle
        self._recode = recode
        self._rest = b""
        self._problem: Exception | None = None
        self._parts = recode(self._read())

    def _read(self) -> Iterator[bytes]:
        opened = DamageTolerant(self.handle)
        while part := opened.read(HEAD):
            yield part
        self._problem = opened.problem  # raised after the data before it was read

    def read(self, size: int, /) -> bytes:
        """Some of the next bytes, empty at the end. Raises `READ_ERRORS` where a damaged file cannot be read
        further."""
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                if self._problem is not None:
                    raise self._problem
                return b""
            self._rest = part
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    def seek(self, _start: int, /) -> int:
        """Rewinds to the beginning, the only supported position."""
        self._rest, self._problem = b"", None
        self._parts = self._recode(self._read())
        return self.handle.seek(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rest = b""


def _decode_unicode(encoding: str) -> Recode:
    """Decodes UTF-16 or UTF-32 into UTF-8, without the byte order mark."""

    def recode(parts: Iterable[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        for part in parts:
            yield decoder.decode(part).replace("\ufeff", "").encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")

    return recode


class Inflated:
    """A file that pyarrow decompresses while it is read. Raises `PackedError` if that is not installed."""

    def __init__(self, handle: IO[bytes], codec: str) -> None:
        try:
            import pyarrow  # noqa: PLC0415
        except ImportError:
            raise PackedError(f"compressed with {codec}; install pyarrow (extra codecs) to read it") from None
        self.handle = handle
        self._open = partial(pyarrow.CompressedInputStream, compression=codec)
        self._place = 0
        self._most = _AT_ONCE
        self._problem: OSError | None = None
        self.seek(0)

    def read(self, size: int, /) -> bytes:
        """Some of the next bytes, empty at the end. Raises OSError at damage."""
        if self._problem is not None:
            raise self._problem  # pyarrow would go on behind the part that is lost
        try:
            part: bytes = self._stream.read(min(size, self._most))
        except OSError as problem:
            if min(size, self._most) <= _MOST_LOST:
                self._problem = problem
                raise
            place = self._place
            self.seek(0)
            self._most = _MOST_LOST
            while self._place < place and self.read(place - self._place):
                pass
            return self.read(size)
        self._place += len(part)
        return part

    def seek(self, _start: int, /) -> int:
        """Rewinds to the beginning, the only supported position."""
        self.handle.seek(0)
        self._stream = self._open(_Lent(self.handle))
        self._place, self._most, self._problem = 0, _AT_ONCE, None
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self._stream  # it holds a megabyte


class _Lent(io.RawIOBase):
    """A file that stays open when pyarrow closes it."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = DamageTolerant(handle)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._handle.read(size)


_AT_ONCE = 1 << 16
_MOST_LOST = 1 << 12
"""Bytes per read close to damage, because pyarrow gives nothing of a read that reaches it."""
_Openers = tuple[tuple[re.Pattern[bytes], Callable[[IO[bytes]], Any]], ...]
"""Magic bytes of a file, and its opener."""
_COMPRESSED: _Openers = (
    (re.compile(re.escape(GZIP_MAGIC)), lambda handle: gzip.GzipFile(fileobj=handle, mode="rb")),
    (re.compile(b"BZh"), bz2.BZ2File),
    (re.compile(b"\xfd7zXZ\0"), lzma.LZMAFile),
    (re.compile(rb"\x28\xb5\x2f\xfd"), partial(Inflated, codec="zstd")),
    (re.compile(rb"\x04\x22\x4d\x18"), partial(Inflated, codec="lz4")),
)
_PACKED: _Openers = (
    *_COMPRESSED,
    (re.compile(rb"\xff\xfe\0\0"), lambda handle: Decoded(handle, _decode_unicode("utf-32-le"))),
    (re.compile(rb"\0\0\xfe\xff"), lambda handle: Decoded(handle, _decode_unicode("utf-32-be"))),
    (re.compile(rb"\xff\xfe[^\0]|(?:[\t\r\n -~]\0){4}"), lambda handle: Decoded(handle, _decode_unicode("utf-16-le"))),
    (re.compile(rb"\xfe\xff\0|(?:\0[\t\r\n -~]){4}"), lambda handle: Decoded(handle, _decode_unicode("utf-16-be"))),
)
TAR, ZIP = "an archive of tar", "an archive of zip"
_ARCHIVES = (
    (re.compile(rb".{257}ustar|\0{1024}(\0{9216})?\Z", re.DOTALL), TAR),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), ZIP),
)
"""Also empty ones: a tar of nothing but its end mark, alone or in a record, and a zip of nothing but its end."""
_ARCHIVE_HEAD = tarfile.RECORDSIZE + 1
_MOST_LAYERS = 3


class PackedError(OSError):
    """An archive that is damaged, or given where a text is expected, or a file in an unsupported compression."""


READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Exceptions raised while a damaged file is read."""


def describe_problem(problem: Exception) -> str:
    """One of `READ_ERRORS` in words."""
    why = getattr(problem, "strerror", None) or problem
    return str(why) if isinstance(problem, PackedError) else f"{type(problem).__name__}: {why}"


def is_packed(start: bytes) -> bool:
    """Whether a file that begins with these bytes is compressed, an archive, or in UTF-16 or UTF-32. 8 bytes are
    enough, except for tar archives, which need 512."""
    return bool(_find_archive(start)) or _find_row(_PACKED, start) is not None


def is_coded(head: bytes) -> bool:
    """Whether a file that begins with these bytes, at most `HEAD`, can only be read from its beginning."""
    return is_packed(head) or find_recoding(head) is not None


@contextmanager
def open_packed(file: str) -> Iterator[IO[bytes]]:
    """Opens a compressed or encoded file, at most `_MOST_LAYERS` deep. Raises `PackedError` for an archive, for what is
    compressed more often, and for a compression that needs pyarrow if that is not installed; OSError if the file cannot
    be opened."""

    def find_opener(start: bytes) -> Callable[[IO[bytes]], Any] | None:
        if what := _find_archive(start):
            raise PackedError(f"{what}; unpack it first")
        opener = _find_row(_PACKED, start)
        if opener is None and (recode := find_recoding(start)) is not None:
            return partial(Decoded, recode=recode)
        return opener

    with ExitStack() as layers:
        handle = _open_layers(layers, layers.enter_context(Path(file).open("rb")), HEAD, find_opener)[0]
        if _find_row(_COMPRESSED, DamageTolerant(handle).fill(8)) is not None:
            raise PackedError(f"compressed more than {_MOST_LAYERS} times; unpack it first")
        handle.seek(0)
        yield handle


@contextmanager
def open_archive(file: str) -> Iterator[tuple[str, IO[bytes]]]:
    """(`TAR`, `ZIP`, or "" for another file; its content), decompressed as by `open_packed`. Raises OSError if the file
    cannot be opened."""
    with ExitStack() as layers:
        plain = layers.enter_context(Path(file).open("rb"))
        handle, start = _open_layers(layers, plain, _ARCHIVE_HEAD, partial(_find_row, _COMPRESSED))
        yield _find_archive(start), handle


def is_archive(file: str) -> bool:
    """Whether a file is an archive, compressed or not. Raises as `open_archive`."""
    with open_archive(file) as (what, _):
        return bool(what)


def _find_archive(start: bytes) -> str:
    """`TAR`, `ZIP`, or "" for another file. A tar of before POSIX has no magic bytes, but a checksum."""
    try:
        tarfile.TarInfo.frombuf(start[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return _find_row(_ARCHIVES, start) or ""
    return TAR


def _find_row(table: Iterable[tuple[re.Pattern[bytes], Row]], start: bytes) -> Row | None:
    return next((row for begins, row in table if begins.match(start)), None)


def _open_layers(
    layers: ExitStack, handle: IO[bytes], head: int, find_opener: Callable[[bytes], Callable[[IO[bytes]], Any] | None]
) -> tuple[IO[bytes], bytes]:
    """(the content of a file below the layers that `find_opener` finds by their first bytes, at most `head`; the first
    bytes that were seen last)."""
    start = b""
    for _ in range(_MOST_LAYERS):
        start = DamageTolerant(handle).fill(head)
        handle.seek(0)
        opener = find_opener(start)
        if opener is None:
            break
        handle = layers.enter_context(opener(handle))
    return handle, start


class SizeLimited:
    """A file limited to a fixed size, even if it has grown since."""

    def __init__(self, handle: IO[bytes] | io.RawIOBase, size: int) -> None:
        self.handle = handle
        self.size = size

    def read(self, size: int, /) -> bytes:
        """The next bytes, empty at the end."""
        return self.handle.read(min(size, max(0, self.size - self.handle.tell()))) or b""

    def seek(self, offset: int, /) -> int:
        return self.handle.seek(offset)


class DamageTolerant:
    """A file that ends where reading fails, so that the data before the damage is read normally."""

    def __init__(self, handle: IO[bytes] | io.RawIOBase | SizeLimited) -> None:
        self.handle = handle
        self.problem: Exception | None = None
        # `read` fills the requested size and would lose the readable part before the damage.
        self._read: Callable[[int], bytes] = getattr(handle, "read1", handle.read)
        self._place = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes, empty at the end and from the damage on."""
        if self.problem is not None:
            return b""
        try:
            part = self._read(size)
        except READ_ERRORS as problem:
            self.problem = problem
            return self._read_rest()
        self._place += len(part)
        return part

    def fill(self, size: int) -> bytes:
        """The next bytes, fewer only before the end or the damage."""
        parts: list[bytes] = []
        have = 0
        while have < size and (part := self.read(size - have)):
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _read_rest(self) -> bytes:
        """The data before the damage, in small reads: a decompressor returns nothing of a chunk that is damaged further
        on."""
        parts: list[bytes] = []
        try:
            if self.handle.seek(self._place) == self._place:
                while part := self._read(_SMALL):
                    parts.append(part)
        except READ_ERRORS:
            pass
        return b"".join(parts)

    def seek(self, offset: int, /) -> int:
        self._place = self.handle.seek(offset)
        return self._place


_SMALL = 512
"""Bytes per read close to the damage."""


def open_bytes(data: bytes) -> DamageTolerant:
    return DamageTolerant(io.BytesIO(data))
