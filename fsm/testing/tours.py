"""Walks through a table: every state, every transition, every sequence of transitions, in the fewest steps.

    from fsm.testing.tours import all_transitions

    @pytest.mark.parametrize("case", all_transitions(TABLE).params())
    def test_my_member(case):
        follow(case, MyAdapter)

A tour is a handful of cases; each begins in the table's initial state, with a fresh implementation. What a tour costs
is its steps plus `restart_cost` for each case. `Tour.bound` is a lower bound for that cost, so a tour shows how close
it is. Tours of transitions and of sequences reach it (the postman's problem on a directed graph, solved exactly),
unless the length of cases is limited; tours of all states reach it where the table has few states.

Only rows count as transitions; with `ignored=True` the cells that do nothing count too, as loops. Events that are
illegal in a state are in no tour; `all_refusals` asks for each of them to be refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from fsm.errors import FsmError
from fsm.table import Cell, Symbol, Table
from fsm.testing.routes import Arc, closed_walk

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

_STEP = 1 << 24
"""What a step costs in a graph, so that among tours of one cost the one with the fewest cases is a little cheaper."""
_EXACT = 200_000
"""States times sets of states visited, up to which the shortest tour of all states is searched for exactly."""


class Move(NamedTuple):
    """One event in one state."""

    state: Symbol
    event: Symbol


@dataclass(frozen=True)
class Case:
    """A walk from the initial state: the events to send, one after the other, to a fresh implementation."""

    table: Table
    moves: tuple[Move, ...]
    id: str
    """Short, unique within its tour, and readable in a list of test results."""

    @property
    def events(self) -> tuple[Symbol, ...]:
        """The events in their order."""
        return tuple(move.event for move in self.moves)

    def __repr__(self) -> str:
        return f"<{self.table.name}: {self.id}>"


@dataclass(frozen=True)
class Tour:
    """Cases that together reach `aim`."""

    table: Table
    aim: str
    cases: tuple[Case, ...]
    bound: int
    """No cases that reach the aim cost less."""
    restart_cost: int = 1

    @cached_property
    def steps(self) -> int:
        """Events over all cases."""
        return sum(len(case.moves) for case in self.cases)

    @property
    def cost(self) -> int:
        """Steps, and `restart_cost` for each case."""
        return self.steps + self.restart_cost * len(self.cases)

    def params(self) -> list[ParameterSet]:
        """The cases for `pytest.mark.parametrize`, with readable ids."""
        import pytest  # noqa: PLC0415

        return [pytest.param(case, id=case.id) for case in self.cases]

    def __str__(self) -> str:
        near = "the least possible" if self.cost == self.bound else f"the least possible is {self.bound} or more"
        sizes = f"{self.steps} steps in {len(self.cases)} cases, cost {self.cost}"
        return f"{self.table.name}, {self.aim}: {sizes}; {near}"


def all_transitions(table: Table, *, ignored: bool = False, restart_cost: int = 1, longest: int | None = None) -> Tour:
    """Every transition at least once, at minimal cost (a limit to the length of cases costs more)."""
    return n_switch(table, 0, ignored=ignored, restart_cost=restart_cost, longest=longest)


def n_switch(
    table: Table, n: int = 1, *, ignored: bool = False, restart_cost: int = 1, longest: int | None = None
) -> Tour:
    """Every sequence of n + 1 transitions (Chow, 1978): all transitions with n = 0, all pairs with n = 1.

    A transition that is part of no sequence so long is covered by itself. With `longest`, a case that is longer is
    cut, and what is left begins again by the shortest way to the cut.

    Raises `FsmError` for an n below 0, and for a `longest` that leaves no room for a sequence and the way there.
    """
    if n < 0:
        raise FsmError(f"{table.name}: a sequence has one transition or more, so n is 0 or more, not {n}")
    graph = _Sequences(table, n, ignored, restart_cost)
    walks = graph.walks(closed_walk(graph.arcs, graph.restart))
    bound = sum(len(walk) + restart_cost for walk in walks)
    if longest is not None:
        walks = [piece for whole in walks for piece in _cut(table, whole, n, longest)]
    aim = f"all sequences of {n + 1} transitions" if n else "all transitions"
    return Tour(table, aim, _cases(table, walks), bound, restart_cost)


def all_states(table: Table, *, restart_cost: int = 1) -> Tour:
    """Every state is entered at least once, if only on the way through a row.

    Exact up to about a dozen states; beyond that it goes to the nearest state not seen yet, and the bound is crude.
    """
    states = len(table.leaves())
    exact = states << states <= _EXACT
    walks = _shortest_visit(table, restart_cost) if exact else _nearest_first(table, restart_cost)
    cost = sum(len(walk) + restart_cost for walk in walks)
    bound = cost if exact else _least_visit(table, restart_cost)
    return Tour(table, "all states", _cases(table, walks), bound, restart_cost)


def each_transition(table: Table, *, ignored: bool = False) -> Tour:
    """A case of its own for each transition: the shortest way to its state, then its event. Long, easy to read."""
    ways = ways_from(table, table.compiled.initial)
    cases = [
        Case(table, (*ways[move.state], move), f"{move.state.name}-{move.event.name}")
        for move in _moves(table, ignored)
        if move.state in ways
    ]
    return Tour(table, "each transition by itself", tuple(cases), sum(len(case.moves) + 1 for case in cases))


def all_refusals(table: Table) -> Tour:
    """For each state a case that goes there and then sends every event that is illegal in it."""
    cases = []
    for state, way in ways_from(table, table.compiled.initial).items():
        illegal = [Move(state, event) for event in table.alphabet if (state, event) not in table.compiled]
        if illegal:
            cases.append(Case(table, (*way, *illegal), f"{state.name}-refuses-{len(illegal)}"))
    return Tour(table, "all refusals", tuple(cases), sum(len(case.moves) + 1 for case in cases))


def ways_from(table: Table, start: Symbol) -> dict[Symbol, tuple[Move, ...]]:
    """The shortest way from `start` to every state that can be reached, itself included."""
    ways: dict[Symbol, tuple[Move, ...]] = {start: ()}
    frontier = deque([start])
    while frontier:
        state = frontier.popleft()
        for event, cell in table.compiled.by_state.get(state, {}).items():
            if cell.target not in ways:
                ways[cell.target] = (*ways[state], Move(state, event))
                frontier.append(cell.target)
    return ways


def _moves(table: Table, ignored: bool) -> list[Move]:
    return [Move(*pair) for pair, cell in table.compiled.items() if ignored or not cell.ignored]


def _cut(table: Table, walk: tuple[Move, ...], overlap: int, longest: int) -> Iterator[tuple[Move, ...]]:
    """The walk in pieces of at most that length; each repeats the last `overlap` moves of the one before."""
    ways = ways_from(table, table.compiled.initial)
    if longest <= overlap + max(len(way) for way in ways.values()):
        raise FsmError(f"{table.name}: a case of {longest} steps is too short to get to every transition")
    while len(walk) > longest:
        yield walk[:longest]
        rest = walk[longest - overlap :]
        walk = (*ways[rest[0].state], *rest)
    yield walk


def _cases(table: Table, walks: Sequence[tuple[Move, ...]]) -> tuple[Case, ...]:
    width, cells = len(str(len(walks))), _read(table)
    ends = [cells[walk[-1]].target if walk else table.compiled.initial for walk in walks]
    return tuple(
        Case(table, walk, f"{number:0{width}}of{len(walks)}-{len(walk)}steps-to-{end.name}")
        for number, (walk, end) in enumerate(zip(walks, ends, strict=True), 1)
    )


def _read(table: Table) -> dict[tuple[Symbol, Symbol], Cell]:
    """The cells to look at: planning a walk takes no row, which `compiled[...]` would be recorded as."""
    return dict(table.compiled)


class _Node(NamedTuple):
    state: Symbol
    memory: tuple[Move, ...]
    """The transitions that led there, as many as matter."""
    fresh: bool
    """A case that has not taken enough transitions yet to fill its memory."""


class _Sequences:
    """The graph whose arcs are sequences of transitions.

    From a node one may forget the oldest transition at no cost, and take one more at the cost of a step. Taking one
    with the memory full completes a sequence; these arcs are required, and those whose sequence is part of no longer
    one. A case can neither forget nor end before its memory is full, since until then it has covered nothing; without
    this an empty case would be a way around all others. With it the required arcs and the cheapest flow are always one
    piece: every full memory follows from those of the initial state, so tours are exact whatever the length.
    """

    def __init__(self, table: Table, full: int, ignored: bool, restart_cost: int) -> None:
        self._full = full
        self._cells = _read(table)
        self._out: dict[Symbol, list[Move]] = {}
        for move in _moves(table, ignored):
            self._out.setdefault(move.state, []).append(move)
        reached = ways_from(table, table.compiled.initial)
        self._entered = {self._cells[move].target for state in reached for move in self._out.get(state, ())}
        self._taken: dict[int, Move] = {}
        self._nodes: dict[_Node, int] = {}
        self._todo: list[_Node] = []
        self.restart = 0
        self.arcs = [Arc(0, self._number(table.compiled.initial, ()), restart_cost * _STEP + 1, required=True)]
        while self._todo:
            self._leave(self._todo.pop())

    def _number(self, state: Symbol, memory: tuple[Move, ...], fresh: bool = True) -> int:
        node = _Node(state, memory, fresh and len(memory) < self._full)
        if node not in self._nodes:
            self._nodes[node] = len(self._nodes) + 1
            self._todo.append(node)
        return self._nodes[node]

    def _leave(self, node: _Node) -> None:
        here, (state, memory, fresh) = self._nodes[node], node
        if memory and not fresh:
            self.arcs.append(Arc(here, self._number(state, memory[1:], fresh=False), 0))
        if not (memory or fresh) or (fresh and self._whole(memory)):
            self.arcs.append(Arc(here, self.restart, 0))
        for move in self._out.get(state, ()):
            self._take(here, (*memory, move), fresh)

    def _take(self, here: int, taken: tuple[Move, ...], fresh: bool) -> None:
        complete = len(taken) > self._full
        there = self._number(self._cells[taken[-1]].target, taken[1:] if complete else taken, fresh)
        # A complete sequence need not be repeated: forgetting first and then taking the step costs the same.
        again = not complete or not self._full
        self._taken[len(self.arcs)] = taken[-1]
        self.arcs.append(Arc(here, there, _STEP, required=complete or self._whole(taken), again=again))

    def _whole(self, taken: tuple[Move, ...]) -> bool:
        if not taken or taken[0].state in self._entered:
            return False
        return self._cells[taken[-1]].target not in self._out

    def walks(self, walk: Sequence[int]) -> list[tuple[Move, ...]]:
        """The closed walk, cut where it begins again."""
        cases: list[list[Move]] = []
        for at in walk:
            if self.arcs[at].tail == self.restart:
                cases.append([])
            elif at in self._taken:
                cases[-1].append(self._taken[at])
        return [tuple(case) for case in cases if case]


Visit = tuple[Symbol, int]
"""A state, and the states visited so far as bits."""


def _shortest_visit(table: Table, restart_cost: int) -> list[tuple[Move, ...]]:
    """Dijkstra's search over states and what was visited; a restart is one more way to go on."""
    bit = {state: 1 << i for i, state in enumerate(table.leaves())}
    first = (table.compiled.initial, bit[table.compiled.initial])
    came: dict[Visit, tuple[Visit, Move | None]] = {}
    cost, heap = {first: 0}, [(0, 0, first)]
    while True:
        spent, _, at = heappop(heap)
        if at[1] == (1 << len(bit)) - 1:
            return _trace_back(came, at)
        if spent > cost[at]:
            continue
        for there, move in _onward(table, bit, at):
            price = spent + (1 if move else restart_cost)
            if price < cost.get(there, price + 1):
                cost[there], came[there] = price, (at, move)
                heappush(heap, (price, len(came), there))


