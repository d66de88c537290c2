"""Kafka's binary encoding, for the wire and for `__consumer_offsets`, compiled once per struct and version.

A reader takes bytes and a position and returns a value and the position behind it; a writer appends a value. Unknown
tagged fields are skipped. Bytes are not trusted: errors name the field and the position.

Source: the message format of apache/kafka (`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from struct import Struct as Layout
from typing import Any, TypeVar

from fsm.errors import InputError
from fsm.protocol.primitives import (
    CODE,
    COMPACT,
    FORMS,
    INT16,
    INT32,
    NULL_STRUCT,
    NULL_TAGGED_STRUCT,
    UUID,
    Codec,
    Unreadable,
    array,
    make_sized,
    nullable,
    number,
)
from fsm.protocol.schema import Field, Kind, Struct, Type, struct_of
from fsm.protocol.struct_code import Numbers, One, Part, Tagged, reader, writer

T = TypeVar("T")


def decode_as(cls: type[T], data: bytes, version: int, flexible: bool, at: int = 0) -> tuple[T, int]:
    """The value at a position, and the position behind it. Raises `InputError` for invalid bytes."""
    try:
        found: tuple[T, int] = codec_of(cls, version, flexible).read(data, at)
    except Unreadable as problem:
        raise problem.refusal(cls.__name__) from None
    return found


def decode_all(cls: type[T], data: bytes, version: int, flexible: bool, at: int = 0) -> T:
    """The value in all the bytes from a position on. Raises `InputError` for invalid or trailing bytes."""
    found, end = decode_as(cls, data, version, flexible, at)
    if end != len(data):
        raise InputError(f"{len(data) - end} bytes too many", f"{cls.__name__}, byte {end}")
    return found


def encode_as(value: Any, version: int, flexible: bool, head: bytes = b"") -> bytes:
    """`head` followed by the bytes of a value. Raises `InputError` naming a field that cannot be written."""
    out = bytearray(head)
    try:
        codec_of(type(value), version, flexible).write(out, value)
    except Unreadable as problem:
        raise problem.refusal(type(value).__name__) from None
    return bytes(out)


def codec_of(cls: type[Any], version: int, flexible: bool) -> Codec:
    """Reader and writer of a message or record in one version, cached."""
    key = cls, version, flexible
    found = _CODECS.get(key)
    if found is None:
        found = _CODECS[key] = struct_codec(struct_of(cls), version, flexible)
    return found


_CODECS: dict[tuple[type[Any], int, bool], Codec] = {}


def struct_codec(declared: Struct, version: int, flexible: bool) -> Codec:
    """Reader and writer of a struct in one version."""
    parts = tuple(_parts(declared.fields, version, flexible))
    tagged = _tagged_fields(declared.fields, version) if flexible else None
    least = sum(part.least for part in parts) + flexible
    return Codec(reader(declared, parts, tagged), writer(declared, parts, tagged), least)


def _parts(declared: Sequence[Field], version: int, flexible: bool) -> Iterator[Part]:
    """Consecutive fields of fixed size as one part, every other field as its own."""
    plain = (field for field in declared if field.is_in(version) and field.wire.tag is None)
    for is_fixed, run in groupby(plain, key=lambda field: field.type.kind in FORMS):
        if is_fixed:
            found = tuple(run)
            yield Numbers(found, Layout(">" + "".join(FORMS[field.type.kind] for field in found)))
        else:
            yield from (_one(field, version, flexible) for field in run)


def _one(field: Field, version: int, flexible: bool) -> One:
    codec, null = _of_field(field, version, flexible), None
    if _is_nullable(field, version) and (flexible or field.type.kind is Kind.STRUCT):
        null = NULL_STRUCT if field.type.kind is Kind.STRUCT else 0
    return One((field,), codec, null, flexible and field.type.kind in {Kind.STRING, Kind.BYTES})


def _tagged_fields(declared: Sequence[Field], version: int) -> tuple[Tagged, ...]:
    here = sorted((field.wire.tag, field) for field in declared if field.wire.tag is not None and field.is_in(version))
    return tuple(Tagged(tag, field, _of_field(field, version, True, in_tag=True)) for tag, field in here)


def _of_field(field: Field, version: int, flexible: bool, in_tag: bool = False) -> Codec:
    return _codec_of(field.type, version, flexible, _is_nullable(field, version), in_tag)


def _is_nullable(field: Field, version: int) -> bool:
    return field.type.is_nullable and version >= field.wire.null_since


def _codec_of(declared: Type, version: int, flexible: bool, is_nullable: bool, in_tag: bool = False) -> Codec:
    match declared.kind:
        case Kind.CODE:
            return CODE
        case Kind.UUID:
            return UUID
        case Kind.STRING:
            return make_sized(COMPACT if flexible else INT16, is_nullable, bytes.decode, str.encode)
        case Kind.BYTES:
            return make_sized(COMPACT if flexible else INT32, is_nullable, bytes, memoryview)
        case Kind.ARRAY if declared.element:
            one = declared.element
            element = _codec_of(one, version, flexible, one.is_nullable)
            form = "" if one.kind is Kind.CODE else FORMS.get(one.kind, "")
            return array(COMPACT if flexible else INT32, is_nullable, element, form)
        case Kind.STRUCT if declared.struct:
            whole = struct_codec(declared.struct, version, flexible)
            return nullable(whole, NULL_TAGGED_STRUCT if in_tag else NULL_STRUCT) if is_nullable else whole
    return number(FORMS[declared.kind])
