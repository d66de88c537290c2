"""The files into which a topic is copied, one per key and partition, and the progress of the copy.

Each partition has a mark, a small file with the next offset and the sizes of the partition's files, written after them.
After a kill in between, the same records are copied to the same positions again. Files are append-only, so that they
may be read while they are written.

A file is closed when it is large or idle, and removed when all of it was read. Later records of its key go to another
file, named by the offset of its first record.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fsm.logs.reading.opening import is_packed
from fsm.logs.reading.segments import begins_segment
from fsm.protocol.record_batches import LogRecord
from fsm.spark.files import write

CLOSED_BYTES = 64 << 20
"""Size at which a file is closed."""
_KEY = re.compile(r"[^\w.\-]+", re.ASCII)


class Mark(NamedTuple):
    """The progress of a partition's copy."""

    topic_id: str
    """Another id means that the topic was recreated."""
    next: int
    """The next offset to copy."""
    sizes: Mapping[str, int]
    """Sizes of the open files, by name."""
    names: Mapping[str, str] = {}
    """The current file of a key, by the name of the key's first file, if it is another one."""
    closed: Sequence[str] = ()
    """Files that are complete and to be removed after they were read."""
    numbered: bool = False
    """Whether files were closed; new files are then named by offsets."""

    def close(self, names: Iterable[str]) -> Mark:
        """The mark with these files closed."""
        gone = sorted(names)
        if not gone:
            return self
        return self._replace(
            sizes={name: size for name, size in self.sizes.items() if name not in gone},
            names={first: name for first, name in self.names.items() if name not in gone},
            closed=[*self.closed, *gone],
            numbered=True,
        )


class TopicFiles:
    """The files of one topic in a folder, and their marks in another."""

    def __init__(
        self, folder: Path, marks: Path, idle_s: float = 86_400.0, clock: Callable[[], float] = time.time
    ) -> None:
        """Files are closed after `idle_s` without records. Raises OSError if the folder cannot be created."""
        self.folder = folder
        self.marks = marks
        self.idle_s = idle_s
        self.clock = clock
        folder.mkdir(parents=True, exist_ok=True)

    def mark(self, partition: int) -> Mark | None:
        """The stored mark of a partition, or None."""
        try:
            return Mark(**json.loads(self._place(partition).read_bytes()))
        except FileNotFoundError:
            return None

    def keep(self, partition: int, mark: Mark) -> None:
        """Stores the mark of a partition."""
        write(self._place(partition), json.dumps(mark._asdict(), sort_keys=True).encode())

    def _place(self, partition: int) -> Path:
        return self.marks / f"{partition}.json"

    def add(self, partition: int, mark: Mark, records: Iterable[LogRecord], end: int) -> None:
        """Appends the records from a mark up to offset `end`, one or more lines each."""
        sizes, names = dict(mark.sizes), dict(mark.names)
        lines: dict[str, list[bytes]] = {}
        for one in records:
            value, first = one.value or b"", _name(partition, one.key)
            name = names.get(first, first)
            if name not in sizes and name not in lines and mark.numbered:
                name = names[first] = f"{first.removesuffix('.log')}.{one.offset:020}.log"
            lines.setdefault(name, []).append(value if value.endswith(b"\n") else value + b"\n")
        full = []
        for name, own in lines.items():
            if not sizes.get(name) and (is_packed(own[0]) or begins_segment(own[0])):
                own.insert(0, b"\n")  # otherwise the file would be detected as compressed or as a log segment
            data = b"".join(own)
            path = self.folder / name
            path.touch()
            with path.open("r+b") as out:
                out.seek(sizes.get(name, 0))
                out.write(data)
            sizes[name] = sizes.get(name, 0) + len(data)
            # A larger file was written before a kill; its records are being copied again.
            if sizes[name] >= CLOSED_BYTES and path.stat().st_size == sizes[name]:
                full.append(name)
        self.keep(partition, mark._replace(next=end, sizes=sizes, names=names).close(full))

    def remove(self, read: Mapping[str, int]) -> None:
        """Closes idle files, and removes closed files that were read; `read` maps paths to the bytes read."""
        before_s = self.clock() - self.idle_s
        for path in sorted(self.marks.glob("[!.]*.json")):
            known = Mark(**json.loads(path.read_bytes()))
            mark = known.close(name for name in known.sizes if self._is_idle(name, known.sizes[name], before_s))
            if mark != known:
                self.keep(int(path.stem), mark)
            if done := [name for name in mark.closed if self._is_read(name, read)]:
                for name in done:
                    (self.folder / name).unlink(missing_ok=True)
                self.keep(int(path.stem), mark._replace(closed=[name for name in mark.closed if name not in done]))

    def _is_idle(self, name: str, size: int, before_s: float) -> bool:
        status = (self.folder / name).stat()
        return status.st_mtime < before_s and status.st_size == size

    def _is_read(self, name: str, read: Mapping[str, int]) -> bool:
        path = self.folder / name
        return not path.exists() or path.stat().st_size == read.get(str(path))


def _name(partition: int, key: bytes | None) -> str:
    """The name of a key's first file."""
    if not key:
        return f"{partition}.log"
    shown = _KEY.sub("_", key.decode("utf-8", "replace"))[:80]
    suffix = "" if shown.encode() == key else f"-{hashlib.sha256(key).hexdigest()[:8]}"
    return f"{partition}-{shown}{suffix}.log"
