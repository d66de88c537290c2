"""The group coordinator's log: what a Kafka broker logs about its groups, 0.11 to 4.4, at INFO and DEBUG.

Every record has the thread `coordinator` and no client id, and so creates no member. Lines are logged while records are
produced, before they are stored: a failed write leaves lines without effect. Share and streams groups have other state
machines; lines about them are ignored.

Source: `GroupMetadataManager`, `ClassicGroup` and `OffsetMetadataManager` of apache/kafka 4.4 (87943b2ff874); before
Kafka 4.0 `GroupCoordinator`, which only had classic groups (branches 0.11.0 to 3.9).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fsm.logs import Client, Format, Message
from fsm.logs.layouts.java_layouts import KAFKA_HEADER, KAFKA_REACH, kafka, reading
from fsm.logs.message import NO_BEARING
from fsm.logs.programs.java_messages import (
    EPOCH,
    Build,
    JavaMessage,
    Records,
    Row,
    Rule,
    by_word,
    compile_rules,
    emit,
    of_word,
    parse_message,
    read_named_groups,
    record,
)
from fsm.trace import Kind, Partition, by_partition

THREAD = "coordinator"
"""The thread of all records from this module."""

CLASSIC, CONSUMER, MEMBER = "classic-group", "consumer-group", "consumer-group-member"
"""The machines whose states are in the lines."""

_TEXT = r".{1,300}?"
_G = rf"(?P<group>{_TEXT})"
_M = rf"(?P<member_id>{_TEXT})"
_I = rf"(?P<instance_id>{_TEXT})"
_D = r"(?P<detail>.*)"
_E = rf"(?P<epoch>{EPOCH})"
_JOINS = r"joins the consumer group using the (?P<detail>\w+) protocol\."
_LEAVES = rf"has left group through explicit `LeaveGroup` request; client reason: {_D}"
_OPTION = rf"(?:None|Some\((?P<instance_id>{_TEXT})\))"
_SOME = rf"(?:Some\()?(?P<instance_id>{_TEXT})\)?"
_UNKNOWN = rf"Static member with groupInstanceId={_I} and unknown member id joins group {_G} in \w+ state\."
_ID = r"[\w-]{21}[AQgw]"
"""A topic id in text form: 16 bytes, so that the last character encodes only two bits."""
_BY_ID = re.compile(r"([\w-]{22})-(\d{1,9})(?:@\d{1,9})?", re.ASCII)
_TARGET = re.compile(
    rf"(?:\A \{{|(?<=\)), )(?P<member_id>{_TEXT})=MemberAssignment\(partitions=\{{(?P<topics>[^}}]*)\}}\)(?=[,}}])",
    re.ASCII,
)
_TOPIC_PARTITIONS = re.compile(r"([\w-]{22})=\[((?:\d{1,9}(?:, )?)*)\]", re.ASCII)
_TOPIC_METADATA = re.compile(rf"TopicMetadata\(id=({_ID}), name=([\w.-]{{1,249}}),", re.ASCII)


def _read_state(machine: str, next_state: str = "") -> Build:
    return emit(Kind.GROUP_STATE, machine=machine, next_state=next_state)


def _read_fenced(detail: str) -> Build:
    return emit(Kind.FENCED, detail=detail)


_JOINED_CLASSIC = emit(Kind.JOINED, detail="classic")


def _read_member_state(message: JavaMessage, match: re.Match[str]) -> Records | None:
    """Assignment and pending revocation of a member, by topic id, since the broker logs no topic names."""
    full, revoked = _parse_by_id(match["full"]), _parse_by_id(match["revoked"])
    if full is None or revoked is None:
        return None
    fields = {**read_named_groups(match), "full": full, "revoked": revoked}
    return (record(message, Kind.MEMBER_STATE, machine=MEMBER, **fields),)


def _parse_by_id(listing: str) -> tuple[Partition, ...] | None:
    matches = [_BY_ID.fullmatch(one) for one in listing.split(", ")] if listing else []
    return None if None in matches else by_partition((m[1], int(m[2])) for m in matches if m)


def _read_targets(message: JavaMessage, match: re.Match[str]) -> Records:
    """The new target's epoch, and the target of each member if the broker logs the map of them (at DEBUG)."""
    epoch = int(match["epoch"])
    records = [record(message, Kind.TARGET_COMPUTED, epoch=epoch, detail=match["detail"])]
    for found in _TARGET.finditer(match["rest"]):
        topics = _TOPIC_PARTITIONS.findall(found["topics"])
        full = by_partition((topic, int(n)) for topic, numbers in topics for n in numbers.split(", ") if n)
        records.append(record(message, Kind.TARGET, epoch=epoch, member_id=found["member_id"], full=full))
    return tuple(records)


