"""Recorded exchanges (`fsm capture`, `fsm serve --trace`) as a log of members: their requests and the responses.

One JSON object per line. A member's client id gets the suffix `@wire`: its state is known from the wire, not from its
application, and its own log may be read alongside. Ownership is what the member reports: in heartbeats of the consumer
protocol and in the JoinGroup of a classic group; within a classic generation it is the assignment it received. A member
that is rejected owns nothing from there on, as far as the wire shows. Callbacks, polls and ends of processes are not
visible. If a response is missing or could not be decoded, only the request is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from types import MappingProxyType
from typing import Any

from fsm.errors import FsmError
from fsm.logs import Format
from fsm.logs.programs.client_facts import ClientFacts
from fsm.logs.programs.client_words import FENCING_ERRORS, INSTANCE_TAKEN, NOTHING_OWNED
from fsm.protocol.assignment import NO_TOPIC_ID, TopicPartitions
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import from_recorded
from fsm.protocol.messages import APIS
from fsm.trace import DETAIL_LIMIT, Kind, Partition, TraceRecord, by_partition

WIRE = "@wire"
FACTS = ClientFacts(
    name="wire",
    title="any, on the wire",
    supported_protocols="classic, KIP-848",
    ownership_lines="what a member says that it owns, or was given in a generation",
    not_logged="callbacks, polls, the end of a process",
    mark=WIRE,
    protocols=MappingProxyType({Kind.TARGET: "consumer", Kind.SYNCED: "classic"}),
    close_is_unlogged=True,
    close_callback_is_unlogged=True,
    begins_with=Kind.JOINING,
    one_thread=True,
    shows_callback_return=False,
    has_lost_callback=False,
)
COORDINATOR = "coordinator"
FATAL = INSTANCE_TAKEN | {
    "UNSUPPORTED_ASSIGNOR",
    "GROUP_MAX_SIZE_REACHED",
    "INVALID_REQUEST",
    "GROUP_AUTHORIZATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "INCONSISTENT_GROUP_PROTOCOL",
    "UNSUPPORTED_VERSION",
}
"""Errors after which a member does not rejoin by itself."""
ROUTINE = {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}
Records = Iterator[TraceRecord]
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)


class _Exchange:
    """One exchange; creates records for its request and its response."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        api, version = APIS[document["api"]], document["version"]
        self.request = from_recorded(api.request, document["request"], version)
        response = document.get("response")
        self.response: Any = None if response is None else from_recorded(api.response, response, version)
        self.sent_ms = _parse_time(document["at_ms"])
        self.answered_ms = None if document.get("answered_ms") is None else _parse_time(document["answered_ms"])
        is_answered = self.response is not None and self.answered_ms is not None
        self.error: ErrorCode = getattr(self.response, "error_code", ErrorCode.NONE) if is_answered else ErrorCode.NONE
        self.has_succeeded = is_answered and not self.error
        """There is a response that could be decoded, without an error."""
        self.client_id = f"{document['client_id'] or ''}{WIRE}"

    def record_request(self, kind: Kind, **about: Any) -> TraceRecord:
        """A record at the time of the request."""
        return self._record(self.sent_ms, kind, about)

    def record_response(self, kind: Kind, **about: Any) -> TraceRecord:
        """A record at the time of the response."""
        return self._record(self.sent_ms if self.answered_ms is None else self.answered_ms, kind, about)

    def _record(self, at_ms: int, kind: Kind, about: Mapping[str, Any]) -> TraceRecord:
        request = self.request
        fields = {
            "group": request.group_id,
            "client_id": self.client_id,
            "member_id": getattr(request, "member_id", ""),
            "instance_id": getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None) or "",
            **about,
        }
        _check(about.get("epoch", 0), about.get("full", NOTHING_OWNED))
        return TraceRecord(at_ms, kind, **{**fields, "detail": fields.get("detail", "")[:DETAIL_LIMIT]})

    def record_error(self) -> Records:
        """The records of a response with an error."""
        name = self.error.name
        if self.error in ROUTINE:
            return
        if name in FENCING_ERRORS:
            yield self.record_response(Kind.FENCED, detail=name)
            yield self.record_response(Kind.OWNED, full=NOTHING_OWNED)
        else:
            yield self.record_response(Kind.FATAL if name in FATAL else Kind.ERROR, detail=name)


def _read_heartbeat(exchange: _Exchange) -> Records:
    request = exchange.request
    epoch = request.member_epoch
    if epoch == 0:
        yield exchange.record_request(Kind.JOINING)
    if request.subscribed_topic_names is not None or request.subscribed_topic_regex:
        topics = tuple(sorted(request.subscribed_topic_names or ()))
        yield exchange.record_request(Kind.SUBSCRIBED, topics=topics, detail=request.subscribed_topic_regex or "")
    if epoch < 0:
        yield exchange.record_request(Kind.OWNED, full=NOTHING_OWNED)
        yield exchange.record_request(Kind.LEAVE_SENT)
    elif request.topic_partitions is not None:
        yield exchange.record_request(Kind.OWNED, full=_parse_by_id(request.topic_partitions))
    if not exchange.has_succeeded:
        return
    response = exchange.response
    if epoch < 0:
        yield exchange.record_response(Kind.LEFT)
    else:
        fields = {"member_id": response.member_id or request.member_id, "epoch": response.member_epoch}
        yield exchange.record_response(Kind.JOINED if epoch == 0 else Kind.HEARTBEAT_OK, **fields)
        if response.assignment is not None:
            yield exchange.record_response(Kind.TARGET, **fields, full=_parse_by_id(response.assignment))


