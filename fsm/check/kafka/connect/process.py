"""A Connect worker and its process, in which the units run: the effect of each input on both.

The units that run in the process are kept apart from those its worker holds: a unit that is to stop runs until the
stop has ended. A halted process handles its inputs when it resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

from fsm.check.kafka.connect.topic import Reading, TopicRequest, Write, counts, describe_reading
from fsm.check.kafka.descriptions import Seen, list_present
from fsm.check.model import InState, Look, Missed, Received, Undelivered
from fsm.connect.simulation.invariants import (
    SAME_OUTPUT,
    broken_by_change,
    broken_by_start,
    broken_in_membership,
    broken_in_round,
    broken_in_step,
    goes_on,
    works,
)
from fsm.connect.simulation.observer import compute
from fsm.connect.units import Unit, Units, without
from fsm.connect.worker.inputs import (
    Answered,
    Change,
    ConfigChange,
    ConfigTopicAdvanced,
    FindCoordinator,
    HerderEnded,
    RestartUnits,
    StartUnits,
    Stop,
    StopEverything,
    StopUnits,
    UnitsStarted,
    UnitsStopped,
    WorkerEffect,
    WorkerInput,
)
from fsm.connect.worker.state import Worker
from fsm.connect.worker.step import step
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.protocol.messages import TIMED_OUT, JoinGroupResponse
from fsm.tables.connect_worker import SETTLED, TABLE, State

ROUNDS_TO_REST = 3
FEW_ROUNDS = "G3 left alone, a group rests after three working rounds"


class Life(Enum):
    """Whether there is a process."""

    ABSENT = "was never started"
    ALIVE = "runs"
    GONE = "is gone"
    AWAY = "will be back"
    FAILED = "was ended by an error"

    __hash__ = object.__hash__


class Order(NamedTuple):
    """A request to the coordinator, and which process of the worker sent it."""

    life: int
    number: int
    body: Any


class Halt(Enum):
    """Why a process is halted; its inputs wait meanwhile."""

    WRITES = "writes to the config topic"
    FROZEN = "stands still"

    __hash__ = object.__hash__


class Process(NamedTuple):
    """A worker process between two steps."""

    worker: Worker
    life: Life = Life.ABSENT
    lives: int = 0
    """How many processes the worker has had."""
    running: Units = ()
    """The units that run in the process."""
    stopping: Units | None = None
    """Units that are being stopped, for which the worker waits."""
    starting: bool = False
    seeking: bool = False
    zombie_since: int | None = None
    """The generation since which it may run units of others: it lost its membership or froze, and has not rejoined.
    """
    outdated: Units = ()
    """Tasks that run with outdated configs."""
    unwritten: bool = False
    """Whether the task configs of a resumed connector are missing from the config topic as far as it was read."""
    halt: Halt | None = None
    waiting: tuple[Any, ...] = ()
    """Inputs that arrived while it is halted."""
    working: int = 0
    """How many rounds in a row it has led that did something, since something happened."""


def read(process: Process, given: Any) -> WorkerInput | None:
    """The worker's input for an input of the process; None if it is meant for a process that has ended."""
    match given:
        case Received(message=(Order() as order, answer)):
            return Answered(order.number, answer) if order.life == process.lives else None
        case Missed(message=(Order() as order, _)) | Undelivered(message=Order() as order):
            return Answered(order.number, TIMED_OUT) if order.life == process.lives else None
        case Received(message=Reading(told, life)):
            is_meant = life == process.lives or (life == 0 and process.worker.state is not State.DOWN)
            return told if is_meant else None
        case "stops" | "is bounced":
            return Stop()
        case "finds the coordinator":
            return CoordinatorFound()
        case "its starts end":
            return UnitsStarted()
        case "its stops end":
            return UnitsStopped()
    return Tick()


Outcome = tuple[Process, tuple[WorkerEffect | TopicRequest, ...], list[str]]
"""The process after an input, the effects, and the broken invariants."""
Note = Callable[[Process, WorkerInput, tuple[WorkerEffect, ...], Process], None]
"""Called with the process before a step of its worker, the input, the effects, and the process after it."""


