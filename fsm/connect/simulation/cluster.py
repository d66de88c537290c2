"""A whole Connect cluster under a virtual clock: worker processes, the config topic, and our coordinator between them.

The inputs are stimuli: a process starts, stops, crashes or freezes; a user creates, scales, deletes, pauses or stops a
connector; the broker goes away and comes back. The workers' own steps follow from these alone. The units that really
run in a process are separate from those its worker holds: a task may outlive its stop, a process its herder.

    cluster = Cluster(ConnectConfig("g"))
    cluster.start("W1"); cluster.create("A", tasks=2); cluster.run_for(60_000)
    cluster.rounds[-1].delay_ms, cluster.assignments()

Everything is a function of the stimuli and their times; nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fsm.connect.protocol import Assignment
from fsm.connect.simulation.invariants import broken_at_rest
from fsm.connect.simulation.process import Latencies, Process, Stayed
from fsm.connect.simulation.trace import WorkerTrace
from fsm.connect.simulation.wiring import Wiring
from fsm.connect.units import Units
from fsm.connect.worker.config import ConnectConfig, version_of
from fsm.connect.worker.inputs import RestartRequested, Start, Stop, ThreadFailed
from fsm.connect.worker.state import new_worker
from fsm.errors import InputError
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.protocol.messages import ClassicRequest
from fsm.render.timeline.ownership import Bar, Mark, Picture, Stay, delays
from fsm.tables.connect_worker import State
from fsm.trace import TraceRecord

UNHURRIED_MS = 1_000
"""Additional time until a cluster counts as quiet."""


class Cluster(Wiring):
    """Workers of one group, their broker and their config topic."""

    def __init__(self, config: ConnectConfig, latencies: Latencies | None = None) -> None:
        super().__init__(latencies or Latencies())
        self.config = config
        self._away = 0
        """Bounced workers that have not returned yet."""

    def write_trace(self, take: Callable[[TraceRecord], None], offset_ms: int = 0) -> None:
        """Writes every worker's log as records from now on, with this offset of times."""
        self.trace = WorkerTrace(take, offset_ms)

    def watch_network(self, arrives: Callable[[str, bool], bool], on_send: Callable[[ClassicRequest], None]) -> None:
        """Sets two callbacks: the first decides by a worker's name whether its message, or the answer to it, arrives.

        A lost one makes the request time out. The second is called with each request.
        """
        self.arrives, self.on_send = arrives, on_send

    # Stimuli: processes

    def start(self, name: str, protocol: str = "", holding: Units = ()) -> None:
        """A process starts: the worker joins as a new member, possibly with units."""
        old = self.processes.get(name)
        if old is not None and old.alive:
            raise InputError(f"{name} is running", remedy="stop it or let it crash first")
        config = replace(self.config, connect_protocol=protocol) if protocol else self.config
        worker = new_worker(config, f"http://{name}/")
        if holding:
            held = Assignment(version_of(worker.protocol), "", "", self.topic.offset, holding)
            worker = replace(worker, held=held, running=holding)
        process = Process(name, worker)
        self.stays.append(Stayed(name, self.now_ms, None))
        for unit in holding:
            self.observer.start_unit(process, unit, self.now_ms)
        self.processes[name] = process
        self._deliver(process, Start(self.topic))

    def stop(self, name: str) -> None:
        """A process is asked to stop: it stops its units, leaves the group, and ends."""
        process = self._alive(name)
        self._deliver(process, Stop())
        self._end(process)

    def crash(self, name: str) -> None:
        """A process is killed: its group notices when its session ends."""
        self._end(self._alive(name))

    def fail(self, name: str) -> None:
        """The thread of a worker dies of an exception: the process lives on, with what runs in it."""
        self._deliver(self._alive(name), ThreadFailed("an exception in its thread"))

    def bounce(self, name: str, away_ms: int) -> None:
        """A process stops, and another one like it starts after some time."""
        protocol = self._alive(name).worker.config.connect_protocol
        self.stop(name)
        self._away += 1
        self.agenda.later(away_ms, lambda: self._return(name, protocol))

    def freeze(self, name: str) -> None:
        """A process pauses with its units, and receives nothing until it is thawed."""
        process = self._alive(name)
        process.frozen = True
        process.judge()

    def thaw(self, name: str) -> None:
        """The process resumes, and receives the inputs of the meantime."""
        process = self._alive(name)
        if not process.frozen:
            raise InputError(f"{name} is not frozen", remedy="freeze it first")
        process.frozen = False
        waiting, process.waiting = process.waiting, []
        self._deliver(process, Tick())
        for incoming in waiting:
            self._deliver(process, incoming)

    def cut(self, name: str) -> None:
        """A process loses its connection to the broker."""
        process = self._alive(name)
        process.cut = True
        self._deliver_later(process, CoordinatorLost())

    def heal(self, name: str) -> None:
        """The connection is back."""
        process = self._alive(name)
        if not process.cut:
            raise InputError(f"{name} is not cut", remedy="cut it first")
        process.cut = False
        self._deliver_later(process, CoordinatorFound())

    # Stimuli: connectors

    def begin(self, task_counts: Mapping[str, int], offset: int) -> None:
        """The config topic before anything happens, all tasks with their configs."""
        self.connectors.begin(dict(task_counts), offset)

    def create(self, connector: str, tasks: int) -> None:
        """A user creates a connector; its tasks get their configs once its instance has started."""
        self._publish(self.connectors.put(connector, tasks))

    def scale(self, connector: str, tasks: int) -> None:
        """A user changes the number of tasks: the instance is restarted where it runs and publishes their configs."""
        self._publish(self.connectors.put(self.connectors.require(connector), tasks))

    def reconfigure(self, connector: str) -> None:
        """The tasks of a connector get new configs, as many as before."""
        self._publish(self.connectors.reconfigure(connector, self.now_ms))

    def delete(self, connector: str) -> None:
        """A user deletes a connector."""
        self._publish(self.connectors.delete(connector))

    def stop_connector(self, connector: str) -> None:
        """A user stops a connector: it keeps its instance and loses its tasks."""
        self._publish(self.connectors.stop(connector))

    def pause(self, connector: str) -> None:
        """A user pauses a connector: it and its tasks keep their places."""
        self._publish(self.connectors.pause(connector))

    def resume(self, connector: str) -> None:
        """A user resumes a connector that was paused or stopped."""
        self._publish(self.connectors.resume(connector))

    def restart(self, connector: str) -> None:
        """A user requests a restart of a connector and its tasks; every worker gets the request."""
        plan = tuple(sorted(u for u in self.topic.units if u.connector == self.connectors.require(connector)))
        for process in self.list_living():
            self._deliver_later(process, RestartRequested(plan))

    # Stimuli: the broker

    def broker_down(self) -> None:
        """The broker goes away, its groups with it: connections break."""
        self.broker_up = False
        self.unanswered.clear()
        for process in self.list_living():
            self._deliver_later(process, CoordinatorLost())

    def broker_back(self) -> None:
        """The broker is back, with its stored groups."""
        if self.broker_up:
            raise InputError("the broker is up", remedy="take it down first")
        self.broker_up = True
        for process in self.processes.values():
            if process.alive and process.worker.state is State.DISCONNECTED:
                self._deliver_later(process, CoordinatorFound())
        self._watch_broker()

    # Time

    def run_for(self, ms: int) -> None:
        """Runs for this many milliseconds."""
        self.agenda.run_for(ms, self._check)

    def settle(self, most_ms: int = 3_600_000) -> bool:
        """Runs until no round was computed for a while and `is_settled`; False if that does not happen.

        The while is the longest time until a dead member is noticed: its session, and a heartbeat of the others.
        """
        quiet_ms = self.config.session_timeout_ms + self.config.heartbeat_interval_ms + UNHURRIED_MS
        until_ms = self.now_ms + most_ms
        while self.now_ms < until_ms:
            before = len(self.rounds)
            self.run_for(quiet_ms)
            if before == len(self.rounds) and self.is_settled:
                return True
        return False

    # Queries

    @property
    def is_settled(self) -> bool:
        """Whether every worker whose herder runs is assigned, no delay runs, and no bounced one is still away."""
        return not self._away and all(p.worker.state is State.ASSIGNED for p in self.list_living() if p.herder)

    def assignments(self) -> dict[str, Units]:
        """The units that the workers hold, by name."""
        return {p.name: p.worker.holds for p in sorted(self.list_living(), key=lambda p: p.name)}

    def find_problems(self) -> list[str]:
        """The violated invariants of the settled cluster."""
        return list(broken_at_rest(self.group(), self.config.profile))

    def picture(self, start_ms: int = 0) -> Picture:
        """The timeline of the cluster from an instant on."""
        now_ms = self.now_ms
        bars = (Bar(r.unit, r.worker, r.start_ms, now_ms if r.end_ms is None else r.end_ms) for r in self.ran)
        stays = (Stay(s.worker, s.start_ms, now_ms if s.end_ms is None else s.end_ms) for s in self.stays)
        marks = tuple(Mark(r.now_ms, r.generation, r.leader, r.delay_ms) for r in self.rounds)
        waits = delays(((r.now_ms, r.delay_ms) for r in self.rounds), now_ms)
        return Picture(start_ms, now_ms, tuple(sorted(bars)), waits, marks, tuple(sorted(stays)))

    def _alive(self, name: str) -> Process:
        process = self.processes.get(name)
        if process is None or not process.alive:
            raise InputError(f"no worker {name} is running", remedy="start it first")
        return process

    def _return(self, name: str, protocol: str) -> None:
        self._away -= 1
        self.start(name, protocol)

    def _end(self, process: Process) -> None:
        process.alive = False
        self._stop_everything(process)
        self.observer.note_end(process, self.now_ms)