def _read_topic_names(message: JavaMessage, match: re.Match[str]) -> Records:
    return (record(message, Kind.TOPIC_NAMES, settings=dict(_TOPIC_METADATA.findall(match["topics"]))),)


def _read_subscription(message: JavaMessage, match: re.Match[str]) -> Records:
    topics = tuple(sorted(match["topics"].split(", "))) if match["topics"] else ()
    return (record(message, Kind.SUBSCRIBED, member_id=match["member_id"], topics=topics),)


# fmt: off
# After `[GroupId <group>] `, or `[Group <group>] ` before Kafka 4.0.
_IN_GROUP: tuple[Row, ...] = (
    (rf"Member {_M} {_JOINS}", Kind.JOINED),
    (rf"Static member {_M} with instance id {_I} {_JOINS}", Kind.JOINED),
    ((rf"Static member with instance id {_I} re-{_JOINS} "
      rf"Created a new member {_M} to replace the existing member .*\."), Kind.JOINED),
    (rf"Static member {_M} with instance id {_I} cannot join the group because the instance id .*owned by .*",
     emit(Kind.ERROR, detail="UNRELEASED_INSTANCE_ID")),
    (rf"Static member {_M} with instance id {_I} is fenced by existing member .*", _read_fenced("FENCED_INSTANCE_ID")),
    (rf"Dynamic member with unknown member id joins the consumer group\. Created a new member id {_M} and .*", None),
    (rf"Member {_M} left the consumer group\.", Kind.LEFT),
    (rf"Static [mM]ember {_M} with instance id {_I} temporarily left the consumer group\.",
     emit(Kind.LEFT, detail="STATIC_MEMBER_AWAY")),
    (rf"Static [mM]ember {_M} with instance id {_I} left the consumer group\.", Kind.LEFT),
    (rf"(?:Dynamic |Pending )?[mM]ember {_M} {_LEAVES}", Kind.LEFT),
    (rf"Static [mM]ember (?P<member_id>.{{0,300}}?) with instance id {_I} {_LEAVES}", Kind.LEFT),
    (rf"Member {_M} fenced from the group because the member session expired\.{{1,2}}",
     _read_fenced("SESSION_EXPIRED")),
    (rf"Member {_M} fenced from the group because the (?:classic )?member failed to .*",
     _read_fenced("REBALANCE_TIMEOUT")),
    (rf"Member {_M} fenced from the group because it failed to transition from epoch {_E} within \d+ms\.",
     _read_fenced("REBALANCE_TIMEOUT")),
    (r"(?:Ignoring rebalance timeout for|Could not fence) .*", None),
    (rf"Bumped group epoch to {_E}(?: with metadata hash .*)?\.", Kind.GROUP_EPOCH),
    (rf"Computed a new target assignment for epoch {_E} with '(?P<detail>[^']*)' assignor in \d+ms[.:](?P<rest>.*)",
     _read_targets),
    (rf"Failed to compute a new target assignment for epoch {_E}: {_D}", Kind.ERROR),
    ((rf"Member {_M} new assignment state: epoch={_E}, previousEpoch={EPOCH}, state=(?P<next_state>\w+), "
      r"assignedPartitions=\[(?P<full>[^\]]*)\] and revokedPartitions=\[(?P<revoked>[^\]]*)\]\."), _read_member_state),
    (rf"Member {_M} updated its subscribed topics to: \[(?P<topics>[^\]]*)\]\.", _read_subscription),
    (rf"Member {_M} updated its subscribed regex to: {_D}\.", Kind.SUBSCRIBED),
    (r"Computed new metadata hash: .*", None),
    (r"Computed new subscription metadata: (?P<topics>.*)", _read_topic_names),  # before 4.2
    (r"(?:Scanned|Refreshing regular|Received) .*", None),
    (rf"Member {_M} new assignment state: [^\[]*assignedPartitions=\[[^\]]*\]\.", None),  # share groups
    (r"Couldn't (?P<detail>(?:update|parse) regular expression .*)", Kind.ERROR),
    (r"(?:Cannot remove the epoch|Size of assignment epochs) .*", None),
    (r"Converted the (?:empty )?classic group to a consumer group\.", _read_state(CONSUMER)),
    (r"Converted the (?:empty )?consumer group to a classic group\.", _read_state(CLASSIC)),
    (r"(?:Creating a simple consumer group|Committing offsets|Validating|Skipping) .*", None),
    (rf"Unloaded group metadata for group epoch {_E}\.", _read_state(CONSUMER, "DEAD")),
    (rf"Unloading group metadata for generation {_E}\.", _read_state(CLASSIC, "DEAD")),
)

