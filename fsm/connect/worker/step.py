"""A Connect worker without IO: its reaction to each input, and when it must be called again.

`step(worker, given, now_ms)` takes a frozen worker and returns a frozen worker and effects. Its rows are those of the
table `connect-worker`; this module decides which row is taken, `effects` executes it. Time passes by `Tick`, which the
runtime sends at `due_ms`.

This module never takes five events of the table: a delay that is over as soon as its sync has been handled (two events;
it needs a slow thread), a failed assignment that the herder sees (two; never recorded), and an assignor that raises,
which ours does not. There are also no events in LEADING, which ends in the step that elects; no missed poll in
UNJOINED, where heartbeats are disabled; and no DELAYED eager worker.

Source: `DistributedHerder`, `WorkerCoordinator`, `AbstractCoordinator` of apache/kafka at 1eb7644, with the corrections
of recorded 4.3.1 workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fsm.connect.assignor.leader import Election
from fsm.connect.protocol import Assignment, decode_assignment, decode_metadata
from fsm.connect.units import Units
from fsm.connect.worker import inputs
from fsm.connect.worker.config import VERSIONS, version_of
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.state import NO_HEARTBEAT, Worker
from fsm.errors import LocalProtocolError, RemoteProtocolError
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.connect_worker import SETTLED, Event, State

S, E, C = State, Event, ErrorCode
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


class Step(NamedTuple):
    """A worker after an input, and the effects to carry out, in order."""

    worker: Worker
    effects: tuple[inputs.WorkerEffect, ...]


def step(worker: Worker, given: inputs.WorkerInput, now_ms: int) -> Step:
    """The worker after `given`. One that is down accepts only `Start`.

    Raises:
        LocalProtocolError: the end of stops or starts that were not requested, a start of a running worker, or an
            unknown input; `worker` itself never changes.
        RemoteProtocolError: an answer whose bytes cannot be read.
    """
    handler = HANDLERS.get(type(given))
    if handler is None:
        raise LocalProtocolError(f"{type(given).__name__} is not an input of a Connect worker")
    if worker.state is S.DOWN and not isinstance(given, inputs.Start):
        return Step(worker, ())
    draft = WorkerDraft(worker, now_ms)
    _expire(draft)
    handler(draft, given)
    _advance(draft)
    return Step(draft.close(), tuple(draft.effects))


def due_ms(worker: Worker) -> int:
    """The latest instant for the worker's next `Tick`."""
    if worker.state is S.DOWN:
        return NEVER
    timers = [worker.heartbeats.due_ms() if worker.coordinator_known else NEVER]
    if worker.timer_ms is not None:
        timers.append(worker.timer_ms)
    if worker.deadline_ms is not None and worker.state in {S.DELAYED, S.DISCONNECTED}:
        timers.append(worker.deadline_ms)
    return min(timers)


# Inputs


def _start(draft: WorkerDraft, given: inputs.Start) -> None:
    if draft.state is not S.DOWN:
        raise LocalProtocolError("a running Connect worker cannot be started; a restarted process is a new worker")
    draft.store = given.snapshot
    draft.configs = given.snapshot
    draft.decide(E.START)


def _fail_thread(draft: WorkerDraft, given: inputs.ThreadFailed) -> None:
    draft.reason = given.reason
    draft.decide(E.FATAL_ERROR)


def _find_coordinator(draft: WorkerDraft, _: CoordinatorFound) -> None:
    heartbeats = draft.heartbeats.find_coordinator(draft.config, draft.now_ms)
    draft.coordinator_known = True
    draft.heartbeats = heartbeats
    if draft.state is not S.DISCONNECTED:
        return
    if draft.wants_to_rejoin:
        draft.decide(E.COORDINATOR_FOUND)
    elif draft.deadline_ms is not None:
        draft.decide(E.COORDINATOR_FOUND_STILL_DELAYED)
    else:
        draft.decide(E.COORDINATOR_FOUND_STILL_ASSIGNED)


def _end_stops(draft: WorkerDraft, _: inputs.UnitsStopped) -> None:
    if draft.state is not S.REVOKING or draft.incoming is None:
        raise LocalProtocolError(f"no stop is pending in {draft.state.name}")
    here, theirs = draft.configs.offset, draft.incoming.offset
    draft.decide(E.REVOKED_READY if here == theirs else E.REVOKED_BEHIND if here < theirs else E.REVOKED_AHEAD)


