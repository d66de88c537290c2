"""Requests to the coordinator as a scenario writes them: Kafka's fields, members by their names, partitions as texts.

    ConsumerGroupHeartbeat: {subscribed_topic_names: [foo]}
    JoinGroup: {protocols: {range: {topics: [foo], owned_partitions: []}}}
    SyncGroup: {assignments: {A: [foo-0], B: [foo-1]}}
    Heartbeat:
    LeaveGroup:
    OffsetCommit: {offsets: {foo-0: 17}}

What is left out is what a client would send that has nothing new to say: its id, and the epoch or generation that it
was told last. A consumer member that was told none joins, and says everything.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.nodes import Node
from fsm.protocol.assignment import Partitions
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.scenario import words

Given = Mapping[str, Node]
Body = dict[str, Any]

SESSION_MS, REBALANCE_MS = 45_000, 300_000


class Sender(NamedTuple):
    """Who sends a request, and what is known around it."""

    group_id: str
    member_id: str
    """Empty where the coordinator has not named it yet."""
    topic_ids: Mapping[str, str]
    ids: Mapping[str, str]
    """Member ids by name."""
    epoch: int
    """The epoch or generation that the sender was told last, 0 before the first."""
    protocol: str
    """The protocol that its last join was told, empty before the first."""


class Api(NamedTuple):
    """How a scenario may write one kind of request."""

    version: int
    keys: tuple[str, ...]
    required: tuple[str, ...]
    body: Callable[[Given, Sender], Body]


def text_of(data: bytes) -> str:
    """Bytes as they stand in a body."""
    return base64.b64encode(data).decode()


def _number(given: Given, key: str, otherwise: int) -> int:
    return given[key].number() if key in given else otherwise


def _text(given: Given, key: str) -> str | None:
    return given[key].text() if key in given and not given[key].is_null else None


def _me(given: Given, sender: Sender) -> Body:
    member_id = _text(given, "member_id")
    return {
        "group_id": sender.group_id,
        "member_id": sender.member_id if member_id is None else member_id,
        "group_instance_id": _text(given, "group_instance_id"),
    }


def _by_topic(partitions: Partitions, sender: Sender) -> list[dict[str, Any]]:
    """Partitions by topic id; a topic that does not exist has its name for an id."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(sender.topic_ids.get(topic, topic), []).append(number)
    return [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in found.items()]


def _consumer_heartbeat(given: Given, sender: Sender) -> Body:
    epoch = _number(given, "member_epoch", sender.epoch)
    owned: Partitions | None = () if epoch == 0 else None
    if "topic_partitions" in given:
        node = given["topic_partitions"]
        owned = None if node.is_null else words.partitions_of(node)
    names = given.get("subscribed_topic_names")
    return {
        "group_id": sender.group_id,
        "member_id": _text(given, "member_id") or sender.member_id,
        "member_epoch": epoch,
        "instance_id": _text(given, "instance_id"),
        "rack_id": _text(given, "rack_id"),
        "rebalance_timeout": _number(given, "rebalance_timeout_ms", REBALANCE_MS if epoch == 0 else -1),
        "subscribed_topic_names": None if names is None or names.is_null else list(words.texts(names)),
        "subscribed_topic_regex": _text(given, "subscribed_topic_regex"),
        "server_assignor": _text(given, "server_assignor"),
        "topic_partitions": None if owned is None else _by_topic(owned, sender),
    }


def _join(given: Given, sender: Sender) -> Body:
    protocols = given["protocols"].mapping()
    return {
        **_me(given, sender),
        "session_timeout": _number(given, "session_timeout_ms", SESSION_MS),
        "rebalance_timeout": _number(given, "rebalance_timeout_ms", REBALANCE_MS),
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": _subscription(node)} for name, (_, node) in protocols.items()],
    }


def _subscription(node: Node) -> str:
    given = node.fields(("topics", "owned_partitions", "generation_id"), ("topics",))
    owned = words.partitions_of(given["owned_partitions"]) if "owned_partitions" in given else ()
    generation = _number(given, "generation_id", -1)
    said = Subscription(words.texts(given["topics"]), owned_partitions=owned, generation_id=generation)
    return text_of(encode_subscription(said))


def _sync(given: Given, sender: Sender) -> Body:
    assignments = given["assignments"].mapping().values() if "assignments" in given else ()
    return {
        **_me(given, sender),
        "generation_id": _number(given, "generation_id", sender.epoch),
        "protocol_type": "consumer",
        "protocol_name": _text(given, "protocol_name") if "protocol_name" in given else sender.protocol,
        "assignments": [
            {
                "member_id": sender.ids.get(name.text(), name.text()),
                "assignment": text_of(encode_assignment(Assignment(words.partitions_of(value)))),
            }
            for name, value in assignments
        ],
    }


def _heartbeat(given: Given, sender: Sender) -> Body:
    return {**_me(given, sender), "generation_id": _number(given, "generation_id", sender.epoch)}


def _leave(given: Given, sender: Sender) -> Body:
    me = _me(given, sender)
    return {"group_id": me.pop("group_id"), "members": [{**me, "reason": None}]}


def _commit(given: Given, sender: Sender) -> Body:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), offset in words.offsets_of(given["offsets"]):
        topics.setdefault(topic, []).append(
            {
                "partition_index": number,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
        )
    return {
        **_me(given, sender),
        "generation_id_or_member_epoch": _number(given, "generation_id_or_member_epoch", sender.epoch),
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }


_MINE = ("member_id", "group_instance_id")

APIS: Mapping[str, Api] = {
    "ConsumerGroupHeartbeat": Api(
        1,
        (
            "member_id",
            "member_epoch",
            "instance_id",
            "rack_id",
            "rebalance_timeout_ms",
            "subscribed_topic_names",
            "subscribed_topic_regex",
            "server_assignor",
            "topic_partitions",
        ),
        (),
        _consumer_heartbeat,
    ),
    "JoinGroup": Api(9, (*_MINE, "session_timeout_ms", "rebalance_timeout_ms", "protocols"), ("protocols",), _join),
    "SyncGroup": Api(5, (*_MINE, "generation_id", "protocol_name", "assignments"), (), _sync),
    "Heartbeat": Api(4, (*_MINE, "generation_id"), (), _heartbeat),
    "LeaveGroup": Api(5, _MINE, (), _leave),
    "OffsetCommit": Api(
        9,
        (*_MINE, "generation_id_or_member_epoch", "offsets"),
        ("offsets",),
        _commit,
    ),
}
"""What a member can send in a scenario."""
