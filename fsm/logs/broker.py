"""The coordinator's side: what a Kafka broker logs about its groups, 4.0 to 4.4, at INFO and DEBUG.

Every record has the thread `coordinator` and no client id: it is nobody's own word, and makes no member. Lines are
printed while records are being produced, before they are stored, so a failed write leaves lines without effect.
Share and streams groups keep other machines; what is said of them has no bearing here.

Source: section 9 of the coordinator reference, whose line numbers (C1, E5, K2, ...) stand behind the rules;
`GroupMetadataManager` and `ClassicGroup` of apache/kafka 4.4 (87943b2ff874).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo
from typing import Any, NamedTuple

from fsm.logs import Format
from fsm.logs.java_layouts import KAFKA_HEADER, Message, kafka
from fsm.logs.java_messages import EPOCH, Records, first_word, named
from fsm.trace import DETAIL_LIMIT, Kind, Partition, TraceRecord, by_partition

THREAD = "coordinator"
"""Who speaks in every record of this format."""

CLASSIC, CONSUMER, MEMBER = "classic-group", "consumer-group", "consumer-group-member"
"""Machines whose states the lines name."""

_TEXT = r".{1,300}?"
_G = rf"(?P<group>{_TEXT})"
_M = rf"(?P<member_id>{_TEXT})"
_I = rf"(?P<instance_id>{_TEXT})"
_D = r"(?P<detail>.*)"
_E = rf"(?P<epoch>{EPOCH})"

Fields = Mapping[str, Any]
Build = Callable[[Fields], Fields | None]
Also = Callable[[str], Iterator[tuple[Kind, Fields]]]


class Line(NamedTuple):
    """A message about a group and the records it is."""

    pattern: re.Pattern[str]
    kind: Kind | None
    """None where the line is known and has no bearing."""
    fixed: Mapping[str, str]
    build: Build | None = None
    """Turns what the pattern found into fields; None where it does not fit."""
    also: Also | None = None
    """Further records, out of what the pattern calls `rest`."""


def _line(pattern: str, kind: Kind | None, build: Build | None = None, also: Also | None = None, **fixed: str) -> Line:
    return Line(re.compile(pattern, re.ASCII | re.DOTALL), kind, fixed, build, also)


def _assigned(found: Fields) -> Fields | None:
    """Assignment and pending revocation of a member, by topic id: the broker prints no names."""
    full, revoked = (_by_id(found[name]) for name in ("full", "revoked"))
    return None if full is None or revoked is None else {**found, "full": full, "revoked": revoked}


def _by_id(listing: str) -> tuple[Partition, ...] | None:
    matches = [_BY_ID.fullmatch(one) for one in listing.split(", ")] if listing else []
    return None if None in matches else by_partition((m[1], int(m[2])) for m in matches if m)


_ID = r"[\w-]{21}[AQgw]"
"""A topic's id in text: 16 bytes, so the last character holds two bits only."""
_BY_ID = re.compile(r"([\w-]{22})-(\d{1,9})(?:@\d{1,9})?", re.ASCII)
_TARGET = re.compile(
    rf"(?:\A \{{|(?<=\)), )(?P<member_id>{_TEXT})=MemberAssignment\(partitions=\{{(?P<topics>[^}}]*)\}}\)(?=[,}}])",
    re.ASCII,
)
_OF_A_TOPIC = re.compile(r"([\w-]{22})=\[((?:\d{1,9}(?:, )?)*)\]", re.ASCII)
_TOPIC = re.compile(rf"TopicMetadata\(id=({_ID}), name=([\w.-]{{1,249}}),", re.ASCII)


def _targets(rest: str) -> Iterator[tuple[Kind, Fields]]:
    """The target of each member, where the broker prints the map of them (at DEBUG)."""
    for found in _TARGET.finditer(rest):
        listed = _OF_A_TOPIC.findall(found["topics"])
        full = by_partition((topic, int(n)) for topic, numbers in listed for n in numbers.split(", ") if n)
        yield Kind.TARGET, {"member_id": found["member_id"], "full": full}


def _metadata(found: Fields) -> Fields:
    return {"group": found["group"], "settings": dict(_TOPIC.findall(found["topics"]))}


def _topics(found: Fields) -> Fields:
    return {**found, "topics": tuple(sorted(found["topics"].split(", "))) if found["topics"] else ()}


def _loaded(found: Fields) -> Fields:
    """A group that was loaded names its kind without the word that our tables' names end in."""
    return {**found, "machine": {"consumer": CONSUMER, "classic": CLASSIC}[found["machine"]]}


