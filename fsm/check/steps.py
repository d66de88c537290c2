"""What follows many states at once: their steps, gathered from the tables of all cells, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fsm.check.memo import Growing, Ids, Longs, Pairs
from fsm.check.model import Condition, Model, PairProperty, Property
from fsm.check.packing import Keys, Packing
from fsm.check.space import ACTION, BROKEN, CELL, COST, FREE, FREE_WHEN, INPUT, NO_ROOM, PAID, WAITS, Space, ask
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check.model import Integers, Mask


class Successors(NamedTuple):
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

    def keys(self, packing: Packing, base: Keys, rows: Ids) -> Keys:
        """The keys of what is reached: those of the sources (`base`), but for the cells that change."""
        keys: Keys = base[self.source]
        for j, now in self.cells.items():
            keys += packing.weigh(j, now) - packing.weigh(j, rows[:, j])[self.source]
        return keys

    def differs(self, rows: Ids) -> Mask:
        """Which of them are other states than their sources."""
        found = np.zeros(len(self.source), np.bool_)
        for j, now in self.cells.items():
            found |= now != rows[:, j][self.source]
        return found

    def after(self, rows: Ids, which: Longs) -> Ids:
        """Some of the states that are reached."""
        source = self.source[which]
        found = np.empty((len(which), rows.shape[1]), np.int32, order="F")
        for i in range(rows.shape[1]):
            found[:, i] = self.cells[i][which] if i in self.cells else rows[:, i][source]
        return found


class Found(NamedTuple):
    """Where a property is broken: in a state, or in a step from it."""

    name: str
    state: int
    cost: int
    """How many disturbances it takes."""
    action: int = -1
    """The step that breaks it; -1 where the state does."""


class Tally(NamedTuple):
    """What the steps from some states come to."""

    transitions: int = 0
    looked_up: int = 0
    """Steps found in tables: transitions, and what cannot happen."""
    full: int = 0
    """Steps that a full wire kept from being taken."""
    still: int = -1
    """The first state in which nothing can happen though the goal is not reached; -1 where there is none."""
    broken: tuple[Found, ...] = ()
    """The first step that breaks something, for each name and cost: 0, or 1 where it costs a disturbance more."""


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Of some states and of others together."""
    total, firsts = Tally(), dict[tuple[str, int], Found]()
    for one in tallies:
        for found in one.broken:
            before = firsts.get((found.name, found.cost), found)
            firsts[found.name, found.cost] = found if found.state < before.state else before
        still = [state for state in (total.still, one.still) if state >= 0]
        total = Tally(
            total.transitions + one.transitions,
            total.looked_up + one.looked_up,
            total.full + one.full,
            min(still, default=-1),
            tuple(firsts.values()),
        )
    return total


class Columns:
    """Global states as columns of numbers: what conditions are asked about."""

    def __init__(self, space: Space, rows: Ids) -> None:
        self._space, self.rows = space, rows
        self._found: dict[tuple[str, str], Integers] = {}

    def of(self, component: str, feature: str) -> Integers:
        """A feature of a component in each state. Raises `InputError` where there is none."""
        known = self._found.get((component, feature))
        if known is not None:
            return known
        who = self._space.index.get(component)
        column = None if who is None else self._space.cells[who].feature(feature)
        if who is None or column is None:
            raise InputError(f"no feature {feature!r} of a component {component!r}", self._space.model.name)
        found: Integers = column[self.rows[:, who]]
        found.flags.writeable = False
        self._found[component, feature] = found
        return found

    def on(self, sender: str, receiver: str, feature: str = "") -> Integers:
        """A feature of a wire in each state. Raises `InputError` where there is none."""
        for who, cell in enumerate(self._space.cells):
            column = cell.feature(f"{sender} to {receiver} {feature}")
            if column is not None:
                found: Integers = column[self.rows[:, who]]
                return found
        raise InputError(f"no feature {feature!r} of a wire from {sender!r} to {receiver!r}", self._space.model.name)

    def __len__(self) -> int:
        return len(self.rows)


