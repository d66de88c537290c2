"""A walk through a model, step by step: the possible steps, their results and their descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from fsm.check.memo import Ids
from fsm.check.model import Action, Model, Queue, State
from fsm.check.space import FREE, Space, ask
from fsm.check.steps import Steps
from fsm.errors import LocalProtocolError

KEPT = 100_000
"""How many positions of a walk are kept besides those on the present path."""


class PathStep(NamedTuple):
    """One step of a path, and what it changed."""

    actor: str
    """The component that takes the step; empty if a message is lost."""
    action: str
    disturbance: str
    """The kind of disturbance; empty if the step costs none."""
    state: dict[str, str]
    """Each component's state after it, described; only those that changed."""
    sender: str = ""
    receiver: str = ""
    message: str = ""
    """The message that the step is about."""

    def __str__(self) -> str:
        if not self.sender:
            return f"{self.actor} {self.action}"
        if self.action.startswith("receives"):
            late = ", late" if self.action != "receives" else ""
            return f"{self.receiver} receives from {self.sender}{late}: {self.message}"
        kind = f" ({self.disturbance})" if self.disturbance else ""
        return f"{self.action} on the way from {self.sender} to {self.receiver}{kind}: {self.message}"


NO_STEP = PathStep("", "", "", {})
"""The placeholder before the first step."""


class Numbered(NamedTuple):
    """A global state as numbers of component states and of wire queues."""

    states: tuple[int, ...]
    queues: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Stand:
    """A position of a walk."""

    rows: Ids
    parts: Numbered
    before: Stand | None = None
    index: int = -1
    """The index of the step that led here among the options before."""
    action: int = -1
    step: PathStep = NO_STEP
    breaks: tuple[str, ...] = ()
    """The properties that this step breaks."""
    after: dict[int, Stand] = field(default_factory=dict)


class Walk:
    """A walk from the model's start: its position and path.

    Every kind of disturbance may happen. A path is a sequence of numbers: the index of each step among the options.
    Walked positions are kept, so that going to them again executes no step of the model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._space = Space(model, frozenset(model.kinds))
        self._steps = Steps(model, self._space)
        rows = self._space.start()
        self._here = self._first = Stand(rows, self._number(rows))
        self._kept = 0
        self._offered: tuple[Stand, list[Stand]] = self._first, []
        """The position whose options were computed last, and the position that each leads to."""

    # Position

    @property
    def stands(self) -> list[Stand]:
        """The start, and the position after each step of the path."""
        found = [self._here]
        while (before := found[-1].before) is not None:
            found.append(before)
        return found[::-1]

    @property
    def indices(self) -> tuple[int, ...]:
        """The path as indices of its steps among the options."""
        return tuple(stand.index for stand in self.stands[1:])

    @property
    def path(self) -> list[tuple[Action, dict[str, State]]]:
        """The path: each action, and the state of each component after it."""
        return [(self._space.actions.value(one.action), find_states(self._steps, one.rows)) for one in self.stands[1:]]

    def state(self) -> dict[str, str]:
        """Each component's state, described."""
        return describe_state(self._steps, self._here.rows)

    def list_broken(self) -> list[str]:
        """The properties of states that do not hold here."""
        return self.broken_at([self._here])[0]

    def broken_at(self, stands: Sequence[Stand]) -> list[list[str]]:
        """The properties that do not hold at each of these positions."""
        rows = np.asfortranarray(np.concatenate([one.rows for one in stands]))
        holds = {one.name: self._steps.holds(one, rows) for one in self.model.properties}
        return [[name for name, mask in holds.items() if not mask[at]] for at in range(len(stands))]

    def value(self, component: int, number: int) -> State:
        """The component state of this number."""
        return self._space.parts[component].states.value(number)

    def queue(self, wire: int, number: int) -> Queue:
        """The wire queue of this number."""
        found: Queue = self._space.queues[wire].value(number)
        return found

    # Steps

    def options(self) -> list[PathStep]:
        """The possible steps, with the states that each changes."""
        return [one.step for one in self._options()]

    def take(self, text: str) -> PathStep:
        """Takes the step with this description. Raises `LocalProtocolError` if there is none; nothing changes then."""
        there = self.options()
        for index, step in enumerate(there):
            if str(step) == text:
                self.choose(index)
                return step
        raise LocalProtocolError(f"no such step here; possible: {'; '.join(sorted(map(str, there)))}")

    def choose(self, index: int) -> None:
        """Takes the step of this index among the options. Raises `LocalProtocolError` if there is none."""
        self._here = self._next(self._here, index)

    def go(self, path: Sequence[int]) -> None:
        """Goes to the end of this path. Raises `LocalProtocolError`, which names the step; nothing changes then."""
        here = self._first
        for number, index in enumerate(path, 1):
            try:
                here = here.after.get(index) or self._next(here, index)
            except LocalProtocolError as problem:
                raise LocalProtocolError(f"step {number}: {problem}") from None
        self._here = here

    def follow(self, path: Sequence[PathStep]) -> None:
        """Takes these steps, each with these changes. Raises `LocalProtocolError` if it cannot; nothing changes then.

        Among steps with equal descriptions, the one is taken after which the others are possible.
        """
        begin = self._here
        ways, furthest = [iter(self._alike(path[:1]))], 0
        while ways and len(ways) <= len(path):
            index = next(ways[-1], None)
            if index is None:
                furthest = max(furthest, len(ways))
                ways.pop()
                self._here = self._here.before or begin
            else:
                self.choose(index)
                ways.append(iter(self._alike(path[len(ways) : len(ways) + 1])))
        if not ways:
            self._here = begin
            raise LocalProtocolError(f"step {furthest}: no such step here: {path[furthest - 1]}")

    def _alike(self, wanted: Sequence[PathStep]) -> list[int]:
        return [index for index, step in enumerate(self.options()) if step in wanted]

    def from_here(self) -> Model:
        """The model that begins at the present position, messages in flight included."""
        model, parts, replay = self.model, self._here.parts, self.model.replay
        before = () if replay is None else self.path
        states = (self.value(i, number) for i, number in enumerate(parts.states))
        queues = (self.queue(i, number) for i, number in enumerate(parts.queues))
        return replace(
            model,
            components=[replace(one, start=state) for one, state in zip(model.components, states, strict=True)],
            wires=[replace(one, start=queue) for one, queue in zip(model.wires, queues, strict=True)],
            replay=None if replay is None else lambda path: replay([*before, *path]),
            made_by={},
        )

    def _options(self) -> list[Stand]:
        here, (there, offered) = self._here, self._offered
        if there is not here or not offered:
            offered = [self._after(here, index, one) for index, one in enumerate(self._successors(here))]
            self._offered = here, offered
        return offered

    def _next(self, here: Stand, index: int) -> Stand:
        """The position after a step; it is kept."""
        known = here.after.get(index)
        if known is not None:
            return known
        if self._offered[0] is here and self._offered[1]:
            there, many = self._offered[1][index : index + 1], len(self._offered[1])
        else:
            some = list(islice(self._successors(here), max(index, 0) + 1))
            there, many = [self._after(here, index, one) for one in some[index:]], len(some)
        if index < 0 or not there:
            raise LocalProtocolError(f"no step {index} here: there are {many}, numbered from 0")
        if self._kept >= KEPT:
            self._forget(here)
        self._kept += 1
        here.after[index] = there[0]
        return there[0]

    def _forget(self, here: Stand) -> None:
        """Drops all positions but those of this path."""
        self._kept = 0
        while here.before is not None:
            here.before.after = {here.index: here}
            here = here.before

    def _successors(self, here: Stand) -> Iterator[Successor]:
        """The successors in an order that depends only on the state: unordered messages are sorted by their texts."""
        found = successors_of(self._steps, here.rows)
        queues = (self._space.queues[wire].keys[number] for wire, number in enumerate(here.parts.queues))
        is_ordered = [
            len(late) < 2 and not (one.reorders and len(line) > 1)
            for one, (line, late) in zip(self.model.wires, queues, strict=True)
        ]
        return found if all(is_ordered) else iter(sorted(found, key=partial(self._text, here)))

    def _text(self, here: Stand, found: Successor) -> tuple[str, list[tuple[str, str]]]:
        step = self._after(here, 0, found).step
        return str(step), sorted(step.state.items())

    def _after(self, here: Stand, index: int, found: Successor) -> Stand:
        changes = find_changes(self._steps, here.rows, found.rows)
        step = describe_step(self._steps, found.action, changes, costs=found.costs)
        return Stand(found.rows, self._number(found.rows), here, index, found.action, step, found.breaks)

    def _number(self, rows: Ids) -> Numbered:
        states, queues = [0] * len(self._space.cells), [0] * len(self.model.wires)
        for cell, number in zip(self._space.cells, rows[0].tolist(), strict=True):
            states[cell.who], *here = cell.ids.value(number)
            for wire, queue in zip(cell.wires, here, strict=True):
                queues[wire] = queue
        return Numbered(tuple(states), tuple(queues))


