"""The states that the parts of a model are in, as numbers, and what each step does to them.

Python runs once for each distinct step: a component's state with an input, a wire's queue with what is put on it. A
component and the wires that are kept with it make a cell; a global state is one number for each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fsm.check.memo import Growing, Ids, Numbers, Pairs, Rows
from fsm.check.model import (
    Action,
    Choice,
    Component,
    Fault,
    Missed,
    Model,
    Queue,
    Received,
    Step,
    Told,
    Undelivered,
    Wire,
)
from fsm.errors import InputError

FREE, PAID, SOONER_OR_LATER = range(3)
"""Costs: nothing; one disturbance; a disturbance that is not switched on, but that liveness may count on."""
CELL, ACTION, COST, FREE_WHEN, BROKEN = range(5)
"""Columns of a row of what a cell does by itself; what it sends to each cell follows."""
INPUT = 4
"""Instead of what it breaks: the input of the cell that a message of this one reaches."""
NO_ROOM = -1
"""Instead of a cell: a wire holds no more messages."""
TWICE = 256
"""Of so many steps one is taken twice, to see whether it is pure; all of the first so many are."""

_SEND, _HANG_UP, _HUNG_UP = range(3)


class _Done(NamedTuple):
    """What a step of a component does, in numbers."""

    state: int
    broken: int
    orders: tuple[tuple[int, int], ...]
    """(wire, order), for each wire that the step changes."""


class _Part:
    """The states of one component."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.states = Numbers()
        self.steps: dict[tuple[int, int], _Done] = {}
        self.offers: dict[int, list[Choice]] = {}

    def number(self, state: Any) -> int:
        key = state if self.component.key is None else self.component.key(state)
        try:
            at = self.states.number(key, state)
        except TypeError:
            raise InputError(f"a state cannot be hashed: {key!r}", self.component.name, "give a key") from None
        return at


