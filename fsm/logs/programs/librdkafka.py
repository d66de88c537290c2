"""Logs of librdkafka's consumers.

There are two layouts: librdkafka's own on stderr, `%7|1795220705.601|MEMBERID|A#consumer-1| [thrd:app]: text`, and the
one that passes the same text through Python's logging, `1795220705.601|DEBUG|MEMBERID [A#consumer-1] [thrd:app]: text`.
Most lines need `debug=cgrp`; MAXPOLL, SESSTMOUT, COMMITFAIL and FATAL are always logged. Texts are those of librdkafka
2.16.0 (`rdkafka_cgrp.c`, `rdkafka_request.c`) and, before the join states of 1.6, of 0.11.0 to 1.5.3. Every line is a
separate entry, including the lines of a list.

The meaning of the records:

- `client_id` includes the instance (`A#consumer-1`): one process may run several. Many lines have no group.
- `ASSIGN_BEGIN`, `REVOKE_BEGIN` and `LOST_BEGIN` mark where librdkafka queues the callback; the application receives it
  with its next poll. `ASSIGN_END` and `REVOKE_END` mark the application's answer: the join state that waits for it
  ends. `LOST_END` follows a `REVOKE_END` if the assignment was lost. A client without a callback has no `BEGIN`.
- Those lines contain the number of partitions, not their names: `ADDED` and `DROPPED` name them, one per record, after
  the answer.
- A loss with a callback is `LOST_DECIDED`, `LOST_BEGIN`, `REVOKE_END`, `DROPPED`, `LOST_END`. A fatal error queues no
  callback: `FATAL`, `LOST_DECIDED`, `DROPPED` only.
- Lists within a line are truncated with `...` at 512 bytes, and lack topic names until their metadata is known; `full`
  is None then. `OWNED` marks the coordinator's confirmation of an acknowledgement.
- KIP-848 members log topics when they send a subscription (`SUBSCRIBED`); classic members log one existing topic per
  line (`EFFECTIVE_TOPICS`).
- A leave of a KIP-848 member is two lines, so two `LEAVE_SENT`; the second has its epoch.
- `CLOSE_BEGIN` marks the application's call of `close()`. `CLOSE_END` marks the end of the client's group part, shortly
  before `close()` returns: the last line about it that every log has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from typing import Any, NamedTuple

from fsm.logs import Client, Format, Message
from fsm.logs.message import NO_BEARING
from fsm.logs.programs.client_facts import ClientFacts
from fsm.trace import DETAIL_LIMIT, Kind, Partition, TraceRecord, by_partition

JOIN_STATE_MACHINE = "rdkafka-join-state"
"""The `machine` of records of CGRPJOINSTATE lines."""
FACTS = ClientFacts(
    name="librdkafka",
    title="librdkafka, and what wraps it",
    supported_protocols="classic, KIP-848",
    ownership_lines="each partition added and dropped",
    not_logged="anything without `debug=cgrp`",
    mark="#consumer-",  # appended to the client id, with a number
    # One machine for both protocols.
    protocols={Kind.OWNED: "consumer", Kind.TARGET: "consumer", Kind.SYNCED: "classic"},
    begins_in={
        (JOIN_STATE_MACHINE, Kind.RECONCILING): ("INIT", "STEADY"),
        (JOIN_STATE_MACHINE, Kind.ASSIGN_BEGIN): ("WAIT_ASSIGN_CALL",),
        (JOIN_STATE_MACHINE, Kind.REVOKE_BEGIN): ("WAIT_UNASSIGN_CALL",),
        (JOIN_STATE_MACHINE, Kind.LOST_BEGIN): ("WAIT_UNASSIGN_CALL",),
    },
    id_names_instance=True,
    names_each_partition=True,
    one_thread=True,
    leaves_at_poll=True,
    epoch_before_assignment=True,
    pattern_matches_beginning=True,
)


class _Head(NamedTuple):
    ts_ms: int
    client_id: str
    thread: str

    def record(self, kind: Kind, **values: Any) -> TraceRecord:
        return TraceRecord(self.ts_ms, kind, client_id=self.client_id, thread=self.thread, **values)


_Found = dict[str, str]
"""The named groups of a rule."""
_Records = tuple[TraceRecord, ...]
_Reader = Callable[[_Head, _Found], _Records | None]
"""The records of a line that matches a rule; None if it was not understood after all."""


# -- values inside the texts --------------------------------------------------------------------------------

_ERRORS = {
    "API version not supported": "UNSUPPORTED_VERSION",
    "Consumer group has reached maximum size": "GROUP_MAX_SIZE_REACHED",
    "Coordinator load in progress": "COORDINATOR_LOAD_IN_PROGRESS",
    "Coordinator not available": "COORDINATOR_NOT_AVAILABLE",
    "Group authorization failed": "GROUP_AUTHORIZATION_FAILED",
    "Group member needs a valid member ID": "MEMBER_ID_REQUIRED",
    "Group rebalance in progress": "REBALANCE_IN_PROGRESS",
    "Inconsistent group protocol": "INCONSISTENT_GROUP_PROTOCOL",
    "Invalid group.id": "INVALID_GROUP_ID",
    "Invalid request": "INVALID_REQUEST",
    "Invalid session timeout": "INVALID_SESSION_TIMEOUT",
    "Not coordinator": "NOT_COORDINATOR",
    "Request timed out": "REQUEST_TIMED_OUT",
    "Specified group generation id is not valid": "ILLEGAL_GENERATION",
    "Static consumer fenced by other consumer with same group.instance.id": "FENCED_INSTANCE_ID",
    "The assignor or its version range is not supported by the consumer group": "UNSUPPORTED_ASSIGNOR",
    "The group id does not exist": "GROUP_ID_NOT_FOUND",
    "The instance ID is still used by another member in the consumer group": "UNRELEASED_INSTANCE_ID",
    "The member epoch is fenced by the group coordinator": "FENCED_MEMBER_EPOCH",
    "The member epoch is stale": "STALE_MEMBER_EPOCH",
    "The regular expression is not valid": "INVALID_REGULAR_EXPRESSION",
    "Topic authorization failed": "TOPIC_AUTHORIZATION_FAILED",
    "Unknown member": "UNKNOWN_MEMBER_ID",
}
"""Kafka's error names by librdkafka's descriptions (`rd_kafka_err_descs`)."""

_BROKER_ERROR = re.compile(r"Broker: ([^:]*)")
_NO_VALUE = ("NULL", "(null)")
"""A field that was not sent, and one that was sent as null."""
_ITEM = re.compile(r"(.+)\((?:\(null\)|[^()]*)\)\[(\d{1,9})\](?:@-?\d{1,19})?", re.ASCII)
"""`topic(topic id)[partition]@offset`"""
_SUBSCRIBED_ITEM = "((null))[-1]"
"""The suffix of each topic or pattern in a subscription."""


def _find_error_name(text: str) -> str:
    """The name of the broker error at the beginning of the text, or the text itself."""
    broker = _BROKER_ERROR.match(text)
    return _ERRORS.get(broker[1], text[:DETAIL_LIMIT]) if broker else text[:DETAIL_LIMIT]


def _parse_partitions(text: str) -> tuple[Partition, ...] | None:
    """The partitions of a list; None if it was not sent, is truncated (`...`), or contains a topic without a name."""
    if text in _NO_VALUE:
        return None
    found: list[Partition] = []
    for item in text.split(", ") if text else ():
        match = _ITEM.fullmatch(item)
        if match is None or match[1] in _NO_VALUE:
            return None
        found.append((match[1], int(match[2])))
    return by_partition(found)


def _parse_subscription(text: str) -> tuple[tuple[str, ...], str]:
    """The topics of a subscription list, and one pattern for all its patterns; of a truncated list the readable
    part."""
    names = [name.removeprefix(", ") for name in text.split(_SUBSCRIBED_ITEM)[:-1]]
    topics = sorted({name for name in names if not name.startswith("^")})
    return tuple(topics), "|".join(name for name in names if name.startswith("^"))


# -- readers ----------------------------------------------------------------------------------------------


def _emit(kind: Kind, head: _Head, found: _Found) -> _Records:
    """One record; groups named like fields of a record set them, and `error` sets `detail` to its name."""
    values: dict[str, Any] = {name: value or "" for name, value in found.items()}
    if "epoch" in values:
        values["epoch"] = int(values["epoch"])
    if "full" in values:
        values["full"] = _parse_partitions(values["full"])
    if "error" in values:
        values["detail"] = _find_error_name(values.pop("error"))
    if "detail" in values:
        values["detail"] = values["detail"][:DETAIL_LIMIT]
    return (head.record(kind, **values),)


def _count(kind: Kind, head: _Head, found: _Found) -> _Records:
    """One record for a line that contains the number of partitions, but not their names."""
    detail = f"{found['count']} partition(s): {found['reason']}"
    return (head.record(kind, group=found["group"], detail=detail[:DETAIL_LIMIT]),)


def _read_partition(kind: Kind, head: _Head, found: _Found) -> _Records:
    return (head.record(kind, group=found["group"], partitions=((found["topic"], int(found["partition"])),)),)


def _read_start(head: _Head, found: _Found) -> _Records:
    return (head.record(Kind.STARTED, settings={"client": "librdkafka", "version": found["version"]}),)


def _read_member_id(head: _Head, found: _Found) -> _Records:
    """No record if there is no id before or after, and when the client is destroyed."""
    new = found["member_id"]
    if new == "(not-set)" or (not new and found["old"] in ("", "(not-set)")):
        return ()
    return (head.record(Kind.MEMBER_ID, group=found["group"], member_id=new),)


_ANSWERED = {"wait-assign-call": Kind.ASSIGN_END, "wait-unassign-call": Kind.REVOKE_END}
"""The join states that wait for the application, and the kind of record when they end."""


def _read_join_state(head: _Head, found: _Found) -> _Records:
    state, next_state, group = found["state"], found["next_state"], found["group"]
    names = {"state": _convert_state(state), "next_state": _convert_state(next_state)}
    step = head.record(Kind.TRANSITION, group=group, machine=JOIN_STATE_MACHINE, **names)
    if state not in _ANSWERED or (state, next_state) == ("wait-assign-call", "wait-unassign-call"):
        return (step,)  # a close may withdraw an unanswered assignment
    return head.record(_ANSWERED[state], group=group), step


def _convert_state(name: str) -> str:
    return name.upper().replace("-", "_")


_ANSWERED_BEFORE_1_6 = {"wait-assign-rebalance_cb": Kind.ASSIGN_END, "wait-revoke-rebalance_cb": Kind.REVOKE_END}


def _read_older_join_state(head: _Head, found: _Found) -> _Records:
    """Before 1.6 the join states were those of another machine."""
    kind = _ANSWERED_BEFORE_1_6.get(found["state"])
    return () if kind is None else (head.record(kind, group=found["group"]),)


_REACHED = {"up": Kind.COORDINATOR_FOUND, "term": Kind.CLOSE_END}
"""States of the connection to the group's coordinator."""


