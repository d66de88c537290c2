"""The successors of many states at once, gathered from the tables of all cells, and the evaluation of properties."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fsm.check.ahead import StepInput
from fsm.check.memo import Growing, Ids, Longs, Lookup, Pairs, Table, every
from fsm.check.model import Condition, Model, PairProperty, Property
from fsm.check.space import ACTION, CELL, COST, FREE, FREE_WHEN, INPUT, LAST_BIT, NO_ROOM, PAID, WAITS, Space, ask
from fsm.check.store import Keys, Packing
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check.model import Integers, Mask


NONE: Any = np.zeros(0, np.int32)
_Lookups = tuple[int, Longs, Longs, Lookup]
"""Deliveries from some states: their number, the index of the state of each, the place of its row, and its effect."""


class Successors(NamedTuple):
    """One kind of step of many states."""

    source: Longs
    """Index of each row's source."""
    cells: dict[int, Ids]
    """The cells that change, by their place in a state."""
    cost: Ids
    rows: Table
    at: Longs
    """The place of each step in its table."""
    looked_up: int
    """How many steps of these states the table has."""
    broken: Ids = NONE
    full: Mask = NONE
    """Steps that would exceed the capacity of a wire and are not taken."""

    @property
    def action(self) -> Ids:
        """The action of each step."""
        return self.rows.column(ACTION, self.at)

    def select(self, cost: int) -> Successors:
        """Selects the steps of this cost that no full wire prevents."""
        return self.those((self.cost == cost) & ~self.full)

    def those(self, which: Mask) -> Successors:
        """Selects some of the steps."""
        if which.all():
            return self
        return Successors(
            self.source[which],
            {j: now[which] for j, now in self.cells.items()},
            self.cost[which],
            self.rows,
            self.at[which],
            self.looked_up,
            self.broken[which],
            self.full[which],
        )

    def keys(self, packing: Packing, base: Keys, rows: Ids) -> Keys:
        """The keys of the successors: those of the sources (`base`), updated for the changed cells."""
        rest = base
        for j in self.cells:
            rest = rest - packing.weigh(j, rows[:, j])
        keys: Keys = rest.take(self.source)
        for j, now in self.cells.items():
            keys += packing.weigh(j, now)
        return keys

    def leads_on(self, rows: Ids, which: Longs) -> Longs:
        """The steps among these that change the state."""
        source, differs = self.source.take(which), np.zeros(len(which), np.bool_)
        for j, now in self.cells.items():
            differs |= now.take(which) != rows[:, j].take(source)
        return which[differs]

    def after(self, rows: Ids, which: Longs) -> Ids:
        """The successors at these steps."""
        source = self.source[which]
        found = np.empty((len(which), rows.shape[1]), np.int32, order="F")
        for i in range(rows.shape[1]):
            found[:, i] = self.cells[i][which] if i in self.cells else rows[:, i].take(source)
        return found


class Found(NamedTuple):
    """A violation of a property, by a state or by a step from it."""

    name: str
    state: int
    cost: int
    """The number of disturbances on the way to it."""
    action: int = -1
    """The violating step; -1 if the state itself violates the property."""


