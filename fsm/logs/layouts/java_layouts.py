"""The default layouts of Java clients: time, class, thread and message.

There are three: Kafka's log4j pattern `[%d] %p %m (%c)%n`, Spring Boot's console pattern, and JSON with the field names
of the Elastic Common Schema. This module does not interpret messages. Nothing raises, whatever the input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from operator import attrgetter
from typing import Any

from fsm.logs import Client, Message
from fsm.logs.layouts.ends import understand
from fsm.logs.layouts.fields import flatten, text_of
from fsm.logs.layouts.headers import find_program, name_program
from fsm.logs.layouts.stamps import parse_zone
from fsm.logs.reading.entries import LINE_LIMIT
from fsm.trace import TraceRecord

LEVELS = r"(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"


def kafka(entry: str, zone: tzinfo) -> Message | None:
    """An entry of Kafka's log4j pattern: the logger follows the message, and a stack trace follows the logger. None if
    anything else follows, which indicates another pattern."""
    head = _KAFKA_HEAD.match(entry)
    if head is None:
        return None
    start = entry.find(_KAFKA_PACKAGE, head.end())  # faster than a search for the pattern
    start = start if start >= 0 else entry.find(_SCALA_PACKAGE, head.end())
    logger = _KAFKA_LOGGER.search(entry, start) if start >= 0 else None
    minute, seconds, milliseconds, level = head.groups()
    ts_ms = _compute_ms(minute, seconds, milliseconds, zone)
    if logger is None:
        return None if has_more(entry) else Message(ts_ms, entry[head.end() :], level, cut=True)
    text = entry[head.end() : logger.start()]
    error = _get_first_line(entry[logger.end() :]) if logger.end() < len(entry) else ""
    return Message(ts_ms, text, level, logger[1], "", error)


def has_more(entry: str) -> bool:
    """Whether text follows the logger in an entry that begins like one of Kafka's log4j pattern."""
    return (
        _KAFKA_HEAD.match(entry) is not None
        and _KAFKA_LOGGER.search(entry) is None
        and _KAFKA_CLASS.search(entry) is not None
    )


def spring(entry: str, zone: tzinfo) -> Message | None:
    """An entry of Spring Boot's console pattern; `zone` applies to a date without an offset."""
    head = _SPRING_HEAD.match(entry)
    if head is None:
        return None
    text, error = without_trace(entry[head.end() :])
    cut = len(entry) > LINE_LIMIT // 4 and len(entry.encode("utf-8", "replace")) >= LINE_LIMIT
    return Message(_parse_iso(entry, zone), text, head[1], head[4], head[3].strip(), error, head[2], cut=cut)


def ecs(entry: str, zone: tzinfo) -> Message | None:
    """A JSON line; dotted keys and nested objects are equivalent."""
    fields = _parse_json(entry.partition("\n")[0])
    stamp, text, logger = (_get_text(fields, name) for name in ("@timestamp", "message", "log.logger"))
    ts_ms = _parse_iso(stamp, zone)
    if not stamp or not logger:
        return None
    error = _get_first_line(_get_text(fields, "error.stack_trace")) or _get_text(fields, "error.type")
    level, thread, pid = (_get_text(fields, name) for name in ("log.level", "process.thread.name", "process.pid"))
    return Message(ts_ms, text, level, logger, thread, error, pid, fields)


def find_ecs_program(entry: str) -> str:
    """The process that printed a JSON line, by its fields."""
    values = flatten(_parse_json(entry.partition("\n")[0]))
    names = find_program(values)
    return name_program(" ".join(text_of(values[path]) for path in names.places).strip(), names.is_certain)


def kafka_line(message: Message) -> str:
    """The entry from which `kafka` reads the message, in UTC."""
    when = datetime.fromtimestamp(message.ts_ms // 1000, UTC)
    error = f"{message.error}\n" if message.error else ""
    stamp = f"{when:%Y-%m-%d %H:%M:%S},{message.ts_ms % 1000:03}"
    return f"[{stamp}] {message.level} {message.text} ({message.logger})\n{error}"


_KAFKA_TIME = r"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d),(\d{3})\]"
_KAFKA_HEAD = re.compile(_KAFKA_TIME + rf" ({LEVELS}) {{1,2}}", re.ASCII)
_KAFKA_PACKAGE, _SCALA_PACKAGE = " (org.apache.kafka.", " (kafka."
_KAFKA_CLASS = re.compile(r" \(((?:org\.apache\.)?kafka\.[\w.$]{1,200})(?::\d{1,6})?\)", re.ASCII)
_KAFKA_LOGGER = re.compile(_KAFKA_CLASS.pattern + r"(?=\n|\Z)", re.ASCII)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?(?![\d:])", re.ASCII)
_SPRING_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}(?:Z|[+-]\d\d:?\d\d)?"
_SPRING_HEAD = re.compile(
    _SPRING_TIME + rf" {{1,3}}({LEVELS}) (\d{{1,10}}) --- "
    r"(?:\[[^\]\n]{0,120}\] ?){0,2}\[([^\]\n]{0,120})\] (\S{1,120}) {0,60}: ",
    re.ASCII,
)
_TRACE = re.compile(r"\n([A-Za-z_][\w.$]{0,200}(?:Exception|Error|Throwable|Failure)(?:: [^\n]*)?)(?=\n|\Z)", re.ASCII)

