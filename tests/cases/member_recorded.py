"""What a recording of the Java client says, in the words of the member: heartbeats, responses, lines of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fsm.member.effects import (
    CommitEnded,
    Enqueued,
    Marked,
    MemberEffect,
    RunEnded,
    TargetUpdated,
    Transition,
)
from fsm.member.events import ListenerMethod, PartitionsAssignedEvent, PartitionsRemovedEvent
from fsm.protocol.assignment import Partitions, partitions, topic_partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse, OffsetCommitResponse, commit_results

METHODS = {ListenerMethod.REVOKED: "revoked", ListenerMethod.ASSIGNED: "assigned", ListenerMethod.LOST: "lost"}
BEGINS = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}


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


def named(parts: Any) -> Partitions:
    """Partitions as an application writes them."""
    return partitions((topic, number) for topic, number in parts)


def commit_fields(body: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """A recorded commit as our message has it; topics by id or, before 4.1, by name."""
    offsets = (
        ((t.get("name") or names.get(t.get("topic_id"), "?"), p["partition_index"]), p["committed_offset"])
        for t in body["topics"]
        for p in t["partitions"]
    )
    return {
        "generation_id_or_member_epoch": body["generation_id_or_member_epoch"],
        "member_id": body["member_id"],
        "group_instance_id": body["group_instance_id"],
        "offsets": tuple(sorted(offsets)),
    }


def commit_answer(body: Any) -> OffsetCommitResponse:
    codes = (
        ((t.get("name") or str(t.get("topic_id")), p["partition_index"]), code_of(p["error_code"]))
        for t in body["topics"]
        for p in t["partitions"]
    )
    return OffsetCommitResponse(commit_results(codes))


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
        error_code=code_of(body["error_code"]),
        error_message=body["error_message"],
    )


def order_of(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
