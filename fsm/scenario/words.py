"""How a conversation is written: partitions, requests, answers, events and effects as short lines of text.

Fields keep Kafka's names. What is absent (Kafka's null, -1 for "unchanged") is left out of a line and is `none` as a
field. Topics have their names for ids here, so that partitions read the same wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from typing import Any

from fsm.errors import InputError, RemoteProtocolError
from fsm.member.events import ApplicationEvent, BackgroundEvent, KafkaError, ListenerMethod
from fsm.nodes import Node
from fsm.protocol.assignment import LocalAssignment, Partitions, TopicPartition, TopicPartitions, partitions
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    Offsets,
    SyncGroupRequest,
    TransportFailure,
)
from fsm.scenario.steps import NOTHING

UNSAID = ("none", "")
"""Values of request fields that say nothing."""
_SELF_EVIDENT = ("group_id", "member_id")
_UNCHANGED = ("rebalance_timeout_ms", "-1")


@contextmanager
def of_setting(name: str) -> Iterator[None]:
    """Lets an `InputError` about a value also say which setting has that value."""
    try:
        yield
    except InputError as problem:
        raise InputError(f"{name}: {problem.what}", problem.where, problem.remedy) from None


def listed(items: Iterable[str]) -> str:
    """Texts as one."""
    return f"[{', '.join(items)}]"


def named(given: Partitions) -> str:
    """Partitions as `[orders-0, orders-1]`."""
    return listed(f"{topic}-{number}" for topic, number in given)


def by_topic(given: TopicPartitions) -> str:
    """The same of partitions by topic."""
    return named(partitions((topic, n) for topic, numbers in given for n in numbers))


def offsets(given: Offsets) -> str:
    """Offsets as `[orders-0: 5]`."""
    return listed(f"{topic}-{number}: {offset}" for (topic, number), offset in given)


def plain(value: object) -> str:
    """Any other value of a field."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value.name
        case tuple():
            return listed(map(plain, value))
    return str(value)


# Reading what a scenario says.


def partition(node: Node) -> TopicPartition:
    """`orders-0`. Raises `InputError` for anything else."""
    topic, dash, number = node.text().rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit()) or len(number) > 9:
        raise InputError(
            f"{node.text()[:60]!r} is no partition", node.where, "write orders-0 for partition 0 of orders"
        )
    return topic, int(number)


def partitions_of(node: Node) -> Partitions:
    """A list of partitions, in any order."""
    return partitions(map(partition, node.items()))


def offsets_of(node: Node) -> Offsets:
    """A mapping from partition to offset."""
    return tuple(sorted((partition(key), value.number()) for key, value in node.mapping().values()))


def texts(node: Node) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(item.text() for item in node.items())


def one_line(node: Node) -> str:
    """What a node says, on one line."""
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, list):
        return listed(map(one_line, node.value))
    pairs = (f"{name}: {one_line(value)}" for name, (_, value) in node.value.items())
    return "{" + ", ".join(pairs) + "}"


# What was sent.


def api_of(kind: type) -> str:
    """The name of the API that a request is of."""
    return kind.__name__.removesuffix("Request")


def api(request: object) -> str:
    """The name of a request's API."""
    return api_of(type(request))


_SAID_LAST = ("protocol_type", "protocol_name", "group_instance_id", "reason")
"""Of a join and a sync: what they are about, and who joins, is read first."""


def request_fields(request: object) -> dict[str, str]:
    """The fields of a request by Kafka's names; what consumers put into bytes is shown as what it says."""
    names = [f.name for f in fields(request)]  # type: ignore[arg-type]
    if isinstance(request, JoinGroupRequest | SyncGroupRequest):
        names.sort(key=lambda name: _SAID_LAST.index(name) if name in _SAID_LAST else -1)
    written = {name: _field(name, getattr(request, name)) for name in names}
    match request:
        case JoinGroupResponse(members=members):
            written["members"] = listed(m.member_id for m in members)
        case JoinGroupRequest(protocols=protocols) if protocols:
            said = decode_subscription(protocols[0].metadata)
            written["protocols"] = listed(p.name for p in protocols)
            written |= {"topics": listed(said.topics), "owned_partitions": named(said.owned_partitions)}
        case SyncGroupRequest(assignments=given):
            written["assignments"] = listed(f"{a.member_id}: {_assignment(a.assignment)}" for a in given)
        case LeaveGroupRequest(members=members):
            written["members"] = listed(m.group_instance_id or m.member_id for m in members)
    return written


def _field(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return _assignment(value)
    if name in ("topic_partitions", "assignment") and value is not None:
        return by_topic(value)
    return offsets(value) if name == "offsets" else plain(value)


def _assignment(data: bytes) -> str:
    try:
        return named(decode_assignment(data).partitions)
    except RemoteProtocolError:  # an assignment may be no bytes at all
        return listed(())


def request_line(request: object) -> str:
    """A request on one line, without what goes without saying."""
    told = request_fields(request)
    said = {k: v for k, v in told.items() if k not in _SELF_EVIDENT and v not in UNSAID and (k, v) != _UNCHANGED}
    return f"{api(request)}({', '.join(f'{name}={value}' for name, value in said.items())})"


def answer_line(answer: object) -> str:
    """An answer, or the failure that came instead, on one line."""
    if isinstance(answer, TransportFailure):
        return answer.name
    told = request_fields(answer)
    short = [f"{name}={told[name]}" for name in told if name != "member_id" and told[name] not in _SAYS_NOTHING]
    return f"{type(answer).__name__.removesuffix('Response')} answered({', '.join(short)})"


_SAYS_NOTHING = (*UNSAID, "NONE", "0", "no")


def committed(requests: Iterable[object]) -> str:
    """The offsets of the commits among these."""
    return listed(offsets(r.offsets)[1:-1] for r in requests if isinstance(r, OffsetCommitRequest))


# What happened.


def event_line(event: ApplicationEvent | BackgroundEvent) -> str:
    """An event of either queue."""
    values = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in ("call", "ticket", "apply")}
    told = [said for name, value in values.items() if (said := _said(name, value))]
    return f"{type(event).__name__}({', '.join(told)})" if told else type(event).__name__


def _said(name: str, value: Any) -> str:
    match value:
        case None | () | False:
            return named(()) if name in ("added", "full", "partitions") else ""
        case True:  # other flags are between the member and its queue
            return name if name == "listener" else ""
        case KafkaError():
            return value.name
        case ListenerMethod():
            return value.value
        case tuple() if name in ("partitions", "full", "added"):
            return named(value) if name == "partitions" else f"{name} {named(value)}"
        case tuple() if name == "consumed":
            return offsets(value)
    return plain(value)


def effect_line(effect: object) -> str:
    """What a step told about itself."""
    values: Mapping[str, Any] = {f.name: getattr(effect, f.name) for f in fields(effect)}  # type: ignore[arg-type]
    told = [f"{name} {_effect_value(value)}" for name, value in values.items()]
    name = type(effect).__name__
    return f"{name}({', '.join(told)})" if told else name


def _effect_value(value: Any) -> str:
    match value:
        case LocalAssignment():
            return NOTHING if value.is_none else by_topic(value.partitions)
        case tuple() if all(isinstance(item, tuple) for item in value):
            return named(value)
        case KafkaError():
            return value.name
    return plain(value)
