"""Dataclasses of the audit as Arrow columns: the schema from the annotations, rows from the instances and back.

The dataclasses in `fsm.audit` state each field once; nothing restates it here.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

PARTITION = pa.struct(
    [pa.field("topic", pa.string(), nullable=False), pa.field("partition", pa.int64(), nullable=False)]
)
_PLAIN = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class _Form(NamedTuple):
    """How values of one annotation stand in a column."""

    type: pa.DataType
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def schema_of(cls: type) -> pa.Schema:
    """The schema of a dataclass or NamedTuple. Raises TypeError for an annotation that has no column type."""
    return pa.schema(list(_form(cls).type))


def batch(items: Iterable[Any], cls: type) -> pa.RecordBatch:
    """Instances of a class as rows of its schema."""
    return pa.RecordBatch.from_pylist(list(map(_form(cls).write, items)), schema=schema_of(cls))


def reader(cls: type) -> Callable[[dict[str, Any]], Any]:
    """The function that turns a row of a class's schema back into an instance."""
    return _form(cls).read


def list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item, nullable=False))


@cache
def _form(hint: Any) -> _Form:
    if isinstance(hint, types.UnionType):
        form = _form(next(h for h in hint.__args__ if h is not types.NoneType))
        return _Form(form.type, _optional(form.write), _optional(form.read))
    origin = typing.get_origin(hint)
    if origin is tuple:
        item, *more = hint.__args__
        if more and more[0] is not Ellipsis:
            return _Form(PARTITION, lambda pair: dict(zip(("topic", "partition"), pair, strict=True)), _read_pair)
        one = _form(item)
        kind = list_of(one.type)
        return _Form(kind, lambda values: [one.write(v) for v in values], lambda rows: tuple(one.read(r) for r in rows))
    if origin is collections.abc.Mapping:
        value = pa.field("value", _form(hint.__args__[1]).type, nullable=False)
        return _Form(pa.map_(pa.string(), value), lambda m: sorted(m.items()), dict)
    if hint in _PLAIN:
        return _Form(_PLAIN[hint], _same, _same)
    if isinstance(hint, type):
        return _Form(pa.string(), str, hint) if issubclass(hint, StrEnum) else _struct(hint)
    raise TypeError(f"no column type for {hint!r}")


def _struct(cls: Any) -> _Form:
    hints = typing.get_type_hints(cls)
    names = [f.name for f in fields(cls)] if is_dataclass(cls) else cls._fields
    forms = [(name, _form(hints[name])) for name in names]
    writers, readers = [(name, form.write) for name, form in forms], [(name, form.read) for name, form in forms]
    return _Form(
        pa.struct([pa.field(name, form.type, isinstance(hints[name], types.UnionType)) for name, form in forms]),
        lambda item: {name: write(getattr(item, name)) for name, write in writers},
        lambda row: cls(**{name: read(row[name]) for name, read in readers}),
    )


def _optional(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _same(value: Any) -> Any:
    return value


def _read_pair(row: dict[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]