def handle(process: Process, given: Any, now_ms: int, note: Note | None = None) -> Outcome:
    """Handles an input; a halted process queues it until it resumes."""
    if given == "stands still":
        since = max(process.worker.generation, process.worker.last_completed_generation)
        return process._replace(halt=Halt.FROZEN, zombie_since=since), (), []
    if isinstance(given, Write):
        return process._replace(halt=Halt.WRITES), (TopicRequest(process.lives, given),), []
    if process.halt is None:
        return _handle_one(process, given, now_ms, note)
    if given == "remembered delay is over":
        return process._replace(worker=make_due(process.worker, given, now_ms)), (), []
    if not _is_written(process, given) and given not in ("goes on", "goes on after its session"):
        return process._replace(waiting=(*process.waiting, given)), (), []
    inputs = [given, *process.waiting]
    process = process._replace(halt=None, waiting=())
    effects: list[WorkerEffect | TopicRequest] = []
    broken: list[str] = []
    for one in inputs:
        process, more, asked = _handle_one(process, one, now_ms, note)
        effects += more
        broken += asked
    return process, tuple(effects), broken


def _is_written(process: Process, given: Any) -> bool:
    """Whether the input says that the pending write is done."""
    message = given.message if isinstance(given, Received) else None
    return isinstance(message, Reading) and message.given is None and message.life == process.lives


def _handle_one(process: Process, given: Any, now_ms: int, note: Note | None) -> Outcome:
    if isinstance(given, Received) and isinstance(given.message, Reading):
        process = process._replace(unwritten=given.message.unwritten)
    incoming = read(process, given)
    return (process, (), []) if incoming is None else take(process, incoming, given, now_ms, note)


def take(process: Process, incoming: WorkerInput, given: Any, now_ms: int, note: Note | None = None) -> Outcome:
    """Takes a step of the worker: the process after it, its effects, and the invariants that it breaks."""
    began, before = process, make_due(process.worker, given, now_ms)
    after, effects = step(before, incoming, now_ms)
    broken = [*broken_in_step(before, after, now_ms), *broken_in_membership(before, after, incoming, effects)]
    if isinstance(incoming, Answered) and isinstance(incoming.answer, JoinGroupResponse):
        computed = compute(before, incoming.answer, now_ms) if after.memory != before.memory else None
        if computed is not None:
            broken += broken_in_round(computed)
            broken += [SAME_OUTPUT] if after.memory != computed.outcome.memory else []
            again = process.working if goes_on(computed) else 0
            process = process._replace(working=again + 1 if works(computed) else 0)
            broken += [FEW_ROUNDS] if process.working > ROUNDS_TO_REST else []
    process = process._replace(
        worker=after,
        starting=process.starting and given != "its starts end",
        seeking=process.seeking and given != "finds the coordinator",
    )
    if isinstance(incoming, ConfigTopicAdvanced):
        process = process._replace(outdated=_find_outdated(process, process.running, incoming.changes))
    if given == "its stops end":
        process = _stop(process, process.stopping or ())._replace(stopping=None)
    for effect in effects:
        if isinstance(effect, StartUnits):
            broken += broken_by_start(after, process.running, ())
        process = _carry_out(process, effect)
    broken += broken_by_change(before, after, incoming, began.running, process.running)
    if note is not None:
        note(began, incoming, effects, process)
    return process._replace(zombie_since=_zombie_since(process)), effects, broken


def _carry_out(process: Process, effect: WorkerEffect) -> Process:
    """Carries out an effect on the running units."""
    match effect:
        case FindCoordinator():
            return process._replace(seeking=True)
        case StartUnits(units=units):
            return _start(process, units)._replace(starting=True)
        case RestartUnits(units=units):
            return _start(_stop(process, units), units)
        case StopUnits(units=units, wait=True):
            return process._replace(stopping=units)
        case StopUnits(units=units):
            return _stop(process, units)
        case StopEverything():
            return _stop(process, process.running)._replace(stopping=None)
        case HerderEnded():
            return process._replace(life=Life.FAILED)
    return process


def _stop(process: Process, units: Units) -> Process:
    return process._replace(running=without(process.running, units), outdated=without(process.outdated, units))


def _start(process: Process, units: Units) -> Process:
    """Starts units with the configs that the worker has read."""
    outdated = _find_outdated(process, without(units, process.running), process.worker.changes)
    return process._replace(running=tuple(sorted({*process.running, *units})), outdated=outdated)


def _find_outdated(process: Process, units: Units, changes: Iterable[ConfigChange]) -> Units:
    """The tasks with outdated configs, including those of these units that have them after changes."""
    anew = {one.connector for one in changes if one.what is Change.TASKS}
    fresh = (unit for unit in units if unit.connector in anew and not unit.is_connector)
    return tuple(sorted({*process.outdated, *fresh}))


