"""Messages of the Java consumer about its membership in the KIP-848 protocol (`group.protocol=consumer`).

The membership manager logs every transition of the state machine at INFO; target assignments and the ends of callbacks
need DEBUG. All of this runs on the client's background thread. Source: MemberState and its users in Kafka 4.0 to 4.4;
differences between releases are alternatives in the patterns.
"""

from __future__ import annotations

import re

from fsm.logs.programs.java_messages import (
    EPOCH,
    ID,
    JavaMessage,
    Records,
    emit,
    emit_error,
    emit_partitions,
    error_name,
    ignore,
    partitions,
    record,
    rule_set,
)
from fsm.trace import Kind, Partition

MACHINE = "consumer-member"
IN_GROUP = ("RECONCILING", "STABLE")
"""States to which JOINING leads once the coordinator has accepted the member."""
OUT_OF_GROUP = ("UNSUBSCRIBED", "STALE")
"""States to which LEAVING leads once the member considers itself out of the group."""
CALLBACKS = {
    "Assigned": ("assigned", Kind.ASSIGN_BEGIN, Kind.ASSIGN_END),
    "Revoked": ("revoked", Kind.REVOKE_BEGIN, Kind.REVOKE_END),
    "Lost": ("lost", Kind.LOST_BEGIN, Kind.LOST_END),
}


def _read_step(message: JavaMessage, match: re.Match[str]) -> Records:
    """The transition, and the records that it implies."""
    state, next_state = match["state"], match["next"]
    member = {"member_id": match["member_id"], "epoch": int(match["epoch"])}
    step = record(message, Kind.TRANSITION, machine=MACHINE, state=state, next_state=next_state, **member)
    if next_state == "JOINING":
        return step, record(message, Kind.JOINING, member_id=member["member_id"])
    if state == "JOINING" and next_state in IN_GROUP:
        return step, record(message, Kind.JOINED, **member)
    if next_state == "PREPARE_LEAVING":
        return step, record(message, Kind.LEAVE_BEGIN, **member)
    if state == "LEAVING" and next_state in OUT_OF_GROUP:
        return step, record(message, Kind.LEFT, **member)
    return (step,)


def read_reconciling(message: JavaMessage, _match: re.Match[str]) -> Records | None:
    """The assignment block of both protocols. If the block was cut, only its complete lists are kept."""
    lists: dict[str, tuple[Partition, ...]] = {}
    for line in message.text.split("\n")[1:]:
        label, _, value = line.strip().partition(":")
        if label not in _LISTS or (message.cut and not value.endswith("]")):
            continue
        found = partitions(value)
        if found is None:
            return None
        lists[_LISTS[label]] = found
    if len(lists) < len(_LISTS) and not message.cut:
        return None
    member = _MEMBER_LINE.search(message.text)
    return (record(message, Kind.RECONCILING, member_id=member[1] if member else "", **lists),)


_LISTS = {
    "Assigned partitions": "full",
    "Added partitions (assigned - owned)": "partitions",
    "Revoked partitions (owned - assigned)": "revoked",
}
_MEMBER_LINE = re.compile(rf"\n[\t ]{{1,8}}Member: {{0,60}}({ID})", re.ASCII)


def _read_callback_end(message: JavaMessage, match: re.Match[str]) -> Records:
    """Releases from 4.3 on log nothing about an assigned callback if there is no listener."""
    name, _, end = CALLBACKS[match["callback"]]
    if match["error"] is None:
        return (record(message, end),)
    return (record(message, Kind.CALLBACK_FAILED, event=name, detail=message.error or match["error"]),)


def _read_interval(message: JavaMessage, match: re.Match[str]) -> Records:
    """The response to a leave has the interval 0, which is not a configured value (4.4)."""
    return (record(message, Kind.LEFT, member_id=match["member_id"]),) if match["interval"] == "0" else ()


