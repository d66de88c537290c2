"""One Connect worker as a component: the production worker in its process. Its clock stands still.

A deadline lies ahead until a choice makes it due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from fsm.check.kafka.application import BROKER, NOW
from fsm.check.kafka.classic.member import number_of, timeless_heartbeats
from fsm.check.kafka.connect.process import FEW_ROUNDS, Halt, Life, Order, Process, describe, handle, look_at
from fsm.check.kafka.connect.topic import READ, READ_AT_START, TOPIC, ConfigTopic, TopicRequest
from fsm.check.model import Choice, Component, Step
from fsm.connect.simulation.invariants import OF_MEMBERSHIP, ROUND, SAME_OUTPUT
from fsm.connect.units import Unit, kinds
from fsm.connect.worker.config import ConnectConfig
from fsm.connect.worker.inputs import ReadConfigToEnd, Send, WorkerEffect
from fsm.connect.worker.state import Worker, new_worker
from fsm.member.timers import NEVER
from fsm.tables.connect_worker import SETTLED, TABLE, State

DELAY_OVER = "no delay is remembered as running"
"""The condition under which a worker's delay may expire: its leader's, which began before, has expired."""
ASKED_OF_STEPS = (
    *ROUND,
    "W2 a join reports nothing that was revoked",
    "W2 stops come before starts",
    "W3 a delay is not waited for any longer",
    "W4 nothing starts before the configs agree",
    "W4 nothing starts without a good assignment",
    "W5 between rounds nothing starts or stops by itself",
    "W7 after an eager round nothing runs that is not held",
    FEW_ROUNDS,
    "G4 no generation is completed before it was joined",
    "a worker without a coordinator gives up its units",
    "a worker backs off for at most a tenth of scheduled.rebalance.max.delay.ms",
    *OF_MEMBERSHIP,
    SAME_OUTPUT,
)
"""The invariants that are checked on each step of a worker."""


class WorkerModel:
    """Makes the component of one worker."""

    def __init__(
        self, name: str, config: ConnectConfig, topic: ConfigTopic, story: str | None = None, *, waits: bool = False
    ) -> None:
        """`story` is the single action of the first process.

        It `waits` with that until a delay is in progress and a worker has returned.
        """
        self.name, self.topic, self.story, self.waits = name, topic, story, waits
        self.new = Process(new_worker(config, f"http://{name}/"))

    def component(self) -> Component:
        """The component; its masks number units as the config topic does."""

        def mask(found: Iterable[Unit]) -> int:
            return sum(1 << self.topic.bits[one] for one in found)

        features = {
            "life": lambda p: p.lives,
            "epoch": lambda p: p.worker.generation,
            "id": lambda p: number_of(p.worker.member_id),
            "speaks": _speaks,
            "using": lambda p: mask(p.running),
            "uses": lambda p: mask(p.running),
            "ended": lambda p: p.life is not Life.ALIVE,
            "crashed": lambda p: p.life is Life.FAILED,
            "wants": lambda p: p.life is Life.ALIVE,
            "rests": self._rests,
            "remembers": lambda p: (p.worker.memory.deadline_ms or 0) > NOW,
            "zombie": lambda p: p.zombie_since is not None,
            "units": lambda p: len(p.running),
            "connectors": lambda p: len(kinds(p.running)[0]),
            "tasks": lambda p: len(kinds(p.running)[1]),
        }
        return Component(
            self.name,
            self.new,
            self.choices,
            self.step,
            features,
            describe=describe,
            look=lambda process: look_at(process, NOW),
            role="worker",
            tables=(TABLE,),
        )

    def _rests(self, process: Process) -> bool:
        """Whether the worker is idle as far as it knows."""
        worker = process.worker
        if process.life is not Life.ALIVE:
            return process.life is not Life.AWAY
        is_settled = worker.state is State.ASSIGNED and not worker.wants_to_rejoin and not worker.changes
        is_busy = process.halt or process.outdated
        return is_settled and not is_busy and {*worker.holds} == {*process.running}

    def choices(self, process: Process) -> Iterable[Choice]:
        """The choices of its users, its timers, its threads and its process."""
        worker = process.worker
        match process.life:
            case Life.ABSENT | Life.AWAY:
                yield Choice("starts")
            case Life.GONE:
                yield Choice("starts", disturbance="rejoin")
        if process.life is not Life.ALIVE:
            return
        yield Choice("is killed", disturbance="crash")
        if process.halt is not None:
            yield from _choices_of_halted(process)
            return
        is_time = process.lives == 1 and (not self.waits or _waits_for_somebody(worker))
        for what, kind in (("stops", "leave"), ("is bounced", "bounce")):
            yield Choice(what, disturbance="" if self.story == what and is_time else kind)
        yield Choice("stands still", disturbance="freeze")
        if worker.state in SETTLED and worker.is_leader and not worker.wants_to_rejoin:
            yield from self.topic.writes(worker.store, unwritten=process.unwritten)
        if process.seeking:
            yield Choice("finds the coordinator")
        if process.starting:
            yield Choice("its starts end")
        if process.stopping is not None:
            yield Choice("its stops end")
        yield from _timers(worker)

    def step(self, process: Process, given: Any) -> Step:
        """The step on an input: the label of a choice, a reading, a response, or a request that failed."""
        if given == "starts":
            fresh = self.new._replace(lives=process.lives + 1, life=Life.ALIVE)
            return Step(fresh, [(TOPIC, TopicRequest(fresh.lives, READ_AT_START))])
        if process.life is not Life.ALIVE:
            return Step(process)
        after = self.new._replace(lives=process.lives, life=Life.AWAY if given == "is bounced" else Life.GONE)
        if given == "is killed":
            return Step(after, hangs_up=True)
        done, effects, broken = handle(process, given, NOW)
        sends = list(list_sent(done, effects))
        if given in ("stops", "is bounced"):
            return Step(after, sends, broken, hangs_up=True)
        return Step(done._replace(worker=timeless(done.worker)), sends, broken)


def _waits_for_somebody(worker: Worker) -> bool:
    """Whether a delay is in progress and a worker has returned that may be assigned the lost units."""
    return worker.state is State.DELAYED and bool(worker.memory.deadline_ms and worker.memory.candidates)


def _speaks(process: Process) -> int:
    """The member id under which it sends requests, as a bit; a frozen process has none."""
    member_id = process.worker.member_id
    return 1 << number_of(member_id) if member_id and process.halt is not Halt.FROZEN else 0


def _choices_of_halted(process: Process) -> Iterable[Choice]:
    """The choices of a halted process: its timers expire as well."""
    if process.halt is Halt.FROZEN:
        yield Choice("goes on")
        if process.worker.heartbeats.enabled and process.worker.coordinator_known:
            yield Choice("goes on after its session")
        if (process.worker.memory.deadline_ms or 0) > NOW:
            yield Choice("remembered delay is over")


def _timers(worker: Worker) -> Iterable[Choice]:
    beats = worker.heartbeats
    beats_again = beats.enabled and beats.heartbeat_due_ms != NEVER
    if beats_again and worker.coordinator_known and not worker.heartbeat_sent[0]:
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


def list_sent(
    process: Process, effects: Iterable[WorkerEffect | TopicRequest]
) -> Iterator[tuple[str, Order | TopicRequest]]:
    """The messages that a process sends, with their receivers."""
    for effect in effects:
        match effect:
            case Send(number=number, body=body):
                yield BROKER, Order(process.lives, number, body)
            case ReadConfigToEnd():
                yield TOPIC, TopicRequest(process.lives, READ)
            case TopicRequest():
                yield TOPIC, effect


def timeless(worker: Worker) -> Worker:
    """The worker with its heartbeat timers reduced to whether they are due."""
    beats = timeless_heartbeats(worker.heartbeats)
    return replace(worker, heartbeats=beats, unanswered=tuple(sorted(worker.unanswered)))
