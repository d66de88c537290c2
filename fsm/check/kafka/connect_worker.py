"""One Connect worker as a component: the production worker, and the process around it in which its units really run.

Its clock stands still: a deadline lies ahead until a choice makes it due. What really runs in the process is kept apart
from what the worker holds: a unit that is told to stop runs until the stop has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, NOW
from fsm.check.kafka.classic import number_of, timeless_heartbeats
from fsm.check.model import Choice, Component, Missed, Received, Step, Undelivered
from fsm.connect.simulation.invariants import ROUND, broken_by_start, broken_in_round, broken_in_step
from fsm.connect.simulation.observer import compute
from fsm.connect.units import Unit, Units, kinds, without
from fsm.connect.worker.config import ConnectConfig
from fsm.connect.worker.inputs import (
    Answered,
    ConfigTopicAdvanced,
    FindCoordinator,
    HerderEnded,
    ReadConfigToEnd,
    ReadToEnd,
    Send,
    Start,
    StartUnits,
    Stop,
    StopEverything,
    StopUnits,
    UnitsStarted,
    UnitsStopped,
    WorkerEffect,
    WorkerInput,
)
from fsm.connect.worker.state import Worker, new_worker
from fsm.connect.worker.step import step
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.protocol.messages import TIMED_OUT, JoinGroupResponse
from fsm.tables.connect_worker import SETTLED, State

TOPIC = "config topic"
READ, READ_AT_START = "reads it to the end", "reads it as it starts"
DELAY_OVER = "no delay is remembered as running"
"""The condition under which a worker's delay is over: its leader's, which began before, is."""
ASKED_OF_STEPS = (
    *ROUND,
    "W2 a join reports nothing that was revoked",
    "W2 stops come before starts",
    "W3 a delay is not waited for any longer",
    "W4 nothing starts before the configs agree",
    "W4 nothing starts without a good assignment",
    "G4 no generation is completed before it was joined",
    "row 3 a worker without a coordinator holds nothing for long",
)
"""What each step of a worker is asked for by itself."""


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


class Process(NamedTuple):
    """A worker process between two steps."""

    worker: Worker
    life: Life = Life.ABSENT
    lives: int = 0
    """So many processes it has been."""
    running: Units = ()
    """What really runs."""
    stopping: Units | None = None
    """Units whose stop is under way, for which the worker waits."""
    starting: bool = False
    seeking: bool = False
    zombie_since: int | None = None
    """It runs what may be others' by now: it lost its membership, went on, and has settled in no later generation."""


class WorkerModel:
    """Makes the component of one worker."""

    def __init__(self, name: str, config: ConnectConfig) -> None:
        self.name = name
        self.new = Process(new_worker(config, f"http://{name}/"))

    def component(self, bits: Mapping[Unit, int]) -> Component:
        """`bits` numbers the units of masks."""

        def mask(found: Iterable[Unit]) -> int:
            return sum(1 << bits[one] for one in found)

        features = {
            "epoch": lambda p: p.worker.generation,
            "id": lambda p: number_of(p.worker.member_id),
            "speaks": lambda p: 1 << number_of(p.worker.member_id) if p.worker.member_id else 0,
            "using": lambda p: mask(p.running),
            "ended": lambda p: int(p.life is not Life.ALIVE),
            "crashed": lambda p: int(p.life is Life.FAILED),
            "wants": lambda p: int(p.life is Life.ALIVE),
            "rests": lambda p: int(self._rests(p)),
            "remembers": lambda p: int((p.worker.memory.deadline_ms or 0) > NOW),
            "zombie": lambda p: int(p.zombie_since is not None),
            "connectors": lambda p: len(kinds(p.running)[0]),
            "tasks": lambda p: len(kinds(p.running)[1]),
        }
        return Component(self.name, self.new, self.choices, self.step, features, describe=describe)

    def _rests(self, process: Process) -> bool:
        """Whether nothing is to come of it, as far as it knows."""
        worker = process.worker
        if process.life is not Life.ALIVE:
            return process.life is not Life.AWAY
        is_settled = worker.state is State.ASSIGNED and not worker.wants_to_rejoin and not worker.changes
        return is_settled and {*worker.holds} == {*process.running}

    def choices(self, process: Process) -> Iterable[Choice]:
        """What its users, its timers, its threads and the machine below it may do."""
        worker = process.worker
        match process.life:
            case Life.ABSENT | Life.AWAY:
                yield Choice("starts")
            case Life.GONE:
                yield Choice("starts", disturbance="rejoin")
        if process.life is not Life.ALIVE:
            return
        yield Choice("stops", disturbance="leave")
        yield Choice("is bounced", disturbance="bounce")
        yield Choice("is killed", disturbance="crash")
        if process.seeking:
            yield Choice("finds the coordinator")
        if process.starting:
            yield Choice("its starts end")
        if process.stopping is not None:
            yield Choice("its stops end")
        yield from _timers(worker)

    def step(self, process: Process, given: Any) -> Step:
        """What an input does: a choice's label, a snapshot of the config topic, an answer, or that there is none."""
        if given == "starts":
            fresh = self.new._replace(lives=process.lives + 1, life=Life.ALIVE)
            return Step(fresh, [(TOPIC, (fresh.lives, READ_AT_START))])
        if process.life is not Life.ALIVE:
            return Step(process)
        after = self.new._replace(lives=process.lives, life=Life.AWAY if given == "is bounced" else Life.GONE)
        if given == "is killed":
            return Step(after, hangs_up=True)
        incoming = read(process, given)
        if incoming is None:
            return Step(process)
        done, effects, broken = take(process, incoming, given, NOW)
        sends = [_sent(done, effect) for effect in effects if isinstance(effect, Send | ReadConfigToEnd)]
        if given in ("stops", "is bounced"):
            return Step(after, sends, broken, hangs_up=True)
        return Step(done._replace(worker=timeless(done.worker)), sends, broken)