_EXPIRED = "SESSION_EXPIRED"
_REBALANCE_TIMEOUT = "REBALANCE_TIMEOUT"

# Behind `[GroupId <group>] `, but for Kafka before 4.0 (`[Group <group>] `).
_OF_A_GROUP = (
    _line(rf"Member {_M} joins the consumer group using the (?P<detail>\w+) protocol\.", Kind.JOINED),  # C1
    _line(  # C2
        rf"Static member {_M} with instance id {_I} joins the consumer group using the (?P<detail>\w+) protocol\.",
        Kind.JOINED,
    ),
    _line(  # C3
        rf"Static member with instance id {_I} re-joins the consumer group using the (?P<detail>\w+) protocol\. "
        rf"Created a new member {_M} to replace the existing member .*\.",
        Kind.JOINED,
    ),
    _line(  # C4
        rf"Static member {_M} with instance id {_I} cannot join the group because the instance id .*owned by .*",
        Kind.ERROR,
        detail="UNRELEASED_INSTANCE_ID",
    ),
    _line(  # C5
        rf"Static member {_M} with instance id {_I} is fenced by existing member .*",
        Kind.FENCED,
        detail="FENCED_INSTANCE_ID",
    ),
    _line(
        rf"Dynamic member with unknown member id joins the consumer group\. Created a new member id {_M} and .*", None
    ),
    _line(rf"Member {_M} left the consumer group\.", Kind.LEFT),  # C7
    _line(  # C9
        rf"Static [mM]ember {_M} with instance id {_I} temporarily left the consumer group\.",
        Kind.LEFT,
        detail="STATIC_MEMBER_AWAY",
    ),
    _line(rf"Static [mM]ember {_M} with instance id {_I} left the consumer group\.", Kind.LEFT),  # C8
    _line(  # C10, C11, K15, K16
        rf"(?:Dynamic |Pending )?[mM]ember {_M} has left group through explicit `LeaveGroup` request; "
        rf"client reason: {_D}",
        Kind.LEFT,
    ),
    _line(
        rf"Static [mM]ember (?P<member_id>.{{0,300}}?) with instance id {_I} has left group through explicit "
        rf"`LeaveGroup` request; client reason: {_D}",
        Kind.LEFT,
    ),
    _line(  # C12
        rf"Member {_M} fenced from the group because the member session expired\.{{1,2}}", Kind.FENCED, detail=_EXPIRED
    ),
    _line(  # C12
        rf"Member {_M} fenced from the group because the (?:classic )?member failed to .*",
        Kind.FENCED,
        detail=_REBALANCE_TIMEOUT,
    ),
    _line(  # C13
        rf"Member {_M} fenced from the group because it failed to transition from epoch {_E} within \d+ms\.",
        Kind.FENCED,
        detail=_REBALANCE_TIMEOUT,
    ),
    _line(r"(?:Ignoring rebalance timeout for|Could not fence) .*", None),  # C14, C15
    _line(rf"Bumped group epoch to {_E}(?: with metadata hash .*)?\.", Kind.GROUP_EPOCH),  # E1
    _line(  # E3
        rf"Computed a new target assignment for epoch {_E} with '(?P<detail>[^']*)' assignor in \d+ms[.:](?P<rest>.*)",
        Kind.TARGET_COMPUTED,
        also=_targets,
    ),
    _line(rf"Failed to compute a new target assignment for epoch {_E}: {_D}", Kind.ERROR),  # E4
    _line(  # E5
        rf"Member {_M} new assignment state: epoch={_E}, previousEpoch={EPOCH}, state=(?P<next_state>\w+), "
        r"assignedPartitions=\[(?P<full>[^\]]*)\] and revokedPartitions=\[(?P<revoked>[^\]]*)\]\.",
        Kind.MEMBER_STATE,
        _assigned,
        machine=MEMBER,
    ),
    _line(  # E6
        rf"Member {_M} updated its subscribed topics to: \[(?P<topics>[^\]]*)\]\.", Kind.SUBSCRIBED, _topics
    ),
    _line(rf"Member {_M} updated its subscribed regex to: {_D}\.", Kind.SUBSCRIBED),  # E7
    _line(r"Computed new metadata hash: .*", None),  # E2
    _line(r"Computed new subscription metadata: (?P<topics>.*)", Kind.TOPIC_NAMES, _metadata),  # E2 before 4.2
    _line(r"(?:Scanned|Refreshing regular|Received) .*", None),  # E8, E9
    _line(rf"Member {_M} new assignment state: [^\[]*assignedPartitions=\[[^\]]*\]\.", None),  # share groups
    _line(r"Couldn't (?P<detail>(?:update|parse) regular expression .*)", Kind.ERROR),  # E10
    _line(r"(?:Cannot remove the epoch|Size of assignment epochs) .*", None),  # E11, E12
    _line(
        r"Converted the (?:empty )?classic group to a consumer group\.", Kind.GROUP_STATE, machine=CONSUMER
    ),  # M1, M2
    _line(r"Converted the (?:empty )?consumer group to a classic group\.", Kind.GROUP_STATE, machine=CLASSIC),  # M3, M4
    _line(r"(?:Creating a simple consumer group|Committing offsets|Validating|Skipping) .*", None),
    _line(rf"Unloaded group metadata for group epoch {_E}\.", Kind.GROUP_STATE, machine=CONSUMER, next_state="DEAD"),
    _line(rf"Unloading group metadata for generation {_E}\.", Kind.GROUP_STATE, machine=CLASSIC, next_state="DEAD"),
)

