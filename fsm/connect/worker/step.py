"""A Connect worker without IO: what it does on each input, and when it wants to be asked again.

`step(worker, given, now_ms)` is the whole of it: a frozen worker goes in, a frozen worker and effects come out. Its
rows are those of the table `connect-worker`; what decides which row is here and in `answers`, what a row orders is in
`effects`. Time passes by `Tick`, which the runtime gives at `due_ms`.

Five events of the table do not come from here: a delay that is over as soon as its sync has been dealt with (two of
them; it takes a thread that dawdles), a failed assignment that the herder gets to see (two; never recorded), and an
assignor that raises, which ours does not. Nor does anything happen in LEADING, which ends in the step that elects; no
poll is missed in UNJOINED, where heartbeats stand still; and no eager worker is DELAYED.

Source: `DistributedHerder`, `WorkerCoordinator`, `AbstractCoordinator` of apache/kafka at 1eb7644, with the corrections
of recorded 4.3.1 workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.connect.units import Units
from fsm.connect.worker.answers import answered
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.inputs import (
    Answered,
    Change,
    ConfigTopicAdvanced,
    ReadToEnd,
    RestartRequested,
    RestartUnits,
    Start,
    Stop,
    ThreadFailed,
    UnitsStarted,
    UnitsStopped,
    WorkerEffect,
    WorkerInput,
)
from fsm.connect.worker.state import Worker
from fsm.errors import LocalProtocolError
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol.messages import HeartbeatRequest
from fsm.tables.connect_worker import SETTLED, Event, State

S, E = State, Event


class Step(NamedTuple):
    """A worker after an input, and what is to be done about it, in order."""

    worker: Worker
    effects: tuple[WorkerEffect, ...]


def step(worker: Worker, given: WorkerInput, now_ms: int) -> Step:
    """The worker after `given`. One that is down hears nothing but `Start`.

    Raises:
        LocalProtocolError: the end of stops or starts that were not asked for, a start of a worker that runs, or no
            input at all; the worker given stays as it was.
        RemoteProtocolError: an answer whose bytes cannot be read.
    """
    handler = HANDLERS.get(type(given))
    if handler is None:
        raise LocalProtocolError(f"{type(given).__name__} is no input of a Connect worker")
    if worker.state is S.DOWN and not isinstance(given, Start):
        return Step(worker, ())
    draft = WorkerDraft(worker, now_ms)
    _expire(draft)
    handler(draft, given)
    _advance(draft)
    return Step(draft.close(), tuple(draft.effects))


def due_ms(worker: Worker) -> int:
    """When the worker wants a `Tick` at the latest."""
    if worker.state is S.DOWN:
        return NEVER
    timers = [worker.heartbeats.due_ms() if worker.coordinator_known else NEVER]
    if worker.timer_ms is not None:
        timers.append(worker.timer_ms)
    if worker.deadline_ms is not None and worker.state in {S.DELAYED, S.DISCONNECTED}:
        timers.append(worker.deadline_ms)
    return min(timers)


# Inputs


def _start(draft: WorkerDraft, given: Start) -> None:
    if draft.state is not S.DOWN:
        raise LocalProtocolError("a Connect worker that runs cannot be started; a restarted process is a new worker")
    draft.store = given.snapshot
    draft.configs = given.snapshot
    draft.decide(E.START)


def _stop(draft: WorkerDraft, _: Stop) -> None:
    draft.decide(E.STOP)


def _thread_failed(draft: WorkerDraft, given: ThreadFailed) -> None:
    draft.reason = given.reason
    draft.decide(E.FATAL_ERROR)


def _coordinator_found(draft: WorkerDraft, _: CoordinatorFound) -> None:
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


def _coordinator_lost(draft: WorkerDraft, _: CoordinatorLost) -> None:
    draft.decide(E.COORDINATOR_LOST)


def _units_stopped(draft: WorkerDraft, _: UnitsStopped) -> None:
    if draft.state is not S.REVOKING or draft.incoming is None:
        raise LocalProtocolError(f"no stop is waited for in {draft.state.name}")
    here, theirs = draft.configs.offset, draft.incoming.offset
    draft.decide(E.REVOKED_READY if here == theirs else E.REVOKED_BEHIND if here < theirs else E.REVOKED_AHEAD)


def _units_started(draft: WorkerDraft, _: UnitsStarted) -> None:
    if draft.state is not S.STARTING:
        raise LocalProtocolError(f"no start is waited for in {draft.state.name}")
    if not draft.coordinator_known:
        draft.decide(E.STARTED_COORDINATOR_LOST)
    elif draft.held is not None and draft.held.revoked:
        draft.decide(E.STARTED_REVOKED_BEFORE)
    elif draft.wants_to_rejoin:
        draft.decide(E.STARTED_REJOIN)
    else:
        draft.decide(E.STARTED if draft.deadline_ms is None else E.STARTED_DELAYED)


def _config_advanced(draft: WorkerDraft, given: ConfigTopicAdvanced) -> None:
    draft.store = given.snapshot
    draft.changes = (*draft.changes, *given.changes)


def _read_to_end(draft: WorkerDraft, given: ReadToEnd) -> None:
    """A read that comes too late still tells what is in the topic."""
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


def _restart_requested(draft: WorkerDraft, given: RestartRequested) -> None:
    """No step of the table: only what is held here is restarted here, and only while nothing else is under way."""
    units = _mine(draft, given.units)
    if units and draft.state in SETTLED:
        draft.effects.append(RestartUnits(units))


def _mine(draft: WorkerDraft, units: Units) -> Units:
    return tuple(unit for unit in units if unit in draft.holds)


def _tick(draft: WorkerDraft, _: Tick) -> None:
    """Nothing but that time has passed."""


HANDLERS: Mapping[type[Any], Callable[[WorkerDraft, Any], None]] = {
    Start: _start,
    Stop: _stop,
    ThreadFailed: _thread_failed,
    Answered: answered,
    UnitsStopped: _units_stopped,
    UnitsStarted: _units_started,
    ConfigTopicAdvanced: _config_advanced,
    ReadToEnd: _read_to_end,
    RestartRequested: _restart_requested,
    CoordinatorFound: _coordinator_found,
    CoordinatorLost: _coordinator_lost,
    Tick: _tick,
}


# Time


def _expire(draft: WorkerDraft) -> None:
    """What ran out before the input came: the heartbeat thread first, as it looks for itself."""
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
        _discovery_failed(draft)
        draft.timer_ms = draft.now_ms + draft.config.heartbeat_interval_ms
    elif draft.state is S.CATCHING_UP:
        _catch_up_timed_out(draft)
    elif draft.state is S.BACKING_OFF:
        draft.decide(E.BACKOFF_ELAPSED)


def _discovery_failed(draft: WorkerDraft) -> None:
    held = draft.held
    if held is None or held.failed:
        draft.decide(E.DISCOVERY_FAILED_EMPTY_HANDED)
    elif draft.is_cooperative or draft.resolved:
        draft.decide(E.DISCOVERY_FAILED_HOLDING)
    else:
        draft.decide(E.DISCOVERY_FAILED_UNFINISHED)


def _catch_up_timed_out(draft: WorkerDraft) -> None:
    was_outside, draft.outside = draft.outside, True
    if not was_outside:
        draft.decide(E.CATCH_UP_TIMED_OUT_RETRY if draft.is_cooperative else E.CATCH_UP_TIMED_OUT_EAGER)
    elif not draft.is_cooperative:
        draft.decide(E.CATCH_UP_TIMED_OUT_AGAIN_EAGER)
    elif draft.retries > 0:
        draft.decide(E.CATCH_UP_TIMED_OUT_AGAIN_RETRY)
    else:
        draft.decide(E.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED)


# What the worker does of itself once the input is in


def _advance(draft: WorkerDraft) -> None:
    _delay(draft)
    if draft.state in {*SETTLED, S.DISCONNECTED} and draft.changes:
        _config_changes(draft)
    if draft.state is S.UNJOINED:
        _join(draft)
    if not draft.is_busy:
        draft.heartbeats = draft.heartbeats.poll(draft.config, draft.now_ms)
    _heartbeat(draft)


def _delay(draft: WorkerDraft) -> None:
    due = draft.deadline_ms is not None and draft.now_ms >= draft.deadline_ms
    if due and draft.state in {S.DELAYED, S.DISCONNECTED}:
        draft.decide(E.DELAY_REACHED)


def _config_changes(draft: WorkerDraft) -> None:
    """All that came, in one go: what needs no round first, then at most one request for a round."""
    changes, known = draft.changes, {name for name, _ in draft.configs.task_counts}
    draft.changes = ()
    draft.configs = draft.store
    by_kind = {kind: tuple(sorted({name for name, what in changes if what is kind})) for kind in Change}
    new = tuple(name for name in by_kind[Change.CONFIG] if name not in known)
    for name in by_kind[Change.CONFIG]:
        if name in known:
            _about(draft, E.CONNECTOR_CONFIG_CHANGED, (name,))
    tasks, stopped = by_kind[Change.TASKS], by_kind[Change.STOPPED]
    targets = (*by_kind[Change.PAUSED_OR_RESUMED], *(stopped if tasks else ()))
    if targets:
        _about(draft, E.TARGET_STATE_CHANGED, targets)
    if tasks:
        cooperative = draft.is_cooperative
        _about(draft, E.TASKS_RECONFIGURED_COOPERATIVE if cooperative else E.TASKS_RECONFIGURED_EAGER, tasks)
    elif stopped:
        _about(draft, E.CONNECTOR_STOPPED, stopped)
    elif new or by_kind[Change.REMOVED]:
        _about(draft, E.CONNECTORS_CHANGED, (*new, *by_kind[Change.REMOVED]))


def _about(draft: WorkerDraft, event: Event, connectors: tuple[str, ...]) -> None:
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


def _heartbeat(draft: WorkerDraft) -> None:
    beats = draft.heartbeats
    if not (beats.enabled and draft.coordinator_known and draft.is_member) or draft.now_ms < beats.heartbeat_due_ms:
        return
    if draft.heartbeat_sent[0]:
        draft.heartbeats = beats.send(draft.config, draft.now_ms)
        return
    number = draft.send(HeartbeatRequest(draft.config.group_id, draft.generation, draft.member_id))
    draft.heartbeat_sent = (number, draft.generation, draft.member_id)
    draft.heartbeats = beats.send(draft.config, draft.now_ms)
