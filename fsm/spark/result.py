"""The folder of a result: written beside its place under a hidden name, and renamed when it is complete."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fsm.errors import InputError
from fsm.spark.files import lock

MARK = "audit.json"
"""A folder with this file is a result of an audit and may be replaced."""
STDIN_LOG = "stdin.log"
UNFINISHED = ".unfinished-audit"
"""In the names of what an audit has only while it runs. A killed one leaves it, with copies of logs."""
_OLD = "-old"


@contextmanager
def create_workspace(out: Path) -> Iterator[Path]:
    """A new folder beside `out`, which `publish` renames to `out`; else it is removed when the block ends.

    Raises `InputError` if `out` is not the result of an audit, cannot be written, or is being written by another audit.
    """
    if out.exists() and not out.is_dir():
        raise InputError("is a file", str(out), "give a folder for the result")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).exists():
        raise InputError("the folder holds files that are not of an audit", str(out), "give a new or empty folder")
    with _lock(out):
        _remove_leftovers(out)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", suffix=UNFINISHED, dir=out.parent))
        try:
            yield work
        finally:
            # A Spark worker that is about to end may still write to it, but not after the rename.
            gone = work.with_name(f"{work.name}-gone")
            with suppress(FileNotFoundError):
                work.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def _remove_leftovers(out: Path) -> None:
    """Removes what killed audits left of this result."""
    for path in sorted(out.parent.glob(f"{glob.escape(f'.{out.name}-')}{'?' * 8}{UNFINISHED}*")):
        if out.exists() or not path.name.endswith(_OLD):  # an audit that was killed between two renames left no other
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _lock(out: Path) -> Iterator[None]:
    """Prevents other audits from writing the same result. The lock is released when the process ends."""
    path = out.with_name(f".{out.name}{UNFINISHED}.lock")
    with lock(path, out, "another audit is writing it", "wait for its end or give another folder") as held:
        if not path.exists() or os.fstat(held.fileno()).st_ino != path.stat().st_ino:
            raise InputError("another audit wrote it just now", str(out), "start again")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def publish(work: Path, out: Path) -> None:
    """Renames the finished result to `out`, and removes an older one."""
    work.chmod(0o755)
    if out.exists():
        old = work.with_name(work.name + _OLD)
        out.rename(old)
        work.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        work.rename(out)
