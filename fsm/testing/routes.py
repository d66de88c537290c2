"""The cheapest closed walk that takes every required arc of a graph: the directed postman problem.

A closed walk exists where every node is left as often as it is entered. What the required arcs lack for that is the
cheapest flow from the nodes entered too often to those left too often; no walk can do with less, and where the arcs so
chosen hang together, a walk over just them is the answer. Source: Edmonds and Johnson, "Matching, Euler tours and the
Chinese postman", 1973, section 6; the flow is found by successive shortest paths with node potentials (Edmonds and
Karp, 1972), the walk by Hierholzer's method (1873).

This module knows graphs of small integers and nothing of tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from fsm.errors import FsmError

_FAR = 1 << 60


class Arc(NamedTuple):
    """A way from one node to another."""

    tail: int
    head: int
    cost: int
    required: bool = False
    """The walk takes it at least once."""
    again: bool = True
    """It may be taken more often than required; False spares time where arcs of the same cost do as well."""


def closed_walk(arcs: Sequence[Arc], start: int) -> list[int]:
    """Positions in `arcs` of a walk from `start` back to it that takes every required arc; there is no cheaper one.

    Every node must be reachable from `start`, and `start` from every node a required arc leads to. The same arcs give
    the same walk. Raises `FsmError` where required arcs and flow are not one piece: a rural postman's problem, which
    this does not solve.
    """
    times = Counter({at: 1 for at, arc in enumerate(arcs) if arc.required})
    times.update(_cheapest_flow(arcs))
    walk = _euler(arcs, times, start)
    if len(walk) < times.total():
        raise FsmError("the arcs that a closed walk has to take are not connected")
    return walk


def _cheapest_flow(arcs: Sequence[Arc]) -> Counter[int]:
    """How often to repeat which arc so that every node is left as often as it is entered, at the least cost."""
    surplus: Counter[int] = Counter()
    for arc in arcs:
        if arc.required:
            surplus[arc.head] += 1
            surplus[arc.tail] -= 1
    graph = _Residual(arcs)
    while sources := [node for node in sorted(surplus) if surplus[node] > 0]:
        path = graph.shortest(sources, {node for node in surplus if surplus[node] < 0})
        first, last = graph.end(path[0], backwards=True), graph.end(path[-1])
        amount = min(surplus[first], -surplus[last], *(graph.room(way) for way in path))
        graph.send(path, amount)
        surplus[first] -= amount
        surplus[last] += amount
    return +graph.flow


class _Residual:
    """The arcs that may be repeated, any number of times, and what was sent over them so far.

    A way is the position of an arc, or its complement `~position` for taking back what was sent.
    """

    def __init__(self, arcs: Sequence[Arc]) -> None:
        self.flow: Counter[int] = Counter()
        self._arcs = arcs
        self._price: Counter[int] = Counter()
        """Node potentials: with them no way costs less than nothing, as Dijkstra's method needs."""
        self._ways: dict[int, list[int]] = {}
        for at, arc in enumerate(arcs):
            if arc.again:
                self._ways.setdefault(arc.tail, []).append(at)
                self._ways.setdefault(arc.head, []).append(~at)

    def end(self, way: int, backwards: bool = False) -> int:
        arc = self._arcs[way if way >= 0 else ~way]
        return arc.head if (way >= 0) is not backwards else arc.tail

    def room(self, way: int) -> int:
        return _FAR if way >= 0 else self.flow[~way]

    def send(self, path: Iterable[int], amount: int) -> None:
        for way in path:
            self.flow[way if way >= 0 else ~way] += amount if way >= 0 else -amount

    def shortest(self, sources: Iterable[int], targets: Collection[int]) -> list[int]:
        """The cheapest path from any source to any target, and new prices under which it costs nothing."""
        cost: dict[int, int] = dict.fromkeys(sources, 0)
        came: dict[int, int] = {}
        heap = [(0, node) for node in cost]
        done: dict[int, int] = {}
        while heap:
            spent, node = heappop(heap)
            if node in done:
                continue
            done[node] = spent
            if node in targets:
                break
            for way, head, price in self._open(node):
                if spent + price < cost.get(head, _FAR):
                    cost[head] = spent + price
                    came[head] = way
                    heappush(heap, (spent + price, head))
        for reached, price in done.items():
            self._price[reached] += price - spent
        return self._back(came, node)

    def _open(self, node: int) -> Iterator[tuple[int, int, int]]:
        for way in self._ways.get(node, ()):
            if way >= 0 or self.flow[~way]:
                head = self.end(way)
                cost = self._arcs[way].cost if way >= 0 else -self._arcs[~way].cost
                yield way, head, cost + self._price[node] - self._price[head]

    def _back(self, came: dict[int, int], node: int) -> list[int]:
        path: list[int] = []
        while node in came:
            path.append(came[node])
            node = self.end(came[node], backwards=True)
        return path[::-1]


def _euler(arcs: Sequence[Arc], times: Counter[int], start: int) -> list[int]:
    """The arcs chosen, as often as chosen, in one closed walk."""
    ways: dict[int, list[int]] = {}
    for at in sorted(times, reverse=True):
        ways.setdefault(arcs[at].tail, []).extend([at] * times[at])
    walk: list[int] = []
    stack: list[tuple[int, int | None]] = [(start, None)]
    while stack:
        node, came = stack[-1]
        if ways.get(node):
            at = ways[node].pop()
            stack.append((arcs[at].head, at))
        else:
            stack.pop()
            if came is not None:
                walk.append(came)
    return walk[::-1]