def _read_cgrp_state(head: _Head, found: _Found) -> _Records:
    kind = _REACHED.get(found["next_state"], Kind.COORDINATOR_LOST if found["state"] == "up" else None)
    return () if kind is None else (head.record(kind, group=found["group"]),)


_LEAVE_EPOCHS = (-1, -2)
"""-2 if a static member leaves temporarily."""


def _read_heartbeat(head: _Head, found: _Found) -> _Records:
    epoch = int(found["epoch"])
    kind = Kind.JOINING if epoch == 0 else Kind.LEAVE_SENT if epoch in _LEAVE_EPOCHS else Kind.HEARTBEAT_SENT
    values = {name: "" if found[name] in _NO_VALUE else found[name] for name in ("group", "member_id", "instance_id")}
    full, (topics, _) = _parse_partitions(found["full"]), _parse_subscription(found["topics"])
    return (head.record(kind, epoch=epoch, full=full, topics=topics, **values),)


def _read_acknowledged(head: _Head, found: _Found) -> _Records:
    """The application has accepted what the coordinator now considers its assignment."""
    full = _parse_partitions(found["full"])
    return () if full is None else (head.record(Kind.OWNED, full=full),)


def _read_subscription(head: _Head, found: _Found) -> _Records:
    topics, pattern = _parse_subscription(found["topics"])
    return (head.record(Kind.SUBSCRIBED, topics=topics, detail=pattern[:DETAIL_LIMIT]),)


