"""The coordinator of this project as a Connect worker's broker: its typed requests in, its typed answers out.

Nothing about Connect is known to the coordinator: a worker is a member of a classic group of protocol type `connect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.coordinator.classic_group_answers import data_of
from fsm.coordinator.context import BrokerConfig, Context
from fsm.coordinator.coordinator import Coordinator, describe, handle, handle_timer, next_deadline_ms
from fsm.coordinator.messages import Request
from fsm.errors import InputError
from fsm.kafka.classic_messages import (
    ClassicRequest,
    ClassicResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.kafka.error_codes import ErrorCode

VERSIONS = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5}


class Asked(NamedTuple):
    """Who sent a request: the coordinator may answer it later."""

    worker: str
    process: int
    number: int
    api: str


class Answering(NamedTuple):
    """An answer and whom it is for."""

    asked: Asked
    response: ClassicResponse


@dataclass
class Broker:
    """One coordinator and the requests it has not answered yet."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    state: Coordinator = field(default_factory=Coordinator)
    tokens: int = 0
    open: dict[int, Asked] = field(default_factory=dict)

    def receive(self, worker: str, process: int, number: int, body: ClassicRequest, now_ms: int) -> list[Answering]:
        """The answers that are due after the request."""
        api, fields_ = api_of(body)
        self.tokens += 1
        self.open[self.tokens] = Asked(worker, process, number, api)
        request = Request(
            self.tokens, f"connect-{worker}", "/127.0.0.1", api, VERSIONS[api], fields_, f"{self.tokens:08d}"
        )
        step = handle(self.state, request, self._context(now_ms))
        self.state = step.state
        return self._answered(step.answers)

    def tick(self, now_ms: int) -> list[Answering]:
        """The answers that timers give."""
        step = handle_timer(self.state, self._context(now_ms))
        self.state = step.state
        return self._answered(step.answers)

    def due_ms(self) -> int | None:
        """When the next timer is due."""
        return next_deadline_ms(self.state)

    def describe(self, group: str, now_ms: int) -> Mapping[str, Any] | None:
        """The group as its description tells."""
        return describe(self.state, group, self._context(now_ms))

    def forget_requests(self, worker: str) -> None:
        """The connection of a worker is gone."""
        self.open = {token: asked for token, asked in self.open.items() if asked.worker != worker}

    def _context(self, now_ms: int) -> Context:
        return Context(now_ms, config=self.config)

    def _answered(self, answers: tuple[Any, ...]) -> list[Answering]:
        known = [(self.open.pop(answer.token), answer.body) for answer in answers if answer.token in self.open]
        return [Answering(asked, response_of(asked.api, body)) for asked, body in known]


def api_of(body: ClassicRequest) -> tuple[str, dict[str, Any]]:
    """The name and the fields of a request."""
    if isinstance(body, JoinGroupRequest):
        return "JoinGroup", {
            "group_id": body.group_id,
            "session_timeout": body.session_timeout_ms,
            "rebalance_timeout": body.rebalance_timeout_ms,
            "member_id": body.member_id,
            "group_instance_id": None,
            "protocol_type": body.protocol_type,
            "protocols": [{"name": p.name, "metadata": p.metadata} for p in body.protocols],
            "reason": body.reason,
        }
    if isinstance(body, SyncGroupRequest):
        return "SyncGroup", {
            "group_id": body.group_id,
            "generation_id": body.generation_id,
            "member_id": body.member_id,
            "group_instance_id": None,
            "protocol_type": body.protocol_type,
            "protocol_name": body.protocol_name,
            "assignments": [{"member_id": a.member_id, "assignment": a.assignment} for a in body.assignments],
        }
    if isinstance(body, HeartbeatRequest):
        ids = {"group_id": body.group_id, "generation_id": body.generation_id, "member_id": body.member_id}
        return "Heartbeat", {**ids, "group_instance_id": None}
    members = [{"member_id": m.member_id, "group_instance_id": None, "reason": m.reason} for m in body.members]
    return "LeaveGroup", {"group_id": body.group_id, "members": members}


def response_of(api: str, body: Mapping[str, Any]) -> ClassicResponse:
    """The answer in the types that a member reads."""
    error = ErrorCode[body["error_code"].upper()] if body.get("error_code") else ErrorCode.NONE
    match api:
        case "JoinGroup":
            members = tuple(JoinGroupResponseMember(m["member_id"], data_of(m["metadata"])) for m in body["members"])
            return JoinGroupResponse(
                body["generation_id"],
                body["protocol_type"],
                body["protocol_name"],
                body["leader"],
                body["member_id"],
                members,
                error_code=error,
            )
        case "SyncGroup":
            data = data_of(body["assignment"])
            return SyncGroupResponse(data, body["protocol_type"], body["protocol_name"], error)
        case "Heartbeat":
            return HeartbeatResponse(error)
        case "LeaveGroup":
            return LeaveGroupResponse(error)
    raise InputError(f"no API {api!r} of a Connect worker")
