"""Serialisation of the state of a followed audit: follower states, and members' rows with the lines they refer to.

States are plain values in small classes with shared references, so they are pickled. Loading accepts only classes of
this package and plain containers.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, BinaryIO

from fsm.audit.findings import Evidence, Finding
from fsm.audit.rows import (
    CoordinatorAway,
    GivenUp,
    Interval,
    Life,
    MemberRebalance,
    ObservedTransition,
    Place,
    Subscription,
)
from fsm.trace import TraceRecord

_CONTAINERS = frozenset({("collections", "deque"), ("collections", "Counter"), ("builtins", "set")})
Lines = dict[tuple[str, int], tuple[int, str]]
"""The number and the text of lines, by file and offset."""


def pack(state: Any) -> bytes:
    out = io.BytesIO()
    _Pickler(out).dump(state)
    return out.getvalue()


def unpack(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


def dump(values: Any, lines: Mapping[tuple[str, int], tuple[int, str]]) -> bytes:
    """The values, compressed, with those of the lines that they refer to."""
    out = io.BytesIO()
    pickler = _Pickler(out)
    pickler.dump(values)
    named: Iterable[Place] = sorted(pickler.places & lines.keys())
    pickle.dump({tuple(place): tuple(lines[place]) for place in named}, out, pickle.HIGHEST_PROTOCOL)
    return zlib.compress(out.getvalue(), 1)


def load(data: bytes, lines: Lines) -> Any:
    """The values of `dump`; their lines are added to `lines`."""
    given = io.BytesIO(zlib.decompress(data))
    values = _Unpickler(given).load()
    lines |= _Unpickler(given).load()
    return values


def rename(data: bytes, names: Mapping[str, str]) -> bytes:
    """The same values with renamed files."""
    lines: Lines = {}
    values = load(data, lines)
    out = io.BytesIO()
    _Renaming(out, names).dump((values, lines))
    values, lines = _Renamed(io.BytesIO(out.getvalue())).load()
    return dump(values, lines)


_ROWS = {
    kind: attrgetter(*(f.name for f in fields(kind)))
    for kind in (
        Interval,
        Subscription,
        Life,
        ObservedTransition,
        MemberRebalance,
        GivenUp,
        CoordinatorAway,
        Finding,
        TraceRecord,
    )
}
"""The most frequent classes are pickled as constructor calls, which is fastest."""


class _Pickler(pickle.Pickler):
    """Collects the places in the values."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.places: set[Place] = set()

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is Place:
            self.places.add(value)
        elif kind in _ROWS:
            return kind, _ROWS[kind](value)
        elif kind is Evidence:
            self.places.add(Place(value.file, value.offset))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module.startswith("fsm.") or (module, name) in _CONTAINERS else None
        if isinstance(found, type) and found.__module__ == module:
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of what is kept of a member")


class _Renaming(pickle.Pickler):
    def __init__(self, out: BinaryIO, names: Mapping[str, str]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.names = names

    def persistent_id(self, value: Any) -> str | None:
        return self.names.get(value) if type(value) is str else None


class _Renamed(_Unpickler):
    def persistent_load(self, name: str) -> str:
        return name
