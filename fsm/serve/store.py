"""Logs on the disk: each a file that grows, or is replaced whole. What was synced survives a kill at any instant.

`metadata.log` has topics and settings; `__consumer_offsets-N.log` the batches of a partition, as Kafka writes them.
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import BinaryIO

from fsm.errors import InputError
from fsm.serve.effects import Append, Replace
from fsm.serve.group_log import GroupLog
from fsm.serve.topics import OFFSETS_TOPIC

LOCK = "lock"


class Store:
    """The files of one data directory."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder, or opens it. Raises `InputError` where it cannot be used, or another process uses it."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("w")
            flock(self._lock.fileno(), LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise InputError("another broker uses it", str(folder), "give another --data") from None
        except OSError as problem:
            raise InputError(f"cannot be used: {problem.strerror}", str(folder), "give another --data") from None
        self._files: dict[str, BinaryIO] = {}
        self._unsynced: set[str] = set()

    def read(self) -> dict[str, bytes]:
        """What each log has, by name. What was never finished is removed, at the end of a log too."""
        for unfinished in self.folder.glob("*.new"):
            unfinished.unlink()
        found = {path.stem: path.read_bytes() for path in sorted(self.folder.glob("*.log"))}
        for name, data in found.items():
            if name.startswith(OFFSETS_TOPIC) and (whole := GroupLog.of(data)[1]) < len(data):
                self._cut(name, whole)
                found[name] = data[:whole]
        return found

    def _cut(self, name: str, size: int) -> None:
        """The log ends here: what comes after was not written to its end."""
        with (self.folder / f"{name}.log").open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def write(self, effect: Append | Replace) -> None:
        """Adds to a log, or replaces it. It is there to stay after the next `sync`."""
        if isinstance(effect, Replace):
            self._replace(effect)
            return
        file = self._files.get(effect.log)
        if file is None:
            path = self.folder / f"{effect.log}.log"
            is_new = not path.exists()
            file = self._files[effect.log] = path.open("ab", buffering=0)
            if is_new:
                self._sync_folder()
        file.write(effect.data)
        self._unsynced.add(effect.log)

    def sync(self) -> None:
        """Everything that was written is on the disk."""
        for name in sorted(self._unsynced):
            os.fdatasync(self._files[name].fileno())
        self._unsynced.clear()

    def _replace(self, effect: Replace) -> None:
        open_file = self._files.pop(effect.log, None)
        if open_file is not None:
            open_file.close()
        self._unsynced.discard(effect.log)
        path = self.folder / f"{effect.log}.log"
        unfinished = path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(effect.data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Closes every file."""
        self.sync()
        for file in self._files.values():
            file.close()
        self._lock.close()
