"""Symmetry reduction: states that differ by a renaming of interchangeable components are explored once.

The symmetry is verified. A renaming swaps the names of components everywhere in states, inputs and messages. The
quotient is sound if every renaming maps steps to steps: so each row of the tables is executed once more, renamed, and
must give the renamed result; choices, wires and properties of states must be the same, too. The first difference
refuses the quotient.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from itertools import pairwise, permutations
from typing import Any, NoReturn

import numpy as np

from fsm.check.endless import EndlessError, within
from fsm.check.memo import Growing, Ids
from fsm.check.model import Choice, Component, Step
from fsm.check.space import sort_late
from fsm.check.steps import Steps
from fsm.errors import InputError

MOST = 5
"""The maximum number of interchangeable components; there is a renaming for each permutation."""
REMEDY = "leave --symmetry out"


class Renaming:
    """A renaming of components inside of arbitrary values."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<!\w)({either})(?!\w)")

    def __call__(self, value: Any) -> Any:
        """The value with names replaced; the same object if it has none of them."""
        if isinstance(value, str):
            return self._pattern.sub(lambda found: self.names[found[1]], value)
        make: Any = type(value)
        if isinstance(value, Enum):
            return value
        if isinstance(value, tuple):
            parts = [self(one) for one in value]
            if _same(parts, value):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, frozenset | list):
            return make(map(self, value))
        if make.__reduce__ is not object.__reduce__:  # it rebuilds itself from its parts
            make, before, *_ = value.__reduce__()
            parts = [self(one) for one in before]
            return value if _same(parts, before) else make(*parts)
        if make.__hash__ is object.__hash__:  # an opaque object has no names
            return value
        if is_dataclass(value) and not isinstance(value, type):
            named = [one.name for one in fields(value) if one.init]
            before = [getattr(value, name) for name in named]
            parts = [self(one) for one in before]
            return value if _same(parts, before) else replace(value, **dict(zip(named, parts, strict=True)))
        if isinstance(value, Mapping):
            parts = [(self(key), self(one)) for key, one in value.items()]
            return value if _same(parts, value.items()) else make(dict(parts))
        return value


def _same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    return all(one is other or one == other for one, other in zip(some, others, strict=True))


