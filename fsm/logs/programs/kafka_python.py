"""Logs of kafka-python's consumer: classic protocol, eager and cooperative. Message texts of 3.0.12 and of 1.4 to 2.1,
logged at INFO.

The line of a callback names its partitions and is printed when it begins; after a slow callback, a warning marks its
end. A cooperative rebalance has one line before both of its callbacks. A fenced static member may log a single line,
and its application's callbacks are not called any more.
"""

from __future__ import annotations

from functools import partial

from fsm.logs import Client, Message
from fsm.logs.programs.client_facts import ClientFacts
from fsm.logs.programs.client_words import (
    EPOCH,
    GROUP,
    LAST_GROUP,
    Records,
    Values,
    Words,
    record,
    topic_partitions,
)
from fsm.logs.programs.python_messages import (
    ERROR_CODE,
    HEARTBEAT_MARKS,
    MEMBER_ID,
    SHARED,
    listener_failed,
    on_fenced,
    read_known,
    read_refused_commit,
    read_subscribed,
)
from fsm.trace import Kind

FACTS = ClientFacts(
    name="kafka-python",
    supported_protocols="classic",
    ownership_lines="each callback, by name",
    not_logged="of a fenced static member more than one line",
    begins_with=Kind.SUBSCRIBED,
    close_is_unlogged=True,
    identifies_members=False,
)
_NAME = FACTS.name


def _read_revoked(client: str, message: Message, values: Values) -> Records:
    fields = {"group": values["group"], "partitions": values["partitions"]}
    began = record(client, message, Kind.REVOKE_BEGIN, **fields)
    return (record(client, message, Kind.CLOSE_BEGIN, group=values["group"]), began) if "closes" in values else (began,)


def _read_cooperative(client: str, message: Message, values: Values) -> Records | None:
    """The revoked callback is called first."""
    before, _, given = values["change"].partition(", added=")
    taken, given = topic_partitions(before.rpartition(", revoked=")[2]), topic_partitions(given)
    if taken is None or given is None:
        return None
    group = values["group"]
    revoked = record(client, message, Kind.REVOKE_BEGIN, group=group, partitions=taken)
    added = record(client, message, Kind.ASSIGN_BEGIN, group=group, partitions=given)
    if not taken:
        return (added,)
    return (revoked, added) if given else (revoked,)


def _read_instance_taken(client: str, message: Message, values: Values) -> Records:
    fields = {name: value for name, value in values.items() if name in ("group", "instance_id")}
    return (record(client, message, Kind.FATAL, detail="FENCED_INSTANCE_ID", **fields),)


_ENDS = {"assigned": Kind.ASSIGN_END, "revoked": Kind.REVOKE_END, "lost": Kind.LOST_END}


def _read_returned(client: str, message: Message, values: Values) -> Records:
    return (record(client, message, _ENDS[values["callback"]], group=values["group"]),)


_REBALANCE_LISTENER = r"User provided subscription rebalance listener .{1,400}?"
_LISTENER = r"User provided rebalance listener .{1,400}?"
_INSTANCE = r"(?P<instance_id>\S{1,300})"
_CALLBACK = r"on_partitions_(?P<callback>assigned|revoked|lost)"


_LEAVE = (Kind.LEAVE_BEGIN, Kind.LEAVE_SENT)
_JOIN = (Kind.JOINED, Kind.SYNCED)
"""Up to 2.1 a join has a single line, after the synchronisation."""

