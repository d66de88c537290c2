"""What the answers of the coordinator mean to a Connect worker: each is named as an event of its table.

Source: 1.4 of the reference on Connect; `AbstractCoordinator` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.connect.config import VERSIONS, version_of
from fsm.connect.inputs import Answered
from fsm.connect.leader import Election
from fsm.connect.orders import decide
from fsm.connect.protocol import Assignment, decode_assignment, decode_metadata
from fsm.connect.state import Run, Worker
from fsm.errors import RemoteProtocolError
from fsm.kafka.classic_messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.messages import TransportFailure
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


def answered(run: Run, given: Answered) -> None:
    """An answer, whatever it answers. One that nobody waits for any more, or to a leave, changes nothing."""
    if given.number == run.worker.heartbeat_sent[0]:
        _heartbeat(run, given)
    elif given.number == run.worker.awaited:
        run.set(awaited=0)
        _join_or_sync(run, given)


def _join_or_sync(run: Run, given: Answered) -> None:
    answer = given.answer
    if isinstance(answer, TransportFailure):
        decide(run, E.COORDINATOR_LOST)
    elif run.worker.stale:
        run.set(stale=False)
        decide(run, E.ANSWER_STALE)
    elif run.worker.state is State.JOINING and isinstance(answer, JoinGroupResponse):
        _joined(run, answer)
    elif run.worker.state is State.SYNCING and isinstance(answer, SyncGroupResponse):
        _synced(run, answer)
    else:
        raise RemoteProtocolError(f"{type(answer).__name__} answers no request of a worker in {run.worker.state.name}")


def _failed(run: Run, error: ErrorCode, what: str, known: dict[ErrorCode, Event]) -> None:
    """An error by its name in the table; one that has none ends the worker's thread."""
    if error in COORDINATOR_GONE:
        decide(run, E.COORDINATOR_LOST)
        return
    run.reason = f"{what} answered {error.name}"
    decide(run, known.get(error, E.FATAL_ERROR))


def _joined(run: Run, answer: JoinGroupResponse) -> None:
    run.member_id = answer.member_id
    if answer.error_code is not C.NONE:
        _failed(run, answer.error_code, "JoinGroup", JOIN_ERRORS)
        return
    protocol = answer.protocol_name or ""
    if protocol not in VERSIONS:
        run.reason = f"the group elected {protocol!r}, which is none of Connect's"
        decide(run, E.FATAL_ERROR)
        return
    members = {member.member_id: decode_metadata(member.metadata) for member in answer.members}
    run.election = Election(answer.leader, protocol, answer.generation_id, members)
    if answer.leader == answer.member_id:
        decide(run, E.JOINED_LEADER)
        decide(run, E.ASSIGNOR_DONE)
    else:
        decide(run, E.JOINED_FOLLOWER)


def _synced(run: Run, answer: SyncGroupResponse) -> None:
    if answer.error_code is not C.NONE:
        _failed(run, answer.error_code, "SyncGroup", SYNC_ERRORS)
        return
    if answer.protocol_name not in {None, run.worker.elected}:
        run.reason = f"SyncGroup speaks of protocol {answer.protocol_name!r}, the join of {run.worker.elected!r}"
        decide(run, E.FATAL_ERROR)
        return
    incoming = decode_assignment(answer.assignment)
    incoming = replace(incoming, version=version_of(run.worker.elected))
    run.set(incoming=incoming, rejoin_wanted=False, prepared=False)
    decide(run, synced_event(run.worker, incoming))


def synced_event(worker: Worker, incoming: Assignment) -> Event:
    """Which end of a sync this is."""
    if version_of(worker.elected) > 0 and incoming.revoked:
        return E.SYNCED_REVOKING
    if incoming.failed:
        return E.SYNCED_FAILED
    if worker.configs.offset == incoming.offset:
        return E.SYNCED_READY
    return E.SYNCED_BEHIND if worker.configs.offset < incoming.offset else E.SYNCED_AHEAD


def _heartbeat(run: Run, given: Answered) -> None:
    worker, answer = run.worker, given.answer
    _, *spoken_of = worker.heartbeat_sent
    run.set(heartbeat_sent=(0, *spoken_of))
    if isinstance(answer, TransportFailure):
        _heartbeat_unanswered(run, answer)
        return
    if not isinstance(answer, HeartbeatResponse):
        raise RemoteProtocolError(f"{type(answer).__name__} answers no heartbeat")
    error = answer.error_code
    if error in {C.NONE, C.REBALANCE_IN_PROGRESS}:  # either way the coordinator knows the member
        run.set(heartbeats=worker.heartbeats.answered(worker.config, run.now_ms))
    if error in MEMBERSHIP_LOST and spoken_of != [worker.generation, worker.member_id]:
        decide(run, E.HEARTBEAT_STALE)
    elif error in COORDINATOR_GONE or error in HEARTBEAT_ERRORS:
        _failed(run, error, "Heartbeat", HEARTBEAT_ERRORS)
    elif error is not C.NONE:
        run.set(heartbeats=worker.heartbeats.failed(worker.config, run.now_ms, 0.0))


def _heartbeat_unanswered(run: Run, failure: TransportFailure) -> None:
    """A connection that is gone is a coordinator that is lost; any other failure is tried again."""
    if failure.disconnected:
        decide(run, E.COORDINATOR_LOST)
    else:
        run.set(heartbeats=run.worker.heartbeats.failed(run.worker.config, run.now_ms, 0.0))
