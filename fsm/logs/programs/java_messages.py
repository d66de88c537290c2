"""Shared by the formats of Kafka's Java programs: rules from messages to records, partition lists, error names.

A rule is a pattern for the beginning of a message and its meaning: a kind of record, a function that returns the
records, or None for an ignored message. The client's rules are looked up by logger and first word, so that order only
matters among those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from fsm.logs.message import NO_BEARING, Message
from fsm.trace import DETAIL_LIMIT, Kind, Partition, TraceRecord, by_partition

BACKGROUND_THREADS = ("consumer_background_thread", "kafka-coordinator-heartbeat-thread | ")
"""Names of the threads that the client starts itself; the group follows the second one."""
MOST_CONTEXTS = 3
"""How many brackets of other programs may precede the client's own prefix."""


class JavaMessage(NamedTuple):
    """A message with its prefix, logger and thread parsed as written by Kafka's Java programs."""

    ts_ms: int
    logger: str
    """Class name without package; empty if the layout has none or the line was cut before it."""
    text: str
    """Without the client's prefix."""
    error: str = ""
    """First line of the stack trace: exception and its text."""
    thread: str = ""
    """`app` or `background`, if the layout prints the thread."""
    pid: str = ""
    client: str = ""
    """The name in the prefix: `Consumer`, `ShareConsumer`, ...; empty if there is none."""
    group: str = ""
    client_id: str = ""
    instance_id: str = ""
    cut: bool = False
    """The end of the line is missing."""


class Prefix(NamedTuple):
    """`[Consumer instanceId=.., clientId=.., groupId=..] `."""

    client: str
    group: str
    client_id: str
    instance_id: str


NO_PREFIX = Prefix("", "", "", "")


def parse_message(message: Message) -> JavaMessage:
    """Parses the client's prefix, after any context that others put before it (Connect: `[connector|task-0] `)."""
    text = rest = message.text
    prefix = NO_PREFIX
    for _ in range(1 + MOST_CONTEXTS):
        if not rest.startswith("["):
            break  # before a search in a long text
        inner, closed, rest = rest.partition("] ")
        if not closed:
            break
        prefix = _parse_prefix(inner)
        if prefix.client:
            text = rest
            break
    if not prefix.client and text.startswith("["):
        text = _CONTEXT.sub("", text, count=1)
    client, group, client_id, instance = prefix
    thread = _classify_thread(message.thread, group) if message.thread else ""
    logger = _get_class_name(message.logger)
    return JavaMessage(
        message.ts_ms, logger, text, message.error, thread, message.pid, client, group, client_id, instance, message.cut
    )


_CONTEXT = re.compile(
    r"\A\[[^\]\n]{1,500}\|[^\]\n]{1,60}\] (?=ConsumerConfig values:|Kafka version ?: |App info kafka\.consumer )"
)
"""The context that Connect puts before a sink's lines, also before those without the prefix of its consumer."""
_Part = TypeVar("_Part")


def _cache_short(read: Callable[[str], _Part]) -> Callable[[str], _Part]:
    """Caches the results of a function for short texts, since the same few recur."""
    known = lru_cache(maxsize=4096)(read)
    return lambda text: known(text) if len(text) <= _SHORT else read(text)


_SHORT = 500


@_cache_short
def _get_class_name(logger: str) -> str:
    """The class without its package; some layouts append the method."""
    rest, _, last = logger.rpartition(".")
    if last[:1].islower() and (owner := rest.rpartition(".")[2])[:1].isupper():
        return owner
    return last


_WIDE_GAP = re.compile(r",[ \t]{2,80}groupId=")
"""Where a line was wrapped and joined again, its second part had been indented."""


@_cache_short
def _parse_prefix(inner: str) -> Prefix:
    """Parses the text in the brackets. Ids may contain anything except `] ` and the name of the next field."""
    client, _, fields = inner[1:].partition(" ")
    if not client or "clientId=" not in fields:
        return NO_PREFIX
    before, _, ids = fields.partition("clientId=")
    client_id, _, group = _WIDE_GAP.sub(", groupId=", ids).partition(", groupId=")
    instance_id = before.removeprefix("instanceId=").removesuffix(", ")
    return Prefix(client, "" if group == "null" else group, client_id, instance_id)


