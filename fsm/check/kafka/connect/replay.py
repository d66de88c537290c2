"""Replays a path of a Connect cluster with live workers, whose clocks run, and a host with tokens and a log.

A timer that expires in the path is made due, in the worker as in the coordinator; the remaining delay is then slightly
less than in the model, which affects only its encoded value. The constraints of the timers give times, at which the
path is replayed with one clock for all, and the workers write their trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import is_
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, NOW
from fsm.check.kafka.classic.coordinator import AnyCoordinator
from fsm.check.kafka.connect.process import Halt, Life, Order, Process, handle, observe
from fsm.check.kafka.connect.topic import READ_AT_START, TOPIC, Reading, TopicRequest
from fsm.check.kafka.connect.worker import WorkerModel, list_sent
from fsm.check.kafka.descriptions import Seen, tell_difference
from fsm.check.kafka.live.broker import LiveBroker
from fsm.check.kafka.live.consumers import Abandoned, Sent
from fsm.check.kafka.live.replay import PathReplay, book, turns
from fsm.check.kafka.live.timed_replay import BEATS, find_room, settle_times
from fsm.check.model import Action, Path, Received, Replayed
from fsm.check.timing import Timing
from fsm.connect.simulation.trace import WorkerTrace
from fsm.connect.units import Units, without
from fsm.connect.worker.inputs import RestartUnits, Stop, UnitsStopped, WorkerEffect, WorkerInput
from fsm.connect.worker.state import Worker
from fsm.coordinator.coordinator import Coordinator
from fsm.protocol.messages import JoinGroupRequest
from fsm.tables.connect_worker import State
from fsm.trace import Kind, TraceRecord

REQUEST_TIMEOUT_MS = 40_000
"""`request.timeout.ms` of a worker."""
JOIN_GRACE_MS = 5_000
"""The time a worker waits for a JoinGroup response beyond the rebalance timeout."""
FIRED = {
    BEATS: "heartbeat",
    "is busy for too long": "poll",
    "wait is over": "wait",
    "delay is over": "delay",
    "remembered delay is over": "remembered delay",
    "goes on after its session": "session",
}
"""The timer of a worker that has expired when it takes the step of this name."""
UNHURRIED = ("remembered delay", "session")
"""Timers that cause no step when they expire: the delay is read in the next round, the session by a frozen process."""


class Timeouts(NamedTuple):
    """The timeouts of all workers; the fields are those of `ConnectConfig`."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    scheduled_rebalance_max_delay_ms: int

    def settings(self) -> dict[str, int]:
        """The timeouts by Kafka's names."""
        return {name.replace("_", "."): value for name, value in self._asdict().items()}


def _list_timeouts(delay_ms: int) -> Iterator[Timeouts]:
    """Kafka's defaults, then others, which leave a shortest path more room between two heartbeats."""
    for rebalance_ms in (60_000, 10_000):
        for delay in sorted({delay_ms, min(delay_ms, 5_000)}, reverse=True):
            for heartbeat_ms, session_ms in ((3_000, 10_000), (9_000, 10_000), (25_000, 45_000), (44_000, 45_000)):
                yield Timeouts(heartbeat_ms, session_ms, rebalance_ms, delay)


