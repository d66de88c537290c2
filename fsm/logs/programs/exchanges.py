"""Traces of exchanges (`fsm capture`, `fsm serve --trace`) as a log of members: what each said and was told.

One JSON object a line. A member's client id has `@wire` behind it here: what is known of it was seen on the wire, not
by its application, and its own log may stand beside. What it owns is what it says that it owns: in heartbeats of the
consumer protocol and as it joins a classic group; in a classic generation it is what it was given. Whoever is told
that it is no member any more owns nothing from there on, as far as the wire can tell. Callbacks, polls and ends of
processes are not seen. Requests that could not be read, or were not answered, tell what was asked.
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
from fsm.logs.programs.client_words import INSTANCE_TAKEN, NOTHING_OWNED, THROWN_OUT
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
    speaks="classic, KIP-848",
    tells="what a member says that it owns, or was given in a generation",
    untold="callbacks, polls, the end of a process",
    mark=WIRE,
    protocols=MappingProxyType({Kind.TARGET: "consumer", Kind.SYNCED: "classic"}),
    closes_quietly=True,
    close_calls_back_quietly=True,
    begins_with=Kind.JOINING,
    one_thread=True,
    tells_return=False,
    tells_loss=False,
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
"""Errors after which a member does not come back by itself."""
ROUTINE = {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}
Records = Iterator[TraceRecord]
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)


class _Seen:
    """One exchange: makes records of its request and of its answer."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        api, version = APIS[document["api"]], document["version"]
        self.request = from_recorded(api.request, document["request"], version)
        response = document.get("response")
        self.response: Any = None if response is None else from_recorded(api.response, response, version)
        self.asked_ms = _time(document["at_ms"])
        self.answered_ms = None if document.get("answered_ms") is None else _time(document["answered_ms"])
        self.client_id = f"{document['client_id'] or ''}{WIRE}"

    def ask(self, kind: Kind, **about: Any) -> TraceRecord:
        """What the request tells."""
        return self._record(self.asked_ms, kind, about)

    def tell(self, kind: Kind, **about: Any) -> TraceRecord:
        """What the answer tells."""
        return self._record(self.asked_ms if self.answered_ms is None else self.answered_ms, kind, about)

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

    @property
    def is_answered(self) -> bool:
        """Whether an answer was sent that could be read."""
        return self.response is not None and self.answered_ms is not None

    def tell_refusal(self) -> Records:
        """What an answer with an error tells."""
        code = self.response.error_code
        name = code.name
        if code in ROUTINE:
            return
        if name in THROWN_OUT:
            yield self.tell(Kind.FENCED, detail=name)
            yield self.tell(Kind.OWNED, full=NOTHING_OWNED)
        else:
            yield self.tell(Kind.FATAL if name in FATAL else Kind.ERROR, detail=name)


def _heartbeat(seen: _Seen) -> Records:
    request = seen.request
    epoch = request.member_epoch
    if epoch == 0:
        yield seen.ask(Kind.JOINING)
    if request.subscribed_topic_names is not None or request.subscribed_topic_regex:
        topics = tuple(sorted(request.subscribed_topic_names or ()))
        yield seen.ask(Kind.SUBSCRIBED, topics=topics, detail=request.subscribed_topic_regex or "")
    if epoch < 0:
        yield seen.ask(Kind.OWNED, full=NOTHING_OWNED)
        yield seen.ask(Kind.LEAVE_SENT)
    elif request.topic_partitions is not None:
        yield seen.ask(Kind.OWNED, full=_by_id(request.topic_partitions))
    if not seen.is_answered:
        return
    response = seen.response
    if response.error_code:
        yield from seen.tell_refusal()
    elif epoch < 0:
        yield seen.tell(Kind.LEFT)
    else:
        fields = {"member_id": response.member_id or request.member_id, "epoch": response.member_epoch}
        yield seen.tell(Kind.JOINED if epoch == 0 else Kind.HEARTBEAT_OK, **fields)
        if response.assignment is not None:
            yield seen.tell(Kind.TARGET, **fields, full=_by_id(response.assignment))


def _join(seen: _Seen) -> Records:
    yield seen.ask(Kind.JOINING)
    if seen.request.protocol_type == "consumer" and seen.request.protocols:
        subscription = decode_subscription(seen.request.protocols[0].metadata)
        yield seen.ask(Kind.SUBSCRIBED, topics=tuple(sorted(subscription.topics)))
        yield seen.ask(Kind.OWNED, full=subscription.owned_partitions)
    if seen.is_answered:
        if seen.response.error_code:
            yield from seen.tell_refusal()
        else:
            yield seen.tell(Kind.JOINED, member_id=seen.response.member_id, epoch=seen.response.generation_id)


