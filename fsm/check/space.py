"""The states of a model's parts as numbers, and the effect of each step on them.

Python runs once per distinct step: a component's state with an input, a wire's queue with a new message. A component
and its wires form a cell; a global state is one number per cell.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import ne
from typing import Any

import numpy as np

from fsm.check.ahead import Ahead, Done, StepInput
from fsm.check.endless import EndlessError, within
from fsm.check.memo import Growing, Ids, Numbers, Pairs, Rows
from fsm.check.model import (
    Action,
    Choice,
    Component,
    Fault,
    Missed,
    Model,
    Notification,
    Queue,
    Received,
    Step,
    Undelivered,
    Wire,
)
from fsm.errors import InputError

FREE, PAID, SOONER_OR_LATER, OFF = range(4)
"""Costs of steps: none; one disturbance; disabled, but liveness may count on it; disabled."""
CELL, ACTION, COST, FREE_WHEN, BROKEN = range(5)
"""Columns of a row for a local step of a cell; the messages to each cell follow."""
INPUT = 4
"""In place of the broken properties: the input of the cell that a message reaches."""
NO_ROOM, WAITS = -1, -2
"""In place of a cell: a wire is full, so that the result is unknown, or its sender waits."""
LAST_BIT = 62
"""The highest bit of a mask of conditions, of which the first means none."""
TWICE = 256
"""One in this many steps, and each of the first ones, is executed twice to check that it is pure."""

STATE_BYTES, ENTRY_BYTES = 2_048, 640
"""Approximate bytes of a component's state, and of a table entry with its key; measured with consumers."""
CHOICE, _RECEIVED, _LATE, _UNDELIVERED, _MISSED = "choice", "received", "late", "undelivered", "missed"
"""Kinds of inputs."""
_SEND, _HANG_UP, _HUNG_UP = range(3)


def ask(where: str, question: Callable[..., Any], *given: Any) -> Any:
    """Calls a function of the model. Raises `InputError` if it raises."""
    try:
        return question(*given)
    except InputError:
        raise
    except Exception as problem:  # any exception of the user's function
        name = getattr(question, "__name__", "")
        what = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        raise InputError(f"{name} raises {what}", where, "fix the model") from None


def _number(where: str, what: str, numbers: Numbers, *given: Any) -> int:
    """The number of a key. Raises `InputError` if the key cannot be hashed or compared."""
    try:
        return numbers.number(*given)
    except TypeError:
        raise InputError(f"{what} cannot be hashed: {given[0]!r}", where, "give hashable values, or a key") from None
    except Exception as problem:  # in the model's own `__eq__` or `__hash__`
        raised = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        raise InputError(f"{what} cannot be compared: {raised}", where, "fix the model") from None


