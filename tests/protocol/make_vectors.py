"""Writes `vectors.jsonl.xz`: random messages of every API and version as kio writes them (`pip install kio==0.6.5`).

kio's classes are generated from the schemas of apache/kafka by other people, so its bytes are a second opinion.

    python tests/protocol/make_vectors.py [MESSAGES_PER_VERSION] [SEED]
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from importlib import import_module
from io import BytesIO
from pathlib import Path
from random import Random
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from fsm.protocol.messages import APIS

VECTORS = Path(__file__).with_name("vectors.jsonl.xz")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 40}
MILLISECOND = timedelta(milliseconds=1)
NO_ID = "A" * 22


def entity(api: str, version: int, kind: str) -> Any:
    """kio's class."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    return getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), api + kind.title())


def sample(cls: Any, random: Random) -> Any:
    """A random message of kio's."""
    hints = get_type_hints(cls)
    values = {f.name: _value(hints[f.name], f.metadata.get("kafka_type"), random) for f in fields(cls)}
    for f in fields(cls):
        if f.metadata.get("tag") is not None and random.random() < 0.25:
            values[f.name] = f.default
    return cls(**values)


def _value(hint: Any, kind: str | None, random: Random) -> Any:
    if get_origin(hint) in {Union, UnionType}:
        if random.random() < 0.3:
            return None
        hint = next(one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        return tuple(_value(element, kind, random) for _ in range(random.choice((0, 1, 1, 2, 3))))
    return sample(hint, random) if is_dataclass(hint) else _scalar(kind, random)


def _scalar(kind: str | None, random: Random) -> Any:
    if kind in BITS:
        bits = random.choice((4, 4, BITS[kind] - 1))
        number = random.randint(-(1 << bits), (1 << bits) - 1)
        return number * MILLISECOND if kind.startswith("timedelta") else number
    if kind == "bool":
        return random.random() < 0.5
    if kind == "uuid":
        return UUID(int=random.randint(1, 1 << 127))
    if kind == "error_code":
        return random.choice(list(import_module("kio.schema.errors").ErrorCode))
    if kind in {"bytes", "records"}:
        return bytes(random.choice((0, 1, 255)) for _ in range(random.choice((0, 1, 5, 130))))
    return random.choice(("", "a", "group-1", "ä€", "x" * 130, "\0"))


def body(value: Any) -> Any:
    """A message of kio's as recordings have messages."""
    if is_dataclass(value):
        found = {one: getattr(value, one.name) for one in fields(value)}
        return {
            one.name: NO_ID if part is None and one.metadata.get("kafka_type") == "uuid" else body(part)
            for one, part in found.items()
            if one.metadata.get("tag") is None or part != one.default
        }
    if isinstance(value, tuple):
        return [body(one) for one in value]
    if isinstance(value, timedelta):
        return value // MILLISECOND
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if type(value).__name__ == "ErrorCode":
        return value.name if value else None
    return urlsafe_b64encode(value.bytes).decode().rstrip("=") if isinstance(value, UUID) else value


def written(value: Any) -> bytes:
    """The bytes that kio writes."""
    out = BytesIO()
    import_module("kio.serial").entity_writer(type(value))(out, value)
    return out.getvalue()


NEWEST_OF_KIO = {"TxnOffsetCommit": 5}


def vectors(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """So many messages of each kind and version."""
    random = Random(seed)  # noqa: S311  # the same seed, the same messages
    for api in APIS.values():
        for version in range(api.oldest, min(api.newest, NEWEST_OF_KIO.get(api.name, api.newest)) + 1):
            for kind in ("request", "response"):
                cls = entity(api.name, version, kind)
                assert (cls.__api_key__, cls.__flexible__) == (api.key, version >= api.flexible_since)
                messages = [sample(cls, random) for _ in range(count)]
                pairs = [[b64encode(written(one)).decode(), body(one)] for one in messages]
                yield {"api": api.name, "kind": kind, "version": version, "messages": pairs}


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]]
    lines = "".join(json.dumps(one) + "\n" for one in vectors(*(numbers + [4, 1][len(numbers) :])))
    VECTORS.write_bytes(lzma.compress(lines.encode(), preset=9))
