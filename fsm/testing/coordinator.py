"""A coordinator to embed against: the transport of every member of one group, scripted by the test.

It acts as a coordinator for members (joins, epochs, targets, partitions that wait for their last owner, fencing,
leaves) without decisions of its own: the test sets the target, and members learn of it by heartbeats. It answers at
once, inside `send`.

Source: KIP-848, section on the reconciliation of a group; the exact rules are `fsm.coordinator`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock

from fsm.protocol import messages as m
from fsm.protocol.assignment import (
    Partitions,
    TopicNames,
    TopicPartition,
    numbers_by_topic,
    partitions,
    topic_partitions,
)
from fsm.protocol.error_codes import ErrorCode


@dataclass(slots=True)
class _Member:
    """A member, as the coordinator knows it."""

    epoch: int = 0
    held: set[TopicPartition] = field(default_factory=set)
    """Partitions that it may own: assigned, or not yet reported as revoked."""
    sent: Partitions | None = None
    """The assignment it was sent last."""


class ScriptedCoordinator:
    """One group over some topics; pass it to every member of the group as its transport."""

    def __init__(self, topics: Iterable[str], *, heartbeat_interval_ms: int = 5_000) -> None:
        self.names = TopicNames({f"id-of-{topic}": topic for topic in topics})
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.requests: list[m.ConsumerRequest] = []
        """All requests of members."""
        self.committed: dict[TopicPartition, int] = {}
        self._ids = {name: topic_id for topic_id, name in self.names.items()}
        self._group_epoch = 1
        self._target: dict[str, Partitions] = {}
        self._members: dict[str, _Member] = {}
        self._lock = RLock()  # members call from their own threads

    # The script

    def give(self, target: Mapping[str, Iterable[TopicPartition]]) -> None:
        """Sets the target of the group, by member id; a partition moves when its last owner has revoked it."""
        with self._lock:
            self._target = {member_id: partitions(given) for member_id, given in target.items()}
            self._group_epoch += 1

    def fence(self, member_id: str) -> None:
        """Fences a member; it learns of it at its next heartbeat, and may join again."""
        with self._lock:
            self._members.pop(member_id, None)

    def get_owned(self) -> dict[str, Partitions]:
        """The partitions that each member may own now, each with one member."""
        with self._lock:
            return {member_id: partitions(member.held) for member_id, member in sorted(self._members.items())}

    # The transport

    def find_coordinator(self, on_coordinator_found: Callable[[m.TransportFailure | None], None]) -> None:
        """Finds the coordinator, this transport, at once."""
        on_coordinator_found(None)

    def update_metadata(self, on_metadata: Callable[[TopicNames | m.TransportFailure], None]) -> None:
        """Gives the names of all topics at once."""
        on_metadata(self.names)

    def send(
        self, request: m.ConsumerRequest, on_response: Callable[[m.ConsumerResponse | m.TransportFailure], None]
    ) -> None:
        """Answers before it returns."""
        with self._lock:
            self.requests.append(request)
            answer = self._answer(request)
        on_response(answer)

    def _answer(self, request: m.ConsumerRequest) -> m.ConsumerResponse:
        if isinstance(request, m.OffsetCommitRequest):
            self.committed.update(request.offsets)
            return m.OffsetCommitResponse()
        return self._heartbeat(request)

    def _heartbeat(self, request: m.ConsumerGroupHeartbeatRequest) -> m.ConsumerGroupHeartbeatResponse:
        if request.member_epoch < 0:
            self._members.pop(request.member_id, None)
            return m.ConsumerGroupHeartbeatResponse(request.member_epoch)
        if request.member_epoch == 0:
            self._members[request.member_id] = _Member()
        member = self._members.get(request.member_id)
        if member is None:
            return m.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch != member.epoch:
            return m.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        return self._reconcile(member, request)

    def _reconcile(self, member: _Member, request: m.ConsumerGroupHeartbeatRequest) -> m.ConsumerGroupHeartbeatResponse:
        if request.topic_partitions is not None:
            member.held = set(self.names.name(request.topic_partitions))
        target = self._target.get(request.member_id, ())
        taken = {p for other in self._members.values() if other is not member for p in other.held}
        assigned = tuple(p for p in target if p not in taken)
        if member.held <= set(target) or not member.epoch:  # a member keeps its epoch until it has revoked
            member.epoch = self._group_epoch
        member.held |= set(assigned)
        news = assigned if assigned != member.sent else None
        member.sent = assigned
        return m.ConsumerGroupHeartbeatResponse(
            member.epoch,
            self.heartbeat_interval_ms,
            None
            if news is None
            else topic_partitions(numbers_by_topic((self._ids[topic], number) for topic, number in news)),
        )
