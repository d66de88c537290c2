"""Bytes that a hostile peer may send: what others wrote, changed at random, and arrays that take much memory."""

from __future__ import annotations

import json
import lzma
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import APIS
from fsm.protocol.schema import Field, Kind, Struct, Type, struct_of

ODD = (0, 1, 2, 0x7F, 0x80, 0xFF)
LENGTHS = tuple(
    bytes.fromhex(text) for text in ("7fffffff", "ffffffff", "80000000", "ffffffff0f", "ffffffffffffffffff01", "7fff")
)
"""The largest, none at all, and some that end too late."""


class Vector(NamedTuple):
    """A message as its bytes."""

    cls: type[Any]
    version: int
    data: bytes


def read_vectors() -> tuple[Vector, ...]:
    """All that `make_vectors.py` made."""
    lines = lzma.decompress(Path(__file__).with_name("vectors.jsonl.xz").read_bytes()).decode().splitlines()
    return tuple(
        Vector(getattr(APIS[one["api"]], one["kind"]), one["version"], b64decode(data))
        for one in map(json.loads, lines)
        for data, _ in one["messages"]
    )


def change(data: bytes, other: bytes, random: Random) -> bytes:
    """Cuts it, makes it longer, changes bytes, puts in a length or a piece of another; sometimes several of these."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(found) + 1)
        match random.randrange(6):
            case 0:
                del found[at:]
            case 1:
                found += random.randbytes(random.randrange(1, 9))
            case 2:
                found[at : at + 1] = bytes([random.choice(ODD)])
            case 3:
                found[at : at + 1] = random.randbytes(1)
            case 4:
                length = random.choice(LENGTHS)
                found[at : at + random.choice((0, len(length)))] = length
            case _:
                begin = random.randrange(len(other) + 1)
                found[at:at] = other[begin : begin + random.randrange(40)]
    return bytes(found)


def dense_messages(cls: type[Any], version: int, count: int) -> Iterator[Any]:
    """A message for each of its arrays, in which this array has so many of the smallest elements."""
    for path in _arrays(struct_of(cls), version):
        yield _dense(struct_of(cls), version, path, count)


def smallest_message(cls: type[Any], version: int) -> Any:
    """The one that takes the fewest bytes."""
    return _made(struct_of(cls), [_smallest_of(field, version) for field in struct_of(cls).fields])


def _arrays(declared: Struct, version: int) -> Iterator[tuple[str, ...]]:
    for field in declared.fields:
        if field.is_in(version):
            if field.type.element:
                yield (field.name,)
            inside = field.type.struct or (field.type.element and field.type.element.struct)
            yield from ((field.name, *path) for path in (_arrays(inside, version) if inside else ()))


def _dense(declared: Struct, version: int, path: tuple[str, ...], count: int) -> Any:
    values = []
    for field in declared.fields:
        if field.name != path[0]:
            values.append(_smallest_of(field, version))
        elif field.type.element is None:
            values.append(_dense(field.type.struct, version, path[1:], count))
        elif path[1:]:
            values.append((_dense(field.type.element.struct, version, path[1:], count),))
        else:
            values.append((_smallest(field.type.element, version),) * count)
    return _made(declared, values)


def _smallest_of(field: Field, version: int) -> Any:
    return _smallest(field.type, version) if field.is_in(version) and field.wire.tag is None else field.default


def _smallest(declared: Type, version: int) -> Any:
    """What takes the fewest bytes, and in Python an object of its own."""
    if declared.struct:
        return _made(declared.struct, [_smallest_of(field, version) for field in declared.struct.fields])
    return SMALLEST[declared.kind]


SMALLEST = {
    Kind.INT8: -100,
    Kind.INT16: 1 << 14,
    Kind.INT32: 1 << 30,
    Kind.INT64: 1 << 62,
    Kind.BOOL: True,
    Kind.CODE: ErrorCode(20_000),
    Kind.UUID: "5fQzW2bJT0y3JmXG8vX1Aw",
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.ARRAY: (),
}


def _made(declared: Struct, values: list[Any]) -> Any:
    if declared.cls is None:
        return values[0]
    if declared.cls is tuple:
        return tuple(values)
    return declared.cls(**{field.name: value for field, value in zip(declared.fields, values, strict=True)})