# The group is in the middle of the message, or missing.
_WITHOUT_PREFIX: tuple[Row, ...] = (
    ((rf"Preparing to rebalance group {_G} (?:in state \w+ )?with old generation {_E}(?: \(\S+\))?"
      rf"(?: \(reason: {_D}\))?\.?"), _read_state(CLASSIC, "PREPARING_REBALANCE")),
    (rf"Stabilized group {_G} generation {_E}(?: \(\S+\))?(?: with (?P<detail>\d+ members))?\.?",
     _read_state(CLASSIC, "COMPLETING_REBALANCE")),
    ((rf"Assignment received from leader(?: {_TEXT})? for group {_G} for generation {_E}"
      r"(?:\. The group has (?P<detail>.*)\.)?"), _read_state(CLASSIC, "STABLE")),
    (rf"Group {_G} with generation {_E} is now empty.*", _read_state(CLASSIC, "EMPTY")),
    (rf"Group {_G} removed? dynamic members who haven't joined: {_D}", Kind.ERROR),
    (rf"Group {_G} (?P<detail>could not complete rebalance because no members rejoined)\.?", Kind.ERROR),
    ((rf"(?:Dynamic|Static) Member with unknown member id joins group {_G} in \w+ state\. "
      rf"Created a new member id {_M} for this member and add to the group\."), _JOINED_CLASSIC),
    (rf"Dynamic Member with specific member id {_M} joins group {_G} in .*", _JOINED_CLASSIC),
    (rf"Adding new static member {_SOME} to group {_G} with member id {_M}\.", _JOINED_CLASSIC),
    (r"(?:Dynamic member with unknown member id (?:re)?joins|Static member which joins) .*", None),
    (rf"Pending dynamic member with id {_M} joins group {_G} in \w+ state\. .*", _JOINED_CLASSIC),
    (rf"{_UNKNOWN} Created a new member id {_M} for this member and add(?:ed)? to the group\.", _JOINED_CLASSIC),
    (rf"{_UNKNOWN} Replacing previously mapped member {_M} with this groupInstanceId\.",
     _read_fenced("FENCED_INSTANCE_ID")),
    ((rf"Static member {_SOME} of group {_G} with unknown member id rejoins, assigning new member id \S+, "
      rf"while old member id {_M} will be removed\."), _read_fenced("FENCED_INSTANCE_ID")),
    (rf"Member {_M} in group {_G} has failed, removing it from the group\.?", _read_fenced("SESSION_EXPIRED")),
    (rf"Member {_M} in group {_G} has left, removing it from the group", Kind.LEFT),
    (rf"Member\[group\.instance\.id {_OPTION}, member\.id {_M}\] in group {_G} has left, .*", Kind.LEFT),
    ((rf"Member MemberMetadata\(memberId={_M}, groupInstanceId={_OPTION}, clientId=.*\) "
      rf"has left group {_G} through explicit `LeaveGroup`(?: request|; client reason: {_D})"),
     Kind.LEFT),  # 3.0, from 3.2
    (rf"Pending member with memberId={_M} has left group {_G} through explicit .*", Kind.LEFT),
    (rf"Pending member {_M} is leaving group {_G}\.", Kind.LEFT),
    (rf"Unloading group metadata for {_G} with generation {_E}", _read_state(CLASSIC, "DEAD")),
    (rf"Loading group metadata for {_G} with generation {_E}", _read_state(CLASSIC)),
    ((r"(?:Starting up|Startup complete|Shutting down|Shutdown complete|Elected as |Resigned as |Removed \d+ offsets "
      r"|The following offsets |Failed to (?:write|persist) |Setting empty |Sending empty |Attempt to add |Member id "
      r"|Received unexpected |Static member joins during |Could not fetch offsets ).*"), None),
    (r"Pending member .* has been removed after session timeout expiration\.", None),
    (r"Request memberId=.* for static member with groupInstanceId=.* is fenced by \w+ .*", None),  # no group
    (rf"Group leader \[memberId: {_M}, groupInstanceId: .*", None),
    (rf"Group {_G} removed members who haven't sent their sync requests?: {_D}", Kind.ERROR),
    (r"Group .* is dead, skipping .*", None),
    (rf"Loaded consumer group {_G} with (?P<detail>\d+ members)\.", _read_state(CONSUMER)),
    (rf"Loaded classic group {_G} with (?P<detail>\d+ members)\.", _read_state(CLASSIC)),
    (rf"Loaded member {_M} in (?:consumer|classic) group {_G}\.", None),
    ((rf"Cannot (?:up|down)grade (?:the )?(?:classic|consumer) group {_G} to (?:consumer|classic) group"
      rf"(?: because|:) {_D}"), Kind.ERROR),
    (rf"Cannot join the consumer group {_G} with the classic protocol because {_D}", Kind.ERROR),
    (r"(?:Skip downgrading|Replaying|Cannot complete join phase|Received notification|Detected|Failed to parse) .*",
     None),
    (r"(?:Member .* has already been removed|The following groups were deleted:|Generated \d+ tombstone) .*", None),
    (r"Static member .* with unknown member id rejoins, assigning .*", None),  # 2.3, no group
)
# fmt: on

