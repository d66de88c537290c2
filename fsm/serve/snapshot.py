"""A snapshot of the brokers at one instant, as one JSON document: for the page and other HTTP clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from fsm.errors import RemoteProtocolError
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.messages import DescribedConsumerGroup, DescribedGroup
from fsm.serve.brokers import Brokers
from fsm.serve.faults import epochs_of, is_full
from fsm.wire.exchange import Exchange, Note

KEPT = 200
"""The number of exchanges and notes kept."""
QUIET = frozenset({"Fetch", "Metadata", "ApiVersions", "FindCoordinator", "ListOffsets"})
"""Frequent requests, shown only on request."""
MOST_GROUPS, MOST_MEMBERS = 50, 100
"""The maximum number of groups, and of members of each; the number of further ones is shown."""


class Recent:
    """The last exchanges and notes; called with each as it ends."""

    def __init__(self) -> None:
        self._seen: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._number = 0

    def __call__(self, seen: Exchange | Note) -> None:
        """Adds an exchange or note."""
        if isinstance(seen, Exchange) and seen.api in QUIET and not seen.fault:
            return
        self._number += 1
        self._seen.append(_describe_event(self._number, seen))

    def since(self, number: int) -> list[dict[str, Any]]:
        """The exchanges after this number, the oldest first."""
        return [event for event in self._seen if event["number"] > number]


def snapshot(brokers: Brokers, now_ms: float) -> dict[str, Any]:
    """Topics, brokers, groups with their members, and pending faults."""
    coordinators = brokers.cluster.coordinators
    group_ids = coordinators.group_ids()
    found = ((group_id, coordinators.describe(group_id, int(now_ms))) for group_id in group_ids[:MOST_GROUPS])
    return {
        "now_ms": now_ms,
        "release": brokers.cluster.served.release,
        "brokers": {number: f"{host}:{port}" for number, (host, port) in sorted(brokers.cluster.endpoints.items())},
        "topics": brokers.cluster.topics.describe(),
        "groups": [_group(brokers, group_id, group) for group_id, group in found if group is not None],
        "more_groups": max(0, len(group_ids) - MOST_GROUPS),
        "faults": [
            {"do": rule.do.value, "name": rule.name, "done": rule.done, "times": rule.times} for rule in brokers.rules
        ],
    }


def _group(brokers: Brokers, group_id: str, group: DescribedConsumerGroup | DescribedGroup) -> dict[str, Any]:
    common = {
        "group": group_id,
        "state": group.group_state,
        "coordinator": brokers.cluster.coordinators.leader_of(group_id),
        "more_members": max(0, len(group.members) - MOST_MEMBERS),
    }
    if isinstance(group, DescribedGroup):
        members = [
            {
                "member": m.member_id,
                "client": m.client_id,
                "instance": m.group_instance_id,
                "host": m.client_host,
                "assigned": _decode(m.member_assignment),
            }
            for m in group.members[:MOST_MEMBERS]
        ]
        return {**common, "type": "classic", "assignor": group.protocol_data, "members": members}
    described = [
        {
            "member": m.member_id,
            "client": m.client_id,
            "instance": m.instance_id,
            "host": m.client_host,
            "epoch": m.member_epoch,
            "assigned": _list_partitions(m.assignment),
            "target": _list_partitions(m.target_assignment),
        }
        for m in group.members[:MOST_MEMBERS]
    ]
    epochs = {"epoch": group.group_epoch, "target_epoch": group.assignment_epoch}
    return {**common, "type": "consumer", "assignor": group.assignor_name, **epochs, "members": described}


def _list_partitions(topics: Iterable[Any]) -> list[str]:
    return [f"{one.topic_name}-{partition}" for one in topics for partition in one.partitions]


def _decode(assignment: bytes) -> list[str]:
    """The partitions of a member of a classic group; empty for a protocol other than consumers'."""
    try:
        return [f"{topic}-{partition}" for topic, partition in decode_assignment(assignment).partitions]
    except RemoteProtocolError:
        return []


def _describe_event(number: int, seen: Exchange | Note) -> dict[str, Any]:
    if isinstance(seen, Note):
        return {"number": number, "at_ms": seen.at_ms, "event": seen.event, "about": _words(seen)}
    request, response = seen.request, seen.response
    return {
        "number": number,
        "at_ms": seen.at_ms,
        "event": "exchange",
        "client": seen.client_id or "",
        "api": seen.api,
        "version": seen.version,
        "group": getattr(request, "group_id", ""),
        "epoch": next(iter(sorted(epochs_of(request))), None),
        "full": is_full(request),
        "took_ms": None if seen.answered_ms is None else round(seen.answered_ms - seen.at_ms, 1),
        "error": _error(response),
        "told": _describe_answer(response),
        "fault": seen.fault,
    }


def _words(note: Note) -> str:
    if note.event == "topics":
        return ", ".join(f"{name}={partitions}" for name, _, partitions in note.about["topics"])
    return ", ".join(f"{key} {value}" for key, value in note.about.items())


def _error(response: Any) -> str:
    code = getattr(response, "error_code", None)
    return code.name if code else ""


def _describe_answer(response: Any) -> str:
    """The last response to a member: its epoch and its assignment."""
    if response is None:
        return ""
    epochs = [name for name in ("member_epoch", "generation_id") if hasattr(response, name)]
    parts = [f"{name.replace('_', ' ')} {getattr(response, name)}" for name in epochs]
    assignment = getattr(response, "assignment", None)
    if isinstance(assignment, tuple):
        parts.append(f"{sum(len(numbers) for _, numbers in assignment)} partitions")
    return ", ".join(parts)