def _read_join(exchange: _Exchange) -> Records:
    yield exchange.record_request(Kind.JOINING)
    if exchange.request.protocol_type == "consumer" and exchange.request.protocols:
        subscription = decode_subscription(exchange.request.protocols[0].metadata)
        yield exchange.record_request(Kind.SUBSCRIBED, topics=tuple(sorted(subscription.topics)))
        yield exchange.record_request(Kind.OWNED, full=subscription.owned_partitions)
    if exchange.has_succeeded:
        response = exchange.response
        yield exchange.record_response(Kind.JOINED, member_id=response.member_id, epoch=response.generation_id)


def _read_sync(exchange: _Exchange) -> Records:
    if not exchange.has_succeeded:
        return
    yield exchange.record_response(Kind.SYNCED, epoch=exchange.request.generation_id)
    if exchange.request.protocol_type in ("consumer", None):
        data = exchange.response.assignment
        yield exchange.record_response(Kind.OWNED, full=decode_assignment(data).partitions if data else NOTHING_OWNED)


def _read_classic_heartbeat(exchange: _Exchange) -> Records:
    if exchange.has_succeeded:
        yield exchange.record_response(Kind.HEARTBEAT_OK, epoch=exchange.request.generation_id)


def _read_leave(exchange: _Exchange) -> Records:
    """A member leaves, or an admin client removes members by their instance ids."""
    for member_id, instance_id, reason in exchange.request.members or ((exchange.request.member_id, None, None),):
        about = {"member_id": member_id, "instance_id": instance_id or "", "detail": reason or ""}
        if not member_id:
            yield exchange.record_response(Kind.LEFT, **about, client_id="", thread=COORDINATOR)
            continue
        yield exchange.record_request(Kind.OWNED, **about, full=NOTHING_OWNED)
        yield exchange.record_request(Kind.LEAVE_SENT, **about)
        if exchange.has_succeeded:
            yield exchange.record_response(Kind.LEFT, **about)


def _read_commit(exchange: _Exchange) -> Records:
    if exchange.has_succeeded and exchange.request.member_id:
        codes = {one.error_code for topic in exchange.response.topics for one in topic.partitions}
        if wrong := sorted(codes - {ErrorCode.NONE}):
            yield exchange.record_response(Kind.COMMIT_FAILED, detail=wrong[0].name)


def _read_metadata(document: Mapping[str, Any]) -> tuple[TraceRecord, ...]:
    """The names of topics by their ids."""
    response = from_recorded(APIS["Metadata"].response, document["response"], document["version"])
    known = {one.topic_id: one.name for one in response.topics if one.name and one.topic_id != NO_TOPIC_ID}
    return _read_names(document, known)


def _read_names(document: Mapping[str, Any], known: dict[str, str]) -> tuple[TraceRecord, ...]:
    if not all(_TOPIC.fullmatch(text) for pair in known.items() for text in pair):
        raise ValueError("no names of topics by their ids")
    if not known:
        return ()
    return (TraceRecord(_parse_time(document["at_ms"]), Kind.TOPIC_NAMES, thread=COORDINATOR, settings=known),)


def _parse_time(value: float) -> int:
    if not 0 <= value < 1 << 53:
        raise ValueError(value)
    return round(value)


def _check(epoch: int, owned: Iterable[Partition]) -> None:
    """Raises ValueError unless numbers fit in 32 bits and topic names are valid. A longer name would be repeated for
    each of many partitions."""
    if not all(-(1 << 31) <= number < 1 << 31 for number in (epoch, *(number for _, number in owned))):
        raise ValueError("a number of more than 32 bits")
    if not all(_TOPIC.fullmatch(topic.removeprefix("id:")) for topic in {topic for topic, _ in owned}):
        raise ValueError("no topic")


def _parse_by_id(assignment: TopicPartitions) -> tuple[Partition, ...]:
    """With the prefix `id:`, which marks topics of unknown name."""
    return by_partition((f"id:{topic_id}", number) for topic_id, numbers in assignment for number in numbers)


_READERS: Mapping[str, Callable[[_Exchange], Records]] = {
    "ConsumerGroupHeartbeat": _read_heartbeat,
    "JoinGroup": _read_join,
    "SyncGroup": _read_sync,
    "Heartbeat": _read_classic_heartbeat,
    "LeaveGroup": _read_leave,
    "OffsetCommit": _read_commit,
}


def _parse(entry: str, _zone: tzinfo) -> tuple[TraceRecord, ...] | None:
    try:
        line = entry.partition("\n")[0]
        document = json.loads(line)
        if "\\ud" in line.lower():
            json.dumps(document, ensure_ascii=False).encode()  # raises for a lone surrogate
        if document["event"] == "topics":
            return _read_names(document, {topic_id: name for name, topic_id, *_ in document["topics"]})
        if document["api"] == "Metadata":
            return _read_metadata(document) if document.get("response") else ()
        if document["api"] not in _READERS or document.get("request") is None:
            return ()
        exchange = _Exchange(document)
        records = tuple(_READERS[document["api"]](exchange))
        # A member that leaves does not wait for an answer.
        return records if document["api"] == "LeaveGroup" else (*records, *exchange.record_error())
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, FsmError):
        return None


FORMATS = (
    Format(
        name="exchanges",
        layout="json",
        first=b"{",
        header=re.compile(rb'\{"event": ?"\w{1,40}", ?"at_ms": ?\d'),
        candidate=re.compile(
            rb'"api": ?"(?:ConsumerGroupHeartbeat|JoinGroup|SyncGroup|Heartbeat|LeaveGroup|OffsetCommit|Metadata)"'
            rb'|\A\{"event": ?"topics"'
        ),
        parse=_parse,
        reach=64,
    ),
)
