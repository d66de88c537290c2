"""What a search says: whether everything holds, and where not, how it comes to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fsm.check.liveness import doomed
from fsm.check.memo import Ids
from fsm.check.model import Action, Goal, Model, Replayed, State
from fsm.check.search import DEADLOCK, USUAL, Found, Limits, Search
from fsm.check.space import FREE, ask
from fsm.check.steps import Columns
from fsm.errors import InputError

AFTERWARDS = 60
"""So many steps show what becomes of a doomed state."""


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


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that does not hold, by the path with the fewest disturbances and then the fewest steps."""

    property: str
    meaning: str
    disturbances: int
    start: dict[str, str]
    path: tuple[PathStep, ...]
    doomed_at: int | None = None
    """The step after which a goal is out of reach; steps behind it show what becomes of that."""
    replayed: Replayed | None = None
    """What live objects did along the path: where they differ the model errs; None where none can take it."""
    hazards: tuple[str, ...] = ()
    """Known hazards that show at its end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found, and how much it covered."""

    model: str
    violations: tuple[Violation, ...]
    stopped: str
    """Why not every state was met; empty where they all were."""
    states: int
    transitions: int
    depth: int
    exact: bool
    """Whether keys were exact; else two states may have been taken for one."""
    cpu_s: float
    bytes_per_state: float
    components: dict[str, int]
    """Distinct states of each component."""
    memo_steps: int
    """Steps that Python took; all others were looked up."""
    cut: dict[str, int]
    """What was not continued: states of known hazards, wires that were full."""
    disturbed: tuple[str, ...] = ()
    disturbances: int = 0
    uncovered: tuple[str, ...] = ()
    """What the model leaves out."""
    checked: tuple[str, ...] = ()
    """Properties that were asked."""
    of_steps: tuple[str, ...] = ()
    """What each step was asked for."""
    not_asked: tuple[str, ...] = ()
    """What is known not to hold."""

    @property
    def word(self) -> str:
        """`violated`, `stopped` or `holds`."""
        return "violated" if self.violations else "stopped" if self.stopped else "holds"

    def document(self) -> dict[str, Any]:
        """The verdict as lists and dicts."""
        return {
            "model": self.model,
            "verdict": self.word,
            "stopped": self.stopped,
            "states": self.states,
            "transitions": self.transitions,
            "depth": self.depth,
            "exact": self.exact,
            "cpu_s": round(self.cpu_s, 2),
            "bytes_per_state": round(self.bytes_per_state, 1),
            "components": self.components,
            "memo_steps": self.memo_steps,
            "disturbed": list(self.disturbed),
            "disturbances": self.disturbances,
            "cut": self.cut,
            "uncovered": list(self.uncovered),
            "checked": list(self.checked),
            "of_steps": list(self.of_steps),
            "not_asked": list(self.not_asked),
            "violations": [_violation_document(one) for one in self.violations],
        }


def _violation_document(one: Violation) -> dict[str, Any]:
    return {
        "property": one.property,
        "meaning": one.meaning,
        "disturbances": one.disturbances,
        "steps": len(one.path) if one.doomed_at is None else one.doomed_at,
        "doomed_at": one.doomed_at,
        "hazard": ", ".join(one.hazards),
        "replayed": None if one.replayed is None else not one.replayed.differs,
        "differs": "" if one.replayed is None else one.replayed.differs,
        "times_ms": [] if one.replayed is None else list(one.replayed.times_ms),
        "settings": {} if one.replayed is None else dict(one.replayed.settings),
        "start": one.start,
        "path": [step._asdict() for step in one.path],
    }


def check(
    model: Model,
    *,
    disturb: Sequence[str] = (),
    disturbances: int = 0,
    known: Sequence[str] = (),
    properties: Sequence[str] = (),
    limits: Limits = USUAL,
    every: bool = False,
    clock: Callable[[], float] = lambda: 0.0,
    progress: Callable[[int, int, int], None] = lambda _states, _transitions, _depth: None,
) -> Verdict:
    """Meets every state of a model with at most so many disturbances of these kinds, and asks it all properties.

    `properties` chooses some by name; `known` are hazards to cut off. `clock` gives CPU seconds, for the verdict. The
    first counterexample ends the search unless `every` is given. Liveness is asked when every state was met and nothing
    else was broken. Raises `InputError` for a name that there is not, and a model whose step is not pure.
    """
    began = clock()
    search = Search(_chosen(model, properties), frozenset(disturb), disturbances, known, limits, every, progress)
    search.run()
    met = search.states.size
    violations = [_violation(search, found) for found in search.found.values()]
    if search.model.goal is not None and not search.stopped and (every or not violations):
        lost = doomed(search)
        if len(lost):
            violations.append(_doomed(search, search.model.goal, int(lost[0])))
    parts = search.space.parts
    goal = () if search.model.goal is None else (DEADLOCK, search.model.goal.name)
    return Verdict(
        model=model.name,
        violations=tuple(sorted(violations, key=lambda one: (one.disturbances, len(one.path), one.property))),
        stopped=search.stopped,
        states=met,
        transitions=search.transitions,
        depth=search.depth,
        exact=search.exact,
        cpu_s=clock() - began,
        bytes_per_state=search.nbytes / max(1, met),
        components={part.component.name: len(part.states) for part in parts},
        memo_steps=search.space.memo_size,
        cut=dict(sorted(search.cut.items())),
        disturbed=tuple(sorted(disturb)),
        disturbances=disturbances,
        uncovered=tuple(model.not_modelled),
        checked=(*(one.name for one in search.model.properties), *goal),
        of_steps=tuple(model.asked_of_steps),
        not_asked=tuple(model.not_asked),
    )


