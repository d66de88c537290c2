"""Exhaustive search, a whole frontier at a time.

A global state is a row of numbers, one for each cell. What a cell may do is gathered from its tables for all rows at
once, and a successor is the sum of the source's key and the change of a few cells; only states that were never met are
written out. Disturbances cost one each: states are met in the order of their disturbances and then of their steps, so
that a counterexample has the fewest of both.

Keys are exact while the numbers of all cells fit side by side into 64 bits; beyond that they are hashes, and the
verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsm.check.memo import Growing, Ids, Longs, Pairs, Visited
from fsm.check.model import Condition, Model, PairProperty
from fsm.check.space import ACTION, BROKEN, CELL, COST, FREE_WHEN, INPUT, NO_ROOM, Space
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check.model import Integers, Mask

CHUNK = 200_000
"""States that are expanded at once."""
Keys = npt.NDArray[np.uint64]

DEADLOCK = "something can happen, or the goal is reached"
"""The property that a deadlock breaks."""


class Found(NamedTuple):
    """Where a property is broken: in a state, or in a step from it."""

    name: str
    state: int
    action: int = -1
    """The step that breaks it; -1 where the state does."""


class Stopped(NamedTuple):
    """Why a search ended before it had met every state."""

    why: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a search stops with what is known."""

    max_states: int = 200_000_000
    max_memory: int = 6 << 30
    """Bytes of states, keys and tables."""