def _read_topic(head: _Head, found: _Found) -> _Records:
    return (head.record(Kind.EFFECTIVE_TOPICS, topics=(found["topic"],)),)


_LOSSES = (
    "Consumer group session timed out",
    "JoinGroup error",
    "OffsetCommit error",
    "SyncGroup error",
    "illegal generation",
    "max.poll.interval.ms exceeded",
    "member fenced",
    "resetting member-id",
    "topics not available",
)
"""Prefixes of the reasons for which librdkafka revokes an assignment as lost."""


def _read_revoke(head: _Head, found: _Found) -> _Records:
    return _count(Kind.LOST_BEGIN if found["reason"].startswith(_LOSSES) else Kind.REVOKE_BEGIN, head, found)


def _read_revoke_decision(head: _Head, found: _Found) -> _Records:
    return () if int(found["count"]) == 0 else _count(Kind.REVOKE_DECIDED, head, found)


def _read_poll_expired(head: _Head, found: _Found) -> _Records:
    """The line also announces the leave; a KIP-848 member sends it only when the application polls again."""
    setting = {"max.poll.interval.ms": found["limit"]}
    expired = head.record(Kind.POLL_EXPIRED, detail=found["exceeded"], settings=setting)
    return expired, head.record(Kind.LEAVE_BEGIN, detail="max.poll.interval.ms exceeded")


