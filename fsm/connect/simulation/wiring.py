"""The connections of a simulated cluster: executes effects, carries requests to the broker and answers back; and its
connectors, which workers read in the config topic.

There are no decisions here: a worker's step returns effects, the coordinator answers, and every message takes its time
on the agenda. Actions of users are in `cluster`.

A connector is in the topic from its creation on. Its tasks come later: their number is written when the instance runs
and has requested it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.simulation.invariants import Group
from fsm.connect.simulation.observer import Observer
from fsm.connect.simulation.process import Ended, Latencies, Process
from fsm.connect.simulation.trace import WorkerTrace
from fsm.connect.units import Unit, Units
from fsm.connect.worker import inputs
from fsm.connect.worker.inputs import Change, ConfigChange
from fsm.connect.worker.step import due_ms, step
from fsm.coordinator.host import Host
from fsm.coordinator.model.step import Answer
from fsm.errors import InputError
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.member.timers import NEVER
from fsm.nodes import nearest
from fsm.protocol import messages
from fsm.trace import Kind


class Connectors:
    """The users' requests, beside the config topic; every change of the topic increases its offset by one."""

    def __init__(self) -> None:
        self.topic = ConfigSnapshot(0)
        self.wanted: dict[str, int] = {}
        """Connectors with the number of tasks that their users request."""
        self.stopped: set[str] = set()
        """Connectors that have no tasks until they are resumed."""
        self.paused: set[str] = set()
        """Connectors that are idle until they are resumed, but keep their workers."""
        self.written_ms: dict[str, int] = {}
        """When the configs of each connector's tasks were last written."""

    def begin(self, task_counts: dict[str, int], offset: int) -> None:
        """Sets the initial content of the topic."""
        self.wanted = dict(task_counts)
        self.topic = ConfigSnapshot(offset, tuple(sorted(task_counts.items())))

    def put(self, name: str, tasks: int) -> ConfigChange:
        """Adds a connector, or changes the config of one, possibly with another number of tasks."""
        if tasks < 0:
            raise InputError(f"{name} cannot have {tasks} tasks", remedy="0 or more")
        self.wanted[name] = tasks
        return self._write({name: 0, **self._counts()}, ConfigChange(name, Change.CONFIG))

    def reconfigure(self, name: str, now_ms: int) -> ConfigChange:
        """Changes the configs of a connector's tasks, but not their number."""
        self.written_ms[self.require(name)] = now_ms
        return self._write(self._counts(), ConfigChange(name, Change.TASKS))

    def delete(self, name: str) -> ConfigChange:
        """Deletes the connector with its tasks."""
        del self.wanted[self.require(name)]
        self._goes_on(name)
        return self._write({n: c for n, c in self._counts().items() if n != name}, ConfigChange(name, Change.REMOVED))

    def stop(self, name: str) -> ConfigChange:
        """The connector keeps its instance and loses its tasks."""
        self.stopped.add(self.require(name))
        return self._write({**self._counts(), name: 0}, ConfigChange(name, Change.STOPPED))

    def pause(self, name: str) -> ConfigChange:
        """The connector and its tasks pause where they are."""
        self.paused.add(self.require(name))
        return self._write(self._counts(), ConfigChange(name, Change.PAUSED_OR_RESUMED))

    def resume(self, name: str) -> ConfigChange:
        """A paused connector resumes where it is; a stopped one will request its tasks again."""
        if self.require(name) not in self.paused | self.stopped:
            raise InputError(f"{name} is neither paused nor stopped", remedy="pause it or stop it first")
        self._goes_on(name)
        return self._write(self._counts(), ConfigChange(name, Change.PAUSED_OR_RESUMED))

    def publish(self, name: str, now_ms: int) -> ConfigChange | None:
        """Writes the number of tasks that the instance of a connector requests; None if the topic already has it."""
        tasks = self.wanted.get(name)
        if tasks is None or name in self.stopped or self._counts().get(name) == tasks:
            return None
        self.written_ms[name] = now_ms
        return self._write({**self._counts(), name: tasks}, ConfigChange(name, Change.TASKS))

    def require(self, name: str) -> str:
        """The name, if there is such a connector. Raises `InputError` otherwise."""
        if name not in self.wanted:
            raise InputError(f"there is no connector {name}", remedy=nearest(name, sorted(self.wanted)))
        return name

    def _goes_on(self, name: str) -> None:
        self.paused.discard(name)
        self.stopped.discard(name)

    def _counts(self) -> dict[str, int]:
        return dict(self.topic.task_counts)

    def _write(self, counts: dict[str, int], change: ConfigChange) -> ConfigChange:
        self.topic = ConfigSnapshot(self.topic.offset + 1, tuple(sorted(counts.items())))
        return change


