"""A model taken step by step: what may happen now, what comes of it, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fsm.check.memo import Ids
from fsm.check.model import Action, Model, PairProperty, State
from fsm.check.space import FREE, Space, ask
from fsm.check.steps import Columns, Steps
from fsm.errors import LocalProtocolError


class PathStep(NamedTuple):
    """One step of a path, and what it changed."""

    actor: str
    """The component that takes the step; empty where a message is lost unheard."""
    action: str
    disturbance: str
    """The kind of disturbance that it is, where it costs one."""
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


class Walk:
    """Where a walk stands, from the model's start. Every kind of disturbance may happen."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._steps = Steps(model, Space(model, frozenset(model.kinds)))
        self._rows = self._steps.space.start()
        self.path: list[tuple[Action, dict[str, State]]] = []
        """The way so far: each action, and the state of each component after it."""

    def state(self) -> dict[str, str]:
        """Each component's state, described."""
        return describe_state(self._steps, self._rows)

    def options(self) -> list[PathStep]:
        """The steps that may be taken now, and what each changes."""
        return [step for step, _, _ in self._options()]

    def take(self, told: str) -> PathStep:
        """Takes the step that is told so. Raises `LocalProtocolError` where there is none, and then stands still."""
        there = list(self._options())
        for step, number, after in there:
            if str(step) == told:
                self._rows = after
                self.path.append((self._steps.space.actions.value(number), find_states(self._steps, after)))
                return step
        raise LocalProtocolError(f"no such step here, but {'; '.join(sorted({str(one) for one, _, _ in there}))}")

    def broken(self) -> list[str]:
        """The properties of states that do not hold here."""
        view, states = Columns(self._steps.space, self._rows), find_states(self._steps, self._rows)
        return [
            one.name
            for one in self.model.properties
            if not (
                ask(one.name, one.holds, states[one.first], states[one.second])
                if isinstance(one, PairProperty)
                else ask(one.name, one.holds, view)[0]
            )
        ]

    def _options(self) -> Iterator[tuple[PathStep, int, Ids]]:
        for number, costs, after in successors_of(self._steps, self._rows):
            changes = find_changes(self._steps, self._rows, after)
            yield tell_step(self._steps, number, changes, costs=costs), number, after


def successors_of(steps: Steps, rows: Ids, broken: str = "") -> Iterator[tuple[int, bool, Ids]]:
    """What may follow one state, or only what breaks something: the action, whether it costs, and the state after."""
    for one in steps.successors(rows, paid=True):
        for at in np.flatnonzero(~one.full).tolist():
            if not broken or broken in steps.space.broken.value(int(one.broken[at])):
                yield int(one.action[at]), bool(one.cost[at] != FREE), one.after(rows, np.array([at]))


def tell_step(steps: Steps, number: int, changes: dict[str, str], *, costs: bool) -> PathStep:
    """An action as it is told."""
    actor, what, kind, wire, message = steps.space.actions.value(number)
    disturbance = kind if costs else ""
    if wire < 0:
        return PathStep(actor, what, disturbance, changes)
    one = steps.model.wires[wire]
    told = str(ask(f"{one.sender} to {one.receiver}", one.describe, message))
    return PathStep(actor, what, disturbance, changes, one.sender, one.receiver, told)


def find_states(steps: Steps, rows: Ids) -> dict[str, State]:
    """The state of each component, in one global state."""
    cells = zip(steps.space.cells, rows[0].tolist(), strict=True)
    return {cell.part.component.name: cell.value(cell.ids.value(number), 0) for cell, number in cells}


def describe_state(steps: Steps, rows: Ids) -> dict[str, str]:
    """The same, described."""
    found = find_states(steps, rows)
    return {one.name: str(ask(one.name, one.describe, found[one.name])) for one in steps.model.components}


def find_changes(steps: Steps, before: Ids, after: Ids) -> dict[str, str]:
    """Those of the components, described, that are described otherwise than before."""
    was = describe_state(steps, before)
    return {name: told for name, told in describe_state(steps, after).items() if told != was[name]}