_LOST_MEMBERSHIP = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
_ORDINARY = ("REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED")
"""Responses with which a classic coordinator requests a rejoin."""


def _read_refusal(head: _Head, found: _Found) -> _Records:
    """The record of an error in a classic group's response."""
    name = _find_error_name(found["error"])
    if name in _ORDINARY:
        return ()
    kind = Kind.FENCED if name in _LOST_MEMBERSHIP else Kind.ERROR
    return (head.record(kind, group=found.get("group", ""), detail=name),)


def _read_join_answer(head: _Head, found: _Found) -> _Records | None:
    # Member ids contain the client id, which may contain anything: parsed from the end.
    before, counted, after = found["rest"].rpartition(", member metadata count ")
    error = after.partition(": ")[2]
    if not counted:  # before 1.6
        before, _, error = found["rest"].rpartition(" members in group: ")
        before = before.rpartition(", ")[0]
    _, named, member_id = before.rpartition(", my MemberId ")
    if not (named and error):
        return None
    if error != "(no error)":
        return _read_refusal(head, {"error": error})
    return (head.record(Kind.JOINED, member_id=member_id, epoch=int(found["epoch"])),)


def _read_sync_answer(head: _Head, found: _Found) -> _Records:
    return (head.record(Kind.SYNCED),) if found["error"] == "Success" else _read_refusal(head, found)


_NOT_A_FAILURE = ("Success", "Local: No offset stored")


def _read_commit(head: _Head, found: _Found) -> _Records:
    return () if found["error"] in _NOT_A_FAILURE else _emit(Kind.COMMIT_FAILED, head, found)


def _no_records(_head: _Head, _found: _Found) -> _Records:
    """No records, but with other digits there might be: not `NO_BEARING`."""
    return ()


# -- rules ------------------------------------------------------------------------------------------------