# fmt: off
_WORDS = Words(_NAME, (
    (r"Updating subscribed topics to: (?P<topics>\[.*)",                                 read_subscribed),
    (rf"Discovered coordinator (?:coordinator-)?\S{{1,40}} for group {LAST_GROUP}\Z",    Kind.COORDINATOR_FOUND),
    (rf"Marking the coordinator dead \(node [^)]{{1,60}}\) for group {GROUP}: (?P<detail>.*)", Kind.COORDINATOR_LOST),
    (rf"Received member id {MEMBER_ID} for group {GROUP}; will retry join-group",        Kind.MEMBER_ID),
    (rf"Successfully joined group {GROUP} <Generation {EPOCH} \(member_id: (?P<member_id>.{{0,500}}?), protocol: ",
                                                                                         Kind.JOINED),
    (rf"Successfully joined group {GROUP} with generation {EPOCH}\Z",                    _JOIN),
    (rf"Revoking previously assigned partitions (?P<partitions>.*?) for group {LAST_GROUP}(?P<closes> on close)?\Z",
                                                                                         _read_revoked),
    (rf"Cooperative rebalance complete for group {GROUP}: (?P<change>owned=.*)",         _read_cooperative),
    (rf"Cooperative pre-rebalance for group {GROUP}: revoking (?P<partitions>.*) \(",    Kind.REVOKE_BEGIN),
    (rf"Group {GROUP} lost membership; forcibly revoking (?P<partitions>.*)",            Kind.LOST_BEGIN),
    (r"Group .{1,300} is rebalancing",                                                   None),
    (r"Heartbeat: local member_id was not recognized",                        on_fenced("UNKNOWN_MEMBER_ID")),
    (r"Heartbeat poll expired",                                                          Kind.POLL_EXPIRED),
    (r"Heartbeat thread caught fenced group_instance_id ",                               _read_instance_taken),
    (r"Consumer poll timeout has expired",                                               Kind.POLL_EXPIRED),
    (rf"Attempt to join group {GROUP} failed due to fatal error: (?P<detail>.*)",        Kind.FATAL),
    (rf"Attempt to join group {GROUP} failed due to unknown member id",       on_fenced("UNKNOWN_MEMBER_ID")),
    (rf"OffsetCommit for group {GROUP} failed due to fenced id error: {_INSTANCE}",      _read_instance_taken),
    (rf"OffsetCommit for group {GROUP} failed.{{0,100}}?{ERROR_CODE}",                   read_refused_commit),
    (rf"OffsetCommit for group {GROUP} failed:? (?P<detail>.*)",                         Kind.COMMIT_FAILED),
    (rf"Auto offset commit failed for group {GROUP}: .{{0,100}}?{ERROR_CODE}",           read_refused_commit),
    (rf"Auto offset commit failed for group {GROUP}: (?P<detail>.*)",                    Kind.COMMIT_FAILED),
    (r"Auto offset commit failed: ",                                                     None),
    (rf"OffsetCommit failed for group {GROUP} due to (?P<detail>.*)",                    Kind.COMMIT_FAILED),
    (r"Offset commit failed: (?P<detail>.*)",                                            Kind.COMMIT_FAILED),
    (r"Failing OffsetCommit request since the consumer is not part of an active group",  None),  # also Java's
    (rf"{_REBALANCE_LISTENER} for group {GROUP} failed on_partitions_(?P<event>revoked|lost)", listener_failed()),
    (rf"{_LISTENER} for group {GROUP} failed on partition assignment: (?P<partitions>.*)",
                                                                                   listener_failed("assigned")),
    (rf"Rebalance listener .{{1,400}}?\.{_CALLBACK} for group {GROUP} took ",            _read_returned),
    (rf"Leaving consumer group {GROUP} \(member (?P<member_id>.{{1,500}})\)\.",          _LEAVE),
    (rf"Leaving consumer group \({GROUP}\)\.?\Z",                                        _LEAVE),
    (rf"LeaveGroup request for group {GROUP} returned successfully",                     Kind.LEFT),
    (r"Starting new heartbeat thread",                                                   None),
    (r"Stopping heartbeat thread",                                                       None),
    (r"Triggering follow-up rebalance ",                                                 None),
    (r"Pre-rebalance offset commit failed",                                              None),
    # Any response may report that another process uses the instance id.
    *((rf"{name} .{{1,400}}? failed due to fenced id error: {_INSTANCE}", _read_instance_taken)
      for name in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")),
    *SHARED,
    (rf"Sending heartbeat for group {GROUP} <Generation {EPOCH} \(member_id: (?P<member_id>.{{0,500}}?), protocol: ",
                                                                                         Kind.HEARTBEAT_SENT),
    (rf"Received heartbeat response for group {GROUP}: HeartbeatResponse\w{{0,9}}\([^)]{{0,99}}error_code=0\b",
                                                                                         Kind.HEARTBEAT_OK),
    (r"Received heartbeat response for group ",                                          None),
))
# fmt: on


_STRICT = ("kafka.coordinator", "kafka.coordinator.consumer", "kafka.coordinator.heartbeat")
understand = partial(read_known, _WORDS, "kafka", _STRICT)
CLIENT = Client(
    _NAME,
    (
        b"Updating subscribed topics to: [",
        b"previously assigned partitions",
        b"newly assigned partitions",
        b"the coordinator dead",
        b"Discovered coordinator ",
        b" lost membership; forcibly revoking ",
        b"local member_id was not recognized",
        b"generation id is not ",
        b"Consumer poll timeout has expired",
        b"Heartbeat poll expired",
        b"failed due to unknown member id",
        b"OffsetCommit for group",
        b"OffsetCommit failed for group",
        b"ffset commit failed",
        b"failed on_partitions_",
        b"failed on partition assignment",
        b"Rebalance listener",
        b"Leaving consumer group",
        b"LeaveGroup request for group",
        b"Sending heartbeat for group",
    ),
    understand,
    everyday_marks=(
        b"joining group",
        b"joined group",
        b"Received member id",
        b"Cooperative ",
        b"fenced",
        b"failed due to fatal error",
        *HEARTBEAT_MARKS,
    ),
)
