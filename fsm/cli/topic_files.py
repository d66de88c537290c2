"""The files into which a topic is copied: one for each key of each partition, and how far that is done.

A partition's files and the offset from which it is copied next are told together by one small file, its mark, which is
written after them. Who is killed in between copies the same records to the same places again. What a file held once it
holds always, so that it may be read while it is written.

A file is closed when it is large, or when nothing came for its key for long, and removed when all of it was read. Its
key goes on in another file, which is named by the offset of its first record.
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
from fsm.spark.live.files import write

CLOSED_BYTES = 64 << 20
"""A file of so much is closed."""
_KEY = re.compile(r"[^\w.\-]+", re.ASCII)


class Mark(NamedTuple):
    """How far a partition is copied."""

    topic_id: str
    """Another one tells that the topic was deleted and made again."""
    next: int
    """The offset from which it is copied on."""
    sizes: Mapping[str, int]
    """How large the files are to which it is copied."""
    names: Mapping[str, str] = {}
    """Those that are not the first of their keys, by the names of the first."""
    closed: Sequence[str] = ()
    """Files to which nothing is written any more, and that are to be removed."""
    numbered: bool = False
    """Whether files were closed: those that are begun from then on are named by offsets."""

    def close(self, names: Iterable[str]) -> Mark:
        """With these files closed."""
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
        """A file is closed when nothing came for it for `idle_s`. Raises OSError where the folder cannot be made."""
        self.folder = folder
        self.marks = marks
        self.idle_s = idle_s
        self.clock = clock
        folder.mkdir(parents=True, exist_ok=True)

    def mark(self, partition: int) -> Mark | None:
        """How far a partition is copied; None where nothing of it is."""
        try:
            return Mark(**json.loads(self._place(partition).read_bytes()))
        except FileNotFoundError:
            return None

    def keep(self, partition: int, mark: Mark) -> None:
        """Notes how far it is copied."""
        write(self._place(partition), json.dumps(mark._asdict(), sort_keys=True).encode())

    def _place(self, partition: int) -> Path:
        return self.marks / f"{partition}.json"

    def add(self, partition: int, mark: Mark, records: Iterable[LogRecord], end: int) -> None:
        """Writes records that follow a mark, up to the offset `end`, a line or more each."""
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
                own.insert(0, b"\n")  # a file that begins so would be taken for something else than lines
            data = b"".join(own)
            path = self.folder / name
            path.touch()
            with path.open("r+b") as out:
                out.seek(sizes.get(name, 0))
                out.write(data)
            sizes[name] = sizes.get(name, 0) + len(data)
            # What holds more by now was written to before a kill, and is written to until it holds no more.
            if sizes[name] >= CLOSED_BYTES and path.stat().st_size == sizes[name]:
                full.append(name)
        self.keep(partition, mark._replace(next=end, sizes=sizes, names=names).close(full))

    def remove(self, read: Mapping[str, int]) -> None:
        """Closes the files to which nothing was written for long, and removes those that are closed and were read;
        `read` says how far, by their paths."""
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
    """The name of the first file that holds the records of a key."""
    if not key:
        return f"{partition}.log"
    shown = _KEY.sub("_", key.decode("utf-8", "replace"))[:80]
    suffix = "" if shown.encode() == key else f"-{hashlib.sha256(key).hexdigest()[:8]}"
    return f"{partition}-{shown}{suffix}.log"
