"""Dataclasses of the audit as Spark columns: the schema from the annotations, rows from the instances and back.

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
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyspark.sql import functions as F
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
_PARTITION = StructType([StructField("topic", StringType(), False), StructField("partition", LongType(), False)])


class _Form(NamedTuple):
    """How values of one annotation stand in a column."""

    type: DataType
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def struct_of(cls: type) -> StructType:
    """The schema of a dataclass or NamedTuple. Raises TypeError for an annotation that has no column type."""
    return cast("StructType", _form(cls).type)


def converter(cls: type) -> Callable[[Any], dict[str, Any]]:
    """The function that turns an instance into a row of `struct_of(cls)`."""
    return _form(cls).write


def reader(cls: type) -> Callable[[dict[str, Any]], Any]:
    """The function that turns a row of `struct_of(cls)` back into an instance."""
    return _form(cls).read


@cache
def _form(hint: Any) -> _Form:
    if isinstance(hint, types.UnionType):
        form = _form(_not_none(hint))
        return _Form(form.type, _optional(form.write), _optional(form.read))
    origin = typing.get_origin(hint)
    if origin is tuple:
        item, *more = hint.__args__
        if more and more[0] is not Ellipsis:
            return _Form(_PARTITION, _write_pair, _read_pair)
        one = _form(item)
        kind = ArrayType(one.type, containsNull=False)
        return _Form(kind, lambda values: [one.write(v) for v in values], lambda rows: tuple(one.read(r) for r in rows))
    if origin is collections.abc.Mapping:
        value = _form(hint.__args__[1]).type
        return _Form(MapType(StringType(), value, valueContainsNull=False), lambda m: sorted(m.items()), dict)
    if hint in _PLAIN:
        return _Form(_PLAIN[hint], _same, _same)
    if isinstance(hint, type):
        return _Form(StringType(), str, hint) if issubclass(hint, StrEnum) else _struct(hint)
    raise TypeError(f"no column type for {hint!r}")


def _struct(cls: Any) -> _Form:
    hints = typing.get_type_hints(cls)
    names = [f.name for f in fields(cls)] if is_dataclass(cls) else cls._fields
    forms = [(name, _form(hints[name])) for name in names]
    nullable = {name: isinstance(hints[name], types.UnionType) for name in names}
    writers, readers = [(name, form.write) for name, form in forms], [(name, form.read) for name, form in forms]
    return _Form(
        StructType([StructField(name, form.type, nullable[name]) for name, form in forms]),
        lambda item: {name: write(getattr(item, name)) for name, write in writers},
        lambda row: cls(**{name: read(row[name]) for name, read in readers}),
    )


def _not_none(hint: types.UnionType) -> Any:
    return next(h for h in hint.__args__ if h is not types.NoneType)


def _optional(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _same(value: Any) -> Any:
    return value


def _write_pair(pair: tuple[str, int]) -> dict[str, Any]:
    return {"topic": pair[0], "partition": pair[1]}


def _read_pair(row: dict[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]


# -- frames and batches ---------------------------------------------------------------------------------------


def batches(rows: Iterable[dict[str, Any]], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows in Arrow batches, for functions of `mapInArrow`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    remaining = iter(rows)
    while some := list(islice(remaining, ROWS_A_BATCH)):
        yield pa.RecordBatch.from_pylist(some, schema=arrow)


def rows_in(given: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in given:
        yield from batch.to_pylist()


def local(spark: SparkSession, rows: Sequence[dict[str, Any]], schema: StructType) -> DataFrame:
    """A few rows from here as a frame; no job reads them."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema)), schema)


Walk = Callable[[Iterable[dict[str, Any]]], Iterator[Any]]
"""Sorted rows of one Spark partition -> instances of the row classes it was declared with."""


def walk_rows(frame: DataFrame, walk: Walk, **kinds: type) -> DataFrame:
    """`walk` over the sorted rows of each Spark partition; a nullable struct column for each kind it yields."""
    schema = StructType([StructField(name, struct_of(cls), nullable=True) for name, cls in kinds.items()])
    forms = {cls: (name, converter(cls)) for name, cls in kinds.items()}

    def run(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = ((forms[type(item)], item) for item in walk(rows_in(given)))
        return batches(({name: write(item)} for (name, write), item in items), schema)

    return frame.mapInArrow(run, schema)


def only(frame: DataFrame, kind: str) -> DataFrame:
    """The rows of one kind, as columns."""
    return frame.where(F.col(kind).isNotNull()).select(f"{kind}.*")
