"""Plans a batch: the offsets up to which each followed file is read, as JSON-compatible values.

A file may grow, be rotated, packed, truncated, replaced, or removed. Records read before stay.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from fsm.audit.hygiene.rotation import find_missing, stem
from fsm.audit.live.growth import Growth, find_last_end
from fsm.spark.live.known_files import (
    AWAY,
    HEAD,
    Look,
    Offset,
    Offsets,
    find_copies,
    is_stale,
    look_at,
    recognise,
    tail_of,
)
from fsm.spark.options import CHECKPOINT, TOPICS
from fsm.spark.sources import Source

LEARNED_STANDING = 4 << 20
"""Layouts are learned again when a file has doubled, and up to this size also when it has stopped growing."""


MOST_GONE = 1000
"""Limit of removed or truncated files whose offsets are kept: those changed last."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one file that a batch reads."""

    growth: Growth
    offset: Offset
    before: str
    """Key of the file's state before; empty for a new file."""
    after: str
    """Key of its state afterwards."""
    weight: int


def to_json(offsets: Offsets) -> dict[str, list[Any]]:
    """Offsets as JSON, as Spark stores them."""
    return {name: list(one) for name, one in offsets.items()}


def from_json(document: Mapping[str, Sequence[Any]]) -> dict[str, Offset]:
    return {name: Offset(*one) for name, one in document.items()}


# -- the offsets of the next batch --------------------------------------------------------------------------


def advance(before: Offsets, found: Iterable[Source]) -> dict[str, Offset]:
    """The next offsets, from the last ones and the existing files; equal to the last ones if nothing is new."""
    looked = look_at(sources := list(found))
    kept, replaced = recognise(before, looked)
    if is_stale(before, kept, looked):
        kept, replaced = recognise(before, looked := look_at(sources))
    copied = find_copies(looked, kept)
    after: dict[str, Offset] = {}
    for name, look in looked.items():
        old = kept.get(name)
        after[name] = _begin(look, name, copied, before) if old is None else _advance(look, name, old, before[old])
    known = {*kept.values()}
    for name, one in before.items():
        if name in known or name in replaced or not one.size:
            continue
        # The file is gone, but its records stay: under its name, unless another file has that now.
        away = one.identity if one.is_away or not one.identity else f"{AWAY}{one.identity}"
        free, is_new = name, away != one.identity
        note = f"{name} is gone while it was followed: what it held up to byte {one.size} was read"
        if name in after:
            free, is_new = _free_name(name, {*after, *before}), True
            note = f"{name} was replaced or cut while it was followed: what it held before is told as {free}"
        after[free] = one._replace(identity=away, was=name, note=note if is_new and not _is_of_topic(name) else "")
    return dict(sorted(_limit(after)))


def _is_of_topic(name: str) -> bool:
    """Whether a file is a copy of a topic, which is removed after it was read."""
    return f"/{CHECKPOINT}/{TOPICS}/" in name


def _limit(after: Offsets) -> Iterator[tuple[str, Offset]]:
    """Drops the oldest removed files beyond `MOST_GONE`."""
    gone = sorted((one.modified_ms, name) for name, one in after.items() if one.is_away or not one.identity)
    dropped = {name for _, name in gone[: max(0, len(gone) - MOST_GONE)]}
    yield from ((name, one) for name, one in after.items() if name not in dropped)


def _begin(look: Look, name: str, copied: Mapping[str, str], before: Offsets) -> Offset:
    """The first offset of a new file. A copy is read when it stops growing while its original still exists."""
    last, original = before.get(name), copied.get(name, "")
    size = _readable(look, 0, 0)
    if original and not (last is not None and last.waits and last.seen == look.size):
        size = 0
    head = look.start[: min(HEAD, size)]
    return Offset(
        look.identity,
        zlib.crc32(head),
        len(head),
        size,
        size,
        look.modified_ms,
        look.size,
        look.source.cluster,
        tail=_tail(look, size),
        copy_of=original,
    )


def _tail(look: Look, size: int) -> int:
    return 0 if look.is_packed else tail_of(look.path, size)


def _advance(look: Look, name: str, old: str, one: Offset) -> Offset:
    packed = old != name and look.is_packed
    size = look.size if packed else _readable(look, one.size, one.seen)
    head = look.start if packed else look.start[: max(one.head_size, min(HEAD, size))]
    same = (size, look.identity, old) == (one.size, one.identity, name)
    has_stopped = look.size == one.seen and size <= LEARNED_STANDING
    learns = size >= 2 * one.learned_size or (has_stopped and size > one.learned_size)
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
        tail=one.tail if size == one.size and not packed else _tail(look, size),
        copy_of=one.copy_of,
    )


def _readable(look: Look, read: int, seen: int) -> int:
    """How far a file may be read: to its last complete line, or to its end if it has stopped growing."""
    if look.size <= read or look.size == seen or look.is_packed:
        return max(read, look.size)
    return find_last_end(str(look.source.path), read, look.size)


def _free_name(name: str, taken: set[str]) -> str:
    """A free name that is not that of a rotation."""
    free = chain([f"{name}.0"], (f"{name}.{number}.0" for number in count(1)))
    return next(one for one in free if one not in taken)


# -- the parts of a batch -----------------------------------------------------------------------------------


def parts(start: Offsets, end: Offsets, paths: Mapping[str, Path]) -> list[Part]:
    """The parts that a batch reads between two offsets; `paths` of the files, by name."""
    gone = find_missing(end)
    gone_before = find_missing(start)
    found = []
    for name, one in end.items():
        if one.waits:
            continue
        before = start.get(one.was)
        was = one.was if one.was != name else ""
        numbers = tuple(sorted(gone.get(stem(name), ())))
        same = before is not None and _to_tuple(before) == _to_tuple(one) and not was
        if same and not one.note and gone_before.get(stem(name)) == gone.get(stem(name)):
            continue
        over = one.is_away or not one.identity
        path = paths.get(name, Path(name).absolute())
        growth = Growth(
            str(path), name, one.cluster, one.size, one.learned_size, one.modified_ms, was, numbers, one.note, over
        )
        known = key(one.was, before) if before is not None else ""
        weight = one.size - (before.size if before is not None else 0)
        found.append(Part(growth, one, known, key(name, one), max(1, weight)))
    return found


def _to_tuple(one: Offset) -> tuple[Any, ...]:
    return one.size, one.learned_size, one.modified_ms


def key(name: str, one: Offset) -> str:
    """The key of the state of a file that was read to an offset."""
    about = (name, one.identity.removeprefix(AWAY), one.head_size, one.head, *_to_tuple(one))
    return f"{zlib.crc32(name.encode()):08x}-{zlib.crc32(repr(about).encode()):08x}"