def replay(models: Sequence[WorkerModel], hub: AnyCoordinator, before: Path, path: Path) -> Replayed:
    """Replays a path that begins after another one with live objects, and finds times at which it can happen."""
    whole = [*before, *path]
    if differs := ConnectReplay(models, hub).along(whole):
        return Replayed(differs)

    def take(timeouts: Timeouts, path: Path) -> tuple[Timing, tuple[int, ...]] | None:
        return settle_times(
            lambda note, times_ms: ConnectReplay(models, hub, timeouts).along(path, note, times_ms),
            _note,
            len(before),
        )

    delay_ms = models[0].new.worker.config.scheduled_rebalance_max_delay_ms
    found = find_room(whole, _list_timeouts(delay_ms), take, {one.name: one for one in models})
    if found is None or not found.times_ms:
        return Replayed(untimed=found.timing.contradiction() if found else "")
    delay_of_group_ms = hub.context.config.group_initial_rebalance_delay_ms
    settings = found.timeouts.settings() | {"group.initial.rebalance.delay.ms": delay_of_group_ms}
    records: list[TraceRecord] = []
    live = ConnectReplay(models, hub, found.timeouts, records.append)
    live.along(found.woven.path, None, found.times_ms)
    live.go_on(NOW + found.times_ms[-1])
    done = found.tell_run(settings, records)
    begins_ms = done.times_ms[len(before) - 1] if before else 0
    return done._replace(
        times_ms=tuple(at_ms - begins_ms for at_ms in done.times_ms[len(before) :]),
        idle=tuple(
            (number - len(before), at_ms - begins_ms, what) for number, at_ms, what in done.idle if number > len(before)
        ),
    )


def _note(timing: Timing, live: ConnectReplay, action: Action | None) -> None:
    """Notes the constraints of the timers before a step, or after it."""
    if action is None:
        for name, worker in live.clients.items():
            timing.leaves(name, worker.now_ms, worker.timers())
        timing.leaves(BROKER, live.broker.host.now_ms, live.broker.timers())
        return
    what, who = action.what, action.actor if not action.sender else ""
    timing.step()
    timing.meets(BROKER, [what] if who == BROKER else [])
    for name, worker in live.clients.items():
        fired = FIRED.get(what, "") if name == who else ""
        is_prompt = fired not in UNHURRIED and not worker.has_overslept
        timing.meets(name, [fired], worker.idle_timers(what if name == who else ""), prompt=is_prompt)


