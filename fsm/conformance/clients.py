"""The clients of a walk, with their state according to the last responses.

A client's state depends only on its responses. Most of its requests are those of a real client; the others are those of
a faulty or late one: old epochs, parts of an assignment, another member's id, invalid fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fsm.protocol.assignment import TopicPartitions, partitions
from fsm.protocol.consumer_protocol import Assignment, encode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

UNKNOWN_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAATQ"
OUT, PENDING, REJOINING, IN = "out", "pending", "rejoining", "in"
"""States: not in the group, has an id to join with, must rejoin, in the group."""
ENDS_MEMBERSHIP = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
}


@dataclass
class Client:
    """One client, with its state according to the last responses."""

    name: str
    group: str
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = 0
    """Member epoch, or generation."""
    is_classic: bool = False
    state: str = OUT
    names: tuple[str, ...] | None = None
    regex: str | None = None
    assigned: TopicPartitions = ()
    synced: bool = False
    """Whether a classic member has its assignment."""
    leads: bool = False
    protocol: str | None = None
    others: tuple[str, ...] = ()
    """Ids of the members, in a leader's JoinGroup response."""
    delayed: int | None = None
    """The step without a response yet."""
    timeout_ms: int = 30_000
    session_ms: int = 45_000
    rack_id: str | None = None
    lives: int = 0
    """Number of member ids used."""

    def heartbeat(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """A minimal ConsumerGroupHeartbeat with these fields."""
        minimal = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch, self.instance_id)
        return replace(minimal, **fields)

    def full_heartbeat(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat with all fields of a full request."""
        known = {
            "rack_id": self.rack_id,
            "rebalance_timeout_ms": self.timeout_ms,
            "subscribed_topic_names": self.names,
            "subscribed_topic_regex": self.regex,
            "topic_partitions": self.assigned,
        }
        return self.heartbeat(**(known | fields))

    def learn(self, request: Any, answer: Any) -> None:
        """Updates the state from the answer to a request."""
        if getattr(request, "member_id", self.member_id) != self.member_id:
            return
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._learn_heartbeat(request, answer)
        elif isinstance(answer, JoinGroupResponse):
            self._learn_join(answer)
        elif isinstance(answer, SyncGroupResponse):
            self.synced = answer.error_code is ErrorCode.NONE
        if isinstance(answer, JoinGroupResponse | SyncGroupResponse | HeartbeatResponse):
            self._learn_error(answer.error_code)

    def _learn_heartbeat(self, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in ENDS_MEMBERSHIP:
            self.state = OUT
        if answer.error_code is not ErrorCode.NONE:
            return
        self.state = IN if answer.member_epoch >= 0 else OUT
        self.epoch = max(0, answer.member_epoch)
        if request.subscribed_topic_names is not None:
            self.names = request.subscribed_topic_names
        if request.subscribed_topic_regex is not None:
            self.regex = request.subscribed_topic_regex
        if answer.assignment is not None:
            self.assigned = answer.assignment

    def _learn_join(self, answer: JoinGroupResponse) -> None:
        if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.state = answer.member_id, PENDING
        if answer.error_code is ErrorCode.NONE:
            self.member_id, self.epoch, self.state = answer.member_id, answer.generation_id, IN
            self.leads, self.synced = answer.leader == self.member_id, False
            self.protocol = answer.protocol_name
            self.others = tuple(member.member_id for member in answer.members)

    def _learn_error(self, error: ErrorCode) -> None:
        if error in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}:
            self.synced, self.state = False, REJOINING
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            self.state, self.member_id = OUT, ""


def assign(members: Sequence[str], topics: Mapping[str, int]) -> tuple[SyncGroupRequestAssignment, ...]:
    """The leader's assignments in SyncGroup: partitions are distributed round robin."""
    everything = [(name, i) for name in sorted(topics) for i in range(topics[name])]
    shares = {member: partitions(everything[i :: len(members)]) for i, member in enumerate(members)}
    return tuple(
        SyncGroupRequestAssignment(member, encode_assignment(Assignment(share), 1)) for member, share in shares.items()
    )
