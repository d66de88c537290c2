"""The same search one state at a time, in plain Python: what the set-at-a-time engine is held against."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from fsm.check import Fault, Missed, Model, Queue, Received, Told, Undelivered

State = tuple[tuple[Any, ...], tuple[Queue, ...]]


class Naive:
    """Every state of a model with at most so many disturbances, by its least cost."""

    def __init__(self, model: Model, kinds: frozenset[str] = frozenset(), most: int = 0) -> None:
        self.model, self.kinds = model, kinds
        self.index = {one.name: i for i, one in enumerate(model.components)}
        self.wires = {(wire.sender, wire.receiver): i for i, wire in enumerate(model.wires)}
        start = tuple(one.start for one in model.components), tuple(Queue() for _ in model.wires)
        self.cost: dict[State, int] = {start: 0}
        number, waiting = 0, [(0, 0, start)]
        while waiting:
            cost, _, state = heapq.heappop(waiting)
            if cost > self.cost[state]:
                continue
            for after, price in self.successors(state):
                if cost + price <= most and cost + price < self.cost.get(after, most + 1):
                    self.cost[after] = cost + price
                    number += 1
                    heapq.heappush(waiting, (cost + price, number, after))

    def successors(self, state: State) -> Iterator[tuple[State, int]]:
        """What may follow, with its cost."""
        for who, component in enumerate(self.model.components):
            for choice in component.choices(state[0][who]):
                if not choice.disturbance or choice.disturbance in self.kinds:
                    given = choice.label if choice.given is None else choice.given
                    yield from self.step(state, who, given, int(bool(choice.disturbance)))
        for at, wire in enumerate(self.model.wires):
            yield from self.deliver(state, at, wire)

    def deliver(self, state: State, at: int, wire: Any) -> Iterator[tuple[State, int]]:
        line, late = state[1][at]
        sender, receiver = self.index[wire.sender], self.index[wire.receiver]
        for i in range(len(line) if wire.reorders else min(1, len(line))):
            message, rest = line[i], (*line[:i], *line[i + 1 :])
            heard = Received(wire.sender, message)
            yield from self.step(self.put(state, at, rest, late), receiver, heard, 0)
            for kind, fault, told in wire.disturbances:
                if kind in self.kinds:
                    again = late if fault is Fault.LOSE else (*late, message)
                    lost = self.put(state, at, rest, again)
                    if fault is Fault.DUPLICATE:
                        yield from self.step(lost, receiver, heard, 1)
                    elif told is Told.NOBODY:
                        yield lost, 1
                    elif told is Told.SENDER:
                        yield from self.step(lost, sender, Undelivered(wire.receiver, message), 1)
                    else:
                        yield from self.step(lost, receiver, Missed(wire.sender, message), 1)
        for i, message in enumerate(late):
            rest = self.put(state, at, line, (*late[:i], *late[i + 1 :]))
            yield from self.step(rest, receiver, Received(wire.sender, message, late=True), 0)

    def put(self, state: State, at: int, line: tuple[Any, ...], late: tuple[Any, ...]) -> State:
        if self.model.wires[at].reorders:
            line = tuple(sorted(line, key=repr))
        queues = list(state[1])
        queues[at] = Queue(line, tuple(sorted(late, key=repr)))
        return state[0], tuple(queues)

    def step(self, state: State, who: int, given: Any, cost: int) -> Iterator[tuple[State, int]]:
        component = self.model.components[who]
        step = component.step(state[0][who], given)
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
        yield after, cost
