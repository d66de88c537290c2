"""The invariants of a worker's membership: the requests that it sends, and what it keeps after answers and starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fsm.connect.worker.inputs import Answered, Send, Stop, UnitsStarted, WorkerEffect, WorkerInput
from fsm.connect.worker.state import Worker
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from fsm.tables.connect_worker import SETTLED, State

ONE_JOIN = "a step sends at most one join or sync"
LEAVES = "a worker that stops leaves its group once"
RECORDED = "a worker whose starts have ended records as running what it holds"
SETTLED_MEMBER = "a settled worker is a member"
JOINING_WAITS = "a worker in JOINING waits for an answer"
FORGETS_ID = "a worker forgets a member id that the coordinator does not know"
OF_MEMBERSHIP = (ONE_JOIN, LEAVES, RECORDED, SETTLED_MEMBER, JOINING_WAITS, FORGETS_ID)


def broken_in_membership(
    before: Worker, after: Worker, given: WorkerInput, effects: Collection[WorkerEffect]
) -> Iterator[str]:
    """What a step on this input breaks: by the requests that it sends, and by what it keeps of its membership."""
    sent = [effect.body for effect in effects if isinstance(effect, Send)]
    if sum(isinstance(body, JoinGroupRequest | SyncGroupRequest) for body in sent) > 1:
        yield ONE_JOIN
    can_leave = before.coordinator_known and bool(before.member_id)
    if isinstance(given, Stop) and sum(isinstance(body, LeaveGroupRequest) for body in sent) != can_leave:
        yield LEAVES
    if (
        isinstance(given, UnitsStarted)
        and after.is_cooperative
        and (after.running, after.resolved) != (after.holds, True)
    ):
        yield RECORDED
    if after.state in SETTLED and not after.is_member:
        yield SETTLED_MEMBER
    if after.state is State.JOINING and not after.awaited:
        yield JOINING_WAITS
    if isinstance(given, Answered) and given.number == before.heartbeat_sent[0] and before.state in SETTLED:
        unknown = getattr(given.answer, "error_code", None) is ErrorCode.UNKNOWN_MEMBER_ID
        if unknown and not before.stale and before.member_id and after.member_id == before.member_id:
            yield FORGETS_ID