KAFKA_HEADER = re.compile((_KAFKA_TIME + f" {LEVELS} ").encode())
SPRING_HEADER = re.compile((_SPRING_TIME + rf" {{1,3}}{LEVELS} \d{{1,10}} --- \[").encode())
KAFKA_REACH, SPRING_REACH, ECS_REACH = 32, 54, 18
"""The most bytes that the headers read."""
ECS_HEADER = re.compile(rb'\{ ?"@timestamp" ?: ?"')


@lru_cache(maxsize=4096)
def _parse_minute(minute: str, zone: tzinfo) -> int | None:
    """Epoch milliseconds of `2026-11-21 07:55` in a zone, cached per minute."""
    try:
        return int(datetime.fromisoformat(minute).replace(tzinfo=zone).timestamp()) * 1000
    except (ValueError, OverflowError):
        return None


def _compute_ms(minute: str, seconds: str, milliseconds: str, zone: tzinfo) -> int:
    start = _parse_minute(minute, zone)
    return _NO_TIME if start is None or seconds > "59" else start + int(seconds) * 1000 + int(milliseconds)


def _parse_iso(text: str, zone: tzinfo) -> int:
    found = _ISO.match(text)
    return _read_stamp(found, zone) if found else _NO_TIME


def _read_stamp(stamp: re.Match[str], zone: tzinfo) -> int:
    day, minute, seconds, fraction, offset = stamp.groups()
    place = parse_zone(offset) if offset else zone
    return _NO_TIME if place is None else _compute_ms(f"{day} {minute}", seconds, f"{fraction or ''}000"[:3], place)


_NO_TIME = -(1 << 62)
"""The result for an invalid timestamp; the entry is dropped."""


def without_trace(text: str) -> tuple[str, str]:
    found = _TRACE.search(text) if "\n" in text else None
    return (text[: found.start()], found[1]) if found else (text, "")


def _get_first_line(text: str) -> str:
    return text.strip("\n").partition("\n")[0]


def _parse_json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _get_text(fields: dict[str, Any], name: str) -> str:
    """The field as text, with a dotted name or in nested objects; empty if it is missing or neither text nor number."""
    value: Any = fields.get(name)
    if value is None:
        value = fields
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    return text_of(value)


Layout = Callable[[str, tzinfo], Message | None]
"""The signature of `kafka`, `spring` and `ecs`."""


def reading(layout: Layout, client: Client) -> Callable[[str, tzinfo], Sequence[TraceRecord] | None]:
    """The `Format.parse` of a client in a layout.

    The meaning of a message does not depend on its timestamp, and clients repeat themselves: the records of short texts
    are cached.
    """
    known: dict[str, Sequence[tuple[Any, ...]]] = {}

    def parse(entry: str, zone: tzinfo) -> Sequence[TraceRecord] | None:
        stamp = _FIRST_STAMP.match(entry) if len(entry) <= _SHORT else None
        behind = entry[stamp.end() :] if stamp else ""
        if stamp and behind in known:
            ts_ms = _read_stamp(stamp, zone)
            return None if ts_ms == _NO_TIME else tuple([TraceRecord(ts_ms, *values) for values in known[behind]])
        message = layout(entry, zone)
        found = None if message is None else understand(client, message)
        if not found or message is None:
            return found
        if message.cut and len(entry) < LINE_LIMIT // 4:
            return None  # a collector cut it, and nothing else tells so
        if message.ts_ms == _NO_TIME:
            return None
        if stamp:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[behind] = [_OTHER_FIELDS(record) for record in found]
        return found

    return parse


_FIRST_STAMP = re.compile(r"\[?" + _ISO.pattern, re.ASCII)
_OTHER_FIELDS = attrgetter(*TraceRecord.__match_args__[1:])
_SHORT, _MOST_KNOWN = 800, 4096
