"""The layouts in which Java clients print, taken apart: when, by which class and thread, about which client, what.

Three are read: Kafka's own log4j pattern `[%d] %p %m (%c)%n`, Spring Boot's console line, and JSON with the field names
of the Elastic Common Schema. What the message means is not known here. Nothing raises, whatever the bytes were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from fsm.logs.entries import LINE_LIMIT

LEVELS = r"(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
BACKGROUND_THREADS = ("consumer_background_thread", "kafka-coordinator-heartbeat-thread | ")
"""Names of the threads that the client starts itself; the second one is followed by the group."""


class Message(NamedTuple):
    """One log event of one class."""

    ts_ms: int
    logger: str
    """Class name without package; empty where the line was cut before it."""
    text: str
    """Without the client's prefix, the logger and the stack trace."""
    error: str = ""
    """First line of the stack trace: exception and its text."""
    thread: str = ""
    """`app` or `background`, where the layout prints the thread."""
    pid: str = ""
    client: str = ""
    """What the prefix calls itself: `Consumer`, `ShareConsumer`, ...; empty where there is none."""
    group: str = ""
    client_id: str = ""
    instance_id: str = ""
    cut: bool = False
    """The end of the line is missing."""


class Prefix(NamedTuple):
    """`[Consumer instanceId=.., clientId=.., groupId=..] ` and what follows it."""

    client: str
    group: str
    client_id: str
    instance_id: str
    rest: str


def kafka(entry: str, zone: tzinfo) -> Message | None:
    """An entry of Kafka's log4j pattern. The logger stands behind the message, a stack trace behind the logger."""
    head = _KAFKA_HEAD.match(entry)
    start = head and _minute_ms(head[1], zone)
    if head is None or start is None:
        return None
    logger = _KAFKA_LOGGER.search(entry, head.end())
    ts_ms = start + int(head[2]) * 1000 + int(head[3])
    prefix = _prefix(entry[head.end() : logger.start() if logger else len(entry)])
    if logger is None:
        return _message(ts_ms, "", prefix, cut=True)
    return _message(ts_ms, logger[1], prefix, error=_first_line(entry[logger.end() :]))


def spring(entry: str, zone: tzinfo) -> Message | None:
    """An entry of Spring Boot's console pattern; a date without an offset is in `zone`."""
    head = _SPRING_HEAD.match(entry)
    ts_ms = _iso_ms(entry, zone) if head else None
    if head is None or ts_ms is None:
        return None
    text, error = _without_trace(entry[head.end() :])
    cut = len(entry) > LINE_LIMIT // 4 and len(entry.encode("utf-8", "replace")) >= LINE_LIMIT
    return _message(ts_ms, head[3], _prefix(text), error=error, thread=head[2].strip(), pid=head[1], cut=cut)


def ecs(entry: str, zone: tzinfo) -> Message | None:
    """A JSON line; dotted keys and nested objects are the same field."""
    fields = _json_object(entry.partition("\n")[0])
    stamp, text, logger = (_text(fields, name) for name in ("@timestamp", "message", "log.logger"))
    ts_ms = _iso_ms(stamp, zone)
    if ts_ms is None or not logger:
        return None
    error = _first_line(_text(fields, "error.stack_trace")) or _text(fields, "error.type")
    thread = _text(fields, "process.thread.name")
    return _message(ts_ms, logger, _prefix(text), error=error, thread=thread, pid=_text(fields, "process.pid"))


def _message(
    ts_ms: int, logger: str, prefix: Prefix, *, error: str = "", thread: str = "", pid: str = "", cut: bool = False
) -> Message:
    return Message(
        ts_ms,
        logger.rpartition(".")[2],
        prefix.rest,
        error,
        _thread(thread, prefix.group),
        pid,
        prefix.client,
        prefix.group,
        prefix.client_id,
        prefix.instance_id,
        cut,
    )