class Steps:
    """The steps of a model's states, by the tables of a space."""

    def __init__(self, model: Model, space: Space) -> None:
        self.model, self.space = model, space
        pairs = (one for one in model.properties if isinstance(one, PairProperty))
        self._pairs = {one.name: self._pair(one) for one in pairs}
        self._of_kinds: dict[frozenset[str], Growing] = {}
        self._asked: Columns | None = None
        """The states that were asked about last."""

    def _pair(self, one: PairProperty) -> Pairs:
        first, second = (self.space.parts[self.space.index[end]].states for end in (one.first, one.second))

        def answer(left: int, right: int) -> tuple[int, ...]:
            found = ask(one.name, one.holds, first.value(left), second.value(right))
            if not isinstance(found, bool | np.bool_):
                raise InputError(f"gave {found!r}; give True or False", f"{self.model.name}, {one.name}")
            return (int(found),)

        return Pairs(1, answer)

    def successors(self, rows: Ids, *, paid: bool) -> Iterator[Successors]:
        """Steps from these states: all that may cost nothing or that the goal counts on; with `paid` the others too."""
        space = self.space

        @cache
        def holds(condition: int) -> Mask:
            name = space.conditions.value(condition)
            return self.ask(name, self.model.conditions[name], rows)

        for i, cell in enumerate(space.cells):
            for is_paid, local in cell.local.items():
                if paid or not is_paid:
                    source, found = local.join(rows[:, i])
                    yield from self._tell(rows, source, {i: found[:, CELL]}, found, found[:, BROKEN:], holds=holds)
            for (j, is_paid), outgoing in cell.outgoing.items():
                if paid or not is_paid:
                    source, found = outgoing.join(rows[:, i])
                    if len(source):
                        heard = space.cells[j].receive.join(rows[:, j][source], found[:, INPUT])
                        cells = {i: found[:, CELL], j: heard[:, 0]}
                        yield from self._tell(rows, source, cells, found, heard[:, 1:], holds=holds)

    def _tell(
        self,
        rows: Ids,
        source: Longs,
        cells: dict[int, Ids],
        found: Ids,
        given: Ids,
        *,
        holds: Callable[[int], Mask],
    ) -> Iterator[Successors]:
        """Puts on the wires what a step sends. `given` is what it breaks, and what the wires of each cell are told."""
        if not len(source):
            return
        broken = given[:, 0]
        cost = self._costs(source, found, holds)
        full = np.zeros(len(source), np.bool_)
        waits = np.zeros(len(source), np.bool_)
        for j, cell in enumerate(self.space.cells):
            told = np.flatnonzero(given[:, 1 + j]) if cell.wires else ()
            if len(told):
                now = cells[j].copy() if j in cells else rows[:, j][source]
                told = told[now[told] >= 0]
                now[told] = cell.told.join(now[told], given[told, 1 + j])[:, 0]
                cells[j] = now
        for now in cells.values():
            if now.min() < 0:
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
            cells = {j: np.where(full, rows[:, j][source], now) for j, now in cells.items()}
        yield Successors(source, cells, found[:, ACTION], cost, broken, full)

    def _costs(self, source: Longs, found: Ids, holds: Callable[[int], Mask]) -> Ids:
        """What steps cost; `holds` tells of a condition in which of the states it holds."""
        cost, asked = found[:, COST], found[:, FREE_WHEN]
        if asked.any():
            cost = cost.copy()
            for condition in range(1, len(self.space.conditions)):
                those = np.flatnonzero(asked == condition)
                if len(those):
                    cost[those[holds(condition)[source[those]]]] = FREE
        return cost

    def possible(self, one: Successors, by: Collection[str], *, full: bool = False) -> Longs:
        """Of these steps the free ones, and those of the named kinds; with `full`, those that a full wire hides."""
        counts = one.cost == FREE
        if by:
            counts |= self._named(by)[one.action]
        return np.flatnonzero(counts & (one.full if full else ~one.full))

    def _named(self, by: Collection[str]) -> Mask:
        """Of each action there is, whether it is one of these kinds of disturbance."""
        named = self._of_kinds.setdefault(frozenset(by), Growing(np.bool_))
        new = [disturbance in by for _, _, disturbance, *_ in self.space.actions.keys[named.size :]]
        named.extend(new, len(new))
        found: Mask = named.view
        return found

    def ask(self, name: str, condition: Condition, rows: Ids) -> Mask:
        """What a condition says of states. Raises `InputError` where that is no truth for each."""
        where = f"{self.model.name}, {name}"
        if self._asked is None or self._asked.rows is not rows:
            self._asked = Columns(self.space, rows)
        holds = ask(where, condition, self._asked)
        if getattr(holds, "shape", None) != (len(rows),) or holds.dtype != np.bool_:
            raise InputError("gave no truth for each state", where, "compare columns, as in view.of(...) == 1")
        found: Mask = holds
        return found

    def holds(self, one: Property | PairProperty, rows: Ids) -> Mask:
        """Of which states a property holds."""
        if isinstance(one, Property):
            return self.ask(one.name, one.holds, rows)
        first, second = self.space.index[one.first], self.space.index[one.second]
        ends = (self.space.cells[i].states()[rows[:, i]] for i in (first, second))
        holds: Mask = self._pairs[one.name].join(*ends)[:, 0].astype(np.bool_)
        return holds

    def hazards(self, names: Sequence[str], rows: Ids) -> Iterator[tuple[str, Mask]]:
        """In which states each of these known hazards shows."""
        for name in names:
            yield name, self.ask(name, self.model.hazards[name], rows)

    def not_cut(self, known: Sequence[str], here: Longs, rows: Ids) -> tuple[Longs, Ids]:
        """Of these states those in which no known hazard shows."""
        cut = np.zeros(len(rows), np.bool_)
        for _, shows in self.hazards(known, rows):
            cut |= shows
        return (here[~cut], np.asfortranarray(rows[~cut])) if cut.any() else (here, rows)

    def look(
        self, known: Sequence[str], rows: Ids, skip: Collection[str] = ()
    ) -> tuple[dict[str, int], dict[str, int]]:
        """In how many states each known hazard shows, and the first of the others that breaks each property."""
        is_cut = np.zeros(len(rows), np.bool_)
        cut: dict[str, int] = {}
        broken: dict[str, int] = {}
        for name, shows in self.hazards(known, rows):
            cut[name] = int(shows.sum())
            is_cut |= shows
        for one in self.model.properties:
            if one.name not in skip and len(bad := np.flatnonzero(~self.holds(one, rows) & ~is_cut)):
                broken[one.name] = int(bad[0])
        return cut, broken

    def taken(self, one: Successors, *, paid: bool) -> tuple[Mask, Mask]:
        """Which of these steps are taken: at no cost; and, if at all, at the cost of a disturbance."""
        return (one.cost == FREE) & ~one.full, (one.cost == PAID) & ~one.full & paid

    def tally(self, steps: Sequence[Successors], here: Longs, rows: Ids, *, paid: bool) -> Tally:
        """What the steps from some states come to, whose numbers are given."""
        transitions = full = 0
        moving = np.zeros(len(rows), np.bool_)
        firsts: dict[tuple[str, int], Found] = {}
        goal = self.model.goal
        for one in steps:
            free_or_paid = (one.cost == FREE) | ((one.cost == PAID) & paid)
            if one.full.any():  # what would come of it is not known
                full += int(np.count_nonzero(free_or_paid & one.full))
                moving[one.source[one.full]] = True
            transitions += int(np.count_nonzero(free_or_paid & ~one.full))
            if goal is not None and not moving[one.source].all():
                possible = self.possible(one, self.space.by)
                moving[one.source[possible[one.differs(rows)[possible]]]] = True
            if one.broken.any():
                self._note_broken(firsts, one, here, paid=paid)
        still = -1
        if goal is not None and not moving.all():
            quiet = np.flatnonzero(~moving)
            bad = quiet[~self.ask(goal.name, goal.reached, rows[quiet])]
            still = int(here[bad[0]]) if len(bad) else -1
        return Tally(transitions, sum(len(one.source) for one in steps), full, still, tuple(firsts.values()))

    def _note_broken(self, firsts: dict[tuple[str, int], Found], one: Successors, here: Longs, *, paid: bool) -> None:
        for costs, cost in enumerate((FREE, PAID) if paid else (FREE,)):
            broken = np.flatnonzero((one.cost == cost) & (one.broken > 0))
            for number in np.unique(one.broken[broken]).tolist():
                those = broken[one.broken[broken] == number]
                at = int(those[np.argmin(one.source[those])])
                for name in self.space.broken.value(number):
                    found = Found(name, int(here[one.source[at]]), costs, int(one.action[at]))
                    before = firsts.get((name, costs), found)
                    if name not in self.model.ignored_of_steps:
                        firsts[name, costs] = found if found.state < before.state else before
