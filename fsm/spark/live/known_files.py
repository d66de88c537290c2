"""Which file is which: a file that was read is known again by its place on the disk, how it begins, and what stands
before the place up to which it was read; not by its name, which rotation changes.

A rotation may be seen half done: a copy that is still written beside its original is not read until one of the two
is final, and takes the place of the original when that goes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from fsm.audit.hygiene.rotation import stem
from fsm.logs.reading.opening import READ_ERRORS, UntilBroken, is_packed, open_packed
from fsm.spark.sources import Source

HEAD = 512
"""Bytes by which the beginning of a file is known, and the end of what was read of it."""
AWAY = "away "
"""Marks the place of a file that is not there, and may come back."""
_TELLING = 64
"""Bytes at the beginning of a file that no other file has by chance."""
_PACKED = (".gz", ".bz2", ".xz", ".zst")


class Offset(NamedTuple):
    """How far a file is read, and what tells it from others."""

    identity: str
    """Its place on the disk; empty where nothing is left of it but what was read."""
    head: int
    """A checksum of how it begins."""
    head_size: int
    size: int
    """How much of it is read, in bytes."""
    learned_size: int
    modified_ms: int
    seen: int
    """How large it was."""
    cluster: str = ""
    was: str = ""
    """Its name in the batch before; empty where it is new."""
    note: str = ""
    """What happened to it since."""
    tail: int = 0
    """A checksum of the last bytes that are read; 0 where it is packed."""
    copy_of: str = ""
    """The place of a file whose copy it seems to be."""

    @property
    def is_away(self) -> bool:
        return self.identity.startswith(AWAY)

    @property
    def waits(self) -> bool:
        """Whether it is a copy of which nothing is read, as it may still be written."""
        return bool(self.copy_of) and not self.size


Offsets = Mapping[str, Offset]
"""By the names of files."""


class Look(NamedTuple):
    """What is seen of a file without reading it."""

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
    """What is seen of the files that are there, by their names."""
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
    """A file's place on the disk."""
    return f"{status.st_dev}:{status.st_ino}"


def tail_of(path: Path, size: int) -> int:
    """A checksum of what stands before a place of a file."""
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
    """The former names of the files that were read before, by the names they have now; and the former names of copies
    that take the place of their originals, and are nothing of their own any more.

    A file of which nothing was read is as new when it holds something.
    """
    kept: dict[str, str] = {}
    places = {one.identity.removeprefix(AWAY): name for name, one in sorted(before.items(), key=_there_last)}
    for name, look in looked.items():
        old = places.get(look.identity)
        if old is not None and (before[old].size or not look.size) and _goes_on(before[old], look):
            kept[name] = old
    left = _find_missing(before, kept)
    by_stem: dict[str, list[str]] = {}
    for old in left:
        by_stem.setdefault(stem(old), []).append(old)
    for name, look in looked.items():
        if name not in kept and by_stem:
            others = [one for one in by_stem.get(stem(name), ()) if one in left]
            old = name if name in left and _goes_on(left[name], look) else None  # it was written anew as a whole
            old = old or next((other for other in others if _is_rotation(other, left[other], name, look)), None)
            if old is not None:
                kept[name] = old
                del left[old]
    replaced: set[str] = set()
    copied = {before[old].copy_of: name for name, old in kept.items() if before[old].copy_of}
    for old, one in left.items() if copied else ():  # what was taken for a second file takes its place
        name = copied.get(one.identity.removeprefix(AWAY), "")
        if name and (_unpacks_to(one, looked[name]) if looked[name].is_packed else _goes_on(one, looked[name])):
            replaced.add(kept[name])
            kept[name] = old
    return kept, replaced


def _there_last(item: tuple[str, Offset]) -> tuple[bool, str]:
    """Orders files so that of those with one place the one that is there is the last."""
    return not item[1].is_away, item[0]


def _find_missing(before: Offsets, kept: Mapping[str, str]) -> dict[str, Offset]:
    """What was read and is not found again."""
    known = {*kept.values()}
    return {name: one for name, one in before.items() if one.identity and one.size and name not in known}


def is_stale(before: Offsets, kept: Mapping[str, str], looked: Mapping[str, Look]) -> bool:
    """Whether files are gone or cut and others are new: those may have been seen before they were complete."""
    there = (one for one in _find_missing(before, kept).values() if not one.is_away)
    return any(there) and any(name not in kept for name in looked)


def _goes_on(one: Offset, look: Look) -> bool:
    """Whether a file holds what was read, whatever follows."""
    if look.size < one.size or zlib.crc32(look.start[: one.head_size]) != one.head:
        return False
    return look.size == one.size or not one.tail or tail_of(look.path, one.size) == one.tail


def _is_rotation(old: str, one: Offset, name: str, look: Look) -> bool:
    """Whether a new file is one of that stem that was read, rotated by copying or by packing it."""
    if old == name or not one.head_size:
        return False
    if look.is_packed:
        return not old.endswith(_PACKED) and _unpacks_to(one, look)
    return one.head_size >= _TELLING and _goes_on(one, look) and (not one.is_away or one.tail != 0)


def _unpacks_to(one: Offset, look: Look) -> bool:
    start = _unpack_head(look.path)
    if len(start) < one.head_size:  # of a kind that is not read here
        return not one.is_away
    return zlib.crc32(start[: one.head_size]) == one.head


def _unpack_head(path: Path) -> bytes:
    """How what is packed begins, as far as it is written."""
    data = b""
    try:
        with open_packed(str(path)) as opened:
            handle = UntilBroken(opened)
            while len(data) < HEAD and (part := handle.read(HEAD - len(data))):
                data += part
    except READ_ERRORS:
        pass
    return data


def is_file(path: Path, offset: Offset) -> bool:
    """Whether a file that was read to an offset has this name, with all that was read: by its place on the disk, or,
    where places change with each mount, by how it begins and what was read last. It may be packed by now."""
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
    if len(start) < _TELLING or zlib.crc32(start) != offset.head:
        return False
    return packed or (status.st_size >= offset.size and offset.tail in (0, tail_of(path, offset.size)))


# -- copies that are written --------------------------------------------------------------------------------


def copies(looked: Mapping[str, Look], kept: Mapping[str, str]) -> dict[str, str]:
    """The new files that say what another one says that is still there, each with the place of that one.

    It may be a rotation that is not over: the original is then emptied or removed.
    """
    alike: dict[tuple[str, bytes], list[str]] = {}
    for name, look in looked.items():
        if len(look.start) >= _TELLING and not look.is_packed:
            alike.setdefault((stem(name), look.start[:_TELLING]), []).append(name)
    found: dict[str, str] = {}
    for name, look in looked.items():
        if name not in kept:
            start = _unpack_head(look.path) if look.is_packed else look.start
            others = alike.get((stem(name), start[:_TELLING]), ())
            if look.is_packed and not start:  # nothing is written yet that could be unpacked
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
