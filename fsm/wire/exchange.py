"""Wire traces as values and as JSON lines: exchanges, and notes about other events.

An `Exchange` is a request with its answer; a `Note` is any other event with a time: a connection, topics, a callback of
an application. A trace has one JSON object a line, in the order in which exchanges ended:

    {"event": "exchange", "at_ms": 1763.25, "connection": 1, "client_id": "A", "api": "Heartbeat", "version": 4,
     "request": {...}, "answered_ms": 1763.9, "response": {...}}
    {"event": "connected", "at_ms": 1760.0, "connection": 1, "broker": 1, "peer": "127.0.0.1:40312"}

Requests and responses have the form of recordings (`fsm.protocol.json_form`), with their throttle time. Records of
Fetch and Produce are omitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.protocol.json_form import THROTTLE, from_recorded, to_recorded
from fsm.protocol.messages import APIS, FetchResponse, PartitionData, ProduceRequest

LONGEST_LINE = 8 << 20
"""Characters of a line; a longer one is refused."""


class Exchange(NamedTuple):
    """A request as it reached a broker, and its response or failure."""

    at_ms: float
    """When the request had arrived, in epoch milliseconds."""
    connection: int
    client_id: str | None
    api: str
    """Kafka's name, or the number of an unknown API."""
    version: int
    request: Any = None
    """None if the API or its version is unknown."""
    answered_ms: float | None = None
    """When the answer was sent; None without an answer."""
    response: Any = None
    """The answer, even if it was not sent; None if there was none or it is unknown."""
    broker: int = 0
    correlation_id: int = 0
    fault: str = ""
    """The name of the scripted fault that it met."""

    @property
    def is_answered(self) -> bool:
        """Whether an answer was sent."""
        return self.answered_ms is not None

    @property
    def ended_ms(self) -> float:
        """When the answer was sent; without an answer, when the request had arrived."""
        return self.at_ms if self.answered_ms is None else self.answered_ms


class Note(NamedTuple):
    """An event other than an exchange."""

    at_ms: float
    event: str
    about: Mapping[str, Any]


def to_line(seen: Exchange | Note) -> str:
    """One line of a trace, without its end."""
    if isinstance(seen, Note):
        return _text({"event": seen.event, "at_ms": seen.at_ms, **seen.about})
    parts = ['{"event": "exchange"']
    for key, before, value in zip(Exchange._fields, _BEFORE, seen, strict=True):
        if key in _ALWAYS or value not in (None, "", 0):
            parts += (before, _member(key, value, seen))
    return f"{''.join(parts)}}}"


_ALWAYS = ("at_ms", "answered_ms", "client_id", "version")
_BEFORE = tuple(f', "{key}": ' for key in Exchange._fields)
_text = json.JSONEncoder(ensure_ascii=False).encode
_name = lru_cache(maxsize=1_024)(_text)


def _member(key: str, value: Any, seen: Exchange) -> str:
    if key in ("request", "response"):
        if value is None:
            return "null"
        return (_repeated_body if seen.api in REPEATED else _body)(value, seen.version)
    if isinstance(value, float):
        return repr(value) if isfinite(value) else _text(value)
    return _name(value)


REPEATED = frozenset(("ConsumerGroupHeartbeat", "Heartbeat"))
"""APIs whose requests members repeat while nothing happens."""


def _body(message: Any, version: int) -> str:
    body = to_recorded(without_records(message), version)
    if throttled := getattr(message, "throttle_time_ms", 0):
        body[THROTTLE] = throttled
    return _text(body)


_repeated_body = lru_cache(maxsize=2_048)(_body)


def read_lines(lines: Iterable[str], file: str) -> Iterator[Exchange | Note]:
    """The content of a trace, line by line; empty lines are skipped.

    Raises `InputError` with file and line for an invalid line.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield from_line(line, f"{file}:{number}")


def from_line(line: str, place: str = "line") -> Exchange | Note:
    """Parses one line. Raises `InputError` with its place."""
    if len(line) > LONGEST_LINE:
        raise InputError(f"a line of {len(line)} characters; the limit is {LONGEST_LINE}", place)
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"not JSON: {problem}", place, "give a trace of exchanges, one JSON object per line") from None
    try:
        event, at_ms = document.pop("event"), float(document.pop("at_ms"))
        if event != "exchange":
            return Note(at_ms, str(event), document)
        return _load(at_ms, document)
    except InputError as problem:
        raise InputError(str(problem), place) from None
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        why = f"no {problem}" if isinstance(problem, KeyError) else str(problem)
        is_member = isinstance(document, dict) and "kind" in document
        remedy = "the trace of a member is for fsm audit --format trace" if is_member else ""
        raise InputError(f"not a line of a trace of exchanges: {why}", place, remedy) from None


def _load(at_ms: float, fields: dict[str, Any]) -> Exchange:
    name, version = str(fields.pop("api")), int(fields.pop("version"))
    api = APIS.get(name)
    request, response = fields.pop("request", None), fields.pop("response", None)
    if api is not None and api.oldest <= version <= api.newest:
        request = None if request is None else from_recorded(api.request, request, version)
        response = None if response is None else from_recorded(api.response, response, version)
    else:
        request = response = None
    connection, client_id = int(fields.pop("connection")), fields.pop("client_id")
    return Exchange(at_ms, connection, client_id, name, version, request, response=response, **fields)


def without_records(message: Any) -> Any:
    """The message; for Fetch and Produce without the records."""
    if isinstance(message, FetchResponse):
        fetched = (one._replace(partitions=_empty(one.partitions)) for one in message.responses)
        return replace(message, responses=tuple(fetched))
    if isinstance(message, ProduceRequest):
        produced = (one._replace(partition_data=_empty(one.partition_data)) for one in message.topic_data)
        return replace(message, topic_data=tuple(produced))
    return message


def _empty(partitions: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        one._replace(records=None) if isinstance(one, PartitionData) else replace(one, records=None)
        for one in partitions
    )
