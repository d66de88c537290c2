"""Atomic writes of files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def write(path: Path, data: bytes) -> None:
    """Writes a temporary file and renames it; several tasks may write the same file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


_TEMPORARY = re.compile(r"\..+(?:\.[0-9a-f]{32}|-[a-z0-9_]{8})", re.DOTALL)
"""Names of temporary files, of this module and of `fsm.render.report.folder`."""


def sweep(folders: Iterable[Path], before_s: float) -> None:
    """Removes temporary files of killed writers, last changed before a time in seconds since the epoch."""
    for folder in folders:
        for path in folder.glob(".*"):
            with suppress(OSError):
                if _TEMPORARY.fullmatch(path.name) and path.stat().st_mtime < before_s:
                    path.unlink()
