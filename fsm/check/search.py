"""Exhaustive search, a whole frontier at a time.

A global state is a row of numbers, one for each cell. The steps of a cell are looked up for all rows at once, and the
key of a successor is the sum of the source's key and the change of a few cells; only new states are written out. Each
disturbance costs one: states are found in the order of disturbances and then of steps, so that a counterexample has the
fewest of both. Equal states are ordered by their sources, so the order depends neither on the numbers of cells nor on
how many states are expanded at once.

Keys are exact while the numbers of all cells fit side by side into 64 bits; beyond that they are hashes, and the
verdict says so.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fsm.check.memo import Ids, Longs
from fsm.check.model import Model
from fsm.check.space import FREE, PAID, Space
from fsm.check.steps import Found, Steps, Successors, Tally
from fsm.check.store import Column, Keys, Packing, Visited, Words
from fsm.check.symmetry import Symmetry
from fsm.errors import InputError

CHUNK = 100_000
"""The number of states that are expanded at once."""

FULL_WIRE = "a wire that was full: give it more room (Wire.at_most)"
FULL = "steps that a full wire kept from being taken"
DEADLOCK = "no deadlock"
"""The property of a model with a goal that the goal holds in every state without a step."""
NO_PARENT = 0xFFFFFFFF
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which a search stops early."""

    max_states: int = 200_000_000
    max_memory: int = 6 << 30
    """Bytes of states, keys, tables and, roughly, the objects behind them; temporary arrays of NumPy do not count."""
    step_s: float = 10.0
    """CPU seconds of one step of a component, and 30 times as many seconds of real time; a step that takes longer twice
    is a counterexample.
    """
    max_steps: int = sys.maxsize
    """Different steps of components."""

    @property
    def beyond_memory(self) -> str:
        """The reason of a search that stops for lack of memory."""
        return f"more than {self.max_memory:,} bytes"


USUAL = Limits()


class Fresh(NamedTuple):
    """New states."""

    words: Words
    parents: Longs
    keys: Keys
    """The keys of the states, sorted."""
    ahead: Longs
    """For each source state the place of one of its new successors; -1 if it has none."""

    @property
    def nbytes(self) -> int:
        return 0 if isinstance(self.words, np.memmap) else self.words.nbytes + self.parents.nbytes


