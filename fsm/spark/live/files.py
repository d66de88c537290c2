"""Files that are there whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def write(path: Path, data: bytes) -> None:
    """Writes beside the place and renames: several tasks may write one file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


_TEMPORARY = re.compile(r"\..+(?:\.[0-9a-f]{32}|-[a-z0-9_]{8})", re.DOTALL)
"""What is written before it is renamed: here, and by `fsm.render.report.folder`."""


def sweep(folders: Iterable[Path], before_s: float) -> None:
    """Removes what was written before a time, in seconds since the epoch, and never renamed: its writer was killed."""
    for folder in folders:
        for path in folder.glob(".*"):
            with suppress(OSError):
                if _TEMPORARY.fullmatch(path.name) and path.stat().st_mtime < before_s:
                    path.unlink()
