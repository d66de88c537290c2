"""Logs on the disk: each is a file that grows, or is replaced atomically. Synced data survive a kill at any instant.

`metadata.log` has topics and settings; `__consumer_offsets-N.log` the batches of a partition, as Kafka writes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import BinaryIO

from fsm.errors import InputError
from fsm.serve.effects import Append, Replace
from fsm.serve.partition_logs import GroupLog
from fsm.serve.topics import OFFSETS_TOPIC

LOCK = "lock"


class Store:
    """The files of one data directory. A failed operation raises `InputError`: no answer may then be sent."""

    def __init__(self, folder: Path) -> None:
        """Creates or opens the folder. Raises `InputError` if that fails, or another process uses it."""
        self.folder = folder
        with self._convert_errors("cannot be used", "give another --data"):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("w")
        try:
            flock(self._lock.fileno(), LOCK_EX | LOCK_NB)
        except OSError:
            self._lock.close()
            raise InputError("is in use by another broker", str(folder), "give another --data") from None
        self.cuts: dict[str, int] = {}
        """The number of bytes of torn writes cut off from the end of each log."""
        self._files: dict[str, BinaryIO] = {}
        self._unsynced: set[str] = set()

    def read(self) -> dict[str, bytes]:
        """The content of each log by name. Unfinished writes are removed, at the end of a log as well.

        Raises `InputError` for a log that is damaged elsewhere.
        """
        with self._convert_errors("cannot be read", "give another --data"):
            for unfinished in self.folder.glob("*.new"):
                unfinished.unlink()
            found = {path.stem: path.read_bytes() for path in sorted(self.folder.glob("*.log"))}
            for name, data in found.items():
                if not name.startswith(OFFSETS_TOPIC):
                    continue
                try:
                    whole = GroupLog.of(data)[1]
                except InputError as problem:
                    remedy = "put a copy that is whole there, or give another --data"
                    raise InputError(problem.what, str(self._path(name)), remedy) from None
                if whole < len(data):
                    with self._path(name).open("r+b") as file:
                        file.truncate(whole)
                        os.fsync(file.fileno())
                    self.cuts[str(self._path(name))] = len(data) - whole
                    found[name] = data[:whole]
        return found

    def write(self, effect: Append | Replace) -> None:
        """Appends to a log, or replaces it. It is durable after the next `sync`."""
        with self._convert_errors("cannot be written", "make room, and start again"):
            if isinstance(effect, Replace):
                self._replace(effect)
                return
            file = self._files.get(effect.log)
            if file is None:
                path = self._path(effect.log)
                is_new = not path.exists()
                file = self._files[effect.log] = path.open("ab")
                if is_new:
                    self._sync_folder()
            file.write(effect.data)
            self._unsynced.add(effect.log)

    def sync(self) -> None:
        """Makes all writes durable."""
        with self._convert_errors("cannot be written", "make room, and start again"):
            for name in sorted(self._unsynced):
                self._files[name].flush()
                os.fdatasync(self._files[name].fileno())
            self._unsynced.clear()

    def _replace(self, effect: Replace) -> None:
        """Replaces a log by a new file; earlier appends need not be written any more."""
        path = self._path(effect.log)
        unfinished = path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(effect.data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        self._sync_folder()
        open_file = self._files.pop(effect.log, None)
        self._unsynced.discard(effect.log)
        if open_file is not None:
            open_file.close()

    def _path(self, log: str) -> Path:
        return self.folder / f"{log}.log"

    @contextmanager
    def _convert_errors(self, what: str, remedy: str) -> Iterator[None]:
        """Converts errors of the system to `InputError`."""
        try:
            yield
        except OSError as problem:
            raise InputError(f"{what}: {problem.strerror}", problem.filename or str(self.folder), remedy) from None

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Closes every file. Unsynced records may be lost: they were not acknowledged."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()
        self._lock.close()
