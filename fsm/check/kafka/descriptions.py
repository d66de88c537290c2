"""Texts about consumers of KIP-848, their requests and responses; and which partitions reports leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import reduce
from operator import or_
from typing import Any

from fsm.check.kafka.application import App
from fsm.check.kafka.topics import mask
from fsm.member.effects import UnsentRequest
from fsm.member.events import BackgroundEvent, PartitionsAssignedEvent, PartitionsRemovedEvent
from fsm.protocol.assignment import Partitions, TopicPartitions, flatten
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    TransportFailure,
)

Seen = Mapping[str, Any]
"""The parts of a state that a model and a live object share, by name."""


def tell_difference(who: str, live: Seen, wanted: Seen) -> str:
    """The first difference between a live object and one of the model; empty if there is none."""
    for what in {**wanted, **live}:
        if live.get(what) != wanted.get(what):
            return f"the {what} of {who} is {_plain(live.get(what))}, expected {_plain(wanted.get(what))}"
    return ""


def _plain(value: Any) -> str:
    """A readable form of a value: names of states, partitions, items of a collection."""
    match value:
        case Enum():
            return value.name
        case (str(topic), int(number)):
            return f"{topic}-{number}"
        case Mapping():
            return ", ".join(f"{_plain(key)}: {_plain(one)}" for key, one in value.items()) or "nothing"
        case tuple() | list() | frozenset():
            fields = getattr(value, "_fields", ())
            parts = [f"{name} {_plain(getattr(value, name))}" for name in fields] or [_plain(one) for one in value]
            return ", ".join(parts) or "nothing"
        case None | "" | b"":
            return "nothing"
    return str(value)


def describe_application(text: str, app: App, using: Partitions, calling: BackgroundEvent | None) -> str:
    """A consumer on one line: `text` is the state of its member."""
    text += f", uses {list_partitions(using)}{describe_calling(calling)}"
    return text if app is App.RUNNING else f"{app.value}; {text}"


def describe_calling(calling: BackgroundEvent | None) -> str:
    """The running callback of an application, as the end of its description."""
    match calling:
        case PartitionsAssignedEvent():
            return ", in its assigned callback"
        case PartitionsRemovedEvent(method=method):
            return f", in its {method.name.lower()} callback"
    return ""


def list_partitions(found: Iterable[tuple[str, int]]) -> str:
    """Partitions on one line."""
    return ", ".join(f"{topic}-{number}" for topic, number in found) or "nothing"


def list_present(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The fields that have a value."""
    return [(name, value) for name, value in fields if value]


def count_omitted(found: Iterable[Any], ids: dict[tuple[str, int], int]) -> int:
    """How many partitions the reports in flight leave out; `found` has requests, or (request, response)."""
    left_out, everything = 0, reduce(or_, (1 << bit for bit in ids.values()), 0)
    for one in found:
        order = one[0] if isinstance(one, tuple) and len(one) == 2 else one
        body = order.body if isinstance(order, UnsentRequest) else None
        if (
            isinstance(body, ConsumerGroupHeartbeatRequest)
            and body.topic_partitions is not None
            and body.member_epoch > 0
        ):
            left_out |= everything & ~mask(flatten(body.topic_partitions), ids)
    return left_out


def is_consumer_join(message: Any) -> bool:
    """Whether a request joins by the protocol of KIP-848."""
    return getattr(getattr(message, "body", None), "member_epoch", None) == 0


def describe_message(message: Any, names: Mapping[str, str]) -> str:
    """A request or response in flight, on one line."""
    if isinstance(message, str):
        return message
    if isinstance(message, tuple):
        return _describe_answer(message[1], names)
    body = message.body
    if isinstance(body, OffsetCommitRequest):
        places = ", ".join(f"{topic.name}-{p.partition_index}" for topic in body.topics for p in topic.partitions)
        return f"commits {places} at epoch {body.generation_id_or_member_epoch}"
    owned = "" if body.topic_partitions is None else f", owns {show_partitions(body.topic_partitions, names)}"
    what = {0: "joins", -1: "leaves", -2: "leaves for a while"}.get(
        body.member_epoch, f"heartbeat at epoch {body.member_epoch}"
    )
    return what + owned


def _describe_answer(answer: Any, names: Mapping[str, str]) -> str:
    match answer:
        case str():
            return answer
        case TransportFailure():
            return "no answer"
        case OffsetCommitResponse():
            codes = sorted({p.error_code.name for topic in answer.topics for p in topic.partitions})
            return f"commit: {', '.join(codes)}"
    if answer.error_code is not ErrorCode.NONE:
        return str(answer.error_code.name)
    given = answer.assignment
    assigned = "" if given is None else f", is assigned {show_partitions(given, names)}"
    return f"epoch {answer.member_epoch}{assigned}"


def show_partitions(found: TopicPartitions, names: Mapping[str, str]) -> str:
    """Partitions of topic ids by the names of their topics."""
    return list_partitions((names[topic_id], number) for topic_id, number in flatten(found))
