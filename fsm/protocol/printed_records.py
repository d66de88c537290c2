"""Records in the form of Kafka's dump tool, which decodes subscriptions and assignments in records of classic groups.

`kafka-dump-log.sh --offsets-decoder` decodes them if the group's protocol type is `consumer`, each in its own version,
which it does not print. Everything else has the form of the console formatters.

Source: `DumpLogSegments` of apache/kafka.
"""

from __future__ import annotations

from typing import Any

from fsm.errors import RemoteProtocolError
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolAssignment, ConsumerProtocolSubscription, read
from fsm.protocol.json_form import to_printed
from fsm.protocol.records import ClassicGroup, Record, to_json


def to_dump_json(record: Record) -> dict[str, Any]:
    """The record in the form of the dump tool."""
    printed = to_json(record)
    if isinstance(record.value, ClassicGroup) and record.value.protocol_type == PROTOCOL_TYPE:
        for shown, member in zip(printed["value"]["members"], record.value.members, strict=True):
            shown["subscription"] = _decode(ConsumerProtocolSubscription, member.subscription, shown["subscription"])
            shown["assignment"] = _decode(ConsumerProtocolAssignment, member.assignment, shown["assignment"])
    return printed


def _decode(cls: type[Any], data: bytes, undecoded: Any) -> Any:
    """The decoded struct, or `undecoded` for bytes of another format."""
    if not data:
        return ""
    try:
        version, found = read(cls, data)
    except RemoteProtocolError:
        return undecoded
    return to_printed(found, version)
