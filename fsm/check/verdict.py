"""The verdict of a search: whether all properties hold, and counterexamples for those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from fsm.check.disk import Disk
from fsm.check.endless import ENDLESS, EndlessError, watching, within
from fsm.check.memo import Ids
from fsm.check.model import Action, Goal, Model, Path, Replayed, State
from fsm.check.search import DEADLOCK, USUAL, Limits, Search
from fsm.check.space import ask
from fsm.check.steps import Columns, Found, Steps
from fsm.check.table_files import Memo
from fsm.check.walk import PathStep, describe_state, describe_step, find_changes, find_states, successors_of
from fsm.errors import InputError
from fsm.nodes import nearest

AFTERWARDS = 60
"""The maximum number of steps in the continuation of a doomed state."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that does not hold, by the path with the fewest disturbances and then the fewest steps."""

    property: str
    meaning: str
    disturbances: int
    start: dict[str, str]
    path: tuple[PathStep, ...]
    doomed_at: int | None = None
    """The step after which the goal is out of reach; later steps are a possible continuation."""
    replayed: Replayed | None = None
    """The result of the replay: a difference is an error of the model; None if the model has no replay."""
    hazards: tuple[str, ...] = ()
    """The known hazards of its last state."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check, and its coverage; the fields are in the order of the document."""

    model: str
    violations: tuple[Violation, ...]
    stopped: str
    """Why not all states were explored; empty if they were."""
    states: int
    transitions: int
    depth: int
    exact: bool
    """Whether keys were exact; otherwise two states may share a key."""
    cpu_s: float
    bytes_per_state: float
    components: dict[str, int]
    """Distinct states of each component."""
    memo_steps: int
    """The number of executed steps."""
    memo_hits: int
    """The number of looked-up steps, including impossible ones."""
    disturbed: tuple[str, ...]
    disturbances: int
    never: tuple[str, ...]
    """Kinds of disturbances that were not possible in any state."""
    cut: dict[str, int]
    """Counts of states cut off: with known hazards, or with full wires."""
    symmetry: tuple[str, ...]
    """Interchangeable components, checked with every row of the tables."""
    uncovered: tuple[str, ...]
    """Behaviour that the model leaves out."""
    checked: tuple[str, ...]
    """The properties that were checked."""
    of_steps: tuple[str, ...]
    """The local properties of steps that were checked."""
    not_asked: tuple[str, ...]
    """Properties that are known not to hold."""
    made_by: Mapping[str, Any]
    """The name and options for `make_model`; empty for your own model."""

    @property
    def word(self) -> str:
        """`violated`, `stopped` or `holds`."""
        return "violated" if self.violations else "stopped" if self.stopped else "holds"

    def document(self) -> dict[str, Any]:
        """The verdict as lists and dicts."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        named = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        del named["made_by"], named["violations"]
        return {
            "model": self.model,
            "verdict": self.word,
            **named,
            "cpu_s": round(self.cpu_s, 2),
            "bytes_per_state": round(self.bytes_per_state, 1),
            "violations": [_violation_document(one) for one in self.violations],
        }


def count_steps(one: Violation) -> int:
    """The length of the path."""
    return len(one.path) if one.doomed_at is None else one.doomed_at


def _violation_document(one: Violation) -> dict[str, Any]:
    replayed = one.replayed or Replayed()
    return {
        "property": one.property,
        "meaning": one.meaning,
        "disturbances": one.disturbances,
        "steps": count_steps(one),
        "doomed_at": one.doomed_at,
        "hazard": ", ".join(one.hazards),
        "replayed": None if one.replayed is None or one.replayed.stopped else not one.replayed.differs,
        "differs": replayed.differs,
        "times_ms": list(replayed.times_ms),
        "idle": [list(idle) for idle in replayed.idle],
        "settings": dict(replayed.settings),
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
    symmetry: Sequence[str] = (),
    limits: Limits = USUAL,
    every: bool = False,
    memo: Memo | None = None,
    disk: Disk | None = None,
    engine: Callable[..., Search] = Search,
    jobs: int = 1,
    clock: Callable[[], float] = lambda: 0.0,
    progress: Callable[[int, int, int], None] = lambda _states, _transitions, _depth: None,
) -> Verdict:
    """Explores every state of a model with at most `disturbances` of these kinds, and checks all properties.

    `properties` chooses some by name; `known` are hazards to cut off; `symmetry` names interchangeable components.
    `memo` keeps tables between two runs, `disk` states and everything else. `engine` creates the search from these
    arguments; `jobs` processes execute steps. `clock` gives CPU seconds, for the verdict. The first counterexample ends
    the search unless `every` is given. Liveness is checked if all states were explored and no other property is
    violated. Raises `InputError` for an unknown name, a model whose step is not pure, and components that are not
    interchangeable.
    """
    began = clock()
    model, asks_goal = _choose(model, properties)
    search = engine(model, frozenset(disturb), disturbances, known, limits, every, progress, symmetry)
    if symmetry and not (memo is None and disk is None and engine is Search):
        raise InputError("does not go with --memo, --dir and --engine", "--symmetry", "leave them out")
    search.space.jobs = jobs
    if memo is not None:
        memo.prepare()
        memo.load(search.space)
    with watching(), nullcontext() if disk is None else disk.keeping(search):
        violations = [_violation(search, one) for one in search.run().found.values()]
        met, goal = search.met, [] if model.goal is None else [DEADLOCK, model.goal.name][: 1 + asks_goal]
        if model.goal is not None and asks_goal and not search.stopped and (every or not violations):
            doomed = search.first_doomed()
            if doomed >= 0:
                found = Found(model.goal.name, doomed, search.cost_of(doomed))
                violations.append(_violation(search, found, model.goal))
        if search.quotient is not None:
            search.quotient.check()
    if memo is not None and search.space.taken:
        memo.save(search.space)
    parts = search.space.parts
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
        memo_steps=search.space.taken,
        memo_hits=max(0, search.looked_up - search.space.taken),
        cut=dict(sorted(search.cut.items())),
        disturbed=tuple(sorted(disturb)),
        never=tuple(sorted(set(disturb) - {kind for _, _, kind, *_ in search.space.actions.keys})),
        disturbances=disturbances,
        uncovered=tuple(model.not_modelled),
        made_by=model.made_by,
        symmetry=tuple(symmetry),
        checked=(*(one.name for one in model.properties), *goal),
        of_steps=tuple(model.asked_of_steps),
        not_asked=tuple(model.not_asked),
    )


def _choose(model: Model, names: Sequence[str]) -> tuple[Model, bool]:
    """The model with these properties only, and whether its goal is asked; invariants of steps by their number, too."""
    if not names:
        return model, model.goal is not None
    states = {one.name: one for one in model.properties}
    goals = [] if model.goal is None else [DEADLOCK, model.goal.name]
    invariants = [name for name in model.asked_of_steps if name in names or _number_of(name) in names]
    for name in names:
        if name not in (*states, *goals, *invariants, *map(_number_of, invariants)):
            there = [*dict.fromkeys((*states, *goals, *map(_number_of, model.asked_of_steps)))]
            remedy = nearest(name, there, others=f"choose from {', '.join(there)}")
            raise InputError(f"unknown property {name!r}", model.name, remedy)
    chosen = replace(
        model,
        properties=[one for name, one in states.items() if name in names],
        goal=model.goal if any(name in goals for name in names) else None,
        asked_of_steps=invariants or model.asked_of_steps,
        ignored_of_steps=frozenset(model.asked_of_steps).difference(invariants) if invariants else frozenset(),
    )
    return chosen, chosen.goal is not None and chosen.goal.name in names


def _number_of(invariant: str) -> str:
    """The number of an invariant, such as I09b; its whole name if it has none."""
    first = invariant.partition(" ")[0]
    return first if any(map(str.isdigit, first)) else invariant


def _violation(search: Search, found: Found, goal: Goal | None = None) -> Violation:
    """The path to a state, and the step from it if that violates the property; or a continuation from where the `goal`
    is out of reach.
    """
    trail, steps = search.trail(found.state), search.steps
    rows, path = search.rows([found.state]), states_on(search, found.state)
    path_steps = list(_list_path_steps(search, trail))
    if goal is not None:
        path_steps += _go_on(steps, rows)
    for one in successors_of(steps, rows) if found.action >= 0 else ():
        if one.action == found.action and found.name in one.breaks:  # the step itself
            path_steps.append(describe_step(steps, one.action, find_changes(steps, rows, one.rows), costs=one.costs))
            path.append((search.space.actions.value(one.action), find_states(steps, one.rows)))
            break
    asked = search.model.properties if goal is None else [goal]
    return Violation(
        found.name,
        next((one.meaning for one in asked if one.name == found.name), ""),
        found.cost,
        describe_state(steps, search.rows([0])),
        tuple(path_steps),
        None if goal is None else len(trail) - 1,
        _replay(search, path, found.name),
        _hazards(search, found.state),
    )


def _go_on(steps: Steps, rows: Ids) -> Iterator[PathStep]:
    """Some free steps from a state."""
    seen = {rows.tobytes()}
    for _ in range(AFTERWARDS):
        step = next((one for one in successors_of(steps, rows) if not one.costs), None)
        if step is None or step.rows.tobytes() in seen:
            return
        yield describe_step(steps, step.action, find_changes(steps, rows, step.rows), costs=False)
        rows = step.rows
        seen.add(rows.tobytes())


def states_on(search: Search, state: int) -> list[tuple[Action, dict[str, State]]]:
    """The path to a state: each action, and the state of each component after it."""
    actions = search.space.actions
    return [
        (actions.value(search.action_of(at)), find_states(search.steps, search.rows([at])))
        for at in search.trail(state)[1:]
    ]


def _hazards(search: Search, state: int) -> tuple[str, ...]:
    view = Columns(search.space, search.rows([state]))
    return tuple(name for name, shows in sorted(search.model.hazards.items()) if ask(name, shows, view)[0])


def _replay(search: Search, path: Path, broken: str) -> Replayed | None:
    """Replays the path with live objects, which raise, or do not end, if a step of the model did."""
    replay, limit_s = search.model.replay, search.limits.step_s
    if replay is None:
        return None
    is_endless = broken.startswith(ENDLESS)
    try:
        done = within(limit_s if is_endless else limit_s * max(1, len(path)), replay, path)
    except EndlessError as problem:
        return Replayed() if is_endless else Replayed(stopped=str(problem))
    except Exception as problem:  # the exception of a step is the finding
        raised = f"raises {type(problem).__name__}: {problem}".partition("\n")[0]
        return Replayed("" if raised == broken else raised)
    if is_endless and not done.differs:
        return Replayed("live objects complete the step")
    return Replayed("live objects raise nothing") if broken.startswith("raises ") and not done.differs else done


def _list_path_steps(search: Search, trail: Sequence[int]) -> Iterator[PathStep]:
    for before, after in pairwise(trail):
        costs = search.cost_of(after) > search.cost_of(before)
        changes = find_changes(search.steps, search.rows([before]), search.rows([after]))
        yield describe_step(search.steps, search.action_of(after), changes, costs=costs)
