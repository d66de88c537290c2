"""Tours: what they cover, how long they are, and that they say how much shorter they could be."""

import random
from collections import deque
from functools import cache
from itertools import pairwise

import pytest

from fsm.errors import FsmError
from fsm.table import Symbol, Table, row
from fsm.tables import ALL, find
from fsm.testing.tours import (
    Move,
    all_refusals,
    all_states,
    all_transitions,
    each_transition,
    n_switch,
    ways_from,
)

# fmt: off
LENGTHS = {
    # per aim: steps, cases, and the bound of steps and cases together
    #                        all states    all transitions   all pairs
    "consumer-member":       ((9, 1, 10),  (246, 8, 254),    (5185, 160, 5345)),
    "consumer-member-notes": ((7, 1, 8),   (69, 7, 76),      (360, 31, 391)),
    "consumer-member-draft": ((9, 1, 10),  (23, 3, 26),      (72, 8, 80)),
    "rebalance-notes":       ((8, 1, 9),   (28, 7, 35),      (62, 11, 73)),
    "consumer-group":        ((4, 1, 5),   (99, 12, 111),    (2666, 249, 2915)),
    "consumer-group-member": ((5, 1, 6),   (111, 29, 140),   (2022, 454, 2476)),
    "classic-group":         ((3, 1, 4),   (146, 9, 155),   (5204, 251, 5455)),
    "classic-member":        ((3, 1, 4),   (147, 1, 148),    (4758, 1, 4759)),
    "connect-worker":        ((11, 1, 12), (255, 1, 256),    (2839, 1, 2840)),
    "connect-group":         ((3, 1, 4),   (61, 1, 62),      (1021, 1, 1022)),
    "rdkafka-join-state":    ((8, 1, 9),   (136, 1, 137),    (1714, 1, 1715)),
}
# fmt: on


def names(table):
    return table.name


def walked(tour):
    """Every move of a tour; each case begins in the initial state and each move where the one before led."""
    moves = []
    for case in tour.cases:
        state = tour.table.compiled.initial
        for move in case.moves:
            assert move.state is state
            cell = tour.table.compiled.get(move)
            state = cell.target if cell else state
            moves.append(move)
    return moves


def rows(table):
    return {Move(*pair) for pair, cell in table.compiled.items() if not cell.ignored}


@cache
def tours(table):
    return all_states(table), all_transitions(table), n_switch(table, 1)


@pytest.mark.parametrize("name", LENGTHS)
def test_the_tours_of_a_table_are_as_long_as_they_were(name):
    """Steps, cases and bound change only with the rows of the table."""
    assert tuple((tour.steps, len(tour.cases), tour.bound) for tour in tours(find(name))) == LENGTHS[name]


@pytest.mark.parametrize("table", ALL, ids=names)
def test_a_tour_of_every_table_covers_it_at_the_least_cost(table):
    """States, transitions and pairs are covered; all three reach their lower bound."""
    assert [tour.cost for tour in tours(table)] == [tour.bound for tour in tours(table)]
    states, transitions, pairs = tours(table)
    entered = {entered for move in walked(states) for entered in table.compiled[move].path}
    assert {*entered, table.compiled.initial} == set(table.leaves())
    assert set(walked(transitions)) == rows(table)
    assert walked(pairs)
    met = {pair for case in pairs.cases for pair in pairwise(case.moves)}
    assert met == {(a, b) for a in rows(table) for b in rows(table) if table.compiled[a].target is b.state}


@pytest.mark.parametrize("table", ALL, ids=names)
def test_ignored_cells_are_loops_of_a_tour_if_wanted(table):
    """With `ignored` every cell of the table is in the tour, and each ignored one costs a single step."""
    tour, without = all_transitions(table, ignored=True), all_transitions(table)
    assert set(walked(tour)) == {Move(*pair) for pair in table.compiled}
    assert tour.cost == tour.bound == without.cost + table.counts()["ignored_cells"]


def least(table, n):
    """Steps and cases of the shortest tour of all sequences of n + 1 rows, by search over what was taken so far."""
    moves = sorted(rows(table), key=lambda move: (move.state.code, move.event.code))
    sequences = [(m,) for m in moves]
    for _ in range(n):
        sequences = [(*s, m) for s in sequences for m in moves if table.compiled[s[-1]].target is m.state]
    bit = {sequence: 1 << i for i, sequence in enumerate(sequences)}
    start = (table.compiled.initial, (), 0)
    cost, todo = {start: 1}, deque([start])
    while todo:
        state, memory, taken = at = todo.popleft()
        if taken == (1 << len(bit)) - 1:
            return cost[at]
        ways = [(table.compiled[m].target, (*memory, m)) for m in moves if m.state is state]
        after = [(to, seen[-n:] if n else (), taken | bit.get(seen[-n - 1 :], 0)) for to, seen in ways]
        for there in (*after, (table.compiled.initial, (), taken)):
            if there not in cost:
                cost[there] = cost[at] + 1
                todo.append(there)
    raise AssertionError("no tour")


