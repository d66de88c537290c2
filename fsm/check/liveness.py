"""Liveness: the states from which the goal is out of reach without a further disturbance.

A run that may go on does go on, and takes a way out that is open again and again at last (strong fairness): so a state
is doomed when no path of free steps leads to the goal, and no cycle is overlooked. What the goal counts on (`Goal.by`)
may happen on the path, too; the states behind it are explored for that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from fsm.check import search as searching
from fsm.check.memo import Ids, Longs
from fsm.check.model import Goal
from fsm.check.packing import Keys
from fsm.check.search import Search

if TYPE_CHECKING:
    from fsm.check.model import Mask

HALF = np.uint64(32)
ROUNDS = 4
"""So often in a row a goal may count on what happens sooner or later: without end, epochs would grow without end."""
BYTES = 5
"""Of memory for each state, besides edges."""


def doomed(search: Search) -> Longs:
    """Doomed states, in the order in which they were met; those that were met on the way here do not count.

    Notes in `search.stopped` why it is not known of some.
    """
    goal = search.model.goal
    return np.zeros(0, np.int64) if goal is None else _Liveness(search, goal).ask()


class _Liveness:
    def __init__(self, search: Search, goal: Goal) -> None:
        self.search, self.goal = search, goal
        self.good = np.zeros(0, np.bool_)
        """From which states the goal can be reached, as far as is known."""
        self.numbers = np.zeros(0, np.uint32)
        """Of states, by the places of their keys in the sorted runs."""
        self.packing = search.packing
        self.is_hidden = False
        """Whether a full wire hides a step that would lead on."""
        self.new: list[Longs] = []
        """Good states of which it is not known yet what leads to them."""

    def ask(self) -> Longs:
        search, by = self.search, self.goal.by
        met = search.states.size
        self._admit()
        edge = lost = self._settle(range(met), ())
        for _ in range(ROUNDS if by and len(lost) else 0):
            low = search.states.size
            self._go_on(edge, by)
            self._admit()
            new = np.arange(low, search.states.size)
            edge = new[~self.good[new]]
            lost = self._settle(np.concatenate([lost, new]), by)
            edge = edge[~self.good[edge]]
            if not len(edge) or search.limit():
                break
        unknown = bool(by) and len(edge) > 0
        if unknown:  # what would come of another timer
            self._mark(edge)
            lost = self._settle(lost, by)
        search.extra_bytes = 0
        search.stopped = search.limit()
        if search.stopped:
            return np.zeros(0, np.int64)
        lost = lost[lost < met]
        if unknown and not len(lost):
            search.stopped = f"{ROUNDS} times in a row of {', '.join(by)}, with which the goal may be reached"
        elif self.is_hidden and not len(lost):
            search.stopped = searching.FULL_WIRE
        return lost

    def _admit(self) -> None:
        """Notes where the keys of states stand that are new, and which of them are good by themselves."""
        search, known = self.search, len(self.good)
        if self.packing is not search.packing:
            self.numbers, self.packing = self.numbers[:0], search.packing
        search.visited.settle()
        low = len(self.numbers)
        size = search.states.size
        self.numbers = np.concatenate([self.numbers, np.zeros(size - low, np.uint32)])
        self.good = np.concatenate([self.good, np.zeros(size - known, np.bool_)])
        for at in range(low, size, searching.CHUNK):
            states = np.arange(at, min(at + searching.CHUNK, size))
            rows = search.rows(slice(at, at + searching.CHUNK))
            self.numbers[search.visited.places(search.keys(rows))] = states
            if states[-1] >= known:
                self._mark(states[self._is_good(rows)])
        search.extra_bytes = BYTES * size

    def _mark(self, states: Longs) -> None:
        self.good[states] = True
        self.new.append(states)

    def _is_good(self, rows: Ids) -> Mask:
        """Where the goal is reached, or nothing more is asked."""
        good = self.search.steps.ask(self.goal.name, self.goal.reached, rows)
        for _, shows in self.search.steps.hazards(self.search.known, rows):
            good = good | shows
        return good

    def _settle(self, states: Longs | range, by: Collection[str]) -> Longs:
        """Marks those of the states from which a good one can be reached; the others.

        Of most states it is known when it is known of those from which nothing new was met: these come first.
        """
        self._follow(self._left(states, last=True), by)
        left = self._left(states)
        is_known = not len(left)
        while not is_known and not self.search.limit():
            before, is_known = len(left), self._follow(left, by)
            left = self._left(left)
            is_known = is_known or len(left) == before
        return left

    def _left(self, states: Longs | range, *, last: bool = False) -> Longs:
        """Of these states those that are not known to be good; of these only those from which nothing was met."""
        found, leads_on = [np.zeros(0, np.int64)], np.zeros(len(self.good) if last else 0, np.bool_)
        for low in range(0, len(leads_on), searching.CHUNK):
            leads_on[self._parents(np.arange(low, min(low + searching.CHUNK, len(leads_on))))] = True
        for low in range(0, len(states), searching.CHUNK):
            part = states[low : low + searching.CHUNK]
            here = np.arange(part.start, part.stop) if isinstance(part, range) else part
            here = here[~self.good[here]]
            found.append(here[~leads_on[here]] if last else here)
        return np.concatenate(found)

    def _parents(self, states: Longs) -> Longs:
        """From which states these were met at no cost, or by what the goal counts on."""
        parents = self.search.parent.view[states, 0].astype(np.int64)
        layers = np.array(self.search.layers)
        begin = layers[np.searchsorted(layers, states, "right") - 1]
        found: Longs = parents[(begin <= parents) & (parents < states)]
        return found

    def _follow(self, states: Longs, by: Collection[str]) -> bool:
        """Marks those of the states whose steps lead to a good one. Whether there was room for all steps at once."""
        search, found, is_whole = self.search, [np.zeros(0, np.uint64)], True
        for low in range(0, len(states), searching.CHUNK):
            here = states[low : low + searching.CHUNK]
            rows = search.rows(here)
            steps = search.steps_from(rows, paid=False)
            if self.packing is not search.packing:
                self._admit()
            base = search.keys(rows)
            good = np.zeros(len(rows), np.bool_)
            for one in steps:
                hidden = search.steps.possible(one, by, full=True)
                good[one.source[hidden]] = True  # what would come of it is not known
                self.is_hidden |= len(hidden) > 0
                possible = search.steps.possible(one, by)
                possible = possible[~good[one.source[possible]]]
                places = search.visited.places(search.keys_after(one, base, rows)[possible])
                source = one.source[possible][places >= 0]  # all, but what follows the last round
                reached = self.numbers[places[places >= 0]]
                good[source[self.good[reached]]] = True
                found.append((reached.astype(np.uint64) << HALF) | here[source].astype(np.uint64))
            self._mark(here[good])
            kept = search.extra_bytes
            search.extra_bytes += 16 * sum(map(len, found))
            if search.limit():
                self._close(np.concatenate(found))
                found, is_whole = [np.zeros(0, np.uint64)], False
            search.extra_bytes = kept
        self._close(np.concatenate(found))
        return is_whole

    def _close(self, edges: Keys) -> None:
        """Marks every state from which these edges, and the steps by which states were met, lead to what is new."""
        new, self.new = np.sort(np.concatenate([np.zeros(0, np.int64), *self.new])), []
        edges.sort()
        source = (edges & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        count_of = np.bincount((edges >> HALF).astype(np.int64), minlength=len(self.good))
        begin = np.cumsum(count_of) - count_of
        while len(new):
            count = count_of[new]
            at = np.arange(int(count.sum())) + np.repeat(begin[new] - (np.cumsum(count) - count), count)
            before = np.concatenate([source[at], self._parents(new)])
            before = np.sort(before[~self.good[before]])
            new = before[np.concatenate([before[:1] == before[:1], before[1:] != before[:-1]])]
            self.good[new] = True

    def _go_on(self, states: Longs, by: Collection[str]) -> None:
        """Meets what follows some states by a step of the named kinds and then by free ones; nothing is asked of it."""
        search = self.search
        while len(states) and not search.limit():
            low = search.states.size
            for at in range(0, len(states), searching.CHUNK):
                here = states[at : at + searching.CHUNK]
                rows = search.rows(here)
                steps, found = search.steps_from(rows, paid=False), []
                base = search.keys(rows)
                for one in steps:
                    mask = np.zeros(len(one.source), np.bool_)
                    mask[search.steps.possible(one, by)] = True
                    found.append((one, search.keys_after(one, base, rows), mask))
                search.append(search.fresh(rows, here, found))
            states, by = np.arange(low, search.states.size), ()