class _Part:
    """The states of one component."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.states = Numbers()
        self.nbytes = 0
        """The approximate memory of the states."""
        self.steps: dict[tuple[int, int], Done] = {}
        self.offers: dict[int, list[Choice]] = {}

    def number(self, state: Any, origin: tuple[int, int] | None = None) -> int:
        """The number of a state; its origin is the (state, input) that first led to it, None for the start."""
        self.states.complete(self._key)
        key = self._key(state)
        known = len(self.states)
        at = _number(self.component.name, "a state", self.states, key, state, origin)
        if at == known:
            self.nbytes += max(STATE_BYTES, sys.getsizeof(state))
        if self.component.key is not None and ask(self.component.name, ne, self.states.value(at), state):
            two = f"{self.states.value(at)!r} and {state!r}"
            raise InputError(
                f"two states have the same key: {two}", self.component.name, "tell them apart, or make them equal"
            )
        return at

    def _key(self, state: Any, _origin: Any = None) -> Any:
        return state if self.component.key is None else ask(self.component.name, self.component.key, state)


class Space:
    """The tables of a model's parts, filled on demand by a search."""

    def __init__(self, model: Model, kinds: frozenset[str]) -> None:
        self.model, self.kinds = model, kinds
        self.by = frozenset() if model.goal is None else frozenset(model.goal.by)
        self._known = frozenset(model.kinds)
        self.parts = [_Part(one) for one in model.components]
        self.index = {one.name: i for i, one in enumerate(model.components)}
        for who, part in enumerate(self.parts):
            part.states.recall = partial(self._recall_state, who)
        self.inputs, self.messages = Numbers(recall=self._recall_input), Numbers(recall=self._recall_message)
        self.actions, self.broken, self.orders = Numbers(recall=self._recall_action), Numbers(()), Numbers(())
        self.conditions = Numbers("", *model.conditions)
        self.bundles = Numbers(())
        """Orders to several wires of one cell at once: ((wire, order), ...)."""
        self.queues = [Numbers(recall=partial(self._recall_queue, wire)) for wire in range(len(model.wires))]
        self.taken = 0
        """The number of component steps that were executed."""
        self.jobs = 1
        """The number of processes that execute steps; 0 where the tables are filled elsewhere."""
        self.limit_s = math.inf
        """The CPU time of one step; a longer step is taken for endless."""
        self._ahead = Ahead(self, ())
        self._endless: set[int] = set()
        """The `broken` numbers of endless steps."""
        self._pushed: dict[tuple[int, int, int], int] = {}
        self._delivered: dict[tuple[int, int], list[tuple[int, int, int, int, int]]] = {}
        for wire in range(len(model.wires)):
            self.queue(wire, (), ())
        self.cells = [_Cell(self, i) for i in range(len(self.parts))]
        self.keepers = {wire: cell.who for cell in self.cells for wire in cell.wires}
        """The cell that each wire is kept with."""

    def start(self) -> Ids:
        """The initial state: the first number of every cell."""
        for cell, part in zip(self.cells, self.parts, strict=True):
            if not len(cell.ids):
                cell.ids.number((part.number(part.component.start), *map(self._first_queue, cell.wires)))
        return np.zeros((1, len(self.cells)), np.int32)

    def _first_queue(self, wire: int) -> int:
        """The initial queue of a wire."""
        one = self.model.wires[wire]
        found = [self.message(one.sender, message, (wire, place)) for place, message in enumerate(_messages(one.start))]
        line, late = found[: len(one.start.line)], found[len(one.start.line) :]
        return self.queue(wire, tuple(sorted(line) if one.reorders else line), sort_late(one, late))

    @property
    def nbytes(self) -> int:
        """The memory of the tables and, roughly, of the objects behind them."""
        states = sum(part.nbytes for part in self.parts)
        entries = sum(len(part.steps) for part in self.parts) + sum(len(cell.ids) for cell in self.cells)
        return sum(cell.nbytes for cell in self.cells) + states + ENTRY_BYTES * entries

    # Components

    def offers(self, who: int, state: int) -> list[Choice]:
        """The enabled choices of a component."""
        part = self.parts[who]
        found = part.offers.get(state)
        if found is None:
            offered = ask(part.component.name, lambda: list(part.component.choices(part.states.value(state))))
            found = part.offers[state] = [choice for choice in offered if self.cost(part, choice) != OFF]
        return found

    def cost(self, part: _Part, choice: Choice) -> int:
        """The cost of a choice while its condition does not hold; `OFF` if it is disabled."""
        if not isinstance(choice, Choice):
            raise InputError(f"its choices returned {choice!r}; return Choices", part.component.name)
        if choice.free_when and choice.free_when not in self.conditions:
            raise InputError(f"{choice.label!r} names an unknown condition: {choice.free_when!r}", part.component.name)
        if choice.disturbance and choice.disturbance not in self._known:
            remedy = "name it in the disturbances of the model"
            raise InputError(f"unknown kind of disturbance: {choice.disturbance!r}", part.component.name, remedy)
        if not choice.disturbance:
            return FREE
        if choice.disturbance in self.kinds:
            return PAID
        return SOONER_OR_LATER if choice.disturbance in self.by or choice.free_when else OFF

    def step(self, who: int, state: int, given: int) -> Done:
        """A component's step; an exception is a broken property."""
        steps = self.parts[who].steps
        done = steps.get((state, given))
        if done is None:
            self.taken += 1
            take = partial(self.take, who, state, given)
            done = steps[state, given] = self._ahead.step((who, state, given), take)
            if (len(steps) < TWICE or len(steps) % TWICE == 0) and done.broken not in self._endless:
                again = take()
                if again != done:
                    name, described = self.parts[who].component.name, self.describe_input(given)
                    raise InputError(f"its step is not pure: {described} returned two different results", name)
        return done

    def ahead(self, asked: Iterable[StepInput]) -> Ahead:
        """Starts workers for steps that will be needed in this order; the result is a context manager."""
        unknown = (one for one in asked if one[1:] not in self.parts[one[0]].steps)
        self._ahead = Ahead(self, list(dict.fromkeys(unknown)))
        return self._ahead

    def take(self, who: int, state: int, given: int) -> Done:
        """Executes a component's step, whether or not the tables have it."""
        part = self.parts[who]
        try:
            before, value = part.states.value(state), self.inputs.value(given)
            step = within(self.limit_s, part.component.step, before, value)
        except EndlessError as problem:
            broken = self.broken.number((str(problem),))
            self._endless.add(broken)
            return Done(state, broken, ())
        except (Exception, SystemExit) as problem:  # any exception of a step is a counterexample
            what = f"raises {type(problem).__name__}: {problem}".partition("\n")[0]
            return Done(state, self.broken.number((what,)), ())
        if not isinstance(step, Step):
            raise InputError(f"its step returned {type(step).__name__}; return a Step", part.component.name)
        names = tuple(step.broken)
        if isinstance(step.broken, str) or not all(isinstance(name, str) and name for name in names):
            raise InputError(f"its step breaks {step.broken!r}; give names", part.component.name)
        orders = tuple(self._orders(who, step, (state, given)))
        return Done(part.number(step.state, (state, given)), self.broken.number(names), orders)

    def _orders(self, who: int, step: Step, origin: tuple[int, int]) -> Iterable[tuple[int, int]]:
        orders: dict[int, list[Any]] = {}
        name = self.parts[who].component.name
        for wire, one in enumerate(self.model.wires):
            if step.hangs_up and name in (one.sender, one.receiver):
                orders[wire] = [(_HANG_UP if one.sender == name else _HUNG_UP,)]
        for place, sent in enumerate(step.sends):
            if not (isinstance(sent, tuple) and len(sent) == 2):
                raise InputError(f"its step sends {sent!r}; give (receiver, message)", name)
            receiver, message = sent
            orders.setdefault(self.wire_to(name, receiver), []).append(
                (_SEND, self.message(name, message, (who, *origin, place)))
            )
        for wire in sorted(orders):
            yield wire, self.orders.number(tuple(orders[wire]))

    def wire_to(self, sender: str, receiver: str) -> int:
        """The wire between two components. Raises `InputError` if there is none."""
        for at, one in enumerate(self.model.wires):
            if (one.sender, one.receiver) == (sender, receiver):
                return at
        raise InputError(f"sends to {receiver!r}, to which it has no wire", sender, "give the model such a Wire")

    def message(self, sender: str, message: Any, origin: tuple[int, ...]) -> int:
        """The number of a message, for wires and orders. Raises `InputError` if it cannot be hashed."""
        self.messages.complete(lambda message, _: message)
        return _number(sender, "a message", self.messages, message, message, origin)

    def number_input(self, given: Any, origin: tuple[Any, ...]) -> int:
        """The number of an input: of the choice (component, state, place), or of a wire's input about a message."""
        self.inputs.complete(_input_key)
        return _number(self.model.name, "an input", self.inputs, _input_key(given, origin), given, origin)

    def describe_input(self, given: int) -> str:
        """The description of an input: the label of a choice, or a message with its sender."""
        kind, *about = self.inputs.origins[given]
        if kind == CHOICE:
            who, state, place = about
            return str(self.offers(who, state)[place].label)
        one, message = self.model.wires[about[0]], self.messages.value(about[1])
        return f"{ask(f'{one.sender} to {one.receiver}', one.describe, message)!s} from {one.sender}"

    def action(self, actor: str, what: str, disturbance: str = "", wire: int = -1, message: int = -1) -> int:
        """The number of an action, about a message of this number."""
        return self.actions.number((actor, what, disturbance, wire, message))

    def queue(self, wire: int, line: tuple[int, ...], late: tuple[int, ...]) -> int:
        """The number of a queue of these messages."""
        return self.queues[wire].number((line, late))

    # Values of numbers

    def _recall_state(self, who: int, state: int) -> Any:
        origin = self.parts[who].states.origins[state]
        return self.parts[who].component.start if origin is None else self._retake(who, *origin).state

    def _recall_message(self, message: int) -> Any:
        *origin, place = self.messages.origins[message]
        if len(origin) == 1:  # initially in flight
            return _messages(self.model.wires[origin[0]].start)[place]
        who, state, given = origin
        return self._retake(who, state, given).sends[place][1]

    def _recall_input(self, given: int) -> Any:
        kind, *about = self.inputs.origins[given]
        if kind != CHOICE:
            wire, message = about
            return self._make_notice(kind, self.model.wires[wire], self.messages.value(message))
        who, state, place = about
        choice = self.offers(who, state)[place]
        return choice.label if choice.given is None else choice.given

    def _retake(self, who: int, state: int, given: int) -> Step:
        part = self.parts[who]
        return part.component.step(part.states.value(state), self.inputs.value(given))

    def _recall_action(self, number: int) -> Action:
        actor, what, disturbance, wire, message = self.actions.keys[number]
        sender, receiver = ("", "") if wire < 0 else (self.model.wires[wire].sender, self.model.wires[wire].receiver)
        return Action(actor, what, disturbance, sender, receiver, None if message < 0 else self.messages.value(message))

    def _recall_queue(self, wire: int, number: int) -> Queue:
        line, late = self._lines(wire, number)
        return Queue(*(tuple(map(self.messages.value, one)) for one in (line, late)))

    # Wires

    def push(self, wire: int, queue: int, order: int) -> int:
        """The queue after an order of its sender or receiver."""
        key = wire, queue, order
        found = self._pushed.get(key)
        if found is None:
            found = self._pushed[key] = self._push(wire, queue, order)
        return found

    def _push(self, wire: int, queue: int, order: int) -> int:
        one = self.model.wires[wire]
        line, late = self._lines(wire, queue)
        can_be_late = any(disturbance.fault is Fault.LATE for disturbance in one.disturbances)
        for what, *message in self.orders.value(order):
            if what == _SEND:
                line = (*line, *message)
            else:
                late = sort_late(one, (*late, *line)) if what == _HANG_UP and can_be_late else late
                line = ()
        if one.reorders:
            line = tuple(sorted(line))
        if len(line) + len(late) > one.at_most:
            return WAITS if one.waits else NO_ROOM
        return self.queue(wire, line, late)

    def _lines(self, wire: int, queue: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The messages of a queue by their numbers."""
        lines: tuple[tuple[int, ...], tuple[int, ...]] = self.queues[wire].keys[queue]
        return lines

    def deliveries(self, wire: int, queue: int) -> list[tuple[int, int, int, int, int]]:
        """(queue after, stepping component or -1, its input, action, cost) for every event of a wire."""
        found = self._delivered.get((wire, queue))
        if found is None:
            found = self._delivered[wire, queue] = list(self._deliver(wire, queue))
        return found

    def _deliver(self, wire: int, queue: int) -> Iterator[tuple[int, int, int, int, int]]:
        one, (line, late) = self.model.wires[wire], self._lines(wire, queue)
        sender, receiver = self.index[one.sender], self.index[one.receiver]
        for at, message in enumerate(line if one.reorders else line[:1]):
            if message in line[:at]:
                continue  # one of equal messages stands for all
            rest = (*line[:at], *line[at + 1 :])
            received = self._number_notice(_RECEIVED, wire, message)
            in_time = self._drop_outdated(one, late, message)
            after = self.queue(wire, rest, in_time)
            yield after, receiver, received, self.action(one.receiver, "receives", "", wire, message), FREE
            for kind, fault, notification in one.disturbances:
                if kind not in self.kinds:
                    continue
                others = in_time if fault is Fault.DUPLICATE else late
                again = others if fault is Fault.LOSE else sort_late(one, (*others, message))
                after = self.queue(wire, rest, again)
                who, given = receiver, received
                if fault is not Fault.DUPLICATE and notification is Notification.SENDER:
                    who, given = sender, self._number_notice(_UNDELIVERED, wire, message)
                elif fault is not Fault.DUPLICATE and notification is Notification.RECEIVER:
                    who, given = receiver, self._number_notice(_MISSED, wire, message)
                elif fault is not Fault.DUPLICATE:
                    who, given = -1, 0
                actor = self.model.components[who].name if who >= 0 else ""
                yield after, who, given, self.action(actor, fault.value, kind, wire, message), PAID
        for at, message in enumerate(late):
            if one.outdates is not None or message not in late[:at]:
                older = self._drop_outdated(one, late[:at], message)
                after = self.queue(wire, line, (*older, *late[at + 1 :]))
                received = self._number_notice(_LATE, wire, message)
                yield after, receiver, received, self.action(one.receiver, "receives late", "", wire, message), FREE

    def _drop_outdated(self, one: Wire, late: tuple[int, ...], message: int) -> tuple[int, ...]:
        """The late messages that can still arrive after a message that was sent later than they."""
        outdates = one.outdates
        if outdates is None or not late:
            return late
        arrived = self.messages.value(message)
        return tuple(other for other in late if not outdates(arrived, self.messages.value(other)))

    def _number_notice(self, kind: str, wire: int, message: int) -> int:
        notice = self._make_notice(kind, self.model.wires[wire], self.messages.value(message))
        return self.number_input(notice, (kind, wire, message))

    def _make_notice(self, kind: str, wire: Wire, message: Any) -> Received | Undelivered | Missed:
        if kind == _UNDELIVERED:
            return Undelivered(wire.receiver, message)
        return Missed(wire.sender, message) if kind == _MISSED else Received(wire.sender, message, kind == _LATE)


def sort_late(one: Wire, late: Iterable[int]) -> tuple[int, ...]:
    """Late messages of a wire in a fixed order: that in which they were sent, where it matters."""
    return tuple(late) if one.outdates is not None else tuple(sorted(late))


def _input_key(given: Any, origin: tuple[Any, ...]) -> Any:
    """The key of an input: choices with equal inputs are one; inputs from wires have a kind, a wire and a message."""
    return given if origin[0] == CHOICE else (type(given), *origin)


class _Cell:
    """A component and its wires, each as a number, and the tables of their joint steps."""

    def __init__(self, space: Space, who: int) -> None:
        self.space, self.who, self.part = space, who, space.parts[who]
        self.ids = Numbers()
        """(state of the component, queue of each wire)"""
        self.wires: list[int] = []
        self.places: dict[int, int] = {}
        model, many = space.model, len(space.parts)
        degree = [sum(one.component.name in (w.sender, w.receiver) for w in model.wires) for one in space.parts]
        for wire, one in enumerate(model.wires):  # it keeps those to a component that has more, or as many and is later
            ends = space.index[one.sender], space.index[one.receiver]
            if min(ends, key=lambda end: (degree[end], end)) == who:
                self.wires.append(wire)
                self.places[wire] = len(self.wires)
        self.local = {paid: Rows(5 + many, partial(self._act, paid), free_under) for paid in (False, True)}
        """Local steps: those that may be free, and those that cost a disturbance."""
        near = {space.index[end] for w in self.wires for end in (model.wires[w].sender, model.wires[w].receiver)}
        self.outgoing = {
            (there, paid): Rows(5, partial(self._deliver, there, paid))
            for there in sorted(near - {who})
            for paid in (False, True)
        }
        """Deliveries of its wires by receiving cell, free or at a cost."""
        self.receive = Pairs(2 + many, self._receive)
        """The step on an input: (cell, broken, messages to each cell)."""
        self.notified = Pairs(1, self._deliver_bundle)
        """The effect of a bundle on its wires."""
        self.measures = {name: (0, measure) for name, measure in self.part.component.features.items()}
        """Features: of the component (place 0) or of a wire."""
        for wire, place in self.places.items():
            one = model.wires[wire]
            where = f"{one.sender} to {one.receiver} "
            self.measures[where] = place, _under_way
            self.measures |= {where + name: (place, measure) for name, measure in one.features.items()}
        self.measured: dict[str, tuple[Growing, Growing]] = {}
        """The values of a feature by state or queue, and by cell."""
        self._states = Growing(np.int32)
        self._choices: dict[tuple[int, bool], list[tuple[int, int, int, int]]] = {}

    def states(self) -> Ids:
        """The component's state in each known cell."""
        if self._states.size < len(self.ids):
            new = [cell[0] for cell in self.ids.keys[self._states.size :]]
            self._states.extend(new, len(new))
        found: Ids = self._states.view
        return found

    def feature(self, name: str) -> Any:
        """The feature of each known cell as a column; None if there is no such feature."""
        if name not in self.measures:
            return None
        place, measure = self.measures[name]
        numbers = self._numbers(place)
        each, of_cells = self.measured.setdefault(name, (Growing(np.int64), Growing(np.int64)))
        if each.size < len(numbers):
            where = f"feature {name.strip()!r} of {self.part.component.name}"
            found = [ask(where, measure, numbers.value(one)) for one in range(each.size, len(numbers))]
            try:
                each.extend(found, len(found))
            except (OverflowError, TypeError, ValueError):
                odd = next(one for one in found if not isinstance(one, (int, np.integer)) or int(one).bit_length() > 63)
                raise InputError(f"gives {odd!r:.60}, which is no integer of 64 bits", where, "fix the model") from None
        if of_cells.size < len(self.ids):
            new = [cell[place] for cell in self.ids.keys[of_cells.size :]]
            of_cells.extend(each.array[new], len(new))
        return of_cells.view

    def _numbers(self, place: int) -> Numbers:
        return self.space.queues[self.wires[place - 1]] if place else self.part.states

    def value(self, cell: Sequence[int], place: int) -> Any:
        """The state of the component (place 0) or the queue of a wire."""
        return self._numbers(place).value(cell[place])

    @property
    def nbytes(self) -> int:
        pairs = self.receive.nbytes + self.notified.nbytes
        return pairs + sum(one.nbytes for one in (*self.local.values(), *self.outgoing.values()))

    # Tables

    def list_steps(self, paid: bool, cells: Iterable[int]) -> Iterable[StepInput]:
        """The steps of the component that `_act` executes for these cells."""
        for values in map(self.ids.value, cells):
            for given, *_ in self._list_choices(values[0], paid):
                yield self.who, values[0], given
            for _, who, given, *_ in self._list_deliveries(values, paid):
                if who == self.who:
                    yield who, values[0], given

    def _act(self, paid: bool, cell: int) -> list[tuple[int, ...]]:
        values, space = self.ids.value(cell), self.space
        rows = [self._after(values, *choice) for choice in self._list_choices(values[0], paid)]
        for after, who, given, action, cost in self._list_deliveries(values, paid):
            if who == self.who:
                rows.append(self._after(after, given, action, cost, 0))
            elif who < 0:
                rows.append((self.ids.number(after), action, cost, 0, 0, *([0] * len(space.cells))))
        return [row for row in rows if row[CELL] != cell or any(row[BROKEN:])]

    def _list_deliveries(
        self, values: tuple[int, ...], paid: bool
    ) -> Iterator[tuple[tuple[int, ...], int, int, int, int]]:
        """(values after, stepping component or -1, its input, action, cost) for each event of its wires."""
        for wire, place in self.places.items():
            for queue, who, given, action, cost in self.space.deliveries(wire, values[place]):
                if paid == (cost == PAID):
                    yield _put(values, place, queue), who, given, action, cost

    def _list_choices(self, state: int, paid: bool) -> list[tuple[int, int, int, int]]:
        """(input, action, cost, condition) of each choice that may cost nothing, or of each that costs."""
        found = self._choices.get((state, paid))
        if found is None:
            found, space, name = [], self.space, self.part.component.name
            for place, choice in enumerate(space.offers(self.who, state)):
                if paid == (not choice.disturbance or bool(choice.free_when) or choice.disturbance in space.by):
                    continue
                given = choice.label if choice.given is None else choice.given
                found.append(
                    (
                        space.number_input(given, (CHOICE, self.who, state, place)),
                        space.action(name, choice.label, choice.disturbance),
                        space.cost(self.part, choice),
                        space.conditions.number(choice.free_when),
                    )
                )
            self._choices[state, paid] = found
        return found

    def _after(self, values: tuple[int, ...], given: int, action: int, cost: int, free_when: int) -> tuple[int, ...]:
        after, broken, *bundles = self._step(values, given)
        return (after, action, cost, free_when, broken, *bundles)

    def _step(self, values: tuple[int, ...], given: int) -> tuple[int, ...]:
        done = self.space.step(self.who, values[0], given)
        values = (done.state, *values[1:])
        elsewhere: dict[int, list[tuple[int, int]]] = {}
        for wire, order in done.orders:
            if wire in self.places:
                queue = self.space.push(wire, values[self.places[wire]], order)
                if queue < 0:
                    return (queue, 0, *([0] * len(self.space.cells)))
                values = _put(values, self.places[wire], queue)
            else:
                elsewhere.setdefault(self.space.keepers[wire], []).append((wire, order))
        bundles = [0] * len(self.space.cells)
        for i, bundle in elsewhere.items():
            bundles[i] = self.space.bundles.number(tuple(bundle))
        return (self.ids.number(values), done.broken, *bundles)

    def _receive(self, cell: int, given: int) -> tuple[int, ...]:
        return self._step(self.ids.value(cell), given)

    def _deliver_bundle(self, cell: int, bundle: int) -> tuple[int, ...]:
        values = self.ids.value(cell)
        for wire, order in self.space.bundles.value(bundle):
            queue = self.space.push(wire, values[self.places[wire]], order)
            if queue < 0:
                return (queue,)
            values = _put(values, self.places[wire], queue)
        return (self.ids.number(values),)

    def _deliver(self, there: int, paid: bool, cell: int) -> list[tuple[int, ...]]:
        return [
            (self.ids.number(after), action, cost, 0, given)
            for after, who, given, action, cost in self._list_deliveries(self.ids.value(cell), paid)
            if who == there
        ]


def free_under(row: Sequence[int]) -> int:
    """The condition under which a local step is free, as a bit; the last bit stands for all others."""
    return 1 << min(row[FREE_WHEN], LAST_BIT) if row[FREE_WHEN] or row[COST] == FREE else 0


def _messages(queue: Queue) -> tuple[Any, ...]:
    return (*queue.line, *queue.late)


def _under_way(queue: Queue) -> int:
    return len(queue.line) + len(queue.late)


def _put(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])