_AT_LARGE = (
    _line(  # K1
        rf"Preparing to rebalance group {_G} in state \w+ with old generation {_E} (?:\(\S+\) )?\(reason: {_D}\)\.?",
        Kind.GROUP_STATE,
        machine=CLASSIC,
        next_state="PREPARING_REBALANCE",
    ),
    _line(  # K2
        rf"Stabilized group {_G} generation {_E} (?:\(\S+\) )?with (?P<detail>\d+ members)\.?",
        Kind.GROUP_STATE,
        machine=CLASSIC,
        next_state="COMPLETING_REBALANCE",
    ),
    _line(  # K3
        rf"Assignment received from leader {_TEXT} for group {_G} for generation {_E}\. The group has (?P<detail>.*)\.",
        Kind.GROUP_STATE,
        machine=CLASSIC,
        next_state="STABLE",
    ),
    _line(  # K4
        rf"Group {_G} with generation {_E} is now empty.*", Kind.GROUP_STATE, machine=CLASSIC, next_state="EMPTY"
    ),
    _line(rf"Group {_G} removed dynamic members who haven't joined: {_D}", Kind.ERROR),  # K5
    _line(rf"Group {_G} (?P<detail>could not complete rebalance because no members rejoined)\.", Kind.ERROR),  # K6
    _line(r"(?:Dynamic member with unknown member id|Static member which) joins .*", None),  # K7, K8, K12
    _line(
        rf"Pending dynamic member with id {_M} joins group {_G} in \w+ state\. .*", Kind.JOINED, detail="classic"
    ),  # K9
    _line(  # K10
        rf"Static member with groupInstanceId={_I} and unknown member id joins group {_G} in \w+ state\. "
        rf"Created a new member id {_M} for this member and added to the group\.",
        Kind.JOINED,
        detail="classic",
    ),
    _line(  # K11
        rf"Static member with groupInstanceId={_I} and unknown member id joins group {_G} in \w+ state\. "
        rf"Replacing previously mapped member {_M} with this groupInstanceId\.",
        Kind.FENCED,
        detail="FENCED_INSTANCE_ID",
    ),
    _line(  # K13, K14
        rf"(?:Member {_M} in group {_G} has failed, removing it from the group\.)",
        Kind.FENCED,
        detail=_EXPIRED,
    ),
    _line(r"Pending member .* has been removed after session timeout expiration\.", None),
    _line(
        r"Request memberId=.* for static member with groupInstanceId=.* is fenced by existing .*", None
    ),  # K17: no group
    _line(rf"Group leader \[memberId: {_M}, groupInstanceId: .*", None),  # K18, K19
    _line(rf"Group {_G} removed members who haven't sent their sync requests: {_D}", Kind.ERROR),  # K24
    _line(r"Group .* is dead, skipping .*", None),
    _line(
        rf"Loaded (?P<machine>consumer|classic) group {_G} with (?P<detail>\d+ members)\.", Kind.GROUP_STATE, _loaded
    ),  # D3
    _line(rf"Loaded member {_M} in (?:consumer|classic) group {_G}\.", None),  # D4
    _line(  # M5 to M10, M14
        rf"Cannot (?:up|down)grade (?:the )?(?:classic|consumer) group {_G} to (?:consumer|classic) group"
        rf"(?: because|:) {_D}",
        Kind.ERROR,
    ),
    _line(rf"Cannot join the consumer group {_G} with the classic protocol because {_D}", Kind.ERROR),
    _line(
        r"(?:Skip downgrading|Replaying|Cannot complete join phase|Received notification|Detected|Failed to parse) .*",
        None,
    ),
    _line(r"(?:Member .* has already been removed|The following groups were deleted|Generated \d+ tombstone) .*", None),
)
"""Lines that name their group in the middle, or not at all."""