def _end_starts(draft: WorkerDraft, _: inputs.UnitsStarted) -> None:
    if draft.state is not S.STARTING:
        raise LocalProtocolError(f"no start is pending in {draft.state.name}")
    if draft.held is not None and draft.held.revoked:  # the follow-up round is due, even if workers are lost meanwhile
        draft.decide(E.STARTED_REVOKED_BEFORE)
    elif not draft.coordinator_known:
        draft.decide(E.STARTED_COORDINATOR_LOST)
    elif draft.wants_to_rejoin:
        draft.decide(E.STARTED_REJOIN)
    else:
        draft.decide(E.STARTED if draft.deadline_ms is None else E.STARTED_DELAYED)


def _advance_config(draft: WorkerDraft, given: inputs.ConfigTopicAdvanced) -> None:
    draft.store = given.snapshot
    draft.changes = (*draft.changes, *given.changes)


def _read_to_end(draft: WorkerDraft, given: inputs.ReadToEnd) -> None:
    """Handles a read to the end; a late one still has the content of the topic."""
    draft.store = given.snapshot
    if draft.state is not S.CATCHING_UP:
        return
    draft.configs = given.snapshot
    outside = draft.outside
    draft.outside = False
    held = draft.held
    if outside or held is None:
        draft.decide(E.CAUGHT_UP_OUTSIDE)
    elif held.failed:
        draft.decide(E.CAUGHT_UP_FAILED)
    elif draft.deadline_ms is not None and draft.now_ms >= draft.deadline_ms:
        draft.decide(E.CAUGHT_UP_DELAY_OVER)
    elif given.snapshot.offset == held.offset:
        draft.decide(E.CAUGHT_UP)
    else:
        draft.decide(E.CAUGHT_UP_MISMATCH)


def _restart(draft: WorkerDraft, given: inputs.RestartRequested) -> None:
    """Not a step of the table: restarts held units only, and only while no other operation is in progress."""
    units = _mine(draft, given.units)
    if units and draft.state in SETTLED:
        draft.effects.append(inputs.RestartUnits(units))


def _mine(draft: WorkerDraft, units: Units) -> Units:
    return tuple(unit for unit in units if unit in draft.holds)


# Answers of the coordinator, each named as an event of the table


def _receive_answer(draft: WorkerDraft, given: inputs.Answered) -> None:
    """Handles an answer to any request. One that is not awaited any more, or to a leave, has no effect."""
    if given.number == draft.heartbeat_sent[0]:
        _end_heartbeat(draft, given)
    elif given.number == draft.awaited:
        draft.awaited = 0
        _end_join_or_sync(draft, given)
    else:
        draft.unanswered = tuple(number for number in draft.unanswered if number != given.number)


def _end_join_or_sync(draft: WorkerDraft, given: inputs.Answered) -> None:
    answer = given.answer
    if isinstance(answer, m.TransportFailure):
        draft.decide(E.COORDINATOR_LOST)
    elif draft.stale:
        draft.stale = False
        draft.decide(E.ANSWER_STALE)
    elif draft.state is State.JOINING and isinstance(answer, m.JoinGroupResponse):
        _end_join(draft, answer)
    elif draft.state is State.SYNCING and isinstance(answer, m.SyncGroupResponse):
        _end_sync(draft, answer)
    else:
        raise RemoteProtocolError(
            f"{type(answer).__name__} does not answer a request of a worker in {draft.state.name}"
        )


def _fail(draft: WorkerDraft, error: ErrorCode, what: str, known: dict[ErrorCode, Event]) -> None:
    """Takes the event of an error; an error without one ends the worker's thread."""
    if error in COORDINATOR_GONE:
        draft.decide(E.COORDINATOR_LOST)
        return
    draft.reason = f"{what} answered {error.name}"
    draft.decide(known.get(error, E.FATAL_ERROR))


def _end_join(draft: WorkerDraft, answer: m.JoinGroupResponse) -> None:
    draft.answered_member_id = answer.member_id
    if answer.error_code is not C.NONE:
        _fail(draft, answer.error_code, "JoinGroup", JOIN_ERRORS)
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


