"""Files that are there whole or not at all."""

from __future__ import annotations

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
