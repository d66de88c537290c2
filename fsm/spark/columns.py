"""Dataclasses as Arrow columns: schemas from annotations, rows from instances, and back."""

from __future__ import annotations

import collections.abc
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from importlib.abc import MetaPathFinder
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

PARTITION = pa.struct(
    [pa.field("topic", pa.string(), nullable=False), pa.field("partition", pa.int64(), nullable=False)]
)
_PLAIN = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class _Form(NamedTuple):
    """The column type of one annotation, and the conversion of its values."""

    type: pa.DataType
    write: Callable[[Any], Any]
    """Converts a value for Arrow: structs to tuples."""
    read: Callable[[Any], Any]


def skip_pandas() -> None:
    """Makes pyarrow's check for pandas, before its first array, fail: the import takes longer than a small audit.

    For programs without Series. pyarrow still imports pandas when it needs it.
    """
    if "pandas" in sys.modules:
        return
    absent = _PandasIsAbsent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(absent)


class _PandasIsAbsent(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002  # as it is called
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def schema_of(cls: type) -> pa.Schema:
    """The schema of a dataclass or NamedTuple. Raises TypeError for an annotation without column type."""
    return pa.schema(list(_form(cls).type))


def batch(items: Iterable[Any], cls: type) -> pa.RecordBatch:
    """Instances of a class as rows of its schema."""
    rows, schema = list(items), schema_of(cls)
    written = zip(*map(_form(cls).write, rows), strict=True) if rows else ([] for _ in schema)
    columns = [pa.array(values, field.type) for values, field in zip(written, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def join(*schemas: pa.Schema) -> pa.Schema:
    return pa.schema([field for schema in schemas for field in schema])


def beside(*batches: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of several batches with equally many rows."""
    columns = [column for one in batches for column in one.columns]
    return pa.RecordBatch.from_arrays(columns, schema=join(*(one.schema for one in batches)))


def reader(cls: type) -> Callable[[dict[str, Any]], Any]:
    """A function from a row of a class's schema to an instance."""
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
            return _Form(PARTITION, _same, _read_pair)
        one = _form(item)
        kind = list_of(one.type)
        write = _same if one.write is _same else lambda values: list(map(one.write, values))
        return _Form(kind, write, lambda rows: tuple(one.read(r) for r in rows))
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
    writers, readers = [form.write for _, form in forms], [(name, form.read) for name, form in forms]
    values = attrgetter(*names) if len(names) > 1 else lambda item: (getattr(item, names[0]),)
    return _Form(
        pa.struct([pa.field(name, form.type, isinstance(hints[name], types.UnionType)) for name, form in forms]),
        lambda item: tuple([write(value) for write, value in zip(writers, values(item), strict=True)]),
        lambda row: cls(**{name: read(row[name]) for name, read in readers}),
    )


def _optional(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _same(value: Any) -> Any:
    return value


def _read_pair(row: dict[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]