def _end_sync(draft: WorkerDraft, answer: m.SyncGroupResponse) -> None:
    if answer.error_code is not C.NONE:
        _fail(draft, answer.error_code, "SyncGroup", SYNC_ERRORS)
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
    """The event of the end of a sync."""
    if version_of(worker.elected) > 0 and incoming.revoked:
        return E.SYNCED_REVOKING
    if incoming.failed:
        return E.SYNCED_FAILED
    if worker.configs.offset == incoming.offset:
        return E.SYNCED_READY
    return E.SYNCED_BEHIND if worker.configs.offset < incoming.offset else E.SYNCED_AHEAD


def _end_heartbeat(draft: WorkerDraft, given: inputs.Answered) -> None:
    answer = given.answer
    _, *named_in_it = draft.heartbeat_sent
    draft.heartbeat_sent = NO_HEARTBEAT
    if isinstance(answer, m.TransportFailure):
        if answer.disconnected:
            draft.decide(E.COORDINATOR_LOST)
        else:
            draft.heartbeats = draft.heartbeats.fail(draft.config, draft.now_ms, 0.0)
        return
    if not isinstance(answer, m.HeartbeatResponse):
        raise RemoteProtocolError(f"{type(answer).__name__} does not answer a heartbeat")
    error = answer.error_code
    if error in {C.NONE, C.REBALANCE_IN_PROGRESS}:  # either way the coordinator knows the member
        draft.heartbeats = draft.heartbeats.answer(draft.config, draft.now_ms)
    if error in MEMBERSHIP_LOST and named_in_it != [draft.generation, draft.member_id]:
        draft.decide(E.HEARTBEAT_STALE)
    elif error in COORDINATOR_GONE or error in HEARTBEAT_ERRORS:
        _fail(draft, error, "Heartbeat", HEARTBEAT_ERRORS)
    elif error is not C.NONE:
        draft.heartbeats = draft.heartbeats.fail(draft.config, draft.now_ms, 0.0)


HANDLERS: Mapping[type[Any], Callable[[WorkerDraft, Any], None]] = {
    inputs.Start: _start,
    inputs.Stop: lambda draft, _: draft.decide(E.STOP),
    inputs.ThreadFailed: _fail_thread,
    inputs.Answered: _receive_answer,
    inputs.UnitsStopped: _end_stops,
    inputs.UnitsStarted: _end_starts,
    inputs.ConfigTopicAdvanced: _advance_config,
    inputs.ReadToEnd: _read_to_end,
    inputs.RestartRequested: _restart,
    CoordinatorFound: _find_coordinator,
    CoordinatorLost: lambda draft, _: draft.decide(E.COORDINATOR_LOST),
    Tick: lambda _draft, _given: None,  # time passes for every input
}


# Time


def _expire(draft: WorkerDraft) -> None:
    """Handles timers that expired before the input: the heartbeat thread first, as it runs by itself."""
    if draft.heartbeats.enabled and draft.coordinator_known:
        if draft.now_ms >= draft.heartbeats.session_due_ms:
            draft.decide(E.COORDINATOR_LOST)
        elif draft.now_ms >= draft.heartbeats.poll_due_ms:
            draft.decide(E.POLL_TIMEOUT)
    _expire_state(draft)


def _expire_state(draft: WorkerDraft) -> None:
    if draft.timer_ms is None or draft.now_ms < draft.timer_ms:
        return
    if draft.state is S.DISCONNECTED:
        _fail_discovery(draft)
        draft.timer_ms = draft.now_ms + draft.config.heartbeat_interval_ms
    elif draft.state is S.CATCHING_UP:
        _time_out_catch_up(draft)
    elif draft.state is S.BACKING_OFF:
        draft.decide(E.BACKOFF_ELAPSED)


def _fail_discovery(draft: WorkerDraft) -> None:
    held = draft.held
    if held is None or held.failed:
        draft.decide(E.DISCOVERY_FAILED_EMPTY_HANDED)
    elif draft.is_cooperative or draft.resolved:
        draft.decide(E.DISCOVERY_FAILED_HOLDING)
    else:
        draft.decide(E.DISCOVERY_FAILED_UNFINISHED)