def _onward(table: Table, bit: Mapping[Symbol, int], at: Visit) -> Iterator[tuple[Visit, Move | None]]:
    state, seen = at
    for event, cell in table.compiled.by_state[state].items():
        yield (cell.target, seen | sum({bit[entered] for entered in cell.path})), Move(state, event)
    yield (table.compiled.initial, seen), None


def _trace_back(came: Mapping[Visit, tuple[Visit, Move | None]], at: Visit) -> list[tuple[Move, ...]]:
    cases: list[list[Move]] = [[]]
    while at in came:
        at, move = came[at]
        if move is None:
            cases.append([])
        else:
            cases[-1].append(move)
    return [tuple(reversed(case)) for case in reversed(cases)]


def _nearest_first(table: Table, restart_cost: int) -> list[tuple[Move, ...]]:
    """From where one is, or from the start again where that is cheaper, to the nearest state not seen yet."""
    cells, initial = _read(table), table.compiled.initial
    seen, state = {initial}, initial
    cases: list[list[Move]] = [[]]
    while unseen := [s for s in table.leaves() if s not in seen]:
        onward, restarted = _nearest(table, state, unseen), _nearest(table, initial, unseen)
        if onward is None or (restarted is not None and len(restarted) + restart_cost < len(onward)):
            cases.append([])
            onward = restarted
        for move in onward or ():
            cases[-1].append(move)
            seen.update(cells[move].path)
            state = cells[move].target
    return [tuple(case) for case in cases]


def _nearest(table: Table, start: Symbol, wanted: Sequence[Symbol]) -> tuple[Move, ...] | None:
    """The shortest way from `start` on which a wanted state is entered; None where there is no way."""
    ways = ways_from(table, start)
    ends = [(*way, Move(s, e)) for s, way in ways.items() for e in table.compiled.by_state.get(s, ())]
    cells = _read(table)
    found = [way for way in ends if not set(wanted).isdisjoint(cells[way[-1]].path)]
    return min(found, key=len, default=None)


def _least_visit(table: Table, restart_cost: int) -> int:
    """The fewest steps there can be: as many as if each entered as many new states as the longest row does."""
    longest = max((len(cell.path) for cell in table.compiled.values()), default=1)
    return -(-(len(table.leaves()) - 1) // max(longest, 1)) + restart_cost
