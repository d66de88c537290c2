"""What a recording of the Java client says, in the words of the member: heartbeats, responses, lines of the log."""

from __future__ import annotations

from typing import Any

from fsm.kafka.assignment import topic_partitions
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import ListenerMethod, PartitionsAssignedEvent, PartitionsRemovedEvent
from fsm.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.member.effects import (
    CommitEnded,
    Enqueued,
    Marked,
    MemberEffect,
    RunEnded,
    TargetUpdated,
    Transition,
    UnsentRequest,
)

METHODS = {ListenerMethod.REVOKED: "revoked", ListenerMethod.ASSIGNED: "assigned", ListenerMethod.LOST: "lost"}
BEGINS = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}


def is_plain(sent: UnsentRequest) -> bool:
    """Whether a heartbeat says nothing but that the member lives: its instant is all there is to compare."""
    body = sent.body
    if not isinstance(body, ConsumerGroupHeartbeatRequest) or body.member_epoch <= 0:
        return False
    said = (body.subscribed_topic_names, body.subscribed_topic_regex, body.topic_partitions, body.server_assignor)
    return said == (None, None, None, None)


def shown(effect: MemberEffect) -> tuple[str, Any] | None:
    """What the client's log says of an effect; None where it says nothing."""
    match effect:
        case Transition(source=source, target=target, epoch=epoch):
            return "transition", (source.name, target.name, epoch)
        case TargetUpdated(source=source, target=target):
            return "target", (source, target)
        case Marked(partitions=marked):
            return "marked", marked
        case CommitEnded(error=error):
            return "commit", "ok" if error is None else "failed"
        case Enqueued(event=PartitionsRemovedEvent(method=method)):
            return "enqueued", METHODS[method]
        case Enqueued(event=PartitionsAssignedEvent()):
            return "enqueued", "assigned"
        case RunEnded(error=error):
            return "run ended", "stale" if error is None else "failed"
    return None


def heartbeat_fields(body: Any) -> dict[str, Any]:
    """A recorded heartbeat as our message has it."""
    owned = body["topic_partitions"]
    names = body["subscribed_topic_names"]
    return {
        "member_epoch": body["member_epoch"],
        "instance_id": body["instance_id"],
        "rack_id": body["rack_id"],
        "rebalance_timeout_ms": body["rebalance_timeout"],
        "subscribed_topic_names": None if names is None else tuple(sorted(names)),
        "subscribed_topic_regex": body.get("subscribed_topic_regex"),
        "server_assignor": body["server_assignor"],
        "topic_partitions": None
        if owned is None
        else topic_partitions({t["topic_id"]: t["partitions"] for t in owned}),
    }


def code_of(name: str | None) -> ErrorCode:
    return ErrorCode.NONE if name is None else ErrorCode[name.upper()]


def heartbeat_answer(body: Any) -> ConsumerGroupHeartbeatResponse:
    given = body["assignment"]
    return ConsumerGroupHeartbeatResponse(
        body["member_epoch"],
        body["heartbeat_interval"],
        None
        if given is None
        else topic_partitions({t["topic_id"]: t["partitions"] for t in given["topic_partitions"]}),
        code_of(body["error_code"]),
        body["error_message"],
    )


def order_of(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
