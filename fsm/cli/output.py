"""Writes files atomically."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fsm.errors import InputError


def check_folder(folder: Path, option: str = "-o") -> None:
    """Raises `InputError` before the work if the folder, or the one to create it in, cannot be written to."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        raise InputError("is not a folder", str(there), f"give {option} a folder that can be written to")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError("cannot be written to", str(there), f"give {option} a folder that can be written to")


def write(path: Path, content: bytes) -> None:
    """Writes a temporary file and renames it. Raises `InputError` if the folder cannot be created or written to."""
    write_pieces(path, [content], "give -o a folder that can be written to")


def write_pieces(path: Path, pieces: Iterable[bytes], remedy: str = "give a file that can be written") -> None:
    """Like `write`, for content in pieces."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as out:
                out.writelines(pieces)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", str(path), remedy) from None