def _chosen(model: Model, names: Sequence[str]) -> Model:
    if not names:
        return model
    known = {one.name: one for one in model.properties}
    goal = model.goal
    for name in names:
        if name not in known and (goal is None or name != goal.name):
            there = ", ".join((*known, *(() if goal is None else (goal.name,))))
            raise InputError(f"no property {name!r}", model.name, f"choose from {there}")
    kept = goal if goal is not None and goal.name in names else None
    return replace(model, properties=[one for name, one in known.items() if name in names], goal=kept)


def _violation(search: Search, found: Found) -> Violation:
    trail = search.trail(found.state)
    meaning = next((one.meaning for one in search.model.properties if one.name == found.name), "")
    path = list(_told(search, trail))
    start, hazards = _described(search, trail[0]), _hazards(search, found.state)
    if found.action >= 0:  # the step itself: nothing is known of what it would lead to
        costs = found.cost > search.cost_of(found.state)
        path.append(_step(search, found.action, {}, costs=costs))
        return Violation(found.name, meaning, found.cost, start, tuple(path), hazards=hazards)
    replayed = _replayed(search, found.state)
    return Violation(found.name, meaning, found.cost, start, tuple(path), replayed=replayed, hazards=hazards)


def states_on(search: Search, state: int) -> list[tuple[Action, dict[str, State]]]:
    """The way to a state: each action, and the state of each component after it."""
    found = []
    for at in search.trail(state)[1:]:
        cells = zip(search.space.cells, search.rows([at])[0].tolist(), strict=True)
        states = {cell.part.component.name: cell.value(cell.ids.values[number], 0) for cell, number in cells}
        found.append((search.space.actions.values[search.action_of(at)], states))
    return found


def _hazards(search: Search, state: int) -> tuple[str, ...]:
    view = Columns(search.space, search.rows([state]))
    return tuple(name for name, shows in sorted(search.model.hazards.items()) if ask(name, shows, view)[0])


def _replayed(search: Search, state: int) -> Replayed | None:
    replay = search.model.replay
    return None if replay is None else replay(states_on(search, state))


def _doomed(search: Search, goal: Goal, state: int) -> Violation:
    """The way to the first doomed state, and one way on from it."""
    trail = search.trail(state)
    path = list(_told(search, trail))
    rows = search.rows([state])
    seen = {rows.tobytes()}
    for _ in range(AFTERWARDS):
        step = _first_free(search, rows)
        if step is None or step[1].tobytes() in seen:
            break
        path.append(_step(search, step[0], _changes(search, rows[0], step[1][0]), costs=False))
        rows = step[1]
        seen.add(rows.tobytes())
    cost = search.cost_of(state)
    start = _described(search, trail[0])
    doomed_at, replayed = len(trail) - 1, _replayed(search, state)
    return Violation(goal.name, goal.meaning, cost, start, tuple(path), doomed_at, replayed, _hazards(search, state))


def _first_free(search: Search, rows: Ids) -> tuple[int, Ids] | None:
    """The first step that costs nothing, and the state behind it."""
    for one in search.steps.successors(rows, paid=False):
        for at in np.flatnonzero((one.cost == FREE) & ~one.full).tolist():
            after = rows.copy()
            for j, now in one.cells.items():
                after[0, j] = now[at]
            return int(one.action[at]), after
    return None


def _told(search: Search, trail: Sequence[int]) -> Iterator[PathStep]:
    for before, after in pairwise(trail):
        costs = search.cost_of(after) > search.cost_of(before)
        changes = _changes(search, *search.rows([before, after]))
        yield _step(search, search.action_of(after), changes, costs=costs)


def _step(search: Search, number: int, changes: dict[str, str], *, costs: bool) -> PathStep:
    actor, what, kind, wire, message = search.space.actions.values[number]
    disturbance = kind if costs else ""
    if wire < 0:
        return PathStep(actor, what, disturbance, changes)
    one = search.model.wires[wire]
    told = str(ask(f"{one.sender} to {one.receiver}", one.describe, message))
    return PathStep(actor, what, disturbance, changes, one.sender, one.receiver, told)


def _described(search: Search, state: int) -> dict[str, str]:
    row = search.rows([state])[0]
    return {
        cell.part.component.name: _describe(cell, int(number))
        for cell, number in zip(search.space.cells, row, strict=True)
    }


def _changes(search: Search, before: Any, after: Any) -> dict[str, str]:
    found = {}
    for cell, old, new in zip(search.space.cells, before, after, strict=True):
        told, was = _describe(cell, int(new)), _describe(cell, int(old))
        if told != was:
            found[cell.part.component.name] = told
    return found


def _describe(cell: Any, number: int) -> str:
    component = cell.part.component
    return str(ask(component.name, component.describe, cell.value(cell.ids.values[number], 0)))