_GROUP = r'Group "(?P<group>[^"]*)"'
_FROM = r'(?:[^ "]+: )?'
"""The broker's name, before texts that concern one."""
_N = r"\d{1,9}"
"""As many digits as certainly fit in 32 bits."""
_EPOCH = r"(?P<epoch>-?\d{1,9})"
_ERROR = r"(?P<error>.*)"
_FULL = r'"(?P<full>[^"]*)"'
_MEMBER_ID = r'"(?P<member_id>[^"]*)"'
_STATES = r"(?P<state>[a-z_-]+) -> (?P<next_state>[a-z_-]+)"
_IN_STATE = r"in state [a-z-]+ \(join[- ]state [a-z_-]+"
_COUNT = r"(?P<count>\d{1,9})"
_TOPIC_PARTITION = r"(?P<topic>\S+) \[(?P<partition>\d{1,9})\]"
_QUEUED = r"partition\(s\) to application on queue [^ ]+: (?P<reason>.*)"
_QUEUED_BEFORE_1_6 = r"partition\(s\) to application rebalance callback on queue [^ ]+: (?P<reason>.*)"
_KIP_848 = "ConsumerGroupHeartbeat"
_REQUEST = (
    rf'{_FROM}{_KIP_848} of member id {_MEMBER_ID}, group id "(?P<group>[^"]*)", generation id {_EPOCH}, '
    rf'group instance id "(?P<instance_id>[^"]*)", current assignment {_FULL}, '
    r'subscribed topics "(?P<topics>[^"]*)", .*'
)
_COORDINATOR_GONE = (
    rf"{_KIP_848} failed due to coordinator \([^)]*\) (?:loading in progress|no longer available): {_ERROR}: "
    r"(?:retrying|re-querying for coordinator)"
)
_HEARTBEAT_NOISE = (
    r"(?:Expediting next heartbeat|Metadata not found|Metadata available|No metadata to request|Not reconciling"
    r"|Reconciliation in progress|Acknowledging target|Revoking assignment as lost|Heartbeat response: discarding"
    r"|Heartbeat failed|ShareGroupHeartbeat).*"
)
_REBALANCE = (
    rf"{_GROUP} (?:initiating rebalance|is rebalancing) \([A-Z]+\) {_IN_STATE}\) with {_COUNT} assigned "
    r"partition\(s\): (?P<reason>.*)"
)
_REBALANCE_NOISE = (
    rf"{_GROUP}(?: initiating rebalance| is rebalancing in|: revoking all| revoking|: consumer is terminating"
    r"|: skipping|: rebalance \([A-Z]+\) already in progress).*"
)
_RESTARTED_LIST = (
    rf"{_GROUP}: (?:effective subscription list changed|clearing subscribed topics list|no topics in metadata).*"
)
_REJOIN = rf"{_GROUP}: (?:J|Rej)oining group (?:without an assignment|with {_N} owned partition\(s\)): (?P<detail>.*)"
_LEFT = rf"(?:LeaveGroup|{_KIP_848}) response (?:received in state [a-z-]+|error in state [a-z-]+: {_ERROR})"
_LEAVE_NOISE = rf"(?:{_GROUP}: leave \(in state [a-z-]+\): .* already in-transit|{_FROM}Share consumer: .*)"
_COMMIT_NOISE = rf"(?:{_FROM}Committing offsets|{_GROUP}: unable to OffsetCommit|Deferring|OffsetCommit internal) .*"
_LATE_COMMIT = rf"{_FROM}OffsetCommit for -?{_N} partition\(s\)(?: in join-state|:) .*: returned: {_ERROR}"

