"""The effects of the worker's table, carried out: what each one changes in the worker and asks of its embedding.

Source: `WorkerCoordinator` and `DistributedHerder` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from fsm.connect.config import version_of
from fsm.connect.dialect import Rule
from fsm.connect.inputs import (
    ApplyTargetState,
    FindCoordinator,
    FlushStatuses,
    HerderEnded,
    ReadConfigToEnd,
    RestartConnector,
    Send,
    StartUnits,
    StopEverything,
    StopUnits,
    Taken,
)
from fsm.connect.leader import perform
from fsm.connect.memory import Order
from fsm.connect.protocol import PROTOCOL_TYPE, Assignment, WorkerMetadata, encode_assignment, protocols
from fsm.connect.state import CATCH_UP_RETRIES, Run
from fsm.connect.units import Unit, Units, without
from fsm.errors import FsmError
from fsm.kafka.classic_messages import (
    UNKNOWN_GENERATION_ID,
    UNKNOWN_MEMBER_ID,
    ClassicRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from fsm.tables.connect_worker import TABLE, Effect, Event, State

CELLS = TABLE.compiled
TIES = Order()
"""How a worker that leads breaks ties: sorted, so that a run can be repeated."""


def decide(run: Run, event: Event) -> None:
    """The row of the worker's state and this event, state by state and effect by effect.

    Raises `IllegalTransition` where the table has no cell.
    """
    source = run.worker.state
    cell = CELLS[source, event]
    run.effects.append(Taken(source, event, cast("State", cell.target)))
    if cell.path and run.worker.timer_ms:
        run.set(timer_ms=0)  # it belongs to the state; what follows sets it anew
    for step in cell.steps:
        if isinstance(step, State):
            run.set(state=step)
        else:
            ORDERS[step](run)


def send(run: Run, body: ClassicRequest) -> int:
    """The request goes out, under the next number, which is returned."""
    number = run.worker.sent + 1
    run.set(sent=number)
    run.effects.append(Send(number, body))
    return number


# Units


def _stop(run: Run, units: Units, *, wait: bool = False) -> None:
    run.set(running=without(run.worker.running, units))
    run.effects.append(StopUnits(units, wait))


def _stop_held(run: Run) -> None:
    _stop(run, run.worker.holds)
    run.effects.append(FlushStatuses())


def _stop_revoked(run: Run) -> None:
    _stop(run, _incoming(run).revoked, wait=True)


def _stop_running(run: Run) -> None:
    _stop(run, run.worker.running)


def _stop_all(run: Run) -> None:
    run.set(running=(), held=None, deadline_ms=None)
    run.effects.append(StopEverything())


def _stop_reconfigured(run: Run) -> None:
    tasks = run.tasks_of(run.connectors)
    run.set(restarts=(*run.worker.restarts, *without(tasks, run.worker.restarts)))
    run.effects.append(StopUnits(tasks))


def _start_assigned(run: Run) -> None:
    worker = run.worker
    left = without(worker.running, worker.holds)
    if left and not worker.is_cooperative and Rule.EAGER_STEP_STOPS in worker.config.profile:
        run.effects.append(StopUnits(left))
    fresh = without(worker.holds, without(worker.running, worker.restarts))
    run.set(restarts=())
    run.effects.append(StartUnits(fresh))


def _restart_connector(run: Run) -> None:
    mine = (name for name in run.connectors if Unit(name) in run.worker.holds)
    run.effects.extend(map(RestartConnector, mine))


def _apply_target_state(run: Run) -> None:
    run.effects.extend(map(ApplyTargetState, run.connectors))


def _flush(run: Run) -> None:
    run.effects.append(FlushStatuses())


# Assignment


def _incoming(run: Run) -> Assignment:
    incoming = run.worker.incoming
    if incoming is None:
        raise FsmError("a Connect worker adopts an assignment without a sync that brought one")
    return incoming


def _adopt_protocol(run: Run) -> None:
    run.set(protocol=run.worker.elected)


def _adopt_assignment(run: Run) -> None:
    incoming, worker = _incoming(run), run.worker
    if version_of(worker.elected) > 0:
        kept = without(worker.holds, (*incoming.revoked, *incoming.assigned))
        incoming = replace(incoming, assigned=(*incoming.assigned, *kept))
    run.set(held=incoming, last_completed_generation=worker.generation, resolved=False)


def _set_deadline(run: Run) -> None:
    delay_ms = _incoming(run).delay_ms
    run.set(deadline_ms=run.now_ms + delay_ms if delay_ms > 0 else None, incoming=None)


def _record_running(run: Run) -> None:
    run.set(running=run.worker.holds if run.worker.is_cooperative else (), resolved=True)


def _clear_revoked(run: Run) -> None:
    if run.worker.held is not None:
        run.set(held=replace(run.worker.held, revoked=()))


# Group


def _find_coordinator(run: Run) -> None:
    run.set(timer_ms=run.now_ms + run.worker.config.heartbeat_interval_ms)
    run.effects.append(FindCoordinator())


def _forget_coordinator(run: Run) -> None:
    """Requests under way come back as disconnected, which is known already."""
    run.set(coordinator_known=False, awaited=0, heartbeat_sent=(0, *run.worker.heartbeat_sent[1:]))


def _drop_leader_state(run: Run) -> None:
    run.set(prepared=True)


def _send_join(run: Run) -> None:
    worker = run.worker
    run.set(joined_with=worker.store, heartbeats=worker.heartbeats.stopped(), stale=False)
    config = worker.config
    advertised = protocols(config.mode, WorkerMetadata(worker.url, worker.store.offset, _reported(run)))
    body = JoinGroupRequest(
        config.group_id,
        config.session_timeout_ms,
        config.rebalance_timeout_ms,
        worker.member_id,
        tuple(JoinGroupRequestProtocol(name, metadata) for name, metadata in advertised),
        PROTOCOL_TYPE,
    )
    run.set(awaited=send(run, body))


def _reported(run: Run) -> Assignment | None:
    """What the join says is held; a worker of the document also says how much of a delay is left."""
    held, deadline_ms = run.worker.held, run.worker.deadline_ms
    if held is None or Rule.DELAY_SURVIVES_LEADER not in run.worker.config.profile:
        return held
    return replace(held, delay_ms=max(0, deadline_ms - run.now_ms) if deadline_ms is not None else 0)


def _take_member_id(run: Run) -> None:
    run.set(member_id=run.member_id)


def _enable_heartbeats(run: Run) -> None:
    run.set(heartbeats=run.worker.heartbeats.started(run.worker.config, run.now_ms))


def _set_generation(run: Run) -> None:
    if run.election is not None:
        run.set(generation=run.election.generation, elected=run.election.protocol, member_id=run.member_id)


def _run_assignor(run: Run) -> None:
    worker = run.worker
    if run.election is None:
        raise FsmError("a Connect worker leads a round whose members it was not told")
    done = perform(
        run.election,
        worker.memory,
        (worker.joined_with, worker.store),
        worker.config,
        now_ms=run.now_ms,
        last_completed_generation=worker.last_completed_generation,
        order=TIES,
    )
    run.set(memory=done.memory)
    run.assignments = dict(done.assignments)


def _send_sync(run: Run) -> None:
    worker = run.worker
    told = tuple(
        SyncGroupRequestAssignment(member, encode_assignment(mine, mine.version))
        for member, mine in run.assignments.items()
    )
    body = SyncGroupRequest(
        worker.config.group_id, worker.generation, worker.member_id, told, PROTOCOL_TYPE, worker.elected
    )
    run.set(awaited=send(run, body))


def _reset_generation(run: Run) -> None:
    worker = run.worker
    run.set(
        generation=UNKNOWN_GENERATION_ID,
        stale=worker.awaited > 0,
        prepared=False,
        heartbeats=worker.heartbeats.stopped(),
    )


def _reset_membership(run: Run) -> None:
    _reset_generation(run)
    run.set(member_id=UNKNOWN_MEMBER_ID)


def _leave(run: Run) -> None:
    worker = run.worker
    if worker.coordinator_known and worker.member_id:
        send(run, LeaveGroupRequest(worker.config.group_id, (MemberIdentity(worker.member_id),)))


def _wait_retry_backoff(run: Run) -> None:
    run.set(timer_ms=run.now_ms + run.worker.config.retry_backoff_ms)


# Config topic and process


def _read_config_to_end(run: Run) -> None:
    run.set(timer_ms=run.now_ms + run.worker.config.worker_sync_timeout_ms)
    run.effects.append(ReadConfigToEnd())


def _pause_delay_fraction(run: Run) -> None:
    worker = run.worker
    pause_ms = worker.config.scheduled_rebalance_max_delay_ms // 10 // worker.retries
    run.set(timer_ms=run.now_ms + pause_ms, retries=worker.retries - 1)


def _pause_unsync(run: Run) -> None:
    run.set(timer_ms=run.now_ms + run.worker.config.worker_unsync_backoff_ms)


def _nothing(run: Run) -> None:
    """Done by the input itself: `Start` brings what was read."""


F = Effect
ORDERS: Mapping[object, Callable[[Run], None]] = {
    F.STOP_HELD: _stop_held,
    F.STOP_REVOKED: _stop_revoked,
    F.STOP_RUNNING: _stop_running,
    F.STOP_ALL: _stop_all,
    F.STOP_RECONFIGURED_TASKS: _stop_reconfigured,
    F.START_ASSIGNED: _start_assigned,
    F.RESTART_CONNECTOR: _restart_connector,
    F.APPLY_TARGET_STATE: _apply_target_state,
    F.FLUSH_STATUSES: _flush,
    F.FORGET_HELD: lambda run: run.set(held=None),
    F.ADOPT_PROTOCOL: _adopt_protocol,
    F.ADOPT_ASSIGNMENT: _adopt_assignment,
    F.SET_DEADLINE: _set_deadline,
    F.CLEAR_DEADLINE: lambda run: run.set(deadline_ms=None),
    F.RECORD_RUNNING: _record_running,
    F.CLEAR_REVOKED: _clear_revoked,
    F.FIND_COORDINATOR: _find_coordinator,
    F.MARK_COORDINATOR_UNKNOWN: _forget_coordinator,
    F.REQUEST_REJOIN: lambda run: run.set(rejoin_wanted=True),
    F.DROP_LEADER_STATE: _drop_leader_state,
    F.SEND_JOIN: _send_join,
    F.TAKE_MEMBER_ID: _take_member_id,
    F.ENABLE_HEARTBEATS: _enable_heartbeats,
    F.SET_GENERATION: _set_generation,
    F.RUN_ASSIGNOR: _run_assignor,
    F.SEND_SYNC: _send_sync,
    F.SEND_SYNC_AS_LEADER: _send_sync,
    F.RESET_GENERATION: _reset_generation,
    F.RESET_MEMBERSHIP: _reset_membership,
    F.LEAVE_GROUP: _leave,
    F.WAIT_RETRY_BACKOFF: _wait_retry_backoff,
    F.READ_INTERNAL_TOPICS: _nothing,
    F.READ_CONFIG_TO_END: _read_config_to_end,
    F.RESET_RETRIES: lambda run: run.set(retries=CATCH_UP_RETRIES),
    F.PAUSE_UNSYNC_BACKOFF: _pause_unsync,
    F.PAUSE_DELAY_FRACTION: _pause_delay_fraction,
    F.END_HERDER: lambda run: run.effects.append(HerderEnded(run.reason)),
}
