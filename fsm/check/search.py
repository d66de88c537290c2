"""Exhaustive search, a whole frontier at a time.

A global state is a row of numbers, one for each cell. What a cell may do is gathered from its tables for all rows at
once, and a successor is the sum of the source's key and the change of a few cells; only states that were never met are
written out. Disturbances cost one each: states are met in the order of their disturbances and then of their steps, so
that a counterexample has the fewest of both.

Keys are exact while the numbers of all cells fit side by side into 64 bits; beyond that they are hashes, and the
verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fsm.check.memo import Growing, Ids, Longs, Pairs, Visited
from fsm.check.model import Condition, Model, PairProperty
from fsm.check.space import ACTION, BROKEN, CELL, COST, FREE, FREE_WHEN, INPUT, NO_ROOM, PAID, WAITS, Space, ask
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check.model import Integers, Mask

CHUNK = 200_000
"""States that are expanded at once."""
ROUNDS = 4
"""So often in a row a goal may count on what happens sooner or later: without end, epochs would grow without end."""
Keys = npt.NDArray[np.uint64]

FULL = "steps that a full wire kept from being taken"
DEADLOCK = "no deadlock"
"""The property of a model with a goal: where nothing can happen any more, the goal is reached."""


class Found(NamedTuple):
    """Where a property is broken: in a state, or in a step from it."""

    name: str
    state: int
    cost: int
    """How many disturbances it takes."""
    action: int = -1
    """The step that breaks it; -1 where the state does."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a search stops with what is known."""

    max_states: int = 200_000_000
    max_memory: int = 6 << 30
    """Bytes of states, keys and tables."""


USUAL = Limits()
NOBODY = np.zeros(1, np.bool_)
NOTHING: tuple[Longs, Ids] = np.zeros(0, np.int64), np.zeros((0, 5), np.int32)


class _Successors(NamedTuple):
    """One kind of step of many states."""

    source: Longs
    """Index of each row's source."""
    cells: dict[int, Ids]
    """The cells that change, by their place in a state."""
    action: Ids
    cost: Ids
    broken: Ids
    full: Mask
    """Which of them would put more on a wire than it holds: they are not taken."""


class _Fresh(NamedTuple):
    """States that were never met."""

    rows: Ids
    parents: Longs
    actions: Ids
    keys: Keys
    """Of the states, sorted."""

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.parents.nbytes + self.actions.nbytes


class Columns:
    """Global states as columns of numbers: what conditions are asked about."""

    def __init__(self, space: Space, rows: Ids) -> None:
        self._space, self._rows = space, rows

    def of(self, component: str, feature: str) -> Integers:
        """A feature of a component in each state. Raises `InputError` where there is none."""
        who = self._space.index.get(component)
        column = None if who is None else self._space.cells[who].feature(feature)
        if who is None or column is None:
            raise InputError(f"no feature {feature!r} of a component {component!r}", self._space.model.name)
        found: Integers = column[self._rows[:, who]]
        return found

    def on(self, sender: str, receiver: str, feature: str = "") -> Integers:
        """A feature of a wire in each state. Raises `InputError` where there is none."""
        for who, cell in enumerate(self._space.cells):
            column = cell.feature(f"{sender} to {receiver} {feature}")
            if column is not None:
                found: Integers = column[self._rows[:, who]]
                return found
        raise InputError(f"no feature {feature!r} of a wire from {sender!r} to {receiver!r}", self._space.model.name)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass
class Search:
    """One search of a model; `run` does it, the rest is what it found."""

    model: Model
    kinds: frozenset[str] = frozenset()
    """Disturbances that happen."""
    most: int = 0
    """So many of them."""
    known: Sequence[str] = ()
    """Hazards at which it is cut."""
    limits: Limits = USUAL
    every: bool = False
    """Goes on where something is broken, up to one counterexample for each property."""
    progress: Callable[[int, int, int], None] = lambda _states, _transitions, _depth: None
    """Told of states, transitions and depth now and then."""

    found: dict[str, Found] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    stopped: str = ""
    """Why it ended before all was known; empty where it did not."""
    exact: bool = True
    transitions: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        for kind in sorted(self.kinds):
            if kind not in self.model.kinds:
                raise InputError(
                    f"no kind of disturbance: {kind!r}", self.model.name, f"choose from {_list(self.model.kinds)}"
                )
        for name in self.known:
            if name not in self.model.hazards:
                raise InputError(
                    f"no known hazard: {name!r}", self.model.name, f"choose from {_list(sorted(self.model.hazards))}"
                )
        self.space = Space(self.model, self.kinds)
        many = len(self.space.cells)
        self.states, self.parent = Growing(np.int32, many), Growing(np.int64)
        self.action, self.cost = Growing(np.int32), Growing(np.int8)
        self.is_cut = Growing(np.bool_)
        self._waiting: dict[tuple[int, int], list[_Fresh]] = {}
        """States that cost one more, by their cost and the depth at which they are met."""
        self._waiting_broken: dict[tuple[int, int], list[Found]] = {}
        """Steps that break something and cost one more, likewise."""
        self._waiting_bytes = self._edges_bytes = 0
        self._visited = Visited()
        self._bits = [64 // many] * many
        pairs = (one for one in self.model.properties if isinstance(one, PairProperty))
        self._pairs = {one.name: self._pair(one) for one in pairs}

    def _pair(self, one: PairProperty) -> Pairs:
        first, second = (self.space.parts[self.space.index[end]].states.values for end in (one.first, one.second))

        def answer(left: int, right: int) -> tuple[int, ...]:
            return (int(ask(one.name, one.holds, first[left], second[right])),)

        return Pairs(1, answer)

    # The search

    def run(self) -> Search:
        """Meets every state, or as many as the limits allow, or as it takes to find what is broken."""
        no_parent = np.full(1, -1, np.int64)
        start = self.space.start()
        self._keep(_Fresh(start, no_parent, no_parent.astype(np.int32), self._keys(start)), 0)
        low = 0
        for cost in range(self.most + 1):
            depth = 0
            while low < self.states.size or any(at[0] == cost for at in (*self._waiting, *self._waiting_broken)):
                high = self.states.size
                depth += 1
                for part in self._waiting.pop((cost, depth), ()):
                    self._waiting_bytes -= part.nbytes
                    self._keep(self._unmet(part), cost)
                for found in self._waiting_broken.pop((cost, depth), ()):
                    self._break(found)
                for at in range(low, high, CHUNK):
                    self._expand(at, min(at + CHUNK, high), cost, depth)
                    self.progress(self.states.size, self.transitions, depth)
                    self.stopped = self._limit()
                    if self.stopped:
                        return self
                if self.states.size > high:
                    self.depth = max(self.depth, depth)
                if self.found and not self.every:
                    return self
                low = high
        if self.cut.get(FULL):
            self.stopped = "a wire that was full: give it more room (Wire.at_most)"
        return self

    def _limit(self) -> str:
        """Which limit is reached; empty where none is."""
        if self.states.size > self.limits.max_states:
            return f"more than {self.limits.max_states:,} states"
        return f"more than {self.limits.max_memory:,} bytes" if self.nbytes > self.limits.max_memory else ""

    @property
    def nbytes(self) -> int:
        """What states, keys and tables take."""
        kept = (self.states, self.parent, self.action, self.cost, self.is_cut)
        tables = self._visited.nbytes + self.space.nbytes + self._waiting_bytes + self._edges_bytes
        return sum(one.array.nbytes for one in kept) + tables

    def _expand(self, low: int, high: int, cost: int, depth: int) -> None:
        """Meets what follows some states at the same cost; what costs one more waits."""
        here = low + np.flatnonzero(~self.is_cut.view[low:high])
        rows = self.states.array[here]
        steps = list(self.successors(rows, paid=cost < self.most))
        base = self._keys(rows)
        moving = np.zeros(len(rows), np.bool_)
        free, paid = [], []
        for one in steps:
            keys = self._changed(base, rows, one)
            is_free, is_paid = one.cost == FREE, (one.cost == PAID) & (cost < self.most)
            self._note_broken(one, here, is_free, cost, depth)
            self._note_broken(one, here, is_paid, cost + 1, depth)
            possible = self._possible(one, self.space.by)
            moving[one.source[possible[keys[possible] != base[one.source[possible]]]]] = True
            if one.full.any():
                taken = one.full & (is_free | is_paid)
                self.cut[FULL] = self.cut.get(FULL, 0) + int(taken.sum())
                self.is_cut.array[here[one.source[one.full]]] = True  # what would come of it is not known
                moving[one.source[one.full]] = True
                is_free, is_paid = is_free & ~one.full, is_paid & ~one.full
            self.transitions += int(is_free.sum()) + int(is_paid.sum())
            free.append((one, keys, is_free))
            paid.append((one, keys, is_paid))
        goal = self.model.goal
        if goal is not None and not moving.all():
            still = np.flatnonzero(~moving)
            reached = self._ask(goal.name, goal.reached, rows[still])
            if not reached.all():
                self._break(Found(DEADLOCK, int(here[still[~reached][0]]), cost))
        self._keep(self._fresh(rows, here, free), cost)
        if cost < self.most and len((more := self._fresh(rows, here, paid)).rows):
            self._waiting.setdefault((cost + 1, depth), []).append(more)
            self._waiting_bytes += more.nbytes

    def _note_broken(self, one: _Successors, here: Longs, which: Mask, cost: int, depth: int) -> None:
        """What steps of this cost break; it is told when its cost and depth have come."""
        broken = np.flatnonzero(which & (one.broken > 0))
        for number in np.unique(one.broken[broken]).tolist():
            at = int(broken[one.broken[broken] == number][0])
            for name in self.space.broken.values[number]:
                found = Found(name, int(here[one.source[at]]), cost, int(one.action[at]))
                if one.cost[at] == FREE:
                    self._break(found)
                else:
                    self._waiting_broken.setdefault((cost, depth), []).append(found)

    def successors(self, rows: Ids, *, paid: bool) -> Iterator[_Successors]:
        """Steps from these states: all that may cost nothing or that the goal counts on; with `paid` the others too."""
        space = self.space
        for i, cell in enumerate(space.cells):
            for is_paid, local in cell.local.items():
                if paid or not is_paid:
                    source, found = local.join(rows[:, i])
                    yield from self._tell(rows, source, {i: found[:, CELL]}, found, found[:, BROKEN:])
            for (j, is_paid), outgoing in cell.outgoing.items():
                source, found = outgoing.join(rows[:, i]) if paid or not is_paid else NOTHING
                if len(source):
                    heard = space.cells[j].receive.join(rows[source, j], found[:, INPUT])
                    cells = {i: found[:, CELL], j: heard[:, 0]}
                    yield from self._tell(rows, source, cells, found, heard[:, 1:])

    def _tell(self, rows: Ids, source: Longs, cells: dict[int, Ids], found: Ids, given: Ids) -> Iterator[_Successors]:
        """Puts on the wires what a step sends. `given` is what it breaks, and what the wires of each cell are told."""
        if not len(source):
            return
        broken, bundles = given[:, 0], given[:, 1:]
        cost = self._costs(rows, source, found)
        full = np.zeros(len(source), np.bool_)
        for j in np.flatnonzero(bundles.any(axis=0)).tolist():
            cell, told = self.space.cells[j], np.flatnonzero(bundles[:, j])
            if len(told):
                now = cells[j].copy() if j in cells else rows[source, j]
                told = told[now[told] >= 0]
                now[told] = cell.told.join(now[told], bundles[told, j])[:, 0]
                cells[j] = now
        waits = np.zeros(len(source), np.bool_)
        for now in cells.values():
            full |= now == NO_ROOM
            waits |= now == WAITS
        if waits.any():
            cells = {j: now[~waits] for j, now in cells.items()}
            source, found, cost, broken, full = (
                source[~waits],
                found[~waits],
                cost[~waits],
                broken[~waits],
                full[~waits],
            )
        if full.any():  # as if nothing happened, for those that look at keys
            cells = {j: np.where(full, rows[source, j], now) for j, now in cells.items()}
        yield _Successors(source, cells, found[:, ACTION], cost, broken, full)

    def _costs(self, rows: Ids, source: Longs, found: Ids) -> Ids:
        cost = found[:, COST]
        asked = found[:, FREE_WHEN]
        for name in np.unique(asked[asked > 0]).tolist():
            those = np.flatnonzero(asked == name)
            condition = self.space.conditions.values[name]
            holds = self._ask(condition, self.model.conditions[condition], rows[source[those]])
            cost = cost.copy()
            cost[those[holds]] = FREE
        return cost

    # Keys

    def _keys(self, rows: Ids) -> Keys:
        self._fit()
        keys = np.zeros(len(rows), np.uint64)
        for i, column in enumerate(rows.T):
            keys += self._weigh(i, column)
        return keys

    def _changed(self, base: Keys, rows: Ids, one: _Successors) -> Keys:
        keys: Keys = base[one.source]
        for j, now in one.cells.items():
            keys += self._weigh(j, now) - self._weigh(j, rows[one.source, j])
        return keys

    def _weigh(self, place: int, numbers: Ids) -> Keys:
        """What a cell adds to the key of a state."""
        wide = numbers.astype(np.uint64)
        if self.exact:
            return wide << np.uint64(sum(self._bits[place + 1 :]))
        wide = (wide + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64((place * 0xD1B54A32D192ED03) % 2**64)
        wide = (wide ^ (wide >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        wide = (wide ^ (wide >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return wide ^ (wide >> np.uint64(31))

    def _fit(self) -> None:
        """Sees to it that the number of every cell has room in a key; makes the keys again where it had not."""
        counts = [len(cell.ids) for cell in self.space.cells]
        if not self.exact or all(count <= 1 << bits for count, bits in zip(counts, self._bits, strict=True)):
            return
        needed = [count.bit_length() for count in counts]
        spare = 64 - sum(needed)
        self.exact = spare >= 0
        each, more = divmod(max(spare, 0), len(needed))
        self._bits = [bits + each + (i < more) for i, bits in enumerate(needed)]
        self._visited = Visited()
        keys = self._keys(self.states.view)
        keys.sort(kind="stable")
        self._visited.add(keys)

    def _fresh(self, rows: Ids, here: Longs, steps: Sequence[tuple[_Successors, Keys, Mask]]) -> _Fresh:
        """Of these successors those never met, each once."""
        chosen = [np.flatnonzero(mask) for _, _, mask in steps]
        keys = np.concatenate([np.zeros(0, np.uint64), *(k[c] for (_, k, _), c in zip(steps, chosen, strict=True))])
        new = np.sort(keys)
        new = new[np.concatenate([new[:1] == new[:1], new[1:] != new[:-1]])]
        new = new[self._visited.unmet(new)]
        if not len(new):
            return _Fresh(rows[:0], here[:0], np.zeros(0, np.int32), new)
        at = np.searchsorted(new, keys)
        at[at == len(new)] = 0
        places = np.flatnonzero(new[at] == keys)
        places = np.sort(places[np.unique(at[places], return_index=True)[1]])
        parts, begin = [], 0
        for (one, _, _), those in zip(steps, chosen, strict=True):
            low, high = np.searchsorted(places, (begin, begin + len(those)))
            mine = those[places[low:high] - begin]
            after = rows[one.source[mine]]
            for j, now in one.cells.items():
                after[:, j] = now[mine]
            parts.append((after, here[one.source[mine]], one.action[mine]))
            begin += len(those)
        states, parents, actions = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _Fresh(states, parents, actions, new)

    def _unmet(self, found: _Fresh) -> _Fresh:
        """Of states that waited those that were not met since."""
        keys = self._keys(found.rows)
        order = np.argsort(keys, kind="stable")
        distinct, first = np.unique(keys[order], return_index=True)
        fresh = self._visited.unmet(distinct)
        chosen = np.sort(order[first[fresh]])
        return _Fresh(found.rows[chosen], found.parents[chosen], found.actions[chosen], distinct[fresh])

    def _keep(self, found: _Fresh, cost: int) -> None:
        """Notes states that were never met, and looks at them."""
        if len(found.rows):
            low = self._append(found, cost)
            self._look(found.rows, low, cost)

    def _append(self, found: _Fresh, cost: int) -> int:
        """Notes states; where they begin. Known hazards are cut off."""
        self._visited.add(found.keys)
        low, count = self.states.size, len(found.rows)
        columns = ((self.states, found.rows), (self.parent, found.parents), (self.action, found.actions))
        for column, values in (*columns, (self.cost, cost)):
            column.extend(values, count)
        is_cut = np.zeros(count, np.bool_)
        for name in self.known:
            shows = self._ask(name, self.model.hazards[name], found.rows)
            self.cut[name] = self.cut.get(name, 0) + int(shows.sum())
            is_cut |= shows
        self.is_cut.extend(is_cut, count)
        return low

    # What is asked

    def _ask(self, name: str, condition: Condition, rows: Ids) -> Mask:
        """What a condition says of states. Raises `InputError` where that is no truth for each."""
        where = f"{self.model.name}, {name}"
        holds = ask(where, condition, Columns(self.space, rows))
        if getattr(holds, "shape", None) != (len(rows),) or holds.dtype != np.bool_:
            raise InputError("gave no truth for each state", where, "compare columns, as in view.of(...) == 1")
        found: Mask = holds
        return found

    def _look(self, rows: Ids, low: int, cost: int) -> None:
        is_cut = self.is_cut.view[low:]
        for one in self.model.properties:
            if one.name in self.found:
                continue
            if isinstance(one, PairProperty):
                first, second = self.space.index[one.first], self.space.index[one.second]
                ends = (self.space.cells[i].states()[rows[:, i]] for i in (first, second))
                holds = self._pairs[one.name].join(*ends)[:, 0].astype(np.bool_)
            else:
                holds = self._ask(one.name, one.holds, rows)
            bad = np.flatnonzero(~holds & ~is_cut)
            if len(bad):
                self._break(Found(one.name, low + int(bad[0]), cost))

    def _break(self, found: Found) -> None:
        self.found.setdefault(found.name, found)

    # Liveness

    def doomed(self) -> Longs:
        """States, in their order, from which the goal is out of reach without a further disturbance.

        A run that may go on does go on, and takes a way out that is open again and again at last (strong fairness): so
        a state is doomed when no path of free steps leads to the goal, and no cycle is overlooked. What the goal counts
        on (`Goal.by`) may happen on the path, too; the states behind it are explored for that.
        """
        goal = self.model.goal
        if goal is None:
            return np.zeros(0, np.int64)
        met = self.states.size
        good = self._ask(goal.name, goal.reached, self.states.view) | self.is_cut.view
        self._spread(good, np.arange(met), by=())
        edge = lost = np.flatnonzero(~good)
        for _ in range(ROUNDS if goal.by and len(lost) else 0):
            low = self.states.size
            self._go_on(edge, goal.by)
            new = np.arange(low, self.states.size)
            if len(new):
                behind = self._ask(goal.name, goal.reached, self.states.array[new]) | self.is_cut.view[low:]
                good, lost = np.concatenate([good, behind]), np.concatenate([lost, new])
            self._spread(good, lost, goal.by)
            edge = new[~good[new]]
            if not len(edge) or self._limit():
                break
        unknown = bool(goal.by) and len(edge) > 0
        if unknown:  # what would come of another timer
            good[edge] = True
            self._spread(good, lost, goal.by)
        self.stopped = self._limit()
        if self.stopped:
            return np.zeros(0, np.int64)
        if unknown and good[:met].all():
            self.stopped = f"{ROUNDS} times in a row of {', '.join(goal.by)}, with which the goal may be reached"
        return np.flatnonzero(~good[:met])

    def _possible(self, one: _Successors, by: Collection[str]) -> Longs:
        """Of these steps the free ones, and those of the named kinds of disturbance."""
        named = np.array([action.disturbance in by for action in self.space.actions.values]) if by else NOBODY
        counts = (one.cost == FREE) | named[one.action if by else 0]
        return np.flatnonzero(counts & ~one.full)

    def _go_on(self, states: Longs, by: Collection[str]) -> None:
        """Meets what follows some states by a step of the named kinds and then by free ones; nothing is asked of it."""
        while len(states) and not self._limit():
            low = self.states.size
            for at in range(0, len(states), CHUNK):
                here = states[at : at + CHUNK]
                rows = self.states.array[here]
                steps = list(self.successors(rows, paid=False))
                base, found = self._keys(rows), []
                for one in steps:
                    mask = np.zeros(len(one.source), np.bool_)
                    mask[self._possible(one, by)] = True
                    found.append((one, self._changed(base, rows, one), mask))
                self._append(self._fresh(rows, here, found), self.most + 1)
            states, by = np.arange(low, self.states.size), ()

    def _spread(self, good: Mask, states: Longs, by: Collection[str]) -> None:
        """Marks those of the states from which a good one can be reached."""
        keys = self._keys(self.states.view)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        sources, targets = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for low in range(0, len(states), CHUNK):
            here = states[low : low + CHUNK]
            here = here[~good[here]]
            rows = self.states.array[here]
            base = self._keys(rows)
            for one in self.successors(rows, paid=False):
                possible = self._possible(one, by)
                reached = self._changed(base, rows, one)[possible]
                at = np.minimum(np.searchsorted(keys, reached), len(keys) - 1)
                met = keys[at] == reached  # all are, but what follows the last round
                sources.append(here[one.source[possible]][met].astype(np.int32))
                targets.append(order[at[met]].astype(np.int32))
            self._edges_bytes = 24 * sum(map(len, targets))  # with what sorting them takes
            if self._limit():
                return
        source, target = np.concatenate(sources), np.concatenate(targets)
        by_target = np.argsort(target, kind="stable")
        source = source[by_target]
        begin = np.searchsorted(target[by_target], np.arange(len(good) + 1))
        edge = np.flatnonzero(good)
        while len(edge):
            count = begin[edge + 1] - begin[edge]
            at = np.arange(int(count.sum())) + np.repeat(begin[edge] - (np.cumsum(count) - count), count)
            before = np.zeros(len(good), np.bool_)
            before[source[at]] = True
            edge = np.flatnonzero(before & ~good)
            good[edge] = True
        self._edges_bytes = 0


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