class Space:
    """What is known of a model's parts; grows as a search asks."""

    def __init__(self, model: Model, kinds: frozenset[str]) -> None:
        self.model, self.kinds = model, kinds
        self.by = frozenset() if model.goal is None else frozenset(model.goal.by)
        self.parts = [_Part(one) for one in model.components]
        self.index = {one.name: i for i, one in enumerate(model.components)}
        self.inputs, self.actions, self.broken, self.orders = Numbers(), Numbers(), Numbers(""), Numbers(())
        self.conditions = Numbers("", *model.conditions)
        self.bundles = Numbers(())
        """What several wires of one cell are told at once: ((wire, order), ...)."""
        self.queues = [Numbers(Queue()) for _ in model.wires]
        self._messages = Numbers()
        self._pushed: dict[tuple[int, int, int], int] = {}
        self._delivered: dict[tuple[int, int], list[tuple[int, int, int, int, int]]] = {}
        self.cells = [_Cell(self, i) for i in range(len(self.parts))]
        for cell in self.cells:
            cell.adopt_wires()
        self.keepers = {wire: cell.who for cell in self.cells for wire in cell.wires}
        """The cell that each wire is kept with."""

    def start(self) -> Ids:
        """The first state."""
        found = []
        for cell, part in zip(self.cells, self.parts, strict=True):
            found.append(cell.ids.number((part.number(part.component.start), *(0 for _ in cell.wires))))
        return np.array([found], np.int32)

    @property
    def memo_size(self) -> int:
        """How many steps of components Python was asked for."""
        return sum(len(part.steps) for part in self.parts)

    @property
    def nbytes(self) -> int:
        return sum(cell.nbytes for cell in self.cells)

    # Components

    def offers(self, who: int, state: int) -> list[Choice]:
        """What a component may do by itself, of what is switched on."""
        part = self.parts[who]
        found = part.offers.get(state)
        if found is None:
            found = [c for c in part.component.choices(part.states.values[state]) if self._is_on(part, c)]
            part.offers[state] = found
        return found

    def _is_on(self, part: _Part, choice: Choice) -> bool:
        if choice.free_when and choice.free_when not in self.conditions.ids:
            raise InputError(f"{choice.label!r} asks for no condition: {choice.free_when!r}", part.component.name)
        if choice.disturbance and choice.disturbance not in self.model.kinds:
            remedy = "name it in the disturbances of the model"
            raise InputError(f"no kind of disturbance: {choice.disturbance!r}", part.component.name, remedy)
        return not choice.disturbance or choice.disturbance in self.kinds | self.by

    def step(self, who: int, state: int, given: int) -> _Done:
        """A component's step; what it raises is what it breaks."""
        steps = self.parts[who].steps
        done = steps.get((state, given))
        if done is None:
            done = steps[state, given] = self._take(who, state, given)
            if len(steps) < TWICE or len(steps) % TWICE == 0:
                again = self._take(who, state, given)
                if again != done:
                    name, told = self.parts[who].component.name, self.inputs.values[given]
                    raise InputError(f"its step is not pure: {told!r} gave two different results", name)
        return done

    def _take(self, who: int, state: int, given: int) -> _Done:
        part = self.parts[who]
        try:
            step = part.component.step(part.states.values[state], self.inputs.values[given])
        except Exception as problem:  # whatever a step raises is a counterexample
            return _Done(state, self.broken.number(f"raises {type(problem).__name__}: {problem}"), ())
        if not isinstance(step, Step):
            raise InputError(f"its step gave {type(step).__name__}; give a Step", part.component.name)
        broken = self.broken.number(step.broken[0]) if step.broken else 0
        return _Done(part.number(step.state), broken, tuple(self._orders(who, step)))

    def _orders(self, who: int, step: Step) -> Iterable[tuple[int, int]]:
        told: dict[int, list[Any]] = {}
        name = self.parts[who].component.name
        for wire, one in enumerate(self.model.wires):
            if step.hangs_up and name in (one.sender, one.receiver):
                told[wire] = [(_HANG_UP if one.sender == name else _HUNG_UP,)]
        for receiver, message in step.sends:
            told.setdefault(self._wire_to(name, receiver), []).append((_SEND, message))
        for wire in sorted(told):
            yield wire, self.orders.number(tuple(told[wire]))

    def _wire_to(self, sender: str, receiver: str) -> int:
        for at, one in enumerate(self.model.wires):
            if (one.sender, one.receiver) == (sender, receiver):
                return at
        raise InputError(f"sends to {receiver!r}, to whom it has no wire", sender, "give the model such a Wire")

    # Wires

    def pushed(self, wire: int, queue: int, order: int) -> int:
        """A queue after an order of its sender or receiver."""
        key = wire, queue, order
        found = self._pushed.get(key)
        if found is None:
            found = self._pushed[key] = self._push(self.model.wires[wire], self.queues[wire], queue, order)
        return found

    def _push(self, wire: Wire, queues: Numbers, queue: int, order: int) -> int:
        line, late = queues.values[queue]
        can_be_late = any(one.fault is Fault.LATE for one in wire.disturbances)
        for what, *message in self.orders.values[order]:
            if what == _SEND:
                line = (*line, *message)
            else:
                late = self._sorted((*late, *line)) if what == _HANG_UP and can_be_late else late
                line = ()
        if wire.reorders:
            line = self._sorted(line)
        return NO_ROOM if len(line) + len(late) > wire.at_most else queues.number(Queue(line, late))

    def _sorted(self, messages: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(messages, key=self._messages.number))

    def deliveries(self, wire: int, queue: int) -> list[tuple[int, int, int, int, int]]:
        """(queue after, who takes a step or -1, its input, action, cost) for all that may happen on a wire."""
        found = self._delivered.get((wire, queue))
        if found is None:
            found = self._delivered[wire, queue] = list(self._deliver(wire, queue))
        return found

    def _deliver(self, wire: int, queue: int) -> Iterator[tuple[int, int, int, int, int]]:
        one, queues = self.model.wires[wire], self.queues[wire]
        line, late = queues.values[queue]
        sender, receiver = self.index[one.sender], self.index[one.receiver]
        for at, message in enumerate(line if one.reorders else line[:1]):
            rest = (*line[:at], *line[at + 1 :])
            if message in line[:at]:
                continue  # one of equal messages stands for all
            heard = self.inputs.number(Received(one.sender, message))
            after = queues.number(Queue(rest, late))
            yield after, receiver, heard, self.actions.number(Action(one.receiver, "receives", "", wire, message)), FREE
            for kind, fault, told in one.disturbances:
                if kind not in self.kinds:
                    continue
                if fault is Fault.DUPLICATE:
                    after = queues.number(Queue(rest, self._sorted((*late, message))))
                    yield (
                        after,
                        receiver,
                        heard,
                        self.actions.number(Action(one.receiver, fault.value, kind, wire, message)),
                        1,
                    )
                    continue
                after = queues.number(Queue(rest, self._sorted((*late, message)) if fault is Fault.LATE else late))
                who, given = {
                    Told.SENDER: (sender, Undelivered(one.receiver, message)),
                    Told.RECEIVER: (receiver, Missed(one.sender, message)),
                    Told.NOBODY: (-1, None),
                }[told]
                action = Action(self.model.components[who].name if who >= 0 else "", fault.value, kind, wire, message)
                yield after, who, self.inputs.number(given), self.actions.number(action), PAID
        for at, message in enumerate(late):
            if message not in late[:at]:
                after = queues.number(Queue(line, (*late[:at], *late[at + 1 :])))
                heard = self.inputs.number(Received(one.sender, message, late=True))
                yield (
                    after,
                    receiver,
                    heard,
                    self.actions.number(Action(one.receiver, "receives late", "", wire, message)),
                    0,
                )


