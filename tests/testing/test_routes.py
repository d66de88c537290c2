"""The postman's walk takes what is required, and none is cheaper."""

import random
from heapq import heappop, heappush

import pytest

from fsm.errors import FsmError
from fsm.testing.routes import Arc, closed_walk


def cost(arcs, walk):
    return sum(arcs[at].cost for at in walk)


def cheapest(arcs, start):
    """By exhaustive search over (node, required arcs taken): the truth for small graphs."""
    required = [at for at, arc in enumerate(arcs) if arc.required]
    goal = (start, frozenset(required))
    best, heap, tie = {(start, frozenset()): 0}, [(0, 0, start, frozenset())], 0
    while heap:
        spent, _, node, taken = heappop(heap)
        if (node, taken) == goal:
            return spent
        for at, arc in enumerate(arcs):
            if arc.tail == node:
                there = (arc.head, taken | ({at} & set(required)))
                if spent + arc.cost < best.get(there, 1 << 30):
                    best[there] = spent + arc.cost
                    tie += 1
                    heappush(heap, (spent + arc.cost, tie, *there))
    raise AssertionError("not connected")


def random_graph(seed, share):
    """Five nodes in a ring, so that all are connected, and six chords; some arcs required, the first one always."""
    chance = random.Random(seed)  # noqa: S311
    ends = [(i, (i + 1) % 5) for i in range(5)] + [(chance.randrange(5), chance.randrange(5)) for _ in range(6)]
    return [Arc(a, b, chance.randrange(3), i == 0 or chance.random() < share) for i, (a, b) in enumerate(ends)]


def is_closed(arcs, walk, start):
    at = start
    for arc in (arcs[way] for way in walk):
        if arc.tail != at:
            return False
        at = arc.head
    return at == start


@pytest.mark.parametrize("seed", range(120))
def test_no_walk_is_cheaper(seed):
    """Most arcs required: the walk is closed, takes each of them, and exhaustive search finds nothing cheaper."""
    arcs = random_graph(seed, share=1 if seed % 2 else 0.8)
    walk = closed_walk(arcs, 0)
    assert is_closed(arcs, walk, 0)
    assert {at for at, arc in enumerate(arcs) if arc.required} <= set(walk)
    assert cost(arcs, walk) == cheapest(arcs, 0)


def test_pieces_are_refused():
    """Two loops that nothing required connects, and no flow either."""
    arcs = [Arc(0, 0, 1, required=True), Arc(1, 1, 1, required=True), Arc(0, 1, 5), Arc(1, 0, 1)]
    with pytest.raises(FsmError, match="are not connected"):
        closed_walk(arcs, 0)


def test_an_arc_that_must_not_be_repeated_is_taken_once():
    """Two arcs in, one out of a node: the way back that may be repeated is, though it costs more."""
    arcs = [
        Arc(0, 1, 1, required=True),
        Arc(0, 1, 1, required=True),
        Arc(1, 0, 1, required=True, again=False),
        Arc(1, 0, 3),
    ]
    assert sorted(closed_walk(arcs, 0)) == [0, 1, 2, 3]
