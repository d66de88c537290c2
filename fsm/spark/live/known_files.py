"""The identity of followed files: a file is recognised by its inode, its first bytes, and the bytes before the offset
up to which it was read; not by its name, which rotation changes.

A rotation may be incomplete: a copy that is still being written beside its original is not read until one of the two is
final, and replaces the original when that is removed.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from fsm.audit.hygiene.rotation import stem
from fsm.audit.rows import group_by
from fsm.logs.reading.opening import READ_ERRORS, DamageTolerant, is_packed, open_packed
from fsm.spark.sources import Source

HEAD = 512
"""Bytes that identify the beginning of a file, and the end of its read part."""
AWAY = "away "
"""Prefix of the identity of a missing file, which may return."""
_DISTINCT = 64
"""Shortest beginning of a file that no other file has by chance."""
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")


class Offset(NamedTuple):
    """How far a file is read, and its identity."""

    identity: str
    """Device and inode; empty if the file does not exist any more."""
    head: int
    """Checksum of its first bytes."""
    head_size: int
    size: int
    """Bytes that are read."""
    learned_size: int
    modified_ms: int
    seen: int
    """Its size on the disk."""
    cluster: str = ""
    was: str = ""
    """Its name in the previous batch; empty if it is new."""
    note: str = ""
    """An event of the file since then."""
    tail: int = 0
    """Checksum of the last bytes that are read; 0 if it is packed."""
    copy_of: str = ""
    """Identity of the file whose copy it seems to be."""

    @property
    def is_away(self) -> bool:
        return self.identity.startswith(AWAY)

    @property
    def waits(self) -> bool:
        """Whether it is a copy that is not read yet, because it may still be written."""
        return bool(self.copy_of) and not self.size


Offsets = Mapping[str, Offset]
"""By file name."""


class Look(NamedTuple):
    """The status and first bytes of a file."""

    source: Source
    identity: str
    size: int
    modified_ms: int
    start: bytes

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def is_packed(self) -> bool:
        return is_packed(self.start)


def look_at(found: Iterable[Source]) -> dict[str, Look]:
    return {source.name: look for source in found if (look := _look(source)) is not None}


def _look(source: Source) -> Look | None:
    try:
        with source.path.open("rb") as handle:
            start = handle.read(HEAD)
            status = os.fstat(handle.fileno())
    except OSError:
        return None
    return Look(source, identity_of(status), status.st_size, status.st_mtime_ns // 1_000_000, start)


def identity_of(status: os.stat_result) -> str:
    """Device and inode of a file."""
    return f"{status.st_dev}:{status.st_ino}"


def tail_of(path: Path, size: int) -> int:
    """Checksum of the bytes before an offset of a file."""
    return zlib.crc32(_window(path, size))


def _window(path: Path, size: int) -> bytes:
    start = max(0, size - HEAD)
    try:
        with path.open("rb") as handle:
            handle.seek(start)
            return handle.read(size - start)
    except OSError:
        return b""


# -- the same file ------------------------------------------------------------------------------------------


def recognise(before: Offsets, looked: Mapping[str, Look]) -> tuple[dict[str, str], set[str]]:
    """(former names by current names of the files that were read before, former names of copies that replace their
    originals).

    A file of which nothing was read counts as new when it has content.
    """
    kept: dict[str, str] = {}
    there_last = sorted(before, key=lambda name: (not before[name].is_away, name))
    places = {before[name].identity.removeprefix(AWAY): name for name in there_last}
    for name, look in looked.items():
        old = places.get(look.identity)
        if old is not None and (before[old].size or not look.size) and _continues(before[old], look):
            kept[name] = old
    left = _find_missing(before, kept)
    by_stem = group_by(left, stem)
    for name, look in looked.items():
        if name not in kept and by_stem:
            others = [one for one in by_stem.get(stem(name), ()) if one in left]
            old = name if name in left and _continues(left[name], look) else None  # it was rewritten as a whole
            old = old or next((other for other in others if _is_rotation(other, left[other], name, look)), None)
            if old is not None:
                kept[name] = old
                del left[old]
    replaced: set[str] = set()
    copied = {before[old].copy_of: name for name, old in kept.items() if before[old].copy_of}
    for old, one in left.items() if copied else ():  # a copy replaces its original
        name = copied.get(one.identity.removeprefix(AWAY), "")
        if name and (_unpacks_to(one, looked[name]) if looked[name].is_packed else _continues(one, looked[name])):
            replaced.add(kept[name])
            kept[name] = old
    return kept, replaced


def _find_missing(before: Offsets, kept: Mapping[str, str]) -> dict[str, Offset]:
    """Files that were read and are not recognised again."""
    known = {*kept.values()}
    return {name: one for name, one in before.items() if one.identity and one.size and name not in known}


def is_stale(before: Offsets, kept: Mapping[str, str], looked: Mapping[str, Look]) -> bool:
    """Whether files are gone or cut and others are new, which may have been looked at before they were complete."""
    there = (one for one in _find_missing(before, kept).values() if not one.is_away)
    return any(there) and any(name not in kept for name in looked)


def _continues(one: Offset, look: Look) -> bool:
    """Whether a file begins with the part that was read."""
    if look.size < one.size or zlib.crc32(look.start[: one.head_size]) != one.head:
        return False
    return look.size == one.size or not one.tail or tail_of(look.path, one.size) == one.tail


def _is_rotation(old: str, one: Offset, name: str, look: Look) -> bool:
    """Whether a new file is a copied or packed rotation of a file with that stem that was read."""
    if old == name or not one.head_size:
        return False
    if look.is_packed:
        return not old.endswith(_PACKED) and _unpacks_to(one, look)
    return one.head_size >= _DISTINCT and _continues(one, look) and (not one.is_away or one.tail != 0)


def _unpacks_to(one: Offset, look: Look) -> bool:
    start = _unpack_head(look.path)
    if len(start) < one.head_size:  # a compression that cannot be read
        return not one.is_away
    return zlib.crc32(start[: one.head_size]) == one.head


def _unpack_head(path: Path) -> bytes:
    """The first unpacked bytes of a packed file, as far as it is written."""
    data = b""
    try:
        with open_packed(str(path)) as opened:
            handle = DamageTolerant(opened)
            while len(data) < HEAD and (part := handle.read(HEAD - len(data))):
                data += part
    except READ_ERRORS:
        pass
    return data


def is_file(path: Path, offset: Offset) -> bool:
    """Whether this path is the file that was read to an offset, with all its read bytes: by inode, or, if inodes change
    with each mount, by its first and last read bytes. It may be packed by now."""
    try:
        status = path.stat()
        if identity_of(status) == offset.identity:
            return status.st_size >= offset.size
        with path.open("rb") as handle:
            start = handle.read(HEAD)
    except OSError:
        return False
    packed = bool(offset.tail) and is_packed(start)
    start = (_unpack_head(path) if packed else start)[: offset.head_size]
    if len(start) < _DISTINCT or zlib.crc32(start) != offset.head:
        return False
    return packed or (status.st_size >= offset.size and offset.tail in (0, tail_of(path, offset.size)))


# -- incomplete copies --------------------------------------------------------------------------------------


def find_copies(looked: Mapping[str, Look], kept: Mapping[str, str]) -> dict[str, str]:
    """The new files with the content of another existing file, each with the identity of that file.

    It may be an incomplete rotation, after which the original is emptied or removed.
    """
    plain = (name for name, look in looked.items() if len(look.start) >= _DISTINCT and not look.is_packed)
    alike = group_by(plain, lambda name: (stem(name), looked[name].start[:_DISTINCT]))
    found: dict[str, str] = {}
    for name, look in looked.items():
        if name not in kept:
            start = _unpack_head(look.path) if look.is_packed else look.start
            others = alike.get((stem(name), start[:_DISTINCT]), ())
            if look.is_packed and not start:  # too little is written to be unpacked
                others = [other for end in _PACKED if (other := name.removesuffix(end)) != name and other in looked]
            for other in others:
                if other != name and other not in found and _is_copy(look, start, looked[other]):
                    found[name] = looked[other].identity
                    break
    return found


def _is_copy(look: Look, start: bytes, original: Look) -> bool:
    if not original.start.startswith(start):
        return False
    return look.is_packed or (
        look.size <= original.size and _window(look.path, look.size) == _window(original.path, look.size)
    )