class _LiveWorker:
    """A worker with its own clock, its process and its connection."""

    def __init__(self, new: Process, now_ms: int, trace: StepTrace | None) -> None:
        self.new = self.process = new
        self.trace = trace
        self.now_ms = now_ms
        self.out: list[Order] = []
        self.late = Abandoned()
        self.back: list[tuple[Order, Any]] = []
        self.asks: list[TopicRequest] = []
        """Requests to the config topic that it has not handled."""
        self.readings: list[Reading] = []
        """Readings of the config topic that the worker has not received."""
        self.sent = Sent()
        self.has_overslept = False
        """Whether its heartbeat thread may be late because the process was frozen."""

    def timers(self) -> dict[str, int]:
        """When each of its timers expires, by its own clock."""
        worker = self.process.worker
        if self.process.life is not Life.ALIVE:
            return {}
        waits = self.sent.note((*self.out, *(order for order, _ in self.back)), self.now_ms)
        found = {name: at_ms + self._patience_ms(order) for order, name, at_ms in waits}
        beats = worker.heartbeats
        if beats.enabled and worker.coordinator_known:
            found |= {"heartbeat": beats.heartbeat_due_ms, "session": beats.session_due_ms, "poll": beats.poll_due_ms}
        others = {"wait": worker.timer_ms, "delay": worker.deadline_ms, "remembered delay": worker.memory.deadline_ms}
        return found | {name: at_ms for name, at_ms in others.items() if at_ms is not None}

    def idle_timers(self, what: str) -> set[str]:
        """The timers that do not matter for a step, or while it takes none if `what` is empty."""
        process, worker = self.process, self.process.worker
        idle = set[str]()
        if worker.heartbeat_sent[0]:
            idle.add("heartbeat")
        if worker.state not in {State.DELAYED, State.DISCONNECTED}:
            idle.add("delay")
        if process.halt is Halt.FROZEN:
            idle |= set(FIRED.values()) - ({"session"} if what == "goes on" else set())
        return idle

    def _patience_ms(self, order: Order) -> int:
        """How long it waits for the response."""
        longest_ms = self.process.worker.config.rebalance_timeout_ms + JOIN_GRACE_MS
        return max(REQUEST_TIMEOUT_MS, longest_ms) if isinstance(order.body, JoinGroupRequest) else REQUEST_TIMEOUT_MS

    def act(self, what: Any) -> None:
        """Takes a step: a choice, a reading of the config topic, or the end of a request."""
        if what == "starts":
            self.process = self.new._replace(lives=self.process.lives + 1, life=Life.ALIVE)
            self.asks.append(TopicRequest(self.process.lives, READ_AT_START))
        elif self.process.life is Life.ALIVE and what == "is killed":
            self._hang_up(Life.GONE)
        elif self.process.life is Life.ALIVE:
            self.now_ms += 1
            if what in ("goes on", BEATS):
                self._oversleep(is_over=what == BEATS)
            process, effects, _ = handle(self.process, what, self.now_ms, self._note)
            if what in ("stops", "is bounced"):
                self._hang_up(Life.AWAY if what == "is bounced" else Life.GONE)
            else:
                self.process = process
            for _, sent in list_sent(process, effects):
                if isinstance(sent, Order):
                    self.out.append(sent)
                else:
                    self.asks.append(sent)

    def _note(self, before: Process, given: WorkerInput, effects: tuple[WorkerEffect, ...], after: Process) -> None:
        if self.trace is not None:
            self.trace.step(before, given, effects, after, self.now_ms)

    def take_turn(self) -> None:
        """Handles everything that is due by its clock."""
        process = self.process
        if process.life is Life.AWAY:
            self.act("starts")
        if process.halt is Halt.FROZEN:
            self.act("goes on")
        for is_under_way, what in (
            (process.seeking, "finds the coordinator"),
            (process.starting, "its starts end"),
            (process.stopping is not None, "its stops end"),
        ):
            if is_under_way:
                self.act(what)
        self.act("")

    def end(self, order: Order, answer: Any) -> None:
        """Ends a request with its response, or abandons it."""
        self.act(Received(BROKER, (order, answer)))

    def _oversleep(self, *, is_over: bool) -> None:
        """Postpones a heartbeat that was due while the process was frozen: its thread resumes a moment later."""
        self.has_overslept, worker = not is_over, self.process.worker
        if not is_over and worker.heartbeats.enabled and worker.heartbeats.heartbeat_due_ms <= self.now_ms:
            beats = replace(worker.heartbeats, heartbeat_due_ms=self.now_ms + 1)
            self.process = self.process._replace(worker=replace(worker, heartbeats=beats))

    def _hang_up(self, life: Life) -> None:
        self.late.add(self.out)
        self.out, self.back, self.asks, self.readings = [], [], [], []
        self.process = self.new._replace(lives=self.process.lives, life=life)


