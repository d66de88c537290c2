"""What a member sends, as the coordinator reads it, and back: values of `fsm.kafka` against bodies of the wire."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.kafka import classic_messages as classic
from fsm.kafka import messages
from fsm.kafka.assignment import topic_partitions
from fsm.kafka.error_codes import ErrorCode
from fsm.member.embedding import Request, Response

Body = Mapping[str, Any]


class Sent(NamedTuple):
    """A request as the coordinator reads it."""

    api: str
    version: int
    body: Body


def as_sent(request: Request) -> Sent:
    """The request's API, version and body."""
    return _REQUESTS[type(request)](request)


def as_answered(request: Request, body: Body) -> Response:
    """The answer to this request."""
    return _ANSWERS[type(request)](request, body)


def _heartbeat(sent: messages.ConsumerGroupHeartbeatRequest) -> Sent:
    owned = sent.topic_partitions
    names = sent.subscribed_topic_names
    body = {
        "group_id": sent.group_id,
        "member_id": sent.member_id,
        "member_epoch": sent.member_epoch,
        "instance_id": sent.instance_id,
        "rack_id": sent.rack_id,
        "rebalance_timeout": sent.rebalance_timeout_ms,
        "subscribed_topic_names": None if names is None else list(names),
        "subscribed_topic_regex": sent.subscribed_topic_regex,
        "server_assignor": sent.server_assignor,
        "topic_partitions": None if owned is None else [{"topic_id": t, "partitions": list(p)} for t, p in owned],
    }
    return Sent("ConsumerGroupHeartbeat", 1, body)


def _heartbeat_answered(_request: Request, body: Body) -> Response:
    assignment = body["assignment"]
    topics = None
    if assignment is not None:
        topics = topic_partitions({t["topic_id"]: t["partitions"] for t in assignment["topic_partitions"]})
    return messages.ConsumerGroupHeartbeatResponse(
        body["member_epoch"],
        body["heartbeat_interval"],
        topics,
        _code(body["error_code"]),
        body["error_message"],
        body["member_id"],
    )


def _commit(sent: messages.OffsetCommitRequest) -> Sent:
    topics: dict[str, list[Body]] = {}
    for (name, number), offset in sent.offsets:
        partition = {"partition_index": number, "committed_offset": offset}
        topics.setdefault(name, []).append({**partition, "committed_leader_epoch": -1, "committed_metadata": ""})
    body = {
        "group_id": sent.group_id,
        "generation_id_or_member_epoch": sent.generation_id_or_member_epoch,
        "member_id": sent.member_id,
        "group_instance_id": sent.group_instance_id,
        "topics": [{"name": name, "partitions": found} for name, found in topics.items()],
    }
    return Sent("OffsetCommit", 9, body)


def _commit_answered(_request: Request, body: Body) -> Response:
    errors = (
        ((topic["name"], partition["partition_index"]), _code(partition["error_code"]))
        for topic in body["topics"]
        for partition in topic["partitions"]
    )
    return messages.OffsetCommitResponse(tuple(sorted(one for one in errors if one[1] is not ErrorCode.NONE)))


def _join(sent: classic.JoinGroupRequest) -> Sent:
    protocols = [{"name": one.name, "metadata": _text(one.metadata)} for one in sent.protocols]
    body = {
        "group_id": sent.group_id,
        "session_timeout": sent.session_timeout_ms,
        "rebalance_timeout": sent.rebalance_timeout_ms,
        "member_id": sent.member_id,
        "group_instance_id": sent.group_instance_id,
        "protocol_type": sent.protocol_type,
        "protocols": protocols,
        "reason": sent.reason,
    }
    return Sent("JoinGroup", 9, body)


def _join_answered(_request: Request, body: Body) -> Response:
    members = (
        classic.JoinGroupResponseMember(one["member_id"], b64decode(one["metadata"]), one["group_instance_id"])
        for one in body["members"]
    )
    return classic.JoinGroupResponse(
        body["generation_id"],
        body["protocol_type"],
        body["protocol_name"],
        body["leader"],
        body["member_id"],
        tuple(members),
        body["skip_assignment"],
        _code(body["error_code"]),
    )


def _sync(sent: classic.SyncGroupRequest) -> Sent:
    body = {
        **_who(sent),
        "protocol_type": sent.protocol_type,
        "protocol_name": sent.protocol_name,
        "assignments": [{"member_id": a.member_id, "assignment": _text(a.assignment)} for a in sent.assignments],
    }
    return Sent("SyncGroup", 5, body)


def _sync_answered(_request: Request, body: Body) -> Response:
    return classic.SyncGroupResponse(
        b64decode(body["assignment"]), body["protocol_type"], body["protocol_name"], _code(body["error_code"])
    )


def _who(sent: classic.SyncGroupRequest | classic.HeartbeatRequest) -> dict[str, Any]:
    return {
        "group_id": sent.group_id,
        "generation_id": sent.generation_id,
        "member_id": sent.member_id,
        "group_instance_id": sent.group_instance_id,
    }


def _leave(sent: classic.LeaveGroupRequest) -> Sent:
    return Sent("LeaveGroup", 5, {"group_id": sent.group_id, "members": [_identity(who) for who in sent.members]})


def _identity(who: classic.MemberIdentity) -> Body:
    return {"member_id": who.member_id, "group_instance_id": who.group_instance_id, "reason": who.reason}


def _code(name: str | None) -> ErrorCode:
    return ErrorCode.NONE if name is None else ErrorCode[name.upper()]


def _text(data: bytes) -> str:
    return b64encode(data).decode()


_REQUESTS: Mapping[type, Callable[[Any], Sent]] = {
    messages.ConsumerGroupHeartbeatRequest: _heartbeat,
    messages.OffsetCommitRequest: _commit,
    classic.JoinGroupRequest: _join,
    classic.SyncGroupRequest: _sync,
    classic.HeartbeatRequest: lambda sent: Sent("Heartbeat", 4, _who(sent)),
    classic.LeaveGroupRequest: _leave,
}
_ANSWERS: Mapping[type, Callable[[Request, Body], Response]] = {
    messages.ConsumerGroupHeartbeatRequest: _heartbeat_answered,
    messages.OffsetCommitRequest: _commit_answered,
    classic.JoinGroupRequest: _join_answered,
    classic.SyncGroupRequest: _sync_answered,
    classic.HeartbeatRequest: lambda _, body: classic.HeartbeatResponse(_code(body["error_code"])),
    classic.LeaveGroupRequest: lambda _, body: classic.LeaveGroupResponse(_code(body["error_code"])),
}