# fmt: off
_TEXTS: dict[str, tuple[tuple[str, Kind | _Reader | None], ...]] = {
    "INIT": (
        (r"librdkafka v(?P<version>\S{1,100}) \(0x[0-9a-f]+\) .* initialized \(.*",               _read_start),),
    "MEMBERID": (
        (rf'{_GROUP}: updating member id "(?P<old>[^"]*)" -> {_MEMBER_ID}',                       _read_member_id),),
    "CGRPSTATE": (
        (rf"{_GROUP} changed state {_STATES} \((?:v{_N}, )?join-state [a-z_-]+\)",                _read_cgrp_state),),
    "CGRPJOINSTATE": (
        (rf"{_GROUP} changed join state {_STATES} \(state [a-z-]+\)",                             _read_join_state),
        (rf"{_GROUP} changed join state {_STATES} \(v{_N}, state [a-z-]+\)",                _read_older_join_state)),
    "SUBSCRIBE": (
        (rf"{_GROUP}: subscribe to new (?:unset )?subscription of 0 topics .*",                   Kind.UNSUBSCRIBED),
        (rf"{_GROUP}: (?:subscribe to|modifying|postponing|invoking) .*",                         _no_records)),
    "SUBSCRIPTION": (
        (rf" Topic (?P<topic>\S+) with -?{_N} partition\(s\)",                                    _read_topic),
        (_RESTARTED_LIST,                                                                 Kind.EFFECTIVE_TOPICS)),
    "HEARTBEAT": (
        (_REQUEST,                                                                                _read_heartbeat),
        (rf"{_KIP_848} response received for member id {_MEMBER_ID} with epoch {_EPOCH}",         Kind.HEARTBEAT_OK),
        (rf"{_KIP_848} received target assignment {_FULL}",                                       Kind.TARGET),
        (rf"Reconciliation starts with new target assignment {_FULL}\. .*",                       Kind.RECONCILING),
        (rf"Target assignment acked, new current assignment +{_FULL}",                            _read_acknowledged),
        (r'Sending new subscription "(?P<topics>.*)"',                                            _read_subscription),
        (r"Expediting next heartbeat.*: app polled after poll interval exceeded",                 Kind.POLL_LATE),
        (rf"{_KIP_848} failed due to: {_ERROR}: will rejoin the group",                           Kind.FENCED),
        (_COORDINATOR_GONE,                                                                       Kind.ERROR),
        (rf"{_KIP_848} failed: {_ERROR}",                                                         Kind.ERROR),
        (rf'{_FROM}Heartbeat for group "(?P<group>[^"]*)" generation id {_EPOCH}',                Kind.HEARTBEAT_SENT),
        (rf"{_GROUP} heartbeat error response {_IN_STATE}, {_N} partition\(s\) assigned\): {_ERROR}", _read_refusal),
        (_HEARTBEAT_NOISE,                                                                        None)),
    "ASSIGN": (
        (rf"{_GROUP}: delegating (?:incremental )?assign of {_COUNT} {_QUEUED}", partial(_count, Kind.ASSIGN_BEGIN)),
        (rf"{_GROUP}: delegating (?:incremental )?revoke of {_COUNT} {_QUEUED}",                  _read_revoke),
        (rf"{_GROUP}: delegating assign of {_COUNT} {_QUEUED_BEFORE_1_6}",          partial(_count, Kind.ASSIGN_BEGIN)),
        (rf"{_GROUP}: delegating revoke of {_COUNT} {_QUEUED_BEFORE_1_6}",          partial(_count, Kind.REVOKE_BEGIN)),
        (rf"{_GROUP}: application \*assign\(\) call failed: (?P<detail>.*)",                      Kind.ERROR),
        (rf"{_GROUP}(?:: new assignment of|: assigning| running|: Consumer| [a-z-]+ assignment for) .*",      None),
        (r"(?: |range: ).*",                                                                      None)),
    "PARTADD": (
        (rf"{_GROUP}: add {_TOPIC_PARTITION}",                              partial(_read_partition, Kind.ADDED)),),
    "PARTDEL": (
        (rf"{_GROUP}: delete {_TOPIC_PARTITION}",                           partial(_read_partition, Kind.DROPPED)),
        (r"Not purging toppar .*",                                                                None)),
    "LOST": (
        (rf"{_GROUP}: current assignment of {_COUNT} partition\(s\) lost: (?P<reason>.*)",
                                                                                 partial(_count, Kind.LOST_DECIDED)),
        (rf"{_GROUP}: current assignment no longer considered lost: (?P<detail>.*)",              Kind.LOST_END)),
    "REBALANCE": (
        (_REBALANCE,                                                                             _read_revoke_decision),
        (rf"{_GROUP}: (?P<detail>(?:internal|unexpected instruction) .*)",                        Kind.ERROR),
        (_REBALANCE_NOISE,                                                                        None)),
    "JOIN": (
        (rf'{_FROM}Joining group "(?P<group>[^"]*)" with {_N} subscribed topic\(s\)(?: and member id {_MEMBER_ID})?',
                                                                                                  Kind.JOINING),
        (rf"{_GROUP}: (?:join with|postponing join|no matching topics) .*",                       None)),
    "REJOIN": (
        (_REJOIN,                                                                                 Kind.JOINING),
        (rf"{_GROUP} rejoining in join-state [a-z_-]+ with(?:out)? an assignment",                Kind.JOINING),
        (rf"{_GROUP}(?: \(re\)joining|: subscription updated) .*",                                None)),
    "JOINGROUP": (
        (rf"JoinGroup response: GenerationId {_EPOCH}, (?P<rest>.*)",                             _read_join_answer),
        (r"(?:I am elected leader|Elected leader|JoinGroup response: discarding|Unsupported assignment) .*",     None)),
    "SYNCGROUP": (
        (rf"SyncGroup response: {_ERROR} \({_N} bytes of MemberState data\)",                     _read_sync_answer),
        (r"SyncGroup response: discarding .*",                                                    None)),
    "MAXPOLL": (
        (rf"Application maximum poll interval \((?P<limit>{_N})ms\) exceeded by (?P<exceeded>{_N})ms .*",
                                                                                                  _read_poll_expired),),
    "SESSTMOUT": (
        (r"(?P<detail>.*): revoking assignment and rejoining group",                      Kind.GENERATION_RESET),),
    "FATAL": (
        (rf"Fatal error: {_ERROR}",                                                               Kind.FATAL),
        (r"Suppressing subsequent fatal error: .*",                                               None)),
    "COMMIT": (
        (_LATE_COMMIT,                                                                            _read_commit),
        (_COMMIT_NOISE,                                                                           None)),
    "COMMITFAIL": (
        (r"(?P<detail>Offset commit .*)",                                                         Kind.COMMIT_FAILED),),
    "LEAVE": (
        (rf"{_GROUP}: leave(?: \(in state [a-z-]+\))?",                                           Kind.LEAVE_BEGIN),
        (rf"{_FROM}Leaving group",                                                                Kind.LEAVE_SENT),
        (_LEAVE_NOISE,                                                                            None)),
    "LEAVEGROUP": (
        (_LEFT,                                                                                   Kind.LEFT),
        (r"LeaveGroup response: .*",                                                              Kind.LEFT),
        (r"ShareGroupHeartbeat .*",                                                               None)),
    "CLOSE": (
        (r"Closing consumer",                                                                     Kind.CLOSE_BEGIN),
        (r"(?:Consumer closed|Waiting for close|Disabling and purging|Deferring close).*",        None)),
}
# fmt: on
"""By facility: patterns of its texts with their meanings. The first match counts. None: ignored, because it does not
concern the membership or a neighbouring line has the same information."""