REQUEST_TIMEOUT_MS = 40_000
"""Connect's default request timeout."""
JOIN_LAPSE_MS = 5_000
"""The time that a worker waits for a join beyond the rebalance timeout."""


class Wiring:
    """Processes, broker and config topic, and the connections between them.

    The coordinator knows nothing of Connect: a worker is a member of a classic group of protocol type `connect`.
    """

    def __init__(self, latencies: Latencies) -> None:
        self.latencies = latencies
        self.host = Host()
        self.unanswered: dict[int, tuple[Process, inputs.Send, int]] = {}
        """By the token of a request: its process, the request, and when it was sent."""
        self._sent = 0
        self._groups = self.host.state.groups
        """The groups at the last check for expelled members."""
        self.broker_up = True
        """Whether the broker can be reached."""
        self.agenda = Agenda()
        self.observer = seen = Observer()
        self.rounds, self.steps, self.ran = seen.rounds, seen.steps, seen.ran
        self.stays, self.ends, self.broken = seen.stays, seen.ends, seen.broken
        self.connectors = Connectors()
        self.processes: dict[str, Process] = {}
        self.stubborn: set[Unit] = set()
        """Tasks that do not stop when requested."""
        self.unreadable: set[str] = set()
        """Workers that cannot read the config topic."""
        self.trace: WorkerTrace | None = None
        self.arrives: Callable[[str, bool], bool] = lambda _name, _is_answer: True
        """Decides whether each message of a worker, and each answer to it, arrives."""
        self.on_send: Callable[[messages.ClassicRequest], None] = lambda _: None
        """Called with each request."""

    @property
    def now_ms(self) -> int:
        """The present instant."""
        return self.agenda.now_ms

    @property
    def topic(self) -> ConfigSnapshot:
        """The current config topic."""
        return self.connectors.topic

    def list_living(self) -> Iterable[Process]:
        """The processes that have not ended."""
        return (p for p in self.processes.values() if p.alive)

    def group(self) -> Group:
        """The cluster for the invariants."""
        living = list(self.list_living())
        return Group(
            self.topic.units,
            {p.name: p.worker.holds for p in living if p.worker.is_member},
            {p.name: tuple(p.running) for p in living},
            [p.name for p in living if p.zombie or self.stubborn & p.running.keys()],
        )

    def _check(self) -> None:
        """Checks for units that run twice, whenever running units may have changed."""
        if self.observer.moved:
            self.observer.check_running(self.group(), self.now_ms)

    # Workers

    def _deliver_later(self, process: Process, incoming: inputs.WorkerInput, ms: int | None = None) -> None:
        """Delivers the input after the network's latency, or the given one."""
        self.agenda.later(self.latencies.network_ms if ms is None else ms, lambda: self._deliver(process, incoming))

    def _deliver(self, process: Process, incoming: inputs.WorkerInput) -> None:
        """Delivers the input now; a frozen process gets it when it resumes."""
        if not process.alive or not process.herder:
            return
        if process.frozen:
            process.waiting.append(incoming)
            return
        before = process.worker
        process.worker, effects = step(before, incoming, self.now_ms)
        if isinstance(incoming, inputs.Answered) and isinstance(incoming.answer, messages.JoinGroupResponse):
            self.observer.check_join(process, before, incoming.answer, self.now_ms)
        if self.trace is not None:
            self.trace.step(process, before, incoming, effects, self.now_ms)
        for effect in effects:
            self._carry_out(process, effect)
        if self.trace is not None and isinstance(incoming, inputs.Stop):
            self.trace.write(process, Kind.CLOSE_END, self.now_ms)
        self.observer.check_step(process, before, self.now_ms)
        was = process.zombie
        process.judge()
        self.observer.moved |= was != process.zombie
        self._watch(process)

    def _watch(self, process: Process) -> None:
        """Schedules the worker's next tick; a new one replaces the old one."""
        due = due_ms(process.worker)
        if due >= NEVER or process.tick_ms == due:
            return
        process.tick_ms = due

        def tick() -> None:
            if process.tick_ms == due:
                process.tick_ms = NEVER
                self._deliver(process, Tick())

        self.agenda.later(max(0, due - self.now_ms), tick)

    def _carry_out(self, process: Process, effect: inputs.WorkerEffect) -> None:
        match effect:
            case inputs.Taken():
                self.steps.append((self.now_ms, process.name, effect))
            case inputs.Send():
                self._send(process, effect)
            case inputs.FindCoordinator() if self.broker_up and not process.cut:
                self._deliver_later(process, CoordinatorFound())
            case inputs.ReadConfigToEnd() if process.name not in self.unreadable:
                self.agenda.later(self.latencies.read_ms, lambda: self._deliver(process, inputs.ReadToEnd(self.topic)))
            case inputs.HerderEnded():
                process.herder = False
                self.ends.append(Ended(self.now_ms, process.name, effect.reason))
            case _:
                self._do_with_units(process, effect)

    # Units

    def _do_with_units(self, process: Process, effect: inputs.WorkerEffect) -> None:
        match effect:
            case inputs.RestartUnits():
                self._restart_units(process, effect.units)
            case inputs.RestartConnector():
                self._restart_units(process, (Unit(effect.connector),))
            case inputs.ApplyTargetState() if Unit(effect.connector) in process.running:
                self._publish_soon(effect.connector)
            case inputs.StartUnits():
                self.observer.check_start(process, self.stubborn, self.now_ms)
                self._start_units(process, effect.units)
                self._deliver_later(process, inputs.UnitsStarted(), self.latencies.start_ms)
            case inputs.StopUnits():
                outlived = self._stop_units(process, effect.units)
                if effect.wait:
                    graceful_ms = process.worker.config.task_shutdown_graceful_timeout_ms
                    self._deliver_later(
                        process, inputs.UnitsStopped(), graceful_ms if outlived else self.latencies.stop_ms
                    )
            case inputs.StopEverything():
                self._stop_everything(process)
            case _:
                pass

    def _start_units(self, process: Process, units: Units) -> None:
        for unit in units:
            if unit in process.running:
                continue  # the start fails, and the old instance keeps running
            self.observer.start_unit(process, unit, self.now_ms)
            if self.trace is not None:
                self.trace.start_unit(process, unit, self.now_ms)
            if unit.is_connector:
                self._publish_soon(unit.connector)

    def _stop_units(self, process: Process, units: Units) -> bool:
        """Stops units; returns whether some outlive it."""
        running = [unit for unit in units if unit in process.running]
        for unit in running:
            if unit not in self.stubborn:
                self._stop_unit(process, unit)
        return not self.stubborn.isdisjoint(running)

    def _restart_units(self, process: Process, units: Units) -> None:
        self._stop_units(process, units)
        self._start_units(process, units)

    def _stop_everything(self, process: Process) -> None:
        for unit in list(process.running):
            self._stop_unit(process, unit)

    def _stop_unit(self, process: Process, unit: Unit) -> None:
        self.observer.stop_unit(process, unit, self.now_ms)
        if self.trace is not None and process.alive:
            self.trace.stop_unit(process, unit, self.now_ms)

    # The config topic

    def _publish(self, change: inputs.ConfigChange) -> None:
        """Sends a change of the config topic to every worker that can read it."""
        for process in self.list_living():
            if process.name not in self.unreadable:
                self._deliver_later(process, inputs.ConfigTopicAdvanced(self.topic, (change,)))

    def _publish_soon(self, connector: str) -> None:
        self.agenda.later(self.latencies.task_configs_ms, lambda: self._publish_tasks(connector))

    def _publish_tasks(self, connector: str) -> None:
        """Writes the tasks that the instance of a connector requests, if it still runs."""
        runs = any(Unit(connector) in p.running for p in self.list_living())
        change = self.connectors.publish(connector, self.now_ms) if runs else None
        if change is not None:
            self._publish(change)

    # The network

    def _send(self, process: Process, effect: inputs.Send) -> None:
        if isinstance(effect.body, messages.SyncGroupRequest):
            workers = {name: each.worker for name, each in self.processes.items()}
            self.observer.check_sync(process, effect.body, self.now_ms, workers)
        self.on_send(effect.body)
        sent_ms = self.now_ms
        if not self.broker_up or process.cut:
            self._deliver_later(process, inputs.Answered(effect.number, messages.DISCONNECTED))
        elif self.arrives(process.name, False):
            self.agenda.later(self.latencies.network_ms, lambda: self._receive(process, effect, sent_ms))
        else:
            self._time_out(process, effect, sent_ms)

    def _time_out(self, process: Process, effect: inputs.Send, sent_ms: int) -> None:
        """No answer comes: the request times out."""
        waits_ms = REQUEST_TIMEOUT_MS
        if isinstance(effect.body, messages.JoinGroupRequest):
            waits_ms = max(waits_ms, process.worker.config.rebalance_timeout_ms + JOIN_LAPSE_MS)
        left_ms = max(0, sent_ms + waits_ms - self.now_ms)
        self._deliver_later(process, inputs.Answered(effect.number, messages.DISCONNECTED), left_ms)

    def _receive(self, process: Process, effect: inputs.Send, sent_ms: int) -> None:
        if not self.broker_up or process.cut:
            self._deliver_later(process, inputs.Answered(effect.number, messages.DISCONNECTED))
            return
        token = self._sent = self._sent + 1
        self.unanswered[token] = process, effect, sent_ms
        client_id, made = f"connect-{process.name}", f"{token:08d}"
        self._answer(self.host.send(client_id, effect.body, None, self.now_ms, fresh_id=made, token=token).answers)

    def _answer(self, answers: tuple[Answer, ...]) -> None:
        self._note_expelled()
        for token, body in answers:
            waiting = self.unanswered.pop(token, None)
            if waiting is None or waiting[0].cut or not isinstance(body, messages.ClassicResponse):
                continue
            process, effect, sent_ms = waiting
            if self.arrives(process.name, True):
                self._deliver_later(process, inputs.Answered(effect.number, body))
            else:
                self._time_out(process, effect, sent_ms)
        self._watch_broker()

    def _note_expelled(self) -> None:
        """Notes workers whose session has expired; they learn of it with their next request."""
        groups = self.host.state.groups
        if groups is self._groups:
            return
        self._groups = groups
        for process in self.list_living():
            worker = process.worker
            group = groups.get(worker.config.group_id)
            if worker.is_member and process.running and (group is None or worker.member_id not in group.members):
                process.expel()

    def _watch_broker(self) -> None:
        """Advances the coordinator to its next deadline."""
        deadline_ms = self.host.next_deadline_ms()
        if deadline_ms is None:
            return

        def tick() -> None:
            due_ms = self.host.next_deadline_ms()
            if self.broker_up and due_ms is not None and due_ms <= self.now_ms:
                self._answer(self.host.expire(self.now_ms))

        self.agenda.later(max(0, deadline_ms - self.now_ms), tick)


class Agenda:
    """The current time, and all scheduled events."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._entered = 0
        self._coming: list[tuple[int, int, Callable[[], None]]] = []

    def later(self, ms: int, act: Callable[[], None]) -> None:
        """Schedules an event in this many milliseconds."""
        self._entered += 1
        heappush(self._coming, (self.now_ms + ms, self._entered, act))

    def run_for(self, ms: int, after_each: Callable[[], None]) -> None:
        """Executes all events within this many milliseconds; calls `after_each` after each event."""
        until_ms = self.now_ms + ms
        while self._coming and self._coming[0][0] <= until_ms:
            self.now_ms, _, act = heappop(self._coming)
            act()
            after_each()
        self.now_ms = until_ms
