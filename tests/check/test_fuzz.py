"""Random small models: what the engine finds is what a search of one state at a time finds."""

from __future__ import annotations

from typing import Any

import pytest
from naive_search import Naive, State
from random_models import KINDS, chance, random_model

from fsm.check import Limits, Queue, check, liveness, search
from fsm.check.liveness import find_doomed
from fsm.check.search import Search
from fsm.check.store import Packing

MANY = 300
"""Models with more states are passed over."""


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
