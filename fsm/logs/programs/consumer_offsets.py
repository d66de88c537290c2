"""Records of `__consumer_offsets` as printed by Kafka's tools: the state that the coordinator stored.

Supports JSON lines with one record each (fields `timestamp`, `type`, `key`, `value`), the record lines of
DumpLogSegments with its offsets decoder, and the objects of the console formatters, which may share a line and have no
time. Records of groups become `TraceRecord`s of the thread `coordinator`; those of share and streams groups are
ignored. Consumer groups refer to topics by id. Their names come from records of type 4 (before 4.2) and from committed
offsets of partition 0 (from 4.2 on).

Source: the schemas below `group-coordinator/src/main/resources/common/message` of apache/kafka 4.4.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from typing import Any

from fsm.errors import FsmError
from fsm.logs import Format
from fsm.logs.programs.broker import CLASSIC, CONSUMER, MEMBER, THREAD
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.trace import DETAIL_LIMIT, Kind, Partition, TraceRecord, by_partition

Fields = Mapping[str, Any]
Records = tuple[TraceRecord, ...]

STATES = ("STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS")
"""By their codes in records of type 8."""
IRRELEVANT_TYPES = frozenset({0, 9, *range(10, 24)})
"""Record types irrelevant to rebalances: old offsets, regular expressions, share and streams groups."""


def interpret(ts_ms: int, type_: int, key: Fields, value: Fields | None) -> Records | None:
    """The trace records of one stored record; None if Kafka does not write such a record."""
    if type_ in IRRELEVANT_TYPES:
        return ()
    try:
        if not 1 <= type_ <= 8:
            return None
        stored = _Stored(ts_ms, key)
        return tuple(stored.read_tombstone(type_) if value is None else stored.read_value(type_, value))
    except (KeyError, TypeError, ValueError, AttributeError, FsmError):
        return None


class _Stored:
    """The key of a stored record; creates trace records about its group and member."""

    def __init__(self, ts_ms: int, key: Fields) -> None:
        group = key["group"] if "group" in key else key["groupId"]
        self.key = key
        self.about = {"group": _text(group), "member_id": _text(key.get("memberId", ""))}
        self.ts_ms = ts_ms

    def _emit(self, kind: Kind, **fields: Any) -> TraceRecord:
        values = {**self.about, **fields}
        values["detail"] = values.get("detail", "")[:DETAIL_LIMIT]
        return TraceRecord(self.ts_ms, kind, thread=THREAD, **values)

    def read_tombstone(self, type_: int) -> Iterator[TraceRecord]:
        """The records of a tombstone: the end of a group or of a member."""
        if type_ in (2, 3):
            yield self._emit(Kind.GROUP_STATE, machine=CLASSIC if type_ == 2 else CONSUMER, next_state="DEAD")
        elif type_ == 5:
            yield self._emit(Kind.LEFT)

    def read_value(self, type_: int, value: Fields) -> Iterator[TraceRecord]:
        """The records of a value of this type."""
        match type_:
            case 1:  # a commit, used only for the topic's name
                if value.get("topicId", _NO_ID) != _NO_ID and self.key.get("partition") == 0:
                    names = {_topic(value["topicId"]): _topic(self.key["topic"])}
                    yield self._emit(Kind.TOPIC_NAMES, settings=names)
            case 2:
                yield from self._read_classic_group(value)
            case 3:
                yield self._emit(Kind.GROUP_EPOCH, epoch=_integer(value["epoch"]))
            case 4:
                names = {_topic(topic["topicId"]): _topic(topic["topicName"]) for topic in value["topics"]}
                yield self._emit(Kind.TOPIC_NAMES, settings=names)
            case 5:
                yield from self._read_member(value)
            case 6:
                yield self._emit(Kind.TARGET_COMPUTED, epoch=_integer(value["assignmentEpoch"]))
            case 7:
                yield self._emit(Kind.TARGET, full=_parse_by_id(value["topicPartitions"]))
            case _:
                code = _integer(value["state"])
                yield self._emit(
                    Kind.MEMBER_STATE,
                    machine=MEMBER,
                    next_state=STATES[code] if 0 <= code < len(STATES) else "UNKNOWN",
                    epoch=_integer(value["memberEpoch"]),
                    full=_parse_by_id(value["assignedPartitions"]),
                    revoked=_parse_by_id(value["partitionsPendingRevocation"]),
                )

    def _read_classic_group(self, value: Fields) -> Iterator[TraceRecord]:
        """A generation whose assignment was stored, or a group without members."""
        members, generation = value["members"], _integer(value["generation"])
        yield self._emit(
            Kind.GROUP_STATE,
            machine=CLASSIC,
            next_state="STABLE" if members else "EMPTY",
            epoch=generation,
            detail=f"{len(members)} members",
        )
        for member in members:
            yield self._emit(
                Kind.MEMBER_STATE,
                machine=CLASSIC,
                next_state="STABLE",
                epoch=generation,
                member_id=_text(member["memberId"]),
                instance_id=_text(member.get("groupInstanceId") or ""),
                detail="leader" if member["memberId"] == value.get("leader") else "",
                full=_read_assignment(member["assignment"]) if value["protocolType"] == "consumer" else None,
                settings={"client.id": _text(member["clientId"])},
            )

    def _read_member(self, value: Fields) -> Iterator[TraceRecord]:
        """A member as it joined."""
        instance_id = _text(value["instanceId"] or "")
        protocol = "consumer" if value["classicMemberMetadata"] is None else "classic"
        settings = {"client.id": _text(value["clientId"])}
        yield self._emit(Kind.JOINED, instance_id=instance_id, detail=protocol, settings=settings)
        topics = tuple(sorted(map(_text, value["subscribedTopicNames"])))
        pattern = _text(value["subscribedTopicRegex"] or "")
        yield self._emit(Kind.SUBSCRIBED, instance_id=instance_id, topics=topics, detail=pattern)


_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id of a commit without one."""
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    if not value.isascii():
        value.encode()  # raises for a lone surrogate, which JSON can escape
    return value


