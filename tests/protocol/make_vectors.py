"""Writes `vectors.jsonl.xz`: random messages of every API and version as others write them, for a second opinion.

They are written by kio (`pip install kio==0.6.5`), whose classes are generated from the schemas of apache/kafka. The
versions that kio lacks are written by Kafka's own Java classes (`WriteMessages.java`), which takes `java` and a
CLASSPATH with the jars of kafka-clients 4.4.0, jackson-core, jackson-databind and jackson-annotations.

    CLASSPATH=... python tests/protocol/make_vectors.py [MESSAGES_PER_VERSION] [SEED]
"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import BytesIO
from pathlib import Path
from random import Random
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import THROTTLE, from_recorded, recorded_label, to_printed, to_recorded
from fsm.protocol.messages import APIS, Api
from fsm.protocol.schema import Kind, Struct, Type, struct_of

VECTORS = Path(__file__).with_name("vectors.jsonl.xz")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 40}
MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime.fromtimestamp(0, UTC)
NONE = {"uuid": "A" * 22, "datetime_i64": -1}
"""What goes over the wire where kio has None and Kafka has no null."""
KINDS = {
    Kind.INT8: "int8",
    Kind.INT16: "int16",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.BOOL: "bool",
    Kind.UUID: "uuid",
    Kind.CODE: "error_code",
}
"""What kio calls them."""


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
    if kind == "datetime_i64":
        return EPOCH + random.randint(0, 1 << 40) * MILLISECOND
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
            one.name: NONE.get(one.metadata.get("kafka_type")) if part is None else body(part)
            for one, part in found.items()
            if one.metadata.get("tag") is None or part != one.default
        }
    if isinstance(value, tuple):
        return [body(one) for one in value]
    if isinstance(value, timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime):
        return (value - EPOCH) // MILLISECOND
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


RENAMED = {"generationId": "generationIdOrMemberEpoch"}
"""TxnOffsetCommit has called it so since version 6."""
NEWEST_OF_KIO = {"ApiVersions": 4, "DeleteGroups": 2, "TxnOffsetCommit": 5}


def vectors(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """So many messages of each kind and version."""
    random = Random(seed)  # noqa: S311  # the same seed, the same messages
    for api in APIS.values():
        for version in range(api.oldest, api.newest + 1):
            for kind in ("request", "response"):
                make = kio_pair if version <= NEWEST_OF_KIO.get(api.name, api.newest) else kafka_pair
                pairs = [make(api, version, kind, random) for _ in range(count)]
                yield {"api": api.name, "kind": kind, "version": version, "messages": pairs}


def kio_pair(api: Api, version: int, kind: str, random: Random) -> tuple[str, Any]:
    """A message of kio's: its bytes and its fields."""
    cls = entity(api.name, version, kind)
    assert (cls.__api_key__, cls.__flexible__) == (api.key, version >= api.flexible_since)
    message = sample(cls, random)
    return b64encode(written(message)).decode(), body(message)


def kafka_pair(api: Api, version: int, kind: str, random: Random) -> tuple[str, Any]:
    """What Kafka's own class writes of random fields, and the fields; there is no throttle time."""
    cls: type[Any] = getattr(api, kind)
    fields = declared_sample(struct_of(cls), version, random)
    fields.pop(THROTTLE, None)
    message = from_recorded(cls, fields, version)
    printed = json.dumps(_for_kafka(to_printed(message, version)))
    command = ["java", str(Path(__file__).with_name("WriteMessage.java")), f"{cls.__name__}Data", str(version), printed]
    data = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return data, to_recorded(message, version)


def _for_kafka(printed: Any) -> Any:
    """Error codes as numbers, and the newest names."""
    if isinstance(printed, list):
        return [_for_kafka(one) for one in printed]
    if not isinstance(printed, dict):
        return printed
    return {
        RENAMED.get(name, name): ErrorCode[(one or "none").upper()] if name == "errorCode" else _for_kafka(one)
        for name, one in printed.items()
    }


def declared_sample(declared: Struct, version: int, random: Random) -> dict[str, Any]:
    """Random fields by our own declaration."""
    return {recorded_label(f.name): _declared(f.type, version, random) for f in declared.fields if f.is_in(version)}


def _declared(declared: Type, version: int, random: Random) -> Any:
    if declared.is_nullable and random.random() < 0.3:
        return None
    if declared.struct:
        return declared_sample(declared.struct, version, random)
    if declared.element:
        return [_declared(declared.element, version, random) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return body(_scalar(KINDS.get(declared.kind, "string"), random))


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]]
    lines = "".join(json.dumps(one) + "\n" for one in vectors(*(numbers + [4, 1][len(numbers) :])))
    VECTORS.write_bytes(lzma.compress(lines.encode(), preset=9))