def _read_leave_answer(message: JavaMessage, _match: re.Match[str]) -> Records:
    """Logged for the leave after an expired poll timer and for the last heartbeat of a close."""
    answer = _ANSWER.search(message.text)
    if answer is None or int(answer["epoch"]) >= 0:
        return ()
    return (record(message, Kind.LEFT, member_id=answer["member_id"], epoch=int(answer["epoch"])),)


_ANSWER = re.compile(rf"memberId='(?P<member_id>[^']{{0,300}})', memberEpoch=(?P<epoch>{EPOCH}),", re.ASCII)


def _read_request(message: JavaMessage, match: re.Match[str]) -> Records | None:
    """Requests and responses on the wire: NetworkClient at DEBUG."""
    answer = _ANSWER.search(message.text)
    if answer is None:
        return None
    fields = {"member_id": answer["member_id"], "epoch": int(answer["epoch"]), "thread": "background"}
    if match[0].startswith("Sending"):
        return (record(message, Kind.HEARTBEAT_SENT, **fields),)
    if "errorCode=0," in message.text:
        return (record(message, Kind.HEARTBEAT_OK, **fields),)
    return ()


def _read_commit_error(message: JavaMessage, _match: re.Match[str]) -> Records:
    return (record(message, Kind.COMMIT_FAILED, detail=error_name(_find_cause(message))),)


def _read_reconciliation_error(message: JavaMessage, match: re.Match[str]) -> Records:
    """Also logged for a close during a reconciliation, where it is harmless."""
    return (record(message, Kind.ERROR, detail=_find_cause(message) or match[0]),)


def _find_cause(message: JavaMessage) -> str:
    """The exception behind a failure, without its wrapper."""
    return message.error.removeprefix("java.util.concurrent.CompletionException: ")


_WITH_EPOCH = rf"Member (?P<member_id>{ID}) with epoch (?P<epoch>{EPOCH})"
_LISTENER = r"ConsumerRebalanceListener\.onPartitions(?P<callback>Assigned|Revoked|Lost)"
_TARGET = r"updated(?: its target assignment)? from LocalAssignment\{.*? to LocalAssignment\{"

# fmt: off
MEMBERSHIP = rule_set(
    ("ConsumerMembershipManager", "MembershipManagerImpl"),
    (
        (rf"{_WITH_EPOCH} transitioned from (?P<state>[A-Z_]{{1,40}}) to (?P<next>[A-Z_]{{1,40}})\.", _read_step),
        (r"Reconciling assignment with local epoch ", read_reconciling),
        (r"Revoking previously assigned partitions (?P<partitions>.*)", emit_partitions(Kind.REVOKE_DECIDED)),
        (rf"Member (?P<member_id>{ID}) {_TARGET}", Kind.TARGET),
        (r"Target assignment updated from ", Kind.TARGET),
        (rf"The {_LISTENER} method completed (?:successfully|with an error \((?P<error>.*)\));", _read_callback_end),
        (rf"{_WITH_EPOCH} generated the heartbeat to leave", Kind.LEAVE_SENT),
        (rf"{_WITH_EPOCH} received a (?:successful|failed) response to the heartbeat to leave", Kind.LEFT),
        (r"Auto-commit request before reconciling new assignment failed", _read_commit_error),
        (r"Reconciliation failed", _read_reconciliation_error),
        (r"(?P<detail>Interrupting reconciliation that is not relevant anymore.*)", Kind.ERROR),
        (rf"{_WITH_EPOCH} (?P<detail>got fenced .*)", Kind.ERROR),
        (rf"{_WITH_EPOCH} (?P<detail>(?:got fatal error|was leaving the group with state) .*)", Kind.ERROR),
        (r"(?P<detail>Heartbeat to leave group cannot be sent .*)", Kind.ERROR),
        *ignore(
            r"Member \S{0,300} with epoch \S{1,12} transitioned to ",
            r"Member \S{0,300} will (?:re)?join the group ",
            r"Member \S{0,300} sent leave group heartbeat ",
            r"Member \S{0,300} attempting to leave has no rebalance callbacks",
            r"Member \S{0,300} (?:is triggering callbacks|completed callback|callback) to release assignment",
            r"Member \S{0,300}(?: with epoch \S{1,12})? won't send leave group request",
            r"Member \S{0,300} is already reconciling ",
            r"Dynamic member \S{0,300} closed with REMAIN_IN_GROUP",
            r"Marking partitions pending for revocation",
            r"Auto-commit before reconciling new assignment completed",
            r"Target assignment LocalAssignment\{",
            r"There are unresolved partitions",
            r"Topic Ids ",
            r"The event to (?:trigger|update) ",
            r"The pause flag in partitions ",
            r"Expired poll timer has been reset",
            r"Ignoring (?:heartbeat response|new assignment|reconciliation) ",
            r"Fenced member onPartitionsLost callback completed",
            r"Leave group operation already in progress",
            r"Leaving newly assigned partitions ",
            r"No action taken to join the group",
            r"onPartitionsLost callback invocation failed",
            r"onPartitionsRevoked callback invocation failed",
            r"Skipped processing ",
        ),
    ),
)
"""A failed callback is logged three times; the listener's own line and the `completed with an error` line count."""


