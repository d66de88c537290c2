"""Files opened for reading, whatever packed them: gzip, bzip2 and xz, also several times over."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

GZIP_MAGIC = b"\x1f\x8b"
_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (GZIP_MAGIC, lambda handle: gzip.GzipFile(fileobj=handle, mode="rb")),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
)
_ZSTD = b"\x28\xb5\x2f\xfd"
_MOST_LAYERS = 3

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a damaged file raises."""


def is_packed(start: bytes) -> bool:
    """Whether a file that begins with these bytes is compressed."""
    return start.startswith((*(magic for magic, _ in _PACKED), _ZSTD))


@contextmanager
def open_packed(file: str) -> Iterator[IO[bytes]]:
    """What a compressed file holds, at most `_MOST_LAYERS` deep. Raises OSError where no program here can unpack it."""
    with ExitStack() as layers:
        handle: IO[bytes] = layers.enter_context(Path(file).open("rb"))
        for _ in range(_MOST_LAYERS):
            start = handle.read(8)
            handle.seek(0)
            if start.startswith(_ZSTD):
                raise OSError("compressed with zstd: unpack it first")
            opener = next((opener for magic, opener in _PACKED if start.startswith(magic)), None)
            if opener is None:
                break
            handle = layers.enter_context(opener(handle))
        yield handle


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

    def read(self, size: int, /) -> bytes:
        """The next bytes, none at the end and where the file is damaged."""
        try:
            # To fill `size` a damaged file is read beyond what it can still give, and that would be lost.
            part: bytes = getattr(self.handle, "read1", self.handle.read)(size)
        except READ_ERRORS as problem:
            self.problem = problem
            return b""
        return part

    def seek(self, offset: int, /) -> int:
        return self.handle.seek(offset)


def in_memory(data: bytes) -> UntilBroken:
    return UntilBroken(io.BytesIO(data))
