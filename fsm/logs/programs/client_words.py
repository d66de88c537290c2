"""Shared by the modules of clients that log prose: rules from messages to records, and parsers for printed values.

A rule is a pattern for the beginning of a message and its meaning: a kind of record, several of them, a function that
builds the records, or None for an irrelevant message. Named groups of the pattern become fields of the record. The
lines of these clients have no client id; their records have the client's name instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fsm.logs.message import Message
from fsm.protocol.error_codes import ErrorCode
from fsm.trace import DETAIL_LIMIT, Kind, Partition, TraceRecord, by_partition

Records = Sequence[TraceRecord]
Values = Mapping[str, Any]
Build = Callable[[str, Message, Values], "Records | None"]
"""The records of a client's message, given the named groups of its pattern; None if it was not understood after all."""
Meaning = Kind | tuple[Kind, ...] | Build | None

NOTHING_OWNED: tuple[Partition, ...] = ()
"""`full` of a record after which the application owns nothing, whatever it owned before."""
FENCING_ERRORS = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"})
"""Errors with which a coordinator rejects a member that is no longer part of the group."""
INSTANCE_TAKEN = frozenset({"FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"})
"""Errors that end the membership of a static member for good: another process uses its instance id."""


def record(client: str, message: Message, kind: Kind, **values: Any) -> TraceRecord:
    """A record with the time of the message."""
    if "detail" in values:
        values["detail"] = values["detail"][:DETAIL_LIMIT]
    return TraceRecord(message.ts_ms, kind, client_id=client, **values)


# -- rules --------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    build: Build
    beginning: re.Pattern[str]
    """The pattern without its end."""


class Words:
    """The rules of one client, indexed by the first word of a message, so that order only matters among rules with the
    same first word."""

    def __init__(self, client: str, rules: Iterable[tuple[str, Meaning]]) -> None:
        self.client = client
        self.by_word: dict[str, tuple[Rule, ...]] = {}
        for pattern, meaning in rules:
            kinds = (meaning,) if isinstance(meaning, Kind) else meaning or ()
            build = partial(_emit, kinds) if isinstance(kinds, tuple) else kinds
            word = _get_first_word(pattern.replace("\\", ""))
            rule = Rule(_compile(pattern), build, _compile(pattern.removesuffix(r"\Z")))
            self.by_word[word] = (*self.by_word.get(word, ()), rule)

    def read(self, message: Message) -> Records | None:
        """The records of the first rule that matches; None if none does, or if a value cannot be parsed. Lines below a
        message may be another program's."""
        line, feed, _ = message.text.partition("\n")
        for pattern, build, _ in self.by_word.get(_get_first_word(line), ()):
            match = pattern.match(message.text) or (pattern.match(line) if feed else None)
            if match is not None:
                values = _values(match)
                return None if values is None else build(self.client, message, values)
        return None

    def begin(self, message: Message) -> bool:
        """Whether a message begins like a rule, whatever its end."""
        rules = self.by_word.get(_get_first_word(message.text), ())
        return any(rule.beginning.match(message.text) for rule in rules)


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL)


def _get_first_word(text: str) -> str:
    return text[:60].split(" ", 1)[0].rstrip(":;,")


def _emit(kinds: tuple[Kind, ...], client: str, message: Message, values: Values) -> Records:
    return tuple(record(client, message, kind, **values) for kind in kinds)


def _values(match: re.Match[str]) -> dict[str, Any] | None:
    values: dict[str, Any] = {name: value for name, value in match.groupdict().items() if value is not None}
    if "epoch" in values:
        values["epoch"] = int(values["epoch"])
    for name in ("partitions", "revoked"):
        if name in values:
            values[name] = topic_partitions(values[name])
            if values[name] is None:
                return None
    return values


GROUP = r"(?P<group>[^\n]{1,300}?)"
LAST_GROUP = r"(?P<group>[^\s\"'()\[\]{}<>,;]{1,300}?(?: [A-Za-z0-9_][\w.-]{0,99}){0,9}?)"
"""At the end of a message: brackets, quotes, fields and dashes behind it are what a logger puts there."""
EPOCH = r"(?P<epoch>-?\d{1,9})"


# -- values -------------------------------------------------------------------------------------------------

_TOPIC_PARTITION = re.compile(r"TopicPartition\(topic=u?'([^']{1,249})', partition=(\d{1,9})\)", re.ASCII)


def topic_partitions(text: str) -> tuple[Partition, ...] | None:
    """The partitions of a Python set or list of `TopicPartition`; None if one cannot be parsed, or if it is none."""
    found = [(topic, int(number)) for topic, number in _TOPIC_PARTITION.findall(text)]
    is_whole = len(found) == text.count("TopicPartition(") if found else _EMPTY.match(text) is not None
    return by_partition(found) if is_whole else None


_EMPTY = re.compile(r"(?:(?:frozen)?set)?[\[({\])}]*(?:\n|\Z)")


def by_topic(value: object) -> tuple[Partition, ...] | None:
    """The partitions of `{topic: [numbers]}`; None for anything else."""
    found: list[Partition] = []
    for topic, numbers in value.items() if isinstance(value, Mapping) else (("", None),):
        if not isinstance(numbers, list) or any(number(one) is None or one < 0 for one in numbers):
            return None
        found += [(plain(topic), one) for one in numbers]
    return by_partition(found)


def go_partitions(text: str) -> tuple[Partition, ...] | None:
    """The partitions of `t[0 1 2], u[3]`, or of `map[t:[0 1] u:[2]]`; None if it contains anything else."""
    listing = text.removeprefix("map[").removesuffix("]") if text.startswith("map[") else text
    found: list[Partition] = []
    at = 0
    while item := _GO_ITEM.match(listing, at):
        found += [(item[1], int(one)) for one in item[2].split()]
        at = item.end()
    return by_partition(found) if at == len(listing) else None


_GO_ITEM = re.compile(r"([\w.-]{1,249}):?\[((?:\d{1,9} ?)*)\](?:, | |\Z)", re.ASCII)


def error_name(code: object) -> str:
    """Kafka's name of an error code; the code as text if there is no such error."""
    known = number(code)
    try:
        return ErrorCode(known).name if known is not None else plain(code)
    except ValueError:
        return plain(code)


def plain(value: object) -> str:
    """A value of a structured line as text, bounded and encodable."""
    text = value if isinstance(value, str) else "" if value is None else repr(value)
    return text[:DETAIL_LIMIT].encode("utf-8", "replace").decode("utf-8")


def number(value: object) -> int | None:
    """An integer of at most 9 digits, also as text; None for anything else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    return value if type(value) is int and -(1 << 31) <= value < 1 << 31 else None


_NUMBER = re.compile(r"-?[0-9]{1,9}")
