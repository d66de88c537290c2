"""How far each followed file is read: the offsets of a batch, as plain values that JSON can hold.

A file is known by its place on the disk and by how it begins, not by its name alone: it may grow, be rotated, packed,
cut to nothing, replaced, and go. What was read of it stays what it was.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fsm.audit.hygiene.rotation import missing, stem
from fsm.audit.live.growth import Growth, find_last_end
from fsm.logs.opening import is_packed
from fsm.spark.sources import Source

HEAD = 512
"""Bytes by which the beginning of a file is known."""
LEARNED_STANDING = 4 << 20
"""Layouts are learned anew when a file has doubled, and up to this size also when it stands still."""


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


Offsets = Mapping[str, Offset]
"""By the names of files."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be read of one file in a batch."""

    growth: Growth
    offset: Offset
    before: str
    """The key under which what was known of it is kept; empty for a file that is new."""
    after: str
    weight: int


def to_json(offsets: Offsets) -> dict[str, list[Any]]:
    """Offsets as Spark keeps them."""
    return {name: list(one) for name, one in offsets.items()}


def from_json(told: Mapping[str, Sequence[Any]]) -> dict[str, Offset]:
    return {name: Offset(*one) for name, one in told.items()}


# -- how far the next batch reads ---------------------------------------------------------------------------


def advance(before: Offsets, found: Iterable[Source]) -> dict[str, Offset]:
    """How far to read, given how far was read and what there is now. The same offsets where there is nothing new."""
    looked = {source.name: look for source in found if (look := _look(source)) is not None}
    kept = _recognise(before, looked)
    after: dict[str, Offset] = {}
    for name, look in looked.items():
        old = kept.get(name)
        after[name] = _begin(look) if old is None else _go_on(look, name, old, before[old])
    for name, one in before.items():
        if name in kept.values():
            continue
        # Nothing of it is there any more, but what was read stays: under its name, unless another file has it now.
        if name not in after:
            gone = one.identity and not one.identity.startswith(_AWAY)
            note = f"{name} is gone while it was followed: what it held up to byte {one.size} was read" if gone else ""
            identity = f"{_AWAY}{one.identity}" if gone else one.identity
            after[name] = one._replace(identity=identity, was=name, note=note)
            continue
        free = _free_name(name, {*after, *before})
        note = f"{name} was replaced or cut while it was followed: what it held before is told as {free}"
        after[free] = one._replace(identity="", was=name, note=note)
    return dict(sorted(after.items()))


_AWAY = "away "
"""Marks the place of a file that is not there, and may come back."""


class _Look(NamedTuple):
    """What is seen of a file without reading it."""

    source: Source
    identity: str
    size: int
    modified_ms: int
    start: bytes