def _classify_thread(name: str, group: str) -> str:
    """`background`, `app` or empty. Spring prints only the last 15 characters of a thread's name."""
    if len(name) >= 10 and any((known + group).endswith(name) for known in BACKGROUND_THREADS):
        return "background"
    return "background" if name.startswith(BACKGROUND_THREADS) else "app"


Records = Sequence[TraceRecord]
Build = Callable[[JavaMessage, "re.Match[str]"], "Records | None"]
"""The records of a message; None if it was not understood after all."""

ID = r"\S{0,300}"
"""A member id; empty before the first response of old clients."""
EPOCH = r"-?\d{1,9}"
"""Epochs and generations start at 0 and fit in 32 bits."""
LARGEST_INT = 2**31 - 1
"""Partition numbers have 32 bits."""


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    build: Build


class RuleSet(NamedTuple):
    loggers: tuple[str, ...]
    rules: tuple[Rule, ...]


Row = tuple[str, Kind | Build | None]


def compile_rules(rows: Iterable[Row], flags: re.RegexFlag = re.ASCII, **fields: Any) -> tuple[Rule, ...]:
    """The rules of these rows. Records of rows that only tell their kind have these fields."""
    return tuple(
        Rule(re.compile(pattern, flags), emit(meaning, **fields) if isinstance(meaning, Kind) else meaning or _ignore)
        for pattern, meaning in rows
    )


def _ignore(_message: JavaMessage, _match: re.Match[str]) -> Records:
    return NO_BEARING


def rule_set(loggers: tuple[str, ...], rows: Iterable[Row]) -> RuleSet:
    return RuleSet(loggers, compile_rules(rows))


def ignore(*patterns: str) -> tuple[Row, ...]:
    return tuple((pattern, None) for pattern in patterns)


def first_word(message: str) -> str:
    """The key by which the rules of a logger are looked up."""
    return message[:60].split(" ", 1)[0].split("\n", 1)[0]


def index(sets: Iterable[RuleSet]) -> Mapping[str, Mapping[str, tuple[Rule, ...]]]:
    """Rules by logger and first word."""
    out: dict[str, list[Rule]] = {}
    for own in sets:
        for logger in own.loggers:
            out.setdefault(logger, []).extend(own.rules)
    return {logger: by_word(rules) for logger, rules in out.items()}


def by_word(rules: Iterable[Rule]) -> Mapping[str, tuple[Rule, ...]]:
    """Rules by their literal first word; those without one under the empty word."""
    out: dict[str, tuple[Rule, ...]] = {}
    for one in rules:
        word = first_word(_GROUP.sub("", one.pattern.pattern, count=1))
        word = word.replace("\\", "") if _LITERAL.fullmatch(word) else ""
        out[word] = (*out.get(word, ()), one)
    return out


def of_word(rules: Mapping[str, tuple[Rule, ...]], text: str) -> tuple[Rule, ...]:
    """The rules that may match a text."""
    return rules.get(first_word(text), ()) + rules.get("", ())


_GROUP = re.compile(r"\A\(\?P<\w+>")
"""A pattern may wrap its first words in a named group."""
_LITERAL = re.compile(r"(?:[\w':-]|\\\W)+")


def record(message: JavaMessage, kind: Kind, **fields: Any) -> TraceRecord:
    """A record with the time and the identity of the message."""
    values = {
        "group": message.group,
        "client_id": message.client_id,
        "instance_id": message.instance_id,
        "thread": message.thread,
        **fields,
    }
    if "detail" in values:
        values["detail"] = values["detail"][:DETAIL_LIMIT]
    return TraceRecord(message.ts_ms, kind, **values)


def emit(kind: Kind, **fields: Any) -> Build:
    """One record; named groups of the pattern fill its fields."""

    def build(message: JavaMessage, match: re.Match[str]) -> Records:
        given = {**read_named_groups(match), **fields} if match.re.groupindex else fields
        return (record(message, kind, **given),)

    return build