@dataclass
class Search:
    """A search of a model; `run` carries it out, the other members have the results."""

    model: Model
    kinds: frozenset[str] = frozenset()
    """The enabled kinds of disturbances."""
    most: int = 0
    """The maximum number of disturbances."""
    known: Sequence[str] = ()
    """The hazards at which states are not continued."""
    limits: Limits = USUAL
    every: bool = False
    """Whether it continues after a violation, up to one counterexample for each property."""
    progress: Callable[[int, int, int], None] = lambda _states, _transitions, _depth: None
    """Called periodically with the numbers of states and transitions, and the depth."""
    symmetry: Sequence[str] = ()
    """Interchangeable components: of states that differ only by a renaming of these, one is met."""
    tables: Space | None = None
    """Existing tables of this model with these disturbances."""
    after_level: Callable[[], None] = lambda: None
    """Called after each level of the search."""
    spill: Callable[[], None] | None = None
    """Called once when memory does not suffice, to make room."""

    found: dict[str, Found] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    stopped: str = ""
    """Why it stopped early; empty if it did not."""
    met: int = 0
    """The number of states that were met."""
    transitions: int = 0
    looked_up: int = 0
    """The number of steps found in tables: transitions, and steps that are not possible."""
    depth: int = 0

    def __post_init__(self) -> None:
        for kind in sorted(self.kinds):
            if kind not in self.model.kinds:
                problem, remedy = f"unknown kind of disturbance: {kind!r}", f"choose from {', '.join(self.model.kinds)}"
                if not self.model.kinds:
                    remedy = "the model has none: a Wire or a Choice names one"
                raise InputError(problem, self.model.name, remedy)
        for name in self.known:
            if name not in self.model.hazards:
                remedy = f"choose from {', '.join(sorted(self.model.hazards)) or 'none'}"
                raise InputError(f"unknown hazard: {name!r}", self.model.name, remedy)
        self.space = Space(self.model, self.kinds) if self.tables is None else self.tables
        self.space.limit_s = self.limits.step_s
        self.steps = Steps(self.model, self.space)
        self.quotient = Symmetry(self.steps, self.symmetry) if self.symmetry else None
        self.packing = Packing.of(len(self.space.cells))
        self.states = Column(np.uint64, self.packing.words)
        """The packed states in the order in which they were met."""
        self.parent = Column(np.uint32, 1)
        self.ahead: Column | None = Column(np.uint32, 1)
        """One new successor of each state that has any, so that liveness has less to look up. Not on disk."""
        self.cost = self.level = self.low = 0
        """The disturbances and steps of the present level, and the number of its first state."""
        self.layers: list[int] = []
        """The first state of each number of disturbances."""
        self.waiting: dict[tuple[int, int], list[Fresh]] = {}
        """States that cost one more disturbance, by cost and depth."""
        self.waiting_broken: dict[tuple[int, int], list[Found]] = {}
        """Violating steps that cost one more disturbance, by cost and depth."""
        self.relies_on_events = False
        """Whether liveness takes events of `Goal.by`, because without them some state does not lead to the goal."""
        self.extra_bytes = 0
        """Memory that an evaluation over all states takes in addition."""
        self.visited = Visited()

    # What is known of a state

    @property
    def exact(self) -> bool:
        """Whether keys are exact."""
        return self.packing.exact

    def keys(self, rows: Ids) -> Keys:
        """The key of each state; in a quotient the least key of its class."""
        if self.quotient is None:
            return self.packing.keys(rows)
        images = self.quotient.images(rows)
        self.fit()
        least: Keys = np.min([self.packing.keys(image) for image in images], axis=0)
        return least

    def keys_of(self, words: Words) -> Keys:
        """The key of each packed state."""
        return words[:, 0] if self.exact and self.quotient is None else self.keys(self.packing.unpack(words))

    def keys_after(self, one: Successors, base: Keys, rows: Ids) -> Keys:
        """The keys of successors of states with these keys."""
        if self.quotient is None:
            return one.keys(self.packing, base, rows)
        return self.keys(one.after(rows, np.arange(len(one.source))))

    def rows(self, which: slice | Longs | list[int]) -> Ids:
        """Unpacks states into rows of cell numbers."""
        return self.packing.unpack(self.states.view[which])

    def cost_of(self, state: int) -> int:
        """The number of disturbances on the path to a state."""
        return bisect_right(self.layers, state) - 1

    def trail(self, state: int) -> list[int]:
        """The states on the path to a state, from the first."""
        trail = [state]
        while (parent := self.parent_of(trail[-1])) != NO_PARENT:
            trail.append(parent)
        return trail[::-1]

    def parent_of(self, state: int) -> int:
        """The state from which a state was first met."""
        return int(self.parent.view[state, 0])

    def action_of(self, state: int) -> int:
        """The step with which a state was first met."""
        parent, wanted = self.parent_of(state), self.rows([state])[0]
        rows, costs = self.rows([parent]), self.cost_of(state) > self.cost_of(parent)
        for one in self.steps.successors(rows, paid=costs):
            possible = np.flatnonzero((one.cost == (PAID if costs else FREE)) & ~one.full)
            same = (one.after(rows, possible) == wanted).all(axis=1)
            if same.any():
                return int(one.action[possible[same][0]])
        raise AssertionError("a state that follows nothing")

    # The search

    def run(self) -> Search:
        """Explores all states, or until a limit or a violation."""
        if not self.layers:
            self.layers = [0]
            self._start()
        while self.cost <= self.most:
            while self._goes_on():
                self._take_level()
                if self.stopped or (self.found and not self.every):
                    return self
                self.after_level()
            self.cost, self.level = self.cost + 1, 0
            self.layers.append(self.met)
        if self.cut.get(FULL):
            self.stopped = FULL_WIRE
        return self

    def _start(self) -> None:
        """Adds the initial state."""
        start = self.space.start()
        self.fit()
        self._keep(Fresh(self.packing.pack(start), np.full(1, NO_PARENT, np.int64), self.keys(start), NOTHING))

    def _goes_on(self) -> bool:
        """Whether there are or will be states of the present cost to expand."""
        waiting = (*self.waiting, *self.waiting_broken)
        return self.low < self.met or any(cost == self.cost for cost, _ in waiting)

    def _take_level(self) -> None:
        """Explores the next level."""
        high, at = self.states.size, (self.cost, self.level + 1)
        self.level += 1
        for part in self.waiting.pop(at, ()):
            self._keep(self._drop_met(part))
        for found in self.waiting_broken.pop(at, ()):
            self._break(found)
        for low in range(self.low, high, CHUNK):
            self._expand(low, min(low + CHUNK, high))
            self.progress(self.states.size, self.transitions, self.level)
            if self.spill is not None and self.nbytes > self.limits.max_memory:
                self.spill()
            self.stopped = self.limit()
            if self.stopped:
                return
        if self.states.size > high:
            self.depth = max(self.depth, self.level)
        self.low = high

    def limit(self) -> str:
        """The limit that is reached; empty if there is none."""
        if self.explored > self.limits.max_states:
            return f"more than {self.limits.max_states:,} states"
        if self.space.taken > self.limits.max_steps:
            return f"more than {self.limits.max_steps:,} steps of components"
        return self.limits.beyond_memory if self.nbytes > self.limits.max_memory else ""

    @property
    def explored(self) -> int:
        """The number of states that were met, and of those explored for liveness only."""
        return max(self.met, self.states.size)

    @property
    def nbytes(self) -> int:
        """The memory of states, keys and tables."""
        waiting = sum(part.nbytes for parts in self.waiting.values() for part in parts)
        kept = self.states.nbytes + self.parent.nbytes + self.visited.nbytes
        kept += 0 if self.ahead is None else self.ahead.nbytes
        return kept + waiting + self.space.nbytes + self.extra_bytes

    def _expand(self, low: int, high: int) -> None:
        """Adds the successors of states at the same cost; those that cost one more wait."""
        paid = self.cost < self.most
        here, rows = self.steps.not_cut(self.known, np.arange(low, high), self.rows(slice(low, high)))
        steps = self.steps_from(rows, paid=paid)
        self.note(self.steps.tally(steps, here, rows, paid=paid))
        base = self.keys(rows)
        free = self.fresh(rows, here, base, [one.select(FREE) for one in steps])
        if self.ahead is not None:
            ahead = np.full(high - low, NO_PARENT, np.uint32)
            ahead[here - low] = np.where(free.ahead < 0, NO_PARENT, self.states.size + free.ahead)
            self.ahead.extend(ahead[:, None])
        self._keep(free)
        if paid and len((more := self.fresh(rows, here, base, [one.select(PAID) for one in steps])).words):
            self.waiting.setdefault((self.cost + 1, self.level), []).append(
                more._replace(keys=more.keys[:0], ahead=NOTHING)
            )

    def note(self, tally: Tally) -> None:
        """Counts steps and notes violations; those that cost one more wait for their cost and depth."""
        self.transitions += tally.transitions
        self.looked_up += tally.looked_up
        if tally.full:
            self.cut[FULL] = self.cut.get(FULL, 0) + tally.full
        for one in tally.broken:
            found = one._replace(cost=self.cost + one.cost)
            if one.cost:
                self.waiting_broken.setdefault((found.cost, self.level), []).append(found)
            else:
                self._break(found)
        if tally.still >= 0:
            self._break(Found(DEADLOCK, tally.still, self.cost))

    def steps_from(self, rows: Ids, *, paid: bool, by: Collection[str] = ()) -> list[Successors]:
        """Steps from these states as in `Steps.successors`; afterwards there is room for the keys of the successors."""
        steps = list(self.steps.successors(rows, paid=paid, by=by))
        if self.quotient is not None:  # all images have numbers before keys are made
            self.quotient.check()
            self.quotient.check_questions(rows)
            for one in steps:
                self.quotient.images(one.after(rows, np.arange(len(one.source))))
        self.fit()
        return steps

    def first_doomed(self) -> int:
        """The first state from which the goal is out of reach, -1 if there is none; if unknown, `stopped` says why."""
        from fsm.check.liveness import find_doomed  # noqa: PLC0415  # which reads a search

        lost = find_doomed(self)
        return int(lost[0]) if len(lost) else -1

    # States that are met

    def fits(self) -> bool:
        """Whether the numbers of all cells fit into a key."""
        return self.packing.fits([len(cell.ids) for cell in self.space.cells])

    def fit(self) -> None:
        """Makes room for the numbers of all cells; recomputes all keys if there was too little."""
        if self.fits():
            return
        before = self.packing
        self.packing = before.grow([len(cell.ids) for cell in self.space.cells])
        old, self.states = self.states, self.states.renew(self.packing.words)
        self.visited = self.visited.renew()
        for low in range(0, old.size, CHUNK):
            rows = before.unpack(old.view[low : low + CHUNK])
            self.states.extend(self.packing.pack(rows))
            self.visited.add(np.sort(self.keys(rows)))
        for parts in self.waiting.values():
            parts[:] = [part._replace(words=self.packing.pack(before.unpack(part.words))) for part in parts]

    def fresh(self, rows: Ids, here: Longs, base: Keys, steps: Sequence[Successors]) -> Fresh:
        """The new successors of these states, each once, in the order of their sources and then of steps."""
        keys = np.concatenate([np.zeros(0, np.uint64), *(self.keys_after(one, base, rows) for one in steps)])
        order = np.argsort(keys)
        ordered = keys.take(order)
        begins = np.flatnonzero(np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]]))
        distinct = ordered.take(begins)
        is_new = self.visited.find_new(distinct)
        new = distinct[is_new]
        ahead = np.full(len(rows), -1, np.int64)
        if not len(new):
            return Fresh(np.zeros((0, self.packing.words), np.uint64), here[:0], new, ahead)
        counts = np.diff(begins, append=len(keys))
        places = order[np.repeat(is_new, counts)]
        source = np.concatenate([one.source for one in steps]).take(places)
        counts = counts[is_new]
        ranks = np.minimum.reduceat((source << 32) | places, np.cumsum(counts) - counts)
        order = np.argsort(ranks)
        ranks = ranks.take(order)
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        ahead[source] = np.repeat(number, counts)
        return Fresh(self._words(rows, steps, ranks & 0xFFFFFFFF, keys), here.take(ranks >> 32), new, ahead)

    def _words(self, rows: Ids, steps: Sequence[Successors], places: Longs, keys: Keys) -> Words:
        """The packed successors at these places of all steps."""
        if self.exact and self.quotient is None:
            return keys.take(places)[:, None]
        words, begin = np.empty((len(places), self.packing.words), np.uint64), 0
        for one in steps:
            mine = np.flatnonzero((places >= begin) & (places < begin + len(one.source)))
            words[mine] = self.packing.pack(one.after(rows, places[mine] - begin))
            begin += len(one.source)
        return words

    def _drop_met(self, found: Fresh) -> Fresh:
        """Drops waiting states that were met in the meantime."""
        keys = self.keys_of(found.words)
        distinct, first = np.unique(keys, return_index=True)
        fresh = self.visited.find_new(distinct)
        chosen = np.sort(first[fresh])
        return Fresh(np.array(found.words[chosen]), np.array(found.parents[chosen]), distinct[fresh], NOTHING)

    def _keep(self, found: Fresh) -> None:
        """Adds new states and evaluates properties on them."""
        if len(found.words):
            low = self.append(found)
            rows = self.packing.unpack(found.words)
            self.note_states(low, len(rows), *self.steps.look(self.known, rows, self.found))

    def note_states(self, low: int, count: int, cut: Mapping[str, int], broken: Mapping[str, int]) -> None:
        """Notes the hazards of new states, and the first of them that breaks each property."""
        self.met = low + count
        for name, shows in cut.items():
            self.cut[name] = self.cut.get(name, 0) + shows
        for name, at in broken.items():
            self._break(Found(name, low + at, self.cost))

    def append(self, found: Fresh) -> int:
        """Appends states; returns the number of the first."""
        low = self.states.size
        self.visited.add(found.keys)
        self.states.extend(found.words)
        self.parent.extend(found.parents[:, None])
        return low

    def _break(self, found: Found) -> None:
        self.found.setdefault(found.name, found)
