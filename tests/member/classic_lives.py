"""A classic member, what is open, and what its listener was told, for random walks."""

from __future__ import annotations

from dataclasses import replace

from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicInput,
    ClassicMember,
    Close,
    PartitionCountsUpdated,
    Taken,
    UnsentClassicRequest,
    new_member,
)
from fsm.member.classic.step import step
from fsm.member.effects import CallCompleted, Enqueued
from fsm.member.events import (
    ConsumerRebalanceListenerCallbackCompletedEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
)
from fsm.protocol.assignment import Partitions
from fsm.protocol.consumer_protocol import Assignment, decode_subscription, encode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    commit_results,
)
from fsm.tables.classic_member import HEARTBEATING, State

EAGER = ClassicConfig(
    "g", session_timeout_ms=600, heartbeat_interval_ms=100, max_poll_interval_ms=900, assignors=(RANGE,)
)
CONFIGS = (
    EAGER,
    replace(EAGER, assignors=(COOPERATIVE_STICKY,)),
    replace(EAGER, group_instance_id="i", max_poll_interval_ms=300),
    replace(EAGER, assignors=(COOPERATIVE_STICKY,), group_instance_id="i", enable_auto_commit=False),
    replace(EAGER, assignors=(RANGE, COOPERATIVE_STICKY), leave_group_on_close=False),
)
CODES = tuple(
    map(ErrorCode, (-1, 0, 3, 7, 12, *range(14, 18), *range(22, 32), 35, 42, 68, 69, 79, 81, 82, 86, 88, 100))
) + tuple(map(ErrorCode, (*range(110, 114), 128)))
"""What coordinators answer."""
USUAL = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)
"""What tells of the membership."""
PARTITIONS = tuple((topic, n) for topic in "tu" for n in range(3))
OFFSETS = tuple((p, 7) for p in PARTITIONS)


class World:
    """A member, what is open, and what its listener was told."""

    def __init__(self, config: ClassicConfig) -> None:
        self.member = new_member(config)
        self.now_ms = 0
        self.open: list[UnsentClassicRequest] = []
        self.held: set[tuple[str, int]] = set()
        """By the callbacks that have ended."""
        self.generation = 0
        self.calls = 0
        self.completed: list[int] = []
        self.taken: set[tuple[State, object]] = set()
        self.give(PartitionCountsUpdated((("t", 3), ("u", 3))))

    def give(self, given: ClassicInput) -> None:
        before = self.member
        after = step(before, given, self.now_ms)
        assert after == step(before, given, self.now_ms), "the same step gives the same"
        hash(after.member)
        self.member = after.member
        for effect in after.effects:
            if isinstance(effect, UnsentClassicRequest):
                self.sent(before, effect)
            elif isinstance(effect, CallCompleted) and effect.call:
                self.completed.append(effect.call)
            elif isinstance(effect, Taken):
                self.taken.add((effect.source, effect.event))
            elif isinstance(effect, Enqueued):
                self.asked(before, given, effect)

    def sent(self, before: ClassicMember, request: UnsentClassicRequest) -> None:
        self.open.append(request)
        body, member = request.body, self.member
        if isinstance(body, JoinGroupRequest):
            owned = {decode_subscription(p.metadata).owned_partitions for p in body.protocols}
            assert owned == {member.owned}
            assert member.config.is_cooperative or owned == {()}, "an eager member owns nothing when it joins"
        elif isinstance(body, HeartbeatRequest):
            assert before.state in HEARTBEATING
            assert (body.generation_id, body.member_id) == before.generation[:2]
            assert body.generation_id >= 0
        elif isinstance(body, LeaveGroupRequest):
            assert body.members[0].member_id
            assert not member.config.is_static, "a static member keeps its place"
        elif isinstance(body, OffsetCommitRequest):
            assert body.generation_id_or_member_epoch >= 0 or before.topics is None
        joins = [r for r in self.open if isinstance(r.body, JoinGroupRequest | SyncGroupRequest)]
        assert len(joins) <= 1, "one join at a time"

    def asked(self, before: ClassicMember, given: ClassicInput, effect: Enqueued) -> None:
        match effect.event:
            case PartitionsRemovedEvent(_, _, gone):
                assert set(gone) <= self.held, "only what was assigned is taken away"
            case PartitionsAssignedEvent(_, full, added):
                assert not set(added) & self.held, "nothing is assigned twice"
                assert set(full) == self.held | set(added)
            case _:
                return
        ends = isinstance(given, ConsumerRebalanceListenerCallbackCompletedEvent | Close)
        assert before.awaited is None or ends, "one callback at a time"

    def end_callback(self, error: str | None) -> None:
        awaited = self.member.awaited
        assert awaited is not None
        if awaited.method.name == "ASSIGNED":
            self.held |= set(awaited.partitions)
        else:
            self.held -= set(awaited.partitions)
        self.give(ConsumerRebalanceListenerCallbackCompletedEvent(awaited.ticket, error))

    def answer(self, number: int, code: ErrorCode, given: Partitions, lead: bool) -> None:
        request = self.open.pop(number % len(self.open))
        self.give(ClassicAnswered(request, self.response(request, code, given, lead)))

    def response(self, request: UnsentClassicRequest, code: ErrorCode, given: Partitions, lead: bool) -> object:
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            return DISCONNECTED if lead else TIMED_OUT
        ok = code is ErrorCode.NONE
        match request.body:
            case JoinGroupRequest() as body:
                self.generation += not lead or self.generation == 0
                member_id = body.member_id or f"m{self.generation}"
                members = (JoinGroupResponseMember(member_id, metadata=body.protocols[0].metadata),) if lead else ()
                name = body.protocols[0].name
                generation_id = self.generation if ok else -1
                leader = member_id if lead else "other"
                return JoinGroupResponse(generation_id, "consumer", name, leader, member_id, members, error_code=code)
            case SyncGroupRequest():
                return SyncGroupResponse(encode_assignment(Assignment(given)) if ok else b"", error_code=code)
            case HeartbeatRequest():
                return HeartbeatResponse(code)
            case LeaveGroupRequest():
                return LeaveGroupResponse(code)
        return OffsetCommitResponse(commit_results(() if ok else ((PARTITIONS[0], code),)))

    def check(self) -> None:
        """What holds between any two steps."""
        member = self.member
        assert member.in_flight == len(self.open)
        joins = any(isinstance(r.body, JoinGroupRequest | SyncGroupRequest) for r in self.open)
        assert member.closed or member.join_out == (joins or member.unread is not None)
        if member.state in HEARTBEATING:
            assert not member.generation.is_reset
        if member.state is State.UNJOINED:
            assert member.generation.generation_id == -1
            assert member.generation.protocol_name is None
        if member.awaited is None:
            assert set(member.owned) == self.held, "the listener was told of all that is owned"
        assert not (member.heartbeats.enabled and member.closed)
        assert len(self.completed) == len(set(self.completed)), "a call ends once"
