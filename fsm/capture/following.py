"""Sorts exchanges by time, with a delay of a few seconds, and derives the moments of clients from them.

It returns the same as `fsm.kit.client_history.follow` for a whole trace, if requests are answered within `LATE_MS`. The
memory for a client, and the number of clients, are bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from fsm.kit.client_history import AT_ONCE_MS, Clients, Moment, What, member_of
from fsm.wire.exchange import Exchange, Note

LATE_MS = 6_000.0
"""How long responses are awaited, so that exchanges can be sorted by time. Clients that share a client id are detected
within this time, because each of them sends heartbeats at shorter intervals."""
MOST_HELD = 50_000
"""The maximal number of held requests, responses and notes; beyond it the oldest one is released."""
MOST_CLIENTS, MOST_CLOSED = 10_000, 10_000
"""The maximal numbers of remembered clients and of ended connections; the oldest are forgotten."""
MOST_SEARCHES = 100
"""The maximal number of waiting coordinator searches of one client id."""
MOST_LIVES = 100
"""The maximal number of remembered members of one client id."""


class Following:
    """Follows clients through exchanges and notes, given in the order in which they ended."""

    def __init__(self) -> None:
        self.start_ms: float | None = None
        """The time of the first request."""
        self._clients = Clients()
        self._waiting: list[tuple[float, int, bool, Exchange | Note]] = []
        self._numbers = count()
        self._at_ms = 0.0
        self._lives: dict[str, dict[str, list[float]]] = {}
        """The first and last time of each member of a client id."""
        self._shared: set[str] = set()
        """Client ids with several members at the same time."""
        self._searches: dict[str, deque[float]] = {}
        """The times of the waiting coordinator searches of each client id."""
        self._last: dict[str, str] = {}
        """The member that was followed last under each client id."""

    def take(self, seen: Exchange | Note) -> None:
        """Adds an exchange or a note."""
        number = next(self._numbers)
        heappush(self._waiting, (seen.at_ms, number, False, seen))
        if isinstance(seen, Note):
            return
        self.start_ms = seen.at_ms if self.start_ms is None else min(self.start_ms, seen.at_ms)
        if seen.api == What.SEARCH.value:
            self._searches.setdefault(seen.client_id or "", deque(maxlen=MOST_SEARCHES)).append(seen.at_ms)
        if seen.answered_ms is not None:
            heappush(self._waiting, (seen.answered_ms, number, True, seen))
        self._learn(seen)

    def moments(self, now_ms: float) -> Iterator[Moment]:
        """The next moments, up to the time before which no exchange is expected any more."""
        while self._waiting and (self._waiting[0][0] <= now_ms - LATE_MS or len(self._waiting) > MOST_HELD):
            yield from self._next()

    def end(self) -> Iterator[Moment]:
        """Ends the capture; returns the remaining moments."""
        while self._waiting:
            yield from self._next()
        yield from self._clients.end(self._at_ms)

    def _next(self) -> Iterator[Moment]:
        at_ms, _, is_answer, one = heappop(self._waiting)
        self._at_ms = max(self._at_ms, at_ms)
        if isinstance(one, Note):
            yield from self._clients.note(one)
            self._forget_connections()
            return
        name = self._name(one)
        if is_answer:
            self._clients.take(one, name)
            return
        if name not in self._clients.found and len(self._clients.found) >= MOST_CLIENTS:
            del self._clients.found[next(iter(self._clients.found))]
        if one.api == What.SEARCH.value:
            self._forget_search(one.client_id or "")
        at_once = any(at_ms <= search_ms <= at_ms + AT_ONCE_MS for search_ms in self._searches.get(name, ()))
        yield from self._clients.send(one, name, searches_at_once=at_once)

    def _forget_search(self, client: str) -> None:
        searches = self._searches.get(client)
        if searches:
            searches.popleft()
        if not searches:
            self._searches.pop(client, None)

    # Names of clients: their client id, or their member if others have the same.

    def _learn(self, seen: Exchange) -> None:
        member, client = member_of(seen), seen.client_id or ""
        if not member or client in self._shared:
            return
        lives = self._lives.setdefault(client, {})
        life = lives.pop(member, None) or [seen.at_ms, seen.at_ms]
        life[:] = min(life[0], seen.at_ms), max(life[1], seen.at_ms)
        if any(life[0] < last_ms and first_ms < life[1] for first_ms, last_ms in lives.values()):
            self._share(client)
            return
        lives[member] = life
        if len(lives) > MOST_LIVES:
            oldest = next(iter(lives))
            if lives.pop(oldest)[1] > seen.at_ms - LATE_MS:
                self._share(client)  # too many for one that joins again and again
                return
        if len(self._lives) > MOST_CLIENTS:
            del self._lives[next(iter(self._lives))]

    def _share(self, client: str) -> None:
        """Names the members of a client id separately from now on; its history belongs to the last followed one."""
        self._shared.add(client)
        self._lives.pop(client, None)
        known, member = self._clients.found.pop(client, None), self._last.pop(client, "")
        if known is not None and member:
            known.name = f"{client}/{member}"
            self._clients.found[known.name] = known

    def _name(self, exchange: Exchange) -> str:
        member, client = member_of(exchange), exchange.client_id or ""
        if client in self._shared:
            return f"{client}/{member}" if member else ""
        if member:
            self._last.pop(client, None)
            self._last[client] = member
            if len(self._last) > MOST_CLIENTS:
                del self._last[next(iter(self._last))]
        return client

    def _forget_connections(self) -> None:
        closed = self._clients.around.closed
        if len(closed) <= 2 * MOST_CLOSED:
            return
        for number in list(closed)[:MOST_CLOSED]:
            del closed[number]
            for client in self._clients.found.values():
                client.connections.pop(number, None)
