"""The chain of one machine's transitions: which hop follows which, and how long it stayed where.

Within one file the lines of one thread are in order. Where a member's lines were dealt out to several files, those of
one moment may be in any order: transitions wait for `REORDER_MS`, and if they do not make a chain as they stand,
but do in another order, they are taken in that one. What does not fit keeps its place, and its hop says which state
the member was in before, unless that stands in another file and a file between the two may be missing.

A source that tells only where a machine went (classic Java members) is taken to come from where it was. Several
machines of a member (librdkafka prints two) have a chain each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fsm.audit.conformance import initial
from fsm.audit.life import Living
from fsm.audit.limits import REORDER_MS
from fsm.audit.rows import Hop, Seen


@dataclass(slots=True)
class Link:
    """Where one machine is."""

    state: str = ""
    """Empty until the first transition."""
    since_ms: int = 0
    file: str = ""
    """Where its last transition stands."""
    moved: bool = False
    """Its transitions stand in several files, between which something may be missing."""
    waiting: list[Seen] = field(default_factory=list)


class Chain:
    """Follows the transitions of one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.links: dict[str, Link] = {}

    def see(self, seen: Seen) -> Iterator[Hop]:
        """Hops whose order is known now; `seen` is a transition."""
        link = self.links.get(seen.record.machine)
        if link is None:
            link = self.links[seen.record.machine] = self._link(seen)
        if link.waiting and seen.record.ts_ms - link.waiting[0].record.ts_ms > REORDER_MS:
            yield from self._take(link)
        link.waiting.append(seen)

    def _link(self, first: Seen) -> Link:
        """A machine whose life began in this log, in this file, is in its table's initial state."""
        start = self.living.start.file if self.living.whole_start else ""
        state = initial(first.record.machine) if self.living.unbroken(start, first.place.file) else ""
        return Link(state, self.living.start_ms, start)

    def end(self) -> Iterator[Hop]:
        """Hops that were still waiting."""
        for link in self.links.values():
            yield from self._take(link)

    def _take(self, link: Link) -> Iterator[Hop]:
        waiting, link.waiting = link.waiting, []
        several = self.living.shuffled or any(
            not self.living.unbroken(a.place.file, b.place.file) for a, b in pairwise(waiting)
        )
        for seen in (_in_chain(link.state, waiting) or waiting) if several else waiting:
            yield self._hop(seen, link, sure=bool(seen.record.state) or not several)
            link.moved = link.moved or not (link.file == "" or self.living.unbroken(link.file, seen.place.file))
            link.state, link.since_ms, link.file = seen.record.next_state, seen.record.ts_ms, seen.place.file

    def _hop(self, seen: Seen, link: Link, sure: bool) -> Hop:
        """The hop; where it came from is not sure if only the order of lines tells, and several files hold them."""
        record, place = seen
        came_from = record.state or (link.state if sure else "")
        fits = bool(link.state) and came_from == link.state
        return Hop(
            group=self.living.group,
            member=self.living.member,
            machine=record.machine,
            state=came_from,
            next_state=record.next_state,
            event=record.event,
            ts_ms=record.ts_ms,
            dwell_ms=max(0, record.ts_ms - link.since_ms) if fits else None,
            previous=link.state if fits or self.living.unbroken(link.file, place.file) else "",
            place=place,
        )


def _in_chain(state: str, waiting: Sequence[Seen]) -> list[Seen] | None:
    """The transitions in an order in which each begins where the one before it ended; None if there is none.

    As they stand, if that is such an order; else a trail through all of them (Hierholzer), which prefers the order
    they have. Transitions that do not say where they come from fit anywhere, so they are left as they stand.
    """
    if any(not seen.record.state for seen in waiting):
        return None
    for start in [state] if state else dict.fromkeys(seen.record.state for seen in waiting):
        trail = _trail(start, waiting)
        if trail is not None:
            return trail
    return None


def _trail(start: str, waiting: Sequence[Seen]) -> list[Seen] | None:
    ways: dict[str, list[Seen]] = {}
    for seen in reversed(waiting):
        ways.setdefault(seen.record.state, []).append(seen)
    path: list[tuple[str, Seen | None]] = [(start, None)]
    trail: list[Seen] = []
    while path:
        state, reached = path[-1]
        if ways.get(state):
            onward = ways[state].pop()
            path.append((onward.record.next_state, onward))
        else:
            path.pop()
            if reached is not None:
                trail.append(reached)
    trail.reverse()
    at = start
    for step in trail:
        if step.record.state != at:
            return None
        at = step.record.next_state
    return trail if len(trail) == len(waiting) else None
