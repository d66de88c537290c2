"""Dataclasses of the audit as Spark columns: the schema from the annotations, rows from the instances.

The dataclasses in `fsm.audit` state each field once; nothing restates it here.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_BATCH = 2000
"""Rows that a worker hands back at once."""
_PLAIN: dict[type, DataType] = {str: StringType(), int: LongType(), bool: BooleanType()}


def batches(rows: Iterable[dict[str, Any]], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows in Arrow batches, for functions of `mapInArrow`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    remaining = iter(rows)
    while some := list(islice(remaining, ROWS_A_BATCH)):
        yield pa.RecordBatch.from_pylist(some, schema=arrow)


def local(spark: SparkSession, rows: Sequence[dict[str, Any]], schema: StructType) -> DataFrame:
    """A few rows from here as a frame; no job reads them."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema)), schema)


def rows_in(given: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of Arrow batches, one after the other."""
    for batch in given:
        yield from batch.to_pylist()


@cache
def struct_of(cls: type) -> StructType:
    """The schema of a dataclass or NamedTuple. Raises TypeError for an annotation that has no column type."""
    hints = typing.get_type_hints(cls)
    return StructType([_field(name, hints[name]) for name in _names(cls)])


def _names(cls: type) -> tuple[str, ...]:
    if is_dataclass(cls):
        return tuple(f.name for f in fields(cls))
    return tuple(cls._fields)  # type: ignore[attr-defined]


def _field(name: str, hint: Any) -> StructField:
    if isinstance(hint, types.UnionType):
        inner = next(h for h in hint.__args__ if h is not type(None))
        return StructField(name, _type(inner), nullable=True)
    return StructField(name, _type(hint), nullable=False)


def _type(hint: Any) -> DataType:
    if typing.get_origin(hint) is tuple:
        item, *more = hint.__args__
        if more and more[0] is not Ellipsis:  # (topic, partition)
            return StructType(
                [
                    StructField("topic", StringType(), nullable=False),
                    StructField("partition", LongType(), nullable=False),
                ]
            )
        return ArrayType(_type(item), containsNull=False)
    if typing.get_origin(hint) is collections.abc.Mapping:
        return MapType(StringType(), StringType(), valueContainsNull=False)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return StringType()
    if isinstance(hint, type):
        return struct_of(hint)
    raise TypeError(f"no column type for {hint!r}")


@cache
def converter(cls: type) -> Callable[[Any], dict[str, Any]]:
    """The function that turns an instance into a row of `struct_of(cls)`."""
    hints = typing.get_type_hints(cls)
    parts = [(name, _value_of(hints[name])) for name in _names(cls)]

    def convert(item: Any) -> dict[str, Any]:
        return {name: value(getattr(item, name)) for name, value in parts}

    return convert


def _value_of(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, types.UnionType):
        inner = _value_of(next(h for h in hint.__args__ if h is not type(None)))
        return lambda value: None if value is None else inner(value)
    if typing.get_origin(hint) is tuple:
        item, *more = hint.__args__
        if more and more[0] is not Ellipsis:
            return lambda pair: {"topic": pair[0], "partition": pair[1]}
        one = _value_of(item)
        return lambda values: [one(v) for v in values]
    if typing.get_origin(hint) is collections.abc.Mapping:
        return lambda mapping: sorted(mapping.items())
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return str
    if hint in _PLAIN:
        return lambda value: value
    return converter(hint)


@cache
def reader(cls: type) -> Callable[[dict[str, Any]], Any]:
    """The function that turns a row of `struct_of(cls)` back into an instance."""
    hints = typing.get_type_hints(cls)
    parts = [(name, _value_from(hints[name])) for name in _names(cls)]

    def read(row: dict[str, Any]) -> Any:
        return cls(**{name: value(row[name]) for name, value in parts})

    return read


def _value_from(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, types.UnionType):
        inner = _value_from(next(h for h in hint.__args__ if h is not type(None)))
        return lambda value: None if value is None else inner(value)
    if typing.get_origin(hint) is tuple:
        item, *more = hint.__args__
        if more and more[0] is not Ellipsis:
            return lambda pair: (pair["topic"], pair["partition"])
        one = _value_from(item)
        return lambda values: tuple(one(v) for v in values)
    if typing.get_origin(hint) is collections.abc.Mapping:
        return dict
    if hint in _PLAIN:
        return lambda value: value
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    return reader(hint)
