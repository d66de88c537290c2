"""Atomic writes of files, and a lock on what is written."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from fsm.errors import InputError, refuse_os_errors


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file to write to, which gets this path when the block ends; several tasks may write the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


@contextmanager
def lock(path: Path, out: Path, held: str, remedy: str) -> Iterator[BinaryIO]:
    """The lock file of `out`, locked until the block or the process ends.

    Raises `InputError` if it cannot be written, or if another process holds it.
    """
    with refuse_os_errors("cannot be written", out, "give another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(held, str(out), remedy) from None
        yield file


_TEMPORARY = re.compile(r"\..+(?:\.[0-9a-f]{32}|-[a-z0-9_]{8})", re.DOTALL)
"""Names of temporary files, of this module and of `fsm.render.report.folder`."""


def sweep(folders: Iterable[Path], before_s: float) -> None:
    """Removes temporary files of killed writers, last changed before a time in seconds since the epoch."""
    for folder in folders:
        for path in folder.glob(".*"):
            with suppress(OSError):
                if _TEMPORARY.fullmatch(path.name) and path.stat().st_mtime < before_s:
                    path.unlink()
