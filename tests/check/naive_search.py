"""The same search one state at a time, in plain Python: what the set-at-a-time engine is held against."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fsm.check import Choice, Fault, Missed, Model, Notification, PairProperty, Queue, Received, Undelivered
from fsm.check.search import DEADLOCK

State = tuple[tuple[Any, ...], tuple[Queue, ...]]
NEVER = 99
"""The cost of what is not switched on."""


class Move(NamedTuple):
    """A step of a global state."""

    after: State
    cost: int
    kind: str = ""
    broken: tuple[str, ...] = ()


class One:
    """One state, as conditions see it."""

    def __init__(self, naive: Naive, state: State) -> None:
        self.naive, self.state = naive, state

    def of(self, component: str, feature: str) -> Any:
        who = self.naive.index[component]
        return np.array([self.naive.model.components[who].features[feature](self.state[0][who])])

    def on(self, sender: str, receiver: str, feature: str = "") -> Any:
        at = self.naive.wires[sender, receiver]
        queue = self.state[1][at]
        if feature:
            return np.array([self.naive.model.wires[at].features[feature](queue)])
        return np.array([len(queue.line) + len(queue.late)])

    def __len__(self) -> int:
        return 1


class Naive:
    """Every state of a model with at most so many disturbances, by its least cost and depth; what breaks there."""

    def __init__(
        self, model: Model, kinds: frozenset[str] = frozenset(), most: int = 0, known: Sequence[str] = ()
    ) -> None:
        self.model, self.kinds, self.most = model, kinds, most
        self.hazards = [model.hazards[name] for name in known]
        self.by = set(model.goal.by) if model.goal else set()
        self.index = {one.name: i for i, one in enumerate(model.components)}
        self.wires = {(wire.sender, wire.receiver): i for i, wire in enumerate(model.wires)}
        self.broken: dict[str, tuple[int, int]] = {}
        self._moves: dict[State, list[Move]] = {}
        start = tuple(one.start for one in model.components), tuple(Queue() for _ in model.wires)
        self.best: dict[State, tuple[int, int]] = {start: (0, 0)}
        number, waiting = 0, [(0, 0, 0, start)]
        while waiting:
            cost, depth, _, state = heapq.heappop(waiting)
            if (cost, depth) > self.best[state] or self.is_cut(state):
                continue
            self.look(state, cost, depth)
            for after, price, _, broken in self.moves(state):
                there = cost + price, depth + 1
                if there[0] <= most:
                    for name in broken:
                        self.broken[name] = min(there, self.broken.get(name, there))
                    if there < self.best.get(after, (most + 1, 0)):
                        self.best[after] = there
                        number += 1
                        heapq.heappush(waiting, (*there, number, after))
        self.cost = {state: cost for state, (cost, _) in self.best.items()}

    def is_cut(self, state: State) -> bool:
        return any(shows(One(self, state))[0] for shows in self.hazards)

    def look(self, state: State, cost: int, depth: int) -> None:
        names = []
        for one in self.model.properties:
            if isinstance(one, PairProperty):
                holds = one.holds(state[0][self.index[one.first]], state[0][self.index[one.second]])
            else:
                holds = one.holds(One(self, state))[0]
            names += [] if holds else [one.name]
        goal = self.model.goal
        if goal is not None and not goal.reached(One(self, state))[0]:
            names += [] if any(one.after != state for one in self.moves(state) if self.happens(one)) else [DEADLOCK]
        for name in names:
            self.broken[name] = min((cost, depth), self.broken.get(name, (cost, depth)))

    def happens(self, move: Move) -> bool:
        """Whether the goal may count on it."""
        return move.cost == 0 or move.kind in self.by

    def doomed(self) -> set[State]:
        """States from which no path of what happens leads to the goal."""
        goal, seen, before, good = self.model.goal, set(self.best), defaultdict(list), []
        waiting = list(seen)
        assert goal is not None
        while waiting:
            state = waiting.pop()
            if goal.reached(One(self, state))[0] or self.is_cut(state):
                good.append(state)
                continue
            for move in self.moves(state):
                if self.happens(move):
                    before[move.after].append(state)
                    if move.after not in seen:
                        seen.add(move.after)
                        waiting.append(move.after)
        reached = set(good)
        while good:
            for state in before[good.pop()]:
                if state not in reached:
                    reached.add(state)
                    good.append(state)
        return set(self.best) - reached

    # Steps

    def moves(self, state: State) -> list[Move]:
        """What may follow a state."""
        found = self._moves.get(state)
        if found is None:
            found = self._moves[state] = list(self._find_moves(state))
        return found

    def _find_moves(self, state: State) -> Iterator[Move]:
        for who, component in enumerate(self.model.components):
            for choice in component.choices(state[0][who]):
                given = choice.label if choice.given is None else choice.given
                yield from self.step(state, who, given, self.price(choice, state), choice.disturbance)
        for at, wire in enumerate(self.model.wires):
            yield from self.deliver(state, at, wire)

    def price(self, choice: Choice, state: State) -> int:
        if not choice.disturbance:
            return 0
        if choice.free_when and self.model.conditions[choice.free_when](One(self, state))[0]:
            return 0
        return 1 if choice.disturbance in self.kinds else NEVER

    def deliver(self, state: State, at: int, wire: Any) -> Iterator[Move]:
        line, late = state[1][at]
        sender, receiver = self.index[wire.sender], self.index[wire.receiver]
        for i in range(len(line) if wire.reorders else min(1, len(line))):
            message, rest = line[i], (*line[:i], *line[i + 1 :])
            received = Received(wire.sender, message)
            kept = late if wire.outdates is None else tuple(one for one in late if not wire.outdates(message, one))
            yield from self.step(self.put(state, at, rest, kept), receiver, received, 0)
            for kind, fault, notified in wire.disturbances:
                if kind in self.kinds:
                    again = late if fault is Fault.LOSE else (*late, message)
                    lost = self.put(state, at, rest, again)
                    if fault is Fault.DUPLICATE:
                        yield from self.step(lost, receiver, received, 1, kind)
                    elif notified is Notification.NOBODY:
                        yield Move(lost, 1, kind)
                    elif notified is Notification.SENDER:
                        yield from self.step(lost, sender, Undelivered(wire.receiver, message), 1, kind)
                    else:
                        yield from self.step(lost, receiver, Missed(wire.sender, message), 1, kind)
        for i, message in enumerate(late):
            older = [one for one in late[:i] if wire.outdates is None or not wire.outdates(message, one)]
            rest = self.put(state, at, line, (*older, *late[i + 1 :]))
            yield from self.step(rest, receiver, Received(wire.sender, message, late=True), 0)

    def put(self, state: State, at: int, line: tuple[Any, ...], late: tuple[Any, ...]) -> State:
        if self.model.wires[at].reorders:
            line = tuple(sorted(line, key=repr))
        queues = list(state[1])
        in_order = self.model.wires[at].outdates is not None
        queues[at] = Queue(line, late if in_order else tuple(sorted(late, key=repr)))
        return state[0], tuple(queues)

    def step(self, state: State, who: int, given: Any, cost: int, kind: str = "") -> Iterator[Move]:
        component = self.model.components[who]
        try:
            step = component.step(state[0][who], given)
        except ValueError as problem:
            yield Move(state, cost, kind, (f"raises ValueError: {problem}",))
            return
        states = list(state[0])
        states[who] = step.state
        after: State = tuple(states), state[1]
        if step.hangs_up:
            for at, wire in enumerate(self.model.wires):
                if component.name in (wire.sender, wire.receiver):
                    line, late = after[1][at]
                    can_be_late = any(one.fault is Fault.LATE for one in wire.disturbances)
                    kept = (*late, *line) if wire.sender == component.name and can_be_late else late
                    after = self.put(after, at, (), kept)
        for receiver, message in step.sends:
            at = self.wires[component.name, receiver]
            line, late = after[1][at]
            after = self.put(after, at, (*line, message), late)
        queues = zip(after[1], self.model.wires, strict=True)
        if all(len(queue.line) + len(queue.late) <= wire.at_most for queue, wire in queues):
            yield Move(after, cost, kind, tuple(step.broken))