def emit_error(kind: Kind) -> Build:
    """One record whose detail is the error's name, or its text if it has none."""

    def build(message: JavaMessage, match: re.Match[str]) -> Records:
        values = read_named_groups(match)
        values["detail"] = error_name(match["detail"] or message.error)
        return (record(message, kind, **values),)

    return build


def emit_partitions(kind: Kind) -> Build:
    """One record with the partitions of the pattern's group of that name."""

    def build(message: JavaMessage, match: re.Match[str]) -> Records | None:
        found = partitions(match["partitions"], message.cut)
        return None if found is None else (record(message, kind, partitions=found),)

    return build


def read_named_groups(match: re.Match[str]) -> dict[str, Any]:
    """The pattern's named groups as fields of a record."""
    found: dict[str, Any] = {k: v for k, v in match.groupdict().items() if v is not None}
    if "epoch" in found:
        found["epoch"] = int(found["epoch"])
    return found


def partitions(listing: str, cut: bool = False) -> tuple[Partition, ...] | None:
    """The partitions of `[t-0, t-1]`, or of `t-0, t-1` as printed by clients before 4.1; None if it is neither.

    If the line is known to be cut, the last partition may be incomplete (`t-1` of `t-12`) and is dropped.
    """
    listing = listing.strip()
    inner, closed = _strip_brackets(listing)
    if inner is None or not (closed or cut):
        return None
    names = inner.split(", ") if inner else []
    if not closed or (cut and not listing.startswith("[")):
        names = names[:-1]
    found = [_parse_partition(name) for name in names]
    return None if None in found else by_partition(p for p in found if p is not None)


def _strip_brackets(listing: str) -> tuple[str | None, bool]:
    """The text between the brackets, and whether both are present."""
    if not listing.startswith("["):
        return listing, True
    if listing.endswith("]"):
        return listing[1:-1], True
    inner, closed, _ = listing[1:].partition("]")
    return (None, True) if closed else (inner, False)


def _parse_partition(name: str) -> Partition | None:
    topic, _, number = name.rpartition("-")
    if not topic or len(topic) > 249 or len(number) > 10 or not (number.isdigit() and number.isascii()):
        return None
    if not _TOPIC.fullmatch(topic) or int(number) > LARGEST_INT:
        return None
    return topic, int(number)


_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_ERROR_NAME = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9_])")
_EXCEPTION = re.compile(r"(?:[a-z]\w{0,60}\.){0,20}([A-Z]\w{0,100}(?:Exception|Error))\b", re.ASCII)
_BY_TEXT = (
    ("not aware of this member", "UNKNOWN_MEMBER_ID"),
    ("is unknown", "UNKNOWN_MEMBER_ID"),
    ("fenced by another instance", "FENCED_INSTANCE_ID"),
    ("static consumer since another", "FENCED_INSTANCE_ID"),
    ("group generation id is not valid", "ILLEGAL_GENERATION"),
    ("member epoch is stale", "STALE_MEMBER_EPOCH"),
    ("stale member epoch", "STALE_MEMBER_EPOCH"),
    ("undergoing a rebalance", "REBALANCE_IN_PROGRESS"),
    ("group is rebalancing", "REBALANCE_IN_PROGRESS"),
    ("began another rebalance", "REBALANCE_IN_PROGRESS"),
    ("protocols are incompatible", "INCONSISTENT_GROUP_PROTOCOL"),
    ("not the correct coordinator", "NOT_COORDINATOR"),
    ("coordinator is loading", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("not part of an active group", "CommitFailedException"),
    ("group has already rebalanced", "CommitFailedException"),
)
"""Parts of Kafka's error texts, most specific first, and the names of the errors (Errors.java), or of the exception if
the client raises it without a request to the coordinator."""


def error_name(text: str) -> str:
    """The protocol's name of an error if the text contains or implies one, else the text itself."""
    found = _ERROR_NAME.search(text)
    if found:
        return found[0]
    for part, name in _BY_TEXT:
        if part in text:
            return name
    exception = _EXCEPTION.match(text)
    return exception[1] if exception else text


def error_text(name: str) -> str:
    """A text that `error_name` maps to this error, or the name itself."""
    return next((part for part, known in _BY_TEXT if known == name), name)
