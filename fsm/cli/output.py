"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from fsm.errors import InputError


def write(path: Path, content: bytes) -> None:
    """Writes beside the file and renames. Raises `InputError` where the folder cannot be made or written to."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        remedy = "give -o a folder that can be written to"
        raise InputError(f"cannot be written: {problem.strerror}", str(path), remedy) from None
