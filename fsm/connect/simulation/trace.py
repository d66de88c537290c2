"""The log of a Connect worker as records, equal to those of `fsm.logs.programs.connect_worker` for real logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

from fsm.connect.units import Unit, Units
from fsm.connect.worker import inputs
from fsm.connect.worker.state import Worker
from fsm.logs.programs.connect_worker import SETTINGS
from fsm.member.inputs import CoordinatorFound, CoordinatorLost
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest
from fsm.tables.connect_worker import TABLE, Event, State
from fsm.trace import Kind, TraceRecord

Partial = Iterator[tuple[Kind, dict[str, Any]]]
CONFIGS = {
    inputs.Change.CONFIG: "config",
    inputs.Change.REMOVED: "removed",
    inputs.Change.TASKS: "tasks",
    inputs.Change.PAUSED_OR_RESUMED: "target",
    inputs.Change.STOPPED: "target",
}
STEPS = {
    "START": {"event": "START", "state": "DOWN", "next_state": "DISCONNECTED"},
    "STARTED": {"event": "STARTED", "state": "STARTING"},
    "POLL_TIMEOUT": {"event": "POLL_TIMEOUT"},
    "DELAY_REACHED": {"event": "DELAY_REACHED"},
    "CAUGHT_UP_MISMATCH": {"event": "MISMATCH", "next_state": "UNJOINED"},
    "CATCH_UP_TIMED_OUT": {"event": "CATCH_UP_TIMED_OUT", "state": "CATCHING_UP"},
    "DISCOVERY_FAILED_HOLDING": {
        "event": "DISCOVERY_FAILED_HOLDING",
        "state": "DISCONNECTED",
        "next_state": "DISCONNECTED",
    },
}
"""Steps of the worker's table with their own log lines, and the content of these."""


class Logs(Protocol):
    """A process that writes a log: its name, its worker after the step, and its running units before."""

    @property
    def name(self) -> str: ...

    @property
    def worker(self) -> Worker: ...

    @property
    def running(self) -> Collection[Unit]: ...


class WorkerTrace:
    """Passes each record to `take`; `offset_ms` converts the cluster's clock to epoch milliseconds."""

    def __init__(self, take: Callable[[TraceRecord], None], offset_ms: int) -> None:
        self._take, self._offset_ms = take, offset_ms

    def write(self, process: Logs, kind: Kind, now_ms: int, **fields: Any) -> None:
        """Writes a record about a process."""
        worker = process.worker
        values = {"machine": TABLE.name, **fields}
        record = TraceRecord(
            now_ms + self._offset_ms, kind, worker.config.group_id, f"connect-{process.name}", **values
        )
        self._take(record)

    def start_unit(self, process: Logs, unit: Unit, now_ms: int) -> None:
        """A unit runs from now on."""
        self.write(process, Kind.UNITS_STARTED, now_ms, partitions=(tuple(unit),))

    def stop_unit(self, process: Logs, unit: Unit, now_ms: int) -> None:
        """The unit does not run any more."""
        self.write(process, Kind.UNITS_STOPPED, now_ms, partitions=(tuple(unit),))

    def step(
        self,
        process: Logs,
        before: Worker,
        given: inputs.WorkerInput,
        effects: tuple[inputs.WorkerEffect, ...],
        now_ms: int,
    ) -> None:
        """Writes the records of a step, before its effects are executed."""
        for kind, fields in _input(before, given):
            self.write(process, kind, now_ms, **fields)
        for effect in effects:
            for kind, fields in _effect(process, effect):
                self.write(process, kind, now_ms, **fields)


def _input(before: Worker, given: inputs.WorkerInput) -> Partial:
    match given:
        case inputs.Start():
            settings = {name: str(getattr(before.config, name.replace(".", "_"))) for name in sorted(SETTINGS)}
            yield Kind.STARTED, {}
            yield Kind.SETTINGS, {"settings": settings}
        case inputs.Stop():
            yield Kind.CLOSE_BEGIN, {}
        case CoordinatorFound() if not before.coordinator_known:
            yield Kind.COORDINATOR_FOUND, {}
        case CoordinatorLost() if before.coordinator_known:
            yield Kind.COORDINATOR_LOST, {}
        case inputs.Answered(answer=HeartbeatResponse(error_code=ErrorCode.NONE)):
            yield Kind.HEARTBEAT_OK, {}
        case inputs.ConfigTopicAdvanced(snapshot=snapshot, changes=changes):
            for connector, what in changes:
                event = CONFIGS[what]
                tasks = [tuple(u) for u in snapshot.units if u.connector == connector and not u.is_connector]
                listed = {"partitions": tuple(sorted(tasks))} if event == "tasks" else {}
                yield Kind.CONFIG_TOPIC, {"event": event, "topics": (connector,), **listed}


def _effect(process: Logs, effect: inputs.WorkerEffect) -> Partial:
    match effect:
        case inputs.Taken():
            yield from _row(process.worker, effect)
        case inputs.Send(body=JoinGroupRequest()):
            yield Kind.JOINING, {}
        case inputs.Send(body=HeartbeatRequest(generation_id=epoch, member_id=member_id)):
            yield Kind.HEARTBEAT_SENT, {"epoch": epoch, "member_id": member_id}
        case inputs.Send(body=LeaveGroupRequest(members=(leaving,))):
            yield Kind.LEAVE_SENT, {"member_id": leaving.member_id, "detail": leaving.reason or ""}
        case inputs.StartUnits(units=units) if units:
            yield Kind.UNITS_STARTED, {"event": "asked", "partitions": _partitions(units)}
        case inputs.StopUnits(units=units) if units:
            yield Kind.UNITS_STOPPING, {"partitions": _partitions(units)}
        case inputs.StopEverything() if process.running:
            yield Kind.UNITS_STOPPING, {"partitions": _partitions(tuple(sorted(process.running)))}
        case inputs.HerderEnded(reason=reason):
            yield Kind.FATAL, {"detail": reason}


def _row(after: Worker, taken: inputs.Taken) -> Partial:
    event, name = taken.event, taken.event.name
    if name.startswith("JOIN_DUE") and event is not Event.JOIN_DUE_AGAIN:
        yield Kind.JOINING, {"event": "JOIN_DUE"}
    elif event in (Event.JOINED_FOLLOWER, Event.JOINED_LEADER):
        fields = {"member_id": after.member_id, "settings": {"protocol": after.elected}}
        yield Kind.JOINED, {"epoch": after.generation, **fields}
    elif name.startswith(("SYNCED_", "REVOKED_")):
        epoch = {"epoch": after.generation, "member_id": after.member_id}
        if name.startswith("SYNCED_"):
            yield Kind.SYNCED, epoch
        else:
            yield Kind.REVOKE_END, {}
        if taken.target is not State.REVOKING and after.held is not None:
            held = after.held
            settings = {
                "error": str(held.error),
                "leader": held.leader,
                "offset": str(held.offset),
                "version": str(held.version),
                "delay_ms": str(held.delay_ms),
            }
            full, revoked = _partitions(held.assigned), _partitions(held.revoked)
            yield Kind.TARGET, {"epoch": after.generation, "full": full, "revoked": revoked, "settings": settings}
    step = STEPS.get(name.partition("_")[0] if name.startswith("STARTED") else name)
    if step is not None:
        yield Kind.TRANSITION, step
    if taken.target in (State.STARTING, State.CATCHING_UP):
        yield Kind.TRANSITION, {"next_state": taken.target.name}


def _partitions(units: Units) -> tuple[tuple[str, int], ...]:
    return tuple((unit.connector, unit.number) for unit in units)