class State(Symbol):
    """States of small tables."""

    A = "First."
    B = "Second."
    C = "Third."
    D = "Fourth."
    END = "Last."


class Event(Symbol):
    V = "One."
    W = "Two."
    X = "Three."
    Y = "Four."
    Z = "Five."


class Turn(Symbol):
    V = "The only one."


class Side(Symbol):
    A = "This one."
    B = "That one."


class Pair(Symbol):
    V = "Onward."
    W = "Back to the first."


def random_table(seed):
    """A ring of four states with an end, some chords, every event used."""
    chance = random.Random(seed)  # noqa: S311
    cells = {(s, Event.V): t for s, t in pairwise((State.A, State.B, State.C, State.D, State.A))}
    cells[chance.choice(list(State)[:4]), Event.Z] = State.END
    for event in (Event.W, Event.X, Event.Y):
        for state in chance.sample(list(State)[:4], 2):
            cells[state, event] = chance.choice(list(State)[:4])
    lines = tuple(row(state, event, target) for (state, event), target in cells.items())
    return Table(name=f"random-{seed}", initial=State.A, terminal=(State.END,), rows=lines)


@pytest.mark.parametrize("seed", range(30))
def test_no_tour_of_all_transitions_is_shorter(seed):
    """On random tables of 11 rows exhaustive search finds the same cost."""
    tour = all_transitions(random_table(seed))
    assert tour.cost == tour.bound == least(tour.table, 0)


def small_table(seed):
    """Three or four states, six rows, 8 to 12 pairs, with and without an end."""
    chance = random.Random(seed)  # noqa: S311
    cells = {(State.A, Event.V): State.B, (State.B, Event.V): State.C, (State.C, Event.V): State.A}
    while len(cells) < 6:
        state, event = chance.choice(list(State)[:3]), chance.choice((Event.W, Event.X))
        cells[state, event] = chance.choice((State.A, State.B, State.C, State.D))
    names = {s.name: s.meaning for s in State if s in {*cells.values(), State.A}}
    states = Symbol("Some", names)
    known = Symbol("Happens", {e.name: e.meaning for e in Event if e in {e for _, e in cells}})
    lines = [row(states[s.name], known[e.name], states[t.name]) for (s, e), t in cells.items()]
    return Table(
        name=f"small-{seed}",
        initial=states.A,
        terminal=(states.D,) if "D" in names else (),
        rows=tuple(lines),
    )


@pytest.mark.parametrize("seed", range(30))
def test_no_tour_of_all_pairs_is_shorter(seed):
    """On random tables of 6 rows exhaustive search finds the same cost for pairs."""
    tour = n_switch(small_table(seed), 1)
    assert tour.cost == tour.bound == least(tour.table, 1)


def test_restarts_can_be_made_dear():
    """Where a case costs as much as 50 steps, only the 7 ways into the terminal state make one."""
    table = find("consumer-member-notes")
    tour = all_transitions(table, restart_cost=50)
    assert len(tour.cases) == len([m for m in rows(table) if table.compiled[m].target in table.terminal]) == 7
    assert tour.cost == tour.bound == tour.steps + 350


def test_triples_contain_what_is_too_short_for_one():
    """A tour of all sequences of three in the draft's table takes every transition, dead ends included."""
    tour = n_switch(find("consumer-member-draft"), 2)
    assert set(walked(tour)) == rows(tour.table)
    assert (tour.steps, len(tour.cases), tour.bound) == (197, 18, 215)


