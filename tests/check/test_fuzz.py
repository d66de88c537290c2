"""Random small models: what the engine finds is what a search of one state at a time finds."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from naive_search import Naive, State

from fsm.check import (
    Choice,
    Component,
    Disturbance,
    Fault,
    Goal,
    Limits,
    Model,
    Notification,
    PairProperty,
    Property,
    Queue,
    Step,
    View,
    Wire,
    check,
    liveness,
    search,
)
from fsm.check.liveness import find_doomed
from fsm.check.search import Search
from fsm.check.store import Packing

KINDS = ("by", "k1", "k2", "w1", "w2")
MANY = 300
"""Models with more states are passed over."""


def chance(*about: Any) -> Random:
    """The same for the same things."""
    return Random(crc32(repr(about).encode()))  # noqa: S311


def component(seed: int, name: str, receivers: list[str], states: int) -> Component:
    """One whose choices and steps are random, and the same each time."""

    def choices(state: int) -> Iterable[Choice]:
        drawn = chance(seed, name, state)
        for number in range(drawn.choice([0, 1, 1, 2])):
            kind = drawn.choice(["", "", "", "k1", "k2", "by"])
            yield Choice(f"{number}{kind}", None, kind, drawn.choice(["", "even"]) if kind[:1] == "k" else "")

    def step(state: int, given: Any) -> Step:
        drawn = chance(seed, name, state, type(given).__name__, given)
        if drawn.random() < 0.01:
            raise ValueError("no")
        sends = [(drawn.choice(receivers), drawn.choice("mn")) for _ in range(drawn.choice([0, 0, 1, 1, 2]))]
        broken = ["b"] if drawn.random() < 0.03 else []
        return Step(drawn.randrange(states), sends if receivers else [], broken, drawn.random() < 0.08)

    if not receivers:
        receivers = ["nobody"]
        steps = step

        def step(state: int, given: Any) -> Step:
            return steps(state, given)._replace(sends=[])

    return Component(name, 0, choices, step, {"s": int})


def random_model(seed: int) -> Model:
    """Up to four components and wires of every policy; properties, hazards and goals that some states meet."""
    drawn = chance(seed)
    names = [f"c{i}" for i in range(drawn.randint(1, 4))]
    states, most = drawn.randint(2, 3), drawn.randint(2, 6)
    ends = [(one, other) for one in names for other in names if one != other or drawn.random() < 0.2]
    drawn.shuffle(ends)
    wires = []
    for sender, receiver in ends[: drawn.randint(0, 4)]:
        faults = [
            Disturbance(drawn.choice(KINDS[3:]), fault, drawn.choice(list(Notification)))
            for fault in Fault
            if drawn.random() < 0.4
        ]
        shown = {"late": lambda queue: len(queue.late)}
        wires.append(Wire(sender, receiver, faults, drawn.random() < 0.4, drawn.randint(1, 3), shown, waits=True))
    weights = {name: drawn.randint(0, 3) for name in names}
    wanted = drawn.randrange(states)

    def light(view: View) -> Any:
        found = sum(weights[name] * view.of(name, "s") for name in names)
        return found + sum(view.on(wire.sender, wire.receiver) for wire in wires) != most + 2

    def hazard(view: View) -> Any:
        found = sum(view.of(name, "s") for name in names)
        return found + sum(2 * view.on(wire.sender, wire.receiver, "late") for wire in wires) == 4

    def goal(view: View) -> Any:
        return np.all([view.of(name, "s") == wanted for name in names[:2]], axis=0)

    properties: list[Property | PairProperty] = [Property("light", light)]
    if len(names) > 1:
        properties.append(PairProperty("apart", *names[:2], lambda one, other: (one, other) != (1, states - 1)))
    return Model(
        f"random {seed}",
        [component(seed, a, [wire.receiver for wire in wires if wire.sender == a], states) for a in names],
        wires,
        properties,
        Goal("goal", goal, ("by",) if drawn.random() < 0.6 else ()),
        {"even": lambda view: (view.of(names[0], "s") + view.of(names[-1], "s")) % 2 == 0},
        {"H": hazard},
        KINDS,
    )


def states_of(found: Search) -> list[State]:
    """What a search met, in its order, as the naive one has it."""
    lines = []
    for row in found.rows(slice(None)).tolist():
        states, queues = [], [Queue()] * len(found.model.wires)
        for cell, number in zip(found.space.cells, row, strict=True):
            numbers = cell.ids.value(number)
            states.append(cell.value(numbers, 0))
            for wire in cell.wires:
                line, late = cell.value(numbers, cell.places[wire])
                line = tuple(sorted(line)) if found.model.wires[wire].reorders else line
                queues[wire] = Queue(line, tuple(sorted(late)))
        lines.append((tuple(states), tuple(queues)))
    return lines


def compare(seed: int, **options: Any) -> int:
    """Asserts that engine and naive search agree; how many states they found, 0 where the model is too large."""
    drawn, model = chance(seed, "kinds"), random_model(seed)
    kinds = frozenset(kind for kind in KINDS if drawn.random() < 0.5)
    most, known = drawn.randint(0, 2), ["H"] if drawn.random() < 0.3 else []
    found = Search(model, kinds, most, known, Limits(max_states=MANY), every=True)
    if options.get("hashed"):
        found.packing = Packing(found.packing.bits, exact=False)
    if options.get("tight"):
        found.packing = Packing([0] * len(model.components))
    found.run()
    if found.stopped:
        return 0
    found.limits = Limits()
    naive, states = Naive(model, kinds, most, known), states_of(found)
    depth = [0] * len(states)
    for at in range(1, len(states)):
        depth[at] = depth[found.parent.view[at, 0]] + 1
    best = {state: (found.cost_of(at), depth[at]) for at, state in enumerate(states)}
    assert len(best) == len(states)
    assert best == naive.best
    assert list(best.values()) == sorted(best.values())
    lost = find_doomed(found)
    assert {states[at] for at in lost.tolist()} == naive.doomed()
    verdict = check(model, disturb=sorted(kinds), disturbances=most, known=known, every=True)
    violations = {
        one.property: (one.disturbances, len(one.path)) for one in verdict.violations if one.property != "goal"
    }
    assert violations == naive.broken
    goal = [(one.disturbances, one.doomed_at) for one in verdict.violations if one.property == "goal"]
    assert goal == [best[states[at]] for at in lost[:1].tolist()]
    first = check(model, disturb=sorted(kinds), disturbances=most, known=known)
    if naive.broken:
        assert min((one.disturbances, len(one.path)) for one in first.violations) == min(naive.broken.values())
    return len(states)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.deep) for part in range(1, 6))])
def test_random_models_are_searched_as_one_state_at_a_time(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """States with their least costs and depths, shortest counterexamples, doomed states."""
    monkeypatch.setattr(liveness, "ROUNDS", 1_000)
    sizes = [compare(seed) for seed in range(50 * part, 50 * part + 50)]
    assert sum(size > 10 for size in sizes) > 10


@pytest.mark.parametrize(
    "options",
    [{"tight": True}, *(pytest.param(one, marks=pytest.mark.deep) for one in ({"hashed": True}, {"chunk": 7}))],
    ids=str,
)
def test_neither_keys_nor_chunks_change_what_is_found(options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashed keys; keys that are made again whenever a cell grows; some states at once."""
    monkeypatch.setattr(liveness, "ROUNDS", 1_000)
    monkeypatch.setattr(search, "CHUNK", options.get("chunk", search.CHUNK))
    if options.get("tight"):
        monkeypatch.setattr(Packing, "grow", tight)
    assert sum(compare(seed, **options) > 10 for seed in range(400, 425)) > 3


def tight(_before: Packing, counts: list[int]) -> Packing:
    return Packing([count.bit_length() for count in counts])


@pytest.mark.deep
def test_the_order_of_states_hangs_not_on_how_many_are_expanded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So among equally short counterexamples it is always the same one."""
    orders = []
    for chunk in (search.CHUNK, 7, 1):
        monkeypatch.setattr(search, "CHUNK", chunk)
        found = [Search(random_model(seed), frozenset(KINDS), 1, limits=Limits(MANY), every=True) for seed in range(40)]
        orders.append([states_of(one) for one in found if not one.run().stopped])
    assert orders[0] == orders[1] == orders[2]
    assert sum(map(len, orders[0])) > 500