class Symmetry:
    """The quotient of a model by the permutations of some components. Raises `InputError` if they differ."""

    def __init__(self, steps: Steps, names: Sequence[str]) -> None:
        self.steps, self.space, self.model = steps, steps.space, steps.model
        unknown = [name for name in names if name not in self.space.index]
        if unknown or not 2 <= len(set(names)) <= MOST:
            there = ", ".join(self.space.index)
            raise InputError(f"cannot exchange {', '.join(names)}", self.model.name, f"choose 2 to {MOST} of {there}")
        self.renamings = [Renaming(dict(zip(names, order, strict=True))) for order in permutations(names)]
        self._neighbours = [Renaming({a: b, b: a}) for a, b in pairwise(names)]
        self._maps: dict[tuple[int, int], Growing] = {}
        """The renamed number of each cell, by renaming and cell."""
        self._checked: dict[tuple[int, int], int] = {}
        self._wires = [{wire: self._wire(one, wire) for wire in range(len(self.model.wires))} for one in self.renamings]
        for renaming in self._neighbours:
            for part in self.space.parts:
                other = self.space.parts[self._who(renaming, part.component.name)].component
                if rename(part.component, part.component.start, renaming) != other.start:
                    self._refuse(f"{part.component.name} and {other.name} start in different states")

    def _who(self, renaming: Renaming, name: str) -> int:
        return self.space.index[renaming.names.get(name, name)]

    def _wire(self, renaming: Renaming, wire: int) -> int:
        """The image of a wire."""
        one = self.model.wires[wire]
        ends = [renaming.names.get(end, end) for end in (one.sender, one.receiver)]
        for at, other in enumerate(self.model.wires):
            policy = [(w.disturbances, w.reorders, w.at_most, w.waits, w.outdates) for w in (one, other)]
            keepers = [self.model.components[self.space.keepers[w]].name for w in (wire, at)]
            keepers[0] = renaming.names.get(keepers[0], keepers[0])
            is_like = policy[0] == policy[1] and keepers[0] == keepers[1] and renaming(one.start) == other.start
            if [other.sender, other.receiver] == ends and is_like:
                return at
        raise InputError(f"the wire from {one.sender} to {one.receiver} has no counterpart", self.model.name, REMEDY)

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(f"not interchangeable: {what}", self.model.name, REMEDY)

    # States

    def images(self, rows: Ids) -> list[Ids]:
        """The states under every renaming, the first of which changes nothing."""
        found = [rows]
        for number, renaming in enumerate(self.renamings[1:], 1):
            image = np.empty_like(rows)
            for i, cell in enumerate(self.space.cells):
                there = self._who(renaming, cell.part.component.name)
                image[:, there] = self._map(number, i, there, rows[:, i])
            found.append(image)
        return found

    def _map(self, number: int, i: int, there: int, ids: Ids) -> Ids:
        known = self._maps.setdefault((number, i), Growing(np.int32))
        if known.size < (top := int(ids.max(initial=-1)) + 1):
            known.extend(-1, top - known.size)
        new = np.unique(ids)
        for one in new[known.view[new] < 0].tolist():
            known.view[one] = self._rename_cell(number, i, there, one)
        found: Ids = known.view[ids]
        return found

    def _rename_cell(self, number: int, i: int, there: int, one: int) -> int:
        space, renaming = self.space, self.renamings[number]
        cell, target = space.cells[i], space.cells[there]
        state, *queues = cell.ids.value(one)
        renamed = {}
        for wire, queue in zip(cell.wires, queues, strict=True):
            lines = space.queues[wire].keys[queue]
            line, late = ([self._message(wire, message, renaming) for message in found] for found in lines)
            other = self._wires[number][wire]
            line = sorted(line) if self.model.wires[other].reorders else line
            renamed[other] = space.queue(other, tuple(line), sort_late(self.model.wires[other], late))
        after = space.parts[there].number(rename(cell.part.component, cell.part.states.value(state), renaming))
        return target.ids.number((after, *(renamed[wire] for wire in target.wires)))

    def _message(self, wire: int, message: int, renaming: Renaming) -> int:
        return self.space.message(self.model.wires[wire].sender, renaming(self.space.messages.value(message)), ())

    # Checks

    def check(self) -> None:
        """Takes each new step of the tables again, renamed. Raises `InputError` if the result differs."""
        for number, renaming in enumerate(self._neighbours):
            for who, part in enumerate(self.space.parts):
                other = self.space.parts[self._who(renaming, part.component.name)].component
                rows = list(part.steps)
                for state, given in rows[self._checked.get((number, who), 0) :]:
                    before, input_ = part.states.value(state), self.space.inputs.value(given)
                    one = _show(part.component, self._take(part.component, before, input_), renaming)
                    renamed = rename(part.component, before, renaming)
                    if one != _show(other, self._take(other, renamed, renaming(input_))):
                        where = f"{part.component.describe(before)} on {self.space.describe_input(given)}"
                        self._refuse(f"renamed, {part.component.name} does another thing in {where}")
                self._checked[number, who] = len(rows)
                for state in list(part.offers)[self._checked.get((number, -1 - who), 0) :]:
                    before = part.states.value(state)
                    mine = {_choice(one, renaming) for one in part.component.choices(before)}
                    if mine != {_choice(one) for one in other.choices(rename(part.component, before, renaming))}:
                        where = part.component.describe(before)
                        self._refuse(f"renamed, {part.component.name} has other choices in {where}")
                self._checked[number, -1 - who] = len(part.offers)

    def _take(self, component: Component, state: Any, given: Any) -> Step | str:
        try:
            step: Step = within(self.space.limit_s, component.step, state, given)
        except (Exception, EndlessError) as problem:  # exceptions of steps have to be the same, too
            return type(problem).__name__
        return step

    def check_questions(self, rows: Ids) -> None:
        """Checks that properties have the same values after every renaming. Raises `InputError` otherwise."""
        model, images = self.model, self.images(rows)
        goal = [] if model.goal is None else [(model.goal.name, model.goal.reached)]
        for one in model.properties:
            answers = [self.steps.holds(one, image) for image in images]
            if any((answer != answers[0]).any() for answer in answers):
                self._refuse(f"{one.name!r} is asked of one and not of the others")
        for name, condition in (*goal, *model.hazards.items(), *model.conditions.items()):
            answer = self.steps.ask(name, condition, rows)
            for image, renaming in zip(images, self.renamings, strict=True):
                like = model.conditions.get(renaming(name), condition)
                if (self.steps.ask(name, like, image) != answer).any():
                    self._refuse(f"{name!r} is true of one and not of the others")


Change = Callable[[Any], Any]


def _keep(value: Any) -> Any:
    return value


def rename(component: Component, state: Any, renaming: Change) -> Any:
    """A state of a component with other names in it."""
    renamed = renaming(state)
    return renamed if component.sort is None else component.sort(renamed)


def _show(component: Component, step: Step | str, change: Change = _keep) -> Any:
    """The changed result of a step; messages to different receivers are not ordered."""
    if isinstance(step, str):
        return step
    sent: dict[str, list[Any]] = {}
    for receiver, message in step.sends:
        sent.setdefault(change(receiver), []).append(change(message))
    return rename(component, step.state, change), sent, {change(one) for one in step.broken}, step.hangs_up


def _choice(one: Choice, change: Change = _keep) -> Any:
    return change(one.label if one.given is None else one.given), one.disturbance, change(one.free_when)
