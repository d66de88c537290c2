"""Liveness: the states from which the goal is out of reach without a further disturbance.

A run continues if it can, and takes an exit that is possible infinitely often at last (strong fairness): so a state is
doomed if no path of free steps leads to the goal, and no cycle is overlooked. Events of `Goal.by` may happen on the
path, too; the states after them are explored for that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsm.check import search as searching
from fsm.check.memo import Ids, Longs
from fsm.check.model import Goal
from fsm.check.search import NO_PARENT, Search
from fsm.check.steps import Steps
from fsm.check.store import Keys

if TYPE_CHECKING:
    from fsm.check.model import Mask

HALF = np.uint64(32)
ROUNDS = 4
"""The maximum number of consecutive events of `Goal.by`: without a limit, epochs would grow without end."""
NOTHING = np.zeros(0, np.uint64)
NO_STATES: Longs = np.zeros(0, np.int64)
BYTES = 5
"""Bytes of memory per state, besides edges."""


def find_doomed(search: Search) -> Longs:
    """Doomed states in the order of the search, without states explored only for this.

    If some are unknown, `search.stopped` gets the reason.
    """
    goal = search.model.goal
    if goal is None:
        return NO_STATES
    asked = _OneProcess(search, goal)
    found: Longs = asked.lost[asked.lost < asked.met] if asked.ask() else NO_STATES
    search.extra_bytes = 0
    return found


def is_settled(steps: Steps, goal: Goal, known: Sequence[str], rows: Ids) -> Mask:
    """The states where the goal holds, or where nothing is required because of a known hazard."""
    good = steps.ask(goal.name, goal.reached, rows)
    for _, shows in steps.hazards(known, rows):
        good = good | shows
    return good


class Left(NamedTuple):
    """How many states are not known to reach the goal."""

    met: int
    """Of those that the search met."""
    edge: int
    """Of those after which events of `Goal.by` have not been explored yet."""


class Liveness(ABC):
    """The question whether a search met doomed states; engines differ in where they keep states and edges."""

    is_hidden = False
    """Whether a full wire hides a step, which may lead to the goal."""

    def __init__(self, search: Search, goal: Goal) -> None:
        self.search, self.goal = search, goal

    def ask(self) -> bool:
        """Whether there are doomed states. If that is unknown, `search.stopped` gets the reason."""
        search, by = self.search, self.goal.by
        left = self.settle(())
        search.relies_on_events = bool(by and left.met)
        for _ in range(ROUNDS if search.relies_on_events else 0):
            if search.stopped:
                break
            self.go_on(by)
            left = self.settle(by)
            if not left.edge:
                break
        edge = left.edge
        if not search.stopped and (edge or (left.met and self.is_hidden)):
            left = self.settle(by, trusts=True)
            if not left.met and not search.stopped:
                times = f"{ROUNDS} times in a row of {', '.join(by)}, with which the goal may be reached"
                search.stopped = times if edge else searching.FULL_WIRE
        return left.met > 0 and not search.stopped

    @abstractmethod
    def settle(self, by: Collection[str], *, trusts: bool = False) -> Left:
        """Finds the states that cannot reach the goal by free steps and these events.

        With `trusts` an unknown result, of an event or of a step that a full wire hides, counts as the goal.
        """

    @abstractmethod
    def go_on(self, by: Collection[str]) -> None:
        """Explores what follows from the states at the edge: one step, or one of these events, and then free steps."""


class _OneProcess(Liveness):
    """States in one process: in memory, or in files."""

    def __init__(self, search: Search, goal: Goal) -> None:
        super().__init__(search, goal)
        self.good = np.zeros(0, np.bool_)
        """Whether the goal is known to be reachable, by state."""
        self.numbers = np.zeros(0, np.uint32)
        """The number of each state, by the place of its key in the sorted runs."""
        self.packing = search.packing
        self.new: list[Longs] = []
        """States that reach the goal and whose predecessors have not been visited yet."""
        self.met = search.states.size
        self.lost: Any = range(self.met)
        """The states that are not known to reach the goal."""
        self.edge = 0
        """The first state after which events of `Goal.by` have not been explored."""
        self.hidden: list[Longs] = []
        """States with a step that a full wire hides."""
        self._admit()

    def settle(self, by: Collection[str], *, trusts: bool = False) -> Left:
        if trusts:
            self._mark(np.concatenate([self.lost[self.lost >= self.edge] if by else NO_STATES, *self.hidden]))
        self.lost = self._settle(self.lost, by)
        self.is_hidden = len(self.hidden) > 0
        edge = np.count_nonzero(self.lost >= self.edge) if self.goal.by else 0
        return Left(int(np.count_nonzero(self.lost < self.met)), int(edge))

    def go_on(self, by: Collection[str]) -> None:
        low = self.search.states.size
        self._explore(self.lost[self.lost >= self.edge], by)
        self._admit()
        self.lost = np.concatenate([self.lost, np.arange(low, self.search.states.size)])
        self.edge = low

    def _admit(self) -> None:
        """Notes the places of the keys of new states."""
        search = self.search
        if self.packing is not search.packing:
            self.numbers, self.packing = self.numbers[:0], search.packing
        search.visited.settle()
        low, size = len(self.numbers), search.states.size
        self.numbers = np.concatenate([self.numbers, np.zeros(size - low, np.uint32)])
        self.good = np.concatenate([self.good, np.zeros(size - len(self.good), np.bool_)])
        for at in range(low, size, searching.CHUNK):
            keys = search.keys_of(search.states.view[at : at + searching.CHUNK])
            self.numbers[search.visited.places(keys)] = np.arange(at, at + len(keys))
        search.extra_bytes = BYTES * size

    def _mark(self, states: Longs) -> None:
        self.good[states] = True
        self.new.append(states)

    def _judge(self, states: Longs) -> tuple[Longs, Ids]:
        """Marks the states where the goal holds or nothing is required; returns the others and their rows."""
        search = self.search
        rows = search.rows(states)
        good = is_settled(search.steps, self.goal, search.known, rows)
        self._mark(states[good])
        return states[~good], np.asfortranarray(rows[~good])

    def _settle(self, states: Longs | range, by: Collection[str]) -> Longs:
        """Marks the states from which a good one can be reached; returns the others.

        Most states follow from those without new successors, so these come first. For most of them one step is known
        from the search; all steps are looked up only for the others, and for the states left then.
        """
        self._follow(*self._ahead(self._find_left(states, last=True)), by)
        left = self._find_left(states)
        is_known = not len(left)
        while not is_known and self._has_room():
            before, is_known = len(left), self._follow(left, NOTHING, by)
            left = self._find_left(left)
            is_known = is_known or len(left) == before
        return left

    def _has_room(self) -> bool:
        """Whether no limit is reached; else `search.stopped` gets it: the states left are not known to be doomed."""
        self.search.stopped = self.search.limit()
        return not self.search.stopped

    def _find_left(self, states: Longs | range, *, last: bool = False) -> Longs:
        """The states that are not known to be good; unless `last`, only those without new successors."""
        found, leads_on = [NO_STATES], np.zeros(len(self.good) if last else 0, np.bool_)
        for low in range(0, len(leads_on), searching.CHUNK):
            leads_on[self._parents(np.arange(low, min(low + searching.CHUNK, len(leads_on))))] = True
        for low in range(0, len(states), searching.CHUNK):
            part = states[low : low + searching.CHUNK]
            here = np.arange(part.start, part.stop) if isinstance(part, range) else part
            here = here[~self.good[here]]
            found.append(here[~leads_on[here]] if last else here)
        return np.concatenate(found)

    def _parents(self, states: Longs) -> Longs:
        """The predecessors of these states in the search, by free steps or events of `Goal.by`."""
        parents = self.search.parent.view[states, 0].astype(np.int64)
        layers = np.array(self.search.layers)
        begin = layers[np.searchsorted(layers, states, "right") - 1]
        found: Longs = parents[(begin <= parents) & (parents < states)]
        return found

    def _ahead(self, states: Longs) -> tuple[Longs, Keys]:
        """The states without a noted step, and the noted steps of the others."""
        column = self.search.ahead
        reached = np.full(len(states), NO_PARENT, np.uint32)
        if column is not None:
            noted = states < column.size
            reached[noted] = column.view[states[noted], 0]
        is_known = reached != NO_PARENT
        return states[~is_known], _edges(states[is_known], reached[is_known])

    def _follow(self, states: Longs, edges: Keys, by: Collection[str]) -> bool:
        """Marks the states whose steps, or `edges`, lead to a good one; returns whether all fitted at once."""
        search, found, is_whole = self.search, [edges], True
        for low in range(0, len(states), searching.CHUNK):
            here, rows = self._judge(states[low : low + searching.CHUNK])
            steps = search.steps_from(rows, paid=False, by=by)
            if self.packing is not search.packing:
                self._admit()
            base = search.keys(rows)
            good = np.zeros(len(rows), np.bool_)
            for one in steps:
                if one.full.any():
                    self.hidden.append(here[one.source[one.full]])
                possible = one.those(~good.take(one.source))
                places = search.visited.places(search.keys_after(possible, base, rows))
                source = possible.source[places >= 0]  # all, except after the last round
                reached = self.numbers[places[places >= 0]]
                good[source[self.good[reached]]] = True
                found.append(_edges(here[source], reached))
            self._mark(here[good])
            kept = search.extra_bytes
            search.extra_bytes += 16 * sum(map(len, found))
            if search.limit():
                self._close(np.concatenate(found))
                found, is_whole = [NOTHING], False
            search.extra_bytes = kept
        self._close(np.concatenate(found))
        return is_whole

    def _close(self, edges: Keys) -> None:
        """Marks every state from which these edges, and steps of the search, lead to newly marked states."""
        new, self.new = np.sort(np.concatenate([NO_STATES, *self.new])), []
        edges.sort()
        source = (edges & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        count_of = np.bincount((edges >> HALF).astype(np.int64), minlength=len(self.good)).astype(np.uint32)
        begin = np.cumsum(count_of, dtype=np.uint32) - count_of
        while len(new):
            at = list_ranges(begin[new].astype(np.int64), count_of[new].astype(np.int64))
            before = np.concatenate([source[at], self._parents(new)])
            before = np.sort(before[~self.good[before]])
            new = before[np.concatenate([before[:1] == before[:1], before[1:] != before[:-1]])]
            self.good[new] = True

    def _explore(self, states: Longs, by: Collection[str]) -> None:
        """Adds the successors of some states by a step of the named kinds and then by free ones, unchecked."""
        search = self.search
        while len(states) and self._has_room():
            low = search.states.size
            for at in range(0, len(states), searching.CHUNK):
                here = states[at : at + searching.CHUNK]
                rows = search.rows(here)
                steps = search.steps_from(rows, paid=False, by=by)
                taken = [one.those(~one.full) for one in steps]
                search.append(search.fresh(rows, here, search.keys(rows), taken))
            states, by = np.arange(low, search.states.size), ()


def list_ranges(begin: Longs, count: Longs) -> Longs:
    """The numbers of some ranges, one range after the other."""
    found: Longs = np.arange(int(count.sum())) + np.repeat(begin - (np.cumsum(count) - count), count)
    return found


def _edges(source: npt.NDArray[Any], reached: npt.NDArray[Any]) -> Keys:
    """Encodes steps between states, each as one number."""
    return (reached.astype(np.uint64) << HALF) | source.astype(np.uint64)