class Tally(NamedTuple):
    """Counts and violations of the steps from some states."""

    transitions: int = 0
    looked_up: int = 0
    """The number of steps found in tables: transitions, and steps that are not possible."""
    full: int = 0
    """The number of steps that a full wire prevented."""
    still: int = -1
    """The first state without a step in which the goal does not hold; -1 if there is none."""
    broken: tuple[Found, ...] = ()
    """The first violating step for each name and cost: 0, or 1 for one more disturbance."""


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Adds up the tallies of several sets of states."""
    total, firsts = Tally(), dict[tuple[str, int], Found]()
    for one in tallies:
        for found in one.broken:
            _note_first(firsts, found)
        still = [state for state in (total.still, one.still) if state >= 0]
        total = Tally(
            total.transitions + one.transitions,
            total.looked_up + one.looked_up,
            total.full + one.full,
            min(still, default=-1),
            tuple(firsts.values()),
        )
    return total


def _note_first(firsts: dict[tuple[str, int], Found], found: Found) -> None:
    """Notes a violation, unless one of the same name and cost is by an earlier state."""
    if found.state < firsts.setdefault((found.name, found.cost), found).state:
        firsts[found.name, found.cost] = found


class Columns:
    """Global states as columns of numbers, on which conditions are evaluated."""

    def __init__(self, space: Space, rows: Ids) -> None:
        self._space, self.rows = space, rows
        self._found: dict[tuple[str, str], Integers] = {}

    def of(self, component: str, feature: str) -> Integers:
        """A feature of a component in each state. Raises `InputError` for an unknown one."""
        known = self._found.get((component, feature))
        if known is not None:
            return known
        who = self._space.index.get(component)
        column = None if who is None else self._space.cells[who].feature(feature)
        if who is None or column is None:
            raise InputError(f"unknown feature {feature!r} of a component {component!r}", self._space.model.name)
        found: Integers = column[self.rows[:, who]]
        found.flags.writeable = False
        self._found[component, feature] = found
        return found

    def on(self, sender: str, receiver: str, feature: str = "") -> Integers:
        """A feature of a wire in each state. Raises `InputError` for an unknown one."""
        for who, cell in enumerate(self._space.cells):
            column = cell.feature(f"{sender} to {receiver} {feature}")
            if column is not None:
                found: Integers = column[self.rows[:, who]]
                return found
        raise InputError(
            f"unknown feature {feature!r} of a wire from {sender!r} to {receiver!r}", self._space.model.name
        )

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
        """The states of the last evaluation."""

    def _pair(self, one: PairProperty) -> Pairs:
        first, second = (self.space.parts[self.space.index[end]].states for end in (one.first, one.second))

        def answer(left: int, right: int) -> tuple[int, ...]:
            found = ask(one.name, one.holds, first.value(left), second.value(right))
            if not isinstance(found, bool | np.bool_):
                raise InputError(f"returned {found!r}; return True or False", f"{self.model.name}, {one.name}")
            return (int(found),)

        return Pairs(1, answer)

    def successors(self, rows: Ids, *, paid: bool, by: Collection[str] = ()) -> Iterator[Successors]:
        """The steps of these states: free ones, with `paid` those of cost one, and those of the named kinds."""
        space = self.space

        @cache
        def holds(condition: int) -> Mask:
            name = space.conditions.value(condition)
            return self.ask(name, self.model.conditions[name], rows)

        def free(asked: int) -> Longs | None:
            return self._conditions(asked, len(rows), holds)

        sought = {}
        for i, cell in enumerate(space.cells):
            for (j, is_paid), outgoing in cell.outgoing.items():
                if paid or not is_paid:
                    joined = _, source, at = outgoing.join(rows[:, i])
                    lookup = space.cells[j].receive.find(rows[:, j].take(source), outgoing.rows.column(INPUT, at))
                    sought[i, j, is_paid] = *joined, lookup
        with space.ahead(self._list_missing_steps(rows, sought, paid=paid)):
            for i, cell in enumerate(space.cells):
                for is_paid, local in cell.local.items():
                    if paid or not is_paid:
                        many, source, at = local.join(rows[:, i], every if paid or by else free)
                        cost = self._costs(source, local.rows, at, holds)
                        if not is_paid and local.rows.used[COST]:
                            wanted = self._select(local.rows, at, cost, by, paid=paid)
                            source, at, cost = source.take(wanted), at.take(wanted), cost.take(wanted)
                        one = Successors(source, {i: local.rows.column(CELL, at)}, cost, local.rows, at, many)
                        yield self._deliver_messages(one, rows, local.rows, at)
                for (j, is_paid), outgoing in cell.outgoing.items():
                    if paid or not is_paid:
                        many, source, at, lookup = sought.pop((i, j, is_paid))
                        receive, where = space.cells[j].receive.rows, lookup.complete()
                        cells = {i: outgoing.rows.column(CELL, at), j: receive.column(CELL, where)}
                        cost = outgoing.rows.column(COST, at)
                        one = Successors(source, cells, cost, outgoing.rows, at, many)
                        yield self._deliver_messages(one, rows, receive, where)

    def _list_missing_steps(
        self, rows: Ids, sought: Mapping[tuple[int, int, bool], _Lookups], *, paid: bool
    ) -> Iterator[StepInput]:
        """The component steps that these states need and that the tables do not have."""
        if not self.space.jobs:
            return
        for i, cell in enumerate(self.space.cells):
            for is_paid, local in cell.local.items():
                if paid or not is_paid:
                    yield from cell.list_steps(is_paid, local.list_missing(rows[:, i]).tolist())
            for j, is_paid in cell.outgoing:
                if paid or not is_paid:
                    ids = self.space.cells[j].ids
                    yield from (
                        (j, ids.value(one)[0], given) for one, given in sought[i, j, is_paid][-1].list_missing()
                    )

    def _conditions(self, asked: int, many: int, holds: Callable[[int], Mask]) -> Longs | None:
        """The requested conditions that hold in each state, as bits; None if none is requested."""
        if asked <= 1:
            return None
        bits = np.ones(many, np.int64)
        for condition in range(1, len(self.space.conditions)):
            bit = min(condition, LAST_BIT)
            if asked >> bit & 1:
                bits |= holds(condition).astype(np.int64) << bit
        return bits

    def _deliver_messages(self, one: Successors, rows: Ids, sent: Table, at: Longs) -> Successors:
        """Puts the sent messages on the wires: they are in the last columns of these rows."""
        many, cells = len(self.space.cells), one.cells
        for j, cell in enumerate(self.space.cells):
            if cell.wires and sent.used[j - many]:
                bundles = sent.column(j - many, at)
                now = cells[j] if j in cells else rows[:, j].take(one.source)
                those = np.flatnonzero((bundles > 0) & (now >= 0))
                now[those] = cell.notified.rows.column(0, cell.notified.join(now[those], bundles[those]))
                cells[j] = now
        full, waits = (np.zeros(len(one.source), np.bool_) for _ in range(2))
        for now in cells.values():
            if now.min(initial=0) < 0:
                full |= now == NO_ROOM
                waits |= now == WAITS
        if full.any():  # as if unchanged, for code that reads keys
            cells = {j: np.where(full, rows[:, j].take(one.source), now) for j, now in cells.items()}
        looked_up = one.looked_up - int(np.count_nonzero(waits))
        broken = sent.column(-1 - many, at)
        return one._replace(cells=cells, full=full, broken=broken, looked_up=looked_up).those(~waits)

    def _costs(self, source: Longs, table: Table, at: Longs, holds: Callable[[int], Mask]) -> Ids:
        """The cost of steps; `holds` gives the states in which a condition holds."""
        cost = table.column(COST, at)
        if table.used[FREE_WHEN]:
            asked = table.column(FREE_WHEN, at)
            for condition in range(1, len(self.space.conditions)):
                those = np.flatnonzero(asked == condition)
                if len(those):
                    cost[those[holds(condition).take(source.take(those))]] = FREE
        return cost

    def _select(self, table: Table, at: Longs, cost: Ids, by: Collection[str], *, paid: bool) -> Longs:
        """The steps among these that are requested."""
        wanted = cost <= (PAID if paid else FREE)
        if by:
            wanted |= self._mask_of(by).take(table.column(ACTION, at))
        return np.flatnonzero(wanted)

    def _mask_of(self, by: Collection[str]) -> Mask:
        """For each action, whether it is one of these kinds of disturbance."""
        named = self._of_kinds.setdefault(frozenset(by), Growing(np.bool_))
        new = [disturbance in by for _, _, disturbance, *_ in self.space.actions.keys[named.size :]]
        named.extend(new, len(new))
        found: Mask = named.view
        return found

    def ask(self, name: str, condition: Condition, rows: Ids) -> Mask:
        """Evaluates a condition. Raises `InputError` unless it gives one truth value for each state."""
        where = f"{self.model.name}, {name}"
        if self._asked is None or self._asked.rows is not rows:
            self._asked = Columns(self.space, rows)
        holds = ask(where, condition, self._asked)
        if getattr(holds, "shape", None) != (len(rows),) or holds.dtype != np.bool_:
            raise InputError(
                "did not return a truth value for each state", where, "compare columns, as in view.of(...) == 1"
            )
        found: Mask = holds
        return found

    def holds(self, one: Property | PairProperty, rows: Ids) -> Mask:
        """The states in which a property holds."""
        if isinstance(one, Property):
            return self.ask(one.name, one.holds, rows)
        first, second = self.space.index[one.first], self.space.index[one.second]
        ends = (self.space.cells[i].states()[rows[:, i]] for i in (first, second))
        holds: Mask = self._pairs[one.name].rows.column(0, self._pairs[one.name].join(*ends)).astype(np.bool_)
        return holds

    def hazards(self, names: Sequence[str], rows: Ids) -> Iterator[tuple[str, Mask]]:
        """The states that have each of these known hazards."""
        for name in names:
            yield name, self.ask(name, self.model.hazards[name], rows)

    def not_cut(self, known: Sequence[str], here: Longs, rows: Ids) -> tuple[Longs, Ids]:
        """The states without a known hazard."""
        cut = np.zeros(len(rows), np.bool_)
        for _, shows in self.hazards(known, rows):
            cut |= shows
        return (here[~cut], np.asfortranarray(rows[~cut])) if cut.any() else (here, rows)

    def look(
        self, known: Sequence[str], rows: Ids, skip: Collection[str] = ()
    ) -> tuple[dict[str, int], dict[str, int]]:
        """The count of states with each known hazard, and the first of the others that breaks each property."""
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

    def tally(self, steps: Sequence[Successors], here: Longs, rows: Ids, *, paid: bool) -> Tally:
        """The tally of the steps from the states of these numbers."""
        firsts: dict[tuple[str, int], Found] = {}
        for one in steps:
            if one.broken.any():
                self._note_broken(firsts, one, here, paid=paid)
        full = sum(int(np.count_nonzero(one.full)) for one in steps)
        return Tally(
            sum(len(one.source) for one in steps) - full,
            sum(one.looked_up for one in steps),
            full,
            self._still(steps, here, rows),
            tuple(firsts.values()),
        )

    def _still(self, steps: Sequence[Successors], here: Longs, rows: Ids) -> int:
        """The first of these states without a step in which the goal does not hold; -1 if there is none."""
        goal = self.model.goal
        if goal is None:
            return -1
        quiet = self._quiet((one.those(one.cost == FREE) for one in steps), np.arange(len(rows)), rows)
        if self.space.by and len(quiet):
            some = np.asfortranarray(rows[quiet])
            quiet = self._quiet(self.successors(some, paid=False, by=self.space.by), quiet, some)
        bad = quiet[~self.ask(goal.name, goal.reached, rows[quiet])] if len(quiet) else quiet
        return int(here[bad[0]]) if len(bad) else -1

    def _quiet(self, steps: Iterable[Successors], numbers: Longs, rows: Ids) -> Longs:
        """The numbers of the states without any of these steps; a step that a full wire prevents counts."""
        moving = np.zeros(len(rows), np.bool_)
        for one in steps:
            left = np.flatnonzero(~moving.take(one.source))
            moving[one.source[one.leads_on(rows, left)]] = True
            if one.full.any():
                moving[one.source[one.full]] = True
        return numbers[~moving]

    def _note_broken(self, firsts: dict[tuple[str, int], Found], one: Successors, here: Longs, *, paid: bool) -> None:
        for costs, cost in enumerate((FREE, PAID) if paid else (FREE,)):
            broken = np.flatnonzero((one.cost == cost) & (one.broken > 0))
            for number in np.unique(one.broken[broken]).tolist():
                those = broken[one.broken[broken] == number]
                at = int(those[np.argmin(one.source[those])])
                for name in self.space.broken.value(number):
                    found = Found(name, int(here[one.source[at]]), costs, int(one.action[at]))
                    if name not in self.model.ignored_of_steps:
                        _note_first(firsts, found)
