"""A whole Connect cluster under a virtual clock: worker processes, the config topic, and our coordinator between them.

What happens to the cluster are stimuli: a process starts, stops, crashes or freezes; a user creates, scales, deletes,
pauses or stops a connector; the broker goes away and comes back. The workers' own steps follow from these alone. What
really runs in a process is kept apart from what its worker holds: a task may outlive its stop, a process its herder.

    cluster = Cluster(ConnectConfig("g"))
    cluster.start("W1"); cluster.create("A", tasks=2); cluster.run_for(60_000)
    cluster.rounds[-1].delay_ms, cluster.holdings()

Everything is a function of the stimuli and their times: there is no chance in here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heappop, heappush

from fsm.connect import observer
from fsm.connect.broker import Answering, Broker
from fsm.connect.config import ConnectConfig, version_of
from fsm.connect.inputs import (
    Answered,
    Change,
    ConfigChange,
    ConfigTopicAdvanced,
    FindCoordinator,
    HerderEnded,
    ReadConfigToEnd,
    ReadToEnd,
    RestartRequested,
    RestartUnits,
    Send,
    Start,
    StartUnits,
    Stop,
    StopEverything,
    StopUnits,
    Taken,
    UnitsStarted,
    UnitsStopped,
    WorkerEffect,
    WorkerInput,
)
from fsm.connect.invariants import Group, broken_at_once, broken_at_rest, broken_in_round
from fsm.connect.leader import ConfigSnapshot
from fsm.connect.process import Latencies, Process, Ran, SeenRound, Step
from fsm.connect.protocol import Assignment
from fsm.connect.state import Worker, new_worker
from fsm.connect.units import Unit, Units
from fsm.connect.worker import due_ms, step
from fsm.errors import InputError
from fsm.kafka.classic_messages import JoinGroupResponse, SyncGroupRequest
from fsm.kafka.messages import DISCONNECTED
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.tables.connect_worker import State


class Cluster:
    """Workers of one group, their broker and their config topic."""

    def __init__(self, config: ConnectConfig, latencies: Latencies | None = None, broker: Broker | None = None) -> None:
        self.config = config
        self.latencies = latencies or Latencies()
        self.broker = broker or Broker()
        self.broker_up = True
        self.now_ms = 0
        self.processes: dict[str, Process] = {}
        self.wanted: dict[str, int] = {}
        """Connectors with the number of tasks their users ask for."""
        self.topic = ConfigSnapshot(0)
        self.stubborn: set[Unit] = set()
        """Tasks that do not stop when told to."""
        self.unreadable: set[str] = set()
        """Workers that cannot read the config topic."""
        self.configured_ms: dict[str, int] = {}
        """When the configs of each connector's tasks were last written."""
        self.rounds: list[SeenRound] = []
        self.steps: list[Step] = []
        self.ran: list[Ran] = []
        self.broken: list[tuple[int, str]] = []
        """Invariants that did not hold, and when."""
        self._names: dict[str, str] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._processes = 0
        self._moved = False

    # Stimuli

    def start(self, name: str, protocol: str = "", holding: Units = ()) -> None:
        """A process starts: the worker joins, as a new member, with what it may already hold."""
        old = self.processes.get(name)
        if old is not None and old.alive:
            raise InputError(f"{name} runs", remedy="stop it or let it crash first")
        config = replace(self.config, connect_protocol=protocol) if protocol else self.config
        worker = new_worker(config, f"http://{name}/")
        if holding:
            held = Assignment(version_of(worker.protocol), "", "", self.topic.offset, holding)
            worker = replace(worker, held=held, running=holding)
        self._processes += 1
        process = Process(name, self._processes, worker, dict.fromkeys(holding, self.now_ms))
        self.processes[name] = process
        self._give(process, Start(self.topic))

    def stop(self, name: str) -> None:
        """A process is asked to stop: it stops its units, leaves the group, and ends."""
        process = self._alive(name)
        self._give(process, Stop())
        self._end(process)

    def crash(self, name: str) -> None:
        """A process dies without a word: its group learns of it when its session ends."""
        self._end(self._alive(name))

    def bounce(self, name: str, away_ms: int) -> None:
        """A process stops, and another one starts after some time."""
        self.stop(name)
        self._later(away_ms, lambda: self.start(name))

    def freeze(self, name: str) -> None:
        """A process stands still, with what runs in it, and hears nothing until it is thawed."""
        process = self._alive(name)
        process.frozen = True
        process.judge()

    def thaw(self, name: str) -> None:
        """It goes on, and gets all that came meanwhile."""
        process = self._alive(name)
        process.frozen = False
        waiting, process.waiting = process.waiting, []
        self._give(process, Tick())
        for _, given in waiting:
            self._give(process, given)

    def cut(self, name: str) -> None:
        """A process loses its connection to the broker."""
        process = self._alive(name)
        process.cut = True
        self._soon(process, CoordinatorLost())

    def heal(self, name: str) -> None:
        """The connection is back."""
        process = self._alive(name)
        process.cut = False
        self._soon(process, CoordinatorFound())

    def create(self, connector: str, tasks: int) -> None:
        """A user creates a connector; its tasks get their configs once its instance has started."""
        self.wanted[connector] = tasks
        self._write({**self._counts(), connector: 0}, ConfigChange(connector, Change.CONFIG))

    def scale(self, connector: str, tasks: int) -> None:
        """A user changes the number of tasks: the instance is restarted where it runs and publishes their configs."""
        self.wanted[connector] = tasks
        self._write(self._counts(), ConfigChange(connector, Change.CONFIG))
        self._later(self.latencies.task_configs_ms, lambda: self._publish(connector))

    def reconfigure(self, connector: str) -> None:
        """The tasks of a connector get new configs, as many as before."""
        self._write(self._counts(), ConfigChange(connector, Change.TASKS))

    def restart(self, connector: str) -> None:
        """A user asks for a connector and its tasks to be restarted; every worker gets to hear it."""
        plan = tuple(sorted(u for u in self.topic.units if u.connector == connector))
        for process in self._living():
            self._soon(process, RestartRequested(plan))

    def delete(self, connector: str) -> None:
        """A user deletes a connector."""
        self.wanted.pop(connector, None)
        counts = self._counts()
        counts.pop(connector, None)
        self._write(counts, ConfigChange(connector, Change.REMOVED))

    def stop_connector(self, connector: str) -> None:
        """A user stops a connector: it keeps its instance and loses its tasks."""
        self.wanted[connector] = 0
        self._write({**self._counts(), connector: 0}, ConfigChange(connector, Change.STOPPED))

    def broker_down(self) -> None:
        """The broker goes away, its groups with it: connections break."""
        self.broker_up = False
        for process in self.processes.values():
            self.broker.forget_requests(process.name)
            if process.alive:
                self._soon(process, CoordinatorLost())

    def broker_back(self) -> None:
        """The broker is there again, with the groups as it had stored them."""
        self.broker_up = True
        for process in self.processes.values():
            if process.alive and process.worker.state is State.DISCONNECTED:
                self._soon(process, CoordinatorFound())
        self._watch_broker()

    # Time

    def run_for(self, ms: int) -> None:
        """Everything that happens within so many milliseconds."""
        until_ms = self.now_ms + ms
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, act = heappop(self._queue)
            act()
            self._check_running()
        self.now_ms = until_ms

    def settle(self, most_ms: int = 3_600_000, quiet_ms: int = 10_000) -> bool:
        """Runs until no round was computed for a while and nobody waits for a delay; False if that does not come."""
        until_ms = self.now_ms + most_ms
        while self.now_ms < until_ms:
            before = len(self.rounds)
            self.run_for(quiet_ms)
            if before == len(self.rounds) and self.is_settled:
                return True
        return False

    # What is seen from outside

    @property
    def is_settled(self) -> bool:
        """Whether every living worker is assigned and no delay runs."""
        return all(p.worker.state is State.ASSIGNED for p in self._living())

    def holdings(self) -> dict[str, Units]:
        """What the workers hold, by name."""
        return {p.name: p.worker.holds for p in sorted(self._living(), key=lambda p: p.name)}

    def group(self) -> Group:
        """The cluster for the invariants."""
        living = list(self._living())
        return Group(
            self.topic.units,
            {p.name: p.worker.holds for p in living if p.worker.is_member},
            {p.name: tuple(p.running) for p in living},
            [p.name for p in living if p.zombie or self.stubborn & p.running.keys()],
        )

    def twice(self) -> set[Unit]:
        """Units that run in two processes, zombies included."""
        counts = Counter(unit for process in self._living() for unit in process.running)
        return {unit for unit, count in counts.items() if count > 1}

    def outdated(self) -> set[Unit]:
        """Tasks that run with configs that are not the last ones."""
        return {
            unit
            for process in self._living()
            for unit, start_ms in process.running.items()
            if not unit.is_connector and start_ms < self.configured_ms.get(unit.connector, 0)
        }

    def rest(self) -> list[str]:
        """What the settled cluster breaks."""
        return list(broken_at_rest(self.group(), self.config.profile))

    # Inside

    def _living(self) -> Iterable[Process]:
        return (p for p in self.processes.values() if p.alive)

    def _alive(self, name: str) -> Process:
        process = self.processes.get(name)
        if process is None or not process.alive:
            raise InputError(f"no worker {name} runs", remedy="start it first")
        return process

    def _end(self, process: Process) -> None:
        for unit in list(process.running):
            self._stopped(process, unit)
        process.alive = False

    def _later(self, ms: int, act: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._queue, (self.now_ms + ms, self._sequence, act))

    def _soon(self, process: Process, given: WorkerInput, ms: int | None = None) -> None:
        """The input reaches the process after the network's latency, or the one given."""
        self._later(self.latencies.network_ms if ms is None else ms, lambda: self._give(process, given))

    def _give(self, process: Process, given: WorkerInput) -> None:
        if not process.alive or not process.herder:
            return
        if process.frozen:
            process.waiting.append((self.now_ms, given))
            return
        before = process.worker
        process.worker, effects = step(before, given, self.now_ms)
        if isinstance(given, Answered) and isinstance(given.answer, JoinGroupResponse):
            self._note_member(process, given.answer)
            self._check_round(before, process.worker, given.answer)
        for effect in effects:
            self._carry_out(process, effect)
        was = process.zombie
        process.judge()
        self._moved = self._moved or was != process.zombie
        self._watch(process)

    def _watch(self, process: Process) -> None:
        """A tick when the worker wants one; a later wish replaces an earlier one."""
        due = due_ms(process.worker)
        if due >= NEVER or process.tick_ms == due:
            return
        process.tick_ms = due

        def tick() -> None:
            if process.tick_ms == due:
                process.tick_ms = NEVER
                self._give(process, Tick())

        self._later(max(0, due - self.now_ms), tick)

    def _carry_out(self, process: Process, effect: WorkerEffect) -> None:
        match effect:
            case Taken():
                self.steps.append(Step(self.now_ms, process.name, effect))
            case Send():
                self._send(process, effect)
            case FindCoordinator() if self.broker_up and not process.cut:
                self._soon(process, CoordinatorFound())
            case ReadConfigToEnd() if process.name not in self.unreadable:
                self._later(self.latencies.read_ms, lambda: self._give(process, ReadToEnd(self.topic)))
            case RestartUnits():
                self._stop_units(process, StopUnits(effect.units))
                self._start_units(process, effect.units)
            case StartUnits():
                self._start_units(process, effect.units)
                self._soon(process, UnitsStarted(), self.latencies.start_ms)
            case StopUnits():
                self._stop_units(process, effect)
            case StopEverything():
                for unit in list(process.running):
                    self._stopped(process, unit)
            case HerderEnded():
                process.herder = False
            case _:
                pass

    def _send(self, process: Process, effect: Send) -> None:
        if isinstance(effect.body, SyncGroupRequest) and effect.body.assignments:
            self._note_round(process, effect.body)
        if self.broker_up and not process.cut:
            self._later(self.latencies.network_ms, lambda: self._receive(process, effect))
        else:
            self._soon(process, Answered(effect.number, DISCONNECTED))

    def _receive(self, process: Process, effect: Send) -> None:
        if not self.broker_up or process.cut:
            self._soon(process, Answered(effect.number, DISCONNECTED))
            return
        self._answer(self.broker.receive(process.name, process.number, effect.number, effect.body, self.now_ms))

    def _answer(self, answers: list[Answering]) -> None:
        for asked, response in answers:
            process = self.processes[asked.worker]
            if process.number == asked.process and not process.cut:
                self._soon(process, Answered(asked.number, response))
        self._watch_broker()

    def _watch_broker(self) -> None:
        due = self.broker.due_ms()
        if due is None:
            return

        def tick() -> None:
            if self.broker_up and self.broker.due_ms() is not None and (self.broker.due_ms() or 0) <= self.now_ms:
                self._answer(self.broker.tick(self.now_ms))

        self._later(max(0, due - self.now_ms), tick)

    # Units

    def _start_units(self, process: Process, units: Units) -> None:
        for unit in units:
            if unit in process.running:
                continue  # the start fails, and the old instance goes on
            self._moved = True
            process.running[unit] = self.now_ms
            self.ran.append(Ran(unit, process.name, self.now_ms, None))
            if unit.is_connector:
                self._later(self.latencies.task_configs_ms, lambda name=unit.connector: self._publish(name))  # type: ignore[misc]

    def _stop_units(self, process: Process, effect: StopUnits) -> None:
        outlived = False
        for unit in effect.units:
            if unit in self.stubborn and unit in process.running:
                outlived = True
            elif unit in process.running:
                self._stopped(process, unit)
        if effect.wait:
            waits_ms = self.config.task_shutdown_graceful_timeout_ms if outlived else self.latencies.stop_ms
            self._soon(process, UnitsStopped(), waits_ms)

    def _stopped(self, process: Process, unit: Unit) -> None:
        self._moved = True
        start_ms = process.running.pop(unit)
        open_ = Ran(unit, process.name, start_ms, None)
        if open_ in self.ran:
            self.ran.remove(open_)
        self.ran.append(Ran(unit, process.name, start_ms, self.now_ms))

    # The config topic

    def _counts(self) -> dict[str, int]:
        return dict(self.topic.task_counts)

    def _write(self, counts: dict[str, int], change: ConfigChange) -> None:
        self.topic = ConfigSnapshot(self.topic.offset + 1, tuple(sorted(counts.items())))
        if change.what is Change.TASKS:
            self.configured_ms[change.connector] = self.now_ms
        for process in self._living():
            if process.name not in self.unreadable:
                self._soon(process, ConfigTopicAdvanced(self.topic, (change,)))

    def _publish(self, connector: str) -> None:
        """The instance of a connector has told how many tasks it wants."""
        runs = any(Unit(connector) in p.running for p in self._living())
        tasks = self.wanted.get(connector)
        if runs and tasks is not None and self._counts().get(connector) != tasks:
            self._write({**self._counts(), connector: tasks}, ConfigChange(connector, Change.TASKS))

    # Rounds

    def _note_member(self, process: Process, answer: JoinGroupResponse) -> None:
        if answer.member_id:
            self._names[answer.member_id] = process.name

    def _note_round(self, process: Process, body: SyncGroupRequest) -> None:
        """What the leader sends, by the names of the workers."""
        held = {name: each.worker.holds for name, each in self.processes.items()}
        self.rounds.append(observer.sent(process.name, body, self.now_ms, self._name, held))

    def _name(self, member_id: str) -> str:
        """The worker of a member: known from its answers, or from its id, which begins with its client id."""
        return self._names.get(member_id) or member_id.removeprefix("connect-").rpartition("-")[0]

    def _check_round(self, before: Worker, after: Worker, answer: JoinGroupResponse) -> None:
        """Every cooperative round that a leader computed keeps the assignor's invariants."""
        computed = observer.computation(before, answer, self.now_ms) if after.memory != before.memory else None
        if computed is None:
            return
        self.broken += [(self.now_ms, name) for name in broken_in_round(computed)]
        if computed.outcome.memory != after.memory:
            self.broken.append((self.now_ms, "I22 the same input gives the same output"))

    def _check_running(self) -> None:
        """What runs twice, whenever what runs where may have changed."""
        if not self._moved:
            return
        self._moved = False
        self.broken += [(self.now_ms, what) for what in broken_at_once(self.group())]
