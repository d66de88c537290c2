"""The notation of partitions, requests, answers, events and effects in scenarios: short lines of text.

`read_...` parses the content of a file, `show_...` returns text. Fields keep Kafka's names. Absent values (Kafka's
null, -1 for "unchanged") are omitted from a line and are `none` as a field. Topic names serve as topic ids here, so
that partitions always have the same notation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, TypeVar

from fsm.connect.units import Unit, Units
from fsm.errors import InputError, RemoteProtocolError
from fsm.member.events import ApplicationEvent, BackgroundEvent, KafkaError, ListenerMethod
from fsm.nodes import Node, nearest
from fsm.protocol import messages
from fsm.protocol.assignment import LocalAssignment, Partitions, TopicPartition, TopicPartitions, flatten, partitions
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription

T = TypeVar("T")

NOTHING = "none"
"""The notation of an absent value."""
_SELF_EVIDENT = ("group_id", "member_id")
_UNCHANGED = ("rebalance_timeout_ms", "-1")
_ABSENT = (NOTHING, "")


def show_list(items: Iterable[str]) -> str:
    """Texts as one."""
    return f"[{', '.join(items)}]"


def show_partitions(given: Partitions) -> str:
    """Partitions as `[orders-0, orders-1]`."""
    return show_list(f"{topic}-{number}" for topic, number in given)


def show_topics(given: TopicPartitions) -> str:
    """Partitions by topic in the same form."""
    return show_partitions(partitions(flatten(given)))


def show_offsets(given: messages.Offsets) -> str:
    """Offsets as `[orders-0: 5]`."""
    return show_list(f"{topic}-{number}: {offset}" for (topic, number), offset in given)


def show(value: object) -> str:
    """Any other value of a field."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value.name
        case tuple():
            return show_list(map(show, value))
    return str(value)


def show_units(units: Iterable[Unit]) -> str:
    """Units of Connect as `[A, A-0]`."""
    return show_list(map(str, units))


# Parsing


_TASK = re.compile(r"(.+)-(\d{1,9})")


def read_unit(text: str) -> Unit:
    """Parses a unit: `name` is a connector of Connect, `name-0` its first task."""
    match = _TASK.fullmatch(text)
    return Unit(match[1], int(match[2])) if match else Unit(text)


def read_units(texts: Iterable[str]) -> Units:
    """Several of them."""
    return tuple(map(read_unit, texts))


def read_partition(node: Node) -> TopicPartition:
    """Parses a partition, `orders-0`. Raises `InputError` for anything else."""
    topic, dash, number = node.text().rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit()) or len(number) > 9:
        raise InputError(
            f"{node.text()[:60]!r} is not a partition", node.where, "write orders-0 for partition 0 of orders"
        )
    return topic, int(number)


def read_partitions(node: Node) -> Partitions:
    """A list of partitions, in any order."""
    return partitions(map(read_partition, node.items()))


def read_offsets(node: Node) -> messages.Offsets:
    """A mapping from partition to offset."""
    return tuple(sorted((read_partition(key), value.number()) for key, value in node.mapping().values()))


def read_texts(node: Node) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(item.text() for item in node.items())


def read_number(given: Mapping[str, Node], key: str, default: T) -> int | T:
    """The number that is given under a key."""
    return given[key].number() if key in given else default


def read_text(given: Mapping[str, Node], key: str, default: T) -> str | T:
    """The text that is given under a key."""
    return given[key].text() if key in given else default


def read_known(node: Node, names: Sequence[str], role: str) -> str:
    """One of these names. Raises `InputError` with the nearest one for another text."""
    if node.text() not in names:
        raise InputError(f"{node.text()[:60]!r} is not a known {role}", node.where, nearest(node.text(), names))
    return node.text()


def read_ms(node: Node, limit_ms: int) -> int:
    """A duration. Raises `InputError` for one that is negative or longer than the limit."""
    if not 0 <= node.number() <= limit_ms:
        raise InputError(f"{node.number()} ms", node.where, f"0 to {limit_ms}")
    return node.number()


def show_node(node: Node) -> str:
    """The content of a node, on one line."""
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, list):
        return show_list(map(show_node, node.value))
    pairs = (f"{name}: {show_node(value)}" for name, (_, value) in node.value.items())
    return "{" + ", ".join(pairs) + "}"


# Messages


def show_api(kind: type) -> str:
    """The API of a request."""
    return kind.__name__.removesuffix("Request")


