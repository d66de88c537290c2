"""What the answers of the coordinator mean to a Connect worker: each is named as an event of its table.

Source: `AbstractCoordinator` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.connect.assignor.leader import Election
from fsm.connect.protocol import Assignment, decode_assignment, decode_metadata
from fsm.connect.worker.config import VERSIONS, version_of
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.inputs import Answered
from fsm.connect.worker.state import NO_HEARTBEAT, Worker
from fsm.errors import RemoteProtocolError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse, TransportFailure
from fsm.tables.connect_worker import Event, State

E, C = Event, ErrorCode
MEMBERSHIP_LOST = frozenset({C.ILLEGAL_GENERATION, C.UNKNOWN_MEMBER_ID})
COORDINATOR_GONE = frozenset({C.COORDINATOR_NOT_AVAILABLE, C.NOT_COORDINATOR})
JOIN_ERRORS = {
    C.MEMBER_ID_REQUIRED: E.JOIN_NEEDS_MEMBER_ID,
    C.UNKNOWN_MEMBER_ID: E.JOIN_UNKNOWN_MEMBER,
    C.REBALANCE_IN_PROGRESS: E.JOIN_REBALANCE_IN_PROGRESS,
    C.COORDINATOR_LOAD_IN_PROGRESS: E.JOIN_LOADING,
}
SYNC_ERRORS = {
    C.REBALANCE_IN_PROGRESS: E.SYNC_REBALANCE_IN_PROGRESS,
    C.ILLEGAL_GENERATION: E.SYNC_ILLEGAL_GENERATION,
    C.UNKNOWN_MEMBER_ID: E.SYNC_UNKNOWN_MEMBER,
}
HEARTBEAT_ERRORS = {
    C.REBALANCE_IN_PROGRESS: E.HEARTBEAT_REBALANCE,
    C.ILLEGAL_GENERATION: E.HEARTBEAT_ILLEGAL_GENERATION,
    C.UNKNOWN_MEMBER_ID: E.HEARTBEAT_UNKNOWN_MEMBER,
}


def answered(draft: WorkerDraft, given: Answered) -> None:
    """An answer, whatever it answers. One that nobody waits for any more, or to a leave, changes nothing."""
    if given.number == draft.heartbeat_sent[0]:
        _heartbeat(draft, given)
    elif given.number == draft.awaited:
        draft.awaited = 0
        _join_or_sync(draft, given)
    else:
        draft.unanswered = tuple(number for number in draft.unanswered if number != given.number)


def _join_or_sync(draft: WorkerDraft, given: Answered) -> None:
    answer = given.answer
    if isinstance(answer, TransportFailure):
        draft.decide(E.COORDINATOR_LOST)
    elif draft.stale:
        draft.stale = False
        draft.decide(E.ANSWER_STALE)
    elif draft.state is State.JOINING and isinstance(answer, JoinGroupResponse):
        _joined(draft, answer)
    elif draft.state is State.SYNCING and isinstance(answer, SyncGroupResponse):
        _synced(draft, answer)
    else:
        raise RemoteProtocolError(f"{type(answer).__name__} answers no request of a worker in {draft.state.name}")


def _failed(draft: WorkerDraft, error: ErrorCode, what: str, known: dict[ErrorCode, Event]) -> None:
    """An error by its name in the table; one that has none ends the worker's thread."""
    if error in COORDINATOR_GONE:
        draft.decide(E.COORDINATOR_LOST)
        return
    draft.reason = f"{what} answered {error.name}"
    draft.decide(known.get(error, E.FATAL_ERROR))


def _joined(draft: WorkerDraft, answer: JoinGroupResponse) -> None:
    draft.answered_member_id = answer.member_id
    if answer.error_code is not C.NONE:
        _failed(draft, answer.error_code, "JoinGroup", JOIN_ERRORS)
        return
    protocol = answer.protocol_name or ""
    if protocol not in VERSIONS:
        draft.reason = f"the group elected {protocol!r}, which is none of Connect's"
        draft.decide(E.FATAL_ERROR)
        return
    members = {member.member_id: decode_metadata(member.metadata) for member in answer.members}
    draft.election = Election(answer.leader, protocol, answer.generation_id, members)
    if answer.leader == answer.member_id:
        draft.decide(E.JOINED_LEADER)
        draft.decide(E.ASSIGNOR_DONE)
    else:
        draft.decide(E.JOINED_FOLLOWER)


def _synced(draft: WorkerDraft, answer: SyncGroupResponse) -> None:
    if answer.error_code is not C.NONE:
        _failed(draft, answer.error_code, "SyncGroup", SYNC_ERRORS)
        return
    if answer.protocol_name not in {None, draft.elected}:
        draft.reason = f"SyncGroup speaks of protocol {answer.protocol_name!r}, the join of {draft.elected!r}"
        draft.decide(E.FATAL_ERROR)
        return
    incoming = decode_assignment(answer.assignment)
    incoming = replace(incoming, version=version_of(draft.elected))
    draft.incoming = incoming
    draft.rejoin_wanted = False
    draft.prepared = False
    draft.decide(decide_synced(draft, incoming))


def decide_synced(worker: Worker, incoming: Assignment) -> Event:
    """Which end of a sync this is."""
    if version_of(worker.elected) > 0 and incoming.revoked:
        return E.SYNCED_REVOKING
    if incoming.failed:
        return E.SYNCED_FAILED
    if worker.configs.offset == incoming.offset:
        return E.SYNCED_READY
    return E.SYNCED_BEHIND if worker.configs.offset < incoming.offset else E.SYNCED_AHEAD


def _heartbeat(draft: WorkerDraft, given: Answered) -> None:
    answer = given.answer
    _, *named_in_it = draft.heartbeat_sent
    draft.heartbeat_sent = NO_HEARTBEAT
    if isinstance(answer, TransportFailure):
        _heartbeat_unanswered(draft, answer)
        return
    if not isinstance(answer, HeartbeatResponse):
        raise RemoteProtocolError(f"{type(answer).__name__} answers no heartbeat")
    error = answer.error_code
    if error in {C.NONE, C.REBALANCE_IN_PROGRESS}:  # either way the coordinator knows the member
        draft.heartbeats = draft.heartbeats.answer(draft.config, draft.now_ms)
    if error in MEMBERSHIP_LOST and named_in_it != [draft.generation, draft.member_id]:
        draft.decide(E.HEARTBEAT_STALE)
    elif error in COORDINATOR_GONE or error in HEARTBEAT_ERRORS:
        _failed(draft, error, "Heartbeat", HEARTBEAT_ERRORS)
    elif error is not C.NONE:
        draft.heartbeats = draft.heartbeats.fail(draft.config, draft.now_ms, 0.0)


def _heartbeat_unanswered(draft: WorkerDraft, failure: TransportFailure) -> None:
    """A connection that is gone is a coordinator that is lost; any other failure is tried again."""
    if failure.disconnected:
        draft.decide(E.COORDINATOR_LOST)
    else:
        draft.heartbeats = draft.heartbeats.fail(draft.config, draft.now_ms, 0.0)