def _ignore(_head: _Head, _found: _Found) -> _Records:
    return NO_BEARING


def _reader(meaning: Kind | _Reader | None) -> _Reader:
    return partial(_emit, meaning) if isinstance(meaning, Kind) else meaning or _ignore


_RULES = {
    facility: tuple((re.compile(shape, re.ASCII), _reader(meaning)) for shape, meaning in texts)
    for facility, texts in _TEXTS.items()
}


# -- layouts ----------------------------------------------------------------------------------------------

_THREAD_AND_TEXT = r"(?:\[thrd:([^\n]*?)\]: )?([^\n]*)"
_STDERR = re.compile(r"%\d\|(\d{1,11})\.(\d{3})\|([A-Z0-9_]+)\|([^|\n]*)\| " + _THREAD_AND_TEXT, re.ASCII)
_LOGGING = re.compile(r"(\d{1,11})\.(\d{3})\|[A-Z]+\|([A-Z0-9_]+) \[([^\]\n]*)\] " + _THREAD_AND_TEXT, re.ASCII)


_HEAD = re.compile(r"%\d\|\d{1,11}\.\d{3}\|", re.ASCII)
"""Not at the beginning of a line: two processes wrote into each other's, and the text may be the other one's."""


def _parse(layout: re.Pattern[str], entry: str, _zone: tzinfo) -> Sequence[TraceRecord] | None:
    match = layout.match(entry)
    if match is None or _HEAD.search(entry, 1):
        return None
    seconds, milliseconds, facility, name, thread, text = match.groups()
    if facility not in _RULES or FACTS.mark not in name:
        return NO_BEARING  # producers print some of the same facilities
    head = _Head(int(seconds) * 1000 + int(milliseconds), name, _classify_thread(thread))
    return _apply(_RULES[facility], head, text)


