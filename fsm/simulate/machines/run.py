"""Machines in virtual time: their events, messages and faults one after the other, under one seed.

Every random choice depends on the seed and on its purpose (for a message: sender, receiver, content and time; for an
external event: machine and number), so that removing a part of a run changes little for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from math import log
from typing import Any

import xxhash

from fsm.cluster.cluster import STARTED_MS
from fsm.errors import IllegalTransition, InputError
from fsm.exchange import Place, Role
from fsm.simulate.deployment import Deed, draw
from fsm.simulate.machines.deployment import NEVER, Delay, Machines
from fsm.simulate.machines.watch import AWAY, Measures, Watched
from fsm.simulate.outcome import PATIENCE, QUIET_MS, GroupOutcome, Outcome, Progress, Truth, Violation, run_to_end
from fsm.table import Kind, Symbol
from fsm.trace import Kind as RecordKind
from fsm.trace import TraceRecord

MOST_UNDER_WAY = 1_000_000
"""Messages and timers at once."""
Entry = tuple[int, int, Callable[..., None], tuple[Any, ...]]
"""Time, sequence number, function, argument."""
STUCK = "nothing can happen any more"
NOT_REACHED = "is not reached"


@dataclass(slots=True)
class Machine:
    """One machine as it runs."""

    name: str
    role: Role
    state: Symbol
    life: int = 0
    """A counter of its changes of state: events that were scheduled before the last one are void."""
    is_away: bool = False
    paused_until_ms: int = 0
    cut_until_ms: int = 0


class MachinesRun:
    def __init__(self, deployment: Machines, seed: int, truth: Truth | None = None) -> None:
        self.deployment, self.seed, self.exchange = deployment, seed, deployment.exchange
        self.now_ms = 0
        self.happened: list[tuple[int, str]] = []
        """External events: the time, and `door-0.PUSHED`."""
        self._violations: dict[tuple[str, str], list[Any]] = {}
        """By role and violation: the first time, the state then, and the count."""
        self.measures = {part.name: Measures(part, deployment.lasts_ms) for part in deployment.parts}
        self.machines = {
            name: Machine(name, role, role.table.compiled.initial) for name, role in self.exchange.role_of.items()
        }
        self.watched = Watched(deployment)
        self._truth = truth
        self._loses, self._duplicates = deployment.loses, deployment.duplicates
        self._losses: list[tuple[int, float]] = []
        """Running faults that lose messages: the end and the share of each."""
        self._queue: list[Entry] = []
        self._room = 4_096
        """The number of entries at which void ones are dropped."""
        self._numbers = count()
        self._stands_still = False
        self._drawn: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], int] = {}
        """When the last message between two machines arrives."""
        self._sent: dict[tuple[str, str, str], tuple[int, int]] = {}
        """When a message was sent last, and how often at that instant."""
        self._events = {part.name: {event.name: event for event in part.table.alphabet} for part in deployment.parts}
        self._delays = {part.name: part.happens for part in deployment.parts}
        self._outside = {part.name: _index_timed(part.table, part.happens) for part in deployment.parts}

    def begin(self, deeds: Iterable[Deed]) -> None:
        """Enters the initial state of all machines."""
        for deed in deeds:
            self._put(deed.at_ms, self._do, deed)
        for machine in self.machines.values():
            self._enter(machine, machine.state)

    def run(self, until_ms: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            self.now_ms, _, happen, given = heappop(queue)
            happen(*given)
        if not self._stands_still and not self.deployment.is_scripted and not any(map(self._matters, queue)):
            self._stands_still = True
            self._judge_standstill()
        self.now_ms = max(self.now_ms, until_ms)

    def settle(self) -> None:
        """Stops all faults: the goal, if there is one, has to be reached."""
        if not self.deployment.goal or self._stands_still:
            return
        self._truth, self._loses, self._duplicates = None, 0.0, 0.0
        self._losses.clear()
        self._queue = sorted(one for one in self._queue if one[2] != self._do)
        for machine in self.machines.values():
            machine.paused_until_ms = machine.cut_until_ms = self.now_ms
            if machine.is_away:
                self._bring_back(machine.name, machine.life)
        delays = [delay.most_ms for part in self.deployment.parts for delay in part.happens.values()]
        quiet_ms = max(QUIET_MS, *delays, 1)
        self.watched.seek_goal()
        for _ in range(PATIENCE):
            until_ms = self.now_ms + quiet_ms
            while self._queue and self._queue[0][0] <= until_ms and not self.watched.goal_is_reached:
                self.now_ms, _, happen, given = heappop(self._queue)
                happen(*given)
            if self.watched.goal_is_reached:
                return
            self.now_ms, quiet_ms = until_ms, 2 * quiet_ms
        self._add(self.deployment.parts[0].name, f"{self.deployment.goal} {NOT_REACHED}")

    # Events

    def _do(self, deed: Deed) -> None:
        if deed.what == "lose":
            lasting = [one for one in self._losses if one[0] > self.now_ms]
            self._losses = [*lasting, (self.now_ms + deed.for_ms, deed.amount)]
            return
        owner, _, event = deed.target.rpartition(".") if deed.what == "event" else (deed.target, "", "")
        for name in self.deployment.machines_of(owner):
            machine, until_ms = self.machines[name], self.now_ms + deed.for_ms
            if deed.what == "event":
                self._happen(machine, self._events[machine.role.name][event])
            elif deed.what == "pause":
                machine.paused_until_ms = max(machine.paused_until_ms, until_ms)
            elif deed.what == "cut":
                machine.cut_until_ms = max(machine.cut_until_ms, until_ms)
            else:
                self._go(machine, until_ms, forgets=deed.what == "crash")

    def _go(self, machine: Machine, until_ms: int, *, forgets: bool) -> None:
        """Crashes a machine, and restarts it after a time."""
        if not machine.is_away:
            self._leave(machine)
            self.measures[machine.role.name].enter(AWAY, self.now_ms)
        machine.is_away = True
        machine.life += 1
        machine.paused_until_ms = 0
        if forgets:
            machine.state = machine.role.table.compiled.initial
        self._put(until_ms, self._bring_back, machine.name, machine.life)

    def _bring_back(self, name: str, life: int) -> None:
        machine = self.machines[name]
        if machine.is_away and machine.life == life:
            machine.is_away = False
            self.measures[machine.role.name].enter(AWAY, self.now_ms, -1)
            self._enter(machine, machine.state)

    def _happen(self, machine: Machine, event: Symbol) -> None:
        """Takes an external event if there is a row for it."""
        if machine.is_away or machine.role.table.kind(machine.state, event) is not Kind.ROW:
            return
        if machine.paused_until_ms > self.now_ms:
            self._put(machine.paused_until_ms, self._happen, machine, event)
            return
        self.happened.append((self.now_ms, f"{machine.name}.{event.name}"))
        self._take(machine, event, "")

    def _ring(self, machine: Machine, event: Symbol, life: int) -> None:
        """Takes a scheduled external event unless the machine has changed its state since."""
        if machine.life != life:
            return
        if machine.paused_until_ms > self.now_ms:
            self._put(machine.paused_until_ms, self._ring, machine, event, life)
            return
        self._happen(machine, event)
        if machine.life == life:  # a row that stays
            self._wind(machine, event)

    def _arrive(self, machine: Machine, sender: str, message: str) -> None:
        if machine.is_away:
            self.measures[self.machines[sender].role.name].count("lost", self.now_ms)
        elif machine.paused_until_ms > self.now_ms:
            self._put(machine.paused_until_ms, self._arrive, machine, sender, message)
        else:
            self._take(machine, self._events[machine.role.name][message], sender)

    def _take(self, machine: Machine, event: Symbol, sender: str) -> None:
        """One step of a machine; an event without a cell is a violation."""
        role, before = machine.role, machine.state
        try:
            cell = role.table.compiled[before, event]
        except IllegalTransition as refused:
            self._add(role.name, str(refused))
            return
        if cell.ignored:
            return
        self.measures[role.name].count("transitions", self.now_ms)
        if self._truth is not None:
            self._record_step(machine, before, event, cell.target, cell.effects)
        if cell.path:
            self._leave(machine)
            self._enter(machine, cell.target)
        for receiver, message in self.exchange.address(machine.name, cell.effects, sender):
            self._send(machine, self.machines[receiver], message)

    def _leave(self, machine: Machine) -> None:
        self.measures[machine.role.name].enter(machine.state.name, self.now_ms, -1)
        self.watched.leave(machine.name, machine.state)

    def _enter(self, machine: Machine, state: Symbol) -> None:
        machine.state = state
        machine.life += 1
        self.measures[machine.role.name].enter(state.name, self.now_ms)
        for broken in self.watched.enter(machine.name, state):
            self._add(machine.role.name, broken.text, broken.places)
        for event in self._outside[machine.role.name].get(state, ()):
            self._wind(machine, event)

    def _wind(self, machine: Machine, event: Symbol) -> None:
        """Schedules an external event."""
        what = machine.name, event.name
        number = self._drawn[what] = self._drawn.get(what, -1) + 1
        length_ms = _length(self._delays[machine.role.name][event.name], draw(self.seed, *what, number))
        self._put(self.now_ms + length_ms, self._ring, machine, event, machine.life)

    # Messages

    def _send(self, sender: Machine, receiver: Machine, message: str) -> None:
        measures = self.measures[sender.role.name]
        measures.count("messages", self.now_ms)
        lost, takes_ms, again_ms = self._fate(sender.name, receiver.name, message)
        if lost or max(sender.cut_until_ms, receiver.cut_until_ms) > self.now_ms:
            measures.count("lost", self.now_ms)
            return
        wire, at_ms = (sender.name, receiver.name), self.now_ms + takes_ms
        if not self.deployment.reorders:
            at_ms = self._last[wire] = max(at_ms, self._last.get(wire, 0))
        self._put(at_ms, self._arrive, receiver, sender.name, message)
        if again_ms:
            self._put(at_ms + again_ms, self._arrive, receiver, sender.name, message)

    def _fate(self, sender: str, receiver: str, message: str) -> tuple[bool, int, int]:
        """Whether a message is lost, its latency, and the delay of its duplicate; 0 for none."""
        key = sender, receiver, message
        last_ms, times = self._sent.get(key, (-1, 0))
        times = times + 1 if last_ms == self.now_ms else 0
        self._sent[key] = self.now_ms, times
        text = f"{sender} {receiver} {message} {self.now_ms} {times}".encode()
        first, second = (xxhash.xxh3_64_intdigest(text + end, self.seed) for end in (b"", b" again"))
        latency = self.deployment.latency
        loses = max([self._loses, *(share for until_ms, share in self._losses if until_ms > self.now_ms)])
        lost = (first & 0xFFFFFFFF) < loses * 0x1_0000_0000
        doubled = (second & 0xFFFFFFFF) < self._duplicates * 0x1_0000_0000
        return lost, latency.at((first >> 32) / 0x1_0000_0000), doubled * latency.at((second >> 32) / 0x1_0000_0000)

    def _put(self, at_ms: int, happen: Callable[..., None], *given: Any) -> None:
        if len(self._queue) >= self._room:
            self._queue[:] = filter(self._matters, self._queue)
            heapify(self._queue)
            self._room = max(self._room, 2 * len(self._queue))
        if len(self._queue) >= MOST_UNDER_WAY:
            raise InputError(
                f"more than {MOST_UNDER_WAY:,} messages and timers at once", self.deployment.name, "reduce them"
            )
        heappush(self._queue, (at_ms, next(self._numbers), happen, given))

    def _matters(self, entry: Entry) -> bool:
        """Whether the entry is not void, as timers of a machine that has changed its state since."""
        _, _, happen, given = entry
        return happen != self._ring or given[0].life == given[2]

    # Judgement

    def _add(self, role: str, what: str, places: tuple[Place, ...] = ()) -> None:
        if (role, what) not in self._violations:
            self._violations[role, what] = [self.now_ms, self._describe(places), 0]
        self._violations[role, what][2] += 1

    def violations(self, role: str) -> list[Violation]:
        """The violations, each once."""
        return [
            Violation(at_ms, what, f"{detail} ({times} times)" if times > 1 else detail)
            for (owner, what), (at_ms, detail, times) in self._violations.items()
            if owner == role
        ]

    def _judge_standstill(self) -> None:
        machines = self.machines.values()
        over = all(machine.state in machine.role.table.compiled.terminal for machine in machines)
        if not (self.watched.is_at_goal() if self.deployment.goal else over):
            self._add(self.deployment.parts[0].name, STUCK)

    def _describe(self, places: tuple[Place, ...]) -> str:
        """The states of the machines, or of those in these places; at most some of them."""
        taking = {name for place in places for name in place.machines if self.machines[name].state in place.leaves}
        shown = [one for one in self.machines.values() if not places or (one.name in taking and not one.is_away)]
        there = [f"{one.name} {AWAY if one.is_away else one.state.name}" for one in shown]
        return ", ".join(there[:6]) + (f" and {len(there) - 6} more" if len(there) > 6 else "")

    def _record_step(
        self, machine: Machine, state: Symbol, event: Symbol, target: Symbol, effects: tuple[Symbol, ...]
    ) -> None:
        assert self._truth is not None  # noqa: S101  # its caller has looked
        record = TraceRecord(
            STARTED_MS + self.now_ms,
            RecordKind.TRANSITION,
            self.deployment.name,
            machine.name,
            machine=machine.role.table.name,
            state=state.name,
            event=event.name,
            next_state=target.name,
            effects=tuple(effect.name for effect in effects),
        )
        self._truth.records.append(record)


def _index_timed(table: Any, happens: Any) -> dict[Symbol, tuple[Symbol, ...]]:
    """External events by the states that have a row for them."""
    timed = [event for event in table.alphabet if happens.get(event.name, NEVER) != NEVER]
    return {
        state: found
        for state in table.leaves()
        if (found := tuple(event for event in timed if table.kind(state, event) is Kind.ROW))
    }


def _length(delay: Delay, drawn: float) -> int:
    """A length in milliseconds, at least one, so that time advances."""
    if delay.is_mean:
        return max(1, int(-delay.least_ms * log(1 - drawn)))
    return max(1, delay.least_ms + int((delay.most_ms - delay.least_ms + 1) * drawn))


def run_machines(
    deployment: Machines, seed: int, deeds: tuple[Deed, ...], truth: Truth | None, progress: Progress | None
) -> Outcome:
    """Runs all machines, and checks whether they reach their goal after the last fault."""
    run = MachinesRun(deployment, seed, truth)
    run.begin(deeds)
    run_to_end(run.run, deployment.lasts_ms, deployment.name, progress)
    measured = {name: measures.series() for name, measures in run.measures.items()}
    run.settle()
    groups = [
        GroupOutcome(name, {one: sum(values) for one, values in series.items()}, series, {}, run.violations(name))
        for name, series in measured.items()
    ]
    width_ms = run.measures[deployment.parts[0].name].width_ms
    return Outcome(deployment.name, seed, deployment.lasts_ms, width_ms, groups, deeds, "machines")
