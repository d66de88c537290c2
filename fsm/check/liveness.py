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


def doomed(search: Search) -> Longs:
    """Doomed states, in the order in which they were met; those that were met on the way here do not count.

    Notes in `search.stopped` why it is not known of some.
    """
    goal = search.model.goal
    return np.zeros(0, np.int64) if goal is None else _Liveness(search, goal).ask()


class _OutgrownError(Exception):
    """The number of a cell has no room in a key."""


class _Liveness:
    def __init__(self, search: Search, goal: Goal) -> None:
        self.search, self.goal = search, goal
        self.good = np.zeros(0, np.bool_)
        """From which keys that were met the goal can be reached, by their places in the sorted runs."""

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
            edge = self._bad(new)
            lost = self._settle(np.concatenate([lost, new]), by)
            edge = edge[~self.good[self._places(edge)]]
            if not len(edge) or search.limit():
                break
        unknown = bool(by) and len(edge) > 0
        if unknown:  # what would come of another timer
            self.good[self._places(edge)] = True
            lost = self._settle(lost, by)
        search.extra_bytes = 0
        search.stopped = search.limit()
        if search.stopped:
            return np.zeros(0, np.int64)
        lost = lost[lost < met]
        if unknown and not len(lost):
            search.stopped = f"{ROUNDS} times in a row of {', '.join(by)}, with which the goal may be reached"
        return lost

    def _admit(self) -> None:
        """Has a flag for every key that was met; those that were there keep theirs."""
        self.search.visited.settle()
        more = np.zeros(len(self.search.visited) - len(self.good), np.bool_)
        self.good = np.concatenate([self.good, more])

    def _places(self, states: Longs) -> Longs:
        """Where the keys of some states stand."""
        places = np.empty(len(states), np.int64)
        for low in range(0, len(states), searching.CHUNK):
            rows = self.search.rows(states[low : low + searching.CHUNK])
            places[low : low + len(rows)] = self.search.visited.places(self.search.keys(rows))
        return places

    def _is_good(self, rows: Ids) -> Mask:
        """Where the goal is reached, or nothing more is asked."""
        good = self.search.steps.ask(self.goal.name, self.goal.reached, rows)
        for _, shows in self.search.steps.hazards(self.search.known, rows):
            good = good | shows
        return good

    def _bad(self, states: Longs) -> Longs:
        """Of these states those that are not good by themselves."""
        return states[~self._is_good(self.search.rows(states))]

    def _settle(self, states: Longs | range, by: Collection[str]) -> Longs:
        """Marks those of the states from which a good one can be reached; the others."""
        search = self.search
        while True:
            try:
                edges = self._find_edges(states, by)
                break
            except _OutgrownError:
                self._fit()
        if edges is None:  # too many to be kept: once more, until nothing comes of it
            left, before = self._left(states), 0
            while len(left) != before and not search.limit():
                before = len(left)
                self._find_edges(left[::-1], by, keep=False)
                left = self._left(left)
            return left
        self._close(edges)
        return self._left(states)

    def _left(self, states: Longs | range) -> Longs:
        """Of these states those that are not known to be good."""
        found = [np.zeros(0, np.int64)]
        for low in range(0, len(states), searching.CHUNK):
            here = np.asarray(states[low : low + searching.CHUNK])
            found.append(here[~self.good[self._places(here)]])
        return np.concatenate(found)

    def _find_edges(self, states: Longs | range, by: Collection[str], *, keep: bool = True) -> Keys | None:
        """Marks states with one step to a good one. Of the others: what they lead to, and they, 32 bits each."""
        search, found = self.search, []
        for low in range(0, len(states), searching.CHUNK):
            here = np.asarray(states[low : low + searching.CHUNK])
            rows = search.rows(here)
            good = self._is_good(rows)
            rows = np.asfortranarray(rows[~good])
            base, places = search.keys(rows), self._places(here)
            self.good[places[good]] = True
            places = places[~good]
            good = self.good[places]
            for one in search.steps.successors(rows, paid=False):
                if not search.fits():
                    raise _OutgrownError
                good[one.source[one.full]] = True  # what would come of it is not known
                possible = search.steps.possible(one, by)
                possible = possible[~good[one.source[possible]]]
                reached = search.visited.places(search.keys_after(one, base, rows)[possible])
                source = one.source[possible][reached >= 0]  # all, but what follows the last round
                reached = reached[reached >= 0]
                good[source[self.good[reached]]] = True
                if keep:
                    found.append((reached.astype(np.uint64) << HALF) | places[source].astype(np.uint64))
            self.good[places[good]] = True
            search.extra_bytes = len(self.good) + 16 * sum(map(len, found))
            keep = keep and not search.limit()
            if not keep:
                found.clear()
        search.extra_bytes = len(self.good)
        return np.concatenate([np.zeros(0, np.uint64), *found]) if keep else None

    def _close(self, edges: Keys) -> None:
        """Marks every source from which a path of these edges leads to what is good."""
        edges.sort()
        source = (edges & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        begin = np.searchsorted(edges, np.arange(len(self.good) + 1, dtype=np.uint64) << HALF)
        new = np.flatnonzero(self.good)
        while len(new):
            count = begin[new + 1] - begin[new]
            at = np.arange(int(count.sum())) + np.repeat(begin[new] - (np.cumsum(count) - count), count)
            before = np.sort(source[at])
            before = before[~self.good[before]]
            new = before[np.concatenate([before[:1] == before[:1], before[1:] != before[:-1]])].astype(np.int64)
            self.good[new] = True

    def _go_on(self, states: Longs, by: Collection[str]) -> None:
        """Meets what follows some states by a step of the named kinds and then by free ones; nothing is asked of it."""
        search = self.search
        while len(states) and not search.limit():
            low = search.states.size
            for at in range(0, len(states), searching.CHUNK):
                here = states[at : at + searching.CHUNK]
                rows = search.rows(here)
                steps, found = list(search.steps.successors(rows, paid=False)), []
                self._fit()
                base = search.keys(rows)
                for one in steps:
                    mask = np.zeros(len(one.source), np.bool_)
                    mask[search.steps.possible(one, by)] = True
                    found.append((one, search.keys_after(one, base, rows), mask))
                search.append(search.fresh(rows, here, found))
            states, by = np.arange(low, search.states.size), ()

    def _fit(self) -> None:
        """Makes room for new numbers of cells; every key has another place then."""
        if self.search.fits():
            return
        self._admit()
        everything = np.arange(self.search.states.size)
        good = self.good[self._places(everything)]
        self.search.fit()
        self.search.visited.settle()
        self.good[self._places(everything)] = good
