"""Logs of KafkaJS's consumer: classic protocol, eager, no listener. Message texts of 2.2.4, logged at INFO.

`[Namespace] text` with fields, as JSON or after the text; the namespace may be in the logger's name or in a field
instead. The line of a join contains the whole assignment. Ownership ends with the rebalance itself, which names no
partitions: all of them are revoked. Connection errors are logged at ERROR for every ordinary rebalance, without a
group, and add nothing to the runner's own line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from fsm.logs import Client, Message
from fsm.logs.programs.client_facts import ClientFacts
from fsm.logs.programs.client_words import NOTHING_OWNED, Records, by_topic, number, plain, record
from fsm.trace import Kind, TraceRecord

FACTS = ClientFacts(
    name="kafkajs",
    title="KafkaJS",
    supported_protocols="classic, eager",
    ownership_lines="each join: the whole assignment",
    not_logged="a rebalance names no partitions (all end), subscriptions; a handler without heartbeats only afterwards",
    has_lost_callback=False,
    logs_subscription=False,
)

Fields = Mapping[str, Any]


def understand(message: Message) -> Records | None:
    """The records of a message of KafkaJS's consumer."""
    found = _TEXT.match(message.text)
    if found is None:
        return ()
    text, tail = found["text"], found["tail"]
    read = _MESSAGES.get(text) or (_read_crash if text.startswith("Crash: ") else None)
    if read is None:
        return None if text.startswith(_BEGINNINGS) else ()
    fields = _find_fields(message.fields, tail)
    if text in _GENERIC and "groupId" not in (fields or ()):
        return ()
    return None if fields is None else read(message, fields)


_TEXT = re.compile(
    r"(?:\[[A-Z]\w{1,40}\] )?(?P<text>[A-Z][^{\n]{1,400}?|consumer not running, exiting)(?: (?P<tail>\{.*))?\Z",
    re.DOTALL,
)


def _find_fields(fields: Fields, tail: str | None) -> Fields | None:
    """The fields of a line, wherever its layout puts them; None if there is anything else in their place."""
    if "groupId" in fields:
        return fields
    if tail:
        try:
            read = json.loads(tail)
        except (ValueError, RecursionError):
            return None
        return read if isinstance(read, dict) else None
    nested = (one for one in fields.values() if isinstance(one, Mapping) and "groupId" in one)
    return next(nested, {})


def _make_record(message: Message, fields: Fields, kind: Kind, **values: Any) -> TraceRecord:
    common = {"group": plain(fields.get("groupId")), "member_id": plain(fields.get("memberId"))}
    return record(FACTS.name, message, kind, **{**common, **values})


def _emit(kind: Kind, **values: Any) -> Callable[[Message, Fields], Records]:
    return lambda message, fields: (_make_record(message, fields, kind, **values),)


def _read_join(message: Message, fields: Fields) -> Records | None:
    """If a logger drops the fields, only the join itself is known."""
    joined = _make_record(message, fields, Kind.JOINED)
    if "memberAssignment" not in fields:
        return (joined,)
    full = by_topic(fields["memberAssignment"])
    return None if full is None else (joined, _make_record(message, fields, Kind.OWNED, full=full))


def _read_received(message: Message, fields: Fields) -> Records:
    epoch = number(fields.get("generationId"))
    return (_make_record(message, fields, Kind.SYNCED, epoch=epoch),)


def _read_rebalance(message: Message, fields: Fields) -> Records:
    return _make_record(message, fields, Kind.OWNED, full=NOTHING_OWNED), _make_record(message, fields, Kind.JOINING)


def _read_fenced(message: Message, fields: Fields) -> Records:
    fenced = _make_record(message, fields, Kind.FENCED, detail="UNKNOWN_MEMBER_ID")
    return fenced, *_read_rebalance(message, fields)


def _read_crash(message: Message, fields: Fields) -> Records:
    crash = _make_record(message, fields, Kind.ERROR, detail=message.text)
    return crash, _make_record(message, fields, Kind.OWNED, full=NOTHING_OWNED)


def _read_topics(message: Message, fields: Fields) -> Records:
    """The only line with the member's subscription."""
    topics = fields.get("topicsSubscribed")
    named = sorted({plain(one) for one in topics}) if isinstance(topics, list) else []
    return (_make_record(message, fields, Kind.SUBSCRIBED, topics=tuple(named)),) if named else ()


_GENERIC = ("Starting", "Stopped")
"""Generic words that are KafkaJS's only together with a group."""
_MESSAGES: Mapping[str, Callable[[Message, Fields], Records | None]] = {
    "Starting": _emit(Kind.STARTED, settings={"client": FACTS.name, "group.protocol": "classic"}),
    "Consumer has joined the group": _read_join,
    "Received assignment": _read_received,
    "The group is rebalancing, re-joining": _read_rebalance,
    "The coordinator is not aware of this member, re-joining the group": _read_fenced,
    "consumer not running, exiting": _emit(Kind.CLOSE_BEGIN),
    "Stopped": _emit(Kind.CLOSE_END),
    "Consumer group received unsubscribed topics": _read_topics,
}
_BEGINNINGS = tuple(f"{text} " for text in _MESSAGES if text not in _GENERIC)
"""A message that begins like this but ends differently was not understood."""

CLIENT = Client(
    FACTS.name,
    (
        b"[Consumer] ",  # a namespace is part of the message
        b"[ConsumerGroup] ",
        b"Consumer has joined the group",
        b"Consumer group received unsubscribed topics",
        b"consumer not running, exiting",
    ),
    understand,
    everyday_marks=(b"Starting", b"Stopped", b"[Runner] ", b"Received assignment", b"re-joining", b"Crash: "),
)
