"""Messages of the Java consumer about its membership in the classic protocol (`group.protocol=classic`).

There is no line per state: a message shows the new state but not the previous one, so `state` is empty. All messages
come from the coordinator's logger, on the application's thread or the heartbeat thread; only some layouts print the
thread. Source: AbstractCoordinator and ConsumerCoordinator in Kafka 1.0 to 4.4.
"""

from __future__ import annotations

import re

from fsm.logs.programs.java_consumer_member import read_reconciling
from fsm.logs.programs.java_messages import (
    EPOCH,
    ID,
    Build,
    JavaMessage,
    Records,
    Row,
    emit,
    emit_error,
    error_name,
    ignore,
    partitions,
    read_named_groups,
    record,
    rule_set,
)
from fsm.trace import Kind, TraceRecord

MACHINE = "classic-member"
CLOSED = "the consumer is being closed"
LOST_MEMBERSHIP = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"})
"""Responses after which the coordinator no longer knows the member or its generation."""


def _make_transition(message: JavaMessage, next_state: str, **fields: object) -> TraceRecord:
    return record(message, Kind.TRANSITION, machine=MACHINE, next_state=next_state, **fields)


def _read_joining(message: JavaMessage, _match: re.Match[str]) -> Records:
    return _make_transition(message, "PREPARING_REBALANCE"), record(message, Kind.JOINING)


def _read_arrival(kind: Kind, next_state: str) -> Build:
    """A generation was joined or synced."""

    def build(message: JavaMessage, match: re.Match[str]) -> Records:
        return _make_transition(message, next_state, **read_named_groups(match)), record(
            message, kind, **read_named_groups(match)
        )

    return build


def _read_agreed(message: JavaMessage, match: re.Match[str]) -> Records:
    """Up to Kafka 2.4, a single line reports the join when the generation is synced."""
    epoch = int(match["epoch"])
    joined = _make_transition(message, "COMPLETING_REBALANCE"), record(message, Kind.JOINED, epoch=epoch)
    return *joined, _make_transition(message, "STABLE"), record(message, Kind.SYNCED, epoch=epoch)


_UNKNOWN_MEMBER = emit(Kind.FENCED, detail="UNKNOWN_MEMBER_ID")
_REPORT_TAKEN = emit(Kind.ERROR, detail="FENCED_INSTANCE_ID")
"""Another process uses the instance id."""


def _read_reset(message: JavaMessage, match: re.Match[str]) -> Records:
    """The generation is reset. A rejected commit has no other line about the lost membership."""
    reset = (_make_transition(message, "UNJOINED"), record(message, Kind.GENERATION_RESET, detail=match["reason"]))
    error = error_name(match["reason"])
    if error in LOST_MEMBERSHIP and "OFFSET_COMMIT" in match["reason"]:
        return *reset, record(message, Kind.FENCED, detail=error)
    return reset


def _read_refusal(message: JavaMessage, match: re.Match[str]) -> Records:
    """A join, sync or heartbeat was rejected: fenced, or an error after which the client retries."""
    error = error_name(match["detail"])
    kind = Kind.FENCED if error in LOST_MEMBERSHIP else Kind.ERROR
    return (record(message, kind, detail=error),)


def _read_rejoin_request(message: JavaMessage, match: re.Match[str]) -> Records:
    """A leaving client requests a rejoin, too, which only happens if it keeps running."""
    reason = match["reason"]
    if "pro-actively leaving" in reason:
        return ()
    asked = record(message, Kind.JOINING, detail=reason)
    given = _GIVEN_ID.search(reason)
    return (asked, record(message, Kind.MEMBER_ID, member_id=given[1])) if given else (asked,)


_GIVEN_ID = re.compile(r"with the given member-id: (\S{1,300})", re.ASCII)


def _read_leave(message: JavaMessage, match: re.Match[str]) -> Records:
    """The leave begins and is sent at once; a static member closes without it."""
    given = match.groupdict()
    reason = given.get("reason", "")  # none up to Kafka 2.4
    fields = {"member_id": given.get("member_id", ""), "detail": reason}
    left = (record(message, Kind.LEAVE_BEGIN, **fields), record(message, Kind.LEAVE_SENT, **fields))
    return (record(message, Kind.CLOSE_BEGIN), *left) if reason == CLOSED else left


def _read_target(message: JavaMessage, match: re.Match[str]) -> Records | None:
    listing = match["full"]
    full = partitions(listing) if listing else None
    if full is None and not message.cut:
        return None
    return (record(message, Kind.TARGET, full=full),)


def _read_commit_error(message: JavaMessage, match: re.Match[str]) -> Records | None:
    found = partitions(match["partition"])
    if not found:
        return None
    return (record(message, Kind.COMMIT_FAILED, partitions=found, detail=error_name(match["detail"])),)