def _apply(rules: Iterable[tuple[re.Pattern[str], _Reader]], head: _Head, text: str) -> _Records | None:
    for shape, reader in rules:
        found = shape.fullmatch(text)
        if found is not None:
            return reader(head, found.groupdict())
    return None


def understand(message: Message) -> Sequence[TraceRecord] | None:
    """The records of a message, whatever wraps librdkafka's text `[thrd:NAME]: TEXT`.

    Facility and instance precede it, or are in fields of their own (or in the logger's name), or are missing: then only
    the text is used, and a text without a rule may come from any program.
    """
    core = _CORE.search(message.text)
    if core is None:
        return ()
    if _HEAD.search(message.text, core.start()):
        return None
    around = [message.text[: core.start()], message.logger, *_list_texts(message.fields)]
    name = next((found[0] for one in around if (found := _INSTANCE.search(one))), "")
    if name and FACTS.mark not in name:
        return ()
    head = _Head(message.ts_ms, name or FACTS.name, _classify_thread(core[1]))
    facility = next((word for one in around for word in _FACILITY.findall(one)), "")
    return _apply(_RULES[facility], head, core[2]) if facility else _apply(_ANY_FACILITY, head, core[2]) or ()


def _list_texts(fields: Mapping[str, Any]) -> list[str]:
    """The short texts among the fields, one level deep, except the one that contains the message."""
    inner = [one for value in fields.values() if isinstance(value, Mapping) for one in value.values()]
    texts = [one for one in (*fields.values(), *inner) if isinstance(one, str) and len(one) <= _SHORT]
    return [one for one in texts if "[thrd:" not in one]


_SHORT = 400
_CORE = re.compile(r"\[thrd:([^\n]{0,400}?)\]: ([^\n]*)")
_INSTANCE = re.compile(r"[^\s|\[\]\"'=,]{1,300}#(?:consumer|producer)-\d{1,9}", re.ASCII)
_FACILITY = re.compile(
    rf"(?<![\w.#-])(?:{'|'.join(sorted(_RULES.keys() - {'FATAL'}))})(?![\w#.-])",  # FATAL is a level of loggers, too
    re.ASCII,
)
_ANY_FACILITY = sorted(
    (one for facility in sorted(_RULES) for one in _RULES[facility]), key=lambda rule: rule[1] is _ignore
)
"""Texts without a meaning last: those of one facility are wide, and may match another one's."""

CLIENT = Client("librdkafka", (b"[thrd:",), understand)


def _classify_thread(name: str | None) -> str:
    """Empty if `log.thread.name` is off."""
    return "" if name is None else "app" if name == "app" else "background"


_FACILITIES = "|".join(sorted(_RULES)).encode()

FORMATS = (
    Format(
        name="librdkafka",
        layout="stderr",
        first=b"%",
        header=re.compile(rb"%\d\|\d{1,11}\.\d{3}\|[A-Z0-9_]{1,20}\|"),
        candidate=re.compile(rb"\|(?:" + _FACILITIES + rb")\|"),
        parse=partial(_parse, _STDERR),
        needles=tuple(f"|{facility}|".encode() for facility in sorted(_RULES)),
        reach=40,
    ),
    Format(
        name="librdkafka",
        layout="logging",
        first=b"0123456789",
        header=re.compile(rb"\d{1,11}\.\d{3}\|[A-Z]{1,10}\|[A-Z0-9_]{1,20} \["),
        candidate=re.compile(rb"\|(?:" + _FACILITIES + rb") \["),
        parse=partial(_parse, _LOGGING),
        needles=tuple(f"|{facility} [".encode() for facility in sorted(_RULES)),
        reach=49,
    ),
)