def _zombie_since(process: Process) -> int | None:
    """The last generation that a zombie had joined; None if the process is not a zombie."""
    worker, since = process.worker, process.zombie_since
    if process.running and not worker.is_member:
        return max(worker.generation, worker.last_completed_generation)
    if since is not None and worker.state in SETTLED and worker.last_completed_generation > since:
        return None
    return since


def make_due(worker: Worker, what: Any, now_ms: int) -> Worker:
    """The worker with the timer expired that a choice names."""
    match what:
        case "heartbeat interval is over":
            return replace(worker, heartbeats=replace(worker.heartbeats, heartbeat_due_ms=now_ms))
        case "is busy for too long":
            return replace(worker, heartbeats=replace(worker.heartbeats, poll_due_ms=now_ms))
        case "wait is over":
            return replace(worker, timer_ms=now_ms)
        case "remembered delay is over":
            return replace(worker, memory=replace(worker.memory, deadline_ms=now_ms))
        case "delay is over":
            return replace(worker, deadline_ms=now_ms)
        case "goes on after its session":
            return replace(worker, heartbeats=replace(worker.heartbeats, session_due_ms=now_ms))
    return worker


def observe(process: Process) -> Seen:
    """The parts of a process's state that the model and a live process share: all but instants and remaining delays."""
    worker = process.worker
    held = worker.held and replace(worker.held, delay_ms=min(1, worker.held.delay_ms))
    memory = replace(worker.memory, deadline_ms=worker.memory.deadline_ms and 0, delay_ms=0)
    return {
        "process": process.life,
        "state": worker.state,
        "generation": worker.generation,
        "member id": worker.member_id,
        "last completed generation": worker.last_completed_generation,
        "protocol": worker.protocol,
        "running set": process.running,
        "assignment": held,
        "memory": memory,
        "stops under way": process.stopping,
        "starts under way": process.starting,
        "search for the coordinator": process.seeking,
        "delay": worker.deadline_ms is not None,
        "wish to rejoin": worker.rejoin_wanted,
        "configs": worker.configs,
        "changes": worker.changes,
        "halt": process.halt,
        "number of inputs that wait": len(process.waiting),
        "outdated tasks": process.outdated,
    }


def describe(process: Process) -> str:
    """A process on one line."""
    if process.life is not Life.ALIVE:
        return str(process.life.value)
    worker = process.worker
    text = f"{worker.state.name}, generation {worker.generation}, runs {list_units(process.running)}"
    text += f", {process.halt.value}" if process.halt else ""
    return text + (", leads" if worker.is_leader else "")


def list_units(found: Iterable[Unit]) -> str:
    """Units on one line."""
    return ", ".join(map(str, found)) or "nothing"


def look_at(process: Process, now_ms: int) -> Look:
    """A process in detail: the units its worker holds, the units that run, and its memory as a leader."""
    worker, memory = process.worker, process.worker.memory
    if process.life is not Life.ALIVE:
        return Look([InState(TABLE.name, State.DOWN.name)], [("process", process.life.value)])
    delays = {"delay": worker.deadline_ms, "delay of the leader": memory.deadline_ms}
    fields = [
        ("process", process.halt.value if process.halt else process.life.value),
        ("member id", worker.member_id or "none"),
        ("generation", f"{worker.generation}, completed {worker.last_completed_generation}"),
        ("leads", "yes" if worker.is_leader else "no"),
        ("holds", list_units(worker.holds)),
        ("runs", list_units(process.running)),
        ("starts", "are under way" if process.starting else ""),
        ("stops", "" if process.stopping is None else list_units(process.stopping)),
        ("runs with old configs", list_units(process.outdated) if process.outdated else ""),
        *((name, "runs" if at_ms > now_ms else "is over") for name, at_ms in delays.items() if at_ms),
        ("gives lost units to", ", ".join(memory.candidates)),
        ("rejoins", "yes" if worker.wants_to_rejoin else "no"),
        ("config topic", counts(worker.store)),
        ("coordinator", "" if worker.coordinator_known else "not known"),
        ("may run what is others'", "yes" if process.zombie_since is not None else ""),
    ]
    queues = [("told meanwhile", list(map(_tell, process.waiting)))]
    return Look([InState(TABLE.name, worker.state.name)], list_present(fields), queues)


def _tell(given: Any) -> str:
    """An input that waits while the process is halted, as text."""
    match given:
        case Received(message=Reading() as reading):
            return describe_reading(reading)
        case Received(message=(Order(), answer)):
            return f"{type(answer).__name__} of the coordinator"
        case Missed() | Undelivered():
            return "a request is given up"
    return str(given)
