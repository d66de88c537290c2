"""A Connect worker without IO: what it does on each input, and when it wants to be asked again.

`step(worker, given, now_ms)` is the whole of it: a frozen worker goes in, a frozen worker and effects come out. Its
rows are those of the table `connect-worker`; what decides which row is here and in `answers`, what a row orders is in
`orders`. Time passes by `Tick`, which the embedding gives at `due_ms`.

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

from fsm.connect.answers import answered
from fsm.connect.inputs import (
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
from fsm.connect.orders import decide, send
from fsm.connect.state import Run, Worker
from fsm.connect.units import Units
from fsm.errors import LocalProtocolError
from fsm.kafka.classic_messages import HeartbeatRequest
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
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
    run = Run(worker, now_ms)
    _expire(run)
    handler(run, given)
    _advance(run)
    return Step(run.worker, tuple(run.effects))


def due_ms(worker: Worker) -> int:
    """When the worker wants a `Tick` at the latest."""
    if worker.state is S.DOWN:
        return NEVER
    timers = [worker.heartbeats.due_ms() if worker.coordinator_known else NEVER]
    if worker.timer_ms:
        timers.append(worker.timer_ms)
    if worker.deadline_ms is not None and worker.state in {S.DELAYED, S.DISCONNECTED}:
        timers.append(worker.deadline_ms)
    return min(timers)


# Inputs


def _start(run: Run, given: Start) -> None:
    if run.worker.state is not S.DOWN:
        raise LocalProtocolError("a Connect worker that runs cannot be started; a restarted process is a new worker")
    run.set(store=given.snapshot, configs=given.snapshot)
    decide(run, E.START)


def _stop(run: Run, _: Stop) -> None:
    decide(run, E.STOP)


def _thread_failed(run: Run, given: ThreadFailed) -> None:
    run.reason = given.reason
    decide(run, E.FATAL_ERROR)


def _coordinator_found(run: Run, _: CoordinatorFound) -> None:
    worker = run.worker
    heartbeats = worker.heartbeats.coordinator_found(worker.config, run.now_ms)
    run.set(coordinator_known=True, heartbeats=heartbeats)
    if worker.state is not S.DISCONNECTED:
        return
    if worker.wants_to_rejoin:
        decide(run, E.COORDINATOR_FOUND)
    elif worker.deadline_ms is not None:
        decide(run, E.COORDINATOR_FOUND_STILL_DELAYED)
    else:
        decide(run, E.COORDINATOR_FOUND_STILL_ASSIGNED)


def _coordinator_lost(run: Run, _: CoordinatorLost) -> None:
    decide(run, E.COORDINATOR_LOST)


def _units_stopped(run: Run, _: UnitsStopped) -> None:
    worker = run.worker
    if worker.state is not S.REVOKING or worker.incoming is None:
        raise LocalProtocolError(f"no stop is waited for in {worker.state.name}")
    here, theirs = worker.configs.offset, worker.incoming.offset
    decide(run, E.REVOKED_READY if here == theirs else E.REVOKED_BEHIND if here < theirs else E.REVOKED_AHEAD)


def _units_started(run: Run, _: UnitsStarted) -> None:
    worker = run.worker
    if worker.state is not S.STARTING:
        raise LocalProtocolError(f"no start is waited for in {worker.state.name}")
    if not worker.coordinator_known:
        decide(run, E.STARTED_COORDINATOR_LOST)
    elif worker.held is not None and worker.held.revoked:
        decide(run, E.STARTED_REVOKED_BEFORE)
    elif worker.wants_to_rejoin:
        decide(run, E.STARTED_REJOIN)
    else:
        decide(run, E.STARTED if worker.deadline_ms is None else E.STARTED_DELAYED)


def _config_advanced(run: Run, given: ConfigTopicAdvanced) -> None:
    run.set(store=given.snapshot, changes=(*run.worker.changes, *given.changes))


def _read_to_end(run: Run, given: ReadToEnd) -> None:
    """A read that comes too late still tells what is in the topic."""
    run.set(store=given.snapshot)
    worker = run.worker
    if worker.state is not S.CATCHING_UP:
        return
    run.set(configs=given.snapshot)
    outside = worker.outside
    run.set(outside=False)
    held = worker.held
    if outside or held is None:
        decide(run, E.CAUGHT_UP_OUTSIDE)
    elif held.failed:
        decide(run, E.CAUGHT_UP_FAILED)
    elif worker.deadline_ms is not None and run.now_ms >= worker.deadline_ms:
        decide(run, E.CAUGHT_UP_DELAY_OVER)
    elif given.snapshot.offset == held.offset:
        decide(run, E.CAUGHT_UP)
    else:
        decide(run, E.CAUGHT_UP_MISMATCH)


def _restart_requested(run: Run, given: RestartRequested) -> None:
    """No step of the table: only what is held here is restarted here, and only while nothing else is under way."""
    units = _mine(run, given.units)
    if units and run.worker.state in SETTLED:
        run.effects.append(RestartUnits(units))


def _mine(run: Run, units: Units) -> Units:
    return tuple(unit for unit in units if unit in run.worker.holds)


def _tick(run: Run, _: Tick) -> None:
    """Nothing but that time has passed."""


HANDLERS: Mapping[type[Any], Callable[[Run, Any], None]] = {
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


def _expire(run: Run) -> None:
    """What ran out before the input came: the heartbeat thread first, as it looks for itself."""
    worker, now_ms = run.worker, run.now_ms
    if worker.heartbeats.enabled and worker.coordinator_known:
        if now_ms >= worker.heartbeats.session_due_ms:
            decide(run, E.COORDINATOR_LOST)
        elif now_ms >= worker.heartbeats.poll_due_ms:
            decide(run, E.POLL_TIMEOUT)
    _expire_state(run)


def _expire_state(run: Run) -> None:
    worker, now_ms = run.worker, run.now_ms
    if not worker.timer_ms or now_ms < worker.timer_ms:
        return
    if worker.state is S.DISCONNECTED:
        _discovery_failed(run)
        run.set(timer_ms=now_ms + worker.config.heartbeat_interval_ms)
    elif worker.state is S.CATCHING_UP:
        _catch_up_timed_out(run)
    elif worker.state is S.BACKING_OFF:
        decide(run, E.BACKOFF_ELAPSED)


def _discovery_failed(run: Run) -> None:
    held = run.worker.held
    if held is None or held.failed:
        decide(run, E.DISCOVERY_FAILED_EMPTY_HANDED)
    elif run.worker.is_cooperative or run.worker.resolved:
        decide(run, E.DISCOVERY_FAILED_HOLDING)
    else:
        decide(run, E.DISCOVERY_FAILED_UNFINISHED)


def _catch_up_timed_out(run: Run) -> None:
    worker = run.worker
    run.set(outside=True)
    if not worker.outside:
        decide(run, E.CATCH_UP_TIMED_OUT_RETRY if worker.is_cooperative else E.CATCH_UP_TIMED_OUT_EAGER)
    elif not worker.is_cooperative:
        decide(run, E.CATCH_UP_TIMED_OUT_AGAIN_EAGER)
    elif worker.retries > 0:
        decide(run, E.CATCH_UP_TIMED_OUT_AGAIN_RETRY)
    else:
        decide(run, E.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED)


# What the worker does of itself once the input is in


def _advance(run: Run) -> None:
    _delay(run)
    if run.worker.state in {*SETTLED, S.DISCONNECTED} and run.worker.changes:
        _config_changes(run)
    if run.worker.state is S.UNJOINED:
        _join(run)
    if not run.worker.is_busy:
        run.set(heartbeats=run.worker.heartbeats.polled(run.worker.config, run.now_ms))
    _heartbeat(run)


def _delay(run: Run) -> None:
    worker = run.worker
    due = worker.deadline_ms is not None and run.now_ms >= worker.deadline_ms
    if due and worker.state in {S.DELAYED, S.DISCONNECTED}:
        decide(run, E.DELAY_REACHED)


def _config_changes(run: Run) -> None:
    """All that came, in one go: what needs no round first, then at most one request for a round."""
    changes, known = run.worker.changes, {name for name, _ in run.worker.configs.task_counts}
    run.set(changes=(), configs=run.worker.store)
    by_kind = {kind: tuple(sorted({name for name, what in changes if what is kind})) for kind in Change}
    new = tuple(name for name in by_kind[Change.CONFIG] if name not in known)
    for name in by_kind[Change.CONFIG]:
        if name in known:
            _about(run, E.CONNECTOR_CONFIG_CHANGED, (name,))
    tasks, stopped = by_kind[Change.TASKS], by_kind[Change.STOPPED]
    targets = (*by_kind[Change.PAUSED_OR_RESUMED], *(stopped if tasks else ()))
    if targets:
        _about(run, E.TARGET_STATE_CHANGED, targets)
    if tasks:
        cooperative = run.worker.is_cooperative
        _about(run, E.TASKS_RECONFIGURED_COOPERATIVE if cooperative else E.TASKS_RECONFIGURED_EAGER, tasks)
    elif stopped:
        _about(run, E.CONNECTOR_STOPPED, stopped)
    elif new or by_kind[Change.REMOVED]:
        _about(run, E.CONNECTORS_CHANGED, (*new, *by_kind[Change.REMOVED]))


def _about(run: Run, event: Event, connectors: tuple[str, ...]) -> None:
    run.connectors = connectors
    decide(run, event)


def _join(run: Run) -> None:
    worker = run.worker
    if not worker.coordinator_known:
        decide(run, E.COORDINATOR_LOST)
        return
    if run.now_ms < worker.timer_ms:
        return
    if worker.prepared:
        decide(run, E.JOIN_DUE_AGAIN)
    elif worker.is_cooperative:
        decide(run, E.JOIN_DUE_COOPERATIVE)
    elif worker.held is not None and not worker.held.failed and worker.resolved:
        decide(run, E.JOIN_DUE_EAGER)
    else:
        decide(run, E.JOIN_DUE_EAGER_EMPTY_HANDED)


def _heartbeat(run: Run) -> None:
    worker = run.worker
    beats = worker.heartbeats
    if not (beats.enabled and worker.coordinator_known and worker.is_member) or run.now_ms < beats.heartbeat_due_ms:
        return
    if worker.heartbeat_sent[0]:
        run.set(heartbeats=beats.sent(worker.config, run.now_ms))
        return
    number = send(run, HeartbeatRequest(worker.config.group_id, worker.generation, worker.member_id))
    run.set(
        heartbeat_sent=(number, worker.generation, worker.member_id),
        heartbeats=beats.sent(worker.config, run.now_ms),
    )