def _topic(value: object) -> str:
    """A topic name or id that Kafka allows. Longer ones would be repeated for each of many partitions."""
    if not _TOPIC.fullmatch(_text(value)):
        raise ValueError(value)
    return str(value)


def _integer(value: object) -> int:
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise ValueError(value)
    return value


def _read_assignment(assignment: Any) -> tuple[Partition, ...]:
    """Decodes the embedded consumer protocol, from bytes or from the dump tool's output."""
    if isinstance(assignment, str):
        data = b64decode(assignment, validate=True)
        return _read_owned(decode_assignment(data).partitions) if data else ()
    topics = (assignment or {}).get("assignedPartitions", ())
    return _read_owned((_text(topic["topic"]), _integer(number)) for topic in topics for number in topic["partitions"])


def _parse_by_id(topics: Iterable[Fields]) -> tuple[Partition, ...]:
    return _read_owned((_text(t["topicId"]), _integer(number)) for t in topics for number in t["partitions"])


def _read_owned(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    owned = by_partition(partitions)
    for name in sorted({topic for topic, _ in owned}):
        _topic(name)
    return owned


def _read_line(entry: str, _zone: tzinfo) -> Records | None:
    """A JSON line with one record and its position."""
    try:
        found = json.loads(entry.partition("\n")[0])
        return interpret(_parse_time(found["timestamp"]), _integer(found["type"]), found["key"], found["value"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _read_dumped(entry: str, _zone: tzinfo) -> Records | None:
    """A record line of DumpLogSegments. A tombstone is `<DELETE>`; what the tool cannot decode is not understood."""
    head = _DUMPED.match(entry)
    if head is None:
        return None
    key_text, _, payload = entry[head.end() :].partition("\n")[0].partition(" payload: ")
    try:
        key = json.loads(key_text)
        value = None if payload == "<DELETE>" else json.loads(payload)["data"]
        return interpret(int(head[1]), int(key["type"]), key["data"], value)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _read_formatted(entry: str, _zone: tzinfo) -> Records | None:
    """The output of a console formatter: concatenated objects without a time."""
    text, place = entry.partition("\n")[0].rstrip(), 0
    out: Records = ()
    while place < len(text):
        try:
            found, place = _DECODER.raw_decode(text, place)
            key, value = found["key"], found["value"]
            type_ = key["type"] if "type" in key else key["version"]
            value = value and value["data"]
            records = interpret(_find_time(value), _integer(type_), key["data"], value)
        except (KeyError, TypeError, ValueError, RecursionError):
            return None
        if records is None:
            return None
        out += records
    return out


def _find_time(value: Fields | None) -> int:
    """The only time in a formatter's object, that of a classic group; 0 for others."""
    return max(0, _parse_time((value or {}).get("currentStateTimestamp", 0)))


def _parse_time(value: object) -> int:
    if type(value) is not int or not -1 <= value < 1 << 63:
        raise ValueError(value)
    return value


_DECODER = json.JSONDecoder()
_DUMPED = re.compile(
    r"\| offset: \d{1,19} CreateTime: (\d{1,15}) keySize: -?\d{1,10} valueSize: -?\d{1,10} sequence: -?\d{1,10} "
    r"headerKeys: \[[^\]]{0,500}\] key: ",
    re.ASCII,
)

RECORD = Format(
    name="consumer-offsets",
    layout="json",
    first=b"{",
    header=re.compile(rb'\{"partition":\d{1,10},"offset":\d'),
    candidate=re.compile(
        rb'"type":(?:[2-8]|16)\b|"partition":0\},(?:"value_version":\d{1,5},)?"value":\{[^{}]{0,500}"topicId"'
    ),
    parse=_read_line,
    reach=34,
)

FORMATS = (
    RECORD,
    Format(
        name="consumer-offsets",
        layout="dump",
        first=b"|bDL",
        header=re.compile(
            rb"\| offset: \d{1,19} CreateTime: |baseOffset: \d{1,19} lastOffset: |Dumping \S|Log starting offset: \d"
        ),
        candidate=re.compile(
            rb'\A\| offset: .{1,200}? key: \{"type":"(?:(?:[2-8]|16)"|1","data":\{[^{}]{0,900}"partition":0\}\} '
            rb'payload: \{"version":"\d{1,5}","data":\{[^{}]{0,500}"topicId")'
        ),
        parse=_read_dumped,
        reach=44,
    ),
    Format(
        name="consumer-offsets",
        layout="formatter",
        first=b"{",
        header=re.compile(rb'\{"key":\{"(?:type|version)":\d'),
        candidate=re.compile(rb'\A\{"key":'),
        parse=_read_formatted,
        reach=19,
    ),
)