def _by_word(lines: tuple[Line, ...]) -> dict[str, tuple[Line, ...]]:
    """Lines by their literal first word; those that begin otherwise under the empty one."""
    out: dict[str, tuple[Line, ...]] = {}
    for one in lines:
        word = first_word(one.pattern.pattern)
        out.setdefault(word if word.isalpha() else "", ())
        out[word if word.isalpha() else ""] += (one,)
    return out


_WORDS_OF_A_GROUP, _WORDS_AT_LARGE = _by_word(_OF_A_GROUP), _by_word(_AT_LARGE)
_PREFIX = re.compile(r"\[GroupCoordinator id=\d{1,10}(?: topic=\S{1,249} partition=\d{1,10})?\] ")
_GROUP = re.compile(r"\[Group(?:Id)?[ =](?P<group>[^\n]{1,300}?)\](?P<other>\[)? ?")
_OFFSETS = "OffsetMetadataManager"
_STRICT = frozenset({"GroupMetadataManager", "ClassicGroup"})
"""Classes that speak of nothing but groups: what they say of one, and no rule knows, was not understood."""
_COMMITTED = re.compile(
    rf"Committing offsets -?\d+ for partition (?P<id>{_ID})-(?P<topic>[\w.-]{{1,249}})-0 from member ", re.ASCII
)
"""A commit names a topic beside its id, from 4.2 on. That of partition 0 is enough: there are very many others."""
_OTHER_GROUPS = re.compile(r"\b(?:share|streams|topology|[Ss]hareGroup|[Ss]treamsGroup)\b|initializing share")


def understood(message: Message) -> Records | None:
    """The records of a message, `()` where it has no bearing, None where it should have been understood and was not."""
    prefix = _PREFIX.match(message.text)
    if prefix is None or message.logger not in (*_STRICT, _OFFSETS):
        return ()
    text = message.text[prefix.end() :]
    head = _GROUP.match(text)
    if message.logger == _OFFSETS:
        return _committed(message, text[head.end() :], head["group"]) if head else ()
    if head and head["other"]:
        return ()  # `[GroupId g][MemberId m]`: streams groups
    group, words = (head["group"], _WORDS_OF_A_GROUP) if head else ("", _WORDS_AT_LARGE)
    return _told(message, text[head.end() :] if head else text, group, words)


def _committed(message: Message, text: str, group: str) -> Records:
    found = _COMMITTED.match(text)
    if found is None:
        return ()
    return (_record(message, Kind.TOPIC_NAMES, {"group": group, "settings": {found["id"]: found["topic"]}}),)


def _told(message: Message, text: str, group: str, words: Mapping[str, tuple[Line, ...]]) -> Records | None:
    text = text.rstrip()
    for line in (*words.get(first_word(text), ()), *words.get("", ())):
        match = line.pattern.fullmatch(text)
        if match is None:
            continue
        if line.kind is None:
            return ()
        found: Fields | None = {"group": group, **line.fixed, **named(match)}
        found = line.build(found) if line.build and found else found
        return None if found is None else tuple(_records(message, line.kind, line.also, found))
    return () if _OTHER_GROUPS.search(text) else None


def _records(message: Message, kind: Kind, also: Also | None, found: Fields) -> Iterator[TraceRecord]:
    """What the line is about first, then what it tells besides."""
    about = {name: value for name, value in found.items() if name != "rest"}
    yield _record(message, kind, about)
    for other, fields in also(found["rest"] or "") if also else ():
        yield _record(message, other, {**about, "detail": "", **fields})


def _record(message: Message, kind: Kind, found: Fields) -> TraceRecord:
    values = {name: value for name, value in found.items() if value is not None}
    values["detail"] = values.get("detail", "")[:DETAIL_LIMIT]
    return TraceRecord(message.ts_ms, kind, thread=THREAD, **values)


def _parse(entry: str, zone: tzinfo) -> Records | None:
    message = kafka(entry, zone)
    return None if message is None else understood(message)


FORMATS = (
    Format(
        name="broker",
        layout="kafka",
        first=b"[",
        header=KAFKA_HEADER,
        candidate=re.compile(rb" \[GroupCoordinator id=\d"),
        parse=_parse,
    ),
)