def _sync(seen: _Seen) -> Records:
    if not seen.is_answered:
        return
    if seen.response.error_code:
        yield from seen.tell_refusal()
        return
    yield seen.tell(Kind.SYNCED, epoch=seen.request.generation_id)
    if seen.request.protocol_type in ("consumer", None):
        data = seen.response.assignment
        yield seen.tell(Kind.OWNED, full=decode_assignment(data).partitions if data else NOTHING_OWNED)


def _beat(seen: _Seen) -> Records:
    if seen.is_answered:
        if seen.response.error_code:
            yield from seen.tell_refusal()
        else:
            yield seen.tell(Kind.HEARTBEAT_OK, epoch=seen.request.generation_id)


def _leave(seen: _Seen) -> Records:
    """A member leaves, or somebody else removes members by their instances."""
    for member_id, instance_id, reason in seen.request.members or ((seen.request.member_id, None, None),):
        about = {"member_id": member_id, "instance_id": instance_id or "", "detail": reason or ""}
        if not member_id:
            yield seen.tell(Kind.LEFT, **about, client_id="", thread=COORDINATOR)
            continue
        yield seen.ask(Kind.OWNED, **about, full=NOTHING_OWNED)
        yield seen.ask(Kind.LEAVE_SENT, **about)
        if seen.is_answered and not seen.response.error_code:
            yield seen.tell(Kind.LEFT, **about)


def _commit(seen: _Seen) -> Records:
    if seen.is_answered and seen.request.member_id:
        codes = {one.error_code for topic in seen.response.topics for one in topic.partitions}
        if wrong := sorted(codes - {ErrorCode.NONE}):
            yield seen.tell(Kind.COMMIT_FAILED, detail=wrong[0].name)


def _metadata(document: Mapping[str, Any]) -> tuple[TraceRecord, ...]:
    """The names of topics by their ids."""
    response = from_recorded(APIS["Metadata"].response, document["response"], document["version"])
    known = {one.topic_id: one.name for one in response.topics if one.name and one.topic_id != NO_TOPIC_ID}
    return _names(document, known)


def _names(document: Mapping[str, Any], known: dict[str, str]) -> tuple[TraceRecord, ...]:
    if not all(_TOPIC.fullmatch(text) for pair in known.items() for text in pair):
        raise ValueError("no names of topics by their ids")
    if not known:
        return ()
    return (TraceRecord(_time(document["at_ms"]), Kind.TOPIC_NAMES, thread=COORDINATOR, settings=known),)


def _time(value: float) -> int:
    if not 0 <= value < 1 << 53:
        raise ValueError(value)
    return round(value)


def _check(epoch: int, owned: Iterable[Partition]) -> None:
    """Numbers have 32 bits and topics are named as Kafka allows; a longer name, beside many partitions, is a flood."""
    if not all(-(1 << 31) <= number < 1 << 31 for number in (epoch, *(number for _, number in owned))):
        raise ValueError("a number of more than 32 bits")
    if not all(_TOPIC.fullmatch(topic.removeprefix("id:")) for topic in {topic for topic, _ in owned}):
        raise ValueError("no topic")


def _by_id(assignment: TopicPartitions) -> tuple[Partition, ...]:
    """Behind `id:`, as topics stand whose names are not known."""
    return by_partition((f"id:{topic_id}", number) for topic_id, numbers in assignment for number in numbers)


_READERS: Mapping[str, Callable[[_Seen], Records]] = {
    "ConsumerGroupHeartbeat": _heartbeat,
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _beat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
}


def _parse(entry: str, _zone: tzinfo) -> tuple[TraceRecord, ...] | None:
    try:
        line = entry.partition("\n")[0]
        document = json.loads(line)
        if "\\ud" in line.lower():
            json.dumps(document, ensure_ascii=False).encode()  # half of a character, which JSON can escape, is no text
        if document["event"] == "topics":
            return _names(document, {topic_id: name for name, topic_id, *_ in document["topics"]})
        if document["api"] == "Metadata":
            return _metadata(document) if document.get("response") else ()
        if document["api"] not in _READERS or document.get("request") is None:
            return ()
        return tuple(_READERS[document["api"]](_Seen(document)))
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
