"""What lies between the workers of a simulated cluster: effects carried out, requests brought to the broker and back.

Nothing here decides anything: a worker's step tells what is to be done, the coordinator what is answered, and every
way takes its time on the agenda. What users do to a cluster is in `cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from fsm.connect.simulation.connectors import Connectors
from fsm.connect.simulation.invariants import Group
from fsm.connect.simulation.observer import Observer
from fsm.connect.simulation.process import Latencies, Process
from fsm.connect.simulation.trace import WorkerTrace
from fsm.connect.units import Unit, Units
from fsm.connect.worker.inputs import (
    Answered,
    ApplyTargetState,
    ConfigChange,
    ConfigTopicAdvanced,
    FindCoordinator,
    HerderEnded,
    ReadConfigToEnd,
    ReadToEnd,
    RestartConnector,
    RestartUnits,
    Send,
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
from fsm.connect.worker.step import due_ms, step
from fsm.coordinator.host import Host
from fsm.coordinator.model.step import Answer
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.member.timers import NEVER
from fsm.protocol.messages import (
    DISCONNECTED,
    ClassicRequest,
    ClassicResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from fsm.trace import Kind

REQUEST_TIMEOUT_MS = 40_000
"""Of Connect, by default: so long an answer is waited for."""
JOIN_LAPSE_MS = 5_000
"""A join is waited for so much longer than the others may take."""


class Wiring:
    """Processes, broker and config topic, and the ways between them.

    The coordinator knows nothing of Connect: a worker is a member of a classic group of protocol type `connect`.
    """

    def __init__(self, latencies: Latencies) -> None:
        self.latencies = latencies
        self.host = Host()
        self.unanswered: dict[int, tuple[Process, Send, int]] = {}
        """By the token of a request, whose it is, what it is, and when it was sent."""
        self._sent = 0
        self._groups = self.host.state.groups
        """As they were when it was last looked who is no member any more."""
        self.broker_up = True
        self.agenda = Agenda()
        self.observer = Observer()
        self.connectors = Connectors()
        self.processes: dict[str, Process] = {}
        self.stubborn: set[Unit] = set()
        """Tasks that do not stop when told to."""
        self.unreadable: set[str] = set()
        """Workers that cannot read the config topic."""
        self.trace: WorkerTrace | None = None
        self.arrives: Callable[[str, bool], bool] = lambda _name, _is_answer: True
        """Asked of each message of a worker, and of each answer to it."""
        self.on_send: Callable[[ClassicRequest], None] = lambda _: None
        """Called with each request."""

    def living(self) -> Iterable[Process]:
        """The processes that have not ended."""
        return (p for p in self.processes.values() if p.alive)

    def group(self) -> Group:
        """The cluster for the invariants."""
        living = list(self.living())
        return Group(
            self.connectors.topic.units,
            {p.name: p.worker.holds for p in living if p.worker.is_member},
            {p.name: tuple(p.running) for p in living},
            [p.name for p in living if p.zombie or self.stubborn & p.running.keys()],
        )

    def check(self) -> None:
        """Looks for what runs twice, whenever what runs where may have changed."""
        if self.observer.moved:
            self.observer.check_running(self.group(), self.agenda.now_ms)

    # Workers

    def deliver_later(self, process: Process, incoming: WorkerInput, ms: int | None = None) -> None:
        """The input reaches the process after the network's latency, or the one given."""
        self.agenda.later(self.latencies.network_ms if ms is None else ms, lambda: self.deliver(process, incoming))

    def deliver(self, process: Process, incoming: WorkerInput) -> None:
        """The input reaches the process now; one that is frozen gets it when it goes on."""
        if not process.alive or not process.herder:
            return
        if process.frozen:
            process.waiting.append(incoming)
            return
        before = process.worker
        process.worker, effects = step(before, incoming, self.agenda.now_ms)
        if isinstance(incoming, Answered) and isinstance(incoming.answer, JoinGroupResponse):
            self.observer.check_join(process, before, incoming.answer, self.agenda.now_ms)
        if self.trace is not None:
            self.trace.step(process, before, incoming, effects, self.agenda.now_ms)
        for effect in effects:
            self._carry_out(process, effect)
        if self.trace is not None and isinstance(incoming, Stop):
            self.trace.write(process, Kind.CLOSE_END, self.agenda.now_ms)
        self.observer.check_step(process, before, self.agenda.now_ms)
        was = process.zombie
        process.judge()
        self.observer.moved |= was != process.zombie
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
                self.deliver(process, Tick())

        self.agenda.later(max(0, due - self.agenda.now_ms), tick)

    def _carry_out(self, process: Process, effect: WorkerEffect) -> None:
        match effect:
            case Taken():
                self.observer.note_step(process, effect, self.agenda.now_ms)
            case Send():
                self._send(process, effect)
            case FindCoordinator() if self.broker_up and not process.cut:
                self.deliver_later(process, CoordinatorFound())
            case ReadConfigToEnd() if process.name not in self.unreadable:
                self.agenda.later(
                    self.latencies.read_ms, lambda: self.deliver(process, ReadToEnd(self.connectors.topic))
                )
            case HerderEnded():
                process.herder = False
                self.observer.note_failure(process, effect.reason, self.agenda.now_ms)
            case _:
                self._do_with_units(process, effect)

    # Units

    def _do_with_units(self, process: Process, effect: WorkerEffect) -> None:
        match effect:
            case RestartUnits():
                self._restart_units(process, effect.units)
            case RestartConnector():
                self._restart_units(process, (Unit(effect.connector),))
            case ApplyTargetState() if Unit(effect.connector) in process.running:
                self._publish_soon(effect.connector)
            case StartUnits():
                self.observer.check_start(process, self.stubborn, self.agenda.now_ms)
                self._start_units(process, effect.units)
                self.deliver_later(process, UnitsStarted(), self.latencies.start_ms)
            case StopUnits():
                outlived = self._stop_units(process, effect.units)
                if effect.wait:
                    graceful_ms = process.worker.config.task_shutdown_graceful_timeout_ms
                    self.deliver_later(process, UnitsStopped(), graceful_ms if outlived else self.latencies.stop_ms)
            case StopEverything():
                self.stop_everything(process)
            case _:
                pass

    def _start_units(self, process: Process, units: Units) -> None:
        for unit in units:
            if unit in process.running:
                continue  # the start fails, and the old instance goes on
            self.observer.start_unit(process, unit, self.agenda.now_ms)
            if self.trace is not None:
                self.trace.start_unit(process, unit, self.agenda.now_ms)
            if unit.is_connector:
                self._publish_soon(unit.connector)

    def _stop_units(self, process: Process, units: Units) -> bool:
        """Whether some of them outlived it."""
        running = [unit for unit in units if unit in process.running]
        for unit in running:
            if unit not in self.stubborn:
                self._stop_unit(process, unit)
        return not self.stubborn.isdisjoint(running)

    def _restart_units(self, process: Process, units: Units) -> None:
        self._stop_units(process, units)
        self._start_units(process, units)

    def stop_everything(self, process: Process) -> None:
        """Nothing runs in the process any more."""
        for unit in list(process.running):
            self._stop_unit(process, unit)

    def _stop_unit(self, process: Process, unit: Unit) -> None:
        self.observer.stop_unit(process, unit, self.agenda.now_ms)
        if self.trace is not None and process.alive:
            self.trace.stop_unit(process, unit, self.agenda.now_ms)

    # The config topic

    def publish(self, change: ConfigChange) -> None:
        """Every worker that can read the config topic gets to know a change of it."""
        for process in self.living():
            if process.name not in self.unreadable:
                self.deliver_later(process, ConfigTopicAdvanced(self.connectors.topic, (change,)))

    def _publish_soon(self, connector: str) -> None:
        self.agenda.later(self.latencies.task_configs_ms, lambda: self._publish_tasks(connector))

    def _publish_tasks(self, connector: str) -> None:
        """The instance of a connector has told how many tasks it wants, if it still runs."""
        runs = any(Unit(connector) in p.running for p in self.living())
        change = self.connectors.publish(connector, self.agenda.now_ms) if runs else None
        if change is not None:
            self.publish(change)

    # The network

    def _send(self, process: Process, effect: Send) -> None:
        if isinstance(effect.body, SyncGroupRequest):
            workers = {name: each.worker for name, each in self.processes.items()}
            self.observer.check_sync(process, effect.body, self.agenda.now_ms, workers)
        self.on_send(effect.body)
        sent_ms = self.agenda.now_ms
        if not self.broker_up or process.cut:
            self.deliver_later(process, Answered(effect.number, DISCONNECTED))
        elif self.arrives(process.name, False):
            self.agenda.later(self.latencies.network_ms, lambda: self._receive(process, effect, sent_ms))
        else:
            self._time_out(process, effect, sent_ms)

    def _time_out(self, process: Process, effect: Send, sent_ms: int) -> None:
        """Nothing comes back: the worker waits for as long as it waits for an answer."""
        waits_ms = REQUEST_TIMEOUT_MS
        if isinstance(effect.body, JoinGroupRequest):
            waits_ms = max(waits_ms, process.worker.config.rebalance_timeout_ms + JOIN_LAPSE_MS)
        left_ms = max(0, sent_ms + waits_ms - self.agenda.now_ms)
        self.deliver_later(process, Answered(effect.number, DISCONNECTED), left_ms)

    def _receive(self, process: Process, effect: Send, sent_ms: int) -> None:
        if not self.broker_up or process.cut:
            self.deliver_later(process, Answered(effect.number, DISCONNECTED))
            return
        token = self._sent = self._sent + 1
        self.unanswered[token] = process, effect, sent_ms
        client_id, made = f"connect-{process.name}", f"{token:08d}"
        self._answer(
            self.host.send(client_id, effect.body, None, self.agenda.now_ms, fresh_id=made, token=token).answers
        )

    def _answer(self, answers: tuple[Answer, ...]) -> None:
        self._note_expelled()
        for token, body in answers:
            waiting = self.unanswered.pop(token, None)
            if waiting is None or waiting[0].cut or not isinstance(body, ClassicResponse):
                continue
            process, effect, sent_ms = waiting
            if self.arrives(process.name, True):
                self.deliver_later(process, Answered(effect.number, body))
            else:
                self._time_out(process, effect, sent_ms)
        self.watch_broker()

    def _note_expelled(self) -> None:
        """Who was not heard for a session is no member, and learns of it when it is heard again."""
        groups = self.host.state.groups
        if groups is self._groups:
            return
        self._groups = groups
        for process in self.living():
            worker = process.worker
            group = groups.get(worker.config.group_id)
            if worker.is_member and process.running and (group is None or worker.member_id not in group.members):
                process.expel()

    def watch_broker(self) -> None:
        """The coordinator looks at its timers when the next one is due."""
        deadline_ms = self.host.next_deadline_ms()
        if deadline_ms is None:
            return

        def tick() -> None:
            due_ms = self.host.next_deadline_ms()
            if self.broker_up and due_ms is not None and due_ms <= self.agenda.now_ms:
                self._answer(self.host.expire(self.agenda.now_ms))

        self.agenda.later(max(0, deadline_ms - self.agenda.now_ms), tick)


class Agenda:
    """The present instant, and everything that is still to come."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._entered = 0
        self._coming: list[tuple[int, int, Callable[[], None]]] = []

    def later(self, ms: int, act: Callable[[], None]) -> None:
        """Enter what is to happen in so many milliseconds."""
        self._entered += 1
        heappush(self._coming, (self.now_ms + ms, self._entered, act))

    def run_for(self, ms: int, after_each: Callable[[], None]) -> None:
        """Everything that comes within so many milliseconds; `after_each` follows every single act."""
        until_ms = self.now_ms + ms
        while self._coming and self._coming[0][0] <= until_ms:
            self.now_ms, _, act = heappop(self._coming)
            act()
            after_each()
        self.now_ms = until_ms