_FAILED = r"ConsumerGroupHeartbeatRequest failed"

HEARTBEATS = rule_set(
    ("ConsumerHeartbeatRequestManager",),
    (
        (r"Consumer poll timeout has expired", Kind.POLL_EXPIRED),
        (r"Time between subsequent calls to poll\(\) was longer .* Member (?P<member_id>\S+)", Kind.POLL_LATE),
        (rf"{_FAILED} because member (?P<member_id>{ID}) is unknown", emit(Kind.FENCED, detail="UNKNOWN_MEMBER_ID")),
        (rf"{_FAILED} for member (?P<member_id>{ID}) because epoch (?P<epoch>{EPOCH}) is fenced",
         emit(Kind.FENCED, detail="FENCED_MEMBER_EPOCH")),
        (rf"{_FAILED} because of (?P<detail>[A-Z_]{{1,60}}):", Kind.ERROR),
        (rf"{_FAILED} for member (?P<member_id>{ID}) with state \S+ due to (?P<detail>[A-Z_]+):", Kind.ERROR),
        (rf"{_FAILED} due to unreleased instance id ", emit(Kind.FATAL, detail="UNRELEASED_INSTANCE_ID")),
        (rf"{_FAILED} due to fenced instance id ", emit(Kind.FATAL, detail="FENCED_INSTANCE_ID")),
        (rf"{_FAILED} due to group authorization failure", emit(Kind.FATAL, detail="GROUP_AUTHORIZATION_FAILED")),
        (rf"{_FAILED} due to unsupported (?:version|protocol field) ", emit(Kind.FATAL, detail="UNSUPPORTED_VERSION")),
        (rf"{_FAILED} due to (?:unexpected error |fatal error: )?(?P<detail>.*)", emit_error(Kind.FATAL)),
        (r"ConsumerGroupHeartbeatRequest regex resolution not supported",
         emit(Kind.FATAL, detail="UNSUPPORTED_VERSION")),
        (r"Member (?P<member_id>\S+) received heartbeat interval (?P<interval>\d+)ms", _read_interval),
        (r"ConsumerGroupHeartbeatRequest responded successfully", _read_leave_answer),
        *ignore(
            rf"{_FAILED} because the group coordinator ",
            rf"{_FAILED} because of (?:the retriable|unexpected) exception",
            r"ConsumerGroupHeartbeatRequest received GROUP_ID_NOT_FOUND ",
        ),
    ),
)

REQUESTS = rule_set(
    ("NetworkClient",),
    (
        (r"Sending CONSUMER_GROUP_HEARTBEAT request ", _read_request),
        (r"Received CONSUMER_GROUP_HEARTBEAT response ", _read_request),
        # Also for one that a close abandons.
        (r"Cancelled in-flight CONSUMER_GROUP_HEARTBEAT request ", emit(Kind.HEARTBEAT_GIVEN_UP, thread="background")),
    ),
)
# fmt: on