class Successor(NamedTuple):
    """A successor of a state."""

    action: int
    costs: bool
    rows: Ids
    breaks: tuple[str, ...]
    """The properties that the step breaks."""


def successors_of(steps: Steps, rows: Ids) -> Iterator[Successor]:
    for one in steps.successors(rows, paid=True):
        for at in np.flatnonzero(~one.full).tolist():
            breaks = steps.space.broken.value(int(one.broken[at]))
            yield Successor(int(one.action[at]), bool(one.cost[at] != FREE), one.after(rows, np.array([at])), breaks)


def describe_step(steps: Steps, number: int, changes: dict[str, str], *, costs: bool) -> PathStep:
    actor, what, kind, sender, receiver, message = steps.space.actions.value(number)
    disturbance = kind if costs else ""
    if not sender:
        return PathStep(actor, what, disturbance, changes)
    describe = steps.model.wires[steps.space.wire_to(sender, receiver)].describe
    text = str(ask(f"{sender} to {receiver}", describe, message))
    return PathStep(actor, what, disturbance, changes, sender, receiver, text)


def find_states(steps: Steps, rows: Ids) -> dict[str, State]:
    """The state of each component, in one global state."""
    cells = zip(steps.space.cells, rows[0].tolist(), strict=True)
    return {cell.part.component.name: cell.value(cell.ids.value(number), 0) for cell, number in cells}


def describe_state(steps: Steps, rows: Ids) -> dict[str, str]:
    """The description of each component's state, in one global state."""
    found = find_states(steps, rows)
    return {one.name: str(ask(one.name, one.describe, found[one.name])) for one in steps.model.components}


def find_changes(steps: Steps, before: Ids, after: Ids) -> dict[str, str]:
    """The descriptions of the components whose descriptions have changed."""
    found = {}
    for cell, *both in zip(steps.space.cells, before[0].tolist(), after[0].tolist(), strict=True):
        was, now = (cell.ids.value(number)[0] for number in both)
        if was != now:
            one, states = cell.part.component, cell.part.states
            old, new = (str(ask(one.name, one.describe, states.value(number))) for number in (was, now))
            if new != old:
                found[one.name] = new
    return found
