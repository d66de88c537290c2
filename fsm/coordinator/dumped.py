"""Records as Kafka's dump tool prints them: what consumers say inside the record of a classic group is spelled out.

`kafka-dump-log.sh --offsets-decoder` decodes subscription and assignment of a group whose protocol type is `consumer`,
each in its own version, which it does not print. Everything else is as the console formatters have it.

Source: section 8.8 of the coordinator reference; `DumpLogSegments` of apache/kafka.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from fsm.coordinator.encoding import Reader
from fsm.coordinator.records import ClassicGroup, Record, to_json
from fsm.errors import InputError
from fsm.kafka.consumer_protocol import HIGHEST_VERSION, PROTOCOL_TYPE

OWNED_SINCE, GENERATION_SINCE, RACK_SINCE = 1, 2, 3


def as_dumped(record: Record) -> dict[str, Any]:
    """The record as the dump tool prints it."""
    printed = to_json(record)
    if not isinstance(record.value, ClassicGroup) or record.value.protocol_type != PROTOCOL_TYPE:
        return printed
    for shown, member in zip(printed["value"]["members"], record.value.members, strict=True):
        shown["subscription"] = _decoded(member.subscription, _subscription, shown["subscription"])
        shown["assignment"] = _decoded(member.assignment, _assignment, shown["assignment"])
    return printed


def _decoded(data: bytes, read: Any, undecoded: Any) -> Any:
    """None but empty bytes are ever not what consumers say, as far as recordings go; such stay as they are."""
    if not data:
        return ""
    try:
        return read(Reader(data))
    except (InputError, ValueError, IndexError):
        return undecoded


def _subscription(reader: Reader) -> dict[str, Any]:
    version = min(reader.number(2), HIGHEST_VERSION)
    found: dict[str, Any] = {"topics": [_text(reader) for _ in range(reader.number(4))], "userData": _bytes(reader)}
    if version >= OWNED_SINCE:
        found["ownedPartitions"] = _partitions(reader)
    if version >= GENERATION_SINCE:
        found["generationId"] = reader.number(4)
    if version >= RACK_SINCE:
        found["rackId"] = _text(reader)
    return found


def _assignment(reader: Reader) -> dict[str, Any]:
    reader.number(2)
    return {"assignedPartitions": _partitions(reader), "userData": _bytes(reader)}


def _partitions(reader: Reader) -> list[dict[str, Any]]:
    return [
        {"topic": _text(reader), "partitions": [reader.number(4) for _ in range(reader.number(4))]}
        for _ in range(reader.number(4))
    ]


def _text(reader: Reader) -> str | None:
    length = reader.number(2)
    return None if length < 0 else reader.text(length)


def _bytes(reader: Reader) -> str | None:
    length = reader.number(4)
    return None if length < 0 else b64encode(reader.take(length)).decode()
