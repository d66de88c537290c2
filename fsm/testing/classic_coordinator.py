"""A coordinator of a classic group to embed against: the transport of every member of one group.

It acts as a coordinator for members: creates member ids, forms generations, waits until all members have joined and the
leader has assigned, announces rebalances by heartbeats, and removes members for the test. The leader assigns, as in
Kafka. Sessions do not expire by themselves; `expire` ends them.

Source: `GroupMetadataManager`, classic groups; the exact rules are `fsm.coordinator`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import Any

from fsm.protocol import messages as m
from fsm.protocol.assignment import Partitions, TopicPartition
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.error_codes import ErrorCode

Answer = Callable[[Any], None]
Due = list[tuple[Answer, Any]]


@dataclass(slots=True)
class _Member:
    """A member, as the coordinator knows it."""

    join: m.JoinGroupRequest
    awaiting_join: Answer | None = None
    """Waits for the others to join."""
    awaiting_sync: Answer | None = None
    """Waits for the leader's assignment."""
    assignment: bytes = b""

    def answer_join(self, answer: m.JoinGroupResponse, due: Due) -> None:
        """Its join, if it waits, is due to be answered."""
        if self.awaiting_join is not None:
            due.append((self.awaiting_join, answer))
        self.awaiting_join = None

    def answer_sync(self, answer: m.SyncGroupResponse, due: Due) -> None:
        """The same for its sync."""
        if self.awaiting_sync is not None:
            due.append((self.awaiting_sync, answer))
        self.awaiting_sync = None


class ScriptedClassicCoordinator:
    """One classic group; pass it to every member of the group as its transport."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.requests: list[Any] = []
        """All requests of members."""
        self.committed: dict[TopicPartition, int] = {}
        self.generation_id = 0
        self._counts = tuple(sorted(partitions.items()))
        self._members: dict[str, _Member] = {}
        self._leader = ""
        self._rebalancing = False
        self._assigned = False
        self._names = count(1)
        self._lock = RLock()  # members call from their own threads

    # The script

    def rebalance(self) -> None:
        """All members have to join again; their heartbeats announce it."""
        with self._lock:
            self._rebalancing = True

    def expire(self, member_id: str) -> None:
        """Ends a session: the member is removed, and the others rebalance."""
        self._serve(lambda due: self._remove(member_id, due))

    def get_owned(self) -> dict[str, Partitions]:
        """The last assignment of each member, by member id; empty during a rebalance."""
        with self._lock:
            if self._rebalancing or not self._assigned:
                return {}
            given = {one: member.assignment for one, member in sorted(self._members.items())}
            return {one: decode_assignment(bytes_).partitions for one, bytes_ in given.items()}

    # The transport

    def find_coordinator(self, on_coordinator_found: Callable[[m.TransportFailure | None], None]) -> None:
        """Finds the coordinator, this transport, at once."""
        on_coordinator_found(None)

    def update_metadata(self, on_metadata: Callable[[tuple[tuple[str, int], ...]], None]) -> None:
        """All topics, with their partitions."""
        on_metadata(self._counts)

    def send(self, request: Any, on_response: Answer) -> None:
        """Answers at once, but a join or a sync when the other members have sent theirs."""
        self.requests.append(request)
        self._serve(lambda due: self._take(request, on_response, due))

    def _serve(self, work: Callable[[Due], None]) -> None:
        due: Due = []
        with self._lock:
            work(due)
        for on_response, answer in due:  # never under the lock: a member may send in answer to it
            on_response(answer)

    def _take(self, request: Any, on_response: Answer, due: Due) -> None:
        match request:
            case m.JoinGroupRequest():
                self._join(request, on_response, due)
            case m.SyncGroupRequest():
                self._sync(request, on_response, due)
            case m.HeartbeatRequest():
                due.append((on_response, m.HeartbeatResponse(self._check(request.member_id, request.generation_id))))
            case m.LeaveGroupRequest(members=members):
                for identity in members:
                    self._remove(identity.member_id, due)
                due.append((on_response, m.LeaveGroupResponse()))
            case m.OffsetCommitRequest():
                due.append((on_response, self._commit(request)))

    def _check(self, member_id: str, generation_id: int) -> ErrorCode:
        if member_id not in self._members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self._rebalancing else ErrorCode.NONE

    def _commit(self, request: m.OffsetCommitRequest) -> m.OffsetCommitResponse:
        error = self._check(request.member_id, request.generation_id_or_member_epoch)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.committed.update(request.offsets)
            error = ErrorCode.NONE
        return m.OffsetCommitResponse(m.commit_results((p, error) for p, _ in request.offsets))

    # Joining

    def _join(self, request: m.JoinGroupRequest, on_response: Answer, due: Due) -> None:
        if not request.member_id:
            named = m.JoinGroupResponse(
                member_id=f"member-{next(self._names)}", error_code=ErrorCode.MEMBER_ID_REQUIRED
            )
            due.append((on_response, named))
            return
        member = self._members.setdefault(request.member_id, _Member(request))
        member.join, member.awaiting_join = request, on_response
        self._rebalancing = True
        self._complete_join(due)

    def _complete_join(self, due: Due) -> None:
        """Begins the generation when all members have joined; members that waited for the last one join again."""
        for member in self._members.values():
            member.answer_sync(m.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), due)
        if not self._members or any(member.awaiting_join is None for member in self._members.values()):
            return
        self.generation_id += 1
        self._rebalancing = self._assigned = False
        self._leader = self._leader if self._leader in self._members else min(self._members)
        for member_id, member in self._members.items():
            member.answer_join(self._join_response(member_id), due)
            member.assignment = b""

    def _join_response(self, member_id: str) -> m.JoinGroupResponse:
        protocol = self._members[self._leader].join.protocols[0].name
        members = tuple(
            m.JoinGroupResponseMember(
                one, metadata=next(p.metadata for p in member.join.protocols if p.name == protocol)
            )
            for one, member in sorted(self._members.items())
        )
        return m.JoinGroupResponse(
            self.generation_id,
            "consumer",
            protocol,
            self._leader,
            member_id,
            members if member_id == self._leader else (),
        )

    def _sync(self, request: m.SyncGroupRequest, on_response: Answer, due: Due) -> None:
        error = self._check(request.member_id, request.generation_id)
        if error is not ErrorCode.NONE:
            due.append((on_response, m.SyncGroupResponse(error_code=error)))
            return
        self._members[request.member_id].awaiting_sync = on_response
        if request.member_id == self._leader:
            given = {a.member_id: a.assignment for a in request.assignments}
            for member_id, member in self._members.items():
                member.assignment = given.get(member_id, b"")
            self._assigned = True
        if self._assigned:
            for member in self._members.values():
                member.answer_sync(m.SyncGroupResponse(member.assignment, protocol_type="consumer"), due)

    def _remove(self, member_id: str, due: Due) -> None:
        member = self._members.pop(member_id, None)
        if member is None:
            return
        member.answer_join(m.JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), due)
        member.answer_sync(m.SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), due)
        self._rebalancing = bool(self._members)
        self._complete_join(due)