_RULES_IN_GROUP, _RULES_WITHOUT_PREFIX = (
    by_word(compile_rules(rows, re.ASCII | re.DOTALL)) for rows in (_IN_GROUP, _WITHOUT_PREFIX)
)
_PREFIX = re.compile(r"\[GroupCoordinator (?:\d{1,10}\]:|id=\d{1,10}(?: topic=\S{1,249} partition=\d{1,10})?\]) ")
_GROUP = re.compile(r"\[Group(?:Id)?[ =](?P<group>[^\n]{1,300}?)\](?P<other>\[)? ?")
_OFFSETS = "OffsetMetadataManager"
_STRICT = frozenset({"GroupMetadataManager", "ClassicGroup", "GroupCoordinator"})
"""Classes that only log about groups: a message without a rule was not understood."""
_COMMITTED = re.compile(
    rf"Committing offsets -?\d+ for partition (?P<id>{_ID})-(?P<topic>[\w.-]{{1,249}})-0 from member ", re.ASCII
)
"""A commit contains a topic with its id, from 4.2 on. Only commits of partition 0 are used, because there are so
many."""
_OTHER_GROUPS = re.compile(r"\b(?:share|streams|topology|[Ss]hareGroup|[Ss]treamsGroup)\b|initializing share")


def understand(entry: Message) -> Records | None:
    """The records of a message, `()` if it is irrelevant, None if it should have been understood but was not."""
    message = parse_message(entry)
    prefix = _PREFIX.match(message.text)
    if prefix is None or (message.logger and message.logger not in (*_STRICT, _OFFSETS)):
        return NO_BEARING
    text = message.text[prefix.end() :]
    head = _GROUP.match(text)
    group = head["group"] if head else ""
    text = text[head.end() :] if head else text
    message = message._replace(group=group, client_id="", instance_id="", thread=THREAD)
    found = _COMMITTED.match(text) if head and message.logger not in _STRICT else None
    if found or message.logger == _OFFSETS:
        return (record(message, Kind.TOPIC_NAMES, settings={found["id"]: found["topic"]}),) if found else ()
    if head and head["other"]:
        return NO_BEARING  # `[GroupId g][MemberId m]`: streams groups
    records = _apply(_RULES_IN_GROUP if head else _RULES_WITHOUT_PREFIX, message, text.rstrip())
    is_whole = text.count("(") == text.count(")")  # of half a line, the logger or the reason is open
    return () if records is None and not message.logger and is_whole else records


def _apply(rules: Mapping[str, tuple[Rule, ...]], message: JavaMessage, text: str) -> Records | None:
    for one in of_word(rules, text):
        match = one.pattern.fullmatch(text)
        if match is not None:
            return one.build(message, match)
    return NO_BEARING if _OTHER_GROUPS.search(text) else None


CLIENT = Client("broker", (b"[GroupCoordinator ",), understand)
FORMATS = (
    Format(
        name="broker",
        layout="kafka",
        first=b"[",
        header=KAFKA_HEADER,
        candidate=re.compile(rb" \[GroupCoordinator (?:id=)?\d"),
        parse=reading(kafka, CLIENT),
        needles=CLIENT.marks,
        reach=KAFKA_REACH,
    ),
)