_KAFKA_TIME = r"\[(\d{4}-\d\d-\d\d \d\d:\d\d):([0-5]\d),(\d{3})\]"
_KAFKA_HEAD = re.compile(_KAFKA_TIME + f" {LEVELS} {{1,2}}", re.ASCII)
_KAFKA_LOGGER = re.compile(r" \((org\.apache\.kafka\.[\w.$]{1,200})(?::\d{1,6})?\)(?=\n|\Z)", re.ASCII)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d):([0-5]\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?(?![\d:])", re.ASCII)
_SPRING_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:[0-5]\d[.,]\d{3}(?:Z|[+-]\d\d:?\d\d)?"
_SPRING_HEAD = re.compile(
    _SPRING_TIME + rf" {{1,3}}{LEVELS} (\d{{1,10}}) --- "
    r"(?:\[[^\]\n]{0,120}\] ?){0,2}\[([^\]\n]{0,120})\] (\S{1,120}) {0,60}: ",
    re.ASCII,
)
_TRACE = re.compile(r"\n([A-Za-z_][\w.$]{0,200}(?:Exception|Error|Throwable|Failure)(?:: [^\n]*)?)(?=\n|\Z)", re.ASCII)

KAFKA_HEADER = re.compile(_KAFKA_HEAD.pattern.encode())
SPRING_HEADER = re.compile((_SPRING_TIME + rf" {{1,3}}{LEVELS} \d{{1,10}} --- \[").encode())
ECS_HEADER = re.compile(rb'\{ ?"@timestamp" ?: ?"')


@lru_cache(maxsize=4096)
def _minute_ms(minute: str, zone: tzinfo) -> int | None:
    """Epoch milliseconds of `2026-11-21 07:55` in a zone: one look-up for all the lines of a minute."""
    try:
        return int(datetime.fromisoformat(minute).replace(tzinfo=zone).timestamp()) * 1000
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=256)
def _offset(text: str) -> tzinfo | None:
    """The zone of `Z`, `+02:00` or `-0330`; None for an impossible one."""
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        return None
    return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1))


def _iso_ms(text: str, zone: tzinfo) -> int | None:
    found = _ISO.match(text)
    place = (_offset(found[5]) if found[5] else zone) if found else None
    start = _minute_ms(f"{found[1]} {found[2]}", place) if found and place else None
    if found is None or start is None:
        return None
    return start + int(found[3]) * 1000 + int(((found[4] or "") + "000")[:3])


MOST_CONTEXTS = 3


def _prefix(text: str) -> Prefix:
    """The client's prefix, behind what other programs put before it, such as Connect's `[connector|task-0] `."""
    found, rest = _client(text), text
    for _ in range(MOST_CONTEXTS):
        _, closed, rest = rest.partition("] ")
        if found.client or not closed or not rest.startswith("["):
            break
        found = _client(rest)
    return found if found.client else Prefix("", "", "", "", text)


def _client(text: str) -> Prefix:
    """The prefix that the text begins with. Ids may hold anything but `] ` and the next field's name."""
    inner, closed, rest = text[1:].partition("] ") if text.startswith("[") else ("", "", "")
    client, _, fields = inner.partition(" ")
    if not closed or "clientId=" not in fields:
        return Prefix("", "", "", "", text)
    before, _, ids = fields.partition("clientId=")
    client_id, _, group = ids.partition(", groupId=")
    instance_id = before.removeprefix("instanceId=").removesuffix(", ")
    return Prefix(client, "" if group == "null" else group, client_id, instance_id, rest)


def _thread(name: str, group: str) -> str:
    """Spring keeps only the last 15 characters of a thread's name."""
    if not name:
        return ""
    if len(name) >= 10 and any((known + group).endswith(name) for known in BACKGROUND_THREADS):
        return "background"
    return "background" if name.startswith(BACKGROUND_THREADS) else "app"


def _without_trace(text: str) -> tuple[str, str]:
    found = _TRACE.search(text) if "\n" in text else None
    return (text[: found.start()], found[1]) if found else (text, "")


def _first_line(text: str) -> str:
    return text.strip("\n").partition("\n")[0]


def _json_object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(fields: dict[str, Any], name: str) -> str:
    """The field as text, spelled with dots or as nested objects; empty where it is missing or of another type."""
    value: Any = fields.get(name)
    if value is None:
        value = fields
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if type(value) is int and abs(value) < 1 << 63:
        return str(value)
    return _writable(value) if isinstance(value, str) else ""


def _writable(text: str) -> str:
    """JSON can spell half a surrogate pair, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


Layout = Callable[[str, tzinfo], Message | None]
"""What `kafka`, `spring` and `ecs` are."""