class _Cell:
    """A component with the wires that are kept with it, each as a number, and the tables of what they do together."""

    def __init__(self, space: Space, who: int) -> None:
        self.space, self.who, self.part = space, who, space.parts[who]
        self.ids = Numbers()
        """(state of the component, queue of each wire)"""
        self.wires: list[int] = []
        self.places: dict[int, int] = {}
        self.local: dict[bool, Rows]
        """What it does by itself: what may cost nothing, and what costs."""
        self.outgoing: dict[tuple[int, bool], Rows]
        """By cell that is reached: what its wires bring there, at no cost or at some."""
        self.receive: Pairs
        """What an input does: (cell, broken, what it sends to each cell)."""
        self.told: Pairs
        """What a bundle does to its wires."""
        self._measures: dict[str, tuple[int, Callable[[Any], int]]] = {}
        """Features: of the component (place 0) or of a wire."""
        self._measured: dict[str, tuple[Growing, Growing]] = {}
        """A feature of each state or queue, and of each cell."""
        self._states = Growing(np.int32)

    def adopt_wires(self) -> None:
        """Takes the wires that it shares with a component that has more of them, or as many and comes later."""
        model, many = self.space.model, len(self.space.parts)
        degree = [sum(one.component.name in (w.sender, w.receiver) for w in model.wires) for one in self.space.parts]
        for wire, one in enumerate(model.wires):
            ends = self.space.index[one.sender], self.space.index[one.receiver]
            if min(ends, key=lambda end: (degree[end], end)) == self.who:
                self.places[wire] = len(self.wires) + 1
                self.wires.append(wire)
        self.receive, self.told = Pairs(2 + many, self._receive), Pairs(1, self._tell)
        self.local = {paid: Rows(5 + many, partial(self._act, paid)) for paid in (False, True)}
        near = {
            self.space.index[end]
            for wire in self.wires
            for end in (model.wires[wire].sender, model.wires[wire].receiver)
        }
        self.outgoing = {
            (there, paid): Rows(5, partial(self._deliver, there, paid))
            for there in sorted(near - {self.who})
            for paid in (False, True)
        }
        self._measures = {name: (0, measure) for name, measure in self.part.component.features.items()}
        for wire in self.wires:
            one = model.wires[wire]
            where = f"{one.sender} to {one.receiver} "
            self._measures[where] = self.places[wire], _under_way
            self._measures |= {where + name: (self.places[wire], measure) for name, measure in one.features.items()}

    def states(self) -> Ids:
        """The state of the component in each cell there is."""
        if self._states.size < len(self.ids):
            new = [cell[0] for cell in self.ids.values[self._states.size :]]
            self._states.extend(new, len(new))
        found: Ids = self._states.view
        return found

    def feature(self, name: str) -> Any:
        """A column of numbers, one for each cell there is; None where there is no such feature."""
        if name not in self._measures:
            return None
        place, measure = self._measures[name]
        values = self._numbers(place).values
        each, of_cells = self._measured.setdefault(name, (Growing(np.int64), Growing(np.int64)))
        if each.size < len(values):
            each.extend([measure(one) for one in values[each.size :]], len(values) - each.size)
        if of_cells.size < len(self.ids):
            new = [cell[place] for cell in self.ids.values[of_cells.size :]]
            of_cells.extend(each.array[new], len(new))
        return of_cells.view

    def _numbers(self, place: int) -> Numbers:
        return self.space.queues[self.wires[place - 1]] if place else self.part.states

    def value(self, cell: Sequence[int], place: int) -> Any:
        """The state of the component (place 0) or the queue of a wire."""
        return self._numbers(place).values[cell[place]]

    @property
    def nbytes(self) -> int:
        pairs = self.receive.nbytes + self.told.nbytes
        return pairs + sum(one.nbytes for one in (*self.local.values(), *self.outgoing.values()))

    # Tables

    def _act(self, paid: bool, cell: int) -> list[tuple[int, ...]]:
        values, rows, space = self.ids.values[cell], [], self.space
        name = self.part.component.name
        for choice in space.offers(self.who, values[0]):
            if paid == (not choice.disturbance or bool(choice.free_when) or choice.disturbance in space.by):
                continue
            given = space.inputs.number(choice.label if choice.given is None else choice.given)
            action = space.actions.number(Action(name, choice.label, choice.disturbance))
            free_when = space.conditions.ids[choice.free_when]
            cost = FREE if not choice.disturbance else PAID if choice.disturbance in space.kinds else SOONER_OR_LATER
            rows.append(self._after(values, given, action, cost, free_when))
        for wire in self.wires:
            for queue, who, given, action, cost in space.deliveries(wire, values[self.places[wire]]):
                after = _put(values, self.places[wire], queue)
                if paid != (cost == PAID):
                    continue
                if who == self.who:
                    rows.append(self._after(after, given, action, cost, 0))
                elif who < 0:
                    rows.append((self.ids.number(after), action, cost, 0, 0, *([0] * len(space.cells))))
        return [row for row in rows if row[CELL] != cell or any(row[BROKEN:])]

    def _after(self, values: tuple[int, ...], given: int, action: int, cost: int, free_when: int) -> tuple[int, ...]:
        after, broken, *bundles = self._step(values, given)
        return (after, action, cost, free_when, broken, *bundles)

    def _step(self, values: tuple[int, ...], given: int) -> tuple[int, ...]:
        done = self.space.step(self.who, values[0], given)
        values = (done.state, *values[1:])
        elsewhere: dict[int, list[tuple[int, int]]] = {}
        for wire, order in done.orders:
            if wire in self.places:
                queue = self.space.pushed(wire, values[self.places[wire]], order)
                if queue == NO_ROOM:
                    return (NO_ROOM, 0, *([0] * len(self.space.cells)))
                values = _put(values, self.places[wire], queue)
            else:
                elsewhere.setdefault(self.space.keepers[wire], []).append((wire, order))
        bundles = [self.space.bundles.number(tuple(elsewhere.get(i, ()))) for i in range(len(self.space.cells))]
        return (self.ids.number(values), done.broken, *bundles)

    def _receive(self, cell: int, given: int) -> tuple[int, ...]:
        return self._step(self.ids.values[cell], given)

    def _tell(self, cell: int, bundle: int) -> tuple[int, ...]:
        values = self.ids.values[cell]
        for wire, order in self.space.bundles.values[bundle]:
            queue = self.space.pushed(wire, values[self.places[wire]], order)
            if queue == NO_ROOM:
                return (NO_ROOM,)
            values = _put(values, self.places[wire], queue)
        return (self.ids.number(values),)

    def _deliver(self, there: int, paid: bool, cell: int) -> list[tuple[int, ...]]:
        values = self.ids.values[cell]
        rows: list[tuple[int, ...]] = []
        for wire in self.wires:
            for queue, who, given, action, cost in self.space.deliveries(wire, values[self.places[wire]]):
                if who == there and paid == (cost == PAID):
                    rows.append((self.ids.number(_put(values, self.places[wire], queue)), action, cost, 0, given))
        return rows


def _under_way(queue: Queue) -> int:
    return len(queue.line) + len(queue.late)


def _put(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])