class _Successors(NamedTuple):
    """One kind of step of many states."""

    source: Longs
    """Index of each row's source."""
    cells: dict[int, Ids]
    """The cells that change, by their place in a state."""
    action: Ids
    cost: Ids
    broken: Ids


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
    limits: Limits = Limits()
    every: bool = False
    """Goes on where something is broken, up to one counterexample for each property."""
    progress: Callable[[int, int, int], None] = lambda _states, _transitions, _depth: None
    """Told of states, transitions and depth now and then."""

    found: dict[str, Found] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    stopped: Stopped | None = None
    exact: bool = True
    transitions: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        for kind in sorted(self.kinds):
            if kind not in self.model.kinds:
                raise InputError(f"no kind of disturbance: {kind!r}", self.model.name, f"choose from {_list(self.model.kinds)}")
        for name in self.known:
            if name not in self.model.hazards:
                raise InputError(f"no known hazard: {name!r}", self.model.name, f"choose from {_list(sorted(self.model.hazards))}")
        self.space = Space(self.model, self.kinds)
        many = len(self.space.cells)
        self.states, self.parent = Growing(np.int32, many), Growing(np.int64)
        self.action, self.cost = Growing(np.int32), Growing(np.int8)
        self.is_cut = Growing(np.bool_)
        self._broken_steps: dict[int, list[Found]] = {}
        """By how many disturbances they take."""
        self._visited = Visited()
        self._bits = [64 // many] * many
        self._pairs = [self._pair(one) if isinstance(one, PairProperty) else None for one in self.model.properties]

    def _pair(self, one: PairProperty) -> Pairs:
        first, second = self.space.index[one.first], self.space.index[one.second]
        a, b = self.space.cells[first], self.space.cells[second]

        def ask(left: int, right: int) -> tuple[int, ...]:
            return (int(one.holds(a.value(a.ids.values[left], 0), b.value(b.ids.values[right], 0))),)

        return Pairs(1, ask)

    # The search

    def run(self) -> Search:
        """Meets every state, or as many as the limits allow, or as it takes to find what is broken."""
        no_parent = np.full(1, -1, np.int64)
        waiting: list[dict[int, list[tuple[Ids, Longs, Ids]]]] = [{} for _ in range(self.most + 1)]
        waiting[0][0] = [(self.space.start(), no_parent, no_parent.astype(np.int32))]
        for cost in range(self.most + 1):
            depth, low = 0, self.states.size
            self._break_steps(cost)
            while waiting[cost] or low < self.states.size:
                high = self.states.size
                for part in waiting[cost].pop(depth, ()):
                    self._keep(*part, cost)
                for at in range(low, high, CHUNK):
                    top = min(at + CHUNK, high)
                    paid = self._expand(at, top, cost)
                    if cost < self.most and len(paid[0]):
                        waiting[cost + 1].setdefault(depth, []).append(paid)
                    self._break_steps(cost)
                    self.progress(self.states.size, self.transitions, depth)
                    self.stopped = self._limit()
                    if self.stopped or (self.found and not self.every):
                        return self
                low, depth = high, depth + 1
                self.depth = max(self.depth, depth - 1)
        return self

    def _limit(self) -> Stopped | None:
        if self.states.size > self.limits.max_states:
            return Stopped(f"more than {self.limits.max_states:,} states")
        if self.nbytes > self.limits.max_memory:
            return Stopped(f"more than {self.limits.max_memory:,} bytes")
        return None

    @property
    def nbytes(self) -> int:
        """What states, keys and tables take."""
        kept = (self.states, self.parent, self.action, self.cost, self.is_cut)
        return sum(one.array.nbytes for one in kept) + self._visited.nbytes + self.space.nbytes

    def _expand(self, low: int, high: int, cost: int) -> tuple[Ids, Longs, Ids]:
        """Meets what follows some states at the same cost; gives what costs one more."""
        here = low + np.flatnonzero(~self.is_cut.view[low:high])
        rows = self.states.array[here]
        steps = list(self.successors(rows))
        base = self._keys(rows)
        moving = np.zeros(len(rows), np.bool_)
        free, paid = [], []
        for one in steps:
            self.transitions += len(one.source)
            is_free = one.cost == 0
            for costs, which in ((cost, is_free), (cost + 1, ~is_free)):
                broken = np.flatnonzero(which & (one.broken > 0))
                for name in np.unique(one.broken[broken]).tolist() if costs <= self.most else ():
                    at = int(broken[one.broken[broken] == name][0])
                    found = Found(self.space.broken.values[name], int(here[one.source[at]]), int(one.action[at]))
                    self._broken_steps.setdefault(costs, []).append(found)
            moving[one.source[is_free]] = True
            keys = self._changed(base, rows, one)
            free.append((one, keys, is_free))
            paid.append((one, keys, ~is_free))
        if self.model.goal is not None and not moving.all():
            still = np.flatnonzero(~moving)
            reached = self.model.goal.reached(Columns(self.space, rows[still]))
            if not reached.all():
                self._break(Found(DEADLOCK, int(here[still[~reached][0]])))
        self._keep(*self._fresh(rows, here, free), cost)
        return self._fresh(rows, here, paid)[:3] if cost < self.most else (rows[:0], here[:0], np.zeros(0, np.int32))

    def successors(self, rows: Ids) -> Iterator[_Successors]:
        """Every step from these states."""
        space = self.space
        for i, cell in enumerate(space.cells):
            source, found = cell.local.join(rows[:, i])
            yield from self._tell(rows, source, {i: found[:, CELL]}, found, found[:, BROKEN], found[:, BROKEN + 1 :])
            for j, outgoing in enumerate(cell.outgoing):
                source, found = outgoing.join(rows[:, i])
                if len(source):
                    heard = space.cells[j].receive.join(rows[source, j], found[:, INPUT])
                    yield from self._tell(
                        rows, source, {i: found[:, CELL], j: heard[:, 0]}, found, heard[:, 1], heard[:, 2:]
                    )

    def _tell(
        self, rows: Ids, source: Longs, cells: dict[int, Ids], found: Ids, broken: Ids, bundles: Ids
    ) -> Iterator[_Successors]:
        """Puts on the wires what a step sends."""
        if not len(source):
            return
        cost = self._costs(rows, source, found)
        full = np.zeros(len(source), np.bool_)
        for j, cell in enumerate(self.space.cells):
            told = np.flatnonzero(bundles[:, j])
            if len(told):
                now = cells[j].copy() if j in cells else rows[source, j]
                told = told[now[told] != NO_ROOM]
                now[told] = cell.told.join(now[told], bundles[told, j])[:, 0]
                cells[j] = now
        for now in cells.values():
            full |= now == NO_ROOM
        action = found[:, ACTION]
        if full.any():
            self.cut["wires that are full"] = self.cut.get("wires that are full", 0) + int(full.sum())
            room = ~full
            cells = {j: now[room] for j, now in cells.items()}
            source, action, cost, broken = source[room], action[room], cost[room], broken[room]
        yield _Successors(source, cells, action, cost, broken)

    def _costs(self, rows: Ids, source: Longs, found: Ids) -> Ids:
        cost = found[:, COST]
        asked = found[:, FREE_WHEN]
        for name in np.unique(asked[asked > 0]).tolist():
            those = np.flatnonzero(asked == name)
            condition: Condition = self.model.conditions[self.space.conditions.values[name]]
            cost = cost.copy()
            cost[those[condition(Columns(self.space, rows[source[those]]))]] = 0
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

    def _fresh(
        self, rows: Ids, here: Longs, steps: Sequence[tuple[_Successors, Keys, Mask]]
    ) -> tuple[Ids, Longs, Ids, Keys]:
        """Of these successors those never met, each once: states, parents, actions, sorted keys."""
        chosen = [np.flatnonzero(mask) for _, _, mask in steps]
        keys = np.concatenate([np.zeros(0, np.uint64), *(k[c] for (_, k, _), c in zip(steps, chosen, strict=True))])
        new = np.sort(keys)
        new = new[np.concatenate([new[:1] == new[:1], new[1:] != new[:-1]])]
        new = new[self._visited.unmet(new)]
        if not len(new):
            return rows[:0], here[:0], np.zeros(0, np.int32), new
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
        return states, parents, actions, new

    def _keep(self, rows: Ids, parent: Longs, action: Ids, *given: Any) -> None:
        """Notes states that were never met, and looks at them. Without keys, those that were met since are left out."""
        *keys, cost = given
        if not keys:
            found = self._keys(rows)
            order = np.argsort(found, kind="stable")
            distinct, first = np.unique(found[order], return_index=True)
            fresh = self._visited.unmet(distinct)
            keys = [distinct[fresh]]
            chosen = np.sort(order[first[fresh]])
            rows, parent, action = rows[chosen], parent[chosen], action[chosen]
        if not len(rows):
            return
        self._visited.add(keys[0])
        low, count = self.states.size, len(rows)
        for column, values in ((self.states, rows), (self.parent, parent), (self.action, action), (self.cost, cost)):
            column.extend(values, count)
        self._look(rows, low)

    # What is asked

    def _look(self, rows: Ids, low: int) -> None:
        view = Columns(self.space, rows)
        is_cut = np.zeros(len(rows), np.bool_)
        for name in self.known:
            shows = self.model.hazards[name](view)
            self.cut[name] = self.cut.get(name, 0) + int(shows.sum())
            is_cut |= shows
        self.is_cut.extend(is_cut, len(rows))
        for one, pairs in zip(self.model.properties, self._pairs, strict=True):
            if one.name in self.found:
                continue
            if isinstance(one, PairProperty):
                assert pairs is not None
                ends = rows[:, self.space.index[one.first]], rows[:, self.space.index[one.second]]
                holds = pairs.join(*ends)[:, 0].astype(np.bool_)
            else:
                holds = one.holds(view)
                if holds.shape != (len(rows),) or holds.dtype != np.bool_:
                    raise InputError(f"property {one.name!r} gave no truth for each state", self.model.name)
            bad = np.flatnonzero(~holds & ~is_cut)
            if len(bad):
                self._break(Found(one.name, low + int(bad[0])))

    def _break(self, found: Found) -> None:
        self.found.setdefault(found.name, found)

    def _break_steps(self, cost: int) -> None:
        """What steps of so many disturbances broke."""
        for found in self._broken_steps.pop(cost, ()):
            self._break(found)

    # Liveness

    def doomed(self) -> Longs:
        """States, in their order, from which the goal is out of reach without a further disturbance.

        A run that may go on does go on, and takes a way out that is open again and again at last (strong fairness): so
        a state is doomed when no path of free steps leads to the goal, and no cycle is overlooked.
        """
        goal = self.model.goal
        if goal is None:
            return np.zeros(0, np.int64)
        states = self.states.view
        keys = self._keys(states)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        good = goal.reached(Columns(self.space, states)) | self.is_cut.view
        sources, targets = [], []
        for low in range(0, len(states), CHUNK):
            here = low + np.flatnonzero(~self.is_cut.view[low : low + CHUNK])
            rows = states[here]
            base = self._keys(rows)
            for one in self.successors(rows):
                free = np.flatnonzero(one.cost == 0)
                reached = self._changed(base, rows, one)[free]
                at = np.searchsorted(keys, reached)
                sources.append(here[one.source[free]].astype(np.int32))
                targets.append(order[at].astype(np.int32))
        source, target = np.concatenate(sources), np.concatenate(targets)
        by_target = np.argsort(target, kind="stable")
        source = source[by_target]
        begin = np.searchsorted(target[by_target], np.arange(len(states) + 1))
        edge = np.flatnonzero(good)
        while len(edge):
            count = begin[edge + 1] - begin[edge]
            at = np.arange(int(count.sum())) + np.repeat(begin[edge] - (np.cumsum(count) - count), count)
            reached = np.zeros(len(states), np.bool_)
            reached[source[at]] = True
            edge = np.flatnonzero(reached & ~good)
            good[edge] = True
        return np.flatnonzero(~good)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
