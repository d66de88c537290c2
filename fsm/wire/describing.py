"""What a broker says about a group, in the shape that recorded walks have.

ConsumerGroupDescribe is asked first; a group that it does not know may be a classic one, which DescribeGroups knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fsm.wire.connection import Connection

CLASSIC = 0
"""The member type of a classic member in a consumer group."""
PASSING = frozenset({"coordinator_not_available", "coordinator_load_in_progress", "not_coordinator"})


def describe(connection: Connection, group_id: str, unspoken: Collection[str]) -> Mapping[str, Any] | None:
    """The group as the broker describes it; None where it knows none."""
    if "ConsumerGroupDescribe" not in unspoken:
        body = {"group_ids": [group_id], "include_authorized_operations": False}
        group = connection.call("ConsumerGroupDescribe", body)["groups"][0]
        if group["error_code"] is None:
            return _consumer(group)
    if "DescribeGroups" in unspoken:
        return None
    group = classic(connection, group_id)
    return None if group["error_code"] or group["group_state"] == "Dead" else _classic(group)


def classic(connection: Connection, group_id: str) -> Mapping[str, Any]:
    """The answer of DescribeGroups."""
    body = {"groups": [group_id], "include_authorized_operations": False}
    found: Mapping[str, Any] = connection.call("DescribeGroups", body)["groups"][0]
    return found


def _consumer(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "consumer",
        "state": group["group_state"],
        "epoch": group["group_epoch"],
        "assignment_epoch": group["assignment_epoch"],
        "assignor": group["assignor_name"],
        "members": {member["member_id"]: _member(member) for member in group["members"]},
    }


def _member(member: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "epoch": member["member_epoch"],
        "instance": member["instance_id"],
        "rack": member["rack_id"],
        "names": sorted(member["subscribed_topic_names"]),
        "regex": member["subscribed_topic_regex"] or None,
        "classic": member["member_type"] == CLASSIC,
        "assigned": _by_name(member["assignment"]),
        "target": _by_name(member["target_assignment"]),
    }


def _by_name(assignment: Mapping[str, Any]) -> Mapping[str, list[int]]:
    return {topic["topic_name"]: sorted(topic["partitions"]) for topic in assignment["topic_partitions"]}


def _classic(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "classic",
        "state": group["group_state"],
        "protocol_type": group["protocol_type"],
        "protocol": group["protocol_data"],
        "members": {
            member["member_id"]: {
                "instance": member["group_instance_id"],
                "metadata": member["member_metadata"],
                "assignment": member["member_assignment"],
            }
            for member in group["members"]
        },
    }