def _timers(worker: Worker) -> Iterable[Choice]:
    beats = worker.heartbeats
    if beats.enabled and worker.coordinator_known and not worker.heartbeat_sent[0]:
        yield Choice("heartbeat interval is over")
    if beats.enabled and worker.is_busy:
        yield Choice("is busy for too long", disturbance="poll_timeout")
    if worker.timer_ms is not None and worker.timer_ms > NOW:
        match worker.state:
            case State.DISCONNECTED:
                yield Choice("wait is over", disturbance="unreachable")
            case State.CATCHING_UP:
                yield Choice("wait is over", disturbance="slow_read")
            case _:
                yield Choice("wait is over")
    if (worker.memory.deadline_ms or 0) > NOW:
        yield Choice("remembered delay is over")
    if (worker.deadline_ms or 0) > NOW and worker.state in {State.DELAYED, State.DISCONNECTED}:
        yield Choice("delay is over", disturbance="early_delay", free_when=DELAY_OVER)


def read(process: Process, given: Any) -> WorkerInput | None:
    """What an input is to the worker; None for what is meant for a process that is gone."""
    match given:
        case Received(message=(Order() as order, answer)):
            return Answered(order.number, answer) if order.life == process.lives else None
        case Missed(message=(Order() as order, _)) | Undelivered(message=Order() as order):
            return Answered(order.number, TIMED_OUT) if order.life == process.lives else None
        case Received(message=(life, Start() | ReadToEnd() as snapshot)):
            return snapshot if life == process.lives else None
        case Received(message=ConfigTopicAdvanced() as advanced):
            return advanced if process.worker.state is not State.DOWN else None
        case "stops" | "is bounced":
            return Stop()
        case "finds the coordinator":
            return CoordinatorFound()
        case "its starts end":
            return UnitsStarted()
        case "its stops end":
            return UnitsStopped()
    return Tick()


def take(
    process: Process, incoming: WorkerInput, given: Any, now_ms: int
) -> tuple[Process, tuple[WorkerEffect, ...], list[str]]:
    """The process after a step of its worker, what that orders, and what it breaks."""
    before = made_due(process.worker, given, now_ms)
    after, effects = step(before, incoming, now_ms)
    broken = list(broken_in_step(before, after, now_ms))
    if isinstance(incoming, Answered) and isinstance(incoming.answer, JoinGroupResponse):
        computed = compute(before, incoming.answer, now_ms) if after.memory != before.memory else None
        broken += [] if computed is None else broken_in_round(computed)
    process = process._replace(
        worker=after,
        starting=process.starting and given != "its starts end",
        seeking=process.seeking and given != "finds the coordinator",
    )
    if given == "its stops end":
        process = process._replace(running=without(process.running, process.stopping or ()), stopping=None)
    for effect in effects:
        match effect:
            case FindCoordinator():
                process = process._replace(seeking=True)
            case StartUnits(units=units):
                broken += broken_by_start(after, process.running, ())
                process = process._replace(running=tuple(sorted({*process.running, *units})), starting=True)
            case StopUnits(units=units, wait=True):
                process = process._replace(stopping=units)
            case StopUnits(units=units):
                process = process._replace(running=without(process.running, units))
            case StopEverything():
                process = process._replace(running=(), stopping=None)
            case HerderEnded():
                process = process._replace(life=Life.FAILED)
    return process._replace(zombie_since=_zombie_since(process)), effects, broken


def _zombie_since(process: Process) -> int | None:
    """The last generation that a zombie had joined; None for a process that is none."""
    worker, since = process.worker, process.zombie_since
    if process.running and not worker.is_member:
        return max(worker.generation, worker.last_completed_generation)
    if since is not None and worker.state in SETTLED and worker.last_completed_generation > since:
        return None
    return since


def made_due(worker: Worker, what: Any, now_ms: int) -> Worker:
    """The worker with the timer over that a choice names."""
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
    return worker


def _sent(process: Process, effect: Send | ReadConfigToEnd) -> tuple[str, Any]:
    if isinstance(effect, Send):
        return BROKER, Order(process.lives, effect.number, effect.body)
    return TOPIC, (process.lives, READ)


def timeless(worker: Worker) -> Worker:
    """The worker with heartbeats that are due or not."""
    beats = timeless_heartbeats(worker.heartbeats)
    return replace(worker, heartbeats=beats, unanswered=tuple(sorted(worker.unanswered)))


def seen(process: Process) -> tuple[Any, ...]:
    """What a process of the model and a live one have in common: all but instants and what is left of delays."""
    worker = process.worker
    held = worker.held and replace(worker.held, delay_ms=min(1, worker.held.delay_ms))
    memory = replace(worker.memory, deadline_ms=worker.memory.deadline_ms and 0, delay_ms=0)
    place = worker.state, worker.generation, worker.member_id, worker.last_completed_generation, worker.protocol
    waits = process.stopping, process.starting, process.seeking, worker.deadline_ms is None, worker.rejoin_wanted
    return (process.life, process.running, place, held, memory, waits, worker.configs, worker.changes)


def describe(process: Process) -> str:
    """A process on one line."""
    if process.life is not Life.ALIVE:
        return str(process.life.value)
    worker = process.worker
    units = ", ".join(map(str, process.running)) or "nothing"
    text = f"{worker.state.name}, generation {worker.generation}, runs {units}"
    return text + (", leads" if worker.is_leader else "")