_GENERATION = (
    rf"Generation\{{generationId=(?P<epoch>{EPOCH}), memberId='(?P<member_id>[^'\n]{{0,300}})', "
    r"protocol='[^'\n]{0,100}'\}"
)
_ANY_GENERATION = r"Generation\{[^}\n]{0,700}\}"
_NODE = r".{0,300}?"
_DETAIL = r"(?P<detail>[^\n]*)"
_KIND_OF_ERROR = r"(?: due to (?:fatal|unexpected|unsupported version|non-fatal) error)?"

# fmt: off
_JOINS: tuple[Row, ...] = (
    (r"\(Re-\)joining group", _read_joining),
    (rf"Successfully joined group with generation {_GENERATION}", _read_arrival(Kind.JOINED, "COMPLETING_REBALANCE")),
    (r"Successfully joined group with generation (?P<epoch>\d{1,9})$", _read_agreed),
    (rf"Successfully synced group in generation {_GENERATION}", _read_arrival(Kind.SYNCED, "STABLE")),
    (r"Resetting generation (?:(?:and member id )?due to:?|after encountering) (?P<reason>[^\n]*)", _read_reset),
    (r"Request joining group due to: (?P<reason>[^\n]*)", _read_rejoin_request),
    (r"Requesting to re-join the group and trigger rebalance since (?P<reason>[^\n]*)", _read_rejoin_request),
    (r"JoinGroup failed due to non-fatal error: MEMBER_ID_REQUIRED\.? Will set the member id as (?P<member_id>\S+) ",
     Kind.MEMBER_ID),
    (rf"JoinGroup failed{_KIND_OF_ERROR}[:.] {_DETAIL}", _read_refusal),
    (rf"SyncGroup failed{_KIND_OF_ERROR}[:.] {_DETAIL}", _read_refusal),
    (rf"JoinGroup failed due to inconsistent {_DETAIL}", emit_error(Kind.ERROR)),
    (rf"SyncGroup failed due to inconsistent {_DETAIL}", emit_error(Kind.ERROR)),
    # Up to Kafka 2.6.
    (r"Attempt to join group returned \w+ error\. Will set the member id as (?P<member_id>\S+) ", Kind.MEMBER_ID),
    (rf"Attempt to join group failed{_KIND_OF_ERROR}[:.] {_DETAIL}", _read_refusal),
    (rf"Attempt to join group failed due to unsupported version error{_DETAIL}", _read_refusal),
    (r"Attempt to join group failed due to unknown member id", _UNKNOWN_MEMBER),
    (rf"Attempt to join group with generation {_ANY_GENERATION} failed because the group instance id ", _REPORT_TAKEN),
    (rf"SyncGroup with {_ANY_GENERATION} failed: {_DETAIL}", _read_refusal),
    (rf"SyncGroup with {_ANY_GENERATION} failed because the group instance id ", _REPORT_TAKEN),
    (r"Received fatal exception: group\.instance\.id gets fenced", _REPORT_TAKEN),
    (r"Updating assignment with", read_reconciling),
    (r"Notifying assignor about the new Assignment\(partitions=(?P<full>\[[^\]]*\])?", _read_target),
    (r"(?P<detail>Generation data was cleared by heartbeat thread)\b", Kind.ERROR),
)
_HEARTBEATS: tuple[Row, ...] = (
    (r"Sending Heartbeat request with generation (?P<epoch>\d{1,9}) and member id (?P<member_id>\S{0,300}) ",
     emit(Kind.HEARTBEAT_SENT, thread="background")),
    (r"Received successful Heartbeat response", Kind.HEARTBEAT_OK),
    ((rf"Attempt to heartbeat with {_ANY_GENERATION} and group instance id {_NODE} "
      r"failed due to (?P<detail>[A-Z_]{1,60}), resetting"), _read_refusal),
    (r"Attempt to heartbeat failed (?:for )?since member id ", _UNKNOWN_MEMBER),
    (r"Attempt to heartbeat failed since generation ", emit(Kind.FENCED, detail="ILLEGAL_GENERATION")),
    (r"consumer poll timeout has expired", emit(Kind.POLL_EXPIRED, thread="background")),
    (r"This member will leave the group because consumer poll timeout has expired",
     emit(Kind.POLL_EXPIRED, thread="background")),  # up to Kafka 2.3
    (r"Caught fenced group\.instance\.id ", emit(Kind.ERROR, detail="FENCED_INSTANCE_ID", thread="background")),
    (r"(?P<detail>Heartbeat thread failed due to unexpected error)", emit(Kind.ERROR, thread="background")),
    (r"(?P<detail>A group authorization error occurred in the heartbeat thread)", Kind.ERROR),
    (r"(?P<detail>An authentication error occurred in the heartbeat thread)", Kind.ERROR),
)
_LEAVES: tuple[Row, ...] = (
    (rf"Member (?P<member_id>{ID}) sending LeaveGroup request to coordinator {_NODE} due to (?P<reason>[^\n]*)",
     _read_leave),
    (rf"Member (?P<member_id>{ID}) sending LeaveGroup request to coordinator ", _read_leave),
    (r"Sending LeaveGroup request to coordinator ", _read_leave),  # up to Kafka 2.1
    (rf"LeaveGroup response with {_GENERATION} returned successfully", Kind.LEFT),
    (rf"LeaveGroup request with {_ANY_GENERATION} failed with error: {_DETAIL}", emit_error(Kind.ERROR)),
    # Of the client's own commits only that of close() is synchronous, and it is close()'s first action.
    (r"Sending synchronous auto-commit of offsets", emit(Kind.CLOSE_BEGIN, thread="app")),
)
_COMMITS: tuple[Row, ...] = (
    (rf"Offset commit failed on partition (?P<partition>\S{{1,270}}) at offset -?\d{{1,20}}: {_DETAIL}",
     _read_commit_error),
    (rf"OffsetCommit failed with {_ANY_GENERATION}: {_DETAIL}", emit_error(Kind.COMMIT_FAILED)),
    (rf"OffsetCommit failed with {_ANY_GENERATION} due to group instance id {_NODE} fenced",
     emit(Kind.COMMIT_FAILED, detail="FENCED_INSTANCE_ID")),
    (rf"Asynchronous auto-commit of offsets .*? failed: {_DETAIL}", emit_error(Kind.COMMIT_FAILED)),
    (rf"Synchronous auto-commit of offsets .*? failed: {_DETAIL}", emit_error(Kind.COMMIT_FAILED)),
    (r"Failing OffsetCommit request since the consumer is not part of an active group",
     emit(Kind.COMMIT_FAILED, detail="CommitFailedException")),
)
_COORDINATOR: tuple[Row, ...] = (
    (rf"Group coordinator {_NODE} is unavailable or invalid due to cause: (?P<detail>.{{0,400}}?)\. ?isDisconnected",
     Kind.COORDINATOR_LOST),
    (rf"Group coordinator {_NODE} is unavailable or invalid, will attempt ", Kind.COORDINATOR_LOST),
    (rf"Marking the coordinator {_NODE} dead", Kind.COORDINATOR_LOST),  # 1.0
    (r"Discovered group coordinator ", Kind.COORDINATOR_FOUND),
)
# fmt: on
_IGNORED = ignore(
    r"Attempt to join group ",
    r"Asynchronous auto-commit of offsets ",
    r"Attempt to heartbeat ",
    r"Auto-commit of offsets ",
    r"Close timed out with ",
    r"Committed offset ",
    r"Completed asynchronous auto-commit",
    r"Consumer has been disconnected from the group coordinator",
    r"Coordinator discovery failed",
    r"Disabling heartbeat thread",
    r"Enabling heartbeat thread",
    r"Executing on(?:JoinPrepare|JoinComplete|LeavePrepare) ",
    r"Failed to fetch offset for partition ",
    r"Fetching committed offsets ",
    r"FindCoordinator request ",
    r"Finished assignment for group",
    r"Found no committed offset for partition ",
    r"Giving away all assigned partitions as lost ",
    r"Group coordinator lookup failed",
    r"Heartbeat thread (?:started|has closed)",
    r"Ignoring heartbeat response with error ",
    r"Ignoring the returned ",
    r"Interrupted while waiting for consumer heartbeat thread",
    r"Join group failed with ",
    r"Joining group with current subscription",
    r"LeaveGroup (?:request|response) ",
    r"Marking assigned partitions pending for revocation",
    r"No broker available to send FindCoordinator request",
    r"Not authorized to commit to topics ",
    r"Offset (?:commit with offsets|fetch failed)",
    r"Performing assignment using strategy ",
    r"Rebalance failed\.",
    r"Received (?:FindCoordinator response|successful JoinGroup|successful SyncGroup)",
    r"Requesting disconnect from last known coordinator",
    r"Sending Heartbeat request to coordinator ",
    r"Sending (?:FindCoordinator|JoinGroup|follower SyncGroup|leader SyncGroup|asynchronous auto-commit) ?",
    r"Skipped assignment for returning static leader",
    r"SyncGroup failed because the group began another rebalance",
    r"The following (?:partitions still have unstable offsets|subscribed topics|not-subscribed topics) ",
    r"Unexpected interrupt received in heartbeat thread",
    r"We received an assignment ",
    r"With the COOPERATIVE protocol, owned partitions cannot be reassigned",
    r"Need to revoke partitions ",
    r"Setting offset for partition ",
    r"still waiting to ensure active group",
)

COORDINATOR = rule_set(
    ("ConsumerCoordinator", "AbstractCoordinator"),
    (*_JOINS, *_HEARTBEATS, *_LEAVES, *_COMMITS, *_COORDINATOR, *_IGNORED),
)