def test_a_dead_end_that_is_part_of_no_pair_is_covered_by_itself():
    """The row from the initial state, entered by nothing, to the end has neither predecessor nor successor."""
    S, E = State, Event  # noqa: N806
    table = Table(
        name="dead-end",
        initial=S.A,
        terminal=(S.END,),
        rows=(
            row(S.A, E.Z, S.END),
            row(S.A, E.V, S.B),
            row(S.A, E.W, S.C),
            row(S.B, E.X, S.D),
            row(S.D, E.Y, S.D),
            row(S.D, E.Z, S.END),
            row(S.C, E.Y, S.END),
        ),
        events=Event,
    )
    tour = n_switch(table, 1)
    assert set(walked(tour)) == rows(table)
    assert [[move.event.name for move in case.moves] for case in tour.cases if len(case.moves) == 1] == [["Z"]]
    assert tour.cost == tour.bound


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_ring_has_no_empty_case(n):
    """Two states in turn, nothing to repeat: the 2 sequences of n + 1 transitions take n + 2 steps in one case."""
    table = Table(name="ring", initial=Side.A, rows=(row(Side.A, Turn.V, Side.B), row(Side.B, Turn.V, Side.A)))
    tour = n_switch(table, n)
    assert (tour.steps, len(tour.cases), tour.bound) == (n + 2, 1, n + 3)
    assert [move.state.name for move in walked(tour)] == list("ABABAB"[: n + 2])


def test_long_cases_are_cut_if_wanted():
    """No case of the worker's pairs is longer than 60 steps; no pair is lost, and the bound stays a bound."""
    table = find("connect-worker")
    whole, cut = n_switch(table, 1), n_switch(table, 1, longest=60)
    pairs = [{pair for case in tour.cases for pair in pairwise(case.moves)} for tour in (whole, cut)]
    assert pairs[0] == pairs[1]
    assert walked(cut)
    assert max(len(case.moves) for case in cut.cases) == 60
    assert cut.bound == whole.cost < cut.cost < 1.2 * whole.cost


def test_each_transition_by_itself_is_the_shortest_way_to_it():
    """38 cases of at most 5 steps for the notes' member; the id names state and event."""
    table = find("consumer-member-notes")
    tour = each_transition(table)
    ways = ways_from(table, table.compiled.initial)
    assert {case.moves[-1] for case in tour.cases} == rows(table)
    assert all(len(case.moves) == len(ways[case.moves[-1].state]) + 1 for case in tour.cases)
    assert (len(tour.cases), max(len(case.moves) for case in tour.cases)) == (38, 5)
    assert tour.cases[-1].id == "FENCED-FATAL_ERROR"


def test_refusals_ask_for_every_illegal_cell():
    """Per state one case that goes there and then sends each event the state has no cell for."""
    table = find("consumer-member-notes")
    tour = all_refusals(table)
    refused = [move for move in walked(tour) if move not in table.compiled]
    assert len(refused) == len(set(refused)) == table.counts()["illegal_cells"] == 48
    assert tour.cases[0].id == "UNSUBSCRIBED-refuses-6"


def test_cases_are_parameters_with_readable_ids():
    """An id tells which case of how many, its length and where it ends."""
    params = all_transitions(find("consumer-member-draft")).params()
    assert [param.id for param in params] == ["1of3-18steps-to-FATAL", "2of3-3steps-to-FATAL", "3of3-2steps-to-FATAL"]
    assert [param.values[0].events[0].name for param in params] == ["SUBSCRIBED"] * 3


def test_a_tour_says_how_near_it_is():
    """Its text gives table, aim, steps, cases, cost, and the least cost there can be."""
    table = find("rebalance-notes")
    assert str(all_transitions(table)) == (
        "rebalance-notes, all transitions: 28 steps in 7 cases, cost 35; the least possible"
    )
    assert str(all_transitions(table, longest=5)).endswith("the least possible is 35 or more")


def test_senseless_wishes_are_refused():
    """A sequence has at least one transition, and a case must reach the farthest state."""
    table = find("consumer-member-notes")
    with pytest.raises(FsmError, match="n is 0 or more, not -1"):
        n_switch(table, -1)
    with pytest.raises(FsmError, match="a case of 4 steps is too short"):
        all_transitions(table, longest=4)


def test_many_states_are_visited_the_nearest_first():
    """A table of 30 states in a line of pairs is beyond exact search: all are entered, within the crude bound."""
    wide = Symbol("Wide", {f"S{i}": f"State {i}." for i in range(30)})
    states = list(wide)
    there = [row(s, Pair.V, t) for s, t in pairwise(states)]
    back = [row(s, Pair.W, states[0]) for s in states[1:]]
    table = Table(name="wide", initial=states[0], rows=(*there, *back))
    tour = all_states(table)
    assert (tour.steps, len(tour.cases), tour.bound) == (29, 1, 30)
    assert {table.compiled[move].target for move in walked(tour)} == set(states[1:])