class ConnectReplay(PathReplay):
    """Live workers, their coordinator and the config topic."""

    def __init__(
        self,
        models: Sequence[WorkerModel],
        hub: AnyCoordinator,
        timeouts: Timeouts | None = None,
        trace: Callable[[TraceRecord], None] | None = None,
    ) -> None:
        self.models = {one.name: one for one in models}
        self.clients: dict[str, _LiveWorker] = {}
        for at, one in enumerate(models, 1):
            worker = one.new.worker
            config = replace(worker.config, **timeouts._asdict()) if timeouts else worker.config
            new = one.new._replace(worker=replace(worker, config=config))
            self.clients[one.name] = _LiveWorker(new, NOW + 1_000 * at, StepTrace(one.name, trace) if trace else None)
        self.topic = models[0].topic
        self.configs = self.topic.start
        self.broker = LiveBroker(self.clients, hub.context, hub, _is_same)
        self._compared: dict[str, tuple[Any, Any]] = {}

    def compare(self, name: str, state: Any, *, lengths: bool) -> str:
        """The first difference of a worker or the coordinator; states that were compared before are not looked at."""
        if name == TOPIC:
            return ""
        both = self.broker.host.state if name == BROKER else self.clients[name].process, state
        if all(map(is_, both, self._compared.get(name, (None, None)))):
            return ""
        self._compared[name] = both
        if name == BROKER:
            live, wanted = (_book(one, lengths=lengths) for one in (self.broker.host.state, state.state))
        else:
            live, wanted = map(observe, both)
        return tell_difference(name, live, wanted)

    def go_on(self, now_ms: int) -> None:
        """Continues from then without disturbances; an error that follows from what the path has broken ends it."""
        with suppress(Exception):
            for turn_ms in turns(now_ms):
                self.set_clocks(turn_ms)
                self.broker.pass_time()
                self.broker.expire()
                for name, worker in self.clients.items():
                    self._exchange(name)
                    worker.take_turn()
                    self._exchange(name)

    def _exchange(self, name: str) -> None:
        worker = self.clients[name]
        while worker.asks:
            self._ask(Received(name, worker.asks.pop(0)))
        while worker.readings:
            worker.act(Received(TOPIC, worker.readings.pop(0)))
        self.exchange(name)

    def _ask(self, given: Any) -> None:
        """Reads or changes the config topic."""
        done = self.topic.step(self.configs, given)
        self.configs = done.state
        for name, reading in done.sends:
            self.clients[name].readings.append(reading)

    def take(self, action: Action) -> None:
        """Takes a step of a worker, the coordinator or the config topic."""
        match action:
            case Action(sender=name) if action.receiver == TOPIC:
                if self.clients[name].asks:
                    self._ask(Received(name, self.clients[name].asks.pop(0)))
            case Action(receiver=name) if action.sender == TOPIC:
                if self.clients[name].readings:
                    self.clients[name].act(Received(TOPIC, self.clients[name].readings.pop(0)))
            case Action(sender=sender) if sender:
                self.deliver(action)
            case Action(actor="broker"):
                self.broker.act(action.what)
            case Action(actor=name, what=what) if name == TOPIC:
                self._ask(next(one.given for one in self.topic.choices(self.configs) if one.label == what))
            case Action(actor=name, what=what):
                choices = self.models[name].choices(self.clients[name].process)
                self.clients[name].act(next((one.given for one in choices if one.label == what and one.given), what))


def _is_same(one: Order, asked: Order) -> bool:
    return one[:2] == asked[:2] and type(one.body) is type(asked.body)


def _book(state: Coordinator, *, lengths: bool) -> Seen:
    """The group without assignments, whose bytes contain the remaining delay."""
    found = book(state, lengths=lengths)
    return {**found, "assignments": sorted(found["assignments"])} if "assignments" in found else found


class _Writer(NamedTuple):
    """The worker that a record is about."""

    name: str
    worker: Worker
    running: Units


class StepTrace:
    """Writes the records of one worker to `take`."""

    def __init__(self, name: str, take: Callable[[TraceRecord], None]) -> None:
        self.name, self.trace = name, WorkerTrace(take, 0)

    def step(
        self, before: Process, given: WorkerInput, effects: tuple[WorkerEffect, ...], after: Process, now_ms: int
    ) -> None:
        """Traces a step of the worker and the units that it stops and starts; a stop that has ended comes first."""
        writer = _Writer(self.name, after.worker, before.running)
        anew = {unit for one in effects if isinstance(one, RestartUnits) for unit in one.units}
        stopped = [unit for unit in before.running if unit not in after.running or unit in anew]
        if not isinstance(given, UnitsStopped):
            self.trace.step(writer, before.worker, given, effects, now_ms)
        for unit in stopped:
            self.trace.stop_unit(writer, unit, now_ms)
        if isinstance(given, UnitsStopped):
            self.trace.step(writer, before.worker, given, effects, now_ms)
        for unit in without(after.running, without(before.running, tuple(stopped))):
            self.trace.start_unit(writer, unit, now_ms)
        if isinstance(given, Stop):
            self.trace.write(writer, Kind.CLOSE_END, now_ms)
