"""Kafka's message schema as annotations of Python fields.

The Python type determines the wire type: `str` is a string, `bool` a boolean, `bytes` are bytes, `int` is an int32,
`ErrorCode` an int16, `tuple[T, ...]` an array, a NamedTuple or dataclass a struct, and `| None` makes any of them
nullable. `Annotated` adds another integer width, and a `Wire` with the field's versions, tag and nullability:

    group_instance_id: Annotated[str | None, Wire(since=5)] = None

Fields are in wire order. A field that a version does not have reads as its default and is not written. `struct_of`
returns the declaration as data: `encoding` compiles it into readers and writers, `json_form` into documents.

Source: the message format of apache/kafka (`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from fsm.protocol.error_codes import ErrorCode

LATEST = 1 << 15
"""Above every version."""


class Kind(Enum):
    """The wire type of a value."""

    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    BOOL = "?"
    CODE = "error code"
    UUID = "uuid"
    """16 bytes; in Python their base64 text."""
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    STRUCT = "struct"


Int8 = Annotated[int, Kind.INT8]
Int16 = Annotated[int, Kind.INT16]
Int64 = Annotated[int, Kind.INT64]


class Wire(NamedTuple):
    """A field's schema besides its type."""

    since: int = 0
    until: int = LATEST
    """The last version with the field."""
    tag: int | None = None
    null_since: int = 0
    """The first version in which a nullable field may be null."""


class Absent(NamedTuple):
    """The value of a field that a version or message does not have, if it differs from the default of a new value."""

    value: Any


class Wrapped(NamedTuple):
    """The value is the only field of a struct of its own: Kafka's `Assignment` around `topic_partitions`."""

    field: str


class Named(NamedTuple):
    """Names of the fields of a struct that is a plain tuple in Python."""

    first: str
    second: str


class Type(NamedTuple):
    """The type of a field."""

    kind: Kind
    is_nullable: bool = False
    element: Type | None = None
    """The type of an array's items."""
    struct: Struct | None = None


class Field(NamedTuple):
    """One field of a struct."""

    name: str
    type: Type
    wire: Wire
    default: Any
    """Value for a version without the field or a message without the tag."""
    is_required: bool
    """Whether the field has no default for a new value."""

    def is_in(self, version: int) -> bool:
        return self.wire.since <= version <= self.wire.until


class Struct(NamedTuple):
    """The fields of a struct in wire order, and its Python class."""

    fields: tuple[Field, ...]
    cls: type[Any] | None
    """A dataclass, a NamedTuple, or `tuple`; None if the Python value is that of the only field."""


def struct_of(cls: type[Any]) -> Struct:
    """The declaration of a message, a record or a struct inside one."""
    if cls not in _STRUCTS:
        hints = get_type_hints(cls, include_extras=True)
        _STRUCTS[cls] = Struct(tuple(_field(name, hints[name], default) for name, default in _defaults(cls)), cls)
    return _STRUCTS[cls]


_STRUCTS: dict[type[Any], Struct] = {}


def _defaults(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    if is_dataclass(cls):
        yield from ((f.name, f.default) for f in fields(cls))
    else:
        yield from ((name, cls._field_defaults.get(name, MISSING)) for name in cls._fields)


def _field(name: str, hint: Any, default: Any = MISSING) -> Field:
    kind, marks = _split(hint)
    wire = next((mark for mark in marks if isinstance(mark, Wire)), Wire())
    absent = next((mark.value for mark in marks if isinstance(mark, Absent)), default)
    return Field(name, kind, wire, _EMPTY.get(kind.kind) if absent is MISSING else absent, default is MISSING)


_EMPTY = {
    Kind.INT8: 0,
    Kind.INT16: 0,
    Kind.INT32: 0,
    Kind.INT64: 0,
    Kind.BOOL: False,
    Kind.CODE: ErrorCode.NONE,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.ARRAY: (),
}
"""Defaults of fields whose declaration has none."""


def _split(hint: Any, marks: tuple[Any, ...] = ()) -> tuple[Type, tuple[Any, ...]]:
    """The type of a field, and the metadata of its `Annotated`."""
    if get_origin(hint) is Annotated:
        bare, *more = get_args(hint)
        return _split(bare, (*more, *marks))
    if get_origin(hint) in {Union, UnionType}:
        (bare,) = (one for one in get_args(hint) if one is not NoneType)
        found, marks = _split(bare, marks)
        return found._replace(is_nullable=True), marks
    for mark in marks:
        if isinstance(mark, Wrapped):
            inside = _field(mark.field, hint)
            return Type(Kind.STRUCT, struct=Struct((inside,), None)), marks
        if isinstance(mark, Named):
            return _resolve(hint, mark), marks
        if isinstance(mark, Kind):
            return Type(mark), marks
    return _bare(hint), marks


def _resolve(hint: Any, names: Named) -> Type:
    parts = zip(names, get_args(hint), strict=True)
    return Type(Kind.STRUCT, struct=Struct(tuple(_field(name, part) for name, part in parts), tuple))


def _bare(hint: Any) -> Type:
    if hint in _KINDS:
        return Type(_KINDS[hint])
    if get_origin(hint) is tuple:
        return Type(Kind.ARRAY, element=_split(get_args(hint)[0])[0])
    return Type(Kind.STRUCT, struct=struct_of(hint))


_KINDS: dict[Any, Kind] = {bool: Kind.BOOL, bytes: Kind.BYTES, ErrorCode: Kind.CODE, int: Kind.INT32, str: Kind.STRING}