def _time_out_catch_up(draft: WorkerDraft) -> None:
    was_outside, draft.outside = draft.outside, True
    if not was_outside:
        draft.decide(E.CATCH_UP_TIMED_OUT_RETRY if draft.is_cooperative else E.CATCH_UP_TIMED_OUT_EAGER)
    elif not draft.is_cooperative:
        draft.decide(E.CATCH_UP_TIMED_OUT_AGAIN_EAGER)
    elif draft.retries > 0:
        draft.decide(E.CATCH_UP_TIMED_OUT_AGAIN_RETRY)
    else:
        draft.decide(E.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED)


# The worker's own actions after an input


def _advance(draft: WorkerDraft) -> None:
    _end_delay(draft)
    if draft.state in {*SETTLED, S.DISCONNECTED} and draft.changes:
        _change_configs(draft)
    if draft.state is S.UNJOINED:
        _join(draft)
    if not draft.is_busy:
        draft.heartbeats = draft.heartbeats.poll(draft.config, draft.now_ms)
    _send_heartbeat(draft)


def _end_delay(draft: WorkerDraft) -> None:
    due = draft.deadline_ms is not None and draft.now_ms >= draft.deadline_ms
    if due and draft.state in {S.DELAYED, S.DISCONNECTED}:
        draft.decide(E.DELAY_REACHED)


def _change_configs(draft: WorkerDraft) -> None:
    """Handles all changes together: first those without a round, then at most one request for a round."""
    changes, known = draft.changes, {name for name, _ in draft.configs.task_counts}
    draft.changes = ()
    draft.configs = draft.store
    by_kind = {kind: tuple(sorted({name for name, what in changes if what is kind})) for kind in inputs.Change}
    new = tuple(name for name in by_kind[inputs.Change.CONFIG] if name not in known)
    for name in by_kind[inputs.Change.CONFIG]:
        if name in known:
            _decide_about(draft, E.CONNECTOR_CONFIG_CHANGED, (name,))
    tasks, stopped = by_kind[inputs.Change.TASKS], by_kind[inputs.Change.STOPPED]
    targets = (*by_kind[inputs.Change.PAUSED_OR_RESUMED], *(stopped if tasks else ()))
    if targets:
        _decide_about(draft, E.TARGET_STATE_CHANGED, targets)
    if tasks:
        cooperative = draft.is_cooperative
        _decide_about(draft, E.TASKS_RECONFIGURED_COOPERATIVE if cooperative else E.TASKS_RECONFIGURED_EAGER, tasks)
    elif stopped:
        _decide_about(draft, E.CONNECTOR_STOPPED, stopped)
    elif new or by_kind[inputs.Change.REMOVED]:
        _decide_about(draft, E.CONNECTORS_CHANGED, (*new, *by_kind[inputs.Change.REMOVED]))


def _decide_about(draft: WorkerDraft, event: Event, connectors: tuple[str, ...]) -> None:
    draft.connectors = connectors
    draft.decide(event)


def _join(draft: WorkerDraft) -> None:
    if not draft.coordinator_known:
        draft.decide(E.COORDINATOR_LOST)
        return
    if draft.timer_ms is not None and draft.now_ms < draft.timer_ms:
        return
    if draft.prepared:
        draft.decide(E.JOIN_DUE_AGAIN)
    elif draft.is_cooperative:
        draft.decide(E.JOIN_DUE_COOPERATIVE)
    elif draft.held is not None and not draft.held.failed and draft.resolved:
        draft.decide(E.JOIN_DUE_EAGER)
    else:
        draft.decide(E.JOIN_DUE_EAGER_EMPTY_HANDED)


def _send_heartbeat(draft: WorkerDraft) -> None:
    beats = draft.heartbeats
    if not (beats.enabled and draft.coordinator_known and draft.is_member) or draft.now_ms < beats.heartbeat_due_ms:
        return
    if draft.heartbeat_sent[0]:
        draft.heartbeats = beats.send(draft.config, draft.now_ms)
        return
    number = draft.send(m.HeartbeatRequest(draft.config.group_id, draft.generation, draft.member_id))
    draft.heartbeat_sent = (number, draft.generation, draft.member_id)
    draft.heartbeats = beats.send(draft.config, draft.now_ms)