def _look(source: Source) -> _Look | None:
    try:
        with source.path.open("rb") as handle:
            start = handle.read(HEAD)
            status = source.path.stat()
    except OSError:
        return None
    return _Look(source, identity_of(status), status.st_size, status.st_mtime_ns // 1_000_000, start)


def identity_of(status: os.stat_result) -> str:
    """A file's place on the disk."""
    return f"{status.st_dev}:{status.st_ino}"


def _recognise(before: Offsets, looked: Mapping[str, _Look]) -> dict[str, str]:
    """The former names of the files that were read before, by the names they have now."""
    kept: dict[str, str] = {}
    places = {one.identity.removeprefix(_AWAY): name for name, one in before.items() if one.identity}
    for name, look in looked.items():
        old = places.get(look.identity)
        if old is not None and _begins_alike(before[old], look):
            kept[name] = old
    left = {name: one for name, one in before.items() if one.identity and name not in kept.values()}
    for name, look in looked.items():
        if name not in kept:
            old = name if name in left and _begins_alike(left[name], look) else None  # it was written anew as a whole
            old = old or next((other for other, one in left.items() if _is_rotation(other, one, name, look)), None)
            if old is not None:
                kept[name] = old
                del left[old]
    return kept


def _is_rotation(old: str, one: Offset, name: str, look: _Look) -> bool:
    """Whether a new file is one that was read, rotated by copying or by packing it."""
    if old == name or stem(old) != stem(name) or not one.head_size or one.identity.startswith(_AWAY):
        return False
    if is_packed(look.start):
        return not old.endswith(_PACKED)
    return one.head_size >= _TELLING and _begins_alike(one, look)


_PACKED = (".gz", ".bz2", ".xz", ".zst")
_TELLING = 64
"""Bytes at the beginning of a file that no other file has by chance."""


def is_file(path: Path, offset: Offset) -> bool:
    """Whether a file that was read to an offset has this name, with all that was read: by its place on the disk, or,
    where places change with each mount, by how it begins."""
    try:
        status = path.stat()
        if status.st_size < offset.size:
            return False
        if identity_of(status) == offset.identity:
            return True
        with path.open("rb") as handle:
            return offset.head_size >= _TELLING and zlib.crc32(handle.read(offset.head_size)) == offset.head
    except OSError:
        return False


def _begins_alike(one: Offset, look: _Look) -> bool:
    return look.size >= one.size and zlib.crc32(look.start[: one.head_size]) == one.head


def _begin(look: _Look) -> Offset:
    size = _readable(look, 0, 0)
    head = look.start[: min(HEAD, size)]
    return Offset(
        look.identity, zlib.crc32(head), len(head), size, size, look.modified_ms, look.size, look.source.cluster
    )


def _go_on(look: _Look, name: str, old: str, one: Offset) -> Offset:
    packed = old != name and is_packed(look.start)
    size = look.size if packed else _readable(look, one.size, one.seen)
    head = look.start if packed else look.start[: max(one.head_size, min(HEAD, size))]
    same = (size, look.identity, old) == (one.size, one.identity, name)
    stands = look.size == one.seen and size <= LEARNED_STANDING
    learns = size >= 2 * one.learned_size or (stands and size > one.learned_size)
    return Offset(
        look.identity,
        zlib.crc32(head),
        len(head),
        size,
        size if learns else one.learned_size,
        one.modified_ms if same or not learns else look.modified_ms,
        look.size,
        one.cluster,
        old,
    )


def _readable(look: _Look, read: int, seen: int) -> int:
    """How far a file may be read: to the end of its last whole line, or to its end where it stands still."""
    if look.size <= read or look.size == seen or is_packed(look.start):
        return max(read, look.size)
    return find_last_end(str(look.source.path), read, look.size)


def _free_name(name: str, taken: set[str]) -> str:
    free = f"{name}.0"
    while free in taken:
        free += "0"
    return free


# -- what a batch reads -------------------------------------------------------------------------------------


def parts(start: Offsets, end: Offsets, paths: Mapping[str, Path]) -> list[Part]:
    """What a batch reads between two offsets; `paths` are those of the files by their names."""
    gone = missing(end)
    gone_before = missing(start)
    found = []
    for name, one in end.items():
        before = start.get(one.was)
        was = one.was if one.was != name else ""
        numbers = tuple(sorted(gone.get(stem(name), ())))
        same = before is not None and _told(before) == _told(one) and not was
        if same and not one.note and gone_before.get(stem(name)) == gone.get(stem(name)):
            continue
        over = not one.identity or one.identity.startswith(_AWAY)
        path = paths.get(name, Path(name).absolute())
        growth = Growth(
            str(path), name, one.cluster, one.size, one.learned_size, one.modified_ms, was, numbers, one.note, over
        )
        known = key(one.was, before) if before is not None else ""
        weight = one.size - (before.size if before is not None else 0)
        found.append(Part(growth, one, known, key(name, one), max(1, weight)))
    return found


def _told(one: Offset) -> tuple[Any, ...]:
    return one.size, one.learned_size, one.modified_ms


def key(name: str, one: Offset) -> str:
    """Names what is known of a file that was read to an offset."""
    about = (name, one.identity.removeprefix(_AWAY), one.head_size, one.head, *_told(one))
    return f"{zlib.crc32(name.encode()):08x}-{zlib.crc32(repr(about).encode()):08x}"
