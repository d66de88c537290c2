"""Files opened for reading, whatever packed them: gzip, bzip2 and xz, also several times over, texts in UTF-16, as
PowerShell writes them, and UTF-32, and texts that were coded in other ways (`recodings`)."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

from fsm.logs.exports.recodings import HEAD, Recode, find_recoding

GZIP_MAGIC = b"\x1f\x8b"


class Recoded:
    """A text that is read as it was before it was coded."""

    def __init__(self, handle: IO[bytes], recode: Recode) -> None:
        self.handle = handle
        self._recode = recode
        self._rest = b""
        self._problem: Exception | None = None
        self._parts = recode(self._read())

    def _read(self) -> Iterator[bytes]:
        opened = UntilBroken(self.handle)
        while part := opened.read(HEAD):
            yield part
        self._problem = opened.problem  # raised once all that came before it is read

    def read(self, size: int, /) -> bytes:
        """Some of the next bytes, none at the end. Raises `READ_ERRORS` where a damaged file gives no more."""
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
        """Back to the beginning, the only place that can be found again."""
        self._rest, self._problem = b"", None
        self._parts = self._recode(self._read())
        return self.handle.seek(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rest = b""


def _from(encoding: str) -> Recode:
    """A text in UTF-16 or UTF-32 as UTF-8, without the mark at its beginning."""

    def recode(parts: Iterable[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        for part in parts:
            yield decoder.decode(part).replace("\ufeff", "").encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")

    return recode


_PACKED: tuple[tuple[re.Pattern[bytes], Callable[[IO[bytes]], Any]], ...] = (
    (re.compile(re.escape(GZIP_MAGIC)), lambda handle: gzip.GzipFile(fileobj=handle, mode="rb")),
    (re.compile(b"BZh"), bz2.BZ2File),
    (re.compile(b"\xfd7zXZ\0"), lzma.LZMAFile),
    (re.compile(rb"\xff\xfe\0\0"), lambda handle: Recoded(handle, _from("utf-32-le"))),
    (re.compile(rb"\0\0\xfe\xff"), lambda handle: Recoded(handle, _from("utf-32-be"))),
    (re.compile(rb"\xff\xfe[^\0]|(?:[\t\r\n -~]\0){4}"), lambda handle: Recoded(handle, _from("utf-16-le"))),
    (re.compile(rb"\xfe\xff\0|(?:\0[\t\r\n -~]){4}"), lambda handle: Recoded(handle, _from("utf-16-be"))),
)
"""How a file begins, and who reads it then."""
_REFUSED = (
    (re.compile(rb"\x28\xb5\x2f\xfd"), "compressed with zstd"),
    (re.compile(rb".{257}ustar", re.DOTALL), "an archive of tar"),
    (re.compile(rb"PK\x03\x04"), "an archive of zip"),
)
"""How a file begins that nobody here unpacks."""
_MOST_LAYERS = 3


class PackedError(OSError):
    """A file in a form that nobody here unpacks."""


READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a damaged file raises."""


def is_packed(start: bytes) -> bool:
    """Whether a file that begins with these bytes, at least 8, was packed, or is in UTF-16 or UTF-32; 300
    tell archives of tar, too."""
    return any(begins.match(start) for begins, _ in (*_REFUSED, *_PACKED))


def is_coded(head: bytes) -> bool:
    """Whether a file that begins with these bytes, at most `HEAD`, can be read only from its beginning."""
    return is_packed(head) or find_recoding(head) is not None


@contextmanager
def open_packed(file: str) -> Iterator[IO[bytes]]:
    """What a file holds that is packed or coded, at most `_MOST_LAYERS` deep. Raises `PackedError` where no program
    here can do that, OSError where the file cannot be opened."""
    with ExitStack() as layers:
        handle: IO[bytes] = layers.enter_context(Path(file).open("rb"))
        for _ in range(_MOST_LAYERS):
            start = _head(handle)
            handle.seek(0)
            if what := next((what for begins, what in _REFUSED if begins.match(start)), ""):
                raise PackedError(f"{what}; unpack it first")
            opener = next((opener for begins, opener in _PACKED if begins.match(start)), None)
            if opener is None and (recode := find_recoding(start)) is not None:
                opener = partial(Recoded, recode=recode)
            if opener is None:
                break
            handle = layers.enter_context(opener(handle))
        yield handle


def _head(handle: IO[bytes]) -> bytes:
    """How a text begins, as far as it can be read."""
    opened, parts, have = UntilBroken(handle), list[bytes](), 0
    while have < HEAD and (part := opened.read(HEAD - have)):
        parts.append(part)
        have += len(part)
    return b"".join(parts)


class UpTo:
    """A file that ends at a size that it had, however far it has grown since."""

    def __init__(self, handle: IO[bytes] | io.RawIOBase, size: int) -> None:
        self.handle = handle
        self.size = size

    def read(self, size: int, /) -> bytes:
        """The next bytes, none at the end."""
        return self.handle.read(min(size, max(0, self.size - self.handle.tell()))) or b""

    def seek(self, offset: int, /) -> int:
        return self.handle.seek(offset)


class UntilBroken:
    """A file that ends where it cannot be read any further, so that what came before is read like any other."""

    def __init__(self, handle: IO[bytes] | UpTo) -> None:
        self.handle = handle
        self.problem: Exception | None = None
        # To fill a size a damaged file is read beyond what it can still give, and that would be lost.
        self._read: Callable[[int], bytes] = getattr(handle, "read1", handle.read)
        self._place = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes, none at the end and where the file is damaged."""
        if self.problem is not None:
            return b""
        try:
            part = self._read(size)
        except READ_ERRORS as problem:
            self.problem = problem
            return self._read_rest()
        self._place += len(part)
        return part

    def _read_rest(self) -> bytes:
        """What stands before the damage: whoever unpacks it gives nothing of a part that is damaged further on."""
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
"""Bytes that are read at once where the file is damaged soon."""


def in_memory(data: bytes) -> UntilBroken:
    return UntilBroken(io.BytesIO(data))