_LAST = ("protocol_type", "protocol_name", "group_instance_id", "reason")
"""Fields of a join and a sync that are printed last, after the more important ones."""


def show_fields(message: object) -> dict[str, str]:
    """The fields of a message by Kafka's names; bytes of consumers are shown decoded."""
    names = [f.name for f in fields(message)]  # type: ignore[arg-type]
    if isinstance(message, messages.JoinGroupRequest | messages.SyncGroupRequest):
        names.sort(key=lambda name: _LAST.index(name) if name in _LAST else -1)
    shown = {name: _show_field(name, getattr(message, name)) for name in names}
    match message:
        case messages.JoinGroupResponse(members=members):
            shown["members"] = show_list(m.member_id for m in members)
        case messages.JoinGroupRequest(protocols=protocols) if protocols:
            subscription = decode_subscription(protocols[0].metadata)
            shown["protocols"] = show_list(p.name for p in protocols)
            shown["topics"] = show_list(subscription.topics)
            shown["owned_partitions"] = show_partitions(subscription.owned_partitions)
        case messages.SyncGroupRequest(assignments=given):
            shown["assignments"] = show_list(f"{a.member_id}: {show_assignment(a.assignment)}" for a in given)
        case messages.LeaveGroupRequest(members=members):
            shown["members"] = show_list(m.group_instance_id or m.member_id for m in members)
    return shown


def _show_field(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return show_assignment(value)
    if name in ("topic_partitions", "assignment") and value is not None:
        return show_topics(value)
    return show_offsets(value) if name == "offsets" else show(value)


def show_assignment(data: bytes) -> str:
    """The decoded assignment of a classic member; the bytes may be empty."""
    try:
        return show_partitions(decode_assignment(data).partitions)
    except RemoteProtocolError:
        return show_list(())


def show_request(request: object) -> str:
    """A request on one line, without default values."""
    given = show_fields(request).items()
    pairs = (f"{k}={v}" for k, v in given if k not in _SELF_EVIDENT and v not in _ABSENT and (k, v) != _UNCHANGED)
    return f"{show_api(type(request))}({', '.join(pairs)})"


def show_answer(answer: object) -> str:
    """An answer, or a failure, on one line."""
    if isinstance(answer, messages.TransportFailure):
        return answer.name
    given = show_fields(answer).items()
    pairs = (f"{k}={v}" for k, v in given if k != "member_id" and v not in (*_ABSENT, "NONE", "0", "no"))
    return f"{type(answer).__name__.removesuffix('Response')} answered({', '.join(pairs)})"


def show_commits(requests: Iterable[object]) -> str:
    """The offsets of the commits among these."""
    return show_list(show_offsets(r.offsets)[1:-1] for r in requests if isinstance(r, messages.OffsetCommitRequest))


# Events and effects


def show_event(event: ApplicationEvent | BackgroundEvent) -> str:
    """An event of either queue."""
    values = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in ("call", "ticket", "apply")}
    shown = [text for name, value in values.items() if (text := _show_event_field(name, value))]
    return f"{type(event).__name__}({', '.join(shown)})" if shown else type(event).__name__


def _show_event_field(name: str, value: Any) -> str:
    match value:
        case None | () | False:
            return show_list(()) if name in ("added", "full", "partitions") else ""
        case True:  # other flags are between the member and its queue
            return name if name == "listener" else ""
        case KafkaError():
            return value.name
        case ListenerMethod():
            return value.value
        case tuple() if name in ("partitions", "full", "added"):
            return show_partitions(value) if name == "partitions" else f"{name} {show_partitions(value)}"
        case tuple() if name == "consumed":
            return show_offsets(value)
    return show(value)


def show_effect(effect: object) -> str:
    """An effect of a step."""
    values: Mapping[str, Any] = {f.name: getattr(effect, f.name) for f in fields(effect)}  # type: ignore[arg-type]
    shown = [f"{name} {_show_effect_field(value)}" for name, value in values.items()]
    return f"{type(effect).__name__}({', '.join(shown)})" if shown else type(effect).__name__


def _show_effect_field(value: Any) -> str:
    match value:
        case LocalAssignment():
            return NOTHING if value.is_none else show_topics(value.partitions)
        case tuple() if all(isinstance(item, tuple) for item in value):
            return show_partitions(value)
        case KafkaError():
            return value.name
    return show(value)
